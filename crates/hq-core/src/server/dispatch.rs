//! Placement: ready tasks go to workers with room, in the order of their classes, or as the planner says where classes
//! of one priority compete; then workers get a backlog, so that they never idle for a round trip.
//!
//! Cost: classes that changed times workers with room, plus workers that changed times classes. Never tasks.

mod batches;
mod plans;
mod pulled;
mod rounds;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use hq_model::{IdSet, Timestamp, WorkerId};
use hq_sched::Plan;

pub(super) use batches::Batches;
use batches::join;
use rounds::{Round, Share};

use super::Effect;
use super::capacity::Standing;
use super::forecast::Estimate;
use super::live::is_short_among_others;
use super::locality::Near;
use super::machine::Server;
use super::nodes::MultiNodeRound;
use super::picky::Part;
use super::planning::Judged;
use super::queue::{ClassId, Place};
use crate::limits::{BACKLOG_CLASSES_MAX, DISPATCH_ROUNDS_MAX, MISSES_MAX, SCAN_BLOCKED_MAX};
use crate::mark;
use crate::never;

impl Server {
    /// Hands out what can be handed out.
    pub(super) fn dispatch(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        // Each time but the last tasks are sent or room is kept elsewhere, so this ends soon.
        for _ in 0..DISPATCH_ROUNDS_MAX {
            if !self.dispatch_once(now, effects) {
                return;
            }
        }
        never!("there was no end of placing after {DISPATCH_ROUNDS_MAX} rounds: {:?}", self.reserve);
    }

    // Says whether what was handed out has opened room to others: what is sent may be the last that something kept room
    // for, and a worker that did not want to start takes everything once enough of it is used.
    fn dispatch_once(&mut self, now: Timestamp, effects: &mut Vec<Effect>) -> bool {
        self.end_parting();
        let (mut changed_workers, mut changed_classes) = self.changes.take();
        let judged = self.planning.judged();
        // Of a job with a share another task may run when one has ended with its worker, which changes no other worker.
        changed_workers.extend(self.that_kept_long_enough(now));
        let keeping_ends = self.reserve.ends().is_some_and(|until| until <= now);
        let moves_shares = self.touched.iter().any(|job| self.shares.has(*job));
        let is_quiet =
            changed_workers.is_empty() && changed_classes.is_empty() && judged.is_none() && !moves_shares;
        let is_quiet = is_quiet && !keeping_ends && !self.reserve.is_for_nobody(&self.queue);
        if self.live.is_empty() {
            // Nothing is kept without a worker, and nothing ends that nobody looks at.
            self.reserve.let_all();
            return false;
        }
        if is_quiet {
            return false;
        }
        for worker in &changed_workers {
            self.presume_starts(now, *worker);
        }
        changed_workers.extend(self.end_reservations());
        self.count_shares();
        let shared = self.shared_classes();
        mark!(
            "nothing but a share has room again",
            changed_workers.is_empty()
                && changed_classes.is_empty()
                && judged.is_none()
                && !shared.is_empty()
        );
        changed_classes.extend(shared);
        changed_workers.extend(self.begin_reserve(now));
        let mut batches = Batches::new();
        if self.planning.floor().is_some() {
            self.planning.outdate();
        }
        // Without a changed class only those that changed matter, however many there are.
        let everyone = |server: &Server| server.live.keys().copied().collect::<BTreeSet<WorkerId>>();
        let mut all = if changed_classes.is_empty() { BTreeSet::new() } else { everyone(self) };
        let looked_at = if changed_classes.is_empty() { &changed_workers } else { &all };
        let is_picky = |id: &&WorkerId| self.live.get(id).is_some_and(|live| live.is_idle_and_picky());
        let picky: BTreeSet<WorkerId> = looked_at.iter().filter(is_picky).copied().collect();
        let gathering = self.gather(now, looked_at);
        changed_workers.retain(|id| !gathering.contains(id));
        all.retain(|id| !gathering.contains(id) && !picky.contains(id));
        let mut open: BTreeSet<WorkerId> = changed_workers.difference(&picky).copied().collect();
        let mut handed =
            self.hand_out(now, [&open, &all], &changed_classes, Say::Planner(judged), &mut batches, effects);
        if let Some((priority, in_order)) = handed.contended.take() {
            self.keep_reservations(priority);
            self.ask_for_plan(now, priority, in_order, effects);
        }
        self.hand_out_pulled(now, &changed_workers, &changed_classes, &mut batches);
        let changed = (&changed_workers, &changed_classes);
        let begun = self.hand_out_to_picky(now, picky, changed, &mut handed, &mut batches, effects);
        open.extend(&begun);
        all.extend(begun.iter().filter(|_| !changed_classes.is_empty()));
        self.hand_out_backlogs(now, &open, &all, &changed_classes, &mut batches);
        self.end_reserve(now);
        let opens_room =
            self.send(now, batches, effects) || !begun.is_empty() || self.changes.workers_count() > 0;
        self.changes.of_workers(begun);
        self.hand_out_followers(now, effects);
        self.changes.of_workers(gathering);
        if self.planning.floor().is_some() {
            // They are looked at again when the plan is there.
            self.changes.of_workers(changed_workers);
            mark!("a worker is not kept any more while a plan is made", !handed.let_go.is_empty());
            self.changes.of_workers(handed.let_go);
            self.changes.of_classes(changed_classes);
        } else {
            self.balance(&changed_workers, effects);
            if !changed_classes.is_empty() {
                self.leave_choice(effects);
            }
        }
        opens_room
    }

