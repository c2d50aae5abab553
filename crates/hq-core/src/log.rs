//! What tasks print into a log: on its way from their worker into the file that the server writes.
//!
//! A worker says one batch of a file at a time, and keeps it until the server answers that it is in the file; so what is
//! said for the first time is never there already. What is said again (the answer was lost, or the disk was full) is
//! compared with the file by its offsets.

use hq_model::{ByteString, Compression, Instance, TaskRef, Timestamp};

/// What some tasks have printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogBatch {
    /// Counted over the worker's life.
    pub number: u64,
    /// It was said before, and some of it may be in the file.
    pub is_again: bool,
    /// What it has of whom, in order.
    pub pieces: Vec<LogPiece>,
    /// The bytes of all pieces, one after the other.
    pub content: ByteString,
}

/// What an attempt of a task has printed on a channel, or that it has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogPiece {
    /// The task.
    pub task: TaskRef,
    /// Its attempt.
    pub instance: Instance,
    /// When its worker took it in.
    pub at: Timestamp,
    /// What.
    pub entry: LogEntry,
}

/// See [`LogPiece`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LogEntry {
    /// Bytes were printed.
    Printed {
        /// On standard error, not on standard output.
        is_stderr: bool,
        /// So many bytes of this channel came before.
        offset: u64,
        /// So many are in the batch.
        length: u32,
    },
    /// Nothing more comes.
    End {
        /// Standard output is complete.
        stdout: bool,
        /// Standard error is complete.
        stderr: bool,
    },
}

impl LogPiece {
    /// Bytes in the batch.
    pub fn length(&self) -> u32 {
        match self.entry {
            LogEntry::Printed { length, .. } => length,
            LogEntry::End { .. } => 0,
        }
    }
}

/// Where some pieces of a batch go.
#[derive(Clone, Debug, PartialEq)]
pub struct LogPart {
    /// The file; nowhere when these are not of tasks of the worker that has said them.
    pub path: Option<ByteString>,
    /// How they are stored there.
    pub compression: Compression,
    /// So many pieces, behind those of the parts before.
    pub pieces: usize,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// It is in the file.
    Done,
    /// The server has too much to write: it shall be said again soon. Nothing of it was written.
    Busy,
    /// The disk is full, and says so: it shall be said again later.
    NoRoom(String),
    /// The file can never be written, and why.
    Refused(String),
}
