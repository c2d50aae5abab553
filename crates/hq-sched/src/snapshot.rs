//! What the planner is told: workers, classes of ready tasks, shares.

use hq_model::{Amount, WorkerId};

/// Names a class of ready tasks; the caller's own numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

/// The state that is planned for: all that competes within one priority. All times are relative to now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Distinct offers of workers.
    pub shapes: Vec<Shape>,
    /// Workers that may be given tasks.
    pub workers: Vec<Worker>,
    /// Classes with ready tasks; of two that are worth as much, the first one goes first. All of them are planned: the
    /// caller bounds their number.
    pub classes: Vec<Class>,
    /// Jobs with shares.
    pub shares: Vec<ShareGroup>,
}

/// What workers that are alike offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// All there is of each pool.
    pub totals: Vec<Amount>,
    /// By resource as tasks name it: which pool gives it, an index into `totals`; `None`: no pool does. Resources may
    /// have one giver.
    pub givers: Vec<Option<u32>>,
}

/// A worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Worker {
    /// Its name in the plan.
    pub id: WorkerId,
    /// Index into [`Snapshot::shapes`].
    pub shape: u32,
    /// What is free, pool by pool as in the shape; at most what there is.
    pub free: Vec<Amount>,
    /// How long it still lives, in µs; `None`: no end known.
    pub life_us: Option<u64>,
}

/// Ready tasks with equal requests and share.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name in the plan. Classes with one name have equal requests.
    pub id: ClassId,
    /// Ready tasks.
    pub ready: u64,
    /// Ways to run one of them; at least one.
    pub variants: Vec<Variant>,
    /// Index into [`Snapshot::shares`].
    pub share: Option<u32>,
}

/// A way to run a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// What it is worth to place one task, 1 to 1 000 000 000; what is outside counts as the nearest of these.
    pub weight: u32,
    /// Resources that one task takes, by their index in [`Shape::givers`], each once. Where one has no giver, or more is
    /// asked for than there is, or nothing, the task can never run.
    pub takes: Vec<(u32, Take)>,
    /// How long the worker must live at least, in µs.
    pub time_us: u64,
}

/// How much of a resource one task takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// The whole pool.
    All,
    /// So much of it.
    Some(Amount),
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
