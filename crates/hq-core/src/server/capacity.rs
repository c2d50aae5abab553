//! How much of what a worker offers is promised, and how many tasks of a class still fit.
//!
//! The server counts amounts per pool; which indices a task gets is the worker's business. Of tasks that cannot be cut to
//! fill a pool, such as those that ask for fractions or with strict policies, it also counts how many run at once. Room is
//! promised to what was placed into it. What waits on a worker for room, its backlog, is counted apart, and only as much
//! of the one pool that it is likely to wait for: it takes nothing from anybody.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use hq_model::amount::UNITS;
use hq_model::request::CPUS;
use hq_model::{Amount, AmountRequest, Request, WorkerResources};

use crate::worker::pools;

/// How tasks stand among those that wait on a worker: their priority, and their head start among those of equal priority.
pub type Standing = (i32, Duration);

/// Amounts of one worker, by pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capacity {
    pools: Vec<Pool>,
    // Where the CPUs are.
    cpus: Option<usize>,
    // Promised tasks of which fewer run at once than amounts say.
    counted: BTreeMap<Needs, u64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Pool {
    total: Amount,
    promised: u64,
    // What the backlog waits for.
    queued: BTreeMap<Standing, u64>,
}

/// A request resolved against a worker's pools.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Needs {
    // Index and units of each.
    units: Vec<(usize, u64)>,
    // So many run at once on an idle worker, where amounts say more.
    at_once: Option<u64>,
}

impl Needs {
    /// Of a task that runs beside any number of others.
    pub fn is_nothing(&self) -> bool {
        self.units.is_empty()
    }

    /// What a request takes of a worker that offers `resources`, or of each of them; `None` when it could never run it.
    pub fn new(resources: &WorkerResources, request: &Request) -> Option<Needs> {
        let ranks = u64::from(request.ranks.max(1));
        let mut needs = Vec::with_capacity(request.resources.len());
        for resource in &request.resources {
            let index = resources.giver(&resource.name)?;
            let total = resources.pools[index].kind.total().0;
            let units = match resource.amount {
                AmountRequest::All => total,
                AmountRequest::Some(amount, _) => amount.0.saturating_mul(ranks),
            };
            if units > total || units == 0 {
                return None;
            }
            needs.push((index, units));
        }
        if pools::never_starts(resources, request) {
            return None;
        }
        if request.takes_whole_nodes() {
            let totals = resources.pools.iter().map(|pool| pool.kind.total().0).enumerate();
            let units = totals.filter(|(_, total)| *total > 0).collect();
            return Some(Needs { units, at_once: None });
        }
        let total = |pool: usize| resources.pools[pool].kind.total().0;
        let by_amount = needs.iter().map(|(pool, units)| total(*pool) / units).min();
        let at_once = by_amount.and_then(|most| pools::at_once(resources, request, most));
        if at_once == Some(0) {
            return None;
        }
        Some(Needs { units: needs, at_once })
    }

    /// The pool of which one task takes the largest part, with the units that it takes.
    fn binding(&self, pools: &[Pool]) -> Option<(usize, u64)> {
        let part = |need: &&(usize, u64)| {
            let total = pools[need.0].total.0.max(1);
            (u128::from(need.1) * u128::from(UNITS) / u128::from(total), Reverse(need.0))
        };
        self.units.iter().max_by_key(part).copied()
    }

    /// The pools that are needed, as a set.
    pub fn pools(&self) -> u64 {
        self.units.iter().fold(0, |mask, need| mask | pool_bit(need.0))
    }

    /// The same, but nothing of one pool.
    pub fn without(&self, pool: usize) -> Needs {
        Needs { units: self.units.iter().filter(|need| need.0 != pool).copied().collect(), at_once: None }
    }

    /// Units of a pool that are needed.
    pub fn units_of(&self, pool: usize) -> u64 {
        self.units.iter().filter(|need| need.0 == pool).map(|need| need.1).sum()
    }
}

/// Tasks that ask for nothing run beside any number of others. This is more than any job has, and those of all workers can be
/// added.
pub(super) const SLOTS_MAX: u64 = 1 << 40;

// The bit of a pool in a set of pools; those beyond the 64th are in none.
fn pool_bit(pool: usize) -> u64 {
    if pool < 64 { 1 << pool } else { 0 }
}

impl Capacity {
    /// A worker with nothing promised.
    pub fn new(resources: &WorkerResources) -> Capacity {
        let pool =
            |p: &hq_model::ResourcePool| Pool { total: p.kind.total(), promised: 0, queued: BTreeMap::new() };
        let cpus = resources.pools.iter().position(|pool| pool.name == CPUS);
        Capacity { pools: resources.pools.iter().map(pool).collect(), cpus, counted: BTreeMap::new() }
    }

