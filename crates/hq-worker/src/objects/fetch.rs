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
        let (store, key, content) = (self.store.clone(), wanted.key.clone(), wanted.content);
        let begun = self.pieces.run(move || match store.content(&key) == Some(content) {
            true => Ok(None),
            false => store.receive(content.size).map(Some),
        });
        let begun = begun.await.ok_or_else(ending)?.map_err(|error| Unfetched::here(error.to_string()))?;
        let Some(incoming) = begun else { return Ok(false) };
        let key = wanted.key.clone();
        let file = Writing::Not(incoming);
        bring(peer, wanted, &mut Coming { objects: self, key, content, file, is_begun: false }).await?;
        Ok(true)
    }
}

/// An object that comes into the store.
struct Coming<'a> {
    objects: &'a Objects,
    key: Key,
    content: Content,
    file: Writing,
    is_begun: bool,
}

/// What the file is at.
enum Writing {
    /// It waits for more.
    Not(Incoming),
    /// The piece before is written while the next one comes.
    Piece(oneshot::Receiver<Result<Incoming, StoreError>>),
    /// It is whole, or gone.
    Over,
}

impl Writing {
    // The file, when nothing is written to it any more.
    async fn end(&mut self) -> Result<Incoming, StoreError> {
        match std::mem::replace(self, Writing::Over) {
            Writing::Not(incoming) => Ok(incoming),
            Writing::Piece(written) => written.await.unwrap_or(Err(StoreError::Gone)),
            Writing::Over => Err(StoreError::Gone),
        }
    }
}

impl Sink for Coming<'_> {
    async fn begin(&mut self) -> Result<(), StoreError> {
        if !std::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        // What came before makes room first.
        drop(self.file.end().await);
        let (store, size) = (self.objects.store.clone(), self.content.size);
        let begun = self.objects.pieces.run(move || store.receive(size)).await;
        self.file = Writing::Not(begun.unwrap_or(Err(StoreError::Gone))?);
        Ok(())
    }

    async fn take(&mut self, bytes: Vec<u8>, is_last: bool) -> Result<(), StoreError> {
        let mut incoming = self.file.end().await?;
        if is_last {
            let (key, content) = (self.key.clone(), self.content);
            let finished = self.objects.pieces.run(move || {
                incoming.write(&bytes)?;
                incoming.finish(key, content, Hold::Free)
            });
            return finished.await.unwrap_or(Err(StoreError::Gone));
        }
        let written = self.objects.pieces.begin(move || incoming.write(&bytes).map(|()| incoming));
        self.file = Writing::Piece(written);
        Ok(())
    }
}
