//! Objects on their way to other workers.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::PoisonError;

use hq_core::node_messages::{Fetch, FromNode};
use hq_core::worker_messages::TaskNode;
use hq_model::checksum::Checksum;
use hq_net::FrameSender;
use hq_proto::{encode_from_node, piece_head};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::crowd::{Sending, Turn};
use super::{Content, Key, Objects, Store, StoreError, Unfetched, key_of};
use crate::limits::{COMING_TIME_MAX, CROWD_SIZE_MIN, PIECE_PAUSE, PIECE_SENT};
use crate::ranks::NO_PROCESS;

/// An object that is being read.
struct Reading {
    file: File,
    offset: u64,
    content: Content,
    /// Of everything, where it is read from the beginning.
    checksum: Option<Checksum>,
}

/// A piece as it leaves.
struct Piece {
    message: Vec<u8>,
    is_last: bool,
}

/// Why an object is not sent to its end.
enum Unsent {
    /// Somebody else has it, who is not as busy.
    There(TaskNode),
    /// In words.
    Because(String),
}

impl From<String> for Unsent {
    fn from(reason: String) -> Unsent {
        Unsent::Because(reason)
    }
}

fn is_ending() -> String {
    "the worker is ending".to_owned()
}

impl Objects {
    /// Sends an object from a byte on; each piece is read while the one before leaves. True when all is said, so that the connection
    /// is of further use.
    pub(crate) async fn serve(&self, sender: &mut FrameSender, fetch: &Fetch) -> bool {
        let answer = match self.send_all(sender, fetch).await {
            Ok(()) => return true,
            Err(Unsent::There(other)) => FromNode::Busy { others: vec![other] },
            Err(Unsent::Because(reason)) => FromNode::Refused { process: NO_PROCESS, reason },
        };
        let is_busy = matches!(answer, FromNode::Busy { .. });
        // Who does not hear it sees the end of the connection.
        tell(sender, &encode_from_node(&answer)).await.is_ok() && is_busy
    }

    async fn send_all(&self, sender: &mut FrameSender, fetch: &Fetch) -> Result<(), Unsent> {
        let key = key_of(fetch);
        if let Some(coming) = self.coming_end(&key) {
            // It may have gone elsewhere: then it shows that it is not here.
            let _ = meanwhile(sender, fetch.offset, timeout(COMING_TIME_MAX, coming)).await?;
        }
        let sending = self.turn(sender, &key, fetch).await?;
        let is_small = self.store.size_of(&key) <= Some(PIECE_SENT as u64);
        let places = if is_small { &self.small_serves } else { &self.serves };
        let place = meanwhile(sender, fetch.offset, places.acquire()).await?;
        let _place = place.map_err(|_| is_ending())?;
        self.send_pieces(sender, &key, fetch.offset).await?;
        sending.into_iter().for_each(Sending::end);
        Ok(())
    }

    // When it has come, or cannot be had; nothing where it is not on its way.
    fn coming_end(&self, key: &Key) -> Option<oneshot::Receiver<Result<(), Unfetched>>> {
        let mut coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, told) = oneshot::channel();
        coming.get_mut(key)?.push(answer);
        Some(told)
    }

    // Waits for a place among those that want the same large object. Only who says where it is can be sent on.
    async fn turn(
        &self,
        sender: &mut FrameSender,
        key: &Key,
        fetch: &Fetch,
    ) -> Result<Option<Sending>, Unsent> {
        let left = self.store.size_of(key).map(|size| size.saturating_sub(fetch.offset));
        let Some(place) = fetch.from.clone().filter(|_| left >= Some(CROWD_SIZE_MIN)) else {
            return Ok(None);
        };
        let turn = match self.crowds.enter(key, place) {
            Ok(turn) => turn,
            Err(turn) => meanwhile(sender, fetch.offset, turn).await?.map_err(|_| is_ending())?,
        };
        match turn {
            Turn::Here(sending) => Ok(Some(sending)),
            Turn::There(other) => Err(Unsent::There(other)),
        }
    }

    async fn send_pieces(&self, sender: &mut FrameSender, key: &Key, offset: u64) -> Result<(), String> {
        let (store, wanted) = (self.store.clone(), key.clone());
        let opened = self.pieces.begin(move || {
            let mut reading = Reading::open(&store, &wanted, offset)?;
            let piece = reading.next(Vec::new());
            Ok((reading, piece))
        });
        let opened = meanwhile(sender, offset, opened).await?;
        let (mut reading, mut piece) = opened.unwrap_or_else(|_| Err(is_ending()))?;
        // One leaves while the next one is read; then they change places.
        let mut spare = Vec::new();
        loop {
            let Piece { message, is_last } = match piece {
                Ok(piece) => piece,
                Err(reason) => {
                    let (store, key) = (self.store.clone(), key.clone());
                    self.pieces.order(move || store.lose_altered(&key));
                    return Err(reason);
                }
            };
            if is_last {
                return tell(sender, &message).await;
            }
            let next = self.pieces.begin(move || {
                let piece = reading.next(spare);
                (reading, piece)
            });
            tell(sender, &message).await?;
            (reading, piece) = next.await.map_err(|_| is_ending())?;
            spare = message;
        }
    }
}

impl Reading {
    fn open(store: &Store, key: &Key, offset: u64) -> Result<Reading, String> {
        let (mut file, content) = store.read(key).map_err(|error| error.to_string())?;
        if offset > content.size {
            return Err(format!("it has {} bytes, not {offset}", content.size));
        }
        file.seek(SeekFrom::Start(offset)).map_err(|error| error.to_string())?;
        Ok(Reading { file, offset, content, checksum: (offset == 0).then(Checksum::default) })
    }

    // What is damaged is not sent to its end. The message is in this memory.
    fn next(&mut self, mut message: Vec<u8>) -> Result<Piece, String> {
        let length = (self.content.size - self.offset).min(PIECE_SENT as u64);
        let is_last = self.offset + length == self.content.size;
        let head = piece_head(self.offset, is_last, length as usize);
        message.resize(head.len() + length as usize, 0);
        let (begin, bytes) = message.split_at_mut(head.len());
        begin.copy_from_slice(&head);
        let unreadable = |error| format!("the stored file cannot be read: {error}");
        self.file.read_exact(bytes).map_err(unreadable)?;
        self.offset += length;
        if let Some(checksum) = &mut self.checksum {
            checksum.add(bytes);
            if is_last && checksum.value() != self.content.checksum {
                return Err(StoreError::Altered.to_string());
            }
        }
        Ok(Piece { message, is_last })
    }
}

// Waits for something, and says now and then that more will come.
async fn meanwhile<T>(
    sender: &mut FrameSender,
    offset: u64,
    awaited: impl Future<Output = T>,
) -> Result<T, String> {
    tokio::pin!(awaited);
    loop {
        match timeout(PIECE_PAUSE, &mut awaited).await {
            Ok(value) => return Ok(value),
            Err(_) => {
                let nothing = FromNode::Piece { offset, bytes: Vec::new(), is_last: false };
                tell(sender, &encode_from_node(&nothing)).await?;
            }
        }
    }
}

async fn tell(sender: &mut FrameSender, message: &[u8]) -> Result<(), String> {
    sender.send(message).await.map_err(|error| error.to_string())?;
    sender.flush().await.map_err(|error| error.to_string())
}
