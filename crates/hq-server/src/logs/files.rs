//! The logs that are open, and what became of what was to be written into them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use hq_core::log::{LogBatch, LogEntry, LogPart, LogPiece, Written};
use hq_model::{ByteString, IdSet, JobId, TaskId, Timestamp, WorkerId};
use hq_stream::{AppendError, Attempt, Channel, Header, Printed, Writer};
use tracing::{info, warn};

use crate::limits::{LOG_FILES_MAX, LOG_IDLE, LOG_LOCKED, LOG_QUIET};

/// Logs by their paths.
#[derive(Debug)]
pub(super) struct LogFiles {
    server_uid: String,
    logs: BTreeMap<ByteString, Log>,
    // Those whose trouble was said, with when they were in trouble for the last time.
    said: BTreeMap<ByteString, Instant>,
    // Since when somebody else has them open.
    locked: BTreeMap<ByteString, Instant>,
}

#[derive(Debug)]
struct Log {
    // Nothing once it is in trouble: what is not in the file then is said again by its worker.
    writer: Result<Writer, Written>,
    is_dirty: bool,
    used: Instant,
}

impl LogFiles {
    pub(super) fn new(server_uid: String) -> LogFiles {
        LogFiles { server_uid, logs: BTreeMap::new(), said: BTreeMap::new(), locked: BTreeMap::new() }
    }

    pub(super) fn are_open(&self) -> bool {
        !self.logs.is_empty()
    }

    /// Takes a batch in, as far as it is not there.
    pub(super) fn append(&mut self, batch: &LogBatch, parts: &[LogPart]) {
        let (mut pieces, mut content) = (&batch.pieces[..], &batch.content[..]);
        for part in parts {
            let (these, behind) = pieces.split_at(part.pieces.min(pieces.len()));
            let length: usize = these.iter().map(|piece| piece.length() as usize).sum();
            let (bytes, rest) = content.split_at(length.min(content.len()));
            (pieces, content) = (behind, rest);
            let Some(path) = &part.path else { continue };
            let log = self.open(path);
            log.is_dirty = true;
            log.act(path, |writer| {
                writer.compress(part.compression);
                add(writer, these, bytes, batch.is_again)
            });
        }
    }

    /// Has all that was taken in written.
    pub(super) fn flush(&mut self) {
        for (path, log) in self.logs.iter_mut().filter(|(_, log)| log.is_dirty) {
            log.is_dirty = false;
            log.act(path, |writer| writer.flush().map_err(|error| failed(path, error)));
            if log.writer.as_ref().is_ok_and(Writer::is_removed) {
                let lost_bytes = log.writer.as_ref().map_or(0, Writer::lost_bytes);
                warn!(path = %shown(path), lost_bytes, "a log was removed while tasks print into it; it begins anew");
                // Said again, it goes into the next file.
                log.writer = Err(Written::Busy);
            }
        }
    }

    /// What became of what went there since all that is in trouble was closed.
    pub(super) fn outcome(&self, parts: &[LogPart]) -> Written {
        let troubles = parts.iter().filter_map(|part| {
            let log = self.logs.get(part.path.as_ref()?)?;
            log.writer.as_ref().err()
        });
        // What can never be written is worse than what can be later.
        troubles
            .max_by_key(|trouble| matches!(trouble, Written::Refused(_)))
            .cloned()
            .unwrap_or(Written::Done)
    }

    /// Forgets those that are in trouble, so that the next batch tries again.
    pub(super) fn close_broken(&mut self) {
        for (path, log) in self.logs.extract_if(.., |_, log| log.writer.is_err()) {
            if self.said.len() >= LOG_FILES_MAX {
                self.said.clear();
            }
            if let Err(Written::NoRoom(text) | Written::Refused(text)) = &log.writer
                && self.said.insert(path, Instant::now()).is_none()
            {
                warn!("{text}");
            }
        }
        if !self.said.is_empty() {
            for path in self.logs.keys() {
                let is_over = |last: &Instant| last.elapsed() >= LOG_QUIET;
                if self.said.get(path).is_some_and(is_over) {
                    self.said.remove(path);
                    info!(path = %shown(path), "a log is written again");
                }
            }
        }
    }

