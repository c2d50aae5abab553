//! `hq job …`.

use std::time::Duration;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use hq_client::options::{JobOptions, id_file, notices, values};
use hq_model::key::check_key;
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, JobState, NoticeTarget, TaskState};

use super::alloc::{price, watts};
use super::submit::SubmitCommand;
use super::task::selector_one;

/// Show, wait for and cancel jobs
#[derive(Subcommand, Debug)]
pub(crate) enum JobCommand {
    Submit(Box<SubmitCommand>),
    SubmitFile(SubmitFileArgs),
    List(ListArgs),
    /// Count jobs by state
    Summary,
    Info(InfoArgs),
    Explain(ExplainArgs),
    Failures(FailuresArgs),
    Efficiency(EfficiencyArgs),
    Result(ResultArgs),
    Resubmit(ResubmitArgs),
    Cancel(CancelArgs),
    Forget(ForgetArgs),
    Cat(CatArgs),
    Wait(WaitArgs),
    Progress(ProgressArgs),
    TaskIds(TaskIdsArgs),
    Open(OpenArgs),
    Close(CloseArgs),
    Budget(BudgetArgs),
}

/// A selector argument.
pub(crate) fn selector(text: &str) -> Result<Selector, String> {
    text.parse::<Selector>().map_err(|e| e.to_string())
}

/// A selector argument that must not be `all`.
pub(crate) fn selector_some(text: &str) -> Result<Selector, String> {
    match selector(text)? {
        Selector::All => {
            Err("`all` is not accepted here, because the output could be very long: give job ids such \
            as `1,3-5`, or `last`; `hq job list --all` lists all jobs"
                .into())
        }
        some => Ok(some),
    }
}

/// The states of `--filter` for jobs.
/// Tasks behind a job and an `@`.
#[derive(Clone, Debug)]
pub(crate) enum TasksArg {
    /// `17`, `1,7-9`.
    Ids(IdSet),
    /// The one with this key.
    Key(String),
}

/// Parses [`TasksArg`].
pub(super) fn tasks_of_job(text: &str) -> Result<TasksArg, String> {
    match values::ids_some(text) {
        Ok(ids) => Ok(TasksArg::Ids(ids)),
        // A slip of the pen in a number is no key.
        Err(_) if !text.starts_with('-') && check_key(text.as_bytes()).is_ok() => {
            Ok(TasksArg::Key(text.to_owned()))
        }
        Err(error) => Err(error),
    }
}

/// Jobs, and perhaps tasks of them: `3`, `3@17`, `3@prepare`.
#[derive(Clone, Debug)]
pub(crate) struct JobAndTasks {
    /// The jobs.
    pub jobs: Selector,
    /// The tasks, where some are named.
    pub tasks: Option<TasksArg>,
}

/// Jobs, and perhaps tasks of one of them.
pub(crate) fn job_and_tasks(text: &str) -> Result<JobAndTasks, String> {
    match text.split_once('@') {
        Some((job, tasks)) => {
            Ok(JobAndTasks { jobs: super::task::selector_one(job)?, tasks: Some(tasks_of_job(tasks)?) })
        }
        None => Ok(JobAndTasks { jobs: selector(text)?, tasks: None }),
    }
}

pub(crate) fn job_state(text: &str) -> Result<JobState, String> {
    text.trim().to_ascii_lowercase().parse::<JobState>().map_err(|e| e.to_string())
}

/// The states of `--filter` for tasks.
pub(crate) fn task_state(text: &str) -> Result<TaskState, String> {
    text.trim().to_ascii_lowercase().parse::<TaskState>().map_err(|e| e.to_string())
}

/// List jobs, by default only those that have not ended.
#[derive(Args, Debug, Default)]
#[command(after_help = "Examples:\n  hq job list --all\n  hq job list --filter failed,canceled --verbose")]
pub(crate) struct ListArgs {
    /// Include jobs that have ended
    #[arg(long, conflicts_with = "filter")]
    pub all: bool,
    /// Only jobs in one of these states
    ///
    /// A comma-separated list of opened, waiting, running, finished, failed, aborted, canceled. `opened` selects open
    /// jobs in which no task is waiting or running and none has failed.
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = job_state)]
    pub filter: Vec<JobState>,
    /// Also show why jobs were canceled
    #[arg(long, short)]
    pub verbose: bool,
}

