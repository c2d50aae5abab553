//! Whether the files of a journal that is being written are still there, and how they come back.
//!
//! Whoever removes a directory, or renames it, leaves a server with open files that nobody finds again. So no record
//! counts as synced unless its file has its name. All files are kept open: what is missing can be written anew. What was
//! cut out of a file is nowhere any more: nothing counts as synced until a whole copy of the file is in its place.

use std::io;
use std::ops::RangeInclusive;

use crate::disk::{Disk, DiskFile, Place};
use crate::error::{JournalError, LockError};
use crate::format::{FileKind, FileName, HEADER_BYTES, Header, Position};
use crate::journal::Journal;
use crate::layout::{Opened, disk_error};
use crate::limits::{OPEN_FILES_MAX, READ_BYTES};
use crate::reader::{GroupReader, Next, read_full};

/// What is said of a file of which a part is missing, and the way out.
const CUT: &str = "it was cut: put a whole copy in its place; without one, end the server, and `hq journal repair` keeps \
                   what is left";

/// A file that counts beside the segment that is written.
#[derive(Debug)]
pub(crate) struct Older<F> {
    pub(crate) name: FileName,
    /// How many bytes of it count.
    pub(crate) bytes: u64,
    /// Kept open; `None` where there are too many.
    pub(crate) file: Option<F>,
}

impl<F: DiskFile> Older<F> {
    /// Opens the file unless it is one of too many.
    pub(crate) fn open<D: Disk<File = F>>(
        disk: &D,
        name: FileName,
        bytes: u64,
        index: usize,
    ) -> Result<Self, JournalError> {
        let text = name.to_string();
        let open = || disk.open(&text).map_err(|source| disk_error(disk, "open", &text, source));
        let file = if index < OPEN_FILES_MAX { Some(open()?) } else { None };
        Ok(Self { name, bytes, file })
    }

    /// How long the file may be: what is behind the part of a segment that counts does no harm.
    fn lengths(&self) -> RangeInclusive<u64> {
        match self.name.kind {
            FileKind::Snapshot => self.bytes..=self.bytes,
            FileKind::Segment => self.bytes..=u64::MAX,
        }
    }
}

impl<D: Disk> Journal<D> {
    /// Whether what was written is in files that will be found again: looks at the segment that is written and at one
    /// of the others, in turn.
    ///
    /// # Errors
    /// When one is not. The next call of [`Journal::write`] or [`Journal::sync`] puts back what is missing, if there is
    /// a directory for it, and goes on in a new segment.
    pub fn look_at_places(&mut self) -> Result<(), JournalError> {
        let written = self.position.offset;
        // A write that failed may have left anything behind what is on disk.
        let lengths = if self.must_roll { self.synced_bytes..=u64::MAX } else { written..=written };
        let mut found = self.look_at(FileName::segment(self.number), self.file.as_ref(), lengths);
        self.is_suspect |= found.is_err();
        if found.is_ok() && !self.older.is_empty() {
            self.turn = (self.turn + 1) % self.older.len();
            let older = &self.older[self.turn];
            found = self.look_at(older.name, older.file.as_ref(), older.lengths());
        }
        self.must_roll |= found.is_err();
        found
    }

    fn look_at(
        &self,
        name: FileName,
        file: Option<&D::File>,
        lengths: RangeInclusive<u64>,
    ) -> Result<(), JournalError> {
        let Some(file) = file else { return Ok(()) };
        let text = name.to_string();
        let look_error = |source| disk_error(&self.disk, "look at", &text, source);
        match self.disk.place_of(file, &text).map_err(look_error)? {
            Place::Own if lengths.contains(&file.size().map_err(look_error)?) => Ok(()),
            Place::Own => Err(self.gone(name, "its length has changed")),
            Place::Empty => Err(self.gone(name, "it is gone")),
            Place::Taken => Err(self.gone(name, "move it away")),
        }
    }

    /// Writes what is missing of the journal's files into the directory, which must be there.
    pub(crate) fn put_back(&mut self) -> Result<(), JournalError> {
        if self.file.is_none() {
            return Ok(());
        }
        self.keep_lock()?;
        let Some(current) = &self.file else { return Ok(()) };
        let mut new = None;
        let name = FileName::segment(self.number);
        if let Some(file) = self.put_back_file(name, self.synced_bytes, Some(current))? {
            new = Some(file);
        }
        let mut is_changed = new.is_some();
        if new.is_some() {
            self.file = new;
        }
        for index in 0..self.older.len() {
            let Older { name, bytes, file } = &self.older[index];
            if let Some(file) = self.put_back_file(*name, *bytes, file.as_ref())? {
                self.older[index].file = Some(file);
                is_changed = true;
            }
        }
        if is_changed {
            self.disk.sync_dir().map_err(|source| disk_error(&self.disk, "sync", "", source))?;
        }
        Ok(())
    }

