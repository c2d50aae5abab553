//! Files that others have written for the store, in its directory `put`: each becomes an object without a copy, or goes.
//!
//! Whoever writes one says what becomes of it: the call that returns a value, the connection over which it came. A client on this
//! node cannot when it dies, so it holds a lock on its file as long as it means it.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{
    Area, Content, Hold, Key, Store, StoreError, Whole, at, checksum_of, remove_file, stamp, written_at,
};
use crate::objects::Objects;

/// No client needs so long to lock its file.
const NEW_TIME_MAX: Duration = Duration::from_secs(60);
/// Files of clients on this node begin with it.
pub(in crate::objects) const OF_CLIENT: &str = "c-";
/// Before that, until they are locked.
pub(in crate::objects) const NEW: &str = "new-";

impl Store {
    /// A path for a file that is to be stored.
    ///
    /// # Errors
    /// When that is no name.
    pub(crate) fn put_path(&self, name: &str) -> Result<PathBuf, StoreError> {
        self.put_path_in(Area::Store, name)
    }

    fn put_path_in(&self, area: Area, name: &str) -> Result<PathBuf, StoreError> {
        let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
        match is_plain {
            true => Ok(self.home_of(area).put().join(name)),
            false => Err(StoreError::BadName(name.to_owned())),
        }
    }

    // Where such a file was written: in the spill only where that is larger, or was announced to.
    fn find_put(&self, name: &str) -> Result<(Area, PathBuf), StoreError> {
        let path = self.put_path(name)?;
        if self.spill.is_some() && fs::symlink_metadata(&path).is_err() {
            let spilled = self.put_path_in(Area::Spill, name)?;
            if fs::symlink_metadata(&spilled).is_ok() {
                return Ok((Area::Spill, spilled));
            }
        }
        Ok((Area::Store, path))
    }

