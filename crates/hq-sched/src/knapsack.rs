//! The most valuable content of one bin: greedy by several densities, then a bounded exact search.

use crate::limits::{SEARCH_NODES, SEARCHES};
use crate::need;

/// Something that may go into the bin several times.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) item: usize,
    /// Candidates of one class share its tasks: at most `max` of them together. Those of a class follow each other.
    pub(crate) class: usize,
    pub(crate) value: u64,
    pub(crate) max: u64,
    /// What one takes, pool by pool.
    pub(crate) units: Vec<u64>,
}

const SCALE: u64 = 1 << 20;

/// How many of each candidate, as (place in `candidates`, count). Earlier candidates win ties.
pub(crate) fn best(free: &[u64], candidates: &[Candidate], steps: &mut u64) -> Vec<(usize, u64)> {
    let pools: Vec<usize> =
        (0..free.len()).filter(|&p| free[p] > 0 && candidates.iter().any(|c| c.units[p] > 0)).collect();
    let mut weightings: Vec<Vec<u64>> = vec![vec![4; pools.len()]];
    if candidates.len() > 1 && *steps > 0 {
        for heavy in 0..pools.len().min(6) {
            weightings.push((0..pools.len()).map(|p| if p == heavy { 16 } else { 1 }).collect());
        }
    }
    let mut best: Option<Greedy> = None;
    for weights in weightings {
        *steps = steps.saturating_sub(candidates.len() as u64);
        let dense = by_density(free, candidates, &pools, &weights);
        let content = greedy(free, candidates, &dense);
        let value = value(candidates, &content);
        if best.as_ref().is_none_or(|b| value > b.value) {
            best = Some(Greedy { value, content, dense, room: weights.iter().sum::<u64>() * SCALE });
        }
    }
    let Some(Greedy { value, content, dense, room }) = best else { return Vec::new() };
    if *steps == 0 || candidates.len() < 2 {
        return content;
    }
    let mut search = Search {
        candidates,
        dense: &dense,
        free: free.to_vec(),
        used: Used::default(),
        chosen: Vec::new(),
        best_value: value,
        best: content,
        nodes: SEARCH_NODES.min(steps.div_ceil(SEARCHES)),
    };
    let before = search.nodes;
    search.down(0, 0, room);
    *steps -= before - search.nodes;
    search.best
}

// A content found by one weighting of the pools, and what the search needs to go on from it.
struct Greedy {
    value: u64,
    content: Vec<(usize, u64)>,
    dense: Vec<Dense>,
    room: u64,
}

struct Dense {
    at: usize,
    /// Its part of the bin by the weighting; a valid set never exceeds the sum of the weights.
    cost: u64,
    density: u128,
}

fn by_density(free: &[u64], candidates: &[Candidate], pools: &[usize], weights: &[u64]) -> Vec<Dense> {
    let cost = |c: &Candidate| -> u64 {
        let part = |(&p, &w): (&usize, &u64)| {
            (u128::from(w) * u128::from(c.units[p]) * u128::from(SCALE) / u128::from(free[p])) as u64
        };
        pools.iter().zip(weights).map(part).sum()
    };
    let mut dense: Vec<Dense> = candidates
        .iter()
        .enumerate()
        .map(|(at, c)| {
            let cost = cost(c);
            Dense { at, cost, density: (u128::from(c.value) << 40) / u128::from(cost.max(1)) + 1 }
        })
        .collect();
    dense.sort_by_key(|d| (std::cmp::Reverse(d.density), d.at));
    dense
}

fn room(free: &[u64], candidate: &Candidate, used: u64) -> u64 {
    need::room(free, &candidate.units).min(candidate.max - used)
}

fn greedy(free: &[u64], candidates: &[Candidate], dense: &[Dense]) -> Vec<(usize, u64)> {
    let mut free = free.to_vec();
    let mut used = Used::default();
    let mut content = Vec::new();
    for d in dense {
        let candidate = &candidates[d.at];
        let count = room(&free, candidate, used.of(candidate.class));
        if count > 0 {
            need::take(&mut free, &candidate.units, count);
            used.add(candidate.class, count);
            content.push((d.at, count));
        }
    }
    exchange_variants(&mut free, candidates, &mut content);
    content
}

