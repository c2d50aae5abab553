//! The last lines that tasks wrote to their standard error, wherever this machine can read it. What many tasks wrote into one
//! stream is read together.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hq_model::paths::Place;
use hq_model::{ByteString, Channel, IdSet, Instance, JobId, TaskId, TaskRef};
use hq_stream::{Attempt, Directory, Output, Piece};

use super::line_in;
use crate::jobs::SharedSession;

/// How much of the end of an output is looked at for its last line.
const TAIL_BYTES: usize = 8 << 10;

/// Reads of a job.
pub(super) struct Tails {
    server_uid: String,
    job: JobId,
}

impl Tails {
    /// Of this job.
    pub(super) fn new(session: &SharedSession, job: JobId) -> Tails {
        Tails { server_uid: session.borrow().server_uid().to_owned(), job }
    }

    /// The last lines of tasks that wrote to these places, as far as they wrote something that can be read: nothing goes
    /// wrong where they did not.
    pub(super) fn last_lines<'a>(
        &self,
        places: impl Iterator<Item = (TaskId, &'a Place)>,
    ) -> BTreeMap<TaskId, String> {
        let mut lines = BTreeMap::new();
        let mut streams: BTreeMap<&ByteString, IdSet> = BTreeMap::new();
        for (task, place) in places {
            match place {
                Place::File(_) => lines.extend(self.in_file(task, place).map(|line| (task, line))),
                Place::Stream(stream) => _ = streams.entry(stream.path()).or_default().insert(task),
            }
        }
        for (path, tasks) in streams {
            lines.extend(self.in_stream(path, &tasks).unwrap_or_default());
        }
        lines
    }

    // A file is of the latest attempt, whichever that is.
    fn in_file(&self, task: TaskId, place: &Place) -> Option<String> {
        let attempt = Attempt { task: TaskRef::new(self.job, task), instance: Instance(0) };
        let mut output = Output::new(place.clone(), &self.server_uid, attempt, Channel::Stderr);
        let length = output.length(true).ok()?;
        let tail = output.read(length.saturating_sub(TAIL_BYTES as u64), TAIL_BYTES).ok()?;
        line_in(&tail)
    }

    fn in_stream(&self, path: &[u8], tasks: &IdSet) -> Option<BTreeMap<TaskId, String>> {
        let directory = Directory::of_server(Path::new(OsStr::from_bytes(path)), &self.server_uid).ok()??;
        let contents = directory.contents_of_any(self.job, tasks).ok()?;
        let pieces = directory.pieces(&contents, self.job, tasks, Channel::Stderr).ok()?;
        let of_tasks = pieces.chunk_by(|one, next| one.task == next.task);
        let lines = of_tasks.filter_map(|pieces| {
            let mut tail = Vec::new();
            directory.copy(last(pieces), &mut tail).ok()?.ok()?;
            let begin = tail.len().saturating_sub(TAIL_BYTES);
            Some((pieces[0].task, line_in(&tail[begin..])?))
        });
        Some(lines.collect())
    }
}

// As many of the pieces, from the end, as are looked at.
fn last(pieces: &[Piece]) -> &[Piece] {
    let mut bytes = 0;
    let is_before = |piece: &&Piece| {
        let is_enough = bytes >= TAIL_BYTES;
        bytes += piece.length();
        !is_enough
    };
    let count = pieces.iter().rev().take_while(is_before).count();
    &pieces[pieces.len() - count..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failures::LINE_CHARS_MAX;

    fn last_line_of(path: &std::path::Path) -> Option<String> {
        let place = Place::File(path.as_os_str().as_bytes().to_vec());
        let tails = Tails { server_uid: "uid".into(), job: JobId(1) };
        tails.last_lines([(TaskId(0), &place)].into_iter()).remove(&TaskId(0))
    }

    fn check(content: &[u8], expected: Option<&str>) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("stderr");
        std::fs::write(&path, content).expect("a file");
        assert_eq!(last_line_of(&path).as_deref(), expected, "{:?}", String::from_utf8_lossy(content));
    }

    #[test]
    fn the_last_line_that_says_something_is_found() {
        check(b"first\nsecond\n", Some("second"));
        check(b"Traceback\n  ValueError: 3  \n\n \n", Some("ValueError: 3"));
        check(b"no end", Some("no end"));
        check(b"-----\nmpirun cannot do that\n-----\n", Some("mpirun cannot do that"));
        check(b"-----\n", Some("-----"));
        check(b"", None);
        check(b"\n\n", None);
        check(b"end\n\0\0\0", Some("end"));
        check(b"bad \xff byte\n", Some("bad \u{fffd} byte"));
        let long = "x".repeat(LINE_CHARS_MAX + 1);
        check(long.as_bytes(), Some(&format!("{}…", &long[1..])));
        check(format!("{}\nend\n", "line\n".repeat(10_000)).as_bytes(), Some("end"));
    }

    #[test]
    fn what_is_no_file_has_no_line() {
        assert_eq!(last_line_of(std::path::Path::new("/")), None);
        assert_eq!(last_line_of(std::path::Path::new("/dev/zero")), None);
        assert_eq!(last_line_of(std::path::Path::new("/nonexistent")), None);
    }
}
