//! The allocator: when something has changed or a time has come, it looks what waits, what is on its way and what may
//! be asked for, and gives orders for batch systems. What those answer is taken in here, too.

mod checks;
mod directories;
mod ends;
mod node_time;
mod reports;
mod unwanted;
mod views;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hq_model::allocation::{AllocationEnd, QueueParams};
use hq_model::worker::{TIME_RESERVE, WorkerConfig};
use hq_model::{AllocationRef, QueueId, Request, Timestamp, WorkerId, counted};

use node_time::NodeWork;
use reports::not_taken_told;
use unwanted::Cancels;

use super::capacity::Needs;
use super::live::LiveWorker;
use super::machine::Server;
use super::queue::ClassId;
use super::{ConnectionId, Effect, Gate};
use crate::alloc::decisions::Decisions;
use crate::alloc::demand::{self, Class, Matched, Offer, Pending};
use crate::alloc::policy::{self, Permit};
use crate::alloc::worth::Held;
use crate::alloc::{AllocRecord, Allocation, BatchOrder, QueueState, Said, ShapeSource};
use crate::limits::{
    ALLOCATE_INTERVAL, CHECK_INTERVAL, DEMAND_CLASSES_MAX, HANDED_TIME, PROBE_INTERVAL, UNCLEAR_TIME,
    UNNEEDED_TIME,
};
use crate::record::Record;
use crate::worker_messages::TemplateId;

/// How long after the last worker of an allocation left the batch system is asked: it needs some time to notice.
const LEFT_TIME: Duration = Duration::from_secs(3);

/// What the allocator knows beyond the records.
#[derive(Debug, Default)]
pub(super) struct AllocLive {
    /// What was decided about each queue.
    decisions: BTreeMap<QueueId, Decisions>,
    /// Being submitted, or looked for after a restart.
    in_flight: BTreeSet<AllocationRef>,
    /// Perhaps submitted: since when that is open.
    unclear: BTreeMap<AllocationRef, Unclear>,
    /// Planned and not taken by the batch system for now, at most one of a queue.
    deferred: BTreeMap<QueueId, Deferred>,
    /// Allocations that wait while all tasks are over, and since when.
    unneeded: BTreeMap<AllocationRef, Timestamp>,
    cancels: Cancels,
    /// What each batch system is asked, and when.
    managers: BTreeMap<String, Checks>,
    /// What a batch system said last of each active allocation.
    seen: BTreeMap<AllocationRef, (Timestamp, Said)>,
    /// How often in a row an allocation was unknown.
    unknown: BTreeMap<AllocationRef, u32>,
    /// Node time of running allocations.
    work: BTreeMap<AllocationRef, NodeWork>,
    /// How much of it went into attempts that came to nothing for want of time.
    wasted_us: BTreeMap<AllocationRef, u64>,
    /// Trials that a client waits for.
    trials: BTreeMap<u64, Trial>,
    last_ticket: u64,
    /// Tasks handed to busy workers for later, and since when.
    handed: BTreeMap<TemplateId, Timestamp>,
    /// It is not known how long tasks take, and more workers wait for that.
    is_probing: bool,
    /// Something has changed since the last decision.
    is_dirty: bool,
    decided: Timestamp,
    wake_at: Option<Timestamp>,
    /// Until then, workers of before may come back.
    returning_until: Timestamp,
}

/// Questions to one batch system about its allocations.
#[derive(Debug)]
pub(super) struct Checks {
    last: Option<Timestamp>,
    interval: Duration,
    /// The ids that were asked for, until the answer is there.
    asked: Option<BTreeSet<String>>,
    /// As soon as possible.
    is_urgent: bool,
    /// It did not know an allocation when it was asked last.
    has_doubts: bool,
    /// Somebody asks why: then the batch system is asked, too, which keeps nobody else waiting.
    is_wished: bool,
    wished: Option<Timestamp>,
    /// Why the last question was not answered.
    error: Option<String>,
}

impl Default for Checks {
    fn default() -> Self {
        Checks {
            last: None,
            interval: CHECK_INTERVAL.0,
            asked: None,
            is_urgent: false,
            has_doubts: false,
            is_wished: false,
            wished: None,
            error: None,
        }
    }
}

