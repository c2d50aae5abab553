//! The directory of a store: held by a lock, so that whoever comes later can tell whether its worker is gone, even after
//! the node was started again.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tracing::{info, warn};

use crate::prepare::ignore_missing;

/// Names of stores begin with it.
pub(super) const PREFIX: &str = "hq-objects-";
const LOCK: &str = "lock";
/// Below it: files that are to be objects.
pub(super) const PUT: &str = "put";
/// More stores below one directory than that are none.
const STORES_MAX: u32 = 10_000;
/// So often others may remove what is being made.
const REMOVED_MAX: u32 = 100;

/// A directory that only this user can enter; removed when dropped.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
    // Whose it was when it was made: this user's, but for root on some file systems.
    owner: u32,
    // Held as long as this lives.
    lock: Mutex<File>,
    // Directories around it that this worker made, the innermost first.
    around: Mutex<Vec<PathBuf>>,
}

impl Home {
    /// Makes one below a directory, after removing those of workers that are gone.
    ///
    /// # Errors
    /// When the directory cannot be made or written to.
    pub(crate) fn make(base: &Path) -> io::Result<Home> {
        let around = missing_of(&std::path::absolute(base)?);
        // The last of other workers may remove it in the same moment.
        for _ in 0..REMOVED_MAX {
            match Home::make_below(base) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                made => return made.inspect(|home| home.made(around.clone())),
            }
        }
        Home::make_below(base).inspect(|home| home.made(around))
    }

    fn made(&self, dirs: Vec<PathBuf>) {
        let mut around = self.around.lock().unwrap_or_else(PoisonError::into_inner);
        around.extend(dirs);
    }

    fn make_below(base: &Path) -> io::Result<Home> {
        DirBuilder::new().recursive(true).mode(0o700).create(base)?;
        let base = fs::canonicalize(base)?;
        hq_net::trust::check_base(&base)?;
        // Where there are no locks, nothing is removed, and names are found as well.
        let guard = lock_base(&base);
        if guard.is_some() {
            remove_leftovers(&base);
        }
        for number in 0..STORES_MAX {
            let path = base.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    make_put(&path)?;
                    let lock = lock_file(&path.join(LOCK))?;
                    if lock.try_lock().is_err() {
                        info!(path = %path.display(), "no file locks there: what this worker stores remains if it \
                            is killed");
                    }
                    let owner = fs::symlink_metadata(&path)?.uid();
                    return Ok(Home { path, owner, lock: Mutex::new(lock), around: Mutex::default() });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("too many object stores are there already"))
    }

    /// Makes it once more, empty, after somebody has removed it.
    ///
    /// # Errors
    /// As [`Home::make`].
    pub(crate) fn make_again(&self) -> io::Result<()> {
        let base = self.path.parent().unwrap_or(Path::new("/"));
        let around = self.around.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.made(missing_of(base).into_iter().filter(|dir| !around.contains(dir)).collect());
        DirBuilder::new().recursive(true).mode(0o700).create(base)?;
        // As when it was made: without locks it works as well.
        let _guard = lock_base(base);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        if !self.is_there() {
            return Err(io::Error::other("a directory of another user is in its place"));
        }
        make_put(&self.path)?;
        let lock = lock_file(&self.path.join(LOCK))?;
        let _ = lock.try_lock();
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = lock;
        Ok(())
    }

    /// True while it is there, and nobody else's directory is in its place.
    pub(crate) fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|found| found.is_dir() && found.uid() == self.owner)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where files lie that are to be objects.
    pub(crate) fn put(&self) -> PathBuf {
        self.path.join(PUT)
    }

    /// Makes the directory for these again, if that alone was removed.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn make_put_again(&self) -> io::Result<()> {
        make_put(&self.path)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // The directory of the worker may have gone before.
        if let Err(error) = ignore_missing(crate::remove::remove_dir_all(&self.path)) {
            warn!(path = %self.path.display(), %error, "the object store could not be removed");
        }
        // The last of those who use it removes what they made there; what others have put there stays.
        let base = self.path.parent().unwrap_or(Path::new("/"));
        let guard = lock_file(&base_lock(base)).ok().filter(|guard| guard.try_lock().is_ok());
        if guard.is_some_and(|guard| is_at(&guard, &base_lock(base))) && !has_stores(base) {
            let _ = fs::remove_file(base_lock(base));
            let around = self.around.get_mut().unwrap_or_else(PoisonError::into_inner);
            around.iter().for_each(|dir| drop(fs::remove_dir(dir)));
        }
    }
}

// What there is not yet of a path, the innermost first.
fn missing_of(path: &Path) -> Vec<PathBuf> {
    path.ancestors().take_while(|dir| !dir.exists()).map(Path::to_owned).collect()
}

fn has_stores(base: &Path) -> bool {
    let mut entries = fs::read_dir(base).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)))
}

// Waits for the lock of a directory. Who had it may have removed it.
fn lock_base(base: &Path) -> Option<File> {
    let path = base_lock(base);
    for _ in 0..REMOVED_MAX {
        let guard = lock_file(&path).ok().filter(|guard| guard.lock().is_ok())?;
        if is_at(&guard, &path) {
            return Some(guard);
        }
    }
    None
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(file), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (file.dev(), file.ino()) == (there.dev(), there.ino())
}

