//! The objects that finished tasks have left. Which workers store them is not durable: these say it themselves.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use hq_model::{IdSet, Instance, JobId, ObjectId, ObjectName, TaskId, TaskRef};

use crate::limits::OBJECT_BYTES;
use crate::object_messages::{ObjectChange, ObjectCopy, ObjectEnd};

/// The objects of all jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    by_task: BTreeMap<TaskRef, Vec<Object>>,
    // Of each job, how many of them are values, which no submit declares.
    values: BTreeMap<JobId, usize>,
    values_count: usize,
}

/// An object that is or was there.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Its name among those of its task.
    pub name: ObjectName,
    /// The instance that left it.
    pub instance: Instance,
    /// Bytes of it.
    pub size: u64,
    /// XXH64 of these.
    pub checksum: u64,
    /// They are the archive of a directory.
    pub is_dir: bool,
    /// It stays where stores have no room for more.
    pub is_kept: bool,
    /// Who it was for needs it no more.
    pub is_released: bool,
    /// Why it is gone.
    pub gone: Option<Box<ObjectEnd>>,
}

impl Object {
    /// Which copies are meant.
    pub fn copy(&self, task: TaskRef) -> ObjectCopy {
        let object = ObjectId { task, name: self.name.clone() };
        let Object { instance, size, checksum, is_dir, .. } = *self;
        ObjectCopy { object, instance, size, checksum, is_dir }
    }
}

impl Objects {
    /// What is known of one.
    pub fn get(&self, object: &ObjectId) -> Option<&Object> {
        self.by_task.get(&object.task)?.iter().find(|known| known.name == object.name)
    }

    /// The name of one where this or the task before has one of that name: it shares its text.
    pub fn name_like(&self, object: &ObjectId) -> Option<&ObjectName> {
        let (_, near) = self.by_task.range(..=object.task).next_back()?;
        near.iter().map(|known| &known.name).find(|name| **name == object.name)
    }

    /// Those of some tasks of a job, in order of these.
    pub fn of_tasks(&self, job: JobId, tasks: &IdSet) -> impl Iterator<Item = (TaskRef, &Object)> {
        let task = move |id| TaskRef::new(job, TaskId(id));
        tasks.ranges().flat_map(move |range| self.of_range(task(*range.start())..=task(*range.end())))
    }

    /// Those of tasks from one to another, in order of these.
    pub fn of_range(&self, tasks: RangeInclusive<TaskRef>) -> impl Iterator<Item = (TaskRef, &Object)> {
        let tasks = self.by_task.range(tasks);
        tasks.flat_map(|(task, objects)| objects.iter().map(move |object| (*task, object)))
    }

    /// Those of a task.
    pub fn of_task(&self, task: TaskRef) -> &[Object] {
        self.by_task.get(&task).map_or(&[], Vec::as_slice)
    }

    /// All of them, in order of tasks.
    pub fn iter(&self) -> impl Iterator<Item = (TaskRef, &Object)> {
        self.by_task.iter().flat_map(|(task, objects)| objects.iter().map(move |object| (*task, object)))
    }

    /// About what the values of calls and clients take in memory: the other objects count with their submits.
    pub fn values_bytes(&self) -> usize {
        self.values_count * OBJECT_BYTES
    }

    /// `is_value` says which of them no submit declares.
    pub(super) fn apply(&mut self, change: &ObjectChange, is_value: &dyn Fn(&ObjectId) -> bool) {
        match change {
            ObjectChange::Stored(copies) => copies.iter().for_each(|copy| self.store(copy, is_value)),
            ObjectChange::Kept(objects) => {
                for object in objects {
                    if let Some(known) = self.get_mut(object) {
                        (known.is_kept, known.is_released) = (true, false);
                    }
                }
            }
            ObjectChange::Released(objects) => {
                for object in objects {
                    if let Some(known) = self.get_mut(object) {
                        known.is_released = true;
                    }
                }
            }
            ObjectChange::Gone { objects, why } => {
                for object in objects {
                    if self.get(object).is_none() {
                        // Its task has finished, and it was never stored.
                        let (instance, size, checksum, is_dir) = (Instance(0), 0, 0, false);
                        let copy = ObjectCopy { object: object.clone(), instance, size, checksum, is_dir };
                        self.store(&copy, is_value);
                    }
                    if let Some(known) = self.get_mut(object) {
                        known.gone = Some(Box::new(why.clone()));
                        known.is_kept = false;
                    }
                }
            }
        }
    }

    fn store(&mut self, copy: &ObjectCopy, is_value: &dyn Fn(&ObjectId) -> bool) {
        let ObjectCopy { mut object, instance, size, checksum, is_dir } = copy.clone();
        if is_value(&object) && self.get(&object).is_none() {
            *self.values.entry(object.task.job).or_default() += 1;
            self.values_count += 1;
        }
        if let Some(name) = self.name_like(&object) {
            object.name = name.clone();
        }
        let known = self.by_task.entry(object.task).or_default();
        let (is_kept, is_released) = (false, false);
        let stored =
            Object { name: object.name, instance, size, checksum, is_dir, is_kept, is_released, gone: None };
        match known.iter_mut().find(|known| known.name == stored.name) {
            Some(before) => {
                let (is_kept, is_released) = (before.is_kept, before.is_released);
                *before = Object { is_kept, is_released, ..stored };
            }
            None => {
                // Most tasks have one.
                known.reserve_exact(1);
                known.push(stored);
            }
        }
    }

    fn get_mut(&mut self, object: &ObjectId) -> Option<&mut Object> {
        self.by_task.get_mut(&object.task)?.iter_mut().find(|known| known.name == object.name)
    }

    pub(super) fn forget(&mut self, job: JobId) {
        self.by_task.extract_if(all_of(job), |_, _| true).for_each(drop);
        self.values_count -= self.values.remove(&job).unwrap_or(0);
    }

    /// The changes that rebuild them.
    pub(super) fn changes(&self) -> impl Iterator<Item = ObjectChange> {
        self.by_task.iter().flat_map(|(task, objects)| {
            let stored = objects.iter().map(|object| object.copy(*task)).collect();
            let id = |object: &Object| ObjectId { task: *task, name: object.name.clone() };
            let kept: Vec<ObjectId> = objects.iter().filter(|object| object.is_kept).map(id).collect();
            let kept = (!kept.is_empty()).then_some(ObjectChange::Kept(kept));
            let released: Vec<ObjectId> =
                objects.iter().filter(|object| object.is_released).map(id).collect();
            let released = (!released.is_empty()).then_some(ObjectChange::Released(released));
            let gone = objects.iter().filter_map(move |object| {
                let why = (**object.gone.as_ref()?).clone();
                Some(ObjectChange::Gone { objects: vec![id(object)], why })
            });
            [ObjectChange::Stored(stored)].into_iter().chain(kept).chain(released).chain(gone)
        })
    }
}

fn all_of(job: JobId) -> RangeInclusive<TaskRef> {
    TaskRef::new(job, TaskId(0))..=TaskRef::new(job, TaskId(u32::MAX))
}
