//! What a running task says of itself, `hq task defer` and `hq task ready`, and what one of `hq make` asks at its start.

use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use hq_client::error::EXIT_FAILED;
use hq_core::client_messages::ClientRequest;
use hq_make::Digests;
use hq_model::dependency::{After, Condition};
use hq_model::{Instance, JobId, TaskId, TaskRef};
use hq_worker::notify;

use super::{Context, Done};
use crate::cli::task::{DeferArgs, IsUnchangedArgs, ReadyArgs};
use crate::error::HqError;
use crate::make::{Sha256, hex};
use crate::report::{Nothing, Plain};

/// How long a task that was put back waits for its own end before it says that none came.
const END_TIME_MAX: Duration = Duration::from_secs(3600);

pub(super) fn defer(context: &Context, args: DeferArgs) -> Result<Done, HqError> {
    let (task, instance) = own_task()?;
    let any_end = |after: After| After { condition: Condition::AnyEnd, ..after };
    let after = args.after.into_iter().chain(args.after_any.into_iter().map(any_end)).collect();
    context.ask(ClientRequest::Defer { task, instance, after })?;
    // The worker ends this attempt, and this process with it: what follows here in a script must not be done.
    std::thread::sleep(END_TIME_MAX);
    Err(HqError::failed("not-running", format!("Task {task} was put back, but its worker did not end it.")))
}

pub(super) fn ready(context: &Context, args: ReadyArgs) -> Result<Done, HqError> {
    let (task, instance) = own_task()?;
    context.ask(ClientRequest::Ready { task, instance, text: args.text.into_vec() })?;
    Done::ok(Nothing)
}

/// Says by its exit whether files hold what they held, and in words why not.
pub(super) fn is_unchanged(args: &IsUnchangedArgs) -> Result<Done, HqError> {
    let files: Vec<(String, String)> = serde_json::from_str(&args.files).map_err(|error| {
        HqError::usage(format!("FILES is not a valid list of files and digests: {error}"))
    })?;
    for (path, expected) in &files {
        let digest = match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => None,
            _ => Some(Sha256.digest(path.as_bytes())),
        };
        let is_same = match digest {
            None => false,
            Some(digest) => digest.is_ok_and(|digest| hex(&digest) == *expected),
        };
        if !is_same || files.is_empty() {
            return Ok(Done::ok(Nothing)?.exit(EXIT_FAILED));
        }
    }
    Done::ok(Plain("unchanged: none of its inputs has changed since last time\n".into()))
}

// The task that this process belongs to.
fn own_task() -> Result<(TaskRef, Instance), HqError> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let found = || {
        let task = TaskRef::new(JobId(number("HQ_JOB_ID")?), TaskId(number("HQ_TASK_ID")?));
        Some((task, Instance(number("HQ_INSTANCE_ID")?)))
    };
    let named = found().ok_or_else(|| {
        HqError::failed("not-running", "This works only inside a running task: HQ_TASK_ID is not set.")
    })?;
    let key = std::env::var_os("HQ_ACCESS_KEY").unwrap_or_default().into_vec();
    match notify::attempt_of(&key).filter(|own| *own != named) {
        Some((own, instance)) => {
            let text = format!(
                "This runs in task {own} (instance {instance}), but HQ_JOB_ID, HQ_TASK_ID and HQ_INSTANCE_ID were \
                 changed to those of {} (instance {}): a task can only act for itself.",
                named.0, named.1
            );
            Err(HqError::failed("not-running", text))
        }
        None => Ok(named),
    }
}
