//! Which indices of its pools a worker gives to which task.
//!
//! Deterministic: equal histories give equal indices. Freed indices are used again first, which
//! keeps caches warm.

mod coupling;
mod plan;

use std::collections::BTreeMap;

use hq_model::amount::UNITS;
use hq_model::{Amount, AmountRequest, Policy, PoolKind, Request, WorkerResources};

use super::{Grant, GrantedResource};
use crate::limits::TRIED_AT_ONCE_MAX;
use coupling::Coupling;
use plan::Plan;

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
pub struct ResolvedRequest {
    each: Vec<ResolvedPart>,
    // How much of what strict policies concern must be close to each other: as much as on an idle worker.
    close: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct ResolvedPart {
    pool: u32,
    amount: AmountRequest,
    // Most groups that a strict policy accepts.
    groups_max: usize,
}

impl ResolvedRequest {
    /// As much of one pool, wherever it is in it.
    pub(super) fn loosely_of(&self, pool: u32) -> ResolvedRequest {
        let loosely = |need: &ResolvedPart| ResolvedPart {
            amount: match need.amount {
                AmountRequest::Some(amount, _) => AmountRequest::Some(amount, Policy::Compact),
                AmountRequest::All => AmountRequest::All,
            },
            groups_max: usize::MAX,
            ..*need
        };
        ResolvedRequest {
            each: self.each.iter().filter(|need| need.pool == pool).map(loosely).collect(),
            close: 0,
        }
    }
}

impl ResolvedPart {
    fn is_strict(&self) -> bool {
        matches!(self.amount, AmountRequest::Some(_, Policy::CompactStrict | Policy::TightStrict))
    }
}

// The bit of a pool in a set of pools.
fn pool_bit(pool: u32) -> u64 {
    if pool < 64 { 1 << pool } else { 0 }
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
    pub fn needs(&self, request: &Request) -> Option<ResolvedRequest> {
        if never_starts(&self.resources, request) {
            return None;
        }
        self.needs_by_amount(request)
    }

    // As `needs`, where the ranks of a request do not get in the way of each other.
    fn needs_by_amount(&self, request: &Request) -> Option<ResolvedRequest> {
        if request.nodes > 0 && request.ranks == 0 {
            let all = |pool| ResolvedPart { pool, amount: AmountRequest::All, groups_max: usize::MAX };
            return Some(ResolvedRequest { each: (0..self.pools.len() as u32).map(all).collect(), close: 0 });
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
            needs.push(ResolvedPart { pool: pool as u32, amount: resource.amount, groups_max });
        }
        let mut needs = ResolvedRequest { each: needs, close: 0 };
        if self.is_coupled(&needs) {
            needs.close = Pools::new(&self.resources).closest(&needs);
        }
        Some(needs)
    }

    /// Takes what is needed, into `grant`; false, and nothing is taken, when it is not free.
    pub fn take(&mut self, needs: &ResolvedRequest, grant: &mut Grant) -> bool {
        let Some(mut near) = self.near(needs) else { return false };
        grant.resources.truncate(needs.each.len());
        for (at, need) in needs.each.iter().enumerate() {
            if grant.resources.len() <= at {
                let nothing = GrantedResource { pool: 0, amount: Amount::ZERO, indices: Vec::new() };
                grant.resources.push(nothing);
            }
            let given = &mut grant.resources[at];
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
                for given in &grant.resources[..at] {
                    self.give_back(given);
                }
                return false;
            }
        }
        true
    }

