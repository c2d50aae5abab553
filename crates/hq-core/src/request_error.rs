//! Why requests of clients are refused, in words and as codes.

use hq_model::{Instance, JobId, ObjectId, QueueId, TaskId, TaskRef, TaskState, Timestamp, WorkerId};

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No such job.
    #[error("Job {0} not found.")]
    NoJob(JobId),
    /// There was such a job.
    #[error(
        "Job {0} has been forgotten, and with it what its tasks executed: they can only be submitted again from \
         scratch. `hq server start --keep-jobs` sets how long ended jobs are kept."
    )]
    Forgotten(JobId),
    /// There is no job at all, and `last` was asked for.
    #[error("There are no jobs.")]
    NoJobs,
    /// The job takes no submits.
    #[error("Job {0} is not open.")]
    JobNotOpen(JobId),
    /// More of an open job's tasks failed than it allows: it is over, but for being closed.
    #[error(
        "Job {job} takes no more tasks: {failed} of its tasks failed, more than the {limit} that its --max-fails \
         allows. Submit to another job, with a larger --max-fails if more failures are acceptable."
    )]
    TooManyFailed {
        /// The job.
        job: JobId,
        /// How many of its tasks failed.
        failed: u64,
        /// How many may.
        limit: u64,
    },
    /// A task id is in use.
    #[error("Task {1} already exists in job {0}.")]
    TaskExists(JobId, TaskId),
    /// No such task.
    #[error("Task {1} not found in job {0}.")]
    NoTask(JobId, TaskId),
    /// A task with this key is there, and is another one.
    #[error(
        "The key `{key}` names task {task} of job {job} already, which has another {difference}. \
         Give this task a key of its own."
    )]
    KeyTaken {
        /// The job.
        job: JobId,
        /// The key.
        key: String,
        /// Its task.
        task: TaskId,
        /// What differs first.
        difference: String,
    },
    /// What speaks for a task is not its present attempt.
    #[error("Task {task} does not run as instance {instance} {now}; only a running task speaks for itself.")]
    NotRunning {
        /// The task.
        task: TaskRef,
        /// The instance that asked.
        instance: Instance,
        /// What is true of it, as the end of "does not run as instance 0 …".
        now: String,
    },
    /// Only services are ready.
    #[error("Task {0} is no service; --service makes one of it.")]
    NoService(TaskRef),
    /// No task has this key.
    #[error("No task of job {0} has the key `{1}`.")]
    NoKey(JobId, String),
    /// The task leaves no such object.
    #[error("Task {} leaves no object `{}`{}", .0.task, .0.name, left_instead(.1))]
    NoObject(ObjectId, String),
    /// There is such an object, and no worker stores it; why, as the end of a sentence.
    #[error("Object {0} {1}")]
    NotStored(ObjectId, String),
    /// The object cannot be dropped.
    #[error(
        "Object {0} is needed by task {1}, which has not ended. Drop it when that has, or cancel the task first."
    )]
    ObjectNeeded(ObjectId, TaskRef),
    /// The job cannot be dropped.
    #[error("Job {0} has not ended yet.")]
    JobAlive(JobId),
    /// No such worker.
    #[error("Worker {0} not found.")]
    NoWorker(WorkerId),
    /// There is no worker, and `last` was asked for.
    #[error("There are no workers.")]
    NoWorkers,
    /// The worker has ended before.
    #[error("Worker {0} has already ended.")]
    WorkerEnded(WorkerId),
    /// Tasks to wait for ended without success.
    #[error(
        "Tasks that wait for {tasks} of job {job} to succeed could never run: {state} already. \
         Run what they wait for again first, and submit what waits with --after and the new job (a resubmit waits for the \
         same as before); or, with --after-any, wait for any end."
    )]
    Hopeless {
        /// Their job.
        job: JobId,
        /// Some of them.
        tasks: String,
        /// How they ended.
        state: TaskState,
    },
    /// Tasks wait for each other.
    #[error("Tasks of job {0} wait for each other: {1}.")]
    Cycle(JobId, String),
    /// The server holds as much as it may.
    #[error(
        "The submit takes {} MiB beside the {} MiB that the submits of all jobs take already; the limit is {} MiB. \
         Forget ended jobs (`hq job forget`), or wait until some have ended.",
        .wanted.div_ceil(1 << 20), .held.div_ceil(1 << 20), crate::limits::SUBMITS_BYTES_MAX >> 20
    )]
    Full {
        /// Bytes that are taken.
        held: u64,
        /// Bytes that the submit takes.
        wanted: u64,
    },
    /// The worker has lost its connection, and cannot be told anything.
    #[error(
        "Worker {worker} has no connection to the server now. Try again when it is back, which it must be by {until}."
    )]
    WorkerAway {
        /// The worker.
        worker: WorkerId,
        /// Until then it may come back.
        until: Timestamp,
    },
    /// A value that cannot be.
    #[error("{0}")]
    Invalid(String),
    /// What is asked for has nothing that it could be done to.
    #[error("{0}")]
    NothingToDo(String),
    /// The server is about to end.
    #[error("The server is stopping.")]
    Stopping,
    /// The journal cannot be written.
    #[error(
        "Nothing was changed: the server cannot keep changes now, its journal cannot be written ({0}). \
         Running tasks go on; make room or put back what is gone, and it recovers by itself."
    )]
    ReadOnly(String),
    /// The server was started without a journal.
    #[error("The server keeps no journal.")]
    NoJournal,
    /// The journal could not be read or compacted.
    #[error("The journal could not be {0}")]
    Journal(String),
    /// No such queue.
    #[error("Allocation queue {0} not found.")]
    NoQueue(QueueId),
    /// No such allocation.
    #[error("Allocation {0} not found.")]
    NoAllocation(String),
    /// The queue cannot be removed.
    #[error(
        "Allocation queue has running jobs, so it will not be removed. \
         Use `--force` if you want to remove the queue anyway: that cancels them"
    )]
    QueueBusy,
    /// The batch system does not take what a queue would ask for.
    #[error("{0}")]
    Batch(String),
    /// Nothing is left of a request that named more than is told one by one.
    #[error("{}", with_others(&.error.to_string(), *.others))]
    OneOfMany {
        /// The last one of those that are told; never another one of many.
        error: Box<RequestError>,
        /// How many were refused beside those.
        others: u64,
    },
}

