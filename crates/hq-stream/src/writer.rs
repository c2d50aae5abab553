//! Appends what tasks print to a file of its own, in blocks, with an index now and then.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use hq_model::{Channel, Compression, Timestamp};

use crate::format::{
    Attempt, Content, ENTRY_BYTES, FILE_ENDING, Head, Header, Kind, LINE_BYTES, LOST_BYTES, SUMMARY_BYTES,
    push_entry, push_key,
};
use crate::limits::{
    BLOCK_BYTES, FORMAT_PLAIN, FORMAT_VERSION, INDEX_DISTANCE_BYTES, INDEX_LINES, NAMES_TRIED,
    SERVER_UID_BYTES,
};
use crate::pack::Packer;

const NAME_LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const NAME_LENGTH: usize = 12;

/// Writes one stream file.
#[derive(Debug)]
pub struct Writer {
    file: File,
    path: PathBuf,
    header: Header,
    /// What the header in the file says.
    version: u16,
    /// What the next block needs.
    version_needed: u16,
    packer: Packer,
    /// Entries of the block that is being filled.
    block: Vec<u8>,
    /// Attempts in it, each with what it has there.
    attempts: Vec<(Attempt, u8)>,
    /// Blocks that are complete, and not or not wholly in the file.
    complete: Vec<u8>,
    /// Where these belong.
    offset: u64,
    /// Lines of the next index: attempts, what they have there, and the block.
    pub(crate) lines: Vec<(Attempt, u64, u8)>,
    /// Where the last index begins; 0 before the first.
    pub(crate) last_index: u64,
    /// Bytes of blocks since then.
    pub(crate) since_index_bytes: u64,
    /// Bytes of entries since then.
    pub(crate) since_index_entries: u64,
}

