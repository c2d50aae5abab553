//! Why a task waits, said of the present: what goes before it, and what each worker lacks.

use hq_model::selector::Selector;
use hq_model::{
    AmountRequest, JobId, Request, TaskId, TaskRef, TaskState, Timestamp, WorkerResources, duration,
};

use super::capacity::Needs;
use super::live::{LiveWorker, choices};
use super::machine::{Answer, Server};
use super::queue::ClassId;
use super::requests::shown_state;
use crate::client_messages::{ClientResponse, Reason, RequestError};
use crate::limits::{EXPLAINED_WORKERS_MAX, NAMED_TASKS_MAX};
use crate::worker_messages::TemplateId;

impl Server {
    /// Says what a task waits for.
    pub(super) fn explain(&self, now: Timestamp, jobs: &Selector, task: TaskId) -> Answer {
        let [id] = self.select_jobs(jobs)?[..] else {
            return Err(RequestError::Invalid("One job at a time can be explained.".into()));
        };
        let job = &self.state.jobs[&id];
        let (Some(state), Some(submit)) = (job.state_of(task), job.submit_of(task)) else {
            return Err(RequestError::NoTask(id, task));
        };
        let whole = TaskRef::new(id, task);
        let run = self.running.get(&id).and_then(|running| running.get(&task));
        let state = shown_state(state, run.is_some());
        let everywhere = |text: String| vec![Reason { worker: None, text }];
        let leased = job.leased.iter().find(|(_, ids)| ids.contains(task)).map(|(worker, _)| *worker);
        let delayed = self.delays.iter().find(|(_, delayed)| *delayed == whole);
        let reasons = match (state, run, leased, delayed) {
            (TaskState::Waiting, _, Some(worker), _) => vec![Reason {
                worker: Some(worker),
                text: "it is handed to this worker and starts there as soon as it fits".into(),
            }],
            (TaskState::Waiting, _, _, Some((at, _))) => {
                everywhere(format!("it failed and is tried again in {}", duration::format(at.since(now))))
            }
            (TaskState::Waiting, ..) if self.waits.blocked(id).is_some_and(|ids| ids.contains(task)) => {
                self.dependency_reasons(id, task)
            }
            (TaskState::Waiting, ..) => self.reasons(now, TemplateId { job: id, submit }, task),
            (TaskState::Running, Some(run), ..) => {
                vec![Reason { worker: Some(run.worker), text: "it runs there".into() }]
            }
            (ended, ..) => everywhere(format!("it does not wait: it is {ended}")),
        };
        Ok(ClientResponse::Explained { task: whole, state, reasons })
    }

    // Of a task that waits for others.
    fn dependency_reasons(&self, id: JobId, task: TaskId) -> Vec<Reason> {
        let mut texts = Vec::new();
        for (job, open) in self.unresolved(id, task) {
            for task in open.iter().take(NAMED_TASKS_MAX) {
                let whole = TaskRef::new(job, task);
                let runs = self.running.get(&job).is_some_and(|running| running.contains_key(&task));
                let state = self.state.task_state(whole).map(|state| shown_state(state, runs));
                let state = state.map_or_else(String::new, |state| format!(", which is {state}"));
                texts.push(format!("it waits for task {whole}{state}"));
            }
            let more = open.len().saturating_sub(NAMED_TASKS_MAX as u64);
            if more > 0 {
                texts.push(format!("it waits for {more} more tasks of job {job}"));
            }
            if open.is_empty() {
                texts.push(format!("it waits for job {job}, which is open; `hq job close {job}` closes it"));
            }
        }
        for file in self.files_missing(id, task).iter().take(NAMED_TASKS_MAX) {
            texts.push(format!("it waits for the file {}", String::from_utf8_lossy(file)));
        }
        texts.into_iter().map(|text| Reason { worker: None, text }).collect()
    }

