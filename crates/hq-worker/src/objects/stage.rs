//! What a task takes of others: brought to its places before its program starts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hq_core::object_messages::{ObjectCopy, ObjectSource};
use hq_core::record::FailureKind;
use hq_core::worker::Outcome;
use hq_core::worker_messages::TaskNode;
use hq_model::object::plain_path;
use hq_model::{ByteString, Instance, ObjectId, TaskRef, WorkerId};
use tokio::task::JoinSet;

use super::{Content, Key, Objects, Peer, StoreError, Taken, Unfetched, Wanted};

/// An object, and where a task wants it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    copy: ObjectCopy,
    holders: Vec<TaskNode>,
    path: ByteString,
}

/// How staging ended.
#[derive(Debug)]
pub(crate) struct Staged {
    /// The task.
    pub(crate) task: TaskRef,
    /// Its instance.
    pub(crate) instance: Instance,
    /// What a call takes, to be held until it has ended; or why it cannot start.
    pub(crate) brought: Result<Vec<Taken>, Outcome>,
}

impl Place {
    /// At a path, of a source. `own` is this worker.
    pub(crate) fn new(source: &ObjectSource, path: ByteString, own: WorkerId) -> Place {
        let others = source.holders.iter().filter(|holder| holder.worker != own).cloned();
        Place { copy: source.copy.clone(), holders: others.collect(), path }
    }

    fn key(&self) -> Key {
        Key { object: self.copy.object.clone(), instance: self.copy.instance }
    }
}

impl Objects {
    /// Brings what a task takes to its places. If that fails, how the task ends.
    pub(crate) async fn stage(
        self: &Arc<Objects>,
        peer: &Arc<impl Peer>,
        places: Vec<Place>,
    ) -> Option<Outcome> {
        if let Some(refused) = one_place(&places) {
            return Some(refused);
        }
        let pins = Pins { objects: self.clone(), keys: places.iter().map(Place::key).collect() };
        let pins = pins.begin();
        let mut bringing = JoinSet::new();
        for place in places {
            let (objects, peer) = (self.clone(), peer.clone());
            bringing.spawn(async move {
                let object = place.copy.object.clone();
                objects.bring_to(&peer, place).await.map_err(|refused| refused.outcome(object))
            });
        }
        let mut refused = None;
        while let Some(brought) = bringing.join_next().await {
            match brought {
                Ok(Ok(())) => {}
                Ok(Err(outcome)) => {
                    // What was brought so far stays, and the rest is not waited for.
                    refused = Some(outcome);
                    break;
                }
                Err(error) => resume_unwind(error.into_panic()),
            }
        }
        drop(pins);
        refused
    }

    async fn bring_to(self: &Arc<Objects>, peer: &Arc<impl Peer>, place: Place) -> Result<(), Refused> {
        let key = place.key();
        let content = Content { size: place.copy.size, checksum: place.copy.checksum };
        // What is here may go, or be found damaged, before it is in its place.
        for is_last in [false, true] {
            let wanted = Wanted { key: key.clone(), content, holders: place.holders.clone() };
            self.fetch(peer, wanted).await.map_err(Refused::Unfetched)?;
            let (store, key, path) = (self.store.clone(), key.clone(), place.path.clone());
            let put = self.files.run(move || store.put(&key, Path::new(OsStr::from_bytes(&path))));
            match put.await {
                Some(Ok(())) => return Ok(()),
                Some(Err(error @ StoreError::Gone)) if is_last => {
                    return Err(Refused::Unfetched(Unfetched::here(error.to_string())));
                }
                Some(Err(StoreError::Gone)) => {}
                Some(Err(error)) => return Err(Refused::Place(error)),
                None => return Err(Refused::Unfetched(Unfetched::here("the worker is ending".to_owned()))),
            }
        }
        Ok(())
    }
}

// Two objects that go to one path, now that this is known.
fn one_place(places: &[Place]) -> Option<Outcome> {
    let paths: Vec<PathBuf> = places.iter().map(|place| plain_path(&place.path)).collect();
    let second = (1..paths.len()).find(|at| paths[..*at].contains(&paths[*at]))?;
    let first = paths.iter().position(|path| *path == paths[second])?;
    let (first, second) = (&places[first].copy.object, &places[second]);
    let path = String::from_utf8_lossy(&second.path);
    let text = format!("The objects {first} and {} have one path, {path}", second.copy.object);
    Some(Outcome::Failed(FailureKind::Start, text))
}

enum Refused {
    Unfetched(Unfetched),
    Place(StoreError),
}

impl Refused {
    fn outcome(self, object: ObjectId) -> Outcome {
        match self {
            Refused::Unfetched(Unfetched { holders, reason }) => {
                Outcome::Unfetched { object, holders, reason, wanted: 0 }
            }
            Refused::Place(error) => {
                let text = format!("The object {object} cannot be put in its place: {error}");
                Outcome::Failed(FailureKind::Start, text)
            }
        }
    }
}

/// What is not to make room for others meanwhile.
struct Pins {
    objects: Arc<Objects>,
    keys: Vec<Key>,
}

impl Pins {
    fn begin(mut self) -> Pins {
        self.keys.retain(|key| self.objects.store.pin(key));
        self
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        self.keys.iter().for_each(|key| self.objects.store.unpin(key));
    }
}