/// A submission of which nobody knows whether it happened.
#[derive(Clone, Copy, Debug)]
struct Unclear {
    since: Timestamp,
    /// When it is looked for.
    look_at: Timestamp,
    /// How often it was looked for and not found.
    missed: u32,
}

/// An allocation that the batch system does not take for now: it, or a limit of the site, has no room.
#[derive(Clone, Debug)]
struct Deferred {
    number: u32,
    /// When it is submitted again, if nothing of that batch system starts or ends before.
    ask_at: Timestamp,
    /// The words of the batch system.
    error: String,
}

#[derive(Debug)]
struct Trial {
    connection: ConnectionId,
    request: u64,
    purpose: Purpose,
    params: Box<QueueParams>,
}

/// What a trial is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To see what comes of it.
    Only,
    /// A queue is made when it is accepted.
    Add,
    /// A queue is changed when it is accepted.
    Edit(QueueId),
}

impl AllocLive {
    /// A client has left: nobody wants to know the result of its trials.
    pub(super) fn forget_client(&mut self, connection: ConnectionId) {
        self.trials.retain(|_, trial| trial.connection != connection);
    }

    /// How many trials of a client wait for their batch system.
    pub(super) fn trials_of(&self, connection: ConnectionId) -> usize {
        self.trials.values().filter(|trial| trial.connection == connection).count()
    }

    /// True while a server that stops has to wait for a batch system.
    pub(super) fn awaits_batch_system(&self) -> bool {
        !self.in_flight.is_empty() || self.cancels.awaits_answer()
    }

    /// True until the allocator has looked at what has changed.
    pub(super) fn has_changed(&self) -> bool {
        self.is_dirty
    }

    /// What a worker of an allocation did since then came to nothing.
    pub(super) fn spent_for_nothing(
        &mut self,
        origin: Option<AllocationRef>,
        since: Timestamp,
        now: Timestamp,
    ) {
        if let Some(origin) = origin {
            *self.wasted_us.entry(origin).or_default() += now.0.saturating_sub(since.0);
        }
    }

    /// Something has changed that the allocator should look at.
    pub(super) fn look(&mut self) {
        self.is_dirty = true;
    }

    /// Why a batch system did not answer.
    fn check_error(&self, manager: &str) -> Option<&str> {
        self.managers.get(manager)?.error.as_deref()
    }

    /// True when it is not known whether an allocation was submitted.
    fn is_unclear(&self, which: AllocationRef) -> bool {
        self.unclear.contains_key(&which)
    }

    /// The allocation of a queue that the batch system does not take for now.
    fn deferred(&self, which: AllocationRef) -> Option<&Deferred> {
        self.deferred.get(&which.queue).filter(|deferred| deferred.number == which.number)
    }

    fn note(&mut self, now: Timestamp, queue: QueueId, text: impl Into<String>) {
        self.decisions.entry(queue).or_default().note(now, text);
    }

    fn forget(&mut self, which: AllocationRef) {
        self.in_flight.remove(&which);
        self.unclear.remove(&which);
        self.deferred.retain(|queue, one| AllocationRef::new(*queue, one.number) != which);
        self.cancels.forget(which);
        self.unneeded.remove(&which);
        self.wasted_us.remove(&which);
        self.seen.remove(&which);
        self.unknown.remove(&which);
    }
}

impl Server {
    /// A server starts: what was there before is looked for.
    pub(super) fn start_allocating(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.alloc.is_dirty = true;
        self.alloc.returning_until = now.after(self.options.worker_grace);
        self.measure_work(now);
        let mut orders = Vec::new();
        for (which, queue, one) in self.state.alloc.active() {
            if one.batch_id.is_none() {
                self.alloc.in_flight.insert(which);
                orders.push(self.recover(which, queue, one));
            } else {
                self.alloc.managers.entry(queue.params.manager.clone()).or_default().is_urgent = true;
            }
        }
        for (id, queue) in &self.state.alloc.queues {
            if queue.known.is_none() && !queue.is_removed {
                orders.push(BatchOrder::AskShape { queue: *id, params: queue.params.clone() });
            }
        }
        orders.into_iter().for_each(|order| effects.push(Effect::Batch { order, gate: Gate::Open }));
    }

