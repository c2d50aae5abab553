//! A server inside another process, for `hq run`: the same code on threads of its own, reachable over
//! loopback only.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use hq_core::client_messages::ServerInfo;
use hq_net::AccessFile;

use crate::error::ServerError;
use crate::identity;
use crate::options::{Durability, JournalPlace, ServerOptions};
use crate::process::{Running, Surroundings};

/// How an embedded server is started.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// A private directory; it is used as a server directory and removed by the caller.
    pub dir: PathBuf,
    /// Keep a journal in the directory. It survives the death of the process, not of the machine.
    pub has_journal: bool,
    /// Idle timeout of workers that have none of their own.
    pub idle_timeout: Option<Duration>,
    /// So many ids of jobs are given to none.
    pub jobs_before: u32,
    /// How long a worker may be away before its tasks go elsewhere.
    pub worker_grace: Duration,
    /// Who can connect.
    pub reach: Reach,
    /// Version of the binary, for people.
    pub version: String,
}

/// From where an embedded server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// From this machine alone.
    Loopback,
    /// From other machines, too.
    Network,
}

/// An embedded server. It ends when it is dropped.
pub struct Embedded {
    running: Option<Running>,
    access: AccessFile,
    info: ServerInfo,
}

impl Embedded {
    /// Starts a server. It answers when this returns.
    ///
    /// # Errors
    /// When the directory cannot be used or the system lacks something.
    pub fn start(options: EmbeddedOptions) -> Result<Embedded, ServerError> {
        let mut server = ServerOptions::new(options.dir);
        server.journal = if options.has_journal { JournalPlace::Default } else { JournalPlace::None };
        server.durability = Durability::Os;
        server.idle_timeout = options.idle_timeout;
        server.jobs_before = options.jobs_before;
        server.worker_grace = options.worker_grace;
        server.version = options.version;
        let around = match options.reach {
            Reach::Loopback => Surroundings {
                address: IpAddr::V4(Ipv4Addr::LOCALHOST),
                default_host: || Ipv4Addr::LOCALHOST.to_string(),
                has_signals: false,
            },
            Reach::Network => Surroundings {
                address: hq_net::ANY_ADDRESS,
                default_host: identity::node_name,
                has_signals: false,
            },
        };
        let running = Running::start(server, around)?;
        let (access, info) = (running.access().clone(), running.info().clone());
        Ok(Embedded { running: Some(running), access, info })
    }

    /// What clients and workers need to connect. The same is in the directory's access file.
    pub fn access(&self) -> &AccessFile {
        &self.access
    }

    /// About the server.
    pub fn info(&self) -> &ServerInfo {
        &self.info
    }

    /// Ends the server cleanly.
    ///
    /// # Errors
    /// When it did not end well.
    pub fn stop(mut self) -> Result<(), ServerError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ServerError> {
        let Some(running) = self.running.take() else { return Ok(()) };
        running.stop();
        running.wait()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "the embedded server did not end well");
        }
    }
}
