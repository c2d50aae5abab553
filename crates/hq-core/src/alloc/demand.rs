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
use hq_model::request::{CPUS, GPUS, MEM};
use hq_model::{Amount, AmountRequest, PoolKind, QueueId, Request, ResourcePool, WorkerResources, duration};

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
    /// The part of its CPUs that must be used when a worker starts something, in 1/10000.
    pub min_utilization: u32,
}

/// An allocation that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Workers of it that are to come.
    pub workers: u32,
    /// Workers of it that are there and have nothing to do: with those to come they may take a task on several nodes.
    pub here: u32,
    /// How long they take tasks.
    pub life: Duration,
    /// It has waited for long: another queue may be faster.
    pub is_slow: bool,
}

/// What came out for all queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// Workers of each allocation to ask for.
    pub new: BTreeMap<QueueId, Vec<u32>>,
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
    for at in order.into_iter().take(DEMAND_CLASSES_MAX) {
        let class = &classes[at];
        let mut left = class.waiting;
        // First who will be there soon, then queues that let nobody wait for long.
        for is_slow in [false, true] {
            for request in by_preference(class.requests) {
                fill_coming(&mut pots, request, is_slow, &mut left, &mut served[at]);
            }
            for request in by_preference(class.requests) {
                if left > 0 {
                    open_new(&mut pots, request, is_slow, &mut left, &mut served[at]);
                }
            }
        }
        served[at].left = left;
    }
    let new = pots.into_iter().map(|pot| (pot.offer.queue, pot.into_allocations()));
    Matched { new: new.filter(|(_, new)| !new.is_empty()).collect(), classes: served }
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

