//! One writer per directory: a lock of the kernel, and a file that says who holds it.
//!
//! The kernel's lock ends with the process, so what the file says of a dead process is no obstacle. Where the file
//! system has no such locks, the file alone decides: a process of this host that is gone holds nothing.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::error::{Holder, LockError};
use crate::real_disk::open_plain;

/// The name of the lock file in the directory.
pub const LOCK_FILE: &str = "lock";
/// The most bytes of a lock file that are read.
const LOCK_BYTES_MAX: u64 = 4096;
/// How often a lock file is opened again because its holder removed it meanwhile.
const ATTEMPTS: u32 = 10;

/// The exclusive right to change a directory, until dropped.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

impl FileLock {
    /// Takes the lock of a directory.
    ///
    /// # Errors
    /// [`LockError::Held`] names the holder.
    pub fn take(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join(LOCK_FILE);
        let failed = |source| LockError::Disk { file: path.to_string_lossy().into_owned(), source };
        let held = |holder| LockError::Held {
            directory: directory.to_string_lossy().into_owned(),
            holder,
            file: path.to_string_lossy().into_owned(),
        };
        for _ in 0..ATTEMPTS {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let mut file = open_plain(&mut options, &path).map_err(failed)?;
            let locked = match file.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => {
                    return Err(held(read_owner(&mut file).map_or(Holder::Unknown, Into::into)));
                }
                Err(TryLockError::Error(error)) if unsupported(&error) => false,
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            };
            // Somebody may have removed the file between our opening and locking it.
            if !is_at(&file, &path) {
                continue;
            }
            let us = Owner::us();
            if !locked
                && let Some(owner) = read_owner(&mut file)
                && owner.may_live(&us)
            {
                return Err(held(owner.into()));
            }
            write_owner(&mut file, &us).map_err(failed)?;
            return Ok(Self { file });
        }
        Err(failed(io::Error::other("it is replaced all the time")))
    }

    /// Whether the lock of this directory is still this one.
    pub(crate) fn is_in(&self, directory: &Path) -> bool {
        is_at(&self.file, &directory.join(LOCK_FILE))
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| {
        file.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (there.dev(), there.ino()))
    })
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // An empty file names nobody. The kernel's lock ends when the file is closed.
        let _ = self.file.set_len(0);
    }
}

/// Whether the file system has no locks (some mounts of Lustre and NFS).
fn unsupported(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOLCK]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// What a lock file says: `pid`, `host` and the start of the process in ticks since the boot of that host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    pid: u32,
    host: String,
    started: u64,
}

impl Owner {
    fn us() -> Self {
        let pid = std::process::id();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { pid, host, started: started(pid).unwrap_or(0) }
    }

    /// Whether this process may be alive, as far as can be told from here. A process id that was given to a
    /// later process is recognised by its start.
    fn may_live(&self, us: &Self) -> bool {
        self.host != us.host || started(self.pid).is_some_and(|ticks| ticks == self.started)
    }
}

impl From<Owner> for Holder {
    fn from(owner: Owner) -> Self {
        Self::Process { pid: owner.pid, host: owner.host }
    }
}

/// When a process of this host started; `None` when there is none of this id.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may hold anything; the start is the 22nd.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}

fn read_owner(file: &mut File) -> Option<Owner> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(LOCK_BYTES_MAX).read_to_string(&mut text).ok()?;
    let mut lines = text.lines();
    let pid = lines.next()?.strip_prefix("pid ")?.parse().ok()?;
    let host = lines.next()?.strip_prefix("host ")?.to_owned();
    let started = lines.next()?.strip_prefix("started ")?.parse().ok()?;
    Some(Owner { pid, host, started })
}

fn write_owner(file: &mut File, owner: &Owner) -> io::Result<()> {
    let text = format!("pid {}\nhost {}\nstarted {}\n", owner.pid, owner.host, owner.started);
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_locks_of_the_kernel_the_file_decides() {
        let us = Owner::us();
        assert!(us.started > 0);
        for (owner, may_live) in [
            (us.clone(), true),
            (Owner { host: "elsewhere".to_owned(), ..us.clone() }, true),
            // The id was given to another process since.
            (Owner { started: us.started + 1, ..us.clone() }, false),
            // No process has such an id.
            (Owner { pid: 1 << 30, ..us.clone() }, false),
        ] {
            assert_eq!(owner.may_live(&us), may_live, "{owner:?}");
        }
    }

    #[test]
    fn the_file_says_who_holds_it() {
        let directory = tempfile::tempdir().unwrap();
        let lock = FileLock::take(directory.path()).unwrap();
        let mut file = File::open(directory.path().join(LOCK_FILE)).unwrap();
        assert_eq!(read_owner(&mut file), Some(Owner::us()));
        drop(lock);
        assert_eq!(read_owner(&mut file), None);
    }

    #[test]
    fn a_removed_lock_file_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let old = FileLock::take(directory.path()).unwrap();
        fs::remove_file(directory.path().join(LOCK_FILE)).unwrap();
        let _new = FileLock::take(directory.path()).unwrap();
        drop(old);
        assert!(matches!(FileLock::take(directory.path()), Err(LockError::Held { .. })));
    }
}
