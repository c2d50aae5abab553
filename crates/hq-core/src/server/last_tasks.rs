//! Which task started last on each worker: a room of nothing durable. It is for people; nothing is decided by it.

use std::collections::BTreeMap;

use hq_model::{TaskRef, Timestamp, WorkerId};

/// The last task of each worker, also of those that have ended, until they are forgotten.
#[derive(Debug, Default)]
pub(super) struct LastTasks(BTreeMap<WorkerId, (TaskRef, Timestamp)>);

impl LastTasks {
    /// A task has started on a worker, which may be told after what started later.
    pub(super) fn started(&mut self, worker: WorkerId, task: TaskRef, at: Timestamp) {
        let last = self.0.entry(worker).or_insert((task, at));
        if last.1 <= at {
            *last = (task, at);
        }
    }

    /// The task, and when it started.
    pub(super) fn of(&self, worker: WorkerId) -> Option<(TaskRef, Timestamp)> {
        self.0.get(&worker).copied()
    }

    /// The worker is forgotten.
    pub(super) fn forget(&mut self, worker: WorkerId) {
        self.0.remove(&worker);
    }
}
