//! Workers kept for tasks that do not fit yet, so that smaller ones do not starve them.
//!
//! On a held worker only tasks start that end before there will be room, or that fit beside the large one.

use std::cmp::Reverse;

use crate::bins::{self, Bin};
use crate::fill;
use crate::limits::WITNESSES_MAX;
use crate::pack::{Item, Supply};
use crate::snapshot::{PoolFree, Snapshot, Worker};

/// A worker that is held.
#[derive(Clone, Debug)]
pub(crate) struct HeldWorker {
    pub(crate) worker: u32,
    /// Place in the snapshot.
    pub(crate) class: usize,
    pub(crate) until_us: Option<u64>,
    pub(crate) shape: usize,
    pub(crate) life: usize,
    pub(crate) free: Vec<PoolFree>,
    /// What stays free beside the large task once it runs, pool by pool.
    pub(crate) beside: Vec<u64>,
}

/// When a worker has these units free: now is zero, `u64::MAX` is unknown.
pub(crate) fn earliest(worker: &Worker, needed: &[u64]) -> u64 {
    let mut free = bins::units(&worker.free);
    let enough = |free: &[u64]| free.iter().zip(needed).all(|(free, needed)| free >= needed);
    if enough(&free) {
        return 0;
    }
    let mut ends: Vec<_> = worker.ends.iter().filter(|e| e.in_us.is_some()).collect();
    ends.sort_by_key(|end| end.in_us);
    for end in ends {
        for &(pool, amount) in &end.frees {
            if let Some(free) = free.get_mut(pool as usize) {
                *free += amount.0;
            }
        }
        if enough(&free) {
            return end.in_us.unwrap_or(u64::MAX);
        }
    }
    u64::MAX
}

/// The worker that has room for the item first, taken out of its bin.
pub(crate) fn hold(
    snapshot: &Snapshot,
    bins: &mut [Bin],
    empty: &[Vec<PoolFree>],
    item: &Item,
    class: usize,
) -> Option<HeldWorker> {
    let mut order: Vec<usize> = (0..bins.len())
        .filter(|&b| item.needs[bins[b].shape].is_some() && bins[b].life > item.time)
        .collect();
    order.sort_by_cached_key(|&b| {
        let needed = &item.units[bins[b].shape];
        let short =
            bins::units(&bins[b].free).iter().zip(needed).map(|(free, n)| n.saturating_sub(*free)).max();
        (short, b)
    });
    let witnesses = order.iter().flat_map(|&b| bins[b].workers.iter().map(move |w| (b, *w)));
    let (_, bin, worker) = witnesses
        .take(WITNESSES_MAX)
        .map(|(bin, at)| (earliest(&snapshot.workers[at as usize], &item.units[bins[bin].shape]), bin, at))
        .min_by_key(|&(when, bin, at)| {
            let idle = bins::units(&bins[bin].free).iter().sum::<u64>();
            (when, Reverse(idle), at)
        })?;
    let Bin { shape, life, .. } = bins[bin];
    let needed = &item.units[shape];
    bins[bin].workers.retain(|w| *w != worker);
    let when = earliest(&snapshot.workers[worker as usize], needed);
    let until_us = (when != u64::MAX).then_some(when);
    let mut beside: Vec<u64> = bins::units(&empty[shape]);
    beside.iter_mut().zip(needed).for_each(|(total, needed)| *total -= needed);
    for end in &snapshot.workers[worker as usize].ends {
        let outlasts = until_us.is_none_or(|until| end.in_us.is_none_or(|at| at > until));
        for &(pool, amount) in end.frees.iter().filter(|_| outlasts) {
            beside[pool as usize] = beside[pool as usize].saturating_sub(amount.0);
        }
    }
    let free = bins[bin].free.clone();
    Some(HeldWorker { worker, class, until_us, shape, life, free, beside })
}

/// Starts on a held worker what does not delay the task it is held for: item and count.
pub(crate) fn backfill(
    held: &mut HeldWorker,
    empty: &[Vec<PoolFree>],
    items: &[Item],
    expected_us: &dyn Fn(usize) -> Option<u64>,
    supply: &mut Supply,
) -> Vec<(usize, u64)> {
    let mut placed = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let Some(need) = &item.needs[held.shape] else { continue };
        if item.time >= held.life {
            continue;
        }
        let ends_before =
            expected_us(item.class).zip(held.until_us).is_some_and(|(expected, until)| expected <= until);
        let units = &item.units[held.shape];
        let mut most = supply.of(item.class);
        if !ends_before {
            let room = held.beside.iter().zip(units).filter(|(_, u)| **u > 0).map(|(b, u)| b / u);
            most = most.min(room.min().unwrap_or(0));
        }
        let count = fill::take(&mut held.free, &empty[held.shape], need, most);
        if count > 0 {
            if !ends_before {
                held.beside.iter_mut().zip(units).for_each(|(beside, units)| *beside -= units * count);
            }
            supply.take(item.class, count);
            placed.push((at, count));
        }
    }
    placed
}
