//! How long ended jobs and workers are kept: so many, and for so long. Forgetting is a record like any
//! other change, and what the rule says depends on records and the time alone. Ids are never given again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hq_model::{Dependencies, JobId, TaskSpec, Timestamp, WorkerId};

use super::job::{Job, SubmitState};
use super::state::{State, WorkerState};
use crate::cause::FailureCause;
use crate::limits::{JOBS_KEPT, JOBS_KEPT_BYTES, JOBS_KEPT_TIME, WORKERS_KEPT, WORKERS_KEPT_BYTES};
use crate::never;
use crate::record::Record;

/// Which ended jobs are kept. Each bound counts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The latest so many; `None` without a bound.
    pub jobs: Option<usize>,
    /// Those that ended at most so long ago, as far as servers saw that time pass; `None` without a bound.
    pub time: Option<Duration>,
}

impl Default for Keep {
    fn default() -> Self {
        Keep { jobs: Some(JOBS_KEPT), time: Some(JOBS_KEPT_TIME) }
    }
}

/// What has ended and is still known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Retention {
    keep: Keep,
    // When they ended, and the bytes of their submits and of the causes of their failures.
    jobs: BTreeMap<JobId, (Timestamp, usize)>,
    // By the time of the end, as workers below.
    jobs_by_end: BTreeSet<(Timestamp, JobId)>,
    bytes: usize,
    // Jobs whose objects others take, and those of these that have not ended: till then they are not forgotten.
    held: BTreeMap<JobId, BTreeSet<JobId>>,
    // With the bytes of what they said of themselves.
    workers: BTreeMap<(Timestamp, WorkerId), usize>,
    workers_bytes: usize,
}

/// What is to be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forget {
    Job(JobId),
    Worker(WorkerId),
}

impl Retention {
    /// What was kept before this server started, and how much of it is to be.
    pub(super) fn recount(keep: Keep, state: &State) -> Retention {
        let mut retention = Retention { keep, ..Retention::default() };
        for (id, job) in state.jobs.iter().filter(|(_, job)| !job.has_ended()) {
            job.submits
                .iter()
                .for_each(|submit| retention.job_takes(*id, &submit.task, &submit.dependencies));
        }
        retention.held.retain(|id, _| state.jobs.contains_key(id));
        for (id, job) in state.jobs.iter().filter(|(_, job)| job.has_ended()) {
            retention.job_ended(*id, job);
        }
        state.workers.iter().for_each(|(id, worker)| retention.worker_ended(*id, worker));
        retention
    }

    /// Hears a record that is in the state already.
    pub(super) fn hear(&mut self, state: &State, record: &Record) {
        for part in record.parts() {
            if let Record::Submitted { job, task, dependencies, .. } = part {
                self.job_takes(*job, task, dependencies);
            }
        }
        match record {
            Record::JobForgotten { job } => {
                self.job_is_gone(*job);
                self.held.remove(job);
            }
            Record::WorkerEnded { worker, .. } => {
                match state.workers.get(worker).filter(|worker| worker.ended.is_some()) {
                    Some(ended) => self.worker_ended(*worker, ended),
                    None => never!("worker {worker} has ended and is not among those that did"),
                }
            }
            Record::WorkerForgotten { worker } => {
                let gone = self.workers.extract_if(.., |(_, ended), _| ended == worker);
                self.workers_bytes -= gone.map(|(_, bytes)| bytes).sum::<usize>();
            }
            record => {
                let job = record.job().and_then(|id| Some((id, state.jobs.get(&id)?)));
                if let Some((id, job)) = job.filter(|(_, job)| job.has_ended()) {
                    self.job_is_gone(id);
                    self.job_ended(id, job);
                    self.job_takes_no_more(id, job);
                }
            }
        }
    }

    fn worker_ended(&mut self, id: WorkerId, worker: &WorkerState) {
        if let Some((at, _)) = worker.ended {
            let bytes = worker.config.bytes();
            self.workers_bytes += bytes;
            self.workers_bytes -= self.workers.insert((at, id), bytes).unwrap_or_default();
        }
    }

    /// A job that has not ended and may take objects of another one.
    pub(super) fn taker_of(&self, job: JobId) -> Option<JobId> {
        self.held.get(&job)?.first().copied()
    }

    /// The first that is beyond the bounds.
    pub(super) fn next(&self, now: Timestamp, state: &State) -> Option<Forget> {
        if let Some((_, job)) = self.jobs_by_end.first() {
            let is_too_many = self.keep.jobs.is_some_and(|jobs| self.jobs.len() > jobs);
            let is_too_much = self.bytes_but_last() > JOBS_KEPT_BYTES;
            let is_too_old = self.next_wakeup(state).is_some_and(|at| at <= now);
            if is_too_many || is_too_much || is_too_old {
                return Some(Forget::Job(*job));
            }
        }
        let is_too_much = self.workers.len() > WORKERS_KEPT || self.workers_bytes > WORKERS_KEPT_BYTES;
        let worker = self.workers.first_key_value().filter(|_| is_too_much);
        worker.map(|((_, worker), _)| Forget::Worker(*worker))
    }

