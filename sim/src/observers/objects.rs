//! Who takes an object gets what the process left whose success counts; what is needed is not freed, and what cannot be
//! needed is; nobody waits for what is gone.

use std::collections::{BTreeMap, BTreeSet};

use hq_core::object_messages::{ObjectChange, ObjectCopy};
use hq_core::record::Record;
use hq_core::server::Effect;
use hq_core::server::state::State;
use hq_core::server::state::job::Job;
use hq_core::worker::Start;
use hq_model::{IdSet, Instance, JobId, ObjectId, ObjectName, TaskRef};

use crate::objects::Store;

/// What processes left, and what is kept of that.
#[derive(Debug, Default)]
pub struct Objects {
    left: BTreeSet<(ObjectId, Instance, u64)>,
    meant: BTreeMap<ObjectId, ObjectCopy>,
    // What was meant before it was lost and left once more: as right as what came after it.
    earlier: BTreeSet<(ObjectId, Instance, u64)>,
    finished: BTreeMap<JobId, IdSet>,
}

impl Objects {
    /// A process left this, and ended well.
    pub fn left(&mut self, copy: &ObjectCopy) {
        self.left.insert((copy.object.clone(), copy.instance, copy.checksum));
    }

    /// A server starts with this state: what was not kept has never been.
    pub fn restarted(&mut self, state: &State) {
        let there = state.objects.iter().filter(|(_, _, object)| !object.is_gone);
        let meant = there.map(|(task, name, object)| object.copy(ObjectId { task, name: name.clone() }));
        self.meant = meant.map(|copy| (copy.object.clone(), copy)).collect();
        self.finished = state.jobs.iter().map(|(id, job)| (*id, job.finished.clone())).collect();
    }

