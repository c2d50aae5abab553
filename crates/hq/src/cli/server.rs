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
/// Tasks that run are killed; when the server is started again with its journal, they run again from their beginning. At a
/// terminal it is not stopped while tasks run, unless --force is given.
#[derive(Args, Clone, Debug)]
pub(crate) struct StopArgs {
    /// Kill the tasks that run
    #[arg(long)]
    pub force: bool,
}

/// Start a server
///
/// It stays in the foreground unless --detach is given.
/// It keeps jobs in a journal inside the server directory, and continues where the last server of that
/// directory ended. SIGTERM and SIGINT stop the server cleanly, but not its workers and allocations, which wait for the
/// next one; a second signal ends it at once.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  hq server start --detach\n  hq server start --server-dir ~/project/.hq --host login1 --journal none"
)]
pub(crate) struct StartArgs {
    /// Name by which clients and workers reach it [default: the name of this machine]
    #[arg(long, value_name = "HOST", value_parser = NonEmptyStringValueParser::new())]
    pub host: Option<String>,
    /// Port for clients [default: some free one]
    #[arg(long, allow_hyphen_values = true, value_name = "PORT", conflicts_with = "access_file")]
    pub client_port: Option<u16>,
    /// Port for workers [default: some free one]
    #[arg(long, allow_hyphen_values = true, value_name = "PORT", conflicts_with = "access_file")]
    pub worker_port: Option<u16>,
    /// Stop workers that had no task for this long, unless they were started with another time
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub idle_timeout: Option<Duration>,
    /// File that keeps the jobs, or `none` [default: inside the server directory]
    ///
    /// With `none`, everything is forgotten when the server ends.
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// When a change counts as kept [default: sync]
    #[arg(long, value_name = "WHAT")]
    pub journal_durability: Option<DurabilityArg>,
    /// Keep so many ended jobs, or ended ones for so long, or both [default: 10000,30d]
    ///
    /// A number, a duration, both with a comma between them, or `all`. What is beyond is forgotten, as by
    /// `hq job forget`; ids are never given again.
    #[arg(long, value_name = "WHAT", value_parser = keep_jobs)]
    pub keep_jobs: Option<Keep>,
    /// How long a worker may stay away after its connection was lost [default: 30s]
    ///
    /// Then its tasks go elsewhere; after 5 s at most where its side closed the connection, as when it is killed. One whose
    /// connection stays open is given up when it is silent for twice its --heartbeat.
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub worker_grace: Option<Duration>,
    /// Accepted for scripts: what is acknowledged is on disk at once
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", hide = true, value_parser = values::duration)]
    pub journal_flush_period: Option<Duration>,
    /// Accepted for scripts: there is no solver whose time has to be limited
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", hide = true, value_parser = values::duration)]
    pub scheduler_time_limit: Option<Duration>,
    /// Leave allocations in their batch systems when the server is stopped, instead of canceling them
    #[arg(long)]
    pub keep_allocations: bool,
    /// Put the old journal aside and begin with job 1, as a new server with new keys
    #[arg(long)]
    pub fresh: bool,
    /// Start with hosts, ports and keys of this file, made by `hq server generate-access`
    #[arg(long, value_name = "PATH")]
    pub access_file: Option<PathBuf>,
    /// Let every client in, and talk to clients in the clear
    #[arg(long)]
    pub disable_client_authentication_and_encryption: bool,
    /// Let every worker in, and talk to workers in the clear
    #[arg(long)]
    pub disable_worker_authentication_and_encryption: bool,
    /// Let no objects pass by way of the server, where workers cannot reach each other, or clients no worker
    ///
    /// A task that takes an object from a worker that its own cannot reach is then tried elsewhere, and says which could not be
    /// reached. So do `hq object get` and `put`, which fail.
    #[arg(long)]
    pub no_relay: bool,
    /// Go to the background once it runs; log into its directory
    #[arg(long)]
    pub detach: bool,
    /// End when standard input does: with the program that holds the other end of the pipe, however that ends
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
                    format!("'{part}' is neither a number of jobs nor a time to keep them for: {error}")
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
    /// When it survives the death of the machine: it is on disk
    Sync,
    /// When it survives the death of the process: the system has it
    Os,
}

/// Show where and how the server runs.
#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// Also the server directory, the directory of this start, how often it was started, how its journal and clock are, and what it keeps of
    /// samples
    #[arg(long)]
    pub verbose: bool,
    /// Also the limits of its queues, buffers and retries, which JSON always has
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

/// Write an access file with fresh keys, for a server that is started later with --access-file.
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
    /// Name by which clients and workers reach the server [default: the name of this machine]
    #[arg(long, value_name = "HOST", value_parser = NonEmptyStringValueParser::new())]
    pub host: Option<String>,
    /// Name by which clients reach it [default: as --host]
    #[arg(long, value_name = "HOST", value_parser = NonEmptyStringValueParser::new())]
    pub client_host: Option<String>,
    /// Name by which workers reach it [default: as --host]
    #[arg(long, value_name = "HOST", value_parser = NonEmptyStringValueParser::new())]
    pub worker_host: Option<String>,
    /// A second file that lets clients in, and nothing else
    #[arg(long, value_name = "FILE")]
    pub client_file: Option<PathBuf>,
    /// A second file that lets workers in, and nothing else
    #[arg(long, value_name = "FILE")]
    pub worker_file: Option<PathBuf>,
    /// A second file that lets programs take pulled tasks, and nothing else
    #[arg(long, value_name = "FILE")]
    pub pull_file: Option<PathBuf>,
    /// A bag whose tasks these may create and take; repeated [default: pull]
    #[arg(long, value_name = "NAME", requires = "pull_file", value_parser = NonEmptyStringValueParser::new())]
    pub pull_bag: Vec<String>,
    /// Write over files that exist; whoever uses those is locked out
    #[arg(long)]
    pub overwrite: bool,
}

/// Write what the server knows of workers and of tasks that have not ended into a file, as JSON
///
/// For reports of faults. The file holds an object `tako` with `workers`, as `hq worker list` tells them, `worker_groups` (the
/// workers of each) and `tasks` by job, as `hq task list` tells them: names of nodes and directories are in it. Tasks that differ
/// in nothing but their ids are one entry, with `ids` such as `1-3000` in the place of `id`, and the paths of the first of them.
#[derive(Args, Clone, Debug)]
pub(crate) struct DebugDumpArgs {
    /// The file; one that is there already is replaced
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
}