/// Show details of jobs
///
/// Shows what they run, how far they have progressed, and the resources their tasks used.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq job info last\n  hq job info 1,4-6 --output-mode json")]
pub(crate) struct InfoArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
}

/// Explain what the tasks of jobs are waiting for
///
/// Groups tasks by what they are waiting for: dependencies, busy resources (with the earliest time they could be
/// free), tasks with precedence, shares, allocation queues, or a suitable worker.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq job explain last\n  hq job explain 3@17")]
pub(crate) struct ExplainArgs {
    /// Ids such as `1,3-5`, `last` or `all`; `3@17` or `3@KEY` for a single task, like `hq task explain`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = job_and_tasks)]
    pub jobs: JobAndTasks,
}

/// Show why tasks failed, grouped by cause
///
/// For each cause, shows how many tasks failed and where, and the last line that the first of them wrote to standard
/// error, if this machine can read it. Numbers that differ from task to task are shown as #. Tasks with the same exit
/// code are distinguished by that last line. At most 1000 outputs of a job are read for this; if there are more
/// failures, an even sample is read, and counts are estimates that begin with ~.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq job failures last\n  hq job failures 1,4-6 --output-mode json")]
pub(crate) struct FailuresArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
}

/// Change the budget of a job that was submitted with one
///
/// Tasks keep starting until the job has used that many node hours in total, including those it has already used. `hq
/// job info` shows the budget.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq job budget last 80\n  hq job budget 3-7 none")]
pub(crate) struct BudgetArgs {
    /// Ids such as `1,3-5`, or `last`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector_some)]
    pub jobs: Selector,
    /// Total node hours that the tasks of each job may use; `none` for no limit
    #[arg(allow_negative_numbers = true, value_name = "NODEHOURS", value_parser = budget)]
    pub budget: BudgetArg,
}

/// A budget, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BudgetArg(pub Option<Duration>);

fn budget(text: &str) -> Result<BudgetArg, String> {
    match text.trim() {
        "none" => Ok(BudgetArg(None)),
        hours => {
            let hours = values::node_hours(hours).map_err(|error| format!("{error}, or `none`"))?;
            Ok(BudgetArg(Some(hours)))
        }
    }
}

/// Compare what tasks asked for with what they used
///
/// Tasks with the same resource request form one row. It shows the share of CPU time used, the memory and run time
/// that 99 of 100 tasks stayed within, and a suggested request for next time: enough for those 99, plus ten percent
/// more memory. Only ended tasks count. Usage is measured over all processes of a task; memory is that of the largest
/// process.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq job efficiency\n  hq job efficiency 3-7 --output-mode json\n  hq job efficiency last --cost 0.85"
)]
pub(crate) struct EfficiencyArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", default_value = "all", value_parser = selector)]
    pub jobs: Selector,
    /// Show the node hours that tasks used, and their cost at this price per node hour
    ///
    /// A task uses its run time multiplied by the largest of its shares of the worker's CPUs, memory and GPUs. The
    /// price can also be set in `config.toml`.
    #[arg(long, allow_hyphen_values = true, value_name = "PER_NODE_HOUR", value_parser = price)]
    pub cost: Option<f64>,
    /// Estimate the energy that tasks used, at this many watts per CPU
    ///
    /// The requested CPUs of a task count for as long as it runs; for tasks that requested all CPUs, the CPU time
    /// that they used counts.
    #[arg(long, allow_hyphen_values = true, value_name = "WATTS", value_parser = watts)]
    pub watts_per_cpu: Option<f64>,
}

/// Print the results of tasks
///
/// Prints one line for each task that has a result, ordered by id: the id, followed by the return value of a function
/// as JSON, or the text left by a program (`--result`) or by the program that took a pulled task. For calls from the
/// Python package, it shows the size of the pickle and how much was printed. With `--output-mode quiet`, only the
/// results are printed; with `json`, a list with job and task. Missing results are reported on standard error:
/// functions that failed (the first few with their errors) and results that are no longer kept. The exit code is 1 if
/// any of these occur, or if a task named explicitly has no result. Results are kept as long as their job, up to 256
/// MiB for all jobs together; the oldest are dropped first.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq job result last\n  hq job result 3 --tasks 1-10 --output-mode json")]
pub(crate) struct ResultArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
    /// Only these tasks, such as `1-10,17` or `@FILE`; a task without a result is an error
    #[arg(long, allow_hyphen_values = true, value_name = "IDS", value_parser = id_file::ids_some)]
    pub tasks: Option<IdSet>,
}

