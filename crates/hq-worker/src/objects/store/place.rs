//! Objects at paths of tasks.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Content, Key, Store, StoreError, at, checksum_of, stamp};

impl Store {
    /// Puts an object at a path: as a hard link, or as a copy where that cannot be, and for root, who may write to any file.
    /// A file is there already only if it is the same, or one that was put there before and that nobody has changed.
    ///
    /// # Errors
    /// When it is not here as it was, or cannot be put there.
    pub(crate) fn put(&self, key: &Key, to: &Path) -> Result<(), StoreError> {
        self.with_file(key, |path, content| self.put_file(path, content, to))
    }

    fn put_file(&self, path: &Path, content: Content, to: &Path) -> Result<(), StoreError> {
        if is_same(to, content) {
            return Ok(());
        }
        if fs::symlink_metadata(to).is_ok_and(|found| !is_as_put(&found)) {
            return Err(StoreError::Taken(to.to_owned()));
        }
        let dir = to.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(dir).map_err(at(dir))?;
        // Beside it, under a name that nobody else uses; then it appears as a whole.
        let number = self.shelf().tick();
        let beside = dir.join(format!(".hq-object-{}-{number}", std::process::id()));
        let link = || match rustix::process::geteuid().is_root() {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => fs::hard_link(path, &beside),
        };
        let copy = || {
            fs::copy(path, &beside)?;
            stamp(&File::open(&beside)?)
        };
        let put = link().or_else(|_| copy());
        let put = put.and_then(|()| fs::rename(&beside, to));
        // Also after a success: two links of one file are not renamed onto each other.
        let _ = fs::remove_file(&beside);
        put.map_err(at(to))
    }
}

// True for a file that a store has put somewhere and nobody has changed. What somebody may write to is his.
fn is_as_put(found: &Metadata) -> bool {
    found.is_file() && found.mode() & 0o222 == 0 && found.mtime_nsec() == 0
}

// A task may find there what it has left itself.
fn is_same(path: &Path, content: Content) -> bool {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == content.size) {
        return false;
    }
    let checksum = File::open(path).and_then(|mut file| checksum_of(&mut file));
    checksum.is_ok_and(|(_, checksum)| checksum == content.checksum)
}
