//! What each task of a job carries that `hq make` has submitted to a server: in which directory that was, and with which
//! submit. Jobs that run such tasks again carry it, too.

use std::fs;
use std::path::Path;

use hq_make::Digests;
use hq_model::{Timestamp, making};

use super::digests::{Sha256, hex};

/// Digits of each part: enough for all directories and submits of a server.
const DIGITS: usize = 16;

/// Of one submit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark(String);

impl Mark {
    /// Of a new submit, made now, for the directory in which things are remembered.
    pub(crate) fn new(home: &Path, now: Timestamp) -> Mark {
        let submit = format!("{} {}", std::process::id(), now.0);
        Mark(format!("{}-{}", of_directory(home), digits(submit.as_bytes())))
    }

    /// As it was remembered.
    pub(crate) fn of_text(text: &str) -> Mark {
        Mark(text.to_owned())
    }

    /// As it is remembered.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// The variable of the tasks.
    pub(crate) fn variable(&self) -> (Vec<u8>, Vec<u8>) {
        (making::VARIABLE.to_vec(), self.0.clone().into_bytes())
    }

    /// That among the variables of a task, if it has one.
    pub(crate) fn among(env: &[(Vec<u8>, Vec<u8>)]) -> Option<Mark> {
        Some(Mark(String::from_utf8(making::mark_among(env)?.to_vec()).ok()?))
    }

    /// Whether it is of a submit for this directory, the same or another one.
    pub(crate) fn is_for(&self, home: &Path) -> bool {
        making::directory_of(self.0.as_bytes()) == of_directory(home).as_bytes()
    }
}

// Whoever comes by a link finds the same.
fn of_directory(path: &Path) -> String {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    digits(path.as_os_str().as_encoded_bytes())
}

fn digits(bytes: &[u8]) -> String {
    let mut digits = hex(&Sha256.of_text(bytes));
    digits.truncate(DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_a_directory_and_one_submit_of_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().join("home");
        fs::create_dir(&home).expect("writable");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&home, &link).expect("writable");
        let (first, second) = (Mark::new(&home, Timestamp(1)), Mark::new(&link, Timestamp(2)));
        assert!(first != second && first.is_for(&link) && second.is_for(&home));
        assert!(!first.is_for(dir.path()));
        assert_eq!(Mark::of_text(first.text()), first);
        let env = [(b"A".to_vec(), b"b".to_vec()), first.variable()];
        assert_eq!(Mark::among(&env), Some(first));
        assert_eq!(Mark::among(&env[..1]), None);
    }
}
