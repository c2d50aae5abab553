//! What a task asks for: amounts of named resources, in one or more variants.

use std::time::Duration;

use crate::Amount;

/// The name of the CPU pool.
pub const CPUS: &str = "cpus";
/// The name of the memory pool; its unit is one MiB.
pub const MEM: &str = "mem";
/// Any vendor's GPUs, in a request.
pub const GPUS: &str = "gpus";

/// How indices of a pool with groups are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// Fewest groups if possible.
    #[default]
    Compact,
    /// Fewest groups a worker of this shape could ever give; waits for them.
    CompactStrict,
    /// Fewest groups, filled from the fullest.
    Tight,
    /// As `Tight`, but waits.
    TightStrict,
    /// Spread over groups.
    Scatter,
}

/// How much of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AmountRequest {
    /// The whole pool, all of it free.
    All,
    /// This amount, above zero.
    Some(Amount, Policy),
}

/// One resource of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceRequest {
    /// Name of the pool.
    pub name: String,
    /// How much of it.
    pub amount: AmountRequest,
}

/// One variant of what a task asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// Whole workers of one group; 0 for a task within one worker.
    pub nodes: u32,
    /// Sorted by name, names unique. Empty for a multi-node request.
    pub resources: Vec<ResourceRequest>,
    /// The worker must live at least this long after the start.
    pub time_request: Duration,
    /// Scales this request's value to the scheduler, in 1/10000; 10000 is neutral.
    pub weight: u32,
}

/// The neutral weight.
pub const WEIGHT_NEUTRAL: u32 = 10_000;
