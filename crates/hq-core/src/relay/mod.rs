//! A relay: pulled tasks go to whoever asks for them, and what becomes of them goes to the server.
//!
//! To the server a relay is a worker, one for each bag and each set of tags that somebody asks with; a bag is an open job, and a tag
//! says what whoever asks can do. So leases, attempts,
//! reports that are kept until they are on disk, losses and ways back are those of workers. What is here is who has which
//! task: sessions that take them, and say how they ended.

mod asks;
mod due;
mod machine;
mod repeats;
mod sessions;

pub use machine::Relay;

use std::time::Duration;

use hq_model::{ByteString, JobId, TaskRef, Timestamp};

use crate::worker_messages::{FromWorker, WorkerEnd};

/// Names somebody who takes tasks, for the life of the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// A set of tags that somebody asked with, by its place among those of a relay; the first one is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TagsId(pub u16);

/// A worker of a relay: what it hands to those who ask for tasks of a bag with these tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Branch {
    /// The bag.
    pub bag: JobId,
    /// What whoever asks can do.
    pub tags: TagsId,
}

impl From<JobId> for Branch {
    /// For those without tags.
    fn from(bag: JobId) -> Branch {
        Branch { bag, tags: TagsId::default() }
    }
}

/// Names a question for tasks that is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// What a relay wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Connect to the server for a branch. Answered by [`worker::Input::ServerFound`](crate::worker::Input::ServerFound).
    Join {
        /// The branch.
        branch: Branch,
    },
    /// Send to the server, over the connection of a branch.
    Send {
        /// The branch.
        branch: Branch,
        /// What.
        message: Box<FromWorker>,
    },
    /// The answer to a question for tasks.
    Given {
        /// The question.
        ask: AskId,
        /// The tasks; none when there are none.
        tasks: Vec<Given>,
        /// What is true beside them.
        state: BagState,
    },
    /// All is said for a branch; its connection can be closed.
    Left {
        /// The branch.
        branch: Branch,
        /// Why.
        end: WorkerEnd,
    },
}

/// What is true of the bags that somebody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BagState {
    /// There were tasks.
    Some,
    /// Nothing is ready now.
    Wait,
    /// All of them are closed, and all of their tasks have ended.
    Over,
    /// The server does not answer.
    Unknown,
}

/// A task that somebody has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The task.
    pub task: TaskRef,
    /// Its name.
    pub name: ByteString,
    /// What is to be done.
    pub payload: ByteString,
    /// Names this attempt: no other one may end the task.
    pub attempt: String,
    /// Until then whoever has it says something.
    pub lease: Duration,
}

/// Which task somebody speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// By its id, and the attempt that was given with it, where that is said.
    Task(TaskRef, Option<String>),
    /// By its name, of those that the session has, or of those of them that are of this bag.
    Named(ByteString, Option<JobId>),
}

/// How a task ended that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// Well; it leaves this.
    Finished(ByteString),
    /// Badly, for this reason.
    Failed(String),
    /// It is given back.
    Released,
}

/// Why something that was said of a task counts for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another attempt is the present one.
    #[error(
        "another attempt of the task is its present one: this one's lease was over, or the server had given it up"
    )]
    Stale,
    /// Somebody ended it from outside.
    #[error("the task was canceled or ended from outside while it was taken")]
    Canceled,
    /// Not taken here by anybody, or said to have ended before.
    #[error(
        "nobody has such a task here now: it was not taken, or was given back, or its end was said before; `hq pull status` \
         shows who has what, `hq pull steal` takes some"
    )]
    NotHeld,
    /// Taken here by another session.
    #[error(
        "{} has it and not this session: {}",
        label.as_ref().map_or("another one".to_owned(), |label| format!("the session `{label}`")),
        label.as_ref().map_or("`hq pull status` shows who".to_owned(), |label| format!("`--as {label}` speaks for that one"))
    )]
    HeldByOther {
        /// The task.
        task: TaskRef,
        /// Of who has it; `None` for one that is a connection.
        label: Option<String>,
    },
    /// Several tasks of this name.
    #[error("this session has tasks of this name in several bags: name it by its id")]
    Ambiguous,
    /// The result is too long.
    #[error("a result may have 4096 bytes at most")]
    ResultTooLong,
}

impl Refusal {
    /// A short word that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Stale => "stale",
            Refusal::Canceled => "canceled",
            Refusal::NotHeld | Refusal::HeldByOther { .. } => "not-held",
            Refusal::Ambiguous => "ambiguous",
            Refusal::ResultTooLong => "too-long",
        }
    }
}

/// A task that somebody has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldInfo {
    /// The task.
    pub task: TaskRef,
    /// Its name.
    pub name: ByteString,
    /// Since then.
    pub since: Timestamp,
    /// Then it is given to others, unless something is said of it before.
    pub until: Timestamp,
}

/// How somebody who takes tasks stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its label; `None` for one that is a connection.
    pub label: Option<String>,
    /// Somebody speaks for it now.
    pub is_connected: bool,
    /// How many tasks it has.
    pub taken: u64,
    /// The first of these.
    pub tasks: Vec<HeldInfo>,
    /// How many ends of it were accepted.
    pub accepted: u64,
    /// All of them up to this one are on the server's disk.
    pub saved: u64,
}