    /// Placement is about to be decided: allocations may be, too.
    pub(super) fn note_change(&mut self) {
        self.alloc.is_dirty |= !self.changes.is_empty();
    }

    /// When the allocator wants to look again.
    pub(super) fn next_allocating(&self) -> Option<Timestamp> {
        if self.state.alloc.queues.is_empty() || self.is_stopping() || self.is_read_only() {
            return None;
        }
        let dirty = self.alloc.is_dirty.then(|| self.alloc.decided.after(ALLOCATE_INTERVAL));
        [dirty, self.alloc.wake_at].into_iter().flatten().min()
    }

    /// Decides about allocations, when there is reason to.
    pub(super) fn allocate(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.next_allocating().is_none_or(|at| at > now) {
            return;
        }
        self.alloc.is_dirty = false;
        self.alloc.decided = now;
        self.alloc.wake_at = None;
        self.measure_work(now);
        self.keep_measures(now, effects);
        self.conclude(now, effects);
        self.pause_and_resume(now, effects);
        self.cancel_removed(now, effects);
        self.cancel_deserted(now, effects);
        self.look_for_unclear(now, effects);
        self.ask_states(now, effects);
        self.note_handed(now);
        self.ask_for_allocations(now, effects);
        self.find_wakeup(now);
    }

    pub(super) fn record_alloc(&mut self, now: Timestamp, record: AllocRecord, effects: &mut Vec<Effect>) {
        self.record(now, Record::Alloc(Box::new(record)), effects);
        self.alloc.look();
    }

    /// A worker is about to join, perhaps one that an allocation started.
    pub(super) fn alloc_worker_joins(
        &mut self,
        now: Timestamp,
        config: &WorkerConfig,
        effects: &mut Vec<Effect>,
    ) {
        let Some(which) = config.origin else { return };
        let Some(one) = self.state.alloc.allocation(which) else { return };
        // Its submission was never answered: now it is known.
        if let (None, Some((_, id))) = (&one.batch_id, &config.allocation) {
            let batch_id = id.clone();
            self.record_alloc(now, AllocRecord::Submitted { allocation: which, batch_id }, effects);
        }
        if self.state.alloc.allocation(which).is_some_and(|one| one.started.is_none() || !one.is_active()) {
            self.record_alloc(now, AllocRecord::Started { allocation: which }, effects);
            self.has_more_room(now, which.queue);
        }
        self.alloc.unclear.remove(&which);
        self.alloc.deferred.retain(|queue, one| AllocationRef::new(*queue, one.number) != which);
        self.alloc.seen.remove(&which);
        self.alloc.look();
    }

    // ---- pauses ----

    fn pause_and_resume(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let ids: Vec<QueueId> = self.state.alloc.queues.keys().copied().collect();
        for queue in ids {
            let state = &self.state.alloc.queues[&queue];
            if policy::retries_at(state).is_some_and(|at| at <= now) {
                self.alloc.note(now, queue, "tries again after a pause");
                self.record_alloc(now, AllocRecord::QueueResumed { queue, is_trial: true }, effects);
            } else if let Some(cause) = policy::pause_cause(state) {
                self.alloc.note(now, queue, format!("paused: {cause}"));
                self.record_alloc(now, AllocRecord::QueuePaused { queue, cause }, effects);
            }
        }
    }

    // ---- asking for more ----

    // Tasks that were handed to a busy worker for later, unless they are known to be short.
    fn handed_tasks(&self) -> BTreeMap<TemplateId, u64> {
        let mut handed: BTreeMap<TemplateId, u64> = BTreeMap::new();
        for live in self.live.values() {
            for template in live.backlog().filter(|template| !live.knows_wall(*template)) {
                let count = live.held().get(&template).map_or(0, |held| held.waiting.len());
                *handed.entry(template).or_default() += count;
            }
        }
        handed
    }

    fn note_handed(&mut self, now: Timestamp) {
        let handed = self.handed_tasks();
        self.alloc.handed.retain(|template, _| handed.contains_key(template));
        for template in handed.into_keys() {
            self.alloc.handed.entry(template).or_insert(now);
        }
    }

