//! Outputs of tasks that have finished in an earlier run and are not there any more: nobody runs these tasks again, so
//! whoever resumes the run is told.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hq_client::Session;
use hq_core::client_messages::{ClientRequest, ClientResponse, JobPage, SubmitInfo};
use hq_model::paths::PathTemplates;
use hq_model::{Channel, IdSet, JobId, OutputSink, Stream, TaskState};
use hq_stream::{Directory, StreamError};

use crate::commands::unexpected;
use crate::error::HqError;
use crate::jobs::only;
use crate::streams::Damage;

/// Intervals of tasks that are named.
const RANGES_NAMED: usize = 100;

/// What to say of the streams and logs of a job. Nothing is said of files that each task has for itself.
///
/// # Errors
/// When the server is lost.
pub(super) fn lost_outputs(session: &mut Session, job: JobId) -> Result<Vec<String>, HqError> {
    let submits = submits_of(session, job)?;
    let states = vec![TaskState::Finished];
    let request = ClientRequest::TaskIds { jobs: only([job]), states };
    let ClientResponse::TaskIds(ids) = session.request(request)? else { return unexpected() };
    let finished = ids.into_iter().next().map_or_else(IdSet::new, |(_, ids)| ids);
    let mut texts = Vec::new();
    for SubmitInfo { ids, spec, submit_dir, .. } in &submits {
        let tasks = ids.intersection(&finished);
        let is_streamed = Channel::ALL.iter().any(|channel| *spec.sink(*channel) == OutputSink::Stream);
        if tasks.is_empty() || !is_streamed {
            continue;
        }
        let uid = session.server_uid();
        if let Some(stream) = PathTemplates::new(spec, submit_dir, uid).stream(job) {
            let what = if matches!(stream, Stream::Log(_)) { "log" } else { "stream" };
            texts.extend(lost_in(Path::new(OsStr::from_bytes(stream.path())), uid, (job, &tasks), what));
        }
    }
    Ok(texts)
}

/// The submits of a job that is resumed.
///
/// # Errors
/// When the server is lost.
pub(super) fn submits_of(session: &mut Session, job: JobId) -> Result<Vec<SubmitInfo>, HqError> {
    let page = Some(JobPage { tasks: None, from: None });
    let request = ClientRequest::JobInfo { jobs: only([job]), page };
    let ClientResponse::JobDetails { jobs, .. } = session.request(request)? else { return unexpected() };
    Ok(jobs.into_iter().next().map_or_else(Vec::new, |job| job.submits))
}

// Of tasks that have finished, and so have written something, if only their end.
fn lost_in(path: &Path, uid: &str, (job, tasks): (JobId, &IdSet), what: &str) -> Option<String> {
    let place = format!("the {what} {}", path.display());
    let (lost, why) = match found_in(path, uid, job, tasks) {
        Ok(lost) if lost.is_empty() => return None,
        Ok(lost) => (lost, format!("{place} was removed or damaged")),
        Err(error) => (tasks.clone(), error.to_string()),
    };
    let (named, of) = match lost.range_count() {
        1..=RANGES_NAMED => (lost.to_string(), lost.len()),
        _ => (format!("{} and others", lost.first().unwrap_or_default()), lost.len()),
    };
    let are = if of == 1 { "task" } else { "tasks" };
    Some(format!(
        "The output of {of} finished {are} is lost or incomplete, as {why}: {named}. They are not run again here; the \
         same command with `--array` and these numbers, and without this --state, runs them again"
    ))
}

fn found_in(path: &Path, uid: &str, job: JobId, tasks: &IdSet) -> Result<IdSet, StreamError> {
    let Some(directory) = Directory::of_server(path, uid)? else { return Ok(tasks.clone()) };
    let contents = directory.contents()?;
    let there: IdSet = contents.tasks(job).map(|(task, _)| task).collect();
    let mut lost = tasks.difference(&there);
    for damaged in Damage::of(&contents, false, &mut Vec::new())?.tasks_of(job) {
        lost.union_with(&tasks.intersection(damaged));
    }
    Ok(lost)
}
