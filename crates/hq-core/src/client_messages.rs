//! What clients ask the server, and what it answers.

use std::sync::Arc;
use std::time::Duration;

use hq_model::dependency::After;
use hq_model::job::{Counters, FedEnd};
use hq_model::notice::Told;
use hq_model::selector::Selector;
use hq_model::{
    ByteString, IdSet, Instance, JobId, JobSpec, JobState, NoticeRule, ObjectId, Submit, TaskId, TaskRef,
    TaskSpec, TaskState, Timestamp, Usage, WorkerId,
};

use crate::alloc::messages::{AllocRequest, AllocResponse};
use crate::attempt::PastAttempt;
use crate::cause::JobFailures;
pub use crate::client_pages::{AlikeTasks, JobPage, PageStart, WorkerFilter};
pub use crate::end_messages::{JobEnds, JobResults};
pub use crate::event_filter::{EventFilter, EventKind, FROM_NOW};
use crate::explanation::{JobExplanation, TaskExplanation};
use crate::feed::{FeedRequest, FeedState};
pub use crate::job_shape::JobShape;
pub use crate::load_history::LoadHistory;
pub use crate::new_jobs::{NewJob, NewTasks, TakenBroadcast};
use crate::object_messages::{ObjectPage, ObjectRequest};
use crate::output_messages::{Output, OutputRead};
pub use crate::overview::Overview;
use crate::record::{FailureKind, Record, RequestKey};
pub use crate::request_error::RequestError;
pub use crate::server_info::{Relayed, ServerInfo};
use crate::task_use::TaskUse;
pub use crate::worker_info::WorkerInfo;

