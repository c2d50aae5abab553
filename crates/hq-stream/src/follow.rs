//! Reads what one attempt prints on one channel by its place in that, also while the file is written.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hq_model::{Channel, IdSet};

use crate::error::{Fault, StreamError};
use crate::file::{Block, Entry, StreamFile, lost};
use crate::format::{Attempt, Content, Kind};
use crate::limits::{FAULTS_MAX, MARKS_MAX};
use crate::pack::Unpacker;

/// An attempt's output in a file that may grow.
#[derive(Debug)]
pub struct Follow {
    file: StreamFile,
    attempt: Attempt,
    channel: Channel,
    /// Where the first block is that was not looked at yet.
    next: u64,
    /// Bytes of the channel in all before that.
    length: u64,
    /// Some blocks, each with how much of the channel is before it, ascending.
    marks: Vec<(u64, u64)>,
    /// The block where the last read ended, and how much is before it.
    last: (u64, u64),
    /// Something of the attempt is there, if only its end.
    is_there: bool,
    /// What was passed over because it is damaged; not more than some.
    faults: Vec<Fault>,
    payload: Vec<u8>,
    unpacker: Unpacker,
}

impl Follow {
    /// Looks for what is there already, by the indexes of the file.
    ///
    /// # Errors
    /// When the file cannot be read, or is of something else.
    pub fn open(path: &Path, attempt: Attempt, channel: Channel) -> Result<Follow, StreamError> {
        let file = StreamFile::open(path)?;
        let tasks = IdSet::single(attempt.task.task);
        let (blocks, next) = file.blocks_of(attempt.task.job, &tasks)?;
        let mut follow = Follow {
            next,
            file,
            attempt,
            channel,
            length: 0,
            marks: Vec::new(),
            last: (0, u64::MAX),
            is_there: false,
            faults: Vec::new(),
            payload: Vec::new(),
            unpacker: Unpacker::default(),
        };
        let end = follow.file.length()?;
        for block in blocks {
            follow.add(block, end)?;
        }
        Ok(follow)
    }

    /// How much of the channel is in the file now.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn length(&mut self) -> Result<u64, StreamError> {
        let end = self.file.length()?;
        // What is not whole yet is looked at again.
        while let Some(behind) = self.add(self.next, end)? {
            self.next = behind;
        }
        Ok(self.length)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Whether something of the attempt was found, if only its end.
    pub(crate) fn is_there(&self) -> bool {
        self.is_there
    }

    /// The first part that was passed over because it is damaged and may have had some of it.
    pub(crate) fn damage(&self) -> Option<&Fault> {
        let is_of_it = |fault: &&Fault| match self.file.tasks_in(fault) {
            Ok(Some(tasks)) => {
                let of_job = tasks.get(&self.attempt.task.job);
                of_job.is_some_and(|tasks| tasks.contains(self.attempt.task.task))
            }
            Ok(None) | Err(_) => true,
        };
        self.faults.iter().find(is_of_it)
    }

    fn note_damage(&mut self, offset: u64, behind: u64) {
        self.note(Fault::Damaged { offset, bytes: behind - offset });
    }

    fn note(&mut self, fault: Fault) {
        let is_known = self.faults.iter().any(|known| known.offset() == fault.offset());
        if !is_known && self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }

    /// Whether what is written goes elsewhere: the file was removed or renamed, or what was looked at was cut off.
    pub(crate) fn is_left(&self) -> bool {
        let identity =
            |file: &File| file.metadata().ok().map(|found| (found.dev(), found.ino(), found.len()));
        let (Some((dev, ino, length)), Ok(named)) =
            (identity(&self.file.file), StreamFile::open(self.path()))
        else {
            return true;
        };
        // One that was emptied and has been begun anew may be as long by now.
        let is_same = identity(&named.file).is_some_and(|named| (named.0, named.1) == (dev, ino))
            && named.header() == self.file.header();
        !is_same || length < self.next
    }

