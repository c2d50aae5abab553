//! What a worker is started with, and how it may end badly.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Duration;

use hq_core::worker::Worker;
use hq_model::worker::WorkerConfig;
use hq_model::{Timestamp, WorkerId};
use hq_net::access::{AccessError, AccessFile, Endpoint};
use hq_net::{ConnectError, Role};
use hq_proto::ProtoError;
use tokio::sync::mpsc;

use crate::enforce::Enforce;

/// How to run a worker.
#[derive(Debug)]
pub struct WorkerOptions {
    /// What it tells the server of itself. Its working directory is filled in by the worker.
    pub config: WorkerConfig,
    /// How to find the server.
    pub server: ServerSource,
    /// Path of the `hq` binary, for tasks.
    pub hq_binary: PathBuf,
    /// Where it makes its private directory; the system's directory for temporary files when `None`.
    pub work_dir: Option<PathBuf>,
    /// Who may ask it to end.
    pub interrupts: Interrupts,
    /// How often it looks at its node and its tasks, unless the configuration says how often; never without.
    pub sample_interval: Option<Duration>,
    /// What its tasks are held to.
    pub enforce: Enforce,
    /// Where a relay listens to which its tasks can speak.
    pub pull_socket: Option<PathBuf>,
    /// Where it keeps objects of tasks. Without it no task runs there that leaves or takes some.
    pub objects: Option<ObjectStore>,
    /// Hears once that the server has taken it in.
    pub registered: Option<Sender<Registered>>,
}

/// A worker as its server knows it.
#[derive(Clone, Debug)]
pub struct Registered {
    /// Its id.
    pub worker: WorkerId,
    /// What it has told of itself, with what it filled in.
    pub config: WorkerConfig,
    /// Its own idle timeout, or the server's.
    pub idle_timeout: Option<Duration>,
}

/// Where a worker keeps objects of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectStore {
    /// Below this directory; in its private one when `None`.
    pub dir: Option<PathBuf>,
    /// Most bytes of them; half of what is free there when `None`.
    pub bytes: Option<u64>,
    /// Where those go for which there is no room; nowhere when `None`.
    pub spill: Option<ObjectSpill>,
}

/// Where a worker keeps objects for which its store has no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSpill {
    /// Below this directory.
    pub dir: PathBuf,
    /// Most bytes of them; half of what is free there when `None`.
    pub bytes: Option<u64>,
}

/// How to find the server, at first and again after it was lost.
#[derive(Clone, Debug)]
pub enum ServerSource {
    /// By an access file, read again for each attempt: a restarted server may listen elsewhere.
    File(PathBuf),
    /// Always there.
    Endpoint(Box<Endpoint>),
}

impl ServerSource {
    /// Where the server is said to be now.
    ///
    /// # Errors
    /// When the access file cannot be used.
    pub fn endpoint(&self) -> Result<Endpoint, AccessError> {
        match self {
            ServerSource::File(path) => AccessFile::load(path)?.endpoint(Role::Worker).cloned(),
            ServerSource::Endpoint(endpoint) => Ok((**endpoint).clone()),
        }
    }
}

/// Who may ask a worker to end; a second time ends it at once.
#[derive(Debug)]
pub enum Interrupts {
    /// SIGTERM and SIGINT to the process; SIGHUP is ignored.
    Signals,
    /// The program around it.
    Channel(mpsc::UnboundedReceiver<()>),
}

/// Why a worker could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The access file is of no use.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The server was never reached.
    #[error("the server could not be reached after {attempts} attempts: {source}")]
    Connect {
        /// How often it was tried.
        attempts: u32,
        /// What went wrong the last time.
        source: ConnectError,
    },
    /// It cannot be described to a server.
    #[error("a server would refuse this worker: {0}")]
    Config(#[from] ProtoError),
    /// Its directory could not be made.
    #[error("the worker's directory could not be created in {}: {source}", path.display())]
    WorkDir {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its store of objects could not be made.
    #[error("the object store could not be created in {}: {source}", path.display())]
    Objects {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The process that executes tasks is gone, and the tasks with it.
    #[error("the launcher process has died, together with {tasks}: {source}")]
    Launcher {
        /// Which tasks ran.
        tasks: String,
        /// What was seen of it.
        source: io::Error,
    },
    /// The system refuses something that it needs.
    #[error("the worker cannot run here: {what}: {source}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl WorkerError {
    /// A short word that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            WorkerError::Access(_) => "no-access",
            _ => "worker",
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            WorkerError::Access(error) => error.hint(),
            WorkerError::Connect { source, .. } => source.hint(),
            WorkerError::Config(_) => "give a shorter text with --group or --hostname",
            WorkerError::WorkDir { .. } => "use --work-dir to give a writable directory",
            WorkerError::Objects { .. } => {
                "use --object-store and --object-spill to give writable directories, or use --no-object-store"
            }
            WorkerError::Launcher { .. } => {
                "it was killed by one of its tasks, or by the system because memory ran out: check these tasks and \
                 the kernel log; the tasks are restarted elsewhere, except those that must not start twice"
            }
            WorkerError::System { .. } => "check the limits on open files and processes (`ulimit -a`)",
        }
    }
}

/// What a worker says of itself, if a server takes it.
///
/// # Errors
/// When a text is too long.
pub(crate) fn machine_of(config: &WorkerConfig, now: Timestamp) -> Result<Worker, WorkerError> {
    hq_proto::check_worker_config(config)?;
    let secret = hq_net::worker_secret::draw()
        .map_err(|source| WorkerError::System { what: "no randomness", source })?;
    Ok(Worker::new(config.clone(), now).with_secret(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_a_server_would_refuse_is_not_started() {
        let config =
            |group: String| WorkerConfig { group, ..WorkerConfig::new(hq_model::WorkerResources::default()) };
        machine_of(&config("g".repeat(4096)), Timestamp(1)).expect("the longest");
        let error = machine_of(&config("g".repeat(4097)), Timestamp(1)).expect_err("too long").to_string();
        assert_eq!(error, "a server would refuse this worker: group has 4097 bytes, the limit is 4096");
    }
}