/// Resubmit tasks of a job as a new job
///
/// By default, resubmits all tasks that did not succeed: failed, canceled or aborted. They keep their ids, entries
/// and resources, and their dependencies on each other; dependencies on tasks that have finished are dropped. Prints
/// the id of the new job.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq job resubmit last\n  hq job resubmit 3 --failed\n  hq job resubmit 3 --tasks 1-10,17"
)]
pub(crate) struct ResubmitArgs {
    /// Id of a job, or `last`
    #[arg(allow_negative_numbers = true, value_name = "JOB", value_parser = selector_one)]
    pub job: Selector,
    /// Only tasks that failed
    #[arg(long)]
    pub failed: bool,
    /// Only tasks that were canceled
    #[arg(long)]
    pub canceled: bool,
    /// Only these tasks, such as `1-10,17` or `@FILE`, even if they finished
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "IDS",
        value_parser = id_file::ids_some,
        conflicts_with_all = ["failed", "canceled"]
    )]
    pub tasks: Option<IdSet>,
}

/// Cancel jobs, or some of their tasks
///
/// Running tasks receive SIGTERM, then SIGKILL after their kill grace time. A task counts as canceled from the answer
/// on, even if its program had ended a moment before and the server had not heard of that yet; `hq task info` shows
/// when it ran.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq job cancel 3 --reason 'wrong input'\n  hq job cancel last --tasks 10-20"
)]
pub(crate) struct CancelArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
    /// Only these tasks, such as `10-20` or `@FILE`
    #[arg(long, allow_hyphen_values = true, value_name = "IDS", value_parser = id_file::ids_some)]
    pub tasks: Option<IdSet>,
    /// The reason, at most 200 characters; shown by `hq job info`
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
}

fn reason(text: &str) -> Result<String, String> {
    let (length, max) = (text.chars().count(), hq_core::limits::CANCEL_REASON_MAX);
    if length > max {
        return Err(format!("a reason can have at most {max} characters; this one has {length}"));
    }
    Ok(text.into())
}

/// Remove ended jobs from the server, so that they are no longer listed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq job forget all --filter finished")]
pub(crate) struct ForgetArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
    /// Only jobs in one of these states [default: all ended states]
    ///
    /// A comma-separated list of finished, failed, aborted, canceled.
    #[arg(long, visible_alias = "status", value_name = "STATES", value_delimiter = ',', value_parser = ended_state)]
    pub filter: Vec<JobState>,
}

fn ended_state(text: &str) -> Result<JobState, String> {
    let state = job_state(text)?;
    if state.is_terminal() {
        return Ok(state);
    }
    Err(format!("a job in the state {state} has not ended; use finished, failed, aborted or canceled"))
}

/// Print the output of tasks, read from their output files.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq job cat last stdout\n  hq job cat 3 --tasks 1-5 --print-task-header stderr"
)]
pub(crate) struct CatArgs {
    /// Ids such as `1,3-5`, or `last`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector_some)]
    pub jobs: Selector,
    /// Only these tasks
    #[arg(long, allow_hyphen_values = true, value_name = "IDS", value_parser = values::ids)]
    pub tasks: Option<IdSet>,
    /// Only tasks in one of these states
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = task_state)]
    pub task_status: Vec<TaskState>,
    /// Print a header line before the output of each task
    #[arg(long)]
    pub print_task_header: bool,
    /// Keep printing the output of one job until the job has ended
    ///
    /// If the job has several tasks, each line begins with the job, task and channel. Output of running tasks is read
    /// on their workers, from up to 64 tasks at once.
    #[arg(long, short, conflicts_with_all = ["task_status", "print_task_header"])]
    pub follow: bool,
    /// Output channel to print
    pub channel: Channel,
}

/// An output of a task.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// Standard output
    Stdout,
    /// Standard error
    Stderr,
}

impl From<Channel> for hq_model::Channel {
    fn from(channel: Channel) -> hq_model::Channel {
        match channel {
            Channel::Stdout => hq_model::Channel::Stdout,
            Channel::Stderr => hq_model::Channel::Stderr,
        }
    }
}

