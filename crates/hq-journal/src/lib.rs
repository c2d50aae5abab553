//! An append-only log of records, kept through crashes.

mod disk;
mod error;
mod format;
mod journal;
mod layout;
pub mod limits;
mod lock;
mod reader;
mod real_disk;
mod replay;

pub use disk::{Disk, DiskFile};
pub use error::{Damage, ForeignContent, Holder, JournalError, LockError, OpenError};
pub use format::{FileKind, JournalId};
pub use journal::{Journal, Options, Size};
pub use lock::{FileLock, LOCK_FILE};
pub use real_disk::{RealDisk, RealFile};
pub use replay::{Replay, TornTail, replay};
