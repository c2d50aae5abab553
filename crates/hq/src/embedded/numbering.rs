//! Which number the job of a run gets: one above those under which something has been written, so that no run writes over
//! what another one left.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use hq_model::paths::PathTemplates;
use hq_model::{ByteString, Stream, Submit, pattern};

const JOB_ID: &[u8] = b"%{JOB_ID}";
/// How a placeholder begins and ends.
const PLACEHOLDER: (&[u8], u8) = (b"%{", b'}');
/// How often a number is looked for that no other run takes at the same moment.
const ATTEMPTS_MAX: u32 = 100;

/// A number of a job, and the directory or file that was made so that no other run takes it.
#[derive(Debug)]
pub(crate) struct Number {
    /// How many numbers come before it.
    pub before: u32,
    made: Option<Made>,
}

#[derive(Debug, PartialEq, Eq)]
struct Made {
    path: PathBuf,
    is_directory: bool,
}

impl Number {
    /// The number for a submit.
    pub(crate) fn take(submit: &Submit) -> Number {
        let places = places(submit);
        for _ in 0..ATTEMPTS_MAX {
            let before = places.iter().map(Place::last).max().unwrap_or(0);
            // A directory is made for any path within it; of files the first one stands for all.
            let mut all: Vec<Made> = places.iter().filter_map(|place| place.made(before + 1)).collect();
            all.sort_by_key(|made| !made.is_directory);
            let Some(made) = all.into_iter().next() else {
                return Number { before, made: None };
            };
            match made.make() {
                Ok(()) => return Number { before, made: Some(made) },
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // Whoever writes there says what is wrong.
                Err(_) => return Number { before, made: None },
            }
        }
        Number { before: 0, made: None }
    }
}

impl Number {
    /// Tasks have run: a file without anything in it is one that they have left.
    pub(crate) fn is_used(&mut self) {
        self.made.take_if(|made| !made.is_directory);
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        if let Some(made) = &self.made {
            // What cannot be removed stays, empty.
            let _ = made.remove_empty();
        }
    }
}

impl Made {
    fn make(&self) -> io::Result<()> {
        match self.is_directory {
            true => fs::create_dir(&self.path),
            false => fs::File::create_new(&self.path).map(drop),
        }
    }

    fn remove_empty(&self) -> io::Result<()> {
        match self.is_directory {
            // Only a directory into which nothing was written can be removed like that.
            true => fs::remove_dir(&self.path),
            false if fs::symlink_metadata(&self.path)?.len() == 0 => fs::remove_file(&self.path),
            false => Ok(()),
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
    // It is made beforehand, so that no other run takes its number.
    is_ours: bool,
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
            is_ours: true,
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

    // What has this number, if nothing else is a part of its name.
    fn made(&self, number: u32) -> Option<Made> {
        let (true, Text::Plain(prefix), Text::Plain(suffix)) = (self.is_ours, &self.prefix, &self.suffix)
        else {
            return None;
        };
        let number = number.to_string();
        let name = [prefix.as_slice(), number.as_bytes(), suffix].concat();
        let path = self.parent.join(std::ffi::OsString::from_vec(name));
        Some(Made { path, is_directory: self.is_directory })
    }
}

fn places(submit: &Submit) -> Vec<Place> {
    // The server of the run has no name yet.
    let templates = PathTemplates::new(&submit.spec, &submit.submit_dir, "%{SERVER_UID}");
    let paths = templates.expand_for_all(None);
    let stream = templates.stream(None).map(|stream| match &stream {
        // All in it is of the job.
        Stream::Directory(_) => [stream.path().as_slice(), b"/"].concat(),
        Stream::Log(_) => stream.path().clone(),
    });
    let written = [paths.stdout, paths.stderr, stream].into_iter().flatten();
    // What programs make is not made for them.
    let programs =
        paths.outputs.into_iter().chain(paths.result).chain([[paths.cwd.as_slice(), b"/"].concat()]);
    let written = written.filter_map(|path| Place::new(&path));
    let programs =
        programs.filter_map(|path| Place::new(&path)).map(|place| Place { is_ours: false, ..place });
    written.chain(programs).collect()
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|part| part == word)
}

#[cfg(test)]
mod tests {
    use hq_model::job::{Target, TaskIds};
    use hq_model::{JobSpec, OnClose, OutputSink, TaskSpec};

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
            is_ours: true,
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
    fn runs_at_the_same_moment_take_different_numbers() {
        let dir = tempfile::tempdir().expect("a directory");
        let submit = |change: fn(&mut TaskSpec)| {
            let mut spec =
                TaskSpec { cwd: dir.path().as_os_str().as_bytes().to_vec(), ..TaskSpec::default() };
            change(&mut spec);
            let mut submit = Submit::new(Target::New(JobSpec::default()), TaskIds::Next(1), spec);
            submit.submit_dir = dir.path().as_os_str().as_bytes().to_vec();
            submit
        };
        let file = |spec: &mut TaskSpec| {
            spec.stdout = OutputSink::File { path: b"f-%{JOB_ID}.txt".to_vec(), on_close: OnClose::default() }
        };
        let stream = |spec: &mut TaskSpec| spec.stream = Some(Stream::Directory("s-%{JOB_ID}".into()));
        let log = |spec: &mut TaskSpec| spec.stream = Some(Stream::Log("l-%{JOB_ID}".into()));
        for change in [file, stream, log] as [fn(&mut TaskSpec); 3] {
            let submit = submit(change);
            let (first, second) = (Number::take(&submit), Number::take(&submit));
            assert_eq!((first.before, second.before), (0, 1));
            drop(first);
            drop(second);
            assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 0, "nothing was written");
        }
        let mut used = Number::take(&submit(file));
        used.is_used();
        drop(used);
        assert!(dir.path().join("f-1.txt").exists(), "a task that printed nothing has left it");
        // Of what programs make only what is there counts.
        fs::write(dir.path().join("out-4"), "x").expect("a file");
        let output = submit(|spec| spec.outputs = vec![b"out-%{JOB_ID}".to_vec()]);
        assert_eq!(Number::take(&output).before, 4);
    }

    #[test]
    fn the_largest_number_that_is_there_counts() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = Place::new(dir.path().join("job-%{JOB_ID}/x").as_os_str().as_bytes()).expect("a place");
        assert_eq!(place.last(), 0);
        for name in ["job-2", "job-10", "job-x", "job-", "jab-30", "job-11.old"] {
            fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        let made = Made { path: dir.path().join("job-11"), is_directory: true };
        assert_eq!((place.last(), place.made(11)), (10, Some(made)));
    }
}
