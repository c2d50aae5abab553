//! `hq task …`.

use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, PathBufValueParser};
use clap::{Args, Subcommand, ValueEnum};
use hq_client::options::values;
use hq_model::dependency::After;
use hq_model::selector::Selector;
use hq_model::{IdSet, TaskState};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::job::{Channel, JobAndTasks, TasksArg, job_and_tasks, selector_some, task_state, tasks_of_job};

/// Show tasks
#[derive(Subcommand, Debug)]
pub(crate) enum TaskCommand {
    List(ListArgs),
    Info(InfoArgs),
    Explain(ExplainArgs),
    Tail(TailArgs),
    Notify(NotifyArgs),
    Defer(DeferArgs),
    Ready(ReadyArgs),
    Mpirun(MpirunArgs),
    #[command(hide = true)]
    Agent(AgentArgs),
    #[command(hide = true)]
    IsUnchanged(IsUnchangedArgs),
}

/// List the tasks of jobs.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq task list last\n  hq task list 1 --tasks 1-100 --task-status failed")]
pub(crate) struct ListArgs {
    /// Ids such as `1,3-5`, or `last`
    #[arg(allow_negative_numbers = true, value_name = "JOBS", value_parser = selector_some)]
    pub jobs: Selector,
    /// Only these tasks
    #[arg(long, allow_hyphen_values = true, value_name = "IDS", value_parser = values::ids)]
    pub tasks: Option<IdSet>,
    /// Only tasks in one of these states
    ///
    /// A comma-separated list of waiting, running, finished, failed, canceled, aborted.
    #[arg(long, visible_alias = "filter", value_name = "STATES", value_delimiter = ',', value_parser = task_state)]
    pub task_status: Vec<TaskState>,
    /// Also show directories, output files and measured usage
    #[arg(long, short)]
    pub verbose: bool,
}

/// Show details of tasks
///
/// Shows what they run, where and when they ran, and the resources they used.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq task info last 0\n  hq task info 3 1,7-9\n  hq task info 3@17")]
pub(crate) struct InfoArgs {
    /// Id of a job, or `last`; `3@1,7-9` or `3@KEY` also selects tasks
    #[arg(allow_negative_numbers = true, value_name = "JOB", value_parser = one_job_and_tasks)]
    pub job: JobAndTasks,
    /// Ids such as `1,3-5`
    #[arg(allow_negative_numbers = true, value_name = "TASKS", value_parser = values::ids_some)]
    pub tasks: Option<IdSet>,
    /// Accepted for scripts; everything is shown anyway
    #[arg(long, short, hide = true)]
    pub verbose: bool,
}

/// Explain what a task is waiting for
///
/// Shows the dependencies of the task, and what each worker currently lacks to run it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq task explain last 0\n  hq task explain 3@17")]
pub(crate) struct ExplainArgs {
    /// Id of a job, or `last`; `3@17` or `3@KEY` also selects the task
    #[arg(allow_negative_numbers = true, value_name = "JOB", value_parser = one_job_and_tasks)]
    pub job: JobAndTasks,
    /// Id of the task
    #[arg(allow_negative_numbers = true, value_name = "TASK", value_parser = one_task)]
    pub task: Option<IdSet>,
}

fn one_job_and_tasks(text: &str) -> Result<JobAndTasks, String> {
    let named = job_and_tasks(text)?;
    selector_one(&named.jobs.to_string())?;
    Ok(named)
}

fn one_task(text: &str) -> Result<IdSet, String> {
    match values::ids_some(text)? {
        one if one.len() == 1 => Ok(one),
        _ => Err("select a single task by its id, such as 5".into()),
    }
}

/// Print the last lines of a task's output
///
/// The task may be running on any machine, or have ended. With --follow, its end is reported on standard error.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq task tail last@0\n  hq task tail 3@17 stderr -n 100\n  hq task tail --follow 3 17"
)]
pub(crate) struct TailArgs {
    /// Job (id or `last`) and task (id or key): `3@17`, `3@KEY` or `3 17`; then stdout or stderr [default: stdout]
    #[arg(value_name = "JOB@TASK", num_args = 1..=3, required = true, value_parser = NonEmptyStringValueParser::new())]
    pub words: Vec<String>,
    /// Number of lines, taken from the last MiB of the output
    #[arg(short = 'n', long, value_name = "LINES", default_value_t = 10)]
    pub lines: u32,
    /// Keep printing until the task has ended, even if it is restarted
    #[arg(short, long)]
    pub follow: bool,
}

/// What the words of a tail mean.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn tail_of(words: &[String]) -> Result<(Selector, TasksArg, Channel), String> {
    let (first, rest) = words.split_first().ok_or("specify the task: JOB@TASK")?;
    let (job, task, rest) = match (first.split_once('@'), rest) {
        (Some((job, task)), rest) => match tasks_of_job(task)? {
            TasksArg::Ids(_) => (job, TasksArg::Ids(one_task(task)?), rest),
            key => (job, key, rest),
        },
        (None, [task, rest @ ..]) => (first.as_str(), TasksArg::Ids(one_task(task)?), rest),
        (None, []) => return Err(format!("specify the task of job {first}: `{first}@TASK`")),
    };
    let channel = match rest {
        [] => Channel::Stdout,
        [one] => Channel::from_str(one, false)
            .map_err(|_| format!("`{one}` is not an output channel: use stdout or stderr"))?,
        _ => return Err("give one task and one output channel only".into()),
    };
    Ok((selector_one(job)?, task, channel))
}

