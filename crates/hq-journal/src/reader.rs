//! Reads one file group by group, a window at a time, and looks for what is behind damage.

use std::io;

use crc32c::crc32c_append;

use crate::disk::DiskFile;
use crate::format::{CRC_BYTES, GroupHead, HEAD_BYTES_MAX, Position, records, u32_at, varint};
use crate::limits::READ_BYTES;

/// A part of a file in memory.
struct Window<'f, F> {
    file: &'f F,
    size: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<F: DiskFile> Window<'_, F> {
    /// The bytes from an offset on: as many as wanted, or fewer at the end.
    fn get(&mut self, offset: u64, wanted: usize) -> io::Result<&[u8]> {
        let left = self.size.saturating_sub(offset);
        let wanted = left.min(wanted as u64) as usize;
        let inside = offset >= self.start && offset + wanted as u64 <= self.start + self.bytes.len() as u64;
        if !inside {
            let length = left.min(wanted.max(READ_BYTES) as u64) as usize;
            self.bytes.resize(length, 0);
            self.start = offset;
            let read = read_full(self.file, &mut self.bytes, offset)?;
            self.bytes.truncate(read);
        }
        let from = (offset - self.start) as usize;
        let to = self.bytes.len().min(from + wanted);
        Ok(&self.bytes[from.min(to)..to])
    }
}

/// Reads until the buffer is full or the file ends.
pub(crate) fn read_full<F: DiskFile>(file: &F, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Reads groups in order.
pub(crate) struct GroupReader<'f, F> {
    window: Window<'f, F>,
    position: Position,
}

/// What comes next in a file.
pub(crate) enum Next<'r> {
    /// A group whose checksums match.
    Group {
        /// Where it begins.
        at: Position,
        /// The length of the file that was safely on disk when it was written.
        synced: u64,
        /// Its records.
        body: &'r [u8],
    },
    /// Nothing: the file, or the part of it that counts, ends here.
    End,
    /// Something that is no whole group.
    Bad,
}

impl<'f, F: DiskFile> GroupReader<'f, F> {
    /// Reads from a position up to a length.
    pub(crate) fn new(file: &'f F, position: Position, size: u64) -> Self {
        Self { window: Window { file, size, start: 0, bytes: Vec::new() }, position }
    }

    /// Where the next group begins.
    pub(crate) fn position(&self) -> Position {
        self.position
    }

    /// Reads the next group and moves behind it; stays where it is when there is none.
    pub(crate) fn next(&mut self) -> io::Result<Next<'_>> {
        let at = self.position;
        let bytes = self.window.get(at.offset, HEAD_BYTES_MAX)?;
        if bytes.is_empty() {
            return Ok(Next::End);
        }
        let Some(head) = GroupHead::decode(at.salt, at.offset, bytes) else {
            return Ok(Next::Bad);
        };
        let length = head.group_bytes();
        if at.offset + length > self.window.size {
            return Ok(Next::Bad);
        }
        let group = self.window.get(at.offset, length as usize)?;
        if group.len() as u64 != length {
            return Ok(Next::Bad);
        }
        let (content, crc) = group.split_at(group.len() - CRC_BYTES);
        let chain = crc32c_append(at.chain, content);
        if u32_at(crc, 0) != chain {
            return Ok(Next::Bad);
        }
        self.position = Position { salt: at.salt, chain, offset: at.offset + length };
        Ok(Next::Group { at, synced: head.synced, body: &content[head.head_bytes..] })
    }
}

/// What is readable behind a place that is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beyond {
    /// Whether it proves that the bad place is no end that a crash left.
    pub(crate) was_kept: bool,
    /// How many records are in whole groups there.
    pub(crate) records: u64,
}

/// Looks for whole groups behind a position that holds none.
///
/// A crash may lose a part of what was written and keep what was written after it, as long as nothing of it
/// had been synced. So groups behind a bad place prove damage only when one of them says that the bad place
/// was synced before it was written, or is in a place not its own.
///
/// With `all`, every group is counted; else the search ends with the first proof.
pub(crate) fn look_beyond<F: DiskFile>(file: &F, bad: Position, size: u64, all: bool) -> io::Result<Beyond> {
    let mut window = Window { file, size, start: 0, bytes: Vec::new() };
    let mut beyond = Beyond::default();
    // Where only the checksum at the end of the bad group is wrong, the next group continues the chain that
    // its content gives.
    let mut candidate = Some(bad.offset);
    let mut chain = None;
    if let Some((end, computed)) = chain_of(&mut window, bad.salt, bad.offset, bad.chain)? {
        candidate = Some(end);
        chain = Some(computed);
    }
    let mut resume = bad.offset + 1;
    while let Some(offset) = candidate.filter(|&offset| offset < size) {
        match group_at(&mut window, bad.salt, offset, chain)? {
            Some((synced, end)) => {
                beyond.was_kept |= synced > bad.offset;
                if beyond.was_kept && !all {
                    return Ok(beyond);
                }
                beyond.records += count_records(&mut window, bad.salt, offset)?;
                resume = end;
                candidate = Some(end);
            }
            None => {
                candidate = Some(resume);
                resume += 1;
            }
        }
        chain = None;
    }
    let moved = look_for_moved(file, bad, size, all)?;
    beyond.records += moved;
    beyond.was_kept |= moved > 0;
    Ok(beyond)
}

