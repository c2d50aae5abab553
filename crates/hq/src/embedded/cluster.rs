//! A server on threads of this process, a worker on another one, and perhaps workers on other nodes.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use hq_batch::Nodes;
use hq_client::Session;
use hq_core::client_messages::ClientRequest;
use hq_core::limits::WORKER_GRACE;
use hq_core::worker_messages::WorkerEnd;
use hq_model::selector::Selector;
use hq_model::worker::WorkerConfig;
use hq_net::{AccessFile, Role};
use hq_server::{Embedded, EmbeddedOptions, Reach, ServerError};
use hq_worker::launcher::Launcher;
use hq_worker::{Interrupts, ServerSource, WorkerError, WorkerOptions};
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};

use super::leftovers::{Alive, PREFIX, PREFIX_HIDDEN, Removal};
use super::nodes::OtherNodes;
use super::state::StateDir;
use crate::error::HqError;
use crate::render::text;
use crate::signals::Signals;

/// Where a server is started.
pub(crate) struct ClusterOptions {
    /// Where it keeps its journal. Without it there is none.
    pub state: Option<StateDir>,
    /// So many numbers of jobs are given to none.
    pub jobs_before: u32,
    /// Other nodes are to reach it.
    pub is_shared: bool,
}

/// What to do for another directory than that for temporary files, and than the present one.
const TEMPORARY: &str = "set another directory with TMPDIR";
const BESIDE: &str = "run it in another directory";

/// The workers of a cluster.
pub(crate) struct Workers {
    /// What starts the tasks of the one on this machine.
    pub launcher: Launcher,
    /// What that one is.
    pub config: WorkerConfig,
    /// Where more are started; there the server is shared.
    pub nodes: Option<Nodes>,
    /// Options of those.
    pub worker_args: Vec<OsString>,
}

/// The parts, in the order in which they end when something goes wrong.
pub(crate) struct Cluster {
    others: Option<OtherNodes>,
    // None where this machine is none of the nodes, and until workers are started.
    worker: Option<WorkerThread>,
    server: Embedded,
    server_dir: PathBuf,
    // Of the server, where other nodes must see it and it does not stay.
    shared: Option<(TempDir, Alive)>,
    dir: TempDir,
    _alive: Alive,
    removal: Removal,
}

impl Cluster {
    /// Starts a server, which answers when this returns.
    pub(crate) fn start(options: ClusterOptions) -> Result<Cluster, HqError> {
        let ClusterOptions { state, jobs_before, is_shared } = options;
        let temporary = std::env::temp_dir();
        let (dir, alive) = hq_net::trust::check_base(&temporary)
            .map_err(|error| no_directory(&temporary, &error, TEMPORARY))
            .and_then(|()| private_directory(&temporary, PREFIX, TEMPORARY))?;
        let beside = is_shared.then(std::env::current_dir).transpose()?;
        let shared = match (&beside, &state) {
            (Some(beside), None) => Some(private_directory(beside, PREFIX_HIDDEN, BESIDE)?),
            _ => None,
        };
        let removal = Removal::start(beside);
        let server_dir = match (&state, &shared) {
            (Some(state), _) => state.server_dir(),
            (None, Some((shared, _))) => shared.path().join("server"),
            (None, None) => dir.path().join("server"),
        };
        let server = Embedded::start(EmbeddedOptions {
            dir: server_dir.clone(),
            has_journal: state.is_some(),
            idle_timeout: None,
            jobs_before,
            // Those of the time before went with their server.
            worker_grace: if state.is_some() { Duration::ZERO } else { WORKER_GRACE },
            reach: if is_shared { Reach::Network } else { Reach::Loopback },
            version: env!("CARGO_PKG_VERSION").to_owned(),
        });
        let server = server.map_err(|error| not_started(error, state.as_ref(), is_shared))?;
        Ok(Cluster { others: None, worker: None, server, server_dir, shared, dir, _alive: alive, removal })
    }

    /// Starts its workers.
    pub(crate) fn start_workers(&mut self, workers: Workers) -> Result<(), HqError> {
        let Workers { launcher, config, nodes, worker_args } = workers;
        if nodes.as_ref().is_none_or(|nodes| nodes.is_here) {
            self.worker = Some(WorkerThread::start(config, launcher, &self.server, self.dir.path())?);
        }
        if let Some(nodes) = nodes {
            self.others = Some(OtherNodes::start(&nodes, &self.server_dir, &worker_args)?);
        }
        Ok(())
    }

    /// What a client needs to connect.
    pub(crate) fn access(&self) -> &AccessFile {
        self.server.access()
    }

    /// Waits until the worker of this machine, or those of all others where it has none, end by themselves, and says why.
    pub(crate) async fn worker_ended(&mut self) -> HqError {
        let Some(worker) = &mut self.worker else {
            if let Some(others) = &mut self.others {
                others.have_ended().await;
            }
            return HqError::failed("worker", "The workers of this run have ended");
        };
        // The other end is dropped when the thread dies.
        let _ = (&mut worker.ended).await;
        match worker.join() {
            Err(reason) => reason,
            Ok(()) => HqError::failed("worker", "The worker of this run has ended"),
        }
    }

    /// Asks the workers to end, and waits while they end tasks. `signal` is the one that ended the job, if one did; with
    /// the second one tasks end at once. Gives the first one.
    ///
    /// # Errors
    /// When there was a second one.
    pub(crate) fn end_workers(
        &mut self,
        session: &mut Session,
        signals: &mut Signals,
        signal: Option<u8>,
    ) -> Result<Option<u8>, HqError> {
        if let Some(others) = &self.others {
            others.are_to_end();
            session.request(ClientRequest::StopWorkers { workers: Selector::All, drain: false })?;
        }
        let (worker, others) = (self.worker.as_mut(), self.others.take());
        session.wait_for(async {
            let signal = match worker {
                Some(worker) => worker.end(signals, signal).await?,
                None => signal,
            };
            if let Some(others) = others {
                others.end().await;
            }
            Ok(signal)
        })
    }

