//! Why tasks of jobs failed: read from the server job by job, with what the first task of each cause wrote last.

mod apart;
mod tails;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::rc::Rc;

use hq_client::ClientError;
use hq_core::cause::{FailureCause, JobFailures};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_core::record::FailureKind;
use hq_model::left_behind::LeftBehind;
use hq_model::paths::Place;
use hq_model::selector::Selector;
use hq_model::{Channel, IdSet, Instance, JobId, TaskId, TaskRef};

use crate::error::HqError;
use crate::jobs::SharedSession;
use crate::results::LeftReader;
use crate::tasks::{ServerPages, TaskStream};
use tails::Tails;

/// Longer lines are cut.
const LINE_CHARS_MAX: usize = 200;

/// A job with the causes of its failures.
pub(crate) struct FailedJob {
    /// What the server says.
    pub failures: JobFailures,
    /// The causes, those of most failures first.
    pub causes: Vec<Cause>,
}

/// Why some tasks failed.
pub(crate) struct Cause {
    /// What they have in common.
    pub cause: FailureCause,
    /// The instance of the first of them.
    pub instance: Instance,
    /// The file to which that one wrote its standard error, if it did.
    pub stderr: Option<PathBuf>,
    /// The last line in it or in its stream, where this machine can read that.
    pub last_line: Option<String>,
    /// How they were told from others.
    pub told: Told,
}

/// How failures of a cause were told from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// By their errors.
    Whole,
    /// By their errors and the last lines that they wrote. An estimate comes from a sample.
    ByLastLine { is_estimate: bool },
    /// As those of the same error that end otherwise than most, in several ways.
    Various { is_estimate: bool },
}

impl Cause {
    /// True when the count comes from a sample.
    pub(crate) fn is_estimate(&self) -> bool {
        matches!(self.told, Told::ByLastLine { is_estimate: true } | Told::Various { is_estimate: true })
    }
}

/// What is looked for in outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The last words of the first task of each cause.
    First,
    /// Those of many, which tell causes apart.
    Many,
}

/// Jobs with the causes of their failures, a page at a time.
pub(crate) struct FailureStream {
    session: SharedSession,
    jobs: Selector,
    look: Look,
    from: Option<JobId>,
    page: VecDeque<JobFailures>,
    is_done: bool,
}

impl FailureStream {
    /// A stream of these jobs, of which the first page is read now: when there is none, nothing has been printed yet.
    pub(crate) fn begin(
        session: SharedSession,
        jobs: Selector,
        look: Look,
    ) -> Result<FailureStream, HqError> {
        let mut stream =
            FailureStream { session, jobs, look, from: None, page: VecDeque::new(), is_done: false };
        stream.read()?;
        Ok(stream)
    }

    fn read(&mut self) -> Result<(), HqError> {
        let request = ClientRequest::JobFailures { jobs: self.jobs.clone(), from: self.from };
        let ClientResponse::Failures { jobs, next } = self.session.borrow_mut().request(request)? else {
            return Err(ClientError::Unexpected.into());
        };
        // A page that does not move on would be asked for again without end.
        if next.is_some() && next <= self.from {
            return Err(ClientError::Unexpected.into());
        }
        self.is_done = next.is_none();
        self.from = next;
        self.page = jobs.into();
        Ok(())
    }

    fn next_job(&mut self) -> Result<Option<FailedJob>, HqError> {
        loop {
            if let Some(failures) = self.page.pop_front() {
                return with_examples(&self.session, failures, self.look).map(Some);
            }
            if self.is_done {
                return Ok(None);
            }
            self.read()?;
        }
    }
}

impl Iterator for FailureStream {
    type Item = Result<FailedJob, HqError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_job().transpose()
    }
}

