//! Outputs that tasks are to leave behind: whether they are there, and how those of attempts that failed are put out of
//! the way, so that nobody takes them for results.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hq_model::{ByteString, Instance};
use tracing::warn;

/// Outputs named in the error of a task; the others are counted.
const NAMED_MAX: usize = 3;

/// What to say of outputs that are not there; `None` when all are.
pub(crate) fn missing(outputs: &[ByteString]) -> Option<String> {
    let path = |output: &ByteString| PathBuf::from(OsStr::from_bytes(output));
    let mut missing = outputs.iter().map(path).filter(|path| fs::metadata(path).is_err());
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

/// Renames what an attempt left that did not succeed: `PATH` becomes `PATH.failed-INSTANCE`.
pub(crate) fn move_aside(outputs: &[ByteString], instance: Instance) {
    for output in outputs {
        let path = Path::new(OsStr::from_bytes(output));
        let aside = [output.as_slice(), format!(".failed-{instance}").as_bytes()].concat();
        let aside = Path::new(OsStr::from_bytes(&aside));
        match fs::rename(path, aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                warn!(path = %path.display(), %error, "an output of a failed attempt could not be moved aside");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_outputs_are_named_and_those_of_failed_attempts_moved() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| dir.path().join(name).into_os_string().into_encoded_bytes();
        fs::write(dir.path().join("a"), "1").expect("a file");
        let (here, all) = (vec![path("a")], ["a", "b", "c"].map(path).to_vec());
        assert_eq!(missing(&here), None);
        let text = missing(&all).expect("missing").replace(&format!("{}/", dir.path().display()), "");
        assert_eq!(text, "Its outputs b, c are missing, although the program exited with code 0");
        move_aside(&all, Instance(2));
        assert_eq!(fs::read_to_string(dir.path().join("a.failed-2")).expect("moved"), "1");
        assert!(missing(&here).expect("missing").contains("/a is missing"));
    }
}
