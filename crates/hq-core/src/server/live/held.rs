//! What a worker holds of a submit: what runs or may run, what waits there for room, and for another task.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hq_model::{IdSet, TaskId, Timestamp};

use crate::keeping::keeps_room_for;
use crate::server::capacity::{Capacity, Needs, Standing};
use crate::server::queue::ClassId;
use crate::worker_messages::TemplateId;

/// Tasks of one template on a worker.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Held {
    /// The tasks.
    pub(in crate::server) ids: IdSet,
    /// Those asked back, until they are reported as returned, started or ended.
    pub(in crate::server) retracting: IdSet,
    /// Those that were placed into free room, or are thought to have started, with what each takes.
    pub(in crate::server) placed: Vec<(Needs, IdSet)>,
    /// Those among them that lend their CPUs, with what they take when they go on.
    pub(super) lent: BTreeMap<TaskId, Needs>,
    /// Those that wait there for room: they are promised nothing.
    pub(in crate::server) waiting: IdSet,
    /// Those that wait there for another task: they are promised nothing.
    pub(in crate::server) followers: IdSet,
    /// Since when some wait for room, and where.
    pub(super) queued: Option<Queued>,
}

/// Where tasks of a template are in the backlog of a worker, as the worker orders them: priority, [turn](crate::keeping::turn_of),
/// and number of arrival.
pub(in crate::server) type QueuePlace = (Reverse<i32>, Timestamp, u64);

#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    // Of the first of them.
    pub(super) standing: Standing,
    pub(super) place: QueuePlace,
    pub(super) since: Timestamp,
    // What is counted for each.
    pub(super) counts: Option<(usize, u64)>,
}

/// A task that waits on a worker and may keep others from what it lacks there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::server) struct Lacking {
    pub(in crate::server) template: TemplateId,
    pub(super) priority: i32,
    pub(super) since: Timestamp,
    // Pools of which too little is free for it.
    pub(super) scarce: u64,
}

/// Room of a worker that is kept for a task that waits there, from others that would be placed into it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::server) struct KeptRoom {
    pub(super) class: ClassId,
    /// Of its pools only those of which what is free is of use to it.
    pub(super) lacks: Lacking,
}

impl Lacking {
    pub(super) fn keeps_from(&self, now: Timestamp, priority: i32, needs: &Needs) -> bool {
        self.keeps_until(now, priority, needs).is_some()
    }

    pub(super) fn keeps_until(&self, now: Timestamp, priority: i32, needs: &Needs) -> Option<Timestamp> {
        if self.priority < priority || needs.pools() & self.scarce == 0 {
            return None;
        }
        Some(now.after(keeps_room_for(now.since(self.since), self.priority == priority)?))
    }
}

impl Held {
    /// True when a call lends its CPUs.
    pub(in crate::server) fn has_lent(&self, task: TaskId) -> bool {
        self.lent.contains_key(&task)
    }

    /// How many calls do.
    pub(in crate::server) fn lent_count(&self) -> usize {
        self.lent.len()
    }

    /// What a task was promised.
    pub(in crate::server) fn needs_of(&self, task: TaskId) -> Option<&Needs> {
        self.placed.iter().find(|(_, ids)| ids.contains(task)).map(|(needs, _)| needs)
    }

    /// True when all of them have room, and take nothing, now or when they go on.
    pub(in crate::server) fn takes_nothing(&self) -> bool {
        let placed: u64 = self.placed.iter().map(|(_, ids)| ids.len()).sum();
        let all_have_room = self.lent.is_empty() && placed == self.ids.len();
        all_have_room && self.placed.iter().all(|(needs, _)| needs.is_nothing())
    }

    /// What is counted of the backlog for each of those that wait, and how they stand.
    pub(in crate::server) fn counted(&self) -> Option<((usize, u64), Standing)> {
        let queued = self.queued?;
        Some((queued.counts?, queued.standing))
    }

    // They are promised nothing any more, as far as they were.
    pub(super) fn displace(&mut self, ids: &IdSet, capacity: &mut Capacity) {
        self.lent.retain(|task, _| !ids.contains(*task));
        for (needs, placed) in &mut self.placed {
            let gone = placed.intersection(ids);
            placed.subtract(&gone);
            capacity.release(needs, gone.len());
        }
        self.placed.retain(|(_, placed)| !placed.is_empty());
    }

    pub(super) fn place(&mut self, needs: &Needs, ids: &IdSet, capacity: &mut Capacity) {
        capacity.promise(needs, ids.len());
        match self.placed.iter_mut().find(|placed| placed.0 == *needs) {
            Some((_, placed)) => placed.union_with(ids),
            None => self.placed.push((needs.clone(), ids.clone())),
        }
    }
}
