//! The planner: which ready tasks start where, as a pure function of a snapshot under a step budget.
//!
//! [`plan`] reads a [`Snapshot`] (workers with what is free on them, classes of ready tasks) and answers with a
//! [`Plan`]: lines to start, workers held for tasks too large to fit yet, and for each class with tasks left over
//! what these wait for. Its cost grows with classes times distinct fill states of workers, never with tasks.
//!
//! Priorities are strict: a class is placed only in what higher priorities leave. Within a priority the sum of the
//! weights of the tasks placed is made as large as possible; where that does not decide, tasks with the longest
//! path to the end of their graph go first, then older ones.

mod bins;
mod fill;
mod hold;
mod knapsack;
pub mod limits;
mod need;
mod pack;
mod plan;
mod planner;
pub mod shares;
mod snapshot;
mod waiting;

pub use plan::{Hold, Line, NodesLine, Plan, Waiting, WaitingClass};
pub use planner::plan;
pub use snapshot::{
    Class, ClassId, End, GroupFree, Options, PoolFree, ShareGroup, Snapshot, Worker, all_free,
};
