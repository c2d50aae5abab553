//! `hq task list`, `info` and `explain`.

use std::cmp::Ordering;

use hq_core::client_messages::{ClientRequest, ClientResponse, RequestError};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, TaskId};

use super::{Context, Done, job, unexpected};
use crate::cli::task::{ExplainArgs, InfoArgs, ListArgs};
use crate::error::HqError;
use crate::logging::now;
use crate::report::{Explained, JobFiles, TaskDetails, Tasks};
use crate::tasks::{ServerPages, TaskStream};

pub(super) fn list(context: &Context, args: ListArgs) -> Result<Done, HqError> {
    let mut session = context.connect()?;
    let details = job::details(&mut session, args.jobs)?;
    let jobs: Vec<JobFiles> = details.iter().map(|d| JobFiles::new(d, session.server_uid())).collect();
    let ids: Vec<JobId> = jobs.iter().map(JobFiles::job).collect();
    let pages = ServerPages::new(session, &ids, args.tasks, args.task_status);
    Done::ok(Tasks { jobs, tasks: TaskStream::new(pages), verbose: args.verbose, now: now() })
}

pub(super) fn info(context: &Context, args: InfoArgs) -> Result<Done, HqError> {
    let mut session = context.connect()?;
    let mut details = job::details(&mut session, args.job)?;
    let (Some(job), true) = (details.pop(), details.is_empty()) else {
        return unexpected();
    };
    let id = job.summary.job;
    let files = JobFiles::new(&job, session.server_uid());
    let mut tasks = Vec::new();
    let mut after = None;
    loop {
        let request = ClientRequest::ListTasks {
            jobs: Selector::Ids(IdSet::single(TaskId(id.0))),
            tasks: Some(args.tasks.clone()),
            states: Vec::new(),
            after,
            limit: hq_client::limits::TASK_PAGE,
        };
        let ClientResponse::Tasks { tasks: page, next } = session.request(request)? else {
            return unexpected();
        };
        tasks.extend(page.into_iter().map(|(_, task)| task));
        match next {
            None => break,
            Some(next) if after.cmp(&Some(next)) == Ordering::Less => after = Some(next),
            Some(_) => return unexpected(),
        }
    }
    let missing = args.tasks.difference(&tasks.iter().map(|t| t.task).collect());
    if let Some(task) = missing.first() {
        return Err(hq_client::ClientError::Refused(RequestError::NoTask(id, task)).into());
    }
    Done::ok(TaskDetails { job, files, tasks, now: now() })
}

pub(super) fn explain(context: &Context, args: ExplainArgs) -> Result<Done, HqError> {
    let request = ClientRequest::ExplainTask { jobs: args.job, task: TaskId(args.task) };
    match context.ask(request)? {
        ClientResponse::Explained(explained) => Done::ok(Explained(explained)),
        _ => unexpected(),
    }
}
