//! `hq job …`, but for submitting and reading outputs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hq_client::{ClientError, request_key};
use hq_core::client_messages::{
    ClientRequest, ClientResponse, JobDetail, JobPage, RequestError, TaskInfo, WorkerFilter,
};
use hq_core::feed::FeedState;
use hq_model::allocation::node_hours_told;
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, JobState, TaskId, TaskState, WorkerId, WorkerResources};
use serde_json::json;

use super::submit::last_job;
use super::{Context, Done, exit_of, refused_to, unexpected};
use crate::cli::OutputMode;
use crate::cli::job::{
    BudgetArgs, CancelArgs, CloseArgs, EfficiencyArgs, ExplainArgs, FailuresArgs, ForgetArgs, InfoArgs,
    ListArgs, OpenArgs, ProgressArgs, ResultArgs, TaskIdsArgs, WaitArgs,
};
use crate::efficiency::Kinds;
use crate::error::HqError;
use crate::failures::{FailureStream, Look};
use crate::jobs::{JobStream, ServerJobs, SharedSession, only};
use crate::progress::Progress;
use crate::render::Printer;
use crate::render::results::tasks_have;
use crate::render::task::error_text;
use crate::report::{
    Canceled, Changed, Efficiency, ExplainedJobs, Failures, JobCounts, JobDetails, Jobs, JobsDone,
    JobsForgotten, Results, Submitted, TaskIds, Waited,
};
use crate::results::ResultStream;
use crate::tasks::{ServerPages, TaskStream};
use crate::telling::{Teller, missing_targets};
use crate::waiting::{Follow, follow};

/// States of jobs that are listed unless others are asked for.
const UNENDED: [JobState; 3] = [JobState::Waiting, JobState::Running, JobState::Opened];

/// Failed tasks shown by `job info`.
pub(super) const FAILED_SHOWN: u32 = 5;

pub(super) fn list(context: &Context, args: ListArgs) -> Result<Done, HqError> {
    let is_default = !args.all && args.filter.is_empty();
    let states = if is_default { UNENDED.to_vec() } else { args.filter };
    let mut session = context.connect()?;
    let ClientResponse::JobList(mut jobs) =
        session.request(ClientRequest::ListJobs { states: states.clone() })?
    else {
        return unexpected();
    };
    // To the server open jobs are `opened`, whatever their tasks do.
    jobs.retain(|job| is_default || states.is_empty() || states.contains(&job.state()));
    let is_told = context.printer.mode == OutputMode::Cli && !args.all;
    let total = match if is_told { session.request(ClientRequest::CountJobs).ok() } else { None } {
        Some(ClientResponse::JobCounts(counts)) => counts.iter().map(|(_, count)| *count).sum(),
        // It is told beside the list only, so nothing goes wrong without it.
        _ => jobs.len() as u64,
    };
    Done::ok(Jobs { jobs, verbose: args.verbose, total })
}

pub(super) fn summary(context: &Context) -> Result<Done, HqError> {
    match context.ask(ClientRequest::CountJobs)? {
        ClientResponse::JobCounts(counts) => Done::ok(JobCounts(counts)),
        _ => unexpected(),
    }
}

pub(super) fn explain(context: &Context, args: ExplainArgs) -> Result<Done, HqError> {
    if let Some(tasks) = args.jobs.tasks {
        return super::task::explain_one(context, args.jobs.jobs, tasks);
    }
    match context.ask(ClientRequest::ExplainJobs { jobs: args.jobs.jobs })? {
        ClientResponse::ExplainedJobs(jobs) => Done::ok(ExplainedJobs(jobs)),
        _ => unexpected(),
    }
}

pub(super) fn failures(context: &Context, args: FailuresArgs) -> Result<Done, HqError> {
    let are_several = match &args.jobs {
        Selector::All => true,
        Selector::Last => false,
        Selector::Ids(ids) => ids.len() > 1,
    };
    let session = Rc::new(RefCell::new(context.connect()?));
    let stream = FailureStream::begin(session, args.jobs, Look::Many)?;
    Done::ok(Failures { jobs: Box::new(stream), are_several })
}

