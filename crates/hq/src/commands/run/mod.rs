//! `hq run`: a server, a worker and a client in one process, for one job.
//!
//! Everything they share lies in a private directory that is removed at the end, also after SIGINT, SIGTERM,
//! SIGQUIT or SIGHUP: those cancel the job, and its end is awaited. A second one ends the tasks at once. What a
//! run that was killed leaves is removed by the next one.
//!
//! With `--state` the journal is kept in a directory: a signal ends what runs and cancels nothing, and the next run with
//! that directory goes on with the job, as after a kill.

mod kept;
mod lost;
mod outputs;

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use hq_client::options::{Prepared, RunOptions, WaitOptions};
use hq_client::{Session, Watch};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_model::job::Target;
use hq_model::{IdSet, JobId, Submit, TaskSpec, TaskState};
use hq_worker::launcher::Launcher;
use tracing_subscriber::filter::LevelFilter;

use self::kept::{Kept, interrupted_job};
use self::lost::{lost_outputs, submits_of};
use self::outputs::OutputPaths;
use super::{Context, end_quietly_when_nobody_reads, exit_of, job, submit, unexpected, worker};
use crate::cli::OutputMode;
use crate::embedded::{
    Cluster, ClusterOptions, Number, StateDir, Workers, check_fits, interrupted_twice, nodes_of_batch_job,
};
use crate::error::{EXIT_SIGNAL, HqError};
use crate::failures::{FailedJob, FailureStream, Look};
use crate::jobs::{SharedSession, only};
use crate::logging;
use crate::progress::Progress;
use crate::render::text;
use crate::report::RunEnded;
use crate::signals::{HeldSignals, Signals};
use crate::telling::Teller;
use crate::waiting::{Follow, Known, NotifyCommand, follow_or};

pub(super) fn run(context: &Context, options: RunOptions) -> Result<u8, HqError> {
    let launcher = Launcher::fork()?;
    logging::init(context.debug, (context.printer.mode == OutputMode::Cli).then_some(LevelFilter::WARN));
    let names_nothing = options.command.command.is_empty() && options.command.function.is_none();
    if let Some(path) = options.state.as_deref().filter(|path| names_nothing && !StateDir::is_there(path)) {
        return Err(nothing_to_resume(path));
    }
    let state = options.state.as_deref().map(StateDir::open).transpose()?;
    let nodes = if options.here { None } else { nodes_of_batch_job() };
    let (wait, mut new) = match state {
        Some(_) if names_nothing => (WaitOptions::from(&options), None),
        _ => {
            let Prepared { submit, fed, broadcasts, wait, warnings, hints } =
                submit::prepared(context, options.into())?;
            if fed.is_some() {
                return Err(HqError::usage(
                    "--generate needs a server that the generator and the reducer can reach: use `hq submit`",
                ));
            }
            if !submit.dependencies.after.is_empty() {
                return Err(HqError::usage(
                    "--after and --after-any wait for jobs of a server, and hq run has none but its own: use `hq submit`",
                ));
            }
            if submit.spec.result.is_some() {
                return Err(HqError::usage(
                    "--result is kept by a server, which `hq job result` asks for it: use `hq submit`, or --stdout",
                ));
            }
            if submit.spec.has_objects() || !broadcasts.is_empty() {
                return Err(HqError::usage(
                    "--output-object, --input-object and --broadcast are for tasks of several submissions to one \
                     server: use `hq submit`",
                ));
            }
            // Each run has a server of its own, unless that is kept.
            if state.is_none() {
                check_log((&submit.spec, &submit.submit_dir), "", false)?;
            }
            context.printer.warn(&warnings);
            context.printer.hint(&hints);
            (wait, Some((submit, warnings)))
        }
    };
    let on_notify = wait
        .on_notify
        .as_deref()
        .map(|text| NotifyCommand::parse(text, context.printer.mode, None))
        .transpose()?;
    // The server ends with the job, so who is told is told from here.
    let teller = new.as_mut().map_or_else(Teller::default, |(submit, _)| match &mut submit.target {
        Target::New(spec) => Teller::new(std::mem::take(&mut spec.notices), None),
        Target::Open(_) => Teller::default(),
    });
    let config = worker::default_config()?;
    if let Some((submit, _)) = &new {
        let count = nodes.as_ref().map_or(1, |nodes| nodes.others + u32::from(nodes.is_here));
        check_fits(&config.resources, count, &submit.spec.requests)?;
    }
    let mut number = new.as_ref().map(|(submit, _)| Number::take(submit));
    let jobs_before = number.as_ref().map_or(0, |number| number.before);
    // From here on a signal waits until there is something that can be ended in order.
    let held = HeldSignals::hold()?;
    let options = ClusterOptions { state: state.clone(), jobs_before, is_shared: nodes.is_some() };
    let mut cluster = Cluster::start(options)?;
    let session = Rc::new(RefCell::new(Session::connect_to(cluster.access().clone())?));
    let what = what(&mut session.borrow_mut(), state.clone(), new)?;
    check_logs(&mut session.borrow_mut(), &what)?;
    // A job that is resumed has its number.
    number.take_if(|_| what.job.is_some());
    cluster.start_workers(Workers { launcher, config, nodes, worker_args: Vec::new() })?;
    let mut signals = session.borrow_mut().enter(Signals::catch)?;
    held.release()?;
    let begin = Instant::now();
    let (mut report, signal) =
        execute(context, &mut cluster, &mut session.borrow_mut(), &mut signals, (what, on_notify, teller))?;
    // Tasks that were canceled have their grace, unless one more signal takes it from them.
    let signal = cluster.end_workers(&mut session.borrow_mut(), &mut signals, signal)?;
    if let (Some(_), Some(report)) = (signal, &mut report) {
        // The job had ended when it was canceled; its tasks took longer.
        report.waited.duration = begin.elapsed();
    }
    if let Some(report) = &mut report {
        report.failures = failures(&session, report)?;
    }
    drop(session);
    cluster.stop()?;
    if let (None, Some(number)) = (signal, &mut number) {
        number.is_used();
    }
    drop(number);
    end_quietly_when_nobody_reads();
    let exit = match (signal, &report) {
        (Some(signal), _) => EXIT_SIGNAL + signal,
        (None, Some(report)) => exit_of(&report.waited, wait.allow_failures),
        (None, None) => 0,
    };
    if let Some(report) = &mut report {
        context.printer.print(report)?;
        state.iter().try_for_each(|state| Kept::note(state, None))?;
    }
    Ok(exit)
}

