//! A small state that records build, to tell whether a journal gives back what was put in.
#![allow(dead_code, reason = "each test file uses its part")]

use hq_journal::{
    Compactor, DiskFile, Journal, JournalError, JournalId, OpenError, Options, Replay, SimDisk,
};

pub(crate) const ID: JournalId = JournalId([0xab; 16]);

/// Numbers that look random and are the same each time.
#[derive(Clone, Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % limit.max(1)
    }
}

/// What records build: it depends on each of them and on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) count: u64,
    pub(crate) hash: u64,
}

impl State {
    pub(crate) fn apply(&mut self, record: &[u8]) {
        match record {
            [b'S', rest @ ..] if rest.len() == 16 => {
                self.count = u64::from_le_bytes(rest[..8].try_into().unwrap());
                self.hash = u64::from_le_bytes(rest[8..].try_into().unwrap());
            }
            // Snapshots have such records to be longer.
            [b'F', ..] => {}
            _ => {
                self.count += 1;
                for chunk in record.chunks(8) {
                    let mut bytes = [0; 8];
                    bytes[..chunk.len()].copy_from_slice(chunk);
                    let word = u64::from_le_bytes(bytes);
                    self.hash = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(25);
                }
                self.hash = self.hash.wrapping_add(record.len() as u64 + 1);
            }
        }
    }

    pub(crate) fn snapshot<F: DiskFile>(
        &self,
        fillers: u64,
        into: &mut Compactor<F>,
    ) -> Result<(), JournalError> {
        for filler in 0..fillers {
            into.append(&[b'F', filler as u8])?;
        }
        let mut record = vec![b'S'];
        record.extend_from_slice(&self.count.to_le_bytes());
        record.extend_from_slice(&self.hash.to_le_bytes());
        into.append(&record)
    }
}

/// A record that is told from all others.
pub(crate) fn record(number: u64, length: u64) -> Vec<u8> {
    let mut chance = Chance(number);
    let mut bytes = vec![b'r'];
    while bytes.len() as u64 <= length {
        bytes.extend_from_slice(&chance.below(u64::MAX).to_le_bytes());
    }
    bytes.truncate(length as usize + 1);
    bytes
}

pub(crate) type Opened = (Journal<SimDisk>, Replay, State);

pub(crate) fn open(disk: &SimDisk, segment_bytes: u64) -> Result<Opened, OpenError<String>> {
    let options = Options { expect: None, create: Some(ID), segment_bytes };
    let mut state = State::default();
    let (journal, replay) = Journal::open(disk.clone(), &options, &mut |_, record| {
        state.apply(record);
        Ok::<(), String>(())
    })?;
    Ok((journal, replay, state))
}

/// How many cases a property is tried with; `PROPTEST_CASES` asks for another number.
pub(crate) fn cases(usual: u32) -> proptest::test_runner::Config {
    let mut config = proptest::test_runner::Config::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = usual;
    }
    config
}
