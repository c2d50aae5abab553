//! Tasks whose programs wait until the objects that they take are in their places.

use std::collections::HashMap;
use std::sync::Arc;

use hq_core::object_messages::ObjectSource;
use hq_core::record::FailureKind;
use hq_core::worker::{Input, Outcome, RunnerId, Start};
use hq_model::{ObjectId, TaskRef, Usage};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;
use tracing::warn;

use crate::launcher::text;
use crate::objects::{Brought, Leaves, Objects, PutFile, Source, Staged, Value};
use crate::prepare::Prepared;
use crate::ranks::Shared;
use crate::supervise::Supervisor;

/// Those tasks, and what brings objects to them.
#[derive(Debug)]
pub(crate) struct Staging {
    objects: Arc<Objects>,
    peers: Arc<Shared>,
    staged: UnboundedSender<Staged>,
    waiting: HashMap<TaskRef, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    start: Start,
    bringing: AbortHandle,
}

impl Staging {
    /// `staged` is told when all is there for a task, or cannot be had.
    pub(crate) fn new(objects: Arc<Objects>, peers: Arc<Shared>, staged: UnboundedSender<Staged>) -> Staging {
        Staging { objects, peers, staged, waiting: HashMap::new() }
    }

    /// None of them starts any more.
    pub(crate) fn forget_all(&mut self) {
        for (_, waiting) in self.waiting.drain() {
            waiting.bringing.abort();
        }
    }
}

impl Supervisor {
    /// Has what a task takes brought to its places; then it starts.
    pub(crate) fn stage(&mut self, start: Start, prepared: &Prepared) {
        let Some(staging) = &mut self.staging else {
            self.put_off(start.task, "this worker stores no objects".to_owned());
            return self.runner_is_not_made(&start);
        };
        let (task, instance) = (start.task, start.instance);
        let (objects, peers) = (staging.objects.clone(), staging.peers.clone());
        let staged = staging.staged.clone();
        // Nobody listens when the worker is ending.
        let tell = move |brought| drop(staged.send(Staged { task, instance, brought }));
        let bringing = if start.runs_in.is_some() {
            let sources = start.objects.iter().map(|source| Source::new(source, self.worker)).collect();
            tokio::spawn(async move { tell(objects.take_all(&peers, sources).await.map(Brought::Values)) })
        } else {
            let taken = prepared.objects_taken(&start, &self.node, self.worker);
            tokio::spawn(async move {
                tell(objects.stage(&peers, task, taken).await.map(Brought::Places));
            })
        };
        staging.waiting.insert(task, Waiting { start, bringing: bringing.abort_handle() });
    }

    /// What a task takes is in its places, or is held for a call; or it cannot be had.
    pub(crate) fn staged(&mut self, Staged { task, instance, brought }: Staged) {
        let Some(staging) = &mut self.staging else { return };
        // It may have been ended, and handed to this worker again.
        if staging.waiting.get(&task).is_none_or(|waiting| waiting.start.instance != instance) {
            return;
        }
        let Some(Waiting { mut start, .. }) = staging.waiting.remove(&task) else { return };
        match brought {
            Ok(brought) => {
                start.objects.clear();
                self.start_with(start, brought);
            }
            Err(outcome) => {
                if let Outcome::Unfetched { object, reason, .. } = &outcome {
                    warn!(%task, %object, reason, "an object that a task takes could not be had");
                }
                self.ended.push(Input::ended(task, outcome, Usage::default()));
                self.runner_is_not_made(&start);
            }
        }
    }

    /// Ends a task whose program has not started yet. False when it is none of these.
    pub(crate) fn stop_staging(&mut self, task: TaskRef, signal: u8) -> bool {
        let staging = self.staging.as_mut();
        let Some(waiting) = staging.and_then(|staging| staging.waiting.remove(&task)) else { return false };
        waiting.bringing.abort();
        let outcome = Outcome::Failed(FailureKind::Signal(signal), text::signaled(signal));
        self.ended.push(Input::ended(task, outcome, Usage::default()));
        self.runner_is_not_made(&waiting.start);
        true
    }

    /// What a task leaves as objects.
    pub(crate) fn leaves(&self, start: &Start, prepared: &Prepared, value: Option<Value>) -> Option<Leaves> {
        let objects = self.staging.as_ref()?.objects.clone();
        let files = prepared.objects_left(start, &self.node);
        (!files.is_empty() || value.is_some()).then_some(Leaves {
            worker: self.worker,
            objects,
            files,
            value,
        })
    }

    /// Where a runner may write what a function returns; nowhere without a store.
    pub(crate) fn put_file(&self, runner: RunnerId, call: u64) -> Option<PutFile> {
        let objects = &self.staging.as_ref()?.objects;
        Some(PutFile::new(objects, format!("r-{}-{call}", runner.0)))
    }

    /// A runner could not write there.
    pub(crate) fn mend_store(&self) {
        let Some(staging) = &self.staging else { return };
        let store = staging.objects.store.clone();
        staging.objects.files.order(move || {
            if let Err(error) = store.mend() {
                warn!(%error, "the directory of the object store cannot be made");
            }
        });
    }

    /// A file that lies in the store is to be an object.
    pub(crate) fn take_file(&mut self, object: ObjectId, file: String, is_dir: bool) {
        match &self.staging {
            Some(staging) => staging.objects.take(object, file, is_dir),
            None => {
                let why = "this worker stores no objects".to_owned();
                self.ended.push(Input::FileRefused { object, why });
            }
        }
    }

    /// Nobody needs these any more.
    pub(crate) fn free_objects(&self, objects: Vec<ObjectId>) {
        if let Some(staging) = &self.staging {
            staging.objects.free(objects);
        }
    }

    /// Another worker is about to leave that alone stores these, or tasks wait that take them.
    pub(crate) fn bring(&self, sources: &[ObjectSource], is_ahead: bool) {
        let Some(staging) = &self.staging else { return };
        for source in sources {
            let (objects, peers) = (staging.objects.clone(), staging.peers.clone());
            let source = Source::new(source, self.worker);
            tokio::spawn(async move {
                match is_ahead {
                    true => objects.take_ahead(&peers, &source).await,
                    false => objects.take_over(&peers, &source).await,
                }
            });
        }
    }

    /// Which objects may make room for others, and which may not.
    pub(crate) fn guard_objects(&self, guard: Vec<ObjectId>, release: Vec<ObjectId>) {
        if let Some(staging) = &self.staging {
            staging.objects.guard(guard, release);
        }
    }
}
