//! What waits on workers for room, beyond what fits: it takes nothing from anybody, and starts there as soon as it fits.
//!
//! A worker starts it without a word from the server, so when room becomes free there the server takes for started what
//! the worker starts then, by the same rules. Where the two differ, because something ended there that was not reported
//! yet, the reports of starts say what is so.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use hq_model::{IdSet, JobId, TaskId, TaskRef, Timestamp, WorkerId};

use super::capacity::Standing;
use super::machine::Server;
use super::queue::ClassId;
use crate::limits::SCAN_QUEUED_MAX;
use crate::mark;
use crate::worker_messages::TemplateId;

impl Server {
    /// Room may have become free on a worker: what waits there starts as far as it fits. Says whether what is left keeps
    /// other room from others than before.
    pub(super) fn presume_starts(&mut self, now: Timestamp, worker: WorkerId) -> bool {
        let Some(live) = self.live.get_mut(&worker) else { return false };
        let before = live.take_lacking();
        let mut after = None;
        for _ in 0..SCAN_QUEUED_MAX {
            // Mostly all CPUs are in use.
            if live.is_full_for_backlog() {
                break;
            }
            let Some((place, template)) = live.next_in_backlog(after) else { break };
            after = Some(place);
            let Some(class) = self.classes.get(&template) else { continue };
            live.presume_starts(now, template, *class, &self.queue.key(*class).requests);
        }
        live.keep_what_is_of_use();
        let stops = live.stops_keeping(now).unwrap_or(Timestamp(u64::MAX));
        live.keeps_until = stops;
        self.keeps_until = self.keeps_until.min(stops);
        live.lacks_other_than(&before)
    }

    /// Workers on which something that waits stops to keep room: others may have it.
    pub(super) fn that_kept_long_enough(&mut self, now: Timestamp) -> Vec<WorkerId> {
        if now < self.keeps_until {
            return Vec::new();
        }
        let later = self.live.values().map(|live| live.keeps_until).filter(|until| *until > now);
        self.keeps_until = later.min().unwrap_or(Timestamp(u64::MAX));
        let over = self.live.iter().filter(|(_, live)| live.keeps_until <= now);
        over.inspect(|_| mark!("what waits on a worker stops to keep room")).map(|(id, _)| *id).collect()
    }

    /// Tasks of a template that are on a worker wait there for room.
    pub(super) fn wait_on(&mut self, now: Timestamp, worker: WorkerId, template: TemplateId, ids: &IdSet) {
        let (Some(class), Some(first)) = (self.classes.get(&template), ids.first()) else { return };
        let key = self.queue.key(*class);
        let standing = self.standing(*class, template, first);
        let Some(live) = self.live.get_mut(&worker) else { return };
        let needs = live.choices(*class, &key.requests).first().map(|choice| choice.needs.clone());
        match needs {
            Some(needs) => live.queue(now, (template, *class), standing, &needs, ids),
            None => live.place(template, None, ids),
        }
    }

    /// How a task stands where it waits on a worker.
    pub(super) fn standing(&self, class: ClassId, template: TemplateId, task: TaskId) -> Standing {
        let head_starts = self.forecast.head_starts(&self.state, template, &IdSet::single(task));
        (self.queue.key(class).priority, head_starts.first().map(|start| start.0).unwrap_or_default())
    }

    /// A worker says that a task runs, as which variant when there are several. What was thought to run instead waits.
    pub(super) fn note_start(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        template: TemplateId,
        task: TaskId,
        variant: Option<u32>,
    ) {
        let Some(class) = self.classes.get(&template) else { return };
        let requests = &self.queue.key(*class).requests;
        let Some(live) = self.live.get_mut(&worker) else { return };
        let Some(held) = live.held().get(&template) else { return };
        let waits = held.waiting.contains(task);
        if !waits && (variant.is_none() || requests.len() == 1) {
            return;
        }
        let all = live.choices(*class, requests).to_vec();
        let said = variant.and_then(|variant| all.iter().find(|choice| choice.variant == variant));
        // Older ones do not say it.
        let fits = all.iter().find(|choice| live.capacity().room(&choice.needs) > 0);
        let Some(choice) = said.or(fits).or(all.first()) else { return };
        live.started(template, task, &choice.needs);
        if live.capacity().is_overdrawn() {
            self.settle_overdraft(now, worker);
        }
    }