pub(super) fn result(context: &Context, args: ResultArgs) -> Result<Done, HqError> {
    let are_several = match &args.jobs {
        Selector::All => true,
        Selector::Last => false,
        Selector::Ids(ids) => ids.len() > 1,
    };
    let is_named = args.tasks.is_some();
    let is_single = !are_several && args.tasks.as_ref().is_some_and(|tasks| tasks.len() == 1);
    let are_named = !matches!(args.jobs, Selector::All);
    let session = Rc::new(RefCell::new(context.connect()?));
    let fed = fed_of(&session, &args)?;
    let (jobs, is_single) = match fed {
        Some((_, reducer)) => (only([reducer]), true),
        None => (args.jobs, is_single),
    };
    let results = ResultStream::begin(Rc::clone(&session), jobs, args.tasks);
    let results = results.map_err(|error| match fed {
        Some((job, reducer)) if error.code == "no-job" => HqError {
            text: format!(
                "The result of job {job} is that of its reducer, job {reducer}, which has been forgotten"
            ),
            ..error
        },
        _ => error,
    })?;
    let has_reducer = {
        let session = Rc::clone(&session);
        move |job| {
            let feed = feed_of(&mut session.borrow_mut(), &only([job])).ok().flatten();
            feed.is_some_and(|state| state.feed.reducer.is_some())
        }
    };
    let tell_failed = move |job, failed: &IdSet| {
        let (tasks, of) =
            (some_failed_of(&mut session.borrow_mut(), job, Some(failed.clone()))?, failed.len());
        let why = |task: &TaskInfo| {
            let error = crate::render::text::one_line(error_text(task));
            format!("task {} of job {job} failed: {error}", task.task)
        };
        Printer::alarm(&tasks.iter().map(why).collect::<Vec<_>>());
        if of > tasks.len() as u64 {
            Printer::alarm(&[format!(
                "{of} tasks of job {job} failed in total; see `hq job failures {job}`"
            )]);
        }
        Ok(())
    };
    if results.is_empty() && !results.missing().is_empty() {
        for (job, of) in results.missing().iter().filter(|(_, of)| !of.failed.is_empty()) {
            tell_failed(*job, &of.failed)?;
        }
        if let (Some((job, reducer)), [(_, of)]) = (fed, results.missing()) {
            let how = match (of.failed.is_empty(), of.dropped.is_empty()) {
                (false, _) => "has failed",
                (true, false) => "has finished, but its result is no longer kept",
                (true, true) => "has not finished",
            };
            let text = format!("Job {job} has no result: its reducer, job {reducer}, {how}");
            return Err(HqError::failed("no-result", text));
        }
        let text = match results.missing() {
            [(job, of)] => match (!of.dropped.is_empty()).then(|| has_reducer(*job)) {
                Some(true) => {
                    format!("The results of job {job} are no longer kept: its reducer has taken them")
                }
                Some(false) => format!("The results of job {job} are no longer kept"),
                None => {
                    let mut none = of.failed.clone();
                    none.union_with(&of.without);
                    let named = tasks_have(&none, *job);
                    format!("{}{} no result", named[..1].to_uppercase(), &named[1..])
                }
            },
            jobs => {
                let jobs: IdSet = jobs.iter().map(|(job, _)| TaskId(job.0)).collect();
                format!("No task of jobs {jobs} has a result")
            }
        };
        let hint = "Functions (`hq submit --function`) and programs with `--result` have a result when they have \
            finished, and pulled tasks if one was given for them; see `hq task list` for the state of tasks, and \
            `hq job failures` for failures. At most 256 MiB of results are kept for all jobs together.";
        return Err(HqError::failed("no-result", text).hint(hint));
    }
    Done::ok(Results {
        results,
        are_several,
        is_single,
        is_named,
        are_named,
        refused: Box::new(context.refusal()),
        tell_failed: Box::new(tell_failed),
        has_reducer: Box::new(has_reducer),
    })
}

// The job whose result is asked for, where that is the result of a reducer, and the job of that.
fn fed_of(session: &SharedSession, args: &ResultArgs) -> Result<Option<(JobId, JobId)>, HqError> {
    if args.tasks.is_some() || matches!(args.jobs, Selector::All) {
        return Ok(None);
    }
    let feed = feed_of(&mut session.borrow_mut(), &args.jobs)?;
    Ok(feed.and_then(|state| Some((state.job, state.feed.reducer?))))
}

