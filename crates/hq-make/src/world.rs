//! What a plan asks the world: files, digests, Python. All of it comes in as arguments.

use std::io;

use crate::known::Known;
use crate::value::Value;

/// What is known of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// It is a directory.
    pub is_dir: bool,
    /// Its length in bytes.
    pub size: u64,
    /// When its content changed, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// When anything of it changed.
    pub ctime_ns: i64,
    /// Its number in the file system.
    pub inode: u64,
}

/// Files, by absolute paths. Symbolic links are followed.
pub trait Files {
    /// What is known of a file; nothing if there is none.
    ///
    /// # Errors
    /// When that cannot be told.
    fn facts(&self, path: &[u8]) -> io::Result<Option<Facts>>;

    /// Whether there is such a file. Asked of many files in few directories: reading each directory once is cheaper
    /// than looking at each file.
    ///
    /// # Errors
    /// When that cannot be told.
    fn is_there(&self, path: &[u8]) -> io::Result<bool> {
        Ok(self.facts(path)?.is_some())
    }
}

/// What tells contents apart.
pub trait Digests {
    /// The digest of what a file holds.
    ///
    /// # Errors
    /// When it cannot be read.
    fn digest(&self, path: &[u8]) -> io::Result<[u8; 32]>;

    /// The digest of a text.
    fn of_text(&self, text: &[u8]) -> [u8; 32];
}

/// What evaluates the expressions of loops that our own evaluator does not know.
///
/// [`crate::python`] has the program to run, what to send to it and what reads its answer.
pub trait Python {
    /// Evaluates all of them at once. Each gives its values or says what is wrong with it.
    ///
    /// # Errors
    /// When Python could not be run.
    fn evaluate(&self, expressions: &[String]) -> Result<Vec<Result<Vec<Value>, String>>, String>;
}

/// All that a plan is made from besides the two files and what is wanted.
pub struct World<'a> {
    /// The files.
    pub files: &'a dyn Files,
    /// The digests of files and texts; only scripts are digested in mode `mtime`, nothing in mode `exists`.
    pub digests: &'a dyn Digests,
    /// Python, where there is one.
    pub python: Option<&'a dyn Python>,
    /// What is remembered of earlier runs.
    pub known: &'a Known,
    /// The time of day, in nanoseconds since 1970: files from the future are warned of.
    pub now_ns: i64,
}
