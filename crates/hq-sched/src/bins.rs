//! Workers that are alike: equal shape, equal free state, and lives that serve the same requests.

use rustc_hash::FxHashMap;

use crate::fill;
use crate::snapshot::{PoolFree, Snapshot};

/// Some workers between which the planner sees no difference.
#[derive(Clone, Debug)]
pub(crate) struct Bin {
    pub(crate) shape: usize,
    /// How many of the distinct time requests these workers outlive.
    pub(crate) life: usize,
    pub(crate) free: Vec<PoolFree>,
    /// Places in the snapshot.
    pub(crate) workers: Vec<u32>,
}

/// Groups workers. `times` are the distinct time requests in µs, sorted.
pub(crate) fn group(snapshot: &Snapshot, times: &[u64]) -> Vec<Bin> {
    let mut at: FxHashMap<(u32, usize, &[PoolFree]), usize> = FxHashMap::default();
    let mut bins: Vec<Bin> = Vec::new();
    for (index, worker) in snapshot.workers.iter().enumerate() {
        let life = worker.life_us.map_or(times.len(), |life| times.partition_point(|t| *t <= life));
        let key = (worker.shape, life, &worker.free[..]);
        let bin = *at.entry(key).or_insert_with(|| {
            let free = worker.free.clone();
            bins.push(Bin { shape: worker.shape as usize, life, free, workers: Vec::new() });
            bins.len() - 1
        });
        bins[bin].workers.push(index as u32);
    }
    bins
}

/// Puts bins together that have become alike; drops those without workers.
pub(crate) fn merge(bins: Vec<Bin>) -> Vec<Bin> {
    let mut at: FxHashMap<(usize, usize, Vec<PoolFree>), usize> = FxHashMap::default();
    let mut merged: Vec<Bin> = Vec::new();
    for bin in bins.into_iter().filter(|bin| !bin.workers.is_empty()) {
        let key = (bin.shape, bin.life, bin.free.clone());
        match at.get(&key) {
            Some(&same) => merged[same].workers.extend(bin.workers),
            None => {
                at.insert(key, merged.len());
                merged.push(bin);
            }
        }
    }
    merged
}

/// Free units of each pool.
pub(crate) fn units(free: &[PoolFree]) -> Vec<u64> {
    free.iter().map(fill::units).collect()
}
