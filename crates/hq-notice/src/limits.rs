//! Bounds of sending.

use std::time::Duration;

/// How long a program may take.
pub const PROGRAM_TIME: Duration = Duration::from_secs(60);
/// How long posting may take, from looking up the host to the answer.
pub const POST_TIME: Duration = Duration::from_secs(30);
/// How long what a program leaves running may keep its output open.
pub(crate) const OUTPUT_GRACE: Duration = Duration::from_secs(1);
/// Of each output of a program, so many bytes from the end are looked at when it fails.
pub(crate) const OUTPUT_BYTES: usize = 2048;
/// Of these so many lines are told.
pub(crate) const LINES_SAID: usize = 2;
/// And of these so many bytes.
pub(crate) const SAID_BYTES: usize = 300;
/// Longest header of an answer, in bytes.
pub(crate) const HEADER_BYTES: usize = 16 << 10;
/// Longest subject of a mail, in characters.
pub(crate) const SUBJECT_CHARS: usize = 200;
/// Of the standard error of a failed task, so many bytes from the end are looked at.
pub(crate) const STDERR_BYTES: u64 = 4096;