    /// Reads from a place of the channel on, of which at most [`length`](Follow::length) is there.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(&mut self, offset: u64, bytes_max: usize) -> Result<Vec<u8>, StreamError> {
        let mut read = Vec::new();
        let behind = self.marks.partition_point(|(before, _)| *before <= offset);
        let Some(&mark) = behind.checked_sub(1).and_then(|at| self.marks.get(at)) else { return Ok(read) };
        let is_nearer = self.last.1 < self.next && (mark.0..=offset).contains(&self.last.0);
        let (mut before, mut at) = if is_nearer { self.last } else { mark };
        while at < self.next && read.len() < bytes_max {
            let Some((bytes, behind)) = self.look(at, self.next)? else { break };
            if bytes > 0 && before + bytes > offset {
                let skipped = offset.saturating_sub(before);
                self.copy(at, skipped, bytes_max, &mut read);
                self.last = (before, at);
            }
            before += bytes;
            at = behind;
        }
        Ok(read)
    }

    // Counts what a block has of the channel, and gives where the next one begins; nothing when it is not whole.
    fn add(&mut self, at: u64, end: u64) -> Result<Option<u64>, StreamError> {
        let Some((bytes, behind)) = self.look(at, end)? else { return Ok(None) };
        if bytes > 0 {
            self.marks.push((self.length, at));
            self.length += bytes;
            if self.marks.len() > MARKS_MAX {
                let mut keeps = false;
                self.marks.retain(|_| {
                    keeps = !keeps;
                    keeps
                });
            }
        }
        Ok(Some(behind))
    }

    // Reads a block: how much of the channel it has, and where the next one begins. One that is not whole has nothing where
    // another one is behind it: then it is damaged.
    fn look(&mut self, at: u64, end: u64) -> Result<Option<(u64, u64)>, StreamError> {
        let mut head = self.file.head(at, end)?;
        if head.is_none() && at < end {
            let Some(next) = self.file.next_head(at)?.filter(|next| *next < end) else { return Ok(None) };
            // What was being written is whole once something is behind it.
            head = self.file.head(at, end)?;
            if head.is_none() {
                self.note_damage(at, next);
                return Ok(Some((0, next)));
            }
        }
        let Some(head) = head else { return Ok(None) };
        let behind = at + head.block_bytes();
        if head.kind == Kind::Index {
            return Ok(Some((0, behind)));
        }
        if !self.file.entries(at, &head, &mut self.unpacker, &mut self.payload)? {
            if behind >= end {
                return Ok(None);
            }
            self.note_damage(at, behind);
            return Ok(Some((0, behind)));
        }
        if head.kind == Kind::Lost {
            let is_of = |entry: &Entry<'_>| {
                entry.attempt == self.attempt
                    && matches!(entry.content, Content::Lost(channel, _) if channel == self.channel)
            };
            match lost(at, &head, &self.payload, is_of) {
                Fault::Lost { lost_bytes: 0, .. } => {}
                fault => self.note(fault),
            }
        }
        let bytes = self.printed(at).map(|bytes| bytes.len() as u64).sum();
        let mut entries = Block::new(at, false, &self.payload).entries();
        self.is_there = self.is_there || entries.any(|entry| entry.attempt == self.attempt);
        Ok(Some((bytes, behind)))
    }

    // The bytes of the channel in the block that was read last.
    fn printed(&self, at: u64) -> impl Iterator<Item = &[u8]> {
        let block = Block::new(at, false, &self.payload);
        block.entries().filter_map(|entry| match entry.content {
            Content::Bytes(channel, bytes) if channel == self.channel && entry.attempt == self.attempt => {
                Some(bytes)
            }
            _ => None,
        })
    }

    fn copy(&self, at: u64, skipped: u64, bytes_max: usize, into: &mut Vec<u8>) {
        let mut skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        for bytes in self.printed(at) {
            let (passed, bytes) = bytes.split_at(skipped.min(bytes.len()));
            skipped -= passed.len();
            let room = bytes_max - into.len();
            into.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }
}
