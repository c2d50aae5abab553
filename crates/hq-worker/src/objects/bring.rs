//! The way of an object from those that hold it: asked of one after the other, each of which goes on where the one before
//! was cut.

use std::future::Future;

use hq_core::node_messages::{Fetch, FromNode};
use hq_core::worker_messages::TaskNode;
use hq_model::WorkerId;
use hq_net::{FrameReceiver, FrameSender};
use hq_proto::decode_from_node;
use tokio::time::timeout;
use tracing::debug;

use super::{Content, Key, StoreError};
use crate::limits::{FETCH_ROUNDS_MAX, PIECE_MAX, PIECE_TIME_MAX};

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
    ) -> impl Future<Output = Result<(FrameSender, FrameReceiver), String>> + Send;
}

/// Where the bytes of an object go, one piece after the other.
pub(crate) trait Sink: Send {
    /// Begins anew: what came before, if anything, is forgotten.
    fn begin(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Takes the next piece; with the last one the object must be what was meant.
    fn take(&mut self, bytes: Vec<u8>, is_last: bool) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// What a try came to that did not bring everything.
enum Cut {
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
    for _ in 0..FETCH_ROUNDS_MAX {
        let before = offset;
        for holder in &wanted.holders {
            // Once more from the beginning, where the bytes came from several and are wrong: then it shows whose.
            for _ in 0..2 {
                let is_of_several = offset > 0;
                match bring_from(peer, holder, wanted, sink, &mut offset).await {
                    Ok(()) => return Ok(()),
                    Err(Cut::Here(error @ StoreError::Damaged { .. })) => {
                        sink.begin().await.map_err(here)?;
                        offset = 0;
                        if is_of_several {
                            continue;
                        }
                        note(&mut reasons, holder, error.to_string());
                    }
                    Err(Cut::Here(error)) => return Err(here(error)),
                    Err(Cut::There(reason)) => note(&mut reasons, holder, reason),
                }
                break;
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
    wanted: &Wanted,
    sink: &mut impl Sink,
    offset: &mut u64,
) -> Result<(), Cut> {
    let Key { object, instance } = wanted.key.clone();
    let fetch = Fetch { worker: holder.worker, object, instance, offset: *offset };
    let (_asking, mut pieces) = peer.ask(holder, fetch).await.map_err(Cut::There)?;
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
        let (begin, bytes, is_last) = match decode_from_node(&frame) {
            Ok(FromNode::Piece { offset, bytes, is_last }) => (offset, bytes, is_last),
            Ok(FromNode::Refused { reason, .. }) => return Err(Cut::There(reason)),
            _ => return Err(Cut::There("it says what makes no sense".to_owned())),
        };
        let fits = bytes.len() <= PIECE_MAX && bytes.len() as u64 <= wanted.content.size - *offset;
        if begin != *offset || !fits {
            return Err(Cut::There("it sent other bytes than those asked for".to_owned()));
        }
        *offset += bytes.len() as u64;
        sink.take(bytes, is_last).await.map_err(Cut::Here)?;
        if is_last {
            return Ok(());
        }
    }
}

fn note(reasons: &mut Vec<(WorkerId, String)>, holder: &TaskNode, reason: String) {
    debug!(worker = %holder.worker, reason, "an object did not come");
    reasons.retain(|(worker, _)| *worker != holder.worker);
    reasons.push((holder.worker, reason));
}
