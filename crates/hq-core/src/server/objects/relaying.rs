//! Objects that pass by way of the server: their holder is told who waits there. The bytes are the business of the shell.

use hq_model::WorkerId;

use crate::server::machine::Server;
use crate::server::{Effect, Gate};
use crate::worker_messages::ToWorker;

impl Server {
    /// A worker or client that cannot reach a holder waits under this number.
    pub(in crate::server) fn relays(&mut self, ticket: u64, holder: WorkerId, effects: &mut Vec<Effect>) {
        effects.push(match self.relaying_connection(holder) {
            Ok(connection) => {
                Effect::ToWorker { connection, message: ToWorker::Relay { ticket }, gate: Gate::Open }
            }
            Err(why) => Effect::NotRelayed { ticket, reason: format!("worker {holder} {why}") },
        });
    }

    fn relaying_connection(&self, holder: WorkerId) -> Result<crate::server::ConnectionId, &'static str> {
        let live = self.live.get(&holder).ok_or("is not there any more")?;
        let connection = live.connection.ok_or("has lost the server")?;
        match (live.relays, live.stores) {
            (true, _) => Ok(connection),
            (false, true) => Err("is of an earlier release, which does not relay"),
            (false, false) => Err("stores no objects"),
        }
    }
}
