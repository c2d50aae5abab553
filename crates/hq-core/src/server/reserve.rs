//! Room for tasks that fit nowhere: after a while workers are kept for the first classes in the order, so that smaller
//! tasks behind them do not take their place for ever. From tasks of lower priority as many workers are kept as tasks of a
//! class wait; from those of equal priority, one. The second class and those behind it have workers that are not kept for the
//! ones before it; from equal ones only where these have waited in vain for a while, since it may be their turn any moment.
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
use crate::limits::{OVERTAKEN_BY_LOWER_MAX, OVERTAKEN_MAX, UNFIT_CLASSES_MAX, WAITERS_MAX};
use crate::mark;

/// Whom room is kept for, and where.
#[derive(Clone, Debug, Default)]
pub(super) struct Reserve {
    // The first classes that fit nowhere, in the order in which they choose workers. No worker is kept for two of them.
    waiters: Vec<Waiter>,
    // The workers of which something was let go since the server has begun to settle.
    let_go: BTreeSet<WorkerId>,
    // Of the round: how many were met that could run on no worker which the others leave.
    unfit: usize,
}

// A class that fits nowhere.
#[derive(Clone, Debug)]
struct Waiter {
    class: ClassId,
    priority: i32,
    // Since when some of it wait.
    since: Timestamp,
    // Since when none of it was placed.
    overtaken_since: Timestamp,
    // False while the share of its job is used up.
    may_start: bool,
    // It was met in this round.
    is_met: bool,
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

impl Waiter {
    fn new(class: ClassId, priority: i32, now: Timestamp) -> Waiter {
        Waiter {
            class,
            priority,
            since: now,
            overtaken_since: now,
            may_start: true,
            is_met: false,
            workers: BTreeMap::new(),
            chosen_of: (0, 0),
            firmly: None,
            until: None,
            lacked: BTreeMap::new(),
        }
    }

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

    // It comes before another one that is met now: of higher priority, or met before it, or its turn has come.
    fn goes_before(&self, now: Timestamp, priority: i32) -> bool {
        self.may_start
            && match self.priority.cmp(&priority) {
                Ordering::Greater => true,
                Ordering::Less => false,
                // The other one may fit where room is kept for this one, whose turn is yet to come.
                Ordering::Equal => self.is_met || self.keeps_from_equal(now).is_some(),
            }
    }

    // What it waits for has not come although a worker was kept for it for a while: others need not wait for it to have its turn.
    fn waits_in_vain(&self, now: Timestamp) -> bool {
        !self.may_start || now.since(self.overtaken_since) >= 2 * OVERTAKEN_MAX
    }

    fn let_worker(&mut self, worker: WorkerId) {
        self.workers.remove(&worker);
        self.lacked.remove(&worker);
        self.firmly.take_if(|firmly| *firmly == worker);
    }

    // What lacks on the workers that are kept.
    fn lacks(&self, live: &BTreeMap<WorkerId, LiveWorker>) -> BTreeMap<WorkerId, Lacks> {
        let lacks = |(id, kept): (&WorkerId, &Kept)| {
            let pools = live.get(id)?.capacity().scarce(&kept.needs);
            let is_firm = self.firmly == Some(*id);
            Some((*id, Lacks { pools, of_use: pools & kept.of_use, is_firm }))
        };
        self.workers.iter().filter_map(lacks).collect()
    }

    // What has started and ended on the kept workers may have changed it.
    fn see_what_is_of_use(&mut self, live: &BTreeMap<WorkerId, LiveWorker>) {
        for (id, kept) in &mut self.workers {
            kept.of_use = live.get(id).map_or(0, |live| live.gathers(&kept.needs));
        }
    }
}

impl Reserve {
    // For whom a worker is kept, and what of it.
    fn on(&self, worker: WorkerId) -> Option<(&Waiter, &Kept)> {
        self.waiters.iter().find_map(|waiter| Some((waiter, waiter.workers.get(&worker)?)))
    }

    fn place_of(&self, class: ClassId) -> Option<usize> {
        self.waiters.iter().position(|waiter| waiter.class == class)
    }

    // Nothing is kept for a class from itself, nor from those that choose before it.
    fn is_before(&self, class: ClassId, other: ClassId) -> bool {
        self.waiters
            .iter()
            .map(|waiter| waiter.class)
            .take_while(|waits| *waits != other)
            .any(|waits| waits == class)
    }

