//! What becomes of the node time of allocations: with tasks, without, or lost. It is kept in the journal now and then, so that a
//! server that is started again goes on from there.

use hq_model::allocation::NodeTime;
use hq_model::{AllocationRef, Timestamp};

use crate::alloc::{AllocRecord, Allocation, QueueState};
use crate::limits::MEASURE_INTERVAL;
use crate::record::Record;
use crate::server::Effect;
use crate::server::machine::Server;

/// Nodes of a running allocation, as they have been since a time, and what became of their time before.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeWork {
    time: NodeTime,
    since: Timestamp,
    busy: u64,
    idle: u64,
    lost: u64,
}

impl Server {
    /// Notes what the nodes of running allocations do from now on.
    pub(super) fn measure_work(&mut self, now: Timestamp) {
        let mut work = std::mem::take(&mut self.alloc.work);
        for (which, _, one) in self.state.alloc.active() {
            let Some(started) = one.started else { continue };
            let (busy, idle) = self.busy_and_idle(one);
            let lost = u64::from(one.workers).saturating_sub(busy + idle);
            // Of the time before a restart of the server only this much is known: what was measured, and who had tasks.
            let since = one.measured.unwrap_or(started);
            let first = NodeWork { time: one.time, since, busy, idle, lost };
            let entry = work.entry(which).or_insert(first);
            *entry = NodeWork { time: entry.until(now), since: now, busy, idle, lost };
        }
        self.alloc.work = work;
    }

    /// What is known of node time survives the server: since it was kept last, workers had tasks or not as at the restart.
    pub(super) fn keep_measures(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let due = |(_, _, one): &(AllocationRef, &QueueState, &Allocation)| {
            let since = one.measured.or(one.started);
            since.is_some_and(|since| since.after(MEASURE_INTERVAL) <= now)
        };
        let due: Vec<_> = self.state.alloc.active().filter(due).collect();
        let measured: Vec<_> =
            due.into_iter().map(|(which, _, one)| (which, self.node_time(now, which, one))).collect();
        for (allocation, time) in measured {
            // It is in there.
            self.alloc.wasted_us.remove(&allocation);
            if let Some(work) = self.alloc.work.get_mut(&allocation) {
                work.time = NodeTime { asked_us: 0, ..time };
            }
            self.record(now, Record::Alloc(Box::new(AllocRecord::Measured { allocation, time })), effects);
        }
    }

    /// What became of an allocation's node time until now.
    pub(super) fn node_time(&self, now: Timestamp, which: AllocationRef, one: &Allocation) -> NodeTime {
        let mut time = self.alloc.work.get(&which).map_or(one.time, |work| work.until(now));
        let wasted_us = self.alloc.wasted_us.get(&which).copied().unwrap_or(0).min(time.used_us);
        time.used_us -= wasted_us;
        time.lost_us += wasted_us;
        if one.batch_id.is_some() || one.joined > 0 {
            let limit = u64::try_from(one.time_limit.as_micros()).unwrap_or(u64::MAX);
            time.asked_us = limit.saturating_mul(u64::from(one.workers));
        }
        time
    }
}

impl NodeWork {
    fn until(&self, now: Timestamp) -> NodeTime {
        let passed = u64::try_from(now.since(self.since).as_micros()).unwrap_or(u64::MAX);
        let mut time = self.time;
        time.add(&NodeTime {
            asked_us: 0,
            used_us: passed.saturating_mul(self.busy),
            idle_us: passed.saturating_mul(self.idle),
            lost_us: passed.saturating_mul(self.lost),
        });
        time
    }
}
