//! All stream files of a directory together: what is there of which task, and where its bytes are.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use hq_model::{Channel, IdSet, JobId, TaskId, Timestamp, WorkerId};

use crate::contents::Contents;
use crate::error::{Fault, StreamError};
use crate::file::{Entry, Place, StreamFile};
use crate::format::{Content, FILE_ENDING, Header};
use crate::limits::{COPY_BYTES, OPEN_FILES_MAX, TASKS_BY_INDEX_MAX, UNPACKED_BLOCKS_MAX};
use crate::links::is_trusted;
use crate::pack::Unpacker;

/// The files of one server in a directory.
#[derive(Debug)]
pub struct Directory {
    files: Vec<PathBuf>,
    /// Files that are left out, and why.
    pub passed_over: Vec<StreamError>,
    copier: RefCell<Copier>,
}

// What copying one task after the other needs again.
#[derive(Debug, Default)]
struct Copier {
    open: BTreeMap<u32, StreamFile>,
    buffer: Vec<u8>,
    unpacker: Unpacker,
    // Entries of compressed blocks, by their files and places.
    unpacked: HashMap<(u32, u64), Vec<u8>>,
}

/// Which servers' files are in a directory.
#[derive(Debug)]
pub enum Found {
    /// None at all.
    Nothing,
    /// Of more than one server, where none was named: the names, each with the time of its first file, in that order.
    Several(Vec<(String, Timestamp)>),
    /// These.
    Files(Directory),
}

/// Some bytes of a task, in one of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    /// The task.
    pub task: TaskId,
    file: u32,
    /// Of its bytes in the file; of its block, if that is compressed.
    offset: u64,
    /// In a compressed block: how far behind the beginning of its entries, of which the first is after a head.
    within: Option<NonZeroU32>,
    bytes: u32,
}

impl Piece {
    /// How many bytes these are.
    pub fn length(&self) -> usize {
        self.bytes as usize
    }
}

impl Directory {
    /// Looks for stream files of a server, or of the only one. The path of a file stands for this alone.
    ///
    /// # Errors
    /// When the directory or a file cannot be read, or is of a later release. What is no stream file is passed over.
    pub fn open(path: &Path, server_uid: Option<&str>) -> Result<Found, StreamError> {
        Directory::look(path, server_uid, false)
    }

