//! Jobs and workers: submitting, waiting, and what is told of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hq_client::options::{PackedCall, open_spec, prepare_json};
use hq_client::{Session, request_key};
use hq_core::client_messages::{
    ClientRequest, ClientResponse, JobDetail, JobPage, JobSummary, SubmitInfo, TaskInfo, WorkerFilter,
    WorkerInfo,
};
use hq_model::paths::PathTemplates;
use hq_model::selector::Selector;
use hq_model::{Entry, IdSet, JobId, TaskId, TaskRef, TaskState, Timestamp};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::session::ask;
use crate::{error, waiting};

/// Tasks of a page.
const PAGE: u32 = 1000;

/// How a job is, as a `dict`. Times are seconds since 1970.
#[derive(IntoPyObject)]
pub(crate) struct Job {
    id: u32,
    name: String,
    state: &'static str,
    pub(crate) is_open: bool,
    waiting: u64,
    running: u64,
    finished: u64,
    failed: u64,
    canceled: u64,
    aborted: u64,
    cancel_reason: Option<String>,
    max_fails: Option<u64>,
    submitted: Option<f64>,
    ended: Option<f64>,
}

/// How a task is, as a `dict`.
#[derive(IntoPyObject)]
pub(crate) struct Task {
    job: u32,
    id: u32,
    state: &'static str,
    worker: Option<u32>,
    started: Option<f64>,
    ended: Option<f64>,
    error: Option<String>,
    crashes: u32,
    key: Option<String>,
    cwd: PathBuf,
    stdout: Option<PathBuf>,
    stderr: Option<PathBuf>,
}

/// How a worker is, as a `dict`.
#[derive(IntoPyObject)]
pub(crate) struct Worker {
    id: u32,
    hostname: String,
    group: String,
    pid: u32,
    resources: BTreeMap<String, String>,
    started: f64,
    ended: Option<f64>,
    tasks_running: u64,
    tasks_assigned: u64,
    is_draining: bool,
}

/// A task, what its function is called, the function and its arguments.
pub(crate) type Call = (u32, String, Vec<u8>, Vec<u8>);

/// Submits what JSON says in the words of job files, and gives the job and what the user should know.
pub(crate) fn submit(
    session: &mut Session,
    tasks: &str,
    submit_dir: &[u8],
    (job, calls, broadcasts): (Option<u32>, Vec<Call>, Vec<String>),
) -> PyResult<(u32, Vec<String>)> {
    let open = job.map(JobId);
    let mut file = prepare_json("job", tasks, open, submit_dir).map_err(|error| error::of_options(&error))?;
    let calls = calls
        .into_iter()
        .map(|(task, name, code, arguments)| (TaskId(task), PackedCall { name, code, arguments }));
    file.pack(calls.collect()).map_err(PyValueError::new_err)?;
    let in_front = file.broadcast(&broadcasts).map_err(|error| error::of_options(&error))?;
    let submitted = match in_front.is_empty() {
        true => session.submit_file(file, open, &mut |_| {}),
        false => session.submit_behind(file, in_front),
    };
    let submitted = submitted.map_err(|refused| error::of_client(&refused.error))?;
    Ok((submitted.job.0, submitted.warnings))
}

/// Waits until these jobs have ended. `tell` hears how they are at first, and of those that have changed. Gives those with
/// tasks that did not finish.
pub(crate) fn wait(
    session: &mut Session,
    jobs: &[u32],
    until_closed: bool,
    tell: Option<&Py<PyAny>>,
) -> PyResult<Vec<u32>> {
    let mut known = BTreeMap::new();
    let jobs = only(jobs);
    let mut watch =
        waiting::watch(session, ClientRequest::WatchJobs { jobs, until_closed, notifications: false })?;
    loop {
        match waiting::next(&mut watch)? {
            ClientResponse::Progress(jobs) => {
                for job in &jobs {
                    known.insert(job.job.0, job.counters.terminal() > job.counters.finished);
                }
                if let Some(tell) = tell {
                    let jobs: Vec<Job> = jobs.iter().map(summary).collect();
                    Python::attach(|python| tell.call1(python, (jobs,)).map(drop))?;
                }
            }
            ClientResponse::WatchEnded => break,
            _ => return Err(error::unexpected()),
        }
    }
    Ok(known.into_iter().filter(|(_, has_failed)| *has_failed).map(|(job, _)| job).collect())
}

