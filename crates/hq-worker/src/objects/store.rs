//! Where a worker keeps the content of objects: files that only this user can read, in a directory of its own.
//!
//! A file comes in as a copy, so that a program that writes to its own file again changes no object, and goes out as a
//! hard link where it can, which nobody may write to. What was written to all the same is found by its size and time, and
//! counts as lost. A directory that others have removed is made again. All functions block.
//!
//! Files that are written for the store from the beginning lie in its directory `put`, and become objects where they are. The
//! value of a call has a name by which others on this node find it.

mod adopt;
mod room;
mod trees;

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use hq_core::object_messages::ObjectCopy;
use hq_core::worker::Input;
use hq_model::checksum::Checksum;
use hq_model::worker::StoreConfig;
use hq_model::{Instance, ObjectId, ObjectName};
use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;

use super::home::Home;
use crate::limits::PIECE_MAX;
use crate::tree::TreeError;

pub(crate) use adopt::PutFile;
pub(super) use adopt::{NEW, OF_CLIENT};
use trees::Remains;
pub(super) use trees::{Tree, link_tree};

/// Names what one instance of a task left under a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    /// The object.
    pub(crate) object: ObjectId,
    /// The instance.
    pub(crate) instance: Instance,
}

/// What an object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// Bytes of it.
    pub(crate) size: u64,
    /// Their [checksum](Checksum).
    pub(crate) checksum: u64,
    /// They are the archive of a directory.
    pub(crate) is_dir: bool,
}

impl Content {
    /// Of copies that are meant.
    pub(crate) fn of(copy: &ObjectCopy) -> Content {
        Content { size: copy.size, checksum: copy.checksum, is_dir: copy.is_dir }
    }
}

/// Why a file is not stored or not given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// No room, even if everything went that may go.
    #[error(
        "{wanted} bytes do not fit: the object store may hold {cap} bytes, of which {taken} are in use and may not go"
    )]
    Full {
        /// Bytes that were to come.
        wanted: u64,
        /// What fits altogether.
        cap: u64,
        /// What has to stay.
        taken: u64,
    },
    /// A pipe, a socket, a device.
    #[error("{} is neither a file nor a directory", .0.display())]
    NoFile(PathBuf),
    /// A directory that cannot be packed, or not be unpacked.
    #[error(transparent)]
    Tree(TreeError),
    /// A link, or not ours.
    #[error("{} is a link, or belongs to another user", .0.display())]
    Foreign(PathBuf),
    /// It names no file in the directory for what is to be stored.
    #[error("`{0}` is no name of a file for the store")]
    BadName(String),
    /// Somebody writes to it.
    #[error("{} was changed while it was read", .0.display())]
    Changed(PathBuf),
    /// Somebody else's file.
    #[error(
        "there is something else already at {}, or what was put there was changed; move it away, or name another path", .0.display()
    )]
    Taken(PathBuf),
    /// It is not here, or not as it was.
    #[error("the object store does not hold it any more")]
    Gone,
    /// It was not as it was stored.
    #[error("its copy in the object store was damaged: somebody has changed the file")]
    Altered,
    /// The bytes that came are not those that were meant.
    #[error("its bytes are not those that were stored: the checksum is {found:016x} instead of {meant:016x}")]
    Damaged {
        /// Of what came.
        found: u64,
        /// Of what was meant.
        meant: u64,
    },
    /// The system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// To what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Adds the path to an error of the system.
fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { path, source }
}

/// Bytes that count as used beside what is here.
type Coming = fn(&Store) -> u64;

/// Whether an object may make room for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hold {
    /// It may: nobody needs it, or others see to it that it is there.
    Free,
    /// A task has left it here, and the server has not said yet whether somebody needs it: not before that.
    Unheard,
    /// The server counts on this worker.
    Guarded,
}

/// The store of one worker. Removed with all it holds when dropped.
#[derive(Debug)]
pub(crate) struct Store {
    home: Home,
    cap: u64,
    // How long room is waited for that the server may give by what it says of new objects.
    patience: Duration,
    shelf: Mutex<Shelf>,
    // It has said something, or there is room.
    eased: Condvar,
    told: UnboundedSender<Input>,
}

