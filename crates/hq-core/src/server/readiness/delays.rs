//! Ends of the delays of tasks that are tried again, or that put themselves back behind nothing.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{IdSet, JobId, TaskId, TaskRef, Timestamp};

use crate::record::NEVER;

/// Tasks that wait for a time; each for one.
#[derive(Clone, Debug, Default)]
pub(super) struct Delays {
    by_end: BTreeSet<(Timestamp, TaskRef)>,
    ends: BTreeMap<TaskRef, Timestamp>,
}

impl Delays {
    /// A task waits until then, and for no other time any more.
    pub(super) fn begin(&mut self, task: TaskRef, at: Timestamp) {
        if let Some(before) = self.ends.insert(task, at) {
            self.by_end.remove(&(before, task));
        }
        self.by_end.insert((at, task));
    }

    /// A task does not wait any more.
    pub(super) fn end(&mut self, task: TaskRef) {
        if let Some(at) = self.ends.remove(&task) {
            self.by_end.remove(&(at, task));
        }
    }

    /// Tasks of a job do not wait any more.
    pub(super) fn end_all(&mut self, job: JobId, ids: &IdSet) {
        if self.ends.is_empty() {
            return;
        }
        for range in ids.ranges() {
            let of = |id| TaskRef::new(job, TaskId(id));
            for (task, at) in self.ends.extract_if(of(*range.start())..=of(*range.end()), |_, _| true) {
                self.by_end.remove(&(at, task));
            }
        }
    }

    /// Until when a task waits.
    pub(super) fn of(&self, task: TaskRef) -> Option<Timestamp> {
        self.ends.get(&task).copied()
    }

    /// The first of the ends.
    pub(super) fn first(&self) -> Option<Timestamp> {
        self.by_end.first().map(|(at, _)| *at)
    }

    /// A task whose time has come. It does not wait any more.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<TaskRef> {
        let (_, task) = self.by_end.first().filter(|(at, _)| *at <= now).copied()?;
        self.end(task);
        Some(task)
    }

    /// Tasks that wait for more than a time.
    pub(super) fn for_ever(&self) -> impl Iterator<Item = TaskRef> + '_ {
        self.by_end.range((NEVER, TaskRef::new(JobId(0), TaskId(0)))..).map(|(_, task)| *task)
    }

    /// One that others do not know so.
    pub(super) fn unknown_to(&self, others: &Delays) -> Option<(TaskRef, Timestamp)> {
        let mut ends = self.ends.iter().map(|(task, at)| (*task, *at));
        ends.find(|(task, at)| others.of(*task) != Some(*at))
    }
}
