//! What can be wrong with a stream file.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// What is said of a file that is no stream file.
pub const IS_FOREIGN: &str = "is not a stream file, or its beginning is damaged";

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The system refuses.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Something else, or its beginning is damaged.
    #[error("{} {IS_FOREIGN}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// What is in it is in another file, too.
    #[error("{} is a copy of {}, and left out", path.display(), of.display())]
    Copy {
        /// The file.
        path: PathBuf,
        /// The one that counts.
        of: PathBuf,
    },
    /// It belongs to somebody else.
    #[error("{} belongs to user {owner}, and others can write to its directory: it is left out", path.display())]
    Strange {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// A later release wrote it.
    #[error("{} has format {version}, this release reads {newest}: use a newer hq", path.display(), newest = crate::limits::FORMAT_VERSION)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        version: u16,
    },
}

/// Why a file of many writers cannot be appended to.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// It cannot be read, or is something else.
    #[error(transparent)]
    Read(#[from] StreamError),
    /// The system refuses.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Somebody else has it open to write.
    #[error("{} is being written by another server or a worker; use another name", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It is one of those that workers write.
    #[error("{} is the file of a worker in a stream directory; use another name", path.display())]
    OfWorker {
        /// The file.
        path: PathBuf,
    },
    /// It has what tasks of another server printed.
    #[error("{} is the log of another server, {server_uid}; use another name", path.display())]
    OtherServer {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        server_uid: String,
    },
}

impl AppendError {
    /// What the system said, if it did.
    pub fn io(&self) -> Option<&io::Error> {
        match self {
            AppendError::Io { error, .. } | AppendError::Read(StreamError::Io { error, .. }) => Some(error),
            AppendError::Read(_)
            | AppendError::InUse { .. }
            | AppendError::OfWorker { .. }
            | AppendError::OtherServer { .. } => None,
        }
    }
}

impl StreamError {
    /// True for a file that a worker is about to begin, or had begun when it was killed.
    pub fn is_missing(&self) -> bool {
        matches!(self, StreamError::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}

/// A part of a file that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The end is not complete: it is being written, or was when its writer died.
    Torn {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        bytes: u64,
    },
    /// It is not what was written.
    Damaged {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        bytes: u64,
    },
    /// A block that says what is missing: the file was removed, renamed, emptied or cut while tasks printed into it.
    Lost {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        bytes: u64,
        /// How much is missing.
        lost_bytes: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Fault::Lost { lost_bytes, .. } = self {
            return write!(
                f,
                "{lost_bytes} bytes that tasks had printed are missing: the file was removed, renamed, emptied or cut \
                 while they ran"
            );
        }
        let what = match self {
            Fault::Torn { .. } => "an unfinished write was left out",
            Fault::Damaged { .. } | Fault::Lost { .. } => "damaged bytes were left out",
        };
        let (offset, bytes) = self.place();
        write!(f, "{what}: {bytes} bytes from byte {offset} on")
    }
}

impl Fault {
    /// Where it begins.
    pub fn offset(&self) -> u64 {
        self.place().0
    }

    // Where it begins, and how long it is.
    fn place(&self) -> (u64, u64) {
        let (Fault::Torn { offset, bytes }
        | Fault::Damaged { offset, bytes }
        | Fault::Lost { offset, bytes, .. }) = *self;
        (offset, bytes)
    }

    // Where what is behind it begins.
    pub(crate) fn end(&self) -> u64 {
        let (offset, bytes) = self.place();
        offset.saturating_add(bytes)
    }

    // Whether what begins there is a part of it.
    pub(crate) fn holds(&self, place: u64) -> bool {
        let (offset, bytes) = self.place();
        offset <= place && place - offset < bytes
    }
}
