//! `hq server …`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::net::ToSocketAddrs;
use std::path::Path;
use std::rc::Rc;
use std::thread;
use std::time::Instant;

use hq_client::error::{EXIT_FAILED, EXIT_NO_SERVER};
use hq_client::session::access_path;
use hq_client::{ClientError, Session, limits};
use hq_core::client_messages::{ClientRequest, ClientResponse, JobSummary, WorkerFilter};
use hq_model::selector::Selector;
use hq_model::{JobState, TaskState, counted, counted_are, duration};
use hq_net::AccessFile;
use hq_server::{Detached, Durability, GenerateAccess, JournalPlace, ServerOptions};
use serde_json::json;
use tracing::warn;
use tracing_subscriber::filter::LevelFilter;

use super::{Context, Done, job, unexpected};
use crate::cli::OutputMode;
use crate::cli::server::{
    DebugDumpArgs, DurabilityArg, GenerateAccessArgs, InfoArgs, StartArgs, StopArgs, WaitArgs,
};
use crate::config;
use crate::error::HqError;
use crate::lifeline;
use crate::logging;
use crate::render::{Printer, Report};
use crate::replaced;
use crate::report::{Changed, Nothing, Server, ServerRows, Tasks, Workers};
use crate::signals::HeldSignals;
use crate::tasks::{ServerPages, TaskStream};

/// Runs a server until it ends; in the background, until it answers.
pub(super) fn start(context: &Context, args: StartArgs) -> Result<u8, HqError> {
    let mut options = options(context, &args);
    if args.detach {
        match hq_server::detach()? {
            Detached::Started(started) => {
                describe(&context.server_dir, context.printer)?;
                // Whoever is interrupted before leaves no server behind, and is not interrupted between that and the end.
                let _held = HeldSignals::hold()?;
                started.keep()?;
                return Ok(0);
            }
            Detached::Failed { error, hint, code } => {
                return Err(HqError::failed(code, error).hint(hint));
            }
            Detached::Child(child) => options.detached = Some(child),
        }
    }
    if args.lifeline {
        lifeline::hold()?;
    }
    // What a script in quiet mode finds on standard error, it takes for a failure.
    let level = match context.printer.mode {
        OutputMode::Json | OutputMode::Quiet if !args.detach => LevelFilter::WARN,
        _ => LevelFilter::INFO,
    };
    logging::init(context.debug, Some(level));
    let running = match hq_server::start(options) {
        // The process in front has heard why, and says so.
        Err(_) if args.detach => return Ok(EXIT_FAILED),
        started => started?,
    };
    // It may be asked to end at any time, whether or not it can still answer what it is, or somebody reads that.
    if !args.detach {
        let (server_dir, printer) = (context.server_dir.clone(), context.printer);
        thread::spawn(move || match describe(&server_dir, printer) {
            Err(error) if error.exit != EXIT_NO_SERVER => {
                warn!(error.text, "the description of the server could not be printed");
            }
            _ => {}
        });
    }
    running.wait()?;
    Ok(0)
}

// Prints where the server of this node is that has just started, and warns of a name that leads nowhere from here.
fn describe(server_dir: &Path, printer: Printer) -> Result<(), HqError> {
    let access = AccessFile::load(&access_path(server_dir)).map_err(ClientError::Access)?;
    let mut session = Session::connect_to(access.on_this_node())?;
    let rows = ServerRows { directory: true, ..ServerRows::default() };
    let mut report = report(server_dir, &mut session, rows)?;
    // It runs, whether or not somebody reads that.
    if let Err(error) = printer.print(&mut report) {
        printer.warn(&[format!("the description of the server could not be printed: {}", error.text)]);
    }
    let mut hosts = vec![report.info.client_host, report.info.worker_host];
    hosts.dedup();
    hosts.retain(|host| (host.as_str(), 0).to_socket_addrs().is_err());
    let warn = |host| {
        format!(
            "the host name {host} cannot be resolved on this machine; clients and workers on other machines must be \
             able to resolve it (use --host to change it)"
        )
    };
    printer.warn(&hosts.into_iter().map(warn).collect::<Vec<_>>());
    // Whoever starts a server to begin anew would wait for what was there before, too.
    if let Ok(ClientResponse::Overview(overview)) = session.request(ClientRequest::Overview { seen: None })
        && overview.epoch.0 > 1
    {
        let left = overview.tasks.waiting + overview.tasks.running;
        if left > 0 {
            let left = counted(left, "task");
            printer.note(&format!("Resuming from the journal: {left} (use --fresh to start over)"));
        }
    }
    Ok(())
}