    // Of a task that is ready and that nobody has.
    fn reasons(&self, now: Timestamp, template: TemplateId, task: TaskId) -> Vec<Reason> {
        let everywhere = |text: String| Reason { worker: None, text };
        let Some(class) = self.classes.get(&template) else {
            return vec![everywhere("it is not ready yet".into())];
        };
        let requests = &self.queue.key(*class).requests;
        let able = |live: &&LiveWorker| !choices(&live.resources, requests).is_empty();
        let mut reasons = Vec::new();
        if self.live.is_empty() {
            reasons.push(everywhere("no worker is connected".into()));
        } else if !self.live.values().any(|live| able(&live)) {
            let requests: Vec<String> = requests.iter().map(ToString::to_string).collect();
            reasons.push(everywhere(format!(
                "no connected worker could ever run it; it needs one with {}",
                requests.join(", or one with ")
            )));
        }
        if self.share_room(*class) == 0 {
            let max = self.share_of(template.job).max.unwrap_or_default();
            reasons
                .push(everywhere(format!("its job has {max} tasks handed out, as many as its share allows")));
        }
        match self.ahead(*class, template, task) {
            0 => {}
            1 => reasons.push(everywhere("1 ready task goes before it, by priority, weight or age".into())),
            ahead => reasons
                .push(everywhere(format!("{ahead} ready tasks go before it, by priority, weight or age"))),
        }
        for (worker, live) in self.live.iter().take(EXPLAINED_WORKERS_MAX) {
            reasons.push(Reason { worker: Some(*worker), text: verdict(now, live, requests) });
        }
        if self.live.len() > EXPLAINED_WORKERS_MAX {
            let more = self.live.len() - EXPLAINED_WORKERS_MAX;
            reasons.push(everywhere(format!("{more} more workers are not shown")));
        }
        reasons
    }

    // How many ready tasks come earlier in the order.
    fn ahead(&self, class: ClassId, template: TemplateId, task: TaskId) -> u64 {
        let earlier = self.queue.in_order().take_while(|other| *other != class);
        let classes: u64 = earlier.map(|other| self.queue.count(other)).sum();
        let own: u64 = self.queue.ready_before(class, template, task);
        classes + own
    }
}

fn verdict(now: Timestamp, live: &LiveWorker, requests: &[Request]) -> String {
    if live.connection.is_none() {
        return "it is disconnected, and may come back".into();
    }
    if live.is_draining {
        return "it finishes what runs there and takes nothing new".into();
    }
    let choices = choices(&live.resources, requests);
    if choices.is_empty() {
        let lacks: Vec<String> = requests.iter().map(|request| lack(&live.resources, request)).collect();
        return lacks.join("; as another variant: ");
    }
    let left = live.life_left(now);
    let lives = |choice: &&super::live::Choice| left.is_none_or(|left| left >= choice.time_request);
    let Some(choice) = choices.iter().find(lives) else {
        let left = duration::format(left.unwrap_or_default());
        return format!(
            "it ends in {left}, and the task asks for {}",
            duration::format(choices[0].time_request)
        );
    };
    if live.is_idle_and_picky() {
        let percent = f64::from(live.min_utilization) / 100.0;
        return format!("it is idle, and starts nothing before {percent} % of its CPUs would be used");
    }
    if choices.iter().filter(lives).any(|choice| live.capacity.room(&choice.needs) > 0) {
        return "it has room, which tasks before this one take".into();
    }
    busy(live, &choice.needs)
}

fn busy(live: &LiveWorker, needs: &Needs) -> String {
    let (pool, free, wanted) = live.capacity.scarcest(needs);
    let Some(pool) = live.resources.pools.get(pool) else { return "it is busy".into() };
    format!("{}: {free} of {} are free, the task needs {wanted}", pool.name, pool.kind.total())
}

// The first thing that a worker does not have for a request.
fn lack(resources: &WorkerResources, request: &Request) -> String {
    for resource in &request.resources {
        let Some(pool) = resources.giver(&resource.name) else {
            return format!("it has no {}", resource.name);
        };
        let total = resources.pools[pool].kind.total();
        if let AmountRequest::Some(amount, _) = resource.amount
            && amount > total
        {
            return format!("{}: it has {total}, the task needs {amount}", resource.name);
        }
    }
    "it cannot run such tasks".into()
}

#[cfg(test)]
mod tests {
    use hq_model::resources::parse_pool;

    use super::*;

    #[test]
    fn what_a_worker_lacks_is_named() {
        let pools = vec![parse_pool("cpus", "4").expect("a pool")];
        let resources = WorkerResources::new(pools, Vec::new()).expect("resources");
        let request = |name: &str, amount: &str| {
            let amount = hq_model::request::parse_amount(name, amount).expect("an amount");
            let resources = vec![hq_model::ResourceRequest { name: name.into(), amount }];
            Request { resources, ..Request::default() }
        };
        assert_eq!(lack(&resources, &request("cpus", "8")), "cpus: it has 4, the task needs 8");
        assert_eq!(lack(&resources, &request("gpus", "1")), "it has no gpus");
    }
}