    /// Takes the lock anew where somebody has removed it, unless the directory is another server's by now.
    fn keep_lock(&mut self) -> Result<(), JournalError> {
        if self.disk.is_held(&self.lock) {
            return Ok(());
        }
        let gone = || JournalError::GoneDirectory { file: self.disk.path("") };
        let names = self.disk.list().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => gone(),
            _ => disk_error(&self.disk, "list", "", source),
        })?;
        for name in names.iter().filter_map(|name| FileName::parse(name)) {
            // What cannot be read is nobody's; what stands in the way is found when it is its turn.
            if let Ok(other) = Opened::open(&self.disk, name, false)
                && other.header.id != self.id()
            {
                let file = self.disk.path(&name.to_string());
                return Err(JournalError::Foreign { file, found: other.header.id, expected: self.id() });
            }
        }
        self.disk.renew(&mut self.lock).map_err(|error| match error {
            LockError::Disk { source, .. } if source.kind() == io::ErrorKind::NotFound => gone(),
            error => error.into(),
        })
    }

    /// Looks for a file that counts, and writes it again where it is missing or too long. Gives the file that is in its place now,
    /// if that is another one.
    fn put_back_file(
        &self,
        name: FileName,
        bytes: u64,
        file: Option<&D::File>,
    ) -> Result<Option<D::File>, JournalError> {
        let text = name.to_string();
        let look_error = |source| disk_error(&self.disk, "look at", &text, source);
        let Some(file) = file else {
            // Of those that are not kept open, only their names are known.
            return match self.disk.open(&text) {
                Ok(_) => Ok(None),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Err(self.gone(name, "it is gone: put it back"))
                }
                Err(error) => Err(look_error(error)),
            };
        };
        let place = self.disk.place_of(file, &text).map_err(look_error)?;
        let own_size = file.size().map_err(look_error)?;
        if self.is_cut(name, file, bytes).map_err(look_error)? {
            if place == Place::Taken {
                let there = self.disk.open(&text).map_err(look_error)?;
                if self.is_whole(name, &there, bytes).map_err(look_error)? {
                    return Ok(Some(there));
                }
            }
            return Err(self.gone(name, CUT));
        }
        match place {
            Place::Own if name.kind == FileKind::Segment || own_size == bytes => Ok(None),
            Place::Own | Place::Empty => self.write_again(name, bytes, file).map(Some),
            Place::Taken => {
                let there = self.disk.open(&text).map_err(look_error)?;
                let size = there.size().map_err(look_error)?;
                let is_copy = is_same(file, &there, size.min(bytes)).map_err(look_error)?;
                match is_copy {
                    true if size >= bytes => Ok(Some(there)),
                    // A copy of before the last records.
                    true => self.write_again(name, bytes, file).map(Some),
                    false => Err(self.gone(name, "move it away")),
                }
            }
        }
    }

    /// Whether a part is missing of what counts of an open file.
    fn is_cut(&self, name: FileName, file: &D::File, bytes: u64) -> io::Result<bool> {
        if file.size()? < bytes {
            return Ok(true);
        }
        // What was appended behind the cut may have made up for the length.
        let is_suspect = self.is_suspect && name == FileName::segment(self.number);
        Ok(is_suspect && !self.is_whole(name, file, bytes)?)
    }

    /// Whether a file of this journal begins with so many bytes of whole groups.
    fn is_whole(&self, name: FileName, file: &D::File, bytes: u64) -> io::Result<bool> {
        let mut header = [0; HEADER_BYTES as usize];
        let count = read_full(file, &mut header, 0)?;
        let Ok((header, crc)) = Header::decode("", name, &header[..count]) else { return Ok(false) };
        let mut reader = GroupReader::new(file, Position::after_header(crc), bytes);
        while let Next::Group { .. } = reader.next()? {}
        Ok(header.id == self.id() && reader.position().offset == bytes)
    }

    fn write_again(&self, name: FileName, bytes: u64, from: &D::File) -> Result<D::File, JournalError> {
        let temporary = name.temporary();
        let failed = |action, source| disk_error(&self.disk, action, &temporary, source);
        let written = || {
            let mut to = self.disk.create(&temporary).map_err(|source| failed("create", source))?;
            let mut buffer = vec![0; READ_BYTES];
            let mut offset = 0;
            while offset < bytes {
                let wanted = (bytes - offset).min(READ_BYTES as u64) as usize;
                let count = read_full(from, &mut buffer[..wanted], offset)
                    .map_err(|source| failed("read what belongs into", source))?;
                if count == 0 {
                    return Err(self.gone(name, CUT));
                }
                to.append(&buffer[..count]).map_err(|source| failed("write to", source))?;
                offset += count as u64;
            }
            to.sync().map_err(|source| failed("sync", source))?;
            self.disk.rename(&temporary, &name.to_string()).map_err(|source| failed("rename", source))?;
            Ok(to)
        };
        written().inspect_err(|_| self.remove(std::slice::from_ref(&temporary)))
    }

    pub(crate) fn gone(&self, name: FileName, reason: &'static str) -> JournalError {
        JournalError::GoneFile { file: self.disk.path(&name.to_string()), reason }
    }
}

/// Whether two files begin with the same bytes.
fn is_same<F: DiskFile>(one: &F, other: &F, bytes: u64) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; READ_BYTES], vec![0; READ_BYTES]);
    let mut offset = 0;
    while offset < bytes {
        let wanted = (bytes - offset).min(READ_BYTES as u64) as usize;
        let counts =
            (read_full(one, &mut left[..wanted], offset)?, read_full(other, &mut right[..wanted], offset)?);
        if counts != (wanted, wanted) || left[..wanted] != right[..wanted] {
            return Ok(false);
        }
        offset += wanted as u64;
    }
    Ok(true)
}
