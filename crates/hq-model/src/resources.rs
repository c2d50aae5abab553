//! What a worker offers: pools of indexed resources, perhaps in groups, and sums.

use crate::Amount;

/// The content of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// Distinct things with labels, in groups (NUMA nodes, say). A pool without groups has one.
    /// Labels are unique over all groups; every group has at least one.
    Groups(Vec<Vec<String>>),
    /// Distinct things numbered `first..=last`, one group.
    Range {
        /// First index.
        first: u32,
        /// Last index.
        last: u32,
    },
    /// A divisible amount without indices, such as memory.
    Sum(Amount),
}

/// A named pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourcePool {
    /// A letter, then letters, digits and `/`.
    pub name: String,
    /// What is in it.
    pub kind: PoolKind,
}

/// All a worker offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WorkerResources {
    /// Pools, `cpus` first, the others sorted by name; names unique.
    pub pools: Vec<ResourcePool>,
    /// Groups of different pools that belong together (a GPU and the cores beside it).
    pub coupling: Vec<Coupling>,
}

/// A preference for taking two groups together: `cpus[0]:gpus[0]=256`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coupling {
    /// Pool and group index.
    pub left: (String, u32),
    /// Pool and group index.
    pub right: (String, u32),
    /// Strength; 256 by default.
    pub weight: u16,
}

impl PoolKind {
    /// All of the pool.
    pub fn total(&self) -> Amount {
        match self {
            PoolKind::Groups(groups) => Amount::whole(groups.iter().map(|g| g.len() as u64).sum()),
            PoolKind::Range { first, last } => Amount::whole(u64::from(last - first) + 1),
            PoolKind::Sum(amount) => *amount,
        }
    }

    /// The labels group by group; none for a sum.
    pub fn labels(&self) -> Vec<Vec<String>> {
        match self {
            PoolKind::Groups(groups) => groups.clone(),
            PoolKind::Range { first, last } => vec![(*first..=*last).map(|i| i.to_string()).collect()],
            PoolKind::Sum(_) => Vec::new(),
        }
    }
}

impl WorkerResources {
    /// The pool of that name.
    pub fn pool(&self, name: &str) -> Option<&ResourcePool> {
        self.pools.iter().find(|p| p.name == name)
    }
}
