//! Running tasks that put themselves back behind others.

use std::collections::{BTreeMap, VecDeque};

use hq_model::dependency::{After, Mapping};
use hq_model::{IdSet, Instance, JobId, TaskRef, Timestamp, WorkerId};

use super::Effect;
use super::machine::{Answer, Server};
use crate::client_messages::{ClientResponse, RequestError};
use crate::limits::{DEFER_SEARCH_MAX, DEPENDENCIES_MAX, NAMED_TASKS_MAX};
use crate::record::Record;
use crate::worker_messages::TemplateId;

impl Server {
    /// A running task waits for these, and then runs again as another instance; its present one is ended.
    pub(super) fn defer(
        &mut self,
        now: Timestamp,
        task: TaskRef,
        instance: Instance,
        after: &[After],
        effects: &mut Vec<Effect>,
    ) -> Answer {
        if self.is_stopping() {
            return Err(RequestError::Stopping);
        }
        let ids = IdSet::single(task.task);
        self.check_speaker(task, instance)?;
        if after.is_empty() || after.len() > DEPENDENCIES_MAX {
            let text = format!("A task is put back behind 1 to {DEPENDENCIES_MAX} jobs or sets of tasks.");
            return Err(RequestError::Invalid(text));
        }
        let after = after.iter().map(|after| match after.mapping {
            Mapping::All => self.after_of(task.job, &ids, after),
            Mapping::Window(_) => {
                Err(RequestError::Invalid("One task cannot wait element by element.".into()))
            }
        });
        let after: Vec<After> = after.collect::<Result<_, _>>()?;
        self.check_not_behind_itself(task, &after)?;
        let parts = self.state.jobs[&task.job].by_last_instance(&ids);
        let last = parts.last().map_or(instance, |(last, _)| *last);
        self.note_parting(task);
        self.end_early(now, task.job, &ids, effects);
        let instance = Instance(last.0 + 1);
        let record = Record::Deferred { job: task.job, task: task.task, instance, after };
        self.record(now, record, effects);
        self.waits.defer(&self.state, task);
        if !self.waits.blocked(task.job).is_some_and(|blocked| blocked.contains(task.task)) {
            self.make_ready(task.job, &ids);
        }
        Ok(ClientResponse::Done)
    }

    // The next attempt starts when those that are there now have ended.
    fn note_parting(&mut self, task: TaskRef) {
        let holders = self.live.iter().filter(|(_, live)| live.has(task));
        self.parting.extend(holders.map(|(worker, _)| (task, *worker)));
    }

    /// Forgets attempts that have ended: what runs next may start.
    pub(super) fn end_parting(&mut self) {
        let live = &self.live;
        let has_ended =
            |(task, worker): &(TaskRef, WorkerId)| !live.get(worker).is_some_and(|live| live.has(*task));
        let ended: Vec<(TaskRef, WorkerId)> = self.parting.iter().copied().filter(has_ended).collect();
        for attempt in ended {
            self.parting.remove(&attempt);
            let TaskRef { job, task } = attempt.0;
            let submit = self.state.jobs.get(&job).and_then(|job| job.submit_of(task));
            let template = submit.map(|submit| TemplateId { job, submit });
            self.changed_classes.extend(template.and_then(|template| self.classes.get(&template)));
        }
    }

    /// Only the present attempt of a task speaks for it.
    pub(super) fn check_speaker(&self, task: TaskRef, instance: Instance) -> Result<(), RequestError> {
        let job = self.state.jobs.get(&task.job).ok_or(RequestError::NoJob(task.job))?;
        let state = job.state_of(task.task).ok_or(RequestError::NoTask(task.job, task.task))?;
        let second = job.seconds.get(&task.task).map(|second| second.instance);
        let is_leased = job.leased.values().any(|leased| leased.contains(task.task));
        if is_leased && (job.instance_of(task.task) == instance || second == Some(instance)) {
            return Ok(());
        }
        let now = if state.is_terminal() {
            format!("any more: it is {state}")
        } else if job.instance_of(task.task) > instance {
            format!("any more: instance {} is its present one", job.instance_of(task.task))
        } else {
            "now".to_owned()
        };
        Err(RequestError::NotRunning { task, instance, now })
    }

    // Nothing of what it is to wait for may wait for it, or for something that does.
    fn check_not_behind_itself(&self, goal: TaskRef, after: &[After]) -> Result<(), RequestError> {
        let mut search = Search { goal, from: BTreeMap::new(), next: VecDeque::new() };
        for after in after {
            if let Some(job) = self.state.jobs.get(&after.job) {
                self.go_on(&mut search, goal, after.job, after.tasks.as_ref().unwrap_or(&job.ids))?;
            }
        }
        while let Some(task) = search.next.pop_front() {
            for (job, open) in self.unresolved(task.job, task.task) {
                self.go_on(&mut search, task, job, &open)?;
            }
        }
        Ok(())
    }

    // `by` waits for these tasks.
    fn go_on(&self, search: &mut Search, by: TaskRef, job: JobId, ids: &IdSet) -> Result<(), RequestError> {
        let goal = search.goal;
        if job == goal.job && ids.contains(goal.task) {
            return Err(RequestError::Cycle(goal.job, search.path(by)));
        }
        // Those that wait for nothing lead nowhere.
        let Some(blocked) = self.waits.blocked(job) else { return Ok(()) };
        for task in ids.intersection(blocked).iter() {
            let task = TaskRef::new(job, task);
            if search.from.contains_key(&task) {
                continue;
            }
            if search.from.len() >= DEFER_SEARCH_MAX {
                let text = format!(
                    "More than {DEFER_SEARCH_MAX} waiting tasks would go before task {goal}: whether one of them waits \
                     for it is not looked for. Put it back behind fewer."
                );
                return Err(RequestError::Invalid(text));
            }
            search.from.insert(task, by);
            search.next.push_back(task);
        }
        Ok(())
    }
}

// A search for a task among what others wait for.
struct Search {
    goal: TaskRef,
    // Which task led to each that was found.
    from: BTreeMap<TaskRef, TaskRef>,
    next: VecDeque<TaskRef>,
}

impl Search {
    // Who waits for whom, from the task that is looked for to itself; the last but one is `by`.
    fn path(&self, by: TaskRef) -> String {
        let shown = |task: TaskRef| {
            if task.job == self.goal.job { task.task.to_string() } else { task.to_string() }
        };
        let mut words = vec![shown(self.goal), shown(by)];
        let mut at = by;
        while let Some(before) = self.from.get(&at) {
            at = *before;
            words.push(shown(at));
        }
        if words.len() > NAMED_TASKS_MAX {
            words.truncate(NAMED_TASKS_MAX);
            words.extend(["…".to_owned(), shown(self.goal)]);
        }
        words.reverse();
        words.join(" -> ")
    }
}
