//! What is answered: the documents that commands print with `--output-mode json`, a page at a time.

use std::rc::Rc;
use std::time::Duration;

use hq_core::alloc::messages::{AllocResponse, QueueInfo};
use hq_core::client_messages::{
    ClientRequest, ClientResponse, JobDetail, JobShape, JobSummary, RequestError, TaskInfo, WorkerFilter,
    WorkerInfo,
};
use hq_core::output_messages::OutputState;
use hq_model::selector::Selector;
use hq_model::{Channel, IdSet, JobId, JobState, QueueId, TaskId, TaskRef, TaskState, Timestamp, WorkerId};
use serde_json::{Map, Value, json};

use super::super::model::Sort;
use super::super::source::Asker;
use super::super::wants::{Action, JOBS_MAX, Want};
use super::routes::{Query, invalid};
use crate::commands::unexpected;
use crate::error::HqError;
use crate::failures::{FailureStream, Look};
use crate::jobs::{JobPages, JobStream, SharedSession, only};
use crate::render;
use crate::report::{
    Allocations, Explained, ExplainedQueue, Failures, JobDetails, Queues, TaskDetails, Tasks, Workers,
};
use crate::results::LeftReader;
use crate::tasks::{ServerPages, TaskStream};

/// What a page has where its length is not said.
const PAGE: u32 = 100;
/// Things on a page.
const PAGE_MAX: u32 = 1000;
/// Submits of a job that are told.
const SUBMITS_MAX: usize = 20;
/// Allocations of a queue that are told: the latest.
const ALLOCATIONS_MAX: usize = 200;
/// How often a server is asked for more of a timeline for one answer; the next answer has more.
const TIMELINE_QUESTIONS_MAX: usize = 20;
/// Bytes of a text that is searched for.
const TEXT_BYTES_MAX: usize = 1000;

/// What is asked of the server: a request that was understood.
#[derive(Debug, PartialEq)]
pub(super) enum Asked {
    /// Jobs.
    Jobs { states: Vec<JobState>, text: String, sort: Sort, before: Option<JobId>, limit: u32 },
    /// One of them.
    Job(JobId),
    /// Why tasks of it failed.
    Failures(JobId),
    /// How far each layer of its graph is.
    Layers(JobId),
    /// How many of its tasks ran when.
    Timeline(JobId),
    /// Its tasks.
    Tasks { job: JobId, states: Vec<TaskState>, after: Option<TaskId>, limit: u32 },
    /// One of them.
    Task(TaskRef),
    /// What it waits for.
    Explain(TaskRef),
    /// What it prints.
    Output(TaskRef, Channel),
    /// Workers.
    Workers { filter: WorkerFilter, after: Option<WorkerId>, limit: u32 },
    /// One of them.
    Worker(WorkerId),
    /// What is there now.
    WorkerTasks { worker: WorkerId, limit: u32 },
    /// How loaded nodes were.
    Load { worker: Option<WorkerId>, time: Duration },
    /// Queues with their allocations.
    Allocations,
    /// Why a queue asks for what it asks for.
    Queue(QueueId),
}

impl Asked {
    /// Jobs, as a query says.
    pub(super) fn jobs(query: &Query) -> Result<Asked, HqError> {
        let sort = match query.text("sort") {
            "" | "latest" => Sort::Latest,
            "name" => Sort::Name,
            "busy" => Sort::Busy,
            "failed" => Sort::Failed,
            other => {
                return Err(invalid(format!(
                    "`sort={other}` is not valid; use latest, name, busy or failed"
                )));
            }
        };
        let before = query.number("before")?.map(JobId);
        if sort != Sort::Latest && before.is_some() {
            let text = "`before` requires `sort=latest`; other orders have a single page";
            return Err(invalid(text.to_owned()));
        }
        let text = query.text("text").to_owned();
        if text.len() > TEXT_BYTES_MAX {
            return Err(invalid(format!("`text` has {} bytes; the maximum is {TEXT_BYTES_MAX}", text.len())));
        }
        let states =
            query.list("state", |word| word.parse::<JobState>().map_err(|error| error.to_string()))?;
        Ok(Asked::Jobs { states, text, sort, before, limit: limit(query)? })
    }

