//! `hq worker …`, but for deploying.

use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Parser;
use hq_client::error::EXIT_NO_SERVER;
use hq_client::{ClientError, Session};
use hq_core::client_messages::{ClientRequest, ClientResponse, LoadHistory, WorkerFilter, WorkerInfo};
use hq_model::selector::Selector;
use hq_model::worker::{Executor, WorkerConfig};
use hq_model::{IdSet, ResourcePool, TaskId, WorkerId, duration};
use hq_net::AccessError;
use hq_worker::launcher::Launcher;
use hq_worker::{Interrupts, Registered, ServerSource, WorkerError, WorkerOptions};
use tracing_subscriber::filter::LevelFilter;

use super::job::or_none;
use super::worker_config::{self, config};
use super::{Context, Done, pull, refused_to, unexpected, worker_args};
use crate::cli::OutputMode;
use crate::cli::worker::{
    AddressArgs, FilterArg, HwdetectArgs, InfoArgs, ListArgs, StartArgs, StopArgs, WaitArgs,
};
use crate::error::HqError;
use crate::lifeline;
use crate::logging;
use crate::render::Printer;
use crate::render::text::worker_state;
use crate::report::{Answer, Hardware, Nothing, WorkerDetails, Workers, WorkersStopped};

/// How long a worker waits for a server that is about to start.
const SERVER_PATIENCE: Duration = Duration::from_secs(5);
/// Time between two looks: a part of the time that has passed, within these.
const SERVER_PAUSE_MIN: Duration = Duration::from_millis(1);
const SERVER_PAUSE: Duration = Duration::from_millis(50);
const SERVER_PAUSE_LONG: Duration = Duration::from_secs(2);

/// Runs a worker until it ends.
pub(super) fn start(context: &Context, args: StartArgs) -> Result<u8, HqError> {
    let launcher = Launcher::fork()?;
    if args.lifeline {
        lifeline::hold()?;
    }
    // What a script in quiet mode finds on standard error, it takes for a failure.
    let level = match context.printer.mode {
        OutputMode::Cli => LevelFilter::INFO,
        OutputMode::Json | OutputMode::Quiet => LevelFilter::WARN,
    };
    logging::init(context.debug, Some(level));
    let mut config = config(&args)?;
    let server = ServerSource::File(hq_client::access_path(&context.server_dir));
    // What a server asked for waits for it as if it had lost it: it may have been stopped meanwhile, and be started again.
    let patience = config.origin.map_or(SERVER_PATIENCE, |_| config.reconnect_timeout.max(SERVER_PATIENCE));
    let waited = await_server(context, &server, patience);
    // The time of its allocation passes all the same.
    config.time_limit = config.time_limit.map(|limit| limit.saturating_sub(waited));
    let relay = args.pull.then(|| pull::beside(context)).transpose()?;
    let sample_interval = args.shared.sample_interval;
    let (tell, registered) = mpsc::channel();
    let printer = context.printer;
    let telling = std::thread::spawn(move || show_registered(&printer, &registered));
    let options = WorkerOptions {
        sample_interval: Some(sample_interval).filter(|interval| !interval.is_zero()),
        config,
        server,
        hq_binary: std::env::current_exe()?,
        work_dir: args.work_dir,
        interrupts: Interrupts::Signals,
        enforce: args.shared.enforce,
        registered: Some(tell),
        pull_socket: relay.as_ref().map(|relay| relay.path().to_owned()),
        objects: (!args.no_object_store).then(|| {
            let spill = args.shared.object_spill;
            hq_worker::ObjectStore { spill, ..args.object_store.unwrap_or_default() }
        }),
    };
    let end = hq_worker::run(options, launcher).map_err(as_clients_say)?;
    let _ = telling.join();
    context.printer.note(&format!("The worker has ended: {}", worker_state(Some(end))));
    // Nobody asked it to end then.
    Ok(if end.is_crash() { EXIT_NO_SERVER } else { 0 })
}

