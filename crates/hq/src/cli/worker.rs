//! `hq worker …`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use hq_client::options::values;
use hq_model::resources::{Coupling, ResourcePool};
use hq_model::selector::Selector;
use hq_model::{memory, request, resources};
use hq_worker::enforce::Enforce;
use hq_worker::{ObjectSpill, ObjectStore};

use super::job::selector;

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
    /// CPUs it offers [default: those found]
    ///
    /// `N`, `NxM` (N groups of M), `[0,1,7]`, `[[0,1],[2,3]]` (groups) or `range(0-15)`.
    #[arg(long, allow_hyphen_values = true, value_name = "DEFINITION", value_parser = cpus)]
    pub cpus: Option<ResourcePool>,
    /// Another resource it offers; may be repeated
    ///
    /// In place of one that was found under the same name. As for --cpus, and `sum(AMOUNT)` for what has no
    /// indices.
    ///
    /// Examples: `--resource mem=sum(64GiB)`, `--resource gpus/nvidia=[0,2]`, `--resource licences=sum(5)`.
    #[arg(long = "resource", value_name = "NAME=DEFINITION", value_parser = pool)]
    pub resources: Vec<ResourcePool>,
    /// Which resources to look for
    ///
    /// `all`, `none` or a comma list of cpus, mem, gpus/nvidia, gpus/amd, gpus/intel. CPUs are always
    /// found unless --cpus is given.
    #[arg(long, value_name = "WHAT", default_value = "all", value_parser = detect)]
    pub detect_resources: Detect,
    /// As --detect-resources=none
    #[arg(long, hide = true, conflicts_with = "detect_resources")]
    pub no_detect_resources: bool,
    /// Groups of different resources that are close to each other [default: as found]
    ///
    /// Tasks that ask for several get those that are close. `none` for no such preference.
    ///
    /// Example: `--coupling 'cpus[0]:gpus/nvidia[0],cpus[1]:gpus/nvidia[1]'`.
    #[arg(long, value_name = "LIST", value_parser = coupling)]
    pub coupling: Option<Couplings>,
    /// Tasks on several nodes use workers of one group [default: the allocation's id, else `default`]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub group: Option<String>,
    /// Offer only the first thread of each core
    #[arg(long)]
    pub no_hyper_threading: bool,
    /// Stop when there was no task for this long [default: what the server says]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub idle_timeout: Option<Duration>,
    /// Look at the node and at what tasks use so often; 0 is never
    ///
    /// Shown by `worker info`, `task info` and the dashboard.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", default_value = "10s", value_parser = sample_interval)]
    pub sample_interval: Duration,
    /// Look so often, and keep each sample of the node as an event; 0 is as --sample-interval says, and no events
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", default_value = "0s", value_parser = overview_interval)]
    pub overview_interval: Duration,
    /// Start nothing while idle unless at least this part of the CPUs will be used, from 0 to 1
    #[arg(long, allow_hyphen_values = true, value_name = "NUMBER", default_value = "0.0", value_parser = utilization)]
    pub min_utilization: u32,
    /// Where objects go for which its store has no room, and most bytes of them [default: nowhere]
    ///
    /// A directory on a disk of the node, and a size, such as `/scratch:1TiB`; by default half of what is free there. Objects that
    /// are kept or needed move there, those that were read least recently first, and what is larger than the store goes there.
    /// What is there goes when the worker ends.
    #[arg(long, value_name = "DIR[:SIZE]", value_parser = object_spill)]
    pub object_spill: Option<ObjectSpill>,
    /// Hold tasks to what they asked for
    ///
    /// `none` or a comma list of memory, cpu. In control groups where the worker may make some; else memory is watched,
    /// and tasks are bound to their CPUs. A task over its memory fails.
    #[arg(long, value_name = "WHAT", default_value = "none", value_parser = enforce)]
    pub enforce: Enforce,
}

/// Which resources to look for.
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
        Some(kind) => Err(format!("'{kind}' cannot be looked for; use {}", DETECTABLE.join(", "))),
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
        _ => Err(format!("'{text}' is no number from 0 to 1")),
    }
}

