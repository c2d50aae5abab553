//! Whether a file or directory can only have been made by this user (or root): what others may write could
//! lead to their server, and what others may read gives them the keys.
//!
//! Everything is asked of what was opened, never of a name: so it does not matter who may rename or replace the
//! directories above. Whatever others put in the place is theirs, and is refused for that.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::process::geteuid;

use crate::access::AccessError;

/// Others may neither read nor write.
const PRIVATE: u32 = 0o077;
/// Others may not write.
const OWN: u32 = 0o022;
/// Only its owner may rename or remove what is in a directory.
const STICKY: u32 = 0o1000;

/// Refuses a directory that belongs to somebody else, or that others may write.
///
/// # Errors
/// When it is so, or is no directory.
pub fn check_directory(path: &Path) -> Result<(), AccessError> {
    open_directory(CWD, path, path, path).map(drop)
}

/// Refuses a directory and the files in it when they belong to somebody else, or when others may write them.
///
/// # Errors
/// When it is so, or is no directory.
pub fn check_files(directory: &Path) -> Result<(), AccessError> {
    let handle = open_directory(CWD, directory, directory, directory)?;
    let entries = std::fs::read_dir(directory).map_err(|error| unreadable(directory, error))?;
    for entry in entries {
        let name = entry.map_err(|error| unreadable(directory, error))?.file_name();
        let path = directory.join(&name);
        let stat = match statat(&handle, &name, AtFlags::empty()) {
            Ok(stat) => stat,
            // It was removed meanwhile, or leads nowhere.
            Err(rustix::io::Errno::NOENT) => continue,
            Err(error) => return Err(unreadable(&path, error)),
        };
        check_owner(&stat, &path)?;
        check_mode(&stat, &path, OWN)?;
    }
    Ok(())
}

/// Refuses a directory in which others could put something in the place of what this user makes there: one of somebody else, and
/// one that others may write, but for sticky ones such as `/tmp`.
///
/// # Errors
/// When it is so, or is no directory.
pub fn check_base(path: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let stat = fstat(&openat(CWD, path, flags, Mode::empty())?)?;
    let own = geteuid().as_raw();
    let (owner, mode) = (stat.st_uid, stat.st_mode & 0o7777);
    let why = if owner != own && owner != 0 {
        format!("it belongs to user {owner} and not to you (user {own})")
    } else if mode & OWN != 0 && mode & STICKY == 0 {
        format!("other users can write to it (mode {mode:04o})")
    } else {
        return Ok(());
    };
    let text = format!("{why} and could replace its contents: use a directory of your own");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Opens a file of which nobody else knows the content.
pub(crate) fn open_private(path: &Path) -> Result<File, AccessError> {
    open_file(CWD, path, path)
}

/// Opens the file `directory/link/name` of which nobody else knows the content. `link` is a directory, or a link
/// to one.
pub(crate) fn open_private_in(directory: &Path, link: &OsStr, name: &OsStr) -> Result<File, AccessError> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let link_path = directory.join(link);
    let path = link_path.join(name);
    let above = open_directory(CWD, directory, directory, &path)?;
    let stat = statat(&above, link, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| unreadable(&path, error))?;
    check_owner(&stat, &link_path)?;
    let below = open_directory(above, Path::new(link), &link_path, &path)?;
    open_file(below, Path::new(name), &path)
}

// `path` names it for people, `wanted` the file it is opened for.
fn open_directory(at: impl AsFd, name: &Path, path: &Path, wanted: &Path) -> Result<OwnedFd, AccessError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(at, name, flags, Mode::empty()).map_err(|error| unreadable(wanted, error))?;
    let stat = fstat(&directory).map_err(|error| unreadable(wanted, error))?;
    check_owner(&stat, path)?;
    check_mode(&stat, path, OWN)?;
    Ok(directory)
}

fn open_file(at: impl AsFd, name: &Path, path: &Path) -> Result<File, AccessError> {
    // A pipe is not waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(at, name, flags, Mode::empty()).map_err(|error| unreadable(path, error))?;
    let stat = fstat(&file).map_err(|error| unreadable(path, error))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(unreadable(path, io::Error::other("it is not a regular file")));
    }
    check_owner(&stat, path)?;
    check_mode(&stat, path, PRIVATE)?;
    Ok(file.into())
}

fn unreadable(path: &Path, error: impl Into<io::Error>) -> AccessError {
    let source = error.into();
    match source.kind() {
        io::ErrorKind::NotFound => AccessError::Missing { path: path.to_owned() },
        _ => AccessError::Read { path: path.to_owned(), source },
    }
}

