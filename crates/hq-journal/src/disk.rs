//! What a journal needs of a file system: one directory of append-only files.
//!
//! Everything goes through these two traits, so that the simulator can lose power between any two bytes.

use std::io;

use crate::error::LockError;

/// One directory that holds a journal.
pub trait Disk {
    /// An open file.
    type File: DiskFile;
    /// The exclusive right to change the directory; given back when dropped, and when the process dies.
    type Lock;
    /// An open note.
    type Note: DiskNote;

    /// Takes the exclusive right to change the directory.
    ///
    /// # Errors
    /// [`LockError::Held`] names the holder.
    fn lock(&self) -> Result<Self::Lock, LockError>;

    /// Whether what the right was taken on is still there.
    fn is_held(&self, lock: &Self::Lock) -> bool;

    /// Takes the right again where what it was taken on is gone.
    ///
    /// # Errors
    /// [`LockError::Held`] names who has it now.
    fn renew(&self, lock: &mut Self::Lock) -> Result<(), LockError>;

    /// What is there under the name of an open file.
    ///
    /// # Errors
    /// What the file system says.
    fn place_of(&self, file: &Self::File, name: &str) -> io::Result<Place>;

    /// Opens the note, made if it is missing. There is one in a directory, which is no file of the journal.
    ///
    /// # Errors
    /// What the file system says.
    fn open_note(&self) -> io::Result<Self::Note>;

    /// What the note says; empty when there is none.
    ///
    /// # Errors
    /// What the file system says.
    fn read_note(&self) -> io::Result<Vec<u8>>;

    /// Removes the note, if there is one.
    ///
    /// # Errors
    /// What the file system says.
    fn remove_note(&self) -> io::Result<()>;

    /// The names of all files, in no particular order.
    ///
    /// # Errors
    /// What the file system says.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when there is none, or what the file system says.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Makes an empty file for appending and reading, in place of one of the same name.
    ///
    /// # Errors
    /// What the file system says.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Renames a file, in place of one that has the new name, atomically.
    ///
    /// # Errors
    /// What the file system says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Those who have it open may read on.
    ///
    /// # Errors
    /// What the file system says.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Cuts a file to so many bytes, if it has more, in a way that outlives a crash.
    ///
    /// # Errors
    /// What the file system says; the file may be cut or not then.
    fn cut(&self, name: &str, bytes: u64) -> io::Result<()>;

    /// Makes all earlier creations, renames and removals outlive a crash.
    ///
    /// # Errors
    /// What the file system says; it is then unknown which of them do.
    fn sync_dir(&self) -> io::Result<()>;

    /// How a file is called in messages to people, such as its full path. An empty name means the directory.
    fn path(&self, name: &str) -> String;
}

/// What is under the name of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// That file.
    Own,
    /// Nothing: it was removed or renamed, or its directory was.
    Empty,
    /// Another file.
    Taken,
}

/// A few bytes that are replaced often.
pub trait DiskNote {
    /// Replaces them. After a crash, any of those that were written before may be there, or none.
    ///
    /// # Errors
    /// What the file system says.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// One open file of a [`Disk`].
pub trait DiskFile {
    /// Its length in bytes.
    ///
    /// # Errors
    /// What the file system says.
    fn size(&self) -> io::Result<u64>;

    /// Reads at a byte offset; fewer bytes than asked for are no error, 0 is the end.
    ///
    /// # Errors
    /// What the file system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all bytes at the end.
    ///
    /// # Errors
    /// What the file system says; any part of the bytes may then be in the file.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything appended outlive a crash.
    ///
    /// # Errors
    /// What the file system says; any part of what was not synced before may then be lost, even when a later
    /// sync succeeds.
    fn sync(&mut self) -> io::Result<()>;
}
