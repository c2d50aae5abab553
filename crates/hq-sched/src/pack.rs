//! Tasks into bins: the largest sum of weights, by prices on scarce classes.
//!
//! Every bin takes its most valuable content. Classes of which that takes more than there is get a price, which is
//! subtracted from their value, and all is packed again; the best packing seen is kept. (Prices are the multipliers of a
//! Lagrangian relaxation, moved by subgradients with steps after Polyak; their bound says when to stop.) What is left to
//! gain is looked for by emptying a few workers and filling them anew.

use std::cmp::Reverse;

use crate::bins::Bin;
use crate::knapsack::{self, Candidate};
use crate::limits::{PRICE_ROUNDS, REPACK_ROUNDS, SEARCH_BINS_MAX, SEARCH_CLASSES_MAX};
use crate::need;

/// One variant of a class.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Place among the classes that are packed.
    pub(crate) class: usize,
    pub(crate) variant: u32,
    pub(crate) value: u64,
    /// It runs in bins with a larger `life`.
    pub(crate) time: usize,
    /// By shape: what one takes, pool by pool, in 1/10000; `None` where it can never run.
    pub(crate) units: Vec<Option<Vec<u64>>>,
}

/// How many tasks there are.
#[derive(Clone, Debug)]
pub(crate) struct Supply {
    /// By class.
    pub(crate) ready: Vec<u64>,
    /// By class: its share group.
    pub(crate) share: Vec<Option<usize>>,
    /// By share group: tasks that may still start.
    pub(crate) room: Vec<u64>,
}

impl Supply {
    pub(crate) fn of(&self, class: usize) -> u64 {
        self.share[class].map_or(self.ready[class], |share| self.ready[class].min(self.room[share]))
    }

    pub(crate) fn take(&mut self, class: usize, count: u64) {
        self.ready[class] -= count;
        if let Some(share) = self.share[class] {
            self.room[share] -= count;
        }
    }

    fn put_back(&mut self, class: usize, count: u64) {
        self.ready[class] += count;
        if let Some(share) = self.share[class] {
            self.room[share] += count;
        }
    }
}

/// Workers of one bin that get the same tasks.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) bin: usize,
    pub(crate) count: u64,
    pub(crate) free: Vec<u64>,
    /// Item and count, on each of the workers.
    pub(crate) placed: Vec<(usize, u64)>,
}

/// Packs items, given in order of precedence; supply is taken accordingly. `totals` is by shape, pool by pool.
pub(crate) fn pack(
    bins: &[Bin],
    totals: &[Vec<u64>],
    items: &[Item],
    supply: &mut Supply,
    steps: &mut u64,
) -> Vec<Piece> {
    let job = Job::new(bins, totals, items);
    if supply.ready.len() > SEARCH_CLASSES_MAX || bins.len() > SEARCH_BINS_MAX || *steps == 0 {
        return job.one_by_one(supply);
    }
    let free = vec![0; supply.ready.len()];
    let (mut best, mut best_supply) = job.construct(supply, &free, false, steps);
    let mut best_value = job.value(&best);
    // More than every task in its dearest way cannot be.
    let mut bound = job.most(supply);
    if items.len() > 1 && best_value < bound {
        // Workers that offer most first: they alone may have what a dearer variant asks for.
        let (pieces, left) = job.construct(supply, &free, true, steps);
        if job.value(&pieces) > best_value {
            best_value = job.value(&pieces);
            (best, best_supply) = (pieces, left);
        }
        let is_close = |value: u64, bound: u64| u128::from(value) * 1_000 >= u128::from(bound) * 999;
        let mut prices = free;
        for round in 0..PRICE_ROUNDS {
            let Some(above) = job.adjust(supply, &mut prices, best_value, steps) else { break };
            bound = bound.min(above);
            if is_close(best_value, bound) {
                break;
            }
            let (pieces, left) = job.construct(supply, &prices, round % 2 == 0, steps);
            let value = job.value(&pieces);
            if value > best_value {
                (best, best_supply, best_value) = (pieces, left, value);
            }
        }
        // Two starts: from tasks only in their dearest ways, few exchanges lead to mixtures that no one price gives.
        let mut starts = vec![(best, best_supply, best_value)];
        if *steps > 0 && !is_close(best_value, bound) {
            let dear: Vec<u64> = job.dearest().iter().map(|value| value / 4 * 3).collect();
            let (pieces, left) = job.construct(supply, &dear, false, steps);
            let value = job.value(&pieces);
            starts.push((pieces, left, value));
        }
        let mut draw = Draw(1);
        for (pieces, left, value) in &mut starts {
            for _ in 0..REPACK_ROUNDS {
                if *steps == 0 || is_close(*value, bound) {
                    break;
                }
                let (other, other_left) = job.repack(pieces, left, &prices, &mut draw, steps);
                let other_value = job.value(&other);
                if other_value >= *value {
                    (*pieces, *left, *value) = (other, other_left, other_value);
                }
            }
        }
        // Of equal ones the first.
        starts.sort_by_key(|start| Reverse(start.2));
        let (pieces, left, _) = starts.swap_remove(0);
        (best, best_supply) = (pieces, left);
    }
    *supply = best_supply;
    best
}

