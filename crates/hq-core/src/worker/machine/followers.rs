//! Followers: tasks that were handed over together with the one task that they wait for, which may be a follower, too.
//! They start as soon as that one has ended well here, without a word from the server; in every other case they go back.

use std::sync::Arc;

use hq_model::left_behind::LeftBehind;
use hq_model::{IdSet, Instance, JobId, TaskId, TaskRef};

use super::{Batch, Link, Worker};
use crate::worker_messages::CallInput;

impl Worker {
    /// Keeps a follower until `leader` ends. That may be over already, or somewhere else.
    pub(super) fn take_follower(&mut self, leader: TaskRef, instance: Instance, mut follower: Batch) {
        if self.instance_here(leader) == Some(instance) {
            if let Some(other) = self.followers.insert(leader, follower) {
                self.reporting.returned(leader.job, &other.left);
            }
        } else if let Some(left) = self.reporting.left_by(leader, instance)
            && self.give_result(&mut follower, leader, left)
        {
            self.enqueue(follower);
        } else {
            self.reporting.returned(leader.job, &follower.left);
        }
    }

    /// A task has ended here: its follower starts after a success of which the next report speaks, and which has left this.
    /// It takes the place of that one among those that wait, whose rank is given.
    pub(in crate::worker) fn leader_ended(&mut self, leader: TaskRef, rank: u64, left: Option<&[u8]>) {
        let (mut leader, mut left) = (leader, left);
        while let Some(mut follower) = self.followers.remove(&leader) {
            let may_start = self.link == Link::Up && self.leaving.is_none();
            if let Some(left) = left.filter(|_| may_start)
                && self.give_result(&mut follower, leader, left)
            {
                follower.rank = rank;
                return self.enqueue(follower);
            }
            self.reporting.returned(leader.job, &follower.left);
            // What follows that one cannot start either.
            leader.task = follower.left.first().unwrap_or(leader.task);
            left = None;
        }
    }

    // What a call takes is told with it, but for what its leader leaves. False where that is not the value itself: the server
    // knows where it is.
    fn give_result(&self, follower: &mut Batch, leader: TaskRef, left: &[u8]) -> bool {
        if !self.takes_results(follower) {
            return true;
        }
        let is_value = matches!(LeftBehind::of(left), LeftBehind::Packed(left) if left.is_value_alone());
        if is_value {
            let inputs =
                follower.left.iter().map(|task| CallInput { task, of: leader, result: left.to_vec() });
            Arc::make_mut(&mut follower.inputs).extend(inputs);
        }
        is_value
    }

    fn takes_results(&self, batch: &Batch) -> bool {
        self.templates.get(&batch.template).is_some_and(|known| known.template.spec.body.is_packed_call())
    }

    /// Tasks of a job will not run here.
    pub(super) fn leaders_gone(&mut self, job: JobId, ids: &IdSet) {
        let of_job = TaskRef::new(job, TaskId(0))..=TaskRef::new(job, TaskId(u32::MAX));
        let leaders = self.followers.range(of_job).filter(|entry| ids.contains(entry.0.task));
        let leaders: Vec<TaskRef> = leaders.map(|entry| *entry.0).collect();
        leaders.into_iter().for_each(|leader| self.leader_ended(leader, 0, None));
    }

    /// As which instance a task waits or runs here.
    pub(super) fn instance_here(&self, task: TaskRef) -> Option<Instance> {
        // Most likely the last one that came.
        let batches = self.queue.values().chain(self.followers.values().rev());
        let mut batches = batches.filter(|batch| batch.template.job == task.job);
        let queued = batches.find(|batch| batch.left.contains(task.task)).map(|batch| batch.instance);
        queued.or_else(|| self.armed_as(task)).or_else(|| Some(self.running.get(&task)?.instance))
    }
}