#[derive(Debug, Default)]
struct Shelf {
    entries: BTreeMap<Key, Entry>,
    /// Those that may go, by when they were read.
    free: BTreeMap<u64, Key>,
    /// How many the server has not judged yet.
    unheard: usize,
    /// Bytes of entries and of what is coming in.
    used: u64,
    /// Files in the directory `put`: those that were announced with their size, and those that `used` counts by now (nothing).
    coming: BTreeMap<String, Option<u64>>,
    /// Counts reads and files.
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    content: Content,
    path: PathBuf,
    written: (i64, i64),
    last_read: u64,
    hold: Hold,
    /// Readers here that need it.
    pins: u32,
    /// Where it is unpacked.
    tree: Option<Arc<Tree>>,
}

impl Entry {
    // With what is unpacked of it.
    fn bytes(&self) -> u64 {
        let times = 1 + u64::from(self.tree.is_some());
        self.content.size.saturating_mul(times)
    }
}

/// A file of which everything is here.
struct Whole {
    content: Content,
    written: (i64, i64),
    hold: Hold,
}

impl Shelf {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn place(&mut self, key: &Key, hold: Hold, last_read: u64) {
        match hold {
            Hold::Free => drop(self.free.insert(last_read, key.clone())),
            Hold::Unheard => self.unheard += 1,
            Hold::Guarded => {}
        }
    }

    fn displace(&mut self, hold: Hold, last_read: u64) {
        match hold {
            Hold::Free => drop(self.free.remove(&last_read)),
            Hold::Unheard => self.unheard -= 1,
            Hold::Guarded => {}
        }
    }

    fn insert(&mut self, key: Key, entry: Entry) {
        self.place(&key, entry.hold, entry.last_read);
        self.entries.insert(key, entry);
    }

    // Its bytes are not in use any more.
    fn remove(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.displace(entry.hold, entry.last_read);
        self.used -= entry.bytes();
        Some(entry)
    }

    // Changes what its place depends on.
    fn change(&mut self, key: &Key, change: impl FnOnce(&mut Entry)) -> Option<&Entry> {
        let entry = self.entries.get_mut(key)?;
        let before = (entry.hold, entry.last_read);
        change(entry);
        let after = (entry.hold, entry.last_read);
        if after != before {
            self.displace(before.0, before.1);
            self.place(key, after.0, after.1);
        }
        self.entries.get(key)
    }

    fn keys_of(&self, object: &ObjectId) -> Vec<Key> {
        let of = |instance| Key { object: object.clone(), instance };
        let keys = self.entries.range(of(Instance(0))..=of(Instance(u32::MAX)));
        keys.map(|(key, _)| key.clone()).collect()
    }

    // What goes to make room for so many bytes, in this order; what has to stay where that is not enough.
    fn making_room(&self, size: u64, cap: u64) -> Result<Vec<Key>, u64> {
        let mut left = self.used;
        let mut going = Vec::new();
        let mut may_go = self.free.values();
        while left.saturating_add(size) > cap {
            let Some(key) = may_go.next() else { return Err(left) };
            if let Some(entry) = self.entries.get(key).filter(|entry| entry.pins == 0) {
                left -= entry.bytes();
                going.push(key.clone());
            }
        }
        Ok(going)
    }
}

impl Store {
    /// Opens a store below a directory; without a size it may take half of what is free there. `patience` is how long what a
    /// task leaves waits for room while the server has not said of all objects whether somebody needs them. `told` hears of
    /// what is not stored any more though nobody asked for that.
    ///
    /// # Errors
    /// When the directory cannot be made or written to.
    pub(crate) fn open(
        base: &Path,
        size: Option<u64>,
        patience: Duration,
        told: UnboundedSender<Input>,
    ) -> io::Result<Store> {
        let home = Home::make(base)?;
        let cap = match size {
            Some(size) => size,
            None => {
                let disk = rustix::fs::statvfs(home.path())?;
                disk.f_bavail.saturating_mul(disk.f_frsize) / 2
            }
        };
        Ok(Store { home, cap, patience, shelf: Mutex::default(), eased: Condvar::new(), told })
    }

    /// What clients are told of it.
    pub(crate) fn config(&self) -> StoreConfig {
        StoreConfig { dir: self.home.path().to_string_lossy().into_owned(), size: self.cap }
    }

