//! Workers whose time limit comes hand on what must stay and they see to, early enough for its bytes.
//!
//! A worker that ends itself stays for that until shortly before its limit. What takes longer begins before: it goes on with its
//! tasks meanwhile, and what these leave is handed on, too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hq_model::worker::Life;
use hq_model::{Timestamp, WorkerId};

use crate::limits::{HAND_ON_BYTES_PER_SECOND, HAND_ON_MARGIN, HAND_ON_TIME_MAX, TAKER_OUTLIVES_MIN};
use crate::server::machine::Server;

/// Who hands on before it ends itself, and from when on.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending {
    // Bytes that a worker sees to.
    bytes: BTreeMap<WorkerId, u64>,
    // Workers of which these have changed.
    weighed: BTreeSet<WorkerId>,
    begins: BTreeMap<WorkerId, Timestamp>,
    // The same in order of time.
    order: BTreeSet<(Timestamp, WorkerId)>,
    begun: BTreeSet<WorkerId>,
    // Those of them that have something which nobody could take.
    stuck: BTreeSet<WorkerId>,
}

impl Ending {
    /// A worker sees to an object, and another one not any more.
    pub(super) fn weigh(&mut self, before: Option<WorkerId>, after: Option<WorkerId>, size: u64) {
        if before == after {
            return;
        }
        if let Some(worker) = after {
            *self.bytes.entry(worker).or_default() += size;
        }
        if let Some(bytes) = before.and_then(|worker| self.bytes.get_mut(&worker)) {
            *bytes = bytes.saturating_sub(size);
        }
        self.weighed.extend(before.into_iter().chain(after));
    }

    /// A worker is gone.
    pub(super) fn forget(&mut self, worker: WorkerId) {
        self.begin_at(worker, None);
        self.bytes.remove(&worker);
        self.weighed.remove(&worker);
        self.begun.remove(&worker);
        self.stuck.remove(&worker);
    }

    /// True when its time is about to be over.
    pub(super) fn has_begun(&self, worker: WorkerId) -> bool {
        self.begun.contains(&worker)
    }

    /// Something on it can go nowhere as long as no worker joins.
    pub(super) fn is_stuck(&mut self, worker: WorkerId) {
        self.stuck.insert(worker);
    }

    /// When the next one begins.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.order.first().map(|(at, _)| *at)
    }

    fn begin_at(&mut self, worker: WorkerId, at: Option<Timestamp>) {
        let before = match at {
            Some(at) => self.begins.insert(worker, at),
            None => self.begins.remove(&worker),
        };
        if let Some(before) = before {
            self.order.remove(&(before, worker));
        }
        self.order.extend(at.map(|at| (at, worker)));
    }

    fn next_due(&mut self, now: Timestamp) -> Option<WorkerId> {
        let (_, worker) = *self.order.first().filter(|(at, _)| *at <= now)?;
        self.begin_at(worker, None);
        self.begun.insert(worker);
        Some(worker)
    }
}

impl Server {
    /// Workers begin whose time is about to be over.
    pub(super) fn begin_endings(&mut self, now: Timestamp) {
        while let Some(worker) = self.copies.guards.ending.next_due(now) {
            self.copies.doubt_all_on(worker);
        }
    }

    /// When workers are to begin of which it has changed what they see to.
    pub(super) fn plan_endings(&mut self) {
        for worker in std::mem::take(&mut self.copies.guards.ending.weighed) {
            let life = self.live.get(&worker).and_then(|live| live.life);
            let ending = &mut self.copies.guards.ending;
            let bytes = ending.bytes.get(&worker).copied().unwrap_or(0);
            if bytes == 0 {
                ending.bytes.remove(&worker);
            }
            if !ending.has_begun(worker) {
                ending.begin_at(worker, life.and_then(|life| begins(life, bytes)));
            }
        }
    }

    /// A worker has joined: it may take what nobody could.
    pub(in crate::server) fn end_stuck_endings(&mut self) {
        for worker in std::mem::take(&mut self.copies.guards.ending.stuck) {
            self.copies.doubt_all_on(worker);
        }
    }

    /// True when a worker is there for so long that it may take what another one has whose time limit comes.
    pub(super) fn outlives(&self, taker: WorkerId, other: WorkerId) -> bool {
        let end = |worker| self.live.get(&worker)?.life.map(|life: Life| life.ends_at_last());
        match (end(taker), end(other)) {
            (Some(taker), Some(other)) => taker >= other.after(TAKER_OUTLIVES_MIN),
            _ => true,
        }
    }
}

// When a worker begins that sees to so many bytes; nothing where that is soon enough when it ends itself.
fn begins(life: Life, bytes: u64) -> Option<Timestamp> {
    let needs = HAND_ON_MARGIN + Duration::from_secs(bytes / HAND_ON_BYTES_PER_SECOND);
    let needs_us = needs.min(HAND_ON_TIME_MAX).as_micros() as u64;
    let begins = Timestamp(life.ends_at_last().0.saturating_sub(needs_us));
    (bytes > 0 && begins < life.ends_at()).then_some(begins)
}
