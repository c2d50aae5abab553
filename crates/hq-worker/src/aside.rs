//! Files of attempts that did not end well are put out of the way under another name, and never onto something.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hq_model::Instance;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::limits::ASIDE_NAMES_MAX;

/// `PATH` becomes `PATH.failed-INSTANCE`, or `PATH.failed-INSTANCE.2` and so on when that is there already. Gives the new
/// path, or nothing where there is no such file.
///
/// # Errors
/// When it cannot be renamed, or too many names are taken.
pub fn move_aside(path: &Path, instance: Instance) -> io::Result<Option<PathBuf>> {
    for aside in names(path, instance) {
        match rename_to_new(path, &aside) {
            Ok(()) => return Ok(Some(aside)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many files of failed attempts are there already"))
}

/// The names under which files of an attempt are put out of the way, in the order in which they are taken.
pub fn names(path: &Path, instance: Instance) -> impl Iterator<Item = PathBuf> {
    (1..=ASIDE_NAMES_MAX).map(move |number| {
        let mut aside = path.as_os_str().to_owned();
        aside.push(format!(".failed-{instance}"));
        if number > 1 {
            aside.push(format!(".{number}"));
        }
        PathBuf::from(aside)
    })
}

/// Renames, but never onto something.
fn rename_to_new(path: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, path, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // The file system does not know how.
        Err(Errno::INVAL | Errno::NOSYS) if fs::symlink_metadata(to).is_ok() => {
            Err(io::ErrorKind::AlreadyExists.into())
        }
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(path, to),
        Err(error) => Err(error.into()),
    }
}
