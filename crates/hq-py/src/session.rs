//! A client's session with a server, as Python has it.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hq_core::client_messages::{ClientRequest, ClientResponse};
use pyo3::prelude::*;

use crate::{error, jobs, waiting};

/// A connection to the server of a directory. Calls of several threads wait for each other.
#[pyclass(frozen, module = "headquarters._native")]
pub(crate) struct Session {
    // The process that made it: what it forks must not use its socket.
    pid: u32,
    inner: Mutex<hq_client::Session>,
}

#[pymethods]
impl Session {
    #[new]
    fn new(python: Python<'_>, server_dir: PathBuf) -> PyResult<Session> {
        let inner = python
            .detach(|| hq_client::Session::connect(&server_dir))
            .map_err(|error| error::of_client(&error))?;
        Ok(Session { pid: std::process::id(), inner: Mutex::new(inner) })
    }

    /// Name of the server.
    #[getter]
    fn server_uid(&self, python: Python<'_>) -> PyResult<String> {
        self.with(python, |session| Ok(session.server_uid().to_owned()))
    }

    /// Where clients reach the server: host and port.
    #[getter]
    fn address(&self, python: Python<'_>) -> PyResult<String> {
        self.with(python, |session| match ask(session, ClientRequest::ServerInfo)? {
            ClientResponse::ServerInfo(info) => Ok(format!("{}:{}", info.client_host, info.client_port)),
            _ => Err(error::unexpected()),
        })
    }

    /// Waits until so many workers are connected.
    fn wait_for_workers(&self, python: Python<'_>, count: u32) -> PyResult<()> {
        self.with(python, |session| {
            let mut watch = waiting::watch(session, ClientRequest::WaitWorkers { count })?;
            match waiting::next(&mut watch)? {
                ClientResponse::Done => Ok(()),
                _ => Err(error::unexpected()),
            }
        })
    }

    /// Submits tasks: JSON in the words of job files, and packed functions for those that it names. Gives the job and what the user should know.
    /// What is broadcast goes to all of them.
    #[pyo3(signature = (tasks, submit_dir, job=None, calls=Vec::new(), broadcasts=Vec::new()))]
    fn submit(
        &self,
        python: Python<'_>,
        tasks: &str,
        submit_dir: PathBuf,
        job: Option<u32>,
        calls: Vec<jobs::Call>,
        broadcasts: Vec<String>,
    ) -> PyResult<(u32, Vec<String>)> {
        let submit_dir = submit_dir.as_os_str().as_bytes();
        self.with(python, |session| jobs::submit(session, tasks, submit_dir, (job, calls, broadcasts)))
    }

    /// Waits until jobs have ended; `tell` hears of what changes. Gives those with tasks that did not finish.
    #[pyo3(signature = (jobs, tell=None, until_closed=false))]
    fn wait(
        &self,
        python: Python<'_>,
        jobs: Vec<u32>,
        tell: Option<Py<PyAny>>,
        until_closed: bool,
    ) -> PyResult<Vec<u32>> {
        self.with(python, |session| jobs::wait(session, &jobs, until_closed, tell.as_ref()))
    }

    /// All jobs.
    fn jobs(&self, python: Python<'_>) -> PyResult<Vec<jobs::Job>> {
        self.with(python, jobs::list)
    }

    /// One job.
    fn job(&self, python: Python<'_>, job: u32) -> PyResult<jobs::Job> {
        self.with(python, |session| jobs::info(session, job))
    }

    /// Tasks of a job, in one of these states or in any.
    #[pyo3(signature = (job, states=Vec::new()))]
    fn tasks(&self, python: Python<'_>, job: u32, states: Vec<String>) -> PyResult<Vec<jobs::Task>> {
        self.with(python, |session| jobs::tasks(session, job, &states))
    }

    /// What finished tasks have left.
    fn results(&self, python: Python<'_>, job: u32, tasks: Vec<u32>) -> PyResult<Vec<(u32, Vec<u8>)>> {
        self.with(python, |session| jobs::results(session, job, &tasks))
    }

    /// Cancels a job, or tasks of it.
    #[pyo3(signature = (job, tasks=None, reason=None))]
    fn cancel(
        &self,
        python: Python<'_>,
        job: u32,
        tasks: Option<Vec<u32>>,
        reason: Option<String>,
    ) -> PyResult<u64> {
        self.with(python, |session| jobs::cancel(session, job, tasks, reason))
    }

    /// Drops an ended job.
    fn forget(&self, python: Python<'_>, job: u32) -> PyResult<bool> {
        self.with(python, |session| jobs::forget(session, job))
    }

    /// Makes an open job, of options in JSON.
    fn open_job(&self, python: Python<'_>, options: &str) -> PyResult<u32> {
        self.with(python, |session| jobs::open(session, options))
    }

    /// Closes an open job.
    fn close_job(&self, python: Python<'_>, job: u32) -> PyResult<()> {
        self.with(python, |session| jobs::close(session, job))
    }

    /// The workers that are connected, or all.
    #[pyo3(signature = (with_ended=false))]
    fn workers(&self, python: Python<'_>, with_ended: bool) -> PyResult<Vec<jobs::Worker>> {
        self.with(python, |session| jobs::workers(session, with_ended))
    }

    /// Stops the server and its workers.
    fn stop_server(&self, python: Python<'_>) -> PyResult<()> {
        self.with(python, |session| match ask(session, ClientRequest::StopServer)? {
            ClientResponse::Done => Ok(()),
            _ => Err(error::unexpected()),
        })
    }
}

impl Session {
    /// Does something with it, without the GIL.
    pub(crate) fn with<T: Send>(
        &self,
        python: Python<'_>,
        work: impl FnOnce(&mut hq_client::Session) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        if self.pid != std::process::id() {
            return Err(error::Forked::new_err(()));
        }
        python.detach(|| {
            let mut session: MutexGuard<'_, _> = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut session)
        })
    }
}

/// Asks, and gives the answer.
pub(crate) fn ask(session: &mut hq_client::Session, request: ClientRequest) -> PyResult<ClientResponse> {
    session.request(request).map_err(|error| error::of_client(&error))
}
