//! Which indices of its pools a worker gives to which task.
//!
//! Deterministic: equal histories give equal indices. Freed indices are used again first, which
//! keeps caches warm.

mod coupling;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hq_model::amount::UNITS;
use hq_model::{Amount, AmountRequest, Policy, PoolKind, Request, WorkerResources};

use super::{AllocatedResource, Allocation};
use coupling::Coupling;

/// The pools of a worker and what is free of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Pools {
    resources: WorkerResources,
    pools: Vec<Pool>,
    coupling: Coupling,
}

#[derive(Clone, Debug, PartialEq)]
enum Pool {
    Sum { total: u64, free: u64 },
    Indexed(Indexed),
}

#[derive(Clone, Debug, PartialEq)]
struct Indexed {
    total: u64,
    free: u64,
    groups: Vec<Group>,
    // Group of each index.
    group_of: Vec<u32>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Group {
    // Whole indices, from the largest to the smallest: the smallest is taken next.
    whole: Vec<u32>,
    // Indices of which a part is taken, with the free units.
    parts: BTreeMap<u32, u64>,
}

/// A request resolved against the pools; `None` for what this worker could never give.
#[derive(Clone, Debug, PartialEq)]
pub struct Needs(Vec<Need>);

#[derive(Clone, Debug, PartialEq)]
struct Need {
    pool: u32,
    amount: AmountRequest,
    // Most groups that a strict policy accepts.
    groups_max: usize,
}

impl Pools {
    /// Everything free.
    pub fn new(resources: &WorkerResources) -> Pools {
        let pool = |kind: &PoolKind| match kind {
            PoolKind::Sum(amount) => Pool::Sum { total: amount.0, free: amount.0 },
            PoolKind::Groups(_) | PoolKind::Range { .. } => Pool::Indexed(Indexed::new(kind)),
        };
        Pools {
            resources: resources.clone(),
            pools: resources.pools.iter().map(|p| pool(&p.kind)).collect(),
            coupling: Coupling::new(resources),
        }
    }

    /// What a request takes here, or each of its ranks; `None` when this worker could never give it.
    pub fn needs(&self, request: &Request) -> Option<Needs> {
        if request.nodes > 0 && request.ranks == 0 {
            let all = |pool| Need { pool, amount: AmountRequest::All, groups_max: usize::MAX };
            return Some(Needs((0..self.pools.len() as u32).map(all).collect()));
        }
        let ranks = u64::from(request.ranks.max(1));
        let mut needs = Vec::with_capacity(request.resources.len());
        for resource in &request.resources {
            let pool = self.resources.giver(&resource.name)?;
            let (total, groups_max) = match (&self.pools[pool], resource.amount) {
                (Pool::Indexed(indexed), AmountRequest::Some(amount, _)) => {
                    (indexed.total, indexed.fewest_groups(amount))
                }
                (Pool::Indexed(indexed), AmountRequest::All) => (indexed.total, usize::MAX),
                (Pool::Sum { total, .. }, _) => (*total, usize::MAX),
            };
            if matches!(resource.amount, AmountRequest::Some(amount, _)
                if amount.0.saturating_mul(ranks) > total || amount.0 == 0)
            {
                return None;
            }
            needs.push(Need { pool: pool as u32, amount: resource.amount, groups_max });
        }
        Some(Needs(needs))
    }

    /// Takes what is needed, into `allocation`; false, and nothing is taken, when it is not free.
    pub fn take(&mut self, needs: &Needs, allocation: &mut Allocation) -> bool {
        let mut near = if self.coupling.is_empty() { Vec::new() } else { self.near(needs) };
        allocation.resources.truncate(needs.0.len());
        for (at, need) in needs.0.iter().enumerate() {
            if allocation.resources.len() <= at {
                let nothing = AllocatedResource { pool: 0, amount: Amount::ZERO, indices: Vec::new() };
                allocation.resources.push(nothing);
            }
            let given = &mut allocation.resources[at];
            given.pool = need.pool;
            given.indices.clear();
            let taken = match &mut self.pools[need.pool as usize] {
                Pool::Sum { total, free } => {
                    let wanted = match need.amount {
                        AmountRequest::All => *total,
                        AmountRequest::Some(amount, _) => amount.0,
                    };
                    let fits = wanted <= *free;
                    if fits {
                        *free -= wanted;
                        given.amount = Amount(wanted);
                    }
                    fits
                }
                Pool::Indexed(indexed) => {
                    let plan = near.get_mut(at).and_then(Option::take);
                    indexed.take(need, plan, given)
                }
            };
            if !taken {
                for given in &allocation.resources[..at] {
                    self.give_back(given);
                }
                return false;
            }
        }
        true
    }