/// Start a worker on this machine
///
/// It stays in the foreground until it is stopped.
/// It finds the server by its directory, which is usually shared between the nodes. When the server is
/// lost, running tasks go on and the worker looks for the server again.
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
    /// How often it says that it lives
    ///
    /// At least 100ms. A worker that is silent for twice as long is given up, and its tasks go elsewhere.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", default_value = "8s", value_parser = heartbeat)]
    pub heartbeat: Duration,
    /// Stop after this long [default: the time left in its allocation]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = time_limit)]
    pub time_limit: Option<Duration>,
    /// End so much before the time limit, so that tasks can be run elsewhere [default: 30s, or a tenth of a shorter limit]
    ///
    /// Tasks that asked for more time (`--time-request`) have it, up to the limit.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub time_reserve: Option<Duration>,
    /// The batch system it runs in
    #[arg(long, value_name = "WHICH", default_value = "detect")]
    pub manager: ManagerArg,
    /// Name of this node [default: what Slurm calls it, else what the system says]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub hostname: Option<String>,
    /// What to do when the server is lost
    #[arg(long, value_name = "WHAT", default_value = "reconnect")]
    pub on_server_lost: OnServerLostArg,
    /// How long to look for a lost server
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", default_value = "10m", value_parser = values::duration)]
    pub reconnect_timeout: Duration,
    /// Accepted for scripts: work is taken back when another worker runs dry, not at intervals
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", hide = true, value_parser = values::duration)]
    pub retract_check_interval: Option<Duration>,
    /// Directory for temporary files [default: a fresh one under TMPDIR]
    #[arg(long, value_name = "PATH")]
    pub work_dir: Option<PathBuf>,
    /// Where it keeps objects of tasks, and most bytes of them [default: in its directory for temporary files]
    ///
    /// A name and a size, such as `/scratch:200GiB`; by default half of what is free there. With more than that, those that
    /// were read least recently go. What is there goes when the worker ends.
    #[arg(long, value_name = "DIR[:SIZE]", value_parser = object_store)]
    pub object_store: Option<ObjectStore>,
    /// Keep no objects: tasks that leave or take some run on other workers
    #[arg(long, conflicts_with_all = ["object_store", "object_spill"])]
    pub no_object_store: bool,
    /// The allocation of the server that starts it
    #[arg(long, value_name = "QUEUE.NUMBER", hide = true)]
    pub allocation: Option<hq_model::AllocationRef>,
    /// End when standard input does: with the program that holds the other end of the pipe, however that ends
    #[arg(long)]
    pub lifeline: bool,
    /// Run a relay beside it, for programs that take tasks: its tasks find it in HQ_PULL_SOCKET
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
            Err("a store of less than 1 MiB holds nothing: to have none, use --no-object-store".into())
        }
        _ => Ok(ObjectStore { dir: Some(dir), bytes, spill: None }),
    }
}

fn object_spill(text: &str) -> Result<ObjectSpill, String> {
    match store_dir(text)? {
        (_, Some(0)) => {
            Err("a spill of less than 1 MiB holds nothing: leave the option out to have none".into())
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
            "the directory `{dir}` has a colon: write DIR or DIR:SIZE, such as /scratch:200GiB, of a directory without one"
        ));
    }
    if dir.is_empty() {
        return Err("name a directory, and a size behind it, such as /scratch:200GiB".into());
    }
    // Who means a directory of that name writes `./1GiB`.
    if size.is_none() && dir.starts_with(|first: char| first.is_ascii_digit()) && memory::parse(dir).is_ok() {
        return Err(format!("`{dir}` is a size: write DIR:{dir}, such as /scratch:{dir}"));
    }
    let mib = size.map(memory::parse).transpose().map_err(|error| error.to_string())?;
    Ok((dir.into(), mib.map(|mib| mib.wholes() << 20)))
}

/// A time limit of workers.
pub(super) fn time_limit(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        Duration::ZERO => {
            Err("a worker would end at once; leave it out for the time of its allocation".into())
        }
        some => Ok(some),
    }
}

