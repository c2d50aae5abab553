//! `hq worker …`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use hq_client::options::values;
use hq_model::idset::IdSetError;
use hq_model::resources::{Coupling, ResourcePool};
use hq_model::selector::Selector;
use hq_model::{memory, request, resources};
use hq_worker::enforce::Enforce;
use hq_worker::{ObjectSpill, ObjectStore};

/// Start, show and stop workers
#[derive(Subcommand, Debug)]
pub(crate) enum WorkerCommand {
    Start(Box<StartArgs>),
    Stop(StopArgs),
    List(ListArgs),
    Info(InfoArgs),
    Address(AddressArgs),
    Wait(WaitArgs),
    Hwdetect(HwdetectArgs),
    DeploySsh(DeployArgs),
}

/// What a worker offers and when it stops.
#[derive(Args, Clone, Debug)]
pub(crate) struct SharedArgs {
    /// CPUs that the worker offers [default: all that are detected]
    ///
    /// Formats: `N`, `NxM` (N groups of M), `[0,1,7]`, `[[0,1],[2,3]]` (groups) or `range(0-15)`.
    #[arg(long, allow_hyphen_values = true, value_name = "DEFINITION", value_parser = cpus)]
    pub cpus: Option<ResourcePool>,
    /// Another resource that the worker offers; can be repeated
    ///
    /// Replaces a detected resource of the same name. The formats are those of --cpus, and `sum(AMOUNT)` for
    /// resources without indices.
    ///
    /// Examples: `--resource mem=sum(64GiB)`, `--resource gpus/nvidia=[0,2]`, `--resource licenses=sum(5)`.
    #[arg(long = "resource", value_name = "NAME=DEFINITION", value_parser = pool)]
    pub resources: Vec<ResourcePool>,
    /// Which resources to detect
    ///
    /// `all`, `none` or a comma-separated list of cpus, mem, gpus/nvidia, gpus/amd, gpus/intel. CPUs are always
    /// detected unless --cpus is given.
    #[arg(long, value_name = "WHAT", default_value = "all", value_parser = detect)]
    pub detect_resources: Detect,
    /// Same as --detect-resources=none
    #[arg(long, hide = true, conflicts_with = "detect_resources")]
    pub no_detect_resources: bool,
    /// Groups of different resources that are close to each other [default: as detected]
    ///
    /// Tasks that request several resources preferably get coupled groups. `none` disables this.
    ///
    /// Example: `--coupling 'cpus[0]:gpus/nvidia[0],cpus[1]:gpus/nvidia[1]'`.
    #[arg(long, value_name = "LIST", value_parser = coupling)]
    pub coupling: Option<Couplings>,
    /// Group of the worker; multi-node tasks use workers of a single group [default: the allocation's id, or
    /// `default`]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub group: Option<String>,
    /// Offer only the first hardware thread of each core
    #[arg(long)]
    pub no_hyper_threading: bool,
    /// Stop after being idle for this long [default: set by the server]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub idle_timeout: Option<Duration>,
    /// How often to sample the node and the usage of tasks; 0 means never
    ///
    /// Shown by `worker info`, `task info` and the dashboard.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", default_value = "10s", value_parser = sample_interval)]
    pub sample_interval: Duration,
    /// How often to sample the node and store each sample as an event; with 0, --sample-interval applies and no
    /// events are stored
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", default_value = "0s", value_parser = overview_interval)]
    pub overview_interval: Duration,
    /// When idle, start tasks only if they will use at least this fraction of the CPUs, from 0 to 1
    #[arg(long, allow_hyphen_values = true, value_name = "NUMBER", default_value = "0.0", value_parser = utilization)]
    pub min_utilization: u32,
    /// Directory for objects that do not fit into the object store, and its maximum size [default: none]
    ///
    /// A directory on a local disk and a size, such as `/scratch:1TiB`; by default, half of the free space there.
    /// Objects that are kept or needed are moved there, least recently read first; objects larger than the store go
    /// there directly. The contents are removed when the worker ends.
    #[arg(long, value_name = "DIR[:SIZE]", value_parser = object_spill)]
    pub object_spill: Option<ObjectSpill>,
    /// Enforce the resource requests of tasks
    ///
    /// `none` or a comma-separated list of memory, cpu. Uses control groups if the worker can create them; otherwise
    /// memory is monitored, and tasks are bound to their CPUs. A task that exceeds its memory fails.
    #[arg(long, value_name = "WHAT", default_value = "none", value_parser = enforce)]
    pub enforce: Enforce,
}

