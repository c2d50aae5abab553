//! What is said of objects: where they are, who takes them, what clients ask about them.

use hq_model::selector::Selector;
use hq_model::{ByteString, IdSet, Instance, JobId, ObjectId, ObjectName, TaskRef, WorkerId};

use crate::worker_messages::TaskNode;

/// A file that a worker stores as an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectCopy {
    /// Which object.
    pub object: ObjectId,
    /// The instance of its task that left it.
    pub instance: Instance,
    /// Bytes of it.
    pub size: u64,
    /// Their [checksum](hq_model::checksum::Checksum).
    pub checksum: u64,
    /// They are the archive of a directory.
    pub is_dir: bool,
}

/// The objects that each of some tasks of a batch takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskObjects {
    /// The tasks.
    pub tasks: IdSet,
    /// What each of them takes, in order of its specification.
    pub inputs: Vec<ObjectSource>,
}

impl TaskObjects {
    /// What of these is about some of the tasks.
    pub fn of(all: &[TaskObjects], ids: &IdSet) -> Vec<TaskObjects> {
        let of_one = |objects: &TaskObjects| {
            let tasks = objects.tasks.intersection(ids);
            (!tasks.is_empty()).then(|| TaskObjects { tasks, inputs: objects.inputs.clone() })
        };
        all.iter().filter_map(of_one).collect()
    }
}

/// An object that a task takes, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSource {
    /// Which copies are meant.
    pub copy: ObjectCopy,
    /// Where the task wants it, relative to its working directory; may hold placeholders. Empty for an argument of a call, which
    /// is read where it is stored.
    pub path: ByteString,
    /// Workers that store it, the reader's own first. At most [`HOLDERS_TOLD_MAX`](crate::limits::HOLDERS_TOLD_MAX).
    pub holders: Vec<TaskNode>,
}

/// What a worker has to say of objects in a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectNews {
    /// Stored here since the last report: what tasks left that this report calls finished, and copies of others.
    pub stored: Vec<ObjectCopy>,
    /// Not stored here any more, though nobody asked for that.
    pub lost: Vec<ObjectId>,
    /// Not stored here any more, since somebody had changed the file.
    pub damaged: Vec<ObjectId>,
    /// What lies in the spill of the store, where that has changed.
    pub spilled: Option<ObjectsHeld>,
    /// Tasks that were handed over and did not start, since something that they take could not be had. Here they end, as
    /// others do in the lists of the report.
    pub unfetched: Vec<Unfetched>,
    /// Files that were [to be taken](crate::worker_messages::ToWorker::TakeFile) and are not, and why.
    pub refused: Vec<(ObjectId, String)>,
}

impl ObjectNews {
    /// True when there is nothing to say.
    pub fn is_empty(&self) -> bool {
        let is_lost = !self.lost.is_empty() || !self.damaged.is_empty();
        !is_lost
            && self.spilled.is_none()
            && self.stored.is_empty()
            && self.unfetched.is_empty()
            && self.refused.is_empty()
    }
}

/// An object that a worker could not get for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfetched {
    /// The task.
    pub task: TaskRef,
    /// Its instance.
    pub instance: Instance,
    /// The object.
    pub object: ObjectId,
    /// Workers from which it could not be had.
    pub holders: Vec<WorkerId>,
    /// Why, for people.
    pub reason: String,
    /// Bytes for which the store of the worker has no room, where that is why.
    pub wanted: u64,
}

/// A durable change of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectChange {
    /// Tasks have left these. What an earlier instance left under the same name is not meant any more.
    Stored(Vec<ObjectCopy>),
    /// They stay on workers that have no room for more.
    Kept(Vec<ObjectId>),
    /// Who they were for needs them no more: they are stored no longer, and come back where a task takes them all the same.
    Released(Vec<ObjectId>),
    /// They are gone.
    Gone {
        /// Which.
        objects: Vec<ObjectId>,
        /// Why.
        why: ObjectEnd,
    },
}

/// Why an object is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectEnd {
    /// A user dropped it.
    Dropped,
    /// No worker stores it any more; in words, where it was last and what became of that.
    Lost(String),
}

/// What clients ask about objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectRequest {
    /// Tell those of jobs. Answered by [`ClientResponse::Objects`](crate::client_messages::ClientResponse::Objects), a page
    /// at a time.
    List {
        /// Which jobs.
        jobs: Selector,
        /// Only those in one of these phases; all of them when empty.
        phases: Vec<ObjectPhase>,
        /// Begin after this one: the `next` of the page before.
        after: Option<ObjectId>,
    },
    /// Tell one. Answered likewise.
    Info(ObjectId),
    /// Keep them where stores have no room for more. Answered by `Done`.
    Keep(Vec<ObjectId>),
    /// Remove them everywhere. Refused while a task waits for one. Answered by `Done`.
    Drop(Vec<ObjectId>),
    /// The client needs these values no more, nor do tasks of it. What is kept, is not there, or was not left by a call or a
    /// client is left as it is. Answered by `Done`.
    Release(Vec<ObjectId>),
    /// A file that lies in the store of a worker is to be an object. Answered by
    /// [`ClientResponse::ObjectGiven`](crate::client_messages::ClientResponse::ObjectGiven) once it is.
    Give(Box<GiveObject>),
}