/// Of one job, if it has a generator.
pub(super) fn feed_of(
    session: &mut hq_client::Session,
    jobs: &Selector,
) -> Result<Option<Box<FeedState>>, HqError> {
    let page = Some(JobPage { tasks: Some(IdSet::new()), from: None });
    match session.request(ClientRequest::JobInfo { jobs: jobs.clone(), page })? {
        ClientResponse::JobDetails { jobs, .. } => match <[JobDetail; 1]>::try_from(jobs) {
            Ok([job]) => Ok(job.feed),
            Err(_) => Ok(None),
        },
        _ => unexpected(),
    }
}

pub(super) fn info(context: &Context, args: InfoArgs) -> Result<Done, HqError> {
    let session = Rc::new(RefCell::new(context.connect()?));
    let (selector, tasks) = match context.printer.mode {
        OutputMode::Json => {
            let jobs = selected_or_none(&session, args.jobs)?;
            let pages = ServerPages::new(Rc::clone(&session), &jobs, None, Vec::new()).with_submits();
            (only(jobs), Some(TaskStream::begin(pages)?))
        }
        OutputMode::Cli | OutputMode::Quiet => (args.jobs, None),
    };
    let noted = selector.clone();
    let jobs = JobStream::begin(ServerJobs::new(Rc::clone(&session), selector));
    let jobs = match or_none(&noted, jobs.map(Some))? {
        Some(jobs) => jobs,
        None => JobStream::begin(())?,
    };
    let notes = context.notes_of(Rc::clone(&session), noted.clone(), &noted);
    let server_uid = session.borrow().server_uid().to_owned();
    let failed = Box::new(move |job| some_failed(&mut session.borrow_mut(), job));
    Ok(Done::ok(JobDetails { now: jobs.now(), jobs, server_uid, failed, tasks })?.noting(notes))
}

pub(super) fn efficiency(context: &Context, args: EfficiencyArgs) -> Result<Done, HqError> {
    let session = Rc::new(RefCell::new(context.connect()?));
    let jobs = selected(&session, args.jobs)?;
    let workers = if args.cost.is_some() { offers(&mut session.borrow_mut())? } else { BTreeMap::new() };
    let ended = vec![TaskState::Finished, TaskState::Failed];
    let mut tasks = TaskStream::begin(ServerPages::new(session, &jobs, None, ended).with_submits())?;
    let mut kinds = Kinds::default();
    for job in jobs {
        while let Some(task) = tasks.next_of(job)? {
            if let Some(submit) = tasks.submit_of(job, &task) {
                let offer = task.worker.and_then(|worker| workers.get(&worker));
                let used = task.measured().map(|usage| (usage, offer));
                kinds.add(job, &submit.spec, task.state == TaskState::Failed, used);
            }
        }
    }
    let left_out = kinds.left_out;
    Done::ok(Efficiency {
        kinds: kinds.sorted(),
        left_out,
        cost: args.cost,
        watts_per_cpu: args.watts_per_cpu,
    })
}

// What workers offer, those that have ended, too.
fn offers(session: &mut hq_client::Session) -> Result<BTreeMap<WorkerId, WorkerResources>, HqError> {
    let all = ClientRequest::ListWorkers { workers: Selector::All, filter: WorkerFilter::All };
    match session.request(all)? {
        ClientResponse::Workers(workers) => {
            Ok(workers.into_iter().map(|worker| (worker.worker, worker.config.resources)).collect())
        }
        _ => unexpected(),
    }
}

/// The jobs that a selector means, ascending.
pub(super) fn selected(session: &SharedSession, jobs: Selector) -> Result<Vec<JobId>, HqError> {
    let mut jobs = JobStream::begin(ServerJobs::new(Rc::clone(session), jobs).without_submits())?;
    let mut ids = Vec::new();
    while let Some(job) = jobs.next_job()? {
        ids.push(job.summary.job);
    }
    Ok(ids)
}

