//! Objects for programs that are no workers, and files from them: directly where they have the keys of workers and reach these, and
//! otherwise by way of the server.

use std::io::{self, Read};

use hq_core::node_messages::{Fetch, FromNode, ToNode};
use hq_core::object_messages::ObjectCopy;
use hq_core::worker_messages::TaskNode;
use hq_model::checksum::Checksum;
use hq_net::{AccessFile, Endpoint, FrameReceiver, FrameSender, Keys, Role};
use hq_proto::{decode_from_node, encode_to_node};

use super::bring::{Peer, Piece, Sink, Wanted, bring};
use super::{Connection, Content, Key, StoreError};
use crate::limits::PIECE_MAX;
use crate::ranks::{Silent, Unreached, by_server, keys_among_workers, reach};

/// Where the bytes of an object go.
pub trait Target: Send {
    /// Begins anew, which it is asked to do before anything comes, and where what came is wrong.
    ///
    /// # Errors
    /// When it cannot.
    fn begin(&mut self) -> io::Result<()>;

    /// Takes the next bytes.
    ///
    /// # Errors
    /// When it cannot.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// Why an object could not be had.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// No worker gave it; for each of them why.
    #[error("no worker could send it: {0}")]
    There(String),
    /// It cannot be written, or what is to be put cannot be read.
    #[error("{0}")]
    Here(io::Error),
    /// A worker does not take a file.
    #[error("{0}")]
    NotTaken(String),
    /// There is no way to a worker that is to take a file.
    #[error("{0}")]
    Unreached(String),
}

/// Holds a file in the store of a worker that is no object yet: it is removed there when this is dropped before it is one.
pub struct Putting {
    _connection: (FrameSender, FrameReceiver),
}

impl std::fmt::Debug for Putting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Putting")
    }
}

/// Asks workers for objects, and hands them files.
#[derive(Debug)]
pub struct Getter {
    // Otherwise why no worker is asked directly.
    keys: Result<Keys, &'static str>,
    server: Option<Endpoint>,
    silent: Silent,
    // By way of the server either.
    absent: Silent,
}

impl Getter {
    /// With an access file.
    pub fn of(access: &AccessFile) -> Getter {
        Getter::new(access.worker.as_ref(), access.client.as_ref())
    }

    /// With parts of an access file: that for workers, if these are to be asked directly, and that for clients, if objects are to
    /// pass by way of the server where there is no other.
    pub fn new(workers: Option<&Endpoint>, server: Option<&Endpoint>) -> Getter {
        let keys = match workers.map(|endpoint| &endpoint.keys) {
            Some(Some(keys)) => Ok(keys_among_workers(keys)),
            Some(None) => {
                Err("the server does not encrypt worker connections, so workers do not accept connections")
            }
            None => Err("the access file has no section for workers, which is needed to connect to them"),
        };
        Getter { keys, server: server.cloned(), silent: Silent::default(), absent: Silent::default() }
    }

    /// Gets an object from those that hold it, piece by piece, and checks that it is what was stored.
    ///
    /// # Errors
    /// When nobody gave it, or it cannot be written.
    pub async fn get(
        &self,
        copy: &ObjectCopy,
        holders: Vec<TaskNode>,
        target: &mut impl Target,
    ) -> Result<(), GetError> {
        let key = Key { object: copy.object.clone(), instance: copy.instance };
        let content = Content::of(copy);
        let mut sink = Checked { target, content, taken: 0, checksum: Checksum::default(), error: None };
        let brought = bring(self, &Wanted { key, content, holders }, &mut sink).await;
        match (brought, sink.error) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(error)) => Err(GetError::Here(error)),
            (Err(unfetched), None) => Err(GetError::There(unfetched.reason)),
        }
    }
}

impl Getter {
    /// Asks a worker to take so many bytes into its store.
    ///
    /// # Errors
    /// When there is no way to it, or it has no room for them.
    pub async fn reach(&self, holder: &TaskNode, size: u64) -> Result<Reached, GetError> {
        let first = ToNode::Put { worker: holder.worker, size };
        Reached::of(holder, size, self.direct(holder, &first).await)
    }

    /// The same by way of the server, for a worker that cannot be reached.
    ///
    /// # Errors
    /// When the server lets nothing pass, or the worker does not come or has no room.
    pub async fn reach_by_server(&self, holder: &TaskNode, size: u64) -> Result<Reached, GetError> {
        let first = ToNode::Put { worker: holder.worker, size };
        Reached::of(holder, size, self.passing(holder, &first).await)
    }

    /// Puts so many bytes into the store of a worker, as [`Reached::send`] does, by whichever way there is.
    ///
    /// # Errors
    /// When the worker does not take them, or they cannot be read.
    pub async fn put(
        &self,
        holder: &TaskNode,
        size: u64,
        source: &mut impl Read,
    ) -> Result<(String, Putting), GetError> {
        let reached = match self.reach(holder, size).await {
            Err(GetError::Unreached(why)) if self.has_server() => {
                self.reach_by_server(holder, size).await.map_err(|error| error.after(&why))
            }
            reached => reached,
        };
        reached?.send(source).await
    }

    async fn direct(&self, place: &TaskNode, first: &ToNode) -> Result<Connection, Unreached> {
        let keys = self.keys.as_ref().map_err(|why| Unreached::NoWay((*why).to_owned()))?;
        self.silent.ask(place.worker, reach(place, keys, first), Unreached::silent).await
    }