    /// Tasks of a job.
    pub(super) fn tasks(job: JobId, query: &Query) -> Result<Asked, HqError> {
        let states =
            query.list("state", |word| word.parse::<TaskState>().map_err(|error| error.to_string()))?;
        Ok(Asked::Tasks { job, states, after: query.number("after")?.map(TaskId), limit: limit(query)? })
    }

    /// What a task prints.
    pub(super) fn output(task: TaskRef, query: &Query) -> Result<Asked, HqError> {
        match query.text("channel") {
            "" | "stdout" => Ok(Asked::Output(task, Channel::Stdout)),
            "stderr" => Ok(Asked::Output(task, Channel::Stderr)),
            other => Err(invalid(format!("`channel={other}` is not valid; use stdout or stderr"))),
        }
    }

    /// How loaded nodes were.
    pub(super) fn load(query: &Query) -> Result<Asked, HqError> {
        let time = match query.text("time") {
            "" => "1h",
            time => time,
        };
        let time = hq_model::duration::parse(time).map_err(|error| invalid(format!("`time`: {error}")))?;
        Ok(Asked::Load { worker: query.number("worker")?.map(WorkerId), time })
    }

    /// Workers.
    pub(super) fn workers(query: &Query) -> Result<Asked, HqError> {
        let filter = match query.text("state") {
            "" | "running" => WorkerFilter::Running,
            "offline" => WorkerFilter::Offline,
            "all" => WorkerFilter::All,
            other => {
                return Err(invalid(format!("`state={other}` is not valid; use running, offline or all")));
            }
        };
        Ok(Asked::Workers { filter, after: query.number("after")?.map(WorkerId), limit: limit(query)? })
    }

    /// Tasks that are on a worker.
    pub(super) fn tasks_on(worker: WorkerId, query: &Query) -> Result<Asked, HqError> {
        Ok(Asked::WorkerTasks { worker, limit: limit(query)? })
    }

