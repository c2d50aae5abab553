//! Outputs that tasks are to leave behind: whether they are there, and how those of attempts that did not succeed are put
//! out of the way, so that nobody takes them for results.
//!
//! Only what the attempt made is moved: a file that was there before and is as it was stays, and so does a directory,
//! where others may write, too, unless it is new and its path names the task. Where other tasks of the submit or another
//! attempt may write to the same path, nothing is moved: it may be what they have left.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hq_core::worker::Ends;
use hq_model::{ByteString, Instance, Timestamp};
use tracing::warn;

use crate::aside::move_aside;

/// Outputs named in the error of a task; the others are counted.
const NAMED_MAX: usize = 3;

/// What one attempt is to leave behind.
#[derive(Debug, Default)]
pub(crate) struct Promised {
    outputs: Vec<Declared>,
    instance: Instance,
    /// How long they may be late after a success.
    patience: Duration,
    /// How it is being ended, if it is.
    ends: Option<Ends>,
}

/// An output of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    path: ByteString,
    writers: Writers,
    /// What was there before the attempt began.
    before: Option<Seen>,
}

/// Who writes at the path of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// The attempt alone: the path differs from task to task.
    Attempt,
    /// Its task is the only one of its submit: a file is its work, a directory may hold the work of others.
    Submit,
    /// Other tasks of the submit, or another attempt of the same task at the same time.
    Others,
}

/// What is at a path, and since when it is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    kind: Kind,
    file: (u64, u64),
    bytes: u64,
    written: (i64, i64),
    /// When it came into being, where the file system knows that.
    made: Option<i64>,
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
    /// One at this path.
    pub(crate) fn new(path: ByteString, writers: Writers) -> Declared {
        Declared { path, writers, before: None }
    }

    // True when something of this kind is nobody else's work.
    fn may_be_moved(&self, kind: Kind) -> bool {
        match (kind, self.writers) {
            (Kind::Other, _) | (_, Writers::Others) => false,
            (Kind::Directory, Writers::Submit) => false,
            (Kind::File | Kind::Link | Kind::Directory, _) => true,
        }
    }

    fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }
}

impl Promised {
    /// These, by this attempt, which may be late for so long.
    pub(crate) fn new(outputs: Vec<Declared>, instance: Instance, patience: Duration) -> Promised {
        Promised { outputs, instance, patience, ends: None }
    }

    /// How long they may be late.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// True when waiting changes nothing: all of them are there, or the attempt is being ended.
    pub(crate) fn is_settled(&self) -> bool {
        self.ends.is_some() || self.outputs.iter().all(|output| is_there_anew(output.path()))
    }

