//! The journal as the server uses it: read once at the start, then written by the journal thread.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use hq_core::client_messages::EventFilter;
use hq_core::record::Record;
use hq_core::server::Server;
use hq_journal::{Journal, JournalId, OpenError, Options, RealDisk, Snapshot};
use hq_model::Timestamp;
use hq_net::AccessError;
use hq_proto::ProtoError;
use tracing::{info, warn};

use crate::error::ServerError;
use crate::events::{Past, Reading, Reply};
use crate::journal_thread::Log;
use crate::journal_thread::compaction::{self, Compaction};
use crate::journal_thread::dead::{Dead, Weights};
use crate::journal_thread::queue::JournalQueue;
use crate::limits::{COMPACT_RATIO, COMPACT_RETRY, OS_UNSYNCED_BYTES_MAX};
use crate::options::Durability;

/// A journal in a directory.
pub(crate) struct DiskLog {
    journal: Journal<RealDisk>,
    path: PathBuf,
    durability: Durability,
    /// Bytes beside the snapshot below which nothing is compacted.
    compact_bytes_min: u64,
    compaction: Option<Compaction>,
    /// What of the last one's snapshot was forgotten since.
    dead: Dead,
    /// Whoever waits for the end of a compaction, and for the end of the next one.
    waiting: Vec<Reply>,
    waiting_for_next: Vec<Reply>,
    /// One that was asked for has failed.
    is_wanted: bool,
    /// After a failure.
    not_before: Option<Instant>,
    /// Held once more by everybody who reads the files.
    readers: Arc<()>,
    /// Sends the past to clients, from the first that asks for it on.
    past: Option<Past>,
}

/// What the journal held when the server was restored from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Restored {
    /// Number of records.
    pub(crate) records: u64,
    /// Time of the latest one.
    pub(crate) latest: Timestamp,
}

impl DiskLog {
    /// Opens the journal of a directory, made if it is missing, and restores the machine from it.
    pub(crate) fn open(
        path: &Path,
        durability: Durability,
        compact_bytes_min: u64,
        machine: &mut Server,
    ) -> Result<(DiskLog, Restored), ServerError> {
        let directory_error =
            |source| ServerError::Directory { what: "the journal directory", path: path.to_owned(), source };
        let disk = RealDisk::create(path).map_err(directory_error)?;
        // It holds commands that will run as this user.
        hq_net::trust::check_files(path).map_err(|error| not_ours(path, error))?;
        let mut restored = Restored::default();
        let mut release = String::new();
        let mut dead = Dead::default();
        let mut restore = |seq: u64, bytes: &[u8]| {
            restored.records += 1;
            match hq_proto::decode_record(bytes) {
                Ok((at, record)) => {
                    if let Record::ServerStarted { release: written_by, .. } = &record {
                        release.clone_from(written_by);
                    }
                    restored.latest = restored.latest.max(at);
                    dead.restore(seq, &record, bytes.len());
                    machine.restore(at, &record);
                }
                Err(ProtoError::UnknownRecord { number, critical: false }) => {
                    warn!(seq, number, "a record of a later release was skipped");
                }
                Err(error) => return Err(error),
            }
            Ok(())
        };
        let options = Options { create: Some(new_id()?), ..Options::default() };
        let opened = Journal::open(disk, &options, &mut restore);
        let (journal, replay) = opened.map_err(|error| refusal(path, &release, error))?;
        if let Some(tail) = &replay.torn {
            let (file, offset, bytes) = (&tail.file, tail.offset, tail.bytes);
            info!(file, offset, bytes, "the server before died in a write, which does not count and is cut");
        }
        let log = DiskLog {
            journal,
            path: path.to_owned(),
            durability,
            compact_bytes_min,
            compaction: None,
            dead,
            waiting: Vec::new(),
            waiting_for_next: Vec::new(),
            is_wanted: false,
            not_before: None,
            readers: Arc::new(()),
            past: None,
        };
        Ok((log, restored))
    }

    /// Marks the journal as ended well.
    pub(crate) fn close(mut self) {
        self.compaction = None;
        if let Err(error) = self.journal.close() {
            warn!(%error, "the journal was saved, but not marked as ended well");
        }
    }
}

