//! Which tasks have printed how much, in a few bytes for each of their attempts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hq_model::{Instance, JobId, TaskId};

use crate::error::Fault;
use crate::file::Entry;
use crate::format::{Attempt, Content};
use crate::limits::ROWS_MIN;

/// What an attempt has printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// Bytes of each channel.
    pub bytes: [u64; 2],
    /// Whether something of a channel was written or its end was told.
    pub is_opened: [bool; 2],
    /// Whether the end of each channel was told.
    pub is_complete: [bool; 2],
    /// Bytes of each channel that were printed, too, and are not in the file any more.
    pub lost_bytes: [u64; 2],
}

/// An attempt of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The task.
    pub task: TaskId,
    /// The start.
    pub instance: Instance,
    /// What it has printed.
    pub printed: Printed,
}

/// What files hold. Memory grows with the attempts that are in them, not with what these printed.
#[derive(Debug, Default)]
pub struct Contents {
    /// Of each file that has some, what of it was left out.
    pub faults: Vec<(PathBuf, Fault)>,
    jobs: BTreeMap<JobId, Rows>,
}

// The attempts of a job, in order once they are put together.
#[derive(Debug, Default)]
struct Rows {
    rows: Vec<Started>,
    /// Those that were left when they were put together the last time.
    kept: usize,
}

impl Contents {
    /// The jobs that have printed, in order.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.jobs.keys().copied()
    }

    /// The tasks of a job in order, each with its attempts, the latest last.
    pub fn tasks(&self, job: JobId) -> impl Iterator<Item = (TaskId, &[Started])> {
        let rows = self.jobs.get(&job).map_or(&[][..], |rows| &rows.rows);
        rows.chunk_by(|one, next| one.task == next.task).map(|attempts| (attempts[0].task, attempts))
    }

    /// The latest attempt of a task, whose output is the task's.
    pub fn latest(&self, job: JobId, task: TaskId) -> Option<&Started> {
        let rows = &self.jobs.get(&job)?.rows;
        let behind = rows.partition_point(|row| row.task <= task);
        rows[..behind].last().filter(|row| row.task == task)
    }

    pub(crate) fn is_latest(&self, attempt: Attempt) -> bool {
        let latest = self.latest(attempt.task.job, attempt.task.task);
        latest.is_some_and(|latest| latest.instance == attempt.instance)
    }

    pub(crate) fn add(&mut self, entry: &Entry<'_>) {
        let Attempt { task, instance } = entry.attempt;
        let mut printed = Printed::default();
        match entry.content {
            Content::Bytes(channel, bytes) => {
                let channel = usize::from(channel.number());
                printed.bytes[channel] = bytes.len() as u64;
                printed.is_opened[channel] = true;
            }
            Content::Lost(channel, bytes) => {
                let channel = usize::from(channel.number());
                printed.lost_bytes[channel] = bytes;
                printed.is_opened[channel] = true;
            }
            Content::End { stdout, stderr } => {
                printed.is_opened = [stdout, stderr];
                printed.is_complete = [stdout, stderr];
            }
        }
        self.jobs.entry(task.job).or_default().add(Started { task: task.task, instance, printed });
    }

    /// To be called before anything is asked, and after the last one was added.
    pub(crate) fn put_together(&mut self) {
        self.jobs.values_mut().for_each(Rows::put_together);
    }
}

impl Rows {
    fn add(&mut self, row: Started) {
        match self.rows.last_mut() {
            Some(last) if last.is_same(&row) => last.printed.add(&row.printed),
            _ => self.rows.push(row),
        }
        // At least half of them were new each time: the work is that of sorting them all a few times.
        if self.rows.len() >= (2 * self.kept).max(ROWS_MIN) {
            self.put_together();
        }
    }

    fn put_together(&mut self) {
        self.rows.sort_unstable_by_key(|row| (row.task, row.instance));
        self.rows.dedup_by(|next, kept| {
            let is_same = kept.is_same(next);
            if is_same {
                kept.printed.add(&next.printed);
            }
            is_same
        });
        self.kept = self.rows.len();
    }
}

impl Started {
    fn is_same(&self, other: &Started) -> bool {
        (self.task, self.instance) == (other.task, other.instance)
    }
}

impl Printed {
    fn add(&mut self, other: &Printed) {
        for channel in 0..2 {
            self.bytes[channel] += other.bytes[channel];
            self.lost_bytes[channel] = self.lost_bytes[channel].saturating_add(other.lost_bytes[channel]);
            self.is_opened[channel] |= other.is_opened[channel];
            self.is_complete[channel] |= other.is_complete[channel];
        }
    }
}
