//! The journal that is being written: opened, appended to, synced, and rolled into a new segment.
//!
//! A segment is written by one process only, from its creation to its first failure: whatever goes wrong, the
//! records that are not known to be on disk go into a new segment, whose header says how much of the one before
//! it counts. So there is one way to recover, and no file is ever changed in the middle.

use std::collections::VecDeque;
use std::{fmt, mem};

use crate::disk::{Disk, DiskFile, DiskNote};
use crate::error::{Damage, JournalError, OpenError};
use crate::format::{FileKind, FileName, HEADER_BYTES, Header, JournalId, Position, push_varint, u32_at};
use crate::layout::{Layout, disk_error, open_all};
use crate::limits::{GROUP_BYTES, RECORD_BYTES_MAX, SEGMENT_BYTES};
use crate::note::Note;
use crate::places::Older;
use crate::reader::{GroupReader, Next};
use crate::replay::{Apply, Replay, Tail, walk};

/// How to open a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The journal that must be there; another one is refused.
    pub expect: Option<JournalId>,
    /// The id of the journal that is made where there is none; without it there must be one.
    pub create: Option<JournalId>,
    /// Bytes of a segment after which the next write begins a new one.
    pub segment_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { expect: None, create: None, segment_bytes: SEGMENT_BYTES }
    }
}

/// A journal open for appending. Only one process can have it.
///
/// [`append`](Self::append) copies a record into memory, [`write`](Self::write) hands what was appended to the
/// operating system (it outlives the process), [`sync`](Self::sync) has it on disk (it outlives a power failure).
/// A record is held in memory until it is synced. After an error, the same call may be repeated at any time: it
/// writes what is not known to be on disk to a clean place.
pub struct Journal<D: Disk> {
    pub(crate) disk: D,
    pub(crate) lock: D::Lock,
    /// Says how much of the last segment is on disk; none when the file system refuses.
    note: Option<D::Note>,
    id: JournalId,
    segment_bytes: u64,
    /// The segment that is written; none until the first one was made.
    pub(crate) file: Option<D::File>,
    /// Its number.
    pub(crate) number: u64,
    /// Where its next group goes.
    pub(crate) position: Position,
    /// How much of it is safely on disk.
    pub(crate) synced_bytes: u64,
    /// Something went wrong: the rest goes to a new segment.
    pub(crate) must_roll: bool,
    /// The segment that is written was not found as it must be: its content is looked at before it counts.
    pub(crate) is_suspect: bool,
    /// The records that are not synced, as in the body of a group.
    pending: Vec<u8>,
    /// Where groups end in `pending`, besides at the end of each write.
    cuts: VecDeque<usize>,
    /// Where the group of the next record begins in `pending`.
    group_start: usize,
    /// How much of `pending` the operating system has.
    written: usize,
    pub(crate) next_seq: u64,
    written_seq: u64,
    synced_seq: u64,
    /// Groups on their way to the file.
    out: Vec<u8>,
    /// The other files that count.
    pub(crate) older: Vec<Older<D::File>>,
    /// Which of them is looked at next.
    pub(crate) turn: usize,
    /// The number of the compaction that may be finished.
    pub(crate) compaction: Option<u64>,
}

/// How big a journal is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes of all its files.
    pub bytes: u64,
    /// Bytes of the snapshot among them: what the last compaction left.
    pub snapshot_bytes: u64,
    /// How many segments it has.
    pub segments: u64,
}

