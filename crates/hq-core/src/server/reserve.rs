//! Room for a task that fits nowhere: after a while a worker is kept for the first one in the order, so that smaller
//! tasks behind it do not take its place for ever.
//!
//! What is kept is what is free there of what it lacks: of nothing else, and for a limited time. While a round hands out
//! tasks to those that must wait for it, that is counted as promised.

use std::cmp::{Ordering, Reverse};

use std::time::Duration;

use hq_model::{Timestamp, WorkerId};

use super::capacity::Needs;
use super::live::LiveWorker;
use super::machine::Server;
use super::queue::ClassId;
use crate::keeping::keeps_room_for;
use crate::limits::{OVERTAKEN_BY_LOWER_MAX, UNFIT_CLASSES_MAX};

/// Whom room is kept for.
#[derive(Clone, Debug, Default)]
pub(super) struct Reserve {
    // The first class that fits nowhere, and since when it is the first.
    first: Option<(ClassId, Timestamp)>,
    // The worker that is kept for it.
    worker: Option<WorkerId>,
    // What is counted as promised during a round.
    promised: Option<(WorkerId, Needs)>,
    // Where pools are kept during a round, and which, whether or not something of them is free.
    kept: Option<(WorkerId, u64)>,
    // The same, as it was when the last round ended.
    kept_last: Option<(WorkerId, u64)>,
    // Until when it is kept, if it was in the last round.
    until: Option<Timestamp>,
    // Of the round: whether the first one was met, and how many were that could never run.
    is_met: bool,
    unfit: usize,
}

impl Reserve {
    /// For which class a worker keeps what tasks of another class would take, and until when.
    pub(super) fn keeps_from(
        &self,
        worker: WorkerId,
        class: ClassId,
        needs: &Needs,
    ) -> Option<(ClassId, Option<Timestamp>)> {
        let (kept, scarce) = self.kept_last?;
        let (first, _) = self.first.filter(|first| first.0 != class)?;
        (kept == worker && needs.pools() & scarce != 0).then_some((first, self.until))
    }

    /// True when what waits on a worker for such room would take what is kept there for another task.
    pub(super) fn keeps_from_backlog(&self, worker: WorkerId, needs: &Needs) -> bool {
        self.kept.is_some_and(|(kept, scarce)| kept == worker && needs.pools() & scarce != 0)
    }
}

impl Server {
    /// The worker that is not kept any more, because the one it was kept for is gone or has had its time: others may have
    /// its room.
    pub(super) fn kept_long_enough(&mut self, now: Timestamp) -> Option<WorkerId> {
        let is_gone = self.reserve.first.is_some_and(|first| self.queue.count(first.0) == 0);
        if is_gone {
            self.reserve.first = None;
        }
        let is_over = self.reserve.until.take_if(|until| is_gone || *until <= now).is_some();
        let worker = self.reserve.worker.filter(|_| is_over);
        if is_gone {
            self.reserve.worker = None;
            self.reserve.kept_last = None;
        }
        worker
    }

    /// When a worker is not kept any more.
    pub(super) fn keeping_ends(&self) -> Option<Timestamp> {
        self.reserve.until
    }

    /// A round begins.
    pub(super) fn begin_reserve(&mut self) {
        self.reserve.is_met = false;
        self.reserve.unfit = 0;
        self.reserve.until = None;
    }

    /// Tasks of a priority are looked at from now on.
    pub(super) fn begin_level(&mut self, now: Timestamp, priority: i32) {
        let Some(first) = self.reserve.first else { return };
        let keeps = match self.queue.key(first.0).priority.cmp(&priority) {
            Ordering::Less => false,
            Ordering::Equal => self.is_firm(now),
            Ordering::Greater => self.reserve.is_met && self.keeps_from_lower(now).is_some(),
        };
        if keeps { self.keep_room(now) } else { self.let_room() }
    }