    // Idle workers that start only for enough come last: what they give back fits on no other. Returns those that begin. Where
    // none does, nothing was handed out: what is kept elsewhere stays kept.
    fn hand_out_to_picky(
        &mut self,
        now: Timestamp,
        mut begun: BTreeSet<WorkerId>,
        (changed_workers, changed_classes): (&BTreeSet<WorkerId>, &BTreeSet<ClassId>),
        handed: &mut HandedOut,
        batches: &mut Batches,
        effects: &mut Vec<Effect>,
    ) -> BTreeSet<WorkerId> {
        if begun.is_empty() {
            return begun;
        }
        let reserve = self.reserve.clone();
        let open = [&begun, &begun];
        let others = self.hand_out(now, open, changed_classes, Say::Order, batches, effects);
        self.take_back_too_little(&begun, batches);
        self.fill_picky(now, &begun, batches);
        self.take_back_too_little(&begun, batches);
        begun.retain(|id| self.live.get(id).is_some_and(|live| !live.is_idle_and_picky()));
        if begun.is_empty() {
            mark!("what is kept stays kept when a picky worker does not begin", !others.let_go.is_empty());
            self.reserve = reserve;
            return begun;
        }
        self.changes.of_workers(others.let_go.clone());
        handed.let_go.extend(others.let_go);
        let is_kept = |id: &WorkerId| self.live.get(id).is_some_and(|live| live.reserved.is_some());
        mark!("a picky worker begins", !begun.is_empty());
        mark!("a picky worker begins that is to be free", begun.iter().any(is_kept));
        let has_old = |id: &WorkerId| {
            let class_of = |lot: &batches::Lot| self.classes.get(&lot.0);
            let mut classes = batches.get(id).into_iter().flat_map(|lots| lots.keys()).filter_map(class_of);
            classes.any(|class| !changed_classes.contains(class))
        };
        mark!(
            "a picky worker begins with what it left before",
            begun.iter().any(|id| !changed_workers.contains(id) && has_old(id))
        );
        begun
    }

