//! What a worker that leaves hands on to another one: objects that must stay and that nobody else stores.
//!
//! It stays until the server does not count on it for any of them: another worker has got each, or none can take it.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::worker::StoreConfig;
use hq_model::{ObjectId, WorkerId};

use crate::limits::ALONE_NAMED_MAX;
use crate::object_messages::ObjectSource;
use crate::server::live::LiveWorker;
use crate::server::machine::Server;
use crate::server::{Effect, Gate};
use crate::worker_messages::ToWorker;

/// Room that no order of events makes too little.
const PLENTY: u64 = 1 << 50;

/// Who is to fetch what.
pub(super) type Orders = BTreeMap<WorkerId, Vec<ObjectSource>>;

/// Objects that are on their way from workers that leave.
#[derive(Clone, Debug, Default)]
pub(super) struct Handing {
    ways: BTreeMap<ObjectId, Way>,
    // Bytes that workers were told to fetch and have not got.
    coming: BTreeMap<WorkerId, u64>,
}

#[derive(Clone, Debug, Default)]
struct Way {
    /// It was told to fetch it, and has not said that it cannot.
    taker: Option<WorkerId>,
    /// Bytes.
    size: u64,
    /// All that were told.
    tried: BTreeSet<WorkerId>,
}

impl Handing {
    /// Nobody needs to take it any more.
    pub(super) fn end(&mut self, object: &ObjectId) {
        if let Some(way) = self.ways.remove(object) {
            self.comes_not(way.taker, way.size);
        }
    }

    /// True when a worker was told to fetch an object, and has not said that it stores it or cannot.
    pub(in crate::server) fn is_taking(&self, object: &ObjectId, worker: WorkerId) -> bool {
        self.ways.get(object).is_some_and(|way| way.taker == Some(worker))
    }

    fn is_to_take(&mut self, object: &ObjectId, worker: WorkerId, size: u64) {
        let way = self.ways.entry(object.clone()).or_default();
        let before = way.taker.replace(worker).map(|before| (before, way.size));
        way.size = size;
        way.tried.insert(worker);
        self.comes_not(before.map(|(worker, _)| worker), before.map_or(0, |(_, size)| size));
        *self.coming.entry(worker).or_default() += size;
    }

    fn comes_not(&mut self, worker: Option<WorkerId>, size: u64) {
        if let Some(coming) = worker.and_then(|worker| self.coming.get_mut(&worker)) {
            *coming = coming.saturating_sub(size);
        }
    }

    /// A worker does not take an object after all. False when it was not to.
    pub(super) fn is_not_taken(&mut self, object: &ObjectId, worker: WorkerId) -> bool {
        let Some(way) = self.ways.get_mut(object).filter(|way| way.taker == Some(worker)) else {
            return false;
        };
        way.taker = None;
        let size = way.size;
        self.comes_not(Some(worker), size);
        true
    }

    /// A worker takes nothing of what it was to take; which objects these are. It has not refused them.
    pub(super) fn taker_is_gone(&mut self, worker: WorkerId) -> Vec<ObjectId> {
        self.coming.remove(&worker);
        let of_it = self.ways.iter_mut().filter(|(_, way)| way.taker == Some(worker));
        let freed = of_it.map(|(object, way)| {
            way.taker = None;
            way.tried.remove(&worker);
            object.clone()
        });
        freed.collect()
    }
}

impl Server {
    /// Workers are stopped: those that are connected take nothing new. What of what they store is lost with them, as
    /// `objects_alone_on` says it.
    pub(in crate::server) fn begin_leaving(
        &mut self,
        workers: &[WorkerId],
        drain: bool,
    ) -> (Vec<ObjectId>, u64) {
        for worker in workers {
            if let Some(live) = self.live.get_mut(worker).filter(|live| live.connection.is_some()) {
                live.is_draining = true;
                self.copies.doubt_all_on(*worker);
            }
        }
        self.objects_alone_on(workers, drain)
    }

    /// True when a worker takes nothing new, for it is about to end.
    pub(super) fn is_leaving(&self, worker: WorkerId) -> bool {
        self.is_draining(worker) || self.copies.guards.ending.has_begun(worker)
    }

    fn is_draining(&self, worker: WorkerId) -> bool {
        self.live.get(&worker).is_some_and(|live| live.is_draining)
    }

    // True when an object that must stay stays where it is, at least until somebody else has got it, or its worker leaves. False
    // when that leaves now and nobody can take it.
    pub(super) fn stays_or_goes_on(
        &mut self,
        object: &ObjectId,
        guard: WorkerId,
        size: u64,
        orders: &mut Orders,
    ) -> bool {
        let is_there = self.live.get(&guard).is_some_and(|live| live.connection.is_some());
        if !is_there || !self.is_leaving(guard) {
            self.copies.guards.handing.end(object);
            return true;
        }
        let way = self.copies.guards.handing.ways.get(object).cloned().unwrap_or_default();
        if way.taker.is_some_and(|taker| self.may_take(taker)) {
            return true;
        }
        let promised = &self.copies.guards.handing.coming;
        let is_draining = self.is_draining(guard);
        let may_take = |taker: WorkerId| is_draining || self.outlives(taker, guard);
        let Some(taker) = self.taker_for(size, (&way.tried, promised), may_take) else {
            self.copies.guards.ending.is_stuck(guard);
            return !is_draining;
        };
        self.copies.guards.handing.is_to_take(object, taker, size);
        let (copy, holders) = self.copy_for(taker, object.task, object);
        orders.entry(taker).or_default().push(ObjectSource { copy, path: Vec::new(), holders });
        true
    }