    /// The same with nothing promised.
    pub fn emptied(&self) -> Capacity {
        let pool = |pool: &Pool| Pool { total: pool.total, promised: 0, queued: BTreeMap::new() };
        Capacity { pools: self.pools.iter().map(pool).collect(), cpus: self.cpus, counted: BTreeMap::new() }
    }

    /// A relay wants so many tasks altogether.
    pub fn set_total(&mut self, tasks: u64) {
        for pool in &mut self.pools {
            pool.total = Amount::whole(tasks);
        }
    }

    /// How many such tasks run here at once when nothing else does: `SLOTS_MAX` at most.
    pub fn slots(&self, needs: &Needs) -> u64 {
        let by_amount = needs.units.iter().map(|&(pool, units)| self.pools[pool].total.0 / units).min();
        needs.at_once.or(by_amount).unwrap_or(SLOTS_MAX).min(SLOTS_MAX)
    }

    /// How many more such tasks fit beside all that is promised; negative when more is promised than
    /// there is, by so many.
    pub fn room(&self, needs: &Needs) -> i64 {
        self.room_beside(needs, |pool| pool.promised)
    }

    /// How many such tasks would fit if that part of the backlog which does not let tasks that stand so go first had
    /// what it waits for; negative when it is larger.
    pub fn room_behind_backlog(&self, needs: &Needs, standing: Standing) -> i64 {
        let before = |pool: &Pool| pool.queued.range(standing..).map(|queued| queued.1).sum::<u64>();
        self.room_beside(needs, |pool| pool.promised.saturating_add(before(pool)))
    }

    fn room_beside(&self, needs: &Needs, taken: impl Fn(&Pool) -> u64) -> i64 {
        let room = |&(pool, units): &(usize, u64)| {
            let pool = &self.pools[pool];
            let free = i128::from(pool.total.0) - i128::from(taken(pool));
            free.div_euclid(i128::from(units)) as i64
        };
        let alike =
            needs.at_once.map(|most| most as i64 - self.counted.get(needs).copied().unwrap_or(0) as i64);
        needs.units.iter().map(room).chain(alike).min().unwrap_or(i64::MAX)
    }

    /// The pools of which nothing is free, as a set.
    pub fn exhausted(&self) -> u64 {
        let is_out = |pool: &usize| self.free_of(*pool) == 0;
        (0..self.pools.len()).filter(is_out).fold(0, |mask, pool| mask | pool_bit(pool))
    }

    /// The pools of which less is free than one such task takes, as a set.
    pub fn scarce(&self, needs: &Needs) -> u64 {
        let is_scarce = |need: &&(usize, u64)| self.free_of(need.0) < need.1;
        needs.units.iter().filter(is_scarce).fold(0, |mask, need| mask | pool_bit(need.0))
    }

    /// The pools of which too little is free for such a task, where enough of all of them would be if all ended that take less
    /// than it does, of `promised`: needs, and how many tasks have them. Otherwise something has to end that leaves enough of
    /// one of them by itself, and until then nothing that is free is of use.
    pub fn gathered<'a>(
        &self,
        needs: &Needs,
        promised: impl Iterator<Item = (&'a Needs, u64)> + Clone,
    ) -> u64 {
        let scarce = self.scarce(needs);
        let is_gathered = |&(pool, units): &(usize, u64)| {
            let (free, each) =
                (self.free_of(pool), promised.clone().map(|(of, count)| (of.units_of(pool), count)));
            let smaller =
                each.filter(|(each, _)| *each < units).map(|(each, count)| each.saturating_mul(count));
            smaller.fold(free, u64::saturating_add) >= units
        };
        if needs.units.iter().all(is_gathered) { scarce } else { 0 }
    }

    fn free_of(&self, pool: usize) -> u64 {
        let pool = &self.pools[pool];
        pool.total.0.saturating_sub(pool.promised)
    }

    /// The pool that lets fewest such tasks in: its index, what is free of it, and what one task takes.
    pub fn scarcest(&self, needs: &Needs) -> (usize, Amount, Amount) {
        // Of pools that are as scarce now, the one that never lets many in.
        let fit = |(pool, units): &&(usize, u64)| {
            (self.free_of(*pool) / (*units).max(1), self.pools[*pool].total.0 / (*units).max(1))
        };
        let scarcest = needs.units.iter().min_by_key(fit);
        scarcest.map(|&(pool, units)| (pool, Amount(self.free_of(pool)), Amount(units))).unwrap_or_default()
    }

