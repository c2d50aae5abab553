//! `hq journal …`: reads a journal from its files, or from a running server.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use hq_client::Session;
use hq_core::client_messages::{ClientRequest, ClientResponse, EventKind, FROM_NOW};
use hq_core::record::Record;
use hq_journal::{JournalError, OpenError, RealDisk};
use hq_model::{Timestamp, counted};
use hq_net::AccessError;
use hq_proto::ProtoError;
use hq_server::JournalPlace;
use serde_json::json;

use super::{Context, Done, unexpected};
use crate::accounts::{Accounts, Gathered};
use crate::cli::journal::{
    ChosenArgs, JournalCommand, ProfileFormat, ReportArgs, StreamArgs, UtilizationArgs,
};
use crate::error::HqError;
use crate::event_stream::{self, Wanted};
use crate::history::History;
use crate::render::events::{EVENT_SCHEMA, Events};
use crate::render::history_page;
use crate::replaced::replace;
use crate::report::{Changed, JournalChecked, JournalRepaired, Plain, Sentence, Streamed, Utilization};

/// What to do when there is no journal where it was looked for.
const NAME_IT: &str = "give the directory of the journal: it is `journal` in the server directory, \
    unless the server was started with --journal; `hq server info` shows that of a running server";

/// Runs a command about the journal.
pub(super) fn run(context: &Context, command: JournalCommand) -> Result<Done, HqError> {
    match command {
        JournalCommand::Check(args) => check(&journal_of(context, args.journal)?),
        JournalCommand::Repair(args) => repair(&journal_of(context, args.journal)?),
        JournalCommand::Export(args) => export(&journal_of(context, args.journal)?),
        JournalCommand::Stream(args) => stream(context, &args),
        JournalCommand::Replay(chosen) => read_events(context, wanted(&chosen), None),
        JournalCommand::Prune => order(context, ClientRequest::PruneJournal, "The journal was pruned"),
        JournalCommand::Flush => order(context, ClientRequest::FlushJournal, "The journal is on disk"),
        JournalCommand::Schema => Done::ok(Plain(EVENT_SCHEMA.into())),
        JournalCommand::Report(args) => report(&args),
        JournalCommand::Utilization(args) => utilization(&journal_of(context, args.journal.clone())?, &args),
        JournalCommand::Profile(args) => {
            profile(&journal_of(context, args.journal)?, &args.dir, &args.format)
        }
    }
}

// The journal that is named, or that of the server that runs in the server directory or ran there last.
fn journal_of(context: &Context, given: Option<PathBuf>) -> Result<PathBuf, HqError> {
    if let Some(path) = given {
        return Ok(path);
    }
    let server_dir = &context.server_dir;
    journal_in(server_dir).ok_or_else(|| {
        let text = format!("the server of {} keeps no journal", server_dir.display());
        HqError::failed("journal", text).hint(NAME_IT)
    })
}

// That of a server directory, unless its server keeps none.
fn journal_in(server_dir: &Path) -> Option<PathBuf> {
    match hq_server::directory::journal_place(server_dir) {
        JournalPlace::Path(path) => Some(path),
        JournalPlace::Default => Some(server_dir.join(hq_server::directory::JOURNAL)),
        JournalPlace::None => None,
    }
}

fn open(path: &Path) -> Result<RealDisk, HqError> {
    if hq_server::directory::is_server_dir(path) && !hq_journal::has_journal(path) {
        let text = format!("there is no journal in {}, which is a server directory", path.display());
        let hint = match journal_in(path) {
            Some(place) => format!("did you mean {}?", place.display()),
            None => NAME_IT.to_owned(),
        };
        return Err(HqError::failed("journal", text).hint(hint));
    }
    RealDisk::open(path).map_err(|error| {
        let mut hint = NAME_IT;
        let text = match error.kind() {
            std::io::ErrorKind::NotFound => format!("there is no journal in {}", path.display()),
            std::io::ErrorKind::NotADirectory => {
                format!("{} is not a journal: a journal is a directory", path.display())
            }
            kind => {
                hint = match kind {
                    std::io::ErrorKind::PermissionDenied => {
                        "only the user who runs the server can read its journal"
                    }
                    _ => "check the health of the file system",
                };
                format!("the journal {} cannot be read: {error}", path.display())
            }
        };
        HqError::failed("journal", text).hint(hint)
    })
}

