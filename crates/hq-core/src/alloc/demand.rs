//! How many new workers of which queue would take what waits now. All queues are matched together, so that what one
//! will serve is not asked for again in another.
//!
//! Thought workers are filled like real ones: first those that are on their way, then new ones, of the queue that has
//! least to offer beyond what is needed. Cost: classes times thought workers, both bounded.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hq_model::amount::UNITS;
use hq_model::fit::{Kind, Lack};
use hq_model::request::{CPUS, GPUS, IO, MEM};
use hq_model::{
    Amount, AmountRequest, PoolKind, QueueId, Request, ResourcePool, WorkerResources, counted, duration,
};

use super::worth::{self, Cost, Held, Slots, Work};
use crate::limits::{DEMAND_CLASSES_MAX, DEMAND_WORKERS_MAX};
use crate::server::capacity::{Capacity, Needs};

/// Tasks that wait and ask for the same.
#[derive(Clone, Debug)]
pub struct Class<'a> {
    /// Larger first.
    pub priority: i32,
    /// Variants.
    pub requests: &'a [Request],
    /// How many.
    pub waiting: u64,
    /// How much work that is, and who is there for it.
    pub work: Work,
}

/// What a queue could give.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The queue that could give it.
    pub queue: QueueId,
    /// What one worker offers, as far as it is known.
    pub resources: WorkerResources,
    /// False when a worker may offer more than that, of other kinds.
    pub is_known: bool,
    /// How long a new worker takes tasks.
    pub life: Duration,
    /// Allocations that were asked for and of which workers are to come.
    pub pending: Vec<Pending>,
    /// Allocations that may be asked for.
    pub allocations: u32,
    /// Workers in all of them.
    pub workers: u32,
    /// Workers in one of them.
    pub per_allocation: u32,
    /// Workers of the queue that are there or to come.
    pub staff: u32,
    /// The part of its CPUs that must be used when a worker starts something, in 1/10000.
    pub min_utilization: u32,
    /// Also for tasks that would leave its GPUs idle.
    pub for_any_task: bool,
    /// What a new worker costs in which nothing is done.
    pub cost: Cost,
}

/// An allocation that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its number in the queue.
    pub number: u32,
    /// Workers of it that are to come.
    pub workers: u32,
    /// Workers of it that are there and have nothing to do: with those to come they may take a task on several nodes.
    pub here: u32,
    /// How long they take tasks.
    pub life: Duration,
    /// It has waited for so long, as those before it did until they started: when it will start, from now.
    pub due: Duration,
    /// It has waited for long: another queue may be faster.
    pub is_slow: bool,
}

/// What came out for all queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// Workers of each allocation to ask for.
    pub new: BTreeMap<QueueId, Vec<u32>>,
    /// Allocations that were asked for and that would get nothing of what waits.
    pub unneeded: BTreeSet<(QueueId, u32)>,
    /// What becomes of each class, in the order given.
    pub classes: Vec<Served>,
}

/// What becomes of the tasks of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Taken by workers to come.
    pub coming: BTreeMap<QueueId, u64>,
    /// Taken by new workers.
    pub new: BTreeMap<QueueId, u64>,
    /// Taken by nobody.
    pub left: u64,
    /// Why not, where more workers might be asked for.
    pub held: Option<Held>,
}

/// A worker that is not there yet.
#[derive(Clone, Debug)]
struct Thought {
    capacity: Capacity,
    life: Duration,
    /// Which allocation of the queue it would be in; those to come first.
    allocation: usize,
    is_new: bool,
    /// Nobody knows when it comes.
    is_slow: bool,
    /// Taken as a whole by a task on several nodes.
    is_whole: bool,
}

#[derive(Debug)]
struct Pot<'a> {
    offer: &'a Offer,
    /// With pools for what might be there.
    resources: WorkerResources,
    thoughts: Vec<Thought>,
    /// Those that may have room.
    open: Vec<usize>,
    allocations: usize,
    /// Of the last new allocation.
    room_in_allocation: u32,
    allocations_left: u32,
    workers_left: u32,
    /// A worker to come will say what it offers.
    is_probing: bool,
    /// Nothing can be placed where no CPU is free.
    all_need_cpus: bool,
}

// More than anybody asks for, and small enough to be multiplied.
const PLENTY: Amount = Amount(1 << 40);

