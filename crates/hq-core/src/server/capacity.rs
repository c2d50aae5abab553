//! How much of what a worker offers is promised, and how many tasks of a class still fit.
//!
//! The server counts amounts per pool; which indices a task gets is the worker's business. A worker
//! may be promised more than it has: the excess is its backlog.

use hq_model::amount::UNITS;
use hq_model::request::CPUS;
use hq_model::{Amount, AmountRequest, Request, WorkerResources};

/// Amounts of one worker, by pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capacity {
    pools: Vec<Pool>,
    // Where the CPUs are.
    cpus: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
struct Pool {
    total: Amount,
    // Over `total` when there is a backlog.
    promised: u64,
}

/// A request resolved against a worker's pools: index and units of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Needs(Vec<(usize, u64)>);

impl Needs {
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
        if request.takes_whole_nodes() {
            let totals = resources.pools.iter().map(|pool| pool.kind.total().0).enumerate();
            return Some(Needs(totals.filter(|(_, total)| *total > 0).collect()));
        }
        Some(Needs(needs))
    }

    /// Units of a pool that are needed.
    pub fn units_of(&self, pool: usize) -> u64 {
        self.0.iter().filter(|need| need.0 == pool).map(|need| need.1).sum()
    }
}

impl Capacity {
    /// A worker with nothing promised.
    pub fn new(resources: &WorkerResources) -> Capacity {
        let pool = |p: &hq_model::ResourcePool| Pool { total: p.kind.total(), promised: 0 };
        let cpus = resources.pools.iter().position(|pool| pool.name == CPUS);
        Capacity { pools: resources.pools.iter().map(pool).collect(), cpus }
    }

    /// How many such tasks run here at once when nothing else does.
    pub fn slots(&self, needs: &Needs) -> u64 {
        needs.0.iter().map(|&(pool, units)| self.pools[pool].total.0 / units).min().unwrap_or(u64::MAX)
    }

    /// How many more such tasks fit beside all that is promised; negative when more is promised than
    /// there is, by so many.
    pub fn room(&self, needs: &Needs) -> i64 {
        let room = |&(pool, units): &(usize, u64)| {
            let pool = &self.pools[pool];
            let free = i128::from(pool.total.0) - i128::from(pool.promised);
            free.div_euclid(i128::from(units)) as i64
        };
        needs.0.iter().map(room).min().unwrap_or(i64::MAX)
    }

    /// The pool that lets fewest such tasks in: its index, what is free of it, and what one task takes.
    pub fn scarcest(&self, needs: &Needs) -> (usize, Amount, Amount) {
        let free = |&(pool, units): &(usize, u64)| {
            let pool_of = &self.pools[pool];
            (pool, Amount(pool_of.total.0.saturating_sub(pool_of.promised)), Amount(units))
        };
        let scarcest = needs.0.iter().map(free).min_by_key(|(_, free, units)| free.0 / units.0.max(1));
        scarcest.unwrap_or_default()
    }

    /// What is not promised, pool by pool.
    pub fn free(&self) -> impl Iterator<Item = Amount> + '_ {
        self.pools.iter().map(|pool| Amount(pool.total.0.saturating_sub(pool.promised)))
    }

    /// Promises `count` tasks.
    pub fn promise(&mut self, needs: &Needs, count: u64) {
        for &(pool, units) in &needs.0 {
            self.pools[pool].promised += units * count;
        }
    }

    /// Takes back the promise for `count` tasks.
    pub fn release(&mut self, needs: &Needs, count: u64) {
        for &(pool, units) in &needs.0 {
            let pool = &mut self.pools[pool];
            assert!(pool.promised >= units * count, "nothing is released that was not promised");
            pool.promised -= units * count;
        }
    }

    /// The part of the CPUs that is promised, in 1/10000; all when there are none.
    pub fn used_cpus(&self) -> u64 {
        let Some(cpus) = self.cpus.map(|cpus| &self.pools[cpus]) else { return UNITS };
        (cpus.promised.saturating_mul(UNITS) / cpus.total.0.max(1)).min(UNITS)
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
    pub fn has_backlog(&self) -> bool {
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
        ] {
            let needs = Needs::new(&resources(), &request(parts));
            assert_eq!(needs.map(|n| capacity.slots(&n)), slots, "{parts:?}");
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
