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
        /// What becomes of it when the task has ended.
        on_close: OnClose,
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

    /// What becomes of a file of each task's own.
    pub fn on_close(&self) -> OnClose {
        match self {
            OutputSink::None | OutputSink::Stream => OnClose::Keep,
            OutputSink::File { on_close, .. } => *on_close,
        }
    }
}

/// What becomes of the file of an output channel when its task has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnClose {
    /// It stays.
    #[default]
    Keep,
    /// It is removed when the task finished with success.
    RemoveIfFinished,
    /// It is removed when there is nothing in it, however the task ended.
    RemoveIfEmpty,
}

impl OnClose {
    /// Those that remove something.
    pub const REMOVING: [OnClose; 2] = [OnClose::RemoveIfFinished, OnClose::RemoveIfEmpty];

    /// How users write it, where something is removed.
    pub fn word(self) -> Option<&'static str> {
        match self {
            OnClose::Keep => None,
            OnClose::RemoveIfFinished => Some("rm-if-finished"),
            OnClose::RemoveIfEmpty => Some("rm-if-empty"),
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
