//! `hq server …`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use hq_client::options::values;
use hq_core::server::Keep;

/// Start, show and stop the server
#[derive(Subcommand, Debug)]
pub(crate) enum ServerCommand {
    Start(StartArgs),
    Stop(StopArgs),
    Info(InfoArgs),
    Wait(WaitArgs),
    GenerateAccess(GenerateAccessArgs),
    DebugDump(DebugDumpArgs),
}

/// Stop the server and its workers
///
/// Running tasks are killed. When the server is restarted with its journal, they run again from the beginning. On a
/// terminal, a server with running tasks is not stopped unless --force is given.
#[derive(Args, Clone, Debug)]
pub(crate) struct StopArgs {
    /// Stop the server even if tasks are running; they are killed
    #[arg(long)]
    pub force: bool,
}

/// Start a server
///
/// The server stays in the foreground unless --detach is given. It stores jobs in a journal inside the server
/// directory, and resumes where the last server of that directory stopped. SIGTERM and SIGINT stop the server
/// cleanly, but not its workers and allocations, which wait for the next server; a second signal ends it immediately.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  hq server start --detach\n  hq server start --server-dir ~/project/.hq --host login1 --journal none"
)]
pub(crate) struct StartArgs {
    /// Host name by which clients and workers reach the server [default: the name of this machine]
    #[arg(long, value_name = "HOST", value_parser = NonEmptyStringValueParser::new())]
    pub host: Option<String>,
    /// Port for clients [default: any free port]
    #[arg(long, allow_hyphen_values = true, value_name = "PORT", conflicts_with = "access_file")]
    pub client_port: Option<u16>,
    /// Port for workers [default: any free port]
    #[arg(long, allow_hyphen_values = true, value_name = "PORT", conflicts_with = "access_file")]
    pub worker_port: Option<u16>,
    /// Stop workers that have been idle for this long, unless they have their own idle timeout
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub idle_timeout: Option<Duration>,
    /// Path of the journal that stores jobs, or `none` [default: inside the server directory]
    ///
    /// With `none`, all jobs are lost when the server ends.
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// When a change counts as stored [default: sync]
    #[arg(long, value_name = "WHAT")]
    pub journal_durability: Option<DurabilityArg>,
    /// How many ended jobs to keep, for how long, or both [default: 10000,30d]
    ///
    /// A number, a duration, both separated by a comma, or `all`. Other ended jobs are removed, as by `hq job
    /// forget`; their ids are never reused.
    #[arg(long, value_name = "WHAT", value_parser = keep_jobs)]
    pub keep_jobs: Option<Keep>,
    /// How long a worker may be disconnected before it is considered lost [default: 30s]
    ///
    /// Its tasks then run elsewhere. If the worker's side closed the connection, for example because it was killed,
    /// this takes at most 5 s. A worker whose connection stays open is considered lost when it is silent for twice
    /// its --heartbeat.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub worker_grace: Option<Duration>,
    /// Accepted for compatibility, without effect: acknowledged changes are already on disk
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", hide = true, value_parser = values::duration)]
    pub journal_flush_period: Option<Duration>,
    /// Accepted for compatibility, without effect: the scheduler has no solver to limit
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", hide = true, value_parser = values::duration)]
    pub scheduler_time_limit: Option<Duration>,
    /// When the server is stopped, leave its allocations in the batch system instead of canceling them
    #[arg(long)]
    pub keep_allocations: bool,
    /// Set the old journal aside and start as a new server with new keys, beginning with job 1
    #[arg(long)]
    pub fresh: bool,
    /// Use the hosts, ports and keys in this file, created by `hq server generate-access`
    #[arg(long, value_name = "PATH")]
    pub access_file: Option<PathBuf>,
    /// Accept any client, and communicate with clients unencrypted
    #[arg(long)]
    pub disable_client_authentication_and_encryption: bool,
    /// Accept any worker, and communicate with workers unencrypted
    #[arg(long)]
    pub disable_worker_authentication_and_encryption: bool,
    /// Do not transfer objects through the server when workers or clients cannot reach a worker directly
    ///
    /// A task that needs an object from an unreachable worker is then tried on another worker, and reports which one
    /// could not be reached. `hq object get` and `put` also report it, and fail.
    #[arg(long)]
    pub no_relay: bool,
    /// Run in the background and log to the server directory
    #[arg(long)]
    pub detach: bool,
    /// Exit when standard input is closed, so that this process ends together with the program that started it
    #[arg(long, conflicts_with = "detach")]
    pub lifeline: bool,
}

