//! What a server is started with.

use std::path::PathBuf;
use std::time::Duration;

use hq_core::limits::WORKER_GRACE;
use hq_core::server::Keep;

use crate::detach::Child;
use crate::limits::COMPACT_BYTES_MIN;

/// Options of a server process.
#[derive(Debug)]
pub struct ServerOptions {
    /// Holds the numbered directories, keys and the journal. Made if missing.
    pub server_dir: PathBuf,
    /// Published name for clients and workers; the node's name by default.
    pub host: Option<String>,
    /// Port for clients; by default the one of the time before, else any.
    pub client_port: Option<u16>,
    /// Port for workers; likewise.
    pub worker_port: Option<u16>,
    /// Name, hosts, ports and keys made ahead by `hq server generate-access`.
    pub access_file: Option<PathBuf>,
    /// Where changes are saved.
    pub journal: JournalPlace,
    /// How safely.
    pub durability: Durability,
    /// Put an existing journal aside and begin at job 1.
    pub fresh: bool,
    /// Idle timeout of workers that have none of their own.
    pub idle_timeout: Option<Duration>,
    /// How long a worker may be away after its connection was lost before its tasks go elsewhere.
    pub worker_grace: Duration,
    /// Which ended jobs are kept.
    pub keep_jobs: Keep,
    /// So many ids of jobs are given to none.
    pub jobs_before: u32,
    /// Allocations stay in their batch systems when the server is stopped.
    pub keep_allocations: bool,
    /// Holds `managers`, where batch systems are described.
    pub config_dir: PathBuf,
    /// Bytes by which the journal grows at least before it is compacted.
    pub compact_bytes_min: u64,
    /// False switches authentication and encryption of clients off.
    pub encrypt_clients: bool,
    /// False switches authentication and encryption of workers off.
    pub encrypt_workers: bool,
    /// False lets no objects pass by way of the server.
    pub relays_objects: bool,
    /// Version of the binary, for people.
    pub version: String,
    /// Set in a process that [`crate::detach()`] has put in the background.
    pub detached: Option<Child>,
}

impl ServerOptions {
    /// The defaults for a directory.
    pub fn new(server_dir: impl Into<PathBuf>) -> ServerOptions {
        let server_dir = server_dir.into();
        ServerOptions {
            config_dir: server_dir.clone(),
            keep_allocations: false,
            server_dir,
            host: None,
            client_port: None,
            worker_port: None,
            access_file: None,
            journal: JournalPlace::Default,
            durability: Durability::Sync,
            fresh: false,
            idle_timeout: None,
            worker_grace: WORKER_GRACE,
            keep_jobs: Keep::default(),
            jobs_before: 0,
            compact_bytes_min: COMPACT_BYTES_MIN,
            encrypt_clients: true,
            encrypt_workers: true,
            relays_objects: true,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            detached: None,
        }
    }
}

/// Where the journal is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum JournalPlace {
    /// In the server directory.
    #[default]
    Default,
    /// There.
    Path(PathBuf),
    /// Nowhere: what the server knows ends with its process.
    None,
}

/// What an acknowledged change survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The death of the machine: every group of records is synced to disk.
    #[default]
    Sync,
    /// The death of the process: records are handed to the system, which writes them when it likes.
    Os,
}
