//! Replaces the history of a journal by the records that rebuild what it led to.
//!
//! [`Journal::start_compaction`] begins a new segment, so that everything before it can go as a whole. The caller
//! writes a snapshot beside it, in as many steps and on whatever thread it likes, while appends go on.
//! [`Journal::finish_compaction`] gives the snapshot its name; the files that it replaces count no more then, and go
//! when it suits ([`Replaced::remove`]): that of a large file takes long. A crash at any point leaves the old files
//! whole or the new one.

use crate::disk::{Disk, DiskFile};
use crate::error::JournalError;
use crate::format::{FileKind, FileName, HEADER_BYTES, Header, Position, push_varint, u32_at};
use crate::journal::Journal;
use crate::layout::disk_error;
use crate::limits::{GROUP_BYTES, RECORD_BYTES_MAX, SNAPSHOT_UNSYNCED_BYTES};
use crate::places::Older;

/// Writes a snapshot. [`Journal::abandon_compaction`] gives it up; what it wrote goes at the next compaction or opening
/// at the latest.
#[derive(Debug)]
pub struct Compactor<F> {
    file: F,
    path: String,
    number: u64,
    first_seq: u64,
    position: Position,
    synced_bytes: u64,
    body: Vec<u8>,
    out: Vec<u8>,
    records: u64,
}

/// A snapshot that is complete and on disk, and does not count yet.
#[derive(Debug)]
pub struct Snapshot {
    number: u64,
    bytes: u64,
    records: u64,
}

/// What a compaction did.
#[derive(Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Records in the snapshot.
    pub records: u64,
    /// Bytes of the snapshot.
    pub bytes: u64,
    /// Bytes of the files that it replaced.
    pub bytes_replaced: u64,
    /// These files, which are still there.
    pub replaced: Replaced,
}

/// Files that do not count any more. Dropped, they go at the next opening.
#[derive(Debug, PartialEq, Eq)]
pub struct Replaced(Vec<String>);

impl Replaced {
    /// Their number.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Removes them, on whatever thread. What cannot be removed goes at the next opening.
    pub fn remove<D: Disk>(self, disk: &D) {
        for name in self.0 {
            let _ = disk.remove(&name);
        }
    }
}

impl<F: DiskFile> Compactor<F> {
    /// The snapshot must rebuild what all records below this number have built.
    pub fn first_seq(&self) -> u64 {
        self.first_seq
    }

    /// Adds a record to the snapshot.
    ///
    /// # Errors
    /// What the file system says. The compaction is then to be given up with [`Journal::abandon_compaction`], and
    /// tried again later.
    ///
    /// # Panics
    /// When the record is longer than [`RECORD_BYTES_MAX`].
    pub fn append(&mut self, record: &[u8]) -> Result<(), JournalError> {
        assert!(record.len() <= RECORD_BYTES_MAX, "a record of {} bytes is over the limit", record.len());
        if !self.body.is_empty() && self.body.len() + record.len() > GROUP_BYTES {
            self.write_group()?;
        }
        push_varint(&mut self.body, record.len() as u64);
        self.body.extend_from_slice(record);
        self.records += 1;
        Ok(())
    }

    /// Ends the snapshot and has it on disk. This may take long and needs nothing of the journal.
    ///
    /// # Errors
    /// What the file system says. The compaction is then to be given up.
    pub fn finish(mut self) -> Result<Snapshot, JournalError> {
        if !self.body.is_empty() {
            self.write_group()?;
        }
        // A group without records is the end.
        self.write_group()?;
        self.sync()?;
        Ok(Snapshot { number: self.number, bytes: self.position.offset, records: self.records })
    }

