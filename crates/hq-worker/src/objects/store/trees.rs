//! Directories as objects: packed when a task leaves one, and unpacked once for all tasks here that take it.
//!
//! A program may change what is unpacked: as root, or after it has allowed itself that. So when one of those that had a directory has
//! ended, it is looked at again before the next task gets it.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use hq_model::TaskRef;
use tracing::warn;

use super::{Area, Content, Hold, Incoming, Key, Store, StoreError, at, remove_file};
use crate::limits::{PIECE_MAX, TASKS_NAMED};
use crate::objects::home;
use crate::remove::remove_dir_all;
use crate::tree::{Access, Listing, Print, print_of, unpack};

/// Names of directories that are unpacked begin with it.
const UNPACKED: &str = "d-";

/// An object that is unpacked: removed when neither the store nor a task has it any more.
#[derive(Debug)]
pub(in crate::objects) struct Tree {
    path: PathBuf,
    area: Area,
    // How it was when it had been unpacked.
    print: Print,
    readers: Mutex<Readers>,
}

/// Tasks that may have changed a directory.
#[derive(Debug, Default)]
struct Readers {
    /// They have it.
    running: Vec<TaskRef>,
    /// They had it, and have ended since it was looked at.
    ended: Vec<TaskRef>,
}

impl Tree {
    /// Where it lies.
    pub(super) fn area(&self) -> Area {
        self.area
    }

    /// A task has it from now on.
    pub(in crate::objects) fn begin(&self, task: TaskRef) {
        self.readers().running.push(task);
    }

    /// A task that had it has ended.
    pub(in crate::objects) fn end(&self, task: TaskRef) {
        let mut readers = self.readers();
        if let Some(place) = readers.running.iter().position(|running| *running == task) {
            readers.running.swap_remove(place);
        }
        readers.ended.push(task);
    }

    /// How long it takes until each change of it shows.
    pub(in crate::objects) fn settles_in(&self) -> Duration {
        self.print.settles_in(SystemTime::now())
    }

    // Looks at it, if a task has ended that had it. Otherwise which tasks may have changed it.
    fn check(&self) -> Result<(), String> {
        let ended = std::mem::take(&mut self.readers().ended);
        if ended.is_empty() || print_of(&self.path).is_ok_and(|print| print == self.print) {
            return Ok(());
        }
        let suspects: Vec<TaskRef> =
            ended.into_iter().chain(self.readers().running.iter().copied()).collect();
        Err(named(&suspects))
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// Some of them by name.
fn named(tasks: &[TaskRef]) -> String {
    let names: Vec<String> = tasks.iter().take(TASKS_NAMED).map(TaskRef::to_string).collect();
    match tasks.len().saturating_sub(TASKS_NAMED) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Err(error) = crate::prepare::ignore_missing(remove_dir_all(&self.path)) {
            warn!(path = %self.path.display(), %error, "an unpacked object could not be removed");
        }
    }
}

/// What is to be removed of an object. What is unpacked of it goes when nobody reads it any more.
pub(super) struct Remains {
    path: PathBuf,
    _tree: Option<Arc<Tree>>,
}

impl Remains {
    pub(super) fn new(path: PathBuf, tree: Option<Arc<Tree>>) -> Remains {
        Remains { path, _tree: tree }
    }

    pub(super) fn remove(self) {
        remove_file(&self.path);
    }
}

impl Store {
    /// Packs a directory that a task leaves.
    pub(super) fn add_dir(self: &Arc<Store>, key: Key, from: &Path) -> Result<Content, StoreError> {
        let listing = Listing::of(from).map_err(StoreError::Tree)?;
        let size = listing.archive_size();
        self.await_room(size, Store::bytes_coming);
        let mut packing = Packing { incoming: self.receive(size)?, error: None };
        let packed = listing.pack(BufWriter::with_capacity(PIECE_MAX, &mut packing));
        if let Some(error) = packing.error {
            return Err(error);
        }
        packed.map_err(StoreError::Tree)?;
        let content = packing.incoming.content(true);
        packing.incoming.finish(key, content, Hold::Unheard)?;
        Ok(content)
    }

