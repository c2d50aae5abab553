//! The options of `hq make`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use hq_client::options::values;
use hq_model::resources::ResourcePool;
use hq_model::task::RetryOn;

/// Stands for all that is wanted.
pub(crate) const EVERYTHING: &str = "*";

const LOOKING: &str = "Inspecting without changes";
const WHERE: &str = "Where to run";
const TENDING: &str = "Managing existing files";
const HOW: &str = "How to run";

/// Make missing files according to rules.
///
/// RULES describes how files are made from other files, TARGETS which files are wanted in which directories; see `hq
/// doc make-files`. Without `--submit`, the server and workers run only as long as this command, on this machine or
/// on all nodes of the current batch job. Progress is determined from the files that exist, so repeating the command
/// resumes where the last run stopped. Other state is stored in `.hq-make`.
#[derive(Args, Debug)]
#[command(version, after_help = EXAMPLES)]
pub(crate) struct MakeArgs {
    /// File with the rules
    #[arg(value_name = "RULES", default_value = "rules.yaml", value_parser = NonEmptyStringValueParser::new())]
    pub rules: String,
    /// File with the targets
    #[arg(value_name = "TARGETS", default_value = "targets.yaml", value_parser = NonEmptyStringValueParser::new())]
    pub targets: String,
    /// Start only runs that can end within this many minutes
    ///
    /// The `time` of a rule is the expected length of its runs; runs of rules without `time` are started until the
    /// last moment. Running ones are not stopped. With `--submit`, the minutes count from the submission.
    #[arg(value_name = "MINUTES", allow_negative_numbers = true, value_parser = minutes)]
    pub minutes: Option<Duration>,

    /// Make only this target of TARGETS; can be repeated
    #[arg(long = "target", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub only_targets: Vec<String>,
    /// Make only this file and what it needs; can be repeated
    #[arg(long, value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    pub only: Vec<String>,
    /// Remake files even if they exist: all wanted files, those of a rule, or a single file; can be repeated
    #[arg(short = 'B', long, value_name = "RULE|FILE", num_args = 0..=1, require_equals = true, default_missing_value = EVERYTHING, value_parser = NonEmptyStringValueParser::new())]
    pub force: Vec<String>,
    /// When to remake existing files [default: exists] [env: HQ_MAKE_RERUN]
    #[arg(long, value_name = "WHEN")]
    pub rerun: Option<RerunArg>,
    /// What to start first if not everything can start at once
    #[arg(long, value_name = "HOW", default_value = "path")]
    pub order: OrderArg,
    /// Wait for missing files that no rule makes
    #[arg(long)]
    pub wait_inputs: bool,

    /// Only looking.
    #[command(flatten)]
    pub look: LookArgs,
    /// Where.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// What is there.
    #[command(flatten)]
    pub tend: TendArgs,
    /// How.
    #[command(flatten)]
    pub how: HowArgs,
}

/// What is shown instead of being done.
#[derive(Args, Debug)]
#[command(next_help_heading = LOOKING)]
#[group(id = "looking", multiple = false)]
pub(crate) struct LookArgs {
    /// Show what would be made
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Print the scripts that would be run
    #[arg(long, overrides_with = "no_test")]
    pub test: bool,
    /// The default
    #[arg(long, hide = true)]
    pub no_test: bool,
    /// Explain why files would be made or not: all wanted files, or only these
    #[arg(long, value_name = "FILE", num_args = 0.., value_parser = NonEmptyStringValueParser::new())]
    pub explain: Option<Vec<String>>,
    /// Write the graph to this file: .dot, .svg or .json
    #[arg(long, value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    pub graph: Option<String>,
    /// Print the script of one run, such as `an.7`, or `DIR/an.7` if several directories have one
    #[arg(long, value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    pub show_script: Option<String>,
    /// List all runs with their states
    #[arg(long)]
    pub list: bool,
    /// Check both files, including unused rules
    #[arg(long)]
    pub check: bool,
    /// Print nothing; exit with 1 if anything needs to be made
    #[arg(short = 'q', long)]
    pub question: bool,
    /// List the runs that failed last time, with their logs; exit with 1 if there are any
    #[arg(long)]
    pub list_failed: bool,
}

/// On which machines.
#[derive(Args, Debug)]
#[command(next_help_heading = WHERE)]
pub(crate) struct PlaceArgs {
    /// Submit the runs to the server of `--server-dir`, as one job
    #[arg(long)]
    pub submit: bool,
    /// With `--submit`: wait until the files are made, and report how each run ends
    #[arg(long, requires = "submit")]
    pub wait: bool,
    /// With `--submit`: same as `--wait`
    #[arg(long, requires = "submit")]
    pub progress: bool,
    /// Follow another `hq make` that runs in this directory
    #[arg(long, conflicts_with_all = ["submit", "looking"])]
    pub follow: bool,
    /// CPUs to use on each node [default: all that are detected]
    #[arg(long, allow_hyphen_values = true, value_name = "DEFINITION", conflicts_with = "submit", value_parser = super::worker::cpus)]
    pub cpus: Option<ResourcePool>,
    /// Another resource of each node; can be repeated
    #[arg(long = "resource", value_name = "NAME=DEFINITION", conflicts_with = "submit", value_parser = super::worker::pool)]
    pub resources: Vec<ResourcePool>,
    /// Use only this machine, even if the batch job has more nodes
    #[arg(long, conflicts_with = "submit")]
    pub here: bool,
    /// Directory for state between runs
    #[arg(long, value_name = "DIR", default_value = crate::make::HOME, value_parser = OsStringValueParser::new().try_map(values::path))]
    pub state: OsString,
}

