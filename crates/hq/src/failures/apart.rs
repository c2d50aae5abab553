//! Failures with the same error, told apart by the last line of standard error: an exit code alone says little.
//!
//! At most so many outputs are read. Of more an even sample is, and what it says is scaled to all of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::rc::Rc;

use hq_client::ClientError;
use hq_core::cause::{FailureCause, alike_in, shortened};
use hq_core::client_messages::{ClientRequest, ClientResponse, TaskInfo};
use hq_core::limits::CAUSE_WORKERS_MAX;
use hq_core::record::FailureKind;
use hq_model::paths::Place;
use hq_model::{Channel, IdSet, Instance, JobId, TaskId, TaskState};

use super::tails::Tails;
use super::{Cause, Told};
use crate::error::HqError;
use crate::jobs::{SharedSession, only};
use crate::tasks::{ServerPages, TaskStream};

/// Outputs of a job that are read.
const READ_MAX: u64 = 1000;
/// Last lines of a cause that are compared with those of others; what differs from all of them is not told apart.
const LINES_MAX: usize = 64;
/// Rows that a cause becomes.
const PARTS_MAX: usize = 8;

/// Those of the causes that are told apart, by their place among them.
pub(super) fn by_last_line(
    session: &SharedSession,
    job: JobId,
    causes: &[(FailureCause, Instance)],
) -> Result<BTreeMap<usize, Vec<Cause>>, HqError> {
    let mut reads: BTreeMap<usize, Vec<Read>> = BTreeMap::new();
    let mut places: BTreeMap<TaskId, Place> = BTreeMap::new();
    let all: Vec<&FailureCause> = causes.iter().map(|(cause, _)| cause).collect();
    let doubtful = doubtful(&all);
    if doubtful.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut ids = sample(&failed(session, job)?, READ_MAX);
    for index in &doubtful {
        ids.insert(all[*index].first);
    }
    let pages = ServerPages::new(Rc::clone(session), &[job], Some(ids), vec![TaskState::Failed]);
    let mut tasks = TaskStream::begin(pages.with_submits())?;
    while let Some(task) = tasks.next_of(job)? {
        let error = task.error.as_deref().unwrap_or_default();
        let Some(of) = doubtful.iter().find(|index| all[**index].has_text(error)) else { continue };
        let place = tasks.place_of(job, &task, Channel::Stderr);
        let stderr = match &place {
            Some(Place::File(path)) => Some(PathBuf::from(OsString::from_vec(path.clone()))),
            Some(Place::Stream(_)) | None => None,
        };
        places.extend(place.map(|place| (task.task, place)));
        reads.entry(*of).or_default().push(Read { task, stderr, last_line: None });
    }
    let mut lines = Tails::new(session, job).last_lines(places.iter().map(|(task, place)| (*task, place)));
    for read in reads.values_mut().flatten() {
        read.last_line = lines.remove(&read.task.task);
    }
    let parts = reads.into_iter().map(|(index, reads)| (index, parts(all[index], reads)));
    Ok(parts.filter(|(_, parts)| !parts.is_empty()).collect())
}

// Causes of several tasks whose programs gave nothing but an exit code as a reason, and that no other cause is like.
fn doubtful(causes: &[&FailureCause]) -> Vec<usize> {
    let is_single =
        |cause: &FailureCause| causes.iter().filter(|other| other.has_text(&cause.text)).count() == 1;
    let is_doubtful = |cause: &FailureCause| {
        matches!(cause.kind, FailureKind::Exit(_)) && cause.count > 1 && is_single(cause)
    };
    (0..causes.len()).filter(|index| is_doubtful(causes[*index])).collect()
}

fn failed(session: &SharedSession, job: JobId) -> Result<IdSet, HqError> {
    let request = ClientRequest::TaskIds { jobs: only([job]), states: vec![TaskState::Failed] };
    let ClientResponse::TaskIds(jobs) = session.borrow_mut().request(request)? else {
        return Err(ClientError::Unexpected.into());
    };
    Ok(jobs.into_iter().next().map_or_else(IdSet::new, |(_, ids)| ids))
}

// At most so many: one of each stretch of the same length. Not the same one of each, since what fails may do so by turns.
fn sample(ids: &IdSet, count_max: u64) -> IdSet {
    let step = ids.len().div_ceil(count_max).max(1);
    let is_taken = |place: u64| {
        let begin = place - place % step;
        let length = step.min(ids.len() - begin);
        place == begin + scattered(begin) % length
    };
    (0..).zip(ids.iter()).filter(|(place, _)| is_taken(*place)).map(|(_, id)| id).collect()
}

// A number that looks like chance, and is the same whenever somebody asks.
fn scattered(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}

// A task whose output was looked at.
struct Read {
    task: TaskInfo,
    stderr: Option<PathBuf>,
    last_line: Option<String>,
}

// Tasks of a cause whose last lines are the same but for numbers.
struct Group {
    // As all of them have it; `None` where there is none to be read.
    line: Option<String>,
    reads: Vec<Read>,
}

impl Group {
    // What both lines say, if they are alike.
    fn line_with(&self, read: &Read) -> Option<Option<String>> {
        match (&self.line, &read.last_line) {
            (None, None) => Some(None),
            (Some(line), Some(other)) => alike_in(line, other).map(Some),
            _ => None,
        }
    }
}

