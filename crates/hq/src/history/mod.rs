//! What a journal tells of the past, as `hq journal report` shows it: who was there, what ran where and
//! when, what it waited for, what it used, what failed.

mod bars;
mod chains;
mod columns;
mod document;
mod submits;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use hq_client::options::values::When;
use hq_core::cause::{self, FailureCause};
use hq_core::record::{Failure, Record};
use hq_core::server::state::State;
use hq_model::{JobId, TaskId, Timestamp, Usage, WorkerId, WorkerResources};

use crate::accounts::{Accounts, Gathered, Lanes, Step};
use crate::efficiency::Kinds;
use submits::Submits;

/// Failures that are shown one by one.
const FAILURES_MAX: usize = 200;

/// The past, while it is read.
#[derive(Default)]
pub(crate) struct History {
    window: (Option<When>, Option<When>),
    state: State,
    gathered: Gathered,
    starts: Vec<Timestamp>,
    offers: BTreeMap<WorkerId, WorkerResources>,
    jobs: BTreeMap<JobId, JobPast>,
    submits: Submits,
    causes: BTreeMap<JobId, Vec<FailureCause>>,
    failures: Vec<FailurePast>,
    failures_total: u64,
    restarts: u64,
    kinds: Kinds,
}

/// The past that is shown, with everything that can be said of it.
pub(crate) struct Past {
    history: History,
    accounts: Accounts,
    steps: Vec<Step>,
    // The lane of each attempt, in the order of the attempts.
    lanes: Vec<u32>,
}

/// A job.
#[derive(Clone)]
struct JobPast {
    name: String,
    submitted: Timestamp,
    last_end: Timestamp,
    tasks: u64,
    // Tasks that finished, failed, were canceled or aborted.
    ended: [u64; 4],
}

/// A failure.
struct FailurePast {
    at: Timestamp,
    job: JobId,
    task: TaskId,
    worker: Option<WorkerId>,
    kind: &'static str,
    error: String,
}

impl History {
    /// The part from and to these moments, or times after the first start of the server.
    pub(crate) fn of(from: Option<When>, to: Option<When>) -> History {
        History { window: (from, to), ..History::default() }
    }

    /// Takes the next record.
    pub(crate) fn take(&mut self, at: Timestamp, record: &Record) {
        self.gathered.take(at, record);
        self.observe(at, record);
        self.state.apply(at, record);
    }

    /// Nothing more comes.
    ///
    /// # Errors
    /// When the window holds nothing: from when to when something is known.
    pub(crate) fn close(mut self) -> Result<Past, (Timestamp, Timestamp)> {
        self.gathered.close();
        let (from, to) = self.moments();
        let latest = self.gathered.latest;
        if to <= from || (self.window.0.is_some() && from >= latest) {
            return Err((self.begin(), latest));
        }
        let to = to.min(latest);
        let steps = self.gathered.waiting_steps();
        let accounts = Accounts::new(&mut self.gathered, from, to.max(from));
        let attempts = &mut self.gathered.attempts;
        attempts.sort_unstable_by_key(|one| (one.worker, one.start, one.job, one.task));
        let mut lanes = Lanes::default();
        let lanes = attempts.iter().map(|attempt| lanes.lane(attempt)).collect();
        Ok(Past { history: self, accounts, steps, lanes })
    }

    // From when to when is shown, as far as is known now.
    fn moments(&self) -> (Timestamp, Timestamp) {
        let begin = self.begin();
        let from = self.window.0.map_or(begin, |from| from.of(begin).max(begin));
        (from, self.window.1.map_or(Timestamp(u64::MAX), |to| to.of(begin)))
    }

    fn begin(&self) -> Timestamp {
        let begin = self.gathered.begin();
        self.gathered.first_submit.map_or(begin, |first| first.min(begin))
    }

    fn is_shown(&self, at: Timestamp) -> bool {
        let (from, to) = self.moments();
        at >= from && at <= to
    }

    fn observe(&mut self, at: Timestamp, record: &Record) {
        match record {
            Record::Together { records } => records.iter().for_each(|record| self.observe(at, record)),
            Record::ServerStarted { .. } => self.starts.push(at),
            Record::WorkerJoined { worker, config, .. } => {
                self.offers.insert(*worker, config.resources.clone());
            }
            Record::Submitted { job, ids, dependencies, task, .. } => {
                self.submits.add(*job, at, ids, dependencies, task);
            }
            Record::Finished { worker, span } | Record::DetailKept { worker, span, .. } => {
                for (task, (start, usage)) in span.ids.iter().zip(span.measures.iter()) {
                    self.used(span.job, task, Some(*worker), start, &usage, false);
                }
            }
            Record::Failed { job, failure } | Record::FailureKept { job, failure } => {
                self.failure(at, *job, failure);
            }
            Record::Restarted { ids, .. } if self.is_shown(at) => self.restarts += ids.len(),
            Record::JobForgotten { job } => {
                if let Some(past) = self.past_of(*job) {
                    self.jobs.insert(*job, past);
                }
            }
            _ => {}
        }
    }

    fn used(
        &mut self,
        job: JobId,
        task: TaskId,
        worker: Option<WorkerId>,
        start: Timestamp,
        usage: &Usage,
        has_failed: bool,
    ) {
        if !self.is_shown(Timestamp(start.0.saturating_add(usage.wall_us))) {
            return;
        }
        if let Some(submit) = self.submits.of(job, task) {
            let offer = worker.and_then(|worker| self.offers.get(&worker));
            self.kinds.add(job, &submit.task, has_failed, Some((usage, offer)));
        }
    }

    fn failure(&mut self, at: Timestamp, job: JobId, failure: &Failure) {
        if let Some(start) = failure.started {
            self.used(job, failure.task, failure.worker, start, &failure.usage, true);
        }
        if !self.is_shown(at) {
            return;
        }
        self.failures_total += 1;
        cause::note(self.causes.entry(job).or_default(), failure);
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(FailurePast {
                at,
                job,
                task: failure.task,
                worker: failure.worker,
                kind: failure.kind.word(),
                error: cause::shortened(&failure.error),
            });
        }
    }

    // All jobs, those that were not forgotten as they are now.
    fn all_jobs(&self) -> BTreeMap<JobId, JobPast> {
        let known = self.state.jobs.keys().filter_map(|id| Some((*id, self.past_of(*id)?)));
        let forgotten = self.jobs.iter().map(|(id, past)| (*id, past.clone()));
        forgotten.chain(known).collect()
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
}
