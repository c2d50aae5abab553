//! What becomes of the output channels of a task when it has ended, before its end is told. Until then they are the
//! launcher's, which opens the file, and the program's, which writes to it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hq_core::record::FailureKind;
use hq_core::worker::Outcome;
use hq_model::paths::TaskPaths;
use hq_model::{ByteString, OutputSink, TaskSpec};
use tracing::warn;

use crate::prepare::ignore_missing;

/// A file into which a channel of one task went.
#[derive(Debug)]
pub(crate) struct Sink {
    path: ByteString,
    is_removed_if_finished: bool,
}

/// Those of a task with these paths.
pub(crate) fn of_task(spec: &TaskSpec, paths: TaskPaths) -> Vec<Sink> {
    let channels = [(paths.stdout, &spec.stdout), (paths.stderr, &spec.stderr)];
    let sink = |(path, sink): (Option<ByteString>, &OutputSink)| {
        Some(Sink { path: path?, is_removed_if_finished: sink.is_removed_if_finished() })
    };
    channels.into_iter().filter_map(sink).collect()
}

/// Completes them after this end of their task: removes what is to be removed, or says that one of them found no room.
pub(crate) fn complete(sinks: &[Sink], outcome: &mut Outcome) {
    match outcome {
        Outcome::Finished => sinks.iter().filter(|sink| sink.is_removed_if_finished).for_each(Sink::remove),
        Outcome::Failed(FailureKind::Exit(_) | FailureKind::Signal(_), text) => append_full(text, sinks),
        _ => {}
    }
}

impl Sink {
    fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    // Files only: a task may write to a device, a pipe or through a link, and none of that is its own.
    fn remove(&self) {
        let path = self.path();
        if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
            return;
        }
        if let Err(error) = ignore_missing(fs::remove_file(path)) {
            warn!(path = %path.display(), %error, "an output file of a finished task could not be removed");
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
            is_removed_if_finished: true,
        });
        complete(&sinks, &mut Outcome::Finished);
        let left = all.map(|name| fs::symlink_metadata(path(name)).is_ok());
        assert_eq!(left, [false, true, true, true, false]);
    }
}
