//! The records that rebuild the present: what a compacted journal begins with.
//!
//! Applied in order to an empty state they give a state equal to the one they were made from. There are
//! as many as there are workers, jobs and submits that are kept, and spans of recently finished tasks,
//! however long the history was.

use hq_model::{JobId, Timestamp};

use super::State;
use super::details::Kept;
use super::job::Job;
use crate::record::{FailureKind, NoticeChange, Record};

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
        for point in &self.loads {
            take(self.latest, Record::LoadKept { point: Box::new(*point) })?;
        }
        for (id, worker) in &self.workers {
            let config = Box::new(worker.config.clone());
            take(worker.joined, Record::WorkerJoined { worker: *id, config, secret: worker.secret })?;
            if let Some((at, end)) = worker.ended {
                // What that means for its allocation is kept with the allocation.
                take(at, Record::WorkerEnded { worker: *id, end, is_away: false })?;
            }
        }
        take(self.latest, Record::IdsGiven { job: self.last_job, worker: self.last_worker })?;
        // Before their jobs: what these know of them is kept with these.
        for ((job, rule), notice) in self.notices.iter() {
            let change = NoticeChange::Due(Box::new(notice.clone()));
            take(notice.at, Record::Notice { job, rule, change })?;
        }
        for (id, job) in &self.jobs {
            job_snapshot(*id, job, self.latest, take)?;
        }
        self.alloc.snapshot(self.latest, &mut |at, record| take(at, Record::Alloc(Box::new(record))))?;
        for Kept { worker, span, nodes } in self.details.spans() {
            let (worker, nodes) = (*worker, nodes.clone());
            let record = Record::DetailKept { worker, span: span.clone(), nodes };
            take(span.measures.base().min(self.latest), record)?;
        }
        for (job, attempt) in self.attempts.all() {
            take(self.latest, Record::AttemptsEnded { job, attempts: vec![attempt.clone()] })?;
        }
        for (job, ids, results) in self.results.blocks() {
            let (ids, results) = (ids.clone(), results.clone());
            take(self.latest, Record::ResultsKept { job, ids, results })?;
        }
        for change in self.objects.changes() {
            take(self.latest, Record::Objects(Box::new(change)))?;
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
            entries_gone: Box::new(submit.entries_gone.clone()),
            keys: submit.keys.clone(),
            dependencies: submit.dependencies.clone(),
            task: submit.task.clone(),
            submit_dir: submit.submit_dir.clone(),
        };
        take(submit.submitted, record)?;
    }
    take(latest, Record::JobKept { job: id, progress: Box::new(job.progress.clone()) })
}
