//! A client's session with a server, as Python has it.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hq_core::client_messages::{ClientRequest, ClientResponse};
use pyo3::prelude::*;

use crate::{error, waiting};

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