    /// Closes those that nobody has printed into for a while.
    pub(super) fn close_idle(&mut self) {
        for (path, log) in self.logs.extract_if(.., |_, log| log.used.elapsed() >= LOG_IDLE) {
            log.close(&path);
        }
    }

    pub(super) fn close(self) {
        self.logs.into_iter().for_each(|(path, log)| log.close(&path));
    }

    fn open(&mut self, path: &ByteString) -> &mut Log {
        let is_left = |log: &Log| !log.is_dirty && log.writer.as_ref().is_ok_and(Writer::is_left);
        if self.logs.get(path).is_some_and(is_left) {
            let log = self.logs.remove(path);
            match log.and_then(|log| log.writer.ok()).map_or(0, |writer| writer.lost_bytes()) {
                0 => info!(path = %shown(path), "a log was renamed; it begins anew"),
                lost_bytes => {
                    warn!(path = %shown(path), lost_bytes, "a log was removed, emptied or cut; what tasks print from now on is kept")
                }
            }
        }
        if !self.logs.contains_key(path) && self.logs.len() >= LOG_FILES_MAX {
            self.make_room();
        }
        if !self.logs.contains_key(path) {
            let writer = self.writer_of(path);
            self.logs.insert(path.clone(), Log { writer, is_dirty: false, used: Instant::now() });
        }
        let log = self.logs.get_mut(path).expect("it was put there");
        log.used = Instant::now();
        log
    }

    fn writer_of(&mut self, path: &ByteString) -> Result<Writer, Written> {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let created = Timestamp::default().after(created);
        let header = Header { server_uid: self.server_uid.clone(), worker: WorkerId(0), created };
        let open = || Writer::open(file(path), &header);
        let opened = match open() {
            Err(AppendError::InUse { .. }) if self.close_other_name(path) => open(),
            opened => opened,
        };
        if !matches!(opened, Err(AppendError::InUse { .. })) {
            self.locked.remove(path);
        } else if self.locked.entry(path.clone()).or_insert_with(Instant::now).elapsed() < LOG_LOCKED {
            return Err(Written::Busy);
        } else {
            self.locked.clear();
        }
        opened.map_err(|error| trouble(path, &error))
    }

    // One file may have several names, of which only one at a time is written to.
    fn close_other_name(&mut self, path: &[u8]) -> bool {
        let Ok(found) = fs::metadata(file(path)) else { return false };
        let identity = Some((found.dev(), found.ino()));
        let is_it = |log: &Log| log.writer.as_ref().is_ok_and(|writer| writer.identity() == identity);
        let other = self.logs.iter().find(|(_, log)| is_it(log)).map(|(path, _)| path.clone());
        other.is_some_and(|other| self.close_one(&other))
    }

    // Closes the one that nobody has used for longest. One of this turn may be among many.
    fn make_room(&mut self) {
        let usable = self.logs.iter().filter(|(_, log)| log.writer.is_ok());
        let oldest = usable.min_by_key(|(_, log)| (log.is_dirty, log.used)).map(|(path, _)| path.clone());
        if let Some(path) = oldest {
            self.close_one(&path);
        }
    }

    // False when that failed: in trouble, it stays to say so.
    fn close_one(&mut self, path: &ByteString) -> bool {
        let Some(log) = self.logs.get_mut(path) else { return false };
        if log.is_dirty {
            log.act(path, |writer| writer.finish().map_err(|error| failed(path, error)));
            log.is_dirty = false;
        }
        let is_closed = log.writer.is_ok();
        if is_closed && let Some(log) = self.logs.remove(path) {
            log.close(path);
        }
        is_closed
    }
}