    // What fits now. Changed classes are tried on all workers, the others on those that changed.
    fn hand_out(
        &mut self,
        now: Timestamp,
        [changed_workers, all]: [&BTreeSet<WorkerId>; 2],
        changed_classes: &BTreeSet<ClassId>,
        say: Say,
        batches: &mut Batches,
        effects: &mut Vec<Effect>,
    ) -> HandedOut {
        let mut handed = HandedOut::default();
        let mut open = [self.open(changed_workers), self.open(all)];
        let mut multi_node = MultiNodeRound::default();
        let mut last = None;
        let mut level: Option<Level> = None;
        let mut misses = 0;
        loop {
            let next = self.queue.next(last).filter(|next| self.is_due(next.1));
            let next =
                next.filter(|_| misses < MISSES_MAX && open.iter().any(|open| !open.workers.is_empty()));
            let priority = next.map(|(_, class)| self.queue.key(class).priority);
            if let Some(ended) = level.take_if(|level| Some(level.priority) != priority) {
                let may_ask = say.asks_for(ended.priority) && !self.planning.is_busy();
                if may_ask && self.is_contended(&ended) {
                    if !self.planning.is_turn_of_any(now, &ended.placed) {
                        self.take_back(ended.batches);
                        handed.contended = Some((ended.priority, ended.placed));
                        return handed;
                    }
                    mark!("what plans have passed over for long has its turn");
                }
                ended.placed.iter().for_each(|class| self.planning.has_placed(*class));
                join(batches, ended.batches);
            }
            let Some((place, class)) = next else { break };
            let before = last.replace(place);
            if level.is_none() && say.looks_at_all() {
                self.place_multi_node(now, place.0.0, &mut multi_node, effects);
            }
            mark!(
                "picky workers are tried while a task on several nodes waits",
                !say.looks_at_all() && self.queue.next_multi_node(None).is_some_and(|other| other > place)
            );
            let level = level.get_or_insert_with(|| Level::new(place.0.0, before));
            if let Some((plan, in_order)) = say.plan_for(level) {
                self.follow(now, plan, in_order, batches);
                open = open.map(|open| self.open(&open.workers));
            }
            let Open { workers, most_cpus } = &open[usize::from(changed_classes.contains(&class))];
            let ready = self.queue.count(class);
            let may_fit = self.queue.cpus_least(class) <= *most_cpus;
            // What was kept for it is not for others of its priority.
            let own = if self.is_waited_for(now, class) { &mut *batches } else { &mut level.batches };
            let variants = if may_fit { self.queue.key(class).requests.len() } else { 0 };
            for rank in 0..variants {
                self.fill(now, workers, class, Round::Room { rank }, own);
            }
            if self.queue.count(class) < ready {
                if !level.placed.contains(&class) {
                    level.placed.push(class);
                }
                // Nothing is kept for it any more: that is for those of its priority that it was kept from, too.
                let let_go = self.has_what_was_kept_for(now, class);
                if !let_go.is_empty() {
                    open[0].workers.extend(&let_go);
                    handed.let_go.extend(let_go);
                    last = level.before;
                }
                open = open.map(|open| self.open(&open.workers));
            } else {
                misses += 1;
                mark!("a task that may fit elsewhere fits on no picky worker", !say.looks_at_all());
                if !say.looks_at_all() {
                    continue;
                }
                let let_go = self.fits_nowhere(now, class);
                if !let_go.is_empty() {
                    open[0].workers.extend(&let_go);
                    handed.let_go.extend(let_go);
                    open = open.map(|open| self.open(&open.workers));
                }
            }
        }
        if !say.looks_at_all() {
            return handed;
        }
        self.place_multi_node(now, i32::MIN, &mut multi_node, effects);
        // Where nobody has room, the next one fits nowhere either.
        let mut next = self.queue.next(last).filter(|_| open.iter().all(|open| open.workers.is_empty()));
        while let Some((place, class)) = next.filter(|next| self.is_due(next.1) && self.reserve.looks_on()) {
            let let_go = self.fits_nowhere(now, class);
            self.changes.of_workers(let_go);
            next = self.queue.next(Some(place));
        }
        handed
    }

    // Some more than fits, so that workers never idle for a round trip.
    fn hand_out_backlogs(
        &mut self,
        now: Timestamp,
        changed_workers: &BTreeSet<WorkerId>,
        all: &BTreeSet<WorkerId>,
        changed_classes: &BTreeSet<ClassId>,
        batches: &mut Batches,
    ) {
        let classes: Vec<ClassId> = self.queue.in_order().take(BACKLOG_CLASSES_MAX).collect();
        // What waits on workers would take the room of jobs with shares.
        let shared = self.shared_classes().first().map(|class| self.queue.key(*class).priority);
        // Those of which no worker gets a backlog, or only one that knows them as short.
        let mut left: Vec<ClassId> = Vec::new();
        for class in classes {
            if !self.is_due(class) || shared.is_some_and(|shared| self.queue.key(class).priority <= shared) {
                break;
            }
            if self.shared_by(class).is_some() {
                continue;
            }
            let time = self.head_time(class).map(|time| time.us as f64);
            let is_left = self.queue.is_mixed() && time.is_none_or(|us| !is_short_among_others(us));
            if is_left {
                left.push(class);
            }
            if is_left && time.is_some() {
                continue;
            }
            let workers = if changed_classes.contains(&class) { all } else { changed_workers };
            let wish = self.queue.wish(class);
            let higher = left.partition_point(|other| self.queue.wish(*other) > wish);
            let (higher, equal) = left.split_at(higher);
            let of_turn = equal.iter().filter(|class| self.planning.is_turn_of_any(now, &[**class]));
            let first: Vec<ClassId> = higher.iter().chain(of_turn).take(SCAN_BLOCKED_MAX).copied().collect();
            let ready = self.queue.count(class);
            if first.is_empty() {
                self.fill(now, workers, class, Round::Backlog, batches);
            } else {
                let mut open = workers.clone();
                open.retain(|worker| !self.would_go_before(now, *worker, class, &first));
                self.fill(now, &open, class, Round::Backlog, batches);
            }
            if self.queue.count(class) < ready {
                self.pass_over(now, workers, class, equal);
            }
        }
    }

