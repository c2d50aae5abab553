//! Says what is in a journal and where it is damaged, without changing it.

use std::convert::Infallible;
use std::io;

use crc32c::crc32c;

use crate::disk::{Disk, DiskFile};
use crate::error::{JournalError, OpenError};
use crate::format::{CRC_BYTES, FileKind, FileName, HEADER_BYTES, JournalId, Position, records, u32_at};
use crate::layout::{Layout, Opened, counted_bytes, disk_error};
use crate::missing::{MissingRecords, missing_records};
use crate::note::Note;
use crate::reader::{GroupReader, Next, look_beyond, read_full};
use crate::replay::{Extent, Replay, TornTail, read_segment, read_snapshot};

/// What is in a journal.
#[derive(Debug)]
pub struct Report {
    /// Which journal it is; `None` when its first file does not say.
    pub id: Option<JournalId>,
    /// Its files, in the order they are read.
    pub files: Vec<FileReport>,
    /// Records that can be read, from the beginning up to the damage.
    pub records: u64,
    /// The number of the first record that cannot be read, or that the next record gets.
    pub next_seq: u64,
    /// The unfinished end that a crash left, which is no damage.
    pub torn: Option<TornTail>,
    /// The first thing that is wrong. The journal can be opened if there is none.
    pub problem: Option<JournalError>,
    /// Whole records that were found behind it.
    pub records_behind: u64,
    /// Records that should be there as well, and are in no file any more, or cannot be read.
    pub missing: Vec<MissingRecords>,
    /// Whether the note says how far the last file was safely on disk. Without it, damage to the last records cannot be
    /// told from a write that was not finished.
    pub has_note: bool,
    /// Files that do not count: what an interrupted compaction left.
    pub leftovers: Vec<String>,
    /// The file that is wrong, an index of `files`, or the number of files.
    pub(crate) problem_index: usize,
}

/// One file of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// Its name in the directory.
    pub name: String,
    /// What it is for.
    pub kind: FileKind,
    /// Its length in bytes; 0 if it cannot be opened.
    pub bytes: u64,
    /// The number of its first record; for a snapshot, of the first record after it. `None` when its header
    /// cannot be read.
    pub first_seq: Option<u64>,
    /// How many of its records can be read in order.
    pub records: u64,
    /// How many whole records at its end do not count, because the next segment begins with them again.
    pub records_repeated: u64,
    /// How many bytes behind those do not count either, since the next segment begins before them: a write that was not
    /// finished, or what somebody else has appended.
    pub bytes_ignored: u64,
    /// How many of its whole records are behind damage.
    pub records_behind: u64,
}

impl Report {
    /// Whether the journal can be opened.
    pub fn is_whole(&self) -> bool {
        self.problem.is_none()
    }

    /// The file where the first problem is, or before which files are missing, and those behind it.
    pub fn files_behind(&self) -> &[FileReport] {
        &self.files[self.problem_index..]
    }

    /// How many records are missing, as far as that is known.
    pub fn records_missing(&self) -> u64 {
        self.missing.iter().filter_map(|missing| missing.records).sum()
    }
}

/// Reads everything and says what is there. Nothing is changed, and the journal may be in use.
///
/// # Errors
/// When there is no journal, when a newer release wrote it, or when the file system refuses. Damage is no error
/// but a finding.
pub fn check<D: Disk>(disk: &D, expect: Option<JournalId>) -> Result<Report, JournalError> {
    let note = Note::read(disk)?;
    check_layout(disk, Layout::read(disk)?, note, expect)
}

