//! Which files of a directory make up the journal, and in which order.

use std::path::Path;
use std::{fs, io};

use crate::disk::{Disk, DiskFile};
use crate::error::JournalError;
use crate::format::{FileKind, FileName, Header, JournalId, TEMPORARY};
use crate::limits::{HEADER_BYTES_MAX, OPEN_FILES_MAX};
use crate::reader::read_full;
use crate::real_disk::NotAFile;

/// True where a directory holds a file of a journal, whatever is in it. What cannot be listed may hold some.
pub fn has_journal(directory: &Path) -> bool {
    match fs::read_dir(directory) {
        Ok(mut entries) => entries.any(|entry| {
            entry.map_or(true, |entry| {
                entry.file_name().to_str().is_some_and(|name| FileName::parse(name).is_some())
            })
        }),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// The files that count, and those that do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// In the order they are read: the newest snapshot, if there is one, and the segments it does not replace.
    pub(crate) files: Vec<FileName>,
    /// What an interrupted compaction or a crash left behind.
    pub(crate) leftovers: Vec<String>,
}

impl Layout {
    /// Sorts out a directory.
    pub(crate) fn read<D: Disk>(disk: &D) -> Result<Self, JournalError> {
        let names = disk.list().map_err(|source| disk_error(disk, "list", "", source))?;
        Ok(Self::of(&names))
    }

    pub(crate) fn of(names: &[String]) -> Self {
        let mut files: Vec<FileName> = names.iter().filter_map(|name| FileName::parse(name)).collect();
        // A snapshot sorts before the segment of its number, and is followed by it.
        files.sort_unstable_by_key(|file| (file.number, file.kind));
        let newest = files.iter().rposition(|file| file.kind == FileKind::Snapshot).unwrap_or(0);
        let mut leftovers: Vec<String> = files.drain(..newest).map(|file| file.to_string()).collect();
        let temporary =
            |name: &&String| name.strip_suffix(TEMPORARY).is_some_and(|stem| FileName::parse(stem).is_some());
        leftovers.extend(names.iter().filter(temporary).cloned());
        leftovers.sort_unstable();
        Self { files, leftovers }
    }

    /// The segment that must follow after the first `count` files.
    pub(crate) fn due(&self, count: usize) -> FileName {
        match count.checked_sub(1).map(|last| self.files[last]) {
            None => FileName::segment(1),
            Some(FileName { kind: FileKind::Snapshot, number }) => FileName::segment(number),
            Some(FileName { kind: FileKind::Segment, number }) => FileName::segment(number.saturating_add(1)),
        }
    }

    /// What is missing where the file at an index is not the one that must be there. Before the first segment that is there that
    /// may be a snapshot or what it stands in for: no file says which.
    pub(crate) fn missing(&self, index: usize) -> String {
        match self.files.first().filter(|_| index == 0) {
            Some(&FileName { kind: FileKind::Segment, number }) if number > 1 => {
                let (snapshot, last) = (FileName::snapshot(number), FileName::segment(number - 1));
                match number {
                    2 => format!("{last} (or, after a compaction, {snapshot})"),
                    _ => format!("{snapshot} (or, without a compaction, {} to {last})", FileName::segment(1)),
                }
            }
            _ => self.due(index).to_string(),
        }
    }

    /// Whether the file at an index is the one that must be there.
    pub(crate) fn is_due(&self, index: usize) -> bool {
        let file = self.files[index];
        file == self.due(index) || index == 0 && file.kind == FileKind::Snapshot
    }
}

/// How many bytes count of the file at an index, if the file after it is the one that must be there and says so.
/// `None`: all that can be read.
pub(crate) fn counted_bytes<F>(
    layout: &Layout,
    index: usize,
    file: &Opened<F>,
    next: &Opened<F>,
) -> Option<u64> {
    let follows = layout.is_due(index + 1) && next.header.id == file.header.id;
    follows.then_some(next.header.previous_bytes)
}

/// A file and what its header says.
pub(crate) struct Opened<F> {
    pub(crate) name: FileName,
    pub(crate) header: Header,
    /// The checksum of the header.
    pub(crate) crc: u32,
    /// Its length in bytes when it was opened.
    pub(crate) size: u64,
    /// Kept open, or opened again when it is its turn.
    file: Option<F>,
}

impl<F: DiskFile> Opened<F> {
    /// Opens a file and reads its header.
    pub(crate) fn open<D: Disk<File = F>>(
        disk: &D,
        name: FileName,
        keep: bool,
    ) -> Result<Self, JournalError> {
        let text = name.to_string();
        let file = disk.open(&text).map_err(|source| disk_error(disk, "open", &text, source))?;
        let read_error = |source| disk_error(disk, "read", &text, source);
        let size = file.size().map_err(read_error)?;
        let mut bytes = vec![0; size.min(HEADER_BYTES_MAX) as usize];
        let count = read_full(&file, &mut bytes, 0).map_err(read_error)?;
        let (header, crc) = Header::decode(&disk.path(&text), name, &bytes[..count])?;
        Ok(Self { name, header, crc, size, file: keep.then_some(file) })
    }

    /// The file, to be read.
    pub(crate) fn take<D: Disk<File = F>>(&mut self, disk: &D) -> Result<F, JournalError> {
        let name = self.name.to_string();
        match self.file.take() {
            Some(file) => Ok(file),
            None => disk.open(&name).map_err(|source| disk_error(disk, "open", &name, source)),
        }
    }
}

/// Opens all files of a layout. All of them are of one journal.
pub(crate) fn open_all<D: Disk>(
    disk: &D,
    layout: &Layout,
    expect: Option<JournalId>,
    keep: bool,
) -> Result<Vec<Opened<D::File>>, JournalError> {
    let mut expected = expect;
    let mut opened = Vec::with_capacity(layout.files.len());
    for (index, &name) in layout.files.iter().enumerate() {
        let file = Opened::open(disk, name, keep && index < OPEN_FILES_MAX)?;
        let expected = *expected.get_or_insert(file.header.id);
        if file.header.id != expected {
            return Err(JournalError::Foreign {
                file: disk.path(&name.to_string()),
                found: file.header.id,
                expected,
            });
        }
        opened.push(file);
    }
    Ok(opened)
}

pub(crate) fn disk_error<D: Disk>(
    disk: &D,
    action: &'static str,
    name: &str,
    source: io::Error,
) -> JournalError {
    let file = disk.path(name);
    match NotAFile::inside(&source) {
        Some(NotAFile { what }) => JournalError::NotAFile { file, what },
        None => JournalError::Disk { action, file, source },
    }
}
