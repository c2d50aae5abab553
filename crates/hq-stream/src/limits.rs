//! The bounds of stream files, by name.

/// The version of files without compressed blocks, which all releases read.
pub const FORMAT_PLAIN: u16 = 1;
/// The version of files with compressed blocks, and the newest that this release reads.
pub const FORMAT_VERSION: u16 = 2;

/// Bytes of entries in a block, before they are compressed; a longer output is split. A block that would become longer when it
/// is unpacked is damaged.
pub const BLOCK_BYTES: usize = 64 << 10;

/// Attempts in blocks since the last index (one counts in each block again) after which the next index is written.
pub const INDEX_LINES: usize = 4096;

/// Bytes of entries since the last index after which the next one is written. A reader scans at most as much, and a block.
pub const INDEX_DISTANCE_BYTES: u64 = 4 << 20;

/// The longest index: its lines may be exceeded by as many attempts as a block can hold.
pub const INDEX_BYTES: usize = 256 << 10;

/// Bytes that are searched at once for where a block begins: more than the longest one.
pub const SEARCH_BYTES: usize = 512 << 10;

/// So many tasks are looked up in the indexes; for more everything is read. Of a million tasks that print 100 bytes each,
/// scattered ones take about as long either way then.
pub const TASKS_BY_INDEX_MAX: u64 = 4096;

/// Blocks that are remembered of an output that is read while it is written; with more, every second one is forgotten.
pub const MARKS_MAX: usize = 4096;

/// Damaged parts that are remembered of an output that is read.
pub const FAULTS_MAX: usize = 16;

/// The last lines of an output are looked for in so many bytes at its end; what is before them is not shown.
pub const LINES_BYTES: u64 = 1 << 20;
/// Bytes that are read at once for that.
pub const LINES_CHUNK: u64 = 64 << 10;

/// Rows of attempts that are gathered before those of the same attempt are put together for the first time.
pub const ROWS_MIN: usize = 4096;

/// Bytes of a server's id.
pub const SERVER_UID_BYTES: usize = 255;

/// How often another random name is tried for a new file.
pub const NAMES_TRIED: u32 = 16;

/// Bytes that are copied at once.
pub const COPY_BYTES: usize = 64 << 10;

/// Compressed blocks that are kept unpacked while pieces of many are copied: in the order of tasks each block of many is needed
/// again soon. With more, all are forgotten.
pub const UNPACKED_BLOCKS_MAX: usize = 256;

/// Files that are open at once while pieces of many are copied.
pub const OPEN_FILES_MAX: usize = 256;