    /// The pools of which too little is free for one such task: the index, what is free, and what it takes. Where there is
    /// enough of each, though not together, the scarcest one.
    pub fn lacking(&self, needs: &Needs) -> Vec<(usize, Amount, Amount)> {
        let lacks = |&&(pool, units): &&(usize, u64)| self.free_of(pool) < units;
        let lacking = needs.units.iter().filter(lacks);
        let lacking: Vec<_> =
            lacking.map(|&(pool, units)| (pool, Amount(self.free_of(pool)), Amount(units))).collect();
        if lacking.is_empty() { vec![self.scarcest(needs)] } else { lacking }
    }

    /// What is not promised, pool by pool.
    pub fn free(&self) -> impl Iterator<Item = Amount> + '_ {
        self.pools.iter().map(|pool| Amount(pool.total.0.saturating_sub(pool.promised)))
    }

    /// Promises `count` tasks.
    pub fn promise(&mut self, needs: &Needs, count: u64) {
        for &(pool, units) in &needs.units {
            self.pools[pool].promised += units * count;
        }
        if needs.at_once.is_some() && count > 0 {
            *self.counted.entry(needs.clone()).or_default() += count;
        }
    }

    /// Takes back the promise for `count` tasks.
    pub fn release(&mut self, needs: &Needs, count: u64) {
        for &(pool, units) in &needs.units {
            let pool = &mut self.pools[pool];
            assert!(pool.promised >= units * count, "nothing is released that was not promised");
            pool.promised -= units * count;
        }
        if let Some(counted) = self.counted.get_mut(needs) {
            *counted -= count;
            if *counted == 0 {
                self.counted.remove(needs);
            }
        }
    }

    /// Tasks wait for room. Returns what of it is counted for each of them.
    pub fn queue(&mut self, needs: &Needs, standing: Standing, count: u64) -> Option<(usize, u64)> {
        let counts = needs.binding(&self.pools)?;
        self.queue_as(counts, standing, count);
        Some(counts)
    }

    /// So many more wait as those of before, of which each counts for so much.
    pub fn queue_as(&mut self, (pool, units): (usize, u64), standing: Standing, count: u64) {
        if count > 0 {
            *self.pools[pool].queued.entry(standing).or_default() += units * count;
        }
    }

    /// So many do not wait any more.
    pub fn unqueue(&mut self, (pool, units): (usize, u64), standing: Standing, count: u64) {
        let queued = self.pools[pool].queued.get_mut(&standing).filter(|queued| **queued >= units * count);
        assert!(queued.is_some() || count == 0, "nothing leaves the backlog that was not in it");
        if let Some(queued) = queued {
            *queued -= units * count;
            if *queued == 0 {
                self.pools[pool].queued.remove(&standing);
            }
        }
    }

    /// The part of the CPUs that is promised, in 1/10000; all when there are none.
    pub fn used_cpus(&self) -> u64 {
        self.used_cpus_with(0)
    }

    /// The same, with so many units more.
    pub fn used_cpus_with(&self, more: u64) -> u64 {
        let Some(cpus) = self.cpus.map(|cpus| &self.pools[cpus]) else { return UNITS };
        let used = cpus.promised.saturating_add(more);
        (used.saturating_mul(UNITS) / cpus.total.0.max(1)).min(UNITS)
    }

    /// What tasks need when they have lent their CPUs.
    pub fn without_cpus(&self, needs: &Needs) -> Needs {
        self.cpus.map_or_else(|| needs.clone(), |cpus| needs.without(cpus))
    }

    /// Units of CPUs that are needed.
    pub fn cpus_of(&self, needs: &Needs) -> u64 {
        self.cpus.map_or(0, |cpus| needs.units_of(cpus))
    }

    /// Units of CPUs that are not promised.
    pub fn free_cpus(&self) -> u64 {
        let cpus = self.cpus.map(|cpus| &self.pools[cpus]);
        cpus.map_or(0, |cpus| cpus.total.0.saturating_sub(cpus.promised))
    }

    /// True when all CPUs are promised, or there are none.
    pub fn is_out_of_cpus(&self) -> bool {
        self.free_cpus() == 0
    }

    /// True when more is promised than there is.
    pub fn is_overdrawn(&self) -> bool {
        self.pools.iter().any(|p| p.promised > p.total.0)
    }

    /// True when nothing is promised.
    pub fn is_free(&self) -> bool {
        self.pools.iter().all(|p| p.promised == 0)
    }
}

#[cfg(test)]
mod tests {
    use hq_model::{Policy, PoolKind, ResourcePool, ResourceRequest};

    use super::*;

