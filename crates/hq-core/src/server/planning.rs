//! Contention: several classes of one priority want what is not enough for all, and the planner decides.
//!
//! The shell plans on a thread of its own. At most one plan is under way; until it comes, or takes too long, tasks of its
//! priority and of lower ones wait, and others are placed as ever. While one is under way that took too long, tasks are
//! placed in order; the next plan is made of what is so when it has come. Each line of a plan is checked against the present: what no longer
//! fits is dropped, and what a plan leaves is placed in order. So a late or missing plan is harmless.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hq_model::{
    Amount, AmountRequest, JobId, PoolKind, Request, ResourcePool, Timestamp, WorkerId, WorkerResources,
};
use hq_sched::{Plan, PoolFree, Snapshot};

use super::Effect;
use super::machine::Server;
use super::queue::ClassId;
use crate::limits::{PLAN_TIME_MAX, PLANNED_CLASSES_MAX};

/// The plan that is under way, or has come.
#[derive(Debug, Default)]
pub(super) struct Planning {
    last: u64,
    // At work, waited for or not.
    running: Option<u64>,
    asked: Option<Asked>,
    judged: Option<Judged>,
}

#[derive(Debug)]
struct Asked {
    number: u64,
    priority: i32,
    until: Timestamp,
    // Jobs with shares, in the order of the snapshot.
    jobs: Vec<JobId>,
    // Something has changed since.
    is_outdated: bool,
}

/// What the planner says of the tasks of a priority; nothing when it took too long.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) priority: i32,
    /// Something has changed since it was asked for, and it places something.
    pub(super) is_outdated: bool,
    pub(super) plan: Option<Box<Plan>>,
}

impl Planning {
    /// A plan has come.
    fn come(&mut self, number: u64, plan: Box<Plan>) -> Option<Asked> {
        self.running.take_if(|running| *running == number);
        let asked = self.asked.take_if(|asked| asked.number == number)?;
        let is_outdated = asked.is_outdated && !plan.lines.is_empty();
        self.judged = Some(Judged { priority: asked.priority, is_outdated, plan: Some(plan) });
        Some(asked)
    }

    /// The planner is at work, perhaps on something that nobody waits for any more.
    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// A plan that took too long is not waited for any more.
    pub(super) fn give_up(&mut self, now: Timestamp) {
        if let Some(late) = self.asked.take_if(|asked| asked.until <= now) {
            self.judged = Some(Judged { priority: late.priority, is_outdated: false, plan: None });
        }
    }

    /// What has been said since the last time, or that nothing will be.
    pub(super) fn judged(&mut self) -> Option<Judged> {
        self.judged.take()
    }

    /// Something changes while a plan is under way.
    pub(super) fn outdate(&mut self) {
        if let Some(asked) = &mut self.asked {
            asked.is_outdated = true;
        }
    }

    /// Tasks of this priority and of lower ones wait for a plan.
    pub(super) fn floor(&self) -> Option<i32> {
        self.asked.as_ref().map(|asked| asked.priority)
    }

    /// When waiting for a plan has an end.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        self.asked.as_ref().map(|asked| asked.until)
    }
}

impl Server {
    /// A plan has come. Only the last one that was asked for counts.
    pub(super) fn planned(&mut self, number: u64, plan: Box<Plan>) {
        let carried = plan.carried.clone();
        let Some(asked) = self.planning.come(number, plan) else { return };
        for (job, carried) in asked.jobs.iter().zip(carried) {
            if let Some(shared) = self.shared.get_mut(job) {
                shared.carried = carried;
            }
        }
    }

    /// Asks for a plan for the tasks of a priority.
    pub(super) fn ask_for_plan(&mut self, now: Timestamp, priority: i32, effects: &mut Vec<Effect>) {
        let (snapshot, jobs) = self.contenders(now, priority);
        self.planning.last += 1;
        let number = self.planning.last;
        self.planning.running = Some(number);
        self.planning.asked =
            Some(Asked { number, priority, until: now.after(PLAN_TIME_MAX), jobs, is_outdated: false });
        effects.push(Effect::Plan { number, snapshot: Box::new(snapshot) });
    }

