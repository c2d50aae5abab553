//! What server and workers say to each other.

use std::sync::Arc;
use std::time::Duration;

use hq_model::worker::WorkerConfig;
use hq_model::{
    ByteString, Entries, Epoch, IdSet, Instance, JobId, NodeSample, ObjectId, TaskId, TaskRef, TaskSpec,
    TasksSample, Timestamp, WorkerId,
};

use crate::WorkerSecret;
use crate::log::{LogBatch, Written};
use crate::object_messages::{ObjectCopy, ObjectNews, ObjectSource, TaskObjects};
use crate::output_messages::{ReadAnswer, ReadOrder};
use crate::record::{Failure, FinishedSpan};

/// Names a template within a server: the submit of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateId {
    /// The job.
    pub job: JobId,
    /// The submit within the job, from 0.
    pub submit: u32,
}

impl TemplateId {
    /// All of a job.
    pub fn of_job(job: JobId) -> std::ops::RangeInclusive<TemplateId> {
        TemplateId { job, submit: 0 }..=TemplateId { job, submit: u32::MAX }
    }
}

/// What the tasks of a submit share, sent to a worker once.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// Which submit it is.
    pub id: TemplateId,
    /// What to execute.
    pub spec: Arc<TaskSpec>,
    /// Directory of the submitting process.
    pub submit_dir: ByteString,
    /// When it was submitted, by the server's clock.
    pub submitted: Timestamp,
    /// The submit has more than one task.
    pub has_siblings: bool,
}

/// From the server to a worker.
#[derive(Clone, Debug, PartialEq)]
pub enum ToWorker {
    /// The first message after the worker's hello.
    Welcome(Welcome),
    /// Take these tasks and run each as soon as it fits: larger priority first, then who came first, or counts as having.
    /// See [`RunBatch::head_start`].
    Run(Vec<RunBatch>),
    /// End these tasks, running or not; each is answered in [`Report::canceled`], finished or failed.
    Cancel {
        /// The job.
        job: JobId,
        /// The tasks.
        ids: IdSet,
        /// Another attempt of them has been handed out: what is there of theirs may be what that has left.
        are_elsewhere: bool,
    },
    /// Give back those of these tasks that have not started; answered in [`Report::returned`].
    Retract {
        /// The job.
        job: JobId,
        /// The tasks.
        ids: IdSet,
    },
    /// Reports up to this number are on disk.
    Saved {
        /// Number of the report.
        report: u64,
    },
    /// To a relay: what there was room for when this report was made is handed out, as far as it is there.
    Weighed {
        /// Number of the report.
        report: u64,
    },
    /// End. With `drain` finish what runs first and give back the rest.
    Stop {
        /// Finish what runs.
        drain: bool,
    },
    /// What became of a batch for a log. The shell of the server says it, and that of the worker hears it.
    Logged {
        /// The batch.
        number: u64,
        /// What.
        written: Written,
    },
    /// Say what a task prints, to workers that [show](WorkerHello::shows) that; answered by [`FromWorker::Output`].
    ReadOutput(ReadOrder),
    /// Nobody waits for the answer of this read any more.
    DropRead {
        /// Number of the read.
        number: u64,
    },
    /// Nobody needs these objects any more: they are not stored for longer. Not answered.
    FreeObjects(Vec<ObjectId>),
    /// A file in the `put` directory of the store is this object, as instance 0. Answered in [`ObjectNews::stored`] or
    /// [`ObjectNews::refused`] of a report.
    TakeFile {
        /// The object.
        object: ObjectId,
        /// The name of the file.
        file: String,
        /// It is the archive of a directory.
        is_dir: bool,
    },
    /// Fetch these objects for no task of this worker: another one is about to leave that alone stores them. Answered in
    /// [`ObjectNews::stored`] or [`ObjectNews::refused`] of a report.
    BringObjects(Vec<ObjectSource>),
    /// Which objects may make room for others, and which may not. Not answered.
    GuardObjects {
        /// These stay: a user keeps them, or tasks need them, and this worker is the one that sees to it.
        guard: Vec<ObjectId>,
        /// These may go.
        release: Vec<ObjectId>,
    },
    /// Another worker, or a client, wants an object that is here, or puts one here, and cannot reach this one: it waits at the server
    /// under this number, until
    /// a [connection](crate::node_messages::AskRelay) of this worker comes for it. To workers that [relay](WorkerHello::relays).
    Relay {
        /// The number.
        ticket: u64,
    },
}