    /// Unpacks an object that is a directory, unless that is done and nobody has changed it since. It counts once more as what is
    /// used. One after the other.
    ///
    /// # Errors
    /// When it is not here as it was, there is no room, or it cannot be unpacked.
    pub(in crate::objects) fn unpack(&self, key: &Key) -> Result<Arc<Tree>, StoreError> {
        let known = self.shelf().entries.get(key).and_then(|entry| entry.tree.clone());
        if let Some(tree) = known.filter(|tree| tree.path.is_dir()) {
            match tree.check() {
                Ok(()) => {
                    self.look(key)?;
                    return Ok(tree);
                }
                Err(tasks) => {
                    let path = tree.path.display();
                    warn!(object = %key.object, %path, tasks, "an unpacked object was changed by tasks: it is unpacked anew");
                }
            }
        }
        let (file, content) = self.read(key)?;
        let former = self.shelf().take_tree(key);
        drop(former);
        let area = self.reserve(content.size, Store::bytes_coming)?;
        let path = self.home_of(area).path().join(format!("{UNPACKED}{}", self.shelf().tick()));
        let mut tree = Tree { path, area, print: Print::default(), readers: Mutex::default() };
        let unpacked = unpack(io::BufReader::with_capacity(PIECE_MAX, file), &tree.path, Access::ReadOnly)
            .and_then(|()| print_of(&tree.path))
            .map_err(StoreError::Tree);
        let shelved = unpacked.and_then(|print| {
            tree.print = print;
            let tree = Arc::new(tree);
            self.shelve_tree(key, &tree).map(|()| tree)
        });
        if shelved.is_err() {
            self.shelf().give_back(area, content.size);
        }
        shelved
    }

    fn shelve_tree(&self, key: &Key, tree: &Arc<Tree>) -> Result<(), StoreError> {
        let mut shelf = self.shelf();
        let entry = shelf.entries.get_mut(key).ok_or(StoreError::Gone)?;
        entry.tree = Some(tree.clone());
        Ok(())
    }

    /// Has an object appear below a directory of this store, without a copy: a file as a hard link, or as a symbolic one where it
    /// lies on another disk. True for the latter, which the object must outlast.
    ///
    /// # Errors
    /// When it is not here as it was, or the link cannot be made.
    pub(crate) fn link(&self, key: &Key, to: &Path) -> Result<bool, StoreError> {
        self.with_file(key, |path, _| {
            make_parent(to)?;
            match fs::hard_link(path, to) {
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                    std::os::unix::fs::symlink(path, to).map(|()| true).map_err(at(to))
                }
                linked => linked.map(|()| false).map_err(at(to)),
            }
        })
    }
}

/// Puts a link to a directory at a path. What is there is replaced only where it is such a link, perhaps of another worker.
///
/// # Errors
/// When something else is there, or the link cannot be made.
pub(in crate::objects) fn link_tree(tree: &Tree, to: &Path) -> Result<(), StoreError> {
    make_parent(to)?;
    let is_ours = || fs::read_link(to).is_ok_and(|found| is_unpacked(&found));
    if is_ours() {
        fs::remove_file(to).map_err(at(to))?;
    }
    std::os::unix::fs::symlink(&tree.path, to).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => StoreError::Taken(to.to_owned()),
        _ => StoreError::Io { path: to.to_owned(), source },
    })
}

// True for what is in the store of a worker, or was.
fn is_unpacked(path: &Path) -> bool {
    let begins = |path: Option<&Path>, with: &str| {
        let name = path.and_then(Path::file_name).and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(with))
    };
    begins(Some(path), UNPACKED) && begins(path.parent(), home::PREFIX)
}

fn make_parent(to: &Path) -> Result<(), StoreError> {
    let dir = to.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).map_err(at(dir))
}

// An archive on its way into the store. Its error is not one of the directory.
struct Packing {
    incoming: Incoming,
    error: Option<StoreError>,
}

impl Write for Packing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.incoming.write(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                let told = io::Error::other(error.to_string());
                self.error = Some(error);
                Err(told)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
