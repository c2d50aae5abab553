//! The bytes of a journal file: names, headers, groups of records. The crate's documentation has the tables.

use std::fmt;

use crc32c::{crc32c, crc32c_append};

use crate::error::{ForeignContent, JournalError};
use crate::limits::{FORMAT_VERSION, GROUP_BYTES, HEADER_BYTES_MAX, RECORD_BYTES_MAX};

/// Names a journal, so that files of another one are recognised. Chosen at random by who makes the journal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JournalId(pub [u8; 16]);

impl fmt::Display for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JournalId({self})")
    }
}

/// What a file of a journal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// Records that rebuild what all earlier records had built.
    Snapshot,
    /// Records in the order they were appended.
    Segment,
}

/// The name of a file: `snapshot-0000000012` stands in for all segments before `segment-0000000012`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileName {
    pub(crate) number: u64,
    pub(crate) kind: FileKind,
}

/// Appended to the name of a file that is not complete and does not count.
pub(crate) const TEMPORARY: &str = ".tmp";
/// Appended to the name of a file that repair put aside.
pub(crate) const ASIDE: &str = ".damaged";

impl FileName {
    pub(crate) fn segment(number: u64) -> Self {
        Self { number, kind: FileKind::Segment }
    }

    pub(crate) fn snapshot(number: u64) -> Self {
        Self { number, kind: FileKind::Snapshot }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (kind, digits) = match name.strip_prefix("segment-") {
            Some(digits) => (FileKind::Segment, digits),
            None => (FileKind::Snapshot, name.strip_prefix("snapshot-")?),
        };
        let number = digits.parse().ok()?;
        let parsed = Self { number, kind };
        // One number has one name: neither `+1` nor a different count of zeros.
        (parsed.to_string() == name).then_some(parsed)
    }

    pub(crate) fn temporary(self) -> String {
        format!("{self}{TEMPORARY}")
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            FileKind::Segment => "segment",
            FileKind::Snapshot => "snapshot",
        };
        write!(f, "{kind}-{:010}", self.number)
    }
}

const MAGIC: [u8; 8] = *b"\x89HQJRNL\n";
/// Bytes of a header of the format that this release writes.
pub(crate) const HEADER_BYTES: u64 = 64;

/// The start of every file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: FileKind,
    pub(crate) id: JournalId,
    /// The number in the file's name.
    pub(crate) number: u64,
    /// The number of a segment's first record. In a snapshot: of the first record after it.
    pub(crate) first_seq: u64,
    /// How many bytes of the segment before this one count. What is behind them was not safely on disk when
    /// this segment was made, and is repeated in it.
    pub(crate) previous_bytes: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&(HEADER_BYTES as u16).to_le_bytes());
        bytes[12] = match self.kind {
            FileKind::Segment => 1,
            FileKind::Snapshot => 2,
        };
        bytes[16..32].copy_from_slice(&self.id.0);
        bytes[32..40].copy_from_slice(&self.number.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.first_seq.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.previous_bytes.to_le_bytes());
        let crc = crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header from the first bytes of a file (`HEADER_BYTES_MAX` of them if there are so many), and
    /// returns its checksum with it, which begins the chain of groups.
    pub(crate) fn decode(file: &str, name: FileName, bytes: &[u8]) -> Result<(Self, u32), JournalError> {
        let foreign = |content| JournalError::NotAJournal { file: file.to_owned(), content };
        let damaged = || JournalError::DamagedHeader { file: file.to_owned() };
        if bytes.is_empty() {
            return Err(foreign(ForeignContent::Empty));
        }
        if bytes.iter().all(|&byte| byte == 0) {
            return Err(foreign(ForeignContent::Zeros));
        }
        if !bytes.starts_with(&MAGIC[..bytes.len().min(8)]) {
            return Err(foreign(ForeignContent::Other));
        }
        if bytes.len() < 16 {
            return Err(foreign(ForeignContent::Short));
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        let length = u64::from(u16::from_le_bytes([bytes[10], bytes[11]]));
        // Every release keeps this much: magic, version, length, and a checksum of the whole at its end.
        if !(16..=HEADER_BYTES_MAX).contains(&length) {
            return Err(damaged());
        }
        let Some(header) = bytes.get(..length as usize) else {
            return Err(foreign(ForeignContent::Short));
        };
        let (content, crc) = header.split_at(header.len() - 4);
        let crc = u32_at(crc, 0);
        if crc32c(content) != crc {
            return Err(damaged());
        }
        if version > FORMAT_VERSION {
            return Err(JournalError::NewerFormat {
                file: file.to_owned(),
                found: version,
                known: FORMAT_VERSION,
            });
        }
        if version == 0 || length != HEADER_BYTES {
            return Err(damaged());
        }
        let kind = match bytes[12] {
            1 => FileKind::Segment,
            2 => FileKind::Snapshot,
            _ => return Err(damaged()),
        };
        let mut id = [0; 16];
        id.copy_from_slice(&bytes[16..32]);
        let header = Self {
            kind,
            id: JournalId(id),
            number: u64_at(bytes, 32),
            first_seq: u64_at(bytes, 40),
            previous_bytes: u64_at(bytes, 48),
        };
        // A copy under another name would be read in a place that is not its own.
        if (header.kind, header.number) != (name.kind, name.number) {
            return Err(damaged());
        }
        Ok((header, crc))
    }
}

/// Where the next group of a file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The checksum of the file's header: makes groups of another file recognisable.
    pub(crate) salt: u32,
    /// The checksum of the group before.
    pub(crate) chain: u32,
    /// The offset in the file.
    pub(crate) offset: u64,
}

