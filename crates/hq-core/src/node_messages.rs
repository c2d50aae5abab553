//! What workers say to each other: who starts the ranks of a task on several nodes and the workers of these nodes, and who
//! needs an object and who holds it.

use crate::worker_messages::TaskNode;
use hq_model::{ByteString, Instance, ObjectId, TaskRef, WorkerId};

/// The process in a refusal that is the server's own: what was to pass by way of it does not.
pub const OF_SERVER: u32 = u32::MAX - 1;

/// The first message on a connection of a worker or client to the server by which an object is to pass. What follows is what workers
/// say to each other, and the server passes it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskRelay {
    /// From one that wants something of this worker, which it cannot reach. Clients get objects and put files, and nothing else.
    From(WorkerId),
    /// From the one that was [told](crate::worker_messages::ToWorker::Relay) this number. Only workers are.
    For(u64),
}

/// To the worker of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToNode {
    /// The first message: on behalf of which attempt, and to whom.
    Hello {
        /// The task.
        task: TaskRef,
        /// Its instance.
        instance: Instance,
        /// The worker that is meant.
        worker: WorkerId,
        /// Which of the task's nodes that is, from 0.
        node: u32,
    },
    /// Start a process. Answered by [`FromNode::Started`] or [`FromNode::Refused`].
    Start(StartProcess),
    /// Send a signal to the process group of a process.
    Signal {
        /// The process to signal.
        process: u32,
        /// Signal number.
        signal: u8,
    },
    /// The first message of a worker that needs an object. Answered by [`FromNode::Started`] and pieces, or
    /// [`FromNode::Refused`].
    Fetch(Fetch),
    /// The first message of a client that puts a file into the store of a worker. Answered by [`FromNode::Started`]; pieces follow,
    /// and in the end [`FromNode::Put`], or at any time [`FromNode::Refused`].
    Put {
        /// The worker that is meant.
        worker: WorkerId,
        /// Bytes of the file.
        size: u64,
    },
    /// The next bytes of it.
    Piece {
        /// What.
        bytes: ByteString,
        /// Nothing comes after them.
        is_last: bool,
    },
}

/// An object that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The worker that is meant.
    pub worker: WorkerId,
    /// Which.
    pub object: ObjectId,
    /// The instance of its task that left it.
    pub instance: Instance,
    /// From this byte on.
    pub offset: u64,
    /// Where others find who asks, who understands [`FromNode::Busy`].
    pub from: Option<TaskNode>,
}

/// A process to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartProcess {
    /// Names it on this connection; chosen by who asks.
    pub process: u32,
    /// Which rank it is; `None` for a helper of another launcher.
    pub rank: Option<Rank>,
    /// Program and arguments.
    pub args: Vec<ByteString>,
    /// `KEY=VALUE`.
    pub env: Vec<ByteString>,
    /// Where it runs.
    pub cwd: ByteString,
}

/// A rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Its number on its node, from 0.
    pub local: u32,
    /// Its number in the task, from 0.
    pub rank: u32,
    /// Of so many.
    pub ranks: u32,
}

/// From the worker of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromNode {
    /// The process was handed to the system.
    Started {
        /// The process that was started.
        process: u32,
    },
    /// It will not be started, or could not be.
    Refused {
        /// The process that is not started.
        process: u32,
        /// Why, for people.
        reason: String,
    },
    /// It has written something.
    Output {
        /// The process that wrote.
        process: u32,
        /// To standard error.
        is_error: bool,
        /// What.
        bytes: ByteString,
    },
    /// It has ended, and all it wrote was sent before.
    Ended {
        /// The process that ended.
        process: u32,
        /// How.
        end: ProcessEnd,
    },
    /// Bytes of an object. One without bytes says that more will come.
    Piece {
        /// Where they belong.
        offset: u64,
        /// What.
        bytes: ByteString,
        /// Nothing comes after them.
        is_last: bool,
    },
    /// A file lies in the `put` directory of the store. It is removed when the connection ends before it is an object.
    Put {
        /// Its name.
        file: String,
    },
    /// Instead of pieces: many want the object, and it is to be had from others as well, which are asked first.
    Busy {
        /// They have got it from here.
        others: Vec<TaskNode>,
    },
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// With this code.
    Exited(u8),
    /// From this signal.
    Signaled(u8),
}
