//! `hq run`: a server, a worker and a client in one process, for one job.
//!
//! Everything they share lies in a private directory that is removed at the end, also after SIGINT,
//! SIGTERM or SIGHUP: those cancel the job, and its end is awaited. A second one ends the tasks at once.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::thread::JoinHandle;

use hq_client::options::{Prepared, RunOptions};
use hq_client::{Session, Watch};
use hq_core::client_messages::ClientRequest;
use hq_core::worker_messages::WorkerEnd;
use hq_model::job::TaskIds;
use hq_model::request::GPUS;
use hq_model::task::Output;
use hq_model::{Amount, AmountRequest, ByteString, JobId, Request, Submit, TaskId, WorkerResources, pattern};
use hq_server::{Embedded, EmbeddedOptions};
use hq_worker::launcher::Launcher;
use hq_worker::{Interrupts, ServerSource, WorkerError, WorkerOptions};
use tempfile::TempDir;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tracing_subscriber::filter::LevelFilter;

use super::{Context, exit_of, job, submit, worker};
use crate::cli::OutputMode;
use crate::error::HqError;
use crate::logging;
use crate::progress::Progress;
use crate::report::{RunEnded, Waited};
use crate::waiting::{Follow, NotifyCommand, follow_or};

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) fn run(context: &Context, options: RunOptions) -> Result<u8, HqError> {
    let launcher = Launcher::fork()?;
    logging::init(context.debug, (context.printer.mode == OutputMode::Cli).then_some(LevelFilter::WARN));
    let Prepared { submit, wait, warnings } = submit::prepared(options.into())?;
    let on_notify = wait.on_notify.as_deref().map(NotifyCommand::parse).transpose()?;
    context.printer.warn(&warnings);
    // From here on a signal waits until there is something that can be ended in order.
    let held = HeldSignals::hold()?;
    let mut cluster = Cluster::start(launcher, &submit.spec.requests)?;
    let (mut report, signal) = cluster.execute(context, submit, on_notify, held, warnings)?;
    cluster.stop()?;
    context.printer.print(&mut report)?;
    Ok(match signal {
        // As a shell reports a program that died from it.
        Some(signal) => 128 + signal,
        None => exit_of(&report.waited, wait.allow_failures),
    })
}

// The parts, in the order in which they end when something goes wrong.
struct Cluster {
    worker: WorkerThread,
    server: Embedded,
    dir: TempDir,
}

struct WorkerThread {
    // None when it was waited for.
    thread: Option<JoinHandle<Result<WorkerEnd, WorkerError>>>,
    stop: mpsc::UnboundedSender<()>,
    // Told when the thread ends.
    ended: oneshot::Receiver<()>,
}

impl WorkerThread {
    fn start(
        options: WorkerOptions,
        launcher: Launcher,
        stop: mpsc::UnboundedSender<()>,
    ) -> std::io::Result<Self> {
        let (tell_end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("hq-worker".into()).spawn(move || {
            let end = hq_worker::run(options, launcher);
            // Nobody may listen any more.
            let _ = tell_end.send(());
            end
        })?;
        Ok(WorkerThread { thread: Some(thread), stop, ended })
    }

    fn ask_to_end(&self) {
        // One that has ended before needs no word.
        let _ = self.stop.send(());
    }

    fn join(&mut self) -> Result<(), HqError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        match thread.join() {
            Ok(end) => Ok(end.map(drop)?),
            Err(_) => Err(HqError::failed("worker", "The worker broke one of its own rules")),
        }
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Something went wrong: tasks are not waited for.
            self.ask_to_end();
            self.ask_to_end();
            let _ = self.join();
        }
    }
}

