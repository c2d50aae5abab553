//! `hq journal …`: reads a journal from its files, or from a running server.

use std::collections::BTreeMap;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use hq_client::{Session, Watch};
use hq_core::client_messages::{ClientRequest, ClientResponse, EventFilter, EventKind, FROM_NOW};
use hq_core::record::{JobProgress, Record};
use hq_journal::{JournalError, OpenError, RealDisk};
use hq_model::{IdSet, JobId, JobState, TaskId, TaskState, Timestamp};
use hq_proto::ProtoError;
use hq_server::JournalPlace;

use super::{Context, Done, unexpected};
use crate::accounts::{Accounts, Gathered};
use crate::cli::journal::{JournalCommand, ReportArgs, StreamArgs, UtilizationArgs};
use crate::error::HqError;
use crate::history::History;
use crate::jobs::only;
use crate::logging;
use crate::render::events::Events;
use crate::render::{history_page, text};
use crate::report::{JournalChecked, JournalRepaired, Sentence, Streamed, Utilization};

/// What to do when there is no journal where it was looked for.
const NAME_IT: &str = "name the directory of the journal, as in `hq journal check PATH`, or its server's with --server-dir; \
                       `hq server info` says where the journal of a running server is";

/// Runs a command about the journal.
pub(super) fn run(context: &Context, command: JournalCommand) -> Result<Done, HqError> {
    match command {
        JournalCommand::Check(args) => check(&journal_of(context, args.journal)?),
        JournalCommand::Repair(args) => repair(&journal_of(context, args.journal)?),
        JournalCommand::Export(args) => export(&journal_of(context, args.journal)?),
        JournalCommand::Stream(args) => stream(context, &args),
        JournalCommand::Replay => read_events(context, Wanted::default(), None),
        JournalCommand::Prune => order(context, ClientRequest::PruneJournal, "The journal was pruned"),
        JournalCommand::Flush => order(context, ClientRequest::FlushJournal, "The journal is on disk"),
        JournalCommand::Report(args) => report(&args),
        JournalCommand::Utilization(args) => utilization(&journal_of(context, args.journal.clone())?, &args),
        JournalCommand::Profile(args) => profile(&journal_of(context, args.journal)?, &args.dir),
    }
}

// The journal that is named, or that of the server that runs in the server directory or ran there last.
fn journal_of(context: &Context, given: Option<PathBuf>) -> Result<PathBuf, HqError> {
    if let Some(path) = given {
        return Ok(path);
    }
    let server_dir = &context.server_dir;
    match hq_server::directory::journal_place(server_dir) {
        JournalPlace::Path(path) => Ok(path),
        JournalPlace::Default => Ok(server_dir.join(hq_server::directory::JOURNAL)),
        JournalPlace::None => {
            let text = format!("the server of {} keeps no journal", server_dir.display());
            Err(HqError::failed("journal", text).hint(NAME_IT))
        }
    }
}

fn open(path: &Path) -> Result<RealDisk, HqError> {
    RealDisk::open(path).map_err(|error| {
        let text = match error.kind() {
            std::io::ErrorKind::NotFound => format!("there is no journal in {}", path.display()),
            std::io::ErrorKind::NotADirectory => {
                format!("{} is no journal: a journal is a directory", path.display())
            }
            _ => format!("the journal {} cannot be read: {error}", path.display()),
        };
        HqError::failed("journal", text).hint(NAME_IT)
    })
}

fn check(path: &Path) -> Result<Done, HqError> {
    let report = hq_journal::check(&open(path)?, None)?;
    let exit = u8::from(!report.is_whole());
    Ok(Done::ok(JournalChecked { path: path.to_owned(), report })?.exit(exit))
}

fn repair(path: &Path) -> Result<Done, HqError> {
    let repaired = hq_journal::repair(&open(path)?, None)?;
    Done::ok(JournalRepaired { path: path.to_owned(), repaired })
}

