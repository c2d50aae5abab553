//! A request resolved against a shape: which pool gives how much, in how many groups.

use hq_model::amount::UNITS;
use hq_model::{AmountRequest, Policy, PoolKind, Request, WorkerResources};

/// What one task takes of a worker of one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) parts: Vec<Part>,
}

/// What it takes of one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) pool: usize,
    /// In 1/10000.
    pub(crate) units: u64,
    pub(crate) policy: Policy,
    /// With a strict policy, the most groups it may spread over.
    pub(crate) groups_max: Option<usize>,
    /// The pool must be wholly free.
    pub(crate) all: bool,
    /// Weights of groups of other pools that belong with groups of this one: own group, other pool, group, weight.
    pub(crate) coupled: Vec<(usize, usize, usize, u64)>,
}

impl Need {
    /// `None` when a worker of this shape can never run it.
    pub(crate) fn new(shape: &WorkerResources, request: &Request) -> Option<Need> {
        let parts = request.resources.iter().map(|resource| {
            let pool = shape.giver(&resource.name)?;
            let kind = &shape.pools[pool].kind;
            let total = kind.total().0;
            let (units, policy, all) = match resource.amount {
                AmountRequest::All => (total, Policy::Compact, true),
                AmountRequest::Some(amount, policy) => (amount.0, policy, false),
            };
            if units == 0 || units > total {
                return None;
            }
            let is_strict = matches!(policy, Policy::CompactStrict | Policy::TightStrict);
            let groups_max = is_strict.then(|| fewest_groups(kind, units)).flatten();
            Some(Part { pool, units, policy, groups_max, all, coupled: coupled(shape, pool) })
        });
        Some(Need { parts: parts.collect::<Option<Vec<Part>>>()? })
    }
}

fn fewest_groups(kind: &PoolKind, units: u64) -> Option<usize> {
    let PoolKind::Groups(groups) = kind else { return None };
    let mut sizes: Vec<u64> = groups.iter().map(|g| g.len() as u64 * UNITS).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0;
    let enough = sizes.iter().position(|size| {
        sum += size;
        sum >= units
    });
    enough.map(|at| at + 1)
}

fn coupled(shape: &WorkerResources, pool: usize) -> Vec<(usize, usize, usize, u64)> {
    let place = |(name, group): &(String, u32)| {
        shape.pools.iter().position(|p| p.name == *name).map(|pool| (pool, *group as usize))
    };
    let mut found = Vec::new();
    for coupling in &shape.coupling {
        let (Some(left), Some(right)) = (place(&coupling.left), place(&coupling.right)) else { continue };
        for (own, other) in [(left, right), (right, left)] {
            if own.0 == pool {
                found.push((own.1, other.0, other.1, u64::from(coupling.weight)));
            }
        }
    }
    found
}
