//! What the planner answers.

use hq_model::{Amount, WorkerId};

use crate::snapshot::ClassId;

/// What to do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Tasks to start on single workers.
    pub lines: Vec<Line>,
    /// Tasks to start on several whole workers.
    pub nodes: Vec<NodesLine>,
    /// Workers kept for tasks that do not fit yet.
    pub holds: Vec<Hold>,
    /// Classes with tasks left over, by place in the order.
    pub waiting: Vec<WaitingClass>,
    /// Classes that were not looked at: the step budget ended before.
    pub deferred: usize,
    /// Remainder of each share group, for the next snapshot.
    pub carried: Vec<u64>,
}

/// Start `count` tasks of a class with one of its variants on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// Where.
    pub worker: WorkerId,
    /// Of which class.
    pub class: ClassId,
    /// Which of its variants.
    pub variant: u32,
    /// How many.
    pub count: u64,
}

/// Start one task of a class on these workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodesLine {
    /// Of which class.
    pub class: ClassId,
    /// Which of its variants.
    pub variant: u32,
    /// Where, as many as it asked for.
    pub workers: Vec<WorkerId>,
}

/// A worker kept for a class. What may start there all the same is decided by the plan itself; the caller only
/// keeps from adding a backlog to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Which worker.
    pub worker: WorkerId,
    /// For which class.
    pub class: ClassId,
    /// Tasks that end by then may start there, in µs from now; `None`: nobody knows when there is room.
    pub until_us: Option<u64>,
}

/// Why tasks of a class wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingClass {
    /// Which class.
    pub class: ClassId,
    /// How many of its tasks wait.
    pub count: u64,
    /// For what.
    pub reason: Waiting,
}

/// What tasks wait for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// No present worker could ever run it.
    NoWorkerEver {
        /// The resource that is short, or `nodes`.
        missing: String,
        /// How much of it is asked for; `None`: all of a pool that nobody has.
        wanted: Option<Amount>,
        /// The most that any worker offers.
        offered: Amount,
    },
    /// Workers that could run it end too soon.
    TimeLimit {
        /// How long it must live, in µs.
        wanted_us: u64,
        /// The longest remaining life of a worker with the resources, in µs.
        longest_us: u64,
    },
    /// Running tasks hold what it needs.
    Busy {
        /// The scarce resource, or `nodes`.
        resource: String,
        /// When there may be room at the earliest, in µs from now, where known.
        earliest_us: Option<u64>,
    },
    /// Tasks placed in this round go first.
    Behind {
        /// One of their classes.
        class: ClassId,
    },
    /// A worker with room is kept for a larger task.
    Held {
        /// The class it is kept for.
        class: ClassId,
    },
    /// The share of its job is full.
    Share,
}