    /// Stores a copy of a file that a task leaves.
    ///
    /// # Errors
    /// When there is no such file, or no room for it.
    pub(crate) fn add(self: &Arc<Store>, key: Key, from: &Path) -> Result<Content, StoreError> {
        // What is no file is not opened, lest it blocks.
        let found = fs::metadata(from).map_err(at(from))?;
        if found.is_dir() {
            return self.add_dir(key, from);
        }
        if !found.is_file() {
            return Err(StoreError::NoFile(from.to_owned()));
        }
        let mut source = File::open(from).map_err(at(from))?;
        self.await_room(found.len(), Store::bytes_coming);
        let mut incoming = self.receive(found.len())?;
        let mut buffer = vec![0; PIECE_MAX];
        loop {
            let read = source.read(&mut buffer).map_err(at(from))?;
            if read == 0 {
                break;
            }
            incoming.write(&buffer[..read])?;
        }
        let content = incoming.content(false);
        incoming.finish(key, content, Hold::Unheard)?;
        Ok(content)
    }

    /// Makes room for bytes that come one after the other.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn receive(self: &Arc<Store>, size: u64) -> Result<Incoming, StoreError> {
        self.reserve(size, Store::bytes_coming)?;
        let number = self.shelf().tick();
        let path = self.home.path().join(number.to_string());
        match self.create(&path) {
            Ok(file) => Ok(Incoming {
                store: self.clone(),
                file,
                path,
                reserved: size,
                offset: 0,
                checksum: Checksum::default(),
                is_kept: false,
            }),
            Err(source) => {
                self.shelf().used -= size;
                Err(StoreError::Io { path, source })
            }
        }
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        let create = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_again()?;
                create()
            }
            result => result,
        }
    }

    // Others have removed it.
    fn make_again(&self) -> io::Result<()> {
        let keys: Vec<Key> = self.shelf().entries.keys().cloned().collect();
        warn!(path = %self.home.path().display(), objects = keys.len(), "others have removed the object store");
        keys.iter().filter(|key| self.take(key)).for_each(|key| self.tell_lost(key));
        self.home.make_again()
    }

    /// Opens an object, to be read from the beginning.
    ///
    /// # Errors
    /// When it is not here as it was.
    pub(crate) fn read(&self, key: &Key) -> Result<(File, Content), StoreError> {
        let (path, content) = self.look(key)?;
        match File::open(&path) {
            Ok(file) => Ok((file, content)),
            Err(source) => {
                self.lose(key);
                Err(StoreError::Io { path, source })
            }
        }
    }

    /// Where an object lies, for those that read it there.
    ///
    /// # Errors
    /// When it is not here as it was.
    pub(crate) fn locate(&self, key: &Key) -> Result<PathBuf, StoreError> {
        self.look(key).map(|(path, _)| path)
    }

    /// What an object holds, if it is here as it was.
    pub(crate) fn content(&self, key: &Key) -> Option<Content> {
        self.look(key).ok().map(|(_, content)| content)
    }

    /// Bytes of an object, as far as is known.
    pub(crate) fn size_of(&self, key: &Key) -> Option<u64> {
        self.shelf().entries.get(key).map(|entry| entry.content.size)
    }

    /// Puts an object at a path: as a hard link, or as a copy where that cannot be, and for root, who may write to any file.
    /// A file is there already only if it is the same, or one that was put there before and that nobody has changed.
    ///
    /// # Errors
    /// When it is not here as it was, or cannot be put there.
    pub(crate) fn put(&self, key: &Key, to: &Path) -> Result<(), StoreError> {
        let (path, content) = self.look(key)?;
        if is_same(to, content) {
            return Ok(());
        }
        if fs::symlink_metadata(to).is_ok_and(|found| !is_as_put(&found)) {
            return Err(StoreError::Taken(to.to_owned()));
        }
        let dir = to.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(dir).map_err(at(dir))?;
        // Beside it, under a name that nobody else uses; then it appears as a whole.
        let number = self.shelf().tick();
        let beside = dir.join(format!(".hq-object-{}-{number}", std::process::id()));
        let link = || match rustix::process::geteuid().is_root() {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => fs::hard_link(&path, &beside),
        };
        let copy = || {
            fs::copy(&path, &beside)?;
            stamp(&File::open(&beside)?)
        };
        let put = link().or_else(|_| copy());
        let put = put.and_then(|()| fs::rename(&beside, to));
        // Also after a success: two links of one file are not renamed onto each other.
        let _ = fs::remove_file(&beside);
        put.map_err(at(to))
    }

    /// A reader here needs it: it stays until as many have said that they do not any more.
    pub(crate) fn pin(&self, key: &Key) -> bool {
        let mut shelf = self.shelf();
        let entry = shelf.entries.get_mut(key);
        entry.map(|entry| entry.pins += 1).is_some()
    }

    /// A reader here does not need it any more.
    pub(crate) fn unpin(&self, key: &Key) {
        if let Some(entry) = self.shelf().entries.get_mut(key) {
            entry.pins = entry.pins.saturating_sub(1);
        }
        self.eased.notify_all();
    }

    /// Whether these may make room for others, whichever instances left them.
    pub(crate) fn hold(&self, objects: &[ObjectId], hold: Hold) {
        let mut shelf = self.shelf();
        for object in objects {
            for key in shelf.keys_of(object) {
                shelf.change(&key, |entry| entry.hold = hold);
            }
        }
        self.eased.notify_all();
    }

    /// Nobody needs an object, whichever instance left it.
    pub(crate) fn remove(&self, object: &ObjectId) {
        let keys = self.shelf().keys_of(object);
        for key in &keys {
            self.take(key);
        }
    }

    /// Others have removed it.
    pub(crate) fn lose(&self, key: &Key) {
        if self.take(key) {
            warn!(object = %key.object, "a stored object was removed by others");
            self.tell_lost(key);
        }
    }

    /// Others have changed it.
    pub(crate) fn lose_altered(&self, key: &Key) {
        if self.take(key) {
            warn!(object = %key.object, "a stored object was damaged: others have changed the file");
            // Nobody listens when the worker is ending.
            let _ = self.told.send(Input::ObjectDamaged(key.object.clone()));
        }
    }

    /// It is here.
    pub(crate) fn tell_stored(&self, key: &Key, content: Content) {
        let Content { size, checksum, is_dir } = content;
        let copy = ObjectCopy { object: key.object.clone(), instance: key.instance, size, checksum, is_dir };
        // Nobody listens when the worker is ending.
        let _ = self.told.send(Input::Stored(copy));
    }

    /// It was to be here, and is not.
    pub(crate) fn tell_refused(&self, object: ObjectId, why: String) {
        let _ = self.told.send(Input::FileRefused { object, why });
    }

    fn tell_lost(&self, key: &Key) {
        let _ = self.told.send(Input::ObjectLost(key.object.clone()));
    }

    /// All that it holds, in order.
    #[cfg(test)]
    pub(crate) fn held(&self) -> Vec<(Key, Content)> {
        let shelf = self.shelf();
        shelf.entries.iter().map(|(key, entry)| (key.clone(), entry.content)).collect()
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Where it is, if nobody has touched it. It counts as read.
    fn look(&self, key: &Key) -> Result<(PathBuf, Content), StoreError> {
        let (path, content, written) = {
            let mut shelf = self.shelf();
            let now = shelf.tick();
            let entry = shelf.change(key, |entry| entry.last_read = now).ok_or(StoreError::Gone)?;
            (entry.path.clone(), entry.content, entry.written)
        };
        match fs::symlink_metadata(&path) {
            Ok(found) if found.len() == content.size && written_at(&found) == written => Ok((path, content)),
            Ok(_) => {
                self.lose_altered(key);
                Err(StoreError::Altered)
            }
            Err(_) => {
                self.lose(key);
                Err(StoreError::Gone)
            }
        }
    }

    fn take(&self, key: &Key) -> bool {
        let gone = self.unshelve(&mut self.shelf(), key);
        self.eased.notify_all();
        gone.map(Remains::remove).is_some()
    }

    // What is to be removed of it then has a name that nothing else gets.
    fn unshelve(&self, shelf: &mut Shelf, key: &Key) -> Option<Remains> {
        let Entry { path, tree, .. } = shelf.remove(key)?;
        if value_name(key).is_none() {
            return Some(Remains::new(path, tree));
        }
        let aside = self.home.path().join(shelf.tick().to_string());
        // What others have removed need not be.
        let _ = fs::rename(path, &aside);
        Some(Remains::new(aside, tree))
    }

    // A file that is whole becomes an object; so much room was made for it.
    fn shelve(&self, key: Key, file: &Path, whole: Whole, reserved: u64) -> Result<(), StoreError> {
        let Whole { content, written, hold } = whole;
        let mut shelf = self.shelf();
        let name = value_name(&key).unwrap_or_else(|| shelf.tick().to_string());
        let path = self.home.path().join(name);
        fs::rename(file, &path).map_err(at(file))?;
        let last_read = shelf.tick();
        let pins = shelf.entries.get(&key).map_or(0, |entry| entry.pins);
        // What an earlier instance left is not meant any more.
        let earlier = shelf.keys_of(&key.object).into_iter().filter(|other| other.instance <= key.instance);
        let before: Vec<Entry> = earlier.filter_map(|other| shelf.remove(&other)).collect();
        let tree = None;
        shelf.insert(key, Entry { content, path: path.clone(), written, last_read, hold, pins, tree });
        shelf.used -= reserved - content.size;
        drop(shelf);
        before.iter().filter(|before| before.path != path).for_each(|before| remove_file(&before.path));
        Ok(())
    }
}

