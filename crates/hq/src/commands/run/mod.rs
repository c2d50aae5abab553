//! `hq run`: a server, a worker and a client in one process, for one job.
//!
//! Everything they share lies in a private directory that is removed at the end, also after SIGINT, SIGTERM,
//! SIGQUIT or SIGHUP: those cancel the job, and its end is awaited. A second one ends the tasks at once. What a
//! run that was killed leaves is removed by the next one.

mod cluster;
mod leftovers;
mod numbering;
mod outputs;
mod room;

use std::time::Instant;

use hq_client::options::{Prepared, RunOptions};
use hq_client::{Session, Watch};
use hq_core::client_messages::ClientRequest;
use hq_model::{JobId, Submit};
use hq_worker::launcher::Launcher;
use tracing_subscriber::filter::LevelFilter;

use self::cluster::Cluster;
use self::outputs::OutputPaths;
use super::{Context, end_quietly_when_nobody_reads, exit_of, job, submit};
use crate::cli::OutputMode;
use crate::error::{EXIT_SIGNAL, HqError};
use crate::jobs::only;
use crate::logging;
use crate::progress::Progress;
use crate::report::RunEnded;
use crate::signals::{HeldSignals, Signals};
use crate::waiting::{Follow, Known, NotifyCommand, follow_or};

pub(super) fn run(context: &Context, options: RunOptions) -> Result<u8, HqError> {
    let launcher = Launcher::fork()?;
    logging::init(context.debug, (context.printer.mode == OutputMode::Cli).then_some(LevelFilter::WARN));
    let Prepared { submit, wait, warnings, hints } = submit::prepared(context, options.into())?;
    let on_notify = wait.on_notify.as_deref().map(NotifyCommand::parse).transpose()?;
    // Each run has a server of its own.
    if let Some(why) = submit::unusable_log(&submit, "") {
        return Err(HqError::failed("bad-input", why)
            .hint("each hq run needs a log of its own: --log 'NAME-%{JOB_ID}' names one after the number of the job"));
    }
    context.printer.warn(&warnings);
    context.printer.hint(&hints);
    // From here on a signal waits until there is something that can be ended in order.
    let held = HeldSignals::hold()?;
    let mut cluster = Cluster::start(launcher, &submit)?;
    let mut session = Session::connect_to(cluster.access().clone())?;
    let mut signals = session.enter(Signals::catch)?;
    held.release()?;
    let job = Job { submit, on_notify, warnings };
    let begin = Instant::now();
    let (mut report, signal) = execute(context, &mut cluster, &mut session, &mut signals, job)?;
    // Tasks that were canceled have their grace, unless one more signal takes it from them.
    let signal = session.wait_for(cluster.end_worker(&mut signals, signal))?;
    if signal.is_some() {
        // The job had ended when it was canceled; its tasks took longer.
        report.waited.duration = begin.elapsed();
    }
    drop(session);
    cluster.stop()?;
    end_quietly_when_nobody_reads();
    context.printer.print(&mut report)?;
    Ok(match signal {
        Some(signal) => EXIT_SIGNAL + signal,
        None => exit_of(&report.waited, wait.allow_failures),
    })
}

// What is run.
struct Job {
    submit: Submit,
    on_notify: Option<NotifyCommand>,
    warnings: Vec<String>,
}

// Submits and waits. Gives the signal that ended the job, if one did.
fn execute(
    context: &Context,
    cluster: &mut Cluster,
    session: &mut Session,
    signals: &mut Signals,
    job: Job,
) -> Result<(RunEnded, Option<u8>), HqError> {
    let Job { submit, on_notify, warnings } = job;
    let outputs = OutputPaths::new(&submit, session.server_uid());
    let (submitted, mut watch) =
        submit::send_and_watch(context, session, submit, warnings, on_notify.is_some())?;
    let progress = match context.printer.mode {
        OutputMode::Cli => Progress::shown(),
        OutputMode::Json | OutputMode::Quiet => Progress::hidden(),
    };
    let next = async || {
        tokio::select! {
            signal = signals.next() => Event::Signal(signal),
            end = cluster.worker_ended() => Event::WorkerEnded(end),
        }
    };
    let mut first = None;
    let act = |watch: &mut Watch<'_>, progress: &mut Progress, _: &Known, event| match event {
        Event::Signal(signal) if first.is_none() => {
            first = Some(signal);
            // Canceled tasks count as ended while they have their grace, so the bar would be full and wrong.
            progress.end();
            context.printer.note(&canceling(progress.running()));
            cancel(watch, submitted.job)
        }
        Event::Signal(signal) => Err(interrupted_twice(signal)),
        Event::WorkerEnded(end) => Err(end),
    };
    let waited = follow_or(&mut watch, Follow { on_notify, progress }, next, act)?;
    let has_failed = waited.jobs.iter().any(|job| job.counters.failed > 0);
    let failed = if has_failed { job::some_failed(session, submitted.job)? } else { Vec::new() };
    let outputs = outputs.show(&waited, submitted.job);
    Ok((RunEnded { waited, outputs, failed }, first))
}

fn interrupted_twice(signal: u8) -> HqError {
    HqError::interrupted(signal, "Interrupted twice: the tasks were ended without waiting for them")
}

fn canceling(running: u64) -> String {
    let what = match running {
        0 => "what still runs is being ended".into(),
        1 => "1 task is being ended".into(),
        count => format!("{count} tasks are being ended"),
    };
    format!("Canceling: {what}; press Ctrl-C again to end at once")
}

enum Event {
    Signal(u8),
    WorkerEnded(HqError),
}

fn cancel(watch: &mut Watch<'_>, job: JobId) -> Result<(), HqError> {
    let request = ClientRequest::Cancel {
        jobs: only([job]),
        tasks: None,
        reason: Some("hq run was interrupted".to_owned()),
    };
    watch.request(request)?;
    Ok(())
}