fn make_put(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path.join(PUT))
}

// Held while a directory is made or looked at. Each user has one: others cannot open it.
fn base_lock(base: &Path) -> PathBuf {
    base.join(format!(".hq-objects-{}.lock", rustix::process::geteuid().as_raw()))
}

// What others have put there, such as a link or a pipe, is not followed and not waited for.
fn lock_file(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

fn remove_leftovers(base: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let is_store = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // Root may remove anything, and must not do so because of a name.
        if !is_store || !entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own) {
            continue;
        }
        let path = entry.path();
        let is_held = match File::open(path.join(LOCK)).map(|lock| lock.try_lock()) {
            Ok(Ok(())) => false,
            Ok(Err(TryLockError::WouldBlock | TryLockError::Error(_))) => true,
            // Its worker died before there was one: nobody makes a store while this is done.
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        if is_held {
            continue;
        }
        match crate::remove::remove_dir_all(&path) {
            Ok(()) => info!(path = %path.display(), "removed the objects of a worker that died"),
            Err(error) => info!(path = %path.display(), %error, "left the objects of a worker that died"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    #[test]
    fn only_stores_of_dead_workers_are_removed() {
        let base = tempfile::tempdir().expect("a temporary directory");
        let living = Home::make(base.path()).expect("writable");
        fs::write(living.path().join("1"), "x").expect("writable");
        for (name, has_lock) in [("hq-objects-1-0", true), ("hq-objects-2-0", false), ("else", false)] {
            fs::create_dir(base.path().join(name)).expect("writable");
            if has_lock {
                fs::write(base.path().join(name).join(LOCK), "").expect("writable");
            }
        }
        let second = Home::make(base.path()).expect("writable");
        let there = |name: &str| base.path().join(name).exists();
        assert_eq!([there("hq-objects-1-0"), there("hq-objects-2-0"), there("else")], [false, false, true]);
        assert!(living.path().join("1").exists());
        let mode = fs::metadata(second.path()).expect("made").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists() && living.path().exists());
    }

    #[test]
    fn the_last_worker_leaves_nothing_that_it_made() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let base = place.path().join("scratch/objects");
        let first = Home::make(&base).expect("writable");
        let second = Home::make(&base).expect("writable");
        drop(second);
        assert!(base_lock(&base).exists() && first.is_there(), "the other one uses it");
        drop(first);
        assert_eq!(fs::read_dir(place.path()).expect("there").count(), 0);
        // What others have made or put there stays.
        fs::create_dir_all(&base).expect("writable");
        drop(Home::make(&base).expect("writable"));
        assert_eq!(fs::read_dir(&base).expect("still there").count(), 0);
        let home = Home::make(&base.join("own")).expect("writable");
        fs::write(base.join("own/theirs"), "").expect("writable");
        drop(home);
        let left: Vec<_> =
            fs::read_dir(base.join("own")).expect("there").flatten().map(|one| one.file_name()).collect();
        assert_eq!(left, ["theirs"]);
    }

    #[test]
    fn a_lock_that_was_removed_meanwhile_is_taken_anew() {
        let base = tempfile::tempdir().expect("a temporary directory");
        let old = lock_base(base.path()).expect("a lock");
        fs::remove_file(base_lock(base.path())).expect("there");
        assert!(!is_at(&old, &base_lock(base.path())));
        let new = lock_base(base.path()).expect("nobody has it");
        assert!(is_at(&new, &base_lock(base.path())));
    }

    #[test]
    fn what_others_put_in_the_place_of_a_lock_is_left_alone_and_not_waited_for() {
        let base = tempfile::tempdir().expect("a temporary directory");
        let (lock, target) = (base_lock(base.path()), base.path().join("target"));
        std::os::unix::fs::symlink(&target, &lock).expect("writable");
        Home::make(base.path()).expect("it needs no lock");
        assert!(!target.exists());
        fs::remove_file(&lock).expect("there");
        rustix::fs::mknodat(CWD, &lock, FileType::Fifo, Mode::RWXU, 0).expect("writable");
        Home::make(base.path()).expect("it needs no lock");
        assert!(lock.exists());
    }

    #[test]
    fn a_directory_in_its_place_is_no_store() {
        let base = tempfile::tempdir().expect("a temporary directory");
        let mut home = Home::make(base.path()).expect("writable");
        assert!(home.is_there());
        // As if another user had made what is there.
        home.owner += 1;
        assert!(!home.is_there());
        let error = home.make_again().expect_err("another user's");
        assert_eq!(error.to_string(), "a directory of another user is in its place");
        home.owner -= 1;
        let aside = base.path().join("aside");
        fs::rename(home.path(), &aside).expect("writable");
        std::os::unix::fs::symlink(&aside, home.path()).expect("writable");
        assert!(!home.is_there());
        fs::remove_file(home.path()).expect("a link");
        home.make_again().expect("it is made again");
        assert!(home.is_there());
    }
}
