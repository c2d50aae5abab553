//! What is asked of a job beside its ends: which runs were interrupted, whose files are moved aside so that nobody takes
//! them for results, which failed, and which were not started for want of time.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hq_client::Session;
use hq_core::client_messages::{ClientRequest, ClientResponse, TaskInfo};
use hq_core::limits::WORKER_GRACE;
use hq_core::record::FailureKind;
use hq_model::{IdSet, Instance, JobId, TaskId, TaskState, Timestamp};
use hq_worker::aside;

use super::again::{page_of, tasks_of};
use super::home::{FailedRun, Started};
use super::submits::KILL_GRACE;
use crate::commands::unexpected;
use crate::error::HqError;
use crate::jobs::only;

/// How far the clocks of machines may differ.
const CLOCKS: Duration = Duration::from_secs(5);

/// Jobs whose tasks are runs that are remembered.
#[derive(Debug)]
pub(crate) enum Ran {
    /// That of a server of our own, which may not have heard of all that has begun.
    Here(JobId),
    /// Those of a server that stays, ascending, each with the time at which it had ended: the later ones run tasks of the
    /// earlier ones again.
    OnServer(Vec<(JobId, Option<Timestamp>)>),
}

/// A file that a run left that has begun, and of which nobody knows that it has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HalfDone {
    path: PathBuf,
    instance: Instance,
}

impl Ran {
    // Those that count sooner come first, each with the time at which it had ended.
    fn latest_first(&self) -> Vec<(JobId, Option<Timestamp>)> {
        match self {
            Ran::Here(job) => vec![(*job, None)],
            Ran::OnServer(jobs) => jobs.iter().rev().copied().collect(),
        }
    }

    fn has_begun(&self, task: &TaskInfo) -> bool {
        match self {
            Ran::Here(_) => true,
            Ran::OnServer(_) => {
                let is_over_or_runs = matches!(task.state, TaskState::Failed | TaskState::Running);
                is_over_or_runs || task.started.is_some() || task.instance.0 > 0
            }
        }
    }
}

/// What the runs left half done that had begun and whose end no worker has told.
///
/// # Errors
/// When the server refuses or is lost.
pub(crate) fn half_done(
    session: &mut Session,
    ran: &Ran,
    runs: &[Started],
) -> Result<Vec<HalfDone>, HqError> {
    let mut found = Vec::new();
    for_each_latest(session, ran, runs.len(), |task, job_ended| {
        let Some(run) = runs.get(task.task.0 as usize).filter(|_| may_be_half_done(task)) else {
            return;
        };
        let span = match ran {
            Ran::Here(_) => Span { from: None, to: None },
            Ran::OnServer(_) => span_of(task, job_ended),
        };
        let left = run.outputs.iter().filter(|(path, before)| {
            span.has(written(Path::new(path)), *before)
                && !was_put_aside(Path::new(path), task.instance, span.from)
        });
        found.extend(left.map(|(path, _)| HalfDone { path: path.into(), instance: task.instance }));
    })?;
    Ok(found)
}

/// Moves it aside, and gives what was moved, and where to.
///
/// # Errors
/// When a file cannot be moved.
pub(crate) fn settle(half_done: &[HalfDone]) -> Result<Vec<(PathBuf, PathBuf)>, HqError> {
    let mut moved = Vec::new();
    for HalfDone { path, instance } in half_done {
        let aside = aside::move_aside(path, *instance).map_err(|error| {
            let text = format!(
                "{} was left by an interrupted run, and cannot be moved aside: {error}",
                path.display()
            );
            HqError::failed("io", text)
        })?;
        moved.extend(aside.map(|aside| (path.clone(), aside)));
    }
    Ok(moved)
}

/// The runs that have ended well, the last time that they were run.
///
/// # Errors
/// When the server refuses or is lost.
pub(crate) fn completed(session: &mut Session, ran: &Ran, runs: &[Started]) -> Result<Vec<Started>, HqError> {
    let finished = for_each_latest(session, ran, runs.len(), |_, _| {})?;
    Ok(finished.iter().filter_map(|task| runs.get(task.0 as usize).cloned()).collect())
}

