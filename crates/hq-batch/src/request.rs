//! What is asked of a batch system, and what is learned from it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// One allocation to submit: nodes whose only content is a worker each.
#[derive(Clone, Debug)]
pub struct AllocationRequest {
    /// The batch job's name. Characters other than letters, digits, `.`, `_`, `-` become `_`.
    pub name: String,
    /// Workers, and therefore nodes. At least 1.
    pub workers: u32,
    /// CPUs of each node that its worker is said to offer: asked for where the user's arguments say nothing of CPUs.
    pub cpus: Option<u32>,
    /// Wall time of the batch job, rounded up to what the manager counts in.
    pub time_limit: Duration,
    /// Where `hq-submit.sh`, `jobid`, `exit`, `stdout` and `stderr` are written; made with mode 0700, absolute, on a
    /// file system that the nodes see.
    pub directory: PathBuf,
    /// Arguments of the user for the manager: they win over ours.
    pub manager_args: Vec<OsString>,
    /// The worker's command line, the program first.
    pub worker_args: Vec<OsString>,
    /// `RUST_LOG` of the workers, where they are to have one.
    pub log_filter: Option<OsString>,
    /// Shell text that runs on each node before the worker. If it fails, no worker starts there.
    pub start_command: Option<String>,
    /// Shell text that runs on each node after the worker, however that ended.
    pub stop_command: Option<String>,
    /// Shell text in front of the worker's command line.
    pub wrap_command: Option<String>,
    /// Submits it held: it never starts by itself (for tests of the arguments).
    pub hold: bool,
    /// The batch id of the job that must have ended, however, before this one starts.
    pub after: Option<String>,
}

/// Where a batch job is, in words that all managers share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchState {
    /// Waits for its turn, for nodes or for the job it is chained to.
    Queued,
    /// Somebody holds it back; it does not start by itself.
    Held,
    /// Has its nodes, also while they are being cleaned up.
    Running,
    /// Has its nodes but is stopped.
    Suspended,
    /// Ended by itself with success.
    Finished,
    /// Ended with an error, as the manager words it.
    Failed(String),
    /// Canceled by somebody.
    Cancelled,
    /// Its wall time was over.
    TimedOut,
    /// Ended to make room for another job.
    Preempted,
    /// Lost with a node.
    NodeFailed,
    /// Killed because it used more memory than it had.
    OutOfMemory,
    /// A word that is not known, as the manager said it.
    Unknown(String),
}

impl BatchState {
    /// Whether the job is over for good.
    pub fn is_ended(&self) -> bool {
        match self {
            BatchState::Queued | BatchState::Held | BatchState::Running | BatchState::Suspended => false,
            BatchState::Unknown(_) => false,
            BatchState::Finished
            | BatchState::Failed(_)
            | BatchState::Cancelled
            | BatchState::TimedOut
            | BatchState::Preempted
            | BatchState::NodeFailed
            | BatchState::OutOfMemory => true,
        }
    }
}

/// What the manager says of one batch job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobReport {
    /// Its state.
    pub state: BatchState,
    /// Why it is in this state, as the manager words it.
    pub reason: Option<String>,
    /// Whether it waits for what this cluster will never have, by the manager's own words.
    pub is_hopeless: bool,
    /// How long it has had its nodes, where the manager says so.
    pub ran: Option<Duration>,
}

impl From<BatchState> for JobReport {
    fn from(state: BatchState) -> JobReport {
        JobReport { state, reason: None, is_hopeless: false, ran: None }
    }
}

/// What a manager made of a submission, as far as it says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// Nodes.
    pub nodes: Option<u32>,
    /// Wall time.
    pub time_limit: Option<Duration>,
    /// It is several jobs.
    pub is_array: bool,
    /// It has each of its nodes as a whole, whatever it asked for.
    pub is_whole: bool,
    /// CPUs of each node.
    pub cpus: Option<u32>,
    /// Memory of each node, in bytes.
    pub memory_bytes: Option<u64>,
    /// GPUs of each node by their type as the manager names it, empty where it names none.
    pub gpus: Vec<(String, u32)>,
}

impl Granted {
    /// What each node of the allocation has: as asked for, unless it has nodes as a whole.
    pub fn shape(&self, nodes: Option<NodeShape>) -> Option<NodeShape> {
        if self.is_whole {
            return nodes;
        }
        let (Some(cpus), known) = (self.cpus, nodes.unwrap_or_default()) else { return None };
        let mut gpus = self.gpus.clone();
        for (kind, _) in &mut gpus {
            if let ("", [(of_nodes, _)]) = (kind.as_str(), &known.gpus[..]) {
                kind.clone_from(of_nodes);
            }
        }
        let memory_bytes = self.memory_bytes.or(known.memory_bytes);
        Some(NodeShape { cpus, memory_bytes, gpus, max_time: known.max_time })
    }
}

/// The least that each node of an allocation has, as far as the manager knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeShape {
    /// CPUs. At least 1.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// GPUs by their type as the manager names it, empty where it names none; counts are above 0.
    pub gpus: Vec<(String, u32)>,
    /// The longest wall time that may be asked for.
    pub max_time: Option<Duration>,
}

impl NodeShape {
    /// Its GPUs as workers name them: by vendor. A type that tells nothing counts as `gpus/nvidia`.
    pub fn gpu_resources(&self) -> BTreeMap<&'static str, u32> {
        let mut resources = BTreeMap::new();
        for (kind, count) in &self.gpus {
            let kind = kind.to_ascii_lowercase();
            let is_amd = kind.starts_with("mi") && kind[2..].starts_with(|c: char| c.is_ascii_digit())
                || ["amd", "instinct", "radeon"].iter().any(|word| kind.contains(word));
            let is_intel = ["intel", "pvc", "ponte"].iter().any(|word| kind.contains(word));
            let name = match (is_amd, is_intel) {
                (true, _) => "gpus/amd",
                (false, true) => "gpus/intel",
                (false, false) => "gpus/nvidia",
            };
            let sum: &mut u32 = resources.entry(name).or_insert(0);
            *sum = sum.saturating_add(*count);
        }
        resources
    }
}
