//! When allocations count as over. What the batch system says decides: a batch job may go on when its workers have left.

use std::time::Duration;

use hq_model::allocation::AllocationEnd;
use hq_model::{AllocationRef, QueueId, Timestamp};

use crate::alloc::{AllocRecord, Allocation, BatchOrder, policy};
use crate::limits::UNCLEAR_TIME;
use crate::server::machine::Server;
use crate::server::{Effect, Gate};

impl Server {
    /// What is over without another word of the batch system.
    pub(super) fn conclude(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let mut ended = Vec::new();
        for (which, queue, one) in self.state.alloc.active() {
            let open = self.alloc.unclear.get(&which);
            if queue.is_removed && self.alloc.deferred(which).is_some() {
                ended.push((which, AllocationEnd::Canceled));
            } else if let Some(end) = self.said_before(which, one) {
                ended.push((which, end));
            } else if open.is_some_and(|open| open.since.after(UNCLEAR_TIME) <= now) {
                let text = "the batch system did not say whether it took it, and no worker of it came";
                ended.push((which, AllocationEnd::Vanished(text.into())));
            } else if one.connected.is_empty() && policy::given_up_at(one).is_some_and(|at| at <= now) {
                let text = "its time is over, and the batch system does not say how it ended";
                let vanished = || AllocationEnd::Vanished(text.into());
                ended.push((which, policy::end_by_workers(one).unwrap_or_else(vanished)));
            }
        }
        for (which, end) in ended {
            self.end_allocation(now, which, end, effects);
        }
    }

    // Its workers have left in order, and the batch system said before that it is over, or cannot be asked.
    fn said_before(&self, which: AllocationRef, one: &Allocation) -> Option<AllocationEnd> {
        let end = policy::end_by_workers(one)?;
        if one.batch_id.is_none() {
            return Some(end);
        }
        policy::end_by_state(one, &self.alloc.seen.get(&which)?.1, false)
    }

    /// An allocation is over.
    pub(super) fn end_allocation(
        &mut self,
        now: Timestamp,
        which: AllocationRef,
        end: AllocationEnd,
        effects: &mut Vec<Effect>,
    ) {
        self.end_allocation_after(now, which, (end, None), effects);
    }

    /// The same where the batch system says how long it had its nodes.
    pub(super) fn end_allocation_after(
        &mut self,
        now: Timestamp,
        which: AllocationRef,
        (end, ran): (AllocationEnd, Option<Duration>),
        effects: &mut Vec<Effect>,
    ) {
        let Some(one) = self.state.alloc.allocation(which).filter(|one| one.is_active()) else {
            return self.alloc.forget(which);
        };
        let mut time = self.node_time(now, which, one);
        if let Some(ran) = ran {
            let ran_us = u64::try_from(ran.as_micros()).unwrap_or(u64::MAX);
            let wasted_us = self.alloc.wasted_us.get(&which).copied().unwrap_or(0);
            let held_us = ran_us.saturating_mul(u64::from(one.workers));
            time.lost_us = held_us.saturating_sub(time.used_us + time.idle_us).max(wasted_us);
        }
        self.alloc.forget(which);
        let Some(one) = self.state.alloc.allocation(which) else { return };
        self.alloc.work.remove(&which);
        let was_there = one.batch_id.is_some();
        // Nobody knows it: should it be there all the same, it must not start later, unseen.
        if let (AllocationEnd::Vanished(_), Some(id), Some(queue)) =
            (&end, one.batch_id.clone(), self.state.alloc.queues.get(&which.queue))
        {
            let (manager, allocations) = (queue.params.manager.clone(), vec![(which, id)]);
            effects.push(Effect::Batch {
                order: BatchOrder::Cancel { manager, allocations },
                gate: Gate::Synced,
            });
        }
        let name = one.batch_id.clone().unwrap_or_else(|| which.to_string());
        self.alloc.note(now, which.queue, format!("allocation {name} is over: {end}"));
        self.record_alloc(now, AllocRecord::Ended { allocation: which, end, time }, effects);
        if was_there {
            self.has_more_room(now, which.queue);
        }
        self.remove_old_directory(which.queue, effects);
        if !self.state.alloc.queues.contains_key(&which.queue) {
            self.alloc.decisions.remove(&which.queue);
        }
    }

    /// Something of a queue's batch system has started or ended: what was not taken before may be taken now.
    pub(super) fn has_more_room(&mut self, now: Timestamp, id: QueueId) {
        let queues = &self.state.alloc.queues;
        let manager = |id: &QueueId| queues.get(id).map(|queue| &queue.params.manager);
        for (queue, deferred) in &mut self.alloc.deferred {
            if manager(queue) == manager(&id) {
                deferred.ask_at = deferred.ask_at.min(now);
            }
        }
    }
}
