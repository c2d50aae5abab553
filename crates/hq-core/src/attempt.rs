//! How attempts ended that did not end their tasks: what is told of a task that ran more than once.

use hq_model::{Instance, TaskId, Timestamp, WorkerId};

use crate::record::{Failure, FailureKind, RestartCause};

/// An attempt that is over, while its task ran again, went on as another attempt, or was ended by somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastAttempt {
    /// The task.
    pub task: TaskId,
    /// Which attempt it was.
    pub instance: Instance,
    /// Where it ran; `None` when it failed without running.
    pub worker: Option<WorkerId>,
    /// Of a task on several nodes, its workers; the first one led.
    pub nodes: Vec<WorkerId>,
    /// When it started, where that is known.
    pub started: Option<Timestamp>,
    /// When it ended; of one that was lost, when that was found out.
    pub ended: Timestamp,
    /// Why it ended.
    pub end: AttemptEnd,
    /// What a failed one said, for people; a long text is cut.
    pub error: String,
}

/// Why an attempt ended that did not end its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// It failed, and the task was retried, or had another attempt.
    Failed(FailureKind),
    /// Its worker was lost.
    WorkerLost,
    /// Its worker left, or gave it up.
    WorkerLeft,
    /// The time of its worker was over.
    Walltime,
    /// An object that its task takes or leaves could not be had or stored.
    Objects,
    /// It put itself back behind others.
    PutBack,
    /// Another attempt of the task finished first.
    Superseded,
    /// The task was canceled or given up, and this was not its only attempt.
    EndedEarly,
}

impl PastAttempt {
    /// An attempt that failed, of which this was reported now.
    pub fn failed(now: Timestamp, failure: &Failure) -> PastAttempt {
        PastAttempt {
            task: failure.task,
            instance: failure.instance,
            worker: failure.worker,
            nodes: failure.nodes.clone(),
            started: failure.started,
            ended: failure.ended(now),
            end: AttemptEnd::Failed(failure.kind),
            error: crate::cause::shortened(&failure.error),
        }
    }

    /// About what it takes in memory and in messages, in bytes.
    pub fn bytes(&self) -> usize {
        256 + self.error.len() + self.nodes.len() * 4
    }
}

impl AttemptEnd {
    /// How attempts end whose tasks run again for a cause. `None` of those that failed, of which more is known.
    pub fn of(cause: &RestartCause) -> Option<AttemptEnd> {
        match cause {
            RestartCause::Crash => Some(AttemptEnd::WorkerLost),
            RestartCause::Left => Some(AttemptEnd::WorkerLeft),
            RestartCause::TimeOver { .. } => Some(AttemptEnd::Walltime),
            RestartCause::Unfetched { .. } => Some(AttemptEnd::Objects),
            RestartCause::Retry { .. } => None,
        }
    }

    /// A short word that never changes, for programs.
    pub fn word(self) -> &'static str {
        match self {
            AttemptEnd::Failed(_) => "failed",
            AttemptEnd::WorkerLost => "worker-lost",
            AttemptEnd::WorkerLeft => "worker-left",
            AttemptEnd::Walltime => "walltime",
            AttemptEnd::Objects => "objects",
            AttemptEnd::PutBack => "put-back",
            AttemptEnd::Superseded => "superseded",
            AttemptEnd::EndedEarly => "ended-early",
        }
    }

    /// For people, as the rest of a sentence about the attempt.
    pub fn words(self) -> &'static str {
        match self {
            AttemptEnd::Failed(_) => "failed",
            AttemptEnd::WorkerLost => "lost with its worker",
            AttemptEnd::WorkerLeft => "its worker left or gave it up",
            AttemptEnd::Walltime => "the time of its worker was over",
            AttemptEnd::Objects => "an object of it could not be had or stored",
            AttemptEnd::PutBack => "it put itself back",
            AttemptEnd::Superseded => "another attempt finished first",
            AttemptEnd::EndedEarly => "its task was canceled or aborted",
        }
    }
}
