//! Which workers see to it that an object stays, however full their stores are.
//!
//! An object that a user keeps, or that tasks need which have not ended, has a guard: one of the workers that store it.
//! What is on others besides may make room. A worker that stores something new thinks that it may be needed until it
//! hears of that.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{ObjectId, WorkerId};

use crate::limits::GUARDS_JUDGED_MAX;
use crate::server::machine::Server;
use crate::server::{Effect, Gate};
use crate::worker_messages::ToWorker;

/// Who guards what, as far as workers were told.
#[derive(Clone, Debug, Default)]
pub(super) struct Guards {
    guards: BTreeMap<ObjectId, WorkerId>,
    // Of which something has changed.
    doubtful: BTreeSet<ObjectId>,
    // Workers that wait to hear of an object.
    unheard: BTreeSet<(ObjectId, WorkerId)>,
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

    /// Nobody stores it any more.
    pub(super) fn forget(&mut self, object: &ObjectId) {
        self.guards.remove(object);
    }

    /// A worker waits for nothing any more.
    pub(super) fn worker_is_gone(&mut self, worker: WorkerId) {
        self.unheard.retain(|(_, waits)| *waits != worker);
    }

    /// True when something has changed that was not looked at.
    pub(super) fn is_unsettled(&self) -> bool {
        !self.doubtful.is_empty()
    }

    // An object is to have this guard, of these that store it.
    fn judge(
        &mut self,
        object: &ObjectId,
        guard: Option<WorkerId>,
        holders: &BTreeSet<WorkerId>,
        words: &mut Words,
    ) {
        let before = match guard {
            Some(guard) => self.guards.insert(object.clone(), guard),
            None => self.guards.remove(object),
        };
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
        let mut words = Words::new();
        for _ in 0..GUARDS_JUDGED_MAX {
            let Some(object) = self.copies.guards.doubtful.pop_first() else { break };
            let holders: BTreeSet<WorkerId> = self.copies.holders_of(&object).collect();
            let is_there =
                |worker: &WorkerId| self.live.get(worker).is_some_and(|live| live.connection.is_some());
            let before =
                self.copies.guards.guards.get(&object).copied().filter(|guard| holders.contains(guard));
            let guard = match self.must_stay(&object) {
                true => before
                    .or_else(|| holders.iter().copied().find(is_there))
                    .or_else(|| holders.first().copied()),
                false => None,
            };
            self.copies.guards.judge(&object, guard, &holders, &mut words);
        }
        for (worker, (guard, release)) in words {
            // Who has no connection now says what it stores when it comes back, and is told then.
            if let Some(connection) = self.live.get(&worker).and_then(|live| live.connection) {
                let message = ToWorker::GuardObjects { guard, release };
                effects.push(Effect::ToWorker { connection, message, gate: Gate::Open });
            }
        }
    }

    // A user keeps it, or tasks that have not ended take it; or it is the value of a call, and whoever called may ask for it.
    fn must_stay(&self, object: &ObjectId) -> bool {
        let known = self.state.objects.get(object).filter(|known| known.gone.is_none());
        known.is_some_and(|known| {
            known.is_kept
                || (!known.is_released && self.is_value_of_session(object))
                || self.readers_alive(object).next().is_some()
        })
    }
}
