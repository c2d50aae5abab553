//! How long ended jobs and workers are kept: so many, and for so long. Forgetting is a record like any
//! other change, and what the rule says depends on records and the time alone. Ids are never given again.

use std::collections::BTreeSet;
use std::time::Duration;

use hq_model::{JobId, Timestamp, WorkerId};

use super::Effect;
use super::machine::Server;
use crate::limits::{JOBS_KEPT, JOBS_KEPT_TIME, WORKERS_KEPT};
use crate::record::Record;

/// Which ended jobs are kept. Each bound counts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The latest so many; `None` without a bound.
    pub jobs: Option<usize>,
    /// Those that ended at most so long ago; `None` without a bound.
    pub time: Option<Duration>,
}

impl Default for Keep {
    fn default() -> Self {
        Keep { jobs: Some(JOBS_KEPT), time: Some(JOBS_KEPT_TIME) }
    }
}

/// What has ended and is still known, by the time of the end.
#[derive(Debug, Default)]
pub(super) struct Ended {
    jobs: BTreeSet<(Timestamp, JobId)>,
    workers: BTreeSet<(Timestamp, WorkerId)>,
}

impl Server {
    /// Finds what had ended before the server was started.
    pub(super) fn find_ended(&mut self) {
        let jobs = self.state.jobs.iter().filter(|(_, job)| job.has_ended());
        self.ended.jobs = jobs.map(|(id, job)| (job.last_end, *id)).collect();
        let workers = self.state.workers.iter();
        self.ended.workers =
            workers.filter_map(|(id, worker)| worker.ended.map(|ended| (ended.0, *id))).collect();
    }

    /// Notes which of the jobs that were touched have ended.
    pub(super) fn note_ended(&mut self) {
        for id in &self.touched {
            if let Some(job) = self.state.jobs.get(id).filter(|job| job.has_ended()) {
                self.ended.jobs.insert((job.last_end, *id));
            }
        }
    }

    /// Notes that a worker has ended now.
    pub(super) fn note_worker_ended(&mut self, now: Timestamp, worker: WorkerId) {
        self.ended.workers.insert((now, worker));
    }

    /// Forgets what is beyond the bounds.
    pub(super) fn retire(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let Keep { jobs, time } = self.options.keep_jobs;
        while let Some(&(ended, job)) = self.ended.jobs.first() {
            let is_too_many = jobs.is_some_and(|jobs| self.ended.jobs.len() > jobs);
            let is_too_old = time.is_some_and(|time| ended.after(time) <= now);
            if !is_too_many && !is_too_old {
                break;
            }
            self.forget_job(now, job, effects);
        }
        while self.ended.workers.len() > WORKERS_KEPT {
            self.forget_first_worker(now, effects);
        }
    }

    /// When the next job is to be forgotten for its age.
    pub(super) fn next_retirement(&self) -> Option<Timestamp> {
        let time = self.options.keep_jobs.time.filter(|_| !self.is_read_only())?;
        Some(self.ended.jobs.first()?.0.after(time))
    }

    /// Forgets an ended job.
    pub(super) fn forget_job(&mut self, now: Timestamp, id: JobId, effects: &mut Vec<Effect>) {
        if let Some(job) = self.state.jobs.get(&id) {
            self.ended.jobs.remove(&(job.last_end, id));
        }
        self.record(now, Record::JobForgotten { job: id }, effects);
        self.forget_if_over(id);
    }

    /// Forgets every ended job and worker.
    pub(super) fn forget_all_ended(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.note_ended();
        while let Some(&(_, job)) = self.ended.jobs.first() {
            self.forget_job(now, job, effects);
        }
        while !self.ended.workers.is_empty() {
            self.forget_first_worker(now, effects);
        }
    }

    fn forget_first_worker(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if let Some((_, worker)) = self.ended.workers.pop_first() {
            self.record(now, Record::WorkerForgotten { worker }, effects);
        }
    }
}
