//! Times and measured use of many ended tasks, packed: about ten bytes a task.
//!
//! A worker packs them once; the wire, the journal and the server's memory hold the same bytes.
//! Variable-length integers for each task, in ascending order of ids: start relative to the start of the
//! task before (µs, zigzag), wall time (µs); then, unless the executor measures nothing, user and
//! system time (µs); peak memory (KiB) relative to that of the task before (zigzag, twice that, and one
//! more when it read or wrote); and in that case blocks read and written.

use hq_model::{Timestamp, Usage};

/// Packed times and use of some tasks. Which tasks is said beside it by an `IdSet` of equal count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    count: u32,
    has_usage: bool,
    base: Timestamp,
    bytes: Vec<u8>,
    total: Usage,
}

/// Bytes that are no measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the packed measures of {count} tasks are damaged")]
pub struct BadMeasures {
    /// Number of tasks they were said to describe.
    pub count: u32,
}

/// Packs measures task by task.
#[derive(Clone, Debug, Default)]
pub struct MeasuresWriter {
    measures: Measures,
    last_start: u64,
    last_rss: u64,
}

impl MeasuresWriter {
    /// Nothing yet; `has_usage` says whether use is kept beside times.
    pub fn new(has_usage: bool) -> Self {
        MeasuresWriter { measures: Measures { has_usage, ..Measures::default() }, last_start: 0, last_rss: 0 }
    }

    /// Adds the next task, in ascending order of ids.
    pub fn push(&mut self, start: Timestamp, usage: &Usage) {
        let m = &mut self.measures;
        if m.count == 0 {
            m.base = start;
            self.last_start = start.0;
        }
        put(&mut m.bytes, zigzag(start.0.wrapping_sub(self.last_start) as i64));
        put(&mut m.bytes, usage.wall_us);
        if m.has_usage {
            put(&mut m.bytes, usage.user_us);
            put(&mut m.bytes, usage.system_us);
            let rss = zigzag(usage.rss_max_kib.wrapping_sub(self.last_rss) as i64);
            let has_blocks = usage.blocks_read > 0 || usage.blocks_written > 0;
            put_wide(&mut m.bytes, u128::from(rss) << 1 | u128::from(has_blocks));
            if has_blocks {
                put(&mut m.bytes, usage.blocks_read);
                put(&mut m.bytes, usage.blocks_written);
            }
            self.last_rss = usage.rss_max_kib;
        }
        m.total.add(usage);
        m.count += 1;
        self.last_start = start.0;
    }

    /// What was packed.
    pub fn finish(self) -> Measures {
        self.measures
    }
}

impl Measures {
    /// Takes packed bytes from a peer or a file: checks that they describe `count` tasks, and sums them up.
    ///
    /// # Errors
    /// When the bytes end early, go on too long or hold an impossible integer.
    pub fn parse(
        count: u32,
        has_usage: bool,
        base: Timestamp,
        bytes: Vec<u8>,
    ) -> Result<Measures, BadMeasures> {
        let mut total = Usage::default();
        let mut reader = Reader { bytes: &bytes, last_rss: 0 };
        for _ in 0..count {
            let (_, usage) = reader.task(has_usage).ok_or(BadMeasures { count })?;
            total.add(&usage);
        }
        if !reader.bytes.is_empty() {
            return Err(BadMeasures { count });
        }
        Ok(Measures { count, has_usage, base, bytes, total })
    }

    /// Takes packed bytes that were checked and summed up before.
    pub fn kept(count: u32, has_usage: bool, base: Timestamp, bytes: Vec<u8>, total: Usage) -> Measures {
        Measures { count, has_usage, base, bytes, total }
    }

