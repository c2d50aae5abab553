//! What commands find out: plain data, printed by [`crate::render`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hq_core::alloc::messages::{AllocationInfo, QueueExplanation, QueueInfo};
use hq_core::client_messages::{JobSummary, LoadHistory, ServerInfo, TaskInfo, WorkerInfo};
use hq_core::explanation::{JobExplanation, TaskExplanation};
use hq_core::object_messages::{ObjectCopy, ObjectView};
use hq_model::{
    IdSet, JobId, JobState, ObjectId, ObjectName, QueueId, Request, TaskId, WorkerId, WorkerResources,
};
use hq_worker::discovery::Detected;

use crate::accounts::{Accounts, Gathered};
use crate::cli::journal::Rows;
use crate::config::Setting;
use crate::error::HqError;
use crate::failures::FailedJob;
use crate::jobs::JobStream;
use crate::objects::ObjectStream;
use crate::results::{LeftReader, ResultStream};
use crate::tasks::TaskStream;

/// Nothing to show.
pub(crate) struct Nothing;

/// What a relay answered.
pub(crate) struct Pulled {
    /// The document.
    pub answer: serde_json::Value,
    /// Names of tasks alone, whatever the mode for people.
    pub names_only: bool,
}

/// What was to be shown was printed as it came.
pub(crate) struct Streamed;

/// What is in a journal.
pub(crate) struct JournalChecked {
    /// Where it is.
    pub path: PathBuf,
    /// What was found.
    pub report: hq_journal::Report,
    /// Who else could have changed it, for which no server opens it.
    pub exposed: Option<String>,
}

/// What the repair of a journal came to.
pub(crate) struct JournalRepaired {
    /// Where it is.
    pub path: PathBuf,
    /// What was done.
    pub repaired: hq_journal::Repaired,
}

/// Where the time of workers went.
pub(crate) struct Utilization {
    /// What the journal says.
    pub gathered: Gathered,
    /// The sums.
    pub accounts: Accounts,
    /// What people are shown.
    pub rows: Rows,
    /// The price of a node hour.
    pub cost: Option<f64>,
    /// Joules of jobs, from the accounting of Slurm.
    pub slurm: std::collections::BTreeMap<String, u64>,
    /// Watts of a CPU of those that measured nothing.
    pub watts_per_cpu: Option<f64>,
}

/// A sentence for people, where there is nothing to say to programs.
pub(crate) struct Sentence(pub String);

/// Something was done.
pub(crate) struct Changed {
    /// What, in a sentence for people.
    pub text: String,
    /// The same for programs: the fields of a document.
    pub document: serde_json::Value,
}

/// A text that is the result, whatever the mode.
pub(crate) struct Plain(pub Vec<u8>);

/// What tasks asked for and used, by kind.
pub(crate) struct Efficiency {
    /// Those that used most time first.
    pub kinds: Vec<crate::efficiency::Kind>,
    /// Tasks of further kinds.
    pub left_out: u64,
    /// The price of a node hour.
    pub cost: Option<f64>,
    /// Watts of a CPU.
    pub watts_per_cpu: Option<f64>,
}

/// How short tasks may be.
pub(crate) struct Metg {
    /// Workers that were there at the begin.
    pub workers: u64,
    /// CPUs that they offer.
    pub cpus: u64,
    /// The jobs that were measured, those of the longest tasks first.
    pub points: Vec<crate::metg::Point>,
    /// What comes of them; `None` when none was.
    pub found: Option<crate::metg::Found>,
}

/// How the cluster is, as metrics.
pub(crate) struct Metrics(pub Vec<crate::metrics::Family>);

/// A single text that is the answer, under this name in JSON.
pub(crate) struct Answer {
    /// The name.
    pub name: &'static str,
    /// The text.
    pub text: String,
}

/// What configuration files and variables set.
pub(crate) struct Settings {
    /// One for each option.
    pub settings: Vec<Setting>,
    /// With where they come from, for people.
    pub with_origin: bool,
}

