//! Objects for programs that are no workers, and have the keys of workers.

use std::io;

use hq_core::node_messages::{Fetch, ToNode};
use hq_core::object_messages::ObjectCopy;
use hq_core::worker_messages::TaskNode;
use hq_model::checksum::Checksum;
use hq_net::{Endpoint, Keys};

use super::bring::{Peer, Piece, Sink, Wanted, bring};
use super::{Connection, Content, Key, StoreError};
use crate::ranks::{keys_among_workers, reach};

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
    #[error("no worker gave it: {0}")]
    There(String),
    /// It cannot be written.
    #[error("{0}")]
    Here(io::Error),
}

/// Asks workers for objects.
#[derive(Debug)]
pub struct Getter {
    keys: Keys,
}

impl Getter {
    /// With the part of an access file for workers; nothing where that has no keys, for then workers listen to nobody.
    pub fn new(endpoint: &Endpoint) -> Option<Getter> {
        Some(Getter { keys: keys_among_workers(endpoint.keys.as_ref()?) })
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
        let content = Content { size: copy.size, checksum: copy.checksum };
        let mut sink = Checked { target, content, taken: 0, checksum: Checksum::default(), error: None };
        let brought = bring(self, &Wanted { key, content, holders }, &mut sink).await;
        match (brought, sink.error) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(error)) => Err(GetError::Here(error)),
            (Err(unfetched), None) => Err(GetError::There(unfetched.reason)),
        }
    }
}

impl Peer for Getter {
    async fn ask(&self, place: &TaskNode, fetch: Fetch) -> Result<Connection, String> {
        reach(place, &self.keys, &ToNode::Fetch(fetch)).await
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