    /// For which class a worker keeps what a task of another class would take there, and until when, as was known when the
    /// last round ended.
    pub(super) fn keeps_from(
        &self,
        now: Timestamp,
        at: (WorkerId, &Capacity),
        of: (ClassId, i32),
        needs: &Needs,
    ) -> Option<(ClassId, Option<Timestamp>)> {
        let (waiter, kept) = self.on(at.0)?;
        self.keeps_some_from(now, at, of, needs, (waiter, kept, kept.of_use))
    }

    /// The same of tasks that would wait there: they would take what becomes free, too, whatever is of use now.
    pub(super) fn keeps_from_backlog(
        &self,
        now: Timestamp,
        at: (WorkerId, &Capacity),
        of: (ClassId, i32),
        needs: &Needs,
    ) -> bool {
        let Some((waiter, kept)) = self.on(at.0) else { return false };
        self.keeps_some_from(now, at, of, needs, (waiter, kept, u64::MAX)).is_some()
    }

    fn keeps_some_from(
        &self,
        now: Timestamp,
        (worker, capacity): (WorkerId, &Capacity),
        (class, priority): (ClassId, i32),
        needs: &Needs,
        (waiter, kept, of_use): (&Waiter, &Kept, u64),
    ) -> Option<(ClassId, Option<Timestamp>)> {
        if waiter.class == class || self.is_before(class, waiter.class) {
            return None;
        }
        let lacks = capacity.scarce(&kept.needs);
        let is_firm = waiter.firmly == Some(worker);
        waiter.keeps_from(now, priority, is_firm)?;
        // On one worker all that it lacks is kept until it is there. On the others nothing is kept that alone would be of
        // no use: no CPUs where no GPU is free either.
        let takes = needs.pools();
        let is_of_use = is_firm || lacks & !takes == 0;
        (takes & lacks & of_use != 0 && is_of_use).then_some((waiter.class, waiter.until))
    }

    /// True when a task of a class would take on a worker what others are to get there that fit nowhere, however long they
    /// have waited.
    pub(super) fn awaits(
        &self,
        (worker, capacity): (WorkerId, &Capacity),
        class: ClassId,
        needs: &Needs,
    ) -> bool {
        self.on(worker).is_some_and(|(waiter, kept)| {
            let lacks = capacity.scarce(&kept.needs) & kept.of_use;
            waiter.class != class && needs.pools() & lacks != 0
        })
    }

    /// The pools on a worker, as a set, of which tasks of a priority get nothing whatever they take.
    pub(super) fn keeps_on(
        &self,
        now: Timestamp,
        worker: WorkerId,
        capacity: &Capacity,
        priority: i32,
    ) -> u64 {
        let Some((waiter, kept)) = self.on(worker) else { return 0 };
        let lacks = capacity.scarce(&kept.needs);
        let is_firm = waiter.firmly == Some(worker);
        let is_kept = waiter.priority > priority && waiter.keeps_from(now, priority, is_firm).is_some();
        if is_kept && (is_firm || lacks.count_ones() == 1) { lacks & kept.of_use } else { 0 }
    }

    /// Whether a worker keeps what becomes free of what a class lacks there: `Some(true)` from all that come behind it, and
    /// `Some(false)` only from those of lower priority.
    pub(super) fn keeps_for(&self, now: Timestamp, worker: WorkerId, class: ClassId) -> Option<bool> {
        let (waiter, kept) = self.on(worker).filter(|(waiter, _)| waiter.class == class)?;
        let is_firm = waiter.firmly == Some(worker) && waiter.keeps_from_equal(now).is_some();
        let is_kept = is_firm || (kept.of_use != 0 && waiter.keeps_from_lower(now).is_some());
        is_kept.then_some(is_firm)
    }

    /// True when nobody waits any more for some of what is kept.
    pub(super) fn is_for_nobody(&self, queue: &Queue) -> bool {
        self.waiters.iter().any(|waiter| queue.count(waiter.class) == 0)
    }

    /// False once it is known in a round who are the first that fit nowhere, or too many were found that can run nowhere.
    pub(super) fn looks_on(&self) -> bool {
        let met = self.waiters.iter().filter(|waiter| waiter.is_met).count();
        met < WAITERS_MAX && self.unfit < UNFIT_CLASSES_MAX
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
        self.on(worker).is_some()
    }

    /// When something stops to be kept.
    pub(super) fn ends(&self) -> Option<Timestamp> {
        self.waiters.iter().filter_map(|waiter| waiter.until).min()
    }

