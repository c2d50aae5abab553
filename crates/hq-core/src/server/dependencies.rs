//! What tasks wait for: what a submit may ask for, and what follows when it ends.

use hq_model::dependency::{After, Condition, Dependencies, Edges, Mapping, find_cycle};
use hq_model::{IdSet, JobId, TaskId, TaskRef, TaskState, Timestamp};

use super::Effect;
use super::cycles::cycle_through;
use super::job::Job;
use super::machine::Server;
use super::waits::Ending;
use crate::client_messages::RequestError;
use crate::limits::{DEPENDENCIES_MAX, NAMED_TASKS_MAX};
use crate::record::Record;

impl Server {
    /// Checks what new tasks are to wait for, and says it in the form that is kept.
    pub(super) fn dependencies_of(
        &self,
        job: JobId,
        ids: &IdSet,
        wanted: &Dependencies,
    ) -> Result<Dependencies, RequestError> {
        if wanted.after.len() > DEPENDENCIES_MAX {
            let text = format!("A submit may wait for {DEPENDENCIES_MAX} jobs or arrays at most.");
            return Err(RequestError::Invalid(text));
        }
        let after =
            wanted.after.iter().map(|after| self.after_of(job, ids, after)).collect::<Result<_, _>>()?;
        self.check_edges(job, ids, &wanted.edges)?;
        if wanted.files.len() > DEPENDENCIES_MAX {
            let text = format!("A submit may wait for {DEPENDENCIES_MAX} files at most.");
            return Err(RequestError::Invalid(text));
        }
        if let Some(file) = wanted.files.iter().find(|file| file.first() != Some(&b'/') || file.contains(&0))
        {
            let file = String::from_utf8_lossy(file);
            return Err(RequestError::Invalid(format!("The file `{file}` is not an absolute path.")));
        }
        let dependencies = Dependencies { after, files: wanted.files.clone(), edges: wanted.edges.clone() };
        if self.waits.is_waited_for_as_a_whole(job)
            && let Some(way) = cycle_through(&self.state, job, &dependencies)
        {
            let way: Vec<String> = way.iter().map(|job| format!("job {job}")).collect();
            return Err(RequestError::Cycle(job, way.join(" -> ")));
        }
        Ok(dependencies)
    }

    pub(super) fn after_of(&self, own: JobId, ids: &IdSet, after: &After) -> Result<After, RequestError> {
        let mut after = self.looked_up(after)?;
        let job = self.state.jobs.get(&after.job).ok_or(RequestError::NoJob(after.job))?;
        if after.job == own && after.tasks.is_none() {
            return Err(RequestError::Invalid(format!(
                "Tasks of job {own} cannot wait for the whole of it; name its tasks, as in {own}@0-9."
            )));
        }
        if after.mapping != Mapping::All {
            let tasks = after.tasks.get_or_insert_with(|| job.ids.clone());
            if tasks.len() != ids.len() {
                return Err(RequestError::Invalid(format!(
                    "Element by element, both sides need as many tasks: {} are waited for in job {}, {} wait.",
                    tasks.len(),
                    after.job,
                    ids.len()
                )));
            }
        }
        if let Some(tasks) = &after.tasks {
            if let Some(task) = tasks.difference(&job.ids).first() {
                return Err(RequestError::NoTask(after.job, task));
            }
            if tasks.is_empty() {
                return Err(RequestError::Invalid(format!("No task of job {} is named.", after.job)));
            }
        }
        if after.condition == Condition::Success {
            let bad = unsuccessful(job, after.tasks.as_ref().unwrap_or(&job.ids));
            if let Some((state, ids)) = bad {
                return Err(hopeless(after.job, &ids, state));
            }
        }
        Ok(after)
    }

    fn check_edges(&self, id: JobId, ids: &IdSet, edges: &Edges) -> Result<(), RequestError> {
        if edges.is_empty() {
            return Ok(());
        }
        if edges.lists() as u64 != ids.len() {
            let (lists, tasks) = (edges.lists(), ids.len());
            let text = format!("Dependencies of {lists} tasks were given for {tasks} tasks.");
            return Err(RequestError::Invalid(text));
        }
        let job = self.state.jobs.get(&id);
        let mut is_ordered = true;
        for (task, list) in ids.iter().zip(edges.iter()) {
            for target in list {
                if ids.contains(*target) {
                    is_ordered &= *target < task;
                    continue;
                }
                match job.and_then(|job| job.state_of(*target)) {
                    None => return Err(RequestError::NoTask(id, *target)),
                    Some(TaskState::Waiting | TaskState::Running | TaskState::Finished) => {}
                    Some(state) => return Err(hopeless(id, &IdSet::single(*target), state)),
                }
            }
        }
        match (!is_ordered).then(|| find_cycle(ids, edges)).flatten() {
            None => Ok(()),
            Some(cycle) => Err(RequestError::Cycle(id, named(&cycle, " -> "))),
        }
    }

