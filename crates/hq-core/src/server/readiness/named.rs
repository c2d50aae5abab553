//! Named tasks: they are found by their keys, and made once however often they are submitted.

use std::collections::BTreeMap;
use std::sync::Arc;

use hq_model::dependency::{After, Condition, Dependencies, Edges, Mapping, NamedEdges};
use hq_model::job::TaskIds;
use hq_model::key::{check_key, check_pulled_name};
use hq_model::{Body, Entries, IdSet, JobId, Submit, TaskId, TaskRef, counted, counted_are};

use crate::client_messages::RequestError;
use crate::never;
use crate::server::job::{Job, of_place};
use crate::server::state::{State, hash_of};

/// Those tasks of a submit with keys that the job has already, by their places in the submit, ascending.
///
/// # Errors
/// When a key is none, is given twice, or names a task that is defined in another way.
pub(in crate::server) fn existing(
    state: &State,
    id: JobId,
    submit: &Submit,
) -> Result<Vec<(u32, TaskId)>, RequestError> {
    let count = match &submit.ids {
        TaskIds::Given(ids) => ids.len(),
        TaskIds::Next(count) => u64::from(*count),
    };
    let invalid = |text: String| Err(RequestError::Invalid(text));
    if submit.keys.len() as u64 != count {
        return invalid(format!(
            "{} given for {}.",
            counted_are(submit.keys.len(), "key", "was", "were"),
            counted(count, "task")
        ));
    }
    let mut hashes = Vec::with_capacity(submit.keys.len());
    for (place, key) in submit.keys.iter().enumerate() {
        let check = if submit.spec.body.is_pulled() { check_pulled_name(key) } else { check_key(key) };
        check.map_err(|error| RequestError::Invalid(format!("Invalid key: {error}.")))?;
        hashes.push((hash_of(key), place));
    }
    let mut found = Vec::new();
    if let Some(job) = state.jobs.get(&id).filter(|job| !job.keys.is_empty()) {
        for (place, key) in submit.keys.iter().enumerate() {
            if let Some(task) = job.task_of_key(key) {
                check_same(state, id, job, submit, place, task)?;
                found.push((place as u32, task));
            }
        }
    }
    hashes.sort_unstable();
    let mut alike = hashes.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    match alike.find(|pair| submit.keys.get(pair[0].1) == submit.keys.get(pair[1].1)) {
        Some(pair) => invalid(format!("The key `{}` is given to two tasks.", shown(submit, pair[0].1))),
        None => Ok(found),
    }
}

// A task must be what it is submitted as again.
fn check_same(
    state: &State,
    id: JobId,
    job: &Job,
    submit: &Submit,
    place: usize,
    task: TaskId,
) -> Result<(), RequestError> {
    let Some(known) = job.submit_of(task).map(|index| &job.submits[index as usize]) else {
        never!("a key leads to it: {}", state.story(TaskRef::new(id, task)));
        return Ok(());
    };
    let (old, new) = (&known.task, &submit.spec);
    let known_place = known.ids.rank(task).unwrap_or(0) as usize;
    let is_other_id = match &submit.ids {
        TaskIds::Given(ids) => ids.rank(task) != Some(place as u64),
        TaskIds::Next(_) => false,
    };
    let is_call = new.body.is_packed_call();
    let difference = if old.body != new.body {
        if is_call { "function" } else { "command" }
    } else if !known.entries_gone.contains(task) && known.entry_of(task) != submit.entries.get(place) {
        match &new.body {
            _ if is_call => "set of arguments",
            Body::Given => "object",
            Body::Pulled => "payload",
            _ => "entry",
        }
    } else if is_other_id {
        "id"
    } else if old.env != new.env {
        "environment"
    } else if old.requests != new.requests {
        "resource request"
    } else if old != new {
        "definition"
    } else if known.submit_dir != submit.submit_dir {
        "directory"
    } else if !submit.dependencies.is_empty() || !known.dependencies.is_empty() {
        let wanted = with_keys_found(state, &submit.dependencies)?;
        let named = submit.dependencies.named.of(place).map(|name| job.task_of_key(name));
        // What exists cannot wait for what does not.
        let named: Option<IdSet> = named.collect();
        let known_waits = waits_of(&known.dependencies, id, known_place as u64);
        let is_same = named.is_some_and(|named| {
            let (mut own, others) = waits_of(&wanted, id, place as u64);
            own.union_with(&named);
            (own, others) == known_waits
        });
        if is_same && wanted.files == known.dependencies.files {
            return Ok(());
        }
        "list of dependencies"
    } else {
        return Ok(());
    };
    let key = shown(submit, place);
    Err(RequestError::KeyTaken { job: id, key, task, difference: difference.to_owned() })
}

// What the task at a place of a submit waits for: tasks of its own job that have to end well, however they were said, and all
// else.
fn waits_of(dependencies: &Dependencies, own: JobId, place: u64) -> (IdSet, Vec<After>) {
    let (mut tasks, mut others) = (IdSet::new(), Vec::new());
    for after in of_place(dependencies, own, place) {
        match &after.tasks {
            Some(of_own) if after.job == own && after.condition == Condition::Success => {
                tasks.union_with(of_own)
            }
            _ => others.push(after),
        }
    }
    (tasks, others)
}

