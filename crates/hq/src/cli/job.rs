//! `hq job …`.

use std::time::Duration;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use hq_client::options::{JobOptions, notices, values};
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
        Selector::All => Err("`all` is not possible here, it could be very much: write ids, for example `1,3-5`, or `last`; `hq job list --all` \
             shows which there are".into()),
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

/// List jobs: by default those that have not ended.
#[derive(Args, Debug, Default)]
#[command(after_help = "Examples:\n  hq job list --all\n  hq job list --filter failed,canceled --verbose")]
pub(crate) struct ListArgs {
    /// Ended jobs, too
    #[arg(long, conflicts_with = "filter")]
    pub all: bool,
    /// Only jobs in one of these states
    ///
    /// A comma list of opened, waiting, running, finished, failed, aborted, canceled. `opened` takes jobs that are open for
    /// more tasks while nothing runs, waits or went wrong.
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = job_state)]
    pub filter: Vec<JobState>,
    /// With the reason of a cancellation
    #[arg(long, short)]
    pub verbose: bool,
}

/// Show all about jobs
///
/// What they execute, how far they are, and what their tasks used.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq job info last\n  hq job info 1,4-6 --output-mode json")]
pub(crate) struct InfoArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
}

/// Say what the tasks of jobs wait for
///
/// In groups of tasks that wait for the same: dependencies, busy resources and until when at the earliest, tasks that go
/// first, shares, queues, or a worker that there is not.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq job explain last\n  hq job explain 3@17")]
pub(crate) struct ExplainArgs {
    /// Ids such as `1,3-5`, `last` or `all`; `3@17` or `3@KEY` for one task, as `hq task explain` does
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = job_and_tasks)]
    pub jobs: JobAndTasks,
}

/// Say why tasks failed, each cause once
///
/// How many tasks failed with it and where, and of the first one the last line that it wrote to standard error, where this
/// machine can read it. Numbers that differ from task to task are shown as #. Tasks that ended with the same exit code are told
/// apart by that last line; for this at most 1000 outputs of a job are read, and of more failures an even sample: then counts
/// are estimates, and begin with ~.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq job failures last\n  hq job failures 1,4-6 --output-mode json")]
pub(crate) struct FailuresArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
}

/// Give a job that was submitted with a budget another one
///
/// Its tasks go on until they have used that many node hours in all; what they have used before counts. `hq job info` shows it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq job budget last 80\n  hq job budget 3-7 none")]
pub(crate) struct BudgetArgs {
    /// Ids such as `1,3-5`, or `last`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector_some)]
    pub jobs: Selector,
    /// Node hours that the tasks of each may use in all; `none` for no limit
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
/// By kind of task: those that ask for the same. It tells the part of the CPU time that was used, the memory and the time that
/// 99 of 100 tasks did not exceed, and what to ask for next time: what was enough for those 99, and a tenth more memory. Only
/// tasks that have ended count. Use is that of the processes of a task; of memory, the largest process.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq job efficiency\n  hq job efficiency 3-7 --output-mode json\n  hq job efficiency last --cost 0.85"
)]
pub(crate) struct EfficiencyArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", default_value = "all", value_parser = selector)]
    pub jobs: Selector,
    /// Show the node hours that tasks used, and what they cost at this price for one
    ///
    /// A task uses its run time, times the largest of its parts of the CPUs, the memory and the GPUs of its worker. The price may
    /// stand in `config.toml`, too.
    #[arg(long, allow_hyphen_values = true, value_name = "PER_NODE_HOUR", value_parser = price)]
    pub cost: Option<f64>,
    /// Estimate the energy that tasks used, at so many watts for each CPU
    ///
    /// The CPUs that a task asks for count as long as it runs; of those that ask for all, the CPU time that they used.
    #[arg(long, allow_hyphen_values = true, value_name = "WATTS", value_parser = watts)]
    pub watts_per_cpu: Option<f64>,
}

/// Print the results of tasks
///
/// One line for each task that has one, in order of ids: the id, and what a function returned as JSON, or the text that a
/// program (`--result`) or whoever took a pulled task left. Of calls of the Python package it says how long the pickle is and how
/// much was printed. With `--output-mode quiet` the results alone, and with `json` a list
/// with job and task. Standard error names what is missing: functions that failed, the first of them with their errors, and
/// results that are not kept any more; for these, and for what was named and has no result, the exit status is 1. Results
/// are kept as long as their job; of all jobs together at most 256 MiB, and the oldest go first.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq job result last\n  hq job result 3 --tasks 1-10 --output-mode json")]
pub(crate) struct ResultArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
    /// Only these tasks, such as `1-10,17`; one without a result is an error
    #[arg(long, allow_hyphen_values = true, value_name = "IDS", value_parser = values::ids_some)]
    pub tasks: Option<IdSet>,
}

/// Submit tasks of a job again, as a new job
///
/// By default all that ended without success: failed, canceled, and aborted because of others. They keep their ids, entries,
/// resources and what they wait for, as far as that is among them; what has finished is not waited for. Prints the id of the
/// new job.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq job resubmit last\n  hq job resubmit 3 --failed\n  hq job resubmit 3 --tasks 1-10,17"
)]
pub(crate) struct ResubmitArgs {
    /// Id of a job, or `last`
    #[arg(allow_negative_numbers = true, value_name = "JOB", value_parser = selector_one)]
    pub job: Selector,
    /// Only those that failed
    #[arg(long)]
    pub failed: bool,
    /// Only those that were canceled
    #[arg(long)]
    pub canceled: bool,
    /// Only these, whether they finished or not
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "IDS",
        value_parser = values::ids_some,
        conflicts_with_all = ["failed", "canceled"]
    )]
    pub tasks: Option<IdSet>,
}

