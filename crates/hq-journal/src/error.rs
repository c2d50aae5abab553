//! What can be wrong with a journal, in words that name the file, the place and the way out.

use std::fmt;
use std::io;

use crate::format::JournalId;
use crate::real_disk::NOTE_FILE;

/// Why a journal could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file system refused. After a refused write or sync the journal still holds the records and tries
    /// again at the next call.
    #[error("cannot {action} {file}: {source}")]
    Disk {
        /// What was tried, a verb.
        action: &'static str,
        /// The file or directory.
        file: String,
        /// What the file system said.
        source: io::Error,
    },
    /// Something else is where a file of the journal is due.
    #[error("{file} is {what}, not a file")]
    NotAFile {
        /// Where.
        file: String,
        /// What it is, with its article.
        what: &'static str,
    },
    /// Somebody else has it open for writing.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The directory holds no journal.
    #[error("there is no journal in {directory}")]
    Missing {
        /// The directory.
        directory: String,
    },
    /// The journal, or one of its files, belongs to another server.
    #[error("{file} belongs to journal {found}, not to journal {expected}")]
    Foreign {
        /// The file.
        file: String,
        /// The id in it.
        found: JournalId,
        /// The id that was expected.
        expected: JournalId,
    },
    /// A file has the name but not the content of a journal's file.
    #[error("{file} is no journal file: {content}")]
    NotAJournal {
        /// The file.
        file: String,
        /// What it holds instead.
        content: ForeignContent,
    },
    /// The journal was written by a newer release.
    #[error("{file} has journal format {found}, this release reads formats up to {known}")]
    NewerFormat {
        /// The file.
        file: String,
        /// Its format.
        found: u16,
        /// The newest format this release reads.
        known: u16,
    },
    /// Bytes that had been kept are not what was written.
    #[error("{file} is damaged at byte {offset}, where record {seq} is due: {damage}")]
    Damaged {
        /// The file.
        file: String,
        /// Where the first bad byte may be: the start of the group of records that holds it.
        offset: u64,
        /// The first record that cannot be read.
        seq: u64,
        /// What is wrong there.
        damage: Damage,
    },
    /// A file does not say what it is.
    #[error("the header of {file} is damaged, or the file is in the place of another")]
    DamagedHeader {
        /// The file.
        file: String,
    },
    /// A file that others need is not there.
    #[error("{file} is missing: records from {seq} on are in it")]
    MissingFile {
        /// The file.
        file: String,
        /// The first record that cannot be read.
        seq: u64,
    },
    /// A file of the journal was taken away while it was being written.
    #[error(
        "{file} is gone: put it back, or make an empty directory in its place for all of it to be written anew"
    )]
    GoneDirectory {
        /// The directory.
        file: String,
    },
    /// A file of the journal was taken away, or has become another one, while the journal was being written.
    #[error("{file} is not the file that was written: {reason}")]
    GoneFile {
        /// The file.
        file: String,
        /// What is known of it, and the way out.
        reason: &'static str,
    },
    /// Files kept vanishing while they were read.
    #[error("the journal in {directory} changed each time it was read")]
    Unsteady {
        /// The directory.
        directory: String,
    },
    /// A compaction was finished after a later one had begun.
    #[error("this compaction of the journal was given up when another one began")]
    CompactionReplaced,
}

