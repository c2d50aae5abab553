//! Objects on their way from other workers into the store.

use std::collections::hash_map::Entry;
use std::sync::{Arc, PoisonError};

use tokio::sync::oneshot;

use super::bring::{Peer, Sink, Unfetched, Wanted, bring};
use super::store::Incoming;
use super::{Content, Hold, Key, Objects, StoreError};

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
        let (key, content) = (wanted.key.clone(), wanted.content);
        bring(peer, wanted, &mut Coming { objects: self, key, content, incoming: None }).await?;
        Ok(true)
    }
}

/// An object that comes into the store.
struct Coming<'a> {
    objects: &'a Objects,
    key: Key,
    content: Content,
    // Away while it is written to.
    incoming: Option<Incoming>,
}

impl Sink for Coming<'_> {
    async fn begin(&mut self) -> Result<(), StoreError> {
        let (store, size) = (self.objects.store.clone(), self.content.size);
        // What came before makes room first.
        self.incoming = None;
        let begun = self.objects.pieces.run(move || store.receive(size)).await;
        self.incoming = Some(begun.unwrap_or(Err(StoreError::Gone))?);
        Ok(())
    }

    async fn take(&mut self, bytes: Vec<u8>, is_last: bool) -> Result<(), StoreError> {
        let Some(mut incoming) = self.incoming.take() else { return Err(StoreError::Gone) };
        let end = is_last.then(|| (self.key.clone(), self.content));
        let taken = self.objects.pieces.run(move || -> Result<_, StoreError> {
            incoming.write(&bytes)?;
            match end {
                Some((key, content)) => incoming.finish(key, content, Hold::Free).map(|()| None),
                None => Ok(Some(incoming)),
            }
        });
        self.incoming = taken.await.unwrap_or(Err(StoreError::Gone))?;
        Ok(())
    }
}
