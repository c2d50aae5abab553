//! Values that a call takes: read where they are stored, so they stay there until the call has ended, however it ends.

use std::path::PathBuf;
use std::sync::Arc;

use hq_core::object_messages::{ObjectCopy, ObjectSource};
use hq_core::worker::Outcome;
use hq_core::worker_messages::TaskNode;
use hq_model::{TaskRef, WorkerId};
use tracing::{debug, info};

use super::{Content, Key, Objects, Peer, Unfetched, Wanted};

/// An object that a call takes, and who has it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    copy: ObjectCopy,
    holders: Vec<TaskNode>,
}

/// A value that is here, and stays here as long as this lives.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Whose value it is.
    pub(crate) of: TaskRef,
    /// Where it lies.
    pub(crate) path: PathBuf,
    _pin: Pin,
}

/// A reader of an object.
#[derive(Debug)]
pub(super) struct Pin {
    objects: Arc<Objects>,
    key: Key,
}

impl Pin {
    // None when it is not here.
    pub(super) fn new(objects: &Arc<Objects>, key: &Key) -> Option<Pin> {
        objects.store.pin(key).then(|| Pin { objects: objects.clone(), key: key.clone() })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.objects.store.unpin(&self.key);
    }
}

impl Source {
    /// As the server says it. `own` is this worker.
    pub(crate) fn new(source: &ObjectSource, own: WorkerId) -> Source {
        let others = source.holders.iter().filter(|holder| holder.worker != own).cloned();
        Source { copy: source.copy.clone(), holders: others.collect() }
    }

    fn key(&self) -> Key {
        Key { object: self.copy.object.clone(), instance: self.copy.instance }
    }

    fn wanted(&self) -> Wanted {
        Wanted { key: self.key(), content: Content::of(&self.copy), holders: self.holders.clone() }
    }
}

impl Objects {
    /// Brings what a call takes into the store, and holds it there. If that fails, how the call ends.
    ///
    /// # Errors
    /// When one of them cannot be had.
    pub(crate) async fn take_all(
        self: &Arc<Objects>,
        peer: &Arc<impl Peer>,
        sources: Vec<Source>,
    ) -> Result<Vec<Taken>, Outcome> {
        // What is here is not to make room for what comes.
        let _here: Vec<Pin> = sources.iter().filter_map(|source| Pin::new(self, &source.key())).collect();
        let mut all = Vec::with_capacity(sources.len());
        for source in sources {
            let taken = self.take_one(peer, &source).await.map_err(|Unfetched { holders, reason }| {
                Outcome::Unfetched { object: source.copy.object.clone(), holders, reason, wanted: 0 }
            })?;
            all.push(taken);
        }
        Ok(all)
    }

    /// Brings an object into the store for no task here. The server hears of it, or that it cannot be had.
    pub(crate) async fn take_over(self: &Arc<Objects>, peer: &Arc<impl Peer>, source: &Source) {
        let object = source.copy.object.clone();
        match self.fetch(peer, source.wanted()).await {
            Ok(()) => debug!(%object, "an object of a worker that leaves is here"),
            Err(unfetched) => {
                info!(%object, reason = unfetched.reason, "an object of a worker that leaves could not be had");
                self.store.tell_refused(object, unfetched.reason);
            }
        }
    }

    /// Brings an object into the store for a task that waits, where there is room beside what is needed. The worker hears of it, or
    /// that it is left to the task.
    pub(crate) async fn take_ahead(self: &Arc<Objects>, peer: &Arc<impl Peer>, source: &Source) {
        let object = source.copy.object.clone();
        if !self.store.has_room(source.copy.size) {
            return self.store.tell_not_ahead(object);
        }
        match self.fetch(peer, source.wanted()).await {
            // It may have been here, of which nobody hears.
            Ok(()) => debug!(%object, "an object of a task that waits is here"),
            Err(unfetched) => debug!(%object, reason = unfetched.reason, "an object does not come ahead"),
        }
        self.store.tell_not_ahead(object);
    }

    async fn take_one(
        self: &Arc<Objects>,
        peer: &Arc<impl Peer>,
        source: &Source,
    ) -> Result<Taken, Unfetched> {
        let mut reason = String::new();
        // What is here may go, or be found damaged, before it is held.
        for _ in 0..2 {
            self.fetch(peer, source.wanted()).await?;
            let Some(pin) = Pin::new(self, &source.key()) else { continue };
            let (store, key) = (self.store.clone(), source.key());
            let ending = || Unfetched::here("the worker is ending".to_owned());
            match self.pieces.run(move || store.locate(&key)).await.ok_or_else(ending)? {
                Ok(path) => return Ok(Taken { of: source.copy.object.task, path, _pin: pin }),
                Err(error) => reason = error.to_string(),
            }
        }
        Err(Unfetched::here(reason))
    }
}
