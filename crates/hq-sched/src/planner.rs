//! One round: which classes there is room for, what shares leave them, and a packing of these.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use crate::bins::{self, Bin};
use crate::need;
use crate::pack::{self, Item, Supply};
use crate::plan::{Line, Plan};
use crate::shares::{self, Share};
use crate::snapshot::{Snapshot, Variant};

/// Plans a round that takes so many steps at most until the rest is filled without further search;
/// [`crate::limits::STEPS`] are enough. Equal snapshots and steps give equal plans.
///
/// # Panics
/// When an index of the snapshot leads nowhere.
pub fn plan(snapshot: &Snapshot, steps: u64) -> Plan {
    let mut round = Round::new(snapshot, steps);
    let classes = round.fitting();
    let items = round.items(&classes);
    let rooms = round.divide_shares();
    let class = |(class, _): &(usize, _)| &snapshot.classes[*class];
    let mut supply = Supply {
        ready: classes.iter().map(|c| class(c).ready).collect(),
        share: classes.iter().map(|c| class(c).share.map(|share| share as usize)).collect(),
        room: rooms.iter().map(|room| room.by_share).collect(),
    };
    round.pack(&items, &mut supply);
    if !rooms.is_empty() {
        // What shares leave idle is for everybody, up to the maxima.
        for (room, left) in rooms.iter().zip(&mut supply.room) {
            *left = room.by_max - (room.by_share - *left);
        }
        round.bins = bins::merge(std::mem::take(&mut round.bins));
        round.pack(&items, &mut supply);
    }
    let line = |(&(worker, class, variant), &count): (&(u32, usize, u32), &u64)| Line {
        worker: snapshot.workers[worker as usize].id,
        class: snapshot.classes[classes[class].0].id,
        variant,
        count,
    };
    let mut lines: Vec<Line> = round.placed.iter().map(line).collect();
    lines.sort_unstable();
    Plan { lines, carried: rooms.into_iter().map(|room| room.carried).collect() }
}

// What one task of a class takes: by variant, by shape, as `Item::units`.
type Needs = Vec<Vec<Option<Vec<u64>>>>;

struct Round<'a> {
    snapshot: &'a Snapshot,
    // Distinct time requests in µs, sorted.
    times: Vec<u64>,
    // By shape, pool by pool.
    totals: Vec<Vec<u64>>,
    bins: Vec<Bin>,
    steps: u64,
    // Tasks by worker, class (place among the fitting ones) and variant.
    placed: FxHashMap<(u32, usize, u32), u64>,
}

// Tasks of a share group that may start.
struct Room {
    by_share: u64,
    by_max: u64,
    carried: u64,
}

