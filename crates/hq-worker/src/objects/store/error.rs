//! Why an object is not stored or not given.

use std::io;
use std::path::{Path, PathBuf};

use crate::tree::TreeError;

/// Why a file is not stored or not given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// No room, even if everything went that may go.
    #[error("{}", no_room(*wanted, (*cap, *taken), *spill))]
    Full {
        /// Bytes that were to come.
        wanted: u64,
        /// What fits altogether.
        cap: u64,
        /// What has to stay.
        taken: u64,
        /// The same of its spill, where it has one.
        spill: Option<(u64, u64)>,
    },
    /// A pipe, a socket, a device.
    #[error("{} is neither a file nor a directory", .0.display())]
    NoFile(PathBuf),
    /// A directory that cannot be packed, or not be unpacked.
    #[error(transparent)]
    Tree(TreeError),
    /// A link, or not ours.
    #[error("{} is a link, or belongs to another user", .0.display())]
    Foreign(PathBuf),
    /// It names no file in the directory for what is to be stored.
    #[error("`{0}` is not a valid name for a file in the store")]
    BadName(String),
    /// Somebody writes to it.
    #[error("{} was changed while it was read", .0.display())]
    Changed(PathBuf),
    /// Somebody else's file.
    #[error(
        "something else already exists at {}, or what was placed there was changed; move it away, or use another \
         path", .0.display()
    )]
    Taken(PathBuf),
    /// It is not here, or not as it was.
    #[error("the object store no longer holds it")]
    Gone,
    /// It was not as it was stored.
    #[error("its copy in the object store was damaged: someone has changed the file")]
    Altered,
    /// The bytes that came are not those that were meant.
    #[error("its contents are not what was stored: the checksum is {found:016x} instead of {meant:016x}")]
    Damaged {
        /// Of what came.
        found: u64,
        /// Of what was meant.
        meant: u64,
    },
    /// The system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// To what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl StoreError {
    /// True for what is larger than all the room there ever is.
    pub(crate) fn never_fits(&self) -> bool {
        match self {
            StoreError::Full { wanted, cap, spill, .. } => *wanted > largest(*cap, *spill),
            _ => false,
        }
    }
}

// The largest object that there ever is room for.
fn largest(cap: u64, spill: Option<(u64, u64)>) -> u64 {
    spill.map_or(cap, |(most, _)| most.max(cap))
}

fn no_room(wanted: u64, (cap, taken): (u64, u64), spill: Option<(u64, u64)>) -> String {
    let most = largest(cap, spill);
    if wanted > most {
        return format!(
            "{wanted} bytes can never fit: the object store accepts objects of at most {most} bytes; start a worker \
             with a larger one (`hq worker start --object-store DIR:SIZE` or `--object-spill DIR:SIZE`)"
        );
    }
    let of_spill = spill
        .map_or(String::new(), |(cap, taken)| format!("; its spill may hold {cap}, of which {taken} are"));
    format!(
        "{wanted} bytes do not fit: the object store may hold {cap} bytes, of which {taken} are in use and cannot \
         be removed{of_spill}"
    )
}

/// Adds the path to an error of the system.
pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { path, source }
}
