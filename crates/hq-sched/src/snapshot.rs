//! What the planner is told: workers, classes of ready tasks, shares.

use hq_model::{Amount, PoolKind, Request, WorkerId, WorkerResources};

use crate::limits;

/// Names a class of ready tasks; the caller's own numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

/// The state that is planned for. All times are relative to now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Distinct offers of workers: equal pools, groups and coupling.
    pub shapes: Vec<WorkerResources>,
    /// Workers that may be given tasks.
    pub workers: Vec<Worker>,
    /// Classes with ready tasks, in any order.
    pub classes: Vec<Class>,
    /// Jobs with shares.
    pub shares: Vec<ShareGroup>,
}

/// A worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Worker {
    /// Its name in the plan.
    pub id: WorkerId,
    /// Index into [`Snapshot::shapes`].
    pub shape: u32,
    /// What is free, pool by pool as in the shape.
    pub free: Vec<PoolFree>,
    /// How long it still lives, in µs; `None`: no end known.
    pub life_us: Option<u64>,
    /// The group multi-node tasks are kept within.
    pub group: u32,
    /// Tasks that run there: what each gives back, and when.
    pub ends: Vec<End>,
    /// Locality keys it has run, sorted.
    pub keys: Vec<u64>,
}

/// What is free of one pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PoolFree {
    /// Of a pool without indices.
    Sum(Amount),
    /// Of a pool with indices, group by group; a pool without groups has one.
    Groups(Vec<GroupFree>),
}

/// What is free of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GroupFree {
    /// Indices that are wholly free.
    pub whole: u32,
    /// Free parts of indices that are shared, in 1/10000, sorted, each within 1..=9999.
    pub partial: Vec<u16>,
}

/// A running task's estimated end.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// In so many µs; `None`: unknown.
    pub in_us: Option<u64>,
    /// Pool index and amount it gives back.
    pub frees: Vec<(u32, Amount)>,
}

/// Ready tasks with equal requests, priority and share.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name in the plan.
    pub id: ClassId,
    /// Ready tasks.
    pub ready: u64,
    /// Larger first, strictly.
    pub priority: i32,
    /// Longest remaining path to the end of the graph, in µs.
    pub path_us: u64,
    /// Older jobs have smaller numbers.
    pub age: u64,
    /// Variants in order of preference; at least one.
    pub variants: Vec<Request>,
    /// Index into [`Snapshot::shares`].
    pub share: Option<u32>,
    /// Tasks with an equal key like to run on the same workers.
    pub key: Option<u64>,
    /// Expected run time in µs, where known.
    pub expected_us: Option<u64>,
    /// For how long it had ready tasks of which none could start, in µs.
    pub waiting_us: u64,
}

/// A job with a share of the running tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareGroup {
    /// Its tasks that run now.
    pub running: u64,
    /// Running tasks it should have at least.
    pub min: u64,
    /// Running tasks it has at most; `None`: any number.
    pub max: Option<u64>,
    /// Its part of what exceeds the minima; 10000 is neutral.
    pub weight: u32,
    /// Remainder carried over from [`crate::Plan::carried`] of the round before.
    pub carried: u64,
}

/// How a round is planned.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Steps until the rest is filled without further search.
    pub steps: u64,
    /// Classes that are planned at most.
    pub classes_max: usize,
    /// Wait after which a worker is held also against tasks of the same priority, in µs.
    pub patience_us: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { steps: limits::STEPS, classes_max: limits::CLASSES_MAX, patience_us: limits::PATIENCE_US }
    }
}

/// The free state of a worker on which nothing runs.
pub fn all_free(resources: &WorkerResources) -> Vec<PoolFree> {
    let group = |whole: usize| GroupFree { whole: whole as u32, partial: Vec::new() };
    let pool = |kind: &PoolKind| match kind {
        PoolKind::Sum(amount) => PoolFree::Sum(*amount),
        PoolKind::Groups(groups) => PoolFree::Groups(groups.iter().map(|g| group(g.len())).collect()),
        PoolKind::Range { first, last } => PoolFree::Groups(vec![group((last - first) as usize + 1)]),
    };
    resources.pools.iter().map(|p| pool(&p.kind)).collect()
}
