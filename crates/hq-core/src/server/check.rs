//! What must hold of the server machine after every step, recounted from scratch: for the simulator and tests.

use std::collections::BTreeMap;

use hq_model::{IdSet, TaskRef};

use super::machine::Server;
use super::readiness;
use crate::worker_messages::TemplateId;

impl Server {
    /// Checks the machine's own bookkeeping.
    ///
    /// # Errors
    /// Says which rule is broken, where.
    pub fn check(&self) -> Result<(), String> {
        self.each_task_is_in_one_set()?;
        self.running_tasks_are_leased()?;
        self.ready_tasks_are_queued()?;
        self.blocked_tasks_wait_for_something()?;
        self.leases_are_held()?;
        self.followers_are_leased_and_wait()?;
        self.nodes_are_in_order()?;
        self.shares_are_kept()?;
        self.drafts_have_makers()?;
        self.lingering_jobs_are_left()?;
        self.what_stays_is_handed_on()?;
        self.past_attempts_are_in_order()?;
        self.backlogs_are_in_order()
    }

    fn each_task_is_in_one_set(&self) -> Result<(), String> {
        for (id, job) in &self.state.jobs {
            let mut all = IdSet::new();
            let sets = [&job.queued, &job.finished, &job.failed, &job.canceled, &job.aborted];
            for set in sets.into_iter().chain(job.leased.values()) {
                if all.intersects(set) {
                    return Err(format!("job {id}: a task is in two states: {:?}", all.intersection(set)));
                }
                all.union_with(set);
            }
            if all != job.ids {
                return Err(format!("job {id}: the states hold {all:?}, the job {:?}", job.ids));
            }
            let counters = job.counters(self.running.count(*id));
            if counters.total() != job.ids.len() {
                return Err(format!("job {id}: counters {counters:?} for {} tasks", job.ids.len()));
            }
        }
        Ok(())
    }

    fn shares_are_kept(&self) -> Result<(), String> {
        for (id, job) in &self.state.jobs {
            let Some(max) = job.spec.share.and_then(|share| share.max) else { continue };
            let out: u64 = job.leased.values().map(IdSet::len).sum();
            if out > max {
                return Err(format!("job {id}: {out} tasks are handed out, its share allows {max}"));
            }
        }
        Ok(())
    }

    fn running_tasks_are_leased(&self) -> Result<(), String> {
        for (task, run) in self.running.all() {
            let job = self.state.jobs.get(&task.job);
            let job = job.ok_or_else(|| format!("task {task} runs, and its job is not there"))?;
            if !job.leased.get(&run.worker).is_some_and(|leased| leased.contains(task.task)) {
                return Err(format!("task {task} runs on worker {} without a lease", run.worker));
            }
            if job.instance_of(task.task) != run.instance {
                return Err(format!("task {task} runs as instance {}", run.instance));
            }
        }
        self.second_attempts_are_in_order()?;
        self.running.is_in_order()
    }

    fn ready_tasks_are_queued(&self) -> Result<(), String> {
        for (id, job) in &self.state.jobs {
            let mut ready: IdSet = job
                .delayed
                .keys()
                .copied()
                .filter(|task| self.readiness.is_delayed(TaskRef::new(*id, *task)))
                .collect();
            for submit in 0..job.submits.len() as u32 {
                let template = TemplateId { job: *id, submit };
                let queued = self.classes.get(&template).map(|class| self.queue.ready(*class, template));
                if let Some(queued) = queued {
                    ready.union_with(&queued);
                }
            }
            if job.is_draft() {
                if !ready.is_empty() || job.leased_count() > 0 {
                    return Err(format!("job {id}: {ready:?} of a draft can be placed"));
                }
                continue;
            }
            if let Some(blocked) = self.readiness.blocked(*id) {
                let blocked = &blocked.intersection(&job.queued);
                if ready.intersects(blocked) {
                    return Err(format!("job {id}: {ready:?} can be placed, {blocked:?} wait for others"));
                }
                ready.union_with(blocked);
            }
            if ready != job.queued {
                return Err(format!(
                    "job {id}: {ready:?} can be placed or wait, {:?} are queued",
                    job.queued
                ));
            }
        }
        Ok(())
    }

    fn blocked_tasks_wait_for_something(&self) -> Result<(), String> {
        for (id, job) in &self.state.jobs {
            if job.submits.iter().all(|submit| submit.dependencies.is_empty()) && job.deferred.is_empty() {
                continue;
            }
            let alive = job.alive();
            let mut held_back = IdSet::new();
            for submit in job.submits.iter().filter(|submit| submit.ids.intersects(&alive)) {
                held_back.union_with(&readiness::held_back(&self.state, *id, submit));
            }
            for task in job.deferred.keys().filter(|task| !self.unresolved(*id, **task).is_empty()) {
                held_back.insert(*task);
            }
            held_back = held_back.intersection(&alive);
            let blocked = self.readiness.blocked(*id).cloned().unwrap_or_default();
            if held_back != blocked {
                return Err(format!("job {id}: {held_back:?} have to wait for others, {blocked:?} do"));
            }
        }
        Ok(())
    }

    fn leases_are_held(&self) -> Result<(), String> {
        for (id, job) in &self.state.jobs {
            let seconds: BTreeMap<_, _> = (job.seconds.values().filter_map(|second| second.worker))
                .map(|worker| (worker, job.seconds_on(worker)))
                .collect();
            for (worker, leased) in job.leased.iter().chain(&seconds) {
                let Some(live) = self.live.get(worker) else {
                    return Err(format!("job {id}: tasks are leased to worker {worker}, which is gone"));
                };
                if live.connection.is_none() || live.reconcile_at.is_some() {
                    continue;
                }
                let mut held = IdSet::new();
                for (_, part) in live.held().range(super::requests::templates_of(*id)) {
                    held.union_with(&part.ids);
                }
                if !held.contains_all(leased) {
                    return Err(format!("job {id}: worker {worker} holds {held:?}, leased are {leased:?}"));
                }
            }
        }
        Ok(())
    }

    fn followers_are_leased_and_wait(&self) -> Result<(), String> {
        let expected = self.leased_and_blocked();
        let followers: BTreeMap<TaskRef, _> = self.followers.all().collect();
        if followers != expected {
            return Err(format!("leased and waiting are {expected:?}, followers {followers:?}"));
        }
        for (worker, live) in &self.live {
            for (template, held) in live.held() {
                if !held.ids.contains_all(&held.followers) {
                    return Err(format!("worker {worker}: followers {:?} among {held:?}", held.followers));
                }
                let known = self.followers.on_worker(*worker, template.job, &held.followers);
                let leased = self.state.jobs.get(&template.job).and_then(|job| job.leased.get(worker));
                let leased = leased.map_or_else(IdSet::new, |leased| leased.intersection(&held.followers));
                if known != leased {
                    return Err(format!(
                        "worker {worker}: {leased:?} are promised nothing, {known:?} follow"
                    ));
                }
            }
        }
        Ok(())
    }
}