/// The same, and nothing where the last job is meant and there is none yet.
pub(super) fn selected_or_none(session: &SharedSession, jobs: Selector) -> Result<Vec<JobId>, HqError> {
    or_none(&jobs.clone(), selected(session, jobs))
}

/// The last one of none is nothing: programs ask before they submit anything.
pub(super) fn or_none<T: Default>(of: &Selector, result: Result<T, HqError>) -> Result<T, HqError> {
    match result {
        Err(error) if *of == Selector::Last && matches!(error.code, "no-job" | "no-worker") => {
            Ok(T::default())
        }
        result => result,
    }
}

/// The first failed tasks of a job.
pub(super) fn some_failed(session: &mut hq_client::Session, job: JobId) -> Result<Vec<TaskInfo>, HqError> {
    some_failed_of(session, job, None)
}

// Of these alone, if some are named.
fn some_failed_of(
    session: &mut hq_client::Session,
    job: JobId,
    tasks: Option<IdSet>,
) -> Result<Vec<TaskInfo>, HqError> {
    let request = ClientRequest::ListTasks {
        jobs: Selector::Ids(IdSet::single(TaskId(job.0))),
        tasks,
        states: vec![TaskState::Failed],
        after: None,
        limit: FAILED_SHOWN,
        grouped: false,
        with_entries: false,
    };
    match session.request(request)? {
        ClientResponse::Tasks { tasks, .. } => Ok(tasks.into_iter().map(|(_, task)| task).collect()),
        _ => unexpected(),
    }
}

pub(super) fn cancel(context: &Context, args: CancelArgs) -> Result<Done, HqError> {
    let CancelArgs { jobs, tasks, reason } = args;
    let of_tasks = tasks.is_some();
    let session = Rc::new(RefCell::new(context.connect_for("Canceling")?));
    let are_all = jobs == Selector::All;
    let named = if let Selector::Ids(ids) = &jobs { Some(ids.clone()) } else { None };
    let is_told = context.printer.mode != OutputMode::Quiet && !of_tasks;
    let before = if is_told { open_jobs(&mut session.borrow_mut()) } else { IdSet::new() };
    let response = session.borrow_mut().request(ClientRequest::Cancel { jobs, tasks, reason });
    match response.map_err(|error| refused_to("Canceling", error))? {
        ClientResponse::Canceled(mut jobs) => {
            let canceled: IdSet = jobs.iter().map(|(job, ..)| TaskId(job.0)).collect();
            let unknown = named.as_ref().map_or_else(IdSet::new, |named| named.difference(&canceled));
            let before = before.intersection(&canceled);
            let now = if before.is_empty() { IdSet::new() } else { open_jobs(&mut session.borrow_mut()) };
            let (open, closed) = (before.intersection(&now), before.difference(&now));
            // Of all jobs those are meant that have not ended.
            jobs.retain(|(job, ids, _)| !are_all || !ids.is_empty() || closed.contains(TaskId(job.0)));
            // A generator or a reducer that has ended is of no interest to one who has not named it.
            let is_named = |job: JobId| named.as_ref().is_none_or(|named| named.contains(TaskId(job.0)));
            jobs.retain(|(job, ids, _)| !ids.is_empty() || is_named(*job));
            let over = over_of(&session, &open);
            Done::ok(Canceled { jobs, of_tasks, closed, open: open.difference(&over), over, unknown })
        }
        _ => unexpected(),
    }
}

// Open jobs that take no more tasks. As below, nothing goes wrong when this cannot be told.
fn over_of(session: &SharedSession, open: &IdSet) -> IdSet {
    let mut over = IdSet::new();
    if open.is_empty() {
        return over;
    }
    let jobs = ServerJobs::new(Rc::clone(session), Selector::Ids(open.clone())).without_submits();
    let Ok(mut jobs) = JobStream::begin(jobs) else { return over };
    while let Ok(Some(job)) = jobs.next_job() {
        if job.max_fails.is_some_and(|limit| job.summary.counters.failed > limit) {
            over.insert(TaskId(job.summary.job.0));
        }
    }
    over
}