/// Each record that this release knows; those of later releases that may be skipped are.
pub(super) fn read(
    path: &Path,
    take: &mut dyn FnMut(Timestamp, Record) -> Result<(), HqError>,
) -> Result<(), HqError> {
    let disk = open(path)?;
    let mut failed = None;
    let mut apply = |_: u64, bytes: &[u8]| match hq_proto::decode_record(bytes) {
        Ok((at, record)) => take(at, record).map_err(|error| {
            let text = error.text.clone();
            failed = Some(error);
            text
        }),
        Err(ProtoError::UnknownRecord { critical: false, .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    match hq_journal::replay(&disk, None, &mut apply) {
        Ok(_) => Ok(()),
        Err(OpenError::Journal(error)) => Err(error.into()),
        Err(refused @ OpenError::Refused { .. }) => {
            Err(failed
                .unwrap_or_else(|| HqError::failed("journal", format!("{}: {refused}", path.display()))))
        }
    }
}

fn export(path: &Path) -> Result<Done, HqError> {
    let mut events = Events::to_stdout();
    read(path, &mut |at, record| events.print(at, &record))?;
    events.flush()?;
    Done::ok(Streamed)
}

fn stream(context: &Context, args: &StreamArgs) -> Result<Done, HqError> {
    let kinds: Vec<EventKind> = args.kind.iter().map(|kind| (*kind).into()).collect();
    let after = if args.from_now { FROM_NOW } else { 0 };
    let wanted = Wanted { follow: true, after, jobs: args.jobs.clone(), kinds };
    read_events(context, wanted, args.reconnect_timeout)
}

// Which events are printed.
#[derive(Default)]
struct Wanted {
    follow: bool,
    after: u64,
    jobs: Option<IdSet>,
    kinds: Vec<EventKind>,
}

impl Wanted {
    // The records that these events are made from: that a job is complete is told by those of its tasks.
    fn records(&self) -> EventFilter {
        let mut kinds = self.kinds.clone();
        if kinds.contains(&EventKind::Job) && !kinds.contains(&EventKind::Task) {
            kinds.push(EventKind::Task);
        }
        EventFilter { jobs: self.jobs.clone(), kinds }
    }
}

fn read_events(
    context: &Context,
    wanted: Wanted,
    reconnect_timeout: Option<std::time::Duration>,
) -> Result<Done, HqError> {
    let mut session = Session::connect(&context.server_dir)?;
    session.wait_for_lost_server(reconnect_timeout);
    let filter = wanted.records();
    let mut events = Events::to_stdout().of_kinds(wanted.kinds);
    let request = |after| ClientRequest::Events { follow: wanted.follow, after, filter: filter.clone() };
    let mut watch = session.watch(request(wanted.after))?;
    // Without the past, the stream begins with how jobs are once nothing of what follows is missed.
    let mut begins =
        wanted.after == FROM_NOW && (filter.kinds.is_empty() || filter.kinds.contains(&EventKind::Job));
    loop {
        match watch.next_response()? {
            ClientResponse::Events { records, next } => {
                // Servers of earlier releases know no filter.
                for (at, record) in records.iter().filter(|(_, record)| filter.takes(record)) {
                    events.print(*at, record)?;
                }
                if std::mem::take(&mut begins) {
                    begin(&mut watch, wanted.jobs.as_ref(), &mut events)?;
                }
                events.flush()?;
                watch.resume_with(request(next));
            }
            ClientResponse::Done => return Done::ok(Streamed),
            _ => return unexpected(),
        }
    }
}

// How jobs are now: those that are named, or all that have not ended. An event that comes after that may tell of a task
// whose end is in it.
fn begin(
    watch: &mut Watch<'_>,
    jobs: Option<&IdSet>,
    events: &mut Events<impl std::io::Write>,
) -> Result<(), HqError> {
    let states = match jobs {
        Some(_) => Vec::new(),
        None => vec![JobState::Running, JobState::Waiting, JobState::Opened],
    };
    let ClientResponse::JobList(mut list) = watch.request(ClientRequest::ListJobs { states })? else {
        return unexpected();
    };
    list.retain(|job| jobs.is_none_or(|jobs| jobs.contains(TaskId(job.job.0))));
    if list.is_empty() {
        return Ok(());
    }
    let all = only(list.iter().map(|job| job.job));
    let mut ids_in = |states: Vec<TaskState>| -> Result<BTreeMap<JobId, IdSet>, HqError> {
        match watch.request(ClientRequest::TaskIds { jobs: all.clone(), states })? {
            ClientResponse::TaskIds(ids) => Ok(ids.into_iter().collect()),
            _ => unexpected(),
        }
    };
    let mut ids = ids_in(Vec::new())?;
    let [mut finished, mut failed, mut canceled, mut aborted] = [
        ids_in(vec![TaskState::Finished])?,
        ids_in(vec![TaskState::Failed])?,
        ids_in(vec![TaskState::Canceled])?,
        ids_in(vec![TaskState::Aborted])?,
    ];
    let now = logging::now();
    for job in list {
        // One that was forgotten meanwhile has none.
        let Some(ids) = ids.remove(&job.job) else { continue };
        let of = |ids: &mut BTreeMap<JobId, IdSet>| ids.remove(&job.job).unwrap_or_default();
        let aborted = of(&mut aborted);
        let progress = JobProgress {
            is_open: job.is_open,
            finished: of(&mut finished),
            failed: of(&mut failed),
            canceled: of(&mut canceled),
            abort_reasons: if aborted.is_empty() { Vec::new() } else { vec![(aborted, String::new())] },
            cancel_reason: job.cancel_reason.clone(),
            ..JobProgress::default()
        };
        events.begin_with(now, &job, ids, progress)?;
    }
    Ok(())
}

fn order(context: &Context, request: ClientRequest, done: &str) -> Result<Done, HqError> {
    match context.ask(request)? {
        ClientResponse::Done => Done::ok(Sentence(done.to_owned())),
        _ => unexpected(),
    }
}

fn report(args: &ReportArgs) -> Result<Done, HqError> {
    let mut history = History::default();
    read(&args.journal, &mut |at, record| {
        history.take(at, record);
        Ok(())
    })?;
    let window = history.window(args.start_time, args.end_time);
    let cannot = |error: std::io::Error| {
        HqError::failed("io", format!("{} cannot be written: {error}", args.out.display()))
    };
    let mut out = BufWriter::new(std::fs::File::create(&args.out).map_err(cannot)?);
    history_page::write(&mut out, &history, window).map_err(cannot)?;
    Done::ok(Sentence(format!("The report was written to {}", args.out.display())))
}

fn gather(journal: &Path) -> Result<Gathered, HqError> {
    let mut gathered = Gathered::default();
    read(journal, &mut |at, record| {
        gathered.take(at, &record);
        Ok(())
    })?;
    gathered.close();
    Ok(gathered)
}

fn utilization(journal: &Path, args: &UtilizationArgs) -> Result<Done, HqError> {
    let mut gathered = gather(journal)?;
    let begin = gathered.begin();
    let from = args.start_time.map_or(begin, |from| begin.after(from));
    let to = args.end_time.map_or(gathered.latest, |to| begin.after(to)).min(gathered.latest).max(from);
    if from >= gathered.latest || args.start_time.zip(args.end_time).is_some_and(|(start, end)| start >= end)
    {
        return Err(HqError::usage(
            "nothing lies between --start-time and --end-time: both count from the first start of the server",
        ));
    }
    let accounts = Accounts::new(&mut gathered, from, to);
    Done::ok(Utilization { gathered, accounts, rows: args.by })
}

fn profile(journal: &Path, dir: &Path) -> Result<Done, HqError> {
    let gathered = gather(journal)?;
    let written = gathered.write_profile(dir).map_err(|error| {
        HqError::failed("io", format!("the profile cannot be written to {}: {error}", dir.display()))
    })?;
    Done::ok(Sentence(format!("{} written to {}", text::count(written, "attempt"), dir.display())))
}

impl From<JournalError> for HqError {
    fn from(error: JournalError) -> HqError {
        HqError::failed("journal", error.to_string()).hint(error.hint())
    }
}
