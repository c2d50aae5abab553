//! How a cluster is, in counts: a few kilobytes, however many jobs, tasks and workers there are. Dashboards and metrics read it.

use std::collections::BTreeMap;

use crate::series::NodeLoad;
use crate::server_info::Relayed;
use crate::task_use::TasksSum;
use hq_model::job::Counters;

use hq_model::{Amount, Epoch, JobState, ResourcePool, Timestamp};

/// Everything at once, in counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// Names what this shows: while nothing changes, the number stays. It means something to this start of the server alone.
    pub change: u64,
    /// The time of the server.
    pub now: Timestamp,
    /// When this server started.
    pub started: Timestamp,
    /// How often it has been started.
    pub epoch: Epoch,
    /// Names the server.
    pub uid: String,
    /// Version of its program.
    pub version: String,
    /// Jobs that are known by state, in the order of [`JobState::ALL`].
    pub jobs: Vec<(JobState, u64)>,
    /// Their tasks by state.
    pub tasks: Counters,
    /// Those of the waiting ones that wait for nothing but room.
    pub ready: u64,
    /// What became of tasks since this server started, whether or not their jobs are known still.
    pub ended: Ended,
    /// Workers that are there or may come back.
    pub workers: WorkerCounts,
    /// What connected workers offer and how much of it is taken, by name.
    pub resources: Vec<ResourceUse>,
    /// What nodes do, as workers tell.
    pub nodes: NodesLoad,
    /// The process itself, of which its shell knows.
    pub process: ServerProcess,
}

/// What all nodes do together of which a worker tells, whoever uses them, and what tasks use of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodesLoad {
    /// Nodes.
    pub nodes: u64,
    /// What they do.
    pub load: NodeLoad,
    /// CPUs that they have, in 1/1000.
    pub cpus_total: u64,
    /// Their memory, MiB.
    pub memory_total_mib: u64,
    /// GPUs that they tell of, in 1/1000.
    pub gpus_total: u64,
    /// What tasks use.
    pub tasks: TasksSum,
}

/// Ends of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// With success.
    pub finished: u64,
    /// Without.
    pub failed: u64,
    /// By a user.
    pub canceled: u64,
    /// Given up by the server.
    pub aborted: u64,
    /// Attempts that were begun again: after a crash, a lost worker or a failure that is retried. These tasks have not ended.
    pub restarted: u64,
}

/// Workers in counts. Each is in one of the first three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerCounts {
    /// Connected, and they take tasks.
    pub active: u64,
    /// Connected, and they take none: they are stopping, or cannot start tasks.
    pub closed: u64,
    /// Their connection is lost; they may come back.
    pub away: u64,
    /// Of the active ones, those on which nothing runs.
    pub idle: u64,
}

/// A resource of all connected workers together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceUse {
    /// Its name.
    pub name: String,
    /// How much there is.
    pub offered: Amount,
    /// How much is promised to tasks that run or are about to.
    pub taken: Amount,
}

impl ResourceUse {
    /// Pools with what is taken of them, added up by name.
    pub fn sums<'a>(pools: impl IntoIterator<Item = (&'a ResourcePool, u64)>) -> Vec<ResourceUse> {
        let mut all: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (pool, taken) in pools {
            let sum = all.entry(&pool.name).or_default();
            sum.0 = sum.0.saturating_add(pool.kind.total().0);
            sum.1 = sum.1.saturating_add(taken);
        }
        let named = |(name, (offered, taken)): (&str, (u64, u64))| ResourceUse {
            name: name.to_owned(),
            offered: Amount(offered),
            taken: Amount(taken),
        };
        all.into_iter().map(named).collect()
    }
}

/// The server's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerProcess {
    /// Its memory in use, in bytes; 0 where that is not known.
    pub memory_bytes: u64,
    /// Records of the journal since it started.
    pub journal_records: u64,
    /// Those of them that are not on disk yet.
    pub journal_pending: u64,
    /// The journal cannot be written.
    pub journal_fails: bool,
    /// What has passed by way of the server.
    pub relayed: Relayed,
}