/// The server's answer to a worker's hello.
#[derive(Clone, Debug, PartialEq)]
pub struct Welcome {
    /// The worker's id.
    pub worker: WorkerId,
    /// The server's epoch.
    pub epoch: Epoch,
    /// Names the server.
    pub server_uid: String,
    /// The idle timeout in force: the worker's own, else the server's default. Decided by the worker.
    pub idle_timeout: Option<Duration>,
    /// It takes [`Report::words`].
    pub hears: bool,
}

/// Tasks of one template and instance.
#[derive(Clone, Debug, PartialEq)]
pub struct RunBatch {
    /// The template.
    pub template: TemplateId,
    /// The template's content, when this worker has not got it yet.
    pub content: Option<Template>,
    /// The tasks.
    pub ids: IdSet,
    /// Their instance.
    pub instance: Instance,
    /// Their entries in order of ids, or empty.
    pub entries: Entries,
    /// Keys of the services that they wait for, and what those said when they were ready.
    pub services: Vec<(ByteString, ByteString)>,
    /// Of a task on several nodes, which comes alone: all of them for the first one, which runs the program; for the
    /// others that first one alone.
    pub nodes: Vec<TaskNode>,
    /// Set for a follower, which comes alone and only to who [follows](WorkerHello::follows): the task of the same job
    /// that must end well on this worker before, as this instance. If that does not happen there, the follower is given
    /// back.
    pub after: Option<(TaskId, Instance)>,
    /// The variant of its requests as which each of the tasks was placed into free room: it starts as that, whatever waits
    /// before it. Without it the tasks wait for room, and the worker takes the preferred one of those that fit.
    pub variant: Option<u32>,
    /// They count as having come so much earlier, among those of equal priority that wait for room. Zero from servers of earlier
    /// releases.
    pub head_start: Duration,
    /// Of calls with packed arguments: results of tasks that they wait for, in order of the calls.
    pub inputs: Vec<CallInput>,
    /// Of tasks that take objects: what each of them takes, and where that is. Each task is in one of these. Only to workers that
    /// [store](WorkerHello::stores) objects, as all tasks that leave or take some.
    pub objects: Vec<TaskObjects>,
}

/// The result of a task, which is an argument of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallInput {
    /// The one that is called.
    pub task: TaskId,
    /// Whose result it is.
    pub of: TaskRef,
    /// The result.
    pub result: ByteString,
}

/// A node of a task on several nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskNode {
    /// Its worker.
    pub worker: WorkerId,
    /// Its name.
    pub hostname: String,
    /// Where the worker listens; empty when it does not.
    pub address: String,
}

/// From a worker to the server. The first message is `Hello`.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all that workers say is reports")]
pub enum FromWorker {
    /// Who it is and what it holds.
    Hello(Box<WorkerHello>),
    /// What happened since the last report.
    Report(Report),
    /// It lives.
    Heartbeat,
    /// What its node does, and its tasks. The shell of the worker says it.
    Sampled {
        /// The node.
        node: Box<NodeSample>,
        /// The tasks; nothing from earlier releases.
        tasks: Option<Box<TasksSample>>,
    },
    /// A task speaks to whoever waits for its job: to servers that do not [hear](Welcome::hears) words in reports.
    Notify {
        /// The task.
        task: TaskRef,
        /// Its words.
        text: ByteString,
    },
    /// What a task prints.
    Output(ReadAnswer),
    /// It leaves; nothing comes after this.
    Leaving {
        /// Why.
        end: WorkerEnd,
    },
    /// Tasks have printed into a log. The shell of the worker says it, and that of the server answers.
    Log(Box<LogBatch>),
}

/// How a worker introduces itself.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerHello {
    /// Its configuration.
    pub config: WorkerConfig,
    /// When its process started, by its own clock.
    pub started: Timestamp,
    /// How long ago that was when this was said. `None`: an earlier release does not say.
    pub age: Option<Duration>,
    /// Set when it was a worker of this server before: its id then.
    pub known_as: Option<WorkerId>,
    /// Shows that it is the one that has that id. `None`: of an earlier release.
    pub secret: Option<WorkerSecret>,
    /// What it holds, running or queued, when it was. Unsaved reports follow as reports.
    pub holds: Vec<Held>,
    /// Number of the last unsaved report, all of which follow; 0 when there is none.
    pub last_report: u64,
    /// It can be handed a task together with the one that this task waits for.
    pub follows: bool,
    /// Also where the value of one call is an argument of the next one, which it is given here.
    pub follows_calls: bool,
    /// It can be asked what its tasks print.
    pub shows: bool,
    /// It stores objects: it can run tasks that leave or take some.
    pub stores: bool,
    /// It gives objects by way of the server, too.
    pub relays: bool,
    /// All that it stores, when it was a worker of this server before, but for what its unsaved reports tell.
    pub objects: Vec<ObjectCopy>,
}