fn open_new(pots: &mut [Pot<'_>], request: &Request, is_slow: bool, left: &mut u64, served: &mut Served) {
    let could = |pot: &Pot<'_>| pot.is_slow() == is_slow && pot.could_open(request);
    let mut order: Vec<usize> = (0..pots.len()).filter(|at| could(&pots[*at])).collect();
    order.sort_by_key(|at| (pots[*at].surplus(request), pots[*at].offer.queue));
    for at in order {
        let pot = &mut pots[at];
        let new = if request.nodes > 0 { pot.open_whole(request, left) } else { pot.open_for(request, left) };
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
                "an allocation of this queue has {size} workers at most, the tasks ask for {nodes} nodes"
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
        has_room && may_ask && self.offer.lack(request).is_none()
    }

    // Kinds of resources that would lie idle, so that a node with GPUs is not asked for what needs none.
    fn surplus(&self, request: &Request) -> usize {
        let pools = self.offer.resources.pools.iter().enumerate();
        let used =
            |at: usize| request.resources.iter().any(|r| self.offer.resources.giver(&r.name) == Some(at));
        pools.filter(|(at, pool)| pool.name != CPUS && pool.name != MEM && !used(*at)).count()
    }

    // Opens workers until all tasks are taken or nothing more may be asked for.
    fn open_for(&mut self, request: &Request, left: &mut u64) -> u64 {
        let Some(needs) = Needs::new(&self.resources, request) else { return 0 };
        let mut taken = 0;
        while *left > 0 && self.could_open(request) && self.thoughts.len() < DEMAND_WORKERS_MAX {
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
        taken
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
mod tests {
    use hq_model::{Policy, ResourceRequest};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn pools(parts: &[(&str, u64)]) -> WorkerResources {
        let pool = |(name, count): &(&str, u64)| ResourcePool {
            name: (*name).into(),
            kind: PoolKind::Sum(Amount::whole(*count)),
        };
        WorkerResources { pools: parts.iter().map(pool).collect(), coupling: Vec::new() }
    }

    fn request(parts: &[(&str, u64)]) -> Request {
        let resource = |(name, count): &(&str, u64)| ResourceRequest {
            name: (*name).into(),
            amount: AmountRequest::Some(Amount::whole(*count), Policy::Compact),
        };
        Request { resources: parts.iter().map(resource).collect(), weight: 10_000, ..Request::default() }
    }

    fn class(requests: &[Request], waiting: u64) -> Class<'_> {
        Class { priority: 0, requests, waiting }
    }

    fn offer(queue: u32, resources: WorkerResources) -> Offer {
        Offer {
            queue: QueueId(queue),
            resources,
            is_known: true,
            life: HOUR,
            pending: Vec::new(),
            allocations: 10,
            workers: u32::MAX,
            per_allocation: 1,
            min_utilization: 0,
        }
    }

    fn soon(workers: u32) -> Pending {
        Pending { workers, here: 0, life: HOUR, is_slow: false }
    }

    fn new(matched: &Matched) -> Vec<(u32, Vec<u32>)> {
        matched.new.iter().map(|(queue, sizes)| (queue.0, sizes.clone())).collect()
    }

    #[test]
    fn as_many_workers_as_the_tasks_fill() {
        let one = [request(&[("cpus", 1)])];
        for (waiting, sizes) in [(1, vec![1]), (4, vec![1]), (5, vec![1, 1]), (1000, vec![1; 10])] {
            let matched = matched(&[class(&one, waiting)], &[offer(1, pools(&[("cpus", 4)]))]);
            assert_eq!(new(&matched), [(1, sizes)], "{waiting}");
        }
        let offer =
            Offer { per_allocation: 4, allocations: 2, workers: 7, ..offer(1, pools(&[("cpus", 4)])) };
        assert_eq!(new(&matched(&[class(&one, 1000)], std::slice::from_ref(&offer))), [(1, vec![4, 3])]);
        assert_eq!(new(&matched(&[class(&one, 9)], &[offer])), [(1, vec![3])]);
    }

    #[test]
    fn what_is_on_its_way_is_not_asked_for_again() {
        let one = [request(&[("cpus", 1)])];
        let offer = Offer { pending: vec![soon(2), soon(1)], ..offer(1, pools(&[("cpus", 4)])) };
        let all = matched(&[class(&one, 12)], std::slice::from_ref(&offer));
        assert_eq!((new(&all), all.classes[0].coming[&QueueId(1)]), (vec![], 12));
        assert_eq!(new(&matched(&[class(&one, 13)], &[offer])), [(1, vec![1])]);
    }

    #[test]
    fn one_that_has_waited_for_long_is_no_reason_to_leave_another_queue_alone() {
        let one = [request(&[("cpus", 1)])];
        let slow = Pending { is_slow: true, ..soon(1) };
        let slow = Offer { pending: vec![slow], ..offer(1, pools(&[("cpus", 4)])) };
        let asked = |waiting: u64, other: &Offer| {
            new(&matched(&[class(&one, waiting)], &[slow.clone(), other.clone()]))
        };
        // The other queue, and what goes beyond it stays with the first.
        let other = Offer { allocations: 2, ..offer(2, pools(&[("cpus", 4)])) };
        assert_eq!(asked(4, &other), [(2, vec![1])]);
        assert_eq!(asked(13, &other), [(1, vec![1]), (2, vec![1, 1])]);
        // Both have been asked.
        assert_eq!(asked(4, &Offer { pending: vec![soon(1)], ..other.clone() }), []);
        // A queue alone waits.
        assert_eq!(new(&matched(&[class(&one, 4)], std::slice::from_ref(&slow))), []);
    }

    #[test]
    fn queues_share_the_work() {
        let (cpu, gpu) = ([request(&[("cpus", 1)])], [request(&[("cpus", 1), ("gpus", 1)])]);
        let offers = [offer(1, pools(&[("cpus", 4), ("gpus/nvidia", 2)])), offer(2, pools(&[("cpus", 4)]))];
        // The GPU tasks leave two CPUs of each of their two workers free.
        let all = matched(&[class(&cpu, 8), class(&gpu, 4)], &offers);
        assert_eq!(new(&all), [(1, vec![1, 1]), (2, vec![1])]);
        assert_eq!(all.classes[0].new, BTreeMap::from([(QueueId(1), 4), (QueueId(2), 4)]));
        // Without GPU tasks, no GPU node is asked for.
        assert_eq!(new(&matched(&[class(&cpu, 8)], &offers)), [(2, vec![1, 1])]);
        // Unless the other queue may not ask.
        let closed = [offers[0].clone(), Offer { allocations: 0, ..offers[1].clone() }];
        assert_eq!(new(&matched(&[class(&cpu, 8)], &closed)), [(1, vec![1, 1])]);
    }

    #[test]
    fn variants_take_what_there_is() {
        let variants = [request(&[("cpus", 1), ("gpus", 1)]), request(&[("cpus", 4)])];
        let cpu = offer(1, pools(&[("cpus", 4)]));
        assert_eq!(new(&matched(&[class(&variants, 2)], std::slice::from_ref(&cpu))), [(1, vec![1, 1])]);
        let gpu = Offer { allocations: 1, ..offer(2, pools(&[("cpus", 4), ("gpus/amd", 2)])) };
        // The preferred variant first, then the other one.
        assert_eq!(new(&matched(&[class(&variants, 4)], &[cpu, gpu])), [(1, vec![1, 1]), (2, vec![1])]);
    }

    #[test]
    fn what_never_fits_is_not_asked_for_and_said() {
        let offer = offer(1, pools(&[("cpus", 4)]));
        for (request, text) in [
            (request(&[("cpus", 5)]), "cpus: a worker of this queue has 4, the tasks ask for 5"),
            (request(&[("gpus", 1)]), "a worker of this queue has no gpus"),
            (
                Request { time_request: HOUR * 2, ..request(&[("cpus", 1)]) },
                "a worker of this queue takes tasks for 1h, the tasks ask for 2h",
            ),
            (
                Request { nodes: 1, ranks: 5, ..request(&[("cpus", 1)]) },
                "cpus: a worker of this queue has 4, the tasks ask for 5",
            ),
            (
                Request { nodes: 2, ..Request::default() },
                "an allocation of this queue has 1 workers at most, the tasks ask for 2 nodes",
            ),
        ] {
            let requests = [request];
            let all = matched(&[class(&requests, 3)], std::slice::from_ref(&offer));
            assert_eq!((new(&all), all.classes[0].left), (vec![], 3));
            assert_eq!(offer.why_not(&requests).as_deref(), Some(text));
        }
    }

    #[test]
    fn one_worker_is_asked_for_to_see_what_it_offers() {
        let one = [request(&[("cpus", 1)])];
        let unknown = Offer { is_known: false, per_allocation: 4, ..offer(1, WorkerResources::default()) };
        assert_eq!(new(&matched(&[class(&one, 1000)], std::slice::from_ref(&unknown))), [(1, vec![1])]);
        let asked = Offer { pending: vec![soon(1)], ..unknown.clone() };
        assert_eq!(new(&matched(&[class(&one, 1000)], &[asked])), []);
        // What was declared is enough for tasks that ask for nothing else.
        let declared = Offer { resources: pools(&[("cpus", 4)]), ..unknown };
        assert_eq!(new(&matched(&[class(&one, 10)], std::slice::from_ref(&declared))), [(1, vec![3])]);
        let gpu = [request(&[("cpus", 1), ("gpus", 1)])];
        assert_eq!(new(&matched(&[class(&gpu, 10)], &[declared])), [(1, vec![1])]);
    }

    #[test]
    fn a_task_on_several_nodes_gets_an_allocation_of_its_size() {
        let several = [Request { nodes: 3, ..Request::default() }];
        let offer = Offer { per_allocation: 4, ..offer(1, pools(&[("cpus", 4)])) };
        assert_eq!(new(&matched(&[class(&several, 2)], std::slice::from_ref(&offer))), [(1, vec![3, 3])]);
        let coming = Offer { pending: vec![soon(2), soon(3)], ..offer.clone() };
        assert_eq!(new(&matched(&[class(&several, 2)], &[coming])), [(1, vec![3])]);
        // Some of its workers are there before the others.
        let coming = Offer { pending: vec![Pending { here: 1, ..soon(2) }], ..offer };
        assert_eq!(new(&matched(&[class(&several, 1)], std::slice::from_ref(&coming))), []);
        let one = [request(&[("cpus", 4)])];
        let all = matched(&[class(&one, 3)], &[coming]);
        assert_eq!(all.classes[0].coming[&QueueId(1)], 2, "what is there takes no more of these");
    }

    #[test]
    fn workers_that_would_start_nothing_are_not_asked_for() {
        let one = [request(&[("cpus", 1)])];
        let picky = Offer { min_utilization: 5_000, ..offer(1, pools(&[("cpus", 4)])) };
        assert_eq!(new(&matched(&[class(&one, 5)], std::slice::from_ref(&picky))), [(1, vec![1])]);
        assert_eq!(new(&matched(&[class(&one, 6)], &[picky])), [(1, vec![1, 1])]);
    }

    #[test]
    fn larger_priority_goes_first_where_not_all_may_be_asked_for() {
        let (cpu, gpu) = ([request(&[("cpus", 4)])], [request(&[("gpus", 1)])]);
        let offer = Offer { allocations: 1, ..offer(1, pools(&[("cpus", 4), ("gpus", 1)])) };
        let first = Class { priority: 1, ..class(&cpu, 3) };
        let all = matched(&[class(&gpu, 9), first], &[offer]);
        assert_eq!((all.classes[0].left, all.classes[1].left), (8, 2));
    }

    #[test]
    fn a_declared_pool_goes_before_what_nodes_have() {
        let declared = pools(&[("cpus", 2)]).pools;
        let nodes = pools(&[("cpus", 8), ("mem", 100)]);
        let shape = shape(&declared, Some(&nodes));
        let shown: Vec<_> =
            shape.pools.iter().map(|p| (p.name.as_str(), p.kind.total().to_string())).collect();
        assert_eq!(shown, [("cpus", "2".to_owned()), ("mem", "100".to_owned())]);
    }
}