// Looks for what the first task of each cause wrote.
fn with_examples(
    session: &SharedSession,
    mut failures: JobFailures,
    look: Look,
) -> Result<FailedJob, HqError> {
    let causes = std::mem::take(&mut failures.causes);
    let mut places = places_of_stderr(session, failures.job, &causes)?;
    let without: IdSet =
        causes.iter().map(|(cause, _)| cause.first).filter(|task| !places.contains_key(task)).collect();
    let mut lines = lines_of_calls(session, failures.job, &without)?;
    let tails = Tails::new(session, failures.job);
    let mut written = tails.last_lines(places.iter().map(|(task, place)| (*task, place)));
    // The sum of what is told apart is still to be known.
    failures.causes.clone_from(&causes);
    let job = failures.job;
    let mut parts = match look {
        Look::First => BTreeMap::new(),
        Look::Many => apart::by_last_line(session, job, &causes)?,
    };
    let causes = causes.into_iter().enumerate().flat_map(|(index, (cause, instance))| {
        if let Some(parts) = parts.remove(&index) {
            return parts;
        }
        let place = places.remove(&cause.first);
        let stderr = match &place {
            Some(Place::File(path)) => Some(PathBuf::from(OsString::from_vec(path.clone()))),
            Some(Place::Stream(_)) | None => None,
        };
        let last_line = written.remove(&cause.first).or_else(|| lines.remove(&cause.first));
        vec![Cause { cause, instance, stderr, last_line, told: Told::Whole }]
    });
    let mut causes: Vec<Cause> = causes.collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.cause.count));
    Ok(FailedJob { failures, causes })
}

// Where the first tasks of causes wrote their standard error, of those that ran a program.
fn places_of_stderr(
    session: &SharedSession,
    job: JobId,
    causes: &[(FailureCause, Instance)],
) -> Result<BTreeMap<TaskId, Place>, HqError> {
    let ran = |kind| {
        matches!(
            kind,
            FailureKind::Exit(_) | FailureKind::Signal(_) | FailureKind::Timeout | FailureKind::Output
        )
    };
    let tasks = causes.iter().filter(|(cause, _)| ran(cause.kind));
    let tasks: BTreeMap<TaskId, Instance> = tasks.map(|(cause, instance)| (cause.first, *instance)).collect();
    let mut places = BTreeMap::new();
    if tasks.is_empty() {
        return Ok(places);
    }
    let ids: IdSet = tasks.keys().copied().collect();
    let pages = ServerPages::new(Rc::clone(session), &[job], Some(ids), Vec::new()).with_submits();
    let mut stream = TaskStream::begin(pages)?;
    while let Some(mut task) = stream.next_of(job)? {
        task.instance = tasks.get(&task.task).copied().unwrap_or(task.instance);
        let place = stream.place_of(job, &task, Channel::Stderr);
        places.extend(place.map(|place| (task.task, place)));
    }
    Ok(places)
}

// The last lines that calls printed to their standard error, which come with their ends.
fn lines_of_calls(
    session: &SharedSession,
    job: JobId,
    tasks: &IdSet,
) -> Result<BTreeMap<TaskId, String>, HqError> {
    let mut lines = BTreeMap::new();
    if tasks.is_empty() {
        return Ok(lines);
    }
    let mut left = LeftReader::new(Rc::clone(session), &[job], Some(tasks.clone()));
    for task in tasks.iter() {
        let Some(result) = left.of(TaskRef::new(job, task))? else { continue };
        if let LeftBehind::Packed(packed) = LeftBehind::of(&result.result) {
            lines.extend(line_in(packed.stderr.bytes).map(|line| (task, line)));
        }
    }
    Ok(lines)
}

fn line_in(tail: &[u8]) -> Option<String> {
    let tail = String::from_utf8_lossy(tail);
    let mut lines = tail.lines().rev().map(said).filter(|line| !line.is_empty());
    let last = lines.next()?;
    // Some programs draw rulers around what they say.
    let is_ruler = |line: &str| !line.contains(char::is_alphanumeric);
    let line = if is_ruler(last) { lines.find(|line| !is_ruler(line)).unwrap_or(last) } else { last };
    match line.char_indices().nth(LINE_CHARS_MAX) {
        Some((end, _)) => Some(format!("{}…", &line[..end])),
        None => Some(line.to_owned()),
    }
}

// A file with holes reads as zeros there.
fn said(line: &str) -> &str {
    line.trim_matches(|letter: char| letter.is_whitespace() || letter == '\0')
}
