//! What keeps a worker from getting a ready task that fits there, by name: placement, explanations and observers speak of
//! the same.

use std::collections::BTreeMap;

use hq_model::{Timestamp, WorkerId};

use super::Effect;
use super::capacity::{Capacity, Needs};
use super::live::LiveWorker;
use super::machine::Server;
use super::queue::{ClassId, Place};
use crate::limits::{PASSED_OVER_TIME_MAX, PASSED_OVER_TIMES_MAX};
use crate::worker_messages::{RunBatch, TemplateId, ToWorker};

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
    Waits { template: TemplateId, until: Timestamp },
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
        if self.gathering.has(worker) {
            return Some(Hold::Gathering { until: self.gathering.ends() });
        }
        if live.is_idle_and_picky() {
            return Some(Hold::Picky);
        }
        if let Some((class, until)) =
            self.reserve.keeps_from(now, (worker, live.capacity()), (class, priority), needs)
        {
            return Some(Hold::Kept { class, until });
        }
        if let Some((template, until)) = live.kept_from(now, priority, needs) {
            return Some(Hold::Waits { template, until });
        }
        self.awaits_attempt(live, class).then_some(Hold::Attempt)
    }

    /// An earlier attempt of the first task of a class has not ended, on a worker or anywhere.
    pub(super) fn awaits_attempt(&self, live: &LiveWorker, class: ClassId) -> bool {
        let Some((_, template)) = self.queue.head(class) else { return false };
        let ready = self.queue.ready(class, template);
        let has_it = live.held().get(&template).is_some_and(|held| held.ids.intersects(&ready));
        has_it || !self.parting.among(template.job, &ready).is_empty()
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
        for class in self.queue.in_order().chain(self.queue.pulled()) {
            let key = self.queue.key(class);
            for (id, live) in self.live.iter().filter(|(_, live)| live.takes_tasks()) {
                for choice in live.ways(Some(class), &key.requests) {
                    if !live.has_time(now, choice.time_request) || live.capacity().room(&choice.needs) <= 0 {
                        continue;
                    }
                    if self.hold_on(now, *id, live, class, &choice.needs).is_none() {
                        let tasks = self.queue.count(class);
                        let head = self.queue.head(class);
                        return Err(format!(
                            "worker {id} has room for {tasks} ready tasks ({head:?}, priority {}, {}) and \
                             does not get them: {:?}",
                            key.priority,
                            key.requests[choice.variant as usize],
                            live.capacity()
                        ));
                    }
                }
            }
        }
        self.nothing_is_kept_behind_others(now)?;
        match self.overdue_hold(now) {
            Some(until) => Err(format!("something was to be held until {until:?} and is held on")),
            None => Ok(()),
        }
    }

    /// Looks for tasks that were just handed out for room in which a ready task of higher priority would fit, although
    /// nothing holds that back: for the simulator, with what the machine has said while it settled.
    ///
    /// # Errors
    /// Names both, and the worker.
    pub fn passes_nothing_over(&self, now: Timestamp, said: &[Effect]) -> Result<(), String> {
        if self.is_stopping() || self.is_read_only() {
            return Ok(());
        }
        for (worker, run) in self.given_for_room(said) {
            let Some(live) = self.live.get(&worker).filter(|live| live.takes_tasks()) else { continue };
            // One that was idle may start only for a set of tasks that uses enough of it.
            if live.min_utilization > 0 && self.without(live, &run, |_| true).is_free() {
                continue;
            }
            for class in self.queue.in_order().chain(self.queue.pulled()) {
                let key = self.queue.key(class);
                // What waits there kept room as long as something was left of what it lacks.
                if live.waits_before(key.priority) || self.reserve.has_let_go(worker) {
                    continue;
                }
                let is_lower = |batch: &RunBatch| {
                    let class = self.classes.get(&batch.template);
                    class.is_some_and(|class| self.queue.key(*class).priority < key.priority)
                };
                let without = self.without(live, &run, is_lower);
                for choice in live.ways(Some(class), &key.requests) {
                    let is_new = without.room(&choice.needs) > 0 && live.capacity().room(&choice.needs) <= 0;
                    if is_new
                        && live.has_time(now, choice.time_request)
                        && self.hold_on(now, worker, live, class, &choice.needs).is_none()
                    {
                        return Err(format!(
                            "worker {worker} got tasks of lower priority in room for {:?} (priority {}, {})",
                            self.queue.head(class),
                            key.priority,
                            key.requests[choice.variant as usize]
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Looks for tasks that would come first and see others of equal priority and weight take their room, again and again: for
    /// the simulator, with what the machine has said while it settled. `seen` is its memory: since when and how often this was seen
    /// of which class, without anything of it being handed out.
    ///
    /// # Errors
    /// Names such tasks and a worker when this lasts for longer than it may.
    pub fn gives_turns(
        &self,
        now: Timestamp,
        said: &[Effect],
        seen: &mut BTreeMap<u32, (Timestamp, u32)>,
    ) -> Result<(), String> {
        let given = self.given_for_room(said);
        seen.retain(|class, _| self.queue.count(ClassId(*class)) > 0);
        for (worker, run) in given {
            let Some(live) = self.live.get(&worker).filter(|live| live.takes_tasks()) else { continue };
            let is_picky = live.min_utilization > 0 && self.without(live, &run, |_| true).is_free();
            if is_picky || self.reserve.has_let_go(worker) {
                continue;
            }
            let mut last = None;
            while let Some((place, class)) = self.queue.next(last) {
                last = Some(place);
                let is_later = |batch: &RunBatch| self.goes_behind(batch, place);
                let without = self.without(live, &run, is_later);
                let is_passed =
                    live.ways(Some(class), &self.queue.key(class).requests).iter().any(|choice| {
                        without.room(&choice.needs) > 0
                            && live.capacity().room(&choice.needs) <= 0
                            && live.has_time(now, choice.time_request)
                            && self.hold_on(now, worker, live, class, &choice.needs).is_none()
                    });
                if !is_passed {
                    continue;
                }
                let (first, times) = seen.entry(class.0).or_insert((now, 0));
                *times += 1;
                if now.since(*first) > PASSED_OVER_TIME_MAX && *times > PASSED_OVER_TIMES_MAX {
                    let head = self.queue.head(class);
                    return Err(format!(
                        "{times} times since {first:?} tasks that come later took the room of {head:?}, now on worker {worker}"
                    ));
                }
                // Who comes behind it waits for it.
                break;
            }
        }
        Ok(())
    }

    /// Tasks were handed out: for [`Server::gives_turns`].
    pub fn has_turns(&self, said: &[Effect], seen: &mut BTreeMap<u32, (Timestamp, u32)>) {
        for effect in said {
            let Effect::ToWorker { message: ToWorker::Run(run), .. } = effect else { continue };
            for class in run.iter().filter_map(|batch| self.classes.get(&batch.template)) {
                seen.remove(&class.0);
            }
        }
    }

    // Equal in priority and weight to who stands at a place, and due later.
    fn goes_behind(&self, batch: &RunBatch, place: Place) -> bool {
        let Some(class) = self.classes.get(&batch.template).filter(|class| self.queue.knows(**class)) else {
            return false;
        };
        let groups = self.forecast.groups(&self.state, batch.template, &batch.ids);
        let first = groups.iter().map(|group| group.0).min();
        let own = first.map(|due| self.queue.place_as(*class, batch.template, due));
        own.is_some_and(|own| (own.0, own.1) == (place.0, place.1) && own > place)
    }

    // What workers were just given for room.
    fn given_for_room<'a>(&self, said: &'a [Effect]) -> BTreeMap<WorkerId, Vec<&'a RunBatch>> {
        let mut given: BTreeMap<WorkerId, Vec<&RunBatch>> = BTreeMap::new();
        for effect in said {
            let Effect::ToWorker { connection, message: ToWorker::Run(run), .. } = effect else { continue };
            let Some(worker) = self.worker_connections.get(connection) else { continue };
            let is_placed = |batch: &&RunBatch| {
                batch.variant.is_some() && batch.nodes.is_empty() && batch.after.is_none()
            };
            given.entry(*worker).or_default().extend(run.iter().filter(is_placed));
        }
        given
    }

    // What would be promised on a worker without some of what it was just given for room.
    fn without(
        &self,
        live: &LiveWorker,
        run: &[&RunBatch],
        is_meant: impl Fn(&RunBatch) -> bool,
    ) -> Capacity {
        let mut without = live.capacity().clone();
        for batch in run {
            let held = live.held().get(&batch.template).filter(|_| is_meant(batch));
            for (needs, ids) in held.into_iter().flat_map(|held| &held.placed) {
                without.release(needs, ids.intersection(&batch.ids).len());
            }
        }
        without
    }

    // A hold that should have ended.
    fn overdue_hold(&self, now: Timestamp) -> Option<Timestamp> {
        let ends = [self.planning.next_wakeup(), self.gathering.ends(), self.reserve.ends()];
        ends.into_iter().flatten().find(|until| *until < now)
    }

    /// What a worker has, as the server counts: for the stories of the simulator.
    pub fn story_of(&self, worker: WorkerId) -> String {
        self.live
            .get(&worker)
            .map_or_else(String::new, |live| format!("{:?} of {:?}", live.held(), live.capacity()))
    }

    /// What is taken of each pool of a worker that takes tasks, as the server counts, in units: for the simulator.
    pub fn taken_on(&self, worker: WorkerId) -> Option<Vec<u64>> {
        let live = self.live.get(&worker).filter(|live| live.takes_tasks())?;
        let totals = live.resources.pools.iter().map(|pool| pool.kind.total().0);
        Some(totals.zip(live.capacity().free()).map(|(total, free)| total.saturating_sub(free.0)).collect())
    }
}
