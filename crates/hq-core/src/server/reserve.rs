//! Room for a task that fits nowhere: after a while a worker is kept for the first one in the order, so that smaller
//! tasks behind it do not take its place for ever.
//!
//! While a round hands out tasks, the room is counted as promised.

use std::cmp::Reverse;

use hq_model::{Timestamp, WorkerId};

use super::capacity::Needs;
use super::machine::Server;
use super::queue::ClassId;
use crate::limits::{OVERTAKEN_BY_LOWER_MAX, OVERTAKEN_MAX, UNFIT_CLASSES_MAX};

/// Whom room is kept for.
#[derive(Clone, Debug, Default)]
pub(super) struct Reserve {
    // The first class that fits nowhere, and since when it is the first.
    first: Option<(ClassId, Timestamp)>,
    // The worker that is kept for it.
    worker: Option<WorkerId>,
    // What is counted as promised during a round.
    promised: Option<(WorkerId, Needs)>,
    // Of the round: whether the first one was met, and how many were that could never run.
    is_met: bool,
    unfit: usize,
}

impl Server {
    /// A round begins.
    pub(super) fn begin_reserve(&mut self, now: Timestamp) {
        self.reserve.is_met = false;
        self.reserve.unfit = 0;
        if self.reserve.first.is_some_and(|first| self.queue.count(first.0) == 0) {
            self.reserve.first = None;
            self.reserve.worker = None;
        }
        if self.is_firm(now) {
            self.keep_room(now);
        }
    }

    /// A round is over.
    pub(super) fn end_reserve(&mut self) {
        self.let_room();
        if !self.reserve.is_met {
            self.reserve.first = None;
            self.reserve.worker = None;
        }
    }

    /// The turn of a class has come: what is kept for it is its own. True when others of its priority wait for it.
    pub(super) fn may_use_room(&mut self, now: Timestamp, class: ClassId) -> bool {
        let is_own = self.is_room_kept_for(class);
        if is_own {
            self.let_room();
        }
        is_own && self.is_firm(now)
    }

    /// A worker is, or may be, kept for this class.
    pub(super) fn is_room_kept_for(&self, class: ClassId) -> bool {
        self.reserve.first.is_some_and(|first| first.0 == class)
    }

    /// The worker on which room is counted as promised to the class it is kept for.
    pub(super) fn kept_worker(&self) -> Option<WorkerId> {
        self.reserve.promised.as_ref().map(|promised| promised.0)
    }

    /// A task of this priority on several nodes is looked at: it goes before what room is kept for at its priority or
    /// below. Otherwise the two would wait for each other.
    pub(super) fn let_room_up_to(&mut self, priority: i32) {
        if self.reserve.first.is_some_and(|first| self.queue.key(first.0).priority <= priority) {
            self.let_room();
        }
    }

    /// None of the tasks of a class fits anywhere.
    pub(super) fn fits_nowhere(&mut self, now: Timestamp, class: ClassId) {
        if self.reserve.is_met || self.reserve.unfit >= UNFIT_CLASSES_MAX || self.share_room(class) == 0 {
            return;
        }
        if self.reserve.first.is_none_or(|first| first.0 != class) {
            let Some(worker) = self.nearest(now, class) else {
                self.reserve.unfit += 1;
                return;
            };
            self.reserve.first = Some((class, now));
            self.reserve.worker = Some(worker);
        }
        self.reserve.is_met = true;
        if self.is_firm(now) {
            self.keep_room(now);
        }
    }

    /// What comes now is of lower priority than all that was tried.
    pub(super) fn goes_lower(&mut self, now: Timestamp) {
        let since = self.reserve.first.filter(|_| self.reserve.is_met).map(|first| first.1);
        if since.is_some_and(|since| now >= since.after(OVERTAKEN_BY_LOWER_MAX)) {
            self.keep_room(now);
        }
    }

    // Others of its priority wait, too.
    fn is_firm(&self, now: Timestamp) -> bool {
        self.reserve.first.is_some_and(|first| now >= first.1.after(OVERTAKEN_MAX))
    }

    fn keep_room(&mut self, now: Timestamp) {
        if self.reserve.promised.is_some() {
            return;
        }
        let Some((class, _)) = self.reserve.first else { return };
        let known = self.reserve.worker.filter(|id| self.live.get(id).is_some_and(|l| l.takes_tasks()));
        let Some(id) = known.or_else(|| self.nearest(now, class)) else { return };
        self.reserve.worker = Some(id);
        let requests = &self.queue.key(class).requests;
        let Some(live) = self.live.get_mut(&id) else { return };
        let Some(needs) = live.choices(class, requests).first().map(|choice| choice.needs.clone()) else {
            return;
        };
        live.capacity.promise(&needs, 1);
        self.reserve.promised = Some((id, needs));
    }

    fn let_room(&mut self) {
        let Some((id, needs)) = self.reserve.promised.take() else { return };
        if let Some(live) = self.live.get_mut(&id) {
            live.capacity.release(&needs, 1);
        }
    }

    // The worker on which least is missing. `None` when the class can run nowhere.
    fn nearest(&mut self, now: Timestamp, class: ClassId) -> Option<WorkerId> {
        let key = self.queue.key(class);
        let requests = &key.requests;
        let mut best: Option<(Reverse<u64>, WorkerId)> = None;
        for (id, live) in self.live.iter_mut().filter(|(_, live)| live.takes(key.priority)) {
            let left = live.ends_at.map(|end| end.since(now));
            let Some(choice) = live.choices(class, requests).first() else { continue };
            if left.is_some_and(|left| left < choice.time_request) {
                continue;
            }
            let needs = choice.needs.clone();
            let (_, free, units) = live.capacity.scarcest(&needs);
            let part = free.0.saturating_mul(10_000) / units.0.max(1);
            if best.is_none_or(|best| (Reverse(part), *id) < best) {
                best = Some((Reverse(part), *id));
            }
        }
        best.map(|best| best.1)
    }
}
