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
use hq_model::{ByteString, IdSet, JobId, TaskId, TaskRef, Timestamp, WorkerId};
use hq_stream::{AppendError, Attempt, Channel, Header, Printed, Writer};
use tracing::{info, warn};

use crate::limits::{LOG_ATTEMPTS_MAX, LOG_FILES_MAX, LOG_IDLE, LOG_LOCKED, LOG_QUIET};

/// Logs by their paths.
#[derive(Debug)]
pub(super) struct LogFiles {
    server_uid: String,
    logs: BTreeMap<ByteString, Log>,
    // Those whose trouble was said, with when they were in trouble for the last time.
    said: BTreeMap<ByteString, Instant>,
    // Since when somebody else has them open.
    locked: BTreeMap<ByteString, Instant>,
    // How far the attempts are that have not ended, by their logs, also by those that are closed: a log that has less of them
    // when it is opened was cut meanwhile.
    printed: BTreeMap<ByteString, HashMap<Attempt, [u64; 2]>>,
}

#[derive(Debug)]
struct Log {
    // Nothing once it is in trouble: what is not in the file then is said again by its worker.
    writer: Result<Writer, Written>,
    // What is in the file of some attempts once what was taken in is written.
    next: HashMap<Attempt, Progress>,
    is_dirty: bool,
    used: Instant,
}

// How far an attempt is.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    bytes: [u64; 2],
    has_ended: bool,
}