impl<D: Disk> Journal<D> {
    /// Replays a journal and opens it for appending, or makes one.
    ///
    /// `apply` gets each record with its number. All records of a snapshot carry the number of the last record
    /// that the snapshot replaced. An unfinished end is cut and reported; everything that was read is safely on disk
    /// when this returns.
    ///
    /// # Errors
    /// When the journal is in use, is not the expected one, is damaged, when there is none and none is to be made,
    /// when the file system refuses, or when `apply` does. Nothing is changed then.
    pub fn open<E: fmt::Display + fmt::Debug>(
        disk: D,
        options: &Options,
        apply: &mut Apply<'_, E>,
    ) -> Result<(Self, Replay), OpenError<E>> {
        let lock = disk.lock().map_err(JournalError::from)?;
        let note = Note::read(&disk)?;
        let layout = Layout::read(&disk)?;
        let files = open_all(&disk, &layout, options.expect, false)?;
        let mut older: Vec<_> = files.iter().map(|file| (file.name, file.size)).collect();
        if let Some(note) = note.filter(|_| files.is_empty()) {
            // It had files: another one is not begun in their place.
            let file = disk.path(&FileName::segment(note.number).to_string());
            return Err(JournalError::MissingFile { file, seq: 0 }.into());
        }
        let (replay, tail) = match (files.is_empty(), options.expect.or(options.create)) {
            (true, Some(id)) if options.create.is_some() => (Replay::new(id, true), None),
            _ => walk(&disk, &layout, files, note, apply).map(|(replay, tail)| (replay, Some(tail)))?,
        };
        let mut pending = Vec::new();
        let mut cuts = VecDeque::new();
        if let Some(tail) = tail {
            read_pending(&disk, &tail, &mut pending, &mut cuts)?;
            if let Some((_, size)) = older.last_mut() {
                *size = tail.kept.offset;
            }
        }
        let older = (older.into_iter().enumerate())
            .map(|(index, (name, bytes))| Older::open(&disk, name, bytes, index))
            .collect::<Result<_, _>>()?;
        let first_seq = tail.map_or(0, |tail| tail.kept_seq);
        let mut journal = Self {
            disk,
            lock,
            note: None,
            id: replay.id,
            segment_bytes: options.segment_bytes,
            file: None,
            number: tail.map_or(0, |tail| tail.number),
            position: Position { salt: 0, chain: 0, offset: tail.map_or(0, |tail| tail.kept.offset) },
            synced_bytes: tail.map_or(0, |tail| tail.kept.offset),
            must_roll: true,
            is_suspect: false,
            group_start: pending.len(),
            written: 0,
            pending,
            cuts,
            next_seq: replay.next_seq,
            written_seq: first_seq,
            synced_seq: first_seq,
            out: Vec::new(),
            older,
            turn: 0,
            compaction: None,
        };
        // The file before the new one is already among the older ones.
        journal.roll()?;
        journal.remove(&layout.leftovers);
        if let Some(tail) = tail.filter(|_| replay.torn.is_some()) {
            // The new segment says that it does not count: if it stays, it only takes room.
            let _ = journal.disk.cut(&FileName::segment(tail.number).to_string(), tail.end);
        }
        Ok((journal, replay))
    }

    /// Which journal this is.
    pub fn id(&self) -> JournalId {
        self.id
    }

    /// Adds a record and returns its number: 0 for the first of a journal, then one more each time. This is a
    /// copy into memory and cannot fail.
    ///
    /// # Panics
    /// When the record is longer than [`RECORD_BYTES_MAX`].
    #[inline]
    pub fn append(&mut self, record: &[u8]) -> u64 {
        assert!(record.len() <= RECORD_BYTES_MAX, "a record of {} bytes is over the limit", record.len());
        let group_bytes = self.pending.len() - self.group_start;
        if group_bytes + record.len() > GROUP_BYTES && group_bytes > 0 {
            self.group_start = self.pending.len();
            self.cuts.push_back(self.group_start);
        }
        push_varint(&mut self.pending, record.len() as u64);
        self.pending.extend_from_slice(record);
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    /// Hands everything appended to the operating system.
    ///
    /// # Errors
    /// What the file system says. The records stay in memory and are written to a new segment at the next call.
    pub fn write(&mut self) -> Result<(), JournalError> {
        if self.must_roll {
            return self.roll();
        }
        if self.written == self.pending.len() {
            return Ok(());
        }
        if self.position.offset >= self.segment_bytes.max(HEADER_BYTES + 1) {
            self.sync_written()?;
            return self.roll();
        }
        self.out.clear();
        let mut position = self.position;
        let synced = self.synced_bytes;
        push_groups(&mut self.out, &mut position, synced, &self.pending, self.written, &self.cuts);
        self.append_out("write to")?;
        self.position = position;
        self.written = self.pending.len();
        self.group_start = self.written;
        if self.cuts.back() != Some(&self.written) {
            self.cuts.push_back(self.written);
        }
        self.written_seq = self.next_seq;
        Ok(())
    }

    /// Has everything appended on disk, in files that will be found again, and only then succeeds.
    ///
    /// # Errors
    /// What the file system says. The records stay in memory and are written to a new segment at the next call.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        self.write()?;
        self.sync_written()?;
        self.look_at_places()
    }

