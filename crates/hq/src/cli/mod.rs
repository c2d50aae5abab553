//! The command line as data: every command, option and help text. What commands do is in
//! [`crate::commands`].

pub(crate) mod alloc;
pub(crate) mod bench;
pub(crate) mod config;
pub(crate) mod dashboard;
pub(crate) mod feed;
pub(crate) mod job;
pub(crate) mod journal;
pub(crate) mod lazy;
pub(crate) mod make;
pub(crate) mod metrics;
pub(crate) mod narrow;
pub(crate) mod object;
pub(crate) mod output_log;
pub(crate) mod pull;
pub(crate) mod server;
pub(crate) mod submit;
pub(crate) mod task;
pub(crate) mod worker;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use hq_client::options::Defaults;

use self::lazy::Lazy;
use crate::pages::Page;

/// Run tasks on the nodes of a cluster or on this machine.
///
/// The server keeps track of jobs and their tasks, and workers on the nodes run the tasks. `hq` commands find the
/// server through its server directory. `hq run` needs no server: it does everything in one process.
#[derive(Parser, Debug)]
#[command(
    name = "hq",
    version,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = ROOT_EXAMPLES,
)]
pub(crate) struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: GlobalOptions,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
    /// What configuration files say of submits.
    #[arg(skip)]
    pub defaults: Defaults,
    /// What people should know of configuration files.
    #[arg(skip)]
    pub notes: Vec<String>,
}

impl Cli {
    /// True for commands that people give, whose options may be in configuration files.
    pub(crate) fn heeds_configuration(&self) -> bool {
        let is_inner = matches!(
            self.command,
            Command::Task(Lazy(task::TaskCommand::Agent(_))) | Command::GenerateReference
        );
        !is_inner
    }
}

const ROOT_EXAMPLES: &str = "\
Examples:
  Run 1000 tasks on this machine, without any setup:
    hq run --array 1-1000 -- ./score.sh '%{TASK_ID}'

  Do the same with a server and a worker that stay up for the next job:
    hq server start --detach
    hq worker start &
    hq submit --array 1-1000 --wait -- ./score.sh '%{TASK_ID}'
    hq job info last

Exit codes:
  0  done
  1  the request failed, or not all tasks of an awaited job finished
  2  bad arguments
  3  no server could be reached, or the connection was lost";

/// Options of every command, before or after its name.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalOptions {
    /// Directory where the server keeps its access file and journal [default: ~/.hq-server] [env: HQ_SERVER_DIR]
    #[arg(long, global = true, value_name = "PATH")]
    pub server_dir: Option<PathBuf>,

    /// When to use colors
    ///
    /// `auto`: when the output is a terminal and NO_COLOR is not set.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub colors: Colors,

    /// Output format [default: cli] [env: HQ_OUTPUT_MODE]
    #[arg(long, global = true, value_name = "MODE")]
    pub output_mode: Option<OutputMode>,

    /// Version of the JSON output: 1, or 0 for programs written for HyperQueue
    ///
    /// In version 0, resource amounts and weights are given in ten-thousandths (`{"Compact": 20000}` means two),
    /// durations are written as `{"secs": 1, "nanos": 0}`, and documents have no `schema_version`.
    #[arg(long, allow_hyphen_values = true, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1), hide_short_help = true)]
    pub output_version: Option<u32>,

    /// Write a detailed log of a server, worker or relay [env: HQ_DEBUG]
    ///
    /// Also applies to `hq run` and `hq make`, which contain a server and workers, and to commands that serve HTTP.
    /// Commands that only query a server log almost nothing.
    #[arg(long, global = true)]
    pub debug: bool,
}

// The variables are read here and not by clap, which takes them for arguments: its messages would name options that
// nobody wrote, and an empty variable would be an error.
impl GlobalOptions {
    /// The server's directory that was named.
    pub(crate) fn server_dir(&self) -> Option<PathBuf> {
        self.server_dir.clone().or_else(|| variable("HQ_SERVER_DIR").map(PathBuf::from))
    }

