//! Room for a task that fits nowhere: after a while workers are kept for the first class in the order, so that smaller
//! tasks behind it do not take its place for ever. From tasks of lower priority as many workers are kept as tasks of it
//! wait; from those of equal priority, one.
//!
//! What is kept is what is free there of what it lacks: of nothing else, and for a limited time. Where what is free would not
//! be enough with all that smaller tasks there leave, it is of no use: a larger one has to end, which leaves enough by itself.
//! Nothing is counted for it: whoever hands out tasks asks [`Reserve::keeps_from`].

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hq_model::{Timestamp, WorkerId};

use super::capacity::{Capacity, Needs};
use super::live::LiveWorker;
use super::machine::Server;
use super::queue::{ClassId, Queue};
use crate::keeping::keeps_room_for;
use crate::limits::{OVERTAKEN_BY_LOWER_MAX, UNFIT_CLASSES_MAX};
use crate::mark;

/// Whom room is kept for, and where.
#[derive(Clone, Debug, Default)]
pub(super) struct Reserve {
    // The first class that fits nowhere.
    first: Option<First>,
    // The workers that are kept for it.
    workers: BTreeMap<WorkerId, Kept>,
    // For how many tasks and of how many workers they were chosen.
    chosen_of: (usize, usize),
    // The one of them that is kept from others of its priority, too.
    firmly: Option<WorkerId>,
    // When something stops to be kept that was kept when the last round ended.
    until: Option<Timestamp>,
    // What was scarce for it on each of the workers when the last round ended, and when this one began.
    lacked: BTreeMap<WorkerId, Lacks>,
    // The workers of which something was let go since the server has begun to settle.
    let_go: BTreeSet<WorkerId>,
    // Of the round: whether the first one was met, and how many were that could never run.
    is_met: bool,
    unfit: usize,
}

// A worker that is kept.
#[derive(Clone, Debug)]
struct Kept {
    // What one of the tasks takes there.
    needs: Needs,
    // The pools of which what is free was of use to it when this was looked at last.
    of_use: u64,
}

#[derive(Clone, Copy, Debug)]
struct Lacks {
    // As sets.
    pools: u64,
    of_use: u64,
    is_firm: bool,
}

impl Lacks {
    // Less is kept than before, though nothing has become free.
    fn lets_go(self, before: Option<Lacks>) -> bool {
        let is_more = before.is_none_or(|before| before.is_firm || self.pools & !before.pools != 0);
        let is_less_of_use = before.is_some_and(|before| before.of_use & self.pools & !self.of_use != 0);
        (!self.is_firm && self.pools.count_ones() > 1 && is_more) || is_less_of_use
    }
}

#[derive(Clone, Copy, Debug)]
struct First {
    class: ClassId,
    priority: i32,
    // Since when some of it wait.
    since: Timestamp,
    // Since when none of it was placed.
    overtaken_since: Timestamp,
    // False while the share of its job is used up.
    may_start: bool,
}

impl First {
    // For how much longer it keeps room from tasks of this priority, on one worker or on others, too.
    fn keeps_from(&self, now: Timestamp, priority: i32, is_firm: bool) -> Option<Duration> {
        match self.priority.cmp(&priority) {
            _ if !self.may_start => None,
            Ordering::Less => None,
            Ordering::Equal if !is_firm => None,
            Ordering::Equal => keeps_room_for(now.since(self.overtaken_since), true),
            Ordering::Greater => {
                keeps_room_for(now.since(self.since).checked_sub(OVERTAKEN_BY_LOWER_MAX)?, false)
            }
        }
    }

    fn keeps_from_equal(&self, now: Timestamp) -> Option<Duration> {
        self.keeps_from(now, self.priority, true)
    }

    fn keeps_from_lower(&self, now: Timestamp) -> Option<Duration> {
        self.keeps_from(now, self.priority.checked_sub(1)?, false)
    }
}

