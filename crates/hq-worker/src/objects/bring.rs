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

use super::get::by_neither_way;
use super::{Connection, Content, Key, StoreError};
use crate::limits::{FETCH_ROUNDS_MAX, PIECE_MAX, PIECE_TIME_MAX, SENT_ON_MAX};
use crate::ranks::Unreached;

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
    fn ask(
        &self,
        place: &TaskNode,
        fetch: Fetch,
    ) -> impl Future<Output = Result<Connection, Unreached>> + Send;

    /// Asks one that cannot be reached, by way of the server.
    fn ask_by_server(
        &self,
        _place: &TaskNode,
        _fetch: Fetch,
    ) -> impl Future<Output = Result<Connection, String>> + Send {
        async { Err("there is no other way".to_owned()) }
    }

    /// True where there is such a way.
    fn has_server(&self) -> bool {
        false
    }

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
    /// There is no way to it.
    Apart(String),
    /// Here.
    Here(StoreError),
}

/// How a holder is asked.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Direct,
    ByServer,
}

/// Has an object brought.
///
/// # Errors
/// When nobody gave it, or it cannot be taken here.
pub(crate) async fn bring(peer: &impl Peer, wanted: &Wanted, sink: &mut impl Sink) -> Result<(), Unfetched> {
    sink.begin().await.map_err(|error| here(&error))?;
    let mut bringing = Bringing { peer, wanted, sink, offset: 0, reasons: Vec::new(), sent_on: 0 };
    for _ in 0..FETCH_ROUNDS_MAX {
        let before = bringing.offset;
        let Some(apart) = bringing.ask_each(wanted.holders.clone(), Way::Direct).await? else {
            return Ok(());
        };
        // The last resort.
        if peer.has_server() && bringing.ask_each(apart, Way::ByServer).await?.is_none() {
            return Ok(());
        }
        if bringing.offset <= before {
            break;
        }
    }
    Err(bringing.why_not())
}

fn here(error: &StoreError) -> Unfetched {
    Unfetched::here(error.to_string())
}

/// An object that is brought.
struct Bringing<'a, P, S> {
    peer: &'a P,
    wanted: &'a Wanted,
    sink: &'a mut S,
    /// All before has come.
    offset: u64,
    /// Why those that were asked have not given all of it.
    reasons: Vec<(WorkerId, String)>,
    /// How often it was sent on to another one.
    sent_on: u32,
}

impl<P: Peer, S: Sink> Bringing<'_, P, S> {
    // Asks one after the other. Nothing when all has come; otherwise those that cannot be reached.
    async fn ask_each(
        &mut self,
        holders: Vec<TaskNode>,
        way: Way,
    ) -> Result<Option<Vec<TaskNode>>, Unfetched> {
        let mut holders = VecDeque::from(holders);
        let mut apart: Vec<TaskNode> = Vec::new();
        while let Some(holder) = holders.pop_front() {
            let is_of_several = self.offset > 0;
            match self.bring_from(&holder, way).await {
                Ok(()) => return Ok(None),
                Err(Cut::Busy(others)) => {
                    self.sent_on += 1;
                    // It is asked once more where none of them gives it.
                    holders.push_front(holder);
                    others.into_iter().rev().for_each(|other| holders.push_front(other));
                }
                Err(Cut::Here(error @ StoreError::Damaged { .. })) => {
                    self.sink.begin().await.map_err(|error| here(&error))?;
                    self.offset = 0;
                    match is_of_several {
                        // Once more from the beginning: then it shows whose bytes are wrong.
                        true => holders.push_front(holder),
                        false => self.note(&holder, error.to_string(), way),
                    }
                }
                Err(Cut::Here(error)) => return Err(here(&error)),
                Err(Cut::There(reason)) => self.note(&holder, reason, way),
                Err(Cut::Apart(reason)) => {
                    self.note(&holder, reason, way);
                    if !apart.contains(&holder) {
                        apart.push(holder);
                    }
                }
            }
        }
        Ok(Some(apart))
    }

    async fn ask(&self, holder: &TaskNode, fetch: Fetch, way: Way) -> Result<Connection, Cut> {
        match way {
            Way::Direct => self.peer.ask(holder, fetch).await.map_err(|unreached| match unreached {
                Unreached::Refused(reason) => Cut::There(reason),
                Unreached::NoWay(reason) => Cut::Apart(reason),
            }),
            Way::ByServer => self.peer.ask_by_server(holder, fetch).await.map_err(Cut::There),
        }
    }

    // From where the one before stopped.
    async fn bring_from(&mut self, holder: &TaskNode, way: Way) -> Result<(), Cut> {
        let Key { object, instance } = self.wanted.key.clone();
        // Who is not reached cannot say where it could be had as well.
        let from = self.peer.place().filter(|_| self.sent_on < SENT_ON_MAX && way == Way::Direct);
        let can_go = from.is_some();
        let fetch = Fetch { worker: holder.worker, object, instance, offset: self.offset, from };
        let (asking, mut pieces) = self.ask(holder, fetch, way).await?;
        loop {
            let frame = match timeout(PIECE_TIME_MAX, pieces.next()).await {
                Ok(Ok(Some(frame))) => frame,
                Ok(Ok(None)) => return Err(Cut::There("the connection ended".to_owned())),
                Ok(Err(error)) => return Err(Cut::There(error.to_string())),
                Err(_) => {
                    let text = format!("nothing was received for {} s", PIECE_TIME_MAX.as_secs());
                    return Err(Cut::There(text));
                }
            };
            let (begin, piece, is_last) = match understood(frame) {
                Ok(Said::Piece { offset, piece, is_last }) => (offset, piece, is_last),
                Ok(Said::Busy(others)) if can_go => {
                    self.peer.keep(holder.worker, (asking, pieces));
                    return Err(Cut::Busy(others));
                }
                Ok(Said::Busy(_)) => return Err(Cut::There("it sent an invalid message".to_owned())),
                Err(reason) => return Err(Cut::There(reason)),
            };
            let count = piece.bytes().len();
            let fits = count <= PIECE_MAX && count as u64 <= self.wanted.content.size - self.offset;
            if begin != self.offset || !fits {
                return Err(Cut::There("it sent other bytes than those asked for".to_owned()));
            }
            self.offset += count as u64;
            if let Some(memory) = self.sink.take(piece, is_last).await.map_err(Cut::Here)? {
                pieces.give_back(memory);
            }
            if is_last {
                if way == Way::Direct {
                    self.peer.keep(holder.worker, (asking, pieces));
                }
                return Ok(());
            }
        }
    }

    fn note(&mut self, holder: &TaskNode, reason: String, way: Way) {
        debug!(worker = %holder.worker, reason, "an object did not come");
        let before = self.reasons.iter().position(|(worker, _)| *worker == holder.worker);
        let before = before.map(|place| self.reasons.remove(place).1);
        let text = match (before, way) {
            (Some(direct), Way::ByServer) => by_neither_way(&direct, &reason),
            _ => reason,
        };
        self.reasons.push((holder.worker, text));
    }

    fn why_not(self) -> Unfetched {
        if self.reasons.is_empty() {
            return Unfetched::here("no worker is known to hold it".to_owned());
        }
        let holders = self.reasons.iter().map(|(worker, _)| *worker).collect();
        let reasons: Vec<String> =
            self.reasons.into_iter().map(|(worker, text)| format!("worker {worker}: {text}")).collect();
        Unfetched { holders, reason: reasons.join("; ") }
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
        _ => Err("it sent an invalid message".to_owned()),
    }
}