/// A request. Each has one answer, but for the watches, which have several.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientRequest {
    /// Answered by [`ClientResponse::ServerInfo`].
    ServerInfo,
    /// Stop the server and its workers. Answered by `Done` before it ends.
    StopServer,
    /// Submit tasks. Answered by `Submitted`; repeating it with the same key does nothing more.
    Submit {
        /// Names the request.
        key: RequestKey,
        /// The tasks.
        submit: Box<Submit>,
    },
    /// Several submits into one open job, all or none of them. Answered by one `Submitted`. At most [`SUBMITS_MAX`](crate::limits::SUBMITS_MAX).
    SubmitAll {
        /// Names the request.
        key: RequestKey,
        /// The tasks.
        submits: Vec<Submit>,
    },
    /// Submit tasks of a job that have ended again, as a new job. Answered by `Submitted`; repeating it with the same
    /// key does nothing more.
    Resubmit {
        /// Names the request.
        key: RequestKey,
        /// One job.
        jobs: Selector,
        /// Only these tasks.
        tasks: Option<IdSet>,
        /// Only tasks in one of these states. Without any, and without tasks, all that ended without success.
        states: Vec<TaskState>,
    },
    /// A running task puts itself back behind others. Answered by `Done`.
    Defer {
        /// The task.
        task: TaskRef,
        /// The instance that asks.
        instance: Instance,
        /// What it will wait for.
        after: Vec<After>,
    },
    /// A running service is ready for those that wait for it. Answered by `Done`.
    Ready {
        /// The service.
        task: TaskRef,
        /// The instance that asks.
        instance: Instance,
        /// What those that wait are told.
        text: ByteString,
    },
    /// Make several jobs, all or none of them. Answered by `JobsSubmitted`; repeating it with the same key does nothing more. At
    /// most [`JOBS_MAX`](crate::limits::JOBS_MAX).
    SubmitJobs {
        /// Names the request.
        key: RequestKey,
        /// The jobs; each may wait for those before it.
        jobs: Vec<NewJob>,
    },
    /// A generator or a reducer asks something. Answered by `Feed`.
    Feed(Box<FeedRequest>),
    /// About objects. Answered by `Objects` or `Done`.
    Objects(ObjectRequest),
    /// Make an open job. Answered by `Submitted` with no tasks.
    OpenJob {
        /// Names the request.
        key: RequestKey,
        /// Name and limits.
        spec: JobSpec,
    },
    /// Close open jobs. Answered by `Jobs` with those that were closed now.
    CloseJobs {
        /// The jobs to close.
        jobs: Selector,
    },
    /// Give jobs that were made with a budget another one. Answered by `Jobs` with those that have another one now.
    SetBudget {
        /// The jobs.
        jobs: Selector,
        /// What each may use, `None` for all it wants.
        budget: Option<Duration>,
    },
    /// Answered by `JobList`.
    ListJobs {
        /// Only jobs in one of these states; all when empty.
        states: Vec<JobState>,
    },
    /// The latest jobs. Answered by `JobList`, which counts no tasks that no worker could run.
    LatestJobs {
        /// Only jobs in one of these states; all when empty.
        states: Vec<JobState>,
        /// Only jobs with this text in their name, whatever its case, or with this number.
        text: String,
        /// Only jobs before this one.
        before: Option<JobId>,
        /// At most so many, and never more than `JOBS_PAGE_MAX`.
        limit: u32,
    },
    /// Answered by `JobCounts`.
    CountJobs,
    /// Everything in counts. Answered by `Overview`.
    Overview {
        /// The `change` of what the client has seen: it is answered when something else is to be seen. At once without one.
        seen: Option<u64>,
    },
    /// How loaded nodes were. Answered by `Load`.
    Load {
        /// The node of this worker; without one, all together.
        worker: Option<WorkerId>,
        /// Since so long ago, at the shortest steps for which so much is kept.
        time: std::time::Duration,
    },
    /// How far the layers of a job's graph are, and how many of its tasks ran when and which took longest. Answered by
    /// `JobShape`.
    JobShape {
        /// The job.
        job: JobId,
    },
    /// Answered by `JobDetails`.
    JobInfo {
        /// The jobs to describe.
        jobs: Selector,
        /// Only this page; without it all at once, as clients of earlier releases want it.
        page: Option<JobPage>,
    },
    /// Cancel jobs or some of their tasks. Answered by `Canceled`.
    Cancel {
        /// Which jobs.
        jobs: Selector,
        /// Only these tasks of theirs.
        tasks: Option<IdSet>,
        /// Shown beside the job.
        reason: Option<String>,
    },
    /// Cancel those of these tasks that have not begun. Answered by `Canceled` when that is known of each.
    CancelWaiting {
        /// Their job.
        job: JobId,
        /// The tasks.
        tasks: IdSet,
    },
    /// Drop ended jobs. Answered by `Jobs` with those that were dropped.
    ForgetJobs {
        /// The jobs to drop.
        jobs: Selector,
        /// Only those in one of these states; every ended one when empty.
        states: Vec<JobState>,
    },
    /// Answered by `Tasks`, a page at a time.
    ListTasks {
        /// Which jobs.
        jobs: Selector,
        /// Only these tasks.
        tasks: Option<IdSet>,
        /// Only tasks in one of these states; all when empty.
        states: Vec<TaskState>,
        /// Begin after this task: the `next` of the page before.
        after: Option<TaskRef>,
        /// At most so many one by one, and never more than `TASK_PAGE_MAX`.
        limit: u32,
        /// Tasks that differ in little may be told together, and then as many as the server likes; what they wait for
        /// is left out.
        grouped: bool,
        /// Tasks are told with their entries, also where no path depends on them; but for pulled ones, which have their
        /// payloads there. Such tasks are told one by one.
        with_entries: bool,
    },
    /// Tasks that are on a worker now: those that run there, then those that are to run there next. Answered by `Tasks`,
    /// whose `next` is not nothing where there are more.
    WorkerTasks {
        /// The worker.
        worker: WorkerId,
        /// At most so many, and never more than `TASK_PAGE_MAX`.
        limit: u32,
    },
    /// Answered by `TaskIds`.
    TaskIds {
        /// Which jobs.
        jobs: Selector,
        /// Only tasks in one of these states; all when empty.
        states: Vec<TaskState>,
    },
    /// Follow jobs until all have ended. Answered by `Progress` at once and whenever something
    /// changed, by `Notification`s if asked for, and by `WatchEnded` at last.
    WatchJobs {
        /// Which. `All` means those that exist now.
        jobs: Selector,
        /// An open job has ended only when it is closed, too.
        until_closed: bool,
        /// Send notifications of the jobs' tasks.
        notifications: bool,
    },
    /// Show what a task prints. Answered by `Output`.
    ReadOutput(OutputRead),
    /// Say why tasks of jobs failed. Answered by `Failures`.
    JobFailures {
        /// The jobs.
        jobs: Selector,
        /// Begin with this one: the `next` of the answer before.
        from: Option<JobId>,
    },
    /// Say what tasks left behind. Answered by `Results`.
    Results {
        /// The jobs.
        jobs: Selector,
        /// Only these tasks.
        tasks: Option<IdSet>,
        /// Begin with this task: the `next` of the answer before.
        from: Option<TaskRef>,
        /// Of failed tasks, too; otherwise of finished ones alone.
        with_failed: bool,
    },
    /// Say how tasks of a job have ended, as soon as there is one of which the client does not know: it asks again for the
    /// next ones. Answered by `Ends`. Of a client's questions about a job the last one counts.
    AwaitEnds {
        /// The job.
        job: JobId,
        /// Tasks whose ends it knows.
        known: IdSet,
    },
    /// Say what a task waits for. Answered by `Explained`.
    ExplainTask {
        /// One job.
        jobs: Selector,
        /// The task.
        task: TaskId,
    },
    /// Say what the tasks of jobs wait for. Answered by `ExplainedJobs`.
    ExplainJobs {
        /// The jobs to explain.
        jobs: Selector,
    },
    /// Answered by `Workers`.
    ListWorkers {
        /// The workers to list.
        workers: Selector,
        /// Only workers in one of these states.
        filter: WorkerFilter,
    },
    /// Stop workers. Answered by `WorkersStopped`.
    StopWorkers {
        /// Which. Unknown or ended ones are an error.
        workers: Selector,
        /// Finish what runs first.
        drain: bool,
    },
    /// Answered by `Done` as soon as so many workers are connected.
    WaitWorkers {
        /// How many.
        count: u32,
    },
    /// About queues and allocations. Answered by `Alloc`, or by `Done`.
    Alloc(AllocRequest),
    /// Have all changes on disk. Answered by `Done`.
    FlushJournal,
    /// Forget ended jobs and workers, and replace the journal's history by the records that rebuild what
    /// is left. Answered by `Done`.
    PruneJournal,
    /// Send the journal's records. Answered by `Events`, and by `Done` at last.
    Events {
        /// Go on with what happens, until the client leaves.
        follow: bool,
        /// Begin with this record: the `next` of the last `Events`. 0 for all; [`FROM_NOW`] for none, said by an empty answer.
        after: u64,
        /// Only these.
        filter: EventFilter,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientResponse {
    /// The request was refused.
    Error(RequestError),
    /// Some of what the request names was refused, and the rest done. For [`ClientRequest::WatchJobs`] it comes first, with
    /// no progress as the rest.
    Partly {
        /// Why; never empty.
        refused: Vec<RequestError>,
        /// The answer to the rest, or why the last one was refused when nothing was left. Never another `Partly`.
        rest: Box<ClientResponse>,
    },
    /// It is done.
    Done,
    /// About the server.
    ServerInfo(Box<ServerInfo>),
    /// A submit was accepted and is on disk.
    Submitted {
        /// The job.
        job: JobId,
        /// The new tasks.
        ids: IdSet,
        /// Tasks with keys that were there before, by their places in the request, ascending.
        existing: Vec<(u32, TaskId)>,
        /// Things the user should know (no worker could run it, …).
        warnings: Vec<String>,
    },
    /// Jobs were made together, and are on disk.
    JobsSubmitted {
        /// In the order of the request.
        jobs: Vec<JobId>,
        /// Things the user should know.
        warnings: Vec<String>,
    },
    /// The jobs concerned.
    Jobs(Vec<JobId>),
    /// Answer to `ListJobs`, ascending.
    JobList(Vec<JobSummary>),
    /// Number of jobs in each state, in the order of [`JobState::ALL`].
    JobCounts(Vec<(JobState, u64)>),
    /// Answer to `JobInfo`.
    JobDetails {
        /// The jobs, ascending, those with submits on several pages on each of them.
        jobs: Vec<JobDetail>,
        /// Where the next page begins.
        next: Option<PageStart>,
        /// The time of the server, to which times without an end are counted. `None` from earlier releases.
        now: Option<Timestamp>,
    },
    /// Per job: the tasks canceled now, and how many had ended before.
    Canceled(Vec<(JobId, IdSet, u64)>),
    /// A page of tasks.
    Tasks {
        /// Tasks told one by one with their jobs, ascending.
        tasks: Vec<(JobId, TaskInfo)>,
        /// Others told together, in any order.
        groups: Vec<AlikeTasks>,
        /// Where the next page begins.
        next: Option<TaskRef>,
        /// The time of the server, to which times without an end are counted. `None` from earlier releases.
        now: Option<Timestamp>,
    },
    /// Answer to `TaskIds`.
    TaskIds(Vec<(JobId, IdSet)>),
    /// Answer to `ExplainTask`.
    Explained(Box<TaskExplanation>),
    /// Answer to `ExplainJobs`.
    ExplainedJobs(Vec<JobExplanation>),
    /// Answer to `JobFailures`.
    Failures {
        /// The jobs, ascending.
        jobs: Vec<JobFailures>,
        /// The first of those for which there was no room.
        next: Option<JobId>,
    },
    /// Answer to `Results`.
    Results {
        /// The jobs that have some of these tasks, ascending.
        jobs: Vec<JobResults>,
        /// The first task of which there was no room to tell.
        next: Option<TaskRef>,
    },
    /// Answer to `AwaitEnds`.
    Ends(Box<JobEnds>),
    /// Answer to `Feed`.
    Feed(Box<FeedState>),
    /// Answer to `Objects`.
    Objects(Box<ObjectPage>),
    /// Answer to [`ObjectRequest::Give`].
    ObjectGiven(crate::object_messages::ObjectCopy),
    /// Answer to `Overview`.
    Overview(Box<Overview>),
    /// Answer to `Load`.
    Load(Box<LoadHistory>),
    /// Answer to `JobShape`.
    JobShape(Box<JobShape>),
    /// How far watched jobs are; at first all, then those that changed.
    Progress(Vec<JobSummary>),
    /// A task's words.
    Notification {
        /// The task.
        task: TaskRef,
        /// The attempt that speaks; 0 where its worker does not say.
        instance: Instance,
        /// Where it runs.
        worker: WorkerId,
        /// Its words.
        text: ByteString,
    },
    /// Answer to `ReadOutput`.
    Output(Output),
    /// All watched jobs have ended; as in the last `Progress`.
    WatchEnded,
    /// Answer to `ListWorkers`, ascending.
    Workers(Vec<WorkerInfo>),
    /// Those that are stopped.
    WorkersStopped {
        /// All of them, ascending.
        workers: Vec<WorkerId>,
        /// Those that had no connection: they have ended, and are told when they come back.
        away: Vec<WorkerId>,
        /// Those that were to finish what runs, and were stopping already: nothing has changed for them.
        stopping: Vec<WorkerId>,
        /// Objects that somebody keeps and that go with them, some by name.
        alone: Vec<ObjectId>,
        /// How many these are.
        alone_count: u64,
    },
    /// About queues and allocations.
    Alloc(AllocResponse),
    /// Records of the journal, in order.
    Events {
        /// Records with their times.
        records: Vec<(Timestamp, Record)>,
        /// The number of the record that comes next; 0 within what a compaction left.
        next: u64,
    },
}

impl ClientResponse {
    /// True when more answers to the same request follow.
    pub fn is_followed(&self) -> bool {
        match self {
            ClientResponse::Progress(_)
            | ClientResponse::Notification { .. }
            | ClientResponse::Events { .. } => true,
            ClientResponse::Partly { rest, .. } => rest.is_followed(),
            _ => false,
        }
    }
}

/// A line of `job list`.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSummary {
    /// The id.
    pub job: JobId,
    /// The name.
    pub name: String,
    /// Takes submits.
    pub is_open: bool,
    /// Tasks by state.
    pub counters: Counters,
    /// The words given with `cancel`.
    pub cancel_reason: Option<String>,
    /// Tasks that no worker could ever run that is there or that a queue may bring. Counted in lists and details, and of jobs
    /// with a generator for those who follow them.
    pub unrunnable: u64,
    /// What its state is made of, beside its tasks.
    pub fed_end: FedEnd,
    /// Why it does not end unless somebody does something: its generator or its reducer has ended without success.
    pub stalled: Option<String>,
}