    /// Nothing is kept on a worker any more.
    pub(super) fn let_worker(&mut self, worker: WorkerId) {
        self.waiters.iter_mut().for_each(|waiter| waiter.let_worker(worker));
    }

    /// Nothing is kept any more.
    pub(super) fn let_all(&mut self) {
        self.waiters.clear();
    }

    // A worker is for the one at a place now.
    fn let_worker_of_others(&mut self, place: usize, worker: WorkerId) {
        let others = self.waiters.iter_mut().enumerate().filter(|(at, _)| *at != place);
        others.for_each(|(_, waiter)| waiter.let_worker(worker));
    }

    // Nothing is kept for one of them any more. Returns the workers that were.
    fn let_waiter(&mut self, place: usize) -> BTreeSet<WorkerId> {
        self.waiters.remove(place).workers.into_keys().collect()
    }

    // Whether the one at a place may choose a worker: one that others leave, or, of its equals, do not keep from it.
    fn leaves(&self, place: usize, worker: WorkerId, firmly: bool) -> bool {
        let own = self.waiters[place].priority;
        self.waiters.iter().enumerate().filter(|(at, _)| *at != place).all(|(at, waiter)| {
            let is_firm = waiter.firmly == Some(worker) && waiter.priority == own;
            let goes_first = at < place && !(firmly && waiter.priority == own);
            !(waiter.workers.contains_key(&worker) && (is_firm || goes_first))
        })
    }
}

impl Server {
    /// A round begins. Returns the workers on which something is not kept any more, because those it was kept for are gone, or
    /// may not start, or it has been kept for long enough: others may have it.
    pub(super) fn begin_reserve(&mut self, now: Timestamp) -> BTreeSet<WorkerId> {
        self.reserve.unfit = 0;
        let mut let_go = BTreeSet::new();
        let mut waiters = std::mem::take(&mut self.reserve.waiters);
        waiters.retain_mut(|waiter| {
            waiter.is_met = false;
            let is_over = waiter.until.take_if(|until| *until <= now).is_some();
            if self.queue.count(waiter.class) == 0 {
                let_go.extend(waiter.workers.keys());
                return false;
            }
            waiter.see_what_is_of_use(&self.live);
            let now_lack = waiter.lacks(&self.live);
            for (id, lacked) in &mut waiter.lacked {
                let lacks = now_lack.get(id);
                lacked.pools &= lacks.map_or(0, |lacks| lacks.pools);
                lacked.of_use = lacks.map_or(0, |lacks| lacks.of_use);
            }
            let may_start = self.share_room(waiter.class) > 0;
            if is_over || (waiter.may_start && !may_start) {
                let_go.extend(waiter.workers.keys());
            }
            waiter.may_start = may_start;
            true
        });
        // Who may not start keeps no worker from those behind it.
        waiters.sort_by_key(|waiter| (!waiter.may_start, Reverse(waiter.priority)));
        self.reserve.waiters = waiters;
        let_go
    }

    /// A round is over.
    pub(super) fn end_reserve(&mut self, now: Timestamp) {
        let mut waiters = std::mem::take(&mut self.reserve.waiters);
        for waiter in &mut waiters {
            // What was taken back from a worker is its share of its job again.
            waiter.may_start = waiter.may_start || self.share_room(waiter.class) > 0;
            let left = waiter.keeps_from_equal(now).into_iter().chain(waiter.keeps_from_lower(now)).min();
            let left = left.filter(|_| !waiter.workers.is_empty());
            waiter.until = left.map(|left| now.after(left));
            // Of a worker that is not kept firmly a pool is kept only while nothing else lacks there. Where a task was placed
            // that took another pool, too, the first one is let go: others, to which it was not offered in this round, may have it.
            waiter.see_what_is_of_use(&self.live);
            let lacks = waiter.lacks(&self.live);
            let let_go = lacks.iter().filter(|(id, lacks)| lacks.lets_go(waiter.lacked.get(id).copied()));
            let let_go: BTreeSet<WorkerId> = let_go.map(|(id, _)| *id).collect();
            mark!("a pool is let go that another one was taken beside", !let_go.is_empty());
            self.reserve.let_go.extend(&let_go);
            self.changes.of_workers(let_go);
            waiter.lacked = lacks;
        }
        self.reserve.waiters = waiters;
    }

