//! The journal as the server shell sees it: what is written survives the process, what is synced the machine.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;

use hq_core::mark;
use hq_core::record::Record;
use hq_core::server::state::State;
use hq_core::server::{Effect, Gate};
use hq_core::worker_messages::ToWorker;
use hq_model::Timestamp;

/// The state that records lead to.
pub fn fold(records: &[(Timestamp, Record)]) -> State {
    let mut fold = State::default();
    for (at, record) in records {
        fold.apply(*at, record);
    }
    fold
}

/// The records that rebuild a state.
pub fn snapshot(state: &State) -> Vec<(Timestamp, Record)> {
    let mut records = Vec::new();
    let taken: Result<(), Infallible> = state.snapshot(&mut |at, record| {
        records.push((at, record));
        Ok(())
    });
    match taken {
        Ok(()) => records,
    }
}

/// Records in the order in which they were made, and effects that wait for them.
#[derive(Debug, Default)]
pub struct Journal {
    records: Vec<(Timestamp, Record)>,
    written: usize,
    synced: usize,
    is_failing: bool,
    // An effect, its gate, and how many records come before it.
    waiting: VecDeque<(Effect, Gate, usize)>,
}

impl Journal {
    /// Takes the effects of a step in order: records are appended, the rest waits for its gate.
    pub fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Persist { at, record } => self.records.push((at, record)),
                effect => {
                    let gate = match &effect {
                        Effect::Answer { gate, .. }
                        | Effect::ToWorker { gate, .. }
                        | Effect::Batch { gate, .. } => *gate,
                        Effect::Notify { .. } => Gate::Synced,
                        _ => Gate::Open,
                    };
                    self.waiting.push_back((effect, gate, self.records.len()));
                }
            }
        }
    }

    /// Forgets a record that was appended last, as a bug would.
    pub fn lose_last(&mut self) {
        if self.records.len() > self.written {
            self.records.pop();
            let len = self.records.len();
            self.waiting.iter_mut().for_each(|waiting| waiting.2 = waiting.2.min(len));
        }
    }

    /// Keeps only the first record of each block that is not written yet, as a bug would.
    pub fn tear_blocks(&mut self) {
        for (_, record) in &mut self.records[self.written..] {
            if let Record::Together { records } = record {
                records.truncate(1);
            }
        }
    }

    /// Everything appended so far is written.
    pub fn write(&mut self) {
        self.written = self.records.len();
    }

    /// Everything written so far is on disk.
    pub fn sync(&mut self) {
        self.synced = self.written;
    }

    /// Takes the next effect that may leave; those for one peer keep their order, but that a stop waits for nothing.
    pub fn release(&mut self, ignore_written: bool, ignore_synced: bool) -> Option<Effect> {
        let mut held = BTreeSet::new();
        let next = self.waiting.iter().position(|(effect, gate, records)| {
            let passed = match gate {
                Gate::Open => true,
                Gate::Written => ignore_written || *records <= self.written,
                Gate::Synced | Gate::Last => ignore_synced || *records <= self.synced,
                Gate::Shown => ignore_synced || self.is_failing || *records <= self.synced,
            };
            let peer = match effect {
                Effect::Answer { connection, .. }
                | Effect::ToWorker { connection, .. }
                | Effect::Close { connection } => Some(*connection),
                _ => None,
            };
            let is_stop = matches!(effect, Effect::ToWorker { message: ToWorker::Stop { .. }, .. });
            let is_free = passed && (is_stop || !held.contains(&peer));
            if !is_free {
                held.insert(peer);
            }
            is_free
        });
        self.waiting.remove(next?).map(|waiting| waiting.0)
    }

    /// The disk is full, or has room again.
    pub fn set_failing(&mut self, is_failing: bool) {
        self.is_failing = is_failing;
    }

    /// True when something is to be written or synced.
    pub fn is_behind(&self) -> bool {
        self.synced < self.records.len()
    }

    /// The server's process dies, or with `machine` its node: what was not kept is gone. Of that, a beginning may have
    /// been written, which `torn` chooses.
    pub fn crash(&mut self, machine: bool, torn: u64) {
        let safe = if machine { self.synced } else { self.written };
        let kept = safe + (torn % (self.records.len() - safe + 1) as u64) as usize;
        let mut lost = self.records[kept..].iter();
        mark!(
            "the id of a worker was not on disk",
            lost.any(|(_, record)| matches!(record, Record::WorkerJoined { .. }))
        );
        self.records.truncate(kept);
        self.written = kept;
        self.synced = self.synced.min(kept);
        self.waiting.clear();
    }

    /// What a restarted server reads; it is synced from then on.
    pub fn restore(&mut self) -> &[(Timestamp, Record)] {
        self.synced = self.records.len();
        self.written = self.records.len();
        &self.records
    }

    /// The history is replaced by the records that rebuild what it led to.
    pub fn compact(&mut self) {
        let state = fold(&self.records);
        self.records = snapshot(&state);
        self.synced = self.records.len();
        self.written = self.synced;
    }

    /// All records, kept or not yet.
    pub fn records(&self) -> &[(Timestamp, Record)] {
        &self.records
    }
}