impl Cluster {
    fn start(launcher: Launcher, requests: &[Request]) -> Result<Cluster, HqError> {
        let config = worker::default_config()?;
        check_fits(&config.resources, requests)?;
        let dir = tempfile::Builder::new()
            .prefix("hq-run-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(|e| HqError::failed("io", format!("no private directory can be made: {e}")))?;
        let server = Embedded::start(EmbeddedOptions {
            dir: dir.path().join("server"),
            has_journal: false,
            idle_timeout: None,
            version: VERSION.to_owned(),
        })?;
        let endpoint = server.access().endpoint(hq_net::Role::Worker).map_err(WorkerError::from)?;
        let (stop, interrupts) = mpsc::unbounded_channel();
        let options = WorkerOptions {
            config,
            server: ServerSource::Endpoint(Box::new(endpoint.clone())),
            hq_binary: std::env::current_exe()?,
            work_dir: Some(dir.path().to_owned()),
            interrupts: Interrupts::Channel(interrupts),
        };
        let worker = WorkerThread::start(options, launcher, stop)?;
        Ok(Cluster { worker, server, dir })
    }

    // Submits and waits. Gives the signal that ended the job, if one did.
    fn execute(
        &mut self,
        context: &Context,
        submit: Submit,
        on_notify: Option<NotifyCommand>,
        held: HeldSignals,
        warnings: Vec<String>,
    ) -> Result<(RunEnded, Option<u8>), HqError> {
        let mut session = Session::connect_to(self.server.access().clone())?;
        let mut signals = session.enter(Signals::catch)?;
        held.release()?;
        let shown = Shown::new(&submit, session.server_uid());
        let (submitted, mut watch) =
            submit::send_and_watch(context, &mut session, submit, warnings, on_notify.is_some())?;
        let progress = match context.printer.mode {
            OutputMode::Cli => Progress::shown(),
            OutputMode::Json | OutputMode::Quiet => Progress::hidden(),
        };
        let worker_ended = &mut self.worker.ended;
        let mut first = None;
        let next = async || {
            tokio::select! {
                signal = signals.next() => Event::Signal(signal),
                _ = &mut *worker_ended => Event::WorkerEnded,
            }
        };
        let waited =
            follow_or(&mut watch, Follow { on_notify, progress }, next, |watch, event| match event {
                Event::Signal(signal) if first.is_none() => {
                    first = Some(signal);
                    cancel(watch, submitted.job)
                }
                Event::Signal(signal) => Err(HqError {
                    exit: 128 + signal,
                    ..HqError::failed(
                        "interrupted",
                        "Interrupted twice: the tasks were ended without waiting for them",
                    )
                }),
                Event::WorkerEnded => Err(HqError::failed("worker", "The worker of this run has ended")),
            });
        let waited = match waited {
            Ok(waited) => waited,
            Err(error) => return Err(self.reason(error)),
        };
        let failed = match waited.jobs.iter().any(|job| job.counters.failed > 0) {
            true => job::some_failed(&mut session, submitted.job)?,
            false => Vec::new(),
        };
        let outputs = shown.outputs(&waited, submitted.job);
        Ok((RunEnded { waited, outputs, failed }, first))
    }

    // Why the worker ended says more than that it did.
    fn reason(&mut self, error: HqError) -> HqError {
        let has_ended = self.worker.thread.as_ref().is_some_and(JoinHandle::is_finished);
        match has_ended.then(|| self.worker.join()) {
            Some(Err(reason)) => reason,
            _ => error,
        }
    }

    fn stop(self) -> Result<(), HqError> {
        let Cluster { mut worker, server, dir } = self;
        worker.ask_to_end();
        worker.join()?;
        server.stop()?;
        Ok(dir.close()?)
    }
}

enum Event {
    Signal(u8),
    WorkerEnded,
}

fn cancel(watch: &mut Watch<'_>, job: JobId) -> Result<(), HqError> {
    let request = ClientRequest::Cancel {
        jobs: submit::only(job),
        tasks: None,
        reason: Some("hq run was interrupted".to_owned()),
    };
    watch.request(request)?;
    Ok(())
}

// A job that can never start here would be waited for without end.
fn check_fits(offered: &WorkerResources, requests: &[Request]) -> Result<(), HqError> {
    let mut reason = None;
    for request in requests {
        match request.resources.iter().find_map(|r| missing(offered, &r.name, &r.amount)) {
            Some(text) => reason = Some(text),
            None => return Ok(()),
        }
    }
    match reason {
        Some(text) => Err(HqError::failed("no-room", text)
            .hint("ask for less, or submit to a server with workers that have it")),
        None => Ok(()),
    }
}

fn missing(offered: &WorkerResources, name: &str, amount: &AmountRequest) -> Option<String> {
    let of_any_vendor =
        |pool: &str| name == GPUS && pool.strip_prefix(GPUS).is_some_and(|rest| rest.starts_with('/'));
    let most = offered
        .pools
        .iter()
        .filter(|pool| pool.name == name || of_any_vendor(&pool.name))
        .map(|pool| pool.kind.total())
        .max()
        .unwrap_or(Amount::ZERO);
    let fits = match amount {
        AmountRequest::All => most > Amount::ZERO,
        AmountRequest::Some(amount, _) => *amount <= most,
    };
    (!fits).then(|| format!("This machine has {most} of {name}, and each task asks for {amount}"))
}

// Where outputs go, with placeholders only for what differs between tasks.
struct Shown {
    outputs: Vec<(&'static str, ByteString, bool)>,
    // Set when there is only one.
    task: Option<TaskId>,
    cwd: ByteString,
    submit_dir: ByteString,
    server_uid: String,
}

impl Shown {
    fn new(submit: &Submit, server_uid: &str) -> Shown {
        let spec = &submit.spec;
        let outputs = [("Stdout", &spec.stdout), ("Stderr", &spec.stderr)]
            .into_iter()
            .filter_map(|(channel, output)| match output {
                Output::None => None,
                Output::File { path, remove_if_finished } => {
                    Some((channel, path.clone(), *remove_if_finished))
                }
            })
            .collect();
        let task = match &submit.ids {
            TaskIds::Given(ids) if ids.len() == 1 => ids.first(),
            TaskIds::Next(1) => Some(TaskId(0)),
            TaskIds::Given(_) | TaskIds::Next(_) => None,
        };
        Shown {
            outputs,
            task,
            cwd: spec.cwd.clone(),
            submit_dir: submit.submit_dir.clone(),
            server_uid: server_uid.to_owned(),
        }
    }