    /// The class that is kept room on a worker, and to which others give way there.
    pub(super) fn kept_on(&self, now: Timestamp, worker: WorkerId) -> Option<ClassId> {
        let (waiter, _) = self.reserve.on(worker)?;
        let is_kept = waiter.keeps_from_equal(now).or_else(|| waiter.keeps_from_lower(now)).is_some();
        is_kept.then_some(waiter.class)
    }

    /// True when others of its priority wait for a class.
    pub(super) fn is_waited_for(&self, now: Timestamp, class: ClassId) -> bool {
        self.reserve.place_of(class).is_some_and(|place| {
            let waiter = &self.reserve.waiters[place];
            waiter.keeps_from_equal(now).is_some() && (place == 0 || waiter.firmly.is_some())
        })
    }

    /// Tasks of a class were placed: those of its priority do not wait for what is left of it any more. Returns the workers
    /// on which others may have room now.
    pub(super) fn has_what_was_kept_for(&mut self, now: Timestamp, class: ClassId) -> BTreeSet<WorkerId> {
        let Some(place) = self.reserve.place_of(class) else { return BTreeSet::new() };
        if self.queue.count(class) == 0 {
            let workers = self.reserve.let_waiter(place);
            mark!("room is kept for nobody any more", !workers.is_empty());
            return self.that_take_others(workers);
        }
        let may_start = self.share_room(class) > 0;
        let waiter = &mut self.reserve.waiters[place];
        let was_waited_for = waiter.keeps_from_equal(now).is_some();
        mark!("a task starts for which a worker was kept", was_waited_for && waiter.firmly.is_some());
        let firmly = waiter.firmly.take().filter(|_| was_waited_for);
        waiter.overtaken_since = now;
        waiter.may_start = may_start;
        let mut workers = self.choose_workers(now, place);
        if !may_start {
            workers.extend(self.reserve.waiters[place].workers.keys());
        }
        workers.extend(firmly);
        mark!("room is left of what was kept for a task that starts", !workers.is_empty());
        self.that_take_others(workers)
    }

    /// None of the tasks of a class fits anywhere. Returns the workers on which others may have room now, because it was kept
    /// for one behind it.
    pub(super) fn fits_nowhere(&mut self, now: Timestamp, class: ClassId) -> BTreeSet<WorkerId> {
        let priority = self.queue.key(class).priority;
        let known = self.reserve.place_of(class);
        // Who is met first chooses first, whatever it was before: what is left of a class may be behind others now.
        let mut waiters = self.reserve.waiters.iter().take(known.unwrap_or(usize::MAX));
        let last = waiters.rposition(|waiter| waiter.goes_before(now, priority));
        let place = last.map_or(0, |last| last + 1);
        mark!(
            "a task may fit where room is kept for its equal",
            self.reserve.waiters.iter().take(place).any(|waiter| waiter.priority == priority)
        );
        if place >= WAITERS_MAX || self.reserve.unfit >= UNFIT_CLASSES_MAX {
            return BTreeSet::new();
        }
        if self.share_room(class) == 0 {
            // Of those behind the first one not all are looked at.
            self.reserve.unfit += usize::from(self.reserve.waiters.iter().any(|waiter| waiter.is_met));
            return BTreeSet::new();
        }
        let waiter = match known {
            None => Waiter::new(class, priority, now),
            Some(known) => self.reserve.waiters.remove(known),
        };
        let moves = known.is_some_and(|known| known != place);
        mark!("a class that fits nowhere comes before another one now", moves);
        let chosen_of = if moves { (0, 0) } else { waiter.chosen_of };
        self.reserve.waiters.insert(place, Waiter { chosen_of, ..waiter });
        let mut let_go = BTreeSet::new();
        if self.can_run_where_others_leave_it(now, place) {
            self.reserve.waiters[place].is_met = true;
            let_go.extend(self.choose_workers(now, place));
            if self.reserve.waiters.len() > WAITERS_MAX {
                let_go.extend(self.reserve.let_waiter(WAITERS_MAX));
            }
            let behind = &self.reserve.waiters[place + 1..];
            mark!("room is kept for another one", known.is_none() && !let_go.is_empty());
            mark!(
                "room is kept for one of higher priority",
                known.is_none() && behind.iter().any(|waiter| waiter.priority < priority)
            );
        } else {
            self.reserve.unfit += 1;
            let_go.extend(self.reserve.let_waiter(place));
        }
        self.that_take_others(let_go)
    }