/// What a table of a server has beside where it is.
#[derive(Clone, Copy, Default)]
pub(crate) struct ServerRows {
    /// The directory, for whoever has just started it.
    pub directory: bool,
    /// What goes well inside of it; what does not is shown always.
    pub inside: bool,
    /// Its limits.
    pub limits: bool,
}

/// All about a server.
pub(crate) struct Server {
    /// The directory clients find it by.
    pub server_dir: PathBuf,
    /// What it says of itself.
    pub info: ServerInfo,
    /// Which rows people see.
    pub rows: ServerRows,
}

/// A submit was accepted, or an open job made.
pub(crate) struct Submitted {
    /// The job; of several, the last one.
    pub job: JobId,
    /// The jobs with their names, when several were made together.
    pub together: Vec<(JobId, String)>,
    /// The generators of those that have one, with their reducers, as far as that is known.
    pub feeders: Vec<Feeders>,
    /// The jobs in front of it that leave what is broadcast to its tasks, with the names of that.
    pub broadcasts: Vec<(JobId, ObjectName)>,
    /// How many of its tasks, named by their keys, had been submitted before.
    pub existing: usize,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// The jobs whose tasks make and reduce those of a job.
#[derive(Clone, Copy)]
pub(crate) struct Feeders {
    /// That job.
    pub job: JobId,
    /// The one of its generator.
    pub generator: JobId,
    /// The one of its reducer, if it has one.
    pub reducer: Option<JobId>,
}

impl Submitted {
    /// All jobs that were made.
    pub(crate) fn jobs(&self) -> IdSet {
        match self.together.as_slice() {
            [] => IdSet::single(TaskId(self.job.0)),
            jobs => jobs.iter().map(|(job, _)| TaskId(job.0)).collect(),
        }
    }
}

/// An open job was made.
pub(crate) struct Opened(pub Submitted);

/// A submit whose end was waited for; the submit itself has been shown before, but for JSON.
pub(crate) struct SubmitWaited {
    /// The submit.
    pub submitted: Submitted,
    /// Its end.
    pub waited: Waited,
}

/// The end of jobs that were waited for.
pub(crate) struct Waited {
    /// The jobs as they ended.
    pub jobs: Vec<JobSummary>,
    /// How long it took.
    pub duration: Duration,
}

impl Waited {
    /// True when every task of every job finished.
    pub(crate) fn all_finished(&self) -> bool {
        self.jobs.iter().all(|job| job.state_by_tasks() == JobState::Finished)
    }

    /// Jobs that ended like that. One that is still open counts by its tasks.
    pub(crate) fn count(&self, state: JobState) -> u64 {
        self.jobs.iter().filter(|job| job.state_by_tasks() == state).count() as u64
    }

