//! Outputs that tasks are to leave behind: whether they are there, and how those of attempts that failed are put out of
//! the way, so that nobody takes them for results.
//!
//! Only what the attempt made is moved: a file that was there before and is as it was stays, and so does a directory,
//! where others may write, too, unless it is new and its path names the task.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hq_model::{ByteString, Instance, Timestamp};
use tracing::warn;

use crate::aside::move_aside as move_aside_as;

/// Outputs named in the error of a task; the others are counted.
const NAMED_MAX: usize = 3;

/// An output of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) path: ByteString,
    /// The path differs from task to task, so nobody else writes there.
    pub(crate) is_own: bool,
    /// What was there before the attempt began.
    before: Option<Seen>,
}

/// What is at a path, and since when it is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    kind: Kind,
    file: (u64, u64),
    bytes: u64,
    written: (i64, i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    Link,
    /// A device, a pipe, a socket: nothing that a task leaves behind.
    Other,
}

impl Declared {
    pub(crate) fn new(path: ByteString, is_own: bool) -> Declared {
        Declared { path, is_own, before: None }
    }

    fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }
}

impl Seen {
    fn at(path: &Path) -> Option<Seen> {
        let found = fs::symlink_metadata(path).ok()?;
        let kind = match found.file_type() {
            kind if kind.is_file() => Kind::File,
            kind if kind.is_dir() => Kind::Directory,
            kind if kind.is_symlink() => Kind::Link,
            _ => Kind::Other,
        };
        Some(Seen {
            kind,
            file: (found.dev(), found.ino()),
            bytes: found.size(),
            written: (found.mtime(), found.mtime_nsec()),
        })
    }
}

/// What to say of outputs that are not there; `None` when all are.
pub(crate) fn missing(outputs: &[Declared]) -> Option<String> {
    let mut missing = outputs.iter().map(Declared::path).filter(|path| fs::metadata(path).is_err());
    let named: Vec<String> =
        missing.by_ref().take(NAMED_MAX).map(|path| path.display().to_string()).collect();
    let more = missing.count();
    let names = named.join(", ");
    match (named.len(), more) {
        (0, _) => None,
        (1, _) => Some(format!("Its output {names} is missing, although the program exited with code 0")),
        (_, 0) => Some(format!("Its outputs {names} are missing, although the program exited with code 0")),
        _ => Some(format!(
            "Its outputs {names} and {more} more are missing, although the program exited with code 0"
        )),
    }
}

/// Remembers what is there before an attempt begins.
pub(crate) fn look(outputs: &mut [Declared]) {
    for output in outputs {
        output.before = Seen::at(output.path());
    }
}

/// Puts aside what an attempt left that did not succeed.
pub(crate) fn move_aside(outputs: &[Declared], instance: Instance) {
    for output in outputs {
        let is_of_attempt = |now: Seen| match now.kind {
            Kind::File | Kind::Link => output.before != Some(now),
            Kind::Directory => output.is_own && output.before.is_none(),
            Kind::Other => false,
        };
        if Seen::at(output.path()).is_some_and(is_of_attempt) {
            rename(output.path(), instance);
        }
    }
}

/// Puts aside what an attempt left that was lost with its worker: what was written after the submit of the task.
pub(crate) fn move_lost_aside(outputs: &[Declared], submitted: Timestamp, instance: Instance) {
    // Old servers do not say when.
    if submitted == Timestamp(0) {
        return;
    }
    let since = i64::try_from(submitted.0 / 1_000_000).unwrap_or(i64::MAX);
    for output in outputs {
        let is_of_attempt = |now: Seen| {
            let is_movable = match now.kind {
                Kind::File | Kind::Link => true,
                Kind::Directory => output.is_own,
                Kind::Other => false,
            };
            is_movable && now.written.0 >= since
        };
        if Seen::at(output.path()).is_some_and(is_of_attempt) {
            rename(output.path(), instance);
        }
    }
}

fn rename(path: &Path, instance: Instance) {
    if let Err(error) = move_aside_as(path, instance) {
        warn!(path = %path.display(), %error, "an output of a failed attempt could not be moved aside");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Place {
            Place(tempfile::tempdir().expect("a temporary directory"))
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.0.path().join(name), text).expect("writable");
        }

        fn declared(&self, names: &[&str], is_own: bool) -> Vec<Declared> {
            let path = |name: &&str| self.0.path().join(name).into_os_string().into_encoded_bytes();
            names.iter().map(|name| Declared::new(path(name), is_own)).collect()
        }

        /// Names and texts of what is there.
        fn left(&self) -> String {
            let entries = fs::read_dir(self.0.path()).expect("readable");
            let mut left: Vec<String> = entries
                .map(|entry| {
                    let path = entry.expect("readable").path();
                    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                    fs::read_to_string(&path).map_or(format!("{name}/"), |text| format!("{name}={text}"))
                })
                .collect();
            left.sort();
            left.join(" ")
        }
    }

    #[test]
    fn missing_outputs_are_named() {
        let place = Place::new();
        place.write("a", "1");
        assert_eq!(missing(&place.declared(&["a"], false)), None);
        let text = missing(&place.declared(&["a", "b", "c"], false)).expect("missing");
        let text = text.replace(&format!("{}/", place.0.path().display()), "");
        assert_eq!(text, "Its outputs b, c are missing, although the program exited with code 0");
    }

    #[test]
    fn only_what_an_attempt_wrote_is_moved_and_never_onto_something() {
        let place = Place::new();
        place.write("old", "earlier run");
        place.write("rewritten", "earlier run");
        place.write("new.failed-0", "an earlier failure");
        let mut outputs = place.declared(&["old", "rewritten", "new", "none"], false);
        look(&mut outputs);
        place.write("rewritten", "half");
        place.write("new", "half");
        move_aside(&outputs, Instance(0));
        assert_eq!(
            place.left(),
            "new.failed-0.2=half new.failed-0=an earlier failure old=earlier run rewritten.failed-0=half"
        );
    }

    #[test]
    fn a_directory_is_moved_only_when_it_is_new_and_the_tasks_own() {
        for (is_there_before, is_own, is_moved) in
            [(false, true, true), (false, false, false), (true, true, false), (true, false, false)]
        {
            let place = Place::new();
            let dir = place.0.path().join("results");
            if is_there_before {
                fs::create_dir(&dir).expect("writable");
            }
            let mut outputs = place.declared(&["results"], is_own);
            look(&mut outputs);
            fs::create_dir_all(&dir).expect("writable");
            place.write("results/of-a-sibling", "1");
            move_aside(&outputs, Instance(1));
            let expected = if is_moved { "results.failed-1/" } else { "results/" };
            assert_eq!(place.left(), expected, "there before: {is_there_before}, own: {is_own}");
        }
    }

    #[test]
    fn what_a_lost_attempt_left_is_younger_than_the_submit() {
        let place = Place::new();
        place.write("out", "half");
        let outputs = place.declared(&["out"], false);
        let written = Seen::at(outputs[0].path()).expect("a file").written.0 as u64;
        for later in [Timestamp(0), Timestamp((written + 1) * 1_000_000)] {
            move_lost_aside(&outputs, later, Instance(0));
            assert_eq!(place.left(), "out=half");
        }
        move_lost_aside(&outputs, Timestamp(written * 1_000_000), Instance(0));
        assert_eq!(place.left(), "out.failed-0=half");
    }
}