    // More is promised than there is: some of those that nobody has seen start cannot have started.
    pub(super) fn settle_overdraft(&mut self, now: Timestamp, worker: WorkerId) {
        let Some(live) = self.live.get(&worker) else { return };
        let mut unseen: BTreeSet<(Reverse<Standing>, TemplateId, TaskId)> = BTreeSet::new();
        for (template, held) in live.held() {
            let Some(class) = self.classes.get(template) else { continue };
            let key = self.queue.key(*class);
            if key.requests.iter().any(|request| request.nodes > 0) {
                continue;
            }
            let placed = held.placed.iter().flat_map(|(_, ids)| ids.iter());
            let unstarted = placed.filter(|task| self.may_wait(worker, template.job, *task));
            unseen.extend(
                unstarted.map(|task| (Reverse(self.standing(*class, *template, task)), *template, task)),
            );
        }
        while let Some((Reverse(standing), template, task)) = unseen.pop_last() {
            let Some(live) = self.live.get_mut(&worker).filter(|live| live.capacity().is_overdrawn()) else {
                return;
            };
            live.displace(now, template, standing, task);
            mark!("a second attempt waits for room", {
                let second = self.state.jobs.get(&template.job).and_then(|job| job.seconds.get(&task));
                second.is_some_and(|second| second.worker == Some(worker))
            });
        }
    }

    // It is to run on a worker, as its first or its second attempt, and has not been reported to.
    pub(super) fn may_wait(&self, worker: WorkerId, id: JobId, task: TaskId) -> bool {
        let Some(job) = self.state.jobs.get(&id) else { return false };
        let is_second = job.seconds.get(&task).is_some_and(|second| second.worker == Some(worker));
        if is_second {
            return !self.running.has_second(TaskRef::new(id, task));
        }
        let is_leased = job.leased.get(&worker).is_some_and(|leased| leased.contains(task));
        let runs = self.running.of(id, task);
        is_leased && runs.is_none_or(|run| run.worker != worker)
    }

    /// Checks what is kept of tasks that wait on workers.
    ///
    /// # Errors
    /// Says which rule is broken, where.
    pub(super) fn backlogs_are_in_order(&self) -> Result<(), String> {
        for (id, live) in &self.live {
            let mut recount = match live.is_relay {
                true => live.capacity().emptied(),
                false => super::capacity::Capacity::new(&live.resources),
            };
            let mut queued = BTreeSet::new();
            for (template, held) in live.held() {
                let mut seen = held.followers.clone();
                let sets = held.placed.iter().map(|(_, ids)| ids).chain([&held.waiting]);
                for ids in sets {
                    if ids.intersects(&seen) || !held.ids.contains_all(ids) {
                        return Err(format!(
                            "worker {id}: {ids:?} among {held:?} are counted twice or not held"
                        ));
                    }
                    seen.union_with(ids);
                }
                for (needs, ids) in &held.placed {
                    recount.promise(needs, ids.len());
                }
                if let Some((counts, standing)) = held.counted() {
                    recount.queue_as(counts, standing, held.waiting.len());
                }
                if !held.waiting.is_empty() {
                    queued.insert(*template);
                }
            }
            if recount != *live.capacity() {
                return Err(format!("worker {id}: promised {:?}, held {recount:?}", live.capacity()));
            }
            if queued != live.backlog().collect() {
                return Err(format!("worker {id}: {queued:?} wait there, the backlog is of others"));
            }
        }
        Ok(())
    }
}
