//! Where a worker runs dry while another one has a backlog, some of that is asked back.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hq_model::{IdSet, WorkerId};

use super::machine::Server;
use super::queue::ClassId;
use super::{Effect, Gate};
use crate::mark;
use crate::worker_messages::{TemplateId, ToWorker};

impl Server {
    /// Workers with room for a class of which nothing is ready get some of another worker's backlog.
    pub(super) fn balance(&mut self, hungry: &BTreeSet<WorkerId>, effects: &mut Vec<Effect>) {
        for id in hungry {
            let Some(live) = self.live.get(id) else { continue };
            if !live.takes_tasks() || live.reserved.is_some() || live.capacity().is_out_of_cpus() {
                continue;
            }
            // Of several, when one has not enough to fill it.
            let mut taken = 0;
            for (victim, template, count, room) in self.find_backlogs(*id) {
                if taken >= room {
                    break;
                }
                let count = if taken == 0 { count } else { count.min(room - taken) };
                taken += self.retract(victim, template, count, effects);
            }
        }
    }

    /// What waits on workers and may take long is asked back where others wait for room, too: who gets it is decided when it
    /// is there.
    pub(super) fn leave_choice(&mut self, effects: &mut Vec<Effect>) {
        let first: Vec<ClassId> = self.queue.in_order().take(2).collect();
        let mut asked = Vec::new();
        for (id, live) in self.live.iter().filter(|(_, live)| live.has_backlog()) {
            for template in live.backlog() {
                let (Some(class), Some(held)) = (self.classes.get(&template), live.held().get(&template))
                else {
                    continue;
                };
                let priority = self.queue.key(*class).priority;
                let other = first.iter().find(|other| *other != class);
                let expected_us = || self.forecast.run_time(&self.state, template).map(|time| time.us);
                if other.is_some_and(|other| self.queue.key(*other).priority >= priority)
                    && held.retracting.is_empty()
                    && live.may_take_long(template, expected_us())
                {
                    asked.push((*id, template, held.waiting.len()));
                }
            }
        }
        for (worker, template, count) in asked {
            self.retract(worker, template, count, effects);
        }
    }

    // Workers with a backlog of tasks that fit on `id` now, how many to take, and how many would fit; the largest
    // backlog first. Where the last task of a template runs, all of them may: those are the last to be looked at.
    fn find_backlogs(&self, id: WorkerId) -> Vec<(WorkerId, TemplateId, u64, u64)> {
        let mut found: Vec<(bool, Reverse<u64>, WorkerId, TemplateId, u64, u64)> = Vec::new();
        let Some(hungry) = self.live.get(&id) else { return Vec::new() };
        let mut rooms: BTreeMap<ClassId, i64> = BTreeMap::new();
        for (victim, live) in &self.live {
            if *victim == id || live.connection.is_none() || !live.has_backlog() {
                continue;
            }
            for template in live.backlog() {
                let Some(held) = live.held().get(&template).filter(|held| held.retracting.is_empty()) else {
                    continue;
                };
                let Some(class) = self.classes.get(&template) else { continue };
                let room = rooms.entry(*class).or_insert_with(|| {
                    mark!("a hungry worker has no store", class.needs_store() && !hungry.stores);
                    let choices = hungry.ways(Some(*class), &self.queue.key(*class).requests);
                    choices.iter().map(|choice| hungry.capacity().room(&choice.needs)).max().unwrap_or(0)
                });
                let room = u64::try_from(*room).unwrap_or(0);
                let excess = held.waiting.len();
                if room == 0 {
                    continue;
                }
                // Half of it, so that both have as much; at least what fits at once.
                let count = (excess / 2).max(room.min(excess));
                let runs = |last| self.running.of(template.job, last).is_some();
                let runs = held.ids.last().is_some_and(runs);
                found.push((runs, Reverse(excess), *victim, template, count, room));
            }
        }
        found.sort_unstable();
        found
            .into_iter()
            .map(|(_, _, victim, template, count, room)| (victim, template, count, room))
            .collect()
    }

    /// Asks so many back, at most; none when all of them run. Says how many.
    pub(super) fn retract(
        &mut self,
        victim: WorkerId,
        template: TemplateId,
        count: u64,
        effects: &mut Vec<Effect>,
    ) -> u64 {
        let held = self.live.get(&victim).and_then(|live| live.held().get(&template));
        // The last ones are started last.
        let mut candidates = held.map_or_else(IdSet::new, |held| held.waiting.clone());
        self.ask_back(victim, template, candidates.take_last(count), effects)
    }

    /// Asks these back. Says how many.
    pub(super) fn ask_back(
        &mut self,
        victim: WorkerId,
        template: TemplateId,
        ids: IdSet,
        effects: &mut Vec<Effect>,
    ) -> u64 {
        let job = template.job;
        let Some(live) = self.live.get_mut(&victim) else { return 0 };
        let Some(connection) = live.connection else { return 0 };
        let count = ids.len();
        if count == 0 || !live.ask_back(template, &ids) {
            return 0;
        }
        let message = ToWorker::Retract { job, ids };
        effects.push(Effect::ToWorker { connection, message, gate: Gate::Written });
        count
    }
}