fn overview_interval(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        some if !some.is_zero() && some < OVERVIEW_INTERVAL_MIN => Err(format!(
            "each sample is kept in the journal; give {} or more, or 0 for none",
            hq_model::duration::format(OVERVIEW_INTERVAL_MIN)
        )),
        some => Ok(some),
    }
}

fn sample_interval(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        some if !some.is_zero() && some < OVERVIEW_INTERVAL_MIN => Err(format!(
            "the kernel counts no shorter times; give {} or more, or 0 for never",
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
        Duration::ZERO => Err("a worker has to say that it lives; give some time above zero".into()),
        some if some < HEARTBEAT_MIN => Err(format!(
            "the server would give the worker up before it has heard of it; give {} or more",
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
    /// Look at the environment
    Detect,
    /// None
    None,
    /// PBS
    Pbs,
    /// Slurm
    Slurm,
}

/// What to do when the server is lost.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnServerLostArg {
    /// Keep running and look for it; after --reconnect-timeout as finish-running
    Reconnect,
    /// Finish what runs, then end
    FinishRunning,
    /// End tasks and stop at once
    Stop,
}

/// How tasks are executed.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExecutorArg {
    /// As processes
    Process,
    /// Not at all: each task ends at once. For dry runs and for measuring
    Null,
}

/// Stop workers
///
/// Their running tasks are run again elsewhere; those submitted with `--crash-limit never-restart` fail. With
/// --drain all of them end first. `all` leaves relays (`hq pull`), which run nothing; by its id, one of them is stopped, too.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq worker stop 1,3-5\n  hq worker stop all --drain")]
pub(crate) struct StopArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "WORKERS", value_parser = selector)]
    pub workers: Selector,
    /// Finish what runs first, and take nothing new
    #[arg(long)]
    pub drain: bool,
}

/// List workers: by default those that are connected.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Ended workers, too
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

/// Show all about workers.
#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "WORKERS", value_parser = selector)]
    pub workers: Selector,
}

/// Print the name of a worker's node.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  ssh \"$(hq worker address 1)\"")]
pub(crate) struct AddressArgs {
    /// Id of the worker
    #[arg(value_name = "WORKER")]
    pub worker: hq_model::WorkerId,
}

/// Wait until so many workers are connected
///
/// Relays (`hq pull`) run nothing, and do not count.
#[derive(Args, Debug)]
pub(crate) struct WaitArgs {
    /// How many
    #[arg(allow_negative_numbers = true, value_name = "COUNT", value_parser = values::count::<u32>)]
    pub count: u32,
}

/// Show what a worker would find on this machine.
#[derive(Args, Debug)]
pub(crate) struct HwdetectArgs {
    /// Only the first thread of each core
    #[arg(long)]
    pub no_hyper_threading: bool,
}

/// Start workers on other machines with ssh
///
/// Stays in the foreground; Ctrl-C ends all of them.
/// The file has one `host[:port]` a line. `hq` must be found there under the same path, and the server
/// directory must be shared.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq worker deploy-ssh hosts.txt --cpus 8 --idle-timeout 10m")]
pub(crate) struct DeployArgs {
    /// Show what the workers print
    #[arg(long)]
    pub show_output: bool,
    /// One host a line; empty lines and lines that begin with # are skipped
    #[arg(value_name = "HOSTFILE")]
    pub hostfile: PathBuf,
    /// Options of `hq worker start`
    #[arg(value_name = "WORKER OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub worker_args: Vec<std::ffi::OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_no_directory_of_a_store() {
        for size in ["1GiB", "200", "1.5 TB"] {
            let told = format!("`{size}` is a size: write DIR:{size}, such as /scratch:{size}");
            assert_eq!(object_store(size).map(|_| ()), Err(told.clone()));
            assert_eq!(object_spill(size).map(|_| ()), Err(told));
        }
        for dir in ["./1GiB", "1GiB/objects", "scratch", "2026-runs"] {
            assert_eq!(store_dir(dir), Ok((dir.into(), None)));
        }
        assert_eq!(store_dir("1GiB:2MiB"), Ok(("1GiB".into(), Some(2 << 20))));
    }
}