impl Reserve {
    /// For which class a worker keeps what a task of another class would take there, and until when, as was known when the
    /// last round ended.
    pub(super) fn keeps_from(
        &self,
        now: Timestamp,
        at: (WorkerId, &Capacity),
        of: (ClassId, i32),
        needs: &Needs,
    ) -> Option<(ClassId, Option<Timestamp>)> {
        let kept = self.workers.get(&at.0)?;
        self.keeps_some_from(now, at, of, needs, kept.of_use)
    }

    /// The same of tasks that would wait there: they would take what becomes free, too, whatever is of use now.
    pub(super) fn keeps_from_backlog(
        &self,
        now: Timestamp,
        at: (WorkerId, &Capacity),
        of: (ClassId, i32),
        needs: &Needs,
    ) -> bool {
        self.keeps_some_from(now, at, of, needs, u64::MAX).is_some()
    }

    fn keeps_some_from(
        &self,
        now: Timestamp,
        (worker, capacity): (WorkerId, &Capacity),
        (class, priority): (ClassId, i32),
        needs: &Needs,
        of_use: u64,
    ) -> Option<(ClassId, Option<Timestamp>)> {
        let first = self.first.filter(|first| first.class != class)?;
        let lacks = capacity.scarce(&self.workers.get(&worker)?.needs);
        let is_firm = self.firmly == Some(worker);
        first.keeps_from(now, priority, is_firm)?;
        // On one worker all that it lacks is kept until it is there. On the others nothing is kept that alone would be of
        // no use: no CPUs where no GPU is free either.
        let takes = needs.pools();
        let is_of_use = is_firm || lacks & !takes == 0;
        (takes & lacks & of_use != 0 && is_of_use).then_some((first.class, self.until))
    }

    /// True when a task of a class would take on a worker what others are to get there that fit nowhere, however long they
    /// have waited.
    pub(super) fn awaits(
        &self,
        (worker, capacity): (WorkerId, &Capacity),
        class: ClassId,
        needs: &Needs,
    ) -> bool {
        let lacks = self.workers.get(&worker).map_or(0, |kept| capacity.scarce(&kept.needs) & kept.of_use);
        self.first.is_some_and(|first| first.class != class) && needs.pools() & lacks != 0
    }

    /// The pools on a worker, as a set, of which tasks of a priority get nothing whatever they take.
    pub(super) fn keeps_on(
        &self,
        now: Timestamp,
        worker: WorkerId,
        capacity: &Capacity,
        priority: i32,
    ) -> u64 {
        let (Some(first), Some(kept)) = (self.first, self.workers.get(&worker)) else { return 0 };
        let lacks = capacity.scarce(&kept.needs);
        let is_firm = self.firmly == Some(worker);
        let is_kept = first.priority > priority && first.keeps_from(now, priority, is_firm).is_some();
        if is_kept && (is_firm || lacks.count_ones() == 1) { lacks & kept.of_use } else { 0 }
    }

    /// True when nobody waits any more for what is kept.
    pub(super) fn is_for_nobody(&self, queue: &Queue) -> bool {
        self.first.is_some_and(|first| queue.count(first.class) == 0)
    }

    /// False once it is known in a round who is the first that fits nowhere, or too many were found that could never run.
    pub(super) fn looks_on(&self) -> bool {
        !self.is_met && self.unfit < UNFIT_CLASSES_MAX
    }

    /// The server begins to settle.
    pub(super) fn begin_settling(&mut self) {
        self.let_go.clear();
    }

    /// True when something of a worker was let go while the server settled: who had been kept from it came too late for what
    /// others were given before.
    pub(super) fn has_let_go(&self, worker: WorkerId) -> bool {
        self.let_go.contains(&worker)
    }

    /// True when a worker is kept.
    pub(super) fn has(&self, worker: WorkerId) -> bool {
        self.workers.contains_key(&worker)
    }

    fn is_for(&self, class: ClassId) -> bool {
        self.first.is_some_and(|first| first.class == class)
    }

    /// When something stops to be kept.
    pub(super) fn ends(&self) -> Option<Timestamp> {
        self.until
    }

