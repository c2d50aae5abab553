//! Objects on their way from other workers.

use std::collections::hash_map::Entry;
use std::future::Future;
use std::sync::{Arc, PoisonError};

use hq_core::node_messages::{Fetch, FromNode};
use hq_core::worker_messages::TaskNode;
use hq_model::WorkerId;
use hq_net::{FrameReceiver, FrameSender};
use hq_proto::decode_from_node;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::debug;

use super::{Content, Key, Objects, StoreError};
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

/// What a try came to that did not bring everything.
enum Cut {
    /// By whom the bytes were sent, or the way to it.
    There(String),
    /// Here.
    Here(StoreError),
}

impl Objects {
    /// Has an object brought into the store, unless it is there; others that want it meanwhile wait for the same.
    ///
    /// # Errors
    /// When nobody gave it.
    pub(crate) async fn fetch(
        self: &Arc<Objects>,
        peer: &Arc<impl Peer>,
        wanted: Wanted,
    ) -> Result<(), Unfetched> {
        let (answer, told) = oneshot::channel();
        {
            let mut coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner);
            match coming.entry(wanted.key.clone()) {
                Entry::Occupied(waiting) => waiting.into_mut().push(answer),
                Entry::Vacant(first) => {
                    first.insert(vec![answer]);
                    let (objects, peer) = (self.clone(), peer.clone());
                    // Not ended with who asked first: others may wait for it.
                    tokio::spawn(async move {
                        let result = objects.bring(&*peer, &wanted).await;
                        if result == Ok(true) {
                            objects.store.tell_stored(&wanted.key, wanted.content);
                        }
                        let result = result.map(drop);
                        let mut coming = objects.coming.lock().unwrap_or_else(PoisonError::into_inner);
                        let waiting = coming.remove(&wanted.key).unwrap_or_default();
                        drop(coming);
                        // Who does not wait any more need not know.
                        waiting.into_iter().for_each(|answer| drop(answer.send(result.clone())));
                    });
                }
            }
        }
        told.await.unwrap_or_else(|_| Err(Unfetched::here("the worker is ending".to_owned())))
    }

    // True when it was not there before.
    async fn bring(&self, peer: &impl Peer, wanted: &Wanted) -> Result<bool, Unfetched> {
        let ending = || Unfetched::here("the worker is ending".to_owned());
        let _place = self.fetches.acquire().await.map_err(|_| ending())?;
        let (store, key) = (self.store.clone(), wanted.key.clone());
        if self.pieces.run(move || store.content(&key)).await.ok_or_else(ending)? == Some(wanted.content) {
            return Ok(false);
        }
        let mut coming = self.begin(wanted).await?;
        let mut reasons: Vec<(WorkerId, String)> = Vec::new();
        for _ in 0..FETCH_ROUNDS_MAX {
            let before = coming.offset;
            for holder in &wanted.holders {
                // Once more from the beginning, where the bytes came from several and are wrong: then it shows whose.
                for _ in 0..2 {
                    let is_of_several = coming.offset > 0;
                    match self.bring_from(peer, holder, wanted, &mut coming).await {
                        Ok(()) => return Ok(true),
                        Err(Cut::Here(error @ StoreError::Damaged { .. })) => {
                            coming = self.begin(wanted).await?;
                            if is_of_several {
                                continue;
                            }
                            note(&mut reasons, holder, error.to_string());
                        }
                        Err(Cut::Here(error)) => return Err(Unfetched::here(error.to_string())),
                        Err(Cut::There(reason)) => note(&mut reasons, holder, reason),
                    }
                    break;
                }
            }
            if coming.offset <= before {
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

    async fn begin(&self, wanted: &Wanted) -> Result<Coming, Unfetched> {
        let (store, size) = (self.store.clone(), wanted.content.size);
        let begun = self.pieces.run(move || store.receive(size)).await;
        match begun {
            Some(Ok(incoming)) => Ok(Coming { incoming: Some(incoming), offset: 0 }),
            Some(Err(error)) => Err(Unfetched::here(error.to_string())),
            None => Err(Unfetched::here("the worker is ending".to_owned())),
        }
    }

    // From where the one before stopped.
    async fn bring_from(
        &self,
        peer: &impl Peer,
        holder: &TaskNode,
        wanted: &Wanted,
        coming: &mut Coming,
    ) -> Result<(), Cut> {
        let Key { object, instance } = wanted.key.clone();
        let fetch = Fetch { worker: holder.worker, object, instance, offset: coming.offset };
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
            let (offset, bytes, is_last) = match decode_from_node(&frame) {
                Ok(FromNode::Piece { offset, bytes, is_last }) => (offset, bytes, is_last),
                Ok(FromNode::Refused { reason, .. }) => return Err(Cut::There(reason)),
                _ => return Err(Cut::There("it says what makes no sense".to_owned())),
            };
            let fits = bytes.len() <= PIECE_MAX && bytes.len() as u64 <= wanted.content.size - coming.offset;
            if offset != coming.offset || !fits {
                return Err(Cut::There("it sent other bytes than those asked for".to_owned()));
            }
            let Some(mut incoming) = coming.incoming.take() else { return Err(Cut::Here(StoreError::Gone)) };
            let end = is_last.then(|| (wanted.key.clone(), wanted.content));
            coming.offset += bytes.len() as u64;
            let taken = self.pieces.run(move || -> Result<_, StoreError> {
                incoming.write(&bytes)?;
                match end {
                    Some((key, content)) => incoming.finish(key, content).map(|()| None),
                    None => Ok(Some(incoming)),
                }
            });
            match taken.await {
                Some(Ok(None)) => return Ok(()),
                Some(Ok(again)) => coming.incoming = again,
                Some(Err(error)) => return Err(Cut::Here(error)),
                None => return Err(Cut::Here(StoreError::Gone)),
            }
        }
    }
}

struct Coming {
    // Away while it is written to.
    incoming: Option<super::store::Incoming>,
    offset: u64,
}

fn note(reasons: &mut Vec<(WorkerId, String)>, holder: &TaskNode, reason: String) {
    debug!(worker = %holder.worker, reason, "an object did not come");
    reasons.retain(|(worker, _)| *worker != holder.worker);
    reasons.push((holder.worker, reason));
}
