//! Contention: several classes of one priority want what is not enough for all, and the planner decides.
//!
//! The shell plans on a thread of its own. At most one plan is under way; until it comes, or takes too long, tasks of its
//! priority and of lower ones wait, and others are placed as ever. While one is under way that took too long, tasks are
//! placed in order; the next plan is made of what is so when it has come. Each line of a plan is checked against the present: what no longer
//! fits is dropped, and what a plan leaves is placed in order. So a late or missing plan is harmless.
//!
//! A plan uses as much as possible, so it would pass some classes over for as long as others keep coming; so would short tasks
//! that wait on workers. A class that would have got something in order and got nothing for a while has its turn: for as long
//! again its priority is placed in order, and nothing else that would take its room waits on workers.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{
    Amount, AmountRequest, JobId, Request, ResourceRequest, Timestamp, WorkerId, WorkerResources,
};
use hq_sched::{Plan, Shape, Snapshot, Take, Variant};

use super::Effect;
use super::machine::Server;
use super::queue::{ClassId, Queue};
use crate::keeping::by_preference;
use crate::limits::{OVERTAKEN_MAX, PLAN_TIME_MAX, PLANNED_CLASSES_MAX};

/// The plan that is under way, or has come.
#[derive(Debug, Default)]
pub(super) struct Planning {
    last: u64,
    // At work, waited for or not.
    running: Option<u64>,
    asked: Option<Asked>,
    judged: Option<Judged>,
    // Those that got nothing while others got what they would have got in order.
    passed_over: BTreeMap<ClassId, PassedOver>,
}

#[derive(Clone, Copy, Debug)]
enum PassedOver {
    // They have got nothing since then.
    Since(Timestamp),
    // It is their turn.
    TurnUntil(Timestamp),
}

#[derive(Debug)]
struct Asked {
    number: u64,
    priority: i32,
    until: Timestamp,
    // Jobs with shares, in the order of the snapshot.
    jobs: Vec<JobId>,
    // Those of which something would have been placed in order.
    in_order: Vec<ClassId>,
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
    /// Those of which something would have been placed in order.
    pub(super) in_order: Vec<ClassId>,
}

impl Planning {
    /// A plan has come.
    fn come(&mut self, number: u64, plan: Box<Plan>) -> Option<Asked> {
        self.running.take_if(|running| *running == number);
        let mut asked = self.asked.take_if(|asked| asked.number == number)?;
        let is_outdated = asked.is_outdated && !plan.lines.is_empty();
        let in_order = std::mem::take(&mut asked.in_order);
        self.judged = Some(Judged { priority: asked.priority, is_outdated, plan: Some(plan), in_order });
        Some(asked)
    }

    /// The planner is at work, perhaps on something that nobody waits for any more.
    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// A plan that took too long is not waited for any more.
    pub(super) fn give_up(&mut self, now: Timestamp) {
        if let Some(late) = self.asked.take_if(|asked| asked.until <= now) {
            self.judged = Some(Judged {
                priority: late.priority,
                is_outdated: false,
                plan: None,
                in_order: late.in_order,
            });
        }
    }

    /// Others got what a class would have got in order.
    pub(super) fn passes_over(&mut self, now: Timestamp, class: ClassId) {
        self.passed_over.entry(class).or_insert(PassedOver::Since(now));
    }

    /// Of classes that wait no more nothing is remembered.
    pub(super) fn forget_ended(&mut self, queue: &Queue) {
        self.passed_over.retain(|class, _| queue.count(*class) > 0);
    }

    /// True when others got what a class would have got in order, and it has got nothing since.
    pub(super) fn has_passed_over(&self, class: ClassId) -> bool {
        self.passed_over.contains_key(&class)
    }

    /// Something of a class was placed. A turn goes on.
    pub(super) fn has_placed(&mut self, class: ClassId) {
        if let Some(PassedOver::Since(_)) = self.passed_over.get(&class) {
            self.passed_over.remove(&class);
        }
    }

