//! Hands every record of a journal to a reader, in order, and finds where the journal ends.

use std::collections::VecDeque;
use std::{fmt, io};

use crate::disk::Disk;
use crate::error::{Damage, JournalError, OpenError};
use crate::format::{FileKind, HEADER_BYTES, JournalId, Position, records};
use crate::layout::{Layout, Opened, counted_bytes, disk_error, open_all};
use crate::limits::READ_ATTEMPTS;
use crate::note::Note;
use crate::reader::{GroupReader, Next, look_beyond};

/// Gets each record with its number, and may refuse it.
pub type Apply<'a, E> = dyn FnMut(u64, &[u8]) -> Result<(), E> + 'a;

/// What a journal held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Which journal it is.
    pub id: JournalId,
    /// Whether it was made just now.
    pub created: bool,
    /// The number that the next record gets.
    pub next_seq: u64,
    /// How many records came from a snapshot.
    pub snapshot_records: u64,
    /// How many records came from segments.
    pub records: u64,
    /// Bytes of all files that count.
    pub bytes: u64,
    /// What a crash left unfinished at the end.
    pub torn: Option<TornTail>,
}

impl Replay {
    pub(crate) fn new(id: JournalId, created: bool) -> Self {
        Self { id, created, next_seq: 0, snapshot_records: 0, records: 0, bytes: 0, torn: None }
    }
}

/// The unfinished end of a journal: it was never acknowledged and does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The last file.
    pub file: String,
    /// Where it begins.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
}

/// Reads a journal without changing it, also while another process writes it: a record that is being written
/// is a [`TornTail`] then.
///
/// `apply` gets each record with its number. All records of a snapshot carry the number of the last record
/// that the snapshot replaced (0 if it replaced none).
///
/// # Errors
/// When there is no journal, when it is not the expected one, when it is damaged, or when `apply` refuses.
pub fn replay<D: Disk, E: fmt::Display + fmt::Debug>(
    disk: &D,
    expect: Option<JournalId>,
    apply: &mut Apply<'_, E>,
) -> Result<Replay, OpenError<E>> {
    for _ in 0..READ_ATTEMPTS {
        let note = Note::read(disk)?;
        let layout = Layout::read(disk)?;
        match open_all(disk, &layout, expect, true) {
            Ok(files) => match walk(disk, &layout, files, note, apply) {
                // What was read cannot be taken back.
                Err(OpenError::Journal(error)) if vanished(&error) => break,
                result => return result.map(|(replay, _)| replay),
            },
            Err(error) if vanished(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(JournalError::Unsteady { directory: disk.path("") }.into())
}

/// As [`replay`], and stops before the segment record of this number. A snapshot that goes beyond it is read as
/// a whole.
///
/// # Errors
/// As [`replay`].
pub fn replay_until<D: Disk, E: fmt::Display + fmt::Debug>(
    disk: &D,
    until: u64,
    apply: &mut Apply<'_, E>,
) -> Result<(), OpenError<E>> {
    let mut wrapped = |seq: u64, record: &[u8]| {
        if seq >= until { Err(Stop::Reached) } else { apply(seq, record).map_err(Stop::Refused) }
    };
    match replay(disk, None, &mut wrapped) {
        Ok(_) | Err(OpenError::Refused { reason: Stop::Reached, .. }) => Ok(()),
        Err(OpenError::Refused { seq, reason: Stop::Refused(reason) }) => {
            Err(OpenError::Refused { seq, reason })
        }
        Err(OpenError::Journal(error)) => Err(error.into()),
    }
}

/// Why a bounded replay ends early.
#[derive(Debug)]
enum Stop<E> {
    Reached,
    Refused(E),
}

impl<E: fmt::Display> fmt::Display for Stop<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Reached => f.write_str("the end that was asked for"),
            Stop::Refused(reason) => reason.fmt(f),
        }
    }
}

