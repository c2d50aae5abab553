//! `hq journal …`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use hq_client::options::values::{self, When};
use hq_core::client_messages::EventKind;
use hq_model::IdSet;

use super::alloc::{price, watts};

/// Inspect, repair and maintain the server's journal
#[derive(Subcommand, Debug)]
pub(crate) enum JournalCommand {
    Check(CheckArgs),
    Repair(RepairArgs),
    Export(ExportArgs),
    Stream(StreamArgs),
    /// Print the events in the journal of a running server, one per line, and exit
    Replay(ChosenArgs),
    /// Remove ended jobs and workers from the journal of a running server
    Prune,
    /// Write everything the running server knows to disk
    ///
    /// Only useful with `hq server start --journal-durability os`; otherwise all acknowledged changes are already on
    /// disk.
    Flush,
    /// Print the JSON Schema of events
    ///
    /// It describes the lines of `export`, `stream` and `replay`. No server is asked.
    Schema,
    Report(ReportArgs),
    Utilization(UtilizationArgs),
    Profile(ProfileArgs),
}

/// Summarize a journal and check it for damage
///
/// Does not change anything; the server may be running. Exits with 1 if something is wrong.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq journal check\n  hq journal check ~/project/.hq/journal")]
pub(crate) struct CheckArgs {
    /// The journal [default: that of the current or last server in the server directory]
    #[arg(value_name = "JOURNAL")]
    pub journal: Option<PathBuf>,
}

/// Make a damaged journal readable again
///
/// Everything up to the damage is kept; the rest is set aside in files next to the journal, and losses are reported.
/// No server may be using the journal.
#[derive(Args, Debug)]
pub(crate) struct RepairArgs {
    /// The journal [default: that of the current or last server in the server directory]
    #[arg(value_name = "JOURNAL")]
    pub journal: Option<PathBuf>,
}

/// Print the events in a journal, one JSON object per line
///
/// The server may be running or not. After a compaction, the journal holds only part of the past.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq journal export | jq 'select(.event.type == \"task-failed\")'")]
pub(crate) struct ExportArgs {
    /// The journal [default: that of the current or last server in the server directory]
    #[arg(value_name = "JOURNAL")]
    pub journal: Option<PathBuf>,
}

/// Print the events in the journal of a running server, then new events as they happen, one per line
///
/// The command ends with the server. If the server is killed and restarted, it continues where it left off.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hq journal stream
  hq journal stream --from-now --kind worker,allocation
  hq journal stream --jobs 12,15-17 | jq -c 'select(.event.type == \"task-failed\")'")]
pub(crate) struct StreamArgs {
    #[command(flatten)]
    pub chosen: ChosenArgs,
    /// Skip past events: begin with the current state of all unfinished or selected jobs, then print new events
    ///
    /// The current state is printed as `job-progress` events. Events that happen in the meantime may be printed
    /// twice, but are never missed.
    #[arg(long)]
    pub from_now: bool,
    /// How long to try to reconnect to a lost server [default: 10m]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub reconnect_timeout: Option<Duration>,
}

// Which events are printed.
#[derive(Args, Debug)]
pub(crate) struct ChosenArgs {
    /// Only events of these jobs
    #[arg(long, allow_hyphen_values = true, value_name = "IDS", value_parser = values::ids_some)]
    pub jobs: Option<IdSet>,
    /// Only events of these kinds, separated by commas [default: all]
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub kind: Vec<KindArg>,
}

/// What an event is about.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KindArg {
    /// The server itself
    Server,
    /// Jobs: created, extended, closed, completed, forgotten
    Job,
    /// Tasks
    Task,
    /// Workers
    Worker,
    /// Queues and allocations
    Allocation,
}

impl From<KindArg> for EventKind {
    fn from(kind: KindArg) -> EventKind {
        match kind {
            KindArg::Server => EventKind::Server,
            KindArg::Job => EventKind::Job,
            KindArg::Task => EventKind::Task,
            KindArg::Worker => EventKind::Worker,
            KindArg::Allocation => EventKind::Allocation,
        }
    }
}

