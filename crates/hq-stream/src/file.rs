//! Reads one stream file from its beginning to its end, also while it is written.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use hq_model::Timestamp;

use crate::error::{Fault, StreamError};
use crate::format::{
    Attempt, Content, HEAD_BYTES, HEADER_BYTES_MAX, Head, Header, Kind, LOST_BYTES, take_entry,
};
use crate::limits::SEARCH_BYTES;
use crate::open::open_file;
use crate::pack::Unpacker;

/// A file of which the header is known.
#[derive(Debug)]
pub struct StreamFile {
    pub(crate) file: File,
    path: PathBuf,
    header: Header,
    version: u16,
    pub(crate) first_block: u64,
}

/// One line of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The start of a task that it is of.
    pub attempt: Attempt,
    /// When it was appended.
    pub at: Timestamp,
    /// What it says.
    pub content: Content<'a>,
}

/// A block of entries that is whole.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// Where it begins.
    pub offset: u64,
    is_packed: bool,
    payload: &'a [u8],
}

/// Where the bytes of an entry are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Here in the file.
    Plain(u64),
    /// In the compressed block that begins at `block`, so far behind the beginning of its entries.
    Packed { block: u64, within: u32 },
}

/// Goes through the blocks of a file.
#[derive(Debug)]
pub struct Scan {
    file: StreamFile,
    /// Blocks that are read first.
    listed: std::vec::IntoIter<u64>,
    /// Then everything from here on is.
    at: u64,
    end: u64,
    payload: Vec<u8>,
    unpacker: Unpacker,
    is_packed: bool,
    faults: Vec<Fault>,
    pub(crate) has_passed_other_jobs: bool,
}

// What is at a place of a file.
enum Step {
    Block,
    Passed,
    End,
}

impl StreamFile {
    /// Reads the header.
    ///
    /// # Errors
    /// When it cannot be read, or is of something else.
    pub fn open(path: &Path) -> Result<StreamFile, StreamError> {
        let failed = |error| StreamError::Io { path: path.into(), error };
        let file = match open_file(path) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(StreamError::Foreign { path: path.into() });
            }
            opened => opened.map_err(failed)?,
        };
        let mut bytes = [0; HEADER_BYTES_MAX];
        let length = read_up_to(&file, &mut bytes, 0).map_err(failed)?;
        let (header, length, version) =
            Header::decode(&bytes[..length]).map_err(|version| match version {
                Some(version) => StreamError::Newer { path: path.into(), version },
                None => StreamError::Foreign { path: path.into() },
            })?;
        Ok(StreamFile { file, path: path.into(), header, version, first_block: length as u64 })
    }

    /// What it says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The version of its format.
    pub(crate) fn version(&self) -> u16 {
        self.version
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Goes through all blocks that are there when they are asked for.
    pub fn scan(self) -> Scan {
        let at = self.first_block;
        self.scan_some(Vec::new(), at)
    }

    // These blocks, and all from a place behind them on.
    pub(crate) fn scan_some(self, listed: Vec<u64>, at: u64) -> Scan {
        Scan {
            file: self,
            listed: listed.into_iter(),
            at,
            end: 0,
            payload: Vec::new(),
            unpacker: Unpacker::default(),
            is_packed: false,
            faults: Vec::new(),
            has_passed_other_jobs: false,
        }
    }

    pub(crate) fn failed(&self, error: io::Error) -> StreamError {
        StreamError::Io { path: self.path.clone(), error }
    }

    // The head at this place, if there is one and the whole block is before `end`.
    pub(crate) fn head(&self, at: u64, end: u64) -> Result<Option<Head>, StreamError> {
        let mut head = [0; HEAD_BYTES];
        let length = read_up_to(&self.file, &mut head, at).map_err(|error| self.failed(error))?;
        let head = (length == HEAD_BYTES).then(|| Head::decode(&head, at)).flatten();
        Ok(head.filter(|head| at.saturating_add(head.block_bytes()) <= end))
    }

    // The payload behind such a head; false if it is not what was written.
    pub(crate) fn payload(&self, at: u64, head: &Head, into: &mut Vec<u8>) -> Result<bool, StreamError> {
        into.resize(head.length, 0);
        let read =
            read_up_to(&self.file, into, at + HEAD_BYTES as u64).map_err(|error| self.failed(error))?;
        Ok(read == head.length && head.fits(into))
    }

    // The entries of the block with such a head; false if they are not what was written.
    pub(crate) fn entries(
        &self,
        at: u64,
        head: &Head,
        unpacker: &mut Unpacker,
        into: &mut Vec<u8>,
    ) -> Result<bool, StreamError> {
        if head.kind != Kind::Packed {
            return self.payload(at, head, into);
        }
        Ok(self.payload(at, head, &mut unpacker.packed)? && unpacker.unpack(into))
    }

    // The entries of a block that was found there before.
    pub(crate) fn block_at(&self, at: u64, unpacker: &mut Unpacker) -> Result<Vec<u8>, StreamError> {
        let mut entries = Vec::new();
        let head = self.head(at, u64::MAX)?.ok_or_else(|| self.was_changed())?;
        if self.entries(at, &head, unpacker, &mut entries)? { Ok(entries) } else { Err(self.was_changed()) }
    }

    pub(crate) fn was_changed(&self) -> StreamError {
        self.failed(io::Error::new(io::ErrorKind::InvalidData, "it was changed while it was read"))
    }

    // Where the next block behind a head at this place begins that cannot be read.
    pub(crate) fn next_head(&self, at: u64) -> Result<Option<u64>, StreamError> {
        let mut bytes = vec![0; SEARCH_BYTES];
        let mut first = at + 1;
        loop {
            let length = read_up_to(&self.file, &mut bytes, first).map_err(|error| self.failed(error))?;
            let mut heads = bytes[..length].windows(HEAD_BYTES).zip(first..);
            if let Some((_, at)) = heads.find(|(bytes, at)| Head::decode(bytes, *at).is_some()) {
                return Ok(Some(at));
            }
            if length < SEARCH_BYTES {
                return Ok(None);
            }
            first += (length - HEAD_BYTES + 1) as u64;
        }
    }

    /// How long it is on the disk.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn length(&self) -> Result<u64, StreamError> {
        Ok(self.file.metadata().map_err(|error| self.failed(error))?.len())
    }

    /// The user it belongs to.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn owner(&self) -> Result<u32, StreamError> {
        Ok(self.file.metadata().map_err(|error| self.failed(error))?.uid())
    }
}

