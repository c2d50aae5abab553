//! What each command does. A command talks to the server and returns a report; it prints nothing itself.

mod alloc;
mod before;
mod bench;
mod cat;
mod config;
mod dashboard;
mod deploy;
mod doc;
mod feed;
mod inside;
mod job;
mod journal;
mod make;
mod metrics;
mod mpirun;
mod notify;
mod object;
mod output_log;
mod pull;
mod run;
mod server;
mod submit;
mod task;
mod worker;
mod worker_args;
mod worker_config;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::CommandFactory;
use hq_client::error::EXIT_FAILED;
use hq_client::options::Defaults;
use hq_client::{ClientError, Session};
use hq_core::alloc::messages::{AllocRequest, AllocResponse};
use hq_core::client_messages::{
    ClientRequest, ClientResponse, JobSummary, RequestError, WorkerFilter, WorkerInfo,
};
use hq_core::request_error::with_others;
use hq_model::selector::Selector;
use hq_model::worker::Executor;
use tracing_subscriber::filter::LevelFilter;

use crate::cli::config::ConfigCommand;
use crate::cli::job::JobCommand;
use crate::cli::lazy::Lazy;
use crate::cli::pull::PullCommand;
use crate::cli::server::ServerCommand;
use crate::cli::task::TaskCommand;
use crate::cli::worker::WorkerCommand;
use crate::cli::{Cli, Command, OutputMode};
use crate::error::HqError;
use crate::failures::{FailedJob, FailureStream, Look};
use crate::jobs::{SharedSession, only};
use crate::logging;
use crate::render::{Printer, Report, failures};
use crate::report::{Plain, Waited};
use crate::waiting::RANGES_NAMED;

/// Jobs with failed tasks of which people are told why.
const NOTED_JOBS_MAX: usize = 3;

/// What is said where no worker would run what was submitted.
const NO_WORKER: &str = "No worker is connected, so nothing is running yet: start one here with `hq worker start`, \
    or add an allocation queue with `hq alloc add`";

/// What a command needs beside its own options.
pub(crate) struct Context {
    /// The server's directory.
    pub server_dir: PathBuf,
    /// Where reports go before the command is done.
    pub printer: Printer,
    /// Log in detail.
    pub debug: bool,
    /// What the configuration says of submits.
    pub defaults: Defaults,
    // Some of what was named was refused.
    is_partial: Arc<AtomicBool>,
}

/// How a command ended that did what was asked, or waited for something that failed.
pub(crate) struct Done {
    report: Box<dyn Report>,
    exit: u8,
    notes: Vec<String>,
    // What is done where the report cannot be printed, and said then.
    otherwise: Option<Box<dyn FnOnce() -> String>>,
}

impl Done {
    fn ok(report: impl Report + 'static) -> Result<Done, HqError> {
        Ok(Done { report: Box::new(report), exit: 0, notes: Vec::new(), otherwise: None })
    }

    // Takes back what nobody was told of.
    fn or_else(mut self, otherwise: impl FnOnce() -> String + 'static) -> Done {
        self.otherwise = Some(Box::new(otherwise));
        self
    }

    // Said to people after the report.
    fn noting(mut self, notes: Vec<String>) -> Done {
        self.notes = notes;
        self
    }

    fn exit(mut self, exit: u8) -> Done {
        self.exit = exit;
        self
    }
}