// `10000`, `30d`, `10000,30d` or `all`.
fn keep_jobs(text: &str) -> Result<Keep, String> {
    let mut keep = Keep { jobs: None, time: None };
    if text == "all" {
        return Ok(keep);
    }
    for part in text.split(',').map(str::trim) {
        let is_given = match part.parse::<usize>() {
            Ok(jobs) => keep.jobs.replace(jobs).is_some(),
            Err(_) => {
                let time = values::duration(part).map_err(|error| {
                    format!("'{part}' is neither a number of jobs nor a duration: {error}")
                })?;
                keep.time.replace(time).is_some()
            }
        };
        if is_given {
            return Err("give one number of jobs and one duration, for example 10000,30d".into());
        }
    }
    Ok(keep)
}

/// When a change counts as kept.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DurabilityArg {
    /// When it is on disk and survives a crash of the machine
    Sync,
    /// When the operating system has it and it survives a crash of the process
    Os,
}

/// Show where and how the server runs.
#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// Also show the server directory, the directory of this run, the number of starts, the state of the journal and
    /// the clock, and which samples are kept
    #[arg(long)]
    pub verbose: bool,
    /// Also show the limits of queues, buffers and retries, which JSON output always includes
    #[arg(long)]
    pub limits: bool,
}

/// Wait until the server answers.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq server start & hq server wait --timeout 30s")]
pub(crate) struct WaitArgs {
    /// Give up after this long
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", default_value = "5m", value_parser = values::duration)]
    pub timeout: Duration,
}

/// Write an access file with new keys, for a server that is later started with --access-file.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hq server generate-access full.json --client-port 7001 --worker-port 7002 --host login1 \\
      --worker-file workers.json
  hq server start --access-file full.json")]
pub(crate) struct GenerateAccessArgs {
    /// The file for the server, with all keys
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Port for clients
    #[arg(long, allow_hyphen_values = true, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub client_port: u16,
    /// Port for workers
    #[arg(long, allow_hyphen_values = true, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub worker_port: u16,
    /// Host name by which clients and workers reach the server [default: the name of this machine]
    #[arg(long, value_name = "HOST", value_parser = NonEmptyStringValueParser::new())]
    pub host: Option<String>,
    /// Host name by which clients reach the server [default: as --host]
    #[arg(long, value_name = "HOST", value_parser = NonEmptyStringValueParser::new())]
    pub client_host: Option<String>,
    /// Host name by which workers reach the server [default: as --host]
    #[arg(long, value_name = "HOST", value_parser = NonEmptyStringValueParser::new())]
    pub worker_host: Option<String>,
    /// Also write an access file that only admits clients
    #[arg(long, value_name = "FILE")]
    pub client_file: Option<PathBuf>,
    /// Also write an access file that only admits workers
    #[arg(long, value_name = "FILE")]
    pub worker_file: Option<PathBuf>,
    /// Also write an access file that only lets programs take pulled tasks
    #[arg(long, value_name = "FILE")]
    pub pull_file: Option<PathBuf>,
    /// A bag in which these programs can create and take tasks; can be repeated [default: pull]
    #[arg(long, value_name = "NAME", requires = "pull_file", value_parser = NonEmptyStringValueParser::new())]
    pub pull_bag: Vec<String>,
    /// Overwrite existing files; anyone using the old ones is locked out
    #[arg(long)]
    pub overwrite: bool,
}

/// Write the server's state of workers and unfinished tasks to a JSON file
///
/// For bug reports. The file holds an object `tako` with `workers`, as in `hq worker list`, `worker_groups` (the
/// workers of each group) and `tasks` by job, as in `hq task list`. It contains names of nodes and directories. Tasks
/// that differ only in their ids form a single entry, with `ids` such as `1-3000` instead of `id`, and the paths of
/// the first task.
#[derive(Args, Clone, Debug)]
pub(crate) struct DebugDumpArgs {
    /// The file to write; an existing file is replaced
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
}