// What a cause becomes; nothing where all that was read ends alike.
fn parts(cause: &FailureCause, reads: Vec<Read>) -> Vec<Cause> {
    let read_count = reads.len() as u64;
    let mut groups: Vec<Group> = Vec::new();
    let mut rest = Vec::new();
    for read in reads {
        let alike = |(index, group): (usize, &Group)| Some((index, group.line_with(&read)?));
        match groups.iter().enumerate().find_map(alike) {
            Some((index, line)) => {
                groups[index].line = line;
                groups[index].reads.push(read);
            }
            None if groups.len() < LINES_MAX => {
                groups.push(Group { line: read.last_line.clone(), reads: vec![read] });
            }
            None => rest.push(read),
        }
    }
    if groups.len() < 2 {
        return Vec::new();
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.reads.len()));
    if groups.len() > PARTS_MAX {
        let is_common = |group: &Group| group.reads.len() > 1;
        let common = groups.iter().take(PARTS_MAX - 1).take_while(|group| is_common(group)).count();
        rest.extend(groups.split_off(common).into_iter().flat_map(|group| group.reads));
        rest.sort_by_key(|read| read.task.task);
    }
    let is_estimate = read_count < cause.count;
    let told = |told| move |group: Vec<Read>| (told, group);
    let of_lines = groups.into_iter().map(|group| group.reads).map(told(Told::ByLastLine { is_estimate }));
    let of_rest = Some(rest).filter(|rest| !rest.is_empty()).map(told(Told::Various { is_estimate }));
    let scaled = |count: u64| (count * cause.count.max(read_count) + read_count / 2) / read_count;
    of_lines
        .chain(of_rest)
        .map(|(told, mut reads)| {
            let count = scaled(reads.len() as u64);
            let workers = reads.iter().flat_map(|read| read.task.worker.iter().chain(&read.task.nodes));
            let workers = workers.copied().take(CAUSE_WORKERS_MAX).collect();
            let first = reads.iter().position(|read| read.task.task == cause.first).unwrap_or(0);
            let Read { task, stderr, last_line } = reads.swap_remove(first);
            let cause = FailureCause {
                kind: cause.kind,
                text: cause.text.clone(),
                count,
                workers,
                first: task.task,
                first_worker: task.worker,
                first_error: shortened(task.error.as_deref().unwrap_or_default()),
            };
            Cause { cause, instance: task.instance, stderr, last_line, told }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::task;

    // The counts and examples of `count` failures, of which tasks with these last lines were read.
    fn check(count: u64, lines: &[&str], expected: &[&str]) {
        let read = |(id, line): (u32, &&str)| Read {
            task: task(id, TaskState::Failed),
            stderr: None,
            last_line: Some((*line).to_owned()).filter(|line| !line.is_empty()),
        };
        let cause = FailureCause {
            kind: FailureKind::Exit(1),
            text: "exit code 1".into(),
            count,
            workers: std::collections::BTreeSet::new(),
            first: hq_model::TaskId(1),
            first_worker: None,
            first_error: "exit code 1".into(),
        };
        let parts = parts(&cause, (0..).zip(lines).map(read).collect());
        let told = |part: &Cause| {
            let mark = match part.told {
                Told::Whole => "whole ",
                Told::ByLastLine { is_estimate: false } => "",
                Told::ByLastLine { is_estimate: true } => "~",
                Told::Various { is_estimate: false } => "various ",
                Told::Various { is_estimate: true } => "various ~",
            };
            let line = part.last_line.as_deref().unwrap_or("-");
            format!("{mark}{} {}: {line}", part.cause.count, part.cause.first)
        };
        assert_eq!(parts.iter().map(told).collect::<Vec<_>>(), expected, "{lines:?}");
    }

    #[test]
    fn failures_are_told_apart_by_their_last_lines() {
        check(3, &["x", "x", "x"], &[]);
        check(2, &["at 17", "at 18"], &[]);
        check(3, &["MemoryError", "no x", "no x"], &["2 1: no x", "1 0: MemoryError"]);
        check(3, &["a", "", "a"], &["2 0: a", "1 1: -"]);
        check(4, &["", "", "", ""], &[]);
        check(300, &["a", "b", "a", "a", "b", "a"], &["~200 0: a", "~100 1: b"]);
    }

    #[test]
    fn what_ends_in_too_many_ways_is_told_together() {
        let lines = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "i"];
        check(10, &lines, &["2 8: i", "various 8 1: b"]);
        let words: Vec<String> = (1..100).map(|length| "x".repeat(length)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        check(99, &words, &["various 99 1: xx"]);
    }

    #[test]
    fn a_sample_is_even() {
        assert_eq!(sample(&IdSet::range(0, 9), 10).to_string(), "0-9");
        assert_eq!(sample(&IdSet::range(0, 9), 4).len(), 4);
        assert_eq!(sample(&IdSet::range(1, 1500), 1000).len(), 750);
        assert_eq!(sample(&IdSet::range(0, 999_999), READ_MAX).len(), READ_MAX);
        assert_eq!(sample(&IdSet::new(), 10).len(), 0);
        for ids in [2000, 3000, 100_000] {
            let odd = sample(&IdSet::range(1, ids), READ_MAX).iter().filter(|id| id.0 % 2 == 1).count();
            assert!((400..600).contains(&odd), "what fails by turns: {odd} of {ids}");
        }
    }
}
