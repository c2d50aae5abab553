//! `hq alloc …`.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use hq_client::options::values;
use hq_model::QueueId;
use hq_model::allocation::{AllocationState, Goal};

use super::job::Channel;
use super::worker::{OnServerLostArg, SharedArgs};

/// Let the server ask Slurm or PBS for workers
#[derive(Subcommand, Debug)]
pub(crate) enum AllocCommand {
    Add(Box<AddArgs>),
    /// List allocation queues
    List,
    Info(InfoArgs),
    #[command(alias = "cat")]
    Log(LogArgs),
    DryRun(Box<DryRunArgs>),
    /// Say what a queue would do next, and why it does not ask for more
    Explain(QueueArg),
    /// Ask for no allocations until resumed; what is there goes on
    Pause(QueueArg),
    /// Ask for allocations again, after a pause, a drain or failures
    Resume(QueueArg),
    /// Ask for no more allocations, and let those there are end by themselves
    Drain(QueueArg),
    Remove(RemoveArgs),
    Edit(Box<EditArgs>),
}

/// What a queue asks its batch system for, and can do without.
#[derive(Args, Clone, Debug)]
pub(crate) struct QueueOptions {
    /// Workers of this queue at most, waiting ones included
    #[arg(long, allow_hyphen_values = true, value_name = "COUNT", value_parser = values::at_least_one)]
    pub max_worker_count: Option<u32>,
    /// Queue the next allocation while one runs, to start when that ends
    #[arg(long)]
    pub chain: bool,
    /// Keep allocations that wait when nothing is left for them to do [default: cancel them after the idle timeout]
    #[arg(long)]
    pub keep_waiting: bool,
    /// Ask for nodes with GPUs also for tasks that need none
    #[arg(long)]
    pub for_any_task: bool,
    /// What matters where more workers end the work sooner and cost more node time [default: makespan]
    ///
    /// With `makespan` a worker is asked for when what waits would keep it busy for half of what its start and its idle
    /// timeout cost, with `nodehours` for twice as much.
    #[arg(long, value_name = "makespan|nodehours", value_parser = goal)]
    pub goal: Option<Goal>,
    /// Node hours that its allocations may take at most, all together
    ///
    /// What those that wait and run may still take counts, too. Then nothing more is asked for; what runs goes on to its end.
    ///
    /// It has to be enough for one node for the time limit.
    ///
    /// Example: `--budget 500`.
    #[arg(long, allow_hyphen_values = true, value_name = "NODEHOURS", value_parser = values::node_hours)]
    pub budget: Option<Duration>,
    /// What its workers offer.
    #[command(flatten)]
    pub worker: SharedArgs,
    /// What workers do when the server is lost [default: reconnect, for as long as the idle timeout]
    #[arg(long, value_name = "WHAT")]
    pub on_server_lost: Option<OnServerLostArg>,
    /// Workers end after this long [default: the time limit]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = super::worker::time_limit)]
    pub worker_time_limit: Option<Duration>,
    /// Shell command that runs on each node before the worker
    #[arg(long, value_name = "COMMAND", value_parser = values::shell_command)]
    pub worker_start_cmd: Option<String>,
    /// Shell command that runs on each node after the worker
    #[arg(long, value_name = "COMMAND", value_parser = values::shell_command)]
    pub worker_stop_cmd: Option<String>,
    /// Command that the worker's command is passed to, for example a container
    #[arg(long, alias = "wrap-worker-cmd", value_name = "COMMAND", value_parser = values::shell_command)]
    pub worker_wrap_cmd: Option<String>,
    /// Passed to sbatch or qsub as they are
    #[arg(value_name = "MANAGER ARGS", last = true)]
    pub manager_args: Vec<OsString>,
}

/// A queue to be.
#[derive(Args, Clone, Debug)]
pub(crate) struct NewQueue {
    /// The batch system: `slurm`, `pbs`, or the name of a file that describes one
    #[arg(value_name = "MANAGER", value_parser = NonEmptyStringValueParser::new())]
    pub manager: String,
    /// Wall time of an allocation
    #[arg(short = 't', long, allow_hyphen_values = true, value_name = "DURATION", value_parser = wall_time)]
    pub time_limit: Duration,
    /// How many allocations may wait in the batch system at once
    #[arg(short = 'b', long, allow_hyphen_values = true, value_name = "COUNT", default_value = "1", value_parser = backlog)]
    pub backlog: u32,
    /// Nodes of an allocation at most, each with one worker
    #[arg(
        short = 'm',
        long,
        allow_hyphen_values = true,
        alias = "workers-per-alloc",
        value_name = "COUNT",
        default_value = "1",
        value_parser = values::at_least_one
    )]
    pub max_workers_per_alloc: u32,
    /// Name of the queue; part of the names of its batch jobs
    #[arg(short = 'n', long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// What it asks for.
    #[command(flatten)]
    pub options: QueueOptions,
}

fn goal(text: &str) -> Result<Goal, String> {
    text.parse::<Goal>().map_err(|error| error.to_string())
}

fn backlog(text: &str) -> Result<u32, String> {
    match text.trim() {
        "0" => Err("Backlog has to be at least 1".into()),
        some => values::at_least_one(some),
    }
}

fn wall_time(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        Duration::ZERO => Err("an allocation needs some time".into()),
        some => Ok(some),
    }
}

/// Make an allocation queue: the server asks the batch system for workers while tasks wait
///
/// First an allocation that never starts is submitted and canceled, so that wrong arguments are noticed at once.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  hq alloc add slurm --time-limit 1h -- --partition=cpu --account=proj1
  hq alloc add slurm -t 12h --backlog 4 --max-workers-per-alloc 8 -- -p long
  hq alloc add pbs -t 4h --max-worker-count 20 -- -q qprod -A OPEN-00-00")]