    /// Classes of waiting tasks in order, with how many wait.
    pub(super) fn waiting_classes(&self, now: Timestamp) -> Vec<(ClassId, u64)> {
        let in_order = self.queue.multi_node().chain(self.queue.in_order()).chain(self.queue.pulled());
        let in_order = in_order.filter(|class| !self.is_spent(*class)).take(DEMAND_CLASSES_MAX);
        let mut waiting: Vec<(ClassId, u64)> =
            in_order.map(|class| (class, self.queue.count(class))).collect();
        for (template, count) in self.handed_tasks() {
            let is_due =
                self.alloc.handed.get(&template).is_some_and(|since| since.after(HANDED_TIME) <= now);
            let Some(class) = self.classes.get(&template).filter(|_| is_due) else { continue };
            // Who has room asks for them.
            let count = count.saturating_sub(self.free_room(now, *class));
            if count == 0 {
                continue;
            }
            match waiting.iter_mut().find(|(other, _)| other == class) {
                Some((_, waiting)) => *waiting += count,
                None => waiting.push((*class, count)),
            }
        }
        waiting
    }

    // How many tasks of a class fit on the workers that are there.
    fn free_room(&self, now: Timestamp, class: ClassId) -> u64 {
        let requests = &self.queue.key(class).requests;
        let room = |live: &LiveWorker| {
            let lives = |request: &&Request| live.has_time(now, request.time_request);
            let able = requests.iter().filter(lives);
            let needs = able.filter_map(|request| Needs::new(&live.resources, request));
            needs.map(|needs| u64::try_from(live.capacity().room(&needs)).unwrap_or(0)).max().unwrap_or(0)
        };
        self.live.values().filter(|live| live.takes_tasks()).map(room).sum()
    }

    /// What each queue could give.
    pub(super) fn offers(&self, now: Timestamp) -> Vec<(Offer, Permit)> {
        let queues = self.state.alloc.queues.iter().filter(|(_, queue)| !queue.is_removed);
        queues.map(|(id, queue)| self.offer(now, *id, queue)).collect()
    }

    fn offer(&self, now: Timestamp, id: QueueId, queue: &QueueState) -> (Offer, Permit) {
        let params = &queue.params;
        let deferred = self.alloc.deferred.get(&id);
        let not_taken = deferred.and_then(|deferred| queue.allocations.get(&deferred.number));
        let mut permit = policy::permit(queue, not_taken, now);
        if let Some(deferred) = deferred.filter(|deferred| deferred.ask_at > now && permit.allocations > 0) {
            permit = Permit::none(not_taken_told(deferred));
        }
        if params.chain && permit.allocations > 0 {
            // Each waits for the id of the one before it.
            permit.allocations = u32::from(!self.has_open_submission(id, queue));
        }
        let life = params.worker_life();
        let to_come = |one: &Allocation| match policy::may_return_until(one) {
            Some(until) if until > now => one.workers,
            _ => one.workers_to_come(),
        };
        let is_taken = |number: u32| deferred.is_none_or(|deferred| deferred.number != number);
        let usual = policy::usual_wait(queue);
        let coming = queue.active().filter(|(number, one)| to_come(one) > 0 && is_taken(*number));
        let pending = coming.map(|(number, one)| {
            let passed = one.started.map_or(Duration::ZERO, |started| now.since(started));
            let is_free = |id: &&WorkerId| {
                self.live.get(id).is_some_and(|live| live.takes_tasks() && live.capacity().is_free())
            };
            let here = one.connected.iter().filter(is_free).count() as u32;
            // Workers to come begin anew: what passes until they are there does not count.
            let life = life.saturating_sub(passed.saturating_sub(TIME_RESERVE));
            let waited = one.queued.map_or(Duration::ZERO, |at| now.since(at));
            let due = if one.is_waiting() { usual.saturating_sub(waited) } else { Duration::ZERO };
            let is_slow = self.is_slow(now, queue, AllocationRef::new(id, number), one);
            Pending { number, workers: to_come(one), here, life, due, is_slow }
        });
        let (resources, is_known) = match &queue.known {
            Some((resources, ShapeSource::Worker)) => (resources.clone(), true),
            Some((nodes, ShapeSource::Manager)) => (demand::shape(&params.resources, Some(nodes)), true),
            None => (demand::shape(&params.resources, None), params.resources_are_all),
        };
        let offer = Offer {
            queue: id,
            resources,
            is_known,
            life,
            pending: pending.collect(),
            allocations: permit.allocations,
            workers: permit.workers,
            per_allocation: params.workers_per_allocation(),
            min_utilization: params.min_utilization,
            for_any_task: params.for_any_task,
            cost: work::cost(now, queue),
            staff: queue.workers(),
        };
        (offer, permit)
    }