fn check(path: &Path) -> Result<Done, HqError> {
    let report = hq_journal::check(&open(path)?, None)?;
    let exit = u8::from(!report.is_whole());
    let exposed = exposed(path);
    Ok(Done::ok(JournalChecked { path: path.to_owned(), report, exposed })?.exit(exit))
}

// That others could have changed it. Who only reads it does not need to be its owner.
fn exposed(path: &Path) -> Option<String> {
    match hq_net::trust::check_files(path) {
        Err(AccessError::Foreign { path, owner, own }) => Some(format!(
            "{} belongs to user {owner} and not to you (user {own}): no server of yours opens this journal",
            path.display()
        )),
        Err(AccessError::Exposed { path: file, mode, .. }) => Some(format!(
            "Other users can write to {} (mode {mode:04o}), so no server opens this journal: make sure that nobody \
             has changed it, and remove the permission with `chmod -R go-w {}`",
            file.display(),
            path.display()
        )),
        _ => None,
    }
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
    let after = if args.from_now { FROM_NOW } else { 0 };
    let wanted = Wanted { follow: true, after, ..wanted(&args.chosen) };
    read_events(context, wanted, args.reconnect_timeout)
}

fn wanted(chosen: &ChosenArgs) -> Wanted {
    let kinds: Vec<EventKind> = chosen.kind.iter().map(|kind| (*kind).into()).collect();
    Wanted { jobs: chosen.jobs.clone(), kinds, ..Wanted::default() }
}

fn read_events(
    context: &Context,
    wanted: Wanted,
    reconnect_timeout: Option<std::time::Duration>,
) -> Result<Done, HqError> {
    let mut session = Session::connect(&context.server_dir)?;
    session.wait_for_lost_server(reconnect_timeout);
    let mut events = Events::to_stdout();
    let never = std::pin::pin!(std::future::pending());
    event_stream::read(&mut session, wanted, &mut events, never, |events, _| events.flush())?;
    Done::ok(Streamed)
}

fn order(context: &Context, request: ClientRequest, done: &str) -> Result<Done, HqError> {
    match context.ask(request)? {
        ClientResponse::Done => Done::ok(Sentence(done.to_owned())),
        _ => unexpected(),
    }
}

fn report(args: &ReportArgs) -> Result<Done, HqError> {
    let mut history = History::of(args.start_time, args.end_time);
    read(&args.journal, &mut |at, record| {
        history.take(at, &record);
        Ok(())
    })?;
    let mut past = history.close().map_err(|(begin, latest)| nothing_between(begin, latest))?;
    let cannot = |error: std::io::Error| {
        HqError::failed("io", format!("{} cannot be written: {error}", args.out.display()))
    };
    match std::fs::metadata(&args.out) {
        // Into a pipe, or what is like one.
        Ok(there) if !there.is_file() => {
            let mut out = BufWriter::new(std::fs::File::create(&args.out).map_err(cannot)?);
            history_page::write(&mut out, &mut past).and_then(|()| out.flush()).map_err(cannot)?;
        }
        _ => replace(&args.out, |out| history_page::write(out, &mut past)).map_err(cannot)?,
    }
    let text = format!("The report was written to {}", args.out.display());
    Done::ok(Changed { text, document: json!({ "path": args.out.to_string_lossy() }) })
}