    /// How results are printed.
    ///
    /// # Errors
    /// When the variable names no mode.
    pub(crate) fn output_mode(&self) -> Result<OutputMode, String> {
        match (self.output_mode, variable("HQ_OUTPUT_MODE")) {
            (Some(mode), _) => Ok(mode),
            (None, None) => Ok(OutputMode::Cli),
            (None, Some(mode)) => {
                let mode = mode.to_string_lossy();
                OutputMode::from_str(&mode, false)
                    .map_err(|_| format!("HQ_OUTPUT_MODE is `{mode}`: use cli, json or quiet"))
            }
        }
    }

    /// Log in detail.
    ///
    /// # Errors
    /// When the variable says neither yes nor no.
    pub(crate) fn debug(&self) -> Result<bool, String> {
        const YES: [&str; 6] = ["1", "y", "yes", "t", "true", "on"];
        const NO: [&str; 6] = ["0", "n", "no", "f", "false", "off"];
        let Some(word) = variable("HQ_DEBUG").filter(|_| !self.debug) else { return Ok(self.debug) };
        let is_one_of = |words: [&str; 6]| words.iter().any(|one| word.eq_ignore_ascii_case(one));
        match (is_one_of(YES), is_one_of(NO)) {
            (true, _) => Ok(true),
            (_, true) => Ok(false),
            _ => Err(format!("HQ_DEBUG is `{}`: use 1 or 0, yes or no", word.to_string_lossy())),
        }
    }
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// When to use colors.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colors {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How results are printed.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputMode {
    /// Tables and sentences, for people
    Cli,
    /// One JSON document
    Json,
    /// Minimal output, for scripts: ids and states of lists, and nothing of what is shown
    Quiet,
}

/// A command. Those with options have their help text beside them.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Run(Box<submit::RunCommand>),
    Submit(Box<submit::SubmitCommand>),
    Make(Box<make::MakeArgs>),
    /// Show, wait for and cancel jobs
    #[command(subcommand, arg_required_else_help = true)]
    Job(Lazy<job::JobCommand>),
    /// Show tasks
    #[command(subcommand, arg_required_else_help = true)]
    Task(Lazy<task::TaskCommand>),
    /// Store files as objects that other tasks can use, and manage them
    #[command(subcommand, arg_required_else_help = true)]
    Object(Lazy<object::ObjectCommand>),
    /// Create and take tasks from programs in any language
    #[command(subcommand, arg_required_else_help = true)]
    Pull(Lazy<pull::PullCommand>),
    /// Start, show and stop workers
    #[command(subcommand, arg_required_else_help = true)]
    Worker(Lazy<worker::WorkerCommand>),
    /// Start, show and stop the server
    #[command(subcommand, arg_required_else_help = true)]
    Server(Lazy<server::ServerCommand>),
    /// Start workers automatically through Slurm or PBS
    #[command(subcommand, arg_required_else_help = true)]
    Alloc(Lazy<alloc::AllocCommand>),
    /// Inspect, repair and maintain the server's journal
    #[command(subcommand, alias = "event-log")]
    Journal(Lazy<journal::JournalCommand>),
    /// Show settings from configuration files
    #[command(subcommand, arg_required_else_help = true)]
    Config(Lazy<config::ConfigCommand>),
    /// Measure the performance of the connected workers
    #[command(subcommand, arg_required_else_help = true)]
    Bench(Lazy<bench::BenchCommand>),
    Dashboard(Box<dashboard::DashboardArgs>),
    Metrics(Box<metrics::MetricsArgs>),
    #[command(alias = "log")]
    OutputLog(Box<output_log::OutputLogArgs>),
    #[command(hide = true, subcommand)]
    Feed(feed::FeedCommand),
    #[command(hide = true)]
    Jobs(job::ListArgs),
    #[command(hide = true)]
    Wait(job::WaitArgs),
    #[command(hide = true)]
    Progress(job::ProgressArgs),
    /// Print a shell completion script
    #[command(after_help = COMPLETION_EXAMPLES)]
    GenerateCompletion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print a page of the documentation
    #[command(after_help = "Examples:\n  hq doc\n  hq doc gpus | less")]
    Doc {
        /// Topic to print; without it, all topics are listed
        #[arg(value_name = "TOPIC", value_parser = crate::pages::page)]
        topic: Option<Page>,
    },
    /// Print the help of a command, like --help
    #[command(hide = true)]
    Help {
        /// The command
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Print the version
    #[command(hide = true)]
    Version,
    /// Print this reference as Markdown
    #[command(hide = true)]
    GenerateReference,
}

