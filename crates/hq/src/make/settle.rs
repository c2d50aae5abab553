//! What is asked of a job beside its ends: which runs were interrupted, whose files are moved aside so that nobody takes
//! them for results, which failed, and which were not started for want of time.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hq_client::Session;
use hq_core::client_messages::{ClientRequest, ClientResponse, TaskInfo};
use hq_core::record::FailureKind;
use hq_model::{Instance, JobId, TaskState};
use hq_worker::aside;

use super::home::{FailedRun, Started};
use crate::commands::unexpected;
use crate::error::HqError;
use crate::jobs::only;

/// Moves aside what the runs of a job left that had begun and whose end no worker has told, and gives what was moved, and
/// where to.
///
/// # Errors
/// When the server refuses or is lost, or a file cannot be moved.
pub(crate) fn settle(
    session: &mut Session,
    job: JobId,
    runs: &[Started],
) -> Result<Vec<(PathBuf, PathBuf)>, HqError> {
    let mut moved = Vec::new();
    let unfinished =
        [TaskState::Waiting, TaskState::Running, TaskState::Failed, TaskState::Canceled, TaskState::Aborted];
    for_each_task(session, job, &unfinished, |task| {
        let Some(run) = runs.get(task.task.0 as usize).filter(|_| may_be_half_done(task)) else {
            return Ok(());
        };
        for (path, before) in &run.outputs {
            moved.extend(move_aside(Path::new(path), *before, task.instance)?);
        }
        Ok(())
    })?;
    Ok(moved)
}

/// How many runs of a job were not started because they could not have ended in time.
///
/// # Errors
/// When the server refuses or is lost.
pub(crate) fn too_late(session: &mut Session, job: JobId) -> Result<usize, HqError> {
    let mut count = 0;
    for_each_task(session, job, &[TaskState::Canceled], |task| {
        count += usize::from(task.too_late.is_some());
        Ok(())
    })?;
    Ok(count)
}

/// The runs of a job that have failed.
///
/// # Errors
/// When the server refuses or is lost.
pub(crate) fn failed(session: &mut Session, job: JobId, runs: &[Started]) -> Result<Vec<FailedRun>, HqError> {
    let mut failed = Vec::new();
    for_each_task(session, job, &[TaskState::Failed], |task| {
        failed.extend(runs.get(task.task.0 as usize).map(|run| FailedRun {
            name: run.name.clone(),
            error: task.error.clone().unwrap_or_default(),
            log: run.log.clone(),
        }));
        Ok(())
    })?;
    Ok(failed)
}

fn for_each_task(
    session: &mut Session,
    job: JobId,
    states: &[TaskState],
    mut with: impl FnMut(&TaskInfo) -> Result<(), HqError>,
) -> Result<(), HqError> {
    let mut after = None;
    loop {
        let request = ClientRequest::ListTasks {
            jobs: only([job]),
            tasks: None,
            states: states.to_vec(),
            after,
            limit: hq_core::limits::TASK_PAGE_MAX,
            grouped: false,
            with_entries: false,
        };
        let ClientResponse::Tasks { tasks, next, .. } = session.request(request)? else {
            return unexpected();
        };
        tasks.iter().try_for_each(|(_, task)| with(task))?;
        match next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

// Whether a run may have begun, and nobody has told that it ended. What was canceled counts as ended before it has, and of
// what a worker began in the last moment the server may not have heard.
fn may_be_half_done(task: &TaskInfo) -> bool {
    match task.state {
        TaskState::Running | TaskState::Waiting | TaskState::Canceled | TaskState::Aborted => true,
        TaskState::Failed => matches!(task.failure, Some(FailureKind::Crashes | FailureKind::Lost)),
        TaskState::Finished => false,
    }
}

// Only what has been written since.
fn move_aside(
    path: &Path,
    before: Option<i64>,
    instance: Instance,
) -> Result<Option<(PathBuf, PathBuf)>, HqError> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(None) };
    let written = found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec());
    if before == Some(written) {
        return Ok(None);
    }
    let moved = aside::move_aside(path, instance).map_err(|error| {
        let text =
            format!("{} was left by an interrupted run, and cannot be moved aside: {error}", path.display());
        HqError::failed("io", text)
    })?;
    Ok(moved.map(|aside| (path.to_owned(), aside)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_since_is_moved_and_nothing_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a b");
        assert_eq!(move_aside(&path, None, Instance(0)).expect("nothing to do"), None);
        for expected in ["a b.failed-1", "a b.failed-1.2"] {
            fs::write(&path, expected).expect("writable");
            let moved = move_aside(&path, Some(17), Instance(1)).expect("moved");
            assert_eq!(moved, Some((path.clone(), dir.path().join(expected))));
            assert_eq!(fs::read_to_string(dir.path().join(expected)).expect("there"), expected);
        }
        fs::write(&path, "as before").expect("writable");
        let found = fs::metadata(&path).expect("there");
        let written = found.mtime() * 1_000_000_000 + found.mtime_nsec();
        assert_eq!(move_aside(&path, Some(written), Instance(0)).expect("untouched"), None);
        assert!(path.exists());
    }
}
