//! An append-only log of records that outlives crashes, and knows nothing of what the records say.
//!
//! [`Journal::open`] replays what is there and begins to write; [`replay`] only reads, also while another process
//! writes; [`check`] and [`repair`] are for damage; [`Journal::start_compaction`] replaces history by what it led to.
//! All of it runs over a [`Disk`]: [`RealDisk`] is a directory, [`SimDisk`] one in memory that fails on command.
//!
//! # Promises
//! - What [`Journal::sync`] has returned for is there after any crash. What is there after a crash is a beginning
//!   of what was appended, in order, and stays from then on.
//! - What a crash left unfinished is cut and reported ([`Replay::torn`]). What was safely on disk and is not what was
//!   written any more is refused with its place ([`JournalError::Damaged`]), and no record behind it is believed.
//! - After a failed write or sync, nothing is lost and nothing acknowledged: the records stay in memory, and the next
//!   call writes them to a clean place.
//! - A compaction counts wholly or not at all, wherever a crash meets it.
//! - Replay holds one group of records in memory, 256 KiB unless a record is longer.
//!
//! # Files
//! A directory holds segments, at most one snapshot that counts, and a lock file.
//!
//! | name | holds |
//! |---|---|
//! | `segment-0000000007` | records, in order; the numbers have no gaps |
//! | `snapshot-0000000007` | records that rebuild what all segments before `segment-0000000007` had built |
//! | `….tmp` | a file that is not complete; ignored, and removed at the next opening |
//! | `….damaged` | what [`repair`] put aside; ignored |
//! | `synced` | how many bytes of the last segment were on disk: see below |
//! | `lock` | process id, host and start time of who writes; the kernel's lock on it is what counts |
//!
//! A file gets its name when its content is on disk. A segment is written by one process, until it has
//! [`Options::segment_bytes`] or a write or sync fails; then, and at each opening, a new one begins with everything
//! that is not known to be on disk. Its header says how many bytes of the segment before it count, so what a failed
//! write left there does no harm, and nothing is ever changed in the middle of a file. What an opening finds unfinished
//! at the end of the last one is cut once the new one is there.
//!
//! # Header
//! 64 bytes, numbers little-endian.
//!
//! | bytes | content |
//! |---|---|
//! | 0–7 | `89 48 51 4a 52 4e 4c 0a` |
//! | 8–9 | format version, 1 |
//! | 10–11 | length of the header, 64 |
//! | 12 | 1 segment, 2 snapshot |
//! | 13–15 | zero |
//! | 16–31 | the journal's id |
//! | 32–39 | the number in the file's name |
//! | 40–47 | number of the first record; of a snapshot: of the first record after it |
//! | 48–55 | how many bytes of the segment before this one count |
//! | 56–59 | zero |
//! | 60–63 | CRC-32C of all bytes before |
//!
//! Later versions keep the meaning of bytes 0 to 11 and end with such a checksum, so that a newer journal is told from
//! a damaged one.
//!
//! # Groups
//! Behind the header there are groups of records. Each write makes one, or several of 256 KiB.
//!
//! | part | content |
//! |---|---|
//! | length | bytes of the records; number in groups of seven bits, lowest first |
//! | unsynced | how many bytes before this group were not known to be on disk when it was written; likewise |
//! | check | 2 bytes: from CRC-32C over the header's checksum, the group's offset, length and unsynced |
//! | records | each a length and as many bytes |
//! | checksum | 4 bytes: CRC-32C that continues the group before it (the header, for the first) over all of the above |
//!
//! A group costs 8 to 14 bytes, a record one byte more than it has itself (two from 128 bytes on). Because a checksum
//! continues the one before it, a record counts only behind exactly what it was written behind; and because that one
//! is found in the four bytes before a group, groups behind damage can be recognised.
//!
//! A group without records marks a clean end, and the end of a snapshot.
//!
//! # Torn or damaged
//! A crash may lose a part of what was not synced and keep a later part; it neither moves bytes nor takes what was
//! synced. So what cannot be read is damage if anything says that it was on disk: a later group, a later segment, the
//! note `synced`, or that it is in a snapshot; and also if a whole group is found behind it in a place that is not its
//! own. It is the torn end otherwise.
//!
//! The note has 36 bytes: the journal's id, the number of the last segment, how many bytes of it were on disk, and the
//! CRC-32C of that. It is written after each sync and not waited for: when the power fails it may say less than is
//! true, never more. Without it (a journal of an earlier release), damage to the last group before a crash cannot be
//! told from a torn end; [`Journal::close`] leaves a mark so that it can after a clean end.
//!
//! # Files that vanish
//! [`Journal::sync`] succeeds only if the segment it has written is still there under its name, with the length that it
//! must have, and looks at one of the other files each time. They are kept open: into a directory that was put back, or
//! made anew, what is missing is written again before the journal goes on. A file of which a part was cut cannot be
//! written again: the journal goes on when a whole copy is in its place.

mod check;
mod compact;
mod disk;
mod error;
mod format;
mod journal;
mod layout;
pub mod limits;
mod lock;
mod missing;
mod note;
mod places;
mod reader;
mod real_disk;
mod repair;
mod replay;
mod sim_disk;

pub use check::{FileReport, Report, check};
pub use compact::{Compacted, Compactor, Replaced, Snapshot};
pub use disk::{Disk, DiskFile, DiskNote, Place};
pub use error::{Damage, ForeignContent, Holder, JournalError, LockError, OpenError};
pub use format::{FileKind, JournalId};
pub use journal::{Journal, Options, Size};
pub use layout::has_journal;
pub use lock::{FileLock, LOCK_FILE};
pub use missing::MissingRecords;
pub use real_disk::{RealDisk, RealFile, RealNote};
pub use repair::{Repaired, repair};
pub use replay::{Apply, Replay, TornTail, replay, replay_until};
pub use sim_disk::{Faults, SimDisk, SimFile, SimLock, SimNote};