// Jobs that take more tasks. Nothing goes wrong when this cannot be told.
fn open_jobs(session: &mut hq_client::Session) -> IdSet {
    let states = vec![JobState::Opened, JobState::Waiting, JobState::Running];
    match session.request(ClientRequest::ListJobs { states }) {
        Ok(ClientResponse::JobList(jobs)) => {
            jobs.iter().filter(|job| job.is_open).map(|job| TaskId(job.job.0)).collect()
        }
        _ => IdSet::new(),
    }
}

// So many jobs that are not forgotten are named; the rest is counted.
const IGNORED_NAMED: u64 = 10;

pub(super) fn forget(context: &Context, args: ForgetArgs) -> Result<Done, HqError> {
    let mut session = context.connect()?;
    let ignored = Arc::new(AtomicU64::new(0));
    let (refused, counted) = (context.refusal(), Arc::clone(&ignored));
    session.tell_refusals(move |error| {
        if counted.fetch_add(1 + error.others(), Ordering::Relaxed) < IGNORED_NAMED {
            refused(&error.one().to_string());
        }
    });
    let request = ClientRequest::ForgetJobs { jobs: args.jobs, states: args.filter };
    let forgotten = session.request(request).map_err(|error| match error {
        ClientError::Refused(last) => {
            let others = last.others() + ignored.load(Ordering::Relaxed).saturating_sub(IGNORED_NAMED);
            let error = Box::new(last.one().clone());
            ClientError::Refused(if others == 0 { last } else { RequestError::OneOfMany { error, others } })
        }
        error => error,
    })?;
    match forgotten {
        ClientResponse::Jobs(jobs) => {
            let forgotten = jobs.iter().map(|job| TaskId(job.0)).collect();
            Done::ok(JobsForgotten { forgotten, ignored: ignored.load(Ordering::Relaxed) })
        }
        _ => unexpected(),
    }
}

pub(super) fn wait(context: &Context, args: WaitArgs) -> Result<Done, HqError> {
    let mut session = context.connect()?;
    session.wait_for_lost_server(args.reconnect_timeout);
    let again = if args.without_close { "hq job wait --without-close" } else { "hq job wait" };
    let how = (!args.without_close, again);
    let teller = Teller::of_targets(&args.notify, &context.server_dir);
    wait_for(context, session, args.jobs, how, args.allow_failures, (Progress::hidden(), teller))
}

pub(super) fn progress(context: &Context, args: ProgressArgs) -> Result<Done, HqError> {
    let progress = match context.printer.mode {
        OutputMode::Cli => Progress::shown(),
        OutputMode::Json | OutputMode::Quiet => Progress::hidden(),
    };
    let mut session = context.connect()?;
    session.wait_for_lost_server(args.reconnect_timeout);
    let shown = (progress, Teller::default());
    wait_for(context, session, args.jobs, (true, "hq job progress"), args.allow_failures, shown)
}

fn wait_for(
    context: &Context,
    mut session: hq_client::Session,
    jobs: Selector,
    (until_closed, again): (bool, &str),
    allow_failures: bool,
    (progress, teller): (Progress, Teller),
) -> Result<Done, HqError> {
    let jobs = match jobs {
        // Soon it may be another one.
        Selector::Last => match or_none(&Selector::Last, last_job(&mut session).map(Some))? {
            Some(job) => only([job]),
            None => return Done::ok(Waited { jobs: Vec::new(), duration: Duration::ZERO }),
        },
        jobs => jobs,
    };
    if until_closed && context.printer.is_read() {
        context.printer.hint(&hint_of_open(&mut session, &jobs));
        context.hint_of_workers(&mut session);
    }
    let request = ClientRequest::WatchJobs { jobs: jobs.clone(), until_closed, notifications: false };
    let how = Follow { on_notify: None, progress, teller };
    let waited = follow(&mut session.watch(request)?, how, (again, &jobs))?;
    let exit = exit_of(&waited, allow_failures);
    let notes = context.notes_of_waited(session, &waited);
    Ok(Done::ok(waited)?.exit(exit).noting(notes))
}

