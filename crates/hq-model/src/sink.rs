//! Where an output channel of a task goes. A new kind of place is a variant here; the compiler then names what has to decide.

use crate::ByteString;

/// Where an output channel goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OutputSink {
    /// Thrown away.
    #[default]
    None,
    /// A file, relative to the working directory.
    File {
        /// Path with placeholders.
        path: ByteString,
        /// Remove it when the task finishes with success.
        remove_if_finished: bool,
    },
    /// The stream of its tasks, in the place that their template names.
    Stream,
}

impl OutputSink {
    /// The path of a file of each task's own, with placeholders.
    pub fn path(&self) -> Option<&ByteString> {
        match self {
            OutputSink::None | OutputSink::Stream => None,
            OutputSink::File { path, .. } => Some(path),
        }
    }

    /// True when nothing is left of it after a task that finished with success.
    pub fn is_removed_if_finished(&self) -> bool {
        match self {
            OutputSink::None | OutputSink::Stream => false,
            OutputSink::File { remove_if_finished, .. } => *remove_if_finished,
        }
    }
}

/// Where the outputs of all tasks of a template go together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Into a directory, in which each worker has a file of its own.
    Directory(ByteString),
    /// Into one file, which the server writes.
    Log(ByteString),
}

impl Stream {
    /// Its path, with placeholders or without.
    pub fn path(&self) -> &ByteString {
        match self {
            Stream::Directory(path) | Stream::Log(path) => path,
        }
    }

    /// The same with another path.
    pub fn at(&self, path: ByteString) -> Stream {
        match self {
            Stream::Directory(_) => Stream::Directory(path),
            Stream::Log(_) => Stream::Log(path),
        }
    }
}
