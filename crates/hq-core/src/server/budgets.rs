//! Jobs with budgets: no task of one is handed out when its budget is spent, and whoever asks is told.

use std::time::Duration;

use hq_model::allocation::{node_hours, node_hours_told};
use hq_model::node_share::node_time_us;
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, TaskId, Timestamp};

use super::Effect;
use super::job::Job;
use super::machine::{Answer, Server};
use super::queue::ClassId;
use crate::client_messages::ClientResponse;
use crate::explanation::{Reason, ReasonKind};
use crate::record::{BudgetChange, Failure, Record};

impl Server {
    /// Gives jobs that were made with a budget another one.
    pub(super) fn set_budgets(
        &mut self,
        now: Timestamp,
        jobs: &Selector,
        budget: Option<Duration>,
        effects: &mut Vec<Effect>,
    ) -> Answer {
        let selected = self.select_jobs(jobs)?;
        let is_other = |id: &JobId| {
            let job = &self.state.jobs[id];
            job.spec.budget.is_some() && job.budget != budget
        };
        let changed: Vec<JobId> = selected.into_iter().filter(is_other).collect();
        for job in &changed {
            self.record(now, Record::Budget { job: *job, change: BudgetChange::Set(budget) }, effects);
        }
        Ok(ClientResponse::Jobs(changed))
    }

    /// Tasks that run, or have run, are to run again: what they used counts.
    pub(super) fn spend_on_lost(
        &mut self,
        now: Timestamp,
        id: JobId,
        ids: &IdSet,
        effects: &mut Vec<Effect>,
    ) {
        let Some(job) = self.state.jobs.get(&id).filter(|job| job.spec.budget.is_some()) else { return };
        let running = self.running.of_job(id).iter().filter(|(task, _)| ids.contains(**task));
        let time_of = |(task, run): (&TaskId, &super::running::Run)| {
            let submit = job.submit_of(*task)?;
            let wall = u64::try_from(now.since(run.since).as_micros()).unwrap_or(u64::MAX);
            Some(node_time_us(wall, job.share_on(&self.state.workers, run.worker, submit)))
        };
        let time = running.filter_map(time_of).fold(0u64, u64::saturating_add);
        self.spend(now, id, time, effects);
    }

    /// Attempts were ended with their tasks: what they used counts.
    pub(super) fn spend_on_ended(
        &mut self,
        now: Timestamp,
        id: JobId,
        attempts: &[Failure],
        effects: &mut Vec<Effect>,
    ) {
        let Some(job) = self.state.jobs.get(&id).filter(|job| job.spec.budget.is_some()) else { return };
        let times = attempts.iter().map(|attempt| job.node_time_of(&self.state.workers, attempt));
        let time = times.fold(0u64, u64::saturating_add);
        self.spend(now, id, time, effects);
    }

    fn spend(&mut self, now: Timestamp, job: JobId, time_us: u64, effects: &mut Vec<Effect>) {
        if time_us > 0 {
            let change = BudgetChange::Spent(Duration::from_micros(time_us));
            self.record(now, Record::Budget { job, change }, effects);
        }
    }

    /// True when the tasks of a class are of a job whose budget is spent.
    pub(super) fn is_spent(&self, class: ClassId) -> bool {
        let job = self.shared_by(class).and_then(|job| self.state.jobs.get(&job));
        job.is_some_and(Job::is_spent)
    }

    /// That no task of a job is started since its budget is spent.
    pub(super) fn budget_reason(&self, id: JobId) -> Option<Reason> {
        let job = self.state.jobs.get(&id).filter(|job| job.is_spent())?;
        Some(Reason::new(ReasonKind::Budget, spent(id, job)))
    }

    /// Why nothing of a job goes on, where its budget is spent and nothing of it runs any more.
    pub(super) fn why_spent(&self, id: JobId) -> Option<String> {
        let job = self.state.jobs.get(&id).filter(|job| job.is_spent())?;
        (job.leased.is_empty() && !job.queued.is_empty() && !job.is_draft()).then(|| spent(id, job))
    }
}

fn spent(id: JobId, job: &Job) -> String {
    let (budget, used) = (node_hours_told(job.budget.unwrap_or_default()), node_hours(job.node_time()));
    format!(
        "its budget of {budget} is spent: its tasks used {used}, and no more of them start; `hq job budget {id} \
         NODEHOURS` gives it more"
    )
}
