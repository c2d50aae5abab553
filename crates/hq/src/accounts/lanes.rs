//! Attempts beside one another: those that run on a worker at the same time have lanes of their own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use hq_model::{Timestamp, WorkerId};

use super::Attempt;

/// For each attempt of a worker the lowest lane that is free.
#[derive(Default)]
pub(crate) struct Lanes(BTreeMap<WorkerId, LanesOfWorker>);

#[derive(Default)]
struct LanesOfWorker {
    // By when they are free again.
    busy: BinaryHeap<Reverse<(Timestamp, u32)>>,
    free: BTreeSet<u32>,
    count: u32,
}

impl Lanes {
    /// Attempts of one worker come in order of their starts.
    pub(crate) fn lane(&mut self, attempt: &Attempt) -> u32 {
        let lanes = self.0.entry(attempt.worker).or_default();
        while let Some(Reverse((end, lane))) = lanes.busy.peek().copied()
            && end <= attempt.start
        {
            lanes.busy.pop();
            lanes.free.insert(lane);
        }
        let lane = lanes.free.pop_first().unwrap_or_else(|| {
            lanes.count += 1;
            lanes.count - 1
        });
        lanes.busy.push(Reverse((attempt.end, lane)));
        lane
    }
}