/// All jobs.
pub(crate) fn list(session: &mut Session) -> PyResult<Vec<Job>> {
    match ask(session, ClientRequest::ListJobs { states: Vec::new() })? {
        ClientResponse::JobList(jobs) => Ok(jobs.iter().map(summary).collect()),
        _ => Err(error::unexpected()),
    }
}

/// One job.
pub(crate) fn info(session: &mut Session, job: u32) -> PyResult<Job> {
    let page = Some(JobPage { tasks: Some(IdSet::new()), from: None });
    match ask(session, ClientRequest::JobInfo { jobs: only(&[job]), page })? {
        ClientResponse::JobDetails { jobs, .. } => jobs.first().map(detail).ok_or_else(error::unexpected),
        _ => Err(error::unexpected()),
    }
}

/// Tasks of a job, ascending: those in one of these states, or all.
pub(crate) fn tasks(session: &mut Session, job: u32, states: &[String]) -> PyResult<Vec<Task>> {
    let states = states.iter().map(|word| state(word)).collect::<PyResult<Vec<TaskState>>>()?;
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let request = ClientRequest::ListTasks {
            jobs: only(&[job]),
            tasks: None,
            states: states.clone(),
            after,
            limit: PAGE,
            grouped: false,
            with_entries: false,
        };
        let ClientResponse::Tasks { tasks, next, .. } = ask(session, request)? else {
            return Err(error::unexpected());
        };
        let tasks: Vec<TaskInfo> = tasks.into_iter().map(|(_, task)| task).collect();
        let paths = paths(session, job, tasks.iter().map(|task| task.task).collect())?;
        for task in tasks {
            let templates = paths.get(&task.submit).ok_or_else(error::unexpected)?;
            found.push(told(job, task, templates));
        }
        if next.is_none() || next <= after {
            return Ok(found);
        }
        after = next;
    }
}

// Where the tasks of submits write, by their places.
fn paths(session: &mut Session, job: u32, tasks: IdSet) -> PyResult<BTreeMap<u32, PathTemplates>> {
    let uid = session.server_uid().to_owned();
    let mut found = BTreeMap::new();
    let mut from = None;
    loop {
        let page = Some(JobPage { tasks: Some(tasks.clone()), from });
        let ClientResponse::JobDetails { jobs, next, .. } =
            ask(session, ClientRequest::JobInfo { jobs: only(&[job]), page })?
        else {
            return Err(error::unexpected());
        };
        for SubmitInfo { index, spec, submit_dir, .. } in jobs.into_iter().flat_map(|job| job.submits) {
            found.insert(index, PathTemplates::new(&spec, &submit_dir, &uid));
        }
        if next.is_none() || next <= from {
            return Ok(found);
        }
        from = next;
    }
}

/// What finished tasks have left, as bytes.
pub(crate) fn results(session: &mut Session, job: u32, tasks: &[u32]) -> PyResult<Vec<(u32, Vec<u8>)>> {
    let tasks: IdSet = tasks.iter().map(|task| TaskId(*task)).collect();
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let request = ClientRequest::Results {
            jobs: only(&[job]),
            tasks: Some(tasks.clone()),
            from,
            with_failed: false,
        };
        let ClientResponse::Results { jobs, next } = ask(session, request)? else {
            return Err(error::unexpected());
        };
        for part in &jobs {
            let part = part.ids.iter().zip(part.results.iter());
            found.extend(part.map(|(task, result)| (task.0, result.to_vec())));
        }
        if next.is_none() || next <= from {
            return Ok(found);
        }
        from = next;
    }
}

/// Cancels a job, or tasks of it; gives how many were canceled.
pub(crate) fn cancel(
    session: &mut Session,
    job: u32,
    tasks: Option<Vec<u32>>,
    reason: Option<String>,
) -> PyResult<u64> {
    let tasks = tasks.map(|tasks| tasks.into_iter().map(TaskId).collect());
    match ask(session, ClientRequest::Cancel { jobs: only(&[job]), tasks, reason })? {
        ClientResponse::Canceled(jobs) => Ok(jobs.iter().map(|(_, ids, _)| ids.len()).sum()),
        _ => Err(error::unexpected()),
    }
}

