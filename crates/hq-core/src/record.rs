//! The durable changes. The journal is a sequence of these; the server's state is their fold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hq_model::dependency::After;
use hq_model::notice::{Notice, Told};
use hq_model::worker::WorkerConfig;
use hq_model::{
    ByteString, Dependencies, Entries, Epoch, IdSet, Instance, JobId, JobSpec, NodeSample, TaskId, TaskRef,
    TaskSpec, Timestamp, Usage, WorkerId,
};

use crate::WorkerSecret;
use crate::attempt::PastAttempt;
use crate::cause::FailureCause;
use crate::feed::{Feed, FeedChange};
use crate::measures::Measures;
use crate::object_messages::ObjectChange;
use crate::series::LoadPoint;
use crate::worker_messages::WorkerEnd;

/// A request id chosen by a client, so that a repeated request is answered and not done twice. Zero is none.
pub type RequestKey = u128;

/// One durable change.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// The server started.
    ServerStarted {
        /// How often it has been started, from 1.
        epoch: Epoch,
        /// Six letters and digits that name this server directory's server.
        uid: String,
        /// The release of hq that wrote what follows.
        release: String,
    },
    /// An open job was made.
    JobOpened {
        /// Its id.
        job: JobId,
        /// The request that made it.
        key: RequestKey,
        /// Name and limits.
        spec: JobSpec,
    },
    /// Tasks were submitted.
    Submitted {
        /// The job.
        job: JobId,
        /// The request.
        key: RequestKey,
        /// Set when the submit made the job.
        spec: Option<JobSpec>,
        /// The new tasks.
        ids: IdSet,
        /// Their entries, in order of ids, or empty; without those that are gone.
        entries: Entries,
        /// Those of them whose entries were dropped: in a compacted journal.
        entries_gone: Box<IdSet>,
        /// Their keys, in order of ids, or empty.
        keys: Entries,
        /// What they wait for.
        dependencies: Arc<Dependencies>,
        /// What they execute.
        task: Arc<TaskSpec>,
        /// Directory of the submitting process.
        submit_dir: ByteString,
    },
    /// Tasks have finished, and their entries are not kept any more.
    EntriesDropped {
        /// The job.
        job: JobId,
        /// The tasks.
        ids: IdSet,
    },
    /// An open job takes no more submits.
    JobClosed {
        /// The job.
        job: JobId,
    },
    /// The same where nobody has asked for it: none of its tasks was left, and no client has waited for their ends for so long.
    JobLeft {
        /// The job.
        job: JobId,
        /// How long.
        linger: Duration,
    },
    /// The node time that a job with a budget may use is another one, or some of it was used.
    Budget {
        /// The job.
        job: JobId,
        /// What is different now.
        change: BudgetChange,
    },
    /// An ended job was dropped.
    JobForgotten {
        /// The job.
        job: JobId,
    },
    /// Tasks were handed to a worker.
    Leased {
        /// The worker.
        worker: WorkerId,
        /// The job.
        job: JobId,
        /// The tasks.
        ids: IdSet,
    },
    /// A task on several nodes was handed to all of them together.
    LeasedNodes {
        /// The job.
        job: JobId,
        /// The task.
        task: TaskId,
        /// The workers; the first one leads: it runs the program, and the task is leased to it.
        workers: Vec<WorkerId>,
    },
    /// Tasks that a worker never started came back; their instance stays.
    Returned {
        /// The worker.
        worker: WorkerId,
        /// The job.
        job: JobId,
        /// The tasks.
        ids: IdSet,
    },
    /// Tasks were taken from a worker and will run again as a higher instance.
    Restarted {
        /// The job.
        job: JobId,
        /// The tasks; all of them had the same instance.
        ids: IdSet,
        /// Their instance from now on.
        instance: Instance,
        /// Why.
        cause: RestartCause,
    },
    /// A running task put itself back behind others: it will run again as a higher instance.
    Deferred {
        /// The job.
        job: JobId,
        /// The task.
        task: TaskId,
        /// Its instance from now on.
        instance: Instance,
        /// What it waits for, beside what it was submitted with.
        after: Vec<After>,
        /// Not before this time, where nothing of that was left to wait for.
        not_before: Option<Timestamp>,
        /// A call that has returned this one instead of a value: when it runs again, it is to give the value of that.
        value_of: Option<TaskRef>,
    },
    /// Files that tasks of a job waited for exist.
    FilesFound {
        /// The job.
        job: JobId,
        /// Their paths.
        files: Vec<ByteString>,
    },
    /// A service is ready for those that wait for it.
    ServiceReady {
        /// The job.
        job: JobId,
        /// The service.
        task: TaskId,
        /// What it said.
        text: ByteString,
    },
    /// A second attempt of a running task was handed to another worker; the first one goes on.
    Speculated {
        /// The other worker.
        worker: WorkerId,
        /// The job.
        job: JobId,
        /// The task.
        task: TaskId,
        /// Instance of the second attempt: above all before.
        instance: Instance,
    },
    /// One of two attempts of a task ended without a result; the task goes on as the other one.
    AttemptDropped {
        /// The job.
        job: JobId,
        /// The task.
        task: TaskId,
        /// Instance of the attempt that ended.
        instance: Instance,
    },
    /// Tasks ended with success on one worker.
    Finished {
        /// The worker.
        worker: WorkerId,
        /// Which and how.
        span: FinishedSpan,
    },
    /// A task ended without success, for good.
    Failed {
        /// The job.
        job: JobId,
        /// The task.
        failure: Failure,
    },
    /// Tasks were canceled.
    Canceled {
        /// The job.
        job: JobId,
        /// The tasks.
        ids: IdSet,
        /// The user's words.
        reason: Option<String>,
        /// Set where nobody canceled them: they had not started, and could not have ended by then any more.
        end_by: Option<Timestamp>,
    },
    /// Tasks were given up by the server.
    Aborted {
        /// The job.
        job: JobId,
        /// The tasks.
        ids: IdSet,
        /// Because of what.
        reason: String,
    },
    /// Attempts that ran when their tasks were canceled or given up, which a record before says.
    EndedEarly {
        /// The job.
        job: JobId,
        /// The attempts, with the time until then.
        attempts: Vec<Failure>,
    },
    /// Attempts that did not end their tasks are over. What becomes of these, a record behind it says.
    AttemptsEnded {
        /// The job.
        job: JobId,
        /// The attempts.
        attempts: Vec<PastAttempt>,
    },
    /// A worker joined.
    WorkerJoined {
        /// Its id.
        worker: WorkerId,
        /// What it said of itself.
        config: Box<WorkerConfig>,
        /// Digest of what it shows when it comes back. `None`: of an earlier release.
        secret: Option<WorkerSecret>,
    },
    /// A worker that was told to look has said what its node does. It changes nothing.
    WorkerSampled {
        /// Its id.
        worker: WorkerId,
        /// What it saw.
        sample: Box<NodeSample>,
    },
    /// How loaded all nodes together were, in one of the longest steps of their [series](crate::series). It is kept for a time.
    LoadKept {
        /// The step, or a part of it.
        point: Box<LoadPoint>,
    },
    /// A worker left or was lost.
    WorkerEnded {
        /// Its id.
        worker: WorkerId,
        /// Why.
        end: WorkerEnd,
        /// It could not be told: its process may still be there.
        is_away: bool,
    },
    /// A worker that had ended was dropped.
    WorkerForgotten {
        /// Its id.
        worker: WorkerId,
    },
    /// In a compacted journal: the largest ids ever given, so that none is given again.
    IdsGiven {
        /// Of jobs.
        job: JobId,
        /// Of workers.
        worker: WorkerId,
    },
    /// In a compacted journal: how far a job is. Its submits come before.
    JobKept {
        /// The job.
        job: JobId,
        /// All that is kept of its tasks.
        progress: Box<JobProgress>,
    },
    /// In a compacted journal: times and use of finished tasks that their job counts already.
    DetailKept {
        /// The worker.
        worker: WorkerId,
        /// Which and how.
        span: FinishedSpan,
        /// Of those of them that were on several nodes, the workers; the first one led.
        nodes: Vec<(TaskId, Vec<WorkerId>)>,
    },
    /// In a compacted journal: what finished tasks left behind.
    ResultsKept {
        /// The job.
        job: JobId,
        /// The tasks.
        ids: IdSet,
        /// Their results, in order of ids.
        results: Entries,
    },
    /// In a compacted journal: a failure that its job counts already, at the time of its end.
    FailureKept {
        /// The job.
        job: JobId,
        /// The task.
        failure: Failure,
    },
    /// Changes that count all together or not at all: the submits of one request.
    Together {
        /// In order; none of them is such a record itself.
        records: Vec<Record>,
    },
    /// In a compacted journal: times that passed while no server ran, or that a clock only claims, as far as they do not
    /// count for how long ended jobs are kept. Ascending.
    TimeSkipped {
        /// When a server started, and how much did not count, µs.
        gaps: Vec<(Timestamp, u64)>,
    },
    /// How far the generator or the reducer of a job is, or that it has them.
    Feed {
        /// The job.
        job: JobId,
        /// What is different now.
        change: Box<FeedChange>,
    },
    /// A notice about a job: it is to be sent, or that has ended.
    Notice {
        /// The job. It may be forgotten by now.
        job: JobId,
        /// Which of the rules of the job it is for.
        rule: u32,
        /// What is different now.
        change: NoticeChange,
    },
    /// Something of objects that tasks leave for others.
    Objects(Box<ObjectChange>),
    /// Something of queues and allocations.
    Alloc(Box<crate::alloc::AllocRecord>),
    /// What a request of several submits was answered; in a compacted journal, what any recent one was. They come oldest
    /// first.
    Answered {
        /// The request.
        key: RequestKey,
        /// The job it made or submitted to.
        job: JobId,
        /// The tasks it submitted.
        ids: IdSet,
    },
}

