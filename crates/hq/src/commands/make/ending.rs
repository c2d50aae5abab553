//! How making ends at a signal: the job is canceled, and where its journal cannot be written, nobody waits for that.

use std::pin::pin;
use std::time::Duration;

use hq_client::{Asking, NextOf, Session};
use hq_core::client_messages::ClientRequest;
use hq_model::JobId;
use tokio::sync::watch;
use tokio::time::Instant;

use super::following::cancel;
use crate::embedded::interrupted_twice;
use crate::error::HqError;
use crate::signals::Signals;

/// How long a job may take to be canceled: where the journal can be written, it is a moment.
const CANCEL_TIME: Duration = Duration::from_secs(2);
/// How long its tasks then have to end: a moment more than their grace.
pub(super) const END_TIME: Duration = Duration::from_secs(6);

/// Whether what is known of a job is written, so that more can be asked.
pub(super) enum Written {
    /// It is, and this signal came, if one did.
    Yes(Option<u8>),
    /// Not so long after this signal.
    NotInTime(u8),
}

/// Waits until the server has written what it knows. `signal` has come before, if one did.
///
/// # Errors
/// When the server is lost, or at the second signal.
pub(super) fn until_written(
    session: &mut Session,
    signals: &mut Signals,
    mut signal: Option<u8>,
) -> Result<Written, HqError> {
    enum Event {
        Signal(u8),
        TimeIsOver(u8),
    }
    let mut asking = Asking::default();
    asking.ask(0, ClientRequest::ListJobs { states: Vec::new() });
    let mut since = Instant::now();
    loop {
        let over = signal.map(|signal| (signal, since + CANCEL_TIME));
        let other = async {
            tokio::select! {
                number = signals.next() => Event::Signal(number),
                number = time_is_over(over) => Event::TimeIsOver(number),
            }
        };
        match session.next_of(&mut asking, pin!(other))? {
            NextOf::Response(..) => return Ok(Written::Yes(signal)),
            NextOf::Other(Event::TimeIsOver(signal)) => return Ok(Written::NotInTime(signal)),
            NextOf::Other(Event::Signal(number)) if signal.is_some() => {
                return Err(interrupted_twice(number));
            }
            NextOf::Other(Event::Signal(number)) => {
                signal = Some(number);
                since = Instant::now();
            }
        }
    }
}

async fn time_is_over(over: Option<(u8, Instant)>) -> u8 {
    let Some((signal, at)) = over else { return std::future::pending().await };
    tokio::time::sleep_until(at).await;
    signal
}

/// Ends when a job that was to be canceled is not for so long.
pub(super) async fn goes_unanswered(asked: Option<Instant>, mut canceled: watch::Receiver<bool>) {
    if let Some(asked) = asked
        && let Err(_) = tokio::time::timeout_at(asked + CANCEL_TIME, canceled.wait_for(|is| *is)).await
    {
        return;
    }
    std::future::pending().await
}

/// Cancels a job. While the journal cannot be written, who cancels waits for that, so it is done beside everything else.
///
/// # Errors
/// When there is no thread for it.
pub(super) fn cancel_aside(
    access: &hq_net::AccessFile,
    job: JobId,
    is_canceled: watch::Sender<bool>,
) -> Result<(), HqError> {
    let access = access.clone();
    let work = move || {
        let canceled = Session::connect_to(access)
            .map_err(HqError::from)
            .and_then(|mut session| cancel(&mut session, job, "hq make was interrupted"));
        match canceled {
            // Nobody waits for it after the next signal.
            Ok(()) => drop(is_canceled.send(true)),
            // The server has ended before.
            Err(error) => tracing::debug!(error = error.text, "the job could not be canceled"),
        }
    };
    std::thread::Builder::new().name("hq-cancel".into()).spawn(work)?;
    Ok(())
}
