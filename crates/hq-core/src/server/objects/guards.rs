//! Which workers see to it that an object stays, however full their stores are.
//!
//! An object that a user keeps, or that tasks need which have not ended, has a guard: one of the workers that store it.
//! What is on others besides may make room. A worker that stores something new thinks that it may be needed until it
//! hears of that.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::worker::StoreConfig;
use hq_model::{ObjectId, WorkerId};

use super::ending::Ending;
use super::handing::{Handing, Orders};
use crate::limits::GUARDS_JUDGED_MAX;
use crate::server::live::LiveWorker;
use crate::server::machine::Server;
use crate::server::object_map::ObjectMap;
use crate::server::{Effect, Gate};
use crate::worker_messages::{TemplateId, ToWorker};

/// Who guards what, as far as workers were told.
#[derive(Clone, Debug, Default)]
pub(super) struct Guards {
    guards: ObjectMap<Guard>,
    // Bytes that stay on workers until somebody lets them go.
    lasting: BTreeMap<WorkerId, u64>,
    // Counts what was let go.
    let_go: u64,
    // Of which something has changed.
    doubtful: BTreeSet<ObjectId>,
    /// Who hands on before its time is over.
    pub(super) ending: Ending,
    /// What workers that leave hand on.
    pub(super) handing: Handing,
    // Workers that wait to hear of an object.
    unheard: BTreeSet<(ObjectId, WorkerId)>,
}

/// A worker that sees to it that an object stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Guard {
    worker: WorkerId,
    // The end of no task makes room of it: a user keeps it, or whoever called or gave it holds it.
    is_lasting: bool,
}

/// What workers are told: what stays, and what may go.
type Words = BTreeMap<WorkerId, (Vec<ObjectId>, Vec<ObjectId>)>;

impl Guards {
    /// Something of an object has changed: who stores it, or who needs it.
    pub(super) fn doubt(&mut self, object: ObjectId) {
        self.doubtful.insert(object);
    }

    /// A worker waits to hear of an object that it stores.
    pub(super) fn is_unheard(&mut self, object: ObjectId, worker: WorkerId) {
        self.doubtful.insert(object.clone());
        self.unheard.insert((object, worker));
    }

    /// Nobody stores it any more; it had so many bytes.
    pub(super) fn forget(&mut self, object: &ObjectId, size: u64) {
        let before = self.guards.remove(object);
        self.weigh(before, None, size);
        self.handing.end(object);
    }

    /// Bytes that stay on a worker until somebody lets them go.
    pub(super) fn lasting_on(&self, worker: WorkerId) -> u64 {
        self.lasting.get(&worker).copied().unwrap_or(0)
    }

    /// Who sees to it that an object stays.
    pub(super) fn guard_of(&self, object: &ObjectId) -> Option<WorkerId> {
        self.guards.get(object).map(|guard| guard.worker)
    }

    /// Changes when something is let go.
    pub(super) fn let_go(&self) -> u64 {
        self.let_go
    }

    // Another guard, or none, in the place of one.
    fn weigh(&mut self, before: Option<Guard>, after: Option<Guard>, size: u64) {
        let [was, is] = [before, after].map(|guard| guard.map(|guard| guard.worker));
        self.ending.weigh(was, is, size);
        let lasting = |guard: Option<Guard>| guard.filter(|guard| guard.is_lasting);
        if let Some(Guard { worker, .. }) = lasting(after) {
            *self.lasting.entry(worker).or_default() += size;
        }
        if let Some(Guard { worker, .. }) = lasting(before)
            && let Some(bytes) = self.lasting.get_mut(&worker)
        {
            *bytes = bytes.saturating_sub(size);
            if *bytes == 0 {
                self.lasting.remove(&worker);
            }
            self.let_go += u64::from(lasting(after).is_none());
        }
    }

    /// A worker waits for nothing any more.
    pub(super) fn worker_is_gone(&mut self, worker: WorkerId) {
        self.unheard.retain(|(_, waits)| *waits != worker);
        self.doubtful.extend(self.handing.taker_is_gone(worker));
        self.ending.forget(worker);
    }

    /// It is to fetch nothing any more.
    pub(super) fn takes_nothing(&mut self, worker: WorkerId) {
        self.doubtful.extend(self.handing.taker_is_gone(worker));
    }

    /// True when something has changed that was not looked at.
    pub(super) fn is_unsettled(&self) -> bool {
        !self.doubtful.is_empty()
    }