    /// Nothing is kept on a worker any more.
    pub(super) fn let_worker(&mut self, worker: WorkerId) {
        self.workers.remove(&worker);
        self.lacked.remove(&worker);
        self.firmly.take_if(|firmly| *firmly == worker);
    }

    /// Nothing is kept any more. Returns the workers that were.
    pub(super) fn let_all(&mut self) -> BTreeSet<WorkerId> {
        self.first = None;
        self.firmly = None;
        self.until = None;
        self.lacked.clear();
        self.chosen_of = (0, 0);
        std::mem::take(&mut self.workers).into_keys().collect()
    }
}

impl Server {
    /// A round begins. Returns the workers on which something is not kept any more, because those it was kept for are gone, or
    /// may not start, or it has been kept for long enough: others may have it.
    pub(super) fn begin_reserve(&mut self, now: Timestamp) -> BTreeSet<WorkerId> {
        self.reserve.is_met = false;
        self.reserve.unfit = 0;
        let is_over = self.reserve.until.take_if(|until| *until <= now).is_some();
        let Some(first) = self.reserve.first else { return BTreeSet::new() };
        if self.queue.count(first.class) == 0 {
            return self.reserve.let_all();
        }
        self.see_what_is_of_use();
        let now_lack = self.what_lacks();
        for (id, lacked) in &mut self.reserve.lacked {
            let lacks = now_lack.get(id);
            lacked.pools &= lacks.map_or(0, |lacks| lacks.pools);
            lacked.of_use = lacks.map_or(0, |lacks| lacks.of_use);
        }
        let may_start = self.share_room(first.class) > 0;
        self.reserve.first = Some(First { may_start, ..first });
        if is_over || (first.may_start && !may_start) {
            self.reserve.workers.keys().copied().collect()
        } else {
            BTreeSet::new()
        }
    }

    /// A round is over.
    pub(super) fn end_reserve(&mut self, now: Timestamp) {
        // What was taken back from a worker is its share of its job again.
        if let Some(first) = self.reserve.first {
            let may_start = first.may_start || self.share_room(first.class) > 0;
            self.reserve.first = Some(First { may_start, ..first });
        }
        let first = self.reserve.first.filter(|_| !self.reserve.workers.is_empty());
        let left = first.and_then(|first| {
            first.keeps_from_equal(now).into_iter().chain(first.keeps_from_lower(now)).min()
        });
        self.reserve.until = left.map(|left| now.after(left));
        self.let_what_is_of_no_use();
    }

    // Of a worker that is not kept firmly a pool is kept only while nothing else lacks there. Where a task was placed that took
    // another pool, too, the first one is let go: others, to which it was not offered in this round, may have it.
    fn let_what_is_of_no_use(&mut self) {
        self.see_what_is_of_use();
        let lacks = self.what_lacks();
        let let_go = lacks.iter().filter(|(id, lacks)| lacks.lets_go(self.reserve.lacked.get(id).copied()));
        let let_go: BTreeSet<WorkerId> = let_go.map(|(id, _)| *id).collect();
        mark!("a pool is let go that another one was taken beside", !let_go.is_empty());
        self.reserve.let_go.extend(&let_go);
        self.changes.of_workers(let_go);
        self.reserve.lacked = lacks;
    }

    fn what_lacks(&self) -> BTreeMap<WorkerId, Lacks> {
        let lacks = |(id, kept): (&WorkerId, &Kept)| {
            let pools = self.live.get(id)?.capacity().scarce(&kept.needs);
            let is_firm = self.reserve.firmly == Some(*id);
            Some((*id, Lacks { pools, of_use: pools & kept.of_use, is_firm }))
        };
        self.reserve.workers.iter().filter_map(lacks).collect()
    }

    // What has started and ended on the kept workers may have changed it.
    fn see_what_is_of_use(&mut self) {
        for (id, kept) in &mut self.reserve.workers {
            kept.of_use = self.live.get(id).map_or(0, |live| live.gathers(&kept.needs));
        }
    }