    /// Leaves the journal with a mark that everything before it was on disk, so that damage to the last records
    /// is told from an unfinished write.
    ///
    /// # Errors
    /// What the file system says.
    pub fn close(mut self) -> Result<(), JournalError> {
        self.sync()?;
        self.out.clear();
        let mut position = self.position;
        position.push_group(&mut self.out, self.synced_bytes, &[]);
        self.append_out("write to")?;
        self.position = position;
        self.sync_file()?;
        self.synced_bytes = self.position.offset;
        self.take_note();
        Ok(())
    }

    /// The number that the next record gets.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// All records below this number were handed to the operating system.
    pub fn written_seq(&self) -> u64 {
        self.written_seq
    }

    /// All records below this number are on disk.
    pub fn synced_seq(&self) -> u64 {
        self.synced_seq
    }

    /// Bytes held in memory because they are not on disk.
    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// How big the journal is.
    pub fn size(&self) -> Size {
        let mut size = Size { bytes: self.position.offset, snapshot_bytes: 0, segments: 1 };
        for Older { name, bytes, .. } in &self.older {
            size.bytes += bytes;
            match name.kind {
                FileKind::Snapshot => size.snapshot_bytes += bytes,
                FileKind::Segment => size.segments += 1,
            }
        }
        size
    }

    /// Whether anything was written to the current segment.
    pub(crate) fn segment_has_records(&self) -> bool {
        self.position.offset > HEADER_BYTES
    }

    /// Goes on in a new segment, which begins with everything that is not known to be on disk. All of it is on
    /// disk when this succeeds; until then nothing of the new segment counts.
    pub(crate) fn roll(&mut self) -> Result<(), JournalError> {
        self.must_roll = true;
        self.put_back()?;
        let name = FileName::segment(self.number + 1);
        let header = Header {
            kind: FileKind::Segment,
            id: self.id,
            number: name.number,
            first_seq: self.synced_seq,
            previous_bytes: self.synced_bytes,
        }
        .encode();
        let mut position = Position::after_header(u32_at(&header, header.len() - 4));
        self.out.clear();
        self.out.extend_from_slice(&header);
        push_groups(&mut self.out, &mut position, HEADER_BYTES, &self.pending, 0, &self.cuts);
        let file = self.place(name)?;
        if let Some(before) = self.file.replace(file) {
            let (name, bytes) = (FileName::segment(self.number), self.synced_bytes);
            self.older.push(Older { name, bytes, file: Some(before) });
        }
        self.note = self.disk.open_note().ok();
        self.number = name.number;
        self.position = position;
        self.must_roll = false;
        self.is_suspect = false;
        self.written = self.pending.len();
        self.written_seq = self.next_seq;
        self.all_written_is_synced();
        Ok(())
    }

    /// Makes a file of what is in `out`, whole and under its name, or not at all.
    fn place(&mut self, name: FileName) -> Result<D::File, JournalError> {
        let temporary = name.temporary();
        let placed = self.try_place(&temporary, &name.to_string());
        if placed.is_err() {
            // On a full disk, half a file would keep others from the last free bytes.
            self.remove(&[temporary]);
        }
        self.out.clear();
        shrink(&mut self.out);
        placed
    }

    fn try_place(&self, temporary: &str, name: &str) -> Result<D::File, JournalError> {
        let disk = &self.disk;
        let failed = |action, source| disk_error(disk, action, temporary, source);
        let mut file = disk.create(temporary).map_err(|source| failed("create", source))?;
        file.append(&self.out).map_err(|source| failed("write to", source))?;
        file.sync().map_err(|source| failed("sync", source))?;
        disk.rename(temporary, name).map_err(|source| failed("rename", source))?;
        disk.sync_dir().map_err(|source| disk_error(disk, "sync", "", source))?;
        Ok(file)
    }

    /// Syncs what was written, if there is any of it.
    fn sync_written(&mut self) -> Result<(), JournalError> {
        if self.synced_bytes == self.position.offset {
            return Ok(());
        }
        self.sync_file()?;
        self.all_written_is_synced();
        Ok(())
    }