/// Files that are there already.
#[derive(Args, Debug)]
#[command(next_help_heading = TENDING)]
pub(crate) struct TendArgs {
    /// Treat existing files as up to date, without touching them
    #[arg(long, conflicts_with_all = ["looking", "submit", "delete"])]
    pub adopt: bool,
    /// Remove files made by rules: all of them, or those of a rule or a target
    #[arg(long, value_name = "RULE|TARGET", num_args = 0..=1, require_equals = true, conflicts_with_all = ["looking", "submit"], value_parser = NonEmptyStringValueParser::new())]
    pub delete: Option<Option<String>>,
    /// Remove them without asking
    #[arg(long, requires = "delete")]
    pub yes: bool,
}

/// How runs are executed.
#[derive(Args, Debug)]
#[command(next_help_heading = HOW)]
pub(crate) struct HowArgs {
    /// Put all scripts and logs in this directory, instead of the directories of their targets
    #[arg(long, value_name = "PATH")]
    pub workdir: Option<PathBuf>,
    /// Write a detailed log to this file
    #[arg(long, value_name = "PATH")]
    pub log: Option<PathBuf>,
    /// Make what can be made even if something else cannot; this is the default once runs have started
    #[arg(short = 'k', long, conflicts_with = "fail_fast")]
    pub keep_going: bool,
    /// Start nothing more after a run has failed
    #[arg(long, conflicts_with = "max_fails")]
    pub fail_fast: bool,
    /// Start nothing more after more than N runs have failed
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::count::<u64>)]
    pub max_fails: Option<u64>,
    /// Retry failed runs up to N times, unless their rule says otherwise
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::count::<u32>)]
    pub retry: Option<u32>,
    /// Which failures to retry: exit codes, `signal`, `timeout`
    #[arg(long, value_name = "LIST", allow_hyphen_values = true, requires = "retry", value_parser = values::retry_on)]
    pub retry_on: Option<RetryOn>,
    /// How long to wait for a file to appear after its run, as on network file systems
    #[arg(long, value_name = "DURATION", default_value = "2s", allow_hyphen_values = true, value_parser = values::duration)]
    pub latency: Duration,
    /// What {mpirun} stands for: see `--launcher` of `hq submit`
    #[arg(long, value_name = "NAME", value_parser = values::launcher)]
    pub launcher: Option<String>,
    /// Do not write scripts; pass their text to the shell directly
    #[arg(long)]
    pub no_scripts: bool,
    /// What --graph draws
    #[arg(long, value_name = "WHAT", default_value = "runs", requires = "graph")]
    pub graph_of: GraphOfArg,
    /// Print a shell completion script, like `hq generate-completion`
    #[arg(long, value_name = "SHELL", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "bash")]
    pub show_completion: Option<clap_complete::Shell>,
    /// Same as --show-completion
    #[arg(long, value_name = "SHELL", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "bash")]
    pub install_completion: Option<clap_complete::Shell>,
}

/// When files are made again.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RerunArg {
    /// Never, if they exist
    Exists,
    /// When an input is newer or the script has changed
    Mtime,
    /// When the contents of an input or the script have changed
    Hash,
}

/// What starts first.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderArg {
    /// Runs with the longest path to the end of the graph
    Path,
    /// Runs that cost the most node hours, including everything that depends on them
    Cost,
}

/// What a graph shows.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphOfArg {
    /// A box for each rule
    Rules,
    /// A box for each run
    Runs,
    /// Also files
    Files,
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes = text.trim().parse::<f64>().ok().filter(|minutes| minutes.is_finite() && *minutes >= 0.0);
    let Some(minutes) = minutes else {
        return Err(format!("'{text}' is not a number of minutes, such as 110"));
    };
    Duration::try_from_secs_f64(minutes * 60.0).map_err(|_| format!("{text} minutes is too long"))
}

const EXAMPLES: &str = "\
Examples:
  Make what is missing of the targets in targets.yaml, by the rules in rules.yaml:
    hq make
  Explain why this file would be made or not:
    hq make --explain results/an_7.npy
  In a batch job of two hours, with ten minutes to spare:
    hq make rules.yaml targets.yaml 110
  On the workers and allocations of a server:
    hq make --submit --wait";
