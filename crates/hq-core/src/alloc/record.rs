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
        /// The queue that was changed.
        queue: QueueId,
        /// What it asks for.
        params: Box<QueueParams>,
    },
    /// A queue asks for nothing for a while.
    QueuePaused {
        /// The queue that was paused.
        queue: QueueId,
        /// Why.
        cause: PauseCause,
    },
    /// A queue asks again.
    QueueResumed {
        /// The queue that was resumed.
        queue: QueueId,
        /// Nobody said so: one more failure and it pauses again.
        is_trial: bool,
    },
    /// A queue asks for nothing more; what it has goes on.
    QueueDrained {
        /// The queue that was drained.
        queue: QueueId,
    },
    /// A queue is gone as soon as its allocations are.
    QueueRemoved {
        /// The queue that was removed.
        queue: QueueId,
    },
    /// What a worker of a queue offers.
    ShapeLearned {
        /// The queue of the worker.
        queue: QueueId,
        /// Its pools.
        resources: Box<WorkerResources>,
        /// Who says so.
        source: ShapeSource,
    },
    /// An allocation is about to be submitted.
    Planned {
        /// The allocation that will be submitted.
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
        /// The allocation that was submitted.
        allocation: AllocationRef,
        /// Its id there.
        batch_id: String,
    },
    /// What became of its node time until now, while it goes on.
    Measured {
        /// The allocation that was measured.
        allocation: AllocationRef,
        /// All of its time since it started.
        time: NodeTime,
    },
    /// It has its nodes.
    Started {
        /// The allocation that got its nodes.
        allocation: AllocationRef,
    },
    /// It lost its nodes and waits again under the same id.
    Requeued {
        /// The allocation that waits again.
        allocation: AllocationRef,
    },
    /// It is over.
    Ended {
        /// The allocation that ended.
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
        /// The allocation that is kept.
        allocation: AllocationRef,
        /// All of it.
        state: Box<Allocation>,
    },
}
