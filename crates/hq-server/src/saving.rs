//! The journal as the server uses it: read once at the start, then written by the journal thread.

use std::io;
use std::path::Path;

use hq_core::record::Record;
use hq_core::server::Server;
use hq_journal::{Journal, JournalId, OpenError, Options, RealDisk};
use hq_model::Timestamp;
use hq_proto::ProtoError;
use tracing::{info, warn};

use crate::commit::Log;
use crate::error::ServerError;
use crate::limits::OS_UNSYNCED_BYTES_MAX;
use crate::options::Durability;

/// A journal in a directory.
pub(crate) struct Saving {
    journal: Journal<RealDisk>,
    durability: Durability,
}

/// What a journal told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Number of records.
    pub(crate) records: u64,
    /// Time of the latest one.
    pub(crate) latest: Timestamp,
}

impl Saving {
    /// Opens the journal of a directory, made if it is missing, and restores the machine from it.
    pub(crate) fn open(
        path: &Path,
        durability: Durability,
        machine: &mut Server,
    ) -> Result<(Saving, Told), ServerError> {
        let directory_error =
            |source| ServerError::Directory { what: "the journal directory", path: path.to_owned(), source };
        let disk = RealDisk::create(path).map_err(directory_error)?;
        let mut told = Told::default();
        let mut restore = |seq: u64, bytes: &[u8]| {
            told.records += 1;
            match hq_proto::decode_record(bytes) {
                Ok((at, record)) => {
                    told.latest = told.latest.max(at);
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
        let (journal, replay) = Journal::open(disk, &options, &mut restore).map_err(|error| {
            let reason = error.to_string();
            match error {
                OpenError::Journal(error) => ServerError::Journal { reason, hint: error.hint() },
                OpenError::Refused { .. } => ServerError::Journal {
                    reason: format!("{}: {reason}", path.display()),
                    hint: "use the release that wrote it, or a later one, or put it aside with --fresh",
                },
            }
        })?;
        if let Some(tail) = &replay.torn {
            let (file, offset, bytes) = (&tail.file, tail.offset, tail.bytes);
            info!(file, offset, bytes, "the server before died in a write, which does not count");
        }
        Ok((Saving { journal, durability }, told))
    }

    /// Marks the journal as ended well.
    pub(crate) fn close(self) {
        if let Err(error) = self.journal.close() {
            warn!(%error, "the journal was saved, but not marked as ended well");
        }
    }
}

impl Log for Saving {
    fn append(&mut self, at: Timestamp, record: &Record) {
        self.journal.append(&hq_proto::encode_record(at, record));
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
        if is_due { self.journal.sync().map_err(|error| error.to_string()) } else { Ok(()) }
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
