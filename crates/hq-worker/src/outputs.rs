//! What is left to do when a task has ended: look for what it was to leave behind, complete its outputs, read its error
//! file, remove its directory. Its end is told after all of that. On a thread of its own, because file systems may take
//! their time.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Instant;

use hq_core::record::FailureKind;
use hq_core::worker::{Ends, Input, Outcome};
use hq_model::{ByteString, TaskRef};
use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;

use crate::declared::Promised;
use crate::limits;
use crate::objects::Leaves;
use crate::patience::Patient;
use crate::prepare::ignore_missing;
use crate::results::ResultFile;
use crate::sinks::{self, Sink};

/// Name of the error file in a task's directory.
pub(crate) const ERROR_FILE: &str = "hq-error";

/// A task that has ended, and what is to be done about it.
#[derive(Debug)]
pub(crate) struct Aftermath {
    /// The end, told when everything is done.
    pub(crate) input: Input,
    /// The task's directory; none when empty.
    pub(crate) task_dir: ByteString,
    /// The directory with the lists of its nodes; none when empty.
    pub(crate) nodes_dir: ByteString,
    /// Where its output channels went.
    pub(crate) sinks: Vec<Sink>,
    /// What the task was to leave behind.
    pub(crate) promised: Promised,
    /// Where the result of a program is.
    pub(crate) result: Option<ResultFile>,
    /// What it leaves as objects.
    pub(crate) leaves: Option<Leaves>,
}

impl Aftermath {
    /// True when the end is only to be told.
    pub(crate) fn is_nothing(&self) -> bool {
        let has_directory = !self.task_dir.is_empty() || !self.nodes_dir.is_empty();
        let has_files = !self.sinks.is_empty() || !self.promised.is_empty() || self.leaves.is_some();
        !has_directory && !has_files && self.result.is_none()
    }
}

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Work {
    /// A task has ended.
    Clean(Box<Aftermath>),
    /// A task is being ended whose program may have ended before.
    End(TaskRef, Ends),
}

/// The thread. It ends when it is dropped, with all its senders, and everything is done.
#[derive(Debug)]
pub(crate) struct Cleanup {
    queue: Option<mpsc::Sender<Work>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Cleanup {
    pub(crate) fn start(cleaned: UnboundedSender<Input>) -> io::Result<Cleanup> {
        let (queue, work) = mpsc::channel();
        let body = move || look_after(&work, &cleaned);
        let thread = std::thread::Builder::new().name("cleanup".into()).spawn(body)?;
        Ok(Cleanup { queue: Some(queue), thread: Some(thread) })
    }

    /// For ends that come another way.
    pub(crate) fn sender(&self) -> Option<mpsc::Sender<Work>> {
        self.queue.clone()
    }

    pub(crate) fn clean(&self, aftermath: Aftermath) {
        self.tell(Work::Clean(Box::new(aftermath)));
    }

    /// A task is being ended: if its program has ended, nothing is waited for any more.
    pub(crate) fn end(&self, task: TaskRef, ends: Ends) {
        self.tell(Work::End(task, ends));
    }

    fn tell(&self, work: Work) {
        if let Some(queue) = &self.queue {
            // The thread ends only when the queue does.
            let _ = queue.send(work);
        }
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // It does not panic by itself; if it did, that was told already.
            let _ = thread.join();
        }
    }
}

