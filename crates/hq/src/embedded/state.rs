//! Directories in which a server of ours keeps its journal from one time to the next.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::error::HqError;

const SERVER: &str = "server";

/// A directory that stays. Whoever has its server has the directory: there is never a second one.
#[derive(Clone, Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
    elsewhere: &'static str,
}

/// What to do for another one.
const NAMED: &str = "use another directory with --state";

impl StateDir {
    /// Opens a directory, made for its owner alone if it is missing. Whether others could write to it, the server checks.
    ///
    /// # Errors
    /// When it cannot be made, or something else is there that is no directory of ours.
    pub(crate) fn open(path: &Path) -> Result<StateDir, HqError> {
        let path = std::path::absolute(path)?;
        let failed = |error: io::Error| {
            HqError::failed("io", format!("the directory {} cannot be used: {error}", path.display()))
                .hint(NAMED)
        };
        match DirBuilder::new().recursive(true).mode(0o700).create(&path) {
            Ok(()) => {}
            Err(error) => return Err(failed(error)),
        }
        // In a directory with other things the state would be taken for a part of them.
        let mut names = fs::read_dir(&path).map_err(failed)?.flatten().map(|entry| entry.file_name());
        if !path.join(SERVER).exists() && names.any(|name| !name.as_encoded_bytes().starts_with(b".")) {
            return Err(HqError::failed(
                "bad-input",
                format!("{} contains other files, but no state of an earlier run", path.display()),
            )
            .hint("use a directory that is empty or does not exist yet"));
        }
        Ok(StateDir { path, elsewhere: NAMED })
    }

    /// True when a server of ours has been there.
    pub(crate) fn is_there(path: &Path) -> bool {
        path.join(SERVER).exists()
    }

    /// In a directory of ours that is there.
    pub(crate) fn within(path: &Path) -> StateDir {
        StateDir { path: path.to_owned(), elsewhere: "create it in another directory" }
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What its user can do for another directory.
    pub(crate) fn elsewhere(&self) -> &'static str {
        self.elsewhere
    }

    /// The server's directory in it.
    pub(crate) fn server_dir(&self) -> PathBuf {
        self.path.join(SERVER)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_of_other_things_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a/b");
        let state = StateDir::open(&path).expect("made");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o700);
        fs::create_dir(state.server_dir()).expect("writable");
        fs::write(path.join("more"), "").expect("writable");
        StateDir::open(&path).expect("it has a state");
        fs::write(dir.path().join("other"), "").expect("writable");
        let error = StateDir::open(dir.path()).expect_err("refused");
        assert!(
            error.text.ends_with("contains other files, but no state of an earlier run"),
            "{}",
            error.text
        );
        assert!(StateDir::open(&dir.path().join("other")).is_err(), "a file");
    }
}
