//! Tasks that have not started, as they were handed over.

use std::cmp::Reverse;
use std::sync::Arc;

use hq_model::{ByteString, Entries, IdSet, Instance, TaskId, Timestamp};

use crate::object_messages::{ObjectSource, TaskObjects};
use crate::worker_messages::{CallInput, TaskNode, TemplateId};

/// Where a batch stands among those that wait: its priority, its turn, and the number of its arrival.
pub(in crate::worker) type QueuePlace = (Reverse<i32>, Timestamp, u64);

/// What is left of tasks of one template that came together.
#[derive(Clone, Debug)]
pub(in crate::worker) struct Batch {
    // When it came.
    pub(in crate::worker) since: Timestamp,
    pub(in crate::worker) priority: i32,
    // As [`turn_of`](crate::keeping::turn_of).
    pub(in crate::worker) turn: Timestamp,
    pub(in crate::worker) template: TemplateId,
    pub(in crate::worker) instance: Instance,
    // As it came, for the entries.
    pub(in crate::worker) all: IdSet,
    pub(in crate::worker) left: IdSet,
    pub(in crate::worker) entries: Entries,
    // Of a task on several nodes.
    pub(in crate::worker) nodes: Vec<TaskNode>,
    // It is not the first of them: the program runs elsewhere.
    pub(in crate::worker) is_part: bool,
    pub(in crate::worker) services: Arc<Vec<(ByteString, ByteString)>>,
    // As which variant they were placed.
    pub(in crate::worker) variant: Option<u32>,
    // In order of tasks.
    pub(in crate::worker) inputs: Arc<Vec<CallInput>>,
    // Likewise.
    pub(in crate::worker) objects: Arc<Vec<TaskObjects>>,
}

impl Batch {
    /// Where it stands before it waits for room: behind all of its turn.
    pub(in crate::worker) fn last_place(&self) -> QueuePlace {
        (Reverse(self.priority), self.turn, u64::MAX)
    }

    /// What others have left behind for one of them.
    pub(in crate::worker) fn inputs_of(&self, task: TaskId) -> Vec<CallInput> {
        let first = self.inputs.partition_point(|input| input.task < task);
        self.inputs[first..].iter().take_while(|input| input.task == task).cloned().collect()
    }

    /// True when one of them takes objects.
    pub(in crate::worker) fn takes_objects(&self, task: TaskId) -> bool {
        !self.objects.is_empty() && !self.objects_of(task).is_empty()
    }

    /// The objects that one of them takes.
    pub(in crate::worker) fn objects_of(&self, task: TaskId) -> Vec<ObjectSource> {
        // They come in order of their first tasks; those with more tasks are few.
        let found = self.objects.binary_search_by_key(&Some(task), |objects| objects.tasks.first());
        let among = || self.objects.iter().position(|objects| objects.tasks.contains(task));
        found.ok().or_else(among).map_or_else(Vec::new, |place| self.objects[place].inputs.clone())
    }
}
