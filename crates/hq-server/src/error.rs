//! Why a server does not start, or does not end well.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use hq_net::{AccessError, ListenError};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The directory has a living server.
    #[error(
        "Server at {0} is already online, please stop it first using `hq server stop --server-dir {0}`; it runs at {address}{1}",
        directory.display(), pid_text(*.pid)
    )]
    Running {
        /// The directory that both are to use.
        directory: PathBuf,
        /// Host and port for clients, as far as known.
        address: String,
        /// Its process id, as far as known.
        pid: Option<u32>,
    },
    /// A directory or a file in it cannot be used.
    #[error("{}", cannot_be_used(what, path, source))]
    Directory {
        /// What it is.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// An access file cannot be read or written, or lacks a part.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port cannot be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// It may have too few files open to work.
    #[error(
        "a server needs at least {needed} open files for connections, the journal and logs, but the limit here is \
         {limit} (`ulimit -Hn`)"
    )]
    OpenFiles {
        /// How many it may have.
        limit: u64,
        /// How many it needs.
        needed: u64,
    },
    /// The access file and the journal are of different servers.
    #[error("the access file belongs to server {access}, but the journal to server {journal}")]
    OtherServer {
        /// Name in the access file.
        access: String,
        /// Name in the journal.
        journal: String,
    },
    /// An access file is there already.
    #[error("the file {} already exists", path.display())]
    FileExists {
        /// The path of the file.
        path: std::path::PathBuf,
    },
    /// The journal is that of another server than the directory.
    #[error("the journal {} belongs to server {journal}, but the server directory to server {directory}", path.display())]
    OtherJournal {
        /// The journal.
        path: std::path::PathBuf,
        /// Name in it.
        journal: String,
        /// Name in the directory.
        directory: String,
    },
    /// The directory had a server with a journal, and where the journal should be there is none.
    #[error("server {uid} of this directory has a journal, but there is none at {}", path.display())]
    NoJournal {
        /// Where it should be.
        path: PathBuf,
        /// Name of the server.
        uid: String,
    },
    /// The directory had a server with a journal, and is to have one without.
    #[error("the server of {} has a journal; without it, job ids would start at 1 again", directory.display())]
    JournalNotUsed {
        /// The server directory.
        directory: PathBuf,
    },
    /// The journal cannot be opened or read.
    #[error("{reason}")]
    Journal {
        /// What is wrong with which file.
        reason: String,
        /// What the user can do about it.
        hint: &'static str,
    },
    /// Changes could not be written before the end. None of them was acknowledged.
    #[error(
        "the journal could not be written: the last {records} changes are lost; none of them had been acknowledged"
    )]
    Unsaved {
        /// How many.
        records: u64,
    },
    /// The system refuses something a server needs.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The access file to start with is not there.
    #[error("no access file at {}", path.display())]
    NoAccessFile {
        /// Its path.
        path: PathBuf,
    },
    /// A rule of our own was broken.
    #[error("the server hit an internal error and ended: {0}")]
    Broken(String),
}

impl ServerError {
    /// A short word that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            ServerError::Access(_) | ServerError::NoAccessFile { .. } => "no-access",
            _ => "server",
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Cow<'static, str> {
        self.hint_for("use another directory with --server-dir")
    }

    /// As [`ServerError::hint`], where whoever starts the server does not name its directory: `elsewhere` says what to do for
    /// another one, such as `use another directory with --state`.
    pub fn hint_for(&self, elsewhere: &str) -> Cow<'static, str> {
        let ServerError::Directory { source, .. } = self else { return self.fixed_hint().into() };
        let there = match source.kind() {
            // It is a file, or would be in one.
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => "move away what is there",
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free space there",
            // Another directory is no help.
            io::ErrorKind::FileTooLarge => return "raise the maximum file size (`ulimit -f`)".into(),
            _ => "check its permissions",
        };
        format!("{there}, or {elsewhere}").into()
    }

    fn fixed_hint(&self) -> &'static str {
        match self {
            ServerError::Running { .. } => {
                "use it (`hq server info`), stop it with `hq server stop`, or start another one with a \
                 different --server-dir"
            }
            ServerError::Directory { .. } => "",
            ServerError::Access(error) => error.hint(),
            ServerError::NoAccessFile { .. } => {
                "create one with `hq server generate-access`, or omit --access-file"
            }
            ServerError::Listen(error) => error.hint(),
            ServerError::OpenFiles { .. } => {
                "raise the hard limit (`ulimit -n 4096` if that is allowed, otherwise `nofile` in \
                 /etc/security/limits.conf or `LimitNOFILE=` in systemd), or use another node"
            }
            ServerError::OtherServer { .. } => "use the right access file, or start over with --fresh",
            ServerError::FileExists { .. } => "use --overwrite if it is no longer in use, or another name",
            ServerError::OtherJournal { .. } => {
                "give the server directory it belongs to, or an empty one, with --server-dir; --fresh sets the \
                 journal aside"
            }
            ServerError::NoJournal { .. } => {
                "give it with --journal, or mount its file system; --fresh starts over with job 1 and discards the \
                 past"
            }
            ServerError::JournalNotUsed { .. } => {
                "start it with its journal (at the `--journal PATH` used before, if any), or use another directory \
                 with --server-dir; --fresh sets `journal` aside there and starts with job 1"
            }
            ServerError::Journal { hint, .. } => hint,
            ServerError::Unsaved { .. } => "free space where the journal is",
            ServerError::System { .. } => "see `ulimit -a` and the free memory of this node",
            ServerError::Broken(_) => {
                "report it together with the log; restarting the server continues its jobs"
            }
        }
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> ServerError {
        move |source| ServerError::System { what, source }
    }
}

// A file where a directory should be is most often a journal of another program.
fn cannot_be_used(what: &str, path: &Path, source: &io::Error) -> String {
    let path_text = path.display();
    let is_taken = matches!(source.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists);
    if is_taken && path.is_file() {
        format!("{what} {path_text} cannot be used: it is a file, but must be a directory")
    } else {
        format!("{what} {path_text} cannot be used: {source}")
    }
}

fn pid_text(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(", pid {pid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_as_one_whatever_lies_there() {
        let lock = tempfile::NamedTempFile::new().expect("a temporary file");
        let full = |kind| ServerError::Directory {
            what: "the lock file",
            path: lock.path().to_owned(),
            source: io::Error::from(kind),
        };
        let error = full(io::ErrorKind::StorageFull);
        assert!(error.to_string().ends_with("cannot be used: no storage space"), "{error}");
        assert_eq!(error.hint(), "free space there, or use another directory with --server-dir");
        let elsewhere = "use another directory with --state";
        assert_eq!(error.hint_for(elsewhere), format!("free space there, or {elsewhere}"));
        let error = full(io::ErrorKind::FileTooLarge);
        assert!(error.hint_for(elsewhere).contains("`ulimit -f`"), "{}", error.hint());
        let error = full(io::ErrorKind::AlreadyExists);
        assert!(error.to_string().ends_with("it is a file, but must be a directory"), "{error}");
    }
}