pub(super) fn task_ids(context: &Context, args: TaskIdsArgs) -> Result<Done, HqError> {
    let are_named = matches!(&args.jobs, Selector::Ids(ids) if ids.len() > 1);
    match context.ask(ClientRequest::TaskIds { jobs: args.jobs, states: args.filter })? {
        ClientResponse::TaskIds(jobs) => {
            let are_several = are_named || jobs.len() > 1;
            Done::ok(TaskIds { jobs, are_several })
        }
        _ => unexpected(),
    }
}

// What is said of open jobs that are waited for. Nothing goes wrong when it cannot be told.
fn hint_of_open(session: &mut hq_client::Session, jobs: &Selector) -> Vec<String> {
    let Ok(ClientResponse::JobList(listed)) =
        session.request(ClientRequest::ListJobs { states: UNENDED.to_vec() })
    else {
        return Vec::new();
    };
    let is_meant = |job: &JobId| match jobs {
        Selector::Ids(ids) => ids.contains(TaskId(job.0)),
        _ => true,
    };
    let open: IdSet =
        listed.iter().filter(|job| job.is_open && is_meant(&job.job)).map(|job| TaskId(job.job.0)).collect();
    match open.len() {
        0 => Vec::new(),
        1 if matches!(feed_of(session, &Selector::Ids(open.clone())), Ok(Some(_))) => {
            vec![format!("Job {open} is open until its generator and its reducer (if any) have ended")]
        }
        1 => vec![format!(
            "Job {open} is open: the wait ends when its tasks have ended and it has been closed with `hq job close \
             {open}`"
        )],
        _ => vec![format!(
            "Jobs {open} are open: the wait ends when they have also been closed with `hq job close {open}`"
        )],
    }
}

pub(super) fn open(context: &Context, args: OpenArgs) -> Result<Done, HqError> {
    let directory = std::env::current_dir().unwrap_or_default();
    let mut spec = args.job.spec("job");
    context.printer.warn(&missing_targets(&spec, &directory));
    spec.directory = directory.into_os_string().into_vec();
    match context.ask(ClientRequest::OpenJob { key: request_key()?, spec })? {
        ClientResponse::Submitted { job, warnings, .. } => {
            context.printer.advise(&warnings, false);
            Done::ok(crate::report::Opened(Submitted {
                job,
                together: Vec::new(),
                feeders: Vec::new(),
                broadcasts: Vec::new(),
                existing: 0,
                warnings,
            }))
        }
        _ => unexpected(),
    }
}

pub(super) fn close(context: &Context, args: CloseArgs) -> Result<Done, HqError> {
    let asked = context.connect_for("Closing")?.request(ClientRequest::CloseJobs { jobs: args.jobs });
    let answer = asked.map_err(|error| {
        let hint = match &error {
            ClientError::Refused(refused) => match refused.one() {
                RequestError::JobNotOpen(job) => {
                    Some(format!("there is nothing to close; `hq job info {job}` shows its progress"))
                }
                _ => None,
            },
            _ => None,
        };
        let error = refused_to("Closing", error);
        if let Some(hint) = hint { error.hint(hint) } else { error }
    })?;
    match answer {
        ClientResponse::Jobs(jobs) => Done::ok(JobsDone { jobs, done: "closed" }),
        _ => unexpected(),
    }
}

pub(super) fn budget(context: &Context, args: BudgetArgs) -> Result<Done, HqError> {
    let request = ClientRequest::SetBudget { jobs: args.jobs, budget: args.budget.0 };
    let done = match args.budget.0 {
        Some(budget) => format!("may use {} in total", node_hours_told(budget)),
        None => "may use any number of node hours".to_owned(),
    };
    match context.ask(request)? {
        ClientResponse::Jobs(jobs) if jobs.is_empty() => {
            let text = "The budget is already set to that; nothing was changed".to_owned();
            Done::ok(Changed { text, document: json!({ "changed": "" }) })
        }
        ClientResponse::Jobs(jobs) => {
            let lines: Vec<String> = jobs.iter().map(|job| format!("Job {job} {done}")).collect();
            let ids: IdSet = jobs.iter().map(|job| TaskId(job.0)).collect();
            let document = json!({ "changed": ids.to_string() });
            Done::ok(Changed { text: lines.join("\n"), document })
        }
        _ => unexpected(),
    }
}