// Callers look for the first words, which are the same whatever needs the server.
fn as_clients_say(error: WorkerError) -> HqError {
    let hint = error.hint();
    let said: ClientError = match error {
        WorkerError::Access(error) => error.into(),
        WorkerError::Connect { source, .. } => source.into(),
        error => return error.into(),
    };
    HqError { exit: EXIT_NO_SERVER, ..HqError::failed(said.code(), said.to_string()).hint(hint) }
}

// As `hq worker info`, once; where nobody reads that, the worker goes on.
fn show_registered(printer: &Printer, registered: &mpsc::Receiver<Registered>) {
    if let Ok(Registered { worker, config, idle_timeout }) = registered.recv()
        && printer.mode != OutputMode::Quiet
    {
        let worker = WorkerInfo { idle_timeout, ..WorkerInfo::new(worker, config, logging::now()) };
        let _ = printer
            .print(&mut WorkerDetails { workers: vec![worker], histories: vec![LoadHistory::default()] });
    }
}

// A server that was started a moment ago, by the line before in a script, has no access file yet, or one of the time before.
// What is wrong after that, the worker says.
fn await_server(context: &Context, server: &ServerSource, patience: Duration) -> Duration {
    let begin = Instant::now();
    let mut is_said = false;
    while !is_there(server) && begin.elapsed() < patience {
        if !is_said {
            is_said = true;
            // One that has been there may come back: the worker tries that for a while longer, and says how often.
            let is_known = !matches!(server.endpoint(), Err(AccessError::Missing { .. }));
            let is_longer = is_known && patience == SERVER_PATIENCE;
            let long =
                if is_longer { String::new() } else { format!(" up to {}", duration::format(patience)) };
            let dir = context.server_dir.display();
            context.printer.note(&format!("No server answers in {dir} yet: waiting{long} for one"));
        }
        let is_short = begin.elapsed() < SERVER_PATIENCE;
        let pause = (begin.elapsed() / 8).clamp(SERVER_PAUSE_MIN, SERVER_PAUSE);
        std::thread::sleep(if is_short { pause } else { SERVER_PAUSE_LONG });
    }
    if is_said { begin.elapsed() } else { Duration::ZERO }
}

// Only what gets better by waiting counts as absence.
fn is_there(server: &ServerSource) -> bool {
    let endpoint = match server.endpoint() {
        Ok(endpoint) => endpoint,
        Err(AccessError::Missing { .. }) => return false,
        Err(_) => return true,
    };
    match (endpoint.host.as_str(), endpoint.port).to_socket_addrs() {
        Ok(addresses) => {
            let mut answers = addresses.map(|address| TcpStream::connect_timeout(&address, SERVER_PATIENCE));
            answers.any(|answer| answer.is_ok())
        }
        Err(_) => true,
    }
}

/// How a worker without options describes itself.
pub(super) fn default_config() -> Result<WorkerConfig, HqError> {
    config_with(None, &[]).map(|(config, _)| config)
}

/// How a worker describes itself that offers these resources, and the options that make another one like it.
pub(super) fn config_with(
    cpus: Option<&ResourcePool>,
    resources: &[ResourcePool],
) -> Result<(WorkerConfig, Vec<String>), HqError> {
    #[derive(clap::Parser)]
    #[command(no_binary_name = true)]
    struct Given {
        #[command(flatten)]
        args: StartArgs,
    }
    let cpus = cpus.map(|pool| format!("--cpus={}", pool.kind));
    let others =
        resources.iter().map(|pool| format!("--resource={}={}", pool.name, worker_args::definition(pool)));
    let options: Vec<String> = cpus.into_iter().chain(others).collect();
    let given = Given::try_parse_from(&options).map_err(|e| HqError::usage(e.to_string()))?;
    Ok((config(&given.args)?, options))
}

pub(super) fn hwdetect(args: HwdetectArgs) -> Result<Done, HqError> {
    Done::ok(Hardware(worker_config::detect(!args.no_hyper_threading)))
}

