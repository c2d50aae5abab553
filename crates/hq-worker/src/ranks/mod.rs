//! Processes of tasks on several nodes, started on their nodes without ssh or a batch system.
//!
//! The program of such a task speaks to its own worker by a socket beside that for notifications; for another
//! node that worker connects to the worker there, which proves its identity by the key of all workers of the server.
//! Whoever asks for processes names the attempt of the task; a node starts them only while it holds a part of that
//! attempt, and kills them when the connection over which they were asked for ends.

pub(crate) mod by_server;
pub mod client;
mod pump;
mod serve;
mod silent;

use std::path::{Path, PathBuf};

use hq_core::node_messages::{FromNode, StartProcess};
use hq_core::worker_messages::TaskNode;
use hq_model::{Instance, TaskRef};
use tokio::sync::{mpsc, oneshot};

pub(crate) use pump::{Writers, pump};
pub(crate) use serve::{Shared, Unreached, addresses, keys_among_workers, listen, reach};

pub(crate) use silent::Silent;

/// In messages about a connection as a whole.
pub(crate) const NO_PROCESS: u32 = u32::MAX;

/// The socket for processes, beside that for notifications.
pub(crate) fn socket_beside(notify: &Path) -> PathBuf {
    notify.with_file_name("nodes")
}

/// Names a connection over which processes are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Session(pub(crate) u64);

/// What connections ask of the worker's loop.
#[derive(Debug)]
pub(crate) enum Ask {
    /// Where a node of a task is that this worker leads.
    Where { task: TaskRef, instance: Instance, node: u32, answer: oneshot::Sender<Result<TaskNode, String>> },
    /// Start a process.
    Start(Box<AskStart>),
    /// Send a signal to a process.
    Signal { session: Session, process: u32, signal: u8 },
    /// The connection has ended.
    Gone { session: Session },
}

/// A process to start.
#[derive(Debug)]
pub(crate) struct AskStart {
    pub(crate) session: Session,
    pub(crate) task: TaskRef,
    pub(crate) instance: Instance,
    pub(crate) node: u32,
    pub(crate) start: StartProcess,
    pub(crate) out: mpsc::Sender<FromNode>,
}