/// Write an HTML report: a timeline of workers and tasks, waiting times, failures, the critical path
///
/// The page is self-contained and can be shared. The server may be running or not.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq journal report ~/.hq-server/journal report.html --start-time 1h --end-time 3h\n  hq journal report ~/.hq-server/journal report.html --start-time '2026-12-24 18:00'"
)]
pub(crate) struct ReportArgs {
    /// The journal
    #[arg(value_name = "JOURNAL")]
    pub journal: PathBuf,
    /// The page to write
    #[arg(value_name = "OUT.html")]
    pub out: PathBuf,
    /// Ignore everything before this: a date and time (`2026-12-24 18:00`), or a duration since the first start of
    /// the server (`8h`)
    #[arg(long, allow_hyphen_values = true, value_name = "TIME|DURATION", value_parser = values::when)]
    pub start_time: Option<When>,
    /// Ignore everything after this: as for --start-time
    #[arg(long, allow_hyphen_values = true, value_name = "TIME|DURATION", value_parser = values::when)]
    pub end_time: Option<When>,
}

/// Show how the time of workers was used: work, failures, losses, and reasons for idling
///
/// The parts add up to the total time that workers offered, for CPUs and for GPUs. The server may be running or not;
/// attempts that are running at the end of the journal count as work. Idle time from before a compaction of the
/// journal is listed separately, because a compacted journal does not record what was waiting then.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq journal utilization\n  hq journal utilization --by worker\n  hq journal utilization ~/project/.hq/journal --by job --output-mode json\n  hq journal utilization --by job --cost 0.85"
)]
pub(crate) struct UtilizationArgs {
    /// The journal [default: that of the current or last server in the server directory]
    #[arg(value_name = "JOURNAL")]
    pub journal: Option<PathBuf>,
    /// What gets a row
    #[arg(long, value_enum, default_value_t = Rows::Total, value_name = "WHAT")]
    pub by: Rows,
    /// Ignore everything before this: a date and time (`2026-12-24 18:00`), or a duration since the first start of
    /// the server (`8h`)
    #[arg(long, allow_hyphen_values = true, value_name = "TIME|DURATION", value_parser = values::when)]
    pub start_time: Option<When>,
    /// Ignore everything after this: as for --start-time
    #[arg(long, allow_hyphen_values = true, value_name = "TIME|DURATION", value_parser = values::when)]
    pub end_time: Option<When>,
    /// Show the cost, at this price per node hour
    ///
    /// Each worker counts as one node for as long as it is connected. Each use of time, and each job, gets a share of
    /// the cost equal to its share of the CPU time that all workers offered. The price can also be set in
    /// `config.toml`.
    #[arg(long, allow_hyphen_values = true, value_name = "PER_NODE_HOUR", value_parser = price)]
    pub cost: Option<f64>,
    /// Estimate the energy of workers that did not measure it, at this many watts per offered CPU
    ///
    /// Measured energy is always shown: that of workers started with `--overview-interval` on nodes where they can
    /// read a meter, RAPL, or the power of GPUs.
    #[arg(long, allow_hyphen_values = true, value_name = "WATTS", value_parser = watts)]
    pub watts_per_cpu: Option<f64>,
    /// Ask Slurm's accounting (`sacct`) for the energy of workers that measured none
    ///
    /// Slurm counts energy if the site has set up a plugin for it (`AcctGatherEnergyType`). Each worker gets the part of its job
    /// that corresponds to the time it was there.
    #[arg(long)]
    pub slurm_energy: bool,
}

/// What gets a row in a table of utilization.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// What the time was used for
    Total,
    /// Allocations of the batch system; `none` for workers that were started manually
    Allocation,
    /// Workers
    Worker,
    /// Jobs
    Job,
}

/// Export what ran where and when, for other programs
///
/// Writes `attempts.csv` (one line per attempt of a task), `trace.json` (for chrome://tracing and Perfetto) and
/// `headquarters.prof` (events of tasks and workers in the seven columns of RADICAL-Pilot) to the directory; with
/// `--format otlp`, `otlp.jsonl` (traces for OpenTelemetry). A compacted journal holds only part of the past.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq journal profile campaign\n  hq journal profile campaign --journal ~/project/.hq/journal\n  hq journal profile campaign --format otlp"
)]
pub(crate) struct ProfileArgs {
    /// Output directory, created if missing; existing files of these names are replaced
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The journal [default: that of the current or last server in the server directory]
    #[arg(long, value_name = "JOURNAL")]
    pub journal: Option<PathBuf>,
    /// Which files to write, separated by commas
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        value_delimiter = ',',
        default_value = "csv,chrome,radical"
    )]
    pub format: Vec<ProfileFormat>,
}

/// A file of a profile.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProfileFormat {
    /// `attempts.csv`: one line per attempt
    Csv,
    /// `trace.json`: for chrome://tracing and Perfetto
    Chrome,
    /// `headquarters.prof`: events in RADICAL-Pilot format
    Radical,
    /// `otlp.jsonl`: OpenTelemetry traces in JSON, for the file receiver of a collector
    Otlp,
}