    /// The class that is kept room on a worker, and to which others give way there.
    pub(super) fn kept_on(&self, now: Timestamp, worker: WorkerId) -> Option<ClassId> {
        let first = self.reserve.first.filter(|_| self.reserve.workers.contains_key(&worker))?;
        let is_kept = first.keeps_from_equal(now).or_else(|| first.keeps_from_lower(now)).is_some();
        is_kept.then_some(first.class)
    }

    /// True when others of its priority wait for a class.
    pub(super) fn is_waited_for(&self, now: Timestamp, class: ClassId) -> bool {
        let first = self.reserve.first.filter(|first| first.class == class);
        first.is_some_and(|first| first.keeps_from_equal(now).is_some())
    }

    /// Tasks of a class were placed: those of its priority do not wait for what is left of it any more. Returns the workers
    /// on which others may have room now.
    pub(super) fn has_what_was_kept_for(&mut self, now: Timestamp, class: ClassId) -> BTreeSet<WorkerId> {
        let Some(first) = self.reserve.first.filter(|first| first.class == class) else {
            return BTreeSet::new();
        };
        if self.queue.count(class) == 0 {
            let workers = self.reserve.let_all();
            mark!("room is kept for nobody any more", !workers.is_empty());
            return self.that_take_others(workers);
        }
        let was_waited_for = first.keeps_from_equal(now).is_some();
        mark!("a task starts for which a worker was kept", was_waited_for && self.reserve.firmly.is_some());
        let firmly = self.reserve.firmly.take().filter(|_| was_waited_for);
        let may_start = self.share_room(class) > 0;
        self.reserve.first = Some(First { overtaken_since: now, may_start, ..first });
        let mut workers = self.choose_workers(now);
        if !may_start {
            workers.extend(self.reserve.workers.keys());
        }
        workers.extend(firmly);
        mark!("room is left of what was kept for a task that starts", !workers.is_empty());
        self.that_take_others(workers)
    }

    /// None of the tasks of a class fits anywhere. Returns the workers on which others may have room now, because it was kept
    /// for one behind it.
    pub(super) fn fits_nowhere(&mut self, now: Timestamp, class: ClassId) -> BTreeSet<WorkerId> {
        let priority = self.queue.key(class).priority;
        let goes_first = self.reserve.first.filter(|first| first.class != class && first.may_start);
        let is_behind = goes_first.is_some_and(|first| match first.priority.cmp(&priority) {
            Ordering::Greater => true,
            Ordering::Less => false,
            // It may fit where room is kept for the other one, whose turn is yet to come.
            Ordering::Equal => self.reserve.is_met || first.keeps_from_equal(now).is_some(),
        });
        mark!(
            "a task may fit where room is kept for its equal",
            is_behind && goes_first.is_some_and(|first| first.priority == priority)
        );
        if is_behind || self.reserve.unfit >= UNFIT_CLASSES_MAX || self.share_room(class) == 0 {
            return BTreeSet::new();
        }
        let can_run = self.can_run_somewhere(now, class);
        let mut let_go = BTreeSet::new();
        if !can_run || !self.reserve.is_for(class) {
            if !can_run {
                self.reserve.unfit += 1;
            }
            if can_run || self.reserve.is_for(class) {
                let lower = self.reserve.first.filter(|first| first.priority < priority);
                let_go = self.reserve.let_all();
                mark!("room is kept for another one", !let_go.is_empty());
                mark!("room is kept for one of higher priority", lower.is_some() && !let_go.is_empty());
            }
        }
        if can_run {
            let new = First { class, priority, since: now, overtaken_since: now, may_start: true };
            self.reserve.first.get_or_insert(new);
            self.reserve.is_met = true;
            let_go.extend(self.choose_workers(now));
            let_go.retain(|worker| !self.reserve.workers.contains_key(worker));
        }
        self.that_take_others(let_go)
    }

    /// Chooses workers for the first class that fits nowhere although it has not waited for long.
    pub(super) fn choose_for_who_waits(&mut self, now: Timestamp) {
        if self.reserve.first.is_some_and(|first| self.queue.count(first.class) > 0) {
            let let_go = self.choose_among_all(now, false);
            self.changes.of_workers(let_go);
        }
    }

