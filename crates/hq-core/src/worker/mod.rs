//! The worker's state machine: what the server and the processes say goes in, starts, signals and reports come out.

mod machine;
mod outside;
pub mod pools;
mod reporting;
mod starting;

#[cfg(test)]
mod tests;

pub use machine::Worker;

use std::sync::Arc;

use hq_model::{ByteString, Instance, TaskRef, Usage};

use crate::record::FailureKind;
use crate::worker_messages::{FromWorker, TaskNode, Template, ToWorker, WorkerEnd};

/// What the worker machine is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The server speaks.
    Server(ToWorker),
    /// The connection to the server broke.
    ServerLost,
    /// The connection to the server is there again; the machine answers with a hello.
    ServerFound,
    /// A started task has ended (or could not start).
    Ended {
        /// Which.
        task: TaskRef,
        /// How.
        outcome: Outcome,
        /// What it used.
        usage: Usage,
    },
    /// A running task speaks to whoever waits for its job.
    Notify {
        /// Which.
        task: TaskRef,
        /// Its words.
        text: ByteString,
    },
    /// Nothing happened, but a time that [`Worker::next_wakeup`] named has come.
    Tick,
    /// The process was asked to end (SIGTERM, SIGINT).
    Interrupt,
}

/// How a task's process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With success.
    Finished,
    /// Without: the kind, and the text for people (error file, spawn hint, exit code and signal).
    Failed(FailureKind, String),
}

/// What the worker machine wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Start a task. Answered by exactly one [`Input::Ended`].
    Start(Start),
    /// Send this signal to the whole process group of a running task.
    Signal {
        /// Which.
        task: TaskRef,
        /// Signal number.
        signal: u8,
    },
    /// Send to the server.
    Send(FromWorker),
    /// End the process: everything was said and every task has ended.
    Exit(WorkerEnd),
}

/// A task to start.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Which.
    pub task: TaskRef,
    /// Its instance.
    pub instance: Instance,
    /// What it shares with its siblings.
    pub template: Arc<Template>,
    /// Its entry, if it has one.
    pub entry: Option<ByteString>,
    /// Keys of the services that it waited for, and what those said.
    pub services: Arc<Vec<(ByteString, ByteString)>>,
    /// Which variant of its requests was chosen.
    pub variant: u32,
    /// What it may use; nothing when its ranks have it.
    pub allocation: Allocation,
    /// What each of its ranks on this worker may use.
    pub ranks: Vec<Allocation>,
    /// Of a task on several nodes: all of them on the first one, that first one alone on the others.
    pub nodes: Vec<TaskNode>,
    /// Nothing is started: it is a part of a task whose program runs on another worker, which may start processes here
    /// until the part is ended by a signal.
    pub is_part: bool,
}

/// The resources given to a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// One entry a requested resource, in the order of the request.
    pub resources: Vec<AllocatedResource>,
}

/// One resource given to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedResource {
    /// Index of the pool in the worker's resources.
    pub pool: u32,
    /// How much.
    pub amount: hq_model::Amount,
    /// Which of an indexed pool: position over all groups, with the units taken of it
    /// (10000 = the whole index). Empty for a sum.
    pub indices: Vec<(u32, u16)>,
}
