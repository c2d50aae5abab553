//! Where a worker keeps the content of objects: files that only this user can read, in a directory of its own.
//!
//! A file comes in as a copy, so that a program that writes to its own file again changes no object, and goes out as a
//! hard link where it can, which nobody may write to. What was written to all the same is found by its size and time, and
//! counts as lost. A directory that others have removed is made again. All functions block.
//!
//! Where the store is full of what may not go, objects move to its spill, a second directory, and are used there as they are in the
//! store. What is given to somebody as a path does not move.
//!
//! Files that are written for the store from the beginning lie in its directory `put`, and become objects where they are. The
//! value of a call has a name by which others on this node find it.

mod adopt;
mod error;
mod incoming;
mod place;
mod room;
mod shelf;
mod spill;
mod trees;

use std::fs::{self, File, FileTimes, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use hq_core::object_messages::{ObjectCopy, ObjectsHeld};
use hq_core::worker::Input;
use hq_model::checksum::Checksum;
use hq_model::worker::{SpillConfig, StoreConfig};
use hq_model::{Instance, ObjectId, ObjectName};
use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;

use super::disk::Disk;
use super::home::Home;
use crate::limits::PIECE_MAX;

pub(crate) use adopt::PutFile;
pub(super) use adopt::{NEW, OF_CLIENT};
pub(crate) use error::StoreError;
use error::at;
pub(crate) use incoming::Incoming;
use shelf::{Area, Entry, Shelf};
use spill::Spill;
pub(crate) use spill::SpillTo;
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

/// Bytes that count as used beside what is here.
type Coming = fn(&Store, Area) -> u64;

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
    spill: Option<Spill>,
    // Held while an object moves to the spill.
    moving: Mutex<()>,
    // For objects that move before the room is needed.
    spilling: Disk,
    own: Weak<Store>,
    // How long room is waited for that the server may give by what it says of new objects.
    patience: Duration,
    shelf: Mutex<Shelf>,
    // It has said something, or there is room.
    eased: Condvar,
    told: UnboundedSender<Input>,
}

impl Store {
    /// Opens a store below a directory, with a spill if it is to have one; without a size each may take half of what is free there.
    /// `patience` is how long what a task leaves waits for room while the server has not said of all objects whether somebody needs
    /// them. `told` hears of what is not stored any more though nobody asked for that.
    ///
    /// # Errors
    /// When the directory cannot be made or written to.
    pub(crate) fn open(
        base: &Path,
        size: Option<u64>,
        spill: Option<&SpillTo>,
        patience: Duration,
        told: UnboundedSender<Input>,
    ) -> io::Result<SharedStore> {
        let home = Home::make(base)?;
        let cap = size.map_or_else(|| half_of_free(home.path()), Ok)?;
        let of_spill = |to: &SpillTo| {
            let named = |error: io::Error| {
                io::Error::new(error.kind(), format!("its spill in {}: {error}", to.dir.display()))
            };
            Spill::open(to).map_err(named)
        };
        let spill = spill.map(of_spill).transpose()?;
        Ok(Arc::new_cyclic(|own| Store {
            home,
            cap,
            spill,
            moving: Mutex::default(),
            spilling: Disk::new("spill"),
            own: own.clone(),
            patience,
            shelf: Mutex::default(),
            eased: Condvar::new(),
            told,
        }))
    }

    /// What clients are told of it.
    pub(crate) fn config(&self) -> StoreConfig {
        let dir = |home: &Home| home.path().to_string_lossy().into_owned();
        let spill = self.spill.as_ref().map(|spill| SpillConfig { dir: dir(&spill.home), size: spill.cap });
        StoreConfig { dir: dir(&self.home), size: self.cap, spill }
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
        let area = self.reserve(size, Store::bytes_coming)?;
        match self.new_file(area) {
            Ok(made) => Ok(Incoming::new(self, made, (area, size))),
            Err(error) => {
                self.shelf().give_back(area, size);
                Err(error)
            }
        }
    }

    // An empty file of which nobody knows.
    fn new_file(&self, area: Area) -> Result<(File, PathBuf), StoreError> {
        let number = self.shelf().tick();
        let path = self.home_of(area).path().join(number.to_string());
        let file = self.create(area, &path).map_err(at(&path))?;
        Ok((file, path))
    }

    // What is never in a spill without one.
    fn home_of(&self, area: Area) -> &Home {
        match (area, &self.spill) {
            (Area::Spill, Some(spill)) => &spill.home,
            _ => &self.home,
        }
    }

    fn cap_of(&self, area: Area) -> u64 {
        match area {
            Area::Store => self.cap,
            Area::Spill => self.spill.as_ref().map_or(0, |spill| spill.cap),
        }
    }