impl Record {
    /// The changes in it: itself, unless it holds several.
    pub fn parts(&self) -> &[Record] {
        match self {
            Record::Together { records } => records,
            one => std::slice::from_ref(one),
        }
    }

    /// The job it is about, if it is about one.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Record::JobOpened { job, .. }
            | Record::Submitted { job, .. }
            | Record::EntriesDropped { job, .. }
            | Record::JobClosed { job }
            | Record::JobLeft { job, .. }
            | Record::Budget { job, .. }
            | Record::JobForgotten { job }
            | Record::Leased { job, .. }
            | Record::LeasedNodes { job, .. }
            | Record::Returned { job, .. }
            | Record::Restarted { job, .. }
            | Record::Deferred { job, .. }
            | Record::ServiceReady { job, .. }
            | Record::FilesFound { job, .. }
            | Record::Speculated { job, .. }
            | Record::AttemptDropped { job, .. }
            | Record::Failed { job, .. }
            | Record::Canceled { job, .. }
            | Record::Aborted { job, .. }
            | Record::EndedEarly { job, .. }
            | Record::AttemptsEnded { job, .. }
            | Record::JobKept { job, .. }
            | Record::Feed { job, .. }
            | Record::ResultsKept { job, .. }
            | Record::Notice { job, .. }
            | Record::FailureKept { job, .. } => Some(*job),
            Record::Finished { span, .. } | Record::DetailKept { span, .. } => Some(span.job),
            // The submits of one request go to one job.
            Record::Together { records } => records.iter().find_map(Record::job),
            Record::ServerStarted { .. }
            | Record::WorkerJoined { .. }
            | Record::WorkerEnded { .. }
            | Record::WorkerSampled { .. }
            | Record::LoadKept { .. }
            | Record::WorkerForgotten { .. }
            | Record::IdsGiven { .. }
            | Record::TimeSkipped { .. }
            | Record::Alloc(_)
            | Record::Objects(_)
            | Record::Answered { .. } => None,
        }
    }
}