/// Tasks that a reconnecting worker holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The template.
    pub template: TemplateId,
    /// The instance.
    pub instance: Instance,
    /// The variant as which `running` run, when there are several.
    pub variant: Option<u32>,
    /// Not started.
    pub queued: IdSet,
    /// Running, with start times in order of ids.
    pub running: IdSet,
    /// Start times of `running`.
    pub started: Vec<Timestamp>,
}

/// What happened on a worker. Each task that it was handed appears exactly once in `finished`,
/// `failed`, `canceled`, `returned`, `interrupted`, `expired` or [`unfetched`](ObjectNews::unfetched) of some report: that is when the server counts its resources as free.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Counted from 1 over the worker's life.
    pub number: u64,
    /// Started and still running when the report was made, or ended because the server asked for it.
    pub started: Vec<Started>,
    /// Calls that lend their CPUs, or do not any more, each as it was when the report was made.
    pub lends: Vec<Lends>,
    /// Ended with success.
    pub finished: Vec<FinishedSpan>,
    /// Ended without. `worker` in it is not sent.
    pub failed: Vec<(JobId, Failure)>,
    /// Ended or dropped because the server asked for it.
    pub canceled: Vec<(JobId, IdSet)>,
    /// Never started and given back.
    pub returned: Vec<(JobId, IdSet)>,
    /// Ended by the worker while they ran, through no fault of theirs (it stops); to be run again.
    pub interrupted: Vec<(JobId, IdSet)>,
    /// Pulled tasks whose lease was over before whoever had taken them said a word; to be run again as after a crash.
    pub expired: Vec<(JobId, IdSet)>,
    /// Of a relay: so many tasks it wants to have altogether, as it was when the report was made.
    pub room: Option<u64>,
    /// What there is to say of objects.
    pub objects: Option<Box<ObjectNews>>,
    /// What tasks have said before all of this, in order. A server that was killed may be told again.
    pub words: Vec<TaskWords>,
    /// The worker takes nothing new.
    pub is_leaving: bool,
    /// What runs there may end first.
    pub is_draining: bool,
    /// Why it cannot start tasks now and gives back what it is handed; a later report says when that is over.
    pub trouble: Option<String>,
    /// Why what some of its tasks print into a stream or a log waits, and so do they; a later report says when that is over.
    pub output_waits: Option<String>,
    /// How often its process did what can never happen ([`never!`](crate::never!)).
    pub internal_errors: u64,
}

/// What a task says to whoever waits for its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskWords {
    /// The task.
    pub task: TaskRef,
    /// The attempt that speaks.
    pub instance: Instance,
    /// Its words.
    pub text: ByteString,
}

impl TaskWords {
    /// What they count as where words are kept, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<TaskWords>() + self.text.len()
    }
}

/// A task that has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The job.
    pub job: JobId,
    /// The task.
    pub task: TaskId,
    /// Its instance.
    pub instance: Instance,
    /// When.
    pub at: Timestamp,
    /// As which variant, when there are several.
    pub variant: Option<u32>,
}

/// Whether a running call lends its CPUs to others, for which it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lends {
    /// The job.
    pub job: JobId,
    /// The task.
    pub task: TaskId,
    /// Its instance.
    pub instance: Instance,
    /// It waits without CPUs. Else it has them.
    pub is_lent: bool,
}

/// Why a worker is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkerEnd {
    /// The connection broke.
    ConnectionLost,
    /// It was silent for too long.
    HeartbeatLost,
    /// A user stopped it, or the server did when it ended.
    Stopped,
    /// It had nothing to do for too long.
    IdleTimeout,
    /// Its time is over.
    TimeLimit,
    /// Its process was asked to end (SIGTERM, SIGINT).
    Interrupted,
    /// The process beside it that executes tasks was killed, and its tasks with it.
    LauncherLost,
}

impl WorkerEnd {
    /// True when tasks that ran there count as crashed.
    pub fn is_crash(self) -> bool {
        matches!(self, WorkerEnd::ConnectionLost | WorkerEnd::HeartbeatLost | WorkerEnd::LauncherLost)
    }
}