    /// Asks the server.
    pub(super) fn answer(&self, session: &SharedSession) -> Result<Value, HqError> {
        let ask = |request| -> Result<ClientResponse, HqError> { Ok(session.borrow_mut().request(request)?) };
        let want = |want: Want| ask(want.request("", None, &[]));
        match self {
            Asked::Jobs { states, text, sort, before, limit } => {
                let at_most = if *sort == Sort::Latest { *limit } else { JOBS_MAX };
                let request = ClientRequest::LatestJobs {
                    states: states.clone(),
                    text: text.clone(),
                    before: *before,
                    limit: at_most,
                };
                let ClientResponse::JobList(mut list) = ask(request)? else { return unexpected() };
                sort.apply(&mut list);
                Ok(jobs(&list, *sort, *limit))
            }
            Asked::Job(id) => match want(Want::Job(*id))? {
                ClientResponse::JobDetails { mut jobs, next, now } => {
                    let detail = jobs.pop().ok_or_else(|| HqError::from_refusal(RequestError::NoJob(*id)))?;
                    job(detail, next.is_some(), now, session.borrow().server_uid())
                }
                _ => unexpected(),
            },
            Asked::Failures(job) => {
                let stream = FailureStream::begin(Rc::clone(session), only([*job]), Look::First)?;
                let mut report = Failures { jobs: Box::new(stream), are_several: false };
                first(render::document(&mut report)?, RequestError::NoJob(*job))
            }
            Asked::Layers(job) => Ok(render::shape::layers(shape(&want, *job)?.as_ref())),
            Asked::Timeline(job) => {
                let mut found = shape(&want, *job)?;
                for _ in 0..TIMELINE_QUESTIONS_MAX {
                    if found.timeline.is_complete {
                        break;
                    }
                    found = shape(&want, *job)?;
                }
                Ok(render::shape::timeline(&found))
            }
            Asked::Tasks { job, states, after, limit } => tasks(session, *job, states, *after, *limit),
            Asked::Task(task) => one_task(session, *task),
            Asked::Explain(task) => match want(Want::Reasons(*task))? {
                ClientResponse::Explained(explained) => render::document(&mut Explained::from(explained)),
                _ => unexpected(),
            },
            Asked::Output(task, channel) => match want(Want::Output(*task, *channel))? {
                ClientResponse::Output(output) => Ok(json!({
                    "instance": output.instance.0,
                    "channel": channel.word(),
                    "offset": output.offset,
                    "text": String::from_utf8_lossy(&output.bytes),
                    "state": state(&output.state),
                    "reason": match &output.state {
                        OutputState::Unreadable(reason) => Some(reason),
                        _ => None,
                    },
                })),
                _ => unexpected(),
            },
            Asked::Workers { filter, after, limit } => {
                let request = ClientRequest::ListWorkers { workers: Selector::All, filter: *filter };
                let ClientResponse::Workers(all) = ask(request)? else { return unexpected() };
                workers(all, *after, *limit)
            }
            Asked::Worker(id) => {
                let one = Selector::Ids(IdSet::single(TaskId(id.0)));
                let request = ClientRequest::ListWorkers { workers: one, filter: WorkerFilter::All };
                let ClientResponse::Workers(found) = ask(request)? else { return unexpected() };
                first(render::document(&mut Workers(found))?, RequestError::NoWorker(*id))
            }
            Asked::WorkerTasks { worker, limit } => {
                match ask(ClientRequest::WorkerTasks { worker: *worker, limit: *limit })? {
                    ClientResponse::Tasks { tasks, next, now, .. } => Ok(json!({
                        "tasks": tasks.iter().map(|(job, task)| on_worker(*job, task)).collect::<Vec<_>>(),
                        "are_all": next.is_none(),
                        "now": now.map(render::json::time),
                    })),
                    _ => unexpected(),
                }
            }
            Asked::Load { worker, time } => {
                match ask(ClientRequest::Load { worker: *worker, time: *time })? {
                    ClientResponse::Load(history) => Ok(render::load::document(&history)),
                    _ => unexpected(),
                }
            }
            Asked::Allocations => {
                let ClientResponse::Alloc(AllocResponse::Queues(queues)) = want(Want::Queues)? else {
                    return unexpected();
                };
                allocations(queues, |queue| want(Want::Queue(queue)))
            }
            Asked::Queue(queue) => match want(Want::Explanation(*queue))? {
                ClientResponse::Alloc(AllocResponse::Explained(explanation)) => {
                    render::document(&mut ExplainedQueue(*explanation))
                }
                _ => unexpected(),
            },
        }
    }
}

fn shape(
    want: &impl Fn(Want) -> Result<ClientResponse, HqError>,
    job: JobId,
) -> Result<Box<JobShape>, HqError> {
    match want(Want::Shape(job))? {
        ClientResponse::JobShape(shape) => Ok(shape),
        _ => unexpected(),
    }
}

/// Does what a user orders, and says so.
pub(super) fn act(asker: &mut Asker, action: Action) -> Result<Value, HqError> {
    let answer =
        asker.order(action.request(hq_client::request_key()?)).map_err(|error| match error.code {
            // It was understood, and nothing is there to be done.
            "invalid" => HqError { code: "nothing-to-do", ..error },
            _ => error,
        })?;
    let job = match answer {
        ClientResponse::Submitted { job, .. } => Some(job.0),
        ClientResponse::Canceled(of) if of.iter().all(|(_, ids, _)| ids.is_empty()) => {
            let text = "there is nothing to cancel: all tasks of the job have ended";
            return Err(HqError::failed("nothing-to-do", text));
        }
        _ => None,
    };
    Ok(json!({ "done": action.done(), "job": job }))
}

fn limit(query: &Query) -> Result<u32, HqError> {
    Ok(query.number_in("limit", 1..=PAGE_MAX)?.unwrap_or(PAGE))
}

// The first of a list, or why there is none.
fn first(list: Value, error: RequestError) -> Result<Value, HqError> {
    match list {
        Value::Array(list) => list.into_iter().next().ok_or_else(|| HqError::from_refusal(error)),
        other => Ok(other),
    }
}

