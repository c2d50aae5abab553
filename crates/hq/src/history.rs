//! What a journal tells of the past, as `hq journal report` shows it: who was there, what ran where and
//! when, how long it had waited, what failed.

use std::collections::BTreeMap;
use std::time::Duration;

use hq_core::record::{Failure, FailureKind, Record};
use hq_core::server::state::State;
use hq_model::{JobId, TaskId, Timestamp, WorkerId};

use crate::accounts::{Amounts, Shape, offered};

/// Executions that are remembered one by one; of more only sums are shown.
const RUNS_MAX: usize = 2_000_000;
/// Failures that are shown.
const FAILURES_MAX: usize = 200;

/// The past.
#[derive(Default)]
pub(crate) struct History {
    state: State,
    /// The first start of the server.
    pub(crate) begin: Option<Timestamp>,
    /// The latest thing that happened.
    pub(crate) end: Timestamp,
    /// Name of the server.
    pub(crate) uid: String,
    /// Starts of the server.
    pub(crate) starts: Vec<Timestamp>,
    /// Workers that were there.
    pub(crate) workers: BTreeMap<WorkerId, WorkerPast>,
    /// Executions, in order of their ends.
    pub(crate) runs: Vec<Run>,
    /// Executions beyond those.
    pub(crate) runs_left_out: u64,
    /// Jobs that were there.
    pub(crate) jobs: BTreeMap<JobId, JobPast>,
    /// Some failures.
    pub(crate) failures: Vec<FailurePast>,
    /// How many there were.
    pub(crate) failures_total: u64,
    /// Executions that were begun again, by cause.
    pub(crate) restarts: u64,
}

/// A worker.
pub(crate) struct WorkerPast {
    /// Its node.
    pub(crate) hostname: String,
    /// What it offered.
    pub(crate) offered: Amounts,
    /// When it came.
    pub(crate) joined: Timestamp,
    /// When it left.
    pub(crate) ended: Option<Timestamp>,
}

/// An execution of a task.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// Where.
    pub(crate) worker: WorkerId,
    /// Of which job.
    pub(crate) job: JobId,
    /// Which task.
    pub(crate) task: TaskId,
    /// From when.
    pub(crate) start: Timestamp,
    /// To when.
    pub(crate) end: Timestamp,
    /// CPUs it had asked for.
    pub(crate) cpus: f32,
    /// It failed.
    pub(crate) failed: bool,
    /// How long it had waited since its submit, in µs.
    pub(crate) waited_us: u64,
}

/// A job.
#[derive(Default)]
pub(crate) struct JobPast {
    /// Its name.
    pub(crate) name: String,
    /// When it was made.
    pub(crate) submitted: Timestamp,
    /// When its last task ended.
    pub(crate) last_end: Timestamp,
    /// Its tasks.
    pub(crate) tasks: u64,
    /// Tasks that finished, failed, were canceled or aborted.
    pub(crate) ended: [u64; 4],
}

/// A failure.
pub(crate) struct FailurePast {
    /// When.
    pub(crate) at: Timestamp,
    /// Of which job.
    pub(crate) job: JobId,
    /// Which task.
    pub(crate) task: TaskId,
    /// Where.
    pub(crate) worker: Option<WorkerId>,
    /// What it was.
    pub(crate) kind: FailureKind,
    /// In words.
    pub(crate) error: String,
}