/// Cancel jobs, or some of their tasks
///
/// Running tasks get SIGTERM and, when their time to end is over, SIGKILL.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq job cancel 3 --reason 'wrong input'\n  hq job cancel last --tasks 10-20"
)]
pub(crate) struct CancelArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
    /// Only these tasks
    #[arg(long, allow_hyphen_values = true, value_name = "IDS", value_parser = values::ids_some)]
    pub tasks: Option<IdSet>,
    /// Why, in at most 200 characters; shown by `hq job info`
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
}

fn reason(text: &str) -> Result<String, String> {
    let (length, max) = (text.chars().count(), hq_core::limits::CANCEL_REASON_MAX);
    if length > max {
        return Err(format!("a reason has at most {max} characters, this one has {length}"));
    }
    Ok(text.into())
}

/// Drop ended jobs from the server: they are no longer listed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq job forget all --filter finished")]
pub(crate) struct ForgetArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
    /// Only jobs in one of these states [default: all that have ended]
    ///
    /// A comma list of finished, failed, aborted, canceled.
    #[arg(long, visible_alias = "status", value_name = "STATES", value_delimiter = ',', value_parser = ended_state)]
    pub filter: Vec<JobState>,
}

fn ended_state(text: &str) -> Result<JobState, String> {
    let state = job_state(text)?;
    if state.is_terminal() {
        return Ok(state);
    }
    Err(format!("a job that is {state} has not ended; use finished, failed, aborted or canceled"))
}

/// Print what tasks wrote, read from their output files.
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
    /// A line before the output of each task
    #[arg(long)]
    pub print_task_header: bool,
    /// Go on with what the tasks of one job print, until it has ended
    ///
    /// Of a job of several tasks each line begins with job, task and output. Tasks that run are followed on their
    /// workers, up to 64 at once.
    #[arg(long, short, conflicts_with_all = ["task_status", "print_task_header"])]
    pub follow: bool,
    /// Which output
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
/// Exits with 1 unless all their tasks finished.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq job wait last\n  hq job wait all --allow-failures")]
pub(crate) struct WaitArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
    /// Do not wait for open jobs to be closed
    #[arg(long)]
    pub without_close: bool,
    /// Exit with 0 although tasks failed
    #[arg(long)]
    pub allow_failures: bool,
    /// Tell TARGET of the end of each job, and of its first failure: a command, a URL or mailto:ADDRESS
    ///
    /// From here, as long as the wait goes on. `hq submit --notify` has the server tell, which goes on when this command is gone.
    #[arg(long, value_name = "TARGET", value_parser = notices::target)]
    pub notify: Vec<NoticeTarget>,
    /// How long to look for a server that was lost while waiting [default: 10m]
    ///
    /// A server that was killed is waited for and the wait goes on; one that was stopped ends it, unless this
    /// option is given.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub reconnect_timeout: Option<Duration>,
}

/// Wait until jobs have ended, with a progress bar
///
/// The bar is shown on a terminal only. Exits with 1 unless all their tasks finished.
#[derive(Args, Debug)]
pub(crate) struct ProgressArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
    /// Exit with 0 although tasks failed
    #[arg(long)]
    pub allow_failures: bool,
    /// How long to look for a server that was lost while waiting [default: 10m]
    ///
    /// A server that was killed is waited for and the wait goes on; one that was stopped ends it, unless this
    /// option is given.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub reconnect_timeout: Option<Duration>,
}

/// Print the ids of tasks as --array takes them.
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
    /// A comma list of waiting, running, finished, failed, canceled, aborted.
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = task_state)]
    pub filter: Vec<TaskState>,
}

/// Submit the tasks of a job file in TOML
///
/// The tasks have commands, options and resource requests of their own; several requests of a task are variants, of
/// which the first that fits somewhere is used. `[[job]]` tables are jobs of their own, submitted all or none, which may
/// wait for each other by their names.
#[derive(Args, Debug)]
#[command(after_help = SUBMIT_FILE_EXAMPLES)]
pub(crate) struct SubmitFileArgs {
    /// The job file; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Add the tasks to this open job, or to the `last` one that was made
    #[arg(long, allow_hyphen_values = true, value_name = "ID", value_parser = values::job)]
    pub job: Option<JobId>,
    /// Wait until all jobs of the file have ended; exit with 1 unless all tasks finished
    #[arg(long, conflicts_with = "progress")]
    pub wait: bool,
    /// As --wait, with a progress bar
    #[arg(long)]
    pub progress: bool,
    /// Exit with 0 although tasks failed, when waiting
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

/// Make an open job and print its id
///
/// It takes submits until it is closed, and ends only then.
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

/// Close open jobs: no more submits
///
/// They end when their tasks have.
#[derive(Args, Debug)]
pub(crate) struct CloseArgs {
    /// Ids such as `1,3-5`, `last` or `all`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector)]
    pub jobs: Selector,
}
