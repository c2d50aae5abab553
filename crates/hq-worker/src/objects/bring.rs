//! The way of an object from those that hold it: asked of one after the other, each of which goes on where the one before
//! was cut.

use std::collections::VecDeque;
use std::future::Future;

use hq_core::node_messages::{Fetch, FromNode};
use hq_core::worker_messages::TaskNode;
use hq_model::WorkerId;
use hq_proto::{PieceHead, decode_from_node, split_piece};
use tokio::time::timeout;
use tracing::debug;

use super::{Connection, Content, Key, StoreError};
use crate::limits::{FETCH_ROUNDS_MAX, PIECE_MAX, PIECE_TIME_MAX, SENT_ON_MAX};

/// What is to be fetched, and from whom.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Which object.
    pub(crate) key: Key,
    /// What it holds.
    pub(crate) content: Content,
    /// Those that have it, the best first.
    pub(crate) holders: Vec<TaskNode>,
}

/// Why an object could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unfetched {
    /// Those that did not give it.
    pub(crate) holders: Vec<WorkerId>,
    /// Why, for people.
    pub(crate) reason: String,
}

impl Unfetched {
    /// Nobody else is to blame.
    pub(crate) fn here(reason: String) -> Unfetched {
        Unfetched { holders: Vec::new(), reason }
    }
}

/// Who reaches other workers.
pub(crate) trait Peer: Send + Sync + 'static {
    /// Asks a worker for an object: what follows are its pieces. The connection ends when either half is dropped.
    fn ask(&self, place: &TaskNode, fetch: Fetch) -> impl Future<Output = Result<Connection, String>> + Send;

    /// Where this one is found by others that want what it has got, if it can be.
    fn place(&self) -> Option<TaskNode> {
        None
    }

    /// All pieces have come: the connection may serve for the next object.
    fn keep(&self, _worker: WorkerId, _connection: Connection) {}
}

/// A piece, in the message with which it came.
#[derive(Debug)]
pub(crate) struct Piece {
    message: Vec<u8>,
    begin: usize,
}

impl Piece {
    /// The bytes of the object.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.message[self.begin..]
    }

    /// The memory, for another one.
    pub(crate) fn memory(self) -> Vec<u8> {
        self.message
    }
}

