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

/// Start workers automatically through Slurm or PBS
#[derive(Subcommand, Debug)]
pub(crate) enum AllocCommand {
    Add(Box<AddArgs>),
    /// List allocation queues
    List,
    Info(InfoArgs),
    #[command(alias = "cat")]
    Log(LogArgs),
    DryRun(Box<DryRunArgs>),
    /// Explain what a queue would do next, and why it does not request more allocations
    Explain(QueueArg),
    /// Stop requesting allocations until resumed; existing allocations continue
    Pause(QueueArg),
    /// Request allocations again after a pause, a drain or failures
    Resume(QueueArg),
    /// Stop requesting allocations, and let existing ones finish
    Drain(QueueArg),
    Remove(RemoveArgs),
    Edit(Box<EditArgs>),
}

/// What a queue asks its batch system for, and can do without.
#[derive(Args, Clone, Debug)]
pub(crate) struct QueueOptions {
    /// Maximum number of workers of this queue, including queued ones
    #[arg(long, allow_hyphen_values = true, value_name = "COUNT", value_parser = values::at_least_one)]
    pub max_worker_count: Option<u32>,
    /// Queue the next allocation while one is running, so that it starts when that one ends
    #[arg(long)]
    pub chain: bool,
    /// Keep queued allocations even if there is no work left for them [default: cancel them after the idle timeout]
    #[arg(long)]
    pub keep_waiting: bool,
    /// Request nodes with GPUs even for tasks that do not need GPUs
    #[arg(long)]
    pub for_any_task: bool,
    /// What to optimize when more workers would finish sooner but cost more node time [default: makespan]
    ///
    /// With `makespan`, a worker is requested if the waiting tasks would keep it busy for half the time that its
    /// startup and idle timeout cost; with `nodehours`, for twice that time.
    #[arg(long, value_name = "makespan|nodehours", value_parser = goal)]
    pub goal: Option<Goal>,
    /// Maximum node hours for all allocations of the queue together
    ///
    /// Includes the time that queued and running allocations may still use. When the budget is exhausted, no more
    /// allocations are requested; running ones continue to their end.
    ///
    /// The budget must cover at least one node for the time limit.
    ///
    /// Example: `--budget 500`.
    #[arg(long, allow_hyphen_values = true, value_name = "NODEHOURS", value_parser = values::node_hours)]
    pub budget: Option<Duration>,
    /// What its workers offer.
    #[command(flatten)]
    pub worker: SharedArgs,
    /// What workers do if the server is lost [default: reconnect, for up to the idle timeout]
    #[arg(long, value_name = "WHAT")]
    pub on_server_lost: Option<OnServerLostArg>,
    /// Time after which workers end [default: the time limit]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = super::worker::time_limit)]
    pub worker_time_limit: Option<Duration>,
    /// Shell command that runs on each node before the worker
    #[arg(long, value_name = "COMMAND", value_parser = values::shell_command)]
    pub worker_start_cmd: Option<String>,
    /// Shell command that runs on each node after the worker
    #[arg(long, value_name = "COMMAND", value_parser = values::shell_command)]
    pub worker_stop_cmd: Option<String>,
    /// Command that wraps the worker's command, for example to run it in a container
    #[arg(long, alias = "wrap-worker-cmd", value_name = "COMMAND", value_parser = values::shell_command)]
    pub worker_wrap_cmd: Option<String>,
    /// Arguments passed to sbatch or qsub unchanged
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
    /// Maximum number of allocations queued in the batch system at once
    #[arg(short = 'b', long, allow_hyphen_values = true, value_name = "COUNT", default_value = "1", value_parser = backlog)]
    pub backlog: u32,
    /// Maximum number of nodes per allocation, each with one worker
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
    /// Name of the queue, used in the names of its batch jobs
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
        Duration::ZERO => Err("the time limit of an allocation must be longer than zero".into()),
        some => Ok(some),
    }
}

