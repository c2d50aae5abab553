//! Following jobs until they end: counters for the progress bar, notifications for the user's program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use hq_client::{ClientError, Next, Watch};
use hq_core::client_messages::{ClientResponse, JobSummary};
use hq_model::{ByteString, JobId, TaskRef, WorkerId};
use tracing::warn;

use crate::error::HqError;
use crate::progress::Progress;
use crate::report::Waited;
use crate::signals::Signals;

/// How to follow jobs.
pub(crate) struct Follow {
    /// Run for each notification.
    pub on_notify: Option<NotifyCommand>,
    /// Where it is shown.
    pub progress: Progress,
}

/// A program that is run for each notification.
pub(crate) struct NotifyCommand(Vec<OsString>);

impl NotifyCommand {
    /// From the text of `--on-notify`.
    pub(crate) fn parse(text: &str) -> Result<NotifyCommand, HqError> {
        match shlex::split(text) {
            Some(words) if !words.is_empty() => {
                Ok(NotifyCommand(words.into_iter().map(OsString::from).collect()))
            }
            Some(_) => Err(HqError::usage("--on-notify names no program")),
            None => Err(HqError::usage("--on-notify has a quote that is never closed")),
        }
    }

    // The user's program may fail as it likes; the wait goes on.
    fn run(&self, task: TaskRef, worker: WorkerId, text: ByteString) {
        let status = Command::new(&self.0[0])
            .args(&self.0[1..])
            .arg(OsString::from_vec(text))
            .env("HQ_JOB_ID", task.job.to_string())
            .env("HQ_TASK_ID", task.task.to_string())
            .env("HQ_WORKER_ID", worker.to_string())
            .stdin(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => warn!("the program of --on-notify ended with {status}"),
            Err(error) => warn!("the program of --on-notify cannot be run: {error}"),
        }
    }
}

/// Follows jobs until all have ended. `what` goes on when a signal ends the wait.
///
/// # Errors
/// When the server refuses or is lost, or a signal came: then the user is told, in JSON with a document.
pub(crate) fn follow(watch: &mut Watch<'_>, follow: Follow, what: &str) -> Result<Waited, HqError> {
    let mut signals = watch.enter(Signals::catch)?;
    let interrupted = |_: &mut Watch<'_>, _: &mut Progress, signal| {
        Err(HqError::interrupted(signal, format!("The wait was interrupted; {what}")))
    };
    follow_or(watch, follow, async || signals.next().await, interrupted)
}

/// Follows jobs until all have ended. Whenever `other` is done, `act` is called with its output, and with what shows the
/// progress.
///
/// # Errors
/// When the server refuses or is lost, or `act` says so.
pub(crate) fn follow_or<T>(
    watch: &mut Watch<'_>,
    follow: Follow,
    mut other: impl AsyncFnMut() -> T,
    mut act: impl FnMut(&mut Watch<'_>, &mut Progress, T) -> Result<(), HqError>,
) -> Result<Waited, HqError> {
    let begin = Instant::now();
    let Follow { on_notify, mut progress } = follow;
    let mut known: BTreeMap<JobId, JobSummary> = BTreeMap::new();
    loop {
        let response = match watch.next_or(std::pin::pin!(other()))? {
            Next::Response(response) => response,
            Next::Other(output) => {
                act(watch, &mut progress, output)?;
                continue;
            }
        };
        match response {
            ClientResponse::Progress(jobs) => {
                known.extend(jobs.into_iter().map(|job| (job.job, job)));
                progress.update(&known);
            }
            ClientResponse::Notification { task, worker, text } => {
                if let Some(command) = &on_notify {
                    progress.suspend(|| command.run(task, worker, text));
                }
            }
            ClientResponse::WatchEnded => break,
            _ => return Err(ClientError::Unexpected.into()),
        }
    }
    drop(progress);
    Ok(Waited { jobs: known.into_values().collect(), duration: begin.elapsed() })
}
