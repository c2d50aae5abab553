//! What clients are told about the server.

use hq_model::{ByteString, Epoch, Timestamp};

use crate::clock_gap::ClockGap;
use crate::limit_value::LimitValue;

/// What the core knows about the server; the shell adds directory, hosts and ports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerInfo {
    /// Names the server.
    pub uid: String,
    /// How often it has been started.
    pub epoch: Epoch,
    /// When this one started.
    pub started: Timestamp,
    /// Process id.
    pub pid: u32,
    /// Version of the binary.
    pub version: String,
    /// Host for clients.
    pub client_host: String,
    /// Port for clients.
    pub client_port: u16,
    /// Host for workers.
    pub worker_host: String,
    /// Port for workers.
    pub worker_port: u16,
    /// Its numbered directory.
    pub server_dir: ByteString,
    /// Path of the journal, if there is one.
    pub journal: Option<ByteString>,
    /// Since when and why the journal cannot be written, so that nothing can be changed.
    pub journal_trouble: Option<(Timestamp, String)>,
    /// How the clock of its machine and the journal differed when it started, where that is worth a word.
    pub clock_gap: Option<ClockGap>,
    /// How often its process did what can never happen.
    pub internal_errors: u64,
    /// Reads of what tasks print that wait for an answer.
    pub output_reads: u64,
    /// What it keeps of loads of nodes and tasks, in bytes.
    pub load_bytes: u64,
    /// Objects that have passed by way of the server; nothing where that is switched off, or from an earlier release.
    pub relayed: Option<Relayed>,
    /// What it waits for before it ends, where it has been asked to.
    pub stop_waits: Option<String>,
    /// Limits by name.
    pub limits: Vec<(String, LimitValue)>,
}

/// What has passed by way of the server since it started, from workers to workers that could not reach them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relayed {
    /// Transfers that were begun.
    pub transfers: u64,
    /// Bytes of them.
    pub bytes: u64,
}
