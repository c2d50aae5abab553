//! Whatever happens to the disk, what was synced is there, and what is there is what had been appended, in order.

mod support;

use hq_journal::{Compactor, Faults, Journal, SimDisk, SimFile, replay};
use proptest::prelude::*;
use support::{Chance, State, cases, open, record};

#[derive(Clone, Debug)]
enum Step {
    Append(u64),
    Write,
    Sync,
    Close,
    StartCompaction,
    /// Written in parts.
    FinishCompaction {
        fillers: u64,
    },
    Kill,
    Crash(u64),
    PowerAfter(u64),
    FailAppends(u32),
    FailSyncs(u32),
    Capacity(u64),
    Heal,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => prop_oneof![8 => 0..20u64, 3 => 0..9000u64, 1 => Just(300_000u64)].prop_map(Step::Append),
        8 => Just(Step::Write),
        6 => Just(Step::Sync),
        1 => Just(Step::Close),
        2 => Just(Step::StartCompaction),
        2 => (0..50u64).prop_map(|fillers| Step::FinishCompaction { fillers }),
        1 => Just(Step::Kill),
        3 => any::<u64>().prop_map(Step::Crash),
        2 => (1..30u64).prop_map(Step::PowerAfter),
        1 => (1..3u32).prop_map(Step::FailAppends),
        1 => (1..3u32).prop_map(Step::FailSyncs),
        1 => (100..100_000u64).prop_map(Step::Capacity),
        2 => Just(Step::Heal),
    ];
    prop::collection::vec(step, 1..80)
}

/// A process with a journal, and what must be true of it.
struct World {
    disk: SimDisk,
    journal: Option<Journal<SimDisk>>,
    compactor: Option<(Compactor<SimFile>, State)>,
    segment_bytes: u64,
    /// The state after so many records.
    states: Vec<State>,
    /// So many records must be there whatever happens.
    synced: usize,
    /// So many must be there unless the power goes.
    written: usize,
}

impl World {
    fn new(segment_bytes: u64) -> Self {
        let disk = SimDisk::new();
        let (journal, ..) = open(&disk, segment_bytes).unwrap();
        let states = vec![State::default()];
        Self { disk, journal: Some(journal), compactor: None, segment_bytes, states, synced: 0, written: 0 }
    }

    fn appended(&self) -> usize {
        self.states.len() - 1
    }

    fn step(&mut self, step: &Step) {
        let Some(journal) = &mut self.journal else { return };
        let mut faults = self.disk.faults();
        match *step {
            Step::Append(length) => {
                let mut state = *self.states.last().unwrap();
                let bytes = record(self.states.len() as u64, length);
                state.apply(&bytes);
                assert_eq!(journal.append(&bytes), self.states.len() as u64 - 1);
                self.states.push(state);
            }
            Step::Write => {
                if journal.write().is_ok() {
                    self.written = self.states.len() - 1;
                    assert_eq!(journal.written_seq(), self.written as u64);
                }
            }
            Step::Sync => {
                if journal.sync().is_ok() {
                    self.synced = self.states.len() - 1;
                    assert_eq!((journal.synced_seq(), journal.pending_bytes()), (self.synced as u64, 0));
                }
            }
            Step::Close => {
                let journal = self.journal.take().unwrap();
                self.compactor = None;
                if journal.close().is_ok() {
                    self.synced = self.appended();
                }
                self.disk.kill();
                self.reopen(0);
            }
            Step::StartCompaction => {
                if let Ok(compactor) = journal.start_compaction() {
                    self.synced = self.states.len() - 1;
                    assert_eq!(compactor.first_seq(), self.synced as u64);
                    self.compactor = Some((compactor, *self.states.last().unwrap()));
                }
            }
            Step::FinishCompaction { fillers } => {
                if let Some((mut compactor, state)) = self.compactor.take() {
                    let written = state.snapshot(fillers, &mut compactor);
                    let finished = written.and_then(|()| compactor.finish());
                    match finished {
                        Ok(snapshot) => {
                            if let Ok(done) = journal.finish_compaction(snapshot) {
                                done.replaced.remove(&self.disk);
                            }
                        }
                        Err(_) => journal.abandon_compaction(),
                    }
                }
            }
            Step::Kill => {
                let at_least = self.written.max(self.synced);
                self.journal = None;
                self.compactor = None;
                self.disk.kill();
                self.reopen(at_least);
            }
            Step::Crash(seed) => self.crash(seed),
            Step::PowerAfter(count) => {
                faults.power_after.get_or_insert(count);
                self.disk.set_faults(faults);
            }
            Step::FailAppends(count) => self.disk.set_faults(Faults { appends_failing: count, ..faults }),
            Step::FailSyncs(count) => self.disk.set_faults(Faults { syncs_failing: count, ..faults }),
            Step::Capacity(bytes) => {
                self.disk.set_faults(Faults { capacity_bytes: Some(bytes), ..faults });
            }
            Step::Heal => {
                self.disk.set_faults(Faults { power_after: faults.power_after, ..Faults::default() });
            }
        }
    }

    fn crash(&mut self, seed: u64) {
        let mut chance = Chance(seed);
        self.journal = None;
        self.compactor = None;
        self.disk.crash(&mut |limit| chance.below(limit));
        self.reopen(self.synced);
    }