impl Position {
    /// The place behind a header with this checksum.
    pub(crate) fn after_header(crc: u32) -> Self {
        Self { salt: crc, chain: crc, offset: HEADER_BYTES }
    }

    /// Adds a group to `out` and moves behind it. `synced` is the length of the file that was safely on disk.
    pub(crate) fn push_group(&mut self, out: &mut Vec<u8>, synced: u64, body: &[u8]) {
        let start = out.len();
        push_varint(out, body.len() as u64);
        push_varint(out, self.offset - synced);
        let check = head_check(self.salt, self.offset, &out[start..]);
        out.extend_from_slice(&check.to_le_bytes());
        out.extend_from_slice(body);
        self.chain = crc32c_append(self.chain, &out[start..]);
        out.extend_from_slice(&self.chain.to_le_bytes());
        self.offset += (out.len() - start) as u64;
    }
}

/// Bytes of a group's checksum.
pub(crate) const CRC_BYTES: usize = 4;
/// The longest head of a group: two numbers and a check of them.
pub(crate) const HEAD_BYTES_MAX: usize = 10 + 10 + 2;

/// What a group says before its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupHead {
    /// Its own length in bytes.
    pub(crate) head_bytes: usize,
    /// The length of the records in bytes.
    pub(crate) body_bytes: usize,
    /// The length of the file that was safely on disk when the group was written.
    pub(crate) synced: u64,
}

impl GroupHead {
    /// Reads a head at an offset; `None` when there is none.
    pub(crate) fn decode(salt: u32, offset: u64, bytes: &[u8]) -> Option<Self> {
        let (body, first) = varint(bytes)?;
        let (unsynced, second) = varint(&bytes[first..])?;
        let numbers = first + second;
        let check = u16::from_le_bytes([*bytes.get(numbers)?, *bytes.get(numbers + 1)?]);
        if body > (GROUP_BYTES + RECORD_BYTES_MAX) as u64 || unsynced > offset.checked_sub(HEADER_BYTES)? {
            return None;
        }
        (check == head_check(salt, offset, &bytes[..numbers])).then_some(Self {
            head_bytes: numbers + 2,
            body_bytes: body as usize,
            synced: offset - unsynced,
        })
    }

    /// The length of the whole group in bytes.
    pub(crate) fn group_bytes(&self) -> u64 {
        (self.head_bytes + self.body_bytes + CRC_BYTES) as u64
    }
}

/// A short checksum of where a group is and what its head says. It keeps a search for groups behind damage
/// from computing the checksum of everything that could be one.
fn head_check(salt: u32, offset: u64, numbers: &[u8]) -> u16 {
    let crc = crc32c_append(crc32c_append(salt, &offset.to_le_bytes()), numbers);
    (crc ^ (crc >> 16)) as u16
}

/// Calls `f` with each record of a group's body; `None` when the body is no list of records.
pub(crate) fn records(mut body: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        if body.is_empty() {
            return None;
        }
        let record = varint(body).and_then(|(length, used)| {
            let rest = &body[used..];
            (length <= rest.len() as u64).then(|| rest.split_at(length as usize))
        });
        match record {
            Some((record, rest)) => {
                body = rest;
                Some(Some(record))
            }
            None => {
                body = &[];
                Some(None)
            }
        }
    })
}

/// Adds a number in groups of seven bits, lowest first.
#[inline]
pub(crate) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads such a number, and how many bytes it took.
#[inline]
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(10).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if index == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * index);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in (0..64).flat_map(|bit| [1 << bit, (1u64 << bit) - 1]).chain([u64::MAX]) {
            let mut bytes = Vec::new();
            push_varint(&mut bytes, value);
            assert_eq!(varint(&bytes), Some((value, bytes.len())));
            assert_eq!(varint(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(varint(&[0xff; 20]), None);
        assert_eq!(varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), None);
    }

    #[test]
    fn only_our_names_are_ours() {
        for (text, name) in [
            ("segment-0000000001", Some(FileName::segment(1))),
            ("snapshot-0000000012", Some(FileName::snapshot(12))),
            ("segment-12345678901", Some(FileName::segment(12_345_678_901))),
            ("segment-1", None),
            ("segment-+000000001", None),
            ("segment-00000000001", None),
            ("segment-0000000001.tmp", None),
            ("segment-0000000001.damaged", None),
            ("lock", None),
        ] {
            assert_eq!(FileName::parse(text), name, "{text}");
        }
    }

    #[test]
    fn a_body_that_lies_about_lengths_is_no_list() {
        let list = |body: &[u8]| records(body).map(|record| record.map(<[u8]>::len)).collect::<Vec<_>>();
        assert_eq!(list(&[]), []);
        assert_eq!(list(&[0, 1, 9, 2, 9, 9]), [Some(0), Some(1), Some(2)]);
        assert_eq!(list(&[1, 9, 3, 9, 9]), [Some(1), None]);
        assert_eq!(list(&[0xff]), [None]);
    }

    #[test]
    fn zeros_are_no_group() {
        for offset in HEADER_BYTES..HEADER_BYTES + 1000 {
            let zeros = [0; HEAD_BYTES_MAX];
            let crc = crc32c(&offset.to_le_bytes());
            if let Some(head) = GroupHead::decode(crc, offset, &zeros) {
                // The short check may match by chance, the checksum behind it hardly does.
                assert_ne!(crc32c_append(crc, &zeros[..head.head_bytes]), 0);
            }
        }
    }
}