fn not_ours(journal: &Path, error: AccessError) -> ServerError {
    match error {
        AccessError::Foreign { path, owner, own } => ServerError::Journal {
            reason: format!(
                "{} belongs to user {owner}, not to you (user {own}): a journal determines what is run as you",
                path.display()
            ),
            hint: "use your own journal with --journal, or copy this one after checking its contents",
        },
        AccessError::Exposed { path, mode, .. } => ServerError::Journal {
            reason: format!(
                "other users can write to {} (mode {mode:o}): a journal determines what is run as you",
                path.display()
            ),
            hint: "make sure that nobody has changed it, then remove the permission with `chmod -R go-w` on the \
                journal",
        },
        error => ServerError::Directory {
            what: "the journal directory",
            path: journal.to_owned(),
            source: io::Error::other(error.to_string()),
        },
    }
}

impl DiskLog {
    // Begins a compaction.
    fn begin(&mut self, queue: &Arc<JournalQueue>) -> Result<(), String> {
        let compactor = self.journal.start_compaction().map_err(|error| error.to_string())?;
        self.compaction = Some(Compaction::start(&self.path, compactor, queue)?);
        self.dead.compaction_begins();
        Ok(())
    }

    // Puts the snapshot in the place of the history.
    fn finish(&mut self, outcome: Result<(Snapshot, Weights), String>) -> Result<(), String> {
        let (snapshot, weights) = outcome.inspect_err(|_| self.journal.abandon_compaction())?;
        let done = self.journal.finish_compaction(snapshot).map_err(|error| error.to_string())?;
        self.dead.compaction_ends(weights);
        // Records are not to wait for that; who asked for room does.
        if self.waiting.is_empty() {
            compaction::remove(&self.path, done.replaced);
        } else if let Ok(disk) = RealDisk::open(&self.path) {
            done.replaced.remove(&disk);
        }
        let (before, after) = (done.bytes_replaced, done.bytes);
        info!(
            bytes_before = before,
            bytes_after = after,
            records = done.records,
            "the journal was compacted"
        );
        Ok(())
    }

    fn has_failed(&mut self, error: &str) {
        self.dead.compaction_fails();
        warn!(error, "the journal could not be compacted; it is tried again later");
        self.not_before = Some(Instant::now() + COMPACT_RETRY);
    }

    // Who asked for a compaction had something forgotten, whatever became of the compaction.
    fn answer(&mut self, result: &Result<(), String>) {
        self.is_wanted = result.is_err() && (self.is_wanted || !self.waiting.is_empty());
        for reply in self.waiting.drain(..) {
            let reason = |error: &String| {
                format!("compacted: {error}; what had ended is forgotten, and the files are compacted later")
            };
            reply.done(result.as_ref().map_err(reason).copied());
        }
    }

    // Grown enough to be worth it beside what is left of the snapshot, or asked for in vain.
    fn is_due(&self) -> bool {
        let size = self.journal.size();
        let left = size.snapshot_bytes.saturating_sub(self.dead.bytes());
        let history = if self.is_wanted { u64::MAX } else { size.bytes - left };
        history >= self.compact_bytes_min.max(left.saturating_mul(COMPACT_RATIO))
            && self.not_before.is_none_or(|time| time <= Instant::now())
    }
}

impl Log for DiskLog {
    fn append(&mut self, at: Timestamp, record: &Record) -> u64 {
        self.dead.hear(record);
        self.journal.append(&hq_proto::encode_record(at, record))
    }

    fn write(&mut self) -> Result<(), String> {
        self.journal.write().map_err(|error| error.to_string())
    }

    fn sync(&mut self) -> Result<(), String> {
        // The journal keeps in memory what is not on disk.
        let is_due = match self.durability {
            Durability::Sync => true,
            Durability::Os => self.journal.pending_bytes() > OS_UNSYNCED_BYTES_MAX,
        };
        if is_due {
            return self.flush();
        }
        // What the system has must be in files that will be found again, too.
        let written = self.journal.write().and_then(|()| self.journal.look_at_places());
        written.map_err(|error| error.to_string())
    }

    fn flush(&mut self) -> Result<(), String> {
        self.journal.sync().map_err(|error| error.to_string())
    }

    fn tend(&mut self, queue: &Arc<JournalQueue>) {
        // Files that somebody reads are not taken away.
        let is_free = Arc::strong_count(&self.readers) == 1;
        if is_free && let Some(outcome) = self.compaction.as_mut().and_then(Compaction::outcome) {
            self.compaction = None;
            let result = self.finish(outcome);
            if let Err(error) = &result {
                self.has_failed(error);
            }
            self.answer(&result);
        }
        if self.compaction.is_some() || !is_free {
            return;
        }
        self.waiting.append(&mut self.waiting_for_next);
        if (!self.waiting.is_empty() || self.is_due())
            && let Err(error) = self.begin(queue)
        {
            self.has_failed(&error);
            self.answer(&Err(error));
        }
    }

