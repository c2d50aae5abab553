//! Why tasks do not run: what the server answers to `hq task explain` and `hq job explain`.

pub use hq_model::fit::Lack;
use hq_model::{IdSet, JobId, JobState, QueueId, TaskRef, TaskState, Timestamp, WorkerId};

/// What kind of reason it is, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReasonKind {
    /// It has ended.
    Ended,
    /// It runs.
    Running,
    /// It is handed to a worker and starts there as soon as it fits.
    HandedOut,
    /// Nobody has taken it from a relay, or somebody has.
    Puller,
    /// Other tasks, or a job that is open, must end first.
    Dependency,
    /// It failed and is tried again later.
    Delay,
    /// No worker that is there or that a queue may bring could ever run it.
    Unfit,
    /// There is no worker, and none to come.
    NoWorker,
    /// The budget of its job is spent.
    Budget,
    /// The share of its job is used up.
    Share,
    /// Other tasks go first.
    Priority,
    /// Something about a queue of allocations.
    Queue,
    /// The server begins nothing now.
    Server,
    /// On a worker: what it needs is in use.
    Busy,
    /// On a worker: it never fits there.
    Lacks,
    /// On a worker: too little of its time is left.
    Life,
    /// On a worker: it is idle and starts nothing for so little.
    Utilization,
    /// On a worker: it takes nothing new.
    Closed,
    /// On a worker: there is room, which others take first.
    Room,
    /// It is to have ended by some moment, and is canceled unless it starts before.
    EndBy,
    /// What a later release says.
    Other,
}

impl ReasonKind {
    /// Those with a word of their own.
    pub const ALL: [ReasonKind; 21] = [
        ReasonKind::Ended,
        ReasonKind::Running,
        ReasonKind::HandedOut,
        ReasonKind::Puller,
        ReasonKind::Dependency,
        ReasonKind::Delay,
        ReasonKind::Unfit,
        ReasonKind::NoWorker,
        ReasonKind::Budget,
        ReasonKind::Share,
        ReasonKind::Priority,
        ReasonKind::Queue,
        ReasonKind::Server,
        ReasonKind::Busy,
        ReasonKind::Lacks,
        ReasonKind::Life,
        ReasonKind::Utilization,
        ReasonKind::Closed,
        ReasonKind::Room,
        ReasonKind::EndBy,
        ReasonKind::Other,
    ];

    /// The word of JSON documents.
    pub fn word(self) -> &'static str {
        match self {
            ReasonKind::Ended => "ended",
            ReasonKind::Running => "running",
            ReasonKind::HandedOut => "handed-out",
            ReasonKind::Puller => "puller",
            ReasonKind::Dependency => "dependency",
            ReasonKind::Delay => "delay",
            ReasonKind::Unfit => "unfit",
            ReasonKind::NoWorker => "no-worker",
            ReasonKind::Budget => "budget",
            ReasonKind::Share => "share",
            ReasonKind::Priority => "priority",
            ReasonKind::Queue => "queue",
            ReasonKind::Server => "server",
            ReasonKind::Busy => "busy",
            ReasonKind::Lacks => "lacks",
            ReasonKind::Life => "life",
            ReasonKind::Utilization => "utilization",
            ReasonKind::Closed => "closed",
            ReasonKind::Room => "room",
            ReasonKind::EndBy => "end-by",
            ReasonKind::Other => "other",
        }
    }

    /// The kind of a word; `Other` for one that is not known.
    pub fn of_word(word: &str) -> ReasonKind {
        Self::ALL.into_iter().find(|kind| kind.word() == word).unwrap_or(ReasonKind::Other)
    }
}

/// Why a task does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// For programs.
    pub kind: ReasonKind,
    /// The worker it is about; `None` when it holds everywhere.
    pub worker: Option<WorkerId>,
    /// The queue it is about.
    pub queue: Option<QueueId>,
    /// Until when at the earliest, where that can be told.
    pub until: Option<Timestamp>,
    /// For people.
    pub text: String,
}

impl Reason {
    /// One that holds everywhere.
    pub fn new(kind: ReasonKind, text: impl Into<String>) -> Reason {
        Reason { kind, worker: None, queue: None, until: None, text: text.into() }
    }

    /// The same, of a worker.
    pub fn on(self, worker: WorkerId) -> Reason {
        Reason { worker: Some(worker), ..self }
    }

    /// The same, of a queue.
    pub fn of(self, queue: QueueId) -> Reason {
        Reason { queue: Some(queue), ..self }
    }

    /// The same, with its earliest end.
    pub fn until(self, until: Option<Timestamp>) -> Reason {
        Reason { until, ..self }
    }
}

/// How a worker matches a request: per variant, in the order given, what it lacks; nothing where it could run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerMatch {
    /// The worker.
    pub worker: WorkerId,
    /// Per variant.
    pub variants: Vec<Vec<Lack>>,
}

/// What a task waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskExplanation {
    /// The task.
    pub task: TaskRef,
    /// Its state, `running` included.
    pub state: TaskState,
    /// How many tasks it was to wait for.
    pub dependencies: u64,
    /// How many of them have not ended as they must.
    pub unresolved: u64,
    /// What is true of it everywhere, the most important first, then of workers.
    pub reasons: Vec<Reason>,
    /// How workers match its request.
    pub workers: Vec<WorkerMatch>,
}

/// What the tasks of a job wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobExplanation {
    /// The job.
    pub job: JobId,
    /// Its state.
    pub state: JobState,
    /// Why it does not end, beside its tasks: of a job with a generator.
    pub reasons: Vec<Reason>,
    /// Its tasks that have not ended, in groups that wait for the same.
    pub groups: Vec<TaskGroup>,
    /// Tasks in further groups.
    pub others: u64,
}

/// Tasks of a job that wait for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskGroup {
    /// The ids of the tasks.
    pub ids: IdSet,
    /// What for.
    pub reasons: Vec<Reason>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_word_of_its_own() {
        for kind in ReasonKind::ALL {
            assert_eq!(ReasonKind::of_word(kind.word()), kind);
        }
        assert_eq!(ReasonKind::of_word("something new"), ReasonKind::Other);
    }
}
