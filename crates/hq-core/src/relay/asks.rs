//! Questions for tasks that wait for an answer, in the order in which they came.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::Timestamp;

use super::{AskId, Branch, SessionId};

/// Somebody asks for tasks.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) session: SessionId,
    /// Of these branches, the first ones first.
    pub(super) branches: Vec<Branch>,
    /// At most so many.
    pub(super) count: u32,
    /// The answer may wait so long for something to become ready.
    pub(super) until: Timestamp,
    /// And so long for a server that is away.
    pub(super) patience: Timestamp,
}

/// All of a relay.
#[derive(Debug, Default)]
pub(super) struct Asks(BTreeMap<AskId, Ask>);

impl Asks {
    pub(super) fn insert(&mut self, id: AskId, ask: Ask) {
        let before = self.0.insert(id, ask);
        assert!(before.is_none(), "questions are numbered once: {id:?}");
    }

    pub(super) fn remove(&mut self, id: AskId) -> Option<Ask> {
        self.0.remove(&id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn in_order(&self) -> Vec<(AskId, Ask)> {
        self.0.iter().map(|(id, ask)| (*id, ask.clone())).collect()
    }

    /// How many tasks of each branch are asked for.
    pub(super) fn wanted(&self) -> BTreeMap<Branch, u64> {
        let mut wanted = BTreeMap::new();
        for ask in self.0.values() {
            let count = u64::from(ask.count);
            ask.branches.iter().for_each(|branch| *wanted.entry(*branch).or_default() += count);
        }
        wanted
    }

    /// When the first one cannot wait any longer.
    pub(super) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let due = |ask: &Ask| if ask.until > now { ask.until } else { ask.patience };
        self.0.values().map(due).min()
    }

    /// Who asks.
    pub(super) fn sessions(&self) -> BTreeSet<SessionId> {
        self.0.values().map(|ask| ask.session).collect()
    }
}
