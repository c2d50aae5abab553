//! What clients ask about allocations, and what is answered.

use hq_model::allocation::{AllocationEnd, AllocationState, BatchState, NodeTime, QueueParams};
use hq_model::{AllocationRef, ByteString, QueueId, Timestamp, WorkerId, WorkerResources};

use super::decisions::Decision;
use super::state::ShapeSource;

/// A request about queues and allocations.
#[derive(Clone, Debug, PartialEq)]
pub enum AllocRequest {
    /// Make a queue. Answered by `Added`.
    Add {
        /// What it asks for.
        params: Box<QueueParams>,
        /// Submit an allocation that never starts first; the queue is made only if that is accepted.
        dry_run: bool,
    },
    /// Submit an allocation that never starts, and cancel it. Answered by `Done`.
    DryRun {
        /// What it asks for.
        params: Box<QueueParams>,
    },
    /// Answered by `Queues`.
    List,
    /// Answered by `Details`.
    Info {
        /// The queue to describe.
        queue: QueueId,
    },
    /// Find an allocation by its id in the batch system, or as `QUEUE.NUMBER`. Answered by `Found`.
    Find {
        /// Its id.
        id: String,
    },
    /// Ask for nothing until resumed. Answered by `Done`.
    Pause {
        /// The queue to pause.
        queue: QueueId,
    },
    /// Ask again, at once. Answered by `Done`.
    Resume {
        /// The queue to resume.
        queue: QueueId,
    },
    /// Ask for nothing more, and let go on what is there. Answered by `Done`.
    Drain {
        /// The queue to drain.
        queue: QueueId,
    },
    /// Remove a queue and cancel what waits. Answered by `Done`.
    Remove {
        /// The queue to remove.
        queue: QueueId,
        /// Also when allocations run; they are canceled.
        force: bool,
    },
    /// Ask for something else from now on. Answered by `Done`.
    Edit {
        /// The queue to change.
        queue: QueueId,
        /// What it asks for.
        params: Box<QueueParams>,
        /// Submit an allocation that never starts first, where another one would be asked for than before.
        dry_run: bool,
    },
    /// Say what a queue would do next, and why. Answered by `Explained`.
    Explain {
        /// The queue to explain.
        queue: QueueId,
    },
}

/// An answer about queues and allocations.
#[derive(Clone, Debug, PartialEq)]
pub enum AllocResponse {
    /// The queue was made.
    Added(QueueId),
    /// Answer to `List`, ascending.
    Queues(Vec<QueueInfo>),
    /// Answer to `Info`.
    Details {
        /// The queue.
        queue: Box<QueueInfo>,
        /// Its allocations, ascending by number.
        allocations: Vec<AllocationInfo>,
    },
    /// Answer to `Find`.
    Found(Box<AllocationInfo>),
    /// Answer to `Explain`.
    Explained(Box<QueueExplanation>),
}

/// Whether a queue asks for allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueStatus {
    /// It does.
    Active,
    /// It does not, since then and for this reason.
    Paused(Timestamp, String),
    /// It asks for nothing more, and lets go on what is there.
    Draining,
}

/// All about a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueInfo {
    /// Its id.
    pub queue: QueueId,
    /// What it asks for.
    pub params: QueueParams,
    /// Whether it does.
    pub status: QueueStatus,
    /// When it was made.
    pub added: Timestamp,
    /// What a worker of it offers, and who said so.
    pub known: Option<(WorkerResources, ShapeSource)>,
    /// Allocations by state, in the order of [`AllocationState::ALL`]; also those that are not kept.
    pub counts: [u64; 4],
    /// Node time of all of them.
    pub time: NodeTime,
    /// Why its budget lets it ask for nothing more, when it does.
    pub over_budget: Option<String>,
}

/// All about an allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocationInfo {
    /// Its name with the server.
    pub allocation: AllocationRef,
    /// Its id in the batch system.
    pub batch_id: Option<String>,
    /// How it is.
    pub state: AllocationState,
    /// More words for that.
    pub detail: Option<String>,
    /// Nodes.
    pub workers: u32,
    /// Its workers that are there.
    pub connected: Vec<WorkerId>,
    /// When it was decided on.
    pub planned: Timestamp,
    /// When the batch system took it.
    pub queued: Option<Timestamp>,
    /// When it got its nodes.
    pub started: Option<Timestamp>,
    /// When and why it ended.
    pub ended: Option<(Timestamp, AllocationEnd)>,
    /// What the batch system said last, and when.
    pub seen: Option<(Timestamp, BatchState)>,
    /// Where its script, id and output are.
    pub directory: ByteString,
    /// It starts when this one of the same queue has ended.
    pub after: Option<u32>,
    /// What became of its node time until now.
    pub time: NodeTime,
}

/// Why a queue does what it does.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueExplanation {
    /// The queue.
    pub queue: QueueInfo,
    /// What it would do now.
    pub next: String,
    /// What it is about: limits, pauses, what is known of its nodes.
    pub facts: Vec<String>,
    /// Waiting tasks by class.
    pub demand: Vec<DemandLine>,
    /// What was decided before, the oldest first.
    pub decisions: Vec<Decision>,
}

/// Waiting tasks that ask for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemandLine {
    /// What they ask for, variants after one another.
    pub request: String,
    /// Larger first.
    pub priority: i32,
    /// How many wait.
    pub waiting: u64,
    /// Those that waiting allocations of this queue would take.
    pub coming: u64,
    /// Those that new allocations of this queue would take.
    pub new: u64,
    /// Those that other queues would take.
    pub elsewhere: u64,
    /// Why the rest is not for this queue.
    pub why_not: Option<String>,
}