    /// Takes in the ends of tasks: those that waited for them become ready, or will never run.
    pub(super) fn resolve_dependencies(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        while let Some((ending, outcome)) = self.waits.next_ending(&self.state) {
            for (job, ids) in outcome.doomed {
                let reason = self.because_of(&ending, ids.len());
                self.end_early(now, job, &ids, effects);
                self.record(now, Record::Aborted { job, ids, reason }, effects);
                self.forget_if_over(job);
            }
            for (job, ids) in outcome.ready {
                let ids = self.not_followers(job, ids);
                self.make_ready(job, &ids);
            }
        }
    }

    fn because_of(&self, ending: &Ending, count: u64) -> String {
        let it = if count == 1 { "this task waits" } else { "these tasks wait" };
        let what = match ending.state {
            TaskState::Failed => "failed",
            TaskState::Canceled => "was canceled",
            _ => "was aborted",
        };
        let others = ending.ids.len().saturating_sub(1);
        match ending.ids.first().map(|task| TaskRef::new(ending.job, task)) {
            Some(task) if others == 0 => format!("Task {task} {what}, for which {it}."),
            Some(task) => format!("Task {task} {what}, and {others} more, for which {it}."),
            None => format!("Job {} ended without success, for which {it}.", ending.job),
        }
    }

    /// How many tasks a task was to wait for, whether they have ended or not.
    pub(super) fn dependency_count(&self, id: JobId, task: TaskId) -> u64 {
        let Some(job) = self.state.jobs.get(&id) else { return 0 };
        let Some(submit) = job.submit_of(task).map(|submit| &job.submits[submit as usize]) else { return 0 };
        let Some(place) = submit.ids.rank(task) else { return 0 };
        let of_after = |after: &After| {
            let tasks = after.tasks.as_ref().or_else(|| Some(&self.state.jobs.get(&after.job)?.ids));
            match (tasks, after.mapping) {
                (None, _) => 0,
                (Some(tasks), Mapping::All) => tasks.len(),
                (Some(tasks), Mapping::Window(size)) => {
                    let size = u64::from(size);
                    tasks.slice(place.saturating_sub(size), place.saturating_add(size)).len()
                }
            }
        };
        let edges = submit.dependencies.edges.of(place as usize).len() as u64;
        edges + submit.dependencies.after.iter().map(of_after).sum::<u64>()
    }

    /// What a task that has not started waits for, told from the durable state alone: tasks that have not ended as
    /// they must, and jobs that are open.
    pub(super) fn unresolved(&self, id: JobId, task: TaskId) -> Vec<(JobId, IdSet)> {
        let Some(job) = self.state.jobs.get(&id) else { return Vec::new() };
        let mut found = Vec::new();
        let Some(submit) = job.submit_of(task).map(|submit| &job.submits[submit as usize]) else {
            return found;
        };
        let Some(place) = submit.ids.rank(task) else { return found };
        let targets: IdSet = submit.dependencies.edges.of(place as usize).iter().copied().collect();
        let open = targets.intersection(&job.ids).difference(&job.finished).difference(&job.ready_services());
        if !open.is_empty() {
            found.push((id, open));
        }
        let deferred = job.deferred.get(&task).into_iter().flatten();
        for after in submit.dependencies.after.iter().chain(deferred) {
            let Some(job) = self.state.jobs.get(&after.job) else { continue };
            let mut open = after.tasks.as_ref().unwrap_or(&job.ids).clone();
            if let Mapping::Window(size) = after.mapping {
                let size = u64::from(size);
                open = open.slice(place.saturating_sub(size), place.saturating_add(size));
            }
            open.subtract(&job.finished);
            if after.tasks.is_some() {
                open.subtract(&job.ready_services());
            }
            if after.condition == Condition::AnyEnd {
                open = open.intersection(&job.alive());
            }
            if !open.is_empty() || after.tasks.is_none() && !job.has_ended() {
                found.push((after.job, open));
            }
        }
        found
    }
}

// Those of the tasks that ended without success, in one of the states.
fn unsuccessful(job: &Job, tasks: &IdSet) -> Option<(TaskState, IdSet)> {
    let sets = [
        (TaskState::Failed, &job.failed),
        (TaskState::Canceled, &job.canceled),
        (TaskState::Aborted, &job.aborted),
    ];
    let mut found = sets.into_iter().map(|(state, ids)| (state, ids.intersection(tasks)));
    found.find(|(_, ids)| !ids.is_empty())
}

fn hopeless(job: JobId, ids: &IdSet, state: TaskState) -> RequestError {
    let ids: Vec<TaskId> = ids.iter().take(NAMED_TASKS_MAX + 1).collect();
    RequestError::Hopeless { job, tasks: named(&ids, ", "), state }
}

/// Task ids for people, the first few of them.
pub(super) fn named(ids: &[TaskId], between: &str) -> String {
    let mut words: Vec<String> = ids.iter().take(NAMED_TASKS_MAX).map(ToString::to_string).collect();
    if ids.len() > NAMED_TASKS_MAX {
        words.push("…".into());
    }
    words.join(between)
}