    fn create(&self, area: Area, path: &Path) -> io::Result<File> {
        if !self.home_of(area).is_there() {
            self.make_again(area)?;
        }
        let create = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_again(area)?;
                create()
            }
            result => result,
        }
    }

    // Others have removed it.
    fn make_again(&self, area: Area) -> io::Result<()> {
        let home = self.home_of(area);
        let there = |(key, entry): (&Key, &Entry)| (entry.area == area).then(|| key.clone());
        let keys: Vec<Key> = self.shelf().entries.iter().filter_map(there).collect();
        warn!(path = %home.path().display(), objects = keys.len(), "others have removed the object store");
        keys.iter().filter(|key| self.take(key)).for_each(|key| self.tell_lost(key));
        home.make_again()
    }

    /// Opens an object, to be read from the beginning.
    ///
    /// # Errors
    /// When it is not here as it was.
    pub(crate) fn read(&self, key: &Key) -> Result<(File, Content), StoreError> {
        self.with_file(key, |path, content| match File::open(path) {
            Ok(file) => Ok((file, content)),
            Err(source) => {
                self.lose(key);
                Err(StoreError::Io { path: path.to_owned(), source })
            }
        })
    }

    // Does something with a file that stays where it is meanwhile.
    fn with_file<T>(
        &self,
        key: &Key,
        work: impl FnOnce(&Path, Content) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if !self.pin(key) {
            return Err(StoreError::Gone);
        }
        let done = self.look(key).and_then(|(path, content)| work(&path, content));
        self.unpin(key);
        done
    }

    /// Where an object lies, for those that read it there and have [pinned](Store::pin) it.
    ///
    /// # Errors
    /// When it is not here as it was.
    pub(crate) fn locate(&self, key: &Key) -> Result<PathBuf, StoreError> {
        self.look(key).map(|(path, _)| path)
    }

    /// What an object holds, if it is here as it was.
    pub(crate) fn content(&self, key: &Key) -> Option<Content> {
        self.with_file(key, |_, content| Ok(content)).ok()
    }

    /// Bytes of an object, as far as is known.
    pub(crate) fn size_of(&self, key: &Key) -> Option<u64> {
        self.shelf().entries.get(key).map(|entry| entry.content.size)
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
        drop(shelf);
        self.eased.notify_all();
        self.relieve_soon();
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

    /// It is not on its way any more to be here before its task.
    pub(crate) fn tell_not_ahead(&self, object: ObjectId) {
        let _ = self.told.send(Input::NotAhead(object));
    }

    // What lies in the spill, where that has changed.
    fn tell_spilled(&self) {
        let mut shelf = self.shelf();
        let room = shelf.room(Area::Spill);
        let now = (room.count, room.bytes);
        if now != shelf.told_spilled {
            shelf.told_spilled = now;
            let _ = self.told.send(Input::Spilled(ObjectsHeld { count: now.0, bytes: now.1 }));
        }
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
        self.tell_spilled();
        gone.map(Remains::remove).is_some()
    }

    // What is to be removed of it then has a name that nothing else gets.
    fn unshelve(&self, shelf: &mut Shelf, key: &Key) -> Option<Remains> {
        let Entry { path, tree, .. } = shelf.remove(key)?;
        if value_name(key).is_none() {
            return Some(Remains::new(path, tree));
        }
        let aside = path.with_file_name(shelf.tick().to_string());
        // What others have removed need not be.
        let _ = fs::rename(path, &aside);
        Some(Remains::new(aside, tree))
    }

    // Where an object is to lie.
    fn path_for(&self, shelf: &mut Shelf, area: Area, key: &Key) -> PathBuf {
        let name = value_name(key).unwrap_or_else(|| shelf.tick().to_string());
        self.home_of(area).path().join(name)
    }

    // A file that is whole becomes an object; so much room was made for it.
    fn shelve(&self, key: Key, file: &Path, whole: Whole, reserved: u64) -> Result<(), StoreError> {
        let Whole { content, written, hold, area } = whole;
        let mut shelf = self.shelf();
        let path = self.path_for(&mut shelf, area, &key);
        fs::rename(file, &path).map_err(at(file))?;
        let last_read = shelf.tick();
        let pins = shelf.entries.get(&key).map_or(0, |entry| entry.pins);
        // What an earlier instance left is not meant any more.
        let earlier = shelf.keys_of(&key.object).into_iter().filter(|other| other.instance <= key.instance);
        let before: Vec<Entry> = earlier.filter_map(|other| shelf.remove(&other)).collect();
        let tree = None;
        shelf.insert(key, Entry { content, path: path.clone(), area, written, last_read, hold, pins, tree });
        shelf.give_back(area, reserved - content.size);
        drop(shelf);
        self.tell_spilled();
        self.relieve_soon();
        before.iter().filter(|before| before.path != path).for_each(|before| remove_file(&before.path));
        Ok(())
    }
}

/// The store that several threads use.
pub(crate) type SharedStore = Arc<Store>;

fn half_of_free(dir: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(dir)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize) / 2)
}

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

fn remove_file(path: &Path) {
    if let Err(error) = crate::prepare::ignore_missing(fs::remove_file(path)) {
        warn!(path = %path.display(), %error, "a stored object could not be removed");
    }
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

/// A file of which everything is here.
struct Whole {
    content: Content,
    written: (i64, i64),
    hold: Hold,
    area: Area,
}