    fn make_room(&mut self) {
        if let Some(compaction) = self.compaction.take() {
            compaction.cancel();
            self.journal.abandon_compaction();
            self.has_failed("the journal cannot be written meanwhile");
            // Who asked for it waits for the next one.
            self.waiting_for_next.append(&mut self.waiting);
        }
    }

    fn compact(&mut self, reply: Reply, _: &Arc<JournalQueue>) {
        // One that runs already may have begun before what is to be forgotten was.
        self.waiting_for_next.push(reply);
    }

    fn send_past(
        &mut self,
        reply: Reply,
        (after, filter): (u64, EventFilter),
        has_past: Option<Arc<AtomicBool>>,
        queue: &Arc<JournalQueue>,
    ) {
        let past = match self.past.take() {
            Some(past) => Ok(past),
            None => Past::start(&self.path, queue.clone()),
        };
        match past {
            Ok(past) => {
                let (wanted, files) = (after..self.journal.next_seq(), self.readers.clone());
                past.send(Reading { wanted, filter, reply, has_past, _files: files });
                self.past = Some(past);
            }
            Err(error) => reply.done(Err(error)),
        }
    }
}

// Why a journal was not opened, for people.
fn refusal(path: &Path, release: &str, error: OpenError<ProtoError>) -> ServerError {
    let reason = error.to_string();
    match error {
        OpenError::Journal(error) => ServerError::Journal { reason, hint: error.hint() },
        OpenError::Refused { seq, reason: ProtoError::UnknownRecord { number, .. } } => {
            let release = if release.is_empty() { "a later release" } else { release };
            ServerError::Journal {
                reason: format!(
                    "the journal {} was written by hq {release}, this is hq {}, which does not know what record \
                     {seq} (kind {number}) means",
                    path.display(),
                    env!("CARGO_PKG_VERSION")
                ),
                hint: "use that release or a later one, or set the journal aside with --fresh",
            }
        }
        OpenError::Refused { .. } => ServerError::Journal {
            reason: format!("the journal {}: {reason}", path.display()),
            hint: "see what is readable with `hq journal check`, or set the journal aside with --fresh",
        },
    }
}

fn new_id() -> Result<JournalId, ServerError> {
    let mut id = JournalId([0; 16]);
    getrandom::fill(&mut id.0).map_err(|e| ServerError::System {
        what: "no random bytes",
        source: io::Error::other(e.to_string()),
    })?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use hq_core::client_messages::ClientResponse;
    use hq_core::server::ServerOptions;
    use hq_model::JobId;

    use super::*;
    use crate::outbox::{Message, Outbox};

    #[test]
    fn a_compaction_is_given_up_when_there_is_no_room_and_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut machine = Server::new(ServerOptions::default());
        let (mut log, _) = DiskLog::open(dir.path(), Durability::Sync, 0, &mut machine).expect("a journal");
        log.append(Timestamp(1), &Record::JobClosed { job: JobId(1) });
        log.flush().expect("room");
        let queue = Arc::new(JournalQueue::default());
        log.begin(&queue).expect("room");
        let unfinished = || {
            let names = std::fs::read_dir(dir.path()).expect("a directory");
            names.filter(|name| name.as_ref().is_ok_and(|name| name.path().extension().is_some())).count()
        };
        assert_eq!(unfinished(), 1);
        log.make_room();
        assert_eq!(unfinished(), 0);
        log.tend(&queue);
        assert!(log.compaction.is_none(), "it is tried again, and not at once");
        // But for somebody who waits.
        let (asker, mut hears) = Outbox::new("asker".to_owned(), 1 << 20, Arc::default());
        log.compact(Reply { outbox: Arc::new(asker), request: 1 }, &queue);
        log.tend(&queue);
        assert!(log.compaction.is_some());
        log.make_room();
        assert!(
            hears.try_recv().is_none(),
            "what was to be forgotten is forgotten: it waits for the next one"
        );
        log.tend(&queue);
        let answer = loop {
            if let Some(answer) = hears.try_recv() {
                break answer;
            }
            queue.take(&mut Vec::new(), None);
            log.tend(&queue);
        };
        assert!(matches!(answer, Message::Answer(1, ClientResponse::Done)), "{answer:?}");
        assert_eq!(unfinished(), 0);
        log.close();
    }
}
