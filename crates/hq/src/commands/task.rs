//! `hq task list`, `info` and `explain`.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use hq_client::ClientError;
use hq_core::client_messages::{ClientRequest, ClientResponse, RequestError, WorkerFilter};
use hq_core::explanation::{Reason, ReasonKind};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, TaskId, TaskRef, TaskState};

use super::{Context, Done, job, unexpected};
use crate::cli::OutputMode;
use crate::cli::job::{JobAndTasks, TasksArg};
use crate::cli::task::{ExplainArgs, InfoArgs, ListArgs, TailArgs, tail_of};
use crate::error::HqError;
use crate::following;
use crate::jobs::{JobStream, ServerJobs, SharedSession, only};
use crate::render::StandardOutput;
use crate::report::{Explained, Plain, TaskDetails, Tasks};
use crate::results::LeftReader;
use crate::tasks::{ServerPages, TaskStream};

/// So many tasks are told one by one also where they could be told together.
const TOLD_ALONE_MAX: u64 = 1000;

pub(super) fn list(context: &Context, args: ListArgs) -> Result<Done, HqError> {
    let session = Rc::new(RefCell::new(context.connect()?));
    let jobs = job::selected_or_none(&session, args.jobs)?;
    let pages = ServerPages::new(session, &jobs, args.tasks, args.task_status);
    // Files stand in long lists and in JSON.
    let shows_files = args.verbose || context.printer.mode == OutputMode::Json;
    let pages = if shows_files { pages.with_submits() } else { pages };
    let tasks = TaskStream::begin(pages)?;
    Done::ok(Tasks { jobs, verbose: args.verbose, now: tasks.now(), tasks })
}

pub(super) fn info(context: &Context, args: InfoArgs) -> Result<Done, HqError> {
    let session = Rc::new(RefCell::new(context.connect()?));
    let (jobs, tasks) = named("info", args.job, args.tasks)?;
    let [job] = job::selected(&session, jobs)?[..] else {
        return unexpected();
    };
    let tasks = ids_of(&session, job, tasks)?;
    let left = LeftReader::new(Rc::clone(&session), &[job], Some(tasks.clone()));
    let is_short = tasks.len() <= TOLD_ALONE_MAX;
    let pages = ServerPages::new(session, &[job], Some(tasks), Vec::new()).with_submits().with_entries();
    // People are told what tasks wait for, and of some tasks what each uses now.
    let is_each = context.printer.mode == OutputMode::Cli || is_short;
    let pages = if is_each { pages.with_waits() } else { pages };
    let tasks = TaskStream::begin(pages)?;
    Done::ok(TaskDetails { job, now: tasks.now(), tasks, left: Some(left) })
}

pub(super) fn tail(context: &Context, args: TailArgs) -> Result<Done, HqError> {
    if context.printer.mode == OutputMode::Json {
        return Err(HqError::usage(
            "hq task tail prints output unchanged and has no JSON output; use another --output-mode",
        ));
    }
    let (job, task, channel) = tail_of(&args.words).map_err(HqError::usage)?;
    let session = Rc::new(RefCell::new(context.connect()?));
    if args.follow {
        session.borrow_mut().wait_for_lost_server(None);
    }
    let [job] = job::selected(&session, job)?[..] else {
        return unexpected();
    };
    let Some(task) = ids_of(&session, job, task)?.first() else { return unexpected() };
    let task = TaskRef::new(job, task);
    let (out, how) = (&mut StandardOutput(io::stdout()), (args.lines, args.follow));
    following::tail(&session, (task, channel.into()), how, out, context.printer)?;
    Done::ok(Plain(Vec::new()))
}

pub(super) fn explain(context: &Context, args: ExplainArgs) -> Result<Done, HqError> {
    let (jobs, tasks) = named("explain", args.job, args.task)?;
    explain_one(context, jobs, tasks)
}

/// Says what a task waits for.
pub(super) fn explain_one(context: &Context, jobs: Selector, tasks: TasksArg) -> Result<Done, HqError> {
    let session = Rc::new(RefCell::new(context.connect()?));
    let (jobs, tasks) = match tasks {
        TasksArg::Ids(tasks) => (jobs, tasks),
        key => {
            let [job] = job::selected(&session, jobs)?[..] else { return unexpected() };
            (only([job]), ids_of(&session, job, key)?)
        }
    };
    let Some(task) = tasks.first().filter(|_| tasks.len() == 1) else {
        return Err(HqError::usage("one task only; write its id, such as 5"));
    };
    let request = ClientRequest::ExplainTask { jobs, task };
    let response = session.borrow_mut().request(request)?;
    let ClientResponse::Explained(told) = response else { return unexpected() };
    let mut explained = Explained::from(told);
    let is_taken = |reason: &Reason| reason.kind == ReasonKind::Puller;
    if explained.told.state == TaskState::Running && explained.told.reasons.iter().any(is_taken) {
        let who = super::pull::who_has(context, explained.told.task);
        explained.told.reasons.extend(who.map(|text| Reason::new(ReasonKind::Puller, text)));
    }
    if !explained.told.workers.is_empty() {
        let task = explained.told.task;
        let mut jobs = JobStream::begin(
            ServerJobs::new(Rc::clone(&session), only([task.job])).of_tasks(IdSet::single(task.task)),
        )?;
        if jobs.next_job()?.is_some()
            && let Some(submit) = jobs.next_submit()?
        {
            explained.requests.clone_from(&submit.spec.requests);
        }
        let workers = explained.told.workers.iter().map(|of| TaskId(of.worker.0)).collect();
        let request =
            ClientRequest::ListWorkers { workers: Selector::Ids(workers), filter: WorkerFilter::All };
        // One that has been forgotten meanwhile is explained without what it offered.
        if let Ok(ClientResponse::Workers(workers)) = session.borrow_mut().request(request) {
            let offers = workers.into_iter().map(|worker| (worker.worker, worker.config.resources));
            explained.offers = offers.collect();
        }
    }
    Done::ok(explained)
}

// Which tasks of which job: `3@17` in one word, or in two.
fn named(command: &str, job: JobAndTasks, tasks: Option<IdSet>) -> Result<(Selector, TasksArg), HqError> {
    match (job.tasks, tasks) {
        (Some(tasks), None) => Ok((job.jobs, tasks)),
        (None, Some(tasks)) => Ok((job.jobs, TasksArg::Ids(tasks))),
        (None, None) => {
            let job = job.jobs;
            let text = format!("specify the task of job {job}: `hq task {command} {job}@TASK`");
            Err(HqError::usage(text))
        }
        (Some(TasksArg::Ids(tasks)), Some(more)) => {
            Err(HqError::usage(format!("tasks are given twice: {tasks} after the @, and {more}")))
        }
        (Some(TasksArg::Key(key)), Some(more)) => {
            Err(HqError::usage(format!("tasks are given twice: {key} after the @, and {more}")))
        }
    }
}

// A key is looked for among all tasks of the job: servers answer by ids.
fn ids_of(session: &SharedSession, job: JobId, tasks: TasksArg) -> Result<IdSet, HqError> {
    let key = match tasks {
        TasksArg::Ids(ids) => return Ok(ids),
        TasksArg::Key(key) => key,
    };
    let mut all = TaskStream::begin(ServerPages::new(Rc::clone(session), &[job], None, Vec::new()))?;
    while let Some(task) = all.next_of(job)? {
        if task.key.as_deref() == Some(key.as_str()) {
            return Ok(IdSet::single(task.task));
        }
    }
    Err(ClientError::from(RequestError::NoKey(job, key)).into())
}
