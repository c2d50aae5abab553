//! The order in which things happen.

use std::cmp::Ordering;

use hq_model::Timestamp;

use crate::world::Event;

/// An event and its time; what was put in first comes first.
pub(crate) struct Due {
    pub(crate) at: Timestamp,
    pub(crate) sequence: u64,
    pub(crate) event: Box<Event>,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.sequence == other.sequence
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        // The heap gives the largest first.
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}
