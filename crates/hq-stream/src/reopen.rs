//! Opens one file of a given name to append to it, whoever wrote there before: for logs.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use hq_model::{IdSet, JobId};
use rustix::fs::OFlags;

use crate::contents::Contents;
use crate::error::{AppendError, Fault, StreamError};
use crate::file::StreamFile;
use crate::format::Header;
use crate::limits::{FORMAT_PLAIN, INDEX_LINES};
use crate::links::own_target;
use crate::writer::{Writer, encoded, is_locked_elsewhere};

impl Writer {
    /// Opens a stream file, or makes it with the directories that are missing. What a crash left unfinished at its end is
    /// cut. An empty file counts as missing.
    ///
    /// # Errors
    /// When it is no stream file, or one of another server: nothing of it is changed. When the system refuses.
    pub fn open(path: &Path, header: &Header) -> Result<Writer, AppendError> {
        let failed = |error| AppendError::Io { path: path.into(), error };
        let file = match open_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
                open_file(path)
            }
            opened => opened,
        };
        let file = file.map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        // A device or a pipe is never read, lest that waits.
        if !found.is_file() {
            return Err(StreamError::Foreign { path: path.into() }.into());
        }
        let there = if found.len() == 0 { None } else { Some(StreamFile::open(path)?) };
        if let Some(there) = &there {
            let found = there.header();
            if found.server_uid != header.server_uid {
                let server_uid = found.server_uid.clone();
                return Err(AppendError::OtherServer { path: path.into(), server_uid });
            }
            if found.worker != header.worker {
                return Err(AppendError::OfWorker { path: path.into() });
            }
        }
        let is_begun = || file.metadata().is_ok_and(|now| now.len() > 0);
        if is_locked_elsewhere(&file) || there.is_none() && is_begun() {
            return Err(AppendError::InUse { path: path.into() });
        }
        match there {
            None => begin(file, path, header).map_err(failed),
            Some(there) => go_on(file, there),
        }
    }

    /// What is there of some tasks of a job, also of what is not flushed: that is flushed then.
    ///
    /// # Errors
    /// When the file cannot be written or read.
    pub fn contents_of(&mut self, job: JobId, tasks: &IdSet) -> Result<Contents, AppendError> {
        let path = self.path().to_owned();
        self.flush().map_err(|error| AppendError::Io { path: path.clone(), error })?;
        let mut scan = StreamFile::open(&path)?.find(job, tasks)?;
        let mut contents = Contents::default();
        while let Some(block) = scan.next_block()? {
            let of_these = block
                .entries()
                .filter(|entry| entry.attempt.task.job == job && tasks.contains(entry.attempt.task.task));
            of_these.for_each(|entry| contents.add(&entry));
        }
        contents.put_together();
        Ok(contents)
    }
}

// Without waiting for whoever reads from it, if it is a pipe, and following no link of another user.
fn open_file(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let target = own_target(path)?;
    OpenOptions::new().read(true).write(true).create(true).truncate(false).custom_flags(flags).open(target)
}

fn begin(file: File, path: &Path, header: &Header) -> io::Result<Writer> {
    let begin = encoded(header)?;
    if let Err(error) = file.write_all_at(&begin, 0) {
        // A part of a header would be no stream file later. Where it cannot be cut, it was not written either.
        let _ = file.set_len(0);
        return Err(error);
    }
    Ok(Writer::at(file, path.to_owned(), (header.clone(), FORMAT_PLAIN), begin.len() as u64))
}

// Behind the last block that is whole. Blocks since the last index are put into the next one.
fn go_on(file: File, there: StreamFile) -> Result<Writer, AppendError> {
    let path = there.path().to_owned();
    let header = (there.header().clone(), there.version());
    let last_index = there.last_whole_index()?;
    let (last_index, at) = last_index.unwrap_or((0, there.first_block));
    let mut end = there.length()?;
    let mut scan = there.scan_some(Vec::new(), at);
    let (mut blocks, mut entries) = (Vec::new(), 0);
    while let Some(block) = scan.next_block()? {
        let mut attempts = Vec::new();
        for entry in block.entries() {
            attempts.push((entry.attempt, entry.content.bits()));
            attempts.dedup_by(|next, last| {
                let is_same = next.0 == last.0;
                last.1 |= if is_same { next.1 } else { 0 };
                is_same
            });
        }
        blocks.push((block.offset, attempts));
        entries += block.length() as u64;
    }
    for fault in scan.faults() {
        if let Fault::Torn { offset, .. } = fault {
            end = *offset;
        }
    }
    file.set_len(end).map_err(|error| AppendError::Io { path: path.clone(), error })?;
    let mut writer = Writer::at(file, path, header, end);
    writer.last_index = last_index;
    if blocks.iter().map(|(_, attempts)| attempts.len()).sum::<usize>() < 2 * INDEX_LINES {
        blocks.iter_mut().for_each(|(offset, attempts)| writer.know(*offset, attempts));
        // Damaged bytes between them count, too: an index says where the first block that it knows begins.
        writer.since_index_bytes = end - at;
        writer.since_index_entries = entries;
    }
    // Else indexes were damaged: the next one does not follow them, and readers go through the whole file.
    Ok(writer)
}
