//! The planner: which ready tasks of one priority start where, as a pure function of a snapshot under a step budget.
//!
//! [`plan`] reads a [`Snapshot`] (workers with what is free on them, classes of ready tasks) and answers with a
//! [`Plan`]: what to start. Its cost grows with classes times distinct fill states of workers, never with tasks.
//!
//! The sum of the weights of the tasks placed is made as large as possible; where that does not decide, classes that
//! come first in the snapshot go first. Only amounts count: indices, several nodes, locality, and who goes first of
//! tasks of several priorities are the business of the caller.

mod bins;
mod knapsack;
pub mod limits;
mod need;
mod pack;
mod plan;
mod planner;
pub mod shares;
mod snapshot;

pub use plan::{Line, Plan};
pub use planner::plan;
pub use snapshot::{Class, ClassId, Shape, ShareGroup, Snapshot, Take, Variant, Worker};