fn jobs(list: &[JobSummary], sort: Sort, limit: u32) -> Value {
    let page = &list[..list.len().min(limit as usize)];
    let next = page.last().filter(|_| sort == Sort::Latest && page.len() == limit as usize);
    let mut jobs: Vec<Value> = page.iter().map(render::json::job).collect();
    for job in jobs.iter_mut().filter_map(Value::as_object_mut) {
        // It is not counted here.
        job.shift_remove("unrunnable_tasks");
    }
    json!({ "jobs": jobs, "next": next.map(|job| job.job.0) })
}

struct OnePage(Option<JobDetail>, Option<Timestamp>);

impl JobPages for OnePage {
    fn next_page(&mut self) -> Result<Option<Vec<JobDetail>>, HqError> {
        Ok(self.0.take().map(|detail| vec![detail]))
    }

    fn skip(&mut self, _: JobId) {}

    fn now(&self) -> Option<Timestamp> {
        self.1
    }
}

fn job(
    mut detail: JobDetail,
    has_more: bool,
    now: Option<Timestamp>,
    server_uid: &str,
) -> Result<Value, HqError> {
    let id = detail.summary.job;
    let are_all = !has_more && detail.submits.len() <= SUBMITS_MAX;
    detail.submits.truncate(SUBMITS_MAX);
    let stream = JobStream::begin(OnePage(Some(detail), now))?;
    let mut report = JobDetails {
        now: stream.now(),
        jobs: stream,
        server_uid: server_uid.to_owned(),
        failed: Box::new(|_| Ok(Vec::new())),
        tasks: None,
    };
    let mut document = first(render::document(&mut report)?, RequestError::NoJob(id))?;
    document["submits_are_all"] = are_all.into();
    Ok(document)
}

fn tasks(
    session: &SharedSession,
    job: JobId,
    states: &[TaskState],
    after: Option<TaskId>,
    limit: u32,
) -> Result<Value, HqError> {
    let pages = ServerPages::new(Rc::clone(session), &[job], None, states.to_vec());
    let after = after.map(|task| TaskRef::new(job, task));
    let stream = TaskStream::begin(pages.with_submits().single(after, limit))?;
    let mut report = Tasks { jobs: vec![job], verbose: false, now: stream.now(), tasks: stream };
    let mut document = render::document(&mut report)?;
    let tasks = document.as_object_mut().and_then(|all| all.values_mut().next()).map(Value::take);
    let next = report.tasks.after().map(|task| task.task.0);
    Ok(json!({ "tasks": tasks.unwrap_or_else(|| json!([])), "next": next, "now": report.now.to_string() }))
}

fn on_worker(job: JobId, task: &TaskInfo) -> Value {
    json!({
        "job_id": job.0,
        "job_task_id": task.task.0,
        "state": task.state.to_string(),
        "started_at": task.started.map(render::json::time),
    })
}

fn one_task(session: &SharedSession, task: TaskRef) -> Result<Value, HqError> {
    let ids = Some(IdSet::single(task.task));
    let left = LeftReader::new(Rc::clone(session), &[task.job], ids.clone());
    let pages = ServerPages::new(Rc::clone(session), &[task.job], ids, Vec::new());
    let stream = TaskStream::begin(pages.with_waits().with_submits().with_entries())?;
    let mut report = TaskDetails { job: task.job, now: stream.now(), tasks: stream, left: Some(left) };
    first(render::document(&mut report)?, RequestError::NoTask(task.job, task.task))
}

fn workers(all: Vec<WorkerInfo>, after: Option<WorkerId>, limit: u32) -> Result<Value, HqError> {
    let total = all.len();
    let behind = |worker: &WorkerInfo| after.is_none_or(|after| worker.worker > after);
    let mut rest: Vec<WorkerInfo> = all.into_iter().filter(behind).collect();
    let has_more = rest.len() > limit as usize;
    rest.truncate(limit as usize);
    let next = rest.last().filter(|_| has_more).map(|worker| worker.worker.0);
    Ok(json!({ "workers": render::document(&mut Workers(rest))?, "next": next, "total": total }))
}

