//! The budget of a job: the node time that its tasks may use, and what they have used.
//!
//! An attempt takes its run time, times the part of its node that it asks for ([`node_share`]). It counts when it has ended: so
//! the records say it all, and it is the same after a restart.

use std::collections::BTreeMap;
use std::time::Duration;

use hq_model::WorkerId;
use hq_model::node_share::{WHOLE_NODE, node_share, node_time_us};

use super::WorkerState;
use super::job::Job;
use crate::record::{BudgetChange, Failure, FinishedSpan};

type Workers = BTreeMap<WorkerId, WorkerState>;

impl Job {
    /// True when its tasks have used all that they may use.
    pub fn is_spent(&self) -> bool {
        self.budget.is_some_and(|budget| u128::from(self.spent_us) >= budget.as_micros())
    }

    /// Node time that its attempts have used, of a job that was made with a budget.
    pub fn node_time(&self) -> Duration {
        Duration::from_micros(self.spent_us)
    }

    pub(super) fn change_budget(&mut self, change: BudgetChange) {
        match change {
            BudgetChange::Set(budget) => self.progress.budget = budget,
            BudgetChange::Spent(time) => self.spend(time.as_micros().try_into().unwrap_or(u64::MAX)),
        }
    }

    pub(super) fn spend_on_span(&mut self, workers: &Workers, worker: WorkerId, span: &FinishedSpan) {
        if self.spec.budget.is_none() {
            return;
        }
        for (submit, ids) in self.by_submit(&span.ids) {
            let share = self.share_on(workers, worker, submit);
            let of_these = span.ids.iter().zip(span.measures.iter()).filter(|(task, _)| ids.contains(*task));
            let wall = of_these.fold(0u64, |sum, (_, (_, usage))| sum.saturating_add(usage.wall_us));
            self.spend(node_time_us(wall, share));
        }
    }

    pub(super) fn spend_on(&mut self, workers: &Workers, attempt: &Failure) {
        if self.spec.budget.is_some() {
            self.spend(self.node_time_of(workers, attempt));
        }
    }

    /// Node time that an attempt has used, µs.
    pub(in crate::server) fn node_time_of(&self, workers: &Workers, attempt: &Failure) -> u64 {
        let Some((worker, submit)) = attempt.worker.zip(self.submit_of(attempt.task)) else { return 0 };
        node_time_us(attempt.usage.wall_us, self.share_on(workers, worker, submit))
    }

    /// The part of the node of a worker that tasks of a submit take; a whole one where nobody knows what that has.
    pub(in crate::server) fn share_on(&self, workers: &Workers, worker: WorkerId, submit: u32) -> u64 {
        let requests = &self.submits[submit as usize].task.requests;
        let resources = workers.get(&worker).map(|worker| &worker.config.resources);
        resources.map_or(WHOLE_NODE, |resources| node_share(requests, resources))
    }

    fn spend(&mut self, time_us: u64) {
        self.progress.spent_us = self.progress.spent_us.saturating_add(time_us);
    }
}
