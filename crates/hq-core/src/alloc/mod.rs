//! Allocations: what the server asks batch systems for, decided from what waits and what is there.
//!
//! [`state::AllocState`] is the durable part, a fold of [`record::AllocRecord`]s. [`demand`] says how many workers of
//! which queue would take what waits now, [`policy`] how many may be asked for. The server machine puts them together
//! in `server/allocation.rs`; the shell carries out [`BatchOrder`]s and tells [`BatchReport`]s.

pub mod decisions;
pub mod demand;
pub mod messages;
pub mod policy;
pub mod record;
pub mod state;
pub mod worth;

use std::sync::Arc;
use std::time::Duration;

use hq_model::allocation::{BatchState, QueueParams};
use hq_model::{AllocationRef, ByteString, QueueId, WorkerResources};

pub use record::AllocRecord;
pub use state::{AllocState, Allocation, QueueState, ShapeSource};

/// Something to be done with a batch system. Orders to one batch system are carried out one after the other.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchOrder {
    /// Submit an allocation; answered by `Submitted`, `Refused`, `NotNow` or `Unclear`.
    Submit {
        /// The allocation to submit.
        allocation: AllocationRef,
        /// Its queue.
        params: Arc<QueueParams>,
        /// Nodes.
        workers: u32,
        /// Where its script, id and output go.
        directory: ByteString,
        /// It starts when this one has ended.
        after: Option<String>,
    },
    /// Say whether an allocation was submitted; answered by `Submitted`, `NotFound` or `Unclear`.
    Recover {
        /// The allocation to look for.
        allocation: AllocationRef,
        /// Its queue.
        params: Arc<QueueParams>,
        /// Its directory.
        directory: ByteString,
    },
    /// End these; answered by `Canceled`.
    Cancel {
        /// Which batch system.
        manager: String,
        /// Which allocations, with their ids there.
        allocations: Vec<(AllocationRef, String)>,
    },
    /// Ask how these are, with one command; answered by `States`.
    AskStates {
        /// Which batch system.
        manager: String,
        /// Their ids there, and their directories.
        jobs: Vec<(String, ByteString)>,
    },
    /// Submit an allocation that never starts, and cancel it; answered by `Tried`.
    Try {
        /// Names the trial.
        ticket: u64,
        /// The queue it would be of.
        params: Arc<QueueParams>,
        /// Its directory, which is removed again.
        directory: ByteString,
    },
    /// Say what the nodes of a queue offer; answered by `Shape`.
    AskShape {
        /// The queue whose nodes are meant.
        queue: QueueId,
        /// What it asks for.
        params: Arc<QueueParams>,
    },
    /// Remove the directory of an allocation that ended long ago. Not answered.
    Remove {
        /// Its batch system.
        manager: String,
        /// The directory.
        directory: ByteString,
    },
}

/// What is known of one batch job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// How it is.
    pub state: BatchState,
    /// Why it waits, in the batch system's words.
    pub reason: Option<String>,
    /// How what it printed ends, once it has failed or ended.
    pub last_lines: Option<String>,
    /// How long it had its nodes.
    pub ran: Option<Duration>,
    /// Its script has left nothing: it never began, as far as is seen.
    pub never_began: bool,
}

impl From<BatchState> for Said {
    fn from(state: BatchState) -> Said {
        Said { state, reason: None, last_lines: None, ran: None, never_began: false }
    }
}

/// What a batch system came to.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchReport {
    /// An allocation waits there under this id.
    Submitted {
        /// The allocation that was submitted.
        allocation: AllocationRef,
        /// Its id there.
        batch_id: String,
    },
    /// It was not accepted, for sure.
    Refused {
        /// The allocation that was not accepted.
        allocation: AllocationRef,
        /// The words of the batch system.
        error: String,
    },
    /// It was not accepted for now, for sure: a limit of the site is reached, or nobody was there to accept it.
    NotNow {
        /// The allocation that was not accepted.
        allocation: AllocationRef,
        /// The words of the batch system.
        error: String,
    },
    /// Whether it was accepted is not known: there was no answer.
    Unclear {
        /// The allocation that may have been accepted.
        allocation: AllocationRef,
        /// What is known.
        error: String,
    },
    /// The batch system does not have it.
    NotFound {
        /// The allocation that was looked for.
        allocation: AllocationRef,
    },
    /// How allocations are.
    States {
        /// Which batch system.
        manager: String,
        /// What it says of each id, or why it says nothing.
        states: Result<Vec<(String, Said)>, String>,
    },
    /// Allocations were ended, or why not.
    Canceled {
        /// The allocations that were to end.
        allocations: Vec<AllocationRef>,
        /// An error text.
        result: Result<(), String>,
    },
    /// A trial came to an end.
    Tried {
        /// Names the trial.
        ticket: u64,
        /// What the nodes offer if it is known, or why it was not accepted.
        result: Result<Option<WorkerResources>, String>,
    },
    /// What the nodes of a queue offer, if the batch system says so.
    Shape {
        /// The queue whose nodes are meant.
        queue: QueueId,
        /// Pools of one node.
        resources: Option<WorkerResources>,
    },
}
