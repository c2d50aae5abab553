//! How far the last segment was safely on disk: a note beside the files, so that what was lost is told from what was
//! never finished.
//!
//! It is written after each sync and never waited for. So it may say less than is true, after a loss of power, and
//! never more: a journal is read without it as well.

use crc32c::crc32c;

use crate::disk::Disk;
use crate::error::JournalError;
use crate::format::{FileName, JournalId, u32_at, u64_at};
use crate::layout::{Layout, disk_error};
use crate::real_disk::NOTE_FILE;

const NOTE_BYTES: usize = 36;

/// What the note says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// The journal it speaks of.
    pub(crate) id: JournalId,
    /// The number of the segment that was written last.
    pub(crate) number: u64,
    /// How many bytes of it were safely on disk.
    pub(crate) bytes: u64,
}

impl Note {
    pub(crate) fn encode(&self) -> [u8; NOTE_BYTES] {
        let mut bytes = [0; NOTE_BYTES];
        bytes[..16].copy_from_slice(&self.id.0);
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.bytes.to_le_bytes());
        let crc = crc32c(&bytes[..32]);
        bytes[32..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != NOTE_BYTES || crc32c(&bytes[..32]) != u32_at(bytes, 32) {
            return None;
        }
        let mut id = [0; 16];
        id.copy_from_slice(&bytes[..16]);
        Some(Self { id: JournalId(id), number: u64_at(bytes, 16), bytes: u64_at(bytes, 24) })
    }

    /// Reads the note, if there is one that can be read. To be called before the files are listed: of a journal that
    /// is being written, a later note would speak of more than was seen.
    pub(crate) fn read<D: Disk>(disk: &D) -> Result<Option<Self>, JournalError> {
        let bytes = disk.read_note().map_err(|source| disk_error(disk, "read", NOTE_FILE, source))?;
        Ok(Self::decode(&bytes))
    }

    /// How many bytes of the last file must be whole.
    pub(crate) fn proven_bytes(note: Option<Self>, id: JournalId, last: FileName) -> Option<u64> {
        note.filter(|note| note.id == id && FileName::segment(note.number) == last).map(|note| note.bytes)
    }

    /// The segment that must be there and is not.
    pub(crate) fn missing(note: Option<Self>, id: JournalId, layout: &Layout) -> Option<FileName> {
        let last = layout.files.last().map_or(0, |file| file.number);
        note.filter(|note| note.id == id && note.number > last).map(|note| FileName::segment(note.number))
    }
}
