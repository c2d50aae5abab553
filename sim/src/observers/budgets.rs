//! No task of a job is handed out when the budget of the job is spent, by what the records before say.

use std::collections::BTreeMap;
use std::sync::Arc;

use hq_core::record::{BudgetChange, Record};
use hq_core::server::Effect;
use hq_core::server::state::State;
use hq_model::node_share::{node_share, node_time_us};
use hq_model::{IdSet, JobId, TaskId, TaskSpec, WorkerId, WorkerResources};

/// What jobs with budgets have used.
#[derive(Debug, Default)]
pub struct Budgets {
    jobs: BTreeMap<JobId, Known>,
    workers: BTreeMap<WorkerId, WorkerResources>,
    /// How often a budget was spent.
    pub spent: u64,
}

#[derive(Debug, Default)]
struct Known {
    limit_us: Option<u128>,
    used_us: u128,
    submits: Vec<(IdSet, Arc<TaskSpec>)>,
}

impl Known {
    fn is_spent(&self) -> bool {
        self.limit_us.is_some_and(|limit| self.used_us >= limit)
    }

    fn share(&self, task: TaskId, resources: Option<&WorkerResources>) -> u64 {
        let spec = self.submits.iter().find(|(ids, _)| ids.contains(task)).map(|(_, spec)| spec);
        spec.zip(resources).map_or(0, |(spec, resources)| node_share(&spec.requests, resources))
    }
}

impl Budgets {
    /// A server starts with this state: records that were not written are gone.
    pub fn restarted(&mut self, state: &State) {
        self.jobs.clear();
        for (id, job) in state.jobs.iter().filter(|(_, job)| job.spec.budget.is_some()) {
            let submits =
                job.submits.iter().map(|submit| (submit.ids.clone(), submit.task.clone())).collect();
            let limit_us = job.budget.map(|budget| budget.as_micros());
            self.jobs.insert(*id, Known { limit_us, used_us: job.spent_us.into(), submits });
        }
        let workers = state.workers.iter();
        self.workers = workers.map(|(id, worker)| (*id, worker.config.resources.clone())).collect();
    }

    /// Looks at what a server does.
    ///
    /// # Errors
    /// Names a job of which a task is handed out when its budget is spent.
    pub fn check(&mut self, effects: &[Effect]) -> Result<(), String> {
        for effect in effects {
            if let Effect::Persist { record, .. } = effect {
                record.parts().iter().try_for_each(|record| self.look(record))?;
            }
        }
        Ok(())
    }

    fn look(&mut self, record: &Record) -> Result<(), String> {
        match record {
            Record::JobOpened { job, spec, .. } | Record::Submitted { job, spec: Some(spec), .. }
                if spec.budget.is_some() =>
            {
                let limit_us = spec.budget.map(|budget| budget.as_micros());
                self.jobs.insert(*job, Known { limit_us, ..Known::default() });
            }
            Record::WorkerJoined { worker, config, .. } => {
                self.workers.insert(*worker, config.resources.clone());
            }
            _ => {}
        }
        let Some(known) = record.job().and_then(|job| self.jobs.get_mut(&job)) else { return Ok(()) };
        let was_spent = known.is_spent();
        match record {
            Record::Submitted { ids, task, .. } => known.submits.push((ids.clone(), task.clone())),
            Record::Budget { change: BudgetChange::Set(limit), .. } => {
                known.limit_us = limit.map(|limit| limit.as_micros());
            }
            Record::Budget { change: BudgetChange::Spent(time), .. } => known.used_us += time.as_micros(),
            Record::Finished { worker, span } => {
                let resources = self.workers.get(worker);
                for (task, (_, usage)) in span.ids.iter().zip(span.measures.iter()) {
                    known.used_us += u128::from(node_time_us(usage.wall_us, known.share(task, resources)));
                }
            }
            Record::Failed { failure, .. } => {
                let resources = failure.worker.and_then(|worker| self.workers.get(&worker));
                let share = known.share(failure.task, resources);
                known.used_us += u128::from(node_time_us(failure.usage.wall_us, share));
            }
            // Of attempts that end together each is rounded down by itself: that is less than a microsecond for each.
            Record::Leased { job, ids, .. } if known.is_spent() => {
                return Err(format!("job {job}: tasks {ids} are handed out, and its budget is spent"));
            }
            Record::LeasedNodes { job, task, .. } | Record::Speculated { job, task, .. }
                if known.is_spent() =>
            {
                return Err(format!("job {job}: task {task} is handed out, and its budget is spent"));
            }
            Record::JobForgotten { job } => {
                self.jobs.remove(job);
                return Ok(());
            }
            _ => {}
        }
        self.spent += u64::from(!was_spent && known.is_spent());
        Ok(())
    }
}