    /// Chooses workers for the first classes that fit nowhere although they have not waited for long.
    pub(super) fn choose_for_who_waits(&mut self, now: Timestamp) {
        for place in 0..self.reserve.waiters.len() {
            if self.queue.count(self.reserve.waiters[place].class) > 0 {
                let let_go = self.choose_among_all(now, place, false);
                self.changes.of_workers(let_go);
            }
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
    fn choose_workers(&mut self, now: Timestamp, place: usize) -> BTreeSet<WorkerId> {
        // From nobody where no others wait.
        if !self.queue.is_mixed() {
            return BTreeSet::new();
        }
        let (before, waiter) = (&self.reserve.waiters[..place], &self.reserve.waiters[place]);
        let equal = before.iter().filter(|other| other.priority == waiter.priority);
        let is_firm =
            waiter.keeps_from_equal(now).is_some() && equal.into_iter().all(|other| other.waits_in_vain(now));
        mark!("a worker is kept for a second class", is_firm && place > 0);
        if !is_firm && waiter.keeps_from_lower(now).is_none() {
            return BTreeSet::new();
        }
        self.choose_among_all(now, place, is_firm)
    }

    fn choose_among_all(&mut self, now: Timestamp, place: usize, is_firm: bool) -> BTreeSet<WorkerId> {
        let reserve = &self.reserve;
        let waiter = &reserve.waiters[place];
        let class = waiter.class;
        let others: usize = reserve.waiters[..place].iter().map(|other| other.workers.len()).sum();
        let equal =
            reserve.waiters.iter().filter(|other| other.class != class && other.priority == waiter.priority);
        let all =
            self.live.len().saturating_sub(others + equal.filter(|other| other.firmly.is_some()).count());
        let wanted = usize::try_from(self.queue.count(class)).unwrap_or(usize::MAX).min(self.live.len());
        let takes = |id: &WorkerId| self.live.get(id).is_some_and(|live| live.takes(waiter.priority));
        let firmly = waiter.firmly.filter(takes);
        let is_chosen = waiter.chosen_of == (wanted, all) && waiter.workers.keys().all(takes);
        if is_chosen && (!is_firm || firmly.is_some()) {
            return BTreeSet::new();
        }
        let is_new = is_firm && firmly.is_none();
        let mut nearest = self.by_what_is_missing(now, class);
        nearest.retain(|(_, id, _)| self.reserve.leaves(place, *id, is_new));
        // The one that was kept from all goes on to be.
        nearest.sort_by_key(|(part, id, kept)| (firmly != Some(*id), kept.of_use == 0, Reverse(*part), *id));
        let mut is_first = true;
        nearest.retain(|(_, id, _)| std::mem::take(&mut is_first) || self.reserve.leaves(place, *id, false));
        nearest.truncate(wanted);
        let waiter = &mut self.reserve.waiters[place];
        waiter.chosen_of = (wanted, all);
        waiter.firmly = nearest.first().map(|(_, id, _)| *id).filter(|_| is_firm || firmly.is_some());
        let chosen: BTreeMap<WorkerId, Kept> = nearest.into_iter().map(|(_, id, kept)| (id, kept)).collect();
        let before = std::mem::take(&mut waiter.workers);
        let mut let_go: BTreeSet<WorkerId> =
            before.into_keys().filter(|id| !chosen.contains_key(id)).collect();
        // What another one lacked is not what this one lacks.
        let_go.extend(chosen.keys().filter(|id| self.reserve.has(**id)));
        mark!(
            "a worker that was kept for one class is kept for another one",
            chosen.keys().any(|id| self.reserve.has(*id))
        );
        for worker in chosen.keys() {
            self.reserve.let_worker_of_others(place, *worker);
        }
        self.reserve.waiters[place].workers = chosen;
        let_go
    }

    // True when a worker could run a class that is not kept for those before it.
    fn can_run_where_others_leave_it(&mut self, now: Timestamp, place: usize) -> bool {
        let class = self.reserve.waiters[place].class;
        let key = self.queue.key(class);
        let reserve = &self.reserve;
        self.live.iter_mut().any(|(id, live)| {
            if !live.takes(key.priority) || !reserve.leaves(place, *id, true) {
                return false;
            }
            let choice = live.choices(class, &key.requests).first().map(|choice| choice.time_request);
            choice.is_some_and(|request| live.has_time(now, request))
        })
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