    fn resources() -> WorkerResources {
        let pool = |name: &str, kind| ResourcePool { name: name.into(), kind };
        WorkerResources {
            pools: vec![
                pool("cpus", PoolKind::Range { first: 0, last: 3 }),
                pool("mem", PoolKind::Sum(Amount::whole(1000))),
            ],
            coupling: Vec::new(),
        }
    }

    fn request(parts: &[(&str, u64)]) -> Request {
        let resource = |&(name, units): &(&str, u64)| ResourceRequest {
            name: name.into(),
            amount: AmountRequest::Some(Amount(units), Policy::Compact),
        };
        Request { resources: parts.iter().map(resource).collect(), ..Request::default() }
    }

    #[test]
    fn the_scarcest_pool_decides() {
        let capacity = Capacity::new(&resources());
        for (parts, slots) in [
            (&[("cpus", 10_000)][..], Some(4)),
            (&[("cpus", 5_000)], Some(8)),
            (&[("cpus", 10_000), ("mem", 4_000_000)], Some(2)),
            (&[("cpus", 50_000)], None),
            (&[("gpus", 10_000)], None),
            (&[], Some(SLOTS_MAX)),
        ] {
            let needs = Needs::new(&resources(), &request(parts));
            assert_eq!(needs.map(|n| capacity.slots(&n)), slots, "{parts:?}");
        }
    }

    #[test]
    fn a_backlog_takes_no_room_and_counts_for_what_it_waits_for() {
        let mut capacity = Capacity::new(&resources());
        let small = Needs::new(&resources(), &request(&[("cpus", 10_000)])).expect("fits");
        let large = Needs::new(&resources(), &request(&[("cpus", 10_000), ("mem", 6_000_000)]));
        let large = large.expect("fits");
        capacity.promise(&large, 1);
        let standing = |priority, seconds| (priority, Duration::from_secs(seconds));
        let waits = capacity.queue(&large, standing(1, 2), 3).expect("it takes something");
        assert_eq!((capacity.room(&small), capacity.room(&large)), (3, 0));
        let behind = |priority, seconds| {
            [&small, &large].map(|needs| capacity.room_behind_backlog(needs, standing(priority, seconds)))
        };
        assert_eq!((behind(0, 9), behind(2, 0)), ([3, -3], [3, 0]), "larger priority goes first");
        assert_eq!((behind(1, 2), behind(1, 3)), ([3, -3], [3, 0]), "then a larger head start");
        assert_eq!(capacity.scarce(&large), 0b10, "it lacks no CPU");
        capacity.unqueue(waits, standing(1, 2), 3);
        capacity.release(&large, 1);
        assert_eq!(capacity, Capacity::new(&resources()));
    }

    #[test]
    fn what_cannot_be_cut_is_counted_by_what_runs_at_once() {
        let node = |cpus: &str| {
            let pool = hq_model::resources::parse_pool("cpus", cpus).expect("a pool");
            WorkerResources::new(vec![pool], Vec::new()).expect("resources")
        };
        for (cpus, asked, slots) in [
            ("2x3", "2 compact!", 2),
            ("2x3", "2 tight!", 2),
            ("2x3", "2", 3),
            ("2x3", "1 compact!", 6),
            ("2x3", "4 compact!", 1),
            ("4", "0.6", 4),
            ("4", "0.5", 8),
            ("4", "1.5", 2),
            ("4", "1.6", 2),
            ("5", "1.6", 2),
        ] {
            let resources = node(cpus);
            let amount = hq_model::request::parse_amount("cpus", asked).expect("an amount");
            let asked_for = vec![ResourceRequest { name: "cpus".into(), amount }];
            let request = Request { resources: asked_for, ..Request::default() };
            let needs = Needs::new(&resources, &request).expect("it could run");
            let mut capacity = Capacity::new(&resources);
            assert_eq!(
                (capacity.slots(&needs), capacity.room(&needs)),
                (slots, slots as i64),
                "{cpus} {asked}"
            );
            capacity.promise(&needs, slots);
            assert!(!capacity.is_overdrawn(), "{cpus} {asked}");
            capacity.promise(&needs, 2);
            assert_eq!(capacity.room(&needs).min(-1), capacity.room(&needs), "{cpus} {asked}");
            capacity.release(&needs, slots + 2);
            assert_eq!(capacity, Capacity::new(&resources));
        }
    }

    #[test]
    fn more_may_be_promised_than_there_is() {
        let mut capacity = Capacity::new(&resources());
        let needs = Needs::new(&resources(), &request(&[("cpus", 20_000)])).expect("fits");
        capacity.promise(&needs, 5);
        assert_eq!(capacity.room(&needs), -3);
        capacity.release(&needs, 4);
        assert_eq!(capacity.room(&needs), 1);
        capacity.release(&needs, 1);
        assert!(capacity.is_free());
    }
}
