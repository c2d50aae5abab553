//! What was submitted when, and what it waited for. Jobs that the server forgets stay here.

use std::collections::BTreeMap;
use std::sync::Arc;

use hq_model::{Dependencies, IdSet, JobId, TaskId, TaskSpec, Timestamp};

/// One submit.
pub(super) struct Submit {
    /// When.
    pub(super) at: Timestamp,
    /// Its tasks.
    pub(super) ids: IdSet,
    /// What they wait for.
    pub(super) dependencies: Arc<Dependencies>,
    /// What they execute.
    pub(super) task: Arc<TaskSpec>,
}

/// All of them.
#[derive(Default)]
pub(super) struct Submits {
    all: Vec<Submit>,
    // By job and first id of a range: its last id, and the place of the submit.
    by_first: BTreeMap<(JobId, u32), (u32, usize)>,
}

impl Submits {
    pub(super) fn add(
        &mut self,
        job: JobId,
        at: Timestamp,
        ids: &IdSet,
        dependencies: &Arc<Dependencies>,
        task: &Arc<TaskSpec>,
    ) {
        for range in ids.ranges() {
            self.by_first.insert((job, *range.start()), (*range.end(), self.all.len()));
        }
        let (ids, dependencies, task) = (ids.clone(), Arc::clone(dependencies), Arc::clone(task));
        self.all.push(Submit { at, ids, dependencies, task });
    }

    /// The place of the submit that a task belongs to.
    pub(super) fn place_of(&self, job: JobId, task: TaskId) -> Option<usize> {
        let (_, (last, place)) = self.by_first.range((job, 0)..=(job, task.0)).next_back()?;
        (task.0 <= *last).then_some(*place)
    }

    /// The submit that a task belongs to.
    pub(super) fn of(&self, job: JobId, task: TaskId) -> Option<&Submit> {
        self.all.get(self.place_of(job, task)?)
    }

    /// The one at a place.
    pub(super) fn at(&self, place: usize) -> Option<&Submit> {
        self.all.get(place)
    }
}
