//! `hq bench`.

use std::io;
use std::time::Duration;

use clap::{Args, FromArgMatches};
use hq_client::options::{Defaults, SubmitOptions, Surroundings, prepare};
use hq_client::{Session, Watch};
use hq_core::client_messages::{ClientRequest, ClientResponse, WorkerFilter, WorkerInfo};
use hq_model::amount::UNITS;
use hq_model::request::CPUS;
use hq_model::selector::Selector;
use hq_model::worker::Executor;
use hq_model::{JobId, JobState, Submit, counted_are, duration};

use super::submit::send_and_watch;
use super::{Context, Done, unexpected};
use crate::cli::OutputMode;
use crate::cli::bench::{BenchCommand, MetgArgs};
use crate::error::{EXIT_SIGNAL, HqError};
use crate::jobs::only;
use crate::metg::{Point, find, next, tasks_of};
use crate::progress::Progress;
use crate::report::Metg;
use crate::signals::Signals;
use crate::telling::Teller;
use crate::waiting::{Follow, Known, follow_or};

pub(super) fn run(context: &Context, command: BenchCommand) -> Result<Done, HqError> {
    match command {
        BenchCommand::Metg(args) => metg(context, &args),
    }
}

fn metg(context: &Context, args: &MetgArgs) -> Result<Done, HqError> {
    if args.longest < args.shortest {
        let [longest, shortest] = [args.longest, args.shortest].map(duration::format);
        return Err(HqError::usage(format!("--longest {longest} is shorter than --shortest {shortest}")));
    }
    let mut session = context.connect()?;
    let workers = running(&mut session)?;
    let cpus: u64 = workers.iter().map(cpus_of).sum();
    if cpus == 0 {
        return Err(HqError::failed(
            "no-worker",
            "No worker with CPUs is connected, so there is nothing to measure",
        )
        .hint("start one here with `hq worker start`, or add an allocation queue with `hq alloc add`"));
    }
    let busy: u64 = workers.iter().map(|worker| worker.tasks_running).sum();
    if busy > 0 {
        let text = counted_are(busy, "task", "of other jobs runs", "of other jobs run")
            + " on these workers, which reduces what can be measured";
        context.printer.warn(&[text]);
    }
    let mut points = Vec::new();
    while let Some(length) = next(&points, args.longest, args.shortest) {
        let tasks = tasks_of(length, cpus, args.round);
        let (job, makespan) = match measure(context, &mut session, length, tasks) {
            Ok(measured) => measured,
            // What was measured before is worth its table.
            Err(error) if error.exit > EXIT_SIGNAL && !points.is_empty() => {
                let found = find(&points);
                let report = Metg { workers: workers.len() as u64, cpus, points, found };
                return Ok(Done::ok(report)?.exit(error.exit).noting(vec![error.text]));
            }
            Err(error) => return Err(error),
        };
        if !args.keep {
            let jobs = only([job]);
            session.request(ClientRequest::ForgetJobs { jobs, states: vec![JobState::Finished] })?;
        }
        points.push(Point::new(length, tasks, cpus, makespan));
    }
    let found = find(&points);
    Done::ok(Metg { workers: workers.len() as u64, cpus, points, found })
}

// Workers that take tasks.
fn running(session: &mut Session) -> Result<Vec<WorkerInfo>, HqError> {
    let all = ClientRequest::ListWorkers { workers: Selector::All, filter: WorkerFilter::Running };
    let ClientResponse::Workers(mut workers) = session.request(all)? else { return unexpected() };
    workers.retain(|worker| {
        let goes_on = !worker.is_draining && !worker.is_stopping && worker.away_until.is_none();
        goes_on && worker.config.executor != Executor::Pull
    });
    Ok(workers)
}

fn cpus_of(worker: &WorkerInfo) -> u64 {
    worker.config.resources.pool(CPUS).map_or(0, |pool| pool.kind.total().0 / UNITS)
}

// Runs a job of tasks of this length. Says how long it took.
fn measure(
    context: &Context,
    session: &mut Session,
    length: Duration,
    tasks: u64,
) -> Result<(JobId, Duration), HqError> {
    let submit = sleeps(length, tasks)?;
    let (submitted, mut watch) = send_and_watch(context, session, submit, Vec::new(), false)?;
    let job = submitted.job;
    let progress = match context.printer.mode {
        OutputMode::Cli => Progress::shown(),
        OutputMode::Json | OutputMode::Quiet => Progress::hidden(),
    };
    let mut signals = watch.enter(Signals::catch)?;
    let interrupted = |watch: &mut Watch<'_>, _: &mut Progress, _: &Known, signal| {
        let reason = Some("hq bench was interrupted".to_owned());
        watch.request(ClientRequest::Cancel { jobs: only([job]), tasks: None, reason })?;
        Err(HqError::interrupted(signal, format!("Interrupted; job {job} is canceled")))
    };
    let follow = Follow { on_notify: None, progress, teller: Teller::default() };
    follow_or(&mut watch, follow, async || signals.next().await, interrupted)?;
    drop(watch);
    Ok((job, makespan(session, job)?))
}

fn makespan(session: &mut Session, job: JobId) -> Result<Duration, HqError> {
    let request = ClientRequest::JobInfo { jobs: only([job]), page: None };
    let ClientResponse::JobDetails { jobs, .. } = session.request(request)? else { return unexpected() };
    let Some(detail) = jobs.first() else { return unexpected() };
    match (detail.summary.state(), detail.ended) {
        (JobState::Finished, Some(ended)) => Ok(ended.since(detail.submitted)),
        (state, _) => {
            let text = format!("Job {job}, which was being measured, is {}", state.word());
            Err(HqError::failed("not-measured", text).hint(format!("`hq job failures {job}` shows why")))
        }
    }
}

// Tasks that do nothing for so long, and leave nothing behind.
fn sleeps(length: Duration, tasks: u64) -> Result<Submit, HqError> {
    let seconds = format!("{:.6}", length.as_secs_f64());
    let name = format!("--name=metg {}", duration::format(length));
    let array = format!("--array=1-{tasks}");
    let words = ["hq", &name, &array, "--cpus=1", "--stdout=none", "--stderr=none", "--", "sleep", &seconds];
    let submit_dir = std::env::current_dir().map_err(hq_client::options::OptionsError::NoDirectory)?;
    let defaults = Defaults::default();
    let mut surroundings = Surroundings { submit_dir, stdin: &mut io::empty(), defaults };
    Ok(prepare(options(&words)?, &mut surroundings)?.submit)
}

fn options(words: &[&str]) -> Result<SubmitOptions, HqError> {
    let command = SubmitOptions::augment_args(clap::Command::new("hq"));
    let options =
        command.try_get_matches_from(words).and_then(|found| SubmitOptions::from_arg_matches(&found));
    options.map_err(|error| HqError::usage(error.to_string()))
}