    async fn passing(&self, place: &TaskNode, first: &ToNode) -> Result<Connection, Unreached> {
        let Some(server) = &self.server else {
            return Err(Unreached::NoWay("there is no other way".to_owned()));
        };
        let asking = by_server::ask(server, Role::Client, place.worker, first);
        self.absent.ask(place.worker, asking, Unreached::absent).await
    }
}

impl GetError {
    // Why a worker that cannot be reached directly is not by way of the server.
    fn after(self, direct: &str) -> GetError {
        match self {
            GetError::Unreached(why) => GetError::Unreached(by_neither_way(direct, &why)),
            error => error,
        }
    }
}

/// Why a worker is reached in neither way.
pub fn by_neither_way(direct: &str, by_server: &str) -> String {
    format!("{direct}; by way of the server: {by_server}")
}

/// A worker that waits for the bytes of a file.
pub struct Reached {
    holder: TaskNode,
    size: u64,
    connection: Connection,
}

impl std::fmt::Debug for Reached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reached")
            .field("holder", &self.holder)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Reached {
    fn of(holder: &TaskNode, size: u64, reached: Result<Connection, Unreached>) -> Result<Reached, GetError> {
        match reached {
            Ok(connection) => Ok(Reached { holder: holder.clone(), size, connection }),
            Err(Unreached::Refused(why)) => Err(GetError::NotTaken(why)),
            Err(Unreached::NoWay(why)) => Err(GetError::Unreached(why)),
        }
    }

    /// Sends them, as a file that may then be given to the server as an object. Says its name there, for
    /// [`GiveObject`](hq_core::object_messages::GiveObject).
    ///
    /// # Errors
    /// When the worker does not take them, or they cannot be read.
    pub async fn send(self, source: &mut impl Read) -> Result<(String, Putting), GetError> {
        let Reached { holder, size, connection: (mut sender, mut receiver) } = self;
        let refused = |reason: String| {
            GetError::NotTaken(format!("worker {} on {}: {reason}", holder.worker, holder.hostname))
        };
        let sent = send_pieces(&mut sender, size, source).await;
        if let Err(error @ GetError::Here(_)) = sent {
            return Err(error);
        }
        // Also where it takes no more: it has said why.
        let answer = receiver.next().await.ok().flatten();
        match (answer.as_deref().map(decode_from_node), sent) {
            (Some(Ok(FromNode::Put { file })), Ok(())) => {
                Ok((file, Putting { _connection: (sender, receiver) }))
            }
            (Some(Ok(FromNode::Refused { reason, .. })), _) => Err(refused(reason)),
            (_, Err(GetError::NotTaken(reason))) => Err(refused(reason)),
            _ => Err(refused("the connection ended".to_owned())),
        }
    }
}

async fn send_pieces(sender: &mut FrameSender, size: u64, source: &mut impl Read) -> Result<(), GetError> {
    let mut left = size;
    loop {
        let mut bytes = vec![0; left.min(PIECE_MAX as u64) as usize];
        source.read_exact(&mut bytes).map_err(GetError::Here)?;
        left -= bytes.len() as u64;
        let is_last = left == 0;
        let piece = encode_to_node(&ToNode::Piece { bytes, is_last });
        let sent = sender.send(&piece).await.map_err(|error| GetError::NotTaken(error.to_string()));
        sent?;
        if is_last {
            return sender.flush().await.map_err(|error| GetError::NotTaken(error.to_string()));
        }
    }
}

impl Peer for Getter {
    async fn ask(&self, place: &TaskNode, fetch: Fetch) -> Result<Connection, Unreached> {
        self.direct(place, &ToNode::Fetch(fetch)).await
    }

    async fn ask_by_server(&self, place: &TaskNode, fetch: Fetch) -> Result<Connection, String> {
        self.passing(place, &ToNode::Fetch(fetch)).await.map_err(Unreached::text)
    }

    fn has_server(&self) -> bool {
        self.server.is_some()
    }
}

/// A target, with a look at what goes there.
struct Checked<'a, T> {
    target: &'a mut T,
    content: Content,
    taken: u64,
    checksum: Checksum,
    error: Option<io::Error>,
}

impl<T> Checked<'_, T> {
    fn fails(&mut self, error: io::Error) -> StoreError {
        self.error = Some(error);
        StoreError::Gone
    }
}

impl<T: Target> Sink for Checked<'_, T> {
    async fn begin(&mut self) -> Result<(), StoreError> {
        (self.taken, self.checksum) = (0, Checksum::default());
        let begun = self.target.begin();
        begun.map_err(|error| self.fails(error))
    }

    async fn take(&mut self, piece: Piece, is_last: bool) -> Result<Option<Vec<u8>>, StoreError> {
        self.checksum.add(piece.bytes());
        self.taken += piece.bytes().len() as u64;
        let taken = self.target.take(piece.bytes());
        taken.map_err(|error| self.fails(error))?;
        let (found, meant) = (self.checksum.value(), self.content.checksum);
        match is_last && (found != meant || self.taken != self.content.size) {
            true => Err(StoreError::Damaged { found, meant }),
            false => Ok(Some(piece.memory())),
        }
    }
}
