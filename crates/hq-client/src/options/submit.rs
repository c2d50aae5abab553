//! The options of a submit as a whole, as flags and as `#HQ` lines.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::OsStringValueParser;
use clap::{Args, ValueEnum};
use hq_model::JobId;
use hq_model::body::Mpi;

use super::dependencies::DependencyOptions;
use super::feed::FeedOptions;
use super::function;
use super::job::{ArrayOptions, JobOptions, WaitOptions};
use super::task::TaskOptions;

/// What may stand on `#HQ` lines as well as on the command line.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct CommonOptions {
    /// The job.
    #[command(flatten)]
    pub job: JobOptions,
    /// Which tasks.
    #[command(flatten)]
    pub array: ArrayOptions,
    /// What they wait for.
    #[command(flatten)]
    pub dependencies: DependencyOptions,
    /// What each task is.
    #[command(flatten)]
    pub task: TaskOptions,
    /// Who makes them and takes their results.
    #[command(flatten)]
    pub feed: FeedOptions,
}

impl CommonOptions {
    pub(super) fn over(self, script: CommonOptions) -> CommonOptions {
        CommonOptions {
            job: self.job.over(script.job),
            array: self.array.over(script.array),
            dependencies: self.dependencies.over(script.dependencies),
            task: self.task.over(script.task),
            feed: self.feed.over(script.feed),
        }
    }
}

/// The command and where options are looked for.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct CommandOptions {
    /// Where to look for `#HQ` lines [default: auto]
    ///
    /// A script can contain options on lines that begin with `#HQ`, before its first command and within its first 32
    /// KiB. Each line is split like in a shell; a `#` at the beginning of a word starts a comment. Options on the
    /// command line take precedence; --env and --resource are combined. Such a script is run by the interpreter named
    /// in its first line (`#!`), so it need not be executable.
    #[arg(long, value_name = "WHERE", help_heading = "Execution")]
    pub directives: Option<DirectivesArg>,

    /// Call a Python function instead of running a program
    ///
    /// It is called in an interpreter that is reused, so that not every call has to start Python. The module is
    /// searched for as by `python3 -m`, including in the submit directory. With --each-line or --from-json, the entry
    /// of the task is the first argument. The return value is stored as JSON; `hq job result` prints it.
    ///
    /// Example: `hq submit --function score:main --each-line inputs.txt --python venv/bin/python`.
    #[arg(long, value_name = "MODULE:NAME", value_parser = function::name, help_heading = "Execution")]
    pub function: Option<String>,

    /// Arguments of the function: a JSON list, or an object of keyword arguments
    ///
    /// Examples: `--args-json '[1, "a"]'`, `--args-json '{"cutoff": 0.5}'`.
    #[arg(long, value_name = "JSON", value_parser = function::arguments, help_heading = "Execution")]
    pub args_json: Option<String>,

    /// MPI world of a function's ranks: reused between calls, or new for each call [default: warm]
    ///
    /// `warm`: calls of one job with the same number of ranks reuse the same processes one after another, each with
    /// its own communicator. `world`: each call has its own MPI.COMM_WORLD. On several nodes, it is always `world`.
    #[arg(long, value_name = "WORLD", value_parser = function::mpi, help_heading = "Execution")]
    pub mpi: Option<Mpi>,

    /// Store the return values of all ranks as a list, instead of that of rank 0
    #[arg(long, help_heading = "Execution")]
    pub gather: bool,

    /// Program to run, and its arguments
    ///
    /// Placeholders such as %{TASK_ID} are replaced in the arguments of each task. Options of hq come before the
    /// command; `--` marks their end.
    #[arg(value_name = "COMMAND", trailing_var_arg = true, value_parser = OsStringValueParser::new())]
    pub command: Vec<OsString>,
}

/// Where `#HQ` lines are looked for.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectivesArg {
    /// In the command, if its name ends in .sh
    #[default]
    Auto,
    /// In the command
    File,
    /// In a script on standard input, which the command then reads
    Stdin,
    /// Nowhere
    Off,
}

/// All options of `hq submit`.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct SubmitOptions {
    /// Job, tasks.
    #[command(flatten)]
    pub common: CommonOptions,
    /// Waiting.
    #[command(flatten)]
    pub wait: WaitOptions,
    /// Add the tasks to this open job, or to the `last` one that was made
    ///
    /// See `hq job open`. Tasks without ids are numbered on from the largest one there is.
    #[arg(long, allow_hyphen_values = true, value_name = "ID", value_parser = super::values::job, help_heading = "Job")]
    pub job: Option<JobId>,
    /// Command.
    #[command(flatten)]
    pub command: CommandOptions,
}

/// All options of `hq run`.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct RunOptions {
    /// Job, tasks.
    #[command(flatten)]
    pub common: CommonOptions,
    /// What is done anyway: so that a line written for `hq submit` runs here, too
    #[arg(long, visible_alias = "progress", help_heading = "Waiting")]
    pub wait: bool,
    /// Exit with 0 although tasks failed
    #[arg(long, help_heading = "Waiting")]
    pub allow_failures: bool,
    /// Run a command here for each `hq task notify` of the tasks
    ///
    /// The text is its last argument; HQ_JOB_ID, HQ_TASK_ID and HQ_WORKER_ID say where it comes from.
    #[arg(long, value_name = "COMMAND", value_parser = super::values::shell_command, help_heading = "Waiting")]
    pub on_notify: Option<String>,
    /// Keep in this directory what is done, and go on with what was interrupted there
    ///
    /// The directory is made where it is missing. Ctrl-C then cancels nothing: what runs is ended, and begins again when the
    /// same command, or `hq run --state DIR` without a command, is given again. After a crash or a kill likewise: tasks that
    /// have finished are not run again.
    #[arg(long, value_name = "DIR", help_heading = "Where")]
    pub state: Option<PathBuf>,
    /// Use this machine alone, although the batch job has more nodes
    ///
    /// In a job of Slurm or PBS with several nodes, a worker is started on each of them.
    #[arg(long, help_heading = "Where")]
    pub here: bool,
    /// Command.
    #[command(flatten)]
    pub command: CommandOptions,
}

impl From<&RunOptions> for WaitOptions {
    fn from(run: &RunOptions) -> WaitOptions {
        WaitOptions {
            wait: false,
            progress: true,
            follow: false,
            allow_failures: run.allow_failures,
            on_notify: run.on_notify.clone(),
            reconnect_timeout: None,
        }
    }
}

impl From<RunOptions> for SubmitOptions {
    fn from(run: RunOptions) -> SubmitOptions {
        SubmitOptions { wait: WaitOptions::from(&run), common: run.common, job: None, command: run.command }
    }
}
