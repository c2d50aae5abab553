//! What clients are told of how loaded nodes were.

use std::time::Duration;

use hq_model::{Timestamp, WorkerId};

use crate::overview::NodesLoad;
use crate::series::LoadPoint;

/// How loaded a node, or all together, were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadHistory {
    /// The worker of the node; without one, of all nodes.
    pub worker: Option<WorkerId>,
    /// The time of the server.
    pub now: Timestamp,
    /// How it is now.
    pub nodes: NodesLoad,
    /// How long a point is.
    pub step: Duration,
    /// The points, the oldest first; none for times in which nothing was heard.
    pub points: Vec<LoadPoint>,
}