    // Amounts are all the server knows; which indices a task gets is the worker's business.
    fn contenders(&self, now: Timestamp, priority: i32) -> (Snapshot, Vec<JobId>) {
        let mut snapshot = Snapshot::default();
        let mut shapes: BTreeMap<Vec<(&str, Amount)>, (u32, u64)> = BTreeMap::new();
        let all: BTreeSet<WorkerId> = self.live.keys().copied().collect();
        for id in self.with_room(&all) {
            let live = &self.live[&id];
            let left = live.life_left(now);
            let is_left_alone = self.gathering.contains(&id);
            if is_left_alone
                || !live.takes(priority)
                || live.is_idle_and_picky()
                || left.is_some_and(|left| left.is_zero())
            {
                continue;
            }
            let pools = &live.resources.pools;
            let offers = pools.iter().map(|pool| (pool.name.as_str(), pool.kind.total())).collect();
            let next = shapes.len() as u32;
            let (shape, count) = shapes.entry(offers).or_insert((next, 0));
            *count += 1;
            snapshot.workers.push(hq_sched::Worker {
                id,
                shape: *shape,
                free: live.capacity.free().map(PoolFree::Sum).collect(),
                life_us: left.map(|left| left.as_micros() as u64),
                group: 0,
                ends: Vec::new(),
                keys: Vec::new(),
            });
        }
        let mut counted: Vec<(u32, u64, WorkerResources)> =
            shapes.into_iter().map(|(offers, (shape, count))| (shape, count, sums(&offers))).collect();
        counted.sort_by_key(|shape| shape.0);
        let classes: Vec<ClassId> = self.queue.of_priority(priority).take(PLANNED_CLASSES_MAX).collect();
        let neutral = 10 * classes.len() as u64;
        let mut jobs: Vec<JobId> = Vec::new();
        let part_of = |id: &ClassId| {
            // The first one of those with the largest weight.
            let preferred = self.queue.key(*id).requests.iter().min_by_key(|request| Reverse(request.weight));
            preferred.map_or(1, |request| dominant_share(&counted, request))
        };
        let parts: Vec<u64> = classes.iter().map(part_of).collect();
        let largest = parts.iter().copied().max().unwrap_or(1);
        for (at, (id, part)) in classes.iter().zip(parts).enumerate() {
            // In the order of preference.
            let mut variants = self.queue.key(*id).requests.clone();
            variants.sort_by_key(|request| Reverse(request.weight));
            let bonus = neutral + (classes.len() - at) as u64;
            let part = with_size_bonus(part, largest);
            for request in &mut variants {
                request.weight = worth(part, request.weight, bonus, neutral);
            }
            let job = self.shared_by(*id);
            let share = job.map(|job| {
                let known = jobs.iter().position(|known| *known == job);
                known.unwrap_or_else(|| {
                    jobs.push(job);
                    jobs.len() - 1
                }) as u32
            });
            let class = hq_sched::Class {
                id: hq_sched::ClassId(id.0),
                ready: self.queue.count(*id),
                priority,
                // Only their order counts.
                path_us: self.queue.head(*id).map_or(0, |head| u64::from(head.0)),
                age: at as u64,
                variants,
                share,
                key: None,
                expected_us: self.queue.head(*id).and_then(|head| self.run_time(head.1)).map(|time| time.us),
                waiting_us: 0,
            };
            // What is missing to the minimum of its job goes before what has no such claim.
            let missing = job.map_or(0, |job| {
                let out = self.shared.get(&job).map_or(0, |shared| shared.out);
                self.share_of(job).min.saturating_sub(out).min(class.ready)
            });
            let mut first = hq_sched::Class { ready: missing, ..class.clone() };
            for request in &mut first.variants {
                request.weight = request.weight.saturating_mul(MINIMUM_BONUS).min(WORTH_MAX);
            }
            let rest = hq_sched::Class { ready: class.ready - missing, ..class };
            snapshot.classes.extend([first, rest].into_iter().filter(|class| class.ready > 0));
        }
        let group = |job: &JobId| {
            let (share, shared) = (self.share_of(*job), self.shared.get(job).copied().unwrap_or_default());
            hq_sched::ShareGroup {
                running: shared.out,
                min: share.min,
                max: share.max,
                weight: share.weight,
                carried: shared.carried,
            }
        };
        snapshot.shares = jobs.iter().map(group).collect();
        snapshot.shapes = counted.into_iter().map(|shape| shape.2).collect();
        (snapshot, jobs)
    }
}

fn sums(offers: &[(&str, Amount)]) -> WorkerResources {
    let pool =
        |&(name, total): &(&str, Amount)| ResourcePool { name: name.into(), kind: PoolKind::Sum(total) };
    WorkerResources { pools: offers.iter().map(pool).collect(), coupling: Vec::new() }
}

// How much more it is worth to place what a job lacks of its minimum.
const MINIMUM_BONUS: u32 = 4;
// The largest worth; larger ones are as good.
const WORTH_MAX: u32 = 1_000_000_000;
const SHARE_UNITS: u128 = 100_000_000;

// The part that one task takes of the scarcest thing it takes, of all that there is.
fn dominant_share(shapes: &[(u32, u64, WorkerResources)], request: &Request) -> u64 {
    let part = |resource: &hq_model::ResourceRequest| {
        let totals = shapes.iter().filter_map(|(_, count, offers)| {
            let pool = offers.giver(&resource.name)?;
            Some((*count, offers.pools[pool].kind.total().0))
        });
        let (mut all, mut most) = (0u128, 0);
        for (count, total) in totals {
            all += u128::from(count) * u128::from(total);
            most = total.max(most);
        }
        let units = match resource.amount {
            AmountRequest::All => most,
            AmountRequest::Some(amount, _) => amount.0,
        };
        (u128::from(units) * SHARE_UNITS).checked_div(all).unwrap_or(0) as u64
    };
    request.resources.iter().map(part).max().unwrap_or(0).max(1)
}

// Large tasks are worth up to a quarter more than what they take: small ones find room beside them later, but not the
// other way round.
fn with_size_bonus(part: u64, largest: u64) -> u64 {
    part.saturating_add((u128::from(part) * u128::from(part) / (4 * u128::from(largest.max(1)))) as u64)
}

// What it is worth to place a task: as much as it takes, so that large and small ones count alike; times its weight,
// and up to a tenth more for those that come first in the order.
fn worth(share: u64, weight: u32, bonus: u64, neutral: u64) -> u32 {
    let weighted = u128::from(share) * u128::from(weight) / u128::from(hq_model::request::WEIGHT_NEUTRAL);
    let worth = weighted * u128::from(bonus) / u128::from(neutral.max(1));
    worth.clamp(1, u128::from(WORTH_MAX)) as u32
}