/// How far a job is: all that is kept of its tasks, but for what their submits say. Those in none of the
/// sets wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobProgress {
    /// Takes submits.
    pub is_open: bool,
    /// When its last task ended.
    pub last_end: Timestamp,
    /// Words of the user who canceled it.
    pub cancel_reason: Option<String>,
    /// Handed to workers; no empty sets.
    pub leased: BTreeMap<WorkerId, IdSet>,
    /// Ended with success.
    pub finished: IdSet,
    /// Ended without.
    pub failed: IdSet,
    /// Ended by the user, or because they could not have ended in time.
    pub canceled: IdSet,
    /// Those that could not, with the times by which they were to end; each time once.
    pub too_late: Vec<(IdSet, Timestamp)>,
    /// Why tasks failed, in the order in which that came up. What is left of all that failed has causes beyond
    /// [`CAUSES_MAX`](crate::limits::CAUSES_MAX), or failed under a release that did not count causes.
    pub causes: Vec<FailureCause>,
    /// Given up by the server, with the reasons, in order of time.
    pub abort_reasons: Vec<(IdSet, String)>,
    /// Instances above 0; no empty sets.
    pub instances: BTreeMap<Instance, IdSet>,
    /// Crashes, of tasks that had some; the one that ended a task counts, too.
    pub crashes: BTreeMap<TaskId, u32>,
    /// How often, and for how long, tasks had all the time of a worker and were ended with it.
    pub outlasted: BTreeMap<TaskId, Outlasted>,
    /// Retries, of tasks that were retried.
    pub retries: BTreeMap<TaskId, u32>,
    /// Ends of retry delays, of tasks that wait for these; [`NEVER`] of those that wait for workers that live longer.
    pub delayed: BTreeMap<TaskId, Timestamp>,
    /// Sum over ended attempts.
    pub usage: Usage,
    /// Workers on which tasks of it ended, a bounded number.
    pub workers: BTreeSet<WorkerId>,
    /// Second attempts of leased tasks.
    pub seconds: BTreeMap<TaskId, SecondAttempt>,
    /// What tasks wait for that put themselves back while they ran.
    pub deferred: BTreeMap<TaskId, Vec<After>>,
    /// Calls that have returned other ones instead of a value, and have not ended: each is to give the value of that.
    pub values_of: BTreeMap<TaskId, TaskRef>,
    /// What services said when they were ready; those that wait for them may start, whatever becomes of them.
    pub ready: BTreeMap<TaskId, ByteString>,
    /// Files that its tasks waited for and that were found, whatever became of them.
    pub files: BTreeSet<ByteString>,
    /// Workers of leased tasks on several nodes; the first one leads, and the task is leased to it.
    pub nodes: BTreeMap<TaskId, Vec<WorkerId>>,
    /// Its generator and reducer, if it has them.
    pub feed: Option<Box<Feed>>,
    /// What somebody was to be told of it, by the places of the rules.
    pub told: BTreeMap<u32, Told>,
    /// It was told that it is stalled, and nothing of it was handed out since.
    pub is_stalled: bool,
    /// Node time that it may use. Only a job that was made with a budget has one.
    pub budget: Option<Duration>,
    /// Node time that its attempts used, of a job that was made with a budget, µs.
    pub spent_us: u64,
}