    // Tasks of a class that wait on a worker would take what others wait for here, who go before it and get no backlog: those
    // would never see it free.
    fn would_go_before(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        class: ClassId,
        others: &[ClassId],
    ) -> bool {
        let Some(live) = self.live.get_mut(&worker) else { return false };
        let own = live.choices(class, &self.queue.key(class).requests);
        let pools = own.iter().fold(0, |pools, choice| pools | choice.needs.pools());
        others.iter().any(|other| {
            let all = live.choices(*other, &self.queue.key(*other).requests).to_vec();
            all.iter().filter(|choice| live.has_time(now, choice.time_request)).any(|choice| {
                let scarce = live.capacity().scarce(&choice.needs);
                scarce != 0 && scarce & !pools == 0
            })
        })
    }

    // Not one of those that wait for a plan.
    pub(super) fn is_due(&self, class: ClassId) -> bool {
        self.planning.floor().is_none_or(|floor| self.queue.key(class).priority > floor)
    }

    // A worker that was idle may want to start only when enough of it is used. What it was to get otherwise is ready
    // again.
    fn take_back_too_little(&mut self, picky: &BTreeSet<WorkerId>, batches: &mut Batches) {
        for id in picky {
            if self.live.get(id).is_some_and(|live| live.is_used_too_little()) {
                let taken = batches.remove(id).unwrap_or_default();
                mark!("a picky worker gives back what is too little", !taken.is_empty());
                self.take_back(Batches::from([(*id, taken)]));
            }
        }
    }

    // Those of the workers that are not known to be full: without that, each of many classes would be tried on each.
    pub(super) fn with_room(&self, workers: &BTreeSet<WorkerId>) -> BTreeSet<WorkerId> {
        let all_need_cpus = self.queue.all_need_cpus();
        let is_open = |worker: &&WorkerId| {
            let live = self.live.get(worker);
            live.is_some_and(|live| !all_need_cpus || !live.capacity().is_out_of_cpus())
        };
        workers.iter().filter(is_open).copied().collect()
    }

    // Those of the workers that are not known to be full, and the most units of CPUs that one of them has free: a class
    // that takes more is not tried on each.
    fn open(&self, workers: &BTreeSet<WorkerId>) -> Open {
        let workers = self.with_room(workers);
        let free = workers.iter().filter_map(|worker| Some(self.live.get(worker)?.capacity().free_cpus()));
        let most_cpus = free.max().unwrap_or(0);
        Open { workers, most_cpus }
    }

