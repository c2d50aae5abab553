//! Replaces a file by a new one, so that nobody ever reads half of it.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hq_client::request_key;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};

/// Replaces the file, or what an own link of that name leads to, by what `write` writes. It keeps its mode; a new one is as other
/// programs make files. What is no file stays, and is an error.
///
/// # Errors
/// When it cannot be written to the end: the old one is there then, as it was.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let target = hq_stream::own_target(path)?;
    let mode = match fs::symlink_metadata(&target) {
        Ok(there) if !there.is_file() => return Err(io::Error::other("it exists and is not a regular file")),
        Ok(there) => Some(there.permissions().mode() & 0o777),
        Err(_) => None,
    };
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Without a name nothing is left of it when this program is ended in the middle.
    if let Some(new) = nameless(folder) {
        fill(&new, mode, write)?;
        let name = folder.join(format!(".hq-{:032x}.new", request_key().map_err(io::Error::other)?));
        let link = format!("/proc/self/fd/{}", new.as_raw_fd());
        linkat(CWD, link, CWD, &name, AtFlags::SYMLINK_FOLLOW)?;
        return fs::rename(&name, &target).inspect_err(|_| drop(fs::remove_file(&name)));
    }
    // What collects or reads files of some ending takes none of this name. The umask is taken off its mode.
    let new = tempfile::Builder::new()
        .prefix(".hq-")
        .suffix(".new")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    fill(new.as_file(), mode, write)?;
    new.persist(&target).map_err(|error| error.error)?;
    Ok(())
}

// A new file that no directory has; not all file systems can make one.
fn nameless(folder: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)).ok().map(File::from)
}

fn fill(
    new: &File,
    mode: Option<u32>,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    if let Some(mode) = mode {
        new.set_permissions(Permissions::from_mode(mode))?;
    }
    let mut out = BufWriter::new(new.try_clone()?);
    write(&mut out)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn text(text: &'static str) -> impl FnOnce(&mut BufWriter<File>) -> io::Result<()> {
        move |out| out.write_all(text.as_bytes())
    }

    #[test]
    fn a_file_keeps_its_mode_and_a_link_leads_to_it_still() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").expect("a file");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("its mode");
        symlink("file", &link).expect("a link");
        replace(&link, text("new")).expect("replaced");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "new");
        assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
        replace(&dir.path().join("fresh"), text("fresh")).expect("made");
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 3, "nothing else is left");
    }

    #[test]
    fn nothing_has_a_name_before_it_is_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        if nameless(dir.path()).is_none() {
            return;
        }
        let count = || fs::read_dir(dir.path()).expect("a directory").count();
        let written = replace(&dir.path().join("file"), |out| {
            out.write_all(b"half")?;
            out.flush()?;
            assert_eq!(count(), 0);
            out.write_all(b" whole")
        });
        written.expect("replaced");
        assert_eq!(fs::read_to_string(dir.path().join("file")).expect("a file"), "half whole");
        assert_eq!(count(), 1);
    }

    #[test]
    fn a_link_of_another_user_is_not_followed() {
        // Only root can give a link away.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").expect("a file");
        symlink("file", &link).expect("a link");
        std::os::unix::fs::lchown(&link, Some(12_345), None).expect("we are root");
        let error = replace(&link, text("new")).expect_err("somebody else's").to_string();
        assert!(error.starts_with("it is a link of user 12345"), "{error}");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "old");
    }

    #[test]
    fn what_is_no_file_stays_and_so_does_what_cannot_be_written_to_the_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let error = replace(dir.path(), text("new")).expect_err("a directory").to_string();
        assert_eq!(error, "it exists and is not a regular file");
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .expect("a pipe");
        replace(&fifo, text("new")).expect_err("a pipe");
        let file = dir.path().join("file");
        fs::write(&file, "old").expect("a file");
        replace(&file, |_| Err(io::Error::other("full"))).expect_err("half");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "old");
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 2);
    }
}
