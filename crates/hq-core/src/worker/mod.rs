//! The worker's state machine: what the server and the processes say goes in, starts, signals and reports come out.

mod ahead;
mod arming;
mod deadlines;
mod faults;
pub(crate) mod lending;
mod machine;
mod outside;
pub mod pools;
mod pulling;
mod reading;
mod reporting;
mod runners;
mod starting;
mod storing;
mod watched;
mod words;
mod zygotes;

#[cfg(test)]
mod tests;

pub use machine::Worker;
pub use words::WordsRefused;
pub use zygotes::RECYCLE_VARIABLE;

use std::sync::Arc;

use hq_model::{ByteString, Entry, Instance, ObjectId, TaskRef, Usage, WorkerId};

use crate::object_messages::{ObjectCopy, ObjectSource, ObjectsHeld};
use crate::output_messages::ReadOrder;
use crate::record::FailureKind;
use crate::worker_messages::{CallInput, FromWorker, TaskNode, Template, ToWorker, WorkerEnd};

/// What the worker machine is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The server speaks.
    Server(ToWorker),
    /// The connection to the server broke.
    ServerLost,
    /// The connection to the server is there again; the machine answers with a hello.
    ServerFound,
    /// A started task has ended (or could not start).
    Ended {
        /// The task that ended.
        task: TaskRef,
        /// How.
        outcome: Outcome,
        /// What it used.
        usage: Usage,
        /// What it leaves behind, of a function that ended well; else nothing. At most
        /// [`RESULT_BYTES_MAX`](crate::limits::RESULT_BYTES_MAX).
        result: ByteString,
    },
    /// What tasks print into a stream or a log finds no room, and why; or it does again.
    OutputWaits(Option<String>),
    /// Nothing runs any more of a started task, which is to end like this; its end is told when what it has printed is safe.
    /// What it had is free.
    Exited {
        /// The task.
        task: TaskRef,
        /// Its program has ended with success.
        is_success: bool,
    },
    /// A runner is gone, by itself or after [`Effect::EndRunner`]. The end of a call that it had is told by itself.
    RunnerEnded {
        /// The runner.
        runner: RunnerId,
    },
    /// A runner that has a call, whose end is told next, is of no use for another one.
    RunnerSpent {
        /// The runner.
        runner: RunnerId,
    },
    /// A zygote has loaded what it should, and runners can be forked from it.
    ZygoteReady {
        /// The zygote.
        zygote: ZygoteId,
        /// Some of that may change from job to job: its runners are of the job that it was started for.
        is_of_job: bool,
    },
    /// Nothing can be forked from a zygote, which ends now: runners are started one by one.
    ZygoteUnfit {
        /// The zygote.
        zygote: ZygoteId,
    },
    /// A zygote is gone, by itself or after [`Effect::EndZygote`]. Its runners are not.
    ZygoteEnded {
        /// The zygote.
        zygote: ZygoteId,
        /// How, for people.
        why: String,
    },
    /// A call of a function waits for what others return, which it has called.
    CallWaits {
        /// Whose call it is.
        task: TaskRef,
    },
    /// A call that waited wants to go on. Answered by exactly one [`Effect::GoOn`], unless it ends before.
    CallWants {
        /// Whose call it is.
        task: TaskRef,
    },
    /// An armed task has begun. It comes after the end of the one for which it waited, or after [`Input::Exited`] of that, and
    /// its own end comes later. A call has begun in the runner of that one.
    Begun {
        /// The armed task.
        task: TaskRef,
    },
    /// An armed task does not begin: it was called back, or the one for which it waited did not end with success; of a call, its
    /// runner does not go on.
    Recalled {
        /// The armed task.
        task: TaskRef,
    },
    /// Somebody takes pulled tasks that are here. Each that there is is told by an [`Effect::Start`].
    Take {
        /// At most so many.
        count: u32,
        /// Whoever takes them says something within this time, or they are given back.
        lease: std::time::Duration,
    },
    /// Altogether so many tasks are asked for and were not there.
    Wanted {
        /// How many.
        count: u64,
    },
    /// Whoever has taken a task is still at it, and has this time from now on.
    Extend {
        /// The task.
        task: TaskRef,
        /// How long.
        lease: std::time::Duration,
    },
    /// Whoever had taken a task gives it back, and nothing has gone wrong.
    Released {
        /// The task.
        task: TaskRef,
    },
    /// A file is stored as an object: what a task left, said before its end, or a copy that was fetched for a task.
    Stored(ObjectCopy),
    /// A stored file is gone, though nobody asked for that.
    ObjectLost(ObjectId),
    /// Somebody has changed a stored file, which is gone now.
    ObjectDamaged(ObjectId),
    /// So much of what is stored lies in the spill of the store.
    Spilled(ObjectsHeld),
    /// A file that was to be an object ([`Effect::TakeFile`]) is none, for this reason.
    FileRefused {
        /// The object.
        object: ObjectId,
        /// Why, for people.
        why: String,
    },
    /// An object that was to be fetched ahead is not, since there is no room for it or nobody gives it.
    NotAhead(ObjectId),
    /// Nothing happened, but a time that [`Worker::next_wakeup`] named has come.
    Tick,
    /// The process was asked to end (SIGTERM, SIGINT).
    Interrupt,
    /// The process that executes tasks has died, and everything that it started is gone: nothing is heard of tasks after
    /// it.
    LauncherLost,
}

