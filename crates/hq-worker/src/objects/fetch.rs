//! Objects on their way from other workers into the store.

use std::collections::hash_map::Entry;
use std::sync::{Arc, PoisonError};

use tokio::sync::oneshot;

use super::bring::{Peer, Piece, Sink, Unfetched, Wanted, bring};
use super::store::Incoming;
use super::{Content, Hold, Key, Objects, StoreError};
use crate::limits::PIECE_SENT;

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
        let is_small = wanted.content.size <= PIECE_SENT as u64;
        let places = if is_small { &self.small_fetches } else { &self.fetches };
        let _place = places.acquire().await.map_err(|_| ending())?;
        if self.store.size_of(&wanted.key).is_some() {
            let (store, key) = (self.store.clone(), wanted.key.clone());
            let found = self.pieces.run(move || store.content(&key)).await.ok_or_else(ending)?;
            if found == Some(wanted.content) {
                return Ok(false);
            }
        }
        let (key, content) = (wanted.key.clone(), wanted.content);
        bring(peer, wanted, &mut Coming { objects: self, key, content, file: Writing::Over }).await?;
        Ok(true)
    }
}

/// An object that comes into the store.
struct Coming<'a> {
    objects: &'a Objects,
    key: Key,
    content: Content,
    file: Writing,
}

/// What the file is at.
enum Writing {
    /// It is made with the first piece, which is the only one.
    Small,
    /// It waits for the first piece.
    New(Incoming),
    /// The piece before is written while the next one comes.
    Piece(oneshot::Receiver<Result<(Incoming, Piece), StoreError>>),
    /// It is whole, or gone.
    Over,
}

impl Coming<'_> {
    // The file when nothing is written to it any more, and the piece that was written last.
    async fn written(&mut self) -> Result<(Incoming, Option<Piece>), StoreError> {
        match std::mem::replace(&mut self.file, Writing::Over) {
            Writing::Small => Ok((self.new_file().await?, None)),
            Writing::New(incoming) => Ok((incoming, None)),
            Writing::Piece(written) => {
                let (incoming, piece) = written.await.unwrap_or(Err(StoreError::Gone))?;
                Ok((incoming, Some(piece)))
            }
            Writing::Over => Err(StoreError::Gone),
        }
    }

    async fn new_file(&self) -> Result<Incoming, StoreError> {
        let (store, size) = (self.objects.store.clone(), self.content.size);
        self.objects.pieces.run(move || store.receive(size)).await.unwrap_or(Err(StoreError::Gone))
    }
}

impl Sink for Coming<'_> {
    async fn begin(&mut self) -> Result<(), StoreError> {
        // What came before makes room first.
        if matches!(self.file, Writing::Piece(_)) {
            drop(self.written().await);
        }
        self.file = match self.content.size <= PIECE_SENT as u64 {
            true => {
                self.objects.store.check_room(self.content.size)?;
                Writing::Small
            }
            false => Writing::New(self.new_file().await?),
        };
        Ok(())
    }

    async fn take(&mut self, piece: Piece, is_last: bool) -> Result<Option<Vec<u8>>, StoreError> {
        if is_last && matches!(self.file, Writing::Small) {
            self.file = Writing::Over;
            let (store, key, content) = (self.objects.store.clone(), self.key.clone(), self.content);
            let stored = self.objects.pieces.run(move || {
                let incoming = store.receive(content.size)?;
                finish(incoming, piece, key, content)
            });
            return stored.await.unwrap_or(Err(StoreError::Gone)).map(Some);
        }
        let (mut incoming, done) = self.written().await?;
        if is_last {
            let (key, content) = (self.key.clone(), self.content);
            let finished = self.objects.pieces.run(move || finish(incoming, piece, key, content));
            return finished.await.unwrap_or(Err(StoreError::Gone)).map(Some);
        }
        let written =
            self.objects.pieces.begin(move || incoming.write(piece.bytes()).map(|()| (incoming, piece)));
        self.file = Writing::Piece(written);
        Ok(done.map(Piece::memory))
    }
}

// With the last piece, whose memory is given back.
fn finish(mut incoming: Incoming, piece: Piece, key: Key, content: Content) -> Result<Vec<u8>, StoreError> {
    incoming.write(piece.bytes())?;
    incoming.finish(key, content, Hold::Free)?;
    Ok(piece.memory())
}
