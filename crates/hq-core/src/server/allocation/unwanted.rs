//! Allocations that are ended because nobody wants them any more: their queue is removed, the server stops, or all tasks are
//! over while they wait.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{AllocationRef, JobId, TaskId, TaskRef, Timestamp};

use crate::alloc::{Allocation, BatchOrder, QueueState};
use crate::limits::UNNEEDED_TIME;
use crate::record::NEVER;
use crate::server::job::Job;
use crate::server::machine::Server;
use crate::server::{Effect, Gate};

impl Server {
    pub(super) fn cancel_removed(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.alloc.cancel_again.is_some_and(|at| at > now) {
            return;
        }
        self.alloc.cancel_again = None;
        self.cancel_where(|_, queue| queue.is_removed, effects);
    }

    /// The server stops, and its allocations with it.
    pub(in crate::server) fn cancel_allocations(&mut self, effects: &mut Vec<Effect>) {
        if !self.options.keep_allocations {
            self.cancel_where(|_, _| true, effects);
        }
    }

    pub(super) fn cancel_where(
        &mut self,
        is_unwanted: impl Fn(AllocationRef, &QueueState) -> bool,
        effects: &mut Vec<Effect>,
    ) {
        let mut orders: BTreeMap<String, Vec<(AllocationRef, String)>> = BTreeMap::new();
        for (which, queue, one) in self.state.alloc.active() {
            if let Some(id) = one.batch_id.clone()
                && is_unwanted(which, queue)
                && self.alloc.canceling.insert(which)
            {
                orders.entry(queue.params.manager.clone()).or_default().push((which, id));
            }
        }
        for (manager, allocations) in orders {
            effects.push(Effect::Batch {
                order: BatchOrder::Cancel { manager, allocations },
                gate: Gate::Synced,
            });
        }
    }

    // An allocation that would get nothing of what waits would start later and idle until its idle timeout. When that has
    // been so for as long, it is canceled: it may have waited for hours, and the next tasks may come in a moment. While tasks
    // wait for others, nobody knows what they will need.
    pub(super) fn cancel_unneeded(
        &mut self,
        now: Timestamp,
        is_unneeded: impl Fn(AllocationRef) -> bool,
        effects: &mut Vec<Effect>,
    ) {
        let waits = |(_, queue, one): &(AllocationRef, &QueueState, &Allocation)| {
            !queue.params.keep_waiting && one.is_waiting() && one.batch_id.is_some()
        };
        // Jobs may be many, and mostly no allocation waits.
        let is_over = self.state.alloc.active().any(|one| waits(&one))
            && self.state.jobs.iter().all(|(id, job)| job.tasks_ended() || self.is_in_sight(*id, job));
        let known = std::mem::take(&mut self.alloc.unneeded);
        let (mut unneeded, mut due) = (BTreeMap::new(), BTreeSet::new());
        for (which, queue, _) in self.state.alloc.active().filter(|one| is_over && waits(one)) {
            if !is_unneeded(which) {
                continue;
            }
            let since = known.get(&which).copied().unwrap_or(now);
            unneeded.insert(which, since);
            if since.after(queue.params.idle_timeout.unwrap_or(UNNEEDED_TIME)) <= now {
                due.insert(which);
            }
        }
        self.alloc.unneeded = unneeded;
        for which in due.difference(&self.alloc.canceling).copied().collect::<Vec<_>>() {
            let text = format!("allocation {which} is canceled while it waits: nothing is left for it to do");
            self.alloc.note(now, which.queue, text);
        }
        self.cancel_where(|which, _| due.contains(&which), effects);
    }

    // All tasks of a job that have not ended run, or could.
    fn is_in_sight(&self, id: JobId, job: &Job) -> bool {
        let is_blocked = self.readiness.blocked(id).is_some_and(|blocked| !blocked.is_empty());
        let waits_for_time = |(task, at): (&TaskId, &Timestamp)| {
            *at == NEVER && self.readiness.waits_for_time(TaskRef::new(id, *task))
        };
        !job.is_open && !job.is_draft() && !is_blocked && job.delayed.iter().all(waits_for_time)
    }
}