/// Runs a command and prints its report. The exit status is returned.
pub(crate) fn run(cli: Cli, printer: Printer) -> Result<u8, HqError> {
    let debug = cli.global.debug().map_err(HqError::usage)?;
    let server_dir = server_directory(cli.global.server_dir())?;
    printer.warn(&cli.notes);
    let context = Context { server_dir, printer, debug, defaults: cli.defaults, is_partial: Arc::default() };
    // Long-running commands meet SIGPIPE as an error of a write, which they survive.
    match cli.command {
        Command::Server(Lazy(ServerCommand::Start(args))) => return server::start(&context, args),
        Command::Worker(Lazy(WorkerCommand::Start(args))) => return worker::start(&context, *args),
        Command::Pull(Lazy(PullCommand::Relay(args))) => return pull::relay(&context, args),
        Command::Run(command) => return run::run(&context, command.options),
        Command::Make(args) => return make::make(&context, *args),
        Command::Dashboard(args) => return dashboard::dashboard(&context, &args),
        Command::Metrics(args) => return metrics::metrics(&context, &args),
        _ => {}
    }
    // Programs may end before their pipes are read, and what was taken for nobody is given back.
    let outlives_readers = match &cli.command {
        Command::Feed(_) => true,
        Command::Pull(Lazy(command)) => matches!(command, PullCommand::Steal(_) | PullCommand::Run(_)),
        _ => false,
    };
    if !outlives_readers {
        end_quietly_when_nobody_reads();
    }
    let level = (printer.mode == OutputMode::Cli).then_some(LevelFilter::WARN);
    logging::init(debug, level);
    let mut done = short(&context, cli.command)?;
    printer.print(done.report.as_mut()).map_err(|error| match done.otherwise.take() {
        Some(otherwise) => HqError { text: format!("{}; {}", error.text, otherwise()), ..error },
        None => error,
    })?;
    done.notes.iter().for_each(|note| printer.note(note));
    Ok(if context.is_partial.load(Ordering::Relaxed) { done.exit.max(EXIT_FAILED) } else { done.exit })
}

fn short(context: &Context, command: Command) -> Result<Done, HqError> {
    match command {
        Command::Submit(command) | Command::Job(Lazy(JobCommand::Submit(command))) => {
            submit::submit(context, command.options)
        }
        Command::Jobs(args) | Command::Job(Lazy(JobCommand::List(args))) => job::list(context, args),
        Command::Wait(args) | Command::Job(Lazy(JobCommand::Wait(args))) => job::wait(context, args),
        Command::Progress(args) | Command::Job(Lazy(JobCommand::Progress(args))) => {
            job::progress(context, args)
        }
        Command::Job(Lazy(JobCommand::SubmitFile(args))) => submit::submit_file(context, args),
        Command::Job(Lazy(JobCommand::Summary)) => job::summary(context),
        Command::Job(Lazy(JobCommand::Info(args))) => job::info(context, args),
        Command::Job(Lazy(JobCommand::Explain(args))) => job::explain(context, args),
        Command::Job(Lazy(JobCommand::Failures(args))) => job::failures(context, args),
        Command::Job(Lazy(JobCommand::Efficiency(args))) => job::efficiency(context, args),
        Command::Job(Lazy(JobCommand::Result(args))) => job::result(context, args),
        Command::Job(Lazy(JobCommand::Resubmit(args))) => submit::resubmit(context, args),
        Command::Job(Lazy(JobCommand::Cancel(args))) => job::cancel(context, args),
        Command::Job(Lazy(JobCommand::Forget(args))) => job::forget(context, args),
        Command::Job(Lazy(JobCommand::Cat(args))) => cat::cat(context, args),
        Command::Job(Lazy(JobCommand::TaskIds(args))) => job::task_ids(context, args),
        Command::Job(Lazy(JobCommand::Open(args))) => job::open(context, args),
        Command::Job(Lazy(JobCommand::Close(args))) => job::close(context, args),
        Command::Job(Lazy(JobCommand::Budget(args))) => job::budget(context, args),
        Command::Task(Lazy(TaskCommand::List(args))) => task::list(context, args),
        Command::Task(Lazy(TaskCommand::Info(args))) => task::info(context, args),
        Command::Task(Lazy(TaskCommand::Explain(args))) => task::explain(context, args),
        Command::Task(Lazy(TaskCommand::Tail(args))) => task::tail(context, args),
        Command::Task(Lazy(TaskCommand::Notify(args))) => notify::notify(args),
        Command::Task(Lazy(TaskCommand::Ready(args))) => inside::ready(context, args),
        Command::Task(Lazy(TaskCommand::Defer(args))) => inside::defer(context, args),
        Command::Task(Lazy(TaskCommand::Mpirun(args))) => mpirun::mpirun(context, args),
        Command::Task(Lazy(TaskCommand::Agent(args))) => mpirun::agent(args),
        Command::Task(Lazy(TaskCommand::IsUnchanged(args))) => inside::is_unchanged(&args),
        Command::Worker(Lazy(WorkerCommand::Stop(args))) => worker::stop(context, args),
        Command::Worker(Lazy(WorkerCommand::List(args))) => worker::list(context, args),
        Command::Worker(Lazy(WorkerCommand::Info(args))) => worker::info(context, args),
        Command::Worker(Lazy(WorkerCommand::Address(args))) => worker::address(context, args),
        Command::Worker(Lazy(WorkerCommand::Wait(args))) => worker::wait(context, args),
        Command::Worker(Lazy(WorkerCommand::Hwdetect(args))) => worker::hwdetect(args),
        Command::Worker(Lazy(WorkerCommand::DeploySsh(args))) => deploy::deploy(context, args),
        Command::Config(Lazy(ConfigCommand::Show(args))) => config::show(&args),
        Command::Server(Lazy(ServerCommand::Stop(args))) => server::stop(context, &args),
        Command::Server(Lazy(ServerCommand::Info(args))) => server::info(context, &args),
        Command::Server(Lazy(ServerCommand::Wait(args))) => server::wait(context, args),
        Command::Server(Lazy(ServerCommand::GenerateAccess(args))) => server::generate_access(args),
        Command::Server(Lazy(ServerCommand::DebugDump(args))) => server::debug_dump(context, &args),
        Command::Alloc(Lazy(command)) => alloc::run(context, command),
        Command::Bench(Lazy(command)) => bench::run(context, command),
        Command::Journal(Lazy(command)) => journal::run(context, command),
        Command::Object(Lazy(command)) => object::run(context, command),
        Command::Pull(Lazy(command)) => pull::run(context, command),
        Command::Feed(command) => feed::run(context, command),
        Command::OutputLog(args) => output_log::run(context, *args),
        Command::GenerateCompletion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "hq", &mut script);
            Done::ok(Plain(script))
        }
        Command::Doc { topic } => doc::doc(topic),
        Command::GenerateReference => Done::ok(Plain(crate::reference::markdown().into_bytes())),
        // Handled before, since they run for long.
        Command::Run(_)
        | Command::Make(_)
        | Command::Dashboard(_)
        | Command::Metrics(_)
        | Command::Help { .. }
        | Command::Version
        | Command::Server(Lazy(ServerCommand::Start(_)))
        | Command::Worker(Lazy(WorkerCommand::Start(_))) => {
            Err(HqError::usage("this command cannot be run here"))
        }
    }
}