/// Create an allocation queue: while tasks are waiting, the server requests workers from the batch system
///
/// First, a trial allocation that never starts is submitted and canceled, so that wrong arguments are detected
/// immediately.
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
    /// Do not submit a trial allocation
    #[arg(long)]
    pub no_dry_run: bool,
}

/// Submit a trial allocation that never starts, and cancel it
///
/// This shows whether the batch system accepts what a queue with these options would request.
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

/// Show the allocations of a queue and how their node time was used.
#[derive(Args, Clone, Debug)]
pub(crate) struct InfoArgs {
    /// Id of the queue
    #[arg(allow_negative_numbers = true, value_name = "QUEUE")]
    pub queue: QueueId,
    /// Only allocations in one of these states: queued, running, finished, failed
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = state)]
    pub filter: Vec<AllocationState>,
    /// Also show how the node hours of each allocation were used, and what workers of the queue offer
    #[arg(long)]
    pub verbose: bool,
    /// Show the cost of the node hours, at this price per node hour
    ///
    /// All time that nodes were held counts, whether or not tasks were running. The price can also be set in
    /// `config.toml`.
    #[arg(long, allow_hyphen_values = true, value_name = "PER_NODE_HOUR", value_parser = price)]
    pub cost: Option<f64>,
}

/// A price of a node hour.
pub(super) fn price(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(price) if price.is_finite() && (0.0..1e12).contains(&price) => Ok(price),
        _ => Err(format!("`{text}` is not a price per node hour: use a number such as 0.85")),
    }
}

/// Watts of a CPU.
pub(super) fn watts(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(watts) if (0.0..1e6).contains(&watts) => Ok(watts),
        _ => Err(format!("`{text}` is not a number of watts per CPU: use a number such as 6.5")),
    }
}

fn state(text: &str) -> Result<AllocationState, String> {
    text.trim().to_ascii_lowercase().parse::<AllocationState>().map_err(|e| e.to_string())
}

/// Print the output of an allocation's batch job.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  hq alloc log 123456 stderr\n  hq alloc log 1.3 stdout")]
pub(crate) struct LogArgs {
    /// Id of the allocation in the batch system, or QUEUE.NUMBER
    #[arg(allow_negative_numbers = true, value_name = "ALLOCATION", value_parser = NonEmptyStringValueParser::new())]
    pub allocation: String,
    /// Output channel to print
    #[arg(value_name = "CHANNEL")]
    pub channel: Channel,
}

/// Remove a queue and cancel its queued allocations.
#[derive(Args, Clone, Debug)]
pub(crate) struct RemoveArgs {
    /// Id of the queue
    #[arg(allow_negative_numbers = true, value_name = "QUEUE")]
    pub queue: QueueId,
    /// Remove it even if allocations are running, and cancel those
    #[arg(long)]
    pub force: bool,
}

/// Change the options of a queue
///
/// Changes apply to future allocations. Options that are not given stay the same; arguments after `--` replace all
/// previous ones. If the change affects what is requested, a trial allocation is submitted first, as by `hq alloc
/// add`.
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
    /// Maximum number of allocations queued in the batch system at once
    #[arg(short = 'b', long, allow_hyphen_values = true, value_name = "COUNT", value_parser = backlog)]
    pub backlog: Option<u32>,
    /// Maximum number of nodes per allocation, each with one worker
    #[arg(short = 'm', long, allow_hyphen_values = true, alias = "workers-per-alloc", value_name = "COUNT", value_parser = values::at_least_one)]
    pub max_workers_per_alloc: Option<u32>,
    /// What it shall ask for.
    #[command(flatten)]
    pub options: QueueOptions,
    /// Do not submit a trial allocation
    #[arg(long)]
    pub no_dry_run: bool,
    /// Options to reset to their defaults, before other given options are applied
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
    /// Cancel queued allocations when there is no work left for them
    KeepWaiting,
    /// No nodes with GPUs for tasks that do not need GPUs
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
    /// The command that wraps it
    WorkerWrapCmd,
    /// Arguments for the batch system
    ManagerArgs,
}
