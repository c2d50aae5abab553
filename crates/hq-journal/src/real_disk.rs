//! A [`Disk`] that is a directory of the file system, private to its owner.

use std::fs::{self, DirBuilder, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::disk::{Disk, DiskFile, DiskNote, Place};
use crate::error::LockError;
use crate::lock::{FileLock, LOCK_FILE};

/// The name of the note in the directory.
pub(crate) const NOTE_FILE: &str = "synced";
/// The most bytes of a note that are read.
const NOTE_BYTES_MAX: u64 = 4096;

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
    type Note = RealNote;

    fn lock(&self) -> Result<FileLock, LockError> {
        FileLock::take(&self.directory)
    }

    fn is_held(&self, lock: &FileLock) -> bool {
        lock.is_in(&self.directory)
    }

    fn renew(&self, lock: &mut FileLock) -> Result<(), LockError> {
        *lock = FileLock::take(&self.directory)?;
        Ok(())
    }

    fn place_of(&self, file: &RealFile, name: &str) -> io::Result<Place> {
        let there = match fs::symlink_metadata(self.directory.join(name)) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Place::Empty),
            Err(error) => return Err(error),
        };
        let own = file.file.metadata()?;
        let is_own = (own.dev(), own.ino()) == (there.dev(), there.ino());
        Ok(if is_own { Place::Own } else { Place::Taken })
    }

    fn open_note(&self) -> io::Result<RealNote> {
        let path = self.directory.join(NOTE_FILE);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        Ok(RealNote { file: open_plain(&mut options, &path)? })
    }

    fn read_note(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match open_plain(OpenOptions::new().read(true), &self.directory.join(NOTE_FILE)) {
            Ok(file) => file.take(NOTE_BYTES_MAX).read_to_end(&mut bytes).map(|_| bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(bytes),
            Err(error) => Err(error),
        }
    }

    fn remove_note(&self) -> io::Result<()> {
        match fs::remove_file(self.directory.join(NOTE_FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
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
        let file = open_plain(OpenOptions::new().read(true), &self.directory.join(name))?;
        Ok(RealFile { file })
    }

    fn create(&self, name: &str) -> io::Result<RealFile> {
        let path = self.directory.join(name);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).truncate(false).mode(0o600);
        let file = open_plain(&mut options, &path)?;
        file.set_len(0)?;
        Ok(RealFile { file })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.directory.join(from), self.directory.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.directory.join(name))
    }

    fn cut(&self, name: &str, bytes: u64) -> io::Result<()> {
        let file = open_plain(OpenOptions::new().write(true), &self.directory.join(name))?;
        if file.metadata()?.len() > bytes {
            file.set_len(bytes)?;
            file.sync_all()?;
        }
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn path(&self, name: &str) -> String {
        let path = if name.is_empty() { self.directory.clone() } else { self.directory.join(name) };
        path.to_string_lossy().into_owned()
    }
}

/// Opens a file that is a plain one: a pipe would be waited for without end, and a link leads to what is not ours.
///
/// # Errors
/// With a [`NotAFile`] inside where something else is there, or what the file system says.
pub(crate) fn open_plain(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    match options.custom_flags(flags.bits().cast_signed()).open(path) {
        Ok(file) => match NotAFile::of(file.metadata()?.file_type()) {
            None => Ok(file),
            Some(other) => Err(other.into()),
        },
        // Directories, links and sockets are refused in words of their own, which do not say what they are.
        Err(error) => {
            let there = fs::symlink_metadata(path).ok().and_then(|there| NotAFile::of(there.file_type()));
            Err(there.map_or(error, io::Error::from))
        }
    }
}

/// Something else than a plain file is where one is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is {what}, not a file")]
pub(crate) struct NotAFile {
    /// What it is, with its article.
    pub(crate) what: &'static str,
}

impl NotAFile {
    fn of(found: FileType) -> Option<Self> {
        let what = match found {
            _ if found.is_file() => return None,
            _ if found.is_dir() => "a directory",
            _ if found.is_symlink() => "a symbolic link",
            _ if found.is_fifo() => "a named pipe",
            _ if found.is_socket() => "a socket",
            _ => "a device",
        };
        Some(Self { what })
    }

    /// What an error of [`open_plain`] speaks of.
    pub(crate) fn inside(error: &io::Error) -> Option<Self> {
        error.get_ref().and_then(|inside| inside.downcast_ref()).copied()
    }
}

impl From<NotAFile> for io::Error {
    fn from(other: NotAFile) -> Self {
        Self::new(io::ErrorKind::InvalidInput, other)
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

/// The open note of a [`RealDisk`].
#[derive(Debug)]
pub struct RealNote {
    file: File,
}

impl DiskNote for RealNote {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, 0)
    }
}
