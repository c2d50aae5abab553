//! A server and a worker on threads of this process, in a private directory.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::thread::JoinHandle;

use hq_core::worker_messages::WorkerEnd;
use hq_model::Submit;
use hq_net::{AccessFile, Role};
use hq_server::{Embedded, EmbeddedOptions};
use hq_worker::launcher::Launcher;
use hq_worker::{Interrupts, ServerSource, WorkerError, WorkerOptions};
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};

use super::interrupted_twice;
use super::leftovers::{Alive, PREFIX, Removal};
use super::numbering::Number;
use super::room::check_fits;
use crate::commands::worker;
use crate::error::HqError;
use crate::signals::Signals;

/// The parts, in the order in which they end when something goes wrong.
pub(super) struct Cluster {
    worker: WorkerThread,
    server: Embedded,
    dir: TempDir,
    _alive: Alive,
    removal: Removal,
    _number: Number,
}

impl Cluster {
    /// Starts a server and a worker for these tasks.
    pub(super) fn start(launcher: Launcher, submit: &Submit) -> Result<Cluster, HqError> {
        let config = worker::default_config()?;
        check_fits(&config.resources, &submit.spec.requests)?;
        let number = Number::take(submit);
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(|e| HqError::failed("io", format!("no private directory can be made: {e}")))?;
        let alive = Alive::say(dir.path())?;
        let removal = Removal::start();
        let server = Embedded::start(EmbeddedOptions {
            dir: dir.path().join("server"),
            has_journal: false,
            idle_timeout: None,
            jobs_before: number.before,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })?;
        let endpoint = server.access().endpoint(Role::Worker).map_err(WorkerError::from)?;
        let (stop, interrupts) = mpsc::unbounded_channel();
        let options = WorkerOptions {
            config,
            server: ServerSource::Endpoint(Box::new(endpoint.clone())),
            hq_binary: std::env::current_exe()?,
            work_dir: Some(dir.path().to_owned()),
            interrupts: Interrupts::Channel(interrupts),
            enforce: hq_worker::enforce::Enforce::default(),
        };
        let worker = WorkerThread::start(options, launcher, stop)?;
        Ok(Cluster { worker, server, dir, _alive: alive, removal, _number: number })
    }

    /// What a client needs to connect.
    pub(super) fn access(&self) -> &AccessFile {
        self.server.access()
    }

    /// Waits until the worker ends by itself, and says why.
    pub(super) async fn worker_ended(&mut self) -> HqError {
        // The other end is dropped when the thread dies.
        let _ = (&mut self.worker.ended).await;
        match self.worker.join() {
            Err(reason) => reason,
            Ok(()) => HqError::failed("worker", "The worker of this run has ended"),
        }
    }

    /// Asks the worker to end, and waits while it ends tasks. `signal` is the one that ended the job, if one did; with
    /// the second one tasks end at once. Gives the first one.
    ///
    /// # Errors
    /// When there was a second one.
    pub(super) async fn end_worker(
        &mut self,
        signals: &mut Signals,
        mut signal: Option<u8>,
    ) -> Result<Option<u8>, HqError> {
        self.worker.ask_to_end();
        loop {
            tokio::select! {
                // The other end is dropped when the thread dies.
                _ = &mut self.worker.ended => return Ok(signal),
                next = signals.next() => {
                    if signal.replace(next).is_some() {
                        self.worker.ask_to_end();
                        self.worker.join()?;
                        return Err(interrupted_twice(next));
                    }
                }
            }
        }
    }

    /// Ends what is left in order, and removes the directory.
    pub(super) fn stop(self) -> Result<(), HqError> {
        let Cluster { mut worker, server, dir, _alive, removal, _number } = self;
        worker.join()?;
        server.stop()?;
        removal.wait();
        Ok(dir.close()?)
    }
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