    fn reopen(&mut self, at_least: usize) {
        self.disk.set_faults(Faults::default());
        // Whoever only looks sees the same.
        let mut seen = State::default();
        let look = replay(&self.disk, None, &mut |_, record| {
            seen.apply(record);
            Ok::<(), String>(())
        });
        let (journal, replay, state) = open(&self.disk, self.segment_bytes).unwrap();
        // The very first segment may not have its name yet.
        if look.is_ok() {
            assert_eq!(seen, state);
        }
        let count = state.count as usize;
        assert!(count >= at_least.max(self.synced), "{count} of {at_least} or {} synced", self.synced);
        assert_eq!(replay.next_seq, count as u64);
        assert_eq!(self.states.get(count), Some(&state), "{count} of {}", self.appended());
        self.states.truncate(count + 1);
        self.journal = Some(journal);
        // What was read once stays.
        self.synced = count;
        self.written = count;
        for name in self.disk.names() {
            assert!(!name.ends_with(".tmp"), "{name} was left behind");
        }
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn what_was_synced_is_there(steps in steps(), segment in prop_oneof![Just(100u64), Just(5000), Just(1 << 20)], seed: u64) {
        let mut world = World::new(segment);
        for step in &steps {
            world.step(step);
        }
        world.crash(seed);
        world.crash(seed ^ 1);
    }
}

/// Everything that changes the disk, once: a long enough life of a journal, with two compactions.
fn life(disk: &SimDisk, synced: &mut Vec<State>, states: &mut Vec<State>) -> Option<()> {
    let (mut journal, _, state) = open(disk, 2000).ok()?;
    assert_eq!(state, State::default());
    let mut state = State::default();
    for round in 0..40u64 {
        let mut compactor = (round % 16 == 7).then(|| journal.start_compaction()).transpose().ok()?;
        if let Some(compactor) = &mut compactor {
            state.snapshot(20, compactor).ok()?;
        }
        for number in 0..3 {
            let bytes = record(round * 10 + number, 30 * number);
            journal.append(&bytes);
            state.apply(&bytes);
            states.push(state);
        }
        journal.write().ok()?;
        if let Some(compactor) = compactor {
            let snapshot = compactor.finish().ok()?;
            journal.finish_compaction(snapshot).ok()?.replaced.remove(disk);
        }
        if round % 2 == 0 {
            journal.sync().ok()?;
            synced.push(state);
        }
    }
    journal.close().ok()?;
    synced.push(state);
    Some(())
}

#[test]
fn the_power_may_go_at_any_point_of_a_life() {
    let mut operations = 1;
    loop {
        let mut finished = false;
        for seed in 0..6 {
            let mut disk = SimDisk::new();
            disk.set_faults(Faults { power_after: Some(operations), ..Faults::default() });
            let (mut synced, mut states) = (vec![State::default()], vec![State::default()]);
            finished = life(&disk, &mut synced, &mut states).is_some();
            let mut chance = Chance(operations * 100 + seed);
            disk.crash(&mut |limit| chance.below(limit));
            let (_, _, state) = open(&disk, 2000).unwrap();
            assert!(state.count >= synced.last().unwrap().count, "operation {operations}, seed {seed}");
            assert_eq!(states.get(state.count as usize), Some(&state), "operation {operations}, seed {seed}");
        }
        if finished {
            break;
        }
        operations += 1;
    }
    assert!(operations > 100, "a life has only {operations} operations");
}

#[test]
fn a_full_disk_loses_nothing_and_goes_on_when_there_is_room() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk, 10_000).unwrap();
    let full = Faults { capacity_bytes: Some(1000), ..Faults::default() };
    disk.set_faults(full);
    let mut synced = 0;
    let mut refused = 0;
    let mut state = State::default();
    for number in 0..200 {
        let bytes = record(number, 20);
        journal.append(&bytes);
        state.apply(&bytes);
        match journal.sync() {
            Ok(()) => synced = journal.synced_seq(),
            Err(_) => refused += 1,
        }
        assert_eq!(journal.synced_seq(), synced);
    }
    assert!(refused > 100 && synced > 0);
    disk.set_faults(Faults::default());
    journal.sync().unwrap();
    assert_eq!(journal.synced_seq(), 200);
    drop(journal);
    assert_eq!(open(&disk, 10_000).unwrap().2, state);
}

#[test]
fn what_a_failed_sync_forgot_is_written_again() {
    let mut disk = SimDisk::new();
    let (mut journal, ..) = open(&disk, 10_000).unwrap();
    journal.append(b"first");
    disk.set_faults(Faults { syncs_failing: 1, ..Faults::default() });
    journal.sync().unwrap_err();
    assert_eq!(journal.synced_seq(), 0);
    journal.append(b"second");
    journal.sync().unwrap();
    drop(journal);
    // Nothing that was not synced is left.
    disk.crash(&mut |_| 0);
    assert_eq!(open(&disk, 10_000).unwrap().2.count, 2);
}

#[test]
fn what_a_dead_process_read_from_memory_is_written_again() {
    let mut disk = SimDisk::new();
    let (mut journal, ..) = open(&disk, 10_000).unwrap();
    journal.append(b"first");
    disk.set_faults(Faults { syncs_failing: 1, ..Faults::default() });
    journal.sync().unwrap_err();
    drop(journal);
    // The next process sees the record, builds on it, and says so to others.
    let (mut journal, replay, state) = open(&disk, 10_000).unwrap();
    assert_eq!((replay.next_seq, state.count), (1, 1));
    journal.append(b"second");
    journal.sync().unwrap();
    drop(journal);
    disk.crash(&mut |limit| limit - 1);
    assert_eq!(open(&disk, 10_000).unwrap().2.count, 2);
}