/// What new tasks wait for, with keys of their own job looked up: those of tasks that are there, or before them in the submit.
///
/// # Errors
/// When a key names none of these, or both keys and ids are given.
pub(in crate::server) fn with_names_found(
    state: &State,
    id: JobId,
    ids: &IdSet,
    submit: &Submit,
) -> Result<Arc<Dependencies>, RequestError> {
    let named = &submit.dependencies.named;
    if named.is_empty() {
        return Ok(submit.dependencies.clone());
    }
    if !submit.dependencies.edges.is_empty() || named.lists() as u64 != ids.len() {
        let (lists, tasks) = (counted(named.lists(), "task"), counted(ids.len(), "task"));
        let text = format!(
            "Dependencies of {lists} were given by keys for {tasks}; each task needs a list, and no ids beside it."
        );
        return Err(RequestError::Invalid(text));
    }
    let job = state.jobs.get(&id);
    let mut before: BTreeMap<&[u8], TaskId> = BTreeMap::new();
    let mut lists = Vec::with_capacity(named.lists());
    for (place, task) in ids.iter().enumerate() {
        let found = named.of(place).map(|key| {
            let found = before.get(key).copied().or_else(|| job.and_then(|job| job.task_of_key(key)));
            found.ok_or_else(|| RequestError::NoKey(id, String::from_utf8_lossy(key).into_owned()))
        });
        // Whoever is named twice is waited for once.
        lists.push(found.collect::<Result<IdSet, _>>()?.iter().collect::<Vec<_>>());
        before.extend(submit.keys.get(place).map(|key| (key, task)));
    }
    let edges = Edges::new(lists).unwrap_or_default();
    let Dependencies { after, files, .. } = &*submit.dependencies;
    let (after, files) = (after.clone(), files.clone());
    Ok(Dependencies { after, files, edges, ..Dependencies::default() }.into())
}

// What is waited for element by element names its tasks, as it does when it is kept.
fn with_keys_found(state: &State, wanted: &Dependencies) -> Result<Dependencies, RequestError> {
    let found = wanted.after.iter().map(|after| {
        let mut after = looked_up(state, after)?;
        if after.mapping != Mapping::All && after.tasks.is_none() {
            after.tasks = state.jobs.get(&after.job).map(|job| job.ids.clone());
        }
        Ok(after)
    });
    let after = found.collect::<Result<_, _>>()?;
    let (files, edges) = (wanted.files.clone(), wanted.edges.clone());
    Ok(Dependencies { after, files, edges, ..Dependencies::default() })
}

/// A dependency on the last job, or on a key, as one on that job, or on the task that has it.
pub(super) fn looked_up(state: &State, after: &After) -> Result<After, RequestError> {
    let mut after = after.clone();
    if after.job == After::LAST {
        after.job = state.last_of_users().ok_or(RequestError::NoJobs)?;
    }
    let Some(key) = &after.key else { return Ok(after) };
    let job = state.jobs.get(&after.job).ok_or(RequestError::NoJob(after.job))?;
    let task = job.task_of_key(key.as_bytes());
    let task = task.ok_or_else(|| RequestError::NoKey(after.job, key.clone()))?;
    Ok(After { tasks: Some(IdSet::single(task)), key: None, ..after })
}

/// What is left of a submit without the tasks at these places, ascending; some are left.
///
/// # Errors
/// When the others wait by their places for something that is not at these places.
pub(in crate::server) fn without(submit: &Submit, places: &[(u32, TaskId)]) -> Result<Submit, RequestError> {
    let gone = |place: usize| places.binary_search_by_key(&(place as u32), |found| found.0).is_ok();
    let left: Vec<usize> = (0..submit.keys.len()).filter(|place| !gone(*place)).collect();
    let pick = |texts: &Entries| {
        let picked = Entries::new(left.iter().filter_map(|place| texts.get(*place)));
        picked.unwrap_or_default()
    };
    let ids = match &submit.ids {
        TaskIds::Next(_) => TaskIds::Next(left.len() as u32),
        TaskIds::Given(ids) => {
            let ids = ids.iter().enumerate().filter(|(place, _)| !gone(*place));
            TaskIds::Given(ids.map(|(_, id)| id).collect())
        }
    };
    let mut dependencies = submit.dependencies.clone();
    if !dependencies.is_empty() {
        let mut after = dependencies.after.clone();
        for after in &mut after {
            match (after.mapping, &mut after.tasks) {
                (Mapping::All, _) => {}
                (Mapping::Window(0), Some(tasks)) => {
                    let kept = tasks.iter().enumerate().filter(|(place, _)| !gone(*place));
                    *tasks = kept.map(|(_, id)| id).collect();
                }
                _ => {
                    let text = "Some of these tasks exist already, and the others wait by their places for tasks of \
                                another job; submit them one by one.";
                    return Err(RequestError::Invalid(text.into()));
                }
            }
        }
        let lists = &dependencies.edges;
        let edges = if lists.is_empty() {
            Edges::default()
        } else {
            Edges::new(left.iter().map(|place| lists.of(*place))).unwrap_or_default()
        };
        let lists = &dependencies.named;
        let named = if lists.is_empty() {
            NamedEdges::default()
        } else {
            NamedEdges::new(left.iter().map(|place| lists.of(*place))).unwrap_or_default()
        };
        dependencies = Dependencies { after, files: dependencies.files.clone(), edges, named }.into();
    }
    Ok(Submit {
        target: submit.target.clone(),
        ids,
        entries: pick(&submit.entries),
        keys: pick(&submit.keys),
        dependencies,
        spec: submit.spec.clone(),
        submit_dir: submit.submit_dir.clone(),
    })
}

fn shown(submit: &Submit, place: usize) -> String {
    String::from_utf8_lossy(submit.keys.get(place).unwrap_or_default()).into_owned()
}
