//! `hq output-log …`.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use hq_client::options::values::{self, IdsInOrder};
use hq_model::IdSet;

use super::job::Channel;

/// Print what tasks wrote into a stream (`hq submit --stream DIR`) or a log (`--log FILE`)
///
/// The files are read here, also while they are written: this machine must share the file system with the workers, for a
/// log with the server. What a restarted task printed before its last start is hidden.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq output-log out summary\n  hq output-log out cat 1 stdout --task 1-10\n  \
                  hq output-log out show --channel stderr"
)]
pub(crate) struct OutputLogArgs {
    /// The directory, or the file of a log
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Only what tasks of this server wrote; needed where several have written
    #[arg(long, value_name = "UID", value_parser = NonEmptyStringValueParser::new())]
    pub server_uid: Option<String>,
    /// What to print
    #[command(subcommand)]
    pub command: OutputLogCommand,
}

/// What to print of it.
#[derive(Subcommand, Debug)]
pub(crate) enum OutputLogCommand {
    /// Say how much there is, and of how many jobs and tasks
    Summary,
    /// Print the ids of the jobs that have written, one a line
    Jobs,
    Show(ShowArgs),
    Cat(CatArgs),
    Export(ExportArgs),
}

/// Print everything in the order in which it was written, each line with its job, task and channel
#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// Only this job
    #[arg(long, allow_hyphen_values = true, value_name = "ID", value_parser = values::count::<u32>)]
    pub job: Option<u32>,
    /// Only this output
    #[arg(long)]
    pub channel: Option<Channel>,
}

/// Print what tasks wrote, one task after the other
///
/// Tasks of which the output is not complete are refused. The job may be left out where there is only one.
#[derive(Args, Debug)]
#[command(override_usage = "hq output-log DIR cat [OPTIONS] [JOB] <stdout|stderr>")]
pub(crate) struct CatArgs {
    /// The job, and which output: stdout or stderr
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
    /// Print what there is of tasks that have not ended, too
    #[arg(long)]
    pub allow_unfinished: bool,
}

/// Print what tasks wrote as JSON: an array with the id of each task, whether it has ended, and its outputs
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// The job; may be left out where there is only one
    #[arg(allow_negative_numbers = true, value_name = "JOB", value_parser = values::count::<u32>)]
    pub job: Option<u32>,
    /// Only these tasks
    #[arg(long, visible_alias = "tasks", allow_hyphen_values = true, value_name = "IDS", value_parser = values::ids)]
    pub task: Option<IdSet>,
}
