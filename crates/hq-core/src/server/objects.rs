//! Objects that tasks leave for others: which workers store them, who takes them, when they are gone.

use hq_model::Timestamp;

use super::machine::Server;
use super::{ConnectionId, Effect, Gate};
use crate::client_messages::{ClientResponse, RequestError};
use crate::object_messages::ObjectRequest;

impl Server {
    /// Answers what a client asks about objects.
    pub(super) fn client_asks_objects(
        &mut self,
        _now: Timestamp,
        (connection, request): (ConnectionId, u64),
        _asks: ObjectRequest,
        effects: &mut Vec<Effect>,
    ) {
        let body = ClientResponse::Error(RequestError::Invalid("There are no objects.".into()));
        effects.push(Effect::Answer { connection, request, body, gate: Gate::Open });
    }
}