impl Input {
    /// The end of a task that leaves nothing behind.
    pub fn ended(task: TaskRef, outcome: Outcome, usage: Usage) -> Input {
        Input::Ended { task, outcome, usage, result: ByteString::new() }
    }
}

/// How a task's process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With success.
    Finished,
    /// Without: the kind, and the text for people (error file, spawn hint, exit code and signal).
    Failed(FailureKind, String),
    /// It was never there: this node cannot start tasks now, for this reason, which has nothing to do with the task.
    NotStarted(String),
    /// Likewise: an object that it takes could not be had.
    Unfetched {
        /// The object.
        object: ObjectId,
        /// Workers from which it could not be had.
        holders: Vec<WorkerId>,
        /// Why, for people.
        reason: String,
        /// Bytes for which the store has no room, where that is why.
        wanted: u64,
    },
}

/// What the worker machine wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Start a task. Answered by exactly one [`Input::Ended`], before which there may be an [`Input::Exited`].
    Start(Start),
    /// End a runner that has no call. Answered by exactly one [`Input::RunnerEnded`].
    EndRunner {
        /// The runner.
        runner: RunnerId,
    },
    /// Start an interpreter from which runners are forked. Answered by at most one [`Input::ZygoteReady`] or
    /// [`Input::ZygoteUnfit`], and then exactly one [`Input::ZygoteEnded`]. After that it may be started again.
    StartZygote {
        /// The zygote.
        zygote: ZygoteId,
        /// Of the functions that it is for.
        template: Arc<Template>,
    },
    /// Let a zygote that is ready load what calls need that call others. Nothing answers: where that cannot be, it goes on without.
    LoadPackage {
        /// The zygote.
        zygote: ZygoteId,
    },
    /// End a zygote, and not its runners.
    EndZygote {
        /// The zygote.
        zygote: ZygoteId,
    },
    /// Let a call that waited go on.
    GoOn {
        /// Whose call it is.
        task: TaskRef,
    },
    /// Start a task at the end of another one, with what that has, if it ends with success; a call in its runner, however it ends.
    /// Answered by exactly one [`Input::Begun`], and then an end; or [`Input::Recalled`], and then it was never there.
    Arm {
        /// The task.
        start: Start,
        /// The one that runs.
        after: TaskRef,
    },
    /// Call an armed task back. What has begun already runs on, and [`Input::Begun`] says so.
    Recall {
        /// The task to call back.
        task: TaskRef,
    },
    /// Send this signal to the whole process group of a running task.
    Signal {
        /// The task to signal.
        task: TaskRef,
        /// Signal number.
        signal: u8,
        /// Set where the task is being ended, with everything that it started; its end is told when nothing of that is
        /// left.
        ends: Option<Ends>,
    },
    /// End the process that executes tasks, and what it started, by force: tasks that were killed do not end. Done before
    /// the next effect; nothing is heard of tasks after it.
    KillLauncher,
    /// Say what a task has printed and prints, with [`FromWorker::Output`]. What has ended prints no more.
    Read {
        /// What is wanted.
        order: ReadOrder,
        /// What the task shares with its siblings.
        template: Arc<Template>,
        /// It does not run any more.
        has_ended: bool,
    },
    /// Forget a read: its answer is not wanted any more.
    DropRead {
        /// Number of the read.
        number: u64,
    },
    /// A task has ended of which reads may wait for more: there will be none.
    ReadEnded {
        /// The task that has ended.
        task: TaskRef,
    },
    /// The lease of a pulled task is over: whoever had taken it has it no more.
    Expired {
        /// The task.
        task: TaskRef,
    },
    /// A file in the `put` directory of the store is this object, as instance 0. Answered by [`Input::Stored`] or
    /// [`Input::FileRefused`].
    TakeFile {
        /// The object.
        object: ObjectId,
        /// The name of the file.
        file: String,
        /// It is the archive of a directory.
        is_dir: bool,
    },
    /// Nobody needs these objects any more: remove what is stored of them.
    FreeObjects(Vec<ObjectId>),
    /// Fetch objects. Answered by [`Input::Stored`] or [`Input::FileRefused`].
    BringObjects {
        /// These.
        sources: Vec<ObjectSource>,
        /// For tasks that wait here: where there is room, at the cost of nothing that is needed. Answered by [`Input::Stored`] or
        /// [`Input::NotAhead`].
        is_ahead: bool,
    },
    /// A worker that cannot reach this one waits at the server, under this number, for an object that is here.
    Relay {
        /// The number.
        ticket: u64,
    },
    /// Which objects may make room for others, and which may not.
    GuardObjects {
        /// These stay.
        guard: Vec<ObjectId>,
        /// These may go.
        release: Vec<ObjectId>,
    },
    /// Send to the server.
    Send(FromWorker),
    /// End the process: everything was said and every task has ended.
    Exit(WorkerEnd),
}