impl JobSummary {
    /// The job's state.
    pub fn state(&self) -> JobState {
        self.fed_end.state_of(&self.counters, self.is_open)
    }

    /// How its tasks have ended, whether it is open or not.
    pub fn state_by_tasks(&self) -> JobState {
        self.fed_end.state_of(&self.counters, false)
    }
}

/// All about a job but its tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDetail {
    /// As in the list.
    pub summary: JobSummary,
    /// Limit on failures.
    pub max_fails: Option<u64>,
    /// How many of its tasks run at once, where it is said.
    pub share: Option<hq_model::job::Share>,
    /// Node time that it may use, where it was made with a budget, and what it has used.
    pub budget: Option<JobBudget>,
    /// When it was made.
    pub submitted: Timestamp,
    /// When its last task ended, if all have and it is closed.
    pub ended: Option<Timestamp>,
    /// Its submits in order; of a page, those on it.
    pub submits: Vec<SubmitInfo>,
    /// Sum over ended attempts.
    pub usage: Usage,
    /// Workers that run its tasks or have, ascending, at most 1000.
    pub workers: Vec<WorkerId>,
    /// How far its generator and reducer are, if it has them.
    pub feed: Option<Box<FeedState>>,
    /// Who is told of it, and what became of that.
    pub notices: Vec<NoticeInfo>,
    /// How many of its tasks were canceled or given up while workers have them, which have not said yet that nothing of
    /// them runs any more. `None` where nobody can tell: a worker is away, or the server is of an earlier release.
    pub ending: Option<u64>,
}