/// A selector argument that means one job.
pub(crate) fn selector_one(text: &str) -> Result<Selector, String> {
    match selector_some(text)? {
        Selector::Ids(ids) if ids.len() > 1 => Err("select a single job by its id, or use `last`".into()),
        one => Ok(one),
    }
}

/// Send a message to the waiting submitter of the job
///
/// Works inside a running task. The message is passed to the command given with `hq submit --on-notify`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq task notify 'half way'")]
pub(crate) struct NotifyArgs {
    /// The message, at most 1024 bytes
    #[arg(value_name = "MESSAGE", value_parser = OsStringValueParser::new())]
    pub message: OsString,
}

/// Restart this task after other tasks have finished
///
/// Works inside a running task. The current instance of the task is ended (SIGTERM, then SIGKILL after the kill grace
/// time) and its resources are freed. When the other tasks have finished, the task starts from the beginning as a new
/// instance. This command does not return.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq task defer --after \"$HQ_JOB_ID@dock-1\" --after \"$HQ_JOB_ID@5-9\"\n  hq task defer --after 17"
)]
pub(crate) struct DeferArgs {
    /// Restart when this job, or these tasks of it, have finished
    ///
    /// Can be repeated. If one of them ends without success, this task is aborted.
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "JOB[@TASKS]",
        required_unless_present = "after_any"
    )]
    pub after: Vec<After>,
    /// Restart when this job, or these tasks of it, have ended, successfully or not
    #[arg(long, allow_hyphen_values = true, value_name = "JOB[@TASKS]")]
    pub after_any: Vec<After>,
}

/// Report that this service is ready
///
/// Works inside a running task that was submitted with --service. Tasks that depend on the service can then start,
/// and find TEXT in the variable HQ_SERVICE_KEY, where KEY is the key of the service.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq task ready \"$(hostname):5432\"")]
pub(crate) struct ReadyArgs {
    /// Text for dependent tasks, such as an address; at most 1024 bytes
    #[arg(value_name = "TEXT", default_value = "", value_parser = OsStringValueParser::new())]
    pub text: OsString,
}

/// Start the ranks of a task
///
/// Works inside a task with --ranks-per-node or --nodes; %{MPIRUN} and HQ_MPIRUN expand to this command. It finds an
/// available launcher and executes it with the task's number of ranks on the task's nodes. Launchers that need a
/// remote shell get one that goes through the workers. Additional launchers can be described in launchers.toml in the
/// configuration directory: $HQ_CONFIG_DIR, $XDG_CONFIG_HOME/hq or ~/.config/hq.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq task mpirun -- ./solver input\n  hq task mpirun --launcher direct -- hostname\n  hq task mpirun --list"
)]
pub(crate) struct MpirunArgs {
    /// The launcher [default: the first one found]
    #[arg(long, value_name = "NAME", value_parser = values::launcher)]
    pub launcher: Option<String>,
    /// Fail if not all ranks have started within this time (direct launcher only)
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", default_value = "60s", value_parser = start_timeout)]
    pub start_timeout: Duration,
    /// List all launchers and which are available here
    #[arg(long)]
    pub list: bool,
    /// One that lies beside this program goes first; the program runs on this node alone, or on those of the task
    #[arg(long, hide = true, value_name = "PATH", value_parser = PathBufValueParser::new())]
    pub beside: Option<PathBuf>,
    /// Only one that is of this MPI, as that calls itself
    #[arg(long, hide = true, value_name = "TEXT", requires = "beside", value_parser = NonEmptyStringValueParser::new())]
    pub library: Option<String>,
    /// The program and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true, value_parser = OsStringValueParser::new())]
    pub command: Vec<OsString>,
}

fn start_timeout(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        Duration::ZERO => Err("no rank can start within zero time; give a longer duration".into()),
        some => Ok(some),
    }
}

/// Say whether files hold what they held
#[derive(Args, Debug)]
pub(crate) struct IsUnchangedArgs {
    /// A JSON list of pairs: a path, and the SHA-256 of what the file held
    #[arg(value_name = "FILES", value_parser = NonEmptyStringValueParser::new())]
    pub files: String,
}

/// Run a command on a node of a task, as ssh would
///
/// For MPI launchers that need a remote shell.
#[derive(Args, Debug)]
pub(crate) struct AgentArgs {
    /// Options of ssh, which mean nothing here; then the node's name, and what a shell there executes
    #[arg(value_name = "NODE COMMAND", trailing_var_arg = true, allow_hyphen_values = true, value_parser = OsStringValueParser::new())]
    pub words: Vec<OsString>,
}