/// A file that is to be an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveObject {
    /// The open job that is to have it, or a job of its own of this name.
    pub job: Result<JobId, String>,
    /// What it is called there.
    pub name: ObjectName,
    /// The worker in whose store it lies.
    pub worker: WorkerId,
    /// What the file is called in the `put` directory of that store.
    pub file: String,
    /// It is the archive of a directory.
    pub is_dir: bool,
}

/// A page of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectPage {
    /// In order.
    pub objects: Vec<ObjectView>,
    /// The last one that was looked at, where there are more. It need not be one that is told.
    pub next: Option<ObjectId>,
}

/// All about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectView {
    /// Which; size and checksum are 0 while it is awaited.
    pub copy: ObjectCopy,
    /// How it stands.
    pub state: ObjectState,
    /// How many workers store it.
    pub copies: u64,
    /// Some of these: up to [`HOLDERS_SHOWN_MAX`](crate::limits::HOLDERS_SHOWN_MAX) where one object was asked for, and up to
    /// [`HOLDERS_LISTED_MAX`](crate::limits::HOLDERS_LISTED_MAX) in a list.
    pub holders: Vec<TaskNode>,
    /// It stays where stores have no room for more.
    pub is_kept: bool,
    /// How many jobs have tasks that have not ended and take it.
    pub reader_count: u64,
    /// The first of these, up to [`READERS_SHOWN_MAX`](crate::limits::READERS_SHOWN_MAX).
    pub readers: Vec<JobId>,
}

/// How an object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectState {
    /// Its task has not finished.
    Awaited,
    /// It is on workers, or on some that the server waits for.
    Stored,
    /// No worker stores it any more, and its task can run again.
    Lost {
        /// Where it was last, and what became of that.
        words: String,
        /// The job that leaves it once more, where there is one.
        rebuilt_by: Option<JobId>,
    },
    /// It is gone.
    Gone(ObjectEnd),
}

impl ObjectState {
    /// Without the reason.
    pub fn phase(&self) -> ObjectPhase {
        match self {
            ObjectState::Awaited => ObjectPhase::Awaited,
            ObjectState::Stored => ObjectPhase::Stored,
            ObjectState::Lost { .. } => ObjectPhase::Lost,
            ObjectState::Gone(_) => ObjectPhase::Gone,
        }
    }

    /// Why it cannot be had, as what is said of the object; nothing where it is stored.
    pub fn why_not_stored(&self, object: &ObjectId) -> Option<String> {
        let TaskRef { job, .. } = object.task;
        Some(match self {
            ObjectState::Stored => return None,
            ObjectState::Awaited => format!(
                "is not there yet: task {} has not finished. `hq job wait {job}` waits until it has.",
                object.task
            ),
            ObjectState::Lost { words, .. } => {
                format!(
                    "is lost: {words}. Its task runs again when another task needs it (`hq submit --input-object`)."
                )
            }
            ObjectState::Gone(why) => {
                format!("is gone: {}.", why.words())
            }
        })
    }

    /// The job that leaves it once more.
    pub fn rebuilt_by(&self) -> Option<JobId> {
        match self {
            ObjectState::Lost { rebuilt_by, .. } => *rebuilt_by,
            _ => None,
        }
    }

    /// Why it is gone or lost, if it is, as the end of a sentence.
    pub fn why_gone(&self) -> Option<&str> {
        match self {
            ObjectState::Awaited | ObjectState::Stored => None,
            ObjectState::Lost { words, .. } => Some(words),
            ObjectState::Gone(why) => Some(why.words()),
        }
    }
}

impl ObjectEnd {
    /// As the end of a sentence.
    pub fn words(&self) -> &str {
        match self {
            ObjectEnd::Dropped => "it was dropped",
            ObjectEnd::Lost(text) => text,
        }
    }
}

/// How an object stands, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectPhase {
    /// Its task has not finished.
    Awaited,
    /// It is on workers, or on some that the server waits for.
    Stored,
    /// No worker stores it any more, and its task can run again.
    Lost,
    /// It is gone.
    Gone,
}

impl ObjectPhase {
    /// All of them.
    pub const ALL: [ObjectPhase; 4] =
        [ObjectPhase::Awaited, ObjectPhase::Stored, ObjectPhase::Lost, ObjectPhase::Gone];

    /// The lower-case word for it.
    pub fn word(self) -> &'static str {
        match self {
            ObjectPhase::Awaited => "awaited",
            ObjectPhase::Stored => "stored",
            ObjectPhase::Lost => "lost",
            ObjectPhase::Gone => "gone",
        }
    }
}

/// How much a worker stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectsHeld {
    /// How many objects.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}