    // Perhaps without files of other users.
    fn look(path: &Path, server_uid: Option<&str>, is_wary: bool) -> Result<Found, StreamError> {
        let failed = |error| StreamError::Io { path: path.into(), error };
        let mut by_server: BTreeMap<String, Vec<Candidate>> = BTreeMap::new();
        let mut passed_over = Vec::new();
        let is_file = fs::metadata(path).map_err(failed)?.is_file();
        let entries = if is_file { Vec::new() } else { stream_files(path).map_err(failed)? };
        for path in is_file.then(|| path.to_owned()).into_iter().chain(entries) {
            match StreamFile::open(&path) {
                Ok(file) if is_wary && !is_trusted(file.owner()?) => {
                    let owner = file.owner()?;
                    passed_over.push(StreamError::Strange { path, owner });
                }
                Ok(file) => {
                    let Header { server_uid, created, worker } = file.header().clone();
                    let length = file.length()?;
                    let candidate = Candidate { created, worker, length: Reverse(length), path };
                    by_server.entry(server_uid).or_default().push(candidate);
                }
                Err(foreign @ StreamError::Foreign { .. }) if !is_file => passed_over.push(foreign),
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error),
            }
        }
        let mut files = match server_uid {
            Some(uid) => by_server.remove(uid).unwrap_or_default(),
            None if by_server.len() > 1 => return Ok(Found::Several(in_order(&by_server))),
            None => by_server.into_values().next().unwrap_or_default(),
        };
        if files.is_empty() && passed_over.iter().all(|error| !matches!(error, StreamError::Strange { .. })) {
            return Ok(Found::Nothing);
        }
        // A worker may have a second file for what its first was closed before.
        files.sort_unstable();
        let files = without_copies(files, &mut passed_over);
        Ok(Found::Files(Directory { files, passed_over, copier: RefCell::default() }))
    }

    /// Those of a server of this user in a directory that may not be there. Where others may write, files of others are passed
    /// over: anybody can write what looks like the output of a task.
    ///
    /// # Errors
    /// As `open`.
    pub fn of_server(path: &Path, server_uid: &str) -> Result<Option<Directory>, StreamError> {
        let is_open_to_others = |found: fs::Metadata| found.mode() & 0o022 != 0 || !is_trusted(found.uid());
        let is_wary = fs::metadata(path).is_ok_and(is_open_to_others);
        match Directory::look(path, Some(server_uid), is_wary) {
            Ok(Found::Files(directory)) => Ok(Some(directory)),
            Ok(Found::Nothing | Found::Several(_)) => Ok(None),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Their paths, in the order in which they were begun.
    pub fn paths(&self) -> &[PathBuf] {
        &self.files
    }

    /// How many files there are.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// What all of them hold.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn contents(&self) -> Result<Contents, StreamError> {
        let mut contents = Contents::default();
        let mut faults = Vec::new();
        self.each(None, Some(&mut faults), |_, _, entry| contents.add(&entry))?;
        contents.put_together();
        contents.faults = faults;
        Ok(contents)
    }

    /// What they hold of these tasks of a job, or of the only job there is. A few tasks are found by the indexes; what is
    /// damaged elsewhere is not told then. Where the job or one of the tasks is not there, this is all they hold.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn contents_of(&self, job: Option<JobId>, tasks: &IdSet) -> Result<Contents, StreamError> {
        if !is_few(tasks) {
            return self.contents();
        }
        let Some(of) = job.map_or_else(|| self.first_job(), |job| Ok(Some(job)))? else {
            return self.contents();
        };
        let (contents, is_only) = self.attempts_of(of, tasks)?;
        let is_clear = job.is_some() || is_only;
        if is_clear && tasks.iter().all(|task| contents.latest(of, task).is_some()) {
            return Ok(contents);
        }
        self.contents()
    }

    /// What they hold of these tasks of a job, those that are not there left out. A few are found by the indexes.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn contents_of_any(&self, job: JobId, tasks: &IdSet) -> Result<Contents, StreamError> {
        Ok(self.attempts_of(job, tasks)?.0)
    }

    /// The tasks of which a fault of one of the files may have something. Nothing where that is not known.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn tasks_in(path: &Path, fault: &Fault) -> Result<Option<BTreeMap<JobId, IdSet>>, StreamError> {
        StreamFile::open(path)?.tasks_in(fault)
    }

    /// Where the bytes are that the latest attempts of a job's tasks printed on a channel, in order of tasks, and of each
    /// task in the order in which they were written.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn pieces(
        &self,
        contents: &Contents,
        job: JobId,
        tasks: &IdSet,
        channel: Channel,
    ) -> Result<Vec<Piece>, StreamError> {
        let mut pieces = Vec::new();
        let few = is_few(tasks).then_some((job, tasks));
        self.each(few, None, |file, place, entry| {
            let task = entry.attempt.task;
            if let Content::Bytes(of, bytes) = entry.content
                && task.job == job
                && of == channel
                && tasks.contains(task.task)
                && contents.is_latest(entry.attempt)
            {
                let bytes = bytes.len() as u32;
                let (offset, within) = match place {
                    Place::Plain(offset) => (offset, None),
                    Place::Packed { block, within } => (block, NonZeroU32::new(within)),
                };
                pieces.push(Piece { task: task.task, file: file as u32, offset, within, bytes });
            }
        })?;
        pieces.sort_unstable();
        Ok(pieces)
    }

    /// Copies pieces one after the other.
    ///
    /// # Errors
    /// When a file cannot be read, or `out` cannot be written: then the outer error.
    pub fn copy(&self, pieces: &[Piece], out: &mut dyn Write) -> io::Result<Result<(), StreamError>> {
        let Copier { open, buffer, unpacker, unpacked } = &mut *self.copier.borrow_mut();
        buffer.resize(COPY_BYTES, 0);
        for piece in pieces {
            let path = &self.files[piece.file as usize];
            if !open.contains_key(&piece.file) {
                if open.len() >= OPEN_FILES_MAX {
                    open.clear();
                }
                match StreamFile::open(path) {
                    Ok(file) => open.insert(piece.file, file),
                    Err(error) => return Ok(Err(error)),
                };
            }
            let file = &open[&piece.file];
            if let Some(within) = piece.within {
                let key = (piece.file, piece.offset);
                if !unpacked.contains_key(&key) {
                    if unpacked.len() >= UNPACKED_BLOCKS_MAX {
                        unpacked.clear();
                    }
                    match file.block_at(piece.offset, unpacker) {
                        Ok(entries) => _ = unpacked.insert(key, entries),
                        Err(error) => return Ok(Err(error)),
                    }
                }
                let first = within.get() as usize;
                match unpacked[&key].get(first..first + piece.bytes as usize) {
                    Some(bytes) => out.write_all(bytes)?,
                    None => return Ok(Err(file.was_changed())),
                }
                continue;
            }
            let (mut at, mut left) = (piece.offset, piece.bytes as usize);
            while left > 0 {
                let part = &mut buffer[..left.min(COPY_BYTES)];
                if let Err(error) = file.file.read_exact_at(part, at) {
                    return Ok(Err(file.failed(error)));
                }
                out.write_all(part)?;
                at += part.len() as u64;
                left -= part.len();
            }
        }
        Ok(Ok(()))
    }

    /// Tells everything that the latest attempts printed, in the order in which it was written. Memory is one block of
    /// each file.
    ///
    /// # Errors
    /// When a file cannot be read, or what `tell` says.
    pub fn in_order<E: From<StreamError>>(
        &self,
        contents: &Contents,
        mut tell: impl FnMut(&Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut sources = Vec::new();
        for path in &self.files {
            let mut source = Source { scan: StreamFile::open(path)?.scan(), block: Vec::new(), next: 0 };
            source.fill()?;
            sources.push(source);
        }
        loop {
            let heads = sources.iter().enumerate().filter_map(|(at, source)| Some((source.head()?.0, at)));
            let Some((_, at)) = heads.min() else { return Ok(()) };
            let source = &mut sources[at];
            if let Some((at, attempt, channel, bytes)) = source.take()
                && contents.is_latest(attempt)
            {
                tell(&Entry { attempt, at, content: Content::Bytes(channel, &bytes) })?;
            }
            source.fill()?;
        }
    }

    // What they hold of these tasks, and whether it is sure that there are no other jobs.
    fn attempts_of(&self, job: JobId, tasks: &IdSet) -> Result<(Contents, bool), StreamError> {
        let (mut contents, mut faults, mut is_only) = (Contents::default(), Vec::new(), true);
        let few = is_few(tasks).then_some((job, tasks));
        let has_passed_others = self.each(few, Some(&mut faults), |_, _, entry| {
            let task = entry.attempt.task;
            is_only &= task.job == job;
            if task.job == job && tasks.contains(task.task) {
                contents.add(&entry);
            }
        })?;
        contents.put_together();
        contents.faults = faults;
        Ok((contents, is_only && !has_passed_others))
    }

    // The job of which the first bytes are.
    fn first_job(&self) -> Result<Option<JobId>, StreamError> {
        for path in &self.files {
            let mut scan = StreamFile::open(path)?.scan();
            if let Some(entry) = scan.next_block()?.and_then(|block| block.entries().next()) {
                return Ok(Some(entry.attempt.task.job));
            }
        }
        Ok(None)
    }

    // Each entry with its file and where its bytes are there, or a part of them with all those of a few tasks. Says whether
    // there are other jobs among those that were passed over.
    fn each(
        &self,
        few: Option<(JobId, &IdSet)>,
        mut faults: Option<&mut Vec<(PathBuf, Fault)>>,
        mut take: impl FnMut(usize, Place, Entry<'_>),
    ) -> Result<bool, StreamError> {
        let mut has_passed_other_jobs = false;
        for (at, path) in self.files.iter().enumerate() {
            let file = StreamFile::open(path)?;
            let mut scan = match few {
                Some((job, tasks)) => file.find(job, tasks)?,
                None => file.scan(),
            };
            while let Some(block) = scan.next_block()? {
                block.placed_entries().for_each(|(place, entry)| take(at, place, entry));
            }
            has_passed_other_jobs |= scan.has_passed_other_jobs;
            if let Some(faults) = &mut faults {
                faults.extend(scan.faults().iter().map(|fault| (path.clone(), *fault)));
            }
        }
        Ok(has_passed_other_jobs)
    }
}

// A file that may be one of those. A server's worker begins one file at a time: what says the same of itself is the same file,
// copied. The longest comes first: a copy may have been made while the file was written.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    created: Timestamp,
    worker: WorkerId,
    length: Reverse<u64>,
    path: PathBuf,
}

