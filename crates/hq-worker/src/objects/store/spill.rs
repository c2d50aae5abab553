//! The spill of a store: a directory, on a disk of the node, where objects go for which the store has no room.
//!
//! What makes no room by going moves there, when the store is nearly full of it: that which was read least recently first.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use hq_model::checksum::Checksum;
use tracing::{debug, warn};

use super::{
    Area, Content, Key, Remains, Store, StoreError, at, half_of_free, remove_file, stamp, written_at,
};
use crate::limits::{PIECE_MAX, SPILL_AT_PERCENT, SPILL_TRIES_MAX};
use crate::objects::home::Home;

/// Where objects are to go for which a store has no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpillTo {
    /// Below this directory.
    pub(crate) dir: PathBuf,
    /// Most bytes of them; half of what is free there when `None`.
    pub(crate) bytes: Option<u64>,
}

/// That directory. Removed with all it holds when dropped.
#[derive(Debug)]
pub(super) struct Spill {
    pub(super) home: Home,
    pub(super) cap: u64,
}

impl Spill {
    pub(super) fn open(to: &SpillTo) -> io::Result<Spill> {
        let home = Home::make(&to.dir)?;
        let cap = to.bytes.map_or_else(|| half_of_free(home.path()), Ok)?;
        Ok(Spill { home, cap })
    }
}

/// A copy that may take the place of an object.
struct Moved {
    path: PathBuf,
    written: (i64, i64),
}

impl Store {
    /// Has objects move before their room is needed.
    pub(super) fn relieve_soon(&self) {
        if let Some(store) = self.own.upgrade().filter(|_| self.is_pressed()) {
            self.spilling.order(move || store.relieve());
        }
    }

    /// Waits until all that was ordered has moved.
    #[cfg(test)]
    pub(in crate::objects) fn settle(&self) {
        let (done, told) = std::sync::mpsc::channel();
        self.spilling.order(move || done.send(()).expect("it is waited for"));
        told.recv().expect("a thread");
    }

    fn relieve(&self) {
        while self.is_pressed() && self.spill_oldest() {}
    }

    // True when the store is nearly full of what may not go.
    fn is_pressed(&self) -> bool {
        let most = self.cap / 100 * SPILL_AT_PERCENT;
        self.spill.is_some() && self.shelf().room(Area::Store).guarded_bytes > most
    }

    /// Moves one object, so that there is more room in the store. False when none can.
    pub(super) fn spill_oldest(&self) -> bool {
        if self.spill.is_none() {
            return false;
        }
        let _one = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = self.shelf().oldest_guarded(SPILL_TRIES_MAX);
        oldest.iter().any(|key| self.move_out(key))
    }

    // True when it is not in the store any more.
    fn move_out(&self, key: &Key) -> bool {
        let found = self.shelf().entries.get(key).map(|entry| (entry.path.clone(), entry.content));
        let Some((path, content)) = found else { return true };
        // While somebody else has a link to the file, its bytes stay where they are.
        if fs::symlink_metadata(&path).is_ok_and(|found| found.nlink() > 1) {
            return false;
        }
        if self.take_room(Area::Spill, content.size, self.bytes_coming(Area::Spill)).is_err() {
            return false;
        }
        let moved = File::open(&path).map_err(at(&path)).and_then(|mut file| {
            let (path, checksum) = self.copy_to_spill(&mut file, content.size)?;
            let written = fs::metadata(&path).map(|found| written_at(&found)).map_err(at(&path))?;
            Ok((Moved { path, written }, checksum))
        });
        match moved {
            Ok((moved, checksum)) if checksum == content.checksum => {
                self.has_moved(key, &path, content, moved)
            }
            moved => {
                self.shelf().give_back(Area::Spill, content.size);
                self.is_not_moved(key, moved)
            }
        }
    }

    fn is_not_moved(&self, key: &Key, moved: Result<(Moved, u64), StoreError>) -> bool {
        match moved {
            Ok((Moved { path, .. }, _)) => {
                remove_file(&path);
                self.lose_altered(key);
                true
            }
            Err(error) => {
                let is_gone = !self.shelf().entries.contains_key(key);
                if !is_gone {
                    warn!(object = %key.object, %error, "an object cannot move to the spill of the store");
                }
                is_gone
            }
        }
    }

    // The copy takes the place of the object, unless somebody was told meanwhile where that is.
    fn has_moved(&self, key: &Key, from: &Path, content: Content, moved: Moved) -> bool {
        let mut shelf = self.shelf();
        let is_idle = match shelf.entries.get(key) {
            Some(entry) if entry.path == from => Some(entry.pins == 0),
            _ => None,
        };
        let to = self.path_for(&mut shelf, Area::Spill, key);
        if is_idle != Some(true) || fs::rename(&moved.path, &to).is_err() {
            shelf.give_back(Area::Spill, content.size);
            drop(shelf);
            remove_file(&moved.path);
            return is_idle.is_none();
        }
        shelf.change(key, |entry| {
            entry.path = to;
            entry.area = Area::Spill;
            entry.written = moved.written;
        });
        shelf.give_back(Area::Store, content.size);
        // It is unpacked once more where there is room.
        let tree = shelf.take_tree(key);
        drop(shelf);
        debug!(object = %key.object, bytes = content.size, "an object has moved to the spill of the store");
        self.tell_spilled();
        self.eased.notify_all();
        Remains::new(from.to_owned(), tree).remove();
        true
    }

    /// Copies a file of so many bytes, for which there is room, into the spill. Gives its checksum, too.
    pub(super) fn copy_to_spill(&self, from: &mut File, size: u64) -> Result<(PathBuf, u64), StoreError> {
        let (mut to, path) = self.new_file(Area::Spill)?;
        let copied = copy(from, &mut to, size).and_then(|checksum| {
            to.set_permissions(fs::Permissions::from_mode(0o444))?;
            stamp(&to)?;
            Ok(checksum)
        });
        match copied {
            Ok(checksum) => Ok((path, checksum)),
            Err(source) => {
                remove_file(&path);
                Err(StoreError::Io { path, source })
            }
        }
    }
}

// The checksum of what was copied. More bytes than there is room for are not.
fn copy(from: &mut File, to: &mut File, size: u64) -> io::Result<u64> {
    let (mut checksum, mut buffer) = (Checksum::default(), vec![0; PIECE_MAX]);
    let mut from = from.take(size);
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(checksum.value());
        }
        to.write_all(&buffer[..read])?;
        checksum.add(&buffer[..read]);
    }
}
