//! The way up from a relay: to a server, or to another relay, which passes on what is said.

use std::cell::RefCell;
use std::path::PathBuf;

use hq_net::{AccessError, AccessFile, FrameReceiver, FrameSender, Role};
use tokio::time::timeout;

use crate::hop::{self, Climbed, ParentError, Wish};
use crate::limits::WAY_UP_TIME;

/// What a relay is below.
#[derive(Clone, Debug)]
pub enum Above {
    /// A server, by its access file, which is read again for each attempt to connect.
    Server(PathBuf),
    /// Another relay.
    Relay {
        /// Its socket.
        socket: PathBuf,
        /// It and those above it, as of now.
        relays: Vec<String>,
    },
}

/// The way up, and which relays are on it.
#[derive(Debug)]
pub(crate) struct WayUp {
    above: Above,
    // This relay, as others are told.
    own: String,
    // Those above it, the nearest first, as of the last connection.
    relays: RefCell<Vec<String>>,
}

/// Why nobody above can be reached.
#[derive(Debug)]
pub(crate) enum NotThere {
    /// There is not even a file that says where; this is told of it.
    Missing(String),
    /// Another reason.
    Other(String),
}

impl WayUp {
    pub(crate) fn new(above: Above, own: String) -> WayUp {
        let relays = match &above {
            Above::Server(_) => Vec::new(),
            Above::Relay { relays, .. } => relays.clone(),
        };
        WayUp { above, own, relays: RefCell::new(relays) }
    }

    /// Whether there still is what says where.
    pub(crate) fn is_there(&self) -> bool {
        match &self.above {
            Above::Server(path) | Above::Relay { socket: path, .. } => path.exists(),
        }
    }

    /// What has happened when it is there no more.
    pub(crate) fn how_it_ended(&self) -> &'static str {
        match self.above {
            Above::Server(_) => "the server has been stopped, or its directory removed",
            Above::Relay { .. } => "the relay above has ended",
        }
    }

    /// The relays above, the nearest first.
    pub(crate) fn relays(&self) -> Vec<String> {
        self.relays.borrow().clone()
    }

    /// This relay and those above it.
    pub(crate) fn relays_with_this(&self) -> Vec<String> {
        [self.own.clone()].into_iter().chain(self.relays()).collect()
    }

    /// Connects as a worker or as a client.
    pub(crate) async fn connect(&self, role: Role) -> Result<(FrameSender, FrameReceiver), NotThere> {
        let other = |error: &dyn ToString| NotThere::Other(error.to_string());
        let path = match &self.above {
            Above::Relay { socket, .. } => socket,
            Above::Server(path) => {
                let access = AccessFile::load(path).map_err(|error| match error {
                    error @ AccessError::Missing { .. } => NotThere::Missing(error.to_string()),
                    error => other(&error),
                })?;
                let endpoint = access.endpoint(role).map_err(|error| other(&error))?;
                return hq_net::connect(endpoint, role).await.map_err(|error| other(&error));
            }
        };
        let wish = if role == Role::Worker { Wish::Lines } else { Wish::Questions };
        let climbed = hop::climb(path, &self.own, wish).await;
        let Climbed { sender, mut receiver, relays } = climbed.map_err(|error| match error.is_missing() {
            true => NotThere::Missing(error.to_string()),
            false => other(&error),
        })?;
        *self.relays.borrow_mut() = relays;
        // Nothing is said before the way is open all the way: then comes an empty frame, and else the reason.
        let reason = match timeout(WAY_UP_TIME, receiver.next()).await {
            Ok(Ok(Some(said))) if said.is_empty() => return Ok((sender, receiver)),
            Ok(Ok(Some(said))) => String::from_utf8_lossy(&said).into_owned(),
            Ok(Ok(None)) => "it ended the connection".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it does not say more".to_owned(),
        };
        Err(other(&ParentError::Away { path: path.clone(), reason }))
    }
}
