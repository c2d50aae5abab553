//! The journal as the server uses it: read once at the start, then written by the journal thread.

use std::path::{Path, PathBuf};

use hq_core::record::Record;
use hq_core::server::Server;
use hq_journal::{DirDisk, Journal, JournalOptions};
use hq_model::Timestamp;
use hq_proto::ProtoError;
use tracing::warn;

use crate::commit::Log;
use crate::error::ServerError;
use crate::options::Durability;

/// A journal in a directory.
pub(crate) struct Saving {
    journal: Journal,
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
        let journal = Journal::open(DirDisk(path.to_owned()), JournalOptions::default(), &mut restore)
            .map_err(|error| ServerError::Journal { path: PathBuf::from(path), reason: error.to_string() })?;
        Ok((Saving { journal, durability }, told))
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
        match self.durability {
            Durability::Sync => self.journal.sync().map_err(|error| error.to_string()),
            Durability::Os => Ok(()),
        }
    }
}