/// Counts the records of whole groups behind a position that are in places not their own: bytes are missing before
/// them, or too many. No crash does that. With `all` false, the first of them is enough.
///
/// This holds the rest of the file in memory.
fn look_for_moved<F: DiskFile>(file: &F, bad: Position, size: u64, all: bool) -> io::Result<u64> {
    let begin = bad.offset - CRC_BYTES as u64;
    let mut bytes = vec![0; usize::try_from(size.saturating_sub(begin)).unwrap_or(usize::MAX)];
    let count = read_full(file, &mut bytes, begin)?;
    bytes.truncate(count);
    let mut moved = 0;
    let mut at = CRC_BYTES;
    while at < bytes.len() {
        match moved_group(&bytes, at, bad.salt, begin) {
            Some((end, records)) => {
                moved += records;
                if !all {
                    break;
                }
                at = end;
            }
            None => at += 1,
        }
    }
    Ok(moved)
}

/// The end of a whole group at an index of `bytes`, which begin at an offset of the file, and the number of its
/// records; `None` also when it is in its own place.
fn moved_group(bytes: &[u8], at: usize, salt: u32, begin: u64) -> Option<(usize, u64)> {
    let (body_bytes, first) = varint(&bytes[at..])?;
    if body_bytes == 0 || body_bytes > (bytes.len() - at) as u64 {
        return None;
    }
    let (_, second) = varint(&bytes[at + first..])?;
    let body = at + first + second + 2;
    let end = body + body_bytes as usize;
    // Walking over the records is cheap, and tells almost everything that is no group.
    let mut count = 0;
    for record in records(bytes.get(body..end)?) {
        record?;
        count += 1;
    }
    let stored = bytes.get(end..end + CRC_BYTES)?;
    let seed = u32_at(bytes, at - CRC_BYTES);
    let is_whole = crc32c_append(seed, &bytes[at..end]) == u32_at(stored, 0);
    let is_moved = GroupHead::decode(salt, begin + at as u64, &bytes[at..]).is_none();
    (is_whole && is_moved).then_some((end + CRC_BYTES, count))
}

/// The end of what has a group's head at an offset, and the checksum of its content.
fn chain_of<F: DiskFile>(
    window: &mut Window<'_, F>,
    salt: u32,
    offset: u64,
    seed: u32,
) -> io::Result<Option<(u64, u32)>> {
    let Some(head) = GroupHead::decode(salt, offset, window.get(offset, HEAD_BYTES_MAX)?) else {
        return Ok(None);
    };
    let end = offset + head.group_bytes();
    if end > window.size {
        return Ok(None);
    }
    let mut chain = seed;
    let mut at = offset;
    while at < end - CRC_BYTES as u64 {
        let wanted = (end - CRC_BYTES as u64 - at).min(READ_BYTES as u64) as usize;
        let bytes = window.get(at, wanted)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        chain = crc32c_append(chain, bytes);
        at += bytes.len() as u64;
    }
    Ok(Some((end, chain)))
}

/// What a whole group at an offset says was synced, and where it ends. Its checksum continues that of the
/// group before it, which is in the four bytes before it unless it is known better.
fn group_at<F: DiskFile>(
    window: &mut Window<'_, F>,
    salt: u32,
    offset: u64,
    chain: Option<u32>,
) -> io::Result<Option<(u64, u64)>> {
    let bytes = window.get(offset - CRC_BYTES as u64, CRC_BYTES + HEAD_BYTES_MAX)?;
    if bytes.len() <= CRC_BYTES {
        return Ok(None);
    }
    let seed = chain.unwrap_or_else(|| u32_at(bytes, 0));
    let Some(head) = GroupHead::decode(salt, offset, &bytes[CRC_BYTES..]) else {
        return Ok(None);
    };
    let Some((end, computed)) = chain_of(window, salt, offset, seed)? else {
        return Ok(None);
    };
    let stored = window.get(end - CRC_BYTES as u64, CRC_BYTES)?;
    let whole = stored.len() == CRC_BYTES && u32_at(stored, 0) == computed;
    Ok(whole.then_some((head.synced, end)))
}

fn count_records<F: DiskFile>(window: &mut Window<'_, F>, salt: u32, offset: u64) -> io::Result<u64> {
    let Some(head) = GroupHead::decode(salt, offset, window.get(offset, HEAD_BYTES_MAX)?) else {
        return Ok(0);
    };
    let body = window.get(offset + head.head_bytes as u64, head.body_bytes)?;
    Ok(records(body).flatten().count() as u64)
}
