//! The objects that finished tasks have left. Which workers store them is not durable: these say it themselves.

use std::collections::BTreeMap;

use hq_model::{IdSet, Instance, JobId, ObjectId, ObjectName, TaskId, TaskRef};

use crate::limits::OBJECT_BYTES;
use crate::object_messages::{ObjectChange, ObjectCopy, ObjectEnd};
use crate::server::object_map::ObjectMap;

/// The objects of all jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    known: ObjectMap<Object>,
    // Why some of them are gone.
    ends: BTreeMap<ObjectId, ObjectEnd>,
    // Of each job, how many of them are values, which no submit declares.
    values: BTreeMap<JobId, usize>,
    values_count: usize,
}

/// An object that is or was there. A server has very many of these: its name is where it is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Object {
    /// Bytes of it.
    pub size: u64,
    /// XXH64 of these.
    pub checksum: u64,
    /// The instance that left it.
    pub instance: Instance,
    /// They are the archive of a directory.
    pub is_dir: bool,
    /// It stays where stores have no room for more.
    pub is_kept: bool,
    /// Who it was for needs it no more.
    pub is_released: bool,
    /// [It is gone](Objects::why_gone).
    pub is_gone: bool,
}

impl Object {
    /// Which copies are meant.
    pub fn copy(&self, object: ObjectId) -> ObjectCopy {
        let Object { instance, size, checksum, is_dir, .. } = *self;
        ObjectCopy { object, instance, size, checksum, is_dir }
    }
}

impl Objects {
    /// What is known of one.
    pub fn get(&self, object: &ObjectId) -> Option<&Object> {
        self.known.get(object)
    }

    /// Why one is gone, if it is.
    pub fn why_gone(&self, object: &ObjectId) -> Option<&ObjectEnd> {
        self.ends.get(object)
    }

    /// The name of one where something near has one of that name: it shares its text.
    pub fn name_like(&self, object: &ObjectId) -> Option<&ObjectName> {
        self.known.name_like(object)
    }

    /// Those of some tasks of a job, in order of these.
    pub fn of_tasks(
        &self,
        job: JobId,
        tasks: &IdSet,
    ) -> impl Iterator<Item = (TaskRef, &ObjectName, &Object)> {
        tasks.ranges().flat_map(move |range| self.of_range(job, TaskId(*range.start()), TaskId(*range.end())))
    }

    /// Those of tasks of a job from one to another, in order of these.
    pub fn of_range(
        &self,
        job: JobId,
        first: TaskId,
        last: TaskId,
    ) -> impl Iterator<Item = (TaskRef, &ObjectName, &Object)> + use<'_> {
        self.known.of_tasks(job, (first, last))
    }

    /// All of them, in order of tasks.
    pub fn iter(&self) -> impl Iterator<Item = (TaskRef, &ObjectName, &Object)> {
        self.known.iter()
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
                    if let Some(known) = self.known.get_mut(object) {
                        (known.is_kept, known.is_released) = (true, false);
                    }
                }
            }
            ObjectChange::Released(objects) => {
                for object in objects {
                    if let Some(known) = self.known.get_mut(object) {
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
                    if let Some(known) = self.known.get_mut(object) {
                        (known.is_gone, known.is_kept) = (true, false);
                        self.ends.insert(object.clone(), why.clone());
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
        let before = self.known.get(&object);
        let (is_kept, is_released) =
            before.map_or((false, false), |known| (known.is_kept, known.is_released));
        if before.is_some_and(|known| known.is_gone) {
            self.ends.remove(&object);
        }
        let stored = Object { size, checksum, instance, is_dir, is_kept, is_released, is_gone: false };
        self.known.insert(object, stored);
    }

    pub(super) fn forget(&mut self, job: JobId) {
        self.known.remove_job(job);
        self.values_count -= self.values.remove(&job).unwrap_or(0);
        let begin = |job| ObjectId::before_all(TaskRef::new(job, TaskId(0)));
        let of_job = begin(job)..begin(JobId(job.0.saturating_add(1)));
        self.ends.extract_if(of_job, |_, _| true).for_each(drop);
    }

    /// The changes that rebuild them, those of a task together.
    pub(super) fn changes(&self) -> impl Iterator<Item = ObjectChange> {
        let mut all = self.known.iter().peekable();
        let of_tasks = std::iter::from_fn(move || {
            let (task, name, object) = all.next()?;
            let mut of_task = vec![(ObjectId { task, name: name.clone() }, object)];
            while let Some((_, name, object)) = all.next_if(|(other, _, _)| *other == task) {
                of_task.push((ObjectId { task, name: name.clone() }, object));
            }
            Some(of_task)
        });
        of_tasks.flat_map(|of_task| self.changes_of(&of_task))
    }

    fn changes_of(&self, of_task: &[(ObjectId, &Object)]) -> Vec<ObjectChange> {
        let some = |is_meant: fn(&Object) -> bool| -> Vec<ObjectId> {
            of_task.iter().filter(|(_, known)| is_meant(known)).map(|(object, _)| object.clone()).collect()
        };
        let stored = of_task.iter().map(|(object, known)| known.copy(object.clone())).collect();
        let mut changes = vec![ObjectChange::Stored(stored)];
        let (kept, released) = (some(|known| known.is_kept), some(|known| known.is_released));
        if !kept.is_empty() {
            changes.push(ObjectChange::Kept(kept));
        }
        if !released.is_empty() {
            changes.push(ObjectChange::Released(released));
        }
        let gone = of_task.iter().filter_map(|(object, _)| {
            let why = self.ends.get(object)?.clone();
            Some(ObjectChange::Gone { objects: vec![object.clone()], why })
        });
        changes.extend(gone);
        changes
    }
}