/// Drops an ended job; false when nothing was dropped.
pub(crate) fn forget(session: &mut Session, job: u32) -> PyResult<bool> {
    match ask(session, ClientRequest::ForgetJobs { jobs: only(&[job]), states: Vec::new() })? {
        ClientResponse::Jobs(jobs) => Ok(!jobs.is_empty()),
        _ => Err(error::unexpected()),
    }
}

/// Makes an open job, of options in JSON.
pub(crate) fn open(session: &mut Session, options: &str) -> PyResult<u32> {
    let spec = open_spec(options).map_err(PyValueError::new_err)?;
    let key = request_key().map_err(|error| error::of_client(&error))?;
    match ask(session, ClientRequest::OpenJob { key, spec })? {
        ClientResponse::Submitted { job, .. } => Ok(job.0),
        _ => Err(error::unexpected()),
    }
}

/// Closes an open job.
pub(crate) fn close(session: &mut Session, job: u32) -> PyResult<()> {
    match ask(session, ClientRequest::CloseJobs { jobs: only(&[job]) })? {
        ClientResponse::Jobs(_) => Ok(()),
        _ => Err(error::unexpected()),
    }
}

/// The workers that are connected, or all.
pub(crate) fn workers(session: &mut Session, with_ended: bool) -> PyResult<Vec<Worker>> {
    let filter = if with_ended { WorkerFilter::All } else { WorkerFilter::Running };
    match ask(session, ClientRequest::ListWorkers { workers: Selector::All, filter })? {
        ClientResponse::Workers(workers) => Ok(workers.into_iter().map(worker).collect()),
        _ => Err(error::unexpected()),
    }
}

fn only(jobs: &[u32]) -> Selector {
    Selector::Ids(jobs.iter().map(|job| TaskId(*job)).collect())
}

fn state(word: &str) -> PyResult<TaskState> {
    let found = TaskState::ALL.into_iter().find(|state| state.word() == word);
    found.ok_or_else(|| PyValueError::new_err(format!("`{word}` is not a task state")))
}

fn seconds(time: Timestamp) -> f64 {
    time.0 as f64 / 1e6
}

fn summary(job: &JobSummary) -> Job {
    let counters = job.counters;
    Job {
        id: job.job.0,
        name: job.name.clone(),
        state: job.state().word(),
        is_open: job.is_open,
        waiting: counters.waiting,
        running: counters.running,
        finished: counters.finished,
        failed: counters.failed,
        canceled: counters.canceled,
        aborted: counters.aborted,
        cancel_reason: job.cancel_reason.clone(),
        max_fails: None,
        submitted: None,
        ended: None,
    }
}

fn detail(job: &JobDetail) -> Job {
    Job {
        max_fails: job.max_fails,
        submitted: Some(seconds(job.submitted)),
        ended: job.ended.map(seconds),
        ..summary(&job.summary)
    }
}

fn told(job: u32, task: TaskInfo, templates: &PathTemplates) -> Task {
    let entry = task.entry.as_deref().map(Entry::new);
    let paths = templates.expand(TaskRef::new(JobId(job), task.task), task.instance, entry.as_ref());
    Task {
        job,
        id: task.task.0,
        state: task.state.word(),
        worker: task.worker.map(|worker| worker.0),
        started: task.started.map(seconds),
        ended: task.ended.map(seconds),
        error: task.error,
        crashes: task.crashes,
        key: task.key,
        cwd: path(paths.cwd),
        stdout: paths.stdout.map(path),
        stderr: paths.stderr.map(path),
    }
}

fn path(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(bytes).into()
}

fn worker(worker: WorkerInfo) -> Worker {
    let pools = worker.config.resources.pools;
    Worker {
        id: worker.worker.0,
        hostname: worker.config.hostname,
        group: worker.config.group,
        pid: worker.config.pid,
        resources: pools.into_iter().map(|pool| (pool.name.to_string(), pool.kind.to_string())).collect(),
        started: seconds(worker.started),
        ended: worker.ended.map(|(time, _)| seconds(time)),
        tasks_running: worker.tasks_running,
        tasks_assigned: worker.tasks_assigned,
        is_draining: worker.is_draining,
    }
}