    // Those that take tasks that were to wait.
    fn that_take_others(&mut self, mut workers: BTreeSet<WorkerId>) -> BTreeSet<WorkerId> {
        self.reserve.let_go.extend(&workers);
        let is_open = |live: &LiveWorker| live.takes_tasks() && !live.is_idle_and_picky();
        workers.retain(|id| !self.gathering.has(*id) && self.live.get(id).is_some_and(is_open));
        workers
    }

    // Chooses the workers that are kept, where that has become due or they are too few or too many. Returns those that were
    // kept and are not any more.
    fn choose_workers(&mut self, now: Timestamp) -> BTreeSet<WorkerId> {
        // From nobody where no others wait.
        let Some(first) = self.reserve.first.filter(|_| self.queue.is_mixed()) else {
            return BTreeSet::new();
        };
        let is_firm = first.keeps_from_equal(now).is_some();
        if !is_firm && first.keeps_from_lower(now).is_none() {
            return BTreeSet::new();
        }
        self.choose_among_all(now, is_firm)
    }

    fn choose_among_all(&mut self, now: Timestamp, is_firm: bool) -> BTreeSet<WorkerId> {
        let Some(first) = self.reserve.first else { return BTreeSet::new() };
        let all = self.live.len();
        let wanted = usize::try_from(self.queue.count(first.class)).unwrap_or(usize::MAX).min(all);
        let takes = |id: &WorkerId| self.live.get(id).is_some_and(|live| live.takes(first.priority));
        let firmly = self.reserve.firmly.filter(takes);
        let is_chosen = self.reserve.chosen_of == (wanted, all) && self.reserve.workers.keys().all(takes);
        if is_chosen && (!is_firm || firmly.is_some()) {
            return BTreeSet::new();
        }
        let mut nearest = self.by_what_is_missing(now, first.class);
        // The one that was kept from all goes on to be.
        nearest.sort_by_key(|(part, id, kept)| (firmly != Some(*id), kept.of_use == 0, Reverse(*part), *id));
        nearest.truncate(wanted);
        self.reserve.chosen_of = (wanted, all);
        self.reserve.firmly = nearest.first().map(|(_, id, _)| *id).filter(|_| is_firm || firmly.is_some());
        let chosen: BTreeMap<WorkerId, Kept> = nearest.into_iter().map(|(_, id, kept)| (id, kept)).collect();
        let before = std::mem::replace(&mut self.reserve.workers, chosen);
        before.into_keys().filter(|id| !self.reserve.workers.contains_key(id)).collect()
    }

    // True when a worker could run a class.
    fn can_run_somewhere(&mut self, now: Timestamp, class: ClassId) -> bool {
        let key = self.queue.key(class);
        let could = |live: &mut LiveWorker| {
            let choice = live.choices(class, &key.requests).first();
            choice.map(|choice| choice.time_request).is_some_and(|request| live.has_time(now, request))
        };
        self.live.values_mut().any(|live| live.takes(key.priority) && could(live))
    }

    // The workers that could run a class, with the part of what it takes that is free there, in 1/10000, and what would be kept.
    fn by_what_is_missing(&mut self, now: Timestamp, class: ClassId) -> Vec<(u64, WorkerId, Kept)> {
        let key = self.queue.key(class);
        let part = |(id, live): (&WorkerId, &mut LiveWorker)| {
            if !live.takes(key.priority) || live.is_idle_and_picky() {
                mark!("an idle picky worker is not kept", live.takes(key.priority));
                return None;
            }
            let choice = live.choices(class, &key.requests).first()?;
            let (needs, time_request) = (choice.needs.clone(), choice.time_request);
            if !live.has_time(now, time_request) {
                return None;
            }
            let (_, free, units) = live.capacity().scarcest(&needs);
            let of_use = live.gathers(&needs);
            Some((free.0.saturating_mul(10_000) / units.0.max(1), *id, Kept { needs, of_use }))
        };
        self.live.iter_mut().filter_map(part).collect()
    }
}
