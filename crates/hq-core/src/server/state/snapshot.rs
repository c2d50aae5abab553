//! The records that rebuild the present: what a compacted journal begins with.
//!
//! Applied in order to an empty state they give a state equal to the one they were made from. There are
//! as many as there are workers, jobs and submits that are kept, and spans of recently finished tasks,
//! however long the history was.

use hq_model::{IdSet, JobId, Timestamp};

use super::State;
use super::details::Kept;
use super::job::Job;
use crate::record::{FailureKind, JobProgress, Record};

impl State {
    /// Gives the records that rebuild this state, each with its time, until `take` refuses one.
    ///
    /// # Errors
    /// What `take` said.
    pub fn snapshot<E>(&self, take: &mut dyn FnMut(Timestamp, Record) -> Result<(), E>) -> Result<(), E> {
        let (epoch, uid, release) = (self.epoch, self.uid.clone(), self.release.clone());
        take(self.latest, Record::ServerStarted { epoch, uid, release })?;
        if !self.gaps.is_empty() {
            take(self.latest, Record::TimeSkipped { gaps: self.gaps.clone() })?;
        }
        for (id, worker) in &self.workers {
            let config = Box::new(worker.config.clone());
            take(worker.joined, Record::WorkerJoined { worker: *id, config })?;
            if let Some((at, end)) = worker.ended {
                // What that means for its allocation is kept with the allocation.
                take(at, Record::WorkerEnded { worker: *id, end, is_away: false })?;
            }
        }
        take(self.latest, Record::IdsGiven { job: self.last_job, worker: self.last_worker })?;
        for (id, job) in &self.jobs {
            job_snapshot(*id, job, self.latest, take)?;
        }
        self.alloc.snapshot(self.latest, &mut |at, record| take(at, Record::Alloc(Box::new(record))))?;
        for Kept { worker, span, nodes } in self.details.spans() {
            let (worker, nodes) = (*worker, nodes.clone());
            let record = Record::DetailKept { worker, span: span.clone(), nodes };
            take(span.measures.base().min(self.latest), record)?;
        }
        for (id, task) in &self.failures_order {
            if let Some((at, failure)) = self.jobs.get(id).and_then(|job| job.failures.get(task)) {
                let (job, failure) = (*id, failure.clone());
                let record = match failure.kind {
                    FailureKind::EndedEarly => Record::EndedEarly { job, attempts: vec![failure] },
                    _ => Record::FailureKept { job, failure },
                };
                take(*at, record)?;
            }
        }
        for key in &self.answered_order {
            if let Some((job, ids)) = self.answered.get(key) {
                take(self.latest, Record::Answered { key: *key, job: *job, ids: ids.clone() })?;
            }
        }
        Ok(())
    }
}

fn job_snapshot<E>(
    id: JobId,
    job: &Job,
    latest: Timestamp,
    take: &mut dyn FnMut(Timestamp, Record) -> Result<(), E>,
) -> Result<(), E> {
    take(job.submitted, Record::JobOpened { job: id, key: 0, spec: job.spec.clone() })?;
    for submit in &job.submits {
        let record = Record::Submitted {
            job: id,
            key: 0,
            spec: None,
            ids: submit.ids.clone(),
            entries: submit.entries.clone(),
            keys: submit.keys.clone(),
            dependencies: submit.dependencies.clone(),
            task: submit.task.clone(),
            submit_dir: submit.submit_dir.clone(),
        };
        take(submit.submitted, record)?;
    }
    take(latest, Record::JobKept { job: id, progress: Box::new(job.progress()) })
}

impl Job {
    /// How far it is.
    pub fn progress(&self) -> JobProgress {
        JobProgress {
            is_open: self.is_open,
            last_end: self.last_end,
            cancel_reason: self.cancel_reason.clone(),
            leased: self.leased.iter().map(|(worker, ids)| (*worker, ids.clone())).collect(),
            finished: self.finished.clone(),
            failed: self.failed.clone(),
            canceled: self.canceled.clone(),
            aborted: self.abort_reasons.clone(),
            instances: self.instances.iter().map(|(instance, ids)| (*instance, ids.clone())).collect(),
            crashes: self.crashes.iter().map(|(task, count)| (*task, *count)).collect(),
            retries: self.retries.iter().map(|(task, count)| (*task, *count)).collect(),
            delayed: self.delayed.iter().map(|(task, at)| (*task, *at)).collect(),
            usage: self.usage,
            workers: self.workers.iter().copied().collect(),
            seconds: self.seconds.iter().map(|(task, second)| (*task, *second)).collect(),
            files: self.files.iter().cloned().collect(),
            ready: self.ready.iter().map(|(task, text)| (*task, text.clone())).collect(),
            deferred: self.deferred.iter().map(|(task, after)| (*task, after.clone())).collect(),
            nodes: self.nodes.iter().map(|(task, workers)| (*task, workers.clone())).collect(),
        }
    }

    /// Puts it where it was; its submits are there already.
    pub(super) fn resume(&mut self, progress: &JobProgress) {
        self.is_open = progress.is_open;
        self.last_end = progress.last_end;
        self.cancel_reason.clone_from(&progress.cancel_reason);
        self.leased = progress.leased.iter().cloned().collect();
        self.finished.clone_from(&progress.finished);
        self.failed.clone_from(&progress.failed);
        self.canceled.clone_from(&progress.canceled);
        self.abort_reasons.clone_from(&progress.aborted);
        self.aborted = IdSet::new();
        for (ids, _) in &progress.aborted {
            self.aborted.union_with(ids);
        }
        self.queued = self.ids.clone();
        let ended = [&self.finished, &self.failed, &self.canceled, &self.aborted];
        for ids in ended.into_iter().chain(self.leased.values()) {
            self.queued.subtract(ids);
        }
        self.instances = progress.instances.iter().cloned().collect();
        self.crashes = progress.crashes.iter().copied().collect();
        self.retries = progress.retries.iter().copied().collect();
        self.delayed = progress.delayed.iter().copied().collect();
        self.usage = progress.usage;
        self.workers = progress.workers.iter().copied().collect();
        self.seconds = progress.seconds.iter().copied().collect();
        self.files = progress.files.iter().cloned().collect();
        self.ready = progress.ready.iter().cloned().collect();
        self.deferred = progress.deferred.iter().cloned().collect();
        self.nodes = progress.nodes.iter().cloned().collect();
    }
}