    // True while it is not known whether an allocation of a queue was accepted.
    fn has_open_submission(&self, id: QueueId, queue: &QueueState) -> bool {
        queue.active().any(|(number, one)| {
            one.batch_id.is_none() && self.alloc.deferred(AllocationRef::new(id, number)).is_none()
        })
    }

    /// Matches what waits with what queues could give.
    pub(super) fn match_demand(
        &self,
        now: Timestamp,
        waiting: &[(ClassId, u64)],
        offers: &[(Offer, Permit)],
    ) -> Matched {
        let classes = waiting.iter().map(|(class, waiting)| {
            let key = self.queue.key(*class);
            let work = self.work_of(now, *class, *waiting);
            Class { priority: key.priority, requests: &key.requests, waiting: *waiting, work }
        });
        let classes: Vec<Class<'_>> = classes.collect();
        let offers: Vec<Offer> = offers.iter().map(|(offer, _)| offer.clone()).collect();
        demand::matched(&classes, &offers)
    }

    /// True while workers of the time before a restart may still come back.
    pub(super) fn awaits_workers_of_before(&self, now: Timestamp) -> bool {
        now < self.alloc.returning_until && self.live.values().any(|live| live.connection.is_none())
    }

    fn ask_for_allocations(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        // What waits for a plan may have room; the plan is there in a moment.
        if self.awaits_workers_of_before(now) || self.planning.floor().is_some() {
            return;
        }
        let waiting = self.waiting_classes(now);
        self.alloc.is_probing = false;
        if waiting.is_empty() {
            self.cancel_unneeded(now, |_| true, effects);
            self.drop_deferred(now, |_, _| true, effects);
            return;
        }
        let offers = self.offers(now);
        let matched = self.match_demand(now, &waiting, &offers);
        self.cancel_unneeded(now, |which| matched.unneeded.contains(&(which.queue, which.number)), effects);
        self.alloc.is_probing = matched.classes.iter().any(|one| matches!(one.held, Some(Held::Probing(_))));
        let is_left = |offer: &Offer| {
            let classes = waiting.iter().zip(&matched.classes);
            let could = |class: ClassId| {
                let requests = &self.queue.key(class).requests;
                offer.why_not(requests).or_else(|| offer.spares(requests)).is_none()
            };
            classes.filter(|(_, served)| served.left > 0).any(|((class, _), _)| could(*class))
        };
        let kept: Vec<(QueueId, String)> = offers
            .iter()
            .filter(|(offer, _)| !matched.new.contains_key(&offer.queue) && is_left(offer))
            .filter_map(|(offer, permit)| Some((offer.queue, permit.why_none.clone()?)))
            .collect();
        for (queue, why) in kept {
            self.alloc.note(now, queue, format!("nothing more is asked for: {why}"));
        }
        self.drop_deferred(now, |queue, one| one.ask_at <= now && !matched.new.contains_key(&queue), effects);
        for (queue, sizes) in matched.new {
            let tasks: u64 = matched.classes.iter().filter_map(|served| served.new.get(&queue)).sum();
            self.plan(now, queue, &sizes, tasks, effects);
        }
    }

    // What was not taken and is not needed any more was never there.
    fn drop_deferred(
        &mut self,
        now: Timestamp,
        is_dropped: impl Fn(QueueId, &Deferred) -> bool,
        effects: &mut Vec<Effect>,
    ) {
        let deferred = self.alloc.deferred.iter().filter(|(queue, one)| is_dropped(**queue, one));
        let dropped: Vec<_> = deferred.map(|(queue, one)| AllocationRef::new(*queue, one.number)).collect();
        for which in dropped {
            self.end_allocation(now, which, AllocationEnd::Canceled, effects);
        }
    }

