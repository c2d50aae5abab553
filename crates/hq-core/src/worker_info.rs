//! What clients are told of a worker.

use std::time::Duration;

use hq_model::worker::WorkerConfig;
use hq_model::{Amount, NodeSample, TaskRef, Timestamp, WorkerId};

use crate::object_messages::ObjectsHeld;
use crate::task_use::TasksSum;
use crate::worker_messages::WorkerEnd;

/// All about a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerInfo {
    /// The id.
    pub worker: WorkerId,
    /// What it said of itself.
    pub config: WorkerConfig,
    /// When it joined.
    pub started: Timestamp,
    /// When and why it left.
    pub ended: Option<(Timestamp, WorkerEnd)>,
    /// Tasks handed to it.
    pub tasks_assigned: u64,
    /// Tasks reported as running there.
    pub tasks_running: u64,
    /// The task that started last there, and when.
    pub last_task: Option<(TaskRef, Timestamp)>,
    /// It takes no more tasks.
    pub is_draining: bool,
    /// It ends what runs there.
    pub is_stopping: bool,
    /// Its connection is lost: until then it may come back, and then its tasks run elsewhere.
    pub away_until: Option<Timestamp>,
    /// Why it cannot start tasks now.
    pub trouble: Option<String>,
    /// How often its process did what can never happen, as far as it has said.
    pub internal_errors: u64,
    /// The server's default or its own idle timeout.
    pub idle_timeout: Option<Duration>,
    /// A task on several nodes that it is one of, and the first of these.
    pub multi_node: Option<(TaskRef, WorkerId)>,
    /// It is reserved for a multi-node task.
    pub is_reserved: bool,
    /// How much of each of its resources is taken by tasks, in the order in which it offers them; nothing when that is not
    /// known.
    pub taken: Vec<Amount>,
    /// What its node did when it looked last, and when that was heard of; nothing when it does not look.
    pub sample: Option<(Timestamp, Box<NodeSample>)>,
    /// What its tasks use together, as it told then; nothing from earlier releases.
    pub tasks: Option<TasksSum>,
    /// What it stores for other tasks.
    pub objects: ObjectsHeld,
    /// What of that lies in the spill of its store, as it says.
    pub spilled: ObjectsHeld,
}

impl WorkerInfo {
    /// A worker that has just joined, of which nothing else is known.
    pub fn new(worker: WorkerId, config: WorkerConfig, started: Timestamp) -> WorkerInfo {
        WorkerInfo {
            worker,
            config,
            started,
            ended: None,
            tasks_assigned: 0,
            tasks_running: 0,
            last_task: None,
            is_draining: false,
            is_stopping: false,
            away_until: None,
            trouble: None,
            internal_errors: 0,
            idle_timeout: None,
            multi_node: None,
            is_reserved: false,
            taken: Vec::new(),
            sample: None,
            tasks: None,
            objects: ObjectsHeld::default(),
            spilled: ObjectsHeld::default(),
        }
    }
}