/// Which resources to detect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Detect {
    /// All kinds.
    All,
    /// None.
    None,
    /// These kinds.
    Some(Vec<String>),
}

/// Kinds of resources that can be found.
pub(crate) const DETECTABLE: [&str; 5] = ["cpus", "mem", "gpus/nvidia", "gpus/amd", "gpus/intel"];

fn detect(text: &str) -> Result<Detect, String> {
    match text {
        "all" => return Ok(Detect::All),
        "none" => return Ok(Detect::None),
        _ => {}
    }
    let kinds: Vec<String> = text.split(',').map(|kind| kind.trim().to_owned()).collect();
    match kinds.iter().find(|kind| !DETECTABLE.contains(&kind.as_str())) {
        Some(kind) => Err(format!("'{kind}' cannot be detected; use {}", DETECTABLE.join(", "))),
        None => Ok(Detect::Some(kinds)),
    }
}

/// Couplings in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Couplings(pub Vec<Coupling>);

fn coupling(text: &str) -> Result<Couplings, String> {
    if text.trim() == "none" {
        return Ok(Couplings(Vec::new()));
    }
    resources::parse_coupling(text).map(Couplings).map_err(|e| e.to_string())
}

pub(super) fn cpus(text: &str) -> Result<ResourcePool, String> {
    resources::parse_pool(request::CPUS, text).map_err(|e| e.to_string())
}

pub(super) fn pool(text: &str) -> Result<ResourcePool, String> {
    let Some((name, definition)) = text.split_once('=') else {
        return Err(format!("'{text}' has no '=': write NAME=DEFINITION, for example gpus=[0,1]"));
    };
    request::check_name(name).map_err(|e| e.to_string())?;
    resources::parse_pool(name, definition).map_err(|e| e.to_string())
}

fn enforce(text: &str) -> Result<Enforce, String> {
    text.parse::<Enforce>().map_err(|e| e.to_string())
}

fn utilization(text: &str) -> Result<u32, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok((value * 10_000.0).round() as u32),
        _ => Err(format!("'{text}' is not a number from 0 to 1")),
    }
}

/// Start a worker on this machine
///
/// The worker stays in the foreground until it is stopped. It finds the server through the server directory, which is
/// usually shared between nodes. If the server is lost, running tasks continue and the worker tries to reconnect.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  hq worker start
  hq worker start --cpus 2x8 --resource mem=sum(64GiB) --idle-timeout 5m
  srun --overlap --cpu-bind=none --mpi=none hq worker start --manager slurm")]
pub(crate) struct StartArgs {
    /// What it offers.
    #[command(flatten)]
    pub shared: SharedArgs,
    /// Interval between heartbeats
    ///
    /// At least 100ms. A worker that is silent for twice this time is considered lost, and its tasks run elsewhere.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", default_value = "8s", value_parser = heartbeat)]
    pub heartbeat: Duration,
    /// Stop after this long [default: the time left in its allocation]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = time_limit)]
    pub time_limit: Option<Duration>,
    /// End this long before the time limit, so that tasks can run elsewhere [default: 30s, or a tenth of a shorter
    /// limit]
    ///
    /// Tasks whose `--time-request` needs more time may run up to the limit.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub time_reserve: Option<Duration>,
    /// Batch system that the worker runs in
    #[arg(long, value_name = "WHICH", default_value = "detect")]
    pub manager: ManagerArg,
    /// Name of this node [default: its name in Slurm, or its host name]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub hostname: Option<String>,
    /// What to do if the server is lost
    #[arg(long, value_name = "WHAT", default_value = "reconnect")]
    pub on_server_lost: OnServerLostArg,
    /// How long to try to reconnect to a lost server
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", default_value = "10m", value_parser = values::duration)]
    pub reconnect_timeout: Duration,
    /// Accepted for compatibility, without effect: tasks are taken back when another worker runs out of work, not at
    /// intervals
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", hide = true, value_parser = values::duration)]
    pub retract_check_interval: Option<Duration>,
    /// Directory for temporary files [default: a new one under TMPDIR]
    #[arg(long, value_name = "PATH")]
    pub work_dir: Option<PathBuf>,
    /// Directory of the object store, and its maximum size [default: in the directory for temporary files]
    ///
    /// A directory and a size, such as `/scratch:200GiB`; by default, half of the free space there. When the store is
    /// full, the least recently read objects are removed. The contents are removed when the worker ends.
    #[arg(long, value_name = "DIR[:SIZE]", value_parser = object_store)]
    pub object_store: Option<ObjectStore>,
    /// Do not store objects; tasks that produce or use objects run on other workers
    #[arg(long, conflicts_with_all = ["object_store", "object_spill"])]
    pub no_object_store: bool,
    /// Allocation of the server that starts this worker
    #[arg(long, value_name = "QUEUE.NUMBER", hide = true)]
    pub allocation: Option<hq_model::AllocationRef>,
    /// Exit when standard input is closed, so that this process ends together with the program that started it
    #[arg(long)]
    pub lifeline: bool,
    /// Also run a relay for programs that pull tasks; the worker's tasks find it in HQ_PULL_SOCKET
    #[arg(long)]
    pub pull: bool,
    /// How tasks are executed
    #[arg(long, value_name = "HOW", default_value = "process")]
    pub executor: ExecutorArg,
}

