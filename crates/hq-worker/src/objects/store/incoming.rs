//! Bytes that come into a store one after the other.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use hq_model::checksum::Checksum;

use super::{Area, Content, Hold, Key, Store, StoreError, Whole, at, remove_file, stamp, written_at};

/// Bytes on their way into the store. Dropped before the end, they are gone.
#[derive(Debug)]
pub(crate) struct Incoming {
    store: Arc<Store>,
    file: File,
    path: PathBuf,
    reserved: u64,
    area: Area,
    offset: u64,
    checksum: Checksum,
    is_kept: bool,
}

impl Incoming {
    /// In a file that was made for it.
    pub(super) fn new(
        store: &Arc<Store>,
        (file, path): (File, PathBuf),
        (area, reserved): (Area, u64),
    ) -> Incoming {
        let checksum = Checksum::default();
        Incoming { store: store.clone(), file, path, reserved, area, offset: 0, checksum, is_kept: false }
    }

    /// Takes the next ones.
    ///
    /// # Errors
    /// When there are more than were said, or the disk is full.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let more = (self.offset + bytes.len() as u64).saturating_sub(self.reserved);
        if more > 0 {
            self.store.reserve_more(self.area, more)?;
            self.reserved += more;
        }
        self.file.write_all(bytes).map_err(at(&self.path))?;
        self.checksum.add(bytes);
        self.offset += bytes.len() as u64;
        Ok(())
    }

    // What has come.
    pub(super) fn content(&self, is_dir: bool) -> Content {
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
        let whole = Whole { content, written, hold, area: self.area };
        self.store.shelve(key, &self.path, whole, self.reserved)?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.is_kept {
            self.store.shelf().give_back(self.area, self.reserved);
            remove_file(&self.path);
        }
    }
}
