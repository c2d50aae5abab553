//! What becomes of the output channels of a task when it has ended, before its end is told. Until then they are the
//! launcher's, which opens the file, and the program's, which writes to it.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hq_core::record::FailureKind;
use hq_core::worker::Outcome;
use hq_model::paths::TaskPaths;
use hq_model::{ByteString, OnClose, OutputSink, TaskSpec};
use tracing::warn;

use crate::prepare::ignore_missing;

/// A file into which a channel of one task went.
#[derive(Debug)]
pub(crate) struct Sink {
    path: ByteString,
    on_close: OnClose,
}

/// Those of a task with these paths.
pub(crate) fn of_task(spec: &TaskSpec, paths: TaskPaths) -> Vec<Sink> {
    let channels = [(paths.stdout, &spec.stdout), (paths.stderr, &spec.stderr)];
    let sink = |(path, sink): (Option<ByteString>, &OutputSink)| {
        Some(Sink { path: path?, on_close: sink.on_close() })
    };
    channels.into_iter().filter_map(sink).collect()
}

/// Completes them after this end of their task: removes what is to be removed, or says that one of them found no room.
pub(crate) fn complete(sinks: &[Sink], outcome: &mut Outcome) {
    if let Outcome::Failed(FailureKind::Exit(_) | FailureKind::Signal(_), text) = outcome {
        append_full(text, sinks);
    }
    let is_success = *outcome == Outcome::Finished;
    sinks.iter().for_each(|sink| sink.close(is_success));
}

impl Sink {
    fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    // Files only: a task may write to a device, a pipe or through a link, and none of that is its own.
    fn close(&self, is_success: bool) {
        let path = self.path();
        let is = |what: fn(&Metadata) -> bool| {
            fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && what(&found))
        };
        let is_removed = match self.on_close {
            OnClose::Keep => false,
            OnClose::RemoveIfFinished => is_success && is(|_| true),
            OnClose::RemoveIfEmpty => is(|found| found.len() == 0),
        };
        if !is_removed {
            return;
        }
        if let Err(error) = ignore_missing(fs::remove_file(path)) {
            warn!(path = %path.display(), %error, "an output file of a task could not be removed");
        }
    }

    // Only where the file is, so that a disk nothing was written to is not blamed.
    fn is_full(&self) -> bool {
        rustix::fs::statvfs(&self.path[..]).is_ok_and(|disk| disk.f_blocks > 0 && disk.f_bavail == 0)
    }
}

// A program whose output finds no room often says so nowhere else than in that output.
fn append_full(text: &mut String, sinks: &[Sink]) {
    if let Some(sink) = sinks.iter().find(|sink| sink.is_full()) {
        text.push_str(&format!(" No space is left on the disk of its output {}.", sink.path().display()));
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn only_files_are_removed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "x").expect("writable");
        fs::create_dir(path("directory")).expect("writable");
        std::os::unix::fs::symlink("/dev/null", path("link")).expect("writable");
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("writable");
        let all = ["file", "directory", "link", "pipe", "none"];
        let sinks = all.map(|name| Sink {
            path: path(name).into_os_string().into_encoded_bytes(),
            on_close: OnClose::RemoveIfFinished,
        });
        complete(&sinks, &mut Outcome::Finished);
        let left = all.map(|name| fs::symlink_metadata(path(name)).is_ok());
        assert_eq!(left, [false, true, true, true, false]);
    }

    #[test]
    fn what_is_empty_is_removed_however_the_task_ended() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for mut outcome in [Outcome::Finished, Outcome::Failed(FailureKind::Exit(1), String::new())] {
            let sinks = [("empty", ""), ("full", "x")].map(|(name, text)| {
                let path = dir.path().join(name);
                fs::write(&path, text).expect("writable");
                Sink { path: path.into_os_string().into_encoded_bytes(), on_close: OnClose::RemoveIfEmpty }
            });
            complete(&sinks, &mut outcome);
            assert_eq!(sinks.map(|sink| sink.path().exists()), [false, true], "{outcome:?}");
        }
    }
}
