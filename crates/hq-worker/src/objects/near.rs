//! Files that programs on the node of a worker write into its store, to give them to the server as objects.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::home::PUT;
use super::store::{NEW, OF_CLIENT};

/// A file in the store of a worker on this node that is no object yet. It is removed when this is dropped before it is one.
#[derive(Debug)]
pub struct NearFile {
    path: PathBuf,
    name: String,
    // Locked: the worker removes files of those that died.
    file: File,
}

impl NearFile {
    /// Makes an empty one, below the directory that a worker names as that of its store.
    ///
    /// # Errors
    /// When it cannot be made there, or the directory is not one of this user.
    pub fn make(dir: &Path) -> io::Result<NearFile> {
        // Only whoever runs the worker can write there. Of others a directory of this name may be somewhere else.
        let found = fs::symlink_metadata(dir).map_err(|error| at(dir, error))?;
        if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other(format!("{} is not a directory of this user", dir.display())));
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let name = format!("{OF_CLIENT}{:016x}", u64::from_ne_bytes(random));
        // Under that name the worker looks whether it is locked.
        let path = dir.join(PUT).join(format!("{NEW}{name}"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|error| at(&path, error))?;
        let mut made = NearFile { path, name, file };
        made.file.try_lock()?;
        let path = dir.join(PUT).join(&made.name);
        fs::rename(&made.path, &path)?;
        made.path = path;
        Ok(made)
    }

    /// Takes it back. False when it is an object already, or the worker has refused and removed it.
    pub fn withdraw(self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }

    /// What it is called there, for [`GiveObject`](hq_core::object_messages::GiveObject).
    pub fn name(&self) -> &str {
        &self.name
    }
}

// The system does not say which file is meant.
fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

impl Write for NearFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| at(&self.path, error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NearFile {
    fn drop(&mut self) {
        // An object has another name.
        let _ = fs::remove_file(&self.path);
    }
}
