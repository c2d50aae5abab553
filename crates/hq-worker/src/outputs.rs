//! What is left to do when a task has ended: read its error file, remove its directory and what it asked to
//! be removed. On a thread of its own, because file systems may take their time.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc;

use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome};
use hq_model::{ByteString, Instance};
use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;

use crate::declared::{self, Declared};
use crate::limits;
use crate::prepare::ignore_missing;

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
    /// Output files: to remove when the task has finished, to look at when it has failed.
    pub(crate) outputs: Vec<ByteString>,
    /// What the task was to leave behind.
    pub(crate) declared: Vec<Declared>,
    /// What it left stays where it is, even when it failed.
    pub(crate) keeps: bool,
    /// Which attempt of it this was.
    pub(crate) instance: Instance,
}

/// The thread. It ends when it is dropped and everything is done.
#[derive(Debug)]
pub(crate) struct Cleanup {
    queue: Option<mpsc::Sender<Aftermath>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Cleanup {
    pub(crate) fn start(cleaned: UnboundedSender<Input>) -> io::Result<Cleanup> {
        let (queue, work) = mpsc::channel::<Aftermath>();
        let body = move || {
            for aftermath in work {
                // When the loop has ended nobody wants to know, but the files are removed all the same.
                let _ = cleaned.send(clean(aftermath));
            }
        };
        let thread = std::thread::Builder::new().name("cleanup".into()).spawn(body)?;
        Ok(Cleanup { queue: Some(queue), thread: Some(thread) })
    }

    pub(crate) fn clean(&self, aftermath: Aftermath) {
        if let Some(queue) = &self.queue {
            // The thread ends only when the queue does.
            let _ = queue.send(aftermath);
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

fn clean(aftermath: Aftermath) -> Input {
    let Aftermath { mut input, task_dir, nodes_dir, outputs, declared, instance, keeps } = aftermath;
    let is_success = matches!(input, Input::Ended { outcome: Outcome::Finished, .. });
    if is_success
        && let Input::Ended { outcome, .. } = &mut input
        && let Some(text) = declared::missing(&declared)
    {
        *outcome = Outcome::Failed(FailureKind::Output, text);
    }
    if !keeps && matches!(input, Input::Ended { outcome: Outcome::Failed(..), .. }) {
        declared::move_aside(&declared, instance);
    }
    if let Input::Ended {
        outcome: Outcome::Failed(FailureKind::Exit(_) | FailureKind::Signal(_), text),
        ..
    } = &mut input
    {
        append_full(text, &outputs);
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
    if matches!(input, Input::Ended { outcome: Outcome::Finished, .. }) {
        remove(&outputs);
    }
    input
}

// Files only: a task may write to a device, a pipe or through a link, and none of that is its own.
fn remove(outputs: &[ByteString]) {
    for output in outputs {
        let path = Path::new(OsStr::from_bytes(output));
        if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
            continue;
        }
        if let Err(error) = ignore_missing(fs::remove_file(path)) {
            warn!(path = %path.display(), %error, "an output file of a finished task could not be removed");
        }
    }
}

// A program whose output finds no room often says so nowhere else than in that output.
fn append_full(text: &mut String, outputs: &[ByteString]) {
    let full = outputs.iter().find(|output| is_full(output));
    if let Some(output) = full {
        let path = Path::new(OsStr::from_bytes(output));
        text.push_str(&format!(" No space is left on the disk of its output {}.", path.display()));
    }
}

// Only where the file is, so that a disk nothing was written to is not blamed.
fn is_full(path: &[u8]) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|disk| disk.f_blocks > 0 && disk.f_bavail == 0)
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
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

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
    fn only_files_are_removed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "x").expect("writable");
        fs::create_dir(path("directory")).expect("writable");
        std::os::unix::fs::symlink("/dev/null", path("link")).expect("writable");
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("writable");
        let all = ["file", "directory", "link", "pipe", "none"];
        remove(&all.map(|name| path(name).into_os_string().into_encoded_bytes()));
        let left = all.map(|name| fs::symlink_metadata(path(name)).is_ok());
        assert_eq!(left, [false, true, true, true, false]);
    }

    #[test]
    fn what_is_no_file_is_no_message() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(error_file(&dir.path().join("missing")), None);
        assert_eq!(error_file(dir.path()), None);
    }
}