const COMPLETION_EXAMPLES: &str = "\
Examples:
  hq generate-completion bash > ~/.local/share/bash-completion/completions/hq
  hq generate-completion fish > ~/.config/fish/completions/hq.fish";

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;
    use clap::{Arg, Command, CommandFactory};

    use super::Cli;

    const NUMBERS: [&str; 19] = [
        "ALLOCATION",
        "COUNT",
        "DURATION",
        "FACTOR",
        "ID",
        "IDS",
        "JOB",
        "JOB[@TASKS]",
        "JOBS",
        "K",
        "MIN..MAX",
        "N",
        "N|never-restart|unlimited",
        "NUMBER",
        "PORT",
        "QUEUE",
        "REQUEST",
        "TASKS",
        "WORKERS",
    ];

    fn take_minus_for_an_option(command: &Command, found: &mut Vec<String>) {
        for arg in command.get_arguments() {
            let mut names = arg.get_value_names().unwrap_or_default().iter();
            // Behind the name of an option its value stands, whatever it begins with. Where a value has no name before it,
            // an option that does not exist must be told as such.
            let allows = match arg.is_positional() {
                true => arg.is_allow_negative_numbers_set(),
                false => arg.is_allow_hyphen_values_set(),
            };
            if names.any(|name| NUMBERS.contains(&name.as_str())) && !allows {
                found.push(format!("{} {}", command.get_name(), arg.get_id()));
            }
        }
        command.get_subcommands().for_each(|sub| take_minus_for_an_option(sub, found));
    }

    // The options and first arguments of all commands that have a value, as words before that.
    fn values(command: &Command, path: &[String], found: &mut Vec<Vec<String>>) {
        let takes = |arg: &&Arg| arg.get_action().takes_values();
        for arg in command.get_arguments().filter(takes) {
            match arg.get_long() {
                Some(long) => found.push([path, &[format!("--{long}=")]].concat()),
                None if arg.get_index() == Some(1) => {
                    let end = arg.is_last_set().then(|| "--".to_owned());
                    found.push([path.to_vec(), Vec::from_iter(end), vec![String::new()]].concat());
                }
                None => {}
            }
        }
        for sub in command.get_subcommands() {
            values(sub, &[path, &[sub.get_name().to_owned()]].concat(), found);
        }
    }

    // What may be an empty text: words for others, and the command of a task, which is looked at when all options are known.
    const MAY_BE_EMPTY: [&str; 8] = [
        "--reason=",
        "help ",
        "run ",
        "submit ",
        "task agent ",
        "task mpirun ",
        "task notify ",
        "task ready ",
    ];

    #[test]
    fn an_empty_value_is_refused() {
        let mut command = Cli::command();
        command.build();
        let mut all = Vec::new();
        values(&command, &["hq".to_owned()], &mut all);
        assert!(all.len() > 200, "{} values of all commands", all.len());
        let mut taken = Vec::new();
        for words in all {
            let error = command.clone().try_get_matches_from(&words).err().map(|error| error.kind());
            if !matches!(error, Some(ErrorKind::InvalidValue | ErrorKind::ValueValidation)) {
                taken.push(words.join(" "));
            }
        }
        taken.retain(|line| !MAY_BE_EMPTY.iter().any(|end| line.ends_with(end)));
        assert_eq!(taken, Vec::<String>::new(), "these take an empty text");
    }

    #[test]
    fn a_value_with_a_minus_sign_is_a_value_that_is_explained() {
        let mut found = Vec::new();
        let mut command = Cli::command();
        // Commands below commands are described then.
        command.build();
        take_minus_for_an_option(&command, &mut found);
        assert_eq!(
            found,
            Vec::<String>::new(),
            "allow_hyphen_values is missing, or allow_negative_numbers where it is not an option"
        );
    }
}