impl<'a> Round<'a> {
    fn new(snapshot: &'a Snapshot, steps: u64) -> Round<'a> {
        let variants = snapshot.classes.iter().flat_map(|class| &class.variants);
        let mut times: Vec<u64> = variants.map(|variant| variant.time_us).collect();
        times.sort_unstable();
        times.dedup();
        let bins = bins::group(snapshot, &times);
        let totals = snapshot.shapes.iter().map(|shape| shape.totals.iter().map(|total| total.0).collect());
        Round { snapshot, times, totals: totals.collect(), bins, steps, placed: FxHashMap::default() }
    }

    // The classes of which a task may fit now, dearest first.
    fn fitting(&self) -> Vec<(usize, Needs)> {
        // By shape, the most that any worker has free of each pool.
        let mut most_free: Vec<Vec<u64>> = self.totals.iter().map(|pools| vec![0; pools.len()]).collect();
        for bin in &self.bins {
            let most = &mut most_free[bin.shape];
            most.iter_mut().zip(&bin.free).for_each(|(most, free)| *most = *free.max(most));
        }
        let classes = &self.snapshot.classes;
        let mut order: Vec<usize> = (0..classes.len()).filter(|&class| classes[class].ready > 0).collect();
        order.sort_by_cached_key(|&class| {
            Reverse(classes[class].variants.iter().map(|variant| variant.weight).max())
        });
        let may_fit = |needs: &[Option<Vec<u64>>]| {
            needs
                .iter()
                .zip(&most_free)
                .any(|(units, most)| units.as_ref().is_some_and(|units| need::fits(most, units)))
        };
        let needs = order.into_iter().map(|class| (class, self.needs(class)));
        needs.filter(|(_, needs)| needs.iter().any(|needs| may_fit(needs))).collect()
    }

    fn needs(&self, class: usize) -> Needs {
        let shapes = &self.snapshot.shapes;
        let by_shape = |variant: &Variant| shapes.iter().map(|shape| need::units(shape, variant)).collect();
        self.snapshot.classes[class].variants.iter().map(by_shape).collect()
    }

    fn items(&self, classes: &[(usize, Needs)]) -> Vec<Item> {
        let mut items = Vec::new();
        for (at, (class, needs)) in classes.iter().enumerate() {
            let variants = &self.snapshot.classes[*class].variants;
            for (place, (variant, units)) in variants.iter().zip(needs).enumerate() {
                if units.iter().any(Option::is_some) {
                    items.push(Item {
                        class: at,
                        variant: place as u32,
                        value: u64::from(variant.weight.clamp(1, 1_000_000_000)) * 16,
                        time: self.times.partition_point(|time| *time < variant.time_us),
                        units: units.clone(),
                    });
                }
            }
        }
        items
    }

    // Of each share group; with the remainder for the next round.
    fn divide_shares(&self) -> Vec<Room> {
        let groups = &self.snapshot.shares;
        let mut ready = vec![0u64; groups.len()];
        let mut slots = 0;
        for (index, class) in self.snapshot.classes.iter().enumerate() {
            let Some(share) = class.share else { continue };
            ready[share as usize] += class.ready;
            if slots == 0 {
                slots = self.slots(index);
            }
        }
        let running: u64 = groups.iter().map(|group| group.running).sum();
        let most = |at: usize| groups[at].max.unwrap_or(u64::MAX);
        let share = |at: usize| {
            let max = most(at).min(groups[at].running + ready[at]);
            Share { min: groups[at].min, max, weight: groups[at].weight, carried: groups[at].carried }
        };
        let wanted: Vec<Share> = (0..groups.len()).map(share).collect();
        let given = shares::divide(running + slots, &wanted).into_iter().zip(groups).enumerate();
        let room = |(at, ((given, carried), group)): (usize, ((u64, u64), &crate::ShareGroup))| Room {
            by_share: given.saturating_sub(group.running),
            by_max: most(at).saturating_sub(group.running),
            carried,
        };
        given.map(room).collect()
    }

    // Tasks of a class that would fit now if there were no others.
    fn slots(&self, class: usize) -> u64 {
        let needs = self.needs(class);
        let fitting = |bin: &Bin| {
            let room =
                |needs: &Vec<Option<Vec<u64>>>| Some(need::room(&bin.free, needs[bin.shape].as_ref()?));
            let most = needs.iter().filter_map(room).max().unwrap_or(0).min(SLOTS_MAX);
            most * bin.workers.len() as u64
        };
        self.bins.iter().map(fitting).sum()
    }

    fn pack(&mut self, items: &[Item], supply: &mut Supply) {
        let pieces = pack::pack(&self.bins, &self.totals, items, supply, &mut self.steps);
        let mut new = Vec::new();
        for piece in pieces.into_iter().filter(|piece| !piece.placed.is_empty()) {
            let Bin { shape, life, .. } = self.bins[piece.bin];
            let workers: Vec<u32> = self.bins[piece.bin].workers.drain(..piece.count as usize).collect();
            for &(item, count) in &piece.placed {
                for &worker in &workers {
                    let item = &items[item];
                    *self.placed.entry((worker, item.class, item.variant)).or_default() += count;
                }
            }
            new.push(Bin { shape, life, free: piece.free, workers });
        }
        self.bins.extend(new);
    }
}

// Tasks on a worker that count when shares are divided: what takes nothing would fit without end.
const SLOTS_MAX: u64 = 1 << 20;
