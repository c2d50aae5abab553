//! What to execute: the template shared by all tasks of a submit.

use std::time::Duration;

use crate::{ByteString, Request};

/// The template of the tasks of one submit. Strings may hold placeholders (`%{TASK_ID}`), expanded
/// by the worker for each task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSpec {
    /// Program and arguments; never empty.
    pub args: Vec<ByteString>,
    /// Variables set for the task, in order; later ones win.
    pub env: Vec<(ByteString, ByteString)>,
    /// Fed to the task's standard input; the task reads end-of-file at once when empty.
    pub stdin: ByteString,
    /// Working directory; created if missing. Relative to the submit directory.
    pub cwd: ByteString,
    /// Where standard output goes.
    pub stdout: Output,
    /// Where standard error goes.
    pub stderr: Output,
    /// Variants in order of preference; never empty.
    pub requests: Vec<Request>,
    /// CPU affinity.
    pub pin: Pin,
    /// Larger first.
    pub priority: i32,
    /// The task is ended and fails after this time.
    pub time_limit: Option<Duration>,
    /// Between SIGTERM and SIGKILL.
    pub kill_grace: Duration,
    /// A signal sent this long before the time limit.
    pub warning: Option<Warning>,
    /// How often the task may be lost with its worker.
    pub crash_limit: CrashLimit,
    /// What to do about failures.
    pub retry: Retry,
    /// Give each task a private directory, removed afterwards, and an error file in it.
    pub task_dir: bool,
}

/// Where an output channel goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Thrown away.
    None,
    /// A file, relative to the working directory.
    File {
        /// Path with placeholders.
        path: ByteString,
        /// Remove it when the task finishes with success.
        remove_if_finished: bool,
    },
}

impl Default for Output {
    fn default() -> Self {
        Output::None
    }
}

/// How a task is bound to its CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pin {
    /// Not at all.
    #[default]
    None,
    /// By the affinity mask.
    Taskset,
    /// By `OMP_PLACES` and `OMP_PROC_BIND`.
    Omp,
}

/// A warning before the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Warning {
    /// Signal number.
    pub signal: u8,
    /// How long before.
    pub before: Duration,
}

/// How often a task may be lost together with its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrashLimit {
    /// The task fails at the first loss.
    NeverRestart,
    /// The task fails when it was lost this many times; at least 1.
    Times(u32),
    /// Restarted for ever.
    Unlimited,
}

impl Default for CrashLimit {
    fn default() -> Self {
        CrashLimit::Times(5)
    }
}

/// When and how a failed task runs again. Each run is a new instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Retry {
    /// Retries after the first run; 0 switches retrying off.
    pub max: u32,
    /// Wait before the first retry; doubled for each further one, up to an hour.
    pub delay: Duration,
    /// Which failures are retried.
    pub on: RetryOn,
}

/// The failures that are retried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RetryOn {
    /// Exit codes; with none of the three set, every failure is retried.
    pub codes: Vec<u8>,
    /// The task died from a signal.
    pub signal: bool,
    /// The task reached its time limit.
    pub timeout: bool,
}
