//! `hq object list`, `info`, `keep` and `drop`; `put` and `get` are beside.

mod beside;
mod get;
mod named;
mod put;

use std::sync::{Arc, Mutex, PoisonError};

use hq_client::ClientError;
use hq_core::client_messages::{ClientRequest, ClientResponse, RequestError};
use hq_core::limits::REFUSED_MAX;
use hq_core::object_messages::{ObjectPhase, ObjectRequest};
use hq_model::{ObjectId, TaskRef};

use self::named::named;
use super::{Context, Done, unexpected};
use crate::cli::object::{DropArgs, InfoArgs, KeepArgs, ListArgs, Listed, ObjectArg, ObjectCommand};
use crate::error::HqError;
use crate::objects::{ObjectStream, ServerObjects, ask};
use crate::report::{ObjectDetails, ObjectList, ObjectsDone};

/// Those that can be kept or got.
const HERE: [ObjectPhase; 1] = [ObjectPhase::Stored];

pub(super) fn run(context: &Context, command: ObjectCommand) -> Result<Done, HqError> {
    match command {
        ObjectCommand::List(args) => list(context, args),
        ObjectCommand::Info(args) => info(context, args),
        ObjectCommand::Put(args) => put::put(context, args),
        ObjectCommand::Get(args) => get::get(context, args),
        ObjectCommand::Keep(KeepArgs { objects }) => {
            change(context, objects, (ObjectRequest::Keep, "kept"), &HERE)
        }
        ObjectCommand::Drop(DropArgs { objects }) => {
            // What is lost may be dropped: then it is not left once more.
            let phases = [ObjectPhase::Stored, ObjectPhase::Lost];
            change(context, objects, (ObjectRequest::Drop, "dropped"), &phases)
        }
    }
}

fn list(context: &Context, args: ListArgs) -> Result<Done, HqError> {
    let session = context.connect()?;
    let pages = match args.jobs {
        Listed::Jobs(jobs) => ServerObjects::new(session, jobs, args.state),
        Listed::Objects(objects) => ServerObjects::of(session, objects, args.state),
    };
    Done::ok(ObjectList(ObjectStream::begin(pages)?))
}

// What is not there is named, and the others are shown.
fn info(context: &Context, args: InfoArgs) -> Result<Done, HqError> {
    let (mut session, objects) = named(context, args.objects, &[])?;
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for object in objects {
        match ask(&mut session, ObjectRequest::Info(object)) {
            Ok(page) => found.extend(page.objects),
            Err(error) if error.exit == hq_client::error::EXIT_FAILED => refused.push(error),
            Err(error) => return Err(error),
        }
    }
    if found.is_empty()
        && let Some(error) = refused.pop()
    {
        return Err(error);
    }
    let refusal = context.refusal();
    refused.iter().for_each(|error| refusal(&error.text));
    Done::ok(ObjectDetails(found))
}

// What is possible is done, and the rest named: not more at once than the server names one by one.
fn change(
    context: &Context,
    objects: Vec<ObjectArg>,
    (request, done): (impl Fn(Vec<ObjectId>) -> ObjectRequest, &'static str),
    phases: &[ObjectPhase],
) -> Result<Done, HqError> {
    let (mut session, mut objects) = named(context, objects, phases)?;
    let (refusal, heard) = (context.refusal(), Arc::new(Mutex::new(Vec::new())));
    let hears = Arc::clone(&heard);
    session.tell_refusals(move |error| {
        refusal(&error.to_string());
        hears.lock().unwrap_or_else(PoisonError::into_inner).push(error.clone());
    });
    let mut last = None;
    for some in objects.chunks(REFUSED_MAX) {
        match session.request(ClientRequest::Objects(request(some.to_vec()))) {
            Ok(ClientResponse::Done) => {}
            Ok(_) => return unexpected(),
            // None of these could be done; of this one alone nothing was said yet.
            Err(ClientError::Refused(error)) if some.iter().any(|object| concerns(&error, object)) => {
                if let Some(before) = last.replace(error) {
                    context.refusal()(&before.to_string());
                    heard.lock().unwrap_or_else(PoisonError::into_inner).push(before);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    let mut refused = heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
    refused.extend(last.clone());
    objects.retain(|object| !refused.iter().any(|error| concerns(error, object)));
    match last {
        Some(error) if objects.is_empty() => return Err(ClientError::from(error).into()),
        Some(error) => context.refusal()(&error.to_string()),
        None => {}
    }
    Done::ok(ObjectsDone { objects, done })
}

fn concerns(error: &RequestError, object: &ObjectId) -> bool {
    match error {
        RequestError::NoJob(job) => object.task.job == *job,
        RequestError::NoTask(job, task) => object.task == TaskRef::new(*job, *task),
        RequestError::NoObject(of, _)
        | RequestError::NotStored(of, _)
        | RequestError::ObjectNeeded(of, _) => of == object,
        _ => false,
    }
}