impl Writer {
    /// Makes the directory, if it is missing, and a new file in it with a random name.
    ///
    /// # Errors
    /// When the directory or the file cannot be made, or the header does not fit onto the disk.
    pub fn create(dir: &Path, header: &Header) -> io::Result<Writer> {
        let begin = encoded(header)?;
        fs::create_dir_all(dir)?;
        let (file, path) = new_file(dir)?;
        if let Err(error) = file.write_all_at(&begin, 0) {
            // Nobody needs an empty file; where it cannot be removed, readers pass over it.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        // Nobody else knows its name.
        let _ = is_locked_elsewhere(&file);
        Ok(Writer::at(file, path, (header.clone(), FORMAT_PLAIN), begin.len() as u64))
    }

    /// Writes to a file, of which the header and its version are given, from this place on.
    pub(crate) fn at(file: File, path: PathBuf, (header, version): (Header, u16), offset: u64) -> Writer {
        Writer {
            file,
            path,
            header,
            version,
            version_needed: version,
            packer: Packer::new(Compression::None),
            block: Vec::with_capacity(BLOCK_BYTES),
            attempts: Vec::new(),
            complete: Vec::new(),
            offset,
            lines: Vec::new(),
            last_index: 0,
            since_index_bytes: 0,
            since_index_entries: 0,
        }
    }

    /// What is appended from now on is stored so.
    pub fn compress(&mut self, compression: Compression) {
        if self.packer.compression() != compression {
            self.complete_block();
            self.packer = Packer::new(compression);
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which file of which file system it is, whatever it is called.
    pub fn identity(&self) -> Option<(u64, u64)> {
        self.file.metadata().ok().map(|own| (own.dev(), own.ino()))
    }

    /// True when the file has been removed, so that nobody will ever read what is written to it.
    pub fn is_removed(&self) -> bool {
        // What cannot be told is told by the next write.
        self.file.metadata().is_ok_and(|own| own.nlink() == 0)
    }

    /// What somebody else has done to the file, so that it is not what was written any more.
    pub fn altered(&self) -> Option<&'static str> {
        // What cannot be told is told by the next write.
        let own = self.file.metadata().ok().filter(fs::Metadata::is_file)?;
        if own.len() < self.offset {
            return Some("was cut short");
        }
        let begin = self.header.encode(self.version);
        let mut there = vec![0; begin.len()];
        let is_other = self.file.read_exact_at(&mut there, 0).is_ok() && there != begin;
        is_other.then_some("was overwritten")
    }

    /// Bytes that were written and are nowhere any more, since the file was removed, made shorter or overwritten.
    pub fn lost_bytes(&self) -> u64 {
        let Ok(own) = self.file.metadata() else { return 0 };
        match self.offset.saturating_sub(own.len()) {
            _ if own.nlink() == 0 => self.offset,
            0 if self.altered().is_some() => self.offset,
            lost => lost,
        }
    }

    /// True when it was removed, renamed, emptied or overwritten: what is written next belongs into another file.
    pub fn is_left(&self) -> bool {
        if self.altered().is_some() {
            return true;
        }
        let Ok(own) = self.file.metadata() else { return false };
        match fs::metadata(&self.path) {
            Ok(there) => (own.dev(), own.ino()) != (there.dev(), there.ino()),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Appends what a task printed. What makes a block complete is written.
    ///
    /// # Errors
    /// When blocks of before could not be written and still cannot be: nothing of `bytes` was taken. That those of
    /// this call cannot be written is told by the next call.
    pub fn append(
        &mut self,
        attempt: Attempt,
        channel: Channel,
        at: Timestamp,
        bytes: &[u8],
    ) -> io::Result<()> {
        self.write()?;
        let mut bytes = bytes;
        while !bytes.is_empty() {
            // An entry of a few bytes at the end of a block is not worth its head.
            if self.block.len() + 2 * ENTRY_BYTES > BLOCK_BYTES {
                self.complete_block();
            }
            let room = BLOCK_BYTES - self.block.len() - ENTRY_BYTES;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.push(attempt, at, Content::Bytes(channel, now));
            bytes = later;
        }
        let _ = self.write();
        Ok(())
    }

    /// Says that these channels of an attempt are complete.
    ///
    /// # Errors
    /// As for [`append`](Writer::append).
    pub fn end(&mut self, attempt: Attempt, channels: &[Channel], at: Timestamp) -> io::Result<()> {
        self.write()?;
        if self.block.len() + ENTRY_BYTES > BLOCK_BYTES {
            self.complete_block();
        }
        let has = |channel| channels.contains(&channel);
        let content = Content::End { stdout: has(Channel::Stdout), stderr: has(Channel::Stderr) };
        self.push(attempt, at, content);
        let _ = self.write();
        Ok(())
    }

    /// Says that so many bytes of channels of attempts had been printed and are not in the file any more.
    ///
    /// # Errors
    /// As for [`append`](Writer::append).
    pub fn lose(&mut self, lost: &[(Attempt, Channel, u64)], at: Timestamp) -> io::Result<()> {
        self.write()?;
        self.complete_block();
        for lost in lost.chunks(BLOCK_BYTES / (ENTRY_BYTES + LOST_BYTES)) {
            let (offset, mut payload) = (self.end_offset(), Vec::new());
            let mut attempts = Vec::new();
            for &(attempt, channel, bytes) in lost {
                let content = Content::Lost(channel, bytes);
                push_entry(&mut payload, attempt, at, content);
                attempts.push((attempt, content.bits()));
            }
            self.complete.extend_from_slice(&Head::encode(Kind::Lost, self.last_index, offset, &payload));
            self.complete.append(&mut payload);
            self.end_block(offset, lost.len() * (ENTRY_BYTES + LOST_BYTES), &mut attempts);
        }
        let _ = self.write();
        Ok(())
    }

    /// Writes all that was appended. It is in the file then, and not necessarily on the disk.
    ///
    /// # Errors
    /// When it cannot be written. A later call tries again at the same place.
    pub fn flush(&mut self) -> io::Result<()> {
        self.complete_block();
        self.write()
    }

    /// Writes all that was appended and the last index. May be called again after an error.
    ///
    /// # Errors
    /// As for [`flush`](Writer::flush).
    pub fn finish(&mut self) -> io::Result<()> {
        self.complete_block();
        self.index();
        self.write()
    }

    fn push(&mut self, attempt: Attempt, at: Timestamp, content: Content<'_>) {
        let bits = content.bits();
        push_entry(&mut self.block, attempt, at, content);
        match self.attempts.last_mut() {
            Some((last, has)) if *last == attempt => *has |= bits,
            _ => self.attempts.push((attempt, bits)),
        }
    }

    fn complete_block(&mut self) {
        if self.block.is_empty() {
            return;
        }
        let offset = self.end_offset();
        let mut payload = std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK_BYTES));
        let length = payload.len();
        if let Some(packed) = self.packer.pack(&payload) {
            self.complete.extend_from_slice(&Head::encode(Kind::Packed, self.last_index, offset, packed));
            self.complete.extend_from_slice(packed);
            self.version_needed = FORMAT_VERSION;
        } else {
            self.complete.extend_from_slice(&Head::encode(Kind::Data, self.last_index, offset, &payload));
            self.complete.append(&mut payload);
        }
        let mut attempts = std::mem::take(&mut self.attempts);
        self.end_block(offset, length, &mut attempts);
        attempts.clear();
        self.attempts = attempts;
    }

    // A block was put at the end that has so many bytes of entries of these attempts.
    fn end_block(&mut self, offset: u64, entries: usize, attempts: &mut [(Attempt, u8)]) {
        self.know(offset, attempts);
        self.since_index_entries += entries as u64;
        self.since_index_bytes += self.end_offset() - offset;
        if self.lines.len() >= INDEX_LINES || self.since_index_entries >= INDEX_DISTANCE_BYTES {
            self.index();
        }
    }

    /// A block is there with something of these attempts, for the next index.
    pub(crate) fn know(&mut self, offset: u64, attempts: &mut [(Attempt, u8)]) {
        attempts.sort_unstable();
        let first = self.lines.len();
        for &mut (attempt, bits) in attempts {
            match self.lines[first..].last_mut() {
                Some((last, _, has)) if *last == attempt => *has |= bits,
                _ => self.lines.push((attempt, offset, bits)),
            }
        }
    }

    fn index(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        self.lines.sort_unstable();
        let offset = self.end_offset();
        let payload = index_payload(self.last_index, offset - self.since_index_bytes, &self.lines);
        self.complete.extend_from_slice(&Head::encode(Kind::Index, self.last_index, offset, &payload));
        self.complete.extend_from_slice(&payload);
        self.lines.clear();
        self.last_index = offset;
        self.since_index_bytes = 0;
        self.since_index_entries = 0;
    }

    // Where the next block belongs.
    fn end_offset(&self) -> u64 {
        self.offset + self.complete.len() as u64
    }

    fn write(&mut self) -> io::Result<()> {
        if !self.complete.is_empty() {
            // Into what is not its own nothing is written.
            if let Some(how) = self.altered() {
                return Err(io::Error::other(format!("its file {how} meanwhile")));
            }
            if self.version < self.version_needed {
                // An earlier release says then that it does not read the file, instead of leaving blocks out.
                self.file.write_all_at(&self.header.encode(self.version_needed), 0)?;
                self.version = self.version_needed;
            }
            self.file.write_all_at(&self.complete, self.offset)?;
            self.offset = self.end_offset();
            self.complete = Vec::new();
        }
        Ok(())
    }
}

// What an index says: where the one before it is, from where on it knows blocks, its first and last attempt and the
// number of its lines (with a checksum, so that this much can be read alone), and the lines in order.
fn index_payload(before: u64, from: u64, lines: &[(Attempt, u64, u8)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(SUMMARY_BYTES + lines.len() * LINE_BYTES);
    out.extend_from_slice(&before.to_le_bytes());
    out.extend_from_slice(&from.to_le_bytes());
    push_key(&mut out, lines[0].0);
    push_key(&mut out, lines[lines.len() - 1].0);
    out.extend_from_slice(&u32::try_from(lines.len()).expect("an index is short").to_le_bytes());
    let check = crc32c::crc32c(&out);
    out.extend_from_slice(&check.to_le_bytes());
    for &(attempt, offset, bits) in lines {
        push_key(&mut out, attempt);
        out.extend_from_slice(&u32::from(bits).to_le_bytes());
        out.extend_from_slice(&offset.to_le_bytes());
    }
    out
}

/// Locks a file as long as it is open, since two who append to it would write over each other. True when somebody else has it.
/// Where a file system has no locks, nobody knows.
pub(crate) fn is_locked_elsewhere(file: &File) -> bool {
    let locked = rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    locked == Err(rustix::io::Errno::WOULDBLOCK)
}

/// The bytes of a header, if it is not too long.
pub(crate) fn encoded(header: &Header) -> io::Result<Vec<u8>> {
    if header.server_uid.len() > SERVER_UID_BYTES {
        let text = format!("the id of the server has more than {SERVER_UID_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(header.encode(FORMAT_PLAIN))
}

fn new_file(dir: &Path) -> io::Result<(File, PathBuf)> {
    let mut tried = 0;
    loop {
        let mut random = [0; NAME_LENGTH];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let letters = random.iter().map(|byte| char::from(NAME_LETTERS[usize::from(byte % 32)]));
        let name: String = letters.chain(FILE_ENDING.chars()).collect();
        let path = dir.join(name);
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tried < NAMES_TRIED => tried += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use hq_model::{Instance, JobId, TaskId, TaskRef, WorkerId};

    use super::*;
    use crate::StreamFile;

    #[test]
    fn nothing_is_written_into_what_somebody_else_has_put_there() {
        let dir = tempfile::tempdir().unwrap();
        let header = Header { server_uid: "uid".into(), worker: WorkerId(1), created: Timestamp(5) };
        let attempt = Attempt { task: TaskRef::new(JobId(1), TaskId(2)), instance: Instance(0) };
        type Alter = fn(&Path);
        let alter: [(&str, Alter); 3] = [
            ("was cut short", |path| OpenOptions::new().write(true).open(path).unwrap().set_len(40).unwrap()),
            ("was cut short", |path| fs::write(path, "").unwrap()),
            ("was overwritten", |path| fs::write(path, "letters of somebody else\n".repeat(99)).unwrap()),
        ];
        for (how, alter) in alter {
            let mut writer = Writer::create(dir.path(), &header).unwrap();
            for at in [6, 7] {
                writer.append(attempt, Channel::Stdout, Timestamp(at), b"one").unwrap();
                writer.flush().unwrap();
            }
            assert_eq!((writer.altered(), writer.is_left(), writer.lost_bytes()), (None, false, 0));
            alter(writer.path());
            let before = fs::read(writer.path()).unwrap();
            assert_eq!((writer.altered(), writer.is_left()), (Some(how), true));
            assert!(writer.lost_bytes() > 0);
            writer.append(attempt, Channel::Stdout, Timestamp(8), b"two").unwrap();
            assert_eq!(writer.flush().unwrap_err().to_string(), format!("its file {how} meanwhile"));
            assert_eq!(fs::read(writer.path()).unwrap(), before);
        }
    }

    #[test]
    fn what_a_full_disk_refuses_is_written_later_at_the_same_place() {
        let dir = tempfile::tempdir().unwrap();
        let header = Header { server_uid: "uid".into(), worker: WorkerId(1), created: Timestamp(5) };
        let mut writer = Writer::create(dir.path(), &header).unwrap();
        let attempt = Attempt { task: TaskRef::new(JobId(1), TaskId(2)), instance: Instance(0) };
        writer.append(attempt, Channel::Stdout, Timestamp(6), b"one").unwrap();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let file = std::mem::replace(&mut writer.file, full);
        assert_eq!(writer.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(writer.append(attempt, Channel::Stdout, Timestamp(7), b"not taken").is_err());
        assert!(writer.end(attempt, &[Channel::Stdout], Timestamp(7)).is_err());
        // A part of it was written before the disk was full.
        file.write_all_at(&writer.complete[..7], writer.offset).unwrap();
        writer.file = file;
        writer.append(attempt, Channel::Stdout, Timestamp(8), b" two").unwrap();
        writer.finish().unwrap();
        let mut text = Vec::new();
        let mut scan = StreamFile::open(writer.path()).unwrap().scan();
        while let Some(block) = scan.next_block().unwrap() {
            for entry in block.entries() {
                if let Content::Bytes(_, bytes) = entry.content {
                    text.extend_from_slice(bytes);
                }
            }
        }
        assert_eq!(String::from_utf8(text).unwrap(), "one two");
        assert_eq!(scan.faults(), []);
    }
}