impl JournalError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Disk { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "only the owner of a server may read its journal: check who that is, and who you are"
            }
            Self::Disk { file, .. } | Self::NotAFile { file, .. } if file.ends_with(NOTE_FILE) => {
                "move it away: it is made again, and says only how much of the journal is known to be on disk"
            }
            Self::NotAFile { .. } => {
                "move it away, and put in its place the file that belongs there, if there was one; `hq journal check` then says \
                 whether records are missing"
            }
            Self::Disk { source, .. } if source.kind() == io::ErrorKind::FileTooLarge => {
                "raise the largest size of a file (`ulimit -f`; of a process that runs, `prlimit --fsize`)"
            }
            Self::Disk { .. } => "check free space, permissions and the health of the file system",
            Self::Lock(LockError::Held { .. }) => {
                "stop the other server with `hq server stop`, or by ending that process where it cannot be reached; or use \
                 another directory"
            }
            Self::Lock(LockError::Disk { .. }) => {
                "free space there, and see what stands in the place of this file: it is a plain file of yours"
            }
            Self::Missing { .. } => {
                "name the directory of the journal: in a server directory that is `journal`, unless the server was started with \
                 --journal; `hq server info` says where that of a running server is"
            }
            Self::Foreign { .. } => "check the path, or move the files of the other server away",
            Self::NotAJournal { .. } => {
                "check the path; if it was a journal, `hq journal check` says what is readable, and `hq journal repair` keeps \
                 everything up to the damage"
            }
            Self::NewerFormat { .. } => "use the release that wrote it, or a newer one",
            Self::Damaged { .. } | Self::DamagedHeader { .. } | Self::MissingFile { .. } => {
                "`hq journal check` says what is readable, `hq journal repair` keeps everything up to the damage"
            }
            Self::GoneDirectory { .. } | Self::GoneFile { .. } => {
                "put back what was taken away; nothing is changed until then"
            }
            Self::Unsteady { .. } => "try again",
            Self::CompactionReplaced => "nothing is lost: the later compaction does its work",
        }
    }
}

/// Why a journal could not be opened: its own state, or its reader.
#[derive(Debug, thiserror::Error)]
pub enum OpenError<E: fmt::Display + fmt::Debug> {
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The reader refused a record.
    #[error("record {seq} of the journal: {reason}")]
    Refused {
        /// The record's number.
        seq: u64,
        /// What the reader said.
        reason: E,
    },
}

/// Why the right to change a journal could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("the journal in {directory} is in use by {holder} (lock file {file})")]
    Held {
        /// The directory.
        directory: String,
        /// Who has it.
        holder: Holder,
        /// The lock file.
        file: String,
    },
    /// The lock file could not be used.
    #[error("cannot lock {file}: {source}")]
    Disk {
        /// The lock file.
        file: String,
        /// What the file system said.
        source: io::Error,
    },
}

/// Who holds a lock, as written in the lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A process.
    Process {
        /// Its id on that host.
        pid: u32,
        /// The host's name.
        host: String,
    },
    /// The lock file does not say.
    Unknown,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, host } => write!(f, "process {pid} on {host}"),
            Self::Unknown => f.write_str("another process"),
        }
    }
}

/// What a file holds that is no journal file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignContent {
    /// Nothing.
    Empty,
    /// Zeros only, as far as a header would reach.
    Zeros,
    /// Less than a header.
    Short,
    /// Something else.
    Other,
}

impl fmt::Display for ForeignContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it is empty",
            Self::Zeros => "it holds zeros",
            Self::Short => "it is shorter than a header",
            Self::Other => "its first bytes are not a journal's",
        })
    }
}

/// What is wrong at a place of a journal file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The checksum does not match, although later records were written when these were safely on disk.
    Checksum,
    /// The file ends before the length that was safely on disk.
    Short {
        /// The length it must have, in bytes.
        expected: u64,
    },
    /// The header says that another record comes first.
    Sequence {
        /// The number in the header.
        found: u64,
    },
    /// The checksum matches but the bytes are no list of records.
    Content,
    /// A snapshot has no end mark.
    Unfinished,
    /// There are bytes after a snapshot's end mark.
    Trailing,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum => f.write_str("the checksum does not match"),
            Self::Short { expected } => write!(f, "the file had {expected} bytes and is shorter"),
            Self::Sequence { found } => write!(f, "the header says that record {found} comes first"),
            Self::Content => f.write_str("these are no records"),
            Self::Unfinished => f.write_str("the snapshot has no end"),
            Self::Trailing => f.write_str("there is more after the end of the snapshot"),
        }
    }
}
