//! `hq task list`, `info` and `explain`.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_model::{TaskId, TaskRef};

use super::{Context, Done, job, unexpected};
use crate::cli::OutputMode;
use crate::cli::task::{ExplainArgs, InfoArgs, ListArgs, TailArgs, tail_of};
use crate::error::HqError;
use crate::following;
use crate::render::StandardOutput;
use crate::report::{Explained, Plain, TaskDetails, Tasks};
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

pub(super) fn tail(context: &Context, args: TailArgs) -> Result<Done, HqError> {
    if context.printer.mode == OutputMode::Json {
        return Err(HqError::usage(
            "hq task tail prints outputs as they are and has no JSON form; use another --output-mode",
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
    let task = TaskRef::new(job, TaskId(task));
    let (out, how) = (&mut StandardOutput(io::stdout()), (args.lines, args.follow));
    following::tail(&session, (task, channel.into()), how, out, context.printer)?;
    Done::ok(Plain(String::new()))
}

pub(super) fn explain(context: &Context, args: ExplainArgs) -> Result<Done, HqError> {
    let request = ClientRequest::ExplainTask { jobs: args.job, task: TaskId(args.task) };
    match context.ask(request)? {
        ClientResponse::Explained(explained) => Done::ok(Explained(explained)),
        _ => unexpected(),
    }
}
