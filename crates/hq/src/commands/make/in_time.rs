//! "Start nothing that cannot end within so many minutes": which runs are given up when.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hq_client::Session;
use hq_core::client_messages::ClientRequest;
use hq_make::{Plan, RunId};
use hq_model::{IdSet, JobId, TaskId};

use crate::error::HqError;

/// When runs that have not begun could not end in time any more.
pub(super) struct InTime {
    // The latest first.
    due: Vec<(Instant, IdSet)>,
}

impl InTime {
    /// Of the runs of a job, of which task `i` is the run at place `i`. Without a limit nothing is ever due.
    pub(super) fn new(within: Option<Duration>, plan: &Plan, runs: &[RunId]) -> InTime {
        let Some(within) = within else { return InTime { due: Vec::new() } };
        let begin = Instant::now();
        let mut by_time: BTreeMap<Duration, IdSet> = BTreeMap::new();
        for (task, run) in (0..).zip(runs) {
            let time = plan.run(*run).resources.time.unwrap_or_default();
            by_time.entry(time).or_default().insert(TaskId(task));
        }
        // What takes longest is due first. A time beyond that of the clock is never due.
        let due = by_time.into_iter().filter_map(|(time, tasks)| {
            let tasks_due = begin.checked_add(within.saturating_sub(time))?;
            Some((if time > within { begin } else { tasks_due }, tasks))
        });
        InTime { due: due.collect() }
    }

    /// When the next ones are due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.last().map(|(due, _)| *due)
    }

    /// Gives up those that are due and have not begun.
    ///
    /// # Errors
    /// When the server refuses or is lost.
    pub(super) fn cancel_due(&mut self, session: &mut Session, job: JobId) -> Result<(), HqError> {
        let now = Instant::now();
        while let Some((_, tasks)) = self.due.pop_if(|(due, _)| *due <= now) {
            session.request(ClientRequest::CancelWaiting { job, tasks })?;
        }
        Ok(())
    }
}