/// Where the bytes of an object go, one piece after the other.
pub(crate) trait Sink: Send {
    /// Begins anew: what came before, if anything, is forgotten.
    fn begin(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Takes the next piece; with the last one the object must be what was meant. Gives back the memory of one that is done with.
    fn take(
        &mut self,
        piece: Piece,
        is_last: bool,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, StoreError>> + Send;
}

/// What a try came to that did not bring everything.
enum Cut {
    /// They have it, too, and are not as busy.
    Busy(Vec<TaskNode>),
    /// By whom the bytes were sent, or the way to it.
    There(String),
    /// Here.
    Here(StoreError),
}

/// Has an object brought.
///
/// # Errors
/// When nobody gave it, or it cannot be taken here.
pub(crate) async fn bring(peer: &impl Peer, wanted: &Wanted, sink: &mut impl Sink) -> Result<(), Unfetched> {
    let here = |error: StoreError| Unfetched::here(error.to_string());
    sink.begin().await.map_err(here)?;
    let mut offset = 0;
    let mut reasons: Vec<(WorkerId, String)> = Vec::new();
    let mut sent_on = 0;
    for _ in 0..FETCH_ROUNDS_MAX {
        let before = offset;
        let mut holders: VecDeque<TaskNode> = wanted.holders.iter().cloned().collect();
        while let Some(holder) = holders.pop_front() {
            let from = peer.place().filter(|_| sent_on < SENT_ON_MAX);
            let is_of_several = offset > 0;
            match bring_from(peer, &holder, from, wanted, sink, &mut offset).await {
                Ok(()) => return Ok(()),
                Err(Cut::Busy(others)) => {
                    sent_on += 1;
                    // It is asked once more where none of them gives it.
                    holders.push_front(holder);
                    others.into_iter().rev().for_each(|other| holders.push_front(other));
                }
                Err(Cut::Here(error @ StoreError::Damaged { .. })) => {
                    sink.begin().await.map_err(here)?;
                    offset = 0;
                    match is_of_several {
                        // Once more from the beginning: then it shows whose bytes are wrong.
                        true => holders.push_front(holder),
                        false => note(&mut reasons, &holder, error.to_string()),
                    }
                }
                Err(Cut::Here(error)) => return Err(here(error)),
                Err(Cut::There(reason)) => note(&mut reasons, &holder, reason),
            }
        }
        if offset <= before {
            break;
        }
    }
    if reasons.is_empty() {
        return Err(Unfetched::here("no worker is known to hold it".to_owned()));
    }
    let holders = reasons.iter().map(|(worker, _)| *worker).collect();
    let reasons: Vec<String> =
        reasons.into_iter().map(|(worker, text)| format!("worker {worker}: {text}")).collect();
    Err(Unfetched { holders, reason: reasons.join("; ") })
}

// From where the one before stopped.
async fn bring_from(
    peer: &impl Peer,
    holder: &TaskNode,
    from: Option<TaskNode>,
    wanted: &Wanted,
    sink: &mut impl Sink,
    offset: &mut u64,
) -> Result<(), Cut> {
    let Key { object, instance } = wanted.key.clone();
    let can_go = from.is_some();
    let fetch = Fetch { worker: holder.worker, object, instance, offset: *offset, from };
    let (asking, mut pieces) = peer.ask(holder, fetch).await.map_err(Cut::There)?;
    loop {
        let frame = match timeout(PIECE_TIME_MAX, pieces.next()).await {
            Ok(Ok(Some(frame))) => frame,
            Ok(Ok(None)) => return Err(Cut::There("the connection ended".to_owned())),
            Ok(Err(error)) => return Err(Cut::There(error.to_string())),
            Err(_) => {
                let text = format!("nothing came for {} s", PIECE_TIME_MAX.as_secs());
                return Err(Cut::There(text));
            }
        };
        let (begin, piece, is_last) = match understood(frame) {
            Ok(Said::Piece { offset, piece, is_last }) => (offset, piece, is_last),
            Ok(Said::Busy(others)) if can_go => {
                peer.keep(holder.worker, (asking, pieces));
                return Err(Cut::Busy(others));
            }
            Ok(Said::Busy(_)) => return Err(Cut::There("it says what makes no sense".to_owned())),
            Err(reason) => return Err(Cut::There(reason)),
        };
        let count = piece.bytes().len();
        let fits = count <= PIECE_MAX && count as u64 <= wanted.content.size - *offset;
        if begin != *offset || !fits {
            return Err(Cut::There("it sent other bytes than those asked for".to_owned()));
        }
        *offset += count as u64;
        if let Some(memory) = sink.take(piece, is_last).await.map_err(Cut::Here)? {
            pieces.give_back(memory);
        }
        if is_last {
            peer.keep(holder.worker, (asking, pieces));
            return Ok(());
        }
    }
}

/// What a holder says.
enum Said {
    Piece { offset: u64, piece: Piece, is_last: bool },
    Busy(Vec<TaskNode>),
}

// Otherwise why it gives nothing.
fn understood(message: Vec<u8>) -> Result<Said, String> {
    if let Some(PieceHead { offset, is_last, begin }) = split_piece(&message) {
        return Ok(Said::Piece { offset, piece: Piece { message, begin }, is_last });
    }
    match decode_from_node(&message) {
        Ok(FromNode::Piece { offset, bytes, is_last }) => {
            Ok(Said::Piece { offset, piece: Piece { message: bytes, begin: 0 }, is_last })
        }
        Ok(FromNode::Busy { others }) => Ok(Said::Busy(others)),
        Ok(FromNode::Refused { reason, .. }) => Err(reason),
        _ => Err("it says what makes no sense".to_owned()),
    }
}

fn note(reasons: &mut Vec<(WorkerId, String)>, holder: &TaskNode, reason: String) {
    debug!(worker = %holder.worker, reason, "an object did not come");
    reasons.retain(|(worker, _)| *worker != holder.worker);
    reasons.push((holder.worker, reason));
}