// Workers are looked at in so many at a time when the most that any of them has free is too little.
const SHELF_PIECES: usize = 64;

// Slack of a class in so many parts of its tasks.
const SLACK_UNITS: i128 = 1 << 16;

struct Job<'a> {
    bins: &'a [Bin],
    totals: &'a [Vec<u64>],
    items: &'a [Item],
    // Bins, those that offer least first.
    order: Vec<usize>,
    // By shape: the least that any item takes of each pool.
    least: Vec<Vec<u64>>,
}

impl<'a> Job<'a> {
    fn new(bins: &'a [Bin], totals: &'a [Vec<u64>], items: &'a [Item]) -> Job<'a> {
        let least = |shape: usize| {
            let fitting = items.iter().filter_map(|item| item.units[shape].as_ref());
            let least = |a: Vec<u64>, b: &Vec<u64>| a.iter().zip(b).map(|(a, b)| *a.min(b)).collect();
            fitting.fold(vec![u64::MAX; totals[shape].len()], least)
        };
        let least: Vec<Vec<u64>> = (0..totals.len()).map(least).collect();
        let is_wet = |bin: &Bin| need::fits(&bin.free, &least[bin.shape]);
        let mut order: Vec<usize> = (0..bins.len()).filter(|&b| is_wet(&bins[b])).collect();
        order.sort_by_cached_key(|&b| {
            let free = &bins[b].free;
            (free.iter().filter(|units| **units > 0).count(), free.clone(), bins[b].life, b)
        });
        Job { bins, totals, items, order, least }
    }

    fn value(&self, pieces: &[Piece]) -> u64 {
        let of = |p: &Piece| {
            p.placed.iter().map(|&(item, count)| self.items[item].value * count).sum::<u64>() * p.count
        };
        pieces.iter().map(of).sum()
    }

    fn construct(
        &self,
        supply: &Supply,
        prices: &[u64],
        reverse: bool,
        steps: &mut u64,
    ) -> (Vec<Piece>, Supply) {
        let mut supply = supply.clone();
        let mut pieces = Vec::new();
        let mut order = self.order.clone();
        if reverse {
            order.reverse();
        }
        for bin in order {
            let whole = Piece {
                bin,
                count: self.bins[bin].workers.len() as u64,
                free: self.bins[bin].free.clone(),
                placed: Vec::new(),
            };
            self.fill(whole, prices, &mut supply, steps, &mut pieces);
        }
        if prices.iter().any(|price| *price > 0) {
            let free = vec![0; prices.len()];
            for piece in std::mem::take(&mut pieces) {
                self.fill(piece, &free, &mut supply, steps, &mut pieces);
            }
        }
        (pieces, supply)
    }

    // The sum of weights if every task were placed in its dearest way.
    fn most(&self, supply: &Supply) -> u64 {
        self.dearest().iter().enumerate().map(|(class, value)| value * supply.of(class)).sum()
    }

    // By class, the value of its dearest way.
    fn dearest(&self) -> Vec<u64> {
        let mut dearest = vec![0; self.items.last().map_or(0, |item| item.class + 1)];
        self.items.iter().for_each(|item| dearest[item.class] = item.value.max(dearest[item.class]));
        dearest
    }

    // Empties some workers and fills them anew, in another order and at other prices.
    fn repack(
        &self,
        pieces: &[Piece],
        supply: &Supply,
        prices: &[u64],
        draw: &mut Draw,
        steps: &mut u64,
    ) -> (Vec<Piece>, Supply) {
        let mut pieces = pieces.to_vec();
        let mut supply = supply.clone();
        let mut emptied = Vec::new();
        for _ in 0..2 + draw.below(3) {
            if pieces.is_empty() {
                break;
            }
            let at = draw.below(pieces.len() as u64) as usize;
            let piece = &mut pieces[at];
            // All of them, a few, or some: the best mixture of contents may be at any part of them.
            let count = match draw.below(3) {
                0 => piece.count,
                1 => 1 + draw.below(piece.count.min(3)),
                _ => 1 + draw.below(piece.count),
            };
            for &(item, each) in &piece.placed {
                supply.put_back(self.items[item].class, each * count);
            }
            let free = self.bins[piece.bin].free.clone();
            emptied.push(Piece { bin: piece.bin, count, free, placed: Vec::new() });
            piece.count -= count;
            if piece.count == 0 {
                pieces.swap_remove(at);
            }
        }
        *steps = steps.saturating_sub(pieces.len() as u64);
        // What is kept may have room for a task that goes elsewhere now.
        let kept = std::mem::take(&mut pieces);
        // Each at prices of its own, so that some may do without what is better elsewhere.
        let dearest = self.dearest();
        for piece in emptied {
            let changed = dearest.iter().zip(prices).map(|(dearest, price)| match draw.below(4) {
                0 => 0,
                1 => draw.below(dearest + 1),
                _ => *price,
            });
            let changed: Vec<u64> = changed.collect();
            self.fill(piece, &changed, &mut supply, steps, &mut pieces);
        }
        let free = vec![0; prices.len()];
        let filled = std::mem::take(&mut pieces);
        for piece in filled.into_iter().chain(kept) {
            self.fill(piece, &free, &mut supply, steps, &mut pieces);
        }
        (pieces, supply)
    }

    // Without a search: each item, densest first, as often as it fits, bin by bin.
    fn one_by_one(&self, supply: &mut Supply) -> Vec<Piece> {
        let cost = |item: &Item| -> u64 {
            let parts = |(units, totals): (&Option<Vec<u64>>, &Vec<u64>)| {
                let part =
                    |(units, total): (&u64, &u64)| (u128::from(*units) << 20) / u128::from((*total).max(1));
                Some(units.as_ref()?.iter().zip(totals).map(part).sum::<u128>() as u64)
            };
            item.units.iter().zip(self.totals).filter_map(parts).min().unwrap_or(0)
        };
        let mut items: Vec<usize> = (0..self.items.len()).collect();
        items.sort_by_cached_key(|&at| {
            let item = &self.items[at];
            (Reverse((u128::from(item.value) << 40) / u128::from(cost(item).max(1))), at)
        });
        let whole = |&bin: &usize| {
            let Bin { free, workers, .. } = &self.bins[bin];
            Piece { bin, count: workers.len() as u64, free: free.clone(), placed: Vec::new() }
        };
        let mut shelves: Vec<Vec<Shelf>> = vec![Vec::new(); self.totals.len()];
        for bin in &self.order {
            let shape = self.bins[*bin].shape;
            let shelves = &mut shelves[shape];
            if shelves.last().is_none_or(|shelf| shelf.pieces.len() >= SHELF_PIECES) {
                shelves.push(Shelf::default());
            }
            let Some(shelf) = shelves.last_mut() else { continue };
            shelf.pieces.push(whole(bin));
        }
        shelves.iter_mut().flatten().for_each(Shelf::measure);
        for at in items {
            let item = &self.items[at];
            for (shape, shelves) in shelves.iter_mut().enumerate() {
                let Some(units) = &item.units[shape] else { continue };
                for shelf in shelves {
                    if supply.of(item.class) > 0 && need::fits(&shelf.most, units) {
                        self.fill_shelf(shelf, at, units, supply);
                    }
                }
            }
        }
        shelves.into_iter().flatten().flat_map(|shelf| shelf.pieces).collect()
    }

    // As many of an item on each of these workers as fit.
    fn fill_shelf(&self, shelf: &mut Shelf, at: usize, units: &[u64], supply: &mut Supply) {
        let item = &self.items[at];
        let mut is_changed = false;
        for next in 0..shelf.pieces.len() {
            let piece = &mut shelf.pieces[next];
            let ready = supply.of(item.class);
            if ready == 0 {
                break;
            }
            let each = need::room(&piece.free, units).min(ready);
            if item.time >= self.bins[piece.bin].life || each == 0 {
                continue;
            }
            let mut free = piece.free.clone();
            need::take(&mut free, units, each);
            let workers = (ready / each).min(piece.count);
            supply.take(item.class, each * workers);
            is_changed = true;
            if workers == piece.count {
                piece.free = free;
                piece.placed.push((at, each));
                continue;
            }
            let mut filled = Piece { count: workers, free, ..piece.clone() };
            filled.placed.push((at, each));
            piece.count -= workers;
            shelf.pieces.push(filled);
            // The last tasks of the class may still fit on one worker of the rest.
            let ready = supply.of(item.class);
            let piece = &mut shelf.pieces[next];
            if ready > 0 {
                let mut last = Piece { count: 1, ..piece.clone() };
                need::take(&mut last.free, units, ready);
                last.placed.push((at, ready));
                supply.take(item.class, ready);
                piece.count -= 1;
                if piece.count == 0 { *piece = last } else { shelf.pieces.push(last) }
            }
        }
        if is_changed {
            shelf.measure();
        }
    }

    // Splits a piece until nothing more fits on any of its workers.
    fn fill(
        &self,
        mut piece: Piece,
        prices: &[u64],
        supply: &mut Supply,
        steps: &mut u64,
        done: &mut Vec<Piece>,
    ) {
        while piece.count > 0 {
            let mut free = piece.free.clone();
            let content = self.content(piece.bin, &mut free, prices, supply, steps);
            if content.is_empty() {
                done.push(piece);
                return;
            }
            let mut by_class: Vec<(usize, u64)> = Vec::new();
            let mut by_share: Vec<(usize, u64)> = Vec::new();
            for &(item, count) in &content {
                let class = self.items[item].class;
                add(&mut by_class, class, count);
                if let Some(share) = supply.share[class] {
                    add(&mut by_share, share, count);
                }
            }
            let times = by_class.iter().map(|&(class, count)| supply.ready[class] / count);
            let times = times.chain(by_share.iter().map(|&(share, count)| supply.room[share] / count));
            let times = times.min().unwrap_or(0).min(piece.count);
            assert!(times > 0, "a content never takes more than there is");
            by_class.iter().for_each(|&(class, count)| supply.take(class, count * times));
            let mut placed = piece.placed.clone();
            content.iter().for_each(|&(item, count)| add(&mut placed, item, count));
            done.push(Piece { bin: piece.bin, count: times, free, placed });
            piece.count -= times;
        }
    }

    // The best content, as far as shares allow, and whatever else then fits. Takes it.
    fn content(
        &self,
        bin: usize,
        free: &mut [u64],
        prices: &[u64],
        supply: &Supply,
        steps: &mut u64,
    ) -> Vec<(usize, u64)> {
        let candidates = self.candidates(bin, free, prices, supply, steps);
        if candidates.is_empty() {
            return Vec::new();
        }
        let chosen = knapsack::best(free, &candidates, steps);
        let mut left: Vec<(usize, u64)> = Vec::new();
        let mut left_of_share: Vec<(usize, u64)> = Vec::new();
        let mut content = Vec::new();
        let rest = (0..candidates.len()).map(|at| (at, u64::MAX));
        for (at, count) in chosen.into_iter().chain(rest) {
            let Candidate { item, class, units, .. } = &candidates[at];
            let used = |list: &[(usize, u64)], key| list.iter().find(|e| e.0 == key).map_or(0, |e| e.1);
            let mut most = supply.ready[*class] - used(&left, *class);
            if let Some(share) = supply.share[*class] {
                most = most.min(supply.room[share] - used(&left_of_share, share));
            }
            let taken = count.min(most).min(need::room(free, units));
            if taken > 0 {
                need::take(free, units, taken);
                add(&mut content, *item, taken);
                add(&mut left, *class, taken);
                if let Some(share) = supply.share[*class] {
                    add(&mut left_of_share, share, taken);
                }
            }
        }
        content
    }

    fn candidates(
        &self,
        bin: usize,
        free: &[u64],
        prices: &[u64],
        supply: &Supply,
        steps: &mut u64,
    ) -> Vec<Candidate> {
        let Bin { shape, life, .. } = self.bins[bin];
        if !need::fits(free, &self.least[shape]) {
            return Vec::new();
        }
        *steps = steps.saturating_sub(self.items.len() as u64);
        let candidate = |(at, item): (usize, &Item)| {
            let max = supply.of(item.class);
            let value = item.value.saturating_sub(prices[item.class]);
            let units = item.units[shape].as_ref()?;
            let is_one = max > 0 && value > 0 && item.time < life && need::fits(free, units);
            is_one.then(|| Candidate { item: at, class: item.class, value, max, units: units.clone() })
        };
        self.items.iter().enumerate().filter_map(candidate).collect()
    }

    // Moves prices towards what is taken being what there is; the value no packing exceeds, or none without a search.
    fn adjust(&self, supply: &Supply, prices: &mut [u64], best: u64, steps: &mut u64) -> Option<u64> {
        let mut taken = vec![0u64; prices.len()];
        let mut bound = 0u64;
        for &bin in &self.order {
            let Bin { free, workers, .. } = &self.bins[bin];
            let candidates = self.candidates(bin, free, prices, supply, steps);
            for (at, count) in knapsack::best(free, &candidates, steps) {
                let count = count * workers.len() as u64;
                taken[self.items[candidates[at].item].class] += count;
                bound += candidates[at].value * count;
            }
        }
        if *steps == 0 {
            return None;
        }
        bound += (0..prices.len()).map(|c| prices[c] * supply.of(c)).sum::<u64>();
        // In parts of what there is, so that small classes are heard beside large ones; far too much taken says no
        // more than too much.
        let slack = |c: usize| {
            let there = i128::from(supply.of(c)).max(1);
            let slack = (i128::from(taken[c]) - there).clamp(-there, there) * SLACK_UNITS / there;
            if prices[c] == 0 { slack.max(0) } else { slack }
        };
        let moves: Vec<i128> = (0..prices.len()).map(slack).collect();
        let norm: i128 = moves.iter().map(|m| m * m).sum();
        let gap = i128::from(bound.saturating_sub(best)).max(i128::from(best) / 200 + 1);
        if norm > 0 {
            for (c, price) in prices.iter_mut().enumerate() {
                let step = gap * SLACK_UNITS * moves[c] / norm / i128::from(supply.of(c)).max(1);
                *price = u64::try_from(i128::from(*price) + step).unwrap_or(0);
            }
        }
        Some(bound)
    }
}

// Some workers of one shape, and the most that any of them has free of each pool.
#[derive(Clone, Default)]
struct Shelf {
    pieces: Vec<Piece>,
    most: Vec<u64>,
}

impl Shelf {
    fn measure(&mut self) {
        self.most.clear();
        for piece in &self.pieces {
            self.most.resize(piece.free.len(), 0);
            self.most.iter_mut().zip(&piece.free).for_each(|(most, free)| *most = *free.max(most));
        }
    }
}

// Numbers without a pattern, the same ones in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn add(list: &mut Vec<(usize, u64)>, key: usize, count: u64) {
    match list.iter_mut().find(|entry| entry.0 == key) {
        Some(entry) => entry.1 += count,
        None => list.push((key, count)),
    }
}
