//! The durable changes of queues and allocations.

use std::time::Duration;

use hq_model::allocation::{AllocationEnd, NodeTime, PauseCause, QueueParams};
use hq_model::{AllocationRef, ByteString, QueueId, WorkerResources};

use super::state::{Allocation, QueueState, ShapeSource};

/// One durable change of queues and allocations.
#[derive(Clone, Debug, PartialEq)]
pub enum AllocRecord {
    /// A queue was made.
    QueueAdded {
        /// Its id.
        queue: QueueId,
        /// What it asks for.
        params: Box<QueueParams>,
    },
    /// A queue asks for something else from now on.
    QueueEdited {
        /// Which.
        queue: QueueId,
        /// What it asks for.
        params: Box<QueueParams>,
    },
    /// A queue asks for nothing for a while.
    QueuePaused {
        /// Which.
        queue: QueueId,
        /// Why.
        cause: PauseCause,
    },
    /// A queue asks again.
    QueueResumed {
        /// Which.
        queue: QueueId,
        /// Nobody said so: one more failure and it pauses again.
        is_trial: bool,
    },
    /// A queue asks for nothing more; what it has goes on.
    QueueDrained {
        /// Which.
        queue: QueueId,
    },
    /// A queue is gone as soon as its allocations are.
    QueueRemoved {
        /// Which.
        queue: QueueId,
    },
    /// What a worker of a queue offers.
    ShapeLearned {
        /// Which.
        queue: QueueId,
        /// Its pools.
        resources: Box<WorkerResources>,
        /// Who says so.
        source: ShapeSource,
    },
    /// An allocation is about to be submitted.
    Planned {
        /// Which.
        allocation: AllocationRef,
        /// Nodes.
        workers: u32,
        /// Its wall time.
        time_limit: Duration,
        /// Where its script, id and output are.
        directory: ByteString,
        /// It starts when this one of the same queue has ended.
        after: Option<u32>,
    },
    /// It waits in the batch system.
    Submitted {
        /// Which.
        allocation: AllocationRef,
        /// Its id there.
        batch_id: String,
    },
    /// It has its nodes.
    Started {
        /// Which.
        allocation: AllocationRef,
    },
    /// It lost its nodes and waits again under the same id.
    Requeued {
        /// Which.
        allocation: AllocationRef,
    },
    /// It is over.
    Ended {
        /// Which.
        allocation: AllocationRef,
        /// Why.
        end: AllocationEnd,
        /// What became of its node time.
        time: NodeTime,
    },
    /// In a compacted journal: the largest id of a queue ever given.
    QueueIdGiven {
        /// The id.
        queue: QueueId,
    },
    /// In a compacted journal: a queue as it was. Its allocations follow.
    QueueKept {
        /// Its id.
        queue: QueueId,
        /// All but its allocations.
        state: Box<QueueState>,
    },
    /// In a compacted journal: an allocation as it was.
    AllocationKept {
        /// Which.
        allocation: AllocationRef,
        /// All of it.
        state: Box<Allocation>,
    },
}