impl Log {
    fn act(&mut self, path: &[u8], act: impl FnOnce(&mut Writer) -> Result<(), AppendError>) {
        if let Ok(writer) = &mut self.writer
            && let Err(error) = act(writer)
        {
            self.writer = Err(trouble(path, &error));
        }
    }

    fn close(self, path: &[u8]) {
        let Ok(mut writer) = self.writer else { return };
        if let Err(error) = writer.finish() {
            // An index saves time; what was answered is in the file.
            warn!(path = %shown(path), %error, "the last index of a log could not be written");
        }
    }
}

// Pieces and their bytes. Of what was said before, what is there is left out.
fn add(writer: &mut Writer, pieces: &[LogPiece], content: &[u8], is_again: bool) -> Result<(), AppendError> {
    let there = if is_again { there(writer, pieces)? } else { HashMap::new() };
    let path = writer.path().to_owned();
    let failed = |error| AppendError::Io { path: path.clone(), error };
    let mut rest = content;
    for piece in pieces {
        let attempt = Attempt { task: piece.task, instance: piece.instance };
        let known = there.get(&attempt).copied().unwrap_or_default();
        match piece.entry {
            LogEntry::Printed { is_stderr, offset, length } => {
                let (bytes, behind) = rest.split_at((length as usize).min(rest.len()));
                rest = behind;
                let channel = if is_stderr { Channel::Stderr } else { Channel::Stdout };
                let before = known.bytes[usize::from(channel.number())].saturating_sub(offset);
                let new = &bytes[usize::try_from(before).unwrap_or(usize::MAX).min(bytes.len())..];
                writer.append(attempt, channel, piece.at, new).map_err(failed)?;
            }
            LogEntry::End { stdout, stderr } => {
                let complete = [(Channel::Stdout, stdout), (Channel::Stderr, stderr)];
                let channels: Vec<Channel> =
                    complete.into_iter().filter(|(_, ended)| *ended).map(|(channel, _)| channel).collect();
                let is_there =
                    channels.iter().all(|channel| known.is_complete[usize::from(channel.number())]);
                if !(is_there && is_again) {
                    writer.end(attempt, &channels, piece.at).map_err(failed)?;
                }
            }
        }
    }
    Ok(())
}

// What the file has of the attempts of these pieces.
fn there(writer: &mut Writer, pieces: &[LogPiece]) -> Result<HashMap<Attempt, Printed>, AppendError> {
    let mut tasks: BTreeMap<JobId, BTreeSet<TaskId>> = BTreeMap::new();
    for piece in pieces {
        tasks.entry(piece.task.job).or_default().insert(piece.task.task);
    }
    let mut there = HashMap::new();
    for (job, tasks) in tasks {
        let tasks: IdSet = tasks.into_iter().collect();
        let contents = writer.contents_of(job, &tasks)?;
        for (task, attempts) in contents.tasks(job) {
            let task = hq_model::TaskRef::new(job, task);
            there.extend(
                attempts
                    .iter()
                    .map(|started| (Attempt { task, instance: started.instance }, started.printed)),
            );
        }
    }
    Ok(there)
}

fn trouble(path: &[u8], error: &AppendError) -> Written {
    let cause = error.io().map_or_else(|| error.to_string(), io::Error::to_string);
    let is_no_room =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    match error.io().is_some_and(is_no_room) {
        true => Written::NoRoom(format!(
            "There was no space for the task's output in the log {}: {cause}",
            shown(path)
        )),
        false if error.io().is_some() => {
            Written::Refused(format!("Cannot write the log {}: {cause}", shown(path)))
        }
        false => Written::Refused(format!("Cannot write the log: {cause}")),
    }
}

fn failed(path: &[u8], error: io::Error) -> AppendError {
    AppendError::Io { path: file(path).to_owned(), error }
}

fn file(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

fn shown(path: &[u8]) -> std::path::Display<'_> {
    file(path).display()
}

#[cfg(test)]
mod tests;