    // Hands tasks of a class to workers: what fits, or up to their backlogs.
    fn fill(
        &mut self,
        now: Timestamp,
        workers: &BTreeSet<WorkerId>,
        class: ClassId,
        round: Round,
        batches: &mut Batches,
    ) {
        let ready = self.queue.count(class);
        if ready == 0 {
            return;
        }
        let is_mixed = self.queue.is_mixed();
        let standing = self.head_standing(class);
        let reserve = &self.reserve;
        let key = self.queue.key(class);
        let requests = &key.requests;
        let mut order: Vec<(Reverse<i64>, WorkerId)> = Vec::new();
        for worker in workers {
            let Some(live) = self.live.get_mut(worker).filter(|live| live.takes(key.priority)) else {
                continue;
            };
            // What waits on a worker that is kept free would only be asked back.
            // A relay says how much it wants ahead.
            if matches!(round, Round::Backlog) && (live.reserved.is_some() || live.is_relay) {
                continue;
            }
            let all = live.choices(class, requests);
            let Some(choice) = round.pick(all) else { continue };
            // The worker chooses the variant of what waits there.
            let longest = match round {
                Round::Room { .. } => choice.time_request,
                Round::Backlog => all.iter().map(|choice| choice.time_request).max().unwrap_or_default(),
            };
            let needs = choice.needs.clone();
            if !live.has_time(now, longest) {
                continue;
            }
            if round.is_kept(now, reserve, (*worker, live), (class, key.priority), &needs) {
                continue;
            }
            let room = match round {
                Round::Backlog => live.capacity().room_behind_backlog(&needs, standing),
                Round::Room { .. } => live.capacity().room(&needs),
            };
            match round {
                Round::Backlog => order.push((Reverse(room), *worker)),
                // Where least is left first: larger ones may still need what is whole elsewhere.
                Round::Room { .. } if room > 0 && is_mixed => order.push((Reverse(-room), *worker)),
                Round::Room { .. } if room > 0 => order.push((Reverse(0), *worker)),
                Round::Room { .. } => {}
            }
        }
        order.sort_unstable();
        // Nobody's backlog takes more than an equal part, and who has least goes first.
        let workers_count = self.live.len() as u64;
        let share = match round {
            // Of what is not known to be short nobody gets more than what is there for all.
            Round::Backlog if self.head_time(class).is_none() => ready / workers_count,
            Round::Backlog => ready.div_ceil(workers_count),
            Round::Room { .. } => ready,
        };
        let has_keys = self.queue.head(class).is_some_and(|(_, template)| self.locality.has(template));
        if !has_keys {
            let any = Share { count: share, near: Near::Any, has_doubt: true };
            for (_, worker) in &order {
                self.fill_worker(now, *worker, class, round, any, batches);
            }
            // Nothing waits beside room for it: where others have none, those get it that had no room in their stores.
            if matches!(round, Round::Room { .. }) && self.copies.has_tries() {
                for (_, worker) in order {
                    let any = Share { has_doubt: false, ..any };
                    self.fill_worker(now, worker, class, round, any, batches);
                }
            }
            return;
        }
        // First everywhere what is near, then new keys, one for each worker in turn; what is left goes where room is.
        let mut workers: Vec<WorkerId> = order.into_iter().map(|(_, worker)| worker).collect();
        for worker in &workers {
            self.fill_worker(now, *worker, class, round, Share::of(share, Near::Own), batches);
        }
        loop {
            let load = |worker: &WorkerId| self.live.get(worker).map(|live| live.capacity().used_cpus());
            workers.sort_by_cached_key(|worker| (load(worker), *worker));
            let taken = workers
                .iter()
                .map(|w| self.fill_worker(now, *w, class, round, Share::of(share, Near::New), batches));
            if taken.sum::<u64>() == 0 {
                break;
            }
        }
        if matches!(round, Round::Room { .. }) {
            for worker in workers {
                self.fill_worker(now, worker, class, round, Share::of(share, Near::Any), batches);
            }
        }
    }

    fn fill_worker(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        class: ClassId,
        round: Round,
        Share { count, near, has_doubt }: Share,
        batches: &mut Batches,
    ) -> u64 {
        let mut share = count.min(self.share_room(class));
        let job = self.shared_by(class);
        let Some(live) = self.live.get_mut(&worker) else { return 0 };
        let key = self.queue.key(class);
        let priority = key.priority;
        let Some(choice) = round.pick(live.choices(class, &key.requests)).cloned() else { return 0 };
        let needs = choice.needs;
        let variant = matches!(round, Round::Room { .. }).then_some(choice.variant);
        if round.is_kept(now, &self.reserve, (worker, live), (class, priority), &needs) {
            return 0;
        }
        let slots = live.capacity().slots(&needs);
        let mut skipped = Vec::new();
        let mut given = 0;
        let is_mixed = self.queue.is_mixed();
        while let Some((_, template)) = self.queue.head(class) {
            let standing = self.head_standing(class);
            let Some(live) = self.live.get(&worker) else { break };
            let backlog = match round {
                // Nobody knows of a vanished worker which of them it had begun: those of a backlog would fail in vain.
                Round::Backlog if self.never_runs_twice(template) => 0,
                Round::Backlog => {
                    let expected = self.forecast.run_time(&self.state, template);
                    live.backlog_target(template, slots, expected.map(|expected| expected.us), is_mixed)
                }
                Round::Room { .. } => 0,
            };
            let room = match round {
                Round::Backlog => {
                    live.capacity().room_behind_backlog(&needs, standing).saturating_add_unsigned(backlog)
                }
                Round::Room { .. } => live.capacity().room(&needs),
            };
            let wanted = u64::try_from(room).unwrap_or(0).min(share);
            if wanted == 0 {
                break;
            }
            let mut ids = self.take_near(class, template, worker, wanted, near);
            let Some(live) = self.live.get_mut(&worker).filter(|_| !ids.is_empty()) else { break };
            // An attempt that it still has must be gone before it gets the next one.
            if let Some(held) = live.held().get(&template).filter(|held| held.ids.intersects(&ids)) {
                mark!("a worker still has an earlier attempt");
                skipped.push((template, held.ids.intersection(&ids)));
                ids.subtract(&held.ids);
                if ids.is_empty() {
                    continue;
                }
            }
            if has_doubt && self.copies.has_tries() {
                let elsewhere = self.copies.without_room(worker, template.job, &ids);
                if !elsewhere.is_empty() {
                    ids.subtract(&elsewhere);
                    skipped.push((template, elsewhere));
                    if ids.is_empty() {
                        continue;
                    }
                }
            }
            let parting = self.parting.among(template.job, &ids);
            if !parting.is_empty() {
                ids.subtract(&parting);
                skipped.push((template, parting));
                if ids.is_empty() {
                    continue;
                }
            }
            share -= ids.len();
            given += ids.len();
            self.shares.hand_out(job, ids.len());
            match round {
                Round::Room { .. } => live.place(template, Some(&needs), &ids),
                Round::Backlog => live.queue(now, (template, class), standing, &needs, &ids),
            }
            batches
                .entry(worker)
                .or_default()
                .entry((template, Reverse(variant)))
                .or_default()
                .union_with(&ids);
            // One new key at a time.
            if near == Near::New {
                break;
            }
        }
        for (template, ids) in skipped {
            self.queue_up(class, template, &ids);
        }
        given
    }

