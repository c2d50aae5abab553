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

const LOOKING: &str = "Looking, without changing anything";
const WHERE: &str = "Where it runs";
const TENDING: &str = "Tending what is there";
const HOW: &str = "How it runs";

/// Make files by rules, as far as they are missing.
///
/// RULES says how files are made from others, TARGETS which files are wanted in which directories; `hq doc make-files` describes
/// both. Without `--submit`, server and workers live as long as this command, on this machine or on all nodes of the batch
/// job that it is in. What is done is seen by the files that are there, so the same command again goes on where the last one
/// stopped. What it has to remember is in `.hq-make`.
#[derive(Args, Debug)]
#[command(version, after_help = EXAMPLES)]
pub(crate) struct MakeArgs {
    /// The rules
    #[arg(value_name = "RULES", default_value = "rules.yaml", value_parser = NonEmptyStringValueParser::new())]
    pub rules: String,
    /// The targets
    #[arg(value_name = "TARGETS", default_value = "targets.yaml", value_parser = NonEmptyStringValueParser::new())]
    pub targets: String,
    /// Start nothing that cannot end within so many minutes
    ///
    /// The `time` of a rule says how long its runs take; rules without it are started until the last moment. What runs is
    /// left alone. With `--submit` the minutes begin with the submit.
    #[arg(value_name = "MINUTES", allow_negative_numbers = true, value_parser = minutes)]
    pub minutes: Option<Duration>,

    /// Only this target of TARGETS; may be repeated
    #[arg(long = "target", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub only_targets: Vec<String>,
    /// Only this file and what it needs; may be repeated
    #[arg(long, value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    pub only: Vec<String>,
    /// Make everything that is wanted, or only what this rule makes or this file, though it is there; may be repeated
    #[arg(short = 'B', long, value_name = "RULE|FILE", num_args = 0..=1, require_equals = true, default_missing_value = EVERYTHING, value_parser = NonEmptyStringValueParser::new())]
    pub force: Vec<String>,
    /// When files that are there are made again [default: exists] [env: HQ_MAKE_RERUN]
    #[arg(long, value_name = "WHEN")]
    pub rerun: Option<RerunArg>,
    /// What starts first where not all can start
    #[arg(long, value_name = "HOW", default_value = "path")]
    pub order: OrderArg,
    /// Files that are missing, and that no rule makes, are waited for
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
    /// Say what would be made
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Print the scripts that would be run
    #[arg(long, overrides_with = "no_test")]
    pub test: bool,
    /// What holds anyway
    #[arg(long, hide = true)]
    pub no_test: bool,
    /// Say why files are made, or are not: all that are wanted, or these
    #[arg(long, value_name = "FILE", num_args = 0.., value_parser = NonEmptyStringValueParser::new())]
    pub explain: Option<Vec<String>>,
    /// Draw the graph into this file: .dot, .svg or .json
    #[arg(long, value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    pub graph: Option<String>,
    /// Print the script of one run, such as `an.7`, or `DIR/an.7` where several directories have one
    #[arg(long, value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    pub show_script: Option<String>,
    /// List all runs with their states
    #[arg(long)]
    pub list: bool,
    /// Check both files, also rules that nobody asks for
    #[arg(long)]
    pub check: bool,
    /// Print nothing; exit with 1 if something is to be made
    #[arg(short = 'q', long)]
    pub question: bool,
    /// List the runs that failed the last time, with their logs; exit with 1 if there are any
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
    /// With `--submit`: wait until the files are made, and say how each run ends
    #[arg(long, requires = "submit")]
    pub wait: bool,
    /// With `--submit`: as `--wait`
    #[arg(long, requires = "submit")]
    pub progress: bool,
    /// Follow what another `hq make` does in this directory
    #[arg(long, conflicts_with_all = ["submit", "looking"])]
    pub follow: bool,
    /// CPUs that are used on each node [default: those found]
    #[arg(long, allow_hyphen_values = true, value_name = "DEFINITION", conflicts_with = "submit", value_parser = super::worker::cpus)]
    pub cpus: Option<ResourcePool>,
    /// Another resource that each node has; may be repeated
    #[arg(long = "resource", value_name = "NAME=DEFINITION", conflicts_with = "submit", value_parser = super::worker::pool)]
    pub resources: Vec<ResourcePool>,
    /// Use this machine alone, although the batch job has more nodes
    #[arg(long, conflicts_with = "submit")]
    pub here: bool,
    /// Where is remembered what has to be
    #[arg(long, value_name = "DIR", default_value = ".hq-make", value_parser = OsStringValueParser::new().try_map(values::path))]
    pub state: OsString,
}