/// Whether a compaction removed a file after it was listed.
fn vanished(error: &JournalError) -> bool {
    matches!(error, JournalError::Disk { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// The end of the last segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Number of the segment.
    pub(crate) number: u64,
    /// Behind the last group that is known to have been safely on disk.
    pub(crate) kept: Position,
    /// The number of the first record behind it.
    pub(crate) kept_seq: u64,
    /// Behind the last whole group.
    pub(crate) end: u64,
}

/// Reads files in order.
pub(crate) fn walk<D: Disk, E: fmt::Display + fmt::Debug>(
    disk: &D,
    layout: &Layout,
    mut files: Vec<Opened<D::File>>,
    note: Option<Note>,
    apply: &mut Apply<'_, E>,
) -> Result<(Replay, Tail), OpenError<E>> {
    let Some(first) = files.first() else {
        return Err(JournalError::Missing { directory: disk.path("") }.into());
    };
    let mut replay = Replay::new(first.header.id, false);
    let missing =
        |index: usize, seq| JournalError::MissingFile { file: disk.path(&layout.missing(index)), seq };
    let mut tail = None;
    for index in 0..files.len() {
        if !layout.is_due(index) {
            return Err(missing(index, replay.next_seq).into());
        }
        let next = files.get(index + 1);
        let counted = next.and_then(|next| counted_bytes(layout, index, &files[index], next));
        let file = &mut files[index];
        let extent = Extent { counted, proven: Note::proven_bytes(note, replay.id, file.name) };
        match file.name.kind {
            FileKind::Snapshot => read_snapshot(disk, file, &mut replay, apply)?,
            FileKind::Segment => tail = Some(read_segment(disk, file, extent, &mut replay, apply)?),
        }
    }
    if let Some(file) = Note::missing(note, replay.id, layout) {
        let file = disk.path(&file.to_string());
        return Err(JournalError::MissingFile { file, seq: replay.next_seq }.into());
    }
    match tail {
        Some(tail) => Ok((replay, tail)),
        None => Err(missing(files.len(), replay.next_seq).into()),
    }
}

/// Reads a snapshot, all of which must be whole.
pub(crate) fn read_snapshot<D: Disk, E: fmt::Display + fmt::Debug>(
    disk: &D,
    opened: &mut Opened<D::File>,
    replay: &mut Replay,
    apply: &mut Apply<'_, E>,
) -> Result<(), OpenError<E>> {
    let name = opened.name.to_string();
    let file = opened.take(disk)?;
    let first_seq = opened.header.first_seq;
    let seq = first_seq.saturating_sub(1);
    let damaged = |offset, damage| JournalError::Damaged { file: disk.path(&name), offset, seq, damage };
    let mut reader = GroupReader::new(&file, Position::after_header(opened.crc), opened.size);
    loop {
        let here = reader.position().offset;
        match reader.next().map_err(|source| disk_error(disk, "read", &name, source))? {
            Next::Group { body: [], .. } => break,
            Next::Group { body, .. } => {
                for record in records(body) {
                    let record = record.ok_or_else(|| damaged(here, Damage::Content))?;
                    apply(seq, record).map_err(|reason| OpenError::Refused { seq, reason })?;
                    replay.snapshot_records += 1;
                }
            }
            Next::End => return Err(damaged(here, Damage::Unfinished).into()),
            Next::Bad => return Err(damaged(here, Damage::Checksum).into()),
        }
    }
    let end = reader.position().offset;
    if end != opened.size {
        return Err(damaged(end, Damage::Trailing).into());
    }
    replay.next_seq = first_seq;
    replay.bytes += end;
    Ok(())
}

/// What is known of a segment's length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// How many bytes count, if a segment follows that says so.
    pub(crate) counted: Option<u64>,
    /// How many bytes were safely on disk, if the note speaks of this segment.
    pub(crate) proven: Option<u64>,
}

/// Reads a segment: up to the length that counts, or to its end if it is the last.
pub(crate) fn read_segment<D: Disk, E: fmt::Display + fmt::Debug>(
    disk: &D,
    opened: &mut Opened<D::File>,
    Extent { counted, proven }: Extent,
    replay: &mut Replay,
    apply: &mut Apply<'_, E>,
) -> Result<Tail, OpenError<E>> {
    let name = opened.name.to_string();
    let file = opened.take(disk)?;
    let damaged = |offset, seq, damage| JournalError::Damaged { file: disk.path(&name), offset, seq, damage };
    let found = opened.header.first_seq;
    if found != replay.next_seq {
        return Err(damaged(0, replay.next_seq, Damage::Sequence { found }).into());
    }
    let size = counted.unwrap_or(opened.size).min(opened.size);
    let mut reader = GroupReader::new(&file, Position::after_header(opened.crc), size);
    // The groups that may not have been on disk when the last one was written.
    let mut unproven = VecDeque::new();
    let read_error = |source| disk_error(disk, "read", &name, source);
    let bad = loop {
        let here = reader.position().offset;
        match reader.next().map_err(read_error)? {
            Next::Group { at, synced, body } => {
                unproven.push_back((at, replay.next_seq));
                while unproven.front().is_some_and(|(at, _)| at.offset < synced) {
                    unproven.pop_front();
                }
                for record in records(body) {
                    let seq = replay.next_seq;
                    let record = record.ok_or_else(|| damaged(here, seq, Damage::Content))?;
                    apply(seq, record).map_err(|reason| OpenError::Refused { seq, reason })?;
                    replay.next_seq += 1;
                    replay.records += 1;
                }
            }
            Next::End => break false,
            Next::Bad => break true,
        }
    };
    let end = reader.position();
    let seq = replay.next_seq;
    let proven = proven.filter(|proven| counted.is_none() && end.offset < *proven);
    match counted.filter(|counted| bad || opened.size < *counted).or(proven) {
        Some(expected) => {
            let short = opened.size < expected;
            let damage = if short { Damage::Short { expected } } else { Damage::Checksum };
            return Err(damaged(end.offset, seq, damage).into());
        }
        None if bad && counted.is_none() => {
            if look_beyond(&file, end, opened.size, false).map_err(read_error)?.was_kept {
                return Err(damaged(end.offset, seq, Damage::Checksum).into());
            }
            let bytes = opened.size - end.offset;
            replay.torn = Some(TornTail { file: disk.path(&name), offset: end.offset, bytes });
        }
        _ => {}
    }
    let (kept, kept_seq) = unproven.front().copied().unwrap_or((end, seq));
    replay.bytes += end.offset;
    debug_assert!(kept.offset >= HEADER_BYTES);
    Ok(Tail { number: opened.name.number, kept, kept_seq, end: end.offset })
}
