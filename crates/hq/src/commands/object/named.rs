//! The objects that a command names: one by one, or those of some tasks or of a whole job, which the server lists.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use hq_client::error::EXIT_FAILED;
use hq_client::{ClientError, Session};
use hq_core::object_messages::{ObjectPhase, ObjectRequest};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, ObjectId, TaskId};

use super::Context;
use crate::cli::object::ObjectArg;
use crate::commands::job;
use crate::error::HqError;
use crate::jobs::SharedSession;
use crate::objects::ask;

/// The objects, each once. Of several tasks and of whole jobs those in one of these phases, or in any where there are none; what
/// has none is named, and is an error where there is nothing else.
pub(super) fn named(
    context: &Context,
    objects: Vec<ObjectArg>,
    phases: &[ObjectPhase],
) -> Result<(Session, Vec<ObjectId>), HqError> {
    let session: SharedSession = Rc::new(RefCell::new(context.connect()?));
    let last = match objects.iter().any(|object| object.job.is_none()) {
        true => job::selected(&session, Selector::Last)?.first().copied(),
        false => None,
    };
    let mut session = Rc::into_inner(session).ok_or(ClientError::Unexpected)?.into_inner();
    let (mut ids, mut seen, mut missing) = (Vec::new(), BTreeSet::new(), Vec::new());
    for object in objects {
        let job = object.job.or(last).ok_or(ClientError::Unexpected)?;
        let found = match object.single(job) {
            Some(one) => vec![one],
            None => match listed(&mut session, job, &object, phases) {
                Ok(found) => {
                    missing.extend(without(job, &object, &found, phases));
                    found
                }
                Err(error) if error.exit == EXIT_FAILED => {
                    missing.push(error);
                    Vec::new()
                }
                Err(error) => return Err(error),
            },
        };
        ids.extend(found.into_iter().filter(|id| seen.insert(id.clone())));
    }
    if ids.is_empty()
        && let Some(error) = missing.pop()
    {
        missing.iter().for_each(|error| context.refusal()(&error.text));
        return Err(error);
    }
    missing.iter().for_each(|error| context.refusal()(&error.text));
    Ok((session, ids))
}

// Those of a job that are meant.
fn listed(
    session: &mut Session,
    job: JobId,
    of: &ObjectArg,
    phases: &[ObjectPhase],
) -> Result<Vec<ObjectId>, HqError> {
    let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
    let last = of.tasks.as_ref().and_then(IdSet::last).unwrap_or(TaskId(u32::MAX));
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let list = ObjectRequest::List { jobs: jobs.clone(), phases: phases.to_vec(), after: after.clone() };
        let page = ask(session, list)?;
        found.extend(page.objects.into_iter().map(|view| view.copy.object).filter(|object| of.means(object)));
        // A page that does not move on would be asked for again without end.
        if page.next.is_some() && page.next <= after {
            return Err(ClientError::Unexpected.into());
        }
        after = page.next;
        if after.as_ref().is_none_or(|after| after.task.task > last) {
            return Ok(found);
        }
    }
}

// That some tasks that were named have none, or the whole job.
fn without(job: JobId, of: &ObjectArg, found: &[ObjectId], phases: &[ObjectPhase]) -> Option<HqError> {
    let have: IdSet = found.iter().map(|object| object.task.task).collect();
    let object = of.name.as_ref().map_or_else(|| "object".to_owned(), |name| format!("object `{name}`"));
    let words: Vec<&str> = phases.iter().map(|phase| phase.word()).collect();
    let that_is = if words.is_empty() { String::new() } else { format!(" that is {}", words.join(" or ")) };
    let who = match &of.tasks {
        None if found.is_empty() => format!("Job {job} has"),
        None => return None,
        Some(tasks) => {
            let none = tasks.difference(&have);
            match none.len() {
                0 => return None,
                1 => format!("Task {none} of job {job} has"),
                _ => format!("Tasks {none} of job {job} have"),
            }
        }
    };
    Some(HqError::failed("no-object", format!("{who} no {object}{that_is}.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_none_is_named() {
        let arg = |tasks: Option<&str>, name: Option<&str>| ObjectArg {
            job: None,
            tasks: tasks.map(|tasks| tasks.parse().expect(tasks)),
            name: name.map(|name| name.parse().expect(name)),
        };
        let found = ["3@1:x", "3@2:x"].map(|id| id.parse().expect(id));
        let stored = [ObjectPhase::Stored];
        let told = |arg: ObjectArg, found: &[ObjectId], phases: &[ObjectPhase]| {
            without(JobId(3), &arg, found, phases).map(|error| error.text)
        };
        assert_eq!(told(arg(Some("1-2"), Some("x")), &found, &stored), None);
        assert_eq!(told(arg(None, None), &found, &stored), None);
        for (arg, found, phases, text) in [
            (
                arg(Some("1-3"), Some("x")),
                &found[..],
                &stored[..],
                "Task 3 of job 3 has no object `x` that is stored.",
            ),
            (arg(Some("0-3"), None), &found[..], &[], "Tasks 0,3 of job 3 have no object."),
            (
                arg(None, None),
                &[],
                &[ObjectPhase::Stored, ObjectPhase::Lost],
                "Job 3 has no object that is stored or lost.",
            ),
        ] {
            assert_eq!(told(arg, found, phases).as_deref(), Some(text));
        }
    }
}