    fn append_out(&mut self, action: &'static str) -> Result<(), JournalError> {
        let result = self.file.as_mut().expect("a journal that need not roll has a file").append(&self.out);
        self.out.clear();
        shrink(&mut self.out);
        result.map_err(|source| self.failed(action, source))
    }

    fn sync_file(&mut self) -> Result<(), JournalError> {
        let result = self.file.as_mut().expect("a journal that need not roll has a file").sync();
        result.map_err(|source| self.failed("sync", source))?;
        self.look_at_length()
    }

    /// Whether the segment has the bytes that were written to it, and no others.
    fn look_at_length(&mut self) -> Result<(), JournalError> {
        let size = self.file.as_ref().expect("a journal that need not roll has a file").size();
        if size.map_err(|source| self.failed("look at", source))? != self.position.offset {
            self.must_roll = true;
            self.is_suspect = true;
            return Err(self.gone(FileName::segment(self.number), "its length has changed"));
        }
        Ok(())
    }

    /// A part of what was written may be lost even when a later sync succeeds: leave this file.
    fn failed(&mut self, action: &'static str, source: std::io::Error) -> JournalError {
        self.must_roll = true;
        disk_error(&self.disk, action, &FileName::segment(self.number).to_string(), source)
    }

    fn all_written_is_synced(&mut self) {
        self.synced_bytes = self.position.offset;
        self.take_note();
        self.synced_seq = self.written_seq;
        let synced = mem::take(&mut self.written);
        if synced == self.pending.len() {
            self.pending.clear();
            shrink(&mut self.pending);
        } else {
            self.pending.drain(..synced);
        }
        self.group_start = self.group_start.saturating_sub(synced);
        while self.cuts.front().is_some_and(|&cut| cut <= synced) {
            self.cuts.pop_front();
        }
        self.cuts.iter_mut().for_each(|cut| *cut -= synced);
    }

    /// The note is not waited for, and may fail: it then says less than is true.
    fn take_note(&mut self) {
        let note = Note { id: self.id, number: self.number, bytes: self.synced_bytes };
        if self.note.as_mut().is_some_and(|file| file.write(&note.encode()).is_err()) {
            self.note = None;
        }
    }

    /// Removes files that do not count. If it does not work, the next opening tries again.
    pub(crate) fn remove(&self, names: &[String]) {
        for name in names {
            let _ = self.disk.remove(name);
        }
    }
}

/// Frames `pending[from..]`, with groups that end at the cuts.
fn push_groups(
    out: &mut Vec<u8>,
    position: &mut Position,
    synced: u64,
    pending: &[u8],
    from: usize,
    cuts: &VecDeque<usize>,
) {
    let mut start = from;
    for end in cuts.iter().copied().chain([pending.len()]) {
        if end > start {
            position.push_group(out, synced, &pending[start..end]);
            start = end;
        }
    }
}

/// Reads what may not have been on disk when the last process ended: it may have been read from memory that a
/// failed sync left behind, and is written again.
fn read_pending<D: Disk>(
    disk: &D,
    tail: &Tail,
    pending: &mut Vec<u8>,
    cuts: &mut VecDeque<usize>,
) -> Result<(), JournalError> {
    let name = FileName::segment(tail.number).to_string();
    let file = disk.open(&name).map_err(|source| disk_error(disk, "open", &name, source))?;
    let mut reader = GroupReader::new(&file, tail.kept, tail.end);
    while let Next::Group { body, .. } =
        reader.next().map_err(|source| disk_error(disk, "read", &name, source))?
    {
        pending.extend_from_slice(body);
        cuts.push_back(pending.len());
    }
    // It was whole a moment ago.
    let offset = reader.position().offset;
    if offset != tail.end {
        let (file, seq) = (disk.path(&name), tail.kept_seq);
        return Err(JournalError::Damaged { file, offset, seq, damage: Damage::Checksum });
    }
    Ok(())
}

/// Gives memory back after something unusually long.
fn shrink(buffer: &mut Vec<u8>) {
    if buffer.capacity() > 16 * GROUP_BYTES && buffer.len() <= GROUP_BYTES {
        buffer.shrink_to(GROUP_BYTES);
    }
}
