//! The states of a task as users see them.

use std::fmt;
use std::str::FromStr;

use crate::task::WordError;

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskState {
    /// Not started: waiting for dependencies, for room, or for its retry delay.
    Waiting,
    /// Runs on a worker.
    Running,
    /// Ended with success.
    Finished,
    /// Ended without success, no retry left.
    Failed,
    /// Ended by its user.
    Canceled,
    /// Given up by the server: a dependency failed, or too many tasks of the job did.
    Aborted,
}

impl TaskState {
    /// All states, in the order tables show them.
    pub const ALL: [TaskState; 6] = [
        TaskState::Waiting,
        TaskState::Running,
        TaskState::Finished,
        TaskState::Failed,
        TaskState::Canceled,
        TaskState::Aborted,
    ];

    /// The lower-case word used in filters and JSON.
    pub fn word(self) -> &'static str {
        match self {
            TaskState::Waiting => "waiting",
            TaskState::Running => "running",
            TaskState::Finished => "finished",
            TaskState::Failed => "failed",
            TaskState::Canceled => "canceled",
            TaskState::Aborted => "aborted",
        }
    }

    /// True when the task will never run again.
    pub fn is_terminal(self) -> bool {
        !matches!(self, TaskState::Waiting | TaskState::Running)
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for TaskState {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = text.trim().to_ascii_lowercase();
        let found = TaskState::ALL.into_iter().find(|state| state.word() == word);
        found.ok_or_else(|| {
            WordError::new(text, "a task state: use waiting, running, finished, failed, canceled or aborted")
        })
    }
}
