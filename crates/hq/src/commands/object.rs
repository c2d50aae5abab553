//! `hq object list`, `info`, `keep` and `drop`; `put` and `get` are beside.

mod get;
mod put;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use hq_client::{ClientError, Session};
use hq_core::client_messages::{ClientRequest, ClientResponse, RequestError};
use hq_core::limits::REFUSED_MAX;
use hq_core::object_messages::ObjectRequest;
use hq_model::selector::Selector;
use hq_model::{ObjectId, TaskRef};

use super::{Context, Done, job, unexpected};
use crate::cli::object::{DropArgs, InfoArgs, KeepArgs, ListArgs, ObjectArg, ObjectCommand};
use crate::error::HqError;
use crate::jobs::SharedSession;
use crate::objects::{ObjectStream, ServerObjects, ask};
use crate::report::{ObjectDetails, ObjectList, ObjectsDone};

pub(super) fn run(context: &Context, command: ObjectCommand) -> Result<Done, HqError> {
    match command {
        ObjectCommand::List(args) => list(context, args),
        ObjectCommand::Info(args) => info(context, args),
        ObjectCommand::Put(args) => put::put(context, args),
        ObjectCommand::Get(args) => get::get(context, args),
        ObjectCommand::Keep(KeepArgs { objects }) => change(context, objects, ObjectRequest::Keep, "kept"),
        ObjectCommand::Drop(DropArgs { objects }) => change(context, objects, ObjectRequest::Drop, "dropped"),
    }
}

fn list(context: &Context, args: ListArgs) -> Result<Done, HqError> {
    let pages = ServerObjects::new(context.connect()?, args.jobs, args.state);
    Done::ok(ObjectList(ObjectStream::begin(pages)?))
}

// What is not there is named, and the others are shown.
fn info(context: &Context, args: InfoArgs) -> Result<Done, HqError> {
    let (mut session, objects) = named(context, args.objects)?;
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
    request: impl Fn(Vec<ObjectId>) -> ObjectRequest,
    done: &'static str,
) -> Result<Done, HqError> {
    let (mut session, mut objects) = named(context, objects)?;
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

// Each of them once.
fn named(context: &Context, objects: Vec<ObjectArg>) -> Result<(Session, Vec<ObjectId>), HqError> {
    let session: SharedSession = Rc::new(RefCell::new(context.connect()?));
    let last = match objects.iter().any(|object| object.is_of_last) {
        true => job::selected(&session, Selector::Last)?.first().copied(),
        false => None,
    };
    let mut ids: Vec<ObjectId> = Vec::new();
    for object in objects {
        let id = object.id(last);
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let session = Rc::into_inner(session).ok_or(ClientError::Unexpected)?;
    Ok((session.into_inner(), ids))
}