fn look_after(work: &mpsc::Receiver<Work>, cleaned: &UnboundedSender<Input>) {
    // When the loop has ended nobody wants to know, but the files are removed all the same.
    let done = |mut aftermath: Aftermath| match aftermath.leaves.take() {
        Some(leaves) if matches!(aftermath.input, Input::Ended { outcome: Outcome::Finished, .. }) => {
            let cleaned = cleaned.clone();
            leaves.store(aftermath, clean, move |input| drop(cleaned.send(input)));
        }
        _ => drop(cleaned.send(clean(aftermath))),
    };
    let mut patient = Patient::default();
    loop {
        let told = match patient.next() {
            None => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(next) => work.recv_timeout(next.saturating_duration_since(Instant::now())),
        };
        let ready = match told {
            Ok(Work::Clean(aftermath)) => patient.take_in(Instant::now(), *aftermath),
            Ok(Work::End(task, ends)) => patient.is_ended(task, ends),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        ready.into_iter().for_each(done);
        // Also when there is always something else to do.
        patient.look(Instant::now()).into_iter().for_each(done);
    }
    patient.into_all().for_each(done);
}

fn clean(aftermath: Aftermath) -> Input {
    let Aftermath { mut input, task_dir, nodes_dir, sinks, promised, result: from, .. } = aftermath;
    if let Input::Ended { outcome, result, .. } = &mut input
        && let Some(from) = from
    {
        if *outcome == Outcome::Finished {
            match from.read() {
                Ok(read) => *result = read,
                Err(text) => *outcome = Outcome::Failed(FailureKind::Output, text),
            }
        }
        from.forget();
    }
    if let Input::Ended { outcome, .. } = &mut input
        && let Some(text) = promised.end(*outcome == Outcome::Finished)
    {
        *outcome = Outcome::Failed(FailureKind::Output, text);
    }
    if let Input::Ended { outcome, .. } = &mut input {
        sinks::complete(&sinks, outcome);
    }
    if !task_dir.is_empty() {
        let path = Path::new(OsStr::from_bytes(&task_dir));
        if let Input::Ended { outcome: Outcome::Failed(_, text), .. } = &mut input
            && let Some(message) = error_file(&path.join(ERROR_FILE))
        {
            *text = message;
        }
        if let Err(error) = ignore_missing(fs::remove_dir_all(path)) {
            warn!(path = %path.display(), %error, "a task's directory could not be removed");
        }
    }
    if !nodes_dir.is_empty() {
        let path = Path::new(OsStr::from_bytes(&nodes_dir));
        if let Err(error) = ignore_missing(fs::remove_dir_all(path)) {
            warn!(path = %path.display(), %error, "the lists of a task's nodes could not be removed");
        }
    }
    input
}

/// What the task wrote about its failure.
fn error_file(path: &Path) -> Option<String> {
    // A task may leave anything there; what is no file is not opened, lest it blocks.
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    let read =
        File::open(path).and_then(|f| f.take(limits::ERROR_FILE_MAX as u64 + 1).read_to_end(&mut text));
    if let Err(error) = read {
        return Some(format!("Task created an error file, but it cannot be read: {error}"));
    }
    if text.is_empty() {
        return Some("Task created an error file, but it is empty".to_owned());
    }
    let is_cut = text.len() > limits::ERROR_FILE_MAX;
    text.truncate(limits::ERROR_FILE_MAX);
    if is_cut {
        // Not through the middle of a character.
        let whole = text.utf8_chunks().map(|c| c.valid().len()).sum::<usize>();
        if text.len() - whole < 4 {
            text.truncate(whole);
        }
    }
    let text = String::from_utf8_lossy(&text);
    let message = text.trim_end_matches(['\n', '\r']);
    Some(if is_cut { format!("{message}\n[The message was truncated]") } else { message.to_owned() })
}

#[cfg(test)]
mod tests {
    use hq_model::paths::TaskPaths;
    use hq_model::{Instance, JobId, OnClose, OutputSink, TaskId, TaskSpec, Usage};

    use super::*;
    use crate::declared::{Declared, Writers};

    fn check(content: &[u8], expected: &str) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join(ERROR_FILE);
        fs::write(&path, content).expect("writable");
        assert_eq!(error_file(&path).as_deref(), Some(expected));
    }

    #[test]
    fn the_error_file_becomes_the_message() {
        check(b"", "Task created an error file, but it is empty");
        check(b"bad \xff byte", "bad \u{fffd} byte");
        let long = "x".repeat(limits::ERROR_FILE_MAX);
        check(long.as_bytes(), &long);
        check(b"no license left\n", "no license left");
        let cut = format!("{long}\n[The message was truncated]");
        check(format!("{long}y").as_bytes(), &cut);
        let accent = format!("{}\u{e9}", "x".repeat(limits::ERROR_FILE_MAX - 1));
        let cut = format!("{}\n[The message was truncated]", "x".repeat(limits::ERROR_FILE_MAX - 1));
        check(accent.as_bytes(), &cut);
    }

    #[test]
    fn the_end_of_a_task_is_told_when_its_outputs_are_complete() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str, task: u32| dir.path().join(format!("{name}.{task}"));
        let bytes = |name: &str, task: u32| path(name, task).into_os_string().into_encoded_bytes();
        let stdout =
            OutputSink::File { path: b"out.%{TASK_ID}".to_vec(), on_close: OnClose::RemoveIfFinished };
        let spec = TaskSpec { stdout, ..TaskSpec::default() };
        let (cleaned, mut told) = tokio::sync::mpsc::unbounded_channel();
        let cleanup = Cleanup::start(cleaned).expect("a thread");
        for task in 0..20 {
            fs::write(path("out", task), "x").expect("writable");
            fs::write(path("result", task), "x").expect("writable");
            // So many that an end that is told too early is seen before they are gone.
            fs::create_dir(path("dir", task)).expect("writable");
            for file in 0..100 {
                fs::write(path("dir", task).join(file.to_string()), "x").expect("writable");
            }
            let failed = Outcome::Failed(FailureKind::Exit(1), String::new());
            let outcome = if task % 2 == 0 { Outcome::Finished } else { failed };
            let (stdout, outputs) = (Some(bytes("out", task)), Vec::new());
            let paths = TaskPaths {
                cwd: Vec::new(),
                stdout,
                stderr: None,
                outputs,
                result: None,
                is_streamed: [false; 2],
            };
            let task_ref = TaskRef::new(JobId(1), TaskId(task));
            cleanup.clean(Aftermath {
                input: Input::ended(task_ref, outcome, Usage::default()),
                task_dir: bytes("dir", task),
                nodes_dir: Vec::new(),
                sinks: sinks::of_task(&spec, paths),
                promised: Promised::new(
                    vec![Declared::new(bytes("result", task), Writers::Attempt)],
                    Instance(0),
                    std::time::Duration::ZERO,
                ),
                result: None,
                leaves: None,
            });
        }
        for expected in 0..20 {
            let Some(Input::Ended { task, .. }) = told.blocking_recv() else { panic!("an end") };
            let task = task.task.0;
            let aside = dir.path().join(format!("result.{task}.failed-0"));
            let left = [path("out", task), path("result", task), aside, path("dir", task)];
            let left = left.map(|path| path.exists());
            let is_success = task % 2 == 0;
            assert_eq!((task, left), (expected, [!is_success, is_success, !is_success, false]));
        }
    }

    #[test]
    fn what_is_no_file_is_no_message() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(error_file(&dir.path().join("missing")), None);
        assert_eq!(error_file(dir.path()), None);
    }
}
