//! Which number the job of a run gets: one above those under which something has been written, so that no run writes over
//! what another one left.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use hq_model::paths::PathTemplates;
use hq_model::{ByteString, Submit, pattern};

const JOB_ID: &[u8] = b"%{JOB_ID}";
/// How often a number is looked for that no other run takes at the same moment.
const ATTEMPTS_MAX: u32 = 100;

/// A number of a job, and the directory that was made so that no other run takes it.
#[derive(Debug)]
pub(super) struct Number {
    /// How many numbers come before it.
    pub before: u32,
    made: Option<PathBuf>,
}

impl Number {
    /// The number for a submit.
    pub(super) fn take(submit: &Submit) -> Number {
        let places = places(submit);
        for _ in 0..ATTEMPTS_MAX {
            let before = places.iter().map(Place::last).max().unwrap_or(0);
            let Some(place) = places.iter().find(|place| place.is_directory) else {
                return Number { before, made: None };
            };
            let path = place.path(before + 1);
            match fs::create_dir(&path) {
                Ok(()) => return Number { before, made: Some(path) },
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // Whoever writes there says what is wrong.
                Err(_) => return Number { before, made: None },
            }
        }
        Number { before: 0, made: None }
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        if let Some(path) = &self.made {
            // Only a directory into which nothing was written can be removed like that.
            let _ = fs::remove_dir(path);
        }
    }
}

// Where the number of a job is a part of a name: in this directory, between these texts.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    parent: PathBuf,
    prefix: ByteString,
    suffix: ByteString,
    is_directory: bool,
}

impl Place {
    fn new(path: &[u8]) -> Option<Place> {
        let at = find(path, JOB_ID)?;
        let begin = path[..at].iter().rposition(|byte| *byte == b'/')? + 1;
        let rest = &path[at + JOB_ID.len()..];
        let (suffix, is_directory) = match rest.iter().position(|byte| *byte == b'/') {
            Some(end) => (&rest[..end], true),
            None => (rest, false),
        };
        let is_plain = |text: &[u8]| pattern::names(text).is_empty();
        (is_plain(&path[..at]) && is_plain(suffix)).then(|| Place {
            parent: Path::new(OsStr::from_bytes(&path[..begin])).into(),
            prefix: path[begin..at].to_vec(),
            suffix: suffix.to_vec(),
            is_directory,
        })
    }

    // The largest number that is there.
    fn last(&self) -> u32 {
        let Ok(entries) = fs::read_dir(&self.parent) else { return 0 };
        let number = |name: &OsStr| -> Option<u32> {
            let rest = name.as_bytes().strip_prefix(self.prefix.as_slice())?;
            let digits = rest.strip_suffix(self.suffix.as_slice())?;
            std::str::from_utf8(digits).ok()?.parse().ok().filter(|number| *number < u32::MAX)
        };
        entries.flatten().filter_map(|entry| number(&entry.file_name())).max().unwrap_or(0)
    }

    fn path(&self, number: u32) -> PathBuf {
        let number = number.to_string();
        let name = [self.prefix.as_slice(), number.as_bytes(), &self.suffix].concat();
        self.parent.join(std::ffi::OsString::from_vec(name))
    }
}

fn places(submit: &Submit) -> Vec<Place> {
    // The server of the run has no name yet.
    let templates = PathTemplates::new(&submit.spec, &submit.submit_dir, "%{SERVER_UID}");
    let paths = templates.expand_for_all(None);
    let stream = templates.stream(None).map(|stream| stream.path().clone());
    [paths.stdout, paths.stderr, stream].iter().flatten().filter_map(|path| Place::new(path)).collect()
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: Option<(&str, &str, &str, bool)>) {
        let expected = expected.map(|(parent, prefix, suffix, is_directory)| Place {
            parent: parent.into(),
            prefix: prefix.into(),
            suffix: suffix.into(),
            is_directory,
        });
        assert_eq!(Place::new(path.as_bytes()), expected, "{path}");
    }

    #[test]
    fn the_number_of_a_job_is_found_in_paths() {
        check("/w/job-%{JOB_ID}/%{TASK_ID}.stdout", Some(("/w/", "job-", "", true)));
        check("/w/%{JOB_ID}.txt", Some(("/w/", "", ".txt", false)));
        check("/w/out", None);
        check("/w/%{TASK_ID}/job-%{JOB_ID}/x", None);
        check("/w/%{JOB_ID}-%{TASK_ID}.txt", None);
    }

    #[test]
    fn the_largest_number_that_is_there_counts() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = Place {
            parent: dir.path().into(),
            prefix: "job-".into(),
            suffix: ByteString::new(),
            is_directory: true,
        };
        assert_eq!(place.last(), 0);
        for name in ["job-2", "job-10", "job-x", "job-", "jab-30", "job-11.old"] {
            fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        assert_eq!((place.last(), place.path(11)), (10, dir.path().join("job-11")));
    }
}