    // An object is to have this guard, of these that store it.
    fn judge(
        &mut self,
        object: &ObjectId,
        guard: Option<Guard>,
        (holders, size): (&BTreeSet<WorkerId>, u64),
        words: &mut Words,
    ) {
        let before = match guard {
            Some(guard) => self.guards.insert(object.clone(), guard),
            None => self.guards.remove(object),
        };
        self.weigh(before, guard, size);
        let [before, guard] = [before, guard].map(|guard| guard.map(|guard| guard.worker));
        let range = (object.clone(), WorkerId(0))..=(object.clone(), WorkerId(u32::MAX));
        let mut told: BTreeSet<WorkerId> =
            self.unheard.extract_if(range, |_| true).map(|(_, worker)| worker).collect();
        if before != guard {
            told.extend(before);
            told.extend(guard);
        }
        for worker in told.intersection(holders) {
            let (guards, releases) = words.entry(*worker).or_default();
            let to = if guard == Some(*worker) { guards } else { releases };
            to.push(object.clone());
        }
    }
}

impl Server {
    /// Tells workers which of their objects stay, where that has changed.
    pub(in crate::server) fn settle_guards(&mut self, effects: &mut Vec<Effect>) {
        let (mut words, mut orders) = (Words::new(), Orders::new());
        for _ in 0..GUARDS_JUDGED_MAX {
            let Some(object) = self.copies.guards.doubtful.pop_first() else { break };
            let holders: BTreeSet<WorkerId> = self.copies.holders_of(&object).collect();
            let guard = self.best_guard(&object, &holders).zip(self.must_stay(&object));
            let guard = guard.map(|(worker, is_lasting)| Guard { worker, is_lasting });
            let size = self.copies.size_of(&object);
            let guard = guard.filter(|guard| self.stays_or_goes_on(&object, guard.worker, size, &mut orders));
            self.copies.guards.judge(&object, guard, (&holders, size), &mut words);
        }
        self.order_objects(orders, effects);
        for (worker, (guard, release)) in words {
            // Who has no connection now says what it stores when it comes back, and is told then.
            if let Some(connection) = self.live.get(&worker).and_then(|live| live.connection) {
                let message = ToWorker::GuardObjects { guard, release };
                effects.push(Effect::ToWorker { connection, message, gate: Gate::Open });
            }
        }
    }

    // Of those that store an object, who is to see to it that it stays.
    fn best_guard(&self, object: &ObjectId, holders: &BTreeSet<WorkerId>) -> Option<WorkerId> {
        let is_there =
            |worker: &WorkerId| self.live.get(worker).is_some_and(|live| live.connection.is_some());
        let stays = |worker: &WorkerId| !self.is_leaving(*worker);
        let before = self.copies.guards.guards.get(object).map(|guard| guard.worker);
        let before = before.filter(|guard| holders.contains(guard));
        before
            .filter(stays)
            .or_else(|| holders.iter().copied().find(|worker| is_there(worker) && stays(worker)))
            .or(before)
            .or_else(|| holders.iter().copied().find(is_there))
            .or_else(|| holders.first().copied())
    }

    // A user keeps it, or it is the value of a call and whoever called may ask for it: then it stays until they let it go. Or tasks
    // that have not ended take it.
    pub(super) fn must_stay(&self, object: &ObjectId) -> Option<bool> {
        let known = self.state.objects.get(object).filter(|known| !known.is_gone)?;
        let is_lasting = known.is_kept || (!known.is_released && self.is_value_of_session(object));
        (is_lasting || self.readers_alive(object).next().is_some()).then_some(is_lasting)
    }

    /// True when all stores that a task may come to are full of what no end of a task makes room of, so that so many bytes do not
    /// fit.
    pub(super) fn are_stores_full(&self, template: TemplateId, wanted: u64) -> bool {
        let Some(class) = self.classes.get(&template).filter(|_| wanted > 0) else { return false };
        let requests = &self.queue.key(*class).requests;
        let may_run = |live: &LiveWorker| !live.ways(Some(*class), requests).is_empty();
        let cap = |worker: &WorkerId| {
            let config = &self.state.workers.get(worker)?.config;
            config.object_store.as_ref().map(StoreConfig::all)
        };
        let lasting = |worker: &WorkerId| self.copies.guards.lasting_on(*worker);
        let all = self.live.iter().filter(|(_, live)| may_run(live));
        let room = all.map(|(worker, _)| cap(worker).unwrap_or(0).saturating_sub(lasting(worker)));
        room.max().is_some_and(|most| most < wanted)
    }
}