/// Whether programs of runs go on that were ended from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StillRuns {
    /// Nothing of them.
    #[default]
    No,
    /// Workers have not said yet that nothing of them runs.
    Yes,
    /// Nobody can tell. The last one was ended then: it may go on for as long as [`KILL_GRACE`] says.
    Perhaps(Timestamp),
}

/// Whether programs of so many runs go on that were ended from outside. What was canceled counts as ended at once.
///
/// # Errors
/// When the server refuses or is lost.
pub(crate) fn still_runs(session: &mut Session, ran: &Ran, runs: usize) -> Result<StillRuns, HqError> {
    let Ran::OnServer(jobs) = ran else { return Ok(StillRuns::No) };
    let (mut last, mut is_known) = (None, true);
    for (job, _) in jobs {
        let (details, _) = page_of(session, *job, IdSet::new())?;
        let Some(detail) = details.first() else { continue };
        let counters = &detail.summary.counters;
        if counters.canceled + counters.aborted == 0 {
            continue;
        }
        match detail.ending {
            Some(0) => {}
            Some(_) => return Ok(StillRuns::Yes),
            // Of one that was canceled at once nobody may know that it had begun.
            None => (is_known, last) = (false, last.max(detail.ended)),
        }
    }
    if is_known {
        return Ok(StillRuns::No);
    }
    for_each_latest(session, ran, runs, |task, _| {
        let was_ended = matches!(task.state, TaskState::Canceled | TaskState::Aborted);
        last = last.max(task.ended.filter(|_| was_ended && task.started.is_some()));
    })?;
    Ok(last.map_or(StillRuns::No, StillRuns::Perhaps))
}

/// How many runs of a job were not started because they could not have ended in time.
///
/// # Errors
/// When the server refuses or is lost.
pub(crate) fn too_late(session: &mut Session, job: JobId) -> Result<usize, HqError> {
    let mut count = 0;
    for_each_task(session, job, None, &[TaskState::Canceled], |task| {
        count += usize::from(task.too_late.is_some());
    })?;
    Ok(count)
}

/// The runs that have failed, the last time that they were run.
///
/// # Errors
/// When the server refuses or is lost.
pub(crate) fn failed(session: &mut Session, ran: &Ran, runs: &[Started]) -> Result<Vec<FailedRun>, HqError> {
    let mut failed: BTreeMap<TaskId, FailedRun> = BTreeMap::new();
    for_each_latest(session, ran, runs.len(), |task, _| {
        let run = runs.get(task.task.0 as usize).filter(|_| task.state == TaskState::Failed);
        let Some(run) = run else { return };
        let error = task.error.clone().unwrap_or_default();
        failed.insert(task.task, FailedRun { name: run.name.clone(), error, log: run.log.clone() });
    })?;
    Ok(failed.into_values().collect())
}

// Hears of each run that has begun and not ended well, as it was the last time, and when its job had ended. Gives those that
// have ended well.
fn for_each_latest(
    session: &mut Session,
    ran: &Ran,
    count: usize,
    mut with: impl FnMut(&TaskInfo, Option<Timestamp>),
) -> Result<IdSet, HqError> {
    let unfinished =
        [TaskState::Waiting, TaskState::Running, TaskState::Failed, TaskState::Canceled, TaskState::Aborted];
    let mut all_finished = IdSet::new();
    let Some(last) = count.checked_sub(1).and_then(|last| u32::try_from(last).ok()) else {
        return Ok(all_finished);
    };
    let mut open = IdSet::range(0, last);
    for (job, ended) in ran.latest_first() {
        if open.is_empty() {
            break;
        }
        let finished = tasks_of(session, job, &[TaskState::Finished])?.intersection(&open);
        open.subtract(&finished);
        all_finished.union_with(&finished);
        // One that runs tasks again has some of them.
        let own = tasks_of(session, job, &[])?.intersection(&open);
        if own.is_empty() {
            continue;
        }
        let mut begun = IdSet::new();
        for_each_task(session, job, Some(&own), &unfinished, |task| {
            if ran.has_begun(task) {
                begun.insert(task.task);
                with(task, ended);
            }
        })?;
        open.subtract(&begun);
    }
    Ok(all_finished)
}

