//! The machine.
use super::{Effect, Input};
use crate::record::Record;
use hq_model::Timestamp;

/// The server's state machine.
#[derive(Debug, Default)]
pub struct Server {}

/// What the shell tells a new server about itself.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// Idle timeout of workers that have none of their own.
    pub idle_timeout: Option<std::time::Duration>,
    /// What `server info` shows of hosts, ports and paths.
    pub info: crate::client_messages::ServerInfo,
}

impl Server {
    /// A server before its first record.
    pub fn new(_options: ServerOptions) -> Self {
        Server {}
    }
    /// Restores: applies one record of the journal, in order, before [`Server::start`].
    pub fn restore(&mut self, _at: Timestamp, _record: &Record) {}
    /// Begins a new epoch. `uid` names the server if it is a new one.
    pub fn start(&mut self, _now: Timestamp, _uid: String, _effects: &mut Vec<Effect>) {}
    /// Takes one input.
    pub fn handle(&mut self, _now: Timestamp, _input: Input, _effects: &mut Vec<Effect>) {}
    /// Decides after a batch of inputs: placement, progress. To be called before the shell waits for more.
    pub fn settle(&mut self, _now: Timestamp, _effects: &mut Vec<Effect>) {}
    /// When the machine wants [`Input::Tick`] even if nothing happens.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        None
    }
}