fn options(context: &Context, args: &StartArgs) -> ServerOptions {
    let mut options = ServerOptions::new(&context.server_dir);
    options.host = args.host.clone();
    options.client_port = args.client_port;
    options.worker_port = args.worker_port;
    options.access_file = args.access_file.clone();
    options.journal = match &args.journal {
        None => JournalPlace::Default,
        Some(path) if path.as_os_str() == "none" => JournalPlace::None,
        Some(path) => JournalPlace::Path(path.clone()),
    };
    options.durability = match args.journal_durability {
        None | Some(DurabilityArg::Sync) => Durability::Sync,
        Some(DurabilityArg::Os) => Durability::Os,
    };
    options.fresh = args.fresh;
    options.idle_timeout = args.idle_timeout;
    options.keep_allocations = args.keep_allocations;
    // Users describe batch systems there, in `managers`: a file for each.
    if let Some(directory) = config::directory() {
        options.config_dir = directory;
    }
    options.keep_jobs = args.keep_jobs.unwrap_or_default();
    options.worker_grace = args.worker_grace.unwrap_or(options.worker_grace);
    options.encrypt_clients = !args.disable_client_authentication_and_encryption;
    options.encrypt_workers = !args.disable_worker_authentication_and_encryption;
    options.relays_objects = !args.no_relay;
    options.version = env!("CARGO_PKG_VERSION").to_owned();
    options
}

pub(super) fn stop(context: &Context, args: &StopArgs) -> Result<Done, HqError> {
    let mut session = context.connect()?;
    // Scripts mean what they say.
    if !args.force && context.printer.is_read() && io::stdin().is_terminal() {
        let states = vec![JobState::Running, JobState::Opened];
        if let ClientResponse::JobList(jobs) = session.request(ClientRequest::ListJobs { states })?
            && let Some(text) = would_be_killed(&jobs)
        {
            return Err(HqError::failed("tasks-run", text).hint(
                "wait for them with `hq job wait all`, or stop the server anyway with `hq server stop \
                    --force`",
            ));
        }
    }
    // It has stopped, whatever could not be kept.
    session.tell_refusals(|error| Printer::alarm(&[error.to_string()]));
    match session.request(ClientRequest::StopServer)? {
        ClientResponse::Done => {
            let text = "The server is stopping".to_owned();
            Done::ok(Changed { text, document: json!({ "stopping": true }) })
        }
        _ => unexpected(),
    }
}

fn would_be_killed(jobs: &[JobSummary]) -> Option<String> {
    let running = jobs.iter().filter(|job| job.counters.running > 0);
    let (jobs, tasks) =
        running.fold((0_u64, 0), |(jobs, tasks), job| (jobs + 1, tasks + job.counters.running));
    let tasks = match tasks {
        0 => return None,
        tasks => counted_are(tasks, "task", "that runs", "that run"),
    };
    let jobs = counted(jobs, "job");
    Some(format!("stopping the server would kill {tasks}, of {jobs}"))
}

pub(super) fn info(context: &Context, args: &InfoArgs) -> Result<Done, HqError> {
    let rows = ServerRows { directory: args.verbose, inside: args.verbose, limits: args.limits };
    Done::ok(report(&context.server_dir, &mut context.connect()?, rows)?)
}

fn report(server_dir: &Path, session: &mut Session, rows: ServerRows) -> Result<Server, HqError> {
    match session.request(ClientRequest::ServerInfo)? {
        ClientResponse::ServerInfo(info) => {
            Ok(Server { server_dir: server_dir.to_owned(), info: *info, rows })
        }
        _ => unexpected(),
    }
}