fn object_store(text: &str) -> Result<ObjectStore, String> {
    let (dir, bytes) = store_dir(text)?;
    match bytes {
        Some(0) => {
            Err("a store smaller than 1 MiB cannot hold anything; use --no-object-store to have no store"
                .into())
        }
        _ => Ok(ObjectStore { dir: Some(dir), bytes, spill: None }),
    }
}

fn object_spill(text: &str) -> Result<ObjectSpill, String> {
    match store_dir(text)? {
        (_, Some(0)) => {
            Err("a spill directory smaller than 1 MiB cannot hold anything; omit the option to have none"
                .into())
        }
        (dir, bytes) => Ok(ObjectSpill { dir, bytes }),
    }
}

// A directory whose name ends like a size has that size behind it.
fn store_dir(text: &str) -> Result<(PathBuf, Option<u64>), String> {
    let (dir, size) = match text.rsplit_once(':') {
        Some((dir, size)) if !size.contains('/') => (dir, Some(size)),
        _ => (text, None),
    };
    if dir.contains(':') {
        return Err(format!(
            "the directory `{dir}` contains a colon: give DIR or DIR:SIZE, such as /scratch:200GiB, with a \
             directory name without colons"
        ));
    }
    if dir.is_empty() {
        return Err("give a directory, optionally followed by a size, such as /scratch:200GiB".into());
    }
    // Who means a directory of that name writes `./1GiB`.
    if size.is_none() && dir.starts_with(|first: char| first.is_ascii_digit()) && memory::parse(dir).is_ok() {
        return Err(format!("`{dir}` is a size: give DIR:{dir}, such as /scratch:{dir}"));
    }
    let mib = size.map(memory::parse).transpose().map_err(|error| error.to_string())?;
    Ok((dir.into(), mib.map(|mib| mib.wholes() << 20)))
}

/// A time limit of workers.
pub(super) fn time_limit(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        Duration::ZERO => Err(
            "with a time limit of zero the worker would end at once; omit the option to use the time of its \
                allocation"
                .into(),
        ),
        some => Ok(some),
    }
}

fn overview_interval(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        some if !some.is_zero() && some < OVERVIEW_INTERVAL_MIN => Err(format!(
            "each sample is stored in the journal; give {} or more, or 0 for none",
            hq_model::duration::format(OVERVIEW_INTERVAL_MIN)
        )),
        some => Ok(some),
    }
}

fn sample_interval(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        some if !some.is_zero() && some < OVERVIEW_INTERVAL_MIN => Err(format!(
            "the kernel does not measure shorter times; give {} or more, or 0 for never",
            hq_model::duration::format(OVERVIEW_INTERVAL_MIN)
        )),
        some => Ok(some),
    }
}

/// How often a worker looks at its node unless it is told.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);

/// The shortest time between two samples of a node: the kernel counts its time in hundredths of a second.
const OVERVIEW_INTERVAL_MIN: Duration = Duration::from_millis(100);

fn heartbeat(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        Duration::ZERO => Err("a worker must send heartbeats; give a time longer than zero".into()),
        some if some < HEARTBEAT_MIN => Err(format!(
            "the server would consider the worker lost too soon; give {} or more",
            hq_model::duration::format(HEARTBEAT_MIN)
        )),
        some => Ok(some),
    }
}

/// The shortest time between two signs of life: with twice that, a busy node or network is not taken for a lost worker.
const HEARTBEAT_MIN: Duration = Duration::from_millis(100);

/// A batch system.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagerArg {
    /// Detect it from the environment
    Detect,
    /// None
    None,
    /// PBS
    Pbs,
    /// Slurm
    Slurm,
}