    /// True when there is nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.outputs.is_empty()
    }

    /// The attempt is about to begin: puts aside what one before it left that was lost with its worker, and remembers what
    /// is there. `submitted` is when its task was submitted.
    pub(crate) fn begin(&mut self, submitted: Timestamp) {
        if let Some(before) = self.instance.0.checked_sub(1) {
            self.move_lost_aside(submitted, Instance(before));
        }
        for output in &mut self.outputs {
            output.before = Seen::at(output.path());
        }
    }

    /// The attempt is being ended.
    pub(crate) fn is_ended(&mut self, ends: Ends) {
        self.ends.get_or_insert(ends);
    }

    /// The attempt has ended. Puts aside what is not to stay, and says what is missing of a success.
    pub(crate) fn end(&self, is_success: bool) -> Option<String> {
        let counts = is_success && matches!(self.ends, None | Some(Ends::IfUnfinished));
        let missing = if counts { self.missing() } else { None };
        if missing.is_some() || !counts && self.ends != Some(Ends::ForAnother) {
            self.move_aside();
        }
        missing
    }

    // What to say of outputs that are not there; `None` when all are.
    fn missing(&self) -> Option<String> {
        let outputs = self.outputs.iter().map(Declared::path);
        let mut missing = outputs.filter(|path| fs::metadata(path).is_err());
        let named: Vec<String> =
            missing.by_ref().take(NAMED_MAX).map(|path| path.display().to_string()).collect();
        let more = missing.count();
        let names = named.join(", ");
        match (named.len(), more) {
            (0, _) => None,
            (1, _) => Some(format!("Its output {names} is missing, although the program exited with code 0")),
            (_, 0) => {
                Some(format!("Its outputs {names} are missing, although the program exited with code 0"))
            }
            _ => Some(format!(
                "Its outputs {names} and {more} more are missing, although the program exited with code 0"
            )),
        }
    }

    // Puts aside what this attempt left.
    fn move_aside(&self) {
        for output in &self.outputs {
            let is_of_attempt = |now: Seen| {
                let is_new = match now.kind {
                    Kind::Directory => output.before.is_none(),
                    _ => output.before != Some(now),
                };
                is_new && output.may_be_moved(now.kind)
            };
            if Seen::at(output.path()).is_some_and(is_of_attempt) {
                rename(output.path(), self.instance);
            }
        }
    }

    // Puts aside what an attempt before left: what was made or written after the submit of the task.
    fn move_lost_aside(&self, submitted: Timestamp, instance: Instance) {
        // Old servers do not say when.
        if submitted == Timestamp(0) {
            return;
        }
        let since = i64::try_from(submitted.0 / 1_000_000).unwrap_or(i64::MAX);
        for output in &self.outputs {
            let is_of_attempt = |now: Seen| {
                // Copied with the times of another file, it was written before it was made.
                output.may_be_moved(now.kind) && (now.written.0 >= since || now.made >= Some(since))
            };
            if Seen::at(output.path()).is_some_and(is_of_attempt) {
                rename(output.path(), instance);
            }
        }
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
            made: found.created().ok().and_then(|made| {
                let since_1970 = made.duration_since(SystemTime::UNIX_EPOCH).ok()?;
                i64::try_from(since_1970.as_secs()).ok()
            }),
        })
    }
}

// Network file systems remember for a while what was not there. They ask anew when the directory is opened.
fn is_there_anew(path: &Path) -> bool {
    if fs::metadata(path).is_ok() {
        return true;
    }
    let opened = path.parent().map(|parent| fs::read_dir(parent).map(|mut entries| entries.next().is_some()));
    matches!(opened, Some(Ok(true))) && fs::metadata(path).is_ok()
}