/// Files that are there already.
#[derive(Args, Debug)]
#[command(next_help_heading = TENDING)]
pub(crate) struct TendArgs {
    /// Take what is there for up to date, without touching it
    #[arg(long, conflicts_with_all = ["looking", "submit", "delete"])]
    pub adopt: bool,
    /// Remove the files that rules have made: all, or those of a rule or a target
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
    /// Put all scripts and logs into this directory, instead of each into the directory of its target
    #[arg(long, value_name = "PATH")]
    pub workdir: Option<PathBuf>,
    /// Write what is done, in detail, into this file
    #[arg(long, value_name = "PATH")]
    pub log: Option<PathBuf>,
    /// Make what can be made, although something else cannot: what holds once runs have started
    #[arg(short = 'k', long, conflicts_with = "fail_fast")]
    pub keep_going: bool,
    /// Start nothing more when a run has failed
    #[arg(long, conflicts_with = "max_fails")]
    pub fail_fast: bool,
    /// Start nothing more when more than N runs have failed
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::count::<u64>)]
    pub max_fails: Option<u64>,
    /// Run what fails up to N times more, where its rule says nothing of it
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::count::<u32>)]
    pub retry: Option<u32>,
    /// Which failures are tried again: exit codes, `signal`, `timeout`
    #[arg(long, value_name = "LIST", allow_hyphen_values = true, requires = "retry", value_parser = values::retry_on)]
    pub retry_on: Option<RetryOn>,
    /// How long a file may be shown late after its run, as file systems of a network do
    #[arg(long, value_name = "DURATION", default_value = "2s", allow_hyphen_values = true, value_parser = values::duration)]
    pub latency: Duration,
    /// What {mpirun} stands for: see `--launcher` of `hq submit`
    #[arg(long, value_name = "NAME", value_parser = values::launcher)]
    pub launcher: Option<String>,
    /// Write no scripts: the text of each goes to its shell
    #[arg(long)]
    pub no_scripts: bool,
    /// What --graph draws
    #[arg(long, value_name = "WHAT", default_value = "runs", requires = "graph")]
    pub graph_of: GraphOfArg,
    /// Print a script that completes commands: as `hq generate-completion`
    #[arg(long, value_name = "SHELL", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "bash")]
    pub show_completion: Option<clap_complete::Shell>,
    /// As --show-completion
    #[arg(long, value_name = "SHELL", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "bash")]
    pub install_completion: Option<clap_complete::Shell>,
}

/// When files are made again.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RerunArg {
    /// Never: what is there is there
    Exists,
    /// When an input is newer, or the script says something else
    Mtime,
    /// When an input holds something else, or the script says something else
    Hash,
}

/// What starts first.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderArg {
    /// What has the longest way to the end of the graph before it
    Path,
    /// What costs most node hours together with all that follows from it
    Cost,
}

/// What a graph shows.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphOfArg {
    /// A box for each rule
    Rules,
    /// A box for each run
    Runs,
    /// Files, too
    Files,
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes = text.trim().parse::<f64>().ok().filter(|minutes| minutes.is_finite() && *minutes >= 0.0);
    let Some(minutes) = minutes else {
        return Err(format!("'{text}' is no number of minutes, such as 110"));
    };
    Duration::try_from_secs_f64(minutes * 60.0).map_err(|_| format!("{text} minutes are too many"))
}

const EXAMPLES: &str = "\
Examples:
  What is missing of the targets in targets.yaml, by the rules in rules.yaml:
    hq make
  Why would this file be made, or why not?
    hq make --explain results/an_7.npy
  In a batch job of two hours, with ten minutes to spare:
    hq make rules.yaml targets.yaml 110
  On the workers of a server, with its allocations:
    hq make --submit --wait";
