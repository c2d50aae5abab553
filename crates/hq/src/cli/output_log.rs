//! `hq output-log …`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use hq_client::options::values::{self, IdsInOrder};
use hq_model::{IdSet, JobId};

use super::job::Channel;

/// Read task output from a stream (`hq submit --stream DIR`) or a log (`--log FILE`)
///
/// The files are read on this machine, even while they are being written, so it must share a file system with the
/// workers or, for a log, with the server. Output from earlier instances of a restarted task is hidden.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq output-log out summary\n  hq output-log out cat 1 stdout --task 1-10\n  \
                  hq output-log out show --channel stderr"
)]
pub(crate) struct OutputLogArgs {
    /// The stream directory, or the log file
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Only output of tasks of this server; required if several servers have written there
    #[arg(long, value_name = "UID", value_parser = NonEmptyStringValueParser::new())]
    pub server_uid: Option<String>,
    /// What to print
    #[command(subcommand)]
    pub command: OutputLogCommand,
}

/// What to print of it.
#[derive(Subcommand, Debug)]
pub(crate) enum OutputLogCommand {
    /// Show how much output there is, and from how many jobs and tasks
    Summary,
    /// Print the ids of jobs with output, one per line
    Jobs,
    Show(ShowArgs),
    Cat(CatArgs),
    Export(ExportArgs),
}

/// Print all output in the order it was written, each line with its job, task and channel
#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// Only this job. `last`: the latest one with output
    #[arg(long, allow_hyphen_values = true, value_name = "ID")]
    pub job: Option<StreamJob>,
    /// Only this output channel
    #[arg(long)]
    pub channel: Option<Channel>,
}

/// Print the output of tasks, one task after another
///
/// Tasks with incomplete output are refused. The job can be omitted if there is only one.
#[derive(Args, Debug)]
#[command(override_usage = "hq output-log DIR cat [OPTIONS] [JOB] <stdout|stderr>")]
pub(crate) struct CatArgs {
    /// The job (`last`: the latest one with output), and the output channel: stdout or stderr
    #[arg(
        allow_negative_numbers = true,
        value_names = ["JOB", "CHANNEL"],
        num_args = 1..=2,
        required = true,
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub what: Vec<String>,
    /// Only these tasks, in this order
    #[arg(long, visible_alias = "tasks", allow_hyphen_values = true, value_name = "IDS", value_parser = values::ids_in_order)]
    pub task: Option<IdsInOrder>,
    /// Also print incomplete output of tasks that have not ended
    #[arg(long)]
    pub allow_unfinished: bool,
}

/// Print the output of tasks as JSON: an array with the id of each task, whether it has ended, and its outputs
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// The job; can be omitted if there is only one. `last`: the latest one with output
    #[arg(allow_negative_numbers = true, value_name = "JOB")]
    pub job: Option<StreamJob>,
    /// Only these tasks
    #[arg(long, visible_alias = "tasks", allow_hyphen_values = true, value_name = "IDS", value_parser = values::ids)]
    pub task: Option<IdSet>,
}

/// A job with output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum StreamJob {
    /// This one.
    Id(JobId),
    /// The latest one.
    Last,
}

impl StreamJob {
    /// Its id, if that was given.
    pub(crate) fn id(self) -> Option<JobId> {
        match self {
            StreamJob::Id(id) => Some(id),
            StreamJob::Last => None,
        }
    }
}

impl FromStr for StreamJob {
    type Err = String;

    fn from_str(text: &str) -> Result<StreamJob, String> {
        match text.trim() {
            "last" => Ok(StreamJob::Last),
            id => values::count::<u32>(id).map(|id| StreamJob::Id(JobId(id))),
        }
    }
}
