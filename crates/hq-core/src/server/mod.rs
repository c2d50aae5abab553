//! The server's state machine: what clients and workers say goes in, records, answers and messages come out.

mod allocation;
mod attempts;
mod backlog;
mod balance;
mod budgets;
mod cancelings;
pub mod capacity;
mod changes;
mod check;
mod clients;
mod dispatch;
mod drafts;
mod ended_entries;
mod ends;
mod explain;
mod feeding;
mod fleet;
mod followers;
mod forecast;
mod gather;
mod groups;
mod holds;
mod job_pages;
mod last_moments;
mod last_tasks;
mod late;
mod lease;
mod lingering;
mod live;
mod loads;
mod locality;
mod logs;
mod machine;
mod nodes;
mod notices;
mod object_map;
mod objects;
mod overview;
mod parting;
mod picky;
mod planning;
mod possible;
pub mod queue;
mod readiness;
mod reads;
mod reports;
mod requests;
mod reserve;
mod resubmit;
mod retention;
mod returned;
mod running;
mod shapes;
mod shares;
mod speculation;
mod stalling;
pub mod state;
pub mod step;
mod task_pages;
mod views;
mod workers;

#[cfg(test)]
mod tests;

pub use machine::{Server, ServerOptions};
pub use retention::Keep;
pub use state::{details, job};

use hq_model::{JobId, Notice, Timestamp, WorkerId};
use hq_sched::{Plan, Snapshot};

use crate::alloc::{BatchOrder, BatchReport};
use crate::client_messages::{ClientRequest, ClientResponse, EventFilter};
use crate::log::{LogBatch, LogPart};
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
        /// The connection that ended.
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
        /// The connection that ended.
        connection: ConnectionId,
        /// The other side closed it, as the kernel does for a process that is killed; not, when nothing was heard of it.
        is_closed: bool,
    },
    /// Nothing happened, but a time that [`Server::next_wakeup`] named has come.
    Tick,
    /// The plan that was asked for by [`Effect::Plan`] with this number.
    Planned {
        /// The number that was given with the snapshot.
        number: u64,
        /// What to start where.
        plan: Box<Plan>,
    },
    /// The process was asked to end.
    Stop,
    /// The journal cannot be written: nothing more is changed until it can.
    JournalFails {
        /// What the system says.
        error: String,
    },
    /// It is written again, and nothing of before is lost.
    JournalWorks,
    /// Of the files of the last [`Effect::WatchFiles`], these exist.
    FilesFound {
        /// Their paths.
        paths: Vec<hq_model::ByteString>,
    },
    /// A batch system answered an order.
    Batch(BatchReport),
    /// A notice was sent, or could not be.
    NoticeSent {
        /// Its job.
        job: JobId,
        /// The rule of the job.
        rule: u32,
        /// Why not.
        result: Result<(), String>,
    },
    /// A worker or client cannot reach a worker that has an object, or is to store one: answered by [`ToWorker::Relay`] to that one, or
    /// [`Effect::NotRelayed`].
    Relay {
        /// Under this number it waits.
        ticket: u64,
        /// Who has the object.
        holder: hq_model::WorkerId,
    },
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
        /// The connection to close.
        connection: ConnectionId,
    },
    /// A worker joined under this id: for the log.
    WorkerJoined {
        /// Its connection.
        connection: ConnectionId,
        /// Its id.
        worker: WorkerId,
        /// It said that it was this one, and could not [show](crate::WorkerSecret) it.
        unproven: Option<WorkerId>,
    },
    /// A client asks something of the journal itself; the shell answers.
    Journal {
        /// Who asked.
        connection: ConnectionId,
        /// The number of the request.
        request: u64,
        /// What.
        order: JournalOrder,
    },
    /// Have something done with a batch system, once the gate is passed; answered by [`Input::Batch`].
    Batch {
        /// What.
        order: BatchOrder,
        /// What has to be done before.
        gate: Gate,
    },
    /// Look for these files, and no others, until they are there; answer with [`Input::FilesFound`].
    WatchFiles {
        /// Their paths, ascending.
        paths: Vec<hq_model::ByteString>,
    },
    /// Append what tasks have printed to logs, and answer its worker with [`ToWorker::Logged`].
    Log {
        /// Who has said it.
        connection: ConnectionId,
        /// What.
        batch: Box<LogBatch>,
        /// Where its pieces go.
        parts: Vec<LogPart>,
    },
    /// Plan, beside everything else, and answer with [`Input::Planned`]. At most one is under way.
    Plan {
        /// Names it in the answer.
        number: u64,
        /// What to plan.
        snapshot: Box<Snapshot>,
    },
    /// Send a notice when all records persisted before are on disk; answered by [`Input::NoticeSent`]. At most
    /// [`NOTICES_AT_ONCE`](crate::limits::NOTICES_AT_ONCE) are under way.
    Notify {
        /// The notice.
        notice: Box<Notice>,
    },
    /// Who waits under this number is to wait no longer.
    NotRelayed {
        /// The number.
        ticket: u64,
        /// Why, for people.
        reason: String,
    },
    /// End the process, cleanly.
    Exit,
}

/// What the journal is asked to do, after all records persisted before. Answered with `Done` at last.
#[derive(Clone, Debug, PartialEq)]
pub enum JournalOrder {
    /// Have everything on disk, whatever the durability.
    Flush,
    /// Replace history by the records that rebuild the present.
    Compact,
    /// Send the records it holds, and with `follow` all that come, until the client leaves.
    Events {
        /// Go on with what happens.
        follow: bool,
        /// Begin with the record of this number.
        after: u64,
        /// Only these.
        filter: EventFilter,
    },
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
    /// As [`Gate::Synced`]; but while the journal cannot be written, nothing: who only looks, and who is refused, is not
    /// kept waiting for room.
    Shown,
    /// As [`Gate::Synced`]; but where the server ends without having been able to write the journal, it is sent with what is
    /// lost.
    Last,
}
