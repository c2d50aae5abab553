//! When a plan is asked for, how it is followed, and whom it passes over.

use std::collections::BTreeSet;

use hq_model::{Timestamp, WorkerId};
use hq_sched::Plan;

use super::Level;
use super::batches::Batches;
use super::rounds::{Round, Share};
use crate::limits::PASSED_OVER_LOOKED_AT_MAX;
use crate::mark;
use crate::server::live::LiveWorker;
use crate::server::locality::Near;
use crate::server::machine::Server;
use crate::server::queue::ClassId;

impl Server {
    // Of several classes some tasks were placed and some were not.
    pub(super) fn is_contended(&self, level: &Level) -> bool {
        let Some(placed) = level.placed.first() else { return false };
        let left = self.queue.of_priority(level.priority).filter(|class| self.share_room(*class) > 0);
        let mut left = left.peekable();
        left.peek().is_some() && (level.placed.len() > 1 || left.any(|class| class != *placed))
    }

    // The lines of a plan, as far as they still fit. Without it something of the classes `in_order` would have been placed.
    pub(super) fn follow(
        &mut self,
        now: Timestamp,
        plan: &Plan,
        in_order: &[ClassId],
        batches: &mut Batches,
    ) {
        let ready: Vec<u64> = in_order.iter().map(|class| self.queue.count(*class)).collect();
        self.place_lines(now, plan, batches);
        for (class, ready) in in_order.iter().zip(ready) {
            if self.queue.count(*class) < ready {
                self.planning.has_placed(*class);
            } else {
                self.planning.passes_over(now, *class);
            }
        }
    }

    fn place_lines(&mut self, now: Timestamp, plan: &Plan, batches: &mut Batches) {
        for line in &plan.lines {
            let class = ClassId(line.class.0);
            let round = Round::Room { rank: line.variant as usize };
            if !self.queue.knows(class) || self.gathering.has(line.worker) {
                continue;
            }
            let priority = self.queue.key(class).priority;
            // One that has become idle since may start only for enough, and would give it back.
            let is_open = |live: &&mut LiveWorker| {
                let is_picky = live.is_idle_and_picky();
                mark!("a plan counts on a picky worker", is_picky && live.takes(priority));
                live.takes(priority) && !is_picky
            };
            let Some(live) = self.live.get_mut(&line.worker).filter(is_open) else { continue };
            let choice = round.pick(live.choices(class, &self.queue.key(class).requests));
            let time_request = choice.map(|choice| choice.time_request);
            if time_request.is_some_and(|time_request| live.has_time(now, time_request)) {
                self.fill_worker(
                    now,
                    line.worker,
                    class,
                    round,
                    Share { count: line.count, near: Near::Any, has_doubt: true },
                    batches,
                );
            }
        }
    }

    // Tasks of a class wait on workers now. Of others of equal priority that go before it and get no backlog, those are passed over
    // that it leaves no room.
    pub(super) fn pass_over(
        &mut self,
        now: Timestamp,
        workers: &BTreeSet<WorkerId>,
        class: ClassId,
        equal: &[ClassId],
    ) {
        for other in equal.iter().take(PASSED_OVER_LOOKED_AT_MAX) {
            let is_new = !self.planning.has_passed_over(*other);
            if is_new && workers.iter().any(|worker| self.would_go_before(now, *worker, class, &[*other])) {
                self.planning.forget_ended(&self.queue);
                self.planning.passes_over(now, *other);
            }
        }
    }
}