impl RequestError {
    /// What was refused, without how many others were.
    pub fn one(&self) -> &RequestError {
        match self {
            RequestError::OneOfMany { error, .. } => error,
            error => error,
        }
    }

    /// How many were refused beside those that are told one by one.
    pub fn others(&self) -> u64 {
        if let RequestError::OneOfMany { others, .. } = self { *others } else { 0 }
    }

    /// A short word that never changes, for programs and for the page in the documentation.
    pub fn code(&self) -> &'static str {
        match self {
            RequestError::NoJob(_) | RequestError::NoJobs | RequestError::Forgotten(_) => "no-job",
            RequestError::JobNotOpen(_) => "job-not-open",
            RequestError::TooManyFailed { .. } => "too-many-failed",
            RequestError::TaskExists(..) => "task-exists",
            RequestError::NoTask(..) | RequestError::NoKey(..) => "no-task",
            RequestError::NoObject(..) => "no-object",
            RequestError::NotStored(..) => "not-stored",
            RequestError::ObjectNeeded(..) => "object-needed",
            RequestError::KeyTaken { .. } => "key-taken",
            RequestError::NotRunning { .. } => "not-running",
            RequestError::NoService(_) => "no-service",
            RequestError::JobAlive(_) => "job-alive",
            RequestError::NoWorker(_) | RequestError::NoWorkers => "no-worker",
            RequestError::WorkerEnded(_) => "worker-ended",
            RequestError::WorkerAway { .. } => "worker-away",
            RequestError::Hopeless { .. } => "hopeless",
            RequestError::Cycle(..) => "cycle",
            RequestError::Full { .. } => "full",
            RequestError::Invalid(_) => "invalid",
            RequestError::NothingToDo(_) => "nothing-to-do",
            RequestError::Stopping => "stopping",
            RequestError::ReadOnly(_) => "read-only",
            RequestError::NoJournal => "no-journal",
            RequestError::Journal(_) => "journal",
            RequestError::NoQueue(_) => "no-queue",
            RequestError::NoAllocation(_) => "no-allocation",
            RequestError::QueueBusy => "queue-busy",
            RequestError::Batch(_) => "batch",
            RequestError::OneOfMany { error, .. } => error.code(),
        }
    }
}

/// How many were refused beside those that are told one by one, as a sentence.
fn others_refused(others: u64) -> String {
    let were = if others == 1 { "was" } else { "were" };
    format!("{others} more of what was named {were} refused, too.")
}

/// The text of a refusal, and how many others there were, if any.
pub fn with_others(text: &str, others: u64) -> String {
    if others == 0 {
        return text.to_owned();
    }
    format!("{}. {}", text.trim_end_matches('.'), others_refused(others))
}

// What the task leaves beside that, as the end of a sentence.
fn left_instead(names: &str) -> String {
    match names {
        "" => ", nor any other: --output-object of `hq submit` makes tasks leave some.".to_owned(),
        names => format!(". It leaves {names}."),
    }
}
