//! Objects: files that tasks leave for others, kept by workers and carried from worker to worker.

mod bring;
mod crowd;
mod disk;
mod fetch;
pub mod get;
mod home;
mod kept;
mod leave;
mod links;
pub mod near;
#[cfg(test)]
mod put_tests;
mod receive;
mod serve;
#[cfg(test)]
mod spill_tests;
mod stage;
mod store;
mod taken;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tree_tests;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use hq_core::node_messages::Fetch;
use hq_model::{Instance, ObjectId};
use tokio::sync::{Semaphore, oneshot};

use crate::limits::{FETCHES_MAX, SERVES_MAX, SMALL_FETCHES_MAX, SMALL_SERVES_MAX};

pub(crate) use bring::Peer;
use bring::{Unfetched, Wanted};
use crowd::Crowds;
use disk::Disk;
pub(crate) use kept::{Connection, Kept};
pub(crate) use leave::{Leaves, Value, not_now};
pub(crate) use links::Links;
pub(crate) use stage::{Brought, Place, Staged};
use store::{Content, Hold, SharedStore, StoreError};
pub(crate) use store::{Key, PutFile, SpillTo, Store};
pub(crate) use taken::{Source, Taken};

type Waiting = oneshot::Sender<Result<(), Unfetched>>;

/// The store of a worker, and the ways in and out of it.
#[derive(Debug)]
pub(crate) struct Objects {
    /// What it holds.
    pub(crate) store: SharedStore,
    /// For files as a whole.
    pub(crate) files: Disk,
    // For directories that are unpacked, which takes long.
    trees: Disk,
    // For pieces, so that they need not wait for a large file.
    pieces: Disk,
    // Who waits for what is being fetched.
    coming: Mutex<HashMap<Key, Vec<Waiting>>>,
    fetches: Semaphore,
    small_fetches: Semaphore,
    serves: Semaphore,
    // Counts files of clients.
    received: AtomicU64,
    small_serves: Semaphore,
    crowds: Arc<Crowds>,
}

impl Objects {
    /// Around a store.
    pub(crate) fn new(store: SharedStore) -> Arc<Objects> {
        Arc::new(Objects {
            store,
            files: Disk::new("objects"),
            trees: Disk::new("trees"),
            pieces: Disk::new("pieces"),
            coming: Mutex::default(),
            fetches: Semaphore::new(FETCHES_MAX),
            small_fetches: Semaphore::new(SMALL_FETCHES_MAX),
            serves: Semaphore::new(SERVES_MAX),
            received: AtomicU64::new(0),
            small_serves: Semaphore::new(SMALL_SERVES_MAX),
            crowds: Arc::default(),
        })
    }

    /// Nobody needs these any more.
    pub(crate) fn free(&self, objects: Vec<ObjectId>) {
        let store = self.store.clone();
        self.pieces.order(move || objects.iter().for_each(|object| store.remove(object)));
    }

    /// A file in the directory `put` is to be an object, as a client says. The server hears whether it is.
    pub(crate) fn take(&self, object: ObjectId, file: String, is_dir: bool) {
        let store = self.store.clone();
        self.files.order(move || {
            let key = Key { object, instance: Instance(0) };
            match store.adopt(key.clone(), &file, (Hold::Unheard, is_dir)) {
                Ok(content) => store.tell_stored(&key, content),
                Err(error) => store.tell_refused(key.object, error.to_string()),
            }
        });
    }

    /// Which of them may make room for others, and which may not. At once: it changes no file.
    pub(crate) fn guard(&self, guard: Vec<ObjectId>, release: Vec<ObjectId>) {
        self.store.hold(&guard, Hold::Guarded);
        self.store.hold(&release, Hold::Free);
    }
}

/// What is asked for.
pub(crate) fn key_of(fetch: &Fetch) -> Key {
    Key { object: fetch.object.clone(), instance: fetch.instance }
}