/// Wait until jobs have ended
///
/// Exits with 1 unless all of their tasks finished.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq job wait last\n  hq job wait all --allow-failures")]
pub(crate) struct WaitArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
    /// Do not wait for open jobs to be closed
    #[arg(long)]
    pub without_close: bool,
    /// Exit with 0 even if tasks failed
    #[arg(long)]
    pub allow_failures: bool,
    /// Notify TARGET when a job ends and when its first task fails: a command, a URL or mailto:ADDRESS
    ///
    /// Notifications are sent by this command, while it waits. With `hq submit --notify`, the server sends them, even
    /// after the command has ended.
    #[arg(long, value_name = "TARGET", value_parser = notices::target)]
    pub notify: Vec<NoticeTarget>,
    /// How long to try to reconnect if the server is lost while waiting [default: 10m]
    ///
    /// If the server was killed, the command waits for it to come back. If the server was stopped, the command ends,
    /// unless this option is given.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub reconnect_timeout: Option<Duration>,
}

/// Wait until jobs have ended, with a progress bar
///
/// The bar is only shown on a terminal. Exits with 1 unless all of their tasks finished.
#[derive(Args, Debug)]
pub(crate) struct ProgressArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
    /// Exit with 0 even if tasks failed
    #[arg(long)]
    pub allow_failures: bool,
    /// How long to try to reconnect if the server is lost while waiting [default: 10m]
    ///
    /// If the server was killed, the command waits for it to come back. If the server was stopped, the command ends,
    /// unless this option is given.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub reconnect_timeout: Option<Duration>,
}

/// Print task ids in the format that --array accepts.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq submit --array \"$(hq job task-ids last --filter failed)\" -- ./score.sh '%{TASK_ID}'"
)]
pub(crate) struct TaskIdsArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
    /// Only tasks in one of these states
    ///
    /// A comma-separated list of waiting, running, finished, failed, canceled, aborted.
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = task_state)]
    pub filter: Vec<TaskState>,
}

/// Submit the tasks of a job file in TOML
///
/// Each task has its own command, options and resource requests. If a task has several requests, they are variants,
/// and the first one that fits a worker is used. Each `[[job]]` table is a separate job; jobs can depend on each
/// other by name, and either all of them are submitted or none.
#[derive(Args, Debug)]
#[command(after_help = SUBMIT_FILE_EXAMPLES)]
pub(crate) struct SubmitFileArgs {
    /// The job file; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Add the tasks to this open job, or to the `last` job created
    #[arg(long, allow_hyphen_values = true, value_name = "ID", value_parser = values::job)]
    pub job: Option<JobId>,
    /// Wait until all jobs in the file have ended; exit with 1 unless all tasks finished
    #[arg(long, conflicts_with = "progress")]
    pub wait: bool,
    /// Like --wait, with a progress bar
    #[arg(long)]
    pub progress: bool,
    /// When waiting, exit with 0 even if tasks failed
    #[arg(long)]
    pub allow_failures: bool,
}

const SUBMIT_FILE_EXAMPLES: &str = "\
Examples:
  hq job submit-file screening.toml
  hq job submit-file --job 3 more.toml
  hq job submit-file --wait jobs.toml

A job file:
  name = \"screening\"
  [[task]]
  command = [\"./dock\", \"ligand.pdbqt\"]
  time_limit = \"1h\"
  [[task.request]]
  resources = { cpus = 1, gpus = 1 }
  [[task.request]]
  resources = { cpus = 16, mem = \"8GiB\" }

A file of several jobs:
  [[job]]
  name = \"dock\"
  entries = [\"a.pdbqt\", \"b.pdbqt\"]
  command = [\"./dock\", \"%{ENTRY}\"]
  [[job]]
  name = \"rank\"
  after = [\"dock\"]
  command = [\"./rank\"]";

/// Create an open job and print its id
///
/// Tasks can be submitted to an open job until it is closed; only then can it end.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq job open --name sweep\n  hq submit --job 1 -- ./first\n  hq submit --job 1 -- ./second\n  hq job close 1"
)]
#[command(mut_arg("name", |name| name.help("Name of the job, shown in lists [default: job]")))]
pub(crate) struct OpenArgs {
    /// Name and limits.
    #[command(flatten)]
    pub job: JobOptions,
}

/// Close open jobs, so that no more tasks can be submitted to them
///
/// A closed job ends when all of its tasks have ended.
#[derive(Args, Debug)]
pub(crate) struct CloseArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
}