    // The one with most room that is not full of what somebody keeps, or what is promised to it.
    fn taker_for(
        &self,
        size: u64,
        (tried, promised): (&BTreeSet<WorkerId>, &BTreeMap<WorkerId, u64>),
        is_wanted: impl Fn(WorkerId) -> bool,
    ) -> Option<WorkerId> {
        let room = |worker: &WorkerId| {
            let store = self.state.workers.get(worker)?.config.object_store.as_ref();
            let taken = self.copies.guards.lasting_on(*worker) + promised.get(worker).copied().unwrap_or(0);
            let free = store.map(StoreConfig::all)?.checked_sub(taken)?;
            Some(free).filter(|free| *free >= size)
        };
        let may_take =
            |worker: &&WorkerId| self.may_take(**worker) && !tried.contains(worker) && is_wanted(**worker);
        let others = self.live.keys().filter(may_take);
        let roomy = others.filter_map(|worker| Some((room(worker)?, *worker)));
        roomy.max_by_key(|(free, worker)| (*free, std::cmp::Reverse(*worker))).map(|(_, worker)| worker)
    }

    fn may_take(&self, worker: WorkerId) -> bool {
        let live = self.live.get(&worker);
        !self.is_leaving(worker) && live.is_some_and(|live| live.connection.is_some() && live.stores)
    }

    /// Tells workers what they are to fetch.
    pub(super) fn order_objects(&self, orders: Orders, effects: &mut Vec<Effect>) {
        for (worker, sources) in orders {
            if let Some(connection) = self.live.get(&worker).and_then(|live| live.connection) {
                let message = ToWorker::BringObjects(sources);
                effects.push(Effect::ToWorker { connection, message, gate: Gate::Open });
            }
        }
    }

    /// Checks that what must stay, and only workers store that leave, is on its way to another one, if there is one with plenty of
    /// room that was not asked in vain.
    ///
    /// # Errors
    /// Says what is not.
    pub(in crate::server) fn what_stays_is_handed_on(&self) -> Result<(), String> {
        if self.copies.is_unsettled() {
            return Ok(());
        }
        let leave = |(worker, live): (&WorkerId, &LiveWorker)| {
            (live.connection.is_some() && self.is_leaving(*worker)).then_some(*worker)
        };
        for worker in self.live.iter().filter_map(leave) {
            let alone =
                |object: &ObjectId| self.copies.holders_of(object).all(|other| self.is_leaving(other));
            for object in self.copies.held_on(worker).filter(alone) {
                if let Some(taker) =
                    self.could_take(worker, &object).filter(|_| self.must_stay(&object).is_some())
                {
                    return Err(format!("object {object} on worker {worker} could be handed on to {taker}"));
                }
            }
        }
        Ok(())
    }

    // Who could take an object from a worker that nobody was told to take.
    fn could_take(&self, worker: WorkerId, object: &ObjectId) -> Option<WorkerId> {
        let guard = self.copies.guards.guard_of(object).unwrap_or(worker);
        let is_there = self.live.get(&guard).is_some_and(|live| live.connection.is_some());
        let way = self.copies.guards.handing.ways.get(object).cloned().unwrap_or_default();
        if !is_there || way.taker.is_some_and(|taker| self.may_take(taker)) {
            return None;
        }
        let plenty = self.copies.size_of(object).saturating_add(PLENTY);
        let lives_long = |taker: WorkerId| self.is_draining(guard) || self.outlives(taker, guard);
        self.taker_for(plenty, (&way.tried, &self.copies.guards.handing.coming), lives_long)
    }

    /// Objects that somebody keeps and that go with these workers, since nobody else has them, or can take them where `drain` says
    /// that there is time for that: some of them, and how many they are.
    fn objects_alone_on(&self, workers: &[WorkerId], drain: bool) -> (Vec<ObjectId>, u64) {
        let (mut named, mut count) = (Vec::new(), 0);
        let goes = |worker: WorkerId| workers.contains(&worker) || self.is_leaving(worker);
        let nobody = BTreeSet::new();
        let mut promised = self.copies.guards.handing.coming.clone();
        for (place, worker) in workers.iter().enumerate() {
            for object in self.copies.held_on(*worker) {
                // Of several that go the first one names it.
                let is_first =
                    !self.copies.holders_of(&object).any(|other| workers[..place].contains(&other));
                let is_alone = is_first && self.copies.holders_of(&object).all(goes);
                if !is_alone || self.must_stay(&object) != Some(true) {
                    continue;
                }
                let size = self.copies.size_of(&object);
                if drain && let Some(taker) = self.taker_for(size, (&nobody, &promised), |_| true) {
                    *promised.entry(taker).or_default() += size;
                    continue;
                }
                count += 1;
                if named.len() < ALONE_NAMED_MAX {
                    named.push(object);
                }
            }
        }
        (named, count)
    }
}