    /// Gives back what was taken.
    pub fn free(&mut self, allocation: &Allocation) {
        for given in &allocation.resources {
            self.give_back(given);
        }
    }

    /// True when nothing is taken.
    pub fn is_free(&self) -> bool {
        self.pools.iter().all(|pool| match pool {
            Pool::Sum { total, free } => total == free,
            Pool::Indexed(indexed) => indexed.total == indexed.free,
        })
    }

    /// Pools that a request uses, as a bit set (pools beyond the 64th share a bit).
    pub fn mask(&self, needs: &Needs) -> u64 {
        needs.0.iter().fold(0, |mask, need| mask | 1 << (need.pool % 64))
    }

    fn give_back(&mut self, given: &AllocatedResource) {
        match &mut self.pools[given.pool as usize] {
            Pool::Sum { total, free } => {
                *free += given.amount.0;
                assert!(*free <= *total, "a sum gets back what it gave");
            }
            Pool::Indexed(indexed) => indexed.give_back(given),
        }
    }
}

impl Indexed {
    fn new(kind: &PoolKind) -> Indexed {
        let mut groups = Vec::new();
        let mut group_of = Vec::new();
        for (number, labels) in kind.labels().iter().enumerate() {
            let first = group_of.len() as u32;
            group_of.extend(std::iter::repeat_n(number as u32, labels.len()));
            // The last of the vector is taken first.
            groups.push(Group {
                whole: (first..group_of.len() as u32).rev().collect(),
                parts: BTreeMap::new(),
            });
        }
        let total = group_of.len() as u64 * UNITS;
        Indexed { total, free: total, groups, group_of }
    }

    // Fewest groups that an amount takes when everything is free.
    fn fewest_groups(&self, amount: Amount) -> usize {
        let mut sizes: Vec<u64> = vec![0; self.groups.len()];
        for group in &self.group_of {
            sizes[*group as usize] += 1;
        }
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = amount.0.div_ceil(UNITS);
        let fewest = sizes.iter().take_while(|size| {
            let more = left > 0;
            left = left.saturating_sub(**size);
            more
        });
        fewest.count()
    }

    // `plan` says where from, when that is decided.
    fn take(&mut self, need: &Need, plan: Option<Plan>, given: &mut AllocatedResource) -> bool {
        let (amount, policy) = match need.amount {
            AmountRequest::All => {
                if self.free < self.total {
                    return false;
                }
                (Amount(self.total), Policy::Compact)
            }
            AmountRequest::Some(amount, policy) => (amount, policy),
        };
        if amount.0 > self.free {
            return false;
        }
        given.amount = amount;
        // One index of one group, the common case.
        if amount.0 == UNITS && self.groups.len() == 1 {
            let Some(index) = self.groups[0].whole.pop() else { return false };
            given.indices.push((index, UNITS as u16));
            self.free -= UNITS;
            return true;
        }
        let plan = plan.or_else(|| self.plan(amount, policy, need.groups_max, &[]));
        let Some(plan) = plan else { return false };
        for (group, wholes) in plan.wholes {
            let whole = &mut self.groups[group].whole;
            for _ in 0..wholes {
                let index = whole.pop().unwrap_or_else(|| unreachable!("planned indices are free"));
                given.indices.push((index, UNITS as u16));
            }
        }
        if let Some((group, units)) = plan.part {
            let index = self.groups[group].take_part(units);
            given.indices.push((index, units as u16));
        }
        given.indices.sort_unstable();
        self.free -= amount.0;
        true
    }

    fn give_back(&mut self, given: &AllocatedResource) {
        for &(index, units) in given.indices.iter().rev() {
            let group = &mut self.groups[self.group_of[index as usize] as usize];
            if u64::from(units) == UNITS {
                group.give_back_whole(index);
            } else {
                group.give_back_part(index, u64::from(units));
            }
            self.free += u64::from(units);
        }
        assert!(self.free <= self.total, "a pool gets back what it gave");
    }