impl Scan {
    /// The next block of entries; nothing at the end of what is whole. Memory is one block.
    ///
    /// # Errors
    /// When the file cannot be read. What is damaged is passed over and told by [`faults`](Scan::faults).
    pub fn next_block(&mut self) -> Result<Option<Block<'_>>, StreamError> {
        while let Some(offset) = self.listed.next() {
            if self.faults.last().is_some_and(|fault| fault.holds(offset)) {
                continue;
            }
            let behind = std::mem::replace(&mut self.at, offset);
            let step = self.step()?;
            self.at = behind;
            if matches!(step, Step::Block) {
                return Ok(Some(Block { offset, is_packed: self.is_packed, payload: &self.payload }));
            }
        }
        loop {
            let offset = self.at;
            match self.step()? {
                Step::Block => {
                    return Ok(Some(Block { offset, is_packed: self.is_packed, payload: &self.payload }));
                }
                Step::Passed => {}
                Step::End => return Ok(None),
            }
        }
    }

    // Reads the block that begins here, and goes on to the next one.
    fn step(&mut self) -> Result<Step, StreamError> {
        let at = self.at;
        self.end = self.file.length()?;
        if at >= self.end {
            return Ok(Step::End);
        }
        let (mut head, mut next) = (self.file.head(at, self.end)?, None);
        if head.is_none() {
            next = self.file.next_head(at)?;
            // What was being written is whole once something is behind it.
            self.end = self.file.length()?;
            head = self.file.head(at, self.end)?;
        }
        let Some(head) = head else {
            self.at = next.unwrap_or(u64::MAX);
            let (fault, step) = match next {
                Some(next) => (Fault::Damaged { offset: at, bytes: next - at }, Step::Passed),
                None => (Fault::Torn { offset: at, bytes: self.end.saturating_sub(at) }, Step::End),
            };
            self.faults.push(fault);
            return Ok(step);
        };
        self.at = at + head.block_bytes();
        if head.kind == Kind::Index {
            return Ok(Step::Passed);
        }
        self.is_packed = head.kind == Kind::Packed;
        if self.file.entries(at, &head, &mut self.unpacker, &mut self.payload)? {
            if head.kind == Kind::Lost {
                self.faults.push(lost(at, &head, &self.payload, |_| true));
            }
            return Ok(Step::Block);
        }
        let is_last = self.at >= self.end;
        let (offset, bytes) = (at, head.block_bytes());
        self.faults.push(match is_last {
            true => Fault::Torn { offset, bytes },
            false => Fault::Damaged { offset, bytes },
        });
        Ok(Step::Passed)
    }

    /// What was passed over so far.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The file.
    pub fn file(&self) -> &StreamFile {
        &self.file
    }
}

impl<'a> Block<'a> {
    pub(crate) fn new(offset: u64, is_packed: bool, payload: &'a [u8]) -> Block<'a> {
        Block { offset, is_packed, payload }
    }

    /// Bytes of its entries with their heads, unpacked.
    pub fn length(&self) -> usize {
        self.payload.len()
    }

    /// What it holds, in the order in which it was appended.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        self.placed_entries().map(|(_, entry)| entry)
    }

    /// The same, with where the bytes of each are: they are the end of their entry.
    pub(crate) fn placed_entries(&self) -> impl Iterator<Item = (Place, Entry<'a>)> + use<'a> {
        let Block { offset: block, is_packed, payload } = *self;
        let (first, length) = (block + HEAD_BYTES as u64, payload.len());
        let mut rest = self.payload;
        std::iter::from_fn(move || {
            let ((attempt, at, content), behind) = take_entry(rest)?;
            rest = behind;
            let bytes = match content {
                Content::Bytes(_, bytes) => bytes.len(),
                Content::End { .. } => 0,
                Content::Lost(..) => LOST_BYTES,
            };
            let within = length - behind.len() - bytes;
            let place = match is_packed {
                true => Place::Packed { block, within: within as u32 },
                false => Place::Plain(first + within as u64),
            };
            Some((place, Entry { attempt, at, content }))
        })
    }
}

/// What a block says of what was lost, of some attempts and channels.
pub(crate) fn lost(at: u64, head: &Head, payload: &[u8], is_of: impl Fn(&Entry<'_>) -> bool) -> Fault {
    let entries = Block::new(at, false, payload).entries().filter(is_of);
    let lost_bytes = entries.fold(0_u64, |lost_bytes, entry| match entry.content {
        Content::Lost(_, bytes) => lost_bytes.saturating_add(bytes),
        Content::Bytes(..) | Content::End { .. } => lost_bytes,
    });
    Fault::Lost { offset: at, bytes: head.block_bytes(), lost_bytes }
}

pub(crate) fn read_up_to(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < into.len() {
        match file.read_at(&mut into[read..], at + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
