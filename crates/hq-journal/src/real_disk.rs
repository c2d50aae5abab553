//! A [`Disk`] that is a directory of the file system, private to its owner.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile};
use crate::error::LockError;
use crate::lock::{FileLock, LOCK_FILE};

/// A directory of the file system.
#[derive(Clone, Debug)]
pub struct RealDisk {
    directory: PathBuf,
}

impl RealDisk {
    /// Uses a directory, and makes it (mode 0700) where it is missing.
    ///
    /// # Errors
    /// When it can neither be used nor made.
    pub fn create(directory: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        Self::open(directory)
    }

    /// Uses a directory that is there.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`], [`io::ErrorKind::NotADirectory`], or what the file system says.
    pub fn open(directory: &Path) -> io::Result<Self> {
        if !fs::metadata(directory)?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        Ok(Self { directory: directory.to_owned() })
    }
}

impl Disk for RealDisk {
    type File = RealFile;
    type Lock = FileLock;

    fn lock(&self) -> Result<FileLock, LockError> {
        FileLock::take(&self.directory)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            // Our own names are plain ASCII; others are none of our business.
            if let Ok(name) = entry?.file_name().into_string()
                && name != LOCK_FILE
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<RealFile> {
        let file = File::open(self.directory.join(name))?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"));
        }
        Ok(RealFile { file })
    }

    fn create(&self, name: &str) -> io::Result<RealFile> {
        let path = self.directory.join(name);
        let file =
            OpenOptions::new().read(true).append(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.set_len(0)?;
        Ok(RealFile { file })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.directory.join(from), self.directory.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.directory.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn path(&self, name: &str) -> String {
        let path = if name.is_empty() { self.directory.clone() } else { self.directory.join(name) };
        path.to_string_lossy().into_owned()
    }
}

/// An open file of a [`RealDisk`].
#[derive(Debug)]
pub struct RealFile {
    file: File,
}

impl DiskFile for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        io::Write::write_all(&mut self.file, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}