    fn outputs(&self, waited: &Waited, job: JobId) -> Vec<(&'static str, String)> {
        let total: u64 = waited.jobs.iter().map(|job| job.counters.total()).sum();
        let known = |name: &str| match name {
            "JOB_ID" => Some(job.to_string().into_bytes()),
            "SUBMIT_DIR" => Some(self.submit_dir.clone()),
            "SERVER_UID" => Some(self.server_uid.clone().into_bytes()),
            "TASK_ID" => self.task.map(|task| task.to_string().into_bytes()),
            _ => None,
        };
        let cwd = join(&self.submit_dir, pattern::expand(&self.cwd, &known));
        let all_removed = waited.all_finished() && total > 0;
        self.outputs
            .iter()
            .filter(|(_, _, removed)| !(*removed && all_removed))
            .map(|(channel, path, _)| {
                let with_cwd = |name: &str| if name == "CWD" { Some(cwd.clone()) } else { known(name) };
                let path = join(&cwd, pattern::expand(path, &with_cwd));
                (*channel, String::from_utf8_lossy(&path).into_owned())
            })
            .collect()
    }
}

fn join(base: &[u8], path: ByteString) -> ByteString {
    if path.first() == Some(&b'/') {
        return path;
    }
    [base, b"/", &path].concat()
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn catch() -> std::io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
            _ = self.hangup.recv() => 1,
        }
    }
}

// SIGINT, SIGTERM and SIGHUP are held back until somebody can act on them. Threads made meanwhile never see them.
struct HeldSignals {
    before: libc::sigset_t,
}

impl HeldSignals {
    fn hold() -> std::io::Result<HeldSignals> {
        // SAFETY: both sets are initialised before they are read: one by sigemptyset, the other by pthread_sigmask.
        unsafe {
            let mut held: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut held);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&mut held, signal);
            }
            match libc::pthread_sigmask(libc::SIG_BLOCK, &held, &mut before) {
                0 => Ok(HeldSignals { before }),
                error => Err(std::io::Error::from_raw_os_error(error)),
            }
        }
    }

    fn release(self) -> std::io::Result<()> {
        // SAFETY: the set was filled by the kernel in `hold`.
        match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) } {
            0 => Ok(()),
            error => Err(std::io::Error::from_raw_os_error(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use hq_model::{Policy, resources::parse_pool};

    use super::*;

    #[test]
    fn what_cannot_fit_is_said() {
        let pools = [("cpus", "2x2"), ("mem", "sum(1000)"), ("gpus/nvidia", "[0]")];
        let pools = pools.map(|(name, text)| parse_pool(name, text).expect("a pool"));
        let offered = WorkerResources::new(pools.into(), Vec::new()).expect("resources");
        let ask = |name: &str, wholes: u64| {
            missing(&offered, name, &AmountRequest::Some(Amount::whole(wholes), Policy::Compact))
        };
        assert_eq!(ask("cpus", 4), None);
        assert_eq!(ask("gpus", 1), None);
        assert_eq!(
            ask("cpus", 5).as_deref(),
            Some("This machine has 4 of cpus, and each task asks for 5 compact")
        );
        assert!(ask("gpus", 2).is_some() && ask("x", 1).is_some());
        assert!(missing(&offered, "mem", &AmountRequest::All).is_none());
    }
}
