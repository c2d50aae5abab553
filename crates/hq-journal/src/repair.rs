//! Makes a damaged journal readable again: everything up to the damage stays, everything else is put aside.
//!
//! No byte is thrown away: a file that changes is copied first, a file that no longer counts is renamed. Each step
//! leaves a journal that can be repaired again, so a crash in between does no harm.

use crate::check::{Report, check_layout};
use crate::disk::{Disk, DiskFile};
use crate::error::JournalError;
use crate::format::{ASIDE, FileKind, FileName, HEADER_BYTES, Header, JournalId, Position};
use crate::layout::{Layout, Opened, disk_error};
use crate::limits::READ_BYTES;
use crate::note::Note;
use crate::reader::{GroupReader, Next, read_full};

/// What a repair did.
#[derive(Debug)]
pub struct Repaired {
    /// What was there before.
    pub before: Report,
    /// Files that hold what does not count any more, as they are called now.
    pub aside: Vec<String>,
    /// What is there now; `None` when nothing could be kept.
    pub after: Option<Report>,
}

impl Repaired {
    /// Whole records that were there before and do not count any more. What could not be read is not among them.
    pub fn records_lost(&self) -> u64 {
        let kept = self.after.as_ref().map_or(0, |after| after.records);
        (self.before.records + self.before.records_behind).saturating_sub(kept)
    }

    /// Bytes that were there before and do not count any more, those of whole records and those of damaged ones.
    pub fn bytes_lost(&self) -> u64 {
        let bytes = |report: &Report| report.files.iter().map(|file| file.bytes).sum::<u64>();
        bytes(&self.before).saturating_sub(self.after.as_ref().map_or(0, bytes))
    }
}

/// Keeps every record up to the first damage and puts the rest aside. A journal without damage stays as it is.
///
/// # Errors
/// When the journal is in use, when there is none, when a newer release wrote it, or when the file system refuses:
/// then it may be repaired again.
pub fn repair<D: Disk>(disk: &D, expect: Option<JournalId>) -> Result<Repaired, JournalError> {
    // Where there is no journal, nothing is made.
    if Layout::read(disk)?.files.is_empty() {
        let before = check_layout(disk, Layout::default(), Note::read(disk)?, expect)?;
        return Ok(Repaired { before, aside: Vec::new(), after: None });
    }
    let _lock = disk.lock()?;
    let before = check_layout(disk, Layout::read(disk)?, Note::read(disk)?, expect)?;
    let mut aside = Vec::new();
    let mut layout = Layout::read(disk)?;
    while !layout.files.is_empty() {
        let report = check_layout(disk, layout.clone(), Note::read(disk)?, expect)?;
        if report.is_whole() {
            return Ok(Repaired { before, aside, after: Some(report) });
        }
        // Each round ends with fewer files, or with a file that is whole and was not.
        mend(disk, &layout, report, &mut aside)?;
        // It spoke of what is put aside now.
        disk.remove_note().map_err(|source| disk_error(disk, "remove the note in", "", source))?;
        sync_dir(disk)?;
        layout = Layout::read(disk)?;
    }
    Ok(Repaired { before, aside, after: None })
}

/// Takes the first problem out of the way.
fn mend<D: Disk>(
    disk: &D,
    layout: &Layout,
    report: Report,
    aside: &mut Vec<String>,
) -> Result<(), JournalError> {
    let index = report.problem_index;
    let first = layout.files[0];
    if first.kind == FileKind::Snapshot && index == 0 {
        // What the snapshot replaced may still be there.
        let older: Vec<String> = disk
            .list()
            .map_err(|source| disk_error(disk, "list", "", source))?
            .into_iter()
            .filter(|name| *name != first.to_string())
            .collect();
        let older = Layout::of(&older);
        if !older.files.is_empty() && older.files[0] != FileName::segment(first.number) && older.is_due(0) {
            return put_aside(disk, &[first], aside);
        }
    }
    let offset = match report.problem {
        Some(JournalError::Damaged { offset, .. }) if offset >= HEADER_BYTES => offset,
        // All of it is somebody else's.
        Some(error @ JournalError::Foreign { .. }) if index == 0 => return Err(error),
        // A snapshot is there and nothing else.
        _ if index == layout.files.len() && layout.files[index - 1].kind == FileKind::Snapshot => {
            return begin_segment(disk, &Opened::open(disk, first, false)?.header);
        }
        // The last segments are not there, as only the note knew.
        _ if index == layout.files.len() => return Ok(()),
        _ => return put_aside(disk, &layout.files[index..], aside),
    };
    put_aside(disk, &layout.files[index + 1..], aside)?;
    let name = layout.files[index];
    let opened = Opened::open(disk, name, false)?;
    if opened.size > offset || name.kind == FileKind::Snapshot {
        aside.push(copy_aside(disk, name)?);
    }
    if name.kind == FileKind::Snapshot {
        // The segment first: a snapshot without one is refused.
        begin_segment(disk, &opened.header)?;
    }
    keep_prefix(disk, opened, offset)
}