/// Bytes on their way into the store. Dropped before the end, they are gone.
#[derive(Debug)]
pub(crate) struct Incoming {
    store: Arc<Store>,
    file: File,
    path: PathBuf,
    reserved: u64,
    offset: u64,
    checksum: Checksum,
    is_kept: bool,
}

impl Incoming {
    /// Takes the next ones.
    ///
    /// # Errors
    /// When there are more than were said, or the disk is full.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let more = (self.offset + bytes.len() as u64).saturating_sub(self.reserved);
        if more > 0 {
            self.store.reserve(more, Store::bytes_coming)?;
            self.reserved += more;
        }
        self.file.write_all(bytes).map_err(at(&self.path))?;
        self.checksum.add(bytes);
        self.offset += bytes.len() as u64;
        Ok(())
    }

    // What has come.
    fn content(&self, is_dir: bool) -> Content {
        Content { size: self.offset, checksum: self.checksum.value(), is_dir }
    }

    /// Everything is here, and is to be this.
    ///
    /// # Errors
    /// When it is not.
    pub(crate) fn finish(mut self, key: Key, content: Content, hold: Hold) -> Result<(), StoreError> {
        let found = self.checksum.value();
        if self.offset != content.size || found != content.checksum {
            return Err(StoreError::Damaged { found, meant: content.checksum });
        }
        self.file.set_permissions(fs::Permissions::from_mode(0o444)).map_err(at(&self.path))?;
        stamp(&self.file).map_err(at(&self.path))?;
        let written = written_at(&self.file.metadata().map_err(at(&self.path))?);
        self.store.shelve(key, &self.path, Whole { content, written, hold }, self.reserved)?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.is_kept {
            self.store.shelf().used -= self.reserved;
            remove_file(&self.path);
        }
    }
}