    // The job that ended last is kept however large it is: somebody wants to know how it has ended.
    fn bytes_but_last(&self) -> usize {
        let last = self.jobs_by_end.last().and_then(|(_, job)| self.jobs.get(job));
        self.bytes - last.map_or(0, |(_, bytes)| *bytes)
    }

    /// The first of all that has ended.
    pub(super) fn first(&self) -> Option<Forget> {
        let job = self.jobs_by_end.first().map(|(_, job)| Forget::Job(*job));
        job.or_else(|| self.workers.first_key_value().map(|((_, worker), _)| Forget::Worker(*worker)))
    }

    /// When the next job is to be forgotten for its age. The time of the wall alone is no reason: it may have jumped.
    pub(super) fn next_wakeup(&self, state: &State) -> Option<Timestamp> {
        let time = self.keep.time?;
        let (ended, _) = *self.jobs_by_end.first()?;
        Some(ended.after(time).after(state.skipped_since(ended)))
    }

    /// Checks what was heard against a recount.
    ///
    /// # Errors
    /// Says what differs.
    pub(super) fn check(&self, state: &State) -> Result<(), String> {
        let recount = Retention::recount(self.keep, state);
        if *self == recount {
            return Ok(());
        }
        Err(format!("ended are {recount:?}, known as such {self:?}"))
    }

    fn job_ended(&mut self, id: JobId, job: &Job) {
        let bytes = job.submits_bytes() + job.causes.iter().map(FailureCause::bytes).sum::<usize>();
        self.jobs.insert(id, (job.last_end, bytes));
        if !self.held.contains_key(&id) {
            self.jobs_by_end.insert((job.last_end, id));
        }
        self.bytes += bytes;
    }

    fn job_takes(&mut self, id: JobId, task: &TaskSpec, dependencies: &Dependencies) {
        for from in takes_from(id, task, dependencies) {
            self.held.entry(from).or_default().insert(id);
            if let Some((ended, _)) = self.jobs.get(&from) {
                self.jobs_by_end.remove(&(*ended, from));
            }
        }
    }

    fn job_takes_no_more(&mut self, id: JobId, job: &Job) {
        let of_submit = |submit: &SubmitState| takes_from(id, &submit.task, &submit.dependencies).collect();
        let from: BTreeSet<JobId> = job.submits.iter().flat_map::<Vec<JobId>, _>(of_submit).collect();
        for from in from {
            let Some(takers) = self.held.get_mut(&from) else { continue };
            takers.remove(&id);
            if takers.is_empty() {
                self.held.remove(&from);
                if let Some((ended, _)) = self.jobs.get(&from) {
                    self.jobs_by_end.insert((*ended, from));
                }
            }
        }
    }

    fn job_is_gone(&mut self, id: JobId) {
        if let Some((ended, bytes)) = self.jobs.remove(&id) {
            self.jobs_by_end.remove(&(ended, id));
            self.bytes -= bytes;
        }
    }
}

// Jobs whose objects tasks of a submit may take: as programs say, or as calls wait for others.
fn takes_from(id: JobId, task: &TaskSpec, dependencies: &Dependencies) -> impl Iterator<Item = JobId> {
    let after = dependencies.after.iter().filter(|_| task.body.is_packed_call());
    let after = after.map(|after| after.job).filter(move |job| *job != id);
    task.input_objects.iter().filter_map(|input| input.from.job).chain(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_that_ended_last_is_kept_however_large_it_is() {
        let mut retention = Retention::default();
        let ends = |retention: &mut Retention, job: u32, bytes: usize| {
            let at = Timestamp(u64::from(job));
            retention.jobs.insert(JobId(job), (at, bytes));
            retention.jobs_by_end.insert((at, JobId(job)));
            retention.bytes += bytes;
        };
        let next = |retention: &Retention| retention.next(Timestamp(10), &State::default());
        ends(&mut retention, 1, JOBS_KEPT_BYTES);
        ends(&mut retention, 2, 2 * JOBS_KEPT_BYTES);
        assert_eq!(next(&retention), None, "the first one alone is not too much");
        ends(&mut retention, 3, 1);
        assert_eq!(next(&retention), Some(Forget::Job(JobId(1))));
        retention.job_is_gone(JobId(1));
        assert_eq!(next(&retention), Some(Forget::Job(JobId(2))), "it is not the last one any more");
        retention.job_is_gone(JobId(2));
        assert_eq!(next(&retention), None);
    }
}
