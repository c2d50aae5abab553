//! `hq job …`, but for submitting and reading outputs.

use hq_client::request_key;
use hq_core::client_messages::{ClientRequest, ClientResponse, JobDetail, TaskInfo};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, JobState, TaskId, TaskState};

use super::{Context, Done, exit_of, unexpected};
use crate::cli::OutputMode;
use crate::cli::job::{
    CancelArgs, CloseArgs, ExplainArgs, ForgetArgs, InfoArgs, ListArgs, OpenArgs, ProgressArgs, TaskIdsArgs,
    WaitArgs,
};
use crate::error::HqError;
use crate::logging::now;
use crate::progress::Progress;
use crate::report::{Canceled, ExplainedJobs, JobCounts, JobDetails, Jobs, JobsDone, Submitted, TaskIds};
use crate::tasks::{ServerPages, TaskStream};
use crate::waiting::{Follow, follow};

/// Failed tasks shown by `job info`.
pub(super) const FAILED_SHOWN: u32 = 5;

pub(super) fn list(context: &Context, args: ListArgs) -> Result<Done, HqError> {
    let states = match (args.all, args.filter) {
        (true, _) => Vec::new(),
        (false, filter) if filter.is_empty() => vec![JobState::Waiting, JobState::Running, JobState::Opened],
        (false, filter) => filter,
    };
    match context.ask(ClientRequest::ListJobs { states })? {
        ClientResponse::JobList(jobs) => Done::ok(Jobs { jobs, verbose: args.verbose }),
        _ => unexpected(),
    }
}

pub(super) fn summary(context: &Context) -> Result<Done, HqError> {
    match context.ask(ClientRequest::CountJobs)? {
        ClientResponse::JobCounts(counts) => Done::ok(JobCounts(counts)),
        _ => unexpected(),
    }
}

pub(super) fn explain(context: &Context, args: ExplainArgs) -> Result<Done, HqError> {
    match context.ask(ClientRequest::ExplainJobs { jobs: args.jobs })? {
        ClientResponse::ExplainedJobs(jobs) => Done::ok(ExplainedJobs(jobs)),
        _ => unexpected(),
    }
}

pub(super) fn info(context: &Context, args: InfoArgs) -> Result<Done, HqError> {
    let mut session = context.connect()?;
    let jobs = details(&mut session, args.jobs)?;
    let server_uid = session.server_uid().to_owned();
    let mut report = JobDetails { jobs, failed: Vec::new(), tasks: None, server_uid, now: now() };
    match context.printer.mode {
        OutputMode::Cli => {
            for job in &report.jobs {
                let failed = match job.summary.counters.failed {
                    0 => Vec::new(),
                    _ => some_failed(&mut session, job.summary.job)?,
                };
                report.failed.push(failed);
            }
        }
        OutputMode::Json => {
            let ids: Vec<JobId> = report.jobs.iter().map(|job| job.summary.job).collect();
            report.tasks = Some(TaskStream::new(ServerPages::new(session, &ids, None, Vec::new())));
        }
        OutputMode::Quiet => {}
    }
    Done::ok(report)
}

/// All about jobs.
pub(super) fn details(session: &mut hq_client::Session, jobs: Selector) -> Result<Vec<JobDetail>, HqError> {
    match session.request(ClientRequest::JobInfo { jobs })? {
        ClientResponse::JobDetails(jobs) => Ok(jobs),
        _ => unexpected(),
    }
}

/// The first failed tasks of a job.
pub(super) fn some_failed(session: &mut hq_client::Session, job: JobId) -> Result<Vec<TaskInfo>, HqError> {
    let request = ClientRequest::ListTasks {
        jobs: Selector::Ids(IdSet::single(TaskId(job.0))),
        tasks: None,
        states: vec![TaskState::Failed],
        after: None,
        limit: FAILED_SHOWN,
    };
    match session.request(request)? {
        ClientResponse::Tasks { tasks, .. } => Ok(tasks.into_iter().map(|(_, task)| task).collect()),
        _ => unexpected(),
    }
}

pub(super) fn cancel(context: &Context, args: CancelArgs) -> Result<Done, HqError> {
    let CancelArgs { jobs, tasks, reason } = args;
    let of_tasks = tasks.is_some();
    match context.ask(ClientRequest::Cancel { jobs, tasks, reason })? {
        ClientResponse::Canceled(jobs) => Done::ok(Canceled { jobs, of_tasks }),
        _ => unexpected(),
    }
}

pub(super) fn forget(context: &Context, args: ForgetArgs) -> Result<Done, HqError> {
    match context.ask(ClientRequest::ForgetJobs { jobs: args.jobs, states: args.filter })? {
        ClientResponse::Jobs(jobs) => Done::ok(JobsDone { jobs, done: "forgotten" }),
        _ => unexpected(),
    }
}

pub(super) fn wait(context: &Context, args: WaitArgs) -> Result<Done, HqError> {
    let mut session = context.connect()?;
    session.wait_for_lost_server(args.reconnect_timeout);
    wait_for(session, args.jobs, !args.without_close, args.allow_failures, Progress::hidden())
}

pub(super) fn progress(context: &Context, args: ProgressArgs) -> Result<Done, HqError> {
    let progress = match context.printer.mode {
        OutputMode::Cli => Progress::shown(),
        OutputMode::Json | OutputMode::Quiet => Progress::hidden(),
    };
    let mut session = context.connect()?;
    session.wait_for_lost_server(args.reconnect_timeout);
    wait_for(session, args.jobs, true, args.allow_failures, progress)
}

fn wait_for(
    mut session: hq_client::Session,
    jobs: Selector,
    until_closed: bool,
    allow_failures: bool,
    progress: Progress,
) -> Result<Done, HqError> {
    let request = ClientRequest::WatchJobs { jobs, until_closed, notifications: false };
    let waited = follow(&mut session.watch(request)?, Follow { on_notify: None, progress })?;
    let exit = exit_of(&waited, allow_failures);
    Ok(Done::ok(waited)?.exit(exit))
}

pub(super) fn task_ids(context: &Context, args: TaskIdsArgs) -> Result<Done, HqError> {
    match context.ask(ClientRequest::TaskIds { jobs: args.jobs, states: args.filter })? {
        ClientResponse::TaskIds(jobs) => Done::ok(TaskIds(jobs)),
        _ => unexpected(),
    }
}

pub(super) fn open(context: &Context, args: OpenArgs) -> Result<Done, HqError> {
    let spec = args.job.spec("job");
    match context.ask(ClientRequest::OpenJob { key: request_key()?, spec })? {
        ClientResponse::Submitted { job, warnings, .. } => {
            context.printer.warn(&warnings);
            Done::ok(crate::report::Opened(Submitted { job, existing: 0, warnings }))
        }
        _ => unexpected(),
    }
}

pub(super) fn close(context: &Context, args: CloseArgs) -> Result<Done, HqError> {
    match context.ask(ClientRequest::CloseJobs { jobs: args.jobs })? {
        ClientResponse::Jobs(jobs) => Done::ok(JobsDone { jobs, done: "closed" }),
        _ => unexpected(),
    }
}