/// What the end of an attempt means that is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ends {
    /// What it does yet counts: its worker stops, and it has succeeded if it ends with success.
    IfUnfinished,
    /// It has not succeeded, however its program ends.
    Anyhow,
    /// Likewise, and nobody waits for it: it was canceled.
    ForNobody,
    /// Likewise, and another attempt of its task has been started elsewhere: what is there may be of that one.
    ForAnother,
}

/// A task to start.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// The task to start.
    pub task: TaskRef,
    /// Its instance.
    pub instance: Instance,
    /// What it shares with its siblings.
    pub template: Arc<Template>,
    /// Its entry, if it has one.
    pub entry: Option<Entry<'static>>,
    /// Keys of the services that it waited for, and what those said.
    pub services: Arc<Vec<(ByteString, ByteString)>>,
    /// Results of others among its arguments.
    pub inputs: Vec<CallInput>,
    /// Objects that it takes: they are to be in their places before its program starts.
    pub objects: Vec<ObjectSource>,
    /// Which variant of its requests was chosen.
    pub variant: u32,
    /// What it may use; nothing when its ranks have it.
    pub grant: Grant,
    /// What each of its ranks on this worker may use.
    pub ranks: Vec<Grant>,
    /// Of a task on several nodes: all of them on the first one, that first one alone on the others.
    pub nodes: Vec<TaskNode>,
    /// Nothing is started: it is a part of a task whose program runs on another worker, which may start processes here
    /// until the part is ended by a signal.
    pub is_part: bool,
    /// Of a function: where it is called.
    pub runs_in: Option<RunsIn>,
}

/// Names an interpreter that a worker keeps for functions; given once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunnerId(pub u32);

/// Where a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunsIn {
    /// The runner.
    pub runner: RunnerId,
    /// It is to be started for this call. Else it is there, and has no other call but those that this one is armed behind.
    pub is_new: bool,
    /// Of one that is to be started: it is forked from this zygote. It is an interpreter of its own where there is none, or
    /// where that has ended by now.
    pub zygote: Option<ZygoteId>,
}

/// Names an interpreter from which a worker forks others; given to one environment once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZygoteId(pub u32);

/// The resources given to a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// One entry a requested resource, in the order of the request.
    pub resources: Vec<GrantedResource>,
}

/// One resource given to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedResource {
    /// Index of the pool in the worker's resources.
    pub pool: u32,
    /// How much.
    pub amount: hq_model::Amount,
    /// Which of an indexed pool: position over all groups, with the units taken of it
    /// (10000 = the whole index). Empty for a sum.
    pub indices: Vec<(u32, u16)>,
}
