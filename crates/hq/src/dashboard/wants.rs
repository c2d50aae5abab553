//! What screens want to know, as requests to a server; and what a user orders.

use std::time::Duration;

use hq_core::alloc::messages::AllocRequest;
use hq_core::client_messages::{ClientRequest, WorkerFilter};
use hq_core::output_messages::{OutputRead, ReadFrom, Seen};
use hq_core::record::RequestKey;
use hq_model::selector::Selector;
use hq_model::{Channel, IdSet, JobId, JobState, QueueId, TaskId, TaskRef, TaskState, WorkerId};

use crate::jobs::only;

/// Jobs on the screen of jobs: the latest ones that fit the search.
pub(crate) const JOBS_MAX: u32 = 1000;
/// Tasks on the screen of a job.
pub(crate) const TASKS_MAX: u32 = 500;
/// Tasks on the screen of a worker.
pub(crate) const TASKS_ON_WORKER: u32 = 100;
/// Lines of output on the screen of a task.
const OUTPUT_LINES: u32 = 200;
/// Bytes of them.
const OUTPUT_BYTES_MAX: u32 = 16 << 10;

/// How much of the load of nodes is shown.
const LOAD_SHOWN: Duration = Duration::from_secs(3600);

/// Something that a screen wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Want {
    /// The latest jobs.
    Jobs,
    /// A job.
    Job(JobId),
    /// Why tasks of it failed.
    Failures(JobId),
    /// How far the layers of its graph are, and how many of its tasks ran when.
    Shape(JobId),
    /// Some of its tasks.
    Tasks(JobId),
    /// Some of those that run.
    Running(JobId),
    /// A task.
    Task(TaskRef),
    /// What it waits for.
    Reasons(TaskRef),
    /// What it prints.
    Output(TaskRef, Channel),
    /// All workers that are there.
    Workers,
    /// Tasks that are on one now.
    OnWorker(WorkerId),
    /// How loaded the node of a worker, or all of them, were.
    Load(Option<WorkerId>),
    /// All queues.
    Queues,
    /// A queue and its allocations.
    Queue(QueueId),
    /// Why it asks for no more.
    Explanation(QueueId),
}

impl Want {
    /// How it is asked: with a text that names of jobs have, and a state of tasks.
    pub(crate) fn request(
        self,
        search: &str,
        filter: Option<TaskState>,
        states: &[JobState],
    ) -> ClientRequest {
        match self {
            Want::Jobs => ClientRequest::LatestJobs {
                states: states.to_vec(),
                text: search.to_owned(),
                before: None,
                limit: JOBS_MAX,
            },
            Want::Job(job) => {
                let page = hq_core::client_messages::JobPage::default();
                ClientRequest::JobInfo { jobs: only([job]), page: Some(page) }
            }
            Want::Failures(job) => ClientRequest::JobFailures { jobs: only([job]), from: None },
            Want::Shape(job) => ClientRequest::JobShape { job },
            Want::Tasks(job) => ClientRequest::ListTasks {
                jobs: only([job]),
                tasks: None,
                states: filter.into_iter().collect(),
                after: None,
                limit: TASKS_MAX,
                grouped: false,
                with_entries: false,
            },
            Want::Running(job) => ClientRequest::ListTasks {
                jobs: only([job]),
                tasks: None,
                states: vec![TaskState::Running],
                after: None,
                limit: TASKS_MAX,
                grouped: false,
                with_entries: false,
            },
            Want::Task(task) => ClientRequest::ListTasks {
                jobs: only([task.job]),
                tasks: Some(IdSet::single(task.task)),
                states: Vec::new(),
                after: None,
                limit: 1,
                grouped: false,
                with_entries: false,
            },
            Want::Reasons(task) => ClientRequest::ExplainTask { jobs: only([task.job]), task: task.task },
            Want::Output(task, channel) => ClientRequest::ReadOutput(OutputRead {
                task,
                channel,
                seen: Seen::Nothing,
                from: ReadFrom::Lines(OUTPUT_LINES),
                bytes_max: OUTPUT_BYTES_MAX,
                wait: Duration::ZERO,
                even_ended: true,
            }),
            Want::Workers => {
                ClientRequest::ListWorkers { workers: Selector::All, filter: WorkerFilter::Running }
            }
            Want::OnWorker(worker) => ClientRequest::WorkerTasks { worker, limit: TASKS_ON_WORKER },
            Want::Load(worker) => ClientRequest::Load { worker, time: LOAD_SHOWN },
            Want::Queues => ClientRequest::Alloc(AllocRequest::List),
            Want::Queue(queue) => ClientRequest::Alloc(AllocRequest::Info { queue }),
            Want::Explanation(queue) => ClientRequest::Alloc(AllocRequest::Explain { queue }),
        }
    }
}

/// Something that a user orders, once it is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Cancel what is left of a job.
    Cancel(JobId),
    /// Submit what failed of it again.
    Resubmit(JobId),
    /// A worker finishes what runs and leaves.
    Drain(WorkerId),
    /// A queue asks for nothing more.
    Pause(QueueId),
    /// It does again.
    Resume(QueueId),
}

impl Action {
    /// What is asked before.
    pub(crate) fn question(self) -> String {
        match self {
            Action::Cancel(job) => format!("Cancel all tasks of job {job} that have not ended?"),
            Action::Resubmit(job) => {
                format!("Resubmit the failed and canceled tasks of job {job} as a new job?")
            }
            Action::Drain(worker) => format!("Let worker {worker} finish its running tasks and then stop?"),
            Action::Pause(queue) => format!("Stop requesting allocations for queue {queue}?"),
            Action::Resume(queue) => format!("Request allocations for queue {queue} again?"),
        }
    }

    /// What was done, or is about to be.
    pub(crate) fn done(self) -> String {
        match self {
            Action::Cancel(job) => format!("Job {job} is canceled"),
            Action::Resubmit(job) => format!("Tasks of job {job} were resubmitted"),
            Action::Drain(worker) => format!("Worker {worker} stops when its tasks have ended"),
            Action::Pause(queue) => format!("Queue {queue} is paused"),
            Action::Resume(queue) => format!("Queue {queue} is resumed"),
        }
    }

    /// As a request.
    pub(crate) fn request(self, key: RequestKey) -> ClientRequest {
        match self {
            Action::Cancel(job) => ClientRequest::Cancel { jobs: only([job]), tasks: None, reason: None },
            Action::Resubmit(job) => {
                ClientRequest::Resubmit { key, jobs: only([job]), tasks: None, states: Vec::new() }
            }
            Action::Drain(worker) => ClientRequest::StopWorkers {
                workers: Selector::Ids(IdSet::single(TaskId(worker.0))),
                drain: true,
            },
            Action::Pause(queue) => ClientRequest::Alloc(AllocRequest::Pause { queue }),
            Action::Resume(queue) => ClientRequest::Alloc(AllocRequest::Resume { queue }),
        }
    }
}