    /// Makes such a file.
    ///
    /// # Errors
    /// When the system refuses it.
    pub(crate) fn create_put(&self, name: &str) -> Result<File, StoreError> {
        let announced = self.shelf().coming.get(name).map_or(Area::Store, |(area, _)| *area);
        let path = self.put_path_in(announced, name)?;
        let create = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let created = create().or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => self.mend().and_then(|()| create()),
            _ => Err(error),
        });
        created.map_err(at(&path))
    }

    /// Makes directories again that others have removed.
    ///
    /// # Errors
    /// When they cannot be made.
    pub(crate) fn mend(&self) -> io::Result<()> {
        for area in self.areas() {
            let home = self.home_of(area);
            match home.is_there() {
                true => home.make_put_again(),
                false => self.make_again(area),
            }?;
        }
        Ok(())
    }

    fn areas(&self) -> impl Iterator<Item = Area> {
        [Area::Store].into_iter().chain(self.spill.as_ref().map(|_| Area::Spill))
    }

    /// A file that was to be stored is not.
    pub(crate) fn drop_put(&self, name: &str) {
        for area in self.areas() {
            if let Ok(path) = self.put_path_in(area, name) {
                remove_file(&path);
            }
        }
        self.shelf().coming.remove(name);
    }

    /// Whether a file of so many bytes may come. What the server has not judged yet may make room by then.
    ///
    /// # Errors
    /// When there will be no room for it.
    pub(crate) fn check_announced(&self, size: u64) -> Result<(), StoreError> {
        let checked = self.check_room(size);
        match checked {
            Err(full) if !full.never_fits() && self.shelf().unheard > 0 => Ok(()),
            checked => checked,
        }
    }

    /// A file of so many bytes is coming, and counts as if it was here.
    ///
    /// # Errors
    /// When there is no room for it.
    pub(crate) fn announce(&self, name: &str, size: u64) -> Result<(), StoreError> {
        self.check_announced(size)?;
        // What does not fit into the store now is not written there.
        let area = if self.has_room(size) { Area::Store } else { Area::Spill };
        let area = self.spill.as_ref().map_or(Area::Store, |_| area);
        self.shelf().coming.insert(name.to_owned(), (area, Some(size)));
        Ok(())
    }

    // Bytes of files that were announced.
    pub(super) fn bytes_announced(&self, area: Area) -> u64 {
        let shelf = self.shelf();
        let there = shelf.coming.values().filter(|(at, _)| *at == area);
        there.filter_map(|(_, size)| *size).sum()
    }

    // Bytes of files in the directory `put`, at the size that was announced, but of those that are counted elsewhere.
    pub(super) fn bytes_coming(&self, area: Area) -> u64 {
        if area == Area::Spill && self.spill.is_none() {
            return 0;
        }
        let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
        for entry in fs::read_dir(self.home_of(area).put()).into_iter().flatten().flatten() {
            let size = entry.metadata().map_or(0, |found| found.len());
            sizes.insert(entry.file_name().to_string_lossy().into_owned(), size);
        }
        let shelf = self.shelf();
        for (name, (_, announced)) in shelf.coming.iter().filter(|(_, (at, _))| *at == area) {
            match announced {
                Some(size) => {
                    let known = sizes.entry(name.clone()).or_default();
                    *known = (*known).max(*size);
                }
                None => drop(sizes.remove(name)),
            }
        }
        sizes.values().sum()
    }

    /// Makes an object of a file in the directory `put`. It stays the same file; one that cannot be an object is removed.
    ///
    /// # Errors
    /// When it is not a plain file of this user, or there is no room for it.
    pub(crate) fn adopt(
        &self,
        key: Key,
        name: &str,
        (hold, is_dir): (Hold, bool),
    ) -> Result<Content, StoreError> {
        let (area, path) = self.find_put(name)?;
        // From here on its room is what is made for it.
        self.shelf().coming.insert(name.to_owned(), (area, None));
        let adopted = self.try_to_adopt(key, (area, &path), (hold, is_dir));
        if adopted.is_err() {
            remove_file(&path);
        }
        self.shelf().coming.remove(name);
        self.remove_abandoned();
        adopted
    }

    fn try_to_adopt(
        &self,
        key: Key,
        (lies, path): (Area, &Path),
        how: (Hold, bool),
    ) -> Result<Content, StoreError> {
        // What is no file is not waited for.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => StoreError::Foreign(path.to_owned()),
            _ => at(path)(error),
        })?;
        let found = file.metadata().map_err(at(path))?;
        if !found.is_file() {
            return Err(StoreError::NoFile(path.to_owned()));
        }
        if found.uid() != rustix::process::geteuid().as_raw() || found.nlink() != 1 {
            return Err(StoreError::Foreign(path.to_owned()));
        }
        let size = found.len();
        // Of those that are written at the same time the first one to be whole has the room.
        self.await_room(size, Store::bytes_announced);
        let area = match lies {
            Area::Store => self.reserve(size, Store::bytes_announced)?,
            Area::Spill => {
                self.reserve_in(Area::Spill, size, Store::bytes_announced).map(|()| Area::Spill)?
            }
        };
        let shelved = match area == lies {
            true => self.shelve_read(key, (area, path), (file, found), how),
            false => self.shelve_moved(key, path, (file, found), how),
        };
        if shelved.is_err() {
            self.shelf().give_back(area, size);
        }
        shelved
    }

    // Room for it is made in the spill.
    fn shelve_moved(
        &self,
        key: Key,
        path: &Path,
        (mut file, before): (File, Metadata),
        (hold, is_dir): (Hold, bool),
    ) -> Result<Content, StoreError> {
        let size = before.len();
        let (copied, checksum) = self.copy_to_spill(&mut file, size)?;
        let after = file.metadata().map_err(at(path));
        let found = fs::metadata(&copied).map_err(at(&copied));
        let shelved = after.and_then(|after| {
            let found = found?;
            if found.len() != size || after.len() != size || written_at(&before) != written_at(&after) {
                return Err(StoreError::Changed(path.to_owned()));
            }
            let content = Content { size, checksum, is_dir };
            let whole = Whole { content, written: written_at(&found), hold, area: Area::Spill };
            self.shelve(key, &copied, whole, size).map(|()| content)
        });
        remove_file(if shelved.is_ok() { path } else { &copied });
        shelved
    }

    // Room for it is made.
    fn shelve_read(
        &self,
        key: Key,
        (area, path): (Area, &Path),
        (mut file, before): (File, Metadata),
        (hold, is_dir): (Hold, bool),
    ) -> Result<Content, StoreError> {
        let (size, checksum) = checksum_of(&mut file).map_err(at(path))?;
        let after = file.metadata().map_err(at(path))?;
        if size != before.len() || written_at(&before) != written_at(&after) {
            return Err(StoreError::Changed(path.to_owned()));
        }
        file.set_permissions(fs::Permissions::from_mode(0o444)).map_err(at(path))?;
        stamp(&file).map_err(at(path))?;
        let written = written_at(&file.metadata().map_err(at(path))?);
        let content = Content { size, checksum, is_dir };
        self.shelve(key, path, Whole { content, written, hold, area }, size)?;
        Ok(content)
    }

    /// Removes files of clients that are gone.
    pub(super) fn remove_abandoned(&self) {
        let puts = self.areas().flat_map(|area| fs::read_dir(self.home_of(area).put()));
        for entry in puts.flatten().flatten() {
            let is_of_client = match entry.file_name().to_str() {
                Some(name) if name.starts_with(OF_CLIENT) => true,
                // It is about to be locked, or its client died before.
                Some(name) if name.starts_with(NEW) => entry.metadata().is_ok_and(|found| is_old(&found)),
                _ => false,
            };
            if !is_of_client {
                continue;
            }
            let path = entry.path();
            let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
            let file = OpenOptions::new().read(true).custom_flags(flags).open(&path);
            // What cannot be opened or locked is somebody's.
            if file.is_ok_and(|file| file.try_lock().is_ok()) {
                remove_file(&path);
            }
        }
    }
}

fn is_old(found: &Metadata) -> bool {
    let age = found.modified().ok().and_then(|written| SystemTime::now().duration_since(written).ok());
    age >= Some(NEW_TIME_MAX)
}

/// A file that is to be stored. Dropped before it is, it is removed.
#[derive(Debug)]
pub(crate) struct PutFile {
    objects: Arc<Objects>,
    name: String,
    is_settled: bool,
}

impl PutFile {
    /// That of a name; it need not be there yet.
    pub(crate) fn new(objects: &Arc<Objects>, name: String) -> PutFile {
        PutFile { objects: objects.clone(), name, is_settled: false }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.objects.store.home.put().join(&self.name)
    }

    /// There is no such file any more, or there never was.
    pub(crate) fn settle(mut self) {
        self.is_settled = true;
    }

    /// Makes an object of it. Blocks.
    ///
    /// # Errors
    /// As [`Store::adopt`].
    pub(crate) fn adopt(self, key: Key, hold: Hold) -> Result<Content, StoreError> {
        let adopted = self.objects.store.adopt(key, &self.name, (hold, false));
        self.settle();
        adopted
    }
}

impl Drop for PutFile {
    fn drop(&mut self) {
        if !self.is_settled {
            let (store, name) = (self.objects.store.clone(), std::mem::take(&mut self.name));
            self.objects.files.order(move || store.drop_put(&name));
        }
    }
}