// The servers, each with the time of its first file, in that order.
fn in_order(by_server: &BTreeMap<String, Vec<Candidate>>) -> Vec<(String, Timestamp)> {
    let first = |files: &[Candidate]| files.iter().map(|file| file.created).min().unwrap_or_default();
    let mut servers: Vec<(String, Timestamp)> =
        by_server.iter().map(|(uid, files)| (uid.clone(), first(files))).collect();
    servers.sort_by_key(|(_, begun)| *begun);
    servers
}

// They are sorted.
fn without_copies(files: Vec<Candidate>, passed_over: &mut Vec<StreamError>) -> Vec<PathBuf> {
    let mut kept: Vec<Candidate> = Vec::with_capacity(files.len());
    for file in files {
        match kept.last() {
            Some(last) if (last.created, last.worker) == (file.created, file.worker) => {
                passed_over.push(StreamError::Copy { path: file.path, of: last.path.clone() });
            }
            _ => kept.push(file),
        }
    }
    kept.into_iter().map(|file| file.path).collect()
}

// By their names.
fn stream_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let paths: io::Result<Vec<PathBuf>> = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect();
    let ending = FILE_ENDING.trim_start_matches('.');
    Ok(paths?.into_iter().filter(|path| path.extension().is_some_and(|own| own == ending)).collect())
}

fn is_few(tasks: &IdSet) -> bool {
    tasks.len() <= TASKS_BY_INDEX_MAX
}

type Bytes = (Timestamp, crate::format::Attempt, Channel, Vec<u8>);

// A file of which one block is held.
struct Source {
    scan: crate::file::Scan,
    block: Vec<Bytes>,
    next: usize,
}

impl Source {
    fn head(&self) -> Option<&Bytes> {
        self.block.get(self.next)
    }

    fn take(&mut self) -> Option<Bytes> {
        let taken = self.block.get_mut(self.next)?;
        self.next += 1;
        Some((taken.0, taken.1, taken.2, std::mem::take(&mut taken.3)))
    }

    fn fill(&mut self) -> Result<(), StreamError> {
        while self.next >= self.block.len() {
            let Some(block) = self.scan.next_block()? else { return Ok(()) };
            let bytes = block.entries().filter_map(|entry| match entry.content {
                Content::Bytes(channel, bytes) => Some((entry.at, entry.attempt, channel, bytes.to_vec())),
                Content::End { .. } | Content::Lost(..) => None,
            });
            (self.block, self.next) = (bytes.collect(), 0);
        }
        Ok(())
    }
}
