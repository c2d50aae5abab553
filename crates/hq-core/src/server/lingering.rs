//! Open jobs whose clients may go without a word, as those of programs that are killed: when none of their tasks is left and
//! nobody has waited for the ends of these for as long as was said when they were opened, they are closed.
//!
//! Who waits is known to this server alone, so a server that was started again gives everybody the whole time to come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hq_model::{JobId, Timestamp};

use super::Effect;
use super::machine::Server;
use super::state::State;
use crate::record::Record;

/// Which open jobs nobody waits for.
#[derive(Debug, Default)]
pub(super) struct Lingering {
    // Jobs that are to be looked at.
    changed: BTreeSet<JobId>,
    // When those are closed that are left.
    left: BTreeMap<JobId, Timestamp>,
    due: BTreeSet<(Timestamp, JobId)>,
}

impl Lingering {
    /// Somebody waits for a job, or has ceased to.
    pub(super) fn look(&mut self, job: JobId) {
        self.changed.insert(job);
    }

    /// The state has changed.
    pub(super) fn hear(&mut self, state: &State, record: &Record) {
        let is_known = |id: &JobId| {
            self.left.contains_key(id) || state.jobs.get(id).is_some_and(|job| job.spec.linger.is_some())
        };
        if let Some(job) = record.job().filter(is_known) {
            self.changed.insert(job);
        }
    }

    /// When a job is closed that is left.
    pub(super) fn until(&self, job: JobId) -> Option<Timestamp> {
        self.left.get(&job).copied()
    }

    /// When the next one is closed.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    // A job that was left before keeps its time.
    fn set_left(&mut self, job: JobId, until: Timestamp) {
        let until = *self.left.entry(job).or_insert(until);
        self.due.insert((until, job));
    }

    fn set_wanted(&mut self, job: JobId) {
        if let Some(until) = self.left.remove(&job) {
            self.due.remove(&(until, job));
        }
    }
}

impl Server {
    /// Finds such jobs after a start.
    pub(super) fn find_lingering(&mut self) {
        let open = self.state.jobs.iter().filter(|(_, job)| job.is_open && job.spec.linger.is_some());
        self.lingering.changed.extend(open.map(|(id, _)| *id));
    }

    /// Notes which jobs nobody needs any more, and which somebody does again.
    pub(super) fn note_left(&mut self, now: Timestamp) {
        for id in std::mem::take(&mut self.lingering.changed) {
            match self.linger_of_left(id) {
                Some(linger) => self.lingering.set_left(id, now.after(linger)),
                None => self.lingering.set_wanted(id),
            }
        }
    }

    /// Closes those that were left long enough.
    pub(super) fn close_left(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.is_read_only() || self.is_stopping() {
            return;
        }
        while let Some((_, id)) = self.lingering.due.first().copied().filter(|(at, _)| *at <= now) {
            self.lingering.set_wanted(id);
            // Somebody may have come back at this very moment.
            let Some(linger) = self.linger_of_left(id) else { continue };
            self.record(now, Record::JobLeft { job: id, linger }, effects);
            self.when_closed(id);
        }
    }

    // How long a job is left before it is closed, if nothing is left of it and nobody waits for it.
    fn linger_of_left(&self, id: JobId) -> Option<Duration> {
        let job = self.state.jobs.get(&id)?;
        let is_left = job.is_open && !job.is_draft() && job.feed.is_none() && job.tasks_ended();
        job.spec.linger.filter(|_| is_left && !self.end_waits.has(id))
    }

    /// What was left is what nobody needs.
    pub(super) fn lingering_jobs_are_left(&self) -> Result<(), String> {
        for id in self.state.jobs.keys().filter(|id| !self.lingering.changed.contains(id)) {
            if self.linger_of_left(*id).is_some() != self.lingering.left.contains_key(id) {
                return Err(format!("job {id} is left, or not: known as left are {:?}", self.lingering.left));
            }
        }
        Ok(())
    }
}