    // Asks for the first of these. The next one is decided on when the batch system has answered: what it refuses is
    // refused once, and many allocations do not come upon it in one moment.
    fn plan(&mut self, now: Timestamp, id: QueueId, sizes: &[u32], tasks: u64, effects: &mut Vec<Effect>) {
        let Some(queue) = self.state.alloc.queues.get(&id) else { return };
        let Some(&workers) = sizes.first().filter(|_| !self.has_open_submission(id, queue)) else { return };
        let params = queue.params.clone();
        let goes_on = |one: &Allocation| one.batch_id.is_some() && policy::end_by_workers(one).is_none();
        let before = queue.active().filter(|(_, one)| params.chain && goes_on(one)).last();
        let (after, after_id) = match before {
            Some((number, one)) => (Some(number), one.batch_id.clone()),
            None => (None, None),
        };
        let fits = |one: &Allocation| {
            one.workers == workers && one.time_limit == params.time_limit && one.after == after
        };
        let deferred = self.alloc.deferred.remove(&id).map(|deferred| deferred.number);
        let again = deferred.and_then(|number| Some((number, queue.allocations.get(&number)?)));
        let (allocation, directory) = match again {
            Some((number, one)) if fits(one) => (AllocationRef::new(id, number), one.directory.clone()),
            other => {
                let number = queue.last_number + 1;
                let name = params.name.as_ref().map_or_else(|| id.to_string(), |name| format!("{id}-{name}"));
                let directory = self.directory_of(&format!("{name}/{number:03}"));
                if let Some((number, _)) = other {
                    self.end_allocation(
                        now,
                        AllocationRef::new(id, number),
                        AllocationEnd::Canceled,
                        effects,
                    );
                }
                let (all, each) = (counted(sizes.len(), "allocation"), u64::from(sizes.iter().sum::<u32>()));
                let (each, tasks) = (counted(each, "worker"), counted(tasks, "waiting task"));
                self.alloc.note(now, id, format!("asks for {all} with {each} for {tasks}"));
                let allocation = AllocationRef::new(id, number);
                let time_limit = params.time_limit;
                let record = AllocRecord::Planned {
                    allocation,
                    workers,
                    time_limit,
                    directory: directory.clone(),
                    after,
                };
                self.record_alloc(now, record, effects);
                (allocation, directory)
            }
        };
        self.alloc.in_flight.insert(allocation);
        // On disk first: what was submitted must be known whatever happens.
        let order = BatchOrder::Submit { allocation, params, workers, directory, after: after_id };
        effects.push(Effect::Batch { order, gate: Gate::Synced });
        // What was just decided needs no second look.
        self.alloc.is_dirty = false;
    }

    // When time alone may change something.
    fn find_wakeup(&mut self, now: Timestamp) {
        let mut times: Vec<Timestamp> = Vec::new();
        for queue in self.state.alloc.queues.values() {
            times.extend(policy::retries_at(queue));
            times.extend(policy::submits_again_at(queue));
            times.extend(queue.active().filter_map(|(_, one)| policy::given_up_at(one)));
            times.extend(queue.active().filter_map(|(_, one)| policy::may_return_until(one)));
            let waiting = queue.active().filter(|(_, one)| one.is_waiting());
            let slow_after = policy::slow_after(queue);
            times.extend(waiting.filter_map(|(_, one)| Some(one.queued?.after(slow_after))));
        }
        times.extend(self.state.alloc.active().filter_map(|(which, _, one)| self.canceled_at(which, one)));
        times.extend(self.managers().iter().filter_map(|manager| self.check_due(manager)));
        let unclear = self.alloc.unclear.values();
        times.extend(unclear.flat_map(|open| [open.look_at, open.since.after(UNCLEAR_TIME)]));
        times.extend(self.alloc.deferred.values().map(|deferred| deferred.ask_at));
        times.extend(self.alloc.unneeded.iter().filter_map(|(which, since)| {
            let params = &self.state.alloc.queues.get(&which.queue)?.params;
            Some(since.after(params.idle_timeout.unwrap_or(UNNEEDED_TIME)))
        }));
        times.extend(self.alloc.handed.values().map(|since| since.after(HANDED_TIME)));
        times.extend(self.alloc.cancels.tried_again_at());
        times.extend(self.alloc.is_probing.then(|| now.after(PROBE_INTERVAL)));
        times.extend(self.awaits_workers_of_before(now).then_some(self.alloc.returning_until));
        self.alloc.wake_at = times.into_iter().filter(|at| *at > now).min();
    }
}