/// Matches what waits with what queues could give.
pub fn matched(classes: &[Class<'_>], offers: &[Offer]) -> Matched {
    let names: BTreeSet<&str> =
        classes.iter().flat_map(|c| c.requests).flat_map(|r| &r.resources).map(|r| r.name.as_str()).collect();
    let needs_cpus =
        |request: &Request| request.nodes > 0 || request.resources.iter().any(|r| r.name == CPUS);
    let all_need_cpus = classes.iter().flat_map(|class| class.requests).all(needs_cpus);
    let mut pots: Vec<Pot<'_>> = offers.iter().map(|offer| Pot::new(offer, &names, all_need_cpus)).collect();
    let mut served: Vec<Served> = classes.iter().map(|_| Served::default()).collect();
    // Larger priority first; then what fewest queues could run, so that others find room beside it.
    let mut order: Vec<usize> = (0..classes.len()).collect();
    let able =
        |class: &Class<'_>| pots.iter().filter(|pot| pot.offer.why_not(class.requests).is_none()).count();
    order.sort_by_cached_key(|at| (Reverse(classes[*at].priority), able(&classes[*at]), *at));
    for at in order.iter().skip(DEMAND_CLASSES_MAX) {
        served[*at].left = classes[*at].waiting;
    }
    let is_all = order.len() <= DEMAND_CLASSES_MAX;
    // How long those that are there are busy with classes before.
    let mut busy_us: u128 = 0;
    for at in order.into_iter().take(DEMAND_CLASSES_MAX) {
        let class = &classes[at];
        let mut left = class.waiting;
        let work = beside(&class.work, &mut busy_us);
        // First who will be there soon, then queues that let nobody wait for long.
        for is_slow in [false, true] {
            for request in by_preference(class.requests) {
                fill_coming(&mut pots, request, is_slow, &mut left, &mut served[at]);
            }
            for request in by_preference(class.requests) {
                if left > 0 {
                    open_new(&mut pots, (request, &work), is_slow, &mut left, &mut served[at]);
                }
            }
        }
        served[at].left = left;
    }
    let unneeded = pots.iter().filter(|_| is_all).flat_map(Pot::unneeded).collect();
    let new = pots.into_iter().map(|pot| (pot.offer.queue, pot.into_allocations()));
    Matched { unneeded, new: new.filter(|(_, new)| !new.is_empty()).collect(), classes: served }
}

// What is left of those that are there for one class, when they share their time among this class and those before.
fn beside(work: &Work, busy_us: &mut u128) -> Work {
    let each_us = work.each.unwrap_or(work.ran).as_micros();
    let (tasks, here) = (u128::from(work.tasks), u128::from(work.slots_here()));
    if here == 0 || each_us == 0 {
        return work.clone();
    }
    let own_us = (tasks * each_us / here).max(1);
    let all_us = own_us + *busy_us;
    *busy_us = all_us;
    let part = |slots: &Slots| {
        let count = (u128::from(slots.count) * own_us).div_ceil(all_us);
        Slots { count: u64::try_from(count).unwrap_or(slots.count), ..*slots }
    };
    Work { here: work.here.iter().map(part).collect(), ..*work }
}

// Larger weights are preferred, then what is named first; as workers do.
fn by_preference(requests: &[Request]) -> Vec<&Request> {
    let mut order: Vec<&Request> = requests.iter().collect();
    order.sort_by_key(|request| Reverse(request.weight));
    order
}

fn fill_coming(pots: &mut [Pot<'_>], request: &Request, is_slow: bool, left: &mut u64, served: &mut Served) {
    for pot in pots {
        if *left == 0 {
            return;
        }
        let (old, new) = pot.fill(request, is_slow, left);
        if old > 0 {
            *served.coming.entry(pot.offer.queue).or_default() += old;
        }
        if new > 0 {
            *served.new.entry(pot.offer.queue).or_default() += new;
        }
    }
}

fn open_new(
    pots: &mut [Pot<'_>],
    (request, work): (&Request, &Work),
    is_slow: bool,
    left: &mut u64,
    served: &mut Served,
) {
    let could = |pot: &Pot<'_>| pot.is_slow() == is_slow && pot.could_open(request);
    let mut order: Vec<usize> = (0..pots.len()).filter(|at| could(&pots[*at])).collect();
    // First those with time for all; of those that are as good the one with fewest workers: its part of the cluster may have more room.
    order.sort_by_key(|at| {
        let pot = &pots[*at];
        let is_short = pot.offer.life <= work.outlasted;
        (is_short, pot.surplus(request), pot.offer.staff, pot.offer.queue)
    });
    for at in order {
        let to_come = |(queue, count): (&QueueId, &u64), is_new| {
            let pot = pots.iter().find(|pot| pot.offer.queue == *queue)?;
            Some(pot.offer.slots_to_come(*count, is_new))
        };
        let coming = served.coming.iter().filter_map(|one| to_come(one, false));
        let coming: Vec<Slots> =
            coming.chain(served.new.iter().filter_map(|one| to_come(one, true))).collect();
        let pot = &mut pots[at];
        let new = if request.nodes > 0 {
            pot.open_whole(request, left)
        } else {
            let (new, held) = pot.open_for(request, (work, &coming), left);
            served.held = held.or(served.held);
            new
        };
        if new > 0 {
            *served.new.entry(pot.offer.queue).or_default() += new;
        }
    }
}

impl Offer {
    /// Why no worker of this queue could ever run such tasks.
    pub fn why_not(&self, requests: &[Request]) -> Option<String> {
        let mut reasons = Vec::new();
        for request in requests {
            match self.lack(request) {
                None => return None,
                Some(reason) => reasons.push(reason),
            }
        }
        reasons.dedup();
        Some(reasons.join("; as another variant: "))
    }

    fn lack(&self, request: &Request) -> Option<String> {
        let kind = Kind {
            resources: &self.resources,
            is_all: self.is_known,
            left: Some(self.life),
            group: self.per_allocation,
        };
        let lacks = kind.lacks(request);
        let first = lacks.iter().min_by_key(|lack| matches!(lack, Lack::Resource { .. }));
        first.map(|lack| match lack {
            Lack::Time { request, left } => format!(
                "a worker of this queue takes tasks for {}, the tasks ask for {}",
                duration::format(*left),
                duration::format(*request)
            ),
            Lack::Group { nodes, size } => format!(
                "an allocation of this queue has {} at most, the tasks ask for {}",
                counted(*size, "worker"),
                counted(*nodes, "node")
            ),
            Lack::Resource { name, has: Amount::ZERO, .. } => format!("a worker of this queue has no {name}"),
            Lack::Resource { name, request: AmountRequest::Some(amount, _), has } => {
                format!("{name}: a worker of this queue has {has}, the tasks ask for {amount}")
            }
            Lack::Resource { name, request: AmountRequest::All, .. } => {
                format!("a worker of this queue has no {name}")
            }
        })
    }

    /// True when workers of this queue could run such tasks, and are there, on their way, or asked for on their behalf.
    pub fn is_for(&self, requests: &[Request]) -> bool {
        self.why_not(requests).is_none() && (!self.pending.is_empty() || self.spares(requests).is_none())
    }

    /// Why workers of this queue are not asked for on behalf of such tasks, although they could run them.
    pub fn spares(&self, requests: &[Request]) -> Option<String> {
        if self.for_any_task {
            return None;
        }
        let idle: Option<Vec<&str>> = requests.iter().map(|request| self.idle_gpus(request)).collect();
        let gpus = idle?.first().copied()?.to_owned();
        Some(format!(
            "its nodes have {gpus}, which the tasks do not need; `hq alloc edit {} --for-any-task` asks for them \
             all the same",
            self.queue
        ))
    }

    // Room for so many tasks on workers that were asked for, or are now.
    fn slots_to_come(&self, count: u64, is_new: bool) -> Slots {
        let pending = u32::try_from(self.pending.len()).unwrap_or(u32::MAX);
        let from = match self.pending.iter().map(|pending| pending.due).sum::<Duration>().checked_div(pending)
        {
            Some(due) if !is_new => due.min(self.cost.wait),
            _ => self.cost.wait,
        };
        Slots { count, from, until: from + self.life }
    }

    // GPUs that a task would leave idle.
    fn idle_gpus(&self, request: &Request) -> Option<&str> {
        let is_gpu = |name: &str| name == GPUS || name.starts_with("gpus/");
        let mut gpus = self.resources.pools.iter().enumerate().filter(|(_, pool)| is_gpu(&pool.name));
        let uses = |at: usize| request.resources.iter().any(|r| self.resources.giver(&r.name) == Some(at));
        let first = gpus.clone().next()?;
        (!request.takes_whole_nodes() && !gpus.any(|(at, _)| uses(at))).then_some(first.1.name.as_str())
    }

    // True when a worker has to say first what it offers.
    fn has_to_ask(&self, request: &Request) -> bool {
        !self.is_known && request.resources.iter().any(|r| self.resources.giver(&r.name).is_none())
    }
}

impl<'a> Pot<'a> {
    fn new(offer: &'a Offer, names: &BTreeSet<&str>, all_need_cpus: bool) -> Pot<'a> {
        let mut resources = offer.resources.clone();
        if !offer.is_known {
            for name in names.iter().filter(|name| offer.resources.giver(name).is_none()) {
                resources.pools.push(ResourcePool { name: (*name).into(), kind: PoolKind::Sum(PLENTY) });
            }
        }
        let mut pot = Pot {
            offer,
            resources,
            thoughts: Vec::new(),
            open: Vec::new(),
            allocations: 0,
            room_in_allocation: 0,
            allocations_left: offer.allocations,
            workers_left: offer.workers,
            is_probing: offer.pending.iter().any(|pending| pending.workers > 0),
            all_need_cpus,
        };
        for pending in &offer.pending {
            let open = pot.open.len();
            for _ in 0..pending.here {
                pot.think_of(pending.life, false, pending.is_slow);
            }
            // What one of them can run alone does not wait.
            pot.open.truncate(open);
            for _ in 0..pending.workers {
                pot.think_of(pending.life, false, pending.is_slow);
            }
            pot.allocations += 1;
        }
        pot
    }

    // The queue lets wait for long.
    fn is_slow(&self) -> bool {
        self.offer.pending.iter().any(|pending| pending.is_slow)
    }

    fn think_of(&mut self, life: Duration, is_new: bool, is_slow: bool) {
        if self.thoughts.len() >= DEMAND_WORKERS_MAX {
            return;
        }
        self.open.push(self.thoughts.len());
        let capacity = Capacity::new(&self.resources);
        let allocation = self.allocations;
        self.thoughts.push(Thought { capacity, life, allocation, is_new, is_slow, is_whole: false });
    }

    // Hands tasks to those that are thought of. Gives how many to workers to come and to new ones.
    fn fill(&mut self, request: &Request, is_slow: bool, left: &mut u64) -> (u64, u64) {
        if request.nodes > 0 {
            return self.fill_whole(request, is_slow, left);
        }
        let Some(needs) = Needs::new(&self.resources, request) else { return (0, 0) };
        let (mut old, mut new) = (0, 0);
        for at in &self.open {
            let thought = &mut self.thoughts[*at];
            if *left == 0 {
                break;
            }
            if thought.life < request.time_request || thought.is_whole || thought.is_slow != is_slow {
                continue;
            }
            let taken = u64::try_from(thought.capacity.room(&needs)).unwrap_or(0).min(*left);
            thought.capacity.promise(&needs, taken);
            *left -= taken;
            *(if thought.is_new { &mut new } else { &mut old }) += taken;
        }
        let thoughts = &self.thoughts;
        let all_need_cpus = self.all_need_cpus;
        self.open.retain(|at| !(all_need_cpus && thoughts[*at].capacity.is_out_of_cpus()));
        (old, new)
    }

    // Tasks on several nodes take whole workers of one allocation.
    fn fill_whole(&mut self, request: &Request, is_slow: bool, left: &mut u64) -> (u64, u64) {
        let (mut old, mut new) = (0, 0);
        for allocation in 0..=self.allocations {
            loop {
                let free = |thought: &Thought| {
                    thought.allocation == allocation
                        && !thought.is_whole
                        && thought.is_slow == is_slow
                        && thought.capacity.is_free()
                        && thought.life >= request.time_request
                };
                let nodes = request.nodes as usize;
                let found: Vec<usize> =
                    (0..self.thoughts.len()).filter(|at| free(&self.thoughts[*at])).take(nodes).collect();
                if *left == 0 || found.len() < nodes {
                    break;
                }
                *(if self.thoughts[found[0]].is_new { &mut new } else { &mut old }) += 1;
                found.into_iter().for_each(|at| self.thoughts[at].is_whole = true);
                *left -= 1;
            }
        }
        (old, new)
    }

    fn could_open(&self, request: &Request) -> bool {
        let has_room = self.workers_left > 0 && (self.allocations_left > 0 || self.room_in_allocation > 0);
        let may_ask = !self.offer.has_to_ask(request) || !self.is_probing;
        let is_meant = self.offer.for_any_task || self.offer.idle_gpus(request).is_none();
        has_room && may_ask && is_meant && self.offer.lack(request).is_none()
    }

    // Kinds of resources that would lie idle, so that a node with GPUs is not asked for what needs none.
    fn surplus(&self, request: &Request) -> usize {
        let pools = self.offer.resources.pools.iter().enumerate();
        let used =
            |at: usize| request.resources.iter().any(|r| self.offer.resources.giver(&r.name) == Some(at));
        pools
            .filter(|(at, pool)| pool.name != CPUS && pool.name != MEM && pool.name != IO && !used(*at))
            .count()
    }

    // Opens workers until all tasks are taken, nothing more may be asked for, or more are not worth it.
    fn open_for(
        &mut self,
        request: &Request,
        (work, coming): (&Work, &[Slots]),
        left: &mut u64,
    ) -> (u64, Option<Held>) {
        let Some(needs) = Needs::new(&self.resources, request) else { return (0, None) };
        let mut taken = 0;
        let slots = Capacity::new(&self.resources).slots(&needs);
        let (mut worth, held) = worth::worthwhile(work, coming, (*left, slots), &self.offer.cost);
        while *left > 0 && worth > 0 && self.could_open(request) && self.thoughts.len() < DEMAND_WORKERS_MAX {
            worth -= 1;
            self.open_worker();
            if self.offer.has_to_ask(request) {
                self.is_probing = true;
            }
            let Some(thought) = self.thoughts.last_mut() else { break };
            let count = thought.capacity.slots(&needs).min(*left);
            thought.capacity.promise(&needs, count);
            *left -= count;
            taken += count;
        }
        (taken, held.filter(|_| worth == 0 && *left > 0))
    }

    fn open_worker(&mut self) {
        if self.room_in_allocation == 0 {
            self.open_allocation(self.offer.per_allocation);
        }
        self.room_in_allocation -= 1;
        self.workers_left -= 1;
        // The last one is the open one.
        self.allocations -= 1;
        self.think_of(self.offer.life, true, false);
        self.allocations += 1;
    }

    fn open_allocation(&mut self, workers: u32) {
        self.allocations += 1;
        self.allocations_left -= 1;
        self.room_in_allocation = workers;
    }

    // An allocation for each task on several nodes, as large as it needs.
    fn open_whole(&mut self, request: &Request, left: &mut u64) -> u64 {
        let mut taken = 0;
        let fits = |pot: &Pot<'_>| {
            pot.allocations_left > 0
                && pot.workers_left >= request.nodes
                && pot.thoughts.len() + request.nodes as usize <= DEMAND_WORKERS_MAX
        };
        while *left > 0 && fits(self) {
            self.open_allocation(request.nodes);
            for _ in 0..request.nodes {
                self.open_worker();
                if let Some(thought) = self.thoughts.last_mut() {
                    thought.is_whole = true;
                }
            }
            // Others may be added up to the limit of an allocation.
            self.room_in_allocation = 0;
            *left -= 1;
            taken += 1;
        }
        taken
    }

    // Allocations that were asked for, of which no worker would get anything.
    fn unneeded(&self) -> Vec<(QueueId, u32)> {
        let is_used = |place: usize| {
            let mut of_it =
                self.thoughts.iter().filter(|thought| thought.allocation == place && !thought.is_new);
            // What was not thought of for want of room is not known.
            let is_known = self.thoughts.len() < DEMAND_WORKERS_MAX;
            !is_known || of_it.any(|thought| thought.is_whole || !thought.capacity.is_free())
        };
        let places = self.offer.pending.iter().enumerate().filter(|(place, _)| !is_used(*place));
        places.map(|(_, pending)| (self.offer.queue, pending.number)).collect()
    }

    // The new allocations, by their workers; without workers that would not start what little they were given.
    fn into_allocations(self) -> Vec<u32> {
        let mut sizes: BTreeMap<usize, u32> = BTreeMap::new();
        let least = u64::from(self.offer.min_utilization).min(UNITS);
        for thought in self.thoughts.iter().filter(|thought| thought.is_new) {
            if thought.is_whole || thought.capacity.used_cpus() >= least {
                *sizes.entry(thought.allocation).or_default() += 1;
            }
        }
        sizes.into_values().collect()
    }
}

/// What one worker of a queue offers, put together: what the user declared goes before what the batch system says of
/// its nodes.
pub fn shape(declared: &[ResourcePool], nodes: Option<&WorkerResources>) -> WorkerResources {
    let mut pools = declared.to_vec();
    let is_declared = |name: &str| {
        declared.iter().any(|pool| pool.name == name || name == GPUS && pool.name.starts_with("gpus/"))
    };
    let more = nodes.into_iter().flat_map(|nodes| &nodes.pools).filter(|pool| !is_declared(&pool.name));
    pools.extend(more.cloned());
    WorkerResources::new(pools, Vec::new()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
