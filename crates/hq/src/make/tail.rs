//! How a log ends.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Last lines of a log that are shown.
const LINES: usize = 10;
/// As far as they are in the last bytes of it.
const BYTES: u64 = 8 << 10;

/// The last lines of a log; none if it cannot be read.
pub(crate) fn last_lines(path: impl AsRef<Path>) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
        let mut bytes = Vec::new();
        file.take(BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].iter().map(|line| (*line).to_owned()).collect()
}