fn check_owner(stat: &Stat, path: &Path) -> Result<(), AccessError> {
    let own = geteuid().as_raw();
    if stat.st_uid == own || stat.st_uid == 0 {
        return Ok(());
    }
    let (path, owner) = (path.to_owned(), stat.st_uid);
    Err(AccessError::Foreign { path, owner, own })
}

fn check_mode(stat: &Stat, path: &Path, forbidden: u32) -> Result<(), AccessError> {
    if stat.st_mode & forbidden == 0 {
        return Ok(());
    }
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    Err(AccessError::Exposed {
        path: path.to_owned(),
        mode: stat.st_mode & 0o7777,
        harm: if stat.st_mode & OWN == 0 { "read" } else { "write" },
        safe_mode: if is_directory { 0o700 } else { 0o600 },
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::AccessFile;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
    }

    // A server directory with an access file behind the link; its path and that of the file.
    fn fixture() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join("001")).expect("writable");
        symlink("001", dir.path().join("hq-current")).expect("writable");
        let path = dir.path().join("hq-current/access.json");
        let file = AccessFile::generate("aB3dE6", ("login1", 4000), ("login1", 4001), true, true);
        file.save(&path).expect("writable");
        (dir, path)
    }

    fn told(dir: &Path, path: &Path) -> String {
        let error = AccessFile::load(path).expect_err("others could have changed it");
        error.to_string().replace(&dir.display().to_string(), "DIR")
    }

    #[test]
    fn what_others_may_change_or_read_is_refused_with_the_way_to_mend_it() {
        let (dir, path) = fixture();
        let mut texts = Vec::new();
        for (name, bad, good) in [
            ("", 0o777, 0o700),
            ("", 0o1777, 0o755),
            ("", 0o770, 0o750),
            ("001", 0o722, 0o700),
            ("001/access.json", 0o666, 0o600),
            ("001/access.json", 0o640, 0o600),
            ("001/access.json", 0o604, 0o400),
        ] {
            set_mode(&dir.path().join(name), bad);
            texts.push(told(dir.path(), &path));
            set_mode(&dir.path().join(name), good);
            AccessFile::load(&path).expect("safe again");
        }
        insta::assert_snapshot!(texts.join("\n"));
    }

    #[test]
    fn what_belongs_to_somebody_else_is_refused() {
        // Only root can give a file away.
        if !geteuid().is_root() {
            return;
        }
        let (dir, path) = fixture();
        let mut texts = Vec::new();
        for name in ["", "hq-current", "001", "001/access.json"] {
            let changed = dir.path().join(name);
            std::os::unix::fs::lchown(&changed, Some(12_345), None).expect("we are root");
            texts.push(told(dir.path(), &path));
            std::os::unix::fs::lchown(&changed, Some(0), None).expect("we are root");
        }
        insta::assert_snapshot!(texts.join("\n"));
        AccessFile::load(&path).expect("ours again");
    }

    #[test]
    fn where_others_could_replace_something_nothing_is_kept() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for (mode, told) in [
            (0o700, None),
            (0o1777, None),
            (0o755, None),
            (0o777, Some("other users can write to it (mode 0777)")),
            (0o2770, Some("other users can write to it (mode 2770)")),
        ] {
            set_mode(dir.path(), mode);
            let found = check_base(dir.path()).map_err(|error| error.to_string());
            let is_told = |text: &str| found.as_ref().is_err_and(|found| found.starts_with(text));
            assert!(told.map_or(found.is_ok(), is_told), "{mode:o}: {found:?}");
        }
        // Only root can give a directory away.
        if geteuid().is_root() {
            set_mode(dir.path(), 0o1777);
            std::os::unix::fs::chown(dir.path(), Some(12_345), None).expect("we are root");
            let error = check_base(dir.path()).expect_err("somebody else's").to_string();
            assert!(error.starts_with("it belongs to user 12345 and not to you (user 0)"), "{error}");
        }
    }

    #[test]
    fn a_file_named_alone_must_be_private_wherever_it_lies() {
        let (dir, _) = fixture();
        let path = dir.path().join("001/access.json");
        set_mode(dir.path(), 0o777);
        AccessFile::load(&path).expect("nobody else can have made it");
        set_mode(&path, 0o644);
        insta::assert_snapshot!(told(dir.path(), &path));
    }
}
