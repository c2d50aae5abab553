//! Placement as long as it is simple: ready tasks go to workers with room, in the order of their
//! classes; then workers get a backlog, so that they never idle for a round trip; and where a worker
//! runs dry while another has a backlog, some of that is asked back.
//!
//! Cost: classes that changed times workers with room, plus workers that changed times classes. Never tasks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hq_model::{Entries, IdSet, Timestamp, WorkerId};

use super::machine::Server;
use super::queue::ClassId;
use super::{Effect, Gate};
use crate::record::Record;
use crate::worker_messages::{RunBatch, Template, TemplateId, ToWorker};

impl Server {
    /// Hands out what can be handed out.
    pub(super) fn dispatch(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let changed_workers = std::mem::take(&mut self.changed_workers);
        let changed_classes = std::mem::take(&mut self.changed_classes);
        if self.live.is_empty() || changed_workers.is_empty() && changed_classes.is_empty() {
            return;
        }
        let mut batches = Batches::new();
        let all: BTreeSet<WorkerId> = self.live.keys().copied().collect();
        let classes: Vec<ClassId> = self.queue.in_order().collect();
        // First what fits now, everywhere; then backlogs.
        for with_backlog in [false, true] {
            for class in &classes {
                let workers = if changed_classes.contains(class) { &all } else { &changed_workers };
                self.fill(now, workers, *class, with_backlog, &mut batches);
            }
        }
        self.send(now, batches, effects);
        self.balance(&changed_workers, effects);
    }

    // Hands tasks of a class to workers: what fits, or up to their backlogs.
    fn fill(
        &mut self,
        now: Timestamp,
        workers: &BTreeSet<WorkerId>,
        class: ClassId,
        with_backlog: bool,
        batches: &mut Batches,
    ) {
        let ready = self.queue.count(class);
        if ready == 0 {
            return;
        }
        // Nobody's backlog takes more than an equal part, and who has least goes first.
        let share = if with_backlog { ready.div_ceil(self.live.len() as u64) } else { ready };
        let mut order: Vec<(Reverse<i64>, WorkerId)> = Vec::new();
        for worker in workers {
            let Some(live) = self.live.get_mut(worker).filter(|live| live.takes_tasks()) else { continue };
            let request = &self.queue.key(class).requests[0];
            if live.life_left(now).is_some_and(|left| left.is_zero() || left < request.time_request) {
                continue;
            }
            let Some(needs) = live.needs(class, request).cloned() else { continue };
            let room = live.capacity.room(&needs);
            if with_backlog {
                order.push((Reverse(room), *worker));
            } else if room > 0 {
                order.push((Reverse(0), *worker));
            }
        }
        order.sort_unstable();
        for (_, worker) in order {
            self.fill_worker(worker, class, with_backlog, share, batches);
        }
    }

    fn fill_worker(
        &mut self,
        worker: WorkerId,
        class: ClassId,
        with_backlog: bool,
        mut share: u64,
        batches: &mut Batches,
    ) {
        let Some(live) = self.live.get_mut(&worker) else { return };
        let Some(needs) = live.needs(class, &self.queue.key(class).requests[0]).cloned() else { return };
        let slots = live.capacity.slots(&needs);
        let mut skipped = Vec::new();
        while let Some(template) = self.queue.head(class) {
            let backlog = if with_backlog { live.backlog_target(template, slots) } else { 0 };
            let room = live.capacity.room(&needs).saturating_add_unsigned(backlog);
            let wanted = u64::try_from(room).unwrap_or(0).min(share);
            if wanted == 0 {
                break;
            }
            let Some((template, mut ids)) = self.queue.take(class, wanted) else { break };
            // An attempt that it still has must be gone before it gets the next one.
            if let Some(held) = live.held.get(&template).filter(|held| held.ids.intersects(&ids)) {
                skipped.push((template, held.ids.intersection(&ids)));
                ids.subtract(&held.ids);
                if ids.is_empty() {
                    continue;
                }
            }
            share -= ids.len();
            live.hold(template, class, &ids);
            batches.entry(worker).or_default().entry(template).or_default().union_with(&ids);
        }
        for (template, ids) in skipped {
            self.queue.add(class, template, &ids);
        }
    }

    fn send(&mut self, now: Timestamp, batches: Batches, effects: &mut Vec<Effect>) {
        for (worker, templates) in batches {
            let mut run = Vec::new();
            for (template, ids) in templates {
                self.lease(now, worker, template, &ids, &mut run, effects);
            }
            if let Some(connection) = self.live.get(&worker).and_then(|live| live.connection) {
                let message = ToWorker::Run(run);
                effects.push(Effect::ToWorker { connection, message, gate: Gate::Written });
            }
        }
    }