    // How many whole indices of which groups, and which group gives the part. Of groups that do as well, those with
    // more in `near` are preferred.
    fn plan(&self, amount: Amount, policy: Policy, groups_max: usize, near: &[u64]) -> Option<Plan> {
        let (wholes, units) = (amount.wholes() as usize, amount.fraction());
        if matches!(policy, Policy::Scatter) {
            return self.scatter(wholes, units);
        }
        // One group that has it all: the one that is left with least, or with most to fill it first.
        let fits = |group: &&(usize, usize)| self.groups[group.0].has(wholes, units);
        let sizes: Vec<(usize, usize)> =
            self.groups.iter().enumerate().map(|(at, group)| (at, group.whole.len())).collect();
        let near = |group: usize| Reverse(near.get(group).copied().unwrap_or(0));
        let one = match policy {
            Policy::Tight | Policy::TightStrict => {
                sizes.iter().filter(fits).min_by_key(|g| (near(g.0), Reverse(g.1), g.0))
            }
            _ => sizes.iter().filter(fits).min_by_key(|g| (near(g.0), g.1, g.0)),
        };
        if let Some((group, _)) = one {
            let part = (units > 0).then_some((*group, units));
            return Some(Plan { wholes: vec![(*group, wholes)], part });
        }
        // Several, the fullest first.
        let mut order = sizes;
        order.sort_unstable_by_key(|group| (Reverse(group.1), group.0));
        let mut plan = self.fill(order.iter().map(|group| group.0), wholes, units)?;
        // Others, if they are no more.
        order.sort_unstable_by_key(|group| (near(group.0), Reverse(group.1), group.0));
        if let Some(nearer) = self.fill(order.iter().map(|group| group.0), wholes, units)
            && nearer.group_count() <= plan.group_count()
        {
            plan = nearer;
        }
        let strict = matches!(policy, Policy::CompactStrict | Policy::TightStrict);
        (!strict || plan.group_count() <= groups_max).then_some(plan)
    }

    fn fill(&self, order: impl Iterator<Item = usize>, wholes: usize, units: u64) -> Option<Plan> {
        let mut left = wholes;
        let mut plan = Plan { wholes: Vec::new(), part: None };
        for group in order {
            let count = self.groups[group].whole.len().min(left);
            left -= count;
            if count > 0 {
                plan.wholes.push((group, count));
            }
            if left == 0 && units > 0 && self.groups[group].has(count, units) {
                plan.part = Some((group, units));
            }
            if left == 0 && (units == 0 || plan.part.is_some()) {
                return Some(plan);
            }
        }
        None
    }

    fn scatter(&self, wholes: usize, units: u64) -> Option<Plan> {
        let mut counts = vec![0; self.groups.len()];
        let mut left = wholes;
        while left > 0 {
            let before = left;
            for (group, count) in counts.iter_mut().enumerate() {
                if left > 0 && *count < self.groups[group].whole.len() {
                    *count += 1;
                    left -= 1;
                }
            }
            if left == before {
                return None;
            }
        }
        let part = match units {
            0 => None,
            units => {
                let candidates = (0..counts.len()).filter(|g| self.groups[*g].has(counts[*g], units));
                Some((candidates.min_by_key(|g| (counts[*g], *g))?, units))
            }
        };
        let wholes = counts.into_iter().enumerate().filter(|(_, count)| *count > 0).collect();
        Some(Plan { wholes, part })
    }
}

#[derive(Clone, Debug)]
struct Plan {
    wholes: Vec<(usize, usize)>,
    part: Option<(usize, u64)>,
}

impl Plan {
    // Units taken of each group.
    fn units(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.wholes.iter().map(|(group, wholes)| (*group, *wholes as u64 * UNITS)).chain(self.part)
    }

    fn group_count(&self) -> usize {
        let other = self.part.is_some_and(|part| self.wholes.iter().all(|whole| whole.0 != part.0));
        self.wholes.len() + usize::from(other)
    }
}

impl Group {
    // True when so many whole indices and a part of another one are free.
    fn has(&self, wholes: usize, units: u64) -> bool {
        let begun = units == 0 || self.parts.values().any(|free| *free >= units);
        self.whole.len() >= wholes + usize::from(!begun)
    }

    // From the index that is left with least.
    fn take_part(&mut self, units: u64) -> u32 {
        let begun = self
            .parts
            .iter()
            .filter(|(_, free)| **free >= units)
            .min_by_key(|(index, free)| (**free, **index));
        let index = begun.map(|(index, _)| *index);
        let index =
            index.or_else(|| self.whole.pop()).unwrap_or_else(|| unreachable!("planned parts are free"));
        let free = self.parts.entry(index).or_insert(UNITS);
        *free -= units;
        if *free == 0 {
            self.parts.insert(index, 0);
        }
        index
    }