pub(crate) struct AddArgs {
    /// What it asks for.
    #[command(flatten)]
    pub queue: NewQueue,
    /// Submit no allocation to try
    #[arg(long)]
    pub no_dry_run: bool,
}

/// Submit an allocation that never starts, and cancel it
///
/// So you see whether the batch system takes what a queue with these options would ask for.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  hq alloc dry-run slurm --time-limit 1h -- --partition=cpu")]
pub(crate) struct DryRunArgs {
    /// What it asks for.
    #[command(flatten)]
    pub queue: NewQueue,
    /// Has no effect here: lines of `hq alloc add` can be tried as they are
    #[arg(long, hide = true)]
    pub no_dry_run: bool,
}

/// A queue.
#[derive(Args, Clone, Debug)]
pub(crate) struct QueueArg {
    /// Id of the queue
    #[arg(allow_negative_numbers = true, value_name = "QUEUE")]
    pub queue: QueueId,
}

/// Show the allocations of a queue, and what became of their node time.
#[derive(Args, Clone, Debug)]
pub(crate) struct InfoArgs {
    /// Id of the queue
    #[arg(allow_negative_numbers = true, value_name = "QUEUE")]
    pub queue: QueueId,
    /// Only allocations in one of these states: queued, running, finished, failed
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = state)]
    pub filter: Vec<AllocationState>,
    /// Also how the node hours of each were used, and what workers of the queue offer
    #[arg(long)]
    pub verbose: bool,
    /// Show what the node hours cost, at this price for one
    ///
    /// Counted is what was held, with tasks or without. The price may stand in `config.toml`, too.
    #[arg(long, allow_hyphen_values = true, value_name = "PER_NODE_HOUR", value_parser = price)]
    pub cost: Option<f64>,
}

/// A price of a node hour.
pub(super) fn price(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(price) if price.is_finite() && (0.0..1e12).contains(&price) => Ok(price),
        _ => Err(format!("`{text}` is no price of a node hour: write a number, as 0.85")),
    }
}

/// Watts of a CPU.
pub(super) fn watts(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(watts) if (0.0..1e6).contains(&watts) => Ok(watts),
        _ => Err(format!("`{text}` are no watts of a CPU: write a number, as 6.5")),
    }
}

fn state(text: &str) -> Result<AllocationState, String> {
    text.trim().to_ascii_lowercase().parse::<AllocationState>().map_err(|e| e.to_string())
}

/// Print what the batch job of an allocation wrote.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  hq alloc log 123456 stderr\n  hq alloc log 1.3 stdout")]
pub(crate) struct LogArgs {
    /// Its id in the batch system, or QUEUE.NUMBER
    #[arg(allow_negative_numbers = true, value_name = "ALLOCATION", value_parser = NonEmptyStringValueParser::new())]
    pub allocation: String,
    /// Which output
    #[arg(value_name = "CHANNEL")]
    pub channel: Channel,
}

/// Remove a queue; its waiting allocations are canceled.
#[derive(Args, Clone, Debug)]
pub(crate) struct RemoveArgs {
    /// Id of the queue
    #[arg(allow_negative_numbers = true, value_name = "QUEUE")]
    pub queue: QueueId,
    /// Also when allocations run: they are canceled
    #[arg(long)]
    pub force: bool,
}

/// Change the options of a queue
///
/// They hold for allocations to come. What is not given stays; arguments after `--` replace all of before. When another
/// allocation would be asked for than before, one that never starts is submitted first, as by `hq alloc add`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  hq alloc edit 1 --backlog 4 --max-worker-count 100
  hq alloc edit 1 --unset max-worker-count -- --partition=long")]
pub(crate) struct EditArgs {
    /// Id of the queue
    #[arg(allow_negative_numbers = true, value_name = "QUEUE")]
    pub queue: QueueId,
    /// Wall time of an allocation
    #[arg(short = 't', long, allow_hyphen_values = true, value_name = "DURATION", value_parser = wall_time)]
    pub time_limit: Option<Duration>,
    /// How many allocations may wait in the batch system at once
    #[arg(short = 'b', long, allow_hyphen_values = true, value_name = "COUNT", value_parser = backlog)]
    pub backlog: Option<u32>,
    /// Nodes of an allocation at most, each with one worker
    #[arg(short = 'm', long, allow_hyphen_values = true, alias = "workers-per-alloc", value_name = "COUNT", value_parser = values::at_least_one)]
    pub max_workers_per_alloc: Option<u32>,
    /// What it shall ask for.
    #[command(flatten)]
    pub options: QueueOptions,
    /// Submit no allocation to try
    #[arg(long)]
    pub no_dry_run: bool,
    /// Options that shall have their default again; before what is given beside them
    #[arg(long, value_name = "OPTIONS", value_delimiter = ',')]
    pub unset: Vec<UnsetArg>,
}

/// An option of a queue that has a default.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnsetArg {
    /// No limit on workers
    MaxWorkerCount,
    /// No chain
    Chain,
    /// Cancel allocations that wait when nothing is left for them to do
    KeepWaiting,
    /// No nodes with GPUs for tasks that need none
    ForAnyTask,
    /// The default goal
    Goal,
    /// No budget
    Budget,
    /// All options of workers
    Worker,
    /// The time limit of workers
    WorkerTimeLimit,
    /// The command before the worker
    WorkerStartCmd,
    /// The command after it
    WorkerStopCmd,
    /// The command around it
    WorkerWrapCmd,
    /// Arguments for the batch system
    ManagerArgs,
}
