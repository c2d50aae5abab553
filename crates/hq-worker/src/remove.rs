//! Removes directories, also those in which nobody may write.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Removes a directory and all that is in it. Directories within that forbid it are made writable first; links are not followed.
///
/// # Errors
/// When something stays.
pub(crate) fn remove_dir_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(path)?;
            fs::remove_dir_all(path)
        }
        result => result,
    }
}

fn make_writable(path: &Path) -> io::Result<()> {
    let mut dirs = vec![path.to_owned()];
    while let Some(dir) = dirs.pop() {
        fs::set_permissions(&dir, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_nobody_may_write_to_are_removed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("a/b")).expect("writable");
        fs::write(tree.join("a/b/file"), "x").expect("writable");
        for inner in ["a/b", "a", ""] {
            fs::set_permissions(tree.join(inner), Permissions::from_mode(0o500)).expect("ours");
        }
        remove_dir_all(&tree).expect("removed");
        assert!(!tree.exists());
        assert!(remove_dir_all(&tree).is_err_and(|error| error.kind() == io::ErrorKind::NotFound));
    }
}
