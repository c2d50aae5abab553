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

use super::leave::not_now;
use super::links::Held;
use super::store::link_tree;
use super::taken::Pin;
use super::{Content, Key, Links, Objects, Peer, StoreError, Taken, Unfetched, Wanted};

/// An object, and where a task wants it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    copy: ObjectCopy,
    holders: Vec<TaskNode>,
    path: ByteString,
    // In the directory of its broadcasts.
    is_in_place: bool,
}

/// How staging ended.
#[derive(Debug)]
pub(crate) struct Staged {
    /// The task.
    pub(crate) task: TaskRef,
    /// Its instance.
    pub(crate) instance: Instance,
    /// What it takes; or why it cannot start.
    pub(crate) brought: Result<Brought, Outcome>,
}

/// What was brought to a task, to be held until it has ended.
#[derive(Debug)]
pub(crate) enum Brought {
    /// The values that a call takes.
    Values(Vec<Taken>),
    /// What a program finds at its places.
    Places(Links),
}

impl Place {
    /// At a path, of a source. `own` is this worker, `broadcasts` the directory of those of the task.
    pub(crate) fn new(
        source: &ObjectSource,
        path: ByteString,
        own: WorkerId,
        broadcasts: Option<&Path>,
    ) -> Place {
        let others = source.holders.iter().filter(|holder| holder.worker != own).cloned();
        let at = Path::new(OsStr::from_bytes(&path));
        let is_in_place = broadcasts.is_some_and(|dir| at.starts_with(dir));
        Place { copy: source.copy.clone(), holders: others.collect(), path, is_in_place }
    }

    fn key(&self) -> Key {
        Key { object: self.copy.object.clone(), instance: self.copy.instance }
    }
}

impl Objects {
    /// Brings what a task takes to its places. `task` is who, `broadcasts` the directory of those of the task, which goes with what is held.
    ///
    /// # Errors
    /// How the task ends when something cannot be had or put there.
    pub(crate) async fn stage(
        self: &Arc<Objects>,
        peer: &Arc<impl Peer>,
        task: TaskRef,
        (places, broadcasts): (Vec<Place>, Option<PathBuf>),
    ) -> Result<Links, Outcome> {
        if let Some(refused) = one_place(&places) {
            return Err(refused);
        }
        let mut links = Links::new(self, broadcasts);
        let pins = Pins { objects: self.clone(), keys: places.iter().map(Place::key).collect() };
        let pins = pins.begin();
        let mut bringing = JoinSet::new();
        for place in places {
            let (objects, peer) = (self.clone(), peer.clone());
            bringing.spawn(async move {
                let object = place.copy.object.clone();
                objects.bring_to(&peer, task, place).await.map_err(|refused| refused.outcome(object))
            });
        }
        let mut refused = None;
        while let Some(brought) = bringing.join_next().await {
            match brought {
                Ok(Ok(held)) => links.add(held),
                Ok(Err(outcome)) => {
                    // What was brought so far stays, and the rest is not waited for.
                    refused = Some(outcome);
                    break;
                }
                Err(error) => resume_unwind(error.into_panic()),
            }
        }
        drop(pins);
        refused.map_or(Ok(links), Err)
    }

    async fn bring_to(
        self: &Arc<Objects>,
        peer: &Arc<impl Peer>,
        task: TaskRef,
        place: Place,
    ) -> Result<Option<Held>, Refused> {
        let key = place.key();
        let content = Content::of(&place.copy);
        // What is here may go, or be found damaged, before it is in its place.
        for is_last in [false, true] {
            let wanted = Wanted { key: key.clone(), content, holders: place.holders.clone() };
            self.fetch(peer, wanted).await.map_err(Refused::Unfetched)?;
            let put = match content.is_dir {
                true => self.put_tree(&key, task, &place).await,
                false => self.put_file(&key, &place).await,
            };
            match put {
                Some(Ok(held)) => return Ok(held),
                Some(Err(error @ (StoreError::Gone | StoreError::Altered))) if is_last => {
                    return Err(Refused::Unfetched(Unfetched::here(error.to_string())));
                }
                Some(Err(StoreError::Gone | StoreError::Altered)) => {}
                Some(Err(error)) => return Err(Refused::Place(error)),
                None => return Err(Refused::Unfetched(Unfetched::here("the worker is ending".to_owned()))),
            }
        }
        Err(Refused::Unfetched(Unfetched::here(StoreError::Gone.to_string())))
    }

    // Nothing when the worker is ending.
    async fn put_file(
        self: &Arc<Objects>,
        key: &Key,
        place: &Place,
    ) -> Option<Result<Option<Held>, StoreError>> {
        let Some(pin) = Pin::new(self, key) else { return Some(Err(StoreError::Gone)) };
        let (store, key, path, is_in_place) =
            (self.store.clone(), key.clone(), place.path.clone(), place.is_in_place);
        let put = self.files.run(move || {
            let path = Path::new(OsStr::from_bytes(&path));
            if is_in_place { store.link(&key, path) } else { store.put(&key, path).map(|()| false) }
        });
        // A copy, or another name of the file, needs nothing more.
        Some(put.await?.map(|must_stay| must_stay.then(|| Held::file(pin))))
    }

    // A link to what is unpacked, which stays as long as it is held.
    async fn put_tree(
        self: &Arc<Objects>,
        key: &Key,
        task: TaskRef,
        place: &Place,
    ) -> Option<Result<Option<Held>, StoreError>> {
        let (held, tree) = match self.hold_tree(key, task).await? {
            Ok(held) => held,
            Err(error) => return Some(Err(error)),
        };
        let path = place.path.clone();
        let linked = self.files.run(move || link_tree(&tree, Path::new(OsStr::from_bytes(&path))));
        Some(linked.await?.map(|()| Some(held)))
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
            // There may be room later, or elsewhere.
            Refused::Place(error @ StoreError::Full { .. }) => not_now(&object, error.to_string()),
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
