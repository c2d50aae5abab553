//! `hq task list`, `info` and `explain`.

use std::cell::RefCell;
use std::rc::Rc;

use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_model::TaskId;

use super::{Context, Done, job, unexpected};
use crate::cli::OutputMode;
use crate::cli::task::{ExplainArgs, InfoArgs, ListArgs};
use crate::error::HqError;
use crate::report::{Explained, TaskDetails, Tasks};
use crate::tasks::{ServerPages, TaskStream};

pub(super) fn list(context: &Context, args: ListArgs) -> Result<Done, HqError> {
    let session = Rc::new(RefCell::new(context.connect()?));
    let jobs = job::selected(&session, args.jobs)?;
    let pages = ServerPages::new(session, &jobs, args.tasks, args.task_status);
    // Files stand in long lists and in JSON.
    let shows_files = args.verbose || context.printer.mode == OutputMode::Json;
    let pages = if shows_files { pages.with_submits() } else { pages };
    let tasks = TaskStream::begin(pages)?;
    Done::ok(Tasks { jobs, verbose: args.verbose, now: tasks.now(), tasks })
}

pub(super) fn info(context: &Context, args: InfoArgs) -> Result<Done, HqError> {
    let session = Rc::new(RefCell::new(context.connect()?));
    let [job] = job::selected(&session, args.job)?[..] else {
        return unexpected();
    };
    let pages = ServerPages::new(session, &[job], Some(args.tasks), Vec::new()).with_submits();
    // Only people are told what tasks wait for.
    let pages = if context.printer.mode == OutputMode::Cli { pages.with_waits() } else { pages };
    let tasks = TaskStream::begin(pages)?;
    Done::ok(TaskDetails { job, now: tasks.now(), tasks })
}

pub(super) fn explain(context: &Context, args: ExplainArgs) -> Result<Done, HqError> {
    let request = ClientRequest::ExplainTask { jobs: args.job, task: TaskId(args.task) };
    match context.ask(request)? {
        ClientResponse::Explained(explained) => Done::ok(Explained(explained)),
        _ => unexpected(),
    }
}
