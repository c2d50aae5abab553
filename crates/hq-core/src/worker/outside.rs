//! Ends that may be the work of a batch system.
//!
//! Who cancels or preempts a batch job sends SIGTERM to every process of it, to tasks and their worker alike. A task
//! may be gone a moment before its worker hears of that. So the failure of a task that was terminated from outside is
//! held back for a moment: when the worker is told to end meanwhile, the task was interrupted and runs again elsewhere.

use hq_model::{IdSet, JobId, Timestamp};

use super::reporting::Reporting;
use crate::limits::OUTSIDE_END_TIME;
use crate::record::{Failure, FailureKind};

const SIGTERM: u8 = 15;
/// How shells say that their program was terminated.
const SHELL_TERMINATED: u8 = 128 + SIGTERM;

/// Failures that are held back, with the time until when. The oldest first.
#[derive(Debug, Default)]
pub(super) struct Outside(Vec<(Timestamp, JobId, Failure)>);

impl Outside {
    /// True for a failure that a batch system may have caused.
    pub(super) fn may_cause(kind: FailureKind) -> bool {
        matches!(kind, FailureKind::Signal(SIGTERM) | FailureKind::Exit(SHELL_TERMINATED))
    }

    /// Holds a failure back.
    pub(super) fn hold(&mut self, now: Timestamp, job: JobId, failure: Failure) {
        self.0.push((now.after(OUTSIDE_END_TIME), job, failure));
    }

    /// The worker is told to end: they were interrupted.
    pub(super) fn interrupted(&mut self, reporting: &mut Reporting) {
        for (_, job, failure) in self.0.drain(..) {
            reporting.interrupted(job, &IdSet::single(failure.task));
        }
    }

    /// Lets those go that were held back for long enough; all without a time.
    pub(super) fn release(&mut self, now: Option<Timestamp>, reporting: &mut Reporting) {
        let is_due = |held: &(Timestamp, JobId, Failure)| now.is_none_or(|now| held.0 <= now);
        while self.0.first().is_some_and(is_due) {
            let (_, job, failure) = self.0.remove(0);
            reporting.failed(job, failure);
        }
    }

    /// When the next one is to be let go.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.0.first().map(|held| held.0)
    }
}
