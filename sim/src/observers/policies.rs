//! What a task gets of a pool with groups comes from the groups that its policy says: told from what workers start, not
//! from how they choose.

use std::collections::{BTreeMap, BTreeSet};

use hq_core::worker::{Grant, GrantedResource, Start, Worker};
use hq_model::amount::UNITS;
use hq_model::{Amount, AmountRequest, Policy, Request, ResourcePool, TaskRef, WorkerResources};

/// What a worker starts in one go, and what the others have there.
#[derive(Debug, Default)]
pub struct Policies {
    taken: Vec<Grant>,
    /// Amounts that came from several groups, so far.
    pub spread: u64,
    /// Tasks that had to have what is close to each other, so far.
    pub coupled: u64,
}

// A group of a pool: what is free there before something is taken, by index, and whole indices that are taken.
#[derive(Clone, Debug, Default)]
struct Group {
    size: usize,
    free: usize,
    taken: usize,
    has_part: bool,
}

impl Policies {
    /// A worker has decided what it starts, one after the other, beside what tasks have there as far as it knows.
    pub fn decided<'a>(&mut self, worker: &Worker, starts: impl Iterator<Item = &'a Start>) {
        let starts: BTreeSet<TaskRef> = starts.map(|start| start.task).collect();
        self.taken.clear();
        if !starts.is_empty() {
            let taken = worker.grants().filter(|(task, _)| !starts.contains(task));
            self.taken.extend(taken.map(|(_, grant)| grant.clone()));
        }
    }

    /// It starts one of them.
    ///
    /// # Errors
    /// When it got something from other groups than its policies say.
    pub fn starts(&mut self, resources: &WorkerResources, start: &Start) -> Result<(), String> {
        let Some(request) = start.template.spec.requests.get(start.variant as usize) else { return Ok(()) };
        let alone = [start.grant.clone()];
        let each = if start.ranks.is_empty() { &alone[..] } else { &start.ranks };
        for given in each {
            for (resource, given) in request.resources.iter().zip(&given.resources) {
                let AmountRequest::Some(amount, policy) = resource.amount else { continue };
                let pool = &resources.pools[given.pool as usize];
                let groups = groups(pool, given, &self.taken);
                self.spread += u64::from(groups.iter().filter(|group| group.is_used()).count() > 1);
                if !is_strict(&resource.amount) && may_give_way(resources, request, &pool.name) {
                    continue;
                }
                check(amount, policy, &groups).map_err(|rule| {
                    format!("task {}: {} {amount} {policy}: {rule}: {groups:?}", start.task, pool.name)
                })?;
            }
            self.check_coupling(resources, request, given)
                .map_err(|rule| format!("task {}: {rule}", start.task))?;
            self.taken.push(given.clone());
        }
        Ok(())
    }

    // What a strict policy concerns is close to each other where one group has enough of each.
    fn check_coupling(
        &mut self,
        resources: &WorkerResources,
        request: &Request,
        given: &Grant,
    ) -> Result<(), String> {
        let with_pools: Vec<_> = request.resources.iter().zip(&given.resources).collect();
        for (at, (one, given_one)) in with_pools.iter().enumerate() {
            for (other, given_other) in &with_pools[at + 1..] {
                let names = |given: &GrantedResource| resources.pools[given.pool as usize].name.clone();
                let pairs: Vec<(u32, u32)> = resources
                    .coupling
                    .iter()
                    .filter(|pair| pair.left.0 == names(given_one) && pair.right.0 == names(given_other))
                    .map(|pair| (pair.left.1, pair.right.1))
                    .collect();
                let is_small = |given: &GrantedResource| {
                    let sizes = resources.pools[given.pool as usize].kind.labels();
                    sizes.iter().all(|group| given.amount <= Amount::whole(group.len() as u64))
                };
                let is_scattered = |request: &AmountRequest| {
                    matches!(request, AmountRequest::Some(_, Policy::Scatter) | AmountRequest::All)
                };
                let both = [one, other];
                let concerns = both.iter().any(|one| is_strict(&one.amount))
                    && !both.iter().any(|one| is_scattered(&one.amount));
                if pairs.is_empty() || !concerns || !is_small(given_one) || !is_small(given_other) {
                    continue;
                }
                self.coupled += 1;
                let groups = |given: &GrantedResource| {
                    let found = groups(&resources.pools[given.pool as usize], given, &[]);
                    found.iter().position(Group::is_used).unwrap_or_default() as u32
                };
                let pair = (groups(given_one), groups(given_other));
                if !pairs.contains(&pair) {
                    return Err(format!("it has {given_one:?} and {given_other:?}, which are not coupled"));
                }
            }
        }
        Ok(())
    }
}

