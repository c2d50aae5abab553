//! Ends that come one shortly after the other are awaited before a worker is filled again.
//!
//! Where many different tasks wait, what ends first would be filled with the small ones at once, and the large ones
//! would find room nowhere. So a worker on which more is about to end is left alone for a moment, when it is known how
//! long its tasks take.

use std::collections::BTreeSet;

use hq_model::{Timestamp, WorkerId};

use super::machine::Server;
use crate::limits::{GATHER_PART, GATHER_TASKS_MAX, GATHER_TOTAL_PART, GATHER_WORKERS_MAX};

/// Workers that are left alone for a moment.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    workers: BTreeSet<WorkerId>,
    // When the first of them is filled.
    end: Option<Timestamp>,
}

impl Gathering {
    /// A round begins: who is left alone is found anew.
    pub(super) fn begin(&mut self) {
        *self = Gathering::default();
    }

    /// A worker is left alone until then, at the latest.
    pub(super) fn leave_alone(&mut self, worker: WorkerId, until: Timestamp) {
        self.end = Some(self.end.map_or(until, |end| end.min(until)));
        self.workers.insert(worker);
    }

    /// True when a worker is left alone.
    pub(super) fn has(&self, worker: WorkerId) -> bool {
        self.workers.contains(&worker)
    }

    /// When a worker that is left alone is filled at the latest.
    pub(super) fn ends(&self) -> Option<Timestamp> {
        self.end
    }
}

impl Server {
    /// Workers that are left alone now. They are looked at again at [`Gathering::ends`].
    pub(super) fn gather(&mut self, now: Timestamp, workers: &BTreeSet<WorkerId>) -> BTreeSet<WorkerId> {
        self.gathering.begin();
        if !self.queue.is_mixed() {
            return BTreeSet::new();
        }
        let mut partly = Vec::new();
        for id in workers {
            let Some(live) = self.live.get_mut(id) else { continue };
            let is_used = !live.capacity().is_free() && !live.capacity().is_out_of_cpus();
            let is_partly = is_used && live.takes_tasks() && !live.is_relay;
            if is_partly && partly.len() < GATHER_WORKERS_MAX {
                partly.push(*id);
            } else {
                // What it waited for has come.
                live.gathers_since = None;
            }
        }
        for id in partly {
            let soon = self.ends_soon(now, id);
            let Some(live) = self.live.get_mut(&id) else { continue };
            let Some((until, most_us)) = soon else {
                live.gathers_since = None;
                continue;
            };
            let since = *live.gathers_since.get_or_insert(now);
            let until = until.min(Timestamp(since.0 + most_us));
            if until <= now {
                live.gathers_since = None;
                continue;
            }
            self.gathering.leave_alone(id, until);
        }
        self.gathering.workers.clone()
    }

    // Until when to wait for the next end on a worker, and for how long, µs, to wait for ends at all. `None` when none
    // is near, or it is not known.
    fn ends_soon(&self, now: Timestamp, id: WorkerId) -> Option<(Timestamp, u64)> {
        let live = self.live.get(&id)?;
        if self.running.count_on(id) > GATHER_TASKS_MAX {
            return None;
        }
        let mut soonest: Option<(Timestamp, u64)> = None;
        for (template, held) in live.held() {
            let running = self.running.of_job(template.job);
            if running.is_empty() {
                continue;
            }
            let Some(estimate) = self.run_time(*template).filter(|estimate| estimate.is_sure) else {
                continue;
            };
            let window = estimate.us / GATHER_PART;
            for task in held.ids.iter().take(GATHER_TASKS_MAX as usize) {
                let Some(run) = running.get(&task).filter(|run| run.worker == id) else { continue };
                let end = run.since.0.saturating_add(estimate.us);
                let is_near = end <= now.0.saturating_add(window) && now.0 < end.saturating_add(window);
                if is_near && soonest.is_none_or(|soonest| end + window < soonest.0.0) {
                    soonest = Some((Timestamp(end + window), estimate.us / GATHER_TOTAL_PART));
                }
            }
        }
        soonest
    }
}