fn nothing_to_resume(state: &Path) -> HqError {
    let text = format!("there is no interrupted run in {}", state.display());
    HqError::failed("bad-input", text).hint(format!(
        "`hq run --state {} -- COMMAND` starts a run that can be resumed",
        text::path_word(state)
    ))
}

// What an interrupted run has written is gone on with.
fn check_logs(session: &mut Session, what: &What) -> Result<(), HqError> {
    let uid = session.server_uid().to_owned();
    match (what.job, &what.submit) {
        (Some(job), _) => {
            let submits = submits_of(session, job)?;
            submits.iter().try_for_each(|submit| check_log((&submit.spec, &submit.submit_dir), &uid, true))
        }
        (None, Some((submit, _))) if what.state.is_some() => {
            check_log((&submit.spec, &submit.submit_dir), &uid, false)
        }
        (None, _) => Ok(()),
    }
}

// Refuses a log that another server has written, or that is none.
fn check_log(
    (spec, submit_dir): (&TaskSpec, &[u8]),
    server_uid: &str,
    is_resumed: bool,
) -> Result<(), HqError> {
    match submit::unusable_log(spec, submit_dir, server_uid) {
        None => Ok(()),
        Some(why) => Err(HqError::failed("bad-input", why).hint(match is_resumed {
            true => "move that file away and run the same command again: the run goes on, with a new log",
            false => "each hq run needs its own log: --log 'NAME-%{JOB_ID}' includes the job id in its name",
        })),
    }
}

// Which tasks failed and why, while there is a server that knows it.
fn failures(session: &SharedSession, report: &RunEnded) -> Result<Option<(FailedJob, IdSet)>, HqError> {
    let Some(job) = report.waited.jobs.iter().find(|job| job.counters.failed > 0) else { return Ok(None) };
    let jobs = || only([job.job]);
    let request = ClientRequest::TaskIds { jobs: jobs(), states: vec![TaskState::Failed] };
    let ClientResponse::TaskIds(ids) = session.borrow_mut().request(request)? else { return unexpected() };
    let ids = ids.into_iter().map(|(_, ids)| ids).next().unwrap_or_default();
    let why = FailureStream::begin(Rc::clone(session), jobs(), Look::Many)?.next().transpose()?;
    Ok(why.map(|why| (why, ids)))
}

// What is run: a new job, or one that was interrupted.
struct What {
    submit: Option<(Submit, Vec<String>)>,
    job: Option<JobId>,
    state: Option<StateDir>,
}