/// Renames files, the last one first, so that what stays is always the beginning.
fn put_aside<D: Disk>(disk: &D, files: &[FileName], aside: &mut Vec<String>) -> Result<(), JournalError> {
    for file in files.iter().rev() {
        let name = file.to_string();
        let new = free_name(disk, &name)?;
        disk.rename(&name, &new).map_err(|source| disk_error(disk, "rename", &name, source))?;
        sync_dir(disk)?;
        aside.push(disk.path(&new));
    }
    Ok(())
}

/// Copies a file to a name of its own.
fn copy_aside<D: Disk>(disk: &D, file: FileName) -> Result<String, JournalError> {
    let name = file.to_string();
    let new = free_name(disk, &name)?;
    let from = disk.open(&name).map_err(|source| disk_error(disk, "open", &name, source))?;
    let size = from.size().map_err(|source| disk_error(disk, "read", &name, source))?;
    let mut to = disk.create(&new).map_err(|source| disk_error(disk, "create", &new, source))?;
    copy(disk, &name, &from, &new, &mut to, size)?;
    to.sync().map_err(|source| disk_error(disk, "sync", &new, source))?;
    sync_dir(disk)?;
    Ok(disk.path(&new))
}

/// Replaces a file by its beginning. A snapshot gets an end.
fn keep_prefix<D: Disk>(disk: &D, mut opened: Opened<D::File>, length: u64) -> Result<(), JournalError> {
    let name = opened.name.to_string();
    let temporary = opened.name.temporary();
    let crc = opened.crc;
    let from = opened.take(disk)?;
    let mut mark = Vec::new();
    let mut kept = length;
    if opened.name.kind == FileKind::Snapshot {
        let mut last = records_end(disk, &name, &from, crc, length)?;
        kept = last.offset;
        last.push_group(&mut mark, kept, &[]);
    }
    let mut to = disk.create(&temporary).map_err(|source| disk_error(disk, "create", &temporary, source))?;
    copy(disk, &name, &from, &temporary, &mut to, kept)?;
    to.append(&mark).map_err(|source| disk_error(disk, "write to", &temporary, source))?;
    finish(disk, to, opened.name)
}

/// Where the records of a snapshot's whole beginning end: before its end mark, if it has one.
fn records_end<D: Disk>(
    disk: &D,
    name: &str,
    file: &D::File,
    crc: u32,
    length: u64,
) -> Result<Position, JournalError> {
    let mut reader = GroupReader::new(file, Position::after_header(crc), length);
    loop {
        let end = reader.position();
        match reader.next().map_err(|source| disk_error(disk, "read", name, source))? {
            Next::Group { body, .. } if !body.is_empty() => {}
            _ => return Ok(end),
        }
    }
}

/// Makes the segment that follows a snapshot, without records.
fn begin_segment<D: Disk>(disk: &D, snapshot: &Header) -> Result<(), JournalError> {
    let header = Header { kind: FileKind::Segment, previous_bytes: 0, ..*snapshot };
    let name = FileName::segment(snapshot.number);
    let temporary = name.temporary();
    let mut file =
        disk.create(&temporary).map_err(|source| disk_error(disk, "create", &temporary, source))?;
    file.append(&header.encode()).map_err(|source| disk_error(disk, "write to", &temporary, source))?;
    finish(disk, file, name)
}

fn finish<D: Disk>(disk: &D, mut file: D::File, name: FileName) -> Result<(), JournalError> {
    let temporary = name.temporary();
    file.sync().map_err(|source| disk_error(disk, "sync", &temporary, source))?;
    disk.rename(&temporary, &name.to_string())
        .map_err(|source| disk_error(disk, "rename", &temporary, source))?;
    sync_dir(disk)
}

fn copy<D: Disk>(
    disk: &D,
    from_name: &str,
    from: &D::File,
    to_name: &str,
    to: &mut D::File,
    length: u64,
) -> Result<(), JournalError> {
    let mut buffer = vec![0; READ_BYTES];
    let mut offset = 0;
    while offset < length {
        let wanted = (length - offset).min(READ_BYTES as u64) as usize;
        let count = read_full(from, &mut buffer[..wanted], offset)
            .map_err(|source| disk_error(disk, "read", from_name, source))?;
        if count == 0 {
            break;
        }
        to.append(&buffer[..count]).map_err(|source| disk_error(disk, "write to", to_name, source))?;
        offset += count as u64;
    }
    Ok(())
}

/// A name for something put aside that is not taken.
fn free_name<D: Disk>(disk: &D, name: &str) -> Result<String, JournalError> {
    let names = disk.list().map_err(|source| disk_error(disk, "list", "", source))?;
    let mut new = format!("{name}{ASIDE}");
    let mut count = 1;
    while names.contains(&new) {
        count += 1;
        new = format!("{name}{ASIDE}-{count}");
    }
    Ok(new)
}

fn sync_dir<D: Disk>(disk: &D) -> Result<(), JournalError> {
    disk.sync_dir().map_err(|source| disk_error(disk, "sync", "", source))
}
