//! Bounds of sending.

use std::time::Duration;

/// How long a program may take.
pub const PROGRAM_TIME: Duration = Duration::from_secs(60);
/// How long posting may take, from looking up the host to the answer.
pub const POST_TIME: Duration = Duration::from_secs(30);
/// How long what a program leaves running may keep its output open.
pub(crate) const OUTPUT_GRACE: Duration = Duration::from_secs(1);
/// Of what a program prints, so many bytes from the end are told when it fails.
pub(crate) const OUTPUT_BYTES: usize = 2048;
/// Longest header of an answer, in bytes.
pub(crate) const HEADER_BYTES: usize = 16 << 10;
/// Longest subject of a mail, in characters.
pub(crate) const SUBJECT_CHARS: usize = 200;