/// What to do if the server is lost.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnServerLostArg {
    /// Keep running and try to reconnect; after --reconnect-timeout, as finish-running
    Reconnect,
    /// Finish running tasks, then exit
    FinishRunning,
    /// End tasks and exit immediately
    Stop,
}

/// How tasks are executed.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExecutorArg {
    /// As processes
    Process,
    /// Not at all: each task ends immediately. For dry runs and measurements
    Null,
}

/// Stop workers
///
/// Running tasks are restarted elsewhere; tasks submitted with `--crash-limit never-restart` fail. With --drain,
/// running tasks finish first. `all` does not include relays (`hq pull`), which run no tasks; give the id of a relay
/// to stop it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq worker stop 1,3-5\n  hq worker stop all --drain")]
pub(crate) struct StopArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "WORKERS", value_parser = workers)]
    pub workers: Selector,
    /// Finish running tasks first, and accept no new ones
    #[arg(long)]
    pub drain: bool,
}

/// List workers, by default only those that are connected.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Include workers that have ended
    #[arg(long, conflicts_with = "filter")]
    pub all: bool,
    /// Only workers in this state
    #[arg(long, value_name = "STATE")]
    pub filter: Option<FilterArg>,
}

/// A state of workers.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterArg {
    /// Connected
    Running,
    /// Ended or lost
    Offline,
}

/// Show details of workers.
#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "WORKERS", value_parser = workers)]
    pub workers: Selector,
}

/// Print the host name of a worker.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  ssh \"$(hq worker address 1)\"")]
pub(crate) struct AddressArgs {
    /// Id of the worker
    #[arg(value_name = "WORKER")]
    pub worker: hq_model::WorkerId,
}

/// Wait until a given number of workers are connected
///
/// Relays (`hq pull`) run no tasks and do not count.
#[derive(Args, Debug)]
pub(crate) struct WaitArgs {
    /// Number of workers
    #[arg(allow_negative_numbers = true, value_name = "COUNT", value_parser = values::count::<u32>)]
    pub count: u32,
}

/// Show the resources that a worker would detect on this machine.
#[derive(Args, Debug)]
pub(crate) struct HwdetectArgs {
    /// Only the first hardware thread of each core
    #[arg(long)]
    pub no_hyper_threading: bool,
}

/// Start workers on other machines via ssh
///
/// Stays in the foreground; Ctrl-C ends all of the workers. The file has one `host[:port]` per line. `hq` must be
/// installed at the same path on all machines, and they must share the server directory.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq worker deploy-ssh hosts.txt --cpus 8 --idle-timeout 10m")]
pub(crate) struct DeployArgs {
    /// Show the output of the workers
    #[arg(long)]
    pub show_output: bool,
    /// File with one host per line; empty lines and lines that begin with # are skipped
    #[arg(value_name = "HOSTFILE")]
    pub hostfile: PathBuf,
    /// Options of `hq worker start`
    #[arg(value_name = "WORKER OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub worker_args: Vec<std::ffi::OsString>,
}

// A selector argument that means workers.
fn workers(text: &str) -> Result<Selector, String> {
    text.parse::<Selector>().map_err(|error| match error {
        IdSetError::OfTask { text, job, task } => format!(
            "`{text}` is task {task} of job {job}, and what is selected here are workers: `hq worker list` shows their \
             ids"
        ),
        error => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_not_taken_for_a_worker() {
        for text in ["17_5", "17@5"] {
            let told = format!(
                "`{text}` is task 5 of job 17, and what is selected here are workers: `hq worker list` shows their ids"
            );
            assert_eq!(workers(text), Err(told));
        }
        assert_eq!(workers("last"), Ok(Selector::Last));
    }

    #[test]
    fn a_size_is_no_directory_of_a_store() {
        for size in ["1GiB", "200", "1.5 TB"] {
            let told = format!("`{size}` is a size: give DIR:{size}, such as /scratch:{size}");
            assert_eq!(object_store(size).map(|_| ()), Err(told.clone()));
            assert_eq!(object_spill(size).map(|_| ()), Err(told));
        }
        for dir in ["./1GiB", "1GiB/objects", "scratch", "2026-runs"] {
            assert_eq!(store_dir(dir), Ok((dir.into(), None)));
        }
        assert_eq!(store_dir("1GiB:2MiB"), Ok(("1GiB".into(), Some(2 << 20))));
    }
}