    fn give_back_part(&mut self, index: u32, units: u64) {
        let free = self.parts.entry(index).or_insert(0);
        *free += units;
        if *free == UNITS {
            self.parts.remove(&index);
            self.give_back_whole(index);
        }
    }

    // What was taken last most often belongs on top.
    fn give_back_whole(&mut self, index: u32) {
        let at = match self.whole.last() {
            Some(last) if *last < index => self.whole.partition_point(|other| *other > index),
            _ => self.whole.len(),
        };
        self.whole.insert(at, index);
    }
}

#[cfg(test)]
mod tests {
    use hq_model::ResourceRequest;
    use hq_model::request::parse_amount;
    use hq_model::resources::parse_pool;

    use super::*;

    // Takes the requests one after the other and says what each got.
    fn check(pool: &str, requests: &[&str], expected: &[&str]) {
        let pool = parse_pool("cpus", pool).expect("a pool");
        let resources = WorkerResources::new(vec![pool], Vec::new()).expect("resources");
        let mut pools = Pools::new(&resources);
        let mut taken = Vec::new();
        let mut found = Vec::new();
        for text in requests {
            let amount = parse_amount("cpus", text).expect("an amount");
            let resources = vec![ResourceRequest { name: "cpus".into(), amount }];
            let request = Request { resources, ..Request::default() };
            let mut allocation = Allocation::default();
            let given = match pools.needs(&request) {
                None => "never".into(),
                Some(needs) if !pools.take(&needs, &mut allocation) => "no".into(),
                Some(_) => {
                    let words = allocation.resources[0].indices.iter().map(|(index, units)| match units {
                        10_000 => index.to_string(),
                        units => format!("{index}/{units}"),
                    });
                    let words = words.collect::<Vec<_>>().join(" ");
                    taken.push(allocation);
                    words
                }
            };
            found.push(given);
        }
        assert_eq!(found, expected, "{pool:?}", pool = resources.pools[0].kind.to_string());
        for allocation in &taken {
            pools.free(allocation);
        }
        assert!(pools.is_free());
    }

    #[test]
    fn indices_are_unique_and_run_out() {
        check("3", &["1", "2", "1"], &["0", "1 2", "no"]);
        check("2", &["3", "all", "1"], &["never", "0 1", "no"]);
    }

    #[test]
    fn the_smallest_indices_are_taken_whatever_was_given_back_when() {
        let pool = parse_pool("cpus", "4").expect("a pool");
        let resources = WorkerResources::new(vec![pool], Vec::new()).expect("resources");
        let mut pools = Pools::new(&resources);
        let take = |pools: &mut Pools, text| {
            let amount = parse_amount("cpus", text).expect("an amount");
            let resources = vec![ResourceRequest { name: "cpus".into(), amount }];
            let mut allocation = Allocation::default();
            let needs = pools.needs(&Request { resources, ..Request::default() }).expect("it could run");
            assert!(pools.take(&needs, &mut allocation));
            allocation
        };
        let given = ["1", "0.5", "2"].map(|text| take(&mut pools, text));
        given.iter().for_each(|allocation| pools.free(allocation));
        let indices = take(&mut pools, "4").resources.remove(0).indices;
        assert!(indices.iter().map(|(index, _)| *index).eq(0..4));
        assert_eq!(pools, {
            let mut fresh = Pools::new(&resources);
            take(&mut fresh, "4");
            fresh
        });
    }

    #[test]
    fn fractions_share_an_index() {
        check("2", &["0.5", "0.25", "1.25", "0.5"], &["0/5000", "0/2500", "0/2500 1", "no"]);
        check("1", &["0.6", "0.6"], &["0/6000", "no"]);
    }

    #[test]
    fn compact_takes_few_groups_and_strict_waits_for_them() {
        check("2x4", &["2", "4", "2"], &["0 1", "4 5 6 7", "2 3"]);
        check("2x4", &["3", "3", "2 compact!", "2"], &["0 1 2", "4 5 6", "no", "3 7"]);
        check("2x4", &["6 compact!"], &["0 1 2 3 4 5"]);
    }

    #[test]
    fn scatter_spreads_and_tight_fills_the_fullest() {
        check("2x4", &["2 scatter", "3 scatter"], &["0 4", "1 2 5"]);
        check("2x4", &["1", "2 tight"], &["0", "4 5"]);
    }
}
