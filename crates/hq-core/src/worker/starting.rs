//! Starting of what fits: tasks in the order of their priorities, and parts of tasks on several nodes.

use std::cmp::Reverse;

use hq_model::worker::Executor;
use hq_model::{TaskRef, Timestamp, Usage};

use super::machine::{Deadline, Running, Worker};
use super::pools::{Needs, Pools};
use super::{Allocation, Effect, Start};
use crate::limits::{NULL_TASKS_AT_ONCE, OVERTAKEN_MAX, SCAN_BLOCKED_MAX, STARTS_INTERVAL};

impl Worker {
    /// Starts what fits, larger priority first.
    pub(super) fn start_what_fits(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let mut blocked: Vec<(Reverse<i32>, u64, bool)> = Vec::new();
        let mut misses = 0;
        let mut null_left = NULL_TASKS_AT_ONCE;
        self.has_more = false;
        let mut key = None;
        while let Some(next) = self.next_batch(key) {
            key = Some(next);
            let template = self.queue[&next].template;
            let known = &self.templates[&template];
            // A task of higher priority that waits for one of these pools goes first, and so does one of equal
            // priority that has been overtaken for long: small tasks must not starve a large one.
            let waits = blocked
                .iter()
                .any(|(priority, mask, is_due)| (*priority < next.0 || *is_due) && mask & known.mask != 0);
            if !waits {
                self.start_batch(now, next, &mut null_left, effects);
            }
            if self.queue.contains_key(&next) {
                if null_left == 0 {
                    self.has_more = true;
                    return;
                }
                let is_due = now >= self.queue[&next].since.after(OVERTAKEN_MAX);
                blocked.push((next.0, self.templates[&template].mask, is_due));
                misses += 1;
                if misses == SCAN_BLOCKED_MAX {
                    return;
                }
            }
        }
    }

    fn next_batch(&self, after: Option<(Reverse<i32>, u64)>) -> Option<(Reverse<i32>, u64)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        self.queue.range((from, Unbounded)).next().map(|entry| *entry.0)
    }

    // Starts tasks of a batch one by one as long as they fit; removes the batch when it is empty.
    fn start_batch(
        &mut self,
        now: Timestamp,
        key: (Reverse<i32>, u64),
        null_left: &mut u32,
        effects: &mut Vec<Effect>,
    ) {
        let ends_at = self.ends_at();
        let Some(batch) = self.queue.get_mut(&key) else { return };
        let known = &self.templates[&batch.template];
        if self.config.executor == Executor::Null && !batch.is_part {
            // What fits now fits again, for each ends at once; only parts of tasks on several nodes stay.
            let fits = known.needs.iter().flatten().any(|needs| self.pools.take(needs, &mut self.scratch));
            assert!(
                fits || !self.running.is_empty(),
                "a task that this worker can run fits when nothing runs"
            );
            if !fits {
                return;
            }
            self.pools.free(&self.scratch);
            let count = u64::from(*null_left).min(batch.left.len());
            let ids = batch.left.take_first(count);
            for task in ids.iter() {
                // Each is admitted, started and ended by itself.
                let fits =
                    known.needs.iter().flatten().any(|needs| self.pools.take(needs, &mut self.scratch));
                assert!(fits, "a task that ended at once left room for the next one");
                self.pools.free(&self.scratch);
                let task = TaskRef::new(batch.template.job, task);
                self.reporting.finished(task, batch.instance, now, Usage::default());
            }
            *null_left -= count as u32;
            if !self.followers.is_empty() {
                let job = batch.template.job;
                ids.iter().for_each(|task| self.leader_ended(TaskRef::new(job, task), true));
            }
        } else {
            while let Some(id) = batch.left.first() {
                // An attempt that is being ended still has the task, or the whole node.
                let runs = &self.running;
                if runs.contains_key(&TaskRef::new(batch.template.job, id))
                    || (runs.len() == 1 && runs.values().any(|run| run.has_node))
                {
                    break;
                }
                let is_empty = runs.is_empty();
                let mut allocation = Allocation::default();
                let mut ranks = Vec::new();
                let pools = &mut self.pools;
                let variants = known.needs.iter().zip(&known.template.spec.requests).enumerate();
                let chosen = variants
                    .filter(|(_, (_, request))| is_empty || !request.takes_whole_nodes())
                    .filter_map(|(variant, (needs, request))| Some((variant, needs.as_ref()?, request)))
                    .find(|(_, needs, request)| match request.ranks {
                        0 => pools.take(needs, &mut allocation),
                        count => {
                            ranks = take_ranks(pools, needs, count);
                            !ranks.is_empty()
                        }
                    });
                let Some((variant, _, request)) = chosen else { break };
                batch.left.remove(id);
                let task = TaskRef::new(batch.template.job, id);
                let rank = if batch.entries.is_empty() { None } else { batch.all.rank(id) };
                let entry = rank.and_then(|rank| batch.entries.get(rank as usize)).map(<[u8]>::to_vec);
                let spec = &known.template.spec;
                // The one that runs the program has an eye on the time.
                let limit = spec.time_limit.filter(|_| !batch.is_part).map(|limit| now.after(limit));
                self.deadlines.extend(limit.map(|at| (at, task, Deadline::TimeLimit)));
                // It is warned of its own limit, and of the end of this worker if that comes first.
                if let (Some(end), Some(warning)) = (limit.into_iter().chain(ends_at).min(), spec.warning)
                    && !batch.is_part
                {
                    let before = u64::try_from(warning.before.as_micros()).unwrap_or(u64::MAX);
                    let at = Timestamp(end.0.saturating_sub(before)).max(now);
                    self.deadlines.insert((at, task, Deadline::Warning));
                }
                effects.push(Effect::Start(Start {
                    task,
                    instance: batch.instance,
                    template: known.template.clone(),
                    entry,
                    services: batch.services.clone(),
                    variant: variant as u32,
                    allocation: allocation.clone(),
                    ranks: ranks.clone(),
                    nodes: batch.nodes.clone(),
                    is_part: batch.is_part,
                }));
                let run = Running {
                    instance: batch.instance,
                    template: batch.template,
                    allocation,
                    ranks,
                    is_part: batch.is_part,
                    has_node: request.takes_whole_nodes(),
                    since: now,
                    ending: None,
                };
                let before = self.running.insert(task, run);
                assert!(before.is_none(), "a task runs once at a time: {task}");
                if batch.is_part {
                    continue;
                }
                if !self.reporting.has_news() {
                    self.starts_due = now.after(STARTS_INTERVAL);
                }
                self.reporting.started(task);
            }
        }
        if self.queue.get(&key).is_some_and(|batch| batch.left.is_empty()) {
            self.queue.remove(&key);
        }
    }
}

// What each of so many ranks has; nothing when not all of them fit.
fn take_ranks(pools: &mut Pools, needs: &Needs, count: u32) -> Vec<Allocation> {
    let mut ranks = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let mut rank = Allocation::default();
        if !pools.take(needs, &mut rank) {
            ranks.iter().for_each(|rank| pools.free(rank));
            return Vec::new();
        }
        ranks.push(rank);
    }
    ranks
}