    /// Looks at what a server does.
    ///
    /// # Errors
    /// When something is meant that nobody left, or something else than what the successful process left.
    pub fn persisted(&mut self, effects: &[Effect]) -> Result<(), String> {
        let records = effects.iter().filter_map(|effect| match effect {
            Effect::Persist { record, .. } => Some(record),
            _ => None,
        });
        for record in records.flat_map(Record::parts) {
            match record {
                Record::Objects(change) => match &**change {
                    ObjectChange::Stored(copies) => {
                        copies.iter().try_for_each(|copy| self.stored(copy))?;
                    }
                    ObjectChange::Gone { objects, .. } => {
                        self.meant.retain(|object, _| !objects.contains(object));
                    }
                    ObjectChange::Kept(_) | ObjectChange::Released(_) => {}
                },
                Record::Finished { span, .. } => {
                    let mut here = self.meant.values().filter(|copy| {
                        copy.object.task.job == span.job && span.ids.contains(copy.object.task.task)
                    });
                    if let Some(other) = here.find(|copy| copy.instance != span.instance) {
                        let (object, instance) = (&other.object, other.instance);
                        return Err(format!(
                            "object {object} is that of instance {instance}, and instance {} has finished",
                            span.instance
                        ));
                    }
                    self.finished.entry(span.job).or_default().union_with(&span.ids);
                }
                Record::JobForgotten { job }
                | Record::JobOpened { job, .. }
                | Record::Submitted { job, spec: Some(_), .. } => {
                    self.meant.retain(|object, _| object.task.job != *job);
                    self.finished.remove(job);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn has_left(&self, object: &ObjectId, instance: Instance) -> bool {
        let all = (object.clone(), instance, 0)..=(object.clone(), instance, u64::MAX);
        self.left.range(all).next().is_some()
    }

    fn stored(&mut self, copy: &ObjectCopy) -> Result<(), String> {
        let object = &copy.object;
        // Of what was lost before it was told of nothing else is known.
        // Nor has a call to leave any, though it did before.
        let is_value = object.name == ObjectName::value();
        let is_unknown = copy.size == 0 && (is_value || self.has_left(object, copy.instance));
        if !is_unknown && !self.left.contains(&(object.clone(), copy.instance, copy.checksum)) {
            return Err(format!("object {object} is meant as {copy:?}, which no process left"));
        }
        let has_finished =
            self.finished.get(&object.task.job).is_some_and(|ids| ids.contains(object.task.task));
        let before = self.meant.insert(object.clone(), copy.clone());
        if let Some(before) = before.as_ref().filter(|_| has_finished) {
            self.earlier.insert((before.object.clone(), before.instance, before.checksum));
        }
        match before {
            // What was lost is left once more as a later instance.
            Some(before) if has_finished && before != *copy && before.instance >= copy.instance => {
                Err(format!("object {object} of a finished task was {before:?} and is {copy:?}"))
            }
            _ => Ok(()),
        }
    }

    /// A task is started. A machine that went down forgot what was not synced: workers may not have heard so.
    ///
    /// # Errors
    /// When it is not told of all that it takes, or of something else than what is meant.
    pub fn started(&self, start: &Start, machine_lost: bool) -> Result<(), String> {
        let wanted = start.template.spec.input_objects.iter().map(|input| input.from.of(start.task));
        let wanted: Vec<ObjectId> = wanted.collect();
        let told: Vec<ObjectId> = start.objects.iter().map(|source| source.copy.object.clone()).collect();
        // What calls take shows only when it is there.
        let is_call = start.template.spec.body.is_packed_call();
        if wanted != told && !is_call {
            return Err(format!("task {} takes {wanted:?} and is told of {told:?}", start.task));
        }
        for copy in start.objects.iter().map(|source| &source.copy).filter(|_| !machine_lost) {
            let is_earlier = self.earlier.contains(&(copy.object.clone(), copy.instance, copy.checksum));
            let meant = self.meant.get(&copy.object).filter(|meant| *meant != copy && !is_earlier);
            if let Some(meant) = meant {
                return Err(format!("task {} is told of {copy:?}, and {meant:?} is meant", start.task));
            }
        }
        Ok(())
    }
}

/// Looks at a server that has acted.
///
/// # Errors
/// When a task waits for what is gone, or was given up for an object, and is not told for which.
pub fn nobody_waits_for_what_is_gone(state: &State, effects: &[Effect]) -> Result<(), String> {
    let records = effects.iter().filter_map(|effect| match effect {
        Effect::Persist { record, .. } => Some(record),
        _ => None,
    });
    for record in records.flat_map(Record::parts) {
        match record {
            Record::Objects(change) => {
                let ObjectChange::Gone { objects, .. } = &**change else { continue };
                for object in objects.iter().filter(|object| is_gone(state, object)) {
                    if let Some(task) = readers(state, object).find(|(_, waits)| *waits).map(|(task, _)| task)
                    {
                        return Err(format!("task {task} waits for object {object}, which is gone"));
                    }
                }
            }
            Record::Aborted { job, ids, reason } if reason.starts_with("Object ") => {
                let named = |task| {
                    let task = TaskRef::new(*job, task);
                    inputs_of(state, task).any(|object| reason.contains(&object.to_string()))
                        || values_of(state, task).any(|value| reason.contains(&value))
                };
                if state.jobs.contains_key(job) && !ids.iter().all(named) {
                    return Err(format!(
                        "tasks {ids} of job {job} do not take what they are given up for: {reason}"
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Looks at what is to be freed on a node.
///
/// # Errors
/// When it is the last of what somebody needs.
pub fn may_be_freed(state: &State, copies: &[ObjectCopy], others: &[&Store]) -> Result<(), String> {
    for copy in copies.iter().filter(|copy| is_meant(state, copy)) {
        let is_last = !others.iter().any(|store| store.has(copy));
        if let Some((task, _)) = readers(state, &copy.object).next().filter(|_| is_last) {
            return Err(format!("the last copy of object {} is freed, which task {task} needs", copy.object));
        }
    }
    Ok(())
}

/// Something that is stored and nobody can want. An earlier instance beside the one that is meant goes with that.
pub fn what_stays<'a>(state: &State, mut stores: impl Iterator<Item = &'a Store>) -> Option<String> {
    let stays = stores.find_map(|store| {
        let has_meant = |copy: &ObjectCopy| {
            store.copies().any(|other| other.object == copy.object && is_meant(state, &other))
        };
        store.copies().find(|copy| !is_meant(state, copy) && !has_meant(copy))
    });
    stays.map(|copy| format!("{}/{}", copy.object, copy.instance))
}

fn is_gone(state: &State, object: &ObjectId) -> bool {
    state.objects.get(object).is_some_and(|known| known.is_gone)
}

fn is_meant(state: &State, copy: &ObjectCopy) -> bool {
    let known = state.objects.get(&copy.object);
    known.is_some_and(|known| !known.is_gone && known.copy(copy.object.clone()) == *copy)
}

fn inputs_of(state: &State, task: TaskRef) -> impl Iterator<Item = ObjectId> {
    let job = state.jobs.get(&task.job);
    let submit = job.and_then(|job| job.submits.get(job.submit_of(task.task)? as usize));
    submit
        .into_iter()
        .flat_map(move |submit| submit.task.input_objects.iter().map(move |input| input.from.of(task)))
}

// Values that a call may take.
fn values_of(state: &State, task: TaskRef) -> impl Iterator<Item = String> {
    let job = state.jobs.get(&task.job);
    let is_call = |job: &&Job| {
        job.submit_of(task.task).is_some_and(|at| job.submits[at as usize].task.body.is_packed_call())
    };
    let after = job.filter(is_call).map_or_else(Vec::new, |job| job.dependencies_of(task.job, task.task));
    let tasks = after.into_iter().filter_map(|after| Some((after.job, after.tasks?)));
    tasks.flat_map(|(job, tasks)| tasks.iter().map(|of| format!("{job}@{of}:value")).collect::<Vec<_>>())
}

// Tasks that have not ended and take an object, and whether they wait.
fn readers<'a>(state: &'a State, object: &'a ObjectId) -> impl Iterator<Item = (TaskRef, bool)> + 'a {
    state.jobs.iter().flat_map(move |(id, job)| {
        let submits = job.submits.iter().filter(|submit| !submit.task.input_objects.is_empty());
        let alive = job.alive();
        let tasks =
            submits.flat_map(move |submit| submit.ids.intersection(&alive).iter().collect::<Vec<_>>());
        let tasks = tasks.map(|task| TaskRef::new(*id, task));
        let readers = tasks.filter(move |task| inputs_of(state, *task).any(|taken| taken == *object));
        readers.map(move |task| (task, job.queued.contains(task.task)))
    })
}
