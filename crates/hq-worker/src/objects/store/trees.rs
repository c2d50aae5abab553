//! Directories as objects: packed when a task leaves one, and unpacked once for all tasks here that take it.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;

use super::{Content, Hold, Incoming, Key, Store, StoreError, at, remove_file};
use crate::limits::PIECE_MAX;
use crate::objects::home;
use crate::remove::remove_dir_all;
use crate::tree::{Access, Listing, unpack};

/// Names of directories that are unpacked begin with it.
const UNPACKED: &str = "d-";

/// An object that is unpacked: removed when neither the store nor a task has it any more.
#[derive(Debug)]
pub(in crate::objects) struct Tree {
    path: PathBuf,
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

    /// Unpacks an object that is a directory, unless that is done. It counts once more as what is used. One after the other.
    ///
    /// # Errors
    /// When it is not here as it was, there is no room, or it cannot be unpacked.
    pub(in crate::objects) fn unpack(&self, key: &Key) -> Result<Arc<Tree>, StoreError> {
        let known = self.shelf().entries.get(key).and_then(|entry| entry.tree.clone());
        if let Some(tree) = known.filter(|tree| tree.path.is_dir()) {
            self.look(key)?;
            return Ok(tree);
        }
        let (file, content) = self.read(key)?;
        self.forget_tree(key);
        self.reserve(content.size, Store::bytes_coming)?;
        let path = self.home.path().join(format!("{UNPACKED}{}", self.shelf().tick()));
        let tree = Arc::new(Tree { path });
        let shelved = unpack(io::BufReader::with_capacity(PIECE_MAX, file), &tree.path, Access::ReadOnly)
            .map_err(StoreError::Tree)
            .and_then(|()| self.shelve_tree(key, &tree));
        if shelved.is_err() {
            self.shelf().used -= content.size;
        }
        shelved.map(|()| tree)
    }

    fn shelve_tree(&self, key: &Key, tree: &Arc<Tree>) -> Result<(), StoreError> {
        let mut shelf = self.shelf();
        let entry = shelf.entries.get_mut(key).ok_or(StoreError::Gone)?;
        entry.tree = Some(tree.clone());
        Ok(())
    }

    // Others have removed what was unpacked.
    fn forget_tree(&self, key: &Key) {
        let mut shelf = self.shelf();
        let Some(entry) = shelf.entries.get_mut(key) else { return };
        let (tree, size) = (entry.tree.take(), entry.content.size);
        shelf.used -= if tree.is_some() { size } else { 0 };
    }

    /// Has an object appear below a directory of this store, without a copy: a file as a hard link.
    ///
    /// # Errors
    /// When it is not here as it was, or the link cannot be made.
    pub(crate) fn link(&self, key: &Key, to: &Path) -> Result<(), StoreError> {
        let (path, _) = self.look(key)?;
        make_parent(to)?;
        fs::hard_link(path, to).map_err(at(to))
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