fn rename(path: &Path, instance: Instance) {
    if let Err(error) = move_aside(path, instance) {
        warn!(path = %path.display(), %error, "an output of an attempt that did not succeed could not be moved aside");
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

        fn promised(&self, names: &[&str], writers: Writers, instance: u32) -> Promised {
            let path = |name: &&str| self.0.path().join(name).into_os_string().into_encoded_bytes();
            let outputs = names.iter().map(|name| Declared::new(path(name), writers));
            Promised::new(outputs.collect(), Instance(instance), Duration::ZERO)
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

    const NEVER: Timestamp = Timestamp(u64::MAX);

    #[test]
    fn missing_outputs_are_named() {
        let place = Place::new();
        place.write("a", "1");
        assert_eq!(place.promised(&["a"], Writers::Submit, 0).end(true), None);
        let text = place.promised(&["a", "b", "c"], Writers::Submit, 0).missing().expect("missing");
        let text = text.replace(&format!("{}/", place.0.path().display()), "");
        assert_eq!(text, "Its outputs b, c are missing, although the program exited with code 0");
    }

    #[test]
    fn only_what_an_attempt_wrote_is_moved_and_never_onto_something() {
        let place = Place::new();
        place.write("old", "earlier run");
        place.write("rewritten", "earlier run");
        place.write("new.failed-0", "an earlier failure");
        let mut promised = place.promised(&["old", "rewritten", "new", "none"], Writers::Submit, 0);
        promised.begin(NEVER);
        place.write("rewritten", "half");
        place.write("new", "half");
        promised.end(false);
        assert_eq!(
            place.left(),
            "new.failed-0.2=half new.failed-0=an earlier failure old=earlier run rewritten.failed-0=half"
        );
    }

    #[test]
    fn what_stays_depends_on_how_the_attempt_ended() {
        let (there, aside) = ("out=1", "out.failed-3=1");
        for (ends, is_success, expected) in [
            (None, true, there),
            (None, false, aside),
            (Some(Ends::IfUnfinished), true, there),
            (Some(Ends::IfUnfinished), false, aside),
            (Some(Ends::Anyhow), true, aside),
            (Some(Ends::Anyhow), false, aside),
            (Some(Ends::ForAnother), true, there),
            (Some(Ends::ForAnother), false, there),
        ] {
            let place = Place::new();
            let mut promised = place.promised(&["out"], Writers::Submit, 3);
            promised.begin(NEVER);
            place.write("out", "1");
            ends.into_iter().for_each(|ends| promised.is_ended(ends));
            assert_eq!((promised.end(is_success), place.left().as_str()), (None, expected), "{ends:?}");
        }
    }

    #[test]
    fn an_incomplete_success_leaves_nothing() {
        let place = Place::new();
        let mut promised = place.promised(&["out", "none"], Writers::Submit, 0);
        promised.begin(NEVER);
        place.write("out", "1");
        assert!(promised.end(true).is_some());
        assert_eq!(place.left(), "out.failed-0=1");
    }

    #[test]
    fn a_file_that_others_may_write_to_is_not_moved() {
        for (writers, expected) in [
            (Writers::Attempt, "out.failed-1=half"),
            (Writers::Submit, "out.failed-1=half"),
            (Writers::Others, "out=half"),
        ] {
            let place = Place::new();
            let mut promised = place.promised(&["out"], writers, 1);
            promised.begin(NEVER);
            place.write("out", "half");
            promised.end(false);
            assert_eq!(place.left(), expected, "{writers:?}");
            promised.begin(Timestamp(1));
            assert_eq!(place.left(), expected, "{writers:?}, lost");
        }
    }

    #[test]
    fn a_directory_is_moved_only_when_it_is_new_and_the_tasks_own() {
        for (is_there_before, writers, is_moved) in [
            (false, Writers::Attempt, true),
            (false, Writers::Submit, false),
            (true, Writers::Attempt, false),
            (true, Writers::Submit, false),
        ] {
            let place = Place::new();
            let dir = place.0.path().join("results");
            if is_there_before {
                fs::create_dir(&dir).expect("writable");
            }
            let mut promised = place.promised(&["results"], writers, 1);
            promised.begin(NEVER);
            fs::create_dir_all(&dir).expect("writable");
            place.write("results/of-a-sibling", "1");
            promised.end(false);
            let expected = if is_moved { "results.failed-1/" } else { "results/" };
            assert_eq!(place.left(), expected, "there before: {is_there_before}, {writers:?}");
        }
    }

    #[test]
    fn what_a_lost_attempt_left_is_younger_than_the_submit() {
        let place = Place::new();
        place.write("out", "half");
        let mut promised = place.promised(&["out"], Writers::Submit, 1);
        let written = Seen::at(promised.outputs[0].path()).expect("a file").written.0 as u64;
        for later in [Timestamp(0), Timestamp((written + 1) * 1_000_000)] {
            promised.begin(later);
            assert_eq!(place.left(), "out=half");
        }
        let submitted = Timestamp(written * 1_000_000);
        place.promised(&["out"], Writers::Submit, 0).begin(submitted);
        assert_eq!(place.left(), "out=half", "there was no attempt before the first");
        promised.begin(submitted);
        assert_eq!(place.left(), "out.failed-0=half");
    }

    #[test]
    fn what_a_lost_attempt_copied_with_old_times_is_its_work_too() {
        let place = Place::new();
        place.write("out", "half");
        let path = place.0.path().join("out");
        let file = fs::File::options().write(true).open(&path).expect("a file");
        file.set_modified(SystemTime::UNIX_EPOCH).expect("its own file");
        let seen = Seen::at(&path).expect("a file");
        // Not every file system knows when a file was made.
        let expected = if seen.made.is_some() { "out.failed-0=half" } else { "out=half" };
        let submitted = Timestamp(seen.made.unwrap_or(1) as u64 * 1_000_000);
        place.promised(&["out"], Writers::Submit, 1).begin(submitted);
        assert_eq!(place.left(), expected);
    }
}
