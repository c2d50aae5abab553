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
    /// The stream of its tasks, in the directory that their template names.
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