fn server_directory(given: Option<PathBuf>) -> Result<PathBuf, HqError> {
    if let Some(path) = given.filter(|path| !path.as_os_str().is_empty()) {
        return Ok(std::path::absolute(path)?);
    }
    // That of `~` is another one than that of the task or job whose number is in the environment.
    if std::env::var_os("HQ_RUN").is_some_and(|run| !run.is_empty()) {
        return Ok(hq_net::NO_SERVER_DIR.into());
    }
    match std::env::var_os("HOME").filter(|home| !home.is_empty()) {
        Some(home) => Ok(PathBuf::from(home).join(".hq-server")),
        None => Err(HqError::usage("HOME is not set; give the server directory with --server-dir")),
    }
}

/// From here on a write to a pipe that nobody reads ends this process, as it does other programs.
#[expect(unsafe_code, reason = "changes how a signal is taken")]
pub(crate) fn end_quietly_when_nobody_reads() {
    // SAFETY: the default action of SIGPIPE is async-signal-safe, and no thread that still runs relies on another one.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

// Callers look for these words.
fn not_done(doing: &str, error: &RequestError) -> String {
    match error {
        RequestError::NoJob(job) => format!("{doing} job {job} failed; job not found"),
        RequestError::JobNotOpen(job) => format!("{doing} job {job} failed; job is already closed"),
        RequestError::NoWorker(worker) => format!("{doing} worker {worker} failed; worker not found"),
        RequestError::WorkerEnded(worker) => {
            format!("{doing} worker {worker} failed; worker is already stopped")
        }
        error => error.to_string(),
    }
}

// The error of a request to do something, in the same words.
fn refused_to(doing: &str, error: ClientError) -> HqError {
    let text = match &error {
        ClientError::Refused(refused) => Some(with_others(&not_done(doing, refused.one()), refused.others())),
        _ => None,
    };
    let mut error = HqError::from(error);
    error.text = text.unwrap_or(error.text);
    error
}

impl Context {
    fn connect(&self) -> Result<Session, HqError> {
        self.connect_telling(RequestError::to_string)
    }

    // To do something to several jobs or workers; `doing` begins what is said of those to which it cannot be done.
    fn connect_for(&self, doing: &'static str) -> Result<Session, HqError> {
        self.connect_telling(move |error| not_done(doing, error))
    }

    fn connect_telling(
        &self,
        words: impl Fn(&RequestError) -> String + Send + 'static,
    ) -> Result<Session, HqError> {
        let mut session = Session::connect(&self.server_dir)?;
        let refused = self.refusal();
        session.tell_refusals(move |error| refused(&words(error)));
        Ok(session)
    }

    // Says that something that was named is left out, while the rest is done.
    fn refusal(&self) -> impl Fn(&str) + use<> {
        let is_partial = Arc::clone(&self.is_partial);
        move |text| {
            is_partial.store(true, Ordering::Relaxed);
            Printer::refused(text);
        }
    }

    // What people are told of failures beside a report: why the first tasks of these jobs failed, some of those that were named.
    // Nothing goes wrong when this cannot be told.
    fn notes_of(&self, session: SharedSession, jobs: Selector, named: &Selector) -> Vec<String> {
        if self.printer.mode != OutputMode::Cli {
            return Vec::new();
        }
        let Ok(stream) = FailureStream::begin(session, jobs, Look::First) else { return Vec::new() };
        let has_trouble = |job: &FailedJob| job.failures.failed > 0 || job.failures.aborted.is_some();
        let failed = stream.map_while(Result::ok).filter(has_trouble);
        let mut notes: Vec<String> =
            failed.take(NOTED_JOBS_MAX + 1).map(|job| failures::note(&job)).collect();
        if notes.len() > NOTED_JOBS_MAX {
            notes.truncate(NOTED_JOBS_MAX);
            let named = match named {
                Selector::Ids(ids) if ids.range_count() <= RANGES_NAMED => ids.to_string(),
                _ => "all".to_owned(),
            };
            notes.push(format!(
                "Tasks of other jobs also failed: `hq job failures {named}` shows all of them"
            ));
        }
        notes
    }

    // The same of jobs that were waited for.
    fn notes_of_waited(&self, session: Session, waited: &Waited) -> Vec<String> {
        let has_trouble = |job: &&JobSummary| job.counters.failed + job.counters.aborted > 0;
        let mut notes = match only(waited.jobs.iter().filter(has_trouble).map(|job| job.job)) {
            Selector::Ids(none) if none.is_empty() => Vec::new(),
            jobs => {
                let all = only(waited.jobs.iter().map(|job| job.job));
                self.notes_of(Rc::new(RefCell::new(session)), jobs, &all)
            }
        };
        if self.printer.mode == OutputMode::Cli {
            notes.extend(waited.canceled(NOTED_JOBS_MAX));
        }
        notes
    }

    // Says that nobody is there to run tasks, where a person would wait for something that does not come.
    fn hint_of_workers(&self, session: &mut Session) {
        if !self.printer.is_read() {
            return;
        }
        let all = ClientRequest::ListWorkers { workers: Selector::All, filter: WorkerFilter::Running };
        // Relays run nothing.
        let runs = |worker: &WorkerInfo| worker.config.executor != Executor::Pull;
        let none =
            |answer| matches!(answer, Ok(ClientResponse::Workers(workers)) if !workers.iter().any(runs));
        let queues = ClientRequest::Alloc(AllocRequest::List);
        let no_queues = |answer| match answer {
            Ok(ClientResponse::Alloc(AllocResponse::Queues(queues))) => queues.is_empty(),
            _ => false,
        };
        if none(session.request(all)) && no_queues(session.request(queues)) {
            self.printer.hint(&[NO_WORKER.to_owned()]);
        }
    }

    // One request over a connection of its own.
    fn ask(&self, request: ClientRequest) -> Result<ClientResponse, HqError> {
        Ok(self.connect()?.request(request)?)
    }
}

// An answer of another kind than the request has.
pub(crate) fn unexpected<T>() -> Result<T, HqError> {
    Err(ClientError::Unexpected.into())
}

// The exit status of a wait.
fn exit_of(waited: &Waited, allow_failures: bool) -> u8 {
    if allow_failures || waited.all_finished() { 0 } else { EXIT_FAILED }
}
