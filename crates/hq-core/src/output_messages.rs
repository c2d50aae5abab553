//! What is asked and answered to show what tasks print while they run: by clients of the server, and by the server of the
//! worker where the task runs.
//!
//! A read waits until there is something to tell, and is answered once. Whoever wants more asks again, from where the
//! answer ended: so nobody has to remember a reader, and none can be sent more than it asks for.

use std::time::Duration;

use hq_model::{ByteString, Channel, Instance, TaskRef, WorkerId};

/// Where a read begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// Behind so many bytes of the channel.
    Offset(u64),
    /// With the last so many lines of what is there.
    Lines(u32),
}

/// What a client has read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing: it wants what the present or last instance prints.
    Nothing,
    /// A part of what this instance prints.
    Part(Instance),
    /// All that this instance has printed: it wants to know what comes after that.
    All(Instance),
}

/// A client wants to know what a task prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputRead {
    /// The task.
    pub task: TaskRef,
    /// On which channel.
    pub channel: Channel,
    /// What it has read before.
    pub seen: Seen,
    /// Where to go on; another instance than that in `seen` is read from its beginning.
    pub from: ReadFrom,
    /// At most so many bytes, and never more than [`OUTPUT_READ_BYTES_MAX`](crate::limits::OUTPUT_READ_BYTES_MAX).
    pub bytes_max: u32,
    /// How long to wait until there is something, and never longer than
    /// [`OUTPUT_READ_TIME_MAX`](crate::limits::OUTPUT_READ_TIME_MAX).
    pub wait: Duration,
    /// Ask the worker for it also when the task has ended.
    pub even_ended: bool,
}

/// What a client is told of what a task prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The instance that it is about.
    pub instance: Instance,
    /// Where `bytes` begin in all that the channel has got. Less than what was asked for when it was cut off meanwhile.
    pub offset: u64,
    /// How much the channel has got so far, where that was asked of a worker.
    pub length: u64,
    /// What was printed.
    pub bytes: ByteString,
    /// What comes after that.
    pub state: OutputState,
}

/// What comes after an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputState {
    /// There may be more.
    More,
    /// This instance has printed no more than that.
    Complete,
    /// The task waits: it has not started yet, or is to start again.
    Waits,
    /// The task runs on this worker, which the server has lost and which may come back.
    Away(WorkerId),
    /// The task has ended.
    Ended,
    /// The channel goes nowhere.
    Nowhere,
    /// It cannot be read this way, for this reason.
    Unreadable(String),
}

/// The server wants to know what a task prints that a worker runs or has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOrder {
    /// Names the read.
    pub number: u64,
    /// The task.
    pub task: TaskRef,
    /// As which instance.
    pub instance: Instance,
    /// Its entry, where the paths of its files depend on that.
    pub entry: Option<ByteString>,
    /// On which channel.
    pub channel: Channel,
    /// Where to begin.
    pub from: ReadFrom,
    /// At most so many bytes.
    pub bytes_max: u32,
    /// How long to wait until there is something.
    pub wait: Duration,
}

/// What a worker tells of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadAnswer {
    /// The read.
    pub number: u64,
    /// Where `bytes` begin.
    pub offset: u64,
    /// How much the channel has got so far.
    pub length: u64,
    /// What was printed.
    pub bytes: ByteString,
    /// What comes after that.
    pub state: ReadState,
}

/// What comes after the answer of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadState {
    /// There may be more.
    More,
    /// There is no more than that.
    Complete,
    /// It cannot be read there, for this reason.
    Unreadable(String),
}

impl ReadAnswer {
    /// Says why there is nothing to read.
    pub fn unreadable(number: u64, reason: impl Into<String>) -> ReadAnswer {
        let state = ReadState::Unreadable(reason.into());
        ReadAnswer { number, offset: 0, length: 0, bytes: ByteString::new(), state }
    }
}
