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
/// How a placeholder begins and ends.
const PLACEHOLDER: (&[u8], u8) = (b"%{", b'}');
/// How often a number is looked for that no other run takes at the same moment.
const ATTEMPTS_MAX: u32 = 100;

/// A number of a job, and the directory that was made so that no other run takes it.
#[derive(Debug)]
pub(crate) struct Number {
    /// How many numbers come before it.
    pub before: u32,
    made: Option<PathBuf>,
}

impl Number {
    /// The number for a submit.
    pub(crate) fn take(submit: &Submit) -> Number {
        let places = places(submit);
        for _ in 0..ATTEMPTS_MAX {
            let before = places.iter().map(Place::last).max().unwrap_or(0);
            let Some(path) = places.iter().find_map(|place| place.directory(before + 1)) else {
                return Number { before, made: None };
            };
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
    prefix: Text,
    suffix: Text,
    is_directory: bool,
}

// A part of a name: all of it is known, or how it begins and ends, with a placeholder between.
#[derive(Debug, PartialEq, Eq)]
enum Text {
    Plain(ByteString),
    Between(ByteString, ByteString),
}

impl Text {
    fn new(text: &[u8]) -> Text {
        let begin = find(text, PLACEHOLDER.0).filter(|_| !pattern::names(text).is_empty());
        let end = text.iter().rposition(|byte| *byte == PLACEHOLDER.1);
        match (begin, end) {
            (Some(begin), Some(end)) => Text::Between(text[..begin].to_vec(), text[end + 1..].to_vec()),
            _ => Text::Plain(text.to_vec()),
        }
    }

    fn is(&self, text: &[u8]) -> bool {
        match self {
            Text::Plain(plain) => plain == text,
            Text::Between(begin, end) => {
                text.len() >= begin.len() + end.len() && text.starts_with(begin) && text.ends_with(end)
            }
        }
    }
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
        pattern::names(&path[..begin]).is_empty().then(|| Place {
            parent: Path::new(OsStr::from_bytes(&path[..begin])).into(),
            prefix: Text::new(&path[begin..at]),
            suffix: Text::new(suffix),
            is_directory,
        })
    }

    // The largest number that is there.
    fn last(&self) -> u32 {
        let Ok(entries) = fs::read_dir(&self.parent) else { return 0 };
        entries.flatten().filter_map(|entry| self.number_in(entry.file_name().as_bytes())).max().unwrap_or(0)
    }

    // The number in a name. Where it can be any of several, the largest: a number that is left out does no harm.
    fn number_in(&self, name: &[u8]) -> Option<u32> {
        let ends = |begin: usize| {
            let digits = name[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            (begin + 1..=begin + digits).map(move |end| (begin, end))
        };
        let numbers = (0..name.len()).flat_map(ends).filter_map(|(begin, end)| {
            let number = std::str::from_utf8(&name[begin..end]).ok()?.parse().ok();
            let fits = self.prefix.is(&name[..begin]) && self.suffix.is(&name[end..]);
            number.filter(|number| fits && *number < u32::MAX)
        });
        numbers.max()
    }

    // The directory of a number, if nothing else is a part of its name.
    fn directory(&self, number: u32) -> Option<PathBuf> {
        let (true, Text::Plain(prefix), Text::Plain(suffix)) =
            (self.is_directory, &self.prefix, &self.suffix)
        else {
            return None;
        };
        let number = number.to_string();
        let name = [prefix.as_slice(), number.as_bytes(), suffix].concat();
        Some(self.parent.join(std::ffi::OsString::from_vec(name)))
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

    fn plain(text: &str) -> Text {
        Text::Plain(text.into())
    }

    fn check(path: &str, expected: Option<(&str, Text, Text, bool)>) {
        let expected = expected.map(|(parent, prefix, suffix, is_directory)| Place {
            parent: parent.into(),
            prefix,
            suffix,
            is_directory,
        });
        assert_eq!(Place::new(path.as_bytes()), expected, "{path}");
    }

    #[test]
    fn the_number_of_a_job_is_found_in_paths() {
        let between = |begin: &str, end: &str| Text::Between(begin.into(), end.into());
        check("/w/job-%{JOB_ID}/%{TASK_ID}.stdout", Some(("/w/", plain("job-"), plain(""), true)));
        check("/w/%{JOB_ID}.txt", Some(("/w/", plain(""), plain(".txt"), false)));
        check("/w/out", None);
        check("/w/%{TASK_ID}/job-%{JOB_ID}/x", None);
        check("/w/%{JOB_ID}-%{TASK_ID}.txt", Some(("/w/", plain(""), between("-", ".txt"), false)));
        check("/w/o%{TASK_ID}_%{JOB_ID}", Some(("/w/", between("o", "_"), plain(""), false)));
    }

    #[test]
    fn numbers_are_found_in_names_with_more_than_a_number() {
        let check = |path: &str, name: &str, expected: Option<u32>| {
            let place = Place::new(format!("/w/{path}").as_bytes()).expect("a place");
            assert_eq!(place.number_in(name.as_bytes()), expected, "{path} {name}");
        };
        check("%{JOB_ID}_%{TASK_ID}.out", "3_17.out", Some(3));
        check("%{JOB_ID}_%{TASK_ID}.out", "3_17.err", None);
        check("%{JOB_ID}_%{TASK_ID}.out", "x3_17.out", None);
        check("o-%{JOB_ID}-%{TASK_ID}", "o-12-4", Some(12));
        check("o-%{JOB_ID}-%{TASK_ID}", "o-12", None);
        check("%{TASK_ID}-%{JOB_ID}", "4-12", Some(12));
        check("%{TASK_ID}-%{JOB_ID}-%{INSTANCE_ID}.x", "4-12-0.x", Some(12));
        check("%{JOB_ID}%{TASK_ID}", "10", Some(10));
        check("%{JOB_ID}.txt", "4294967295.txt", None);
        check("in2%{JOB_ID}0.txt", "in2170.txt", Some(17));
    }

    #[test]
    fn the_largest_number_that_is_there_counts() {
        let dir = tempfile::tempdir().expect("a directory");
        let place =
            Place { parent: dir.path().into(), prefix: plain("job-"), suffix: plain(""), is_directory: true };
        assert_eq!(place.last(), 0);
        for name in ["job-2", "job-10", "job-x", "job-", "jab-30", "job-11.old"] {
            fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        assert_eq!((place.last(), place.directory(11)), (10, Some(dir.path().join("job-11"))));
    }
}
