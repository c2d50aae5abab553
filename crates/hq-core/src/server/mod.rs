//! The server's state machine: what clients and workers say goes in, records, answers and messages come out.

pub mod capacity;
mod check;
pub mod details;
mod dispatch;
pub mod job;
mod live;
mod machine;
pub mod queue;
mod reports;
mod requests;
pub mod state;
mod views;
mod watch;
mod workers;

#[cfg(test)]
mod tests;

pub use machine::{Server, ServerOptions};

use hq_model::{Timestamp, WorkerId};

use crate::client_messages::{ClientRequest, ClientResponse};
use crate::record::Record;
use crate::worker_messages::{FromWorker, ToWorker};

/// Names a connection to a client or a worker; chosen by the shell, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What the server machine is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A client asks.
    Client {
        /// Who.
        connection: ConnectionId,
        /// Number of the request on that connection, chosen by the client; answers carry it.
        request: u64,
        /// What.
        body: ClientRequest,
    },
    /// A client's connection ended.
    ClientGone {
        /// Which.
        connection: ConnectionId,
    },
    /// A worker speaks. The first message on a connection must be its hello.
    Worker {
        /// Who.
        connection: ConnectionId,
        /// What.
        message: FromWorker,
    },
    /// A worker's connection ended.
    WorkerGone {
        /// Which.
        connection: ConnectionId,
    },
    /// Nothing happened, but a time that [`Server::next_wakeup`] named has come.
    Tick,
    /// The process was asked to end.
    Stop,
}

/// What the server machine wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Append to the journal; `at` is when it happened.
    Persist {
        /// Time of the change.
        at: Timestamp,
        /// The change.
        record: Record,
    },
    /// Answer a client, once the gate is passed.
    Answer {
        /// Who asked.
        connection: ConnectionId,
        /// The number of the request.
        request: u64,
        /// The answer.
        body: ClientResponse,
        /// What has to be done before.
        gate: Gate,
    },
    /// Send to a worker, once the gate is passed.
    ToWorker {
        /// Whom.
        connection: ConnectionId,
        /// What.
        message: ToWorker,
        /// What has to be done before.
        gate: Gate,
    },
    /// Close a connection after everything sent before.
    Close {
        /// Which.
        connection: ConnectionId,
    },
    /// A worker joined under this id: for the log.
    WorkerJoined {
        /// Its connection.
        connection: ConnectionId,
        /// Its id.
        worker: WorkerId,
    },
    /// End the process, cleanly.
    Exit,
}

/// What must have happened to all records persisted before an effect may leave the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// Nothing.
    Open,
    /// They are written: they survive the death of the process.
    Written,
    /// They are on disk: they survive the death of the machine.
    Synced,
}
