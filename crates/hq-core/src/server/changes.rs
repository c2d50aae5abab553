//! Workers and classes for which placement may have changed since it was last decided.

use std::collections::BTreeSet;

use hq_model::WorkerId;

use super::queue::ClassId;

/// Both.
#[derive(Debug, Default)]
pub(super) struct Changes {
    workers: BTreeSet<WorkerId>,
    classes: BTreeSet<ClassId>,
}

impl Changes {
    /// Something was freed on a worker, or it takes more than before.
    pub(super) fn of_worker(&mut self, worker: WorkerId) {
        self.workers.insert(worker);
    }

    /// The same of several.
    pub(super) fn of_workers(&mut self, workers: impl IntoIterator<Item = WorkerId>) {
        self.workers.extend(workers);
    }

    /// Tasks of a class have become ready, or may go where they could not.
    pub(super) fn of_class(&mut self, class: ClassId) {
        self.classes.insert(class);
    }

    /// The same of several.
    pub(super) fn of_classes(&mut self, classes: impl IntoIterator<Item = ClassId>) {
        self.classes.extend(classes);
    }

    /// A worker is gone.
    pub(super) fn forget_worker(&mut self, worker: WorkerId) {
        self.workers.remove(&worker);
    }

    /// How many workers there is something to decide for.
    pub(super) fn workers_count(&self) -> usize {
        self.workers.len()
    }

    /// True when there is nothing to decide.
    pub(super) fn is_empty(&self) -> bool {
        self.workers.is_empty() && self.classes.is_empty()
    }

    /// All of it is decided now.
    pub(super) fn take(&mut self) -> (BTreeSet<WorkerId>, BTreeSet<ClassId>) {
        let Changes { workers, classes } = std::mem::take(self);
        (workers, classes)
    }
}
