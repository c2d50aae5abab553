//! Where a name leads, where others may write beside it: links are followed that belong to this user or to root, and no others.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::process::geteuid;

/// As many as the system follows.
const LINKS_MAX: u32 = 40;

/// The file that a name means, which may not be there. Whoever opens it follows no more links: another one may be there by then.
///
/// # Errors
/// `PermissionDenied` when it is a link of another user; else what the system says.
pub fn own_target(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..LINKS_MAX {
        match led_to(&target)? {
            Some(next) => target = target.parent().unwrap_or(Path::new("")).join(next),
            None => return Ok(target),
        }
    }
    Err(io::Error::from_raw_os_error(rustix::io::Errno::LOOP.raw_os_error()))
}

/// Whether what belongs to this user is followed and read where others can write: it is this one, or root, who may do anything
/// anyway.
pub(crate) fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == geteuid().as_raw()
}

// Owner and target are asked of one link, whatever is put in its place meanwhile.
fn led_to(path: &Path) -> io::Result<Option<PathBuf>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = match openat(CWD, path, flags, Mode::empty()) {
        Ok(found) => found,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stat = fstat(&found)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return Ok(None);
    }
    if !is_trusted(stat.st_uid) {
        let text = format!(
            "it is a link of user {}, and is not followed: remove it, or give another name",
            stat.st_uid
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let target = readlinkat(&found, "", Vec::new())?;
    Ok(Some(PathBuf::from(OsString::from_vec(target.into_bytes()))))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    #[test]
    fn own_links_lead_on_and_those_of_others_do_not() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("below")).expect("writable");
        fs::write(at("below/file"), "").expect("writable");
        symlink("below/near", at("far")).expect("writable");
        symlink("file", at("below/near")).expect("writable");
        symlink(at("missing"), at("dangling")).expect("writable");
        symlink("round", at("round")).expect("writable");
        assert_eq!(own_target(&at("far")).expect("own links"), at("below/file"));
        assert_eq!(own_target(&at("dangling")).expect("an own link"), at("missing"));
        assert_eq!(own_target(&at("new")).expect("nothing is there"), at("new"));
        own_target(&at("round")).expect_err("without end");
        // Only root can give a link away.
        if geteuid().is_root() {
            lchown(at("below/near"), Some(12_345), None).expect("we are root");
            let error = own_target(&at("far")).expect_err("a link of somebody else");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert!(error.to_string().starts_with("it is a link of user 12345"), "{error}");
        }
    }
}
