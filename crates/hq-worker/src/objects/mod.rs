//! Objects: files that tasks leave for others, kept by workers and carried from worker to worker.

mod disk;
mod fetch;
mod home;
mod serve;
mod store;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use hq_core::node_messages::Fetch;
use tokio::sync::{Semaphore, oneshot};

use crate::limits::{FETCHES_MAX, SERVES_MAX};

pub(crate) use disk::Disk;
pub(crate) use fetch::{Peer, Unfetched, Wanted};
pub(crate) use store::{Content, Key, SharedStore, Store, StoreError};

type Waiting = oneshot::Sender<Result<(), Unfetched>>;

/// The store of a worker, and the ways in and out of it.
#[derive(Debug)]
pub(crate) struct Objects {
    /// What it holds.
    pub(crate) store: SharedStore,
    /// For files as a whole.
    pub(crate) files: Disk,
    // For pieces, so that they need not wait for a large file.
    pieces: Disk,
    // Who waits for what is being fetched.
    coming: Mutex<HashMap<Key, Vec<Waiting>>>,
    fetches: Semaphore,
    serves: Semaphore,
}

impl Objects {
    /// Around a store.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(crate) fn new(store: SharedStore) -> io::Result<Arc<Objects>> {
        Ok(Arc::new(Objects {
            store,
            files: Disk::start("objects")?,
            pieces: Disk::start("pieces")?,
            coming: Mutex::default(),
            fetches: Semaphore::new(FETCHES_MAX),
            serves: Semaphore::new(SERVES_MAX),
        }))
    }
}

/// What is asked for.
pub(crate) fn key_of(fetch: &Fetch) -> Key {
    Key { task: fetch.task, instance: fetch.instance, name: fetch.name.clone() }
}