/// The store that several threads use.
pub(crate) type SharedStore = Arc<Store>;

// What the file of the value of a call is named: readers on this node look for it.
fn value_name(key: &Key) -> Option<String> {
    let ObjectId { task, name } = &key.object;
    (*name == ObjectName::value()).then(|| format!("v-{}-{}-{}", task.job, task.task, key.instance))
}

fn written_at(found: &Metadata) -> (i64, i64) {
    (found.mtime(), found.mtime_nsec())
}

// Marks a file as written by a store: with a time in whole seconds, which a later change has not.
fn stamp(file: &File) -> io::Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let whole = SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs());
    file.set_times(FileTimes::new().set_modified(whole))
}

// True for a file that a store has put somewhere and nobody has changed. What somebody may write to is his.
fn is_as_put(found: &Metadata) -> bool {
    found.is_file() && found.mode() & 0o222 == 0 && found.mtime_nsec() == 0
}

fn remove_file(path: &Path) {
    if let Err(error) = crate::prepare::ignore_missing(fs::remove_file(path)) {
        warn!(path = %path.display(), %error, "a stored object could not be removed");
    }
}

// A task may find there what it has left itself.
fn is_same(path: &Path, content: Content) -> bool {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == content.size) {
        return false;
    }
    let checksum = File::open(path).and_then(|mut file| checksum_of(&mut file));
    checksum.is_ok_and(|(_, checksum)| checksum == content.checksum)
}

// How many bytes there are from here on, and their checksum.
fn checksum_of(file: &mut File) -> io::Result<(u64, u64)> {
    let (mut size, mut checksum, mut buffer) = (0, Checksum::default(), vec![0; PIECE_MAX]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((size, checksum.value())),
            read => {
                size += read as u64;
                checksum.add(&buffer[..read]);
            }
        }
    }
}
