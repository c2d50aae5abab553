//! When the budgets of jobs were spent. As in the server, an attempt counts when it has ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hq_core::record::{BudgetChange, Failure, FinishedSpan, JobProgress};
use hq_model::job::JobSpec;
use hq_model::node_share::{WHOLE_NODE, node_share, node_time_us};
use hq_model::worker::WorkerConfig;
use hq_model::{IdSet, JobId, TaskId, TaskSpec, Timestamp, WorkerId, WorkerResources};

/// A budget was spent, or is not spent any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) at: Timestamp,
    pub(super) job: JobId,
    pub(super) is_spent: bool,
}

/// Jobs with budgets, as records tell of them.
#[derive(Default)]
pub(super) struct Budgets {
    jobs: BTreeMap<JobId, Budget>,
    workers: BTreeMap<WorkerId, WorkerResources>,
    turns: Vec<Turn>,
}

#[derive(Default)]
struct Budget {
    limit: Option<Duration>,
    spent_us: u64,
    is_spent: bool,
    submits: Vec<(IdSet, Arc<TaskSpec>)>,
}

impl Budgets {
    pub(super) fn made(&mut self, job: JobId, spec: &JobSpec) {
        if let Some(limit) = spec.budget {
            self.jobs.insert(job, Budget { limit: Some(limit), ..Budget::default() });
        }
    }

    pub(super) fn submitted(&mut self, job: JobId, ids: &IdSet, task: &Arc<TaskSpec>) {
        if let Some(budget) = self.jobs.get_mut(&job) {
            budget.submits.push((ids.clone(), task.clone()));
        }
    }

    pub(super) fn joined(&mut self, worker: WorkerId, config: &WorkerConfig) {
        self.workers.insert(worker, config.resources.clone());
    }

    pub(super) fn finished(&mut self, at: Timestamp, worker: WorkerId, span: &FinishedSpan) {
        let Some(budget) = self.jobs.get(&span.job) else { return };
        let attempts = span.ids.iter().zip(span.measures.iter());
        let times = attempts.map(|(task, (_, usage))| self.time_of(budget, worker, task, usage.wall_us));
        let time = times.fold(0, u64::saturating_add);
        self.spend(at, span.job, time);
    }

    pub(super) fn failed(&mut self, at: Timestamp, job: JobId, failure: &Failure) {
        let (Some(budget), Some(worker)) = (self.jobs.get(&job), failure.worker) else { return };
        let time = self.time_of(budget, worker, failure.task, failure.usage.wall_us);
        self.spend(at, job, time);
    }

    pub(super) fn changed(&mut self, at: Timestamp, job: JobId, change: BudgetChange) {
        match change {
            BudgetChange::Spent(time) => self.spend(at, job, time.as_micros().try_into().unwrap_or(u64::MAX)),
            BudgetChange::Set(limit) => {
                if let Some(budget) = self.jobs.get_mut(&job) {
                    budget.limit = limit;
                    self.look(at, job);
                }
            }
        }
    }

    /// What a compaction left of a job.
    pub(super) fn kept(&mut self, at: Timestamp, job: JobId, progress: &JobProgress) {
        if let Some(budget) = self.jobs.get_mut(&job) {
            (budget.limit, budget.spent_us) = (progress.budget, progress.spent_us);
            self.look(at, job);
        }
    }

    /// When budgets were spent or changed, in order.
    pub(super) fn turns(self) -> Vec<Turn> {
        self.turns
    }

    fn time_of(&self, budget: &Budget, worker: WorkerId, task: TaskId, wall_us: u64) -> u64 {
        let spec = budget.submits.iter().find(|(ids, _)| ids.contains(task)).map(|(_, spec)| spec);
        let share =
            self.workers.get(&worker).zip(spec).map(|(offered, spec)| node_share(&spec.requests, offered));
        node_time_us(wall_us, share.unwrap_or(WHOLE_NODE))
    }

    fn spend(&mut self, at: Timestamp, job: JobId, time_us: u64) {
        if let Some(budget) = self.jobs.get_mut(&job) {
            budget.spent_us = budget.spent_us.saturating_add(time_us);
            self.look(at, job);
        }
    }

    fn look(&mut self, at: Timestamp, job: JobId) {
        let Some(budget) = self.jobs.get_mut(&job) else { return };
        let is_spent = budget.limit.is_some_and(|limit| u128::from(budget.spent_us) >= limit.as_micros());
        if is_spent != budget.is_spent {
            budget.is_spent = is_spent;
            self.turns.push(Turn { at, job, is_spent });
        }
    }
}
