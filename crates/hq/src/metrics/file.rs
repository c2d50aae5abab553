//! Replaces a file by a new one, so that nobody ever reads half of it.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Replaces the file. It is readable for everybody: those who collect metrics are other users.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A collector of text files takes those that end with .prom: this one does not.
    let mut file = tempfile::Builder::new().prefix(".hq-metrics-").suffix(".new").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