    /// True when it is the turn of one of these classes, of which something would be placed in order.
    pub(super) fn is_turn_of_any(&mut self, now: Timestamp, classes: &[ClassId]) -> bool {
        let mut is_turn = false;
        for class in classes {
            match self.passed_over.get(class).copied() {
                Some(PassedOver::Since(since)) if now.since(since) >= OVERTAKEN_MAX => {
                    let turn = PassedOver::TurnUntil(now.after(OVERTAKEN_MAX));
                    self.passed_over.insert(*class, turn);
                    is_turn = true;
                }
                Some(PassedOver::TurnUntil(until)) if now < until => is_turn = true,
                Some(PassedOver::TurnUntil(_)) => {
                    self.passed_over.remove(class);
                }
                Some(PassedOver::Since(_)) | None => {}
            }
        }
        is_turn
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
            self.shares.carry(*job, carried);
        }
    }

    /// Asks for a plan for the tasks of a priority, of which something of these classes would be placed in order.
    pub(super) fn ask_for_plan(
        &mut self,
        now: Timestamp,
        priority: i32,
        in_order: Vec<ClassId>,
        effects: &mut Vec<Effect>,
    ) {
        self.planning.forget_ended(&self.queue);
        let (snapshot, jobs) = self.contenders(now, priority);
        self.planning.last += 1;
        let number = self.planning.last;
        self.planning.running = Some(number);
        let until = now.after(PLAN_TIME_MAX);
        self.planning.asked = Some(Asked { number, priority, until, jobs, in_order, is_outdated: false });
        effects.push(Effect::Plan { number, snapshot: Box::new(snapshot) });
    }

    // Amounts are all the server knows; which indices a task gets is the worker's business.
    fn contenders(&self, now: Timestamp, priority: i32) -> (Snapshot, Vec<JobId>) {
        let classes: Vec<ClassId> = self.queue.of_priority(priority).take(PLANNED_CLASSES_MAX).collect();
        let requests = classes.iter().flat_map(|id| &self.queue.key(*id).requests);
        let mut resources: Vec<&str> =
            requests.flat_map(|request| &request.resources).map(|resource| resource.name.as_str()).collect();
        resources.sort_unstable();
        resources.dedup();
        let mut snapshot = Snapshot::default();
        let offers = self.workers_to_plan(now, priority, &mut snapshot.workers);
        snapshot.shapes = offers.iter().map(|(_, offers)| shape(offers, &resources)).collect();
        let offered: Vec<Offered> =
            (0..resources.len()).map(|resource| Offered::new(&offers, &snapshot.shapes, resource)).collect();
        let variants: Vec<Vec<Variant>> =
            classes.iter().map(|id| variants(&self.queue.key(*id).requests, &resources)).collect();
        let part_of = |variants: &Vec<Variant>| {
            variants.first().map_or(1, |preferred| dominant_share(&offered, &preferred.takes))
        };
        let parts: Vec<u64> = variants.iter().map(part_of).collect();
        let largest = parts.iter().copied().max().unwrap_or(1);
        let neutral = 10 * classes.len() as u64;
        let mut jobs: Vec<JobId> = Vec::new();
        for (at, ((id, mut variants), part)) in classes.iter().zip(variants).zip(parts).enumerate() {
            let bonus = neutral + (classes.len() - at) as u64;
            let part = with_size_bonus(part, largest);
            for variant in &mut variants {
                variant.weight = worth(part, variant.weight, bonus, neutral);
            }
            let job = self.shared_by(*id);
            let share = job.map(|job| {
                let known = jobs.iter().position(|known| *known == job);
                known.unwrap_or_else(|| {
                    jobs.push(job);
                    jobs.len() - 1
                }) as u32
            });
            let ready = self.queue.count(*id);
            let class = hq_sched::Class { id: hq_sched::ClassId(id.0), ready, variants, share };
            // What is missing to the minimum of its job goes before what has no such claim.
            let missing = job.map_or(0, |job| {
                let out = self.shares.out(job);
                self.share_of(job).min.saturating_sub(out).min(class.ready)
            });
            let mut first = hq_sched::Class { ready: missing, ..class.clone() };
            for variant in &mut first.variants {
                variant.weight = variant.weight.saturating_mul(MINIMUM_BONUS).min(WORTH_MAX);
            }
            let rest = hq_sched::Class { ready: class.ready - missing, ..class };
            snapshot.classes.extend([first, rest].into_iter().filter(|class| class.ready > 0));
        }
        let group = |job: &JobId| {
            let share = self.share_of(*job);
            hq_sched::ShareGroup {
                running: self.shares.out(*job),
                min: share.min,
                max: share.max,
                weight: share.weight,
                carried: self.shares.carried(*job),
            }
        };
        snapshot.shares = jobs.iter().map(group).collect();
        (snapshot, jobs)
    }

    // The workers that may get tasks of a priority; of each shape how many these are, and what one of them offers.
    fn workers_to_plan(
        &self,
        now: Timestamp,
        priority: i32,
        workers: &mut Vec<hq_sched::Worker>,
    ) -> Vec<(u64, &WorkerResources)> {
        let mut offers: Vec<(u64, &WorkerResources)> = Vec::new();
        let mut shapes: BTreeMap<Vec<(&str, Amount)>, usize> = BTreeMap::new();
        let all: BTreeSet<WorkerId> = self.live.keys().copied().collect();
        for id in self.with_room(&all) {
            let live = &self.live[&id];
            let left = live.life_left(now);
            let is_left_alone = self.gathering.has(id);
            if is_left_alone
                || !live.takes(priority)
                || live.is_idle_and_picky()
                || left.is_some_and(|left| left.is_zero())
            {
                continue;
            }
            let pools = live.resources.pools.iter();
            let totals = pools.map(|pool| (pool.name.as_str(), pool.kind.total())).collect();
            let shape = *shapes.entry(totals).or_insert_with(|| {
                offers.push((0, &live.resources));
                offers.len() - 1
            });
            offers[shape].0 += 1;
            // Of what is kept for tasks of higher priority there is nothing.
            let kept = self.reserve.keeps_on(now, id, live.capacity(), priority);
            let free = live.capacity().free().enumerate();
            let free = free.map(|(pool, free)| if kept & 1 << pool.min(63) == 0 { free } else { Amount(0) });
            workers.push(hq_sched::Worker {
                id,
                shape: shape as u32,
                free: free.collect(),
                life_us: left.map(|left| left.as_micros() as u64),
            });
        }
        offers
    }
}