impl LogFiles {
    pub(super) fn new(server_uid: String) -> LogFiles {
        LogFiles {
            server_uid,
            logs: BTreeMap::new(),
            said: BTreeMap::new(),
            locked: BTreeMap::new(),
            printed: BTreeMap::new(),
        }
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
            let mut next = std::mem::take(&mut log.next);
            let before = self.printed.get(path);
            let log = self.logs.get_mut(path).expect("it was opened");
            log.act(path, |writer| {
                writer.compress(part.compression);
                add(writer, these, bytes, batch.is_again, before, &mut next)
            });
            log.next = next;
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
            keep(&mut self.printed, path, log);
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
            let log = Log { writer, next: HashMap::new(), is_dirty: false, used: Instant::now() };
            self.logs.insert(path.clone(), log);
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
        let opened = opened.and_then(|mut writer| {
            self.printed.get(path).map_or(Ok(()), |printed| note_lost(&mut writer, printed, created))?;
            Ok(writer)
        });
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
            keep(&mut self.printed, path, log);
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

// Once what was taken in is written, it is what is there of the attempts.
fn keep(printed: &mut BTreeMap<ByteString, HashMap<Attempt, [u64; 2]>>, path: &ByteString, log: &mut Log) {
    let next = std::mem::take(&mut log.next);
    if log.writer.is_err() {
        return;
    }
    let of_log = printed.entry(path.clone()).or_default();
    for (attempt, Progress { bytes, has_ended }) in next {
        match has_ended {
            true => _ = of_log.remove(&attempt),
            false => _ = of_log.insert(attempt, bytes),
        }
    }
    if of_log.is_empty() {
        printed.remove(path);
    }
    // Attempts whose workers died never end here. Of those that are forgotten and go on, the file is asked.
    if printed.values().map(HashMap::len).sum::<usize>() > LOG_ATTEMPTS_MAX {
        printed.clear();
    }
}

// Says in a log what it had of attempts and has no more.
fn note_lost(
    writer: &mut Writer,
    printed: &HashMap<Attempt, [u64; 2]>,
    at: Timestamp,
) -> Result<(), AppendError> {
    let there = there(writer, printed.keys().map(|attempt| attempt.task))?;
    let mut lost = Vec::new();
    for (attempt, bytes) in printed {
        let there = there.get(attempt).map_or([0; 2], position);
        for (at, channel) in [Channel::Stdout, Channel::Stderr].into_iter().enumerate() {
            let missing = bytes[at].saturating_sub(there[at]);
            lost.extend((missing > 0).then_some((*attempt, channel, missing)));
        }
    }
    lost.sort_unstable_by_key(|(attempt, channel, _)| (*attempt, channel.number()));
    if lost.is_empty() {
        return Ok(());
    }
    let path = writer.path().to_owned();
    let lost_bytes = lost.iter().map(|(.., bytes)| bytes).sum::<u64>();
    warn!(path = %path.display(), lost_bytes, "what tasks that run had printed is missing in a log");
    writer.lose(&lost, at).map_err(|error| AppendError::Io { path, error })
}

// How far an attempt was by what is there of it.
fn position(there: &Printed) -> [u64; 2] {
    [0, 1].map(|channel: usize| there.bytes[channel].saturating_add(there.lost_bytes[channel]))
}

// Pieces and their bytes. Of what was said before, what is there is left out. What was printed before and is neither there nor
// said now is lost. `before` and `next` are how far attempts are that have not ended: without what was taken in, and with it.
fn add(
    writer: &mut Writer,
    pieces: &[LogPiece],
    content: &[u8],
    is_again: bool,
    before: Option<&HashMap<Attempt, [u64; 2]>>,
    next: &mut HashMap<Attempt, Progress>,
) -> Result<(), AppendError> {
    let attempt_of = |piece: &LogPiece| Attempt { task: piece.task, instance: piece.instance };
    let is_known = |attempt: &Attempt| {
        next.contains_key(attempt) || before.is_some_and(|before| before.contains_key(attempt))
    };
    let is_asked = |piece: &&LogPiece| {
        is_again
            || matches!(piece.entry, LogEntry::Printed { offset, .. } if offset > 0)
                && !is_known(&attempt_of(piece))
    };
    let there = there(writer, pieces.iter().filter(is_asked).map(|piece| piece.task))?;
    let path = writer.path().to_owned();
    let failed = |error| AppendError::Io { path: path.clone(), error };
    let mut rest = content;
    for piece in pieces {
        let attempt = attempt_of(piece);
        let known = there.get(&attempt).copied().unwrap_or_default();
        let progress = next.entry(attempt).or_insert_with(|| {
            let before = before.and_then(|before| before.get(&attempt)).copied().unwrap_or_default();
            let there = position(&known);
            Progress {
                bytes: [0, 1].map(|channel: usize| before[channel].max(there[channel])),
                has_ended: false,
            }
        });
        match piece.entry {
            LogEntry::Printed { is_stderr, offset, length } => {
                let (bytes, behind) = rest.split_at((length as usize).min(rest.len()));
                rest = behind;
                let channel = if is_stderr { Channel::Stderr } else { Channel::Stdout };
                let at = &mut progress.bytes[usize::from(channel.number())];
                if offset > *at {
                    writer.lose(&[(attempt, channel, offset - *at)], piece.at).map_err(failed)?;
                    *at = offset;
                }
                let before = if is_again { *at - offset } else { 0 };
                let new = &bytes[usize::try_from(before).unwrap_or(usize::MAX).min(bytes.len())..];
                writer.append(attempt, channel, piece.at, new).map_err(failed)?;
                *at = (*at).max(offset + u64::from(length));
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
                progress.has_ended = true;
            }
        }
    }
    Ok(())
}

// What the file has of the attempts of some tasks.
fn there(
    writer: &mut Writer,
    of: impl Iterator<Item = TaskRef>,
) -> Result<HashMap<Attempt, Printed>, AppendError> {
    let mut tasks: BTreeMap<JobId, BTreeSet<TaskId>> = BTreeMap::new();
    for task in of {
        tasks.entry(task.job).or_default().insert(task.task);
    }
    let mut there = HashMap::new();
    for (job, tasks) in tasks {
        let tasks: IdSet = tasks.into_iter().collect();
        let contents = writer.contents_of(job, &tasks)?;
        for (task, attempts) in contents.tasks(job) {
            let task = TaskRef::new(job, task);
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