// The access file may appear on a file system that tells no one of it, so it is looked for again and again, quickly at first.
pub(super) fn wait(context: &Context, args: WaitArgs) -> Result<Done, HqError> {
    let begin = Instant::now();
    let mut delay = limits::RECONNECT_DELAY;
    let (dir, long) = (context.server_dir.display(), duration::format(args.timeout));
    let _said =
        context.printer.say_later(format!("No server answers in {dir} yet: waiting up to {long} for one"));
    loop {
        let error = match Session::connect(&context.server_dir) {
            Ok(_) => return Done::ok(Nothing),
            Err(error) if may_come(&error) => error,
            Err(error) => return Err(error.into()),
        };
        let left = args.timeout.saturating_sub(begin.elapsed());
        if left.is_zero() {
            let waited = duration::format(args.timeout);
            let mut error = HqError::from(error);
            let dir = context.server_dir.display();
            error.text =
                format!("Timeout after {waited}: Could not connect to server at `{dir}`: {}", error.text);
            return Err(error);
        }
        std::thread::sleep(delay.min(left));
        delay = (delay * 2).min(limits::RECONNECT_DELAY_MAX);
    }
}

fn may_come(error: &ClientError) -> bool {
    matches!(error, ClientError::Access(_) | ClientError::Connect(_))
}

pub(super) fn generate_access(args: GenerateAccessArgs) -> Result<Done, HqError> {
    let GenerateAccessArgs { file, client_port, worker_port, host, client_host, worker_host, .. } = args;
    if client_port == worker_port {
        return Err(HqError::usage(format!(
            "clients and workers need different ports; both are {client_port}"
        )));
    }
    for bag in &args.pull_bag {
        hq_pull::check_bag_name(bag).map_err(|error| HqError::usage(format!("--pull-bag: {error}")))?;
    }
    let uid = hq_server::generate_access(&GenerateAccess {
        file,
        client_file: args.client_file,
        worker_file: args.worker_file,
        pull_file: args.pull_file,
        pull_bags: match args.pull_bag.is_empty() {
            true => vec![hq_pull::DEFAULT_BAG.to_owned()],
            false => args.pull_bag,
        },
        client_host: client_host.or_else(|| host.clone()),
        worker_host: worker_host.or(host),
        client_port,
        worker_port,
        overwrite: args.overwrite,
    })?;
    let text = format!("Access files of server {uid} were written");
    Done::ok(Changed { text, document: json!({ "server_uid": uid }) })
}

/// Writes workers and tasks that have not ended into a file, in the form that tools expect.
pub(super) fn debug_dump(context: &Context, args: &DebugDumpArgs) -> Result<Done, HqError> {
    let session = Rc::new(RefCell::new(context.connect()?));
    let (all, filter) = (Selector::All, WorkerFilter::Running);
    let response = session.borrow_mut().request(ClientRequest::ListWorkers { workers: all, filter })?;
    let ClientResponse::Workers(workers) = response else { return unexpected() };
    let mut groups: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for worker in &workers {
        groups.entry(worker.config.group.clone()).or_default().push(worker.worker.0);
    }
    let groups = json!(groups).to_string();
    let jobs = job::selected(&session, Selector::All)?;
    let states = vec![TaskState::Waiting, TaskState::Running];
    let tasks = TaskStream::together(ServerPages::new(session, &jobs, None, states).with_submits())?;
    let mut tasks = Tasks { jobs, verbose: false, now: tasks.now(), tasks };
    // What the server says in the middle of the file is told as it is.
    let mut lost = None;
    let written = replaced::replace(&args.path, |out| {
        let write = || -> Result<(), HqError> {
            out.write_all(br#"{"tako":{"workers":"#)?;
            Workers(workers).json(out)?;
            write!(out, r#","worker_groups":{groups},"tasks":"#)?;
            tasks.json(out)?;
            Ok(out.write_all(b"}}\n")?)
        };
        write().map_err(|error| {
            let text = io::Error::other(error.text.clone());
            lost = Some(error);
            text
        })
    });
    match (written, lost) {
        (Ok(()), _) => {
            let text = format!("Written to {}", args.path.display());
            Done::ok(Changed { text, document: json!({ "path": args.path.to_string_lossy() }) })
        }
        (Err(_), Some(error)) => Err(error),
        (Err(error), None) => {
            Err(HqError::failed("io", format!("{} cannot be written: {error}", args.path.display())))
        }
    }
}