    /// As `end_workers` after a signal, but asks nothing of the server, which cannot write: it would hear of no end, so the worker
    /// of this machine has so long for its tasks. Others end with their server.
    ///
    /// # Errors
    /// When there was a second signal.
    pub(crate) fn end_without_server(
        &mut self,
        session: &mut Session,
        signals: &mut Signals,
        (signal, time): (u8, Duration),
    ) -> Result<(), HqError> {
        let Some(worker) = &mut self.worker else { return Ok(()) };
        let ended = session.wait_for(async {
            // Where the time is over, it ends at once when it is dropped.
            match tokio::time::timeout(time, worker.end(signals, Some(signal))).await {
                Ok(ended) => ended.map(drop),
                Err(_) => Ok(()),
            }
        });
        self.worker = None;
        ended
    }

    /// Ends what is left in order, and removes what is not to stay.
    pub(crate) fn stop(self) -> Result<(), HqError> {
        let Cluster { others, worker, server, server_dir: _, shared, dir, _alive, removal } = self;
        drop(others);
        if let Some(mut worker) = worker {
            worker.join()?;
        }
        server.stop()?;
        removal.wait();
        if let Some((shared, _alive)) = shared {
            shared.close()?;
        }
        Ok(dir.close()?)
    }
}

// Whoever named a directory for its state, or none at all, knows of no server and of no directory of one.
fn not_started(error: ServerError, state: Option<&StateDir>, is_shared: bool) -> HqError {
    let elsewhere = match state {
        Some(state) => state.elsewhere(),
        None if is_shared => BESIDE,
        None => TEMPORARY,
    };
    let hint = error.hint_for(elsewhere).into_owned();
    match (error, state) {
        (ServerError::Running { pid, .. }, Some(state)) => {
            let by = pid.map_or_else(|| "another run".to_owned(), |pid| format!("process {pid}"));
            HqError::failed("state-busy", format!("{} is in use by {by}", state.path().display()))
                .hint("wait for it, or use another directory")
        }
        (error @ ServerError::NoJournal { .. }, Some(state)) => HqError::from(error).hint(format!(
            "its journal is gone: remove {}, or use another directory",
            state.path().display()
        )),
        // Without a path these are about the journal of the server directory.
        (error @ ServerError::Journal { .. }, Some(state)) => {
            let journal = state.server_dir().join("journal");
            let hint = ["check", "repair"].iter().fold(hint, |hint, verb| {
                let command = format!("`hq journal {verb}`");
                hint.replace(&command, &format!("`hq journal {verb} {}`", text::path_word(&journal)))
            });
            HqError::from(error).hint(hint)
        }
        (error, _) => HqError::from(error).hint(hint),
    }
}

/// What a run says that was interrupted while it ended its tasks.
pub(crate) fn interrupted_twice(signal: u8) -> HqError {
    HqError::interrupted(signal, "Interrupted twice: the tasks were ended without waiting for them")
}

fn no_directory(place: &Path, error: &io::Error, elsewhere: &str) -> HqError {
    let text = format!("cannot create a private directory in {}: {error}", place.display());
    HqError::failed("io", text).hint(elsewhere)
}

fn private_directory(place: &Path, prefix: &str, elsewhere: &str) -> Result<(TempDir, Alive), HqError> {
    let failed = |error: io::Error| no_directory(place, &error, elsewhere);
    let made = tempfile::Builder::new()
        .prefix(prefix)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(place)
        .map_err(failed)?;
    let alive = Alive::say(made.path()).map_err(failed)?;
    Ok((made, alive))
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
        config: WorkerConfig,
        launcher: Launcher,
        server: &Embedded,
        work_dir: &Path,
    ) -> Result<Self, HqError> {
        let endpoint = server.access().endpoint(Role::Worker).map_err(WorkerError::from)?;
        let (stop, interrupts) = mpsc::unbounded_channel();
        let options = WorkerOptions {
            registered: None,
            // Nobody asks for what is sampled.
            sample_interval: None,
            config,
            server: ServerSource::Endpoint(Box::new(endpoint.clone())),
            hq_binary: std::env::current_exe()?,
            work_dir: Some(work_dir.to_owned()),
            interrupts: Interrupts::Channel(interrupts),
            enforce: hq_worker::enforce::Enforce::default(),
            pull_socket: None,
            objects: Some(hq_worker::ObjectStore::default()),
        };
        let (tell_end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("hq-worker".into()).spawn(move || {
            let end = hq_worker::run(options, launcher);
            // Nobody may listen any more.
            let _ = tell_end.send(());
            end
        })?;
        Ok(WorkerThread { thread: Some(thread), stop, ended })
    }

    async fn end(&mut self, signals: &mut Signals, mut signal: Option<u8>) -> Result<Option<u8>, HqError> {
        self.ask_to_end();
        loop {
            tokio::select! {
                // The other end is dropped when the thread dies.
                _ = &mut self.ended => return Ok(signal),
                next = signals.next() => {
                    if signal.replace(next).is_some() {
                        self.ask_to_end();
                        self.join()?;
                        return Err(interrupted_twice(next));
                    }
                }
            }
        }
    }

    fn ask_to_end(&self) {
        // One that has ended before needs no word.
        let _ = self.stop.send(());
    }

    fn join(&mut self) -> Result<(), HqError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        match thread.join() {
            Ok(end) => Ok(end.map(drop)?),
            Err(_) => Err(HqError::failed("worker", "The worker hit an internal error")),
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