/// What is different of the budget of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetChange {
    /// This is what it may use, or all it wants.
    Set(Option<Duration>),
    /// Attempts that are to run again, or ended with their tasks, have used this.
    Spent(Duration),
}

/// What becomes of a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeChange {
    /// It is to be sent.
    Due(Box<Notice>),
    /// It was sent.
    Sent,
    /// It could not be sent, and is not tried any more.
    GivenUp(String),
}

/// An end that no delay comes to.
pub const NEVER: Timestamp = Timestamp(u64::MAX);

/// What is known of a task that was ended with the time of its worker, of which it had had nearly all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlasted {
    /// How often that was so.
    pub times: u32,
    /// The longest time limit of these workers.
    pub life: Duration,
}

/// The second attempt of a task whose first one goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondAttempt {
    /// Where it was handed to; `None` when it has ended without a result.
    pub worker: Option<WorkerId>,
    /// Its instance.
    pub instance: Instance,
}

/// Why tasks run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartCause {
    /// They ran on a worker that was lost: counts towards the crash limit.
    Crash,
    /// Their worker left, through no fault of theirs, or had not started them.
    Left,
    /// The time of their worker was over, of which they had had nearly all.
    TimeOver {
        /// The time limit of the worker.
        life: Duration,
        /// They wait for workers that live longer.
        waits: bool,
    },
    /// They failed and are retried, not before the given time.
    Retry {
        /// Earliest time of the next start.
        not_before: Timestamp,
    },
    /// They had not started, since an object that they take could not be had; not before the given time.
    Unfetched {
        /// Earliest time of the next start.
        not_before: Timestamp,
    },
}

