//! What tasks may ask to wait for, and what is said when that can never be.

use hq_model::dependency::{After, Condition, Dependencies, Edges, Mapping, find_cycle};
use hq_model::{IdSet, JobId, TaskId, TaskRef, TaskState, counted};

use super::Readiness;
use super::artifact::{bad_end_of, bad_ends};
use super::cycles::cycle_through;
use super::named::looked_up;
use super::waits::Ending;
use crate::client_messages::RequestError;
use crate::limits::{DEPENDENCIES_MAX, ENDED_IDS_CHARS_MAX, NAMED_TASKS_MAX};
use crate::server::job::Job;
use crate::server::state::State;

impl Readiness {
    /// Checks what new tasks are to wait for, and says it in the form that is kept.
    pub(in crate::server) fn dependencies_of(
        &self,
        state: &State,
        job: JobId,
        ids: &IdSet,
        wanted: &Dependencies,
    ) -> Result<Dependencies, RequestError> {
        if wanted.after.len() > DEPENDENCIES_MAX {
            let text = format!("A submit may wait for {DEPENDENCIES_MAX} jobs or arrays at most.");
            return Err(RequestError::Invalid(text));
        }
        let after =
            wanted.after.iter().map(|after| after_of(state, job, ids, after)).collect::<Result<_, _>>()?;
        check_edges(state, job, ids, &wanted.edges)?;
        if wanted.files.len() > DEPENDENCIES_MAX {
            let text = format!("A submit may wait for {DEPENDENCIES_MAX} files at most.");
            return Err(RequestError::Invalid(text));
        }
        if let Some(file) = wanted.files.iter().find(|file| file.first() != Some(&b'/') || file.contains(&0))
        {
            let file = String::from_utf8_lossy(file);
            return Err(RequestError::Invalid(format!("The file `{file}` is not an absolute path.")));
        }
        let (files, edges) = (wanted.files.clone(), wanted.edges.clone());
        let dependencies = Dependencies { after, files, edges, ..Dependencies::default() };
        if self.waits.is_waited_for_as_a_whole(job)
            && let Some(way) = cycle_through(state, job, &dependencies)
        {
            let way: Vec<String> = way.iter().map(|job| format!("job {job}")).collect();
            return Err(RequestError::Cycle(job, way.join(" -> ")));
        }
        Ok(dependencies)
    }
}

/// Checks one thing that new tasks, or one that puts itself back, are to wait for, and says it in the form that is kept.
pub(super) fn after_of(state: &State, own: JobId, ids: &IdSet, after: &After) -> Result<After, RequestError> {
    let mut after = looked_up(state, after)?;
    let job = state.jobs.get(&after.job).ok_or(RequestError::NoJob(after.job))?;
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
        let bad = match &after.tasks {
            Some(tasks) => unsuccessful(job, tasks),
            None => bad_end_of(job).and_then(|_| unsuccessful(job, &job.ids)),
        };
        if let Some((state, ids)) = bad {
            return Err(hopeless(after.job, &ids, state));
        }
    }
    Ok(after)
}

fn check_edges(state: &State, id: JobId, ids: &IdSet, edges: &Edges) -> Result<(), RequestError> {
    if edges.is_empty() {
        return Ok(());
    }
    if edges.lists() as u64 != ids.len() {
        let (lists, tasks) = (counted(edges.lists(), "task"), counted(ids.len(), "task"));
        let text = format!("Dependencies of {lists} were given for {tasks}.");
        return Err(RequestError::Invalid(text));
    }
    let job = state.jobs.get(&id);
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

/// Why tasks that can never run are given up.
pub(in crate::server) fn because_of(ending: &Ending, job: JobId, count: u64) -> String {
    let why = why_given_up(ending, count);
    // Nobody may have told of the other job.
    match ending.state == TaskState::Failed && ending.job != job {
        true => format!("{why} `hq job failures {}` shows why.", ending.job),
        false => why,
    }
}

fn why_given_up(ending: &Ending, count: u64) -> String {
    let it = if count == 1 { "this task waits" } else { "these tasks wait" };
    let what = match ending.state {
        TaskState::Failed => "failed",
        TaskState::Canceled => "was canceled",
        _ => "was aborted",
    };
    let Some(first) = ending.ids.first() else {
        return format!("Job {} ended without success, for which {it}.", ending.job);
    };
    if ending.ids.len() == 1 {
        return format!("Task {} {what}, for which {it}.", TaskRef::new(ending.job, first));
    }
    // Each of them waits for some of these, perhaps not for all.
    let what = what.replace("was", "were");
    let ids = ending.ids.to_string();
    let which = if ids.len() <= ENDED_IDS_CHARS_MAX {
        format!("{}@{ids}", ending.job)
    } else {
        format!("{} and {}", TaskRef::new(ending.job, first), counted(ending.ids.len() - 1, "other"))
    };
    format!("Tasks {which} {what}, and {it} for one or more of them.")
}

// Those of the tasks that ended without success, in one of the states. A service that was ready before counts: new
// tasks that wait for it would find it gone.
fn unsuccessful(job: &Job, tasks: &IdSet) -> Option<(TaskState, IdSet)> {
    let mut found = bad_ends(job).into_iter().map(|(state, ids)| (state, ids.intersection(tasks)));
    found.find(|(_, ids)| !ids.is_empty())
}

fn hopeless(job: JobId, ids: &IdSet, state: TaskState) -> RequestError {
    let ids: Vec<TaskId> = ids.iter().take(NAMED_TASKS_MAX + 1).collect();
    RequestError::Hopeless { job, tasks: named(&ids, ", "), state }
}

// Task ids for people, the first few of them.
fn named(ids: &[TaskId], between: &str) -> String {
    let mut words: Vec<String> = ids.iter().take(NAMED_TASKS_MAX).map(ToString::to_string).collect();
    if ids.len() > NAMED_TASKS_MAX {
        words.push("…".into());
    }
    words.join(between)
}