// Where there is room left, dearer and earlier variants of the same classes.
fn exchange_variants(free: &mut [u64], candidates: &[Candidate], content: &mut Vec<(usize, u64)>) {
    for entry in 0..content.len() {
        let (from, _) = content[entry];
        let class = candidates[from].class;
        let first = candidates[..from].iter().rposition(|c| c.class != class).map_or(0, |at| at + 1);
        let mut others: Vec<usize> =
            (first..candidates.len()).take_while(|&at| candidates[at].class == class).collect();
        others.sort_by_key(|&at| (std::cmp::Reverse(candidates[at].value), at));
        for to in others {
            let (old, new) = (&candidates[from], &candidates[to]);
            let count = content[entry].1;
            if (new.value, from) <= (old.value, to) || count == 0 {
                break;
            }
            let times = |((free, old), new): ((&u64, &u64), &u64)| match new.checked_sub(*old) {
                Some(more) if more > 0 => free / more,
                _ => u64::MAX,
            };
            let times = free.iter().zip(&old.units).zip(&new.units).map(times).min().unwrap_or(0).min(count);
            for ((free, old), new) in free.iter_mut().zip(&old.units).zip(&new.units) {
                *free = *free + old * times - new * times;
            }
            if times > 0 {
                content[entry].1 -= times;
                content.push((to, times));
            }
        }
    }
    content.retain(|entry| entry.1 > 0);
}

// Tasks taken, by class.
#[derive(Default)]
struct Used(Vec<u64>);

impl Used {
    fn of(&self, class: usize) -> u64 {
        self.0.get(class).copied().unwrap_or(0)
    }

    fn add(&mut self, class: usize, count: u64) {
        if self.0.len() <= class {
            self.0.resize(class + 1, 0);
        }
        self.0[class] += count;
    }
}

fn value(candidates: &[Candidate], content: &[(usize, u64)]) -> u64 {
    content.iter().map(|&(at, count)| candidates[at].value.saturating_mul(count)).sum()
}

struct Search<'a> {
    candidates: &'a [Candidate],
    dense: &'a [Dense],
    free: Vec<u64>,
    used: Used,
    chosen: Vec<(usize, u64)>,
    best_value: u64,
    best: Vec<(usize, u64)>,
    nodes: u64,
}

impl Search<'_> {
    fn room(&self, depth: usize) -> u64 {
        let candidate = &self.candidates[self.dense[depth].at];
        room(&self.free, candidate, self.used.of(candidate.class))
    }

    fn down(&mut self, depth: usize, value: u64, room_left: u64) {
        if value > self.best_value {
            self.best_value = value;
            self.best = self.chosen.clone();
        }
        let mut depth = depth;
        // What does not fit any more needs no branch.
        while depth < self.dense.len() && self.room(depth) == 0 {
            depth += 1;
        }
        if depth == self.dense.len() || self.nodes == 0 {
            return;
        }
        self.nodes -= 1;
        let dense = &self.dense[depth];
        let bound = (u128::from(room_left) * dense.density) >> 40;
        if u128::from(value) + bound <= u128::from(self.best_value) {
            return;
        }
        let candidate = &self.candidates[dense.at];
        let most = self.room(depth);
        for count in (0..=most).rev() {
            need::take(&mut self.free, &candidate.units, count);
            self.used.add(candidate.class, count);
            if count > 0 {
                self.chosen.push((dense.at, count));
            }
            let cost = dense.cost.saturating_mul(count);
            self.down(depth + 1, value + candidate.value * count, room_left.saturating_sub(cost));
            self.used.0[candidate.class] -= count;
            if count > 0 {
                self.chosen.pop();
            }
            for (free, units) in self.free.iter_mut().zip(&candidate.units) {
                *free += units * count;
            }
            if self.nodes == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_finds_what_greedy_misses() {
        let candidate = |item, value, cpus| Candidate { item, class: item, value, max: 9, units: vec![cpus] };
        // Greedy takes one of six and leaves four idle; two of five fill the bin.
        let found = best(&[10], &[candidate(0, 13, 6), candidate(1, 10, 5)], &mut 10_000);
        assert_eq!(found, [(1, 2)]);
    }
}
