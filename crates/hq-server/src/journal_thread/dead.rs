//! How much of a snapshot is of jobs that were forgotten since: these bytes are history, too, and the journal is compacted when
//! there is much of it.

use std::collections::BTreeMap;

use hq_core::record::Record;
use hq_model::JobId;

/// Bytes of a snapshot, by the jobs that they are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weights {
    of: BTreeMap<JobId, u64>,
}

impl Weights {
    /// A record of a snapshot has so many bytes.
    pub(super) fn add(&mut self, record: &Record, bytes: usize) {
        if let Some(job) = record.job() {
            *self.of.entry(job).or_default() += bytes as u64;
        }
    }
}

/// What is dead of the last snapshot.
#[derive(Debug, Default)]
pub(super) struct Dead {
    alive: Weights,
    bytes: u64,
    // The number of the first record that was read at the start.
    first: Option<u64>,
    // Forgotten since a compaction began, which may have them still.
    since: Option<Vec<JobId>>,
}

impl Dead {
    /// Nothing, of a snapshot with these.
    pub(super) fn of(alive: Weights) -> Dead {
        Dead { alive, ..Dead::default() }
    }

    /// Bytes of the snapshot that are of jobs which were forgotten.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A record that was read at the start. All those of a snapshot come first, and have one number.
    pub(super) fn restore(&mut self, number: u64, record: &Record, bytes: usize) {
        if *self.first.get_or_insert(number) == number {
            self.alive.add(record, bytes);
        } else {
            self.hear(record);
        }
    }

    /// A record after the snapshot.
    pub(super) fn hear(&mut self, record: &Record) {
        for part in record.parts() {
            let Record::JobForgotten { job } = part else { continue };
            self.bytes += self.alive.of.remove(job).unwrap_or_default();
            if let Some(since) = &mut self.since {
                since.push(*job);
            }
        }
    }

    /// A snapshot of all records up to here is being made.
    pub(super) fn compaction_begins(&mut self) {
        self.since = Some(Vec::new());
    }

    /// It took the place of the last one.
    pub(super) fn compaction_ends(&mut self, alive: Weights) {
        let since = self.since.take().unwrap_or_default();
        *self = Dead::of(alive);
        for job in since {
            self.bytes += self.alive.of.remove(&job).unwrap_or_default();
        }
    }

    /// It was given up.
    pub(super) fn compaction_fails(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(of: &[(u32, usize)]) -> Weights {
        let mut weights = Weights::default();
        for (job, bytes) in of {
            weights.add(&Record::JobClosed { job: JobId(*job) }, *bytes);
        }
        weights
    }

    fn forget(dead: &mut Dead, job: u32) {
        dead.hear(&Record::JobForgotten { job: JobId(job) });
    }

    #[test]
    fn what_a_snapshot_has_of_a_forgotten_job_is_dead_once() {
        let mut dead = Dead::of(weights(&[(1, 100), (1, 20), (2, 7)]));
        forget(&mut dead, 1);
        forget(&mut dead, 1);
        // It came after the snapshot.
        forget(&mut dead, 3);
        assert_eq!(dead.bytes(), 120);
        let together = Record::Together { records: vec![Record::JobForgotten { job: JobId(2) }] };
        dead.hear(&together);
        assert_eq!(dead.bytes(), 127);
    }

    #[test]
    fn what_was_forgotten_while_a_snapshot_was_made_is_dead_in_it() {
        let mut dead = Dead::of(weights(&[(1, 100), (2, 7)]));
        forget(&mut dead, 1);
        dead.compaction_begins();
        forget(&mut dead, 2);
        assert_eq!(dead.bytes(), 107);
        dead.compaction_ends(weights(&[(2, 9), (3, 5)]));
        assert_eq!(dead.bytes(), 9);
        forget(&mut dead, 3);
        assert_eq!(dead.bytes(), 14);
    }

    #[test]
    fn a_journal_that_is_read_again_says_what_is_dead() {
        let mut dead = Dead::default();
        for job in [1, 2] {
            dead.restore(70, &Record::JobClosed { job: JobId(job) }, 50);
        }
        dead.restore(71, &Record::JobClosed { job: JobId(1) }, 50);
        dead.restore(72, &Record::JobForgotten { job: JobId(1) }, 9);
        assert_eq!(dead.bytes(), 50);
    }

    #[test]
    fn a_compaction_that_was_given_up_changes_nothing() {
        let mut dead = Dead::of(weights(&[(1, 100)]));
        dead.compaction_begins();
        forget(&mut dead, 1);
        dead.compaction_fails();
        assert_eq!(dead.bytes(), 100);
    }
}
