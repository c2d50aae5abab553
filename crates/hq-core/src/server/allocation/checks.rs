//! When batch systems are asked how allocations are: rarely while nothing is new, soon where something has left or somebody
//! wants to know.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{ByteString, Timestamp};

use super::{Checks, LEFT_TIME};
use crate::alloc::{Allocation, BatchOrder, QueueState, policy};
use crate::limits::{CHECK_INTERVAL, DOUBT_INTERVAL, WISH_INTERVAL};
use crate::server::machine::Server;
use crate::server::{Effect, Gate};

impl Server {
    // When a batch system is to be asked next.
    pub(super) fn check_due(&self, manager: &str) -> Option<Timestamp> {
        let wish =
            self.alloc.managers.get(manager).filter(|checks| checks.is_wished && checks.asked.is_none());
        let wish = wish.map(|checks| match checks.last.max(checks.wished) {
            Some(last) => last.after(WISH_INTERVAL),
            None => Timestamp::default(),
        });
        [wish, self.regular_check_due(manager)].into_iter().flatten().min()
    }

    fn regular_check_due(&self, manager: &str) -> Option<Timestamp> {
        let none = Checks::default();
        let checks = self.alloc.managers.get(manager).unwrap_or(&none);
        if checks.asked.is_some() {
            return None;
        }
        if checks.has_doubts {
            return checks.last.max(checks.wished).map(|last| last.after(DOUBT_INTERVAL));
        }
        let rarely = |from: Timestamp| match checks.last {
            Some(last) => from.max(last.after(checks.interval)),
            None => from,
        };
        let often = |from: Timestamp| match checks.last {
            Some(last) => from.max(last.after(CHECK_INTERVAL.0)),
            None => from,
        };
        let due = |queue: &QueueState, one: &Allocation| {
            one.batch_id.as_ref()?;
            // What starts after another one waits, that is known.
            let before = one.after.and_then(|before| queue.allocations.get(&before));
            if !checks.is_urgent && one.is_waiting() && before.is_some_and(Allocation::is_active) {
                return None;
            }
            if checks.is_urgent {
                return Some(often(Timestamp::default()));
            }
            match (one.queued, one.started, &one.last_left) {
                (Some(queued), None, _) => {
                    Some(rarely(queued.after(checks.interval.max(policy::patience(queue)))))
                }
                (_, Some(_), _) if !one.connected.is_empty() => None,
                (_, Some(_), Some((left, _))) => Some(often(left.after(LEFT_TIME))),
                (_, Some(started), None) => Some(rarely(started.after(checks.interval))),
                (None, None, _) => None,
            }
        };
        let of_manager = self.state.alloc.active().filter(|(_, queue, _)| queue.params.manager == manager);
        of_manager.filter_map(|(_, queue, one)| due(queue, one)).min()
    }

    pub(super) fn managers(&self) -> BTreeSet<String> {
        self.state.alloc.queues.values().map(|queue| queue.params.manager.clone()).collect()
    }

    pub(super) fn ask_states(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        for manager in self.managers() {
            if self.check_due(&manager).is_none_or(|at| at > now) {
                continue;
            }
            let active = self.state.alloc.active().filter(|(_, queue, _)| queue.params.manager == manager);
            let jobs = active
                .filter_map(|(_, _, one)| Some((one.batch_id.clone()?, self.directory_now(&one.directory))));
            let jobs: BTreeMap<String, ByteString> = jobs.collect();
            let is_regular = self.regular_check_due(&manager).is_some_and(|at| at <= now);
            let checks = self.alloc.managers.entry(manager.clone()).or_default();
            checks.is_urgent = false;
            checks.has_doubts = false;
            checks.is_wished = false;
            *(if is_regular { &mut checks.last } else { &mut checks.wished }) = Some(now);
            if jobs.is_empty() {
                continue;
            }
            checks.asked = Some(jobs.keys().cloned().collect());
            let order = BatchOrder::AskStates { manager, jobs: jobs.into_iter().collect() };
            effects.push(Effect::Batch { order, gate: Gate::Open });
        }
    }
}
