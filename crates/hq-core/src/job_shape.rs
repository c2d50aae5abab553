//! What clients are told of the shape of a job: how far each layer of its graph is, how many of its tasks ran when, and which
//! took longest.

use std::time::Duration;

use hq_model::job::Counters;
use hq_model::{JobId, TaskId, TaskState, Timestamp, WorkerId};

/// The layers and the timeline of a job, in an answer of bounded length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobShape {
    /// The job.
    pub job: JobId,
    /// The time of the server.
    pub now: Timestamp,
    /// How many layers its graph has; 0 when it has no tasks, or too many single dependencies to say.
    pub depth: u32,
    /// Its layers from the first on, neighbors as one where there are many.
    pub layers: Vec<Layer>,
    /// How many of its tasks ran when.
    pub timeline: Timeline,
    /// Of the attempts in the timeline, those that took longest, the longest first.
    pub slowest: Vec<SlowTask>,
}

/// A task whose last attempt has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowTask {
    /// Which.
    pub task: TaskId,
    /// How long the attempt took.
    pub took: Duration,
    /// On which worker, where that is known.
    pub worker: Option<WorkerId>,
    /// How it ended.
    pub state: TaskState,
}

/// Tasks of a job before which lie equally many others, one behind the other; or those of some neighboring layers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// The first of these layers, counted from 1.
    pub first: u32,
    /// And the last.
    pub last: u32,
    /// One of its tasks: that with the smallest id.
    pub task: TaskId,
    /// How its tasks stand.
    pub counters: Counters,
}

/// How many tasks of a job ran when, by the last attempts of its tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// When its first bar begins: when the job was made.
    pub from: Timestamp,
    /// How long each bar is.
    pub step: Duration,
    /// The bars up to now, or up to the end of the job.
    pub bars: Vec<Bar>,
    /// Attempts that are in it.
    pub attempts: u64,
    /// All that are known are in it: otherwise more will be at the next question.
    pub is_complete: bool,
}

/// A part of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bar {
    /// How many tasks ran on average, in 1/1000.
    pub running_milli: u64,
    /// Attempts that ended.
    pub ended: u32,
    /// And those of them that failed, or were ended.
    pub failed: u32,
}
