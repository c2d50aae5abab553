//! Identifiers. Each kind is its own type, so that a task id is never taken for a job id.

use std::fmt;
use std::str::FromStr;

/// A text that is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid id: use a number from 0 to 4294967295")]
pub struct IdError(String);

/// The digits of a number in which underscores may stand between thousands: `1_000`. `None` where they stand elsewhere, as
/// in the `17_5` of a batch system, which is task 5 of job 17.
pub fn digits_of(text: &str) -> Option<String> {
    let mut parts = text.split('_');
    let first = parts.next().unwrap_or_default();
    let is_grouped = text == first || (1..=3).contains(&first.len());
    (is_grouped && parts.all(|part| part.len() == 3)).then(|| text.replace('_', ""))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let number = digits_of(text).and_then(|digits| digits.parse().ok());
                number.map($name).ok_or_else(|| IdError(text.into()))
            }
        }
    };
}

id!(
    /// A job, counted from 1 over the life of a server directory; never reused.
    JobId
);
id!(
    /// A task within its job.
    TaskId
);
id!(
    /// A worker, counted from 1 over the life of a server directory; never reused.
    WorkerId
);
id!(
    /// How often a task has been started or handed out before: 0 for the first time.
    Instance
);
id!(
    /// A queue of allocations, counted from 1 over the life of a server directory; never reused.
    QueueId
);
id!(
    /// How often the server of this directory has been started, counted from 1.
    Epoch
);

/// A task of a job; `3@17` in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskRef {
    /// The job.
    pub job: JobId,
    /// The task in it.
    pub task: TaskId,
}

impl TaskRef {
    /// The task `task` of job `job`.
    pub fn new(job: JobId, task: TaskId) -> Self {
        TaskRef { job, task }
    }
}

impl fmt::Display for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.job, self.task)
    }
}

/// Names one start of a task uniquely, even across a crash of the server: the epoch of the server
/// that handed it out, and the instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// The server that handed the task out.
    pub epoch: Epoch,
    /// The start within the task's life.
    pub instance: Instance,
}