    /// Start time and use of each task, in ascending order of ids; fewer where kept bytes were not what they should be.
    pub fn iter(&self) -> impl Iterator<Item = (Timestamp, Usage)> + '_ {
        let mut reader = Reader { bytes: &self.bytes, last_rss: 0 };
        let mut start = self.base.0;
        (0..self.count).map_while(move |_| {
            let (delta, usage) = reader.task(self.has_usage)?;
            start = start.wrapping_add(delta as u64);
            Some((Timestamp(start), usage))
        })
    }

    /// As [`Measures::iter`], and the bytes go along.
    pub fn into_measured(self) -> impl Iterator<Item = (Timestamp, Usage)> {
        let Measures { count, has_usage, base, bytes, .. } = self;
        let (mut place, mut last_rss, mut start) = (0, 0, base.0);
        (0..count).map_while(move |_| {
            let mut reader = Reader { bytes: &bytes[place..], last_rss };
            let (delta, usage) = reader.task(has_usage)?;
            place = bytes.len() - reader.bytes.len();
            last_rss = reader.last_rss;
            start = start.wrapping_add(delta as u64);
            Some((Timestamp(start), usage))
        })
    }

    /// Number of tasks.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Sum of use over all tasks.
    pub fn total(&self) -> &Usage {
        &self.total
    }

    /// Start time of the first task.
    pub fn base(&self) -> Timestamp {
        self.base
    }

    /// True when use is kept beside times.
    pub fn has_usage(&self) -> bool {
        self.has_usage
    }

    /// The packed bytes, for the wire and the journal.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    last_rss: u64,
}

impl Reader<'_> {
    fn task(&mut self, has_usage: bool) -> Option<(i64, Usage)> {
        let delta = unzigzag(self.integer()?);
        let mut usage = Usage { wall_us: self.integer()?, ..Usage::default() };
        if has_usage {
            usage.user_us = self.integer()?;
            usage.system_us = self.integer()?;
            let rss = self.wide_integer()?;
            let delta = unzigzag(u64::try_from(rss >> 1).ok()?);
            usage.rss_max_kib = self.last_rss.wrapping_add(delta as u64);
            self.last_rss = usage.rss_max_kib;
            if rss & 1 == 1 {
                usage.blocks_read = self.integer()?;
                usage.blocks_written = self.integer()?;
            }
        }
        Some((delta, usage))
    }

    fn wide_integer(&mut self) -> Option<u128> {
        if let Some(small) = self.small() {
            return Some(small.into());
        }
        let mut value = 0u128;
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            value |= u128::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    // A number of one byte, as most are.
    fn small(&mut self) -> Option<u8> {
        let (&byte, rest) = self.bytes.split_first().filter(|(byte, _)| **byte < 0x80)?;
        self.bytes = rest;
        Some(byte)
    }

    fn integer(&mut self) -> Option<u64> {
        if let Some(small) = self.small() {
            return Some(small.into());
        }
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

// A number with one bit more than others.
fn put_wide(bytes: &mut Vec<u8>, value: u128) {
    match u64::try_from(value) {
        Ok(value) => put(bytes, value),
        Err(_) => {
            bytes.extend((0..9).map(|group| (value >> (7 * group)) as u8 | 0x80));
            put(bytes, (value >> 63) as u64);
        }
    }
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_again() {
        let tasks = [
            (5, Usage { wall_us: 700, user_us: 1, ..Usage::default() }),
            (3, Usage { wall_us: u64::from(u32::MAX), rss_max_kib: 900, ..Usage::default() }),
            (4, Usage { rss_max_kib: u64::MAX, blocks_read: 1, ..Usage::default() }),
            (4, Usage { rss_max_kib: 1 << 62, ..Usage::default() }),
            (4, Usage { rss_max_kib: (1 << 62) + (1 << 63), ..Usage::default() }),
            (1 << 50, Usage { wall_us: 1, blocks_written: 77, ..Usage::default() }),
        ];
        let mut writer = MeasuresWriter::new(true);
        for (start, usage) in &tasks {
            writer.push(Timestamp(*start), usage);
        }
        let packed = writer.finish();
        let parsed = Measures::parse(6, true, packed.base(), packed.bytes().to_vec()).expect("own bytes");
        assert_eq!(parsed, packed);
        let out: Vec<_> = parsed.iter().map(|(start, usage)| (start.0, usage)).collect();
        assert_eq!(out, tasks);
        let out: Vec<_> = parsed.into_measured().map(|(start, usage)| (start.0, usage)).collect();
        assert_eq!(out, tasks);
    }

    #[test]
    fn damaged_bytes_are_refused() {
        for (count, bytes) in
            [(1, vec![]), (1, vec![0x80]), (1, vec![0, 0, 0]), (2, vec![0, 0]), (1, vec![0xff; 20])]
        {
            let parsed = Measures::parse(count, false, Timestamp(0), bytes.clone());
            assert_eq!(parsed, Err(BadMeasures { count }), "{bytes:?}");
        }
    }
}
