//! The files of this machine as plans ask for them. Each directory is read once, so that many files in few directories
//! cost no system call each.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;

use hq_make::{Facts, Files};

/// Directories with fewer questions than this are not read: most of what is in them may be no business of ours.
const ASKED_BEFORE_READING: u32 = 4;

/// The files, as they were when they were asked for first.
#[derive(Default)]
pub(crate) struct Disk {
    directories: RefCell<HashMap<Vec<u8>, Directory>>,
}

#[derive(Default)]
struct Directory {
    asked: u32,
    names: Option<Names>,
}

enum Names {
    /// Those in it, and whether they are surely there: a link may lead nowhere.
    Read(HashMap<Vec<u8>, bool>),
    /// There is no such directory.
    Missing,
    /// It cannot be read: each file is looked at.
    Hidden,
}

impl Files for Disk {
    fn facts(&self, path: &[u8]) -> io::Result<Option<Facts>> {
        match fs::metadata(OsStr::from_bytes(path)) {
            Ok(found) => Ok(Some(Facts {
                is_dir: found.is_dir(),
                size: found.size(),
                mtime_ns: nanoseconds(found.mtime(), found.mtime_nsec()),
                ctime_ns: nanoseconds(found.ctime(), found.ctime_nsec()),
                inode: found.ino(),
            })),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_there(&self, path: &[u8]) -> io::Result<bool> {
        let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
            return Ok(self.facts(path)?.is_some());
        };
        let (parent, name) = (&path[..slash.max(1)], &path[slash + 1..]);
        let mut directories = self.directories.borrow_mut();
        if !directories.contains_key(parent) {
            directories.insert(parent.to_vec(), Directory::default());
        }
        let directory = directories.entry(parent.to_vec()).or_default();
        directory.asked += 1;
        if directory.names.is_none() && directory.asked > ASKED_BEFORE_READING {
            directory.names = Some(read(parent));
        }
        match &directory.names {
            Some(Names::Missing) => Ok(false),
            Some(Names::Read(names)) => match names.get(name) {
                Some(true) => Ok(true),
                Some(false) => Ok(self.facts(path)?.is_some()),
                None => Ok(false),
            },
            Some(Names::Hidden) | None => Ok(self.facts(path)?.is_some()),
        }
    }
}

fn read(directory: &[u8]) -> Names {
    let named = |entry: fs::DirEntry| {
        let is_sure = entry.file_type().is_ok_and(|kind| !kind.is_symlink());
        (entry.file_name().into_vec(), is_sure)
    };
    match fs::read_dir(OsStr::from_bytes(directory)) {
        Ok(entries) => match entries.map(|entry| entry.map(named)).collect() {
            Ok(names) => Names::Read(names),
            Err(error) => {
                let _: io::Error = error;
                Names::Hidden
            }
        },
        Err(error) if is_absence(&error) => Names::Missing,
        Err(_) => Names::Hidden,
    }
}

// A part of the path that is a file has nothing in it; a loop of links leads nowhere.
fn is_absence(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory) || error.raw_os_error() == Some(libc::ELOOP)
}

fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_is_read_once_and_says_what_a_look_says() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["a", "b", "with blank"] {
            fs::write(dir.path().join(name), "").expect("writable");
        }
        symlink("nowhere", dir.path().join("dangling")).expect("writable");
        symlink("loop", dir.path().join("loop")).expect("writable");
        let disk = Disk::default();
        let path = |name: &str| dir.path().join(name).into_os_string().into_vec();
        for _ in 0..3 {
            for (name, is_there) in [
                ("a", true),
                ("b", true),
                ("c", false),
                ("with blank", true),
                ("dangling", false),
                ("loop", false),
                ("a/below", false),
                ("none/below", false),
            ] {
                assert_eq!(disk.is_there(&path(name)).expect("readable"), is_there, "{name}");
                assert_eq!(disk.facts(&path(name)).expect("readable").is_some(), is_there, "{name}");
            }
        }
        assert!(disk.is_there(b"/").expect("readable") && disk.is_there(b"/tmp").expect("readable"));
    }
}
