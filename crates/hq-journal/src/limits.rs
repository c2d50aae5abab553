//! The bounds of a journal, by name.

/// The version of the file format that this release writes, and the newest it reads.
pub const FORMAT_VERSION: u16 = 1;

/// Bytes of a segment after which the next write begins a new one, unless the options say otherwise: 64 MiB.
pub const SEGMENT_BYTES: u64 = 64 << 20;

/// Bytes of records that share one checksum. A group ends when it reaches this size; only a record that is
/// longer by itself makes a longer group. Replay holds one group in memory.
pub const GROUP_BYTES: usize = 256 << 10;

/// The longest record, in bytes: 1 GiB. Requests are bounded far below it where they enter the server.
pub const RECORD_BYTES_MAX: usize = 1 << 30;

/// The longest file header that a newer release may write, in bytes.
pub const HEADER_BYTES_MAX: u64 = 4096;

/// Bytes read from a file at a time.
pub const READ_BYTES: usize = 1 << 20;

/// How often a reader looks again when files vanish under it because the journal is being compacted.
pub const READ_ATTEMPTS: u32 = 5;

/// The most files that a journal keeps open: to read them after a compaction has removed them, and to write them again
/// after somebody else has.
pub const OPEN_FILES_MAX: usize = 48;

/// Most bytes of a snapshot that are written and not on disk.
pub const SNAPSHOT_UNSYNCED_BYTES: u64 = 1 << 20;
