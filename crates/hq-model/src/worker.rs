//! How a worker describes itself when it joins.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::request::{PULLED, pulled_names};
use crate::task::WordError;
use crate::{Amount, JobId, PoolKind, ResourcePool, Timestamp, WorkerResources};

/// A worker ends itself so long before its time limit, unless that is short: a tenth of it before then.
pub const TIME_RESERVE: Duration = Duration::from_secs(30);
/// A worker has all of its time limit for tasks that ask for time until so much has passed, and no more than a part of it:
/// what passes while it greets the server must not keep from it what it was started for.
pub const FRESH_TIME: Duration = Duration::from_secs(10);
const FRESH_PART: u32 = 100;

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
    /// By others: it is a relay, which gives pulled tasks to whoever asks, and takes nothing else.
    Pull,
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
    /// Where it stores objects of tasks; a worker without takes no task that leaves or takes some.
    pub object_store: Option<StoreConfig>,
}

/// Where a worker stores objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// The directory.
    pub dir: String,
    /// Bytes it may take.
    pub size: u64,
    /// Where those go for which there is no room.
    pub spill: Option<SpillConfig>,
}

/// Where a worker stores objects for which its store has no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpillConfig {
    /// The directory.
    pub dir: String,
    /// Bytes it may take.
    pub size: u64,
}

impl StoreConfig {
    /// Bytes of the largest object that it may take.
    pub fn largest(&self) -> u64 {
        self.spill.as_ref().map_or(self.size, |spill| spill.size.max(self.size))
    }

    /// Bytes of all that it may take.
    pub fn all(&self) -> u64 {
        self.spill.as_ref().map_or(self.size, |spill| spill.size.saturating_add(self.size))
    }
}

/// How long a worker with a time limit lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    started: Timestamp,
    limit: Duration,
    reserve: Duration,
}

impl Life {
    /// When it ends itself, unless a task was promised more of its limit.
    pub fn ends_at(&self) -> Timestamp {
        self.started.after(self.limit.saturating_sub(self.reserve))
    }

    /// When it ends itself at the latest, whatever tasks were promised: in time to leave in order.
    pub fn ends_at_last(&self) -> Timestamp {
        self.started.after(self.limit.saturating_sub(self.reserve / 10))
    }

    /// What is left of its limit for tasks that start now; nothing once it ends itself.
    pub fn left(&self, now: Timestamp) -> Duration {
        let passed = now.since(self.started);
        match now >= self.ends_at() {
            true => Duration::ZERO,
            false if passed <= self.fresh() => self.limit,
            false => self.limit.saturating_sub(passed),
        }
    }

    /// True when a task that asks for so much time may start now.
    pub fn has(&self, now: Timestamp, time_request: Duration) -> bool {
        let left = self.left(now);
        !left.is_zero() && left >= time_request
    }

    /// From when on no task that asks for so much time may start.
    pub fn too_late_at(&self, time_request: Duration) -> Timestamp {
        if time_request > self.limit {
            return self.started;
        }
        let last = (self.limit - time_request).max(self.fresh());
        self.started.after(last + Duration::from_micros(1)).min(self.ends_at())
    }

    fn fresh(&self) -> Duration {
        FRESH_TIME.min(self.limit / FRESH_PART)
    }
}

/// How long before its time limit a worker ends itself when nobody says otherwise.
pub fn time_reserve(time_limit: Option<Duration>) -> Duration {
    time_limit.map_or(TIME_RESERVE, |limit| TIME_RESERVE.min(limit / 10))
}

impl WorkerConfig {
    /// About what it takes in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let texts = [&self.hostname, &self.group, &self.work_dir, &self.listen_address];
        let store = self
            .object_store
            .as_ref()
            .map_or(0, |store| store.dir.len() + store.spill.as_ref().map_or(0, |spill| spill.dir.len()));
        let texts = texts.iter().map(|text| text.len()).sum::<usize>() + store;
        size_of::<WorkerConfig>() + texts + self.resources.bytes()
    }

    /// How long it lives; `None` without a limit.
    pub fn life(&self, started: Timestamp) -> Option<Life> {
        self.time_limit.map(|limit| Life { started, limit, reserve: self.time_reserve })
    }

    /// A relay, for pulled tasks of a job that whoever has these tags may take.
    pub fn relay<T: AsRef<str>>(job: JobId, tags: &[T], room_max: u64) -> WorkerConfig {
        let kind = PoolKind::Sum(Amount::whole(room_max));
        let pools = pulled_names(job, tags).map(|name| ResourcePool { name, kind: kind.clone() }).collect();
        let resources = WorkerResources { pools, coupling: Vec::new() };
        WorkerConfig { executor: Executor::Pull, ..WorkerConfig::new(resources) }
    }

    /// What may be placed on it: relays have room for pulled tasks alone, and others never have any.
    pub fn placed_resources(&self) -> WorkerResources {
        let mut resources = self.resources.clone();
        let is_relay = self.executor == Executor::Pull;
        let is_pulled = |pool: &ResourcePool| pool.name.starts_with(PULLED);
        if is_relay || resources.pools.iter().any(is_pulled) {
            resources.pools.retain(|pool| is_pulled(pool) == is_relay);
            resources.coupling.clear();
        }
        resources
    }

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
            object_store: None,
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
            "pull" => Ok(Executor::Pull),
            _ => Err(WordError::new(text, "an executor: use process, null or pull")),
        }
    }
}

impl fmt::Display for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Executor::Process => "process",
            Executor::Null => "null",
            Executor::Pull => "pull",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_shrinks_with_the_limit() {
        for (limit, reserve) in
            [(None, 30_000), (Some(3600), 30_000), (Some(300), 30_000), (Some(20), 2_000), (Some(0), 0)]
        {
            let found = time_reserve(limit.map(Duration::from_secs));
            assert_eq!(found, Duration::from_millis(reserve), "{limit:?}");
        }
    }

    #[test]
    fn what_is_left_is_counted_from_the_limit_as_given() {
        let seconds = Duration::from_secs;
        let started = Timestamp(1_000_000_000);
        let life = Life { started, limit: seconds(600), reserve: seconds(30) };
        for (passed, left) in [(0, 600), (6, 600), (7, 593), (569, 31), (570, 0), (700, 0)] {
            assert_eq!(life.left(started.after(seconds(passed))), seconds(left), "{passed}");
        }
        for request in [0, 1, 31, 100, 593, 598, 600, 601] {
            let until = life.too_late_at(seconds(request));
            assert!(!life.has(until, seconds(request)), "{request}");
            let before = Timestamp(until.0 - 1);
            assert_eq!(life.has(before, seconds(request)), request <= 600, "{request}");
        }
    }
}
