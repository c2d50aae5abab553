//! Forgetting what has ended: a record like any other change.

use std::collections::BTreeSet;

use hq_model::{JobId, Timestamp};

use super::Server;
use crate::mark;
use crate::record::Record;
use crate::server::Effect;
use crate::server::job::Job;
use crate::server::retention::Forget;

impl Server {
    /// Forgets what is beyond the bounds.
    pub(super) fn retire(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        while let Some(what) = self.retention.next(now, &self.state) {
            self.forget(now, what, effects);
        }
    }

    /// Forgets every ended job and worker.
    pub(super) fn forget_all_ended(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        while let Some(what) = self.retention.first() {
            self.forget(now, what, effects);
        }
    }

    /// A job that has not ended and may take objects of another one, which is not forgotten meanwhile.
    pub(in crate::server) fn taker_of(&self, id: JobId) -> Option<JobId> {
        self.retention.taker_of(id)
    }

    /// Forgets an ended job.
    pub(in crate::server) fn forget_job(&mut self, now: Timestamp, id: JobId, effects: &mut Vec<Effect>) {
        // Those that wait for it hear of its end first: nobody could tell them later.
        if self.readiness.has_ending_of(id) {
            self.resolve_dependencies(now, effects);
        }
        let has_ended = |job: &Job| job.has_ended() && !job.ids.is_empty();
        if self.state.jobs.get(&id).is_some_and(has_ended) {
            self.look_for_notices(now, id, effects);
        }
        // Who waits for it hears how it ended as long as somebody knows.
        if self.touched.remove(&id) {
            mark!("a job is forgotten beside others that have changed", !self.touched.is_empty());
            self.tell_progress(now, &BTreeSet::from([id]), effects);
        }
        self.record(now, Record::JobForgotten { job: id }, effects);
        self.forget_if_over(id);
    }

    fn forget(&mut self, now: Timestamp, what: Forget, effects: &mut Vec<Effect>) {
        match what {
            Forget::Job(job) => self.forget_job(now, job, effects),
            Forget::Worker(worker) => {
                self.last_tasks.forget(worker);
                self.record(now, Record::WorkerForgotten { worker }, effects);
            }
        }
    }
}