/// The budget of a job that was made with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobBudget {
    /// Node time that it may use; `None` when the budget was taken away.
    pub limit: Option<Duration>,
    /// Node time that its attempts have used.
    pub used: Duration,
}

/// A rule of a job about whom to tell, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeInfo {
    /// The rule.
    pub rule: NoticeRule,
    /// What became of the last notice, if there was something to tell.
    pub told: Option<Told>,
    /// Why it could not be sent yet, of one that is tried again.
    pub trouble: Option<String>,
}

/// One submit of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmitInfo {
    /// Its place among the submits of the job.
    pub index: u32,
    /// Its tasks.
    pub ids: IdSet,
    /// What they execute. On a page, what they read is left out.
    pub spec: Arc<TaskSpec>,
    /// How much they read from standard input, in bytes.
    pub stdin_bytes: u64,
    /// Directory of the submitting process.
    pub submit_dir: ByteString,
    /// When.
    pub submitted: Timestamp,
}

/// All about a task but what its submit says.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskInfo {
    /// The id.
    pub task: TaskId,
    /// Index of its submit in the job.
    pub submit: u32,
    /// The state.
    pub state: TaskState,
    /// The instance, of the present or last attempt.
    pub instance: Instance,
    /// How often it was lost with a worker.
    pub crashes: u32,
    /// Where it runs or ran.
    pub worker: Option<WorkerId>,
    /// When the present or last attempt started.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// What it used.
    pub usage: Option<Usage>,
    /// Why it failed, was canceled or aborted.
    pub error: Option<String>,
    /// What it was to wait for, whether that has ended or not.
    pub dependencies: Vec<After>,
    /// Its name in the job.
    pub key: Option<String>,
    /// The workers of a task on several nodes that is handed out, the first of which leads.
    pub nodes: Vec<WorkerId>,
    /// How it failed, if that is still known.
    pub failure: Option<FailureKind>,
    /// Its entry, where [paths](hq_model::paths) of it depend on that, or where it is asked for.
    pub entry: Option<ByteString>,
    /// It had one that would be told, which is not kept any more.
    pub entry_gone: bool,
    /// What it uses while it runs, as its worker tells; nothing of a task that it has not sampled yet.
    pub load: Option<Box<TaskUse>>,
    /// Set when it was canceled without having started: the time by which it could not have ended any more.
    pub too_late: Option<Timestamp>,
    /// Earlier attempts and others that did not end it, in the order in which they ended: where all of a task is told. Of
    /// many the last ones, and of very many tasks those of some.
    pub attempts: Vec<PastAttempt>,
}

impl TaskInfo {
    /// What it used, where its worker has measured that: of what was lost with its worker only the time is known.
    pub fn measured(&self) -> Option<&Usage> {
        let is_lost = matches!(self.failure, Some(FailureKind::Crashes | FailureKind::Lost));
        self.usage.as_ref().filter(|_| !is_lost)
    }
}
