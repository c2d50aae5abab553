//! What a task that runs has of the store: directories that are unpacked there, and its directory of broadcasts. It goes with the task.

use std::path::PathBuf;
use std::sync::Arc;

use hq_model::TaskRef;
use tracing::warn;

use super::store::Tree;
use super::taken::Pin;
use super::{Key, Objects, StoreError};
use crate::remove::remove_dir_all;

/// What stays while a task reads it.
#[derive(Debug)]
pub(super) struct Held {
    _tree: Option<Had>,
    _pin: Pin,
}

/// A directory that is unpacked, and who has it.
#[derive(Debug)]
struct Had {
    tree: Arc<Tree>,
    task: TaskRef,
}

impl Held {
    /// A file.
    pub(super) fn file(pin: Pin) -> Held {
        Held { _tree: None, _pin: pin }
    }
}

impl Drop for Had {
    fn drop(&mut self) {
        self.tree.end(self.task);
    }
}

/// All that one task has. Dropped on the worker's loop, it goes on another thread.
#[derive(Debug)]
pub(crate) struct Links {
    objects: Arc<Objects>,
    held: Vec<Held>,
    // Of its broadcasts, where it has some.
    dir: Option<PathBuf>,
}

impl Links {
    /// None yet, with a directory that is removed with them.
    pub(super) fn new(objects: &Arc<Objects>, dir: Option<PathBuf>) -> Links {
        Links { objects: objects.clone(), held: Vec::new(), dir }
    }

    pub(super) fn add(&mut self, held: Option<Held>) {
        self.held.extend(held);
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        let (held, dir) = (std::mem::take(&mut self.held), self.dir.take());
        if !held.is_empty() {
            self.objects.trees.order(move || drop(held));
        }
        let Some(dir) = dir else { return };
        // Behind what was to be put there, where that is not waited for any more.
        self.objects.files.order(move || {
            if let Err(error) = crate::prepare::ignore_missing(remove_dir_all(&dir)) {
                warn!(path = %dir.display(), %error, "a directory of broadcasts could not be removed");
            }
        });
    }
}

impl Objects {
    /// Unpacks what is in the store, and holds it there for a task. Nothing when the worker is ending.
    pub(super) async fn hold_tree(
        self: &Arc<Objects>,
        key: &Key,
        task: TaskRef,
    ) -> Option<Result<(Held, Arc<Tree>), StoreError>> {
        let Some(pin) = Pin::new(self, key) else { return Some(Err(StoreError::Gone)) };
        let (store, key) = (self.store.clone(), key.clone());
        let held = move || {
            let tree = store.unpack(&key)?;
            tree.begin(task);
            let had = Had { tree: tree.clone(), task };
            Ok((Held { _tree: Some(had), _pin: pin }, tree))
        };
        let (held, tree) = match self.trees.run(held).await? {
            Ok(held) => held,
            Err(error) => return Some(Err(error)),
        };
        // What the task changes at once is to show.
        tokio::time::sleep(tree.settles_in()).await;
        Some(Ok((held, tree)))
    }
}
