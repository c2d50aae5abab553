//! Opens files to read them, whatever else may be where they are expected.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// What is said of a pipe, a device or a directory where a file is expected.
pub const NO_FILE: &str = "it is not a regular file";

/// Opens a file to read it. A pipe would be waited for, and what is read from it is taken away from others: nothing but a file is
/// opened.
///
/// # Errors
/// `InvalidInput` when it is no file; else what the system says.
pub fn open_file(path: &Path) -> io::Result<File> {
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, NO_FILE);
    if !fs::metadata(path)?.is_file() {
        return Err(no_file());
    }
    // It may be another one by now.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
}