/// Reads the files of a layout.
pub(crate) fn check_layout<D: Disk>(
    disk: &D,
    layout: Layout,
    note: Option<Note>,
    expect: Option<JournalId>,
) -> Result<Report, JournalError> {
    if layout.files.is_empty() {
        return Err(JournalError::Missing { directory: disk.path("") });
    }
    let mut bad_header = None;
    let mut opened = Vec::with_capacity(layout.files.len());
    for (index, &name) in layout.files.iter().enumerate() {
        opened.push(match Opened::open(disk, name, false) {
            Ok(file) => Some(file),
            Err(error) if is_finding(&error) => {
                bad_header.get_or_insert((index, error));
                None
            }
            Err(error) => return Err(error),
        });
    }
    let id = opened.iter().flatten().map(|file| file.header.id).next();
    let mut report = Report {
        id,
        files: layout
            .files
            .iter()
            .zip(&opened)
            .map(|(&name, file)| file_report(name, file.as_ref()))
            .collect(),
        records: 0,
        next_seq: 0,
        torn: None,
        problem: None,
        records_behind: 0,
        missing: Vec::new(),
        has_note: false,
        leftovers: Vec::new(),
        problem_index: layout.files.len(),
    };
    let note = note.filter(|note| Some(note.id) == id);
    report.has_note = note.is_some();
    read_in_order(disk, &layout, &mut opened, bad_header, (expect.or(id), note), &mut report)?;
    for (index, found) in report.files.iter_mut().enumerate().skip(report.problem_index) {
        let whole = match &mut opened[index] {
            Some(file) => count_whole(disk, file)?,
            None => {
                let (bytes, whole) = count_without_header(disk, layout.files[index])?;
                found.bytes = bytes;
                whole
            }
        };
        found.records_behind = whole.saturating_sub(found.records);
        report.records_behind += found.records_behind;
    }
    if report.problem.is_some() {
        let from = (report.problem_index, report.next_seq);
        report.missing = missing_records(&layout, &opened, &report.files, (expect.or(id), note), from);
    }
    report.leftovers = layout.leftovers;
    Ok(report)
}

/// Reads files until the first that is wrong.
fn read_in_order<D: Disk>(
    disk: &D,
    layout: &Layout,
    opened: &mut [Option<Opened<D::File>>],
    mut bad_header: Option<(usize, JournalError)>,
    (expected, note): (Option<JournalId>, Option<Note>),
    report: &mut Report,
) -> Result<(), JournalError> {
    let mut replay = Replay::new(JournalId([0; 16]), false);
    let missing =
        |index: usize, seq| JournalError::MissingFile { file: disk.path(&layout.missing(index)), seq };
    for index in 0..opened.len() {
        let counted = match opened.get(index..index + 2) {
            Some([Some(file), Some(next)]) => counted_bytes(layout, index, file, next),
            _ => None,
        };
        let before = replay.records + replay.snapshot_records;
        let problem = match &mut opened[index] {
            _ if !layout.is_due(index) => Some(missing(index, replay.next_seq)),
            Some(file) => {
                let proven = Note::proven_bytes(note, file.header.id, file.name);
                read_file(disk, file, expected, Extent { counted, proven }, &mut replay)?
            }
            None => bad_header.take_if(|(bad, _)| *bad == index).map(|(_, error)| error),
        };
        report.files[index].records = replay.records + replay.snapshot_records - before;
        if problem.is_some() {
            report.problem = problem;
            report.problem_index = index;
            break;
        }
        if let Some(file) =
            opened[index].as_mut().filter(|file| counted.is_some_and(|bytes| bytes < file.size))
        {
            let found = &mut report.files[index];
            let (whole, ignored) = look_at_end(disk, file)?;
            found.records_repeated = whole.saturating_sub(found.records);
            found.bytes_ignored = ignored;
        }
    }
    let ends_with_segment = layout.files.last().is_some_and(|file| file.kind == FileKind::Segment);
    if report.problem.is_none() && !ends_with_segment {
        report.problem = Some(missing(layout.files.len(), replay.next_seq));
    }
    if report.problem.is_none()
        && let Some(id) = report.id
        && let Some(file) = Note::missing(note, id, layout)
    {
        let file = disk.path(&file.to_string());
        report.problem = Some(JournalError::MissingFile { file, seq: replay.next_seq });
    }
    report.records = replay.records + replay.snapshot_records;
    report.next_seq = replay.next_seq;
    report.torn = replay.torn;
    Ok(())
}

