//! How records move the tasks of a job on. Where a task is, is said once; what that leaves waiting is derived.

use hq_model::{IdSet, Instance, TaskId, WorkerId};

use super::job::{Job, WORKERS_MAX};
use crate::record::JobProgress;

impl Job {
    /// Puts it where it was; its submits are there already.
    pub(in crate::server) fn resume(&mut self, progress: &JobProgress) {
        self.progress = progress.clone();
        self.aborted = IdSet::new();
        for (ids, _) in &progress.abort_reasons {
            self.aborted.union_with(ids);
        }
        self.queued = self.ids.clone();
        let ended = [&progress.finished, &progress.failed, &progress.canceled, &self.aborted];
        for ids in ended.into_iter().chain(progress.leased.values()) {
            self.queued.subtract(ids);
        }
    }

    /// Gives tasks an instance.
    pub(super) fn set_instance(&mut self, ids: &IdSet, instance: Instance) {
        for set in self.progress.instances.values_mut() {
            set.subtract(ids);
        }
        self.progress.instances.retain(|_, set| !set.is_empty());
        if instance.0 > 0 {
            self.progress.instances.entry(instance).or_default().union_with(ids);
        }
    }

    /// As [`Job::take_alive`] for tasks that most likely are all leased to one worker: the others need not be
    /// looked at then.
    pub(super) fn take_alive_from(&mut self, worker: WorkerId, ids: &IdSet) {
        let has_all = self.progress.leased.get(&worker).is_some_and(|held| held.contains_all(ids));
        if has_all && self.progress.seconds.is_empty() {
            self.take_leased(worker, ids);
        } else {
            self.take_alive(ids);
        }
    }

    /// Takes tasks out of `queued` and `leased`, whichever they are in.
    pub(super) fn take_alive(&mut self, ids: &IdSet) {
        self.queued.subtract(ids);
        for set in self.progress.leased.values_mut() {
            set.subtract(ids);
        }
        self.progress.leased.retain(|_, set| !set.is_empty());
        if !self.progress.delayed.is_empty() {
            self.progress.delayed.retain(|task, _| !ids.contains(*task));
        }
        if !self.progress.seconds.is_empty() {
            self.progress.seconds.retain(|task, _| !ids.contains(*task));
        }
        if !self.progress.deferred.is_empty() {
            self.progress.deferred.retain(|task, _| !ids.contains(*task));
        }
        self.forget_nodes(ids);
    }

    /// Tasks have ended: of no other call they are to give the value any more.
    pub(super) fn forget_values_of(&mut self, ids: &IdSet) {
        if !self.progress.values_of.is_empty() {
            self.progress.values_of.retain(|task, _| !ids.contains(*task));
        }
    }

    /// Takes tasks from what one worker holds.
    pub(super) fn take_leased(&mut self, worker: WorkerId, ids: &IdSet) {
        self.forget_nodes(ids);
        let Some(held) = self.progress.leased.get_mut(&worker) else { return };
        held.subtract(ids);
        if held.is_empty() {
            self.progress.leased.remove(&worker);
        }
    }

    /// Remembers that tasks of this job ended on these workers.
    pub(super) fn note_workers<'a>(&mut self, workers: impl IntoIterator<Item = &'a WorkerId>) {
        for worker in workers {
            if self.progress.workers.len() < WORKERS_MAX {
                self.progress.workers.insert(*worker);
            }
        }
    }

    /// Tasks finish as this instance: perhaps that was the second attempt of some.
    pub(super) fn settle_seconds(&mut self, ids: &IdSet, instance: Instance) {
        let won = self
            .progress
            .seconds
            .iter()
            .filter(|(task, second)| second.instance == instance && ids.contains(**task));
        let won: IdSet = won.map(|(task, _)| *task).collect();
        if !won.is_empty() {
            self.set_instance(&won, instance);
        }
    }

    /// One of two attempts ended without a result.
    pub(super) fn drop_attempt(&mut self, task: TaskId, instance: Instance) {
        let Some(second) = self.progress.seconds.get_mut(&task) else { return };
        if second.instance == instance {
            second.worker = None;
        } else if let Some(worker) = second.worker {
            let (ids, instance) = (IdSet::single(task), second.instance);
            self.take_alive(&ids);
            self.progress.leased.entry(worker).or_default().insert(task);
            self.set_instance(&ids, instance);
        }
    }

    /// They are not leased any more.
    pub(super) fn forget_nodes(&mut self, ids: &IdSet) {
        if !self.progress.nodes.is_empty() {
            self.progress.nodes.retain(|task, _| !ids.contains(*task));
        }
    }
}
