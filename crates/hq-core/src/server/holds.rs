//! What keeps a worker from getting a ready task that fits there, by name: placement, explanations and observers speak of
//! the same.

use hq_model::{Timestamp, WorkerId};

use super::capacity::Needs;
use super::live::{LiveWorker, choices};
use super::machine::Server;
use super::queue::ClassId;
use crate::worker_messages::TemplateId;

/// Why a worker does not get a task that fits there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Hold {
    /// Where tasks of its priority go is being planned.
    Plan { until: Option<Timestamp> },
    /// More is about to end there, which is awaited.
    Gathering { until: Option<Timestamp> },
    /// It is kept free for a task on several nodes.
    Nodes,
    /// It is idle, and starts only when enough of it would be used.
    Picky,
    /// The job of the task has as many tasks handed out as its share allows.
    Share,
    /// What the task would take is kept for another one, which fits nowhere.
    Kept { class: ClassId, until: Option<Timestamp> },
    /// What the task would take is kept for another one, which waits there.
    Waits { template: TemplateId },
    /// An earlier attempt has not ended.
    Attempt,
}

impl Server {
    /// Why a worker that takes tasks does not get those of a class in a way in which they fit there.
    pub(super) fn hold_on(
        &self,
        now: Timestamp,
        worker: WorkerId,
        live: &LiveWorker,
        class: ClassId,
        needs: &Needs,
    ) -> Option<Hold> {
        let priority = self.queue.key(class).priority;
        if self.share_room(class) == 0 {
            return Some(Hold::Share);
        }
        if live.reserved.is_some_and(|reserved| priority <= reserved) {
            return Some(Hold::Nodes);
        }
        if !self.is_due(class) {
            return Some(Hold::Plan { until: self.planning.next_wakeup() });
        }
        if self.gathering.contains(&worker) {
            return Some(Hold::Gathering { until: self.gather_ends() });
        }
        if live.is_idle_and_picky() {
            return Some(Hold::Picky);
        }
        if let Some((class, until)) = self.reserve.keeps_from(worker, class, needs) {
            return Some(Hold::Kept { class, until });
        }
        if let Some(template) = live.kept_from(now, priority, needs) {
            return Some(Hold::Waits { template });
        }
        let (_, template) = self.queue.head(class)?;
        let ready = self.queue.ready(class, template);
        let has_it = live.held.get(&template).is_some_and(|held| held.ids.intersects(&ready));
        let parts =
            self.parting.iter().any(|(task, _)| task.job == template.job && ready.contains(task.task));
        (has_it || parts).then_some(Hold::Attempt)
    }

    /// Looks for ready tasks that fit on a worker and do not go there, although nothing holds them back: for the simulator,
    /// after the machine has settled.
    ///
    /// # Errors
    /// Names a class and a worker.
    pub fn wastes_nothing(&mut self, now: Timestamp) -> Result<(), String> {
        if self.is_stopping() || self.is_read_only() {
            return Ok(());
        }
        let picky = self.live.iter().filter(|(_, live)| live.is_idle_and_picky()).map(|(id, _)| *id);
        for id in picky.collect::<Vec<_>>() {
            if self.could_be_filled(now, id) {
                return Err(format!("worker {id} is idle, and there are tasks that use enough of it"));
            }
        }
        for class in self.queue.in_order() {
            let key = self.queue.key(class);
            for (id, live) in self.live.iter().filter(|(_, live)| live.takes_tasks()) {
                for choice in choices(&live.resources, &key.requests) {
                    if !live.has_time(now, choice.time_request) || live.capacity.room(&choice.needs) <= 0 {
                        continue;
                    }
                    if self.hold_on(now, *id, live, class, &choice.needs).is_none() {
                        let tasks = self.queue.count(class);
                        let head = self.queue.head(class);
                        return Err(format!(
                            "worker {id} has room for {tasks} ready tasks ({head:?}, priority {}, {}) and \
                             does not get them: {:?}",
                            key.priority, key.requests[choice.variant as usize], live.capacity
                        ));
                    }
                }
            }
        }
        match self.overdue_hold(now) {
            Some(until) => Err(format!("something was to be held until {until:?} and is held on")),
            None => Ok(()),
        }
    }

    // A hold that should have ended.
    fn overdue_hold(&self, now: Timestamp) -> Option<Timestamp> {
        let ends = [self.planning.next_wakeup(), self.gather_ends(), self.keeping_ends()];
        ends.into_iter().flatten().find(|until| *until < now)
    }

    /// What a worker has, as the server counts: for the stories of the simulator.
    pub fn story_of(&self, worker: WorkerId) -> String {
        self.live
            .get(&worker)
            .map_or_else(String::new, |live| format!("{:?} of {:?}", live.held, live.capacity))
    }

    /// What is taken of each pool of a worker that takes tasks, as the server counts, in units: for the simulator.
    pub fn taken_on(&self, worker: WorkerId) -> Option<Vec<u64>> {
        let live = self.live.get(&worker).filter(|live| live.takes_tasks())?;
        let totals = live.resources.pools.iter().map(|pool| pool.kind.total().0);
        Some(totals.zip(live.capacity.free()).map(|(total, free)| total.saturating_sub(free.0)).collect())
    }
}