// Of all pools how much there is, and which of them gives each of these resources.
fn shape(offers: &WorkerResources, resources: &[&str]) -> Shape {
    Shape {
        totals: offers.pools.iter().map(|pool| pool.kind.total()).collect(),
        givers: resources.iter().map(|name| offers.giver(name).map(|pool| pool as u32)).collect(),
    }
}

// In the order of preference, with the weights that users gave them; resources by their place among the sorted names.
fn variants(requests: &[Request], resources: &[&str]) -> Vec<Variant> {
    let variant = |request: &Request| Variant {
        weight: request.weight,
        takes: request.resources.iter().map(|resource| take(resource, resources)).collect(),
        time_us: request.time_request.as_micros() as u64,
    };
    by_preference(requests).into_iter().map(|at| variant(&requests[at as usize])).collect()
}

fn take(resource: &ResourceRequest, resources: &[&str]) -> (u32, Take) {
    let take = match resource.amount {
        AmountRequest::All => Take::All,
        AmountRequest::Some(amount, _) => Take::Some(amount),
    };
    (resources.partition_point(|name| *name < resource.name.as_str()) as u32, take)
}

// How much there is of a resource, in 1/10000.
struct Offered {
    // On all workers.
    sum: u128,
    // On the worker that has most.
    most: u64,
}

impl Offered {
    fn new(offers: &[(u64, &WorkerResources)], shapes: &[Shape], resource: usize) -> Offered {
        let mut offered = Offered { sum: 0, most: 0 };
        for ((count, _), shape) in offers.iter().zip(shapes) {
            let Some(pool) = shape.givers[resource] else { continue };
            let total = shape.totals[pool as usize].0;
            offered.sum += u128::from(*count) * u128::from(total);
            offered.most = offered.most.max(total);
        }
        offered
    }
}

// How much more it is worth to place what a job lacks of its minimum.
const MINIMUM_BONUS: u32 = 4;
// The largest worth; larger ones are as good.
const WORTH_MAX: u32 = 1_000_000_000;
const SHARE_UNITS: u128 = 100_000_000;

// The part that one task takes of the scarcest thing it takes, of all that there is.
fn dominant_share(offered: &[Offered], takes: &[(u32, Take)]) -> u64 {
    let part = |(resource, take): &(u32, Take)| {
        let Offered { sum, most } = offered[*resource as usize];
        let units = match take {
            Take::All => most,
            Take::Some(amount) => amount.0,
        };
        (u128::from(units) * SHARE_UNITS).checked_div(sum).unwrap_or(0) as u64
    };
    takes.iter().map(part).max().unwrap_or(0).max(1)
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