    /// A round is over. Returns the worker that was kept before it, or in vain during it, and is not any more.
    pub(super) fn end_reserve(&mut self) -> Option<WorkerId> {
        let before = self.reserve.kept_last.map(|kept| kept.0);
        let in_vain = self.reserve.worker.filter(|_| !self.reserve.is_met && self.reserve.until.is_some());
        self.reserve.kept_last = self.reserve.kept.filter(|_| self.reserve.is_met);
        self.let_room();
        if !self.reserve.is_met {
            self.reserve.first = None;
            self.reserve.worker = None;
            self.reserve.until = None;
        }
        let now_kept = self.reserve.kept_last.map(|kept| kept.0);
        before.or(in_vain).filter(|worker| Some(*worker) != now_kept)
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

    /// What is counted as promised on a worker to the class it is kept for.
    pub(super) fn kept_on(&self, worker: WorkerId) -> Option<&Needs> {
        self.reserve.promised.as_ref().filter(|promised| promised.0 == worker).map(|promised| &promised.1)
    }

    /// A task of this priority on several nodes is looked at: it goes before what room is kept for at its priority or
    /// below. Otherwise the two would wait for each other.
    pub(super) fn let_room_up_to(&mut self, priority: i32) {
        if self.reserve.first.is_some_and(|first| self.queue.key(first.0).priority <= priority) {
            self.let_room();
        }
    }

    /// Tasks of a class were placed: those that are left wait anew. Returns the worker that was kept for them and now takes
    /// others.
    pub(super) fn has_what_was_kept_for(&mut self, class: ClassId) -> Option<WorkerId> {
        self.reserve.first.take_if(|first| first.0 == class)?;
        self.let_worker()
    }

    // The worker that was kept is not any more. Returns it where it takes others.
    fn let_worker(&mut self) -> Option<WorkerId> {
        self.let_room();
        let takes_others = |id: &WorkerId| {
            let is_open = |live: &LiveWorker| live.takes_tasks() && !live.is_idle_and_picky();
            !self.gathering.has(*id) && self.live.get(id).is_some_and(is_open)
        };
        self.reserve.worker.take().filter(takes_others)
    }

    /// None of the tasks of a class fits anywhere. Returns the worker that was kept for one behind it and now takes others.
    pub(super) fn fits_nowhere(&mut self, now: Timestamp, class: ClassId) -> Option<WorkerId> {
        // It may fit where room is kept for another one of its priority, whose turn is yet to come.
        let is_kept_from_it = self.reserve.kept.is_some()
            && self.reserve.first.is_some_and(|first| {
                first.0 != class && self.queue.key(first.0).priority == self.queue.key(class).priority
            });
        if is_kept_from_it
            || self.reserve.is_met
            || self.reserve.unfit >= UNFIT_CLASSES_MAX
            || self.share_room(class) == 0
        {
            return None;
        }
        let mut let_go = None;
        if self.reserve.first.is_none_or(|first| first.0 != class) {
            let Some(worker) = self.nearest(now, class) else {
                self.reserve.unfit += 1;
                return None;
            };
            let_go = self.let_worker();
            self.reserve.first = Some((class, now));
            self.reserve.worker = Some(worker);
        }
        self.reserve.is_met = true;
        if self.is_firm(now) {
            self.keep_room(now);
        }
        let_go
    }

    /// What comes now is of lower priority than all that was tried.
    pub(super) fn goes_lower(&mut self, now: Timestamp) {
        if self.reserve.is_met && self.keeps_from_lower(now).is_some() {
            self.keep_room(now);
        }
    }

    // Others of its priority wait, too.
    fn is_firm(&self, now: Timestamp) -> bool {
        self.keeps_from_equal(now).is_some()
    }

    fn keeps_from_equal(&self, now: Timestamp) -> Option<Duration> {
        keeps_room_for(now.since(self.reserve.first?.1), true)
    }

    fn keeps_from_lower(&self, now: Timestamp) -> Option<Duration> {
        keeps_room_for(now.since(self.reserve.first?.1).checked_sub(OVERTAKEN_BY_LOWER_MAX)?, false)
    }

    fn keep_room(&mut self, now: Timestamp) {
        if self.reserve.kept.is_some() {
            return;
        }
        let Some((class, _)) = self.reserve.first else { return };
        let is_known = |id: &WorkerId| self.live.get(id).is_some_and(|live| live.takes_tasks());
        let Some(id) = self.reserve.worker.filter(is_known).or_else(|| self.nearest(now, class)) else {
            return;
        };
        self.reserve.worker = Some(id);
        let left = self.keeps_from_equal(now).into_iter().chain(self.keeps_from_lower(now)).min();
        let requests = &self.queue.key(class).requests;
        let Some(live) = self.live.get_mut(&id) else { return };
        let Some(needs) = live.choices(class, requests).first().map(|choice| choice.needs.clone()) else {
            return;
        };
        self.reserve.kept = Some((id, live.capacity().scarce(&needs)));
        let until = left.map(|left| now.after(left));
        self.reserve.until = self.reserve.until.into_iter().chain(until).max();
        let Some(kept) = live.capacity().kept_for(&needs) else { return };
        live.keep_room(&kept);
        self.reserve.promised = Some((id, kept));
    }

    /// Counts room as promised to the first class that fits nowhere, however long it has waited; until it is let again.
    pub(super) fn keep_what_is_waited_for(&mut self, now: Timestamp) {
        if self.reserve.first.is_some_and(|first| self.queue.count(first.0) > 0) {
            self.keep_room(now);
        }
    }

    /// What was kept is counted as free.
    pub(super) fn let_room(&mut self) {
        self.reserve.kept = None;
        let Some((id, needs)) = self.reserve.promised.take() else { return };
        if let Some(live) = self.live.get_mut(&id) {
            live.let_room(&needs);
        }
    }

    // The worker on which least is missing. `None` when the class can run nowhere.
    fn nearest(&mut self, now: Timestamp, class: ClassId) -> Option<WorkerId> {
        let key = self.queue.key(class);
        let requests = &key.requests;
        let mut best: Option<(Reverse<u64>, WorkerId)> = None;
        for (id, live) in self.live.iter_mut().filter(|(_, live)| live.takes(key.priority)) {
            let Some(choice) = live.choices(class, requests).first() else { continue };
            let (needs, time_request) = (choice.needs.clone(), choice.time_request);
            if !live.has_time(now, time_request) {
                continue;
            }
            let (_, free, units) = live.capacity().scarcest(&needs);
            let part = free.0.saturating_mul(10_000) / units.0.max(1);
            if best.is_none_or(|best| (Reverse(part), *id) < best) {
                best = Some((Reverse(part), *id));
            }
        }
        best.map(|best| best.1)
    }
}
