//! `hq journal …`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use hq_client::options::values::{self, When};
use hq_core::client_messages::EventKind;
use hq_model::IdSet;

use super::alloc::{price, watts};

/// Check, read and tend the server's journal
#[derive(Subcommand, Debug)]
pub(crate) enum JournalCommand {
    Check(CheckArgs),
    Repair(RepairArgs),
    Export(ExportArgs),
    Stream(StreamArgs),
    /// Print what the journal of a running server holds, one event a line, and end
    Replay(ChosenArgs),
    /// Forget ended jobs and workers, and rewrite the journal of a running server without them
    Prune,
    /// Have everything the running server knows on disk
    ///
    /// Of use with `hq server start --journal-durability os`; else each answer has waited for the disk.
    Flush,
    Report(ReportArgs),
    Utilization(UtilizationArgs),
    Profile(ProfileArgs),
}

/// Say what is in a journal, and whether it is damaged
///
/// Nothing is changed, and the server may run. Exits with 1 when something is wrong.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq journal check\n  hq journal check ~/project/.hq/journal")]
pub(crate) struct CheckArgs {
    /// The journal [default: that of the server that runs in the server directory, or ran there last]
    #[arg(value_name = "JOURNAL")]
    pub journal: Option<PathBuf>,
}

/// Make a damaged journal readable again
///
/// Everything up to the damage is kept, everything else is put aside in files beside it, and what is lost is
/// said. No server may run on it.
#[derive(Args, Debug)]
pub(crate) struct RepairArgs {
    /// The journal [default: that of the server that runs in the server directory, or ran there last]
    #[arg(value_name = "JOURNAL")]
    pub journal: Option<PathBuf>,
}

/// Print what a journal holds, one JSON event a line
///
/// The server may run or not. After a compaction, the journal holds what is left of the past.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hq journal export | jq 'select(.event.type == \"task-failed\")'")]
pub(crate) struct ExportArgs {
    /// The journal [default: that of the server that runs in the server directory, or ran there last]
    #[arg(value_name = "JOURNAL")]
    pub journal: Option<PathBuf>,
}

/// Print what the journal of a running server holds and then what happens, one event a line
///
/// It ends with the server. When the server is killed and started again, it goes on where it was.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hq journal stream
  hq journal stream --from-now --kind worker,allocation
  hq journal stream --jobs 12,15-17 | jq -c 'select(.event.type == \"task-failed\")'")]
pub(crate) struct StreamArgs {
    #[command(flatten)]
    pub chosen: ChosenArgs,
    /// Leave out the past: begin with how each job is that has not ended, or is named, and go on with what happens
    ///
    /// That is said by `job-progress`. What happens meanwhile may be told twice, and is never left out.
    #[arg(long)]
    pub from_now: bool,
    /// How long to look for a lost server [default: 10m]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = values::duration)]
    pub reconnect_timeout: Option<Duration>,
}

// Which events are printed.
#[derive(Args, Debug)]
pub(crate) struct ChosenArgs {
    /// Only what is about these jobs
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
    /// Jobs: made, given tasks, closed, completed, forgotten
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

/// Write a page with what happened: a timeline of workers and tasks, waiting times, failures, the critical path
///
/// The page needs nothing beside it and can be sent. The server may run or not.
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
    /// Leave out what was before: a date and a time (`2026-12-24 18:00`), or how long after the first start of the server (`8h`)
    #[arg(long, allow_hyphen_values = true, value_name = "TIME|DURATION", value_parser = values::when)]
    pub start_time: Option<When>,
    /// Leave out what was after: likewise
    #[arg(long, allow_hyphen_values = true, value_name = "TIME|DURATION", value_parser = values::when)]
    pub end_time: Option<When>,
}

/// Show where the time of workers went: work, failures, losses, and why they were idle
///
/// The parts add up to what the workers offered, for CPUs and for GPUs. The server may run or not; attempts that run at the end of the
/// journal count as work. What was idle before the journal was compacted is told apart, since a compacted journal does
/// not know what waited then.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq journal utilization\n  hq journal utilization --by worker\n  hq journal utilization ~/project/.hq/journal --by job --output-mode json\n  hq journal utilization --by job --cost 0.85"
)]
pub(crate) struct UtilizationArgs {
    /// The journal [default: that of the server that runs in the server directory, or ran there last]
    #[arg(value_name = "JOURNAL")]
    pub journal: Option<PathBuf>,
    /// What gets a row
    #[arg(long, value_enum, default_value_t = Rows::Total, value_name = "WHAT")]
    pub by: Rows,
    /// Leave out what was before: a date and a time (`2026-12-24 18:00`), or how long after the first start of the server (`8h`)
    #[arg(long, allow_hyphen_values = true, value_name = "TIME|DURATION", value_parser = values::when)]
    pub start_time: Option<When>,
    /// Leave out what was after: likewise
    #[arg(long, allow_hyphen_values = true, value_name = "TIME|DURATION", value_parser = values::when)]
    pub end_time: Option<When>,
    /// Show what that cost, at this price for a node hour
    ///
    /// Each worker is a node, and costs as long as it is there. What its time was used for, and jobs, cost as much of that as their
    /// part of the CPU time that all workers offered. The price may stand in `config.toml`, too.
    #[arg(long, allow_hyphen_values = true, value_name = "PER_NODE_HOUR", value_parser = price)]
    pub cost: Option<f64>,
    /// Estimate the energy of workers that measured none, at so many watts for each CPU that they offered
    ///
    /// What workers measured is shown without this option, too: those that were started with `--overview-interval`, on nodes where
    /// they can read a meter, RAPL, or the power of GPUs.
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
    /// Allocations of the batch system; `none` are workers that were started by hand
    Allocation,
    /// Workers
    Worker,
    /// Jobs
    Job,
}

/// Write what ran where and when as files for other programs
///
/// The directory gets `attempts.csv` (one line for each attempt of a task), `trace.json` (for chrome://tracing and Perfetto) and
/// `headquarters.prof` (the events of tasks and workers in the seven columns of RADICAL-Pilot); with `--format otlp` it gets `otlp.jsonl`,
/// traces for OpenTelemetry. A compacted journal knows the past as far as it was kept.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hq journal profile campaign\n  hq journal profile campaign --journal ~/project/.hq/journal\n  hq journal profile campaign --format otlp"
)]
pub(crate) struct ProfileArgs {
    /// The directory to write to, which is made; files of these names in it are replaced
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The journal [default: that of the server that runs in the server directory, or ran there last]
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
    /// `attempts.csv`: a line for each attempt
    Csv,
    /// `trace.json`: for chrome://tracing and Perfetto
    Chrome,
    /// `headquarters.prof`: events in the columns of RADICAL-Pilot
    Radical,
    /// `otlp.jsonl`: traces as OpenTelemetry has them in JSON, for the file receiver of a collector
    Otlp,
}
