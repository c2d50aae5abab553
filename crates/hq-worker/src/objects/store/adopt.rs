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

use super::{Content, Hold, Key, Store, StoreError, Whole, at, checksum_of, remove_file, stamp, written_at};
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
        let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
        match is_plain {
            true => Ok(self.home.put().join(name)),
            false => Err(StoreError::BadName(name.to_owned())),
        }
    }

    /// Makes such a file.
    ///
    /// # Errors
    /// When the system refuses it.
    pub(crate) fn create_put(&self, name: &str) -> Result<File, StoreError> {
        let path = self.put_path(name)?;
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
        match self.home.path().exists() {
            true => self.home.make_put_again(),
            false => self.make_again(),
        }
    }

    /// A file that was to be stored is not.
    pub(crate) fn drop_put(&self, name: &str) {
        if let Ok(path) = self.put_path(name) {
            remove_file(&path);
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
            Err(StoreError::Full { wanted, cap, .. }) if wanted <= cap && self.shelf().unheard > 0 => Ok(()),
            checked => checked,
        }
    }

    /// A file of so many bytes is coming, and counts as if it was here.
    ///
    /// # Errors
    /// When there is no room for it.
    pub(crate) fn announce(&self, name: &str, size: u64) -> Result<(), StoreError> {
        self.check_announced(size)?;
        self.shelf().coming.insert(name.to_owned(), Some(size));
        Ok(())
    }

    // Bytes of files that were announced.
    pub(super) fn bytes_announced(&self) -> u64 {
        self.shelf().coming.values().flatten().sum()
    }

    // Bytes of files in the directory `put`, at the size that was announced, but of those that are counted elsewhere.
    pub(super) fn bytes_coming(&self) -> u64 {
        let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
        for entry in fs::read_dir(self.home.put()).into_iter().flatten().flatten() {
            let size = entry.metadata().map_or(0, |found| found.len());
            sizes.insert(entry.file_name().to_string_lossy().into_owned(), size);
        }
        for (name, announced) in &self.shelf().coming {
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
        let path = self.put_path(name)?;
        // From here on its room is what is made for it.
        self.shelf().coming.insert(name.to_owned(), None);
        let adopted = self.try_to_adopt(key, &path, (hold, is_dir));
        if adopted.is_err() {
            remove_file(&path);
        }
        self.shelf().coming.remove(name);
        self.remove_abandoned();
        adopted
    }

    fn try_to_adopt(&self, key: Key, path: &Path, how: (Hold, bool)) -> Result<Content, StoreError> {
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
        self.reserve(size, Store::bytes_announced)?;
        let shelved = self.shelve_read(key, path, (file, found), how);
        if shelved.is_err() {
            self.shelf().used -= size;
        }
        shelved
    }

    // Room for it is made.
    fn shelve_read(
        &self,
        key: Key,
        path: &Path,
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
        self.shelve(key, path, Whole { content, written, hold }, size)?;
        Ok(content)
    }

    /// Removes files of clients that are gone.
    pub(super) fn remove_abandoned(&self) {
        for entry in fs::read_dir(self.home.put()).into_iter().flatten().flatten() {
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
