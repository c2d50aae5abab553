//! Private directories of runs that were killed: the next run of the same user removes them.
//!
//! They are in the directory for temporary files or, where other nodes must see them, in the directory of the run. A run holds a lock in its directory as long as it lives, so a directory whose lock is free is of a dead one.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat};
use rustix::process::geteuid;

/// What names of private directories begin with, in the directory for temporary files.
pub(super) const PREFIX: &str = "hq-run-";
/// What they begin with elsewhere.
pub(super) const PREFIX_HIDDEN: &str = ".hq-run-";
const LOCK: &str = "lock";
/// How long a run that has ended waits for leftovers of others to be removed; the next one goes on with it.
const REMOVAL_TIME: Duration = Duration::from_secs(2);

/// Says that the run of this directory lives, until it is dropped.
#[derive(Debug)]
pub(super) struct Alive {
    _lock: OwnedFd,
}

impl Alive {
    /// Takes the lock of a new directory.
    pub(super) fn say(dir: &Path) -> io::Result<Alive> {
        let lock = OwnedFd::from(File::create_new(dir.join(LOCK))?);
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            // Without locks nothing can be told, and nothing is removed.
            Err(error) => tracing::debug!(%error, "no file locks in the temporary directory"),
        }
        Ok(Alive { _lock: lock })
    }
}

/// Leftovers are being removed.
#[derive(Debug)]
pub(super) struct Removal {
    done: Receiver<()>,
}

impl Removal {
    /// Begins in the background: it is not worth waiting for. `beside` is where others of the same directory had theirs.
    pub(super) fn start(beside: Option<PathBuf>) -> Removal {
        let (tell, done) = channel();
        let work = move || {
            remove_dead(&std::env::temp_dir(), PREFIX);
            if let Some(beside) = beside {
                remove_dead(&beside, PREFIX_HIDDEN);
            }
            // Nobody may wait any more.
            let _ = tell.send(());
        };
        if let Err(error) = std::thread::Builder::new().name("hq-leftovers".into()).spawn(work) {
            tracing::debug!(%error, "no more threads: leftovers of other runs stay for now");
        }
        Removal { done }
    }

    /// Gives it a little more time.
    pub(super) fn wait(&self) {
        // However far it came.
        let _ = self.done.recv_timeout(REMOVAL_TIME);
    }
}

fn remove_dead(temporary: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(temporary) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix));
        if is_ours && let Ok(_lock) = lock_of_dead(&entry.path()) {
            tracing::debug!(path = %entry.path().display(), "a run was killed; its directory is removed");
            // What cannot be removed now is tried by the next run.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

// The lock of a directory that is ours and whose run is dead.
fn lock_of_dead(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let dir = openat(CWD, path, flags | OFlags::DIRECTORY, Mode::empty())?;
    let stat = fstat(&dir)?;
    if stat.st_uid != geteuid().as_raw() || stat.st_mode & 0o077 != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let lock = openat(&dir, LOCK, flags | OFlags::RDWR, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&lock)?.st_mode) != FileType::RegularFile {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use super::*;

    fn private(temporary: &Path, name: &str) -> PathBuf {
        let path = temporary.join(name);
        fs::create_dir(&path).expect("writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("ours");
        path
    }

    #[test]
    fn directories_of_dead_runs_go_and_all_others_stay() {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let dead = private(temporary.path(), "hq-run-dead");
        drop(Alive::say(&dead).expect("a lock"));
        fs::create_dir(dead.join("server")).expect("writable");
        let living = private(temporary.path(), "hq-run-living");
        let _alive = Alive::say(&living).expect("a lock");
        let young = private(temporary.path(), "hq-run-young");
        let open = private(temporary.path(), "hq-run-open");
        drop(Alive::say(&open).expect("a lock"));
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("ours");
        let other = private(temporary.path(), "other");
        drop(Alive::say(&other).expect("a lock"));
        symlink(&other, temporary.path().join("hq-run-link")).expect("writable");
        let trap = private(temporary.path(), "hq-run-trap");
        rustix::fs::mkfifoat(CWD, trap.join(LOCK), Mode::RUSR | Mode::WUSR).expect("writable");

        remove_dead(temporary.path(), PREFIX);
        assert!(!dead.exists());
        for path in [living, young, open, other, trap] {
            assert!(path.exists(), "{path:?}");
        }
    }
}
