//! Waiting that can be interrupted: a handler of Python runs soon after its signal, and may raise.

use std::pin::pin;
use std::time::Duration;

use hq_client::session::{Next, Session, Watch};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use pyo3::prelude::*;
use tokio::runtime::Runtime;

use crate::error;

/// How often a blocked call looks for signals.
const SIGNALS: Duration = Duration::from_millis(100);

/// Begins to follow what a request tells.
///
/// # Errors
/// When the server is lost.
pub(crate) fn watch(session: &mut Session, request: ClientRequest) -> PyResult<Watch<'_>> {
    session.watch(request).map_err(|error| error::of_client(&error))
}

/// The next answer of a watch; without the GIL, but for looking for signals.
///
/// # Errors
/// When the server refuses or is lost, or a handler raises.
pub(crate) fn next(watch: &mut Watch<'_>) -> PyResult<ClientResponse> {
    loop {
        let pause = async { tokio::time::sleep(SIGNALS).await };
        match watch.next_or(pin!(pause)).map_err(|error| error::of_client(&error))? {
            Next::Response(response) => return Ok(response),
            Next::Other(()) => Python::attach(|python| python.check_signals())?,
        }
    }
}

/// What connections to workers live on: a thread. When it goes, nobody waits for names that are still looked up.
pub(crate) struct Ground(Option<Runtime>);

impl Ground {
    /// A new one.
    ///
    /// # Errors
    /// When the system has no room for it.
    pub(crate) fn new() -> PyResult<Ground> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(Ground(Some(runtime)))
    }

    /// Waits for something of workers; without the GIL, but for looking for signals.
    ///
    /// # Errors
    /// When a handler raises.
    pub(crate) fn until<F: Future>(&self, work: F) -> PyResult<F::Output> {
        let mut work = pin!(work);
        let runtime = self.0.as_ref().ok_or_else(error::unexpected)?;
        runtime.block_on(async {
            loop {
                tokio::select! {
                    output = &mut work => return Ok(output),
                    () = tokio::time::sleep(SIGNALS) => Python::attach(|python| python.check_signals())?,
                }
            }
        })
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