impl History {
    /// Takes the next record.
    pub(crate) fn take(&mut self, at: Timestamp, record: Record) {
        self.end = self.end.max(at);
        match &record {
            Record::ServerStarted { uid, .. } => {
                self.begin.get_or_insert(at);
                self.uid.clone_from(uid);
                self.starts.push(at);
            }
            Record::WorkerJoined { worker, config } => {
                self.begin = self.begin.map(|begin| begin.min(at));
                let hostname = config.hostname.clone();
                let offered = offered(&config.resources.pools);
                let past = WorkerPast { hostname, offered, joined: at, ended: None };
                self.workers.insert(*worker, past);
            }
            Record::WorkerEnded { worker, .. } => {
                if let Some(worker) = self.workers.get_mut(worker) {
                    worker.ended = Some(at);
                }
            }
            Record::JobOpened { .. } | Record::Submitted { .. } => {
                self.begin = self.begin.map(|begin| begin.min(at));
            }
            Record::Finished { worker, span } | Record::DetailKept { worker, span, .. } => {
                for (task, (start, usage)) in span.ids.iter().zip(span.measures.iter()) {
                    let end = Timestamp(start.0.saturating_add(usage.wall_us));
                    self.run(*worker, span.job, task, start, end, false);
                }
            }
            Record::Failed { job, failure } | Record::FailureKept { job, failure } => {
                self.failure(at, *job, failure);
            }
            Record::EndedEarly { job, attempts } => {
                for attempt in attempts {
                    if let (Some(worker), Some(start)) = (attempt.worker, attempt.started) {
                        let end = Timestamp(start.0.saturating_add(attempt.usage.wall_us));
                        self.run(worker, *job, attempt.task, start, end, true);
                    }
                }
            }
            Record::Restarted { ids, .. } => self.restarts += ids.len(),
            Record::JobForgotten { job } => self.note_job(*job),
            _ => {}
        }
        self.state.apply(at, &record);
    }

    /// The part of the past that is shown: from and to these times after the begin.
    pub(crate) fn window(&self, from: Option<Duration>, to: Option<Duration>) -> (Timestamp, Timestamp) {
        let begin = self.begin.unwrap_or(self.end);
        let start = from.map_or(begin, |from| begin.after(from));
        let end = to.map_or(self.end, |to| begin.after(to)).max(start);
        (start, end)
    }

    /// All jobs, those that were not forgotten as they are now.
    pub(crate) fn all_jobs(&self) -> impl Iterator<Item = (JobId, JobPast)> {
        let mut all: BTreeMap<JobId, JobPast> = BTreeMap::new();
        for (id, past) in &self.jobs {
            let JobPast { name, submitted, last_end, tasks, ended } = past;
            let past = JobPast {
                name: name.clone(),
                submitted: *submitted,
                last_end: *last_end,
                tasks: *tasks,
                ended: *ended,
            };
            all.insert(*id, past);
        }
        for id in self.state.jobs.keys() {
            all.extend(self.past_of(*id).map(|past| (*id, past)));
        }
        all.into_iter()
    }

    fn note_job(&mut self, id: JobId) {
        if let Some(past) = self.past_of(id) {
            self.jobs.insert(id, past);
        }
    }

    fn past_of(&self, id: JobId) -> Option<JobPast> {
        let job = self.state.jobs.get(&id)?;
        Some(JobPast {
            name: job.spec.name.clone(),
            submitted: job.submitted,
            last_end: job.last_end,
            tasks: job.ids.len(),
            ended: [job.finished.len(), job.failed.len(), job.canceled.len(), job.aborted.len()],
        })
    }

    fn run(
        &mut self,
        worker: WorkerId,
        id: JobId,
        task: TaskId,
        start: Timestamp,
        end: Timestamp,
        failed: bool,
    ) {
        if self.runs.len() >= RUNS_MAX {
            self.runs_left_out += 1;
            return;
        }
        let job = self.state.jobs.get(&id);
        let submit = job.and_then(|job| job.submits.get(job.submit_of(task)? as usize));
        let offered = self.workers.get(&worker).map_or_else(Default::default, |worker| worker.offered);
        let shape = Shape::new(submit.map_or(&[][..], |submit| &submit.task.requests));
        let cpus = shape.on(offered).cpus() as f32;
        let waited_us = submit.map_or(0, |submit| start.0.saturating_sub(submit.submitted.0));
        self.runs.push(Run { worker, job: id, task, start, end, cpus, failed, waited_us });
    }

    fn failure(&mut self, at: Timestamp, job: JobId, failure: &Failure) {
        if let (Some(worker), Some(start)) = (failure.worker, failure.started) {
            let end = Timestamp(start.0.saturating_add(failure.usage.wall_us));
            self.run(worker, job, failure.task, start, end, true);
        }
        self.failures_total += 1;
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(FailurePast {
                at,
                job,
                task: failure.task,
                worker: failure.worker,
                kind: failure.kind,
                error: failure.error.clone(),
            });
        }
    }
}