/// Reads one file and returns what is wrong with it.
fn read_file<D: Disk>(
    disk: &D,
    file: &mut Opened<D::File>,
    expected: Option<JournalId>,
    extent: Extent,
    replay: &mut Replay,
) -> Result<Option<JournalError>, JournalError> {
    let found = file.header.id;
    if let Some(expected) = expected.filter(|&id| id != found) {
        let file = disk.path(&file.name.to_string());
        return Ok(Some(JournalError::Foreign { file, found, expected }));
    }
    let mut ignore = |_: u64, _: &[u8]| Ok::<(), Infallible>(());
    let outcome = match file.name.kind {
        FileKind::Snapshot => read_snapshot(disk, file, replay, &mut ignore),
        FileKind::Segment => read_segment(disk, file, extent, replay, &mut ignore).map(|_| ()),
    };
    match outcome {
        Ok(()) => Ok(None),
        Err(OpenError::Journal(error)) if is_finding(&error) => Ok(Some(error)),
        Err(OpenError::Journal(error)) => Err(error),
        Err(OpenError::Refused { reason, .. }) => match reason {},
    }
}

/// Whether an error speaks of the content of a file.
fn is_finding(error: &JournalError) -> bool {
    matches!(
        error,
        JournalError::Damaged { .. }
            | JournalError::DamagedHeader { .. }
            | JournalError::NotAJournal { .. }
            | JournalError::Foreign { .. }
            | JournalError::MissingFile { .. }
    )
}

/// How many records are in whole groups from the beginning of a file, and how many bytes are behind these.
fn look_at_end<D: Disk>(disk: &D, opened: &mut Opened<D::File>) -> Result<(u64, u64), JournalError> {
    let name = opened.name.to_string();
    let file = opened.take(disk)?;
    let mut reader = GroupReader::new(&file, Position::after_header(opened.crc), opened.size);
    let mut count = 0;
    loop {
        match reader.next().map_err(|source| disk_error(disk, "read", &name, source))? {
            Next::Group { body, .. } => count += records(body).flatten().count() as u64,
            Next::End | Next::Bad => return Ok((count, opened.size - reader.position().offset)),
        }
    }
}

/// How many records are in whole groups, in any part of a file.
fn count_whole<D: Disk>(disk: &D, opened: &mut Opened<D::File>) -> Result<u64, JournalError> {
    let name = opened.name.to_string();
    let read_error = |source| disk_error(disk, "read", &name, source);
    let file = opened.take(disk)?;
    count_groups(&file, opened.crc, opened.size).map_err(read_error)
}

/// The length of a file whose header is damaged, and how many records are in whole groups behind that.
fn count_without_header<D: Disk>(disk: &D, name: FileName) -> Result<(u64, u64), JournalError> {
    let name = name.to_string();
    let read_error = |source| disk_error(disk, "read", &name, source);
    let file = disk.open(&name).map_err(|source| disk_error(disk, "open", &name, source))?;
    let size = file.size().map_err(read_error)?;
    let mut header = [0; HEADER_BYTES as usize];
    if read_full(&file, &mut header, 0).map_err(read_error)? < header.len() {
        return Ok((size, 0));
    }
    // Groups continue the header's checksum: as it is written there, or as it was if that is what was damaged.
    let content = header.len() - CRC_BYTES;
    let mut most = 0;
    for crc in [u32_at(&header, content), crc32c(&header[..content])] {
        most = most.max(count_groups(&file, crc, size).map_err(read_error)?);
    }
    Ok((size, most))
}

/// How many records are in whole groups behind a header with this checksum.
fn count_groups<F: DiskFile>(file: &F, crc: u32, size: u64) -> io::Result<u64> {
    let mut reader = GroupReader::new(file, Position::after_header(crc), size);
    let mut count = 0;
    loop {
        match reader.next()? {
            Next::Group { body, .. } => count += records(body).flatten().count() as u64,
            Next::End => return Ok(count),
            Next::Bad => return Ok(count + look_beyond(file, reader.position(), size, true)?.records),
        }
    }
}

fn file_report<F: DiskFile>(name: FileName, file: Option<&Opened<F>>) -> FileReport {
    FileReport {
        name: name.to_string(),
        kind: name.kind,
        bytes: file.map_or(0, |file| file.size),
        first_seq: file.map(|file| file.header.first_seq),
        records: 0,
        records_repeated: 0,
        bytes_ignored: 0,
        records_behind: 0,
    }
}