    /// What is said of the first jobs of which some tasks were canceled, and others were not.
    pub(crate) fn canceled(&self, jobs_max: usize) -> Vec<String> {
        let is_in_part = |job: &&JobSummary| (1..job.counters.total()).contains(&job.counters.canceled);
        let of_job = |job: &JobSummary| {
            let (canceled, total) = (job.counters.canceled, job.counters.total());
            let were = if canceled == 1 { "was" } else { "were" };
            format!("{canceled} of {total} tasks of job {} {were} canceled", job.job)
        };
        self.jobs.iter().filter(is_in_part).take(jobs_max).map(of_job).collect()
    }
}

/// The end of `hq run`.
pub(crate) struct RunEnded {
    /// The end of its job.
    pub waited: Waited,
    /// Where output went: one line for each channel.
    pub outputs: Vec<(&'static str, String)>,
    /// Some of the tasks that failed.
    pub failed: Vec<TaskInfo>,
    /// Why they failed, and which did, if some did.
    pub failures: Option<(crate::failures::FailedJob, IdSet)>,
}

/// A list of jobs.
pub(crate) struct Jobs {
    /// The jobs.
    pub jobs: Vec<JobSummary>,
    /// With the reasons of cancellations.
    pub verbose: bool,
    /// How many jobs there are, with those that are not shown.
    pub total: u64,
}

/// Jobs by state.
pub(crate) struct JobCounts(pub Vec<(JobState, u64)>);

/// All about jobs.
pub(crate) struct JobDetails {
    /// The jobs with their submits.
    pub jobs: JobStream,
    /// The server they are of.
    pub server_uid: String,
    /// Some failed tasks of one of them, for people.
    pub failed: FailedTasks,
    /// All their tasks, for JSON.
    pub tasks: Option<TaskStream>,
    /// When they were told, by the clock of the server: for what still runs.
    pub now: hq_model::Timestamp,
}

/// Finds some failed tasks of a job.
pub(crate) type FailedTasks = Box<dyn FnMut(JobId) -> Result<Vec<TaskInfo>, HqError>>;

/// Jobs and the tasks that were canceled.
pub(crate) struct Canceled {
    /// Jobs, their tasks that were canceled, and how many had ended.
    pub jobs: Vec<(JobId, IdSet, u64)>,
    /// True when only some tasks were to be canceled.
    pub of_tasks: bool,
    /// Jobs among them that took more tasks before, and take none now.
    pub closed: IdSet,
    /// Jobs among them that take more tasks.
    pub open: IdSet,
    /// Open jobs among them that take no more, since too many of their tasks failed.
    pub over: IdSet,
    /// Jobs that were named and are not there.
    pub unknown: IdSet,
}

/// Jobs that something was done to.
pub(crate) struct JobsDone {
    /// The jobs.
    pub jobs: Vec<JobId>,
    /// What was done: `closed`.
    pub done: &'static str,
}

/// Jobs that were forgotten.
pub(crate) struct JobsForgotten {
    /// The jobs.
    pub forgotten: IdSet,
    /// How many others were named that have not ended or are not there.
    pub ignored: u64,
}

/// Ids of tasks.
pub(crate) struct TaskIds {
    /// By job.
    pub jobs: Vec<(JobId, IdSet)>,
    /// More than one job was named.
    pub are_several: bool,
}

/// A list of tasks.
pub(crate) struct Tasks {
    /// The jobs they belong to.
    pub jobs: Vec<JobId>,
    /// The tasks.
    pub tasks: TaskStream,
    /// With paths and use.
    pub verbose: bool,
    /// When they were told, by the clock of the server.
    pub now: hq_model::Timestamp,
}

/// All about tasks of one job.
pub(crate) struct TaskDetails {
    /// The job.
    pub job: JobId,
    /// The tasks.
    pub tasks: TaskStream,
    /// What calls among them left behind, where somebody can be asked.
    pub left: Option<LeftReader>,
    /// When they were told, by the clock of the server.
    pub now: hq_model::Timestamp,
}

/// A list of workers.
pub(crate) struct Workers(pub Vec<WorkerInfo>);

/// All about workers.
pub(crate) struct WorkerDetails {
    /// The workers.
    pub workers: Vec<WorkerInfo>,
    /// How loaded their nodes were in the last hour, in the same order.
    pub histories: Vec<LoadHistory>,
}

/// Workers that were asked to stop.
pub(crate) struct WorkersStopped {
    /// The workers.
    pub workers: Vec<WorkerId>,
    /// Those of them that had no connection, and have ended.
    pub away: Vec<WorkerId>,
    /// Those of them that were stopping already, and do not finish what runs.
    pub stopping: Vec<WorkerId>,
    /// They finish what runs first.
    pub drain: bool,
    /// Relays that were left, for all workers were meant.
    pub relays: Vec<WorkerId>,
    /// Objects that somebody keeps and that go with them, some by name.
    pub alone: Vec<ObjectId>,
    /// How many these are.
    pub alone_count: u64,
}

/// What a worker would find on this machine.
pub(crate) struct Hardware(pub Detected);

/// What a task waits for.
pub(crate) struct Explained {
    /// What the server says.
    pub told: Box<TaskExplanation>,
    /// What the task asks for, a request for each of its variants, where that is known.
    pub requests: Vec<Request>,
    /// What workers offer, as far as that is known.
    pub offers: BTreeMap<WorkerId, WorkerResources>,
}

impl From<Box<TaskExplanation>> for Explained {
    fn from(told: Box<TaskExplanation>) -> Explained {
        Explained { told, requests: Vec::new(), offers: BTreeMap::new() }
    }
}

/// What the tasks of jobs wait for.
pub(crate) struct ExplainedJobs(pub Vec<JobExplanation>);

/// Why tasks of jobs failed.
pub(crate) struct Failures {
    /// The jobs, read while they are printed.
    pub jobs: Box<dyn Iterator<Item = Result<FailedJob, HqError>>>,
    /// More than one job was asked for.
    pub are_several: bool,
}

/// What finished tasks left behind.
pub(crate) struct Results {
    /// Read while they are printed.
    pub results: ResultStream,
    /// More than one job was asked for.
    pub are_several: bool,
    /// One task was asked for: its result is all that is printed.
    pub is_single: bool,
    /// The tasks were asked for by their ids.
    pub is_named: bool,
    /// The jobs were.
    pub are_named: bool,
    /// Is told of what was asked for and has none.
    pub refused: Box<dyn Fn(&str)>,
    /// Says why functions of a job failed.
    pub tell_failed: TellFailed,
    /// True of a job whose results are taken by a reducer.
    pub has_reducer: Box<dyn Fn(JobId) -> bool>,
}

/// Says why these tasks of a job failed.
pub(crate) type TellFailed = Box<dyn Fn(JobId, &IdSet) -> Result<(), HqError>>;

/// A queue was made.
pub(crate) struct QueueAdded(pub QueueId);

/// A list of queues.
pub(crate) struct Queues(pub Vec<QueueInfo>);

/// The allocations of a queue.
pub(crate) struct Allocations {
    /// The queue.
    pub queue: QueueInfo,
    /// Those that are shown.
    pub allocations: Vec<AllocationInfo>,
    /// With their node hours, and what workers of the queue offer.
    pub verbose: bool,
    /// What a node hour costs, where that was said.
    pub cost: Option<f64>,
}

/// Why a queue does what it does.
pub(crate) struct ExplainedQueue(pub QueueExplanation);

/// The launchers of ranks.
pub(crate) struct LauncherList(pub Vec<LauncherRow>);

/// One of them.
pub(crate) struct LauncherRow {
    /// What `--launcher` calls it.
    pub name: String,
    /// For people.
    pub about: String,
    /// The variable by which a rank knows its number.
    pub rank: String,
    /// It is there.
    pub is_found: bool,
    /// It was tried with this release.
    pub is_verified: bool,
}

/// What a stream directory holds.
#[derive(Debug, Default)]
pub(crate) struct StreamSummary {
    /// The directory, as it was given.
    pub path: String,
    /// Files of workers.
    pub files: u64,
    /// Jobs that have written.
    pub jobs: u64,
    /// Their tasks that have.
    pub tasks: u64,
    /// Outputs of latest attempts.
    pub streams: u64,
    /// Those of them that are not complete.
    pub opened: u64,
    /// Bytes of standard output and of standard error of the latest attempts.
    pub bytes: [u64; 2],
    /// Attempts before the latest one.
    pub superseded: u64,
    /// What those printed.
    pub superseded_bytes: [u64; 2],
    /// How long all files are together, with their indexes, and compressed where that was asked for.
    pub disk_bytes: u64,
    /// Parts of files that are damaged: what was in them is not counted.
    pub damaged: u64,
}

/// Jobs that have written into a stream directory.
#[derive(Debug)]
pub(crate) struct StreamJobs(pub Vec<JobId>);

/// A list of objects, read while it is printed.
pub(crate) struct ObjectList(pub ObjectStream);

/// All about objects.
pub(crate) struct ObjectDetails(pub Vec<ObjectView>);

/// Objects that something was done to.
pub(crate) struct ObjectsDone {
    /// The objects.
    pub objects: Vec<ObjectId>,
    /// What was done: `kept`.
    pub done: &'static str,
}

/// A file that was made an object.
pub(crate) struct ObjectPut(pub ObjectView);

/// An object that was written.
pub(crate) struct ObjectGot {
    /// Which one.
    pub copy: ObjectCopy,
    /// The file, unless it went somewhere else.
    pub path: Option<PathBuf>,
}

/// Objects that were written into a directory.
pub(crate) struct ObjectsGot(pub Vec<ObjectGot>);
