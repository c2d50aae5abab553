//! What is missing for tasks that have not started, told from the durable state alone.

use hq_model::dependency::{After, Condition, Mapping};
use hq_model::{ByteString, IdSet, JobId, TaskId, TaskRef};

use super::artifact::{Artifact, Standing, Status};
use crate::server::job::{Job, SubmitState};
use crate::server::state::State;

/// How many tasks a task was to wait for, whether they have ended or not.
pub(in crate::server) fn dependency_count(state: &State, id: JobId, task: TaskId) -> u64 {
    let Some((_, submit, place)) = place_of(state, id, task) else { return 0 };
    let of_after = |after: &After| {
        let tasks = after.tasks.as_ref().or_else(|| Some(&state.jobs.get(&after.job)?.ids));
        match (tasks, after.mapping) {
            (None, _) => 0,
            (Some(tasks), Mapping::All) => tasks.len(),
            (Some(tasks), Mapping::Window(size)) => window(tasks, place, size).len(),
        }
    };
    let edges = submit.dependencies.edges.of(place as usize).len() as u64;
    edges + submit.dependencies.after.iter().map(of_after).sum::<u64>()
}

/// What a task that has not started waits for: tasks that have not ended as they must, and jobs that are open.
pub(in crate::server) fn unresolved(state: &State, id: JobId, task: TaskId) -> Vec<(JobId, IdSet)> {
    let Some((job, submit, place)) = place_of(state, id, task) else { return Vec::new() };
    let mut found = Vec::new();
    let targets: IdSet = submit.dependencies.edges.of(place as usize).iter().copied().collect();
    let standing = Standing::of_targets(job, &targets);
    if !standing.is_available() {
        found.push((id, standing.missing()));
    }
    let deferred = job.deferred.get(&task).into_iter().flatten();
    for after in submit.dependencies.after.iter().chain(deferred) {
        let standing = match (after.mapping, &after.tasks) {
            (Mapping::Window(size), Some(tasks)) => {
                let tasks = Some(window(tasks, place, size));
                let condition = after.condition;
                Standing::of_after(state, &After { tasks, condition, ..After::of(after.job) })
            }
            _ => Standing::of_after(state, after),
        };
        if !standing.is_available() {
            found.push((after.job, standing.missing()));
        }
    }
    found
}

/// Files that a task waits for.
pub(in crate::server) fn files_missing(state: &State, id: JobId, task: TaskId) -> Vec<ByteString> {
    let Some((job, submit, _)) = place_of(state, id, task) else { return Vec::new() };
    let is_open = |file: &&ByteString| Artifact::File(id, file).status(state) == Status::Open;
    let files = submit.dependencies.files.iter().filter(|_| job.queued.contains(task));
    files.filter(is_open).cloned().collect()
}

/// Those of a submit of a job that wait for something.
pub(in crate::server) fn held_back(state: &State, id: JobId, submit: &SubmitState) -> IdSet {
    let is_open = |artifact: Artifact| artifact.status(state) != Status::Available;
    if submit.dependencies.files.iter().any(|file| is_open(Artifact::File(id, file))) {
        return submit.ids.clone();
    }
    let waits = |target: &TaskId| is_open(Artifact::Task(TaskRef::new(id, *target), Condition::Success));
    let edges = submit.ids.iter().zip(submit.dependencies.edges.iter());
    let mut found: IdSet = edges.filter(|(_, list)| list.iter().any(waits)).map(|(task, _)| task).collect();
    for after in &submit.dependencies.after {
        let standing = Standing::of_after(state, after);
        match (after.mapping, &after.tasks) {
            (Mapping::Window(size), Some(tasks)) => {
                for place in standing.missing().iter().filter_map(|task| tasks.rank(task)) {
                    found.union_with(&window(&submit.ids, place, size));
                }
            }
            _ if !standing.is_available() => return submit.ids.clone(),
            _ => {}
        }
    }
    found
}

fn place_of(state: &State, id: JobId, task: TaskId) -> Option<(&Job, &SubmitState, u64)> {
    let job = state.jobs.get(&id)?;
    let submit = job.submits.get(job.submit_of(task)? as usize)?;
    Some((job, submit, submit.ids.rank(task)?))
}

fn window(ids: &IdSet, place: u64, size: u32) -> IdSet {
    let size = u64::from(size);
    ids.slice(place.saturating_sub(size), place.saturating_add(size))
}