    fn lease(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        template: TemplateId,
        ids: &IdSet,
        run: &mut Vec<RunBatch>,
        effects: &mut Vec<Effect>,
    ) {
        let job = template.job;
        self.record(now, Record::Leased { worker, job, ids: ids.clone() }, effects);
        let state = &self.state.jobs[&job];
        let submit = &state.submits[template.submit as usize];
        let Some(live) = self.live.get_mut(&worker) else { return };
        for (instance, ids) in state.by_instance(ids) {
            let content = live.templates.insert(template).then(|| Template {
                id: template,
                spec: submit.task.clone(),
                submit_dir: submit.submit_dir.clone(),
            });
            let entries = entries_of(&submit.ids, &submit.entries, &ids);
            run.push(RunBatch { template, content, ids, instance, entries });
        }
    }

    // Workers with room for a class of which nothing is ready get some of another worker's backlog.
    fn balance(&mut self, hungry: &BTreeSet<WorkerId>, effects: &mut Vec<Effect>) {
        for id in hungry {
            let Some(live) = self.live.get(id) else { continue };
            if !live.takes_tasks() || live.capacity.has_backlog() {
                continue;
            }
            if let Some((victim, template, count)) = self.find_backlog(*id) {
                self.retract(victim, template, count, effects);
            }
        }
    }

    // The worker with the largest backlog of tasks that fit on `id` now, and how many to take.
    fn find_backlog(&mut self, id: WorkerId) -> Option<(WorkerId, TemplateId, u64)> {
        let mut best: Option<(u64, WorkerId, TemplateId, u64)> = None;
        let hungry = self.live.get(&id)?.capacity.clone();
        for (victim, live) in &self.live {
            if *victim == id || live.connection.is_none() || !live.capacity.has_backlog() {
                continue;
            }
            for (template, held) in &live.held {
                if !held.retracting.is_empty() {
                    continue;
                }
                let Some(class) = self.classes.get(template) else { continue };
                let request = &self.queue.key(*class).requests[0];
                let (Some(here), Some(there)) = (hungry.needs(request), live.capacity.needs(request)) else {
                    continue;
                };
                let room = u64::try_from(hungry.room(&here)).unwrap_or(0);
                let excess = u64::try_from(-live.capacity.room(&there)).unwrap_or(0).min(held.ids.len());
                if room == 0 || excess == 0 {
                    continue;
                }
                // Half of it, so that both have as much; at least what fits at once.
                let count = (excess / 2).max(room.min(excess));
                if best.is_none_or(|best| best.0 < excess) {
                    best = Some((excess, *victim, *template, count));
                }
            }
        }
        best.map(|(_, victim, template, count)| (victim, template, count))
    }

    fn retract(&mut self, victim: WorkerId, template: TemplateId, count: u64, effects: &mut Vec<Effect>) {
        let job = template.job;
        let Some(live) = self.live.get_mut(&victim) else { return };
        let Some(connection) = live.connection else { return };
        let Some(held) = live.held.get_mut(&template) else { return };
        // The last ones are started last.
        let mut candidates = held.ids.clone();
        for task in self.running.get(&job).into_iter().flatten().map(|run| *run.0) {
            candidates.remove(task);
        }
        let ids = candidates.take_last(count);
        if ids.is_empty() {
            return;
        }
        held.retracting.clone_from(&ids);
        let message = ToWorker::Retract { job, ids };
        effects.push(Effect::ToWorker { connection, message, gate: Gate::Written });
    }
}

// What each worker gets in one settling.
type Batches = BTreeMap<WorkerId, BTreeMap<TemplateId, IdSet>>;

// The entries of some tasks of a submit, in order of ids.
fn entries_of(all: &IdSet, entries: &Entries, ids: &IdSet) -> Entries {
    if entries.is_empty() {
        return Entries::default();
    }
    let picked = ids.ranges().flat_map(|range| {
        let first = all.rank(hq_model::TaskId(*range.start())).unwrap_or(0) as usize;
        // Neighbours in `ids` are neighbours in `all`, too: it contains them all.
        let count = (range.end() - range.start()) as usize + 1;
        (first..first + count).filter_map(|index| entries.get(index))
    });
    Entries::new(picked).unwrap_or_default()
}