/// Tasks of one job and instance that ended with success on one worker.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedSpan {
    /// The job.
    pub job: JobId,
    /// Their instance.
    pub instance: Instance,
    /// The tasks.
    pub ids: IdSet,
    /// Times and use, in order of ids.
    pub measures: Measures,
    /// What they leave behind, in order of ids, or empty when none of them leaves anything.
    pub results: Entries,
    /// As which variant of their requests they ran, where there are several.
    pub variant: Option<u32>,
}

/// An attempt that ended its task without success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The task.
    pub task: TaskId,
    /// The attempt's instance.
    pub instance: Instance,
    /// Where it ran; `None` when it failed without running.
    pub worker: Option<WorkerId>,
    /// What went wrong.
    pub kind: FailureKind,
    /// For people.
    pub error: String,
    /// When the attempt started; `None` when it never did.
    pub started: Option<Timestamp>,
    /// What it used.
    pub usage: Usage,
    /// Of a task on several nodes, its workers; the first one led.
    pub nodes: Vec<WorkerId>,
    /// What a function left behind that raised an exception: at most
    /// [`RESULT_BYTES_MAX`](crate::limits::RESULT_BYTES_MAX), mostly nothing.
    pub result: ByteString,
    /// As which variant of its requests the attempt ran, where there are several.
    pub variant: Option<u32>,
}

impl Failure {
    /// When the attempt ended, as its worker saw it: this was heard then.
    pub fn ended(&self, heard: Timestamp) -> Timestamp {
        self.started.map_or(heard, |started| Timestamp(started.0.saturating_add(self.usage.wall_us)))
    }

    /// About what it takes in memory, in bytes.
    pub fn bytes(&self) -> usize {
        256 + self.error.len() + self.nodes.len() * 4 + self.result.len()
    }
}

/// The kinds of failure that retry rules tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureKind {
    /// Exited with this code.
    Exit(u8),
    /// Died from this signal.
    Signal(u8),
    /// Reached its time limit.
    Timeout,
    /// Could not be started (no such program, no such directory, output not writable).
    Start,
    /// Lost with its worker too often.
    Crashes,
    /// Lost with a worker that was stopped or left, or before anybody knew that it had started; it must never run twice.
    Lost,
    /// Exited with 0, and something that it was to leave behind is missing.
    Output,
    /// Whoever had taken it said that it failed: no program exited.
    Puller,
    /// Did not fail: it ran when its task was canceled or given up.
    EndedEarly,
}

impl FailureKind {
    /// A short word that never changes, for programs.
    pub fn word(self) -> &'static str {
        match self {
            FailureKind::Exit(_) => "exit",
            FailureKind::Signal(_) => "signal",
            FailureKind::Timeout => "timeout",
            FailureKind::Start => "start",
            FailureKind::Crashes => "crashes",
            FailureKind::Lost => "lost",
            FailureKind::Output => "output",
            FailureKind::Puller => "puller",
            FailureKind::EndedEarly => "ended-early",
        }
    }
}