    /// Gives back what was taken.
    pub fn free(&mut self, grant: &Grant) {
        for given in &grant.resources {
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

    /// Pools that a request uses, as a set; those beyond the 64th are in none.
    pub fn mask(&self, needs: &ResolvedRequest) -> u64 {
        needs.each.iter().fold(0, |mask, need| mask | pool_bit(need.pool))
    }

    /// True when enough is free of a pool that is needed, but not in such pieces: halves of two CPUs are no CPU.
    pub fn is_in_pieces(&self, needs: &ResolvedRequest) -> bool {
        let enough = needs.each.iter().filter(|need| {
            let (total, free) = match &self.pools[need.pool as usize] {
                Pool::Sum { total, free } => (*total, *free),
                Pool::Indexed(indexed) => (indexed.total, indexed.free),
            };
            match need.amount {
                AmountRequest::All => free == total,
                AmountRequest::Some(amount, _) => amount.0 <= free,
            }
        });
        enough.fold(0, |mask, need| mask | pool_bit(need.pool)) & self.scarce(needs) != 0
    }

    /// True when it makes a difference which indices are given: there are groups, and it may take from several of them, or
    /// what it takes should be close to each other.
    pub fn place_matters(&self, needs: &ResolvedRequest) -> bool {
        let may_spread = |need: &ResolvedPart| match (&self.pools[need.pool as usize], need.amount) {
            (Pool::Indexed(indexed), AmountRequest::Some(amount, _)) => {
                indexed.groups.len() > 1 && amount > Amount::whole(1)
            }
            _ => false,
        };
        let coupled = needs.each.iter().filter(|need| self.coupling.has(need.pool as usize));
        coupled.count() > 1 || needs.each.iter().any(may_spread)
    }

    /// What is taken of each pool, in units.
    pub fn taken(&self) -> Vec<u64> {
        let taken = |pool: &Pool| match pool {
            Pool::Sum { total, free } => total - free,
            Pool::Indexed(indexed) => indexed.total - indexed.free,
        };
        self.pools.iter().map(taken).collect()
    }

    /// The pools of which nothing is free, as a set.
    pub fn exhausted(&self) -> u64 {
        let is_out = |pool: &Pool| match pool {
            Pool::Sum { free, .. } => *free == 0,
            Pool::Indexed(indexed) => indexed.free == 0,
        };
        let out = self.pools.iter().enumerate().filter(|(_, pool)| is_out(pool));
        out.fold(0, |mask, (at, _)| mask | pool_bit(at as u32))
    }

    /// The pools that cannot give what is needed of them now, as a set.
    pub fn scarce(&self, needs: &ResolvedRequest) -> u64 {
        let gives = |need: &&ResolvedPart| match (&self.pools[need.pool as usize], need.amount) {
            (Pool::Sum { total, free }, AmountRequest::All) => free == total,
            (Pool::Sum { free, .. }, AmountRequest::Some(amount, _)) => amount.0 <= *free,
            (Pool::Indexed(indexed), AmountRequest::All) => indexed.free == indexed.total,
            (Pool::Indexed(indexed), AmountRequest::Some(amount, policy)) => {
                amount.0 <= indexed.free && indexed.plan(amount, policy, need.groups_max, &[]).is_some()
            }
        };
        let scarce = needs.each.iter().filter(|need| !gives(need));
        let scarce = scarce.fold(0, |mask, need| mask | pool_bit(need.pool));
        // There may be enough, but not close to each other.
        if scarce == 0 && needs.close > 0 && self.near(needs).is_none() { self.mask(needs) } else { scarce }
    }

    fn give_back(&mut self, given: &GrantedResource) {
        match &mut self.pools[given.pool as usize] {
            Pool::Sum { total, free } => {
                *free += given.amount.0;
                assert!(*free <= *total, "a sum gets back what it gave");
            }
            Pool::Indexed(indexed) => indexed.give_back(given),
        }
    }
}

/// True when a worker with these resources has as much as a request takes, and can never give it: parts of one pool that
/// are taken one after the other, as by several ranks, may not fit together although they are no more than all.
pub fn never_starts(resources: &WorkerResources, request: &Request) -> bool {
    let mut pools: Vec<Option<usize>> =
        request.resources.iter().map(|one| resources.giver(&one.name)).collect();
    pools.sort_unstable();
    let takes_twice = pools.windows(2).any(|pair| pair[0] == pair[1]);
    if !takes_twice && (request.ranks < 2 || !leaves_gaps(resources, request)) {
        return false;
    }
    let mut idle = Pools::new(resources);
    let Some(needs) = idle.needs_by_amount(request) else { return true };
    (0..request.ranks.max(1)).any(|_| !idle.take(&needs, &mut Grant::default()))
}

/// How many tasks with a request run at once on an idle worker, when that may be less than `most`, as many as its amounts
/// allow; `None` also where that are too many to try.
pub fn at_once(resources: &WorkerResources, request: &Request, most: u64) -> Option<u64> {
    if most > TRIED_AT_ONCE_MAX || !leaves_gaps(resources, request) {
        return None;
    }
    let mut idle = Pools::new(resources);
    let needs = idle.needs_by_amount(request)?;
    let ranks = u64::from(request.ranks.max(1));
    let taken = (0..most * ranks).take_while(|_| idle.take(&needs, &mut Grant::default()));
    let count = taken.count() as u64 / ranks;
    (count < most).then_some(count)
}

// Tasks with such a request may leave something of a pool unused that would be enough for another one.
fn leaves_gaps(resources: &WorkerResources, request: &Request) -> bool {
    request.resources.iter().any(|resource| {
        let AmountRequest::Some(amount, policy) = resource.amount else { return false };
        let Some(pool) = resources.giver(&resource.name) else { return false };
        let groups = resources.pools[pool].kind.group_count();
        let is_strict = matches!(policy, Policy::CompactStrict | Policy::TightStrict);
        let is_bound = is_strict && (groups > 1 || !resources.coupling.is_empty());
        let has_rest = amount.fraction() > 0 && !UNITS.is_multiple_of(amount.fraction());
        groups > 0 && (is_bound || has_rest || amount.fraction() > 0 && amount.wholes() > 0)
    })
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
    fn take(&mut self, need: &ResolvedPart, plan: Option<Plan>, given: &mut GrantedResource) -> bool {
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

    fn give_back(&mut self, given: &GrantedResource) {
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
}

impl Group {
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
            let mut grant = Grant::default();
            let given = match pools.needs(&request) {
                None => "never".into(),
                Some(needs) if !pools.take(&needs, &mut grant) => "no".into(),
                Some(_) => {
                    let words = grant.resources[0].indices.iter().map(|(index, units)| match units {
                        10_000 => index.to_string(),
                        units => format!("{index}/{units}"),
                    });
                    let words = words.collect::<Vec<_>>().join(" ");
                    taken.push(grant);
                    words
                }
            };
            found.push(given);
        }
        assert_eq!(found, expected, "{pool:?}", pool = resources.pools[0].kind.to_string());
        for grant in &taken {
            pools.free(grant);
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
            let mut grant = Grant::default();
            let needs = pools.needs(&Request { resources, ..Request::default() }).expect("it could run");
            assert!(pools.take(&needs, &mut grant));
            grant
        };
        let given = ["1", "0.5", "2"].map(|text| take(&mut pools, text));
        given.iter().for_each(|grant| pools.free(grant));
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
    fn what_cannot_be_given_at_once_is_never_given() {
        let check = |pools: &[(&str, &str)], resources: &[(&str, &str)], ranks: u32, expected: bool| {
            let pools = pools.iter().map(|(name, text)| parse_pool(name, text).expect("a pool")).collect();
            let offered = WorkerResources::new(pools, Vec::new()).expect("resources");
            let resource = |(name, text): &(&str, &str)| ResourceRequest {
                name: (*name).into(),
                amount: parse_amount(name, text).expect("an amount"),
            };
            let resources = resources.iter().map(resource).collect();
            let request = Request { nodes: ranks.min(1), ranks, resources, ..Request::default() };
            assert_eq!(Pools::new(&offered).needs(&request).is_some(), expected, "{request}");
            let counted = crate::server::capacity::Needs::new(&offered, &request);
            assert_eq!(counted.is_some(), expected, "the server: {request}");
        };
        check(&[("cpus", "2x3")], &[("cpus", "2 compact!")], 2, true);
        check(&[("cpus", "2x3")], &[("cpus", "2 compact!")], 3, false);
        check(&[("cpus", "2x3")], &[("cpus", "2")], 3, true);
        check(&[("cpus", "2")], &[("cpus", "0.6")], 2, true);
        check(&[("cpus", "2")], &[("cpus", "0.6")], 3, false);
        let gpus = [("cpus", "1"), ("gpus/nvidia", "[a,b]")];
        check(&gpus, &[("gpus", "1"), ("gpus/nvidia", "1")], 0, true);
        check(&gpus, &[("gpus", "2"), ("gpus/nvidia", "1")], 0, false);
        check(&gpus, &[("gpus", "all"), ("gpus/nvidia", "0.5")], 0, false);
    }

    #[test]
    fn compact_takes_few_groups_and_strict_waits_for_them() {
        check("2x4", &["2", "4", "2"], &["0 1", "4 5 6 7", "2 3"]);
        check("2x4", &["3", "3", "2 compact!", "2"], &["0 1 2", "4 5 6", "no", "3 7"]);
        check("2x4", &["6 compact!"], &["0 1 2 4 5 6"]);
    }

    #[test]
    fn compact_is_even_over_the_fewest_groups_and_tight_fills_the_largest() {
        for (request, expected) in [
            ("6 compact", "0 1 2 4 5 6"),
            ("6 compact!", "0 1 2 4 5 6"),
            ("5 compact", "0 1 2 4 5"),
            ("7 compact", "0 1 2 3 4 5 6"),
            ("9 compact", "0 1 2 4 5 6 8 9 10"),
            ("4.5 compact", "0 1 2/5000 4 5"),
            ("4.5 compact!", "0 1 2/5000 4 5"),
            ("6 tight", "0 1 2 3 4 5"),
            ("5 tight", "0 1 2 3 4"),
            ("5 tight!", "0 1 2 3 4"),
            ("4.5 tight", "0 1 2 3 4/5000"),
            ("9 tight", "0 1 2 3 4 5 6 7 8"),
        ] {
            check("3x4", &[request], &[expected]);
        }
        let uneven = "[[0,1,2,3,4],[5,6],[7,8,9]]";
        check(uneven, &["6 compact"], &["0 1 2 7 8 9"]);
        check(uneven, &["7 compact"], &["0 1 2 3 7 8 9"]);
        check(uneven, &["6 tight"], &["0 1 2 3 4 7"]);
        // A begun index serves for the part.
        check("2x2", &["0.5", "1.5", "1.5 tight"], &["0/5000", "0/5000 1", "2 3/5000"]);
        check("3x2", &["1", "1 tight", "3.5"], &["0", "2", "1 3 4 5/5000"]);
    }

    #[test]
    fn scatter_spreads_and_tight_fills_the_fullest() {
        check("2x4", &["2 scatter", "3 scatter"], &["0 4", "1 2 5"]);
        check("2x4", &["1", "2 tight"], &["0", "4 5"]);
    }
}
