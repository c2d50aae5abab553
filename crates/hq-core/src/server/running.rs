//! What runs, as workers report it: first attempts of tasks, second ones beside them, and how many a worker has.
//!
//! Nothing here is durable: whoever comes back says anew what runs there.

use std::collections::BTreeMap;

use hq_model::{IdSet, Instance, JobId, TaskId, TaskRef, Timestamp, WorkerId};

/// An attempt that is reported as started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) worker: WorkerId,
    pub(super) instance: Instance,
    pub(super) since: Timestamp,
    // As which variant, where there are several.
    pub(super) variant: Option<u32>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Running {
    first: BTreeMap<JobId, BTreeMap<TaskId, Run>>,
    seconds: BTreeMap<TaskRef, Run>,
    counts: BTreeMap<WorkerId, u64>,
}

static NOTHING: BTreeMap<TaskId, Run> = BTreeMap::new();

impl Running {
    /// What runs of a job, without second attempts.
    pub(super) fn of_job(&self, job: JobId) -> &BTreeMap<TaskId, Run> {
        self.first.get(&job).unwrap_or(&NOTHING)
    }

    /// The attempt of a task that runs, and is not its second one.
    pub(super) fn of(&self, job: JobId, task: TaskId) -> Option<&Run> {
        self.of_job(job).get(&task)
    }

    /// Tasks of a job that run.
    pub(super) fn ids_of(&self, job: JobId) -> IdSet {
        self.of_job(job).keys().copied().collect()
    }

    /// How many these are.
    pub(super) fn count(&self, job: JobId) -> u64 {
        self.of_job(job).len() as u64
    }

    /// How many attempts run on a worker.
    pub(super) fn count_on(&self, worker: WorkerId) -> u64 {
        self.counts.get(&worker).copied().unwrap_or(0)
    }

    /// All but second attempts.
    pub(super) fn all(&self) -> impl Iterator<Item = (TaskRef, &Run)> + '_ {
        self.first
            .iter()
            .flat_map(|(job, tasks)| tasks.iter().map(|(task, run)| (TaskRef::new(*job, *task), run)))
    }

    /// All second attempts.
    pub(super) fn seconds(&self) -> impl Iterator<Item = (TaskRef, &Run)> + '_ {
        self.seconds.iter().map(|(task, run)| (*task, run))
    }

    /// The second attempt of a task runs.
    pub(super) fn has_second(&self, task: TaskRef) -> bool {
        self.seconds.contains_key(&task)
    }

    /// The second attempt of a task that runs.
    pub(super) fn second_of(&self, task: TaskRef) -> Option<&Run> {
        self.seconds.get(&task)
    }

    /// An attempt has started.
    pub(super) fn start(&mut self, task: TaskRef, run: Run) {
        let before = self.first.entry(task.job).or_default().insert(task.task, run);
        self.move_count(before, Some(run));
    }

    /// A second attempt has started.
    pub(super) fn start_second(&mut self, task: TaskRef, run: Run) {
        let before = self.seconds.insert(task, run);
        self.move_count(before, Some(run));
    }

    /// No attempt of these runs any more.
    pub(super) fn end(&mut self, job: JobId, ids: &IdSet) {
        self.end_seconds(job, ids);
        let Some(running) = self.first.get_mut(&job) else { return };
        let mut gone = Vec::new();
        for range in ids.ranges() {
            let bounds = TaskId(*range.start())..=TaskId(*range.end());
            let ended: Vec<TaskId> = running.range(bounds).map(|entry| *entry.0).collect();
            gone.extend(ended.iter().filter_map(|task| running.remove(task)));
        }
        if running.is_empty() {
            self.first.remove(&job);
        }
        for run in gone {
            self.move_count(Some(run), None);
        }
    }

    /// The second attempt of a task runs no more, if it did.
    pub(super) fn end_second(&mut self, task: TaskRef) -> Option<Run> {
        let run = self.seconds.remove(&task)?;
        self.move_count(Some(run), None);
        Some(run)
    }

    fn end_seconds(&mut self, job: JobId, ids: &IdSet) {
        if self.seconds.is_empty() {
            return;
        }
        let of_job = TaskRef::new(job, TaskId(0))..=TaskRef::new(job, TaskId(u32::MAX));
        let ended = self.seconds.range(of_job).map(|(task, _)| *task);
        let ended: Vec<TaskRef> = ended.filter(|task| ids.contains(task.task)).collect();
        for task in ended {
            self.end_second(task);
        }
    }

    /// A worker is to say anew what runs there.
    pub(super) fn forget_worker(&mut self, worker: WorkerId) {
        self.seconds.retain(|_, run| run.worker != worker);
        for tasks in self.first.values_mut() {
            tasks.retain(|_, run| run.worker != worker);
        }
        self.first.retain(|_, tasks| !tasks.is_empty());
        self.counts.remove(&worker);
    }

    fn move_count(&mut self, from: Option<Run>, to: Option<Run>) {
        if let Some(to) = to {
            *self.counts.entry(to.worker).or_default() += 1;
        }
        let Some(from) = from else { return };
        let Some(count) = self.counts.get_mut(&from.worker) else { return };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&from.worker);
        }
    }

    /// Checks what is counted.
    ///
    /// # Errors
    /// Says what of it is wrong.
    pub(super) fn is_in_order(&self) -> Result<(), String> {
        let mut counts: BTreeMap<WorkerId, u64> = BTreeMap::new();
        for (_, run) in self.all().chain(self.seconds()) {
            *counts.entry(run.worker).or_default() += 1;
        }
        match counts == self.counts {
            true => Ok(()),
            false => Err(format!("attempts by worker are {counts:?}, {:?} are counted", self.counts)),
        }
    }
}