    fn write_group(&mut self) -> Result<(), JournalError> {
        self.out.clear();
        // Nothing of a snapshot counts before all of it is on disk, so no group speaks of what is.
        let synced = self.position.offset;
        self.position.push_group(&mut self.out, synced, &self.body);
        self.body.clear();
        self.file.append(&self.out).map_err(|source| JournalError::Disk {
            action: "write to",
            file: self.path.clone(),
            source,
        })?;
        // Whoever syncs another file meanwhile may have to wait until all of this one is on disk.
        if self.position.offset - self.synced_bytes >= SNAPSHOT_UNSYNCED_BYTES { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        self.synced_bytes = self.position.offset;
        self.file.sync().map_err(|source| JournalError::Disk {
            action: "sync",
            file: self.path.clone(),
            source,
        })
    }
}

impl<D: Disk> Journal<D> {
    /// Begins a compaction: everything appended so far is synced, and what comes goes to a new segment. An
    /// earlier compaction that is not finished is given up.
    ///
    /// # Errors
    /// What the file system says; the journal goes on as it was.
    pub fn start_compaction(&mut self) -> Result<Compactor<D::File>, JournalError> {
        self.sync()?;
        self.abandon_compaction();
        // A segment without records is as good as a new one.
        if self.segment_has_records() {
            self.roll()?;
        }
        let name = FileName::snapshot(self.number);
        let header = Header {
            kind: FileKind::Snapshot,
            id: self.id(),
            number: name.number,
            first_seq: self.next_seq,
            previous_bytes: 0,
        }
        .encode();
        let temporary = name.temporary();
        let failed = |action, source| disk_error(&self.disk, action, &temporary, source);
        let mut file = self.disk.create(&temporary).map_err(|source| failed("create", source))?;
        if let Err(source) = file.append(&header) {
            let error = failed("write to", source);
            self.remove(std::slice::from_ref(&temporary));
            return Err(error);
        }
        self.compaction = Some(name.number);
        Ok(Compactor {
            file,
            path: self.disk.path(&temporary),
            number: name.number,
            first_seq: self.next_seq,
            position: Position::after_header(u32_at(&header, HEADER_BYTES as usize - 4)),
            synced_bytes: 0,
            body: Vec::new(),
            out: Vec::new(),
            records: 0,
        })
    }

    /// Puts a snapshot in the place of everything before it.
    ///
    /// # Errors
    /// [`JournalError::CompactionReplaced`], or what the file system says. The old files are then all there, and
    /// the next compaction does the work.
    pub fn finish_compaction(&mut self, snapshot: Snapshot) -> Result<Compacted, JournalError> {
        if self.compaction != Some(snapshot.number) {
            return Err(JournalError::CompactionReplaced);
        }
        let name = FileName::snapshot(snapshot.number);
        let temporary = name.temporary();
        if let Err(source) = self.disk.rename(&temporary, &name.to_string()) {
            self.abandon_compaction();
            return Err(disk_error(&self.disk, "rename", &temporary, source));
        }
        self.compaction = None;
        // The old files go only when the new name cannot be lost any more.
        self.disk.sync_dir().map_err(|source| disk_error(&self.disk, "sync", "", source))?;
        // Those that are replaced are closed, which gives their room on the disk free.
        let (replaced, kept): (Vec<_>, Vec<_>) =
            (self.older.drain(..)).partition(|older| older.name.number < name.number || older.name == name);
        self.older = kept;
        let file = self.disk.open(&name.to_string()).ok();
        self.older.insert(0, Older { name, bytes: snapshot.bytes, file });
        let gone = replaced.iter().filter(|older| older.name != name);
        Ok(Compacted {
            records: snapshot.records,
            bytes: snapshot.bytes,
            bytes_replaced: replaced.iter().map(|older| older.bytes).sum(),
            replaced: Replaced(gone.map(|older| older.name.to_string()).collect()),
        })
    }

    /// Gives the compaction that was begun up, if there is one, and removes what it wrote. Its compactor and its
    /// snapshot are worthless from now on.
    pub fn abandon_compaction(&mut self) {
        if let Some(number) = self.compaction.take() {
            self.remove(&[FileName::snapshot(number).temporary()]);
        }
    }
}
