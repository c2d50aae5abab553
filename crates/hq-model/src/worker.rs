//! How a worker describes itself when it joins.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::WorkerResources;
use crate::task::WordError;

/// What to do when the server is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnServerLost {
    /// Keep running and reconnect; after the reconnect timeout finish what runs and end.
    #[default]
    Reconnect,
    /// Finish what runs, then end.
    FinishRunning,
    /// End tasks and stop at once.
    Stop,
}

/// The batch system an allocation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Manager {
    /// Slurm.
    Slurm,
    /// PBS.
    Pbs,
}

/// How tasks are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Executor {
    /// As processes.
    #[default]
    Process,
    /// Not at all: each task ends at once with success. For dry runs and measuring.
    Null,
}

/// A worker's configuration, as sent to the server and shown to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// What it offers.
    pub resources: WorkerResources,
    /// Name of its node.
    pub hostname: String,
    /// Multi-node tasks use workers of one group.
    pub group: String,
    /// Directory for temporary files.
    pub work_dir: String,
    /// Address the data of this worker could be fetched from; empty when it listens nowhere.
    pub listen_address: String,
    /// How often it says that it lives.
    pub heartbeat: Duration,
    /// Stop when no task came for this long; `None` leaves it to the server's default.
    pub idle_timeout: Option<Duration>,
    /// It ends this long after its start.
    pub time_limit: Option<Duration>,
    /// It ends so much before its time limit.
    pub time_reserve: Duration,
    /// How often it samples the hardware.
    pub overview_interval: Option<Duration>,
    /// Fraction of its CPUs that must be used before anything starts on it while idle, in 1/10000.
    pub min_utilization: u32,
    /// What it does when the server is lost.
    pub on_server_lost: OnServerLost,
    /// How long it looks for a lost server.
    pub reconnect_timeout: Duration,
    /// The allocation it runs in.
    pub allocation: Option<(Manager, String)>,
    /// The allocation of this server that started it.
    pub origin: Option<crate::AllocationRef>,
    /// How it executes tasks.
    pub executor: Executor,
    /// Process id on its node.
    pub pid: u32,
}

impl WorkerConfig {
    /// A worker that offers these, and leaves everything else as it is when nobody says otherwise.
    #[must_use]
    pub fn new(resources: WorkerResources) -> WorkerConfig {
        WorkerConfig {
            resources,
            hostname: "node".into(),
            group: "default".into(),
            work_dir: String::new(),
            listen_address: String::new(),
            heartbeat: Duration::from_secs(8),
            idle_timeout: None,
            time_limit: None,
            time_reserve: Duration::ZERO,
            overview_interval: None,
            min_utilization: 0,
            on_server_lost: OnServerLost::Reconnect,
            reconnect_timeout: Duration::from_secs(600),
            allocation: None,
            origin: None,
            executor: Executor::Process,
            pid: 1,
        }
    }
}

impl FromStr for OnServerLost {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "reconnect" => Ok(OnServerLost::Reconnect),
            "finish-running" => Ok(OnServerLost::FinishRunning),
            "stop" => Ok(OnServerLost::Stop),
            _ => Err(WordError::new(text, "one of reconnect, finish-running and stop")),
        }
    }
}

impl fmt::Display for OnServerLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OnServerLost::Reconnect => "reconnect",
            OnServerLost::FinishRunning => "finish-running",
            OnServerLost::Stop => "stop",
        })
    }
}

impl FromStr for Manager {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "slurm" => Ok(Manager::Slurm),
            "pbs" => Ok(Manager::Pbs),
            _ => Err(WordError::new(text, "a batch system: use slurm or pbs")),
        }
    }
}

impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Manager::Slurm => "slurm",
            Manager::Pbs => "pbs",
        })
    }
}

impl FromStr for Executor {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "process" => Ok(Executor::Process),
            "null" => Ok(Executor::Null),
            _ => Err(WordError::new(text, "an executor: use process or null")),
        }
    }
}

impl fmt::Display for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Executor::Process => "process",
            Executor::Null => "null",
        })
    }
}