fn what(
    session: &mut Session,
    state: Option<StateDir>,
    new: Option<(Submit, Vec<String>)>,
) -> Result<What, HqError> {
    let Some(state) = state else { return Ok(What { submit: new, job: None, state: None }) };
    let kept = new.as_ref().map(|(submit, _)| Kept::new(submit));
    let interrupted = interrupted_job(session, &state, kept.as_ref())?;
    let job = interrupted.as_ref().map(|job| job.job);
    match (interrupted, kept) {
        (Some(interrupted), Some(kept)) => {
            Kept::check_same(Kept::load(&state).as_ref(), &kept, &interrupted, &state)?;
        }
        (Some(_), None) => {}
        (None, Some(kept)) => kept.save(&state)?,
        (None, None) => {
            return Err(nothing_to_resume(state.path()));
        }
    }
    Ok(What { submit: new, job, state: Some(state) })
}

// Submits and waits. Gives the signal that ended the job, if one did; and no report where it only ended the wait.
fn execute(
    context: &Context,
    cluster: &mut Cluster,
    session: &mut Session,
    signals: &mut Signals,
    (what, on_notify, teller): (What, Option<NotifyCommand>, Teller),
) -> Result<(Option<RunEnded>, Option<u8>), HqError> {
    let What { submit, job, state } = what;
    let outputs = match (&submit, job) {
        (Some((submit, _)), _) => Some(OutputPaths::new(submit, session.server_uid())),
        (None, Some(job)) => OutputPaths::of_job(session, job)?,
        (None, None) => None,
    };
    let has_notifications = on_notify.is_some();
    let (job, mut watch) = match (job, submit) {
        (Some(job), _) => {
            context.printer.note(&format!("Resuming job {job}"));
            context.printer.damaged(&lost_outputs(session, job)?);
            let notifications = has_notifications;
            let watch = ClientRequest::WatchJobs { jobs: only([job]), until_closed: false, notifications };
            (job, session.watch(watch)?)
        }
        (None, Some((submit, warnings))) => {
            let (submitted, watch) =
                submit::send_and_watch(context, session, submit, warnings, has_notifications)?;
            (submitted.job, watch)
        }
        (None, None) => return Err(HqError::usage("there is nothing to run")),
    };
    state.iter().try_for_each(|state| Kept::note(state, Some(job)))?;
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
            if let Some(state) = &state {
                return Err(stopping(progress.running(), signal, state));
            }
            context.printer.note(&canceling(progress.running()));
            cancel(watch, job)
        }
        Event::Signal(signal) => Err(interrupted_twice(signal)),
        Event::WorkerEnded(end) => Err(end),
    };
    let (waited, teller) = match follow_or(&mut watch, Follow { on_notify, progress, teller }, next, act) {
        Ok(waited) => waited,
        Err(stopped) if state.is_some() && first.is_some() => {
            context.printer.error(&stopped);
            return Ok((None, first));
        }
        Err(error) => return Err(without_server(error)),
    };
    if let Err((signal, text)) = teller.finish(&mut watch, signals.next()) {
        context.printer.note(&text);
        first.get_or_insert(signal);
    }
    drop(watch);
    let has_failed = waited.jobs.iter().any(|job| job.counters.failed > 0);
    let failed = if has_failed { job::some_failed(session, job)? } else { Vec::new() };
    let outputs = outputs.map_or_else(Vec::new, |outputs| outputs.show(&waited, job));
    Ok((Some(RunEnded { waited, outputs, failed, failures: None }), first))
}

// Of a run that can be gone on with: nothing is canceled.
fn stopping(running: u64, signal: u8, state: &StateDir) -> HqError {
    let again = match running {
        0 => String::new(),
        1 => "; the running task is ended, and will start again".to_owned(),
        count => format!("; the {count} running tasks are ended, and will start again"),
    };
    HqError::interrupted(signal, format!("Interrupted{again}"))
        .hint(format!("`hq run --state {}` resumes it", text::path_word(state.path())))
}

fn canceling(running: u64) -> String {
    let what = match running {
        0 => "running tasks are being ended".into(),
        1 => "1 task is being ended".into(),
        count => format!("{count} tasks are being ended"),
    };
    format!("Canceling: {what}; press Ctrl-C again to exit immediately")
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

// What is said of a job with a spent budget names a command for its server, which goes with this process: another server may have a
// job with that id.
fn without_server(mut error: HqError) -> HqError {
    let found = error.text.split_once("`hq job budget ").and_then(|(before, rest)| {
        let (_, after) = rest.split_once("` increases it")?;
        Some(format!("{before}run it again with a larger `--budget`{after}"))
    });
    error.text = found.unwrap_or(error.text);
    error
}