fn allocations(
    queues: Vec<QueueInfo>,
    mut details: impl FnMut(QueueId) -> Result<ClientResponse, HqError>,
) -> Result<Value, HqError> {
    let mut all = Map::new();
    for queue in &queues {
        let ClientResponse::Alloc(AllocResponse::Details { queue, mut allocations }) = details(queue.queue)?
        else {
            return unexpected();
        };
        let id = queue.queue;
        allocations.reverse();
        allocations.truncate(ALLOCATIONS_MAX);
        let report = &mut Allocations { queue: *queue, allocations, verbose: false, cost: None };
        all.insert(id.to_string(), render::document(report)?);
    }
    Ok(json!({ "queues": render::document(&mut Queues(queues))?, "allocations": all }))
}

// How the rest of an output is, in a word.
fn state(state: &OutputState) -> &'static str {
    match state {
        OutputState::More => "more",
        OutputState::Complete => "complete",
        OutputState::Waits => "waits",
        OutputState::Away(_) => "away",
        OutputState::Ended => "ended",
        OutputState::Nowhere => "nowhere",
        OutputState::Unreadable(_) => "unreadable",
    }
}

#[cfg(test)]
mod tests {
    use super::super::routes::{Name, ROUTES};
    use super::*;

    fn query(name: Name, text: &str) -> Query {
        let route = ROUTES.iter().find(|route| route.name == name).expect("a route");
        Query::parse(route, Some(text)).expect("known words")
    }

    #[test]
    fn what_is_asked_is_understood_or_refused() {
        let jobs = |text| Asked::jobs(&query(Name::Jobs, text)).map_err(|error| error.text);
        let expected = Asked::Jobs {
            states: vec![JobState::Running, JobState::Failed],
            text: "a b".into(),
            sort: Sort::Latest,
            before: Some(JobId(7)),
            limit: 5,
        };
        assert_eq!(jobs("state=running,failed&text=a+b&before=7&limit=5"), Ok(expected));
        for (text, words) in [
            ("sort=size", "`sort=size` is not valid; use latest, name, busy or failed"),
            ("sort=name&before=7", "`before` requires `sort=latest`; other orders have a single page"),
            ("limit=0", "`limit=0` is not a number from 1 to 1000"),
            ("limit=1001", "`limit=1001` is not a number from 1 to 1000"),
        ] {
            assert_eq!(jobs(text), Err(words.to_owned()), "{text}");
        }
        let long = format!("text={}", "x".repeat(TEXT_BYTES_MAX + 1));
        assert_eq!(jobs(&long), Err("`text` has 1001 bytes; the maximum is 1000".to_owned()));
        assert!(jobs("state=sleeping").expect_err("no state").contains("sleeping"));
        let tasks = Asked::tasks(JobId(1), &query(Name::Tasks, "state=done")).map_err(|error| error.text);
        assert!(tasks.expect_err("no state").starts_with("`state`: "));
        let workers = Asked::workers(&query(Name::Workers, "state=gone")).map_err(|error| error.text);
        assert_eq!(workers, Err("`state=gone` is not valid; use running, offline or all".to_owned()));
        let task = TaskRef::new(JobId(1), TaskId(2));
        let output = Asked::output(task, &query(Name::Output, "channel=2")).map_err(|error| error.text);
        assert_eq!(output, Err("`channel=2` is not valid; use stdout or stderr".to_owned()));
    }

    #[test]
    fn a_page_says_where_the_next_one_begins() {
        let summary = |id| JobSummary {
            job: JobId(id),
            name: "<b>".into(),
            is_open: false,
            counters: Default::default(),
            cancel_reason: None,
            unrunnable: 0,
            fed_end: Default::default(),
            stalled: None,
        };
        let list = [summary(9), summary(4)];
        assert_eq!(jobs(&list, Sort::Latest, 2)["next"], 4);
        assert_eq!(jobs(&list, Sort::Latest, 3)["next"], Value::Null);
        assert_eq!(jobs(&list, Sort::Name, 2)["next"], Value::Null);
        assert_eq!(jobs(&list, Sort::Name, 1)["jobs"].as_array().map(Vec::len), Some(1));
        assert_eq!(jobs(&list, Sort::Latest, 2)["jobs"][0].get("unrunnable_tasks"), None);
    }
}