fn is_strict(amount: &AmountRequest) -> bool {
    matches!(amount, AmountRequest::Some(_, Policy::CompactStrict | Policy::TightStrict))
}

// True when a strict policy concerns what is coupled with a pool: as close as that has to be, what is taken of this pool may
// have to come from more groups.
fn may_give_way(resources: &WorkerResources, request: &Request, pool: &str) -> bool {
    let strict = request.resources.iter().filter(|resource| is_strict(&resource.amount));
    let others: Vec<&str> = strict
        .filter_map(|resource| Some(resources.pools[resources.giver(&resource.name)?].name.as_str()))
        .collect();
    resources.coupling.iter().any(|pair| {
        let (left, right) = (pair.left.0.as_str(), pair.right.0.as_str());
        (left == pool && others.contains(&right)) || (right == pool && others.contains(&left))
    })
}

impl Group {
    fn is_used(&self) -> bool {
        self.taken > 0 || self.has_part
    }

    fn is_exhausted(&self) -> bool {
        self.taken == self.free
    }
}

// The groups of a pool, before something was given, beside what others have.
fn groups(pool: &ResourcePool, given: &GrantedResource, others: &[Grant]) -> Vec<Group> {
    let mut used: BTreeMap<u32, u64> = BTreeMap::new();
    let taken = others.iter().flat_map(|other| &other.resources).filter(|other| other.pool == given.pool);
    for (index, units) in taken.flat_map(|taken| &taken.indices) {
        *used.entry(*index).or_default() += u64::from(*units);
    }
    let mut first = 0;
    let mut found = Vec::new();
    for labels in pool.kind.labels() {
        let indices = first..first + labels.len() as u32;
        first = indices.end;
        let own = given.indices.iter().filter(|(index, _)| indices.contains(index));
        found.push(Group {
            size: labels.len(),
            free: indices.clone().filter(|index| !used.contains_key(index)).count(),
            taken: own.clone().filter(|(_, units)| u64::from(*units) == UNITS).count(),
            has_part: own.clone().any(|(_, units)| u64::from(*units) < UNITS),
        });
    }
    found
}

fn check(amount: Amount, policy: Policy, groups: &[Group]) -> Result<(), &'static str> {
    let used: Vec<&Group> = groups.iter().filter(|group| group.is_used()).collect();
    let wholes = amount.wholes() as usize;
    let fewest = |size: fn(&Group) -> usize, mut left: usize| {
        let mut sizes: Vec<usize> = groups.iter().map(size).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let enough = sizes.iter().position(|size| {
            left = left.saturating_sub(*size);
            left == 0
        });
        enough.map_or(usize::MAX, |at| at + 1)
    };
    let is_strict = matches!(policy, Policy::CompactStrict | Policy::TightStrict);
    match policy {
        // A sum has no groups.
        _ if groups.is_empty() => Ok(()),
        Policy::Scatter => Ok(()),
        _ if amount.fraction() == 0 && used.len() > fewest(|group| group.free, wholes) => {
            Err("more groups than are needed now")
        }
        _ if is_strict && used.len() > fewest(|group| group.size, amount.0.div_ceil(UNITS) as usize) => {
            Err("more groups than an idle worker would give")
        }
        Policy::Compact | Policy::CompactStrict => {
            let most = used.iter().map(|group| group.taken).max().unwrap_or(0);
            let is_even = used.iter().all(|group| group.taken + 1 >= most || group.is_exhausted());
            if is_even { Ok(()) } else { Err("not as much from each group as from the others") }
        }
        Policy::Tight | Policy::TightStrict => {
            let open = used.iter().filter(|group| !group.is_exhausted() && group.taken > 0).count();
            if open <= 1 { Ok(()) } else { Err("one group was not filled before the next") }
        }
    }
}
