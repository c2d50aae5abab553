//! Which tasks an idle worker gets that starts only when enough of it would be used: a set that reaches that, although
//! what comes first in the order alone would not.
//!
//! Of such sets the one is taken that is worth most: more of a higher priority, then more CPUs times weight, then what
//! comes first in the order. Cost: a limited number of steps for each such worker, and once for those that are alike.

use std::collections::BTreeSet;

use hq_model::{Timestamp, WorkerId, WorkerResources};

use super::capacity::{Capacity, Needs};
use super::dispatch::Batches;
use super::machine::Server;
use super::queue::ClassId;
use crate::limits::{PICKY_CLASSES_MAX, PICKY_STEPS_MAX};
use crate::mark;

/// Tasks of a class, as one of its variants.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) class: ClassId,
    /// The place of the variant in the order of preference.
    pub(super) rank: usize,
    /// How many.
    pub(super) count: u64,
    needs: Needs,
    priority: i32,
    // Of one task.
    worth: u64,
}

impl Server {
    /// Hands sets of tasks that use enough of them to idle workers that start for nothing less.
    pub(super) fn fill_picky(&mut self, now: Timestamp, picky: &BTreeSet<WorkerId>, batches: &mut Batches) {
        // Workers for which there was nothing, and what might have been.
        let mut in_vain: Vec<(WorkerResources, u32, Vec<Part>)> = Vec::new();
        for id in picky {
            let parts = self.parts_for(now, *id);
            let Some(live) = self.live.get(id).filter(|_| !parts.is_empty()) else { continue };
            let alike = (live.resources.clone(), live.min_utilization, parts);
            if in_vain.contains(&alike) {
                continue;
            }
            let Some(set) = best_set(live.capacity(), u64::from(live.min_utilization), &alike.2) else {
                in_vain.push(alike);
                continue;
            };
            // Room that was kept there, for one of the set or for what is too little, is for all of the set.
            let kept = self.kept_on(now, *id);
            if kept.is_some() {
                mark!("nothing is kept any more on a picky worker that begins");
                self.reserve.let_worker(*id);
            }
            for part in &set {
                self.fill_with(now, *id, part, batches);
            }
            if let Some(class) = kept.filter(|class| set.iter().any(|part| part.class == *class)) {
                mark!("a picky worker begins with what it was kept for");
                let let_go = self.has_what_was_kept_for(now, class);
                self.changes.of_workers(let_go);
            }
        }
    }

    /// True when a worker is idle, starts only for enough, and there would be enough.
    pub(super) fn could_be_filled(&mut self, now: Timestamp, worker: WorkerId) -> bool {
        let mut parts = self.parts_for(now, worker);
        let Some(live) = self.live.get(&worker) else { return false };
        parts.retain(|part| !self.awaits_attempt(live, part.class));
        best_set(live.capacity(), u64::from(live.min_utilization), &parts).is_some()
    }

    // What an idle worker that starts only for enough might get, and at most how much of each.
    fn parts_for(&mut self, now: Timestamp, worker: WorkerId) -> Vec<Part> {
        let mut parts = Vec::new();
        // What is kept room there goes before all others, which could not begin without it.
        let kept = self.kept_on(now, worker);
        let others = self.queue.in_order().filter(|class| Some(*class) != kept);
        let classes: Vec<ClassId> = kept.into_iter().chain(others).take(PICKY_CLASSES_MAX).collect();
        for class in classes {
            let most = self.queue.count(class).min(self.share_room(class));
            if most == 0 || !self.is_due(class) {
                continue;
            }
            let key = self.queue.key(class);
            let open = |live: &&mut super::live::LiveWorker| {
                live.is_idle_and_picky() && live.takes(key.priority) && live.held().is_empty()
            };
            let Some(live) = self.live.get_mut(&worker).filter(open) else { continue };
            for choice in live.choices(class, &key.requests).to_vec() {
                let lives = live.has_time(now, choice.time_request);
                let count = u64::try_from(live.capacity().room(&choice.needs)).unwrap_or(0).min(most);
                if lives && count > 0 {
                    let weight = u64::from(key.requests[choice.variant as usize].weight);
                    let worth = live.capacity().cpus_of(&choice.needs).max(1).saturating_mul(weight);
                    let (worth, priority) = match kept == Some(class) {
                        true => (worth.max(1), i32::MAX),
                        false => (worth, key.priority),
                    };
                    let (rank, needs) = (choice.rank, choice.needs);
                    parts.push(Part { class, rank, count, needs, priority, worth });
                }
            }
        }
        parts
    }
}

// The set that is worth most of those that use so much of the CPUs, in 1/10000.
fn best_set(idle: &Capacity, least: u64, parts: &[Part]) -> Option<Vec<Part>> {
    let mut search = Search { parts, least, steps: 0, counts: Vec::new(), best: None };
    search.go(idle.clone());
    let (_, counts) = search.best?;
    let taken = parts.iter().zip(counts).filter(|(_, count)| *count > 0);
    Some(taken.map(|(part, count)| Part { count, ..part.clone() }).collect())
}

struct Search<'a> {
    parts: &'a [Part],
    least: u64,
    steps: usize,
    counts: Vec<u64>,
    best: Option<(Worth, Vec<u64>)>,
}

// By priority, the largest first.
type Worth = Vec<u128>;

impl Search<'_> {
    // As many as fit of each part are tried first, then fewer.
    fn go(&mut self, mut taken: Capacity) {
        self.steps += 1;
        let at = self.counts.len();
        let Some(part) = self.parts.get(at) else {
            if taken.used_cpus() >= self.least {
                let worth = self.worth();
                if self.best.as_ref().is_none_or(|best| worth > best.0) {
                    self.best = Some((worth, self.counts.clone()));
                }
            }
            return;
        };
        if !self.may_be_enough(&taken) {
            return;
        }
        let others = self.parts[..at].iter().zip(&self.counts).filter(|(other, _)| other.class == part.class);
        let left = part.count.saturating_sub(others.map(|(_, count)| count).sum());
        let most = u64::try_from(taken.room(&part.needs)).unwrap_or(0).min(left);
        taken.promise(&part.needs, most);
        for count in (0..=most).rev() {
            self.counts.push(count);
            self.go(taken.clone());
            self.counts.pop();
            if self.steps > PICKY_STEPS_MAX {
                return;
            }
            if count > 0 {
                taken.release(&part.needs, 1);
            }
        }
    }

    // All that is left together.
    fn may_be_enough(&self, taken: &Capacity) -> bool {
        let left = self.parts[self.counts.len()..].iter();
        let cpus = left.map(|part| taken.cpus_of(&part.needs).saturating_mul(part.count));
        taken.used_cpus_with(cpus.fold(0, u64::saturating_add)) >= self.least
    }

    fn worth(&self) -> Worth {
        let mut levels: Vec<(i32, u128)> = Vec::new();
        for (part, count) in self.parts.iter().zip(&self.counts) {
            let worth = u128::from(part.worth) * u128::from(*count);
            match levels.last_mut().filter(|level| level.0 == part.priority) {
                Some(level) => level.1 += worth,
                None => levels.push((part.priority, worth)),
            }
        }
        levels.into_iter().map(|level| level.1).collect()
    }
}