pub(super) fn stop(context: &Context, args: StopArgs) -> Result<Done, HqError> {
    let StopArgs { workers, drain } = args;
    let are_all = workers == Selector::All;
    let mut session = context.connect_for("Stopping")?;
    let asked = session.request(ClientRequest::StopWorkers { workers, drain });
    match asked.map_err(|error| refused_to("Stopping", error))? {
        ClientResponse::WorkersStopped { workers, away, stopping, alone, alone_count } => {
            let relays = if are_all { relays(&mut session) } else { Vec::new() };
            Done::ok(WorkersStopped { workers, away, stopping, drain, relays, alone, alone_count })
        }
        _ => unexpected(),
    }
}

// Those that are there. Nothing goes wrong when they cannot be told.
fn relays(session: &mut Session) -> Vec<WorkerId> {
    let request = ClientRequest::ListWorkers { workers: Selector::All, filter: WorkerFilter::Running };
    let workers = match session.request(request) {
        Ok(ClientResponse::Workers(workers)) => workers,
        _ => Vec::new(),
    };
    let relays = workers.iter().filter(|worker| worker.config.executor == Executor::Pull);
    relays.map(|worker| worker.worker).collect()
}

pub(super) fn list(context: &Context, args: ListArgs) -> Result<Done, HqError> {
    let filter = match (args.all, args.filter) {
        (true, _) => WorkerFilter::All,
        (false, Some(FilterArg::Offline)) => WorkerFilter::Offline,
        (false, Some(FilterArg::Running) | None) => WorkerFilter::Running,
    };
    Done::ok(Workers(workers(context, Selector::All, filter)?))
}

/// How much of the load of a node is shown.
const HISTORY_SHOWN: Duration = Duration::from_secs(3600);

pub(super) fn info(context: &Context, args: InfoArgs) -> Result<Done, HqError> {
    let of = args.workers.clone();
    let workers = or_none(&of, workers(context, args.workers, WorkerFilter::All))?;
    let histories = workers.iter().map(|worker| history(context, worker)).collect::<Result<_, _>>()?;
    Done::ok(WorkerDetails { workers, histories })
}

// Of a worker that does not tell, and from a server that keeps none, there is nothing.
fn history(context: &Context, worker: &WorkerInfo) -> Result<LoadHistory, HqError> {
    if worker.sample.is_none() || worker.tasks.is_none() {
        return Ok(LoadHistory::default());
    }
    match context.ask(ClientRequest::Load { worker: Some(worker.worker), time: HISTORY_SHOWN })? {
        ClientResponse::Load(history) => Ok(*history),
        _ => unexpected(),
    }
}

fn workers(context: &Context, workers: Selector, filter: WorkerFilter) -> Result<Vec<WorkerInfo>, HqError> {
    match context.ask(ClientRequest::ListWorkers { workers, filter })? {
        ClientResponse::Workers(workers) => Ok(workers),
        _ => unexpected(),
    }
}

pub(super) fn address(context: &Context, args: AddressArgs) -> Result<Done, HqError> {
    let only = Selector::Ids(IdSet::single(TaskId(args.worker.0)));
    match workers(context, only, WorkerFilter::All)?.as_slice() {
        [worker] => Done::ok(Answer { name: "address", text: worker.config.hostname.clone() }),
        _ => unexpected(),
    }
}

pub(super) fn wait(context: &Context, args: WaitArgs) -> Result<Done, HqError> {
    let mut session = context.connect()?;
    context.hint_of_workers(&mut session);
    let there = ClientRequest::ListWorkers { workers: Selector::All, filter: WorkerFilter::Running };
    let there = match session.request(there)? {
        ClientResponse::Workers(all) => {
            all.iter().filter(|worker| worker.config.executor != Executor::Pull).count()
        }
        _ => return unexpected(),
    };
    let waits = format!("Connected workers: {there}; waiting for {}", args.count);
    let _said = context.printer.say_later(waits);
    match session.request(ClientRequest::WaitWorkers { count: args.count })? {
        ClientResponse::Done => Done::ok(Nothing),
        _ => unexpected(),
    }
}