fn nothing_between(begin: Timestamp, latest: Timestamp) -> HqError {
    HqError::usage(format!(
        "there are no events between --start-time and --end-time: the journal covers {begin:#} to {latest:#}; both \
         options take a date and time (`2026-12-24 18:00`), or a duration since the first start of the server (`8h`)"
    ))
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
    let latest = gathered.latest;
    let from = args.start_time.map_or(begin, |from| from.of(begin).max(begin));
    let to = args.end_time.map(|to| to.of(begin));
    if from >= latest || to.is_some_and(|to| to <= from) {
        return Err(nothing_between(begin, latest));
    }
    let accounts = Accounts::new(&mut gathered, from, to.unwrap_or(latest).min(latest));
    let slurm = if args.slurm_energy { energy_of_slurm(&gathered)? } else { BTreeMap::new() };
    Done::ok(Utilization {
        gathered,
        accounts,
        rows: args.by,
        cost: args.cost,
        slurm,
        watts_per_cpu: args.watts_per_cpu,
    })
}

// The joules of the jobs in which workers ran that measured nothing.
fn energy_of_slurm(gathered: &Gathered) -> Result<BTreeMap<String, u64>, HqError> {
    let jobs = gathered.unmeasured_slurm_jobs();
    let failed = |error: hq_batch::BatchError| HqError::failed("batch", error.to_string());
    let slurm = hq_batch::Manager::find("slurm", Path::new("")).map_err(failed)?;
    slurm.energy(&jobs).map_err(failed)
}

fn profile(journal: &Path, dir: &Path, formats: &[ProfileFormat]) -> Result<Done, HqError> {
    refuse_those_of_servers(dir)?;
    let gathered = gather(journal)?;
    let written = gathered.write_profile(dir, formats).map_err(|error| {
        HqError::failed("io", format!("the profile cannot be written to {}: {error}", dir.display()))
    })?;
    let text = format!("{} written to {}", counted(written, "attempt"), dir.display());
    Done::ok(Changed { text, document: json!({ "path": dir.to_string_lossy(), "attempts": written }) })
}

// Whoever took the argument for the journal is not to have files written into it.
fn refuse_those_of_servers(dir: &Path) -> Result<(), HqError> {
    let what = if std::fs::read_dir(dir).is_err() {
        return Ok(());
    } else if hq_journal::has_journal(dir) {
        "holds a journal"
    } else if hq_server::directory::is_server_dir(dir) {
        "is a server directory"
    } else {
        return Ok(());
    };
    let text = format!("{} {what}: no profile is written there", dir.display());
    let hint = "give the output directory, and the journal with --journal, as in `hq journal profile --journal \
        JOURNAL DIR`";
    Err(HqError::usage(text).hint(hint))
}

impl From<JournalError> for HqError {
    fn from(error: JournalError) -> HqError {
        HqError::failed("journal", error.to_string()).hint(error.hint())
    }
}

#[cfg(test)]
mod tests {
    use hq_server::directory::ServerDir;

    use super::*;

    #[test]
    fn files_of_a_profile_are_not_written_where_a_server_has_its_own() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let told = |name: &str| {
            let told = refuse_those_of_servers(&dir.path().join(name));
            told.map_err(|error| error.in_one_line().replace(&format!("{}/", dir.path().display()), ""))
        };
        let hint = "give the output directory, and the journal with --journal, as in `hq journal profile --journal \
            JOURNAL DIR`";
        let refused = |what: &str| Err(format!("{what}: no profile is written there ({hint})"));
        let server = ServerDir::open(&dir.path().join("server")).expect("writable");
        assert_eq!(told("server"), Ok(()), "no server has run there");
        server.set_current(&server.new_instance().expect("writable")).expect("writable");
        std::fs::create_dir(server.journal()).expect("writable");
        assert_eq!(told("server/journal"), Ok(()), "it is empty");
        std::fs::write(server.journal().join("segment-0000000001"), "").expect("writable");
        assert_eq!(told("server"), refused("server is a server directory"));
        assert_eq!(told("server/journal"), refused("server/journal holds a journal"));
        assert_eq!([told("none"), told("server/journal/none")], [Ok(()), Ok(())]);
    }
}