    /// Hands so many tasks of a class to a worker, as one of its variants.
    pub(super) fn fill_with(&mut self, now: Timestamp, worker: WorkerId, part: &Part, batches: &mut Batches) {
        let round = Round::Room { rank: part.rank };
        self.fill_worker(now, worker, part.class, round, Share::of(part.count, Near::Any), batches);
    }

    // How the next task of a class would stand where it waits on a worker.
    fn head_standing(&self, class: ClassId) -> Standing {
        let next = self.queue.head(class).zip(self.queue.head_ids(class).and_then(IdSet::first));
        next.map_or_else(Standing::default, |((_, template), task)| self.standing(class, template, task))
    }

    // How long the next task of a class should take.
    fn head_time(&self, class: ClassId) -> Option<Estimate> {
        self.run_time(self.queue.head(class)?.1)
    }
}

/// What has come of handing out what fits.
#[derive(Debug, Default)]
struct HandedOut {
    /// Several classes of this priority compete for too little: none of it and of lower ones was handed out. In order
    /// something of these would have been.
    contended: Option<(i32, Vec<ClassId>)>,
    /// Workers that were kept for a task and are not any more.
    let_go: BTreeSet<WorkerId>,
}

// Who decides where tasks go that compete.
enum Say {
    // The planner. It may have decided for one priority, or have failed to; then the order decides there.
    Planner(Option<Judged>),
    // The order in which classes are placed.
    Order,
}

impl Say {
    // Not only at workers that come last, and give back what is too little. Tasks on several nodes, and who fits nowhere, were
    // looked at before.
    fn looks_at_all(&self) -> bool {
        matches!(self, Say::Planner(_))
    }

    fn asks_for(&self, priority: i32) -> bool {
        match self {
            // What has changed since the plan was asked for is not in it: that is planned, too.
            Say::Planner(judged) => {
                judged.as_ref().is_none_or(|judged| judged.priority != priority || judged.is_outdated)
            }
            Say::Order => false,
        }
    }

    // Once, when a priority is begun.
    fn plan_for(&self, level: &mut Level) -> Option<(&Plan, &[ClassId])> {
        let Say::Planner(Some(judged)) = self else { return None };
        let is_new = !std::mem::replace(&mut level.is_begun, true);
        let plan = judged.plan.as_deref().filter(|_| is_new && judged.priority == level.priority)?;
        Some((plan, &judged.in_order))
    }
}

// Workers that tasks may be handed to.
struct Open {
    workers: BTreeSet<WorkerId>,
    most_cpus: u64,
}

// The classes of one priority.
struct Level {
    priority: i32,
    // The place in the order before its first class.
    before: Option<Place>,
    is_begun: bool,
    placed: Vec<ClassId>,
    batches: Batches,
}

impl Level {
    fn new(priority: i32, before: Option<Place>) -> Level {
        Level { priority, before, is_begun: false, placed: Vec::new(), batches: Batches::new() }
    }
}