fn for_each_task(
    session: &mut Session,
    job: JobId,
    only_tasks: Option<&IdSet>,
    states: &[TaskState],
    mut with: impl FnMut(&TaskInfo),
) -> Result<(), HqError> {
    let mut after = None;
    loop {
        let request = ClientRequest::ListTasks {
            jobs: only([job]),
            tasks: only_tasks.cloned(),
            states: states.to_vec(),
            after,
            limit: hq_core::limits::TASK_PAGE_MAX,
            grouped: false,
            with_entries: false,
        };
        let ClientResponse::Tasks { tasks, next, .. } = session.request(request)? else {
            return unexpected();
        };
        tasks.iter().for_each(|(_, task)| with(task));
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

// When a run may have written, in ns since 1970, as far as that is known.
#[derive(Clone, Copy)]
struct Span {
    from: Option<i64>,
    to: Option<i64>,
}

impl Span {
    // Whether a file is of this time, and not what it was before.
    fn has(self, written: Option<i64>, before: Option<i64>) -> bool {
        let Some(written) = written else { return false };
        before != Some(written) && self.to.is_none_or(|to| written <= to)
    }
}

// What was written later is of somebody else: a program that is ended has its grace, and what a lost worker left may be
// written until it notices.
fn span_of(task: &TaskInfo, job_ended: Option<Timestamp>) -> Span {
    let patience = match task.failure {
        Some(FailureKind::Crashes | FailureKind::Lost) => WORKER_GRACE + CLOCKS,
        _ => KILL_GRACE + CLOCKS,
    };
    let ns = |at: Timestamp| i64::try_from(u128::from(at.0) * 1000).unwrap_or(i64::MAX);
    let patience = i64::try_from(patience.as_nanos()).unwrap_or(i64::MAX);
    let ended = task.ended.or(job_ended);
    Span { from: task.started.map(ns), to: ended.map(|ended| ns(ended).saturating_add(patience)) }
}

fn written(path: &Path) -> Option<i64> {
    let found = fs::symlink_metadata(path).ok()?;
    Some(nanoseconds(found.mtime(), found.mtime_nsec()))
}

// Whether a worker has moved aside what this attempt left: what is there now came later.
fn was_put_aside(path: &Path, instance: Instance, from: Option<i64>) -> bool {
    let Some(from) = from else { return false };
    let mut names = aside::names(path, instance).map_while(|aside| fs::symlink_metadata(aside).ok());
    // Since then it has its name.
    names.any(|aside| nanoseconds(aside.ctime(), aside.ctime_nsec()) >= from)
}

fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_moved_aside_replaces_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a b");
        let half_done = [HalfDone { path: path.clone(), instance: Instance(1) }];
        assert_eq!(settle(&half_done).expect("nothing to do"), []);
        for expected in ["a b.failed-1", "a b.failed-1.2"] {
            fs::write(&path, expected).expect("writable");
            let moved = settle(&half_done).expect("moved");
            assert_eq!(moved, [(path.clone(), dir.path().join(expected))]);
            assert_eq!(fs::read_to_string(dir.path().join(expected)).expect("there"), expected);
        }
    }

    #[test]
    fn what_was_there_before_or_came_later_is_not_of_the_run() {
        let check = |written, before, to, expected| {
            assert_eq!(
                Span { from: None, to }.has(written, before),
                expected,
                "{written:?} {before:?} {to:?}"
            );
        };
        check(None, None, None, false);
        check(Some(7), None, None, true);
        check(Some(7), Some(7), None, false);
        check(Some(7), Some(6), Some(7), true);
        check(Some(8), None, Some(7), false);
    }

    #[test]
    fn what_a_worker_has_moved_aside_is_not_moved_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x");
        fs::write(dir.path().join("x.failed-1"), "").expect("writable");
        let check = |instance, from, expected| {
            assert_eq!(was_put_aside(&path, Instance(instance), from), expected, "{instance} {from:?}");
        };
        check(1, Some(0), true);
        check(0, Some(0), false);
        check(1, None, false);
        check(1, Some(i64::MAX), false);
    }
}
