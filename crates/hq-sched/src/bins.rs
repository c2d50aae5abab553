//! Workers that are alike: equal shape, equal free amounts, and lives that serve the same requests.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::snapshot::Snapshot;

/// Some workers between which the planner sees no difference.
#[derive(Clone, Debug)]
pub(crate) struct Bin {
    pub(crate) shape: usize,
    /// How many of the distinct time requests these workers outlive.
    pub(crate) life: usize,
    /// Pool by pool, in 1/10000.
    pub(crate) free: Vec<u64>,
    /// Places in the snapshot.
    pub(crate) workers: Vec<u32>,
}

/// Groups workers. `times` are the distinct time requests in µs, sorted.
pub(crate) fn group(snapshot: &Snapshot, times: &[u64]) -> Vec<Bin> {
    let single = snapshot.workers.iter().zip(0..).map(|(worker, index)| Bin {
        shape: worker.shape as usize,
        life: worker.life_us.map_or(times.len(), |life| times.partition_point(|t| *t <= life)),
        free: worker.free.iter().map(|free| free.0).collect(),
        workers: vec![index],
    });
    merge(single)
}

/// Puts bins together that are alike; drops those without workers.
pub(crate) fn merge(bins: impl IntoIterator<Item = Bin>) -> Vec<Bin> {
    let mut at: FxHashMap<(usize, usize, Vec<u64>), usize> = FxHashMap::default();
    let mut merged: Vec<Bin> = Vec::new();
    for bin in bins.into_iter().filter(|bin| !bin.workers.is_empty()) {
        match at.entry((bin.shape, bin.life, bin.free.clone())) {
            Entry::Occupied(same) => merged[*same.get()].workers.extend(bin.workers),
            Entry::Vacant(new) => {
                new.insert(merged.len());
                merged.push(bin);
            }
        }
    }
    merged
}
