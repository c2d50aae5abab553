//! Finds the blocks that hold what some tasks printed, by the indexes of a file and without reading the rest of it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use hq_model::{IdSet, JobId, TaskId, TaskRef};

use crate::error::{Fault, StreamError};
use crate::file::{Block, Scan, StreamFile, read_up_to};
use crate::format::{HEAD_BYTES, Head, Kind, LINE_BYTES, SUMMARY_BYTES, key_at, u32_at, u64_at};
use crate::limits::INDEX_BYTES;
use crate::pack::Unpacker;

// What the indexes say of some tasks.
struct Indexed {
    /// The blocks that have something of them.
    blocks: Vec<u64>,
    /// Where the last index ends.
    behind: u64,
    has_other_jobs: bool,
}

// What an index says before its lines.
struct Summary {
    head: Head,
    before: u64,
    from: u64,
    first: TaskRef,
    last: TaskRef,
}

impl StreamFile {
    /// Goes through the blocks that hold something of these tasks of a job. Others are among them: all those behind the last
    /// index, and all of the file where an index is damaged. Faults of the rest are not told.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn find(self, job: JobId, tasks: &IdSet) -> Result<Scan, StreamError> {
        let Some(mut indexed) = self.by_indexes(job, tasks)? else { return Ok(self.scan()) };
        indexed.blocks.sort_unstable();
        indexed.blocks.dedup();
        let mut scan = self.scan_some(indexed.blocks, indexed.behind);
        scan.has_passed_other_jobs = indexed.has_other_jobs;
        Ok(scan)
    }

    /// The blocks that hold something of these tasks of a job, by the indexes, and where what these do not know begins.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn blocks_of(&self, job: JobId, tasks: &IdSet) -> Result<(Vec<u64>, u64), StreamError> {
        let Some(mut indexed) = self.by_indexes(job, tasks)? else {
            return Ok((Vec::new(), self.first_block));
        };
        indexed.blocks.sort_unstable();
        indexed.blocks.dedup();
        Ok((indexed.blocks, indexed.behind))
    }

    // The blocks that hold something of some tasks. Nothing where the indexes cannot be used.
    fn by_indexes(&self, job: JobId, tasks: &IdSet) -> Result<Option<Indexed>, StreamError> {
        let (mut blocks, mut has_other_jobs) = (Vec::new(), false);
        let wants = |summary: &Summary| {
            has_other_jobs |= summary.first.job != job || summary.last.job != job;
            let known = summary.tasks_of(job);
            known.is_some_and(|known| tasks.ranges().any(|range| overlap(&range, &known)))
        };
        let behind = self.each_index(wants, |summary, lines| {
            let Some(known) = summary.tasks_of(job) else { return };
            for range in tasks.ranges().filter(|range| overlap(range, &known)) {
                add_blocks(lines, job, &range, &mut blocks);
            }
        })?;
        Ok(behind.map(|behind| Indexed { blocks, behind, has_other_jobs }))
    }

    /// The tasks of which something was in the blocks that a fault has, by the indexes. Nothing where these do not say it: one
    /// that was written by whoever opened the file again knows nothing of blocks that were damaged by then.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn tasks_in(&self, fault: &Fault) -> Result<Option<BTreeMap<JobId, IdSet>>, StreamError> {
        let mut found: BTreeMap<JobId, IdSet> = BTreeMap::new();
        if let Fault::Lost { offset, .. } = fault {
            let payload = self.block_at(*offset, &mut Unpacker::default())?;
            for entry in Block::new(*offset, false, &payload).entries() {
                let task = entry.attempt.task;
                found.entry(task.job).or_default().insert(task.task);
            }
            return Ok(Some(found));
        }
        let behind = self.each_index(
            |_| true,
            |_, lines| {
                for line in lines.iter().filter(|line| fault.holds(u64_at(&line[..], 16))) {
                    let task = key_at(line, 0).task;
                    found.entry(task.job).or_default().insert(task.task);
                }
            },
        )?;
        Ok(behind.filter(|behind| fault.end() <= *behind && !found.is_empty()).map(|_| found))
    }

    // Goes through the indexes from the last to the first and tells the lines of those that are wanted. Says where the last one
    // ends. Nothing when one of them is not what was written, or they do not follow each other from the beginning of the file
    // to its last one.
    fn each_index(
        &self,
        mut wants: impl FnMut(&Summary) -> bool,
        mut take: impl FnMut(&Summary, &[[u8; LINE_BYTES]]),
    ) -> Result<Option<u64>, StreamError> {
        let end = self.length()?;
        let Some(mut at) = self.last_index(end)? else { return Ok(None) };
        let mut last = self.first_block;
        let mut payload = Vec::new();
        // Where the first block begins that the index behind this one knows.
        let mut known_from = None;
        while at != 0 {
            let Some(summary) = self.summary(at, end)? else { return Ok(None) };
            let behind = at + summary.head.block_bytes();
            match known_from {
                None => last = behind,
                Some(from) if from != behind => return Ok(None),
                Some(_) => {}
            }
            known_from = Some(summary.from);
            if wants(&summary) {
                if !self.payload(at, &summary.head, &mut payload)? {
                    return Ok(None);
                }
                take(&summary, payload[SUMMARY_BYTES..].as_chunks::<LINE_BYTES>().0);
            }
            at = summary.before;
        }
        Ok((known_from.unwrap_or(self.first_block) == self.first_block).then_some(last))
    }

    /// Where the last index begins and ends, if it is what was written.
    pub(crate) fn last_whole_index(&self) -> Result<Option<(u64, u64)>, StreamError> {
        let end = self.length()?;
        let Some(at) = self.last_index(end)?.filter(|at| *at != 0) else { return Ok(None) };
        let Some(summary) = self.summary(at, end)? else { return Ok(None) };
        let is_whole = self.payload(at, &summary.head, &mut Vec::new())?;
        Ok(is_whole.then_some((at, at + summary.head.block_bytes())))
    }

    fn summary(&self, at: u64, end: u64) -> Result<Option<Summary>, StreamError> {
        let mut bytes = [0; HEAD_BYTES + SUMMARY_BYTES];
        if end.saturating_sub(at) < bytes.len() as u64 {
            return Ok(None);
        }
        let read = read_up_to(&self.file, &mut bytes, at).map_err(|error| self.failed(error))?;
        let (head, bytes) = bytes.split_at(HEAD_BYTES);
        let is_summary = read == HEAD_BYTES + SUMMARY_BYTES
            && crc32c::crc32c(&bytes[..SUMMARY_BYTES - 4]) == u32_at(bytes, SUMMARY_BYTES - 4);
        let Some(head) = Head::decode(head, at).filter(|_| is_summary) else { return Ok(None) };
        let summary = Summary {
            before: u64_at(bytes, 0),
            from: u64_at(bytes, 8),
            first: key_at(bytes, 16).task,
            last: key_at(bytes, 28).task,
            head,
        };
        let lines = u64::from(u32_at(bytes, 40));
        let is_index = summary.head.kind == Kind::Index
            && summary.head.length as u64 == SUMMARY_BYTES as u64 + lines * LINE_BYTES as u64
            && at + summary.head.block_bytes() <= end
            && summary.before < at;
        Ok(is_index.then_some(summary))
    }

    // Where the last index is, 0 for none, from the last head that can be found. What is torn behind it is not long.
    fn last_index(&self, end: u64) -> Result<Option<u64>, StreamError> {
        let mut bytes = vec![0; HEAD_BYTES + INDEX_BYTES + HEAD_BYTES];
        let first = end.saturating_sub(bytes.len() as u64).max(self.first_block);
        let read = read_up_to(&self.file, &mut bytes, first).map_err(|error| self.failed(error))?;
        let bytes = &bytes[..read];
        // A complete file ends with an index, all parts of which are as long as some lines.
        let at_ends_of_lines =
            (0..read.saturating_sub(HEAD_BYTES)).rev().filter(|at| (read - at) % LINE_BYTES == 0);
        for behind in at_ends_of_lines {
            let at = first + behind as u64;
            if let Some(head) = Head::decode(&bytes[behind..], at)
                && head.kind == Kind::Index
                && at + head.block_bytes() == end
            {
                return Ok(Some(at));
            }
        }
        for (behind, head) in bytes.windows(HEAD_BYTES).enumerate().rev() {
            let at = first + behind as u64;
            if let Some(head) = Head::decode(head, at) {
                let is_whole = at + head.block_bytes() <= end;
                return Ok(Some(if head.kind == Kind::Index && is_whole { at } else { head.last_index }));
            }
        }
        Ok((end <= self.first_block).then_some(0))
    }
}

impl Summary {
    // The tasks of a job that can be in its lines.
    fn tasks_of(&self, job: JobId) -> Option<RangeInclusive<u32>> {
        if !(self.first.job..=self.last.job).contains(&job) {
            return None;
        }
        let first = if self.first.job == job { self.first.task.0 } else { 0 };
        let last = if self.last.job == job { self.last.task.0 } else { u32::MAX };
        Some(first..=last)
    }
}

fn overlap(one: &RangeInclusive<u32>, other: &RangeInclusive<u32>) -> bool {
    one.start() <= other.end() && other.start() <= one.end()
}

fn add_blocks(lines: &[[u8; LINE_BYTES]], job: JobId, tasks: &RangeInclusive<u32>, blocks: &mut Vec<u64>) {
    let [first, last] = [tasks.start(), tasks.end()].map(|task| TaskRef::new(job, TaskId(*task)));
    let before = lines.partition_point(|line| key_at(line, 0).task < first);
    let of_these = lines[before..].iter().take_while(|line| key_at(&line[..], 0).task <= last);
    blocks.extend(of_these.map(|line| u64_at(line, 16)));
}
