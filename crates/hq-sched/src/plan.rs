//! What the planner answers.

use hq_model::WorkerId;

use crate::snapshot::ClassId;

/// What to do now. Tasks of which nothing is said wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Tasks to start, sorted.
    pub lines: Vec<Line>,
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
