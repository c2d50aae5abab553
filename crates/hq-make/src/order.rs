//! What goes first: the cost of a run and of all that follows from it, as pmake has it.

use rustc_hash::FxHashMap;

use crate::plan::{Plan, Run};

/// What one node has: how many resource sets of a run fit on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// CPUs.
    pub cpus: u32,
    /// GPUs.
    pub gpus: u32,
}

/// Successors whose sum is taken at a time: 64 times so many.
const WORDS: usize = 16;
/// A sum of costs for each value of a byte of a set.
const BYTES: usize = WORDS * 8;

/// A priority for each run of the plan: the higher, the more node-hours the run and all its transitive successors take
/// together, each successor counted once. Equal costs have equal priorities; runs that are not to run have 0.
///
/// It is exact. Sets of successors are bits, for 1 024 runs at a time: 128 bytes per run, and one pass over the graph per
/// 1 024 runs in which only those count that come before these. Runs with one successor need no sets, and runs with the
/// same successors share one.
pub fn cost(plan: &Plan, node: Node) -> Vec<i32> {
    let costs = node_time(plan, node);
    let mut distinct: Vec<u128> =
        plan.runs.iter().filter(|run| run.is_to_run()).map(|run| costs[run.id.index()]).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let rank = |run: &Run| match distinct.binary_search(&costs[run.id.index()]) {
        Ok(at) if run.is_to_run() => i32::try_from(at + 1).unwrap_or(i32::MAX),
        _ => 0,
    };
    plan.runs.iter().map(rank).collect()
}

/// Per run, the time of nodes that it and all its transitive successors take, in microseconds of a millionth of a node.
fn node_time(plan: &Plan, node: Node) -> Vec<u128> {
    let own: Vec<u128> =
        plan.runs.iter().map(|run| if run.is_to_run() { own(run, node) } else { 0 }).collect();
    let mut successors: Vec<Vec<u32>> = vec![Vec::new(); plan.runs.len()];
    for run in &plan.runs {
        for before in &run.after {
            successors[before.index()].push(run.id.0);
        }
    }
    sums(&own, &successors)
}

fn own(run: &Run, node: Node) -> u128 {
    let resources = &run.resources;
    let sets_by =
        |of_node: u32, of_set: u32| of_node.checked_div(of_set).map_or(u32::MAX, |sets| sets.max(1));
    let sets_per_node = sets_by(node.cpus, resources.cpu).min(sets_by(node.gpus, resources.gpu)).max(1);
    let micros = resources.time.map_or(0, |time| time.as_micros());
    micros * u128::from(resources.nrs) * 1_000_000 / u128::from(sets_per_node)
}

/// Per node of a graph, its weight and those of all that can be reached from it. Successors have higher numbers.
fn sums(own: &[u128], successors: &[Vec<u32>]) -> Vec<u128> {
    let count = own.len();
    // Of several nodes with the same successors one stands for all, below.
    let mut first_with: FxHashMap<&[u32], u32> = FxHashMap::default();
    let mut stands_for = vec![u32::MAX; count];
    // Whether a node can be reached from one with several successors: only of these are sets needed.
    let mut is_below = vec![false; count];
    let mut branching = Vec::new();
    for at in 0..count {
        if successors[at].len() > 1 {
            let first = *first_with.entry(&successors[at]).or_insert(at as u32);
            stands_for[at] = first;
            if first as usize == at {
                branching.push(at);
            }
        }
        if is_below[at] || successors[at].len() > 1 {
            successors[at].iter().for_each(|next| is_below[*next as usize] = true);
        }
    }
    let mut below = vec![0_u128; count];
    if !branching.is_empty() {
        let columns: Vec<usize> = (0..count).filter(|at| is_below[*at]).collect();
        let mut sets = vec![[0_u64; WORDS]; count];
        let mut has_some = vec![false; count];
        for block in columns.chunks(64 * WORDS) {
            let Some(last) = block.last() else { continue };
            let mut column = vec![u32::MAX; last + 1 - block[0]];
            for (bit, at) in block.iter().enumerate() {
                column[at - block[0]] = bit as u32;
            }
            let table = table(block, own);
            for at in (0..=*last).rev() {
                has_some[at] = false;
                if !is_below[at] && stands_for[at] != at as u32 {
                    continue;
                }
                let mut set = [0_u64; WORDS];
                let mut some = false;
                for next in &successors[at] {
                    let next = *next as usize;
                    if next <= *last && has_some[next] {
                        some = true;
                        set.iter_mut().zip(&sets[next]).for_each(|(word, other)| *word |= other);
                    }
                }
                if some && stands_for[at] == at as u32 {
                    below[at] += sum(&set, &table);
                }
                if at >= block[0] && column[at - block[0]] != u32::MAX {
                    let bit = column[at - block[0]] as usize;
                    set[bit / 64] |= 1 << (bit % 64);
                    some = true;
                }
                if some {
                    sets[at] = set;
                    has_some[at] = true;
                }
            }
        }
    }
    let mut total = vec![0_u128; count];
    for at in (0..count).rev() {
        total[at] = own[at]
            + match &successors[at][..] {
                [] => 0,
                [next] => total[*next as usize],
                _ => below[stands_for[at] as usize],
            };
    }
    total
}

fn table(block: &[usize], own: &[u128]) -> Vec<[u128; 256]> {
    let weight = |bit: usize| block.get(bit).map_or(0, |at| own[*at]);
    let mut table = vec![[0_u128; 256]; BYTES];
    for (byte, sums) in table.iter_mut().enumerate() {
        for value in 1..256_usize {
            let lowest = value.trailing_zeros() as usize;
            sums[value] = sums[value & (value - 1)] + weight(8 * byte + lowest);
        }
    }
    table
}

fn sum(set: &[u64; WORDS], table: &[[u128; 256]]) -> u128 {
    let mut sum = 0;
    for (number, word) in set.iter().enumerate() {
        if *word != 0 {
            for (byte, value) in word.to_le_bytes().iter().enumerate() {
                sum += table[8 * number + byte][usize::from(*value)];
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // By looking at each.
    fn slowly(own: &[u128], successors: &[Vec<u32>]) -> Vec<u128> {
        let reach = |from: usize| {
            let mut seen = vec![false; own.len()];
            let mut stack = vec![from];
            let mut sum = 0;
            while let Some(at) = stack.pop() {
                if !std::mem::replace(&mut seen[at], true) {
                    sum += own[at];
                    stack.extend(successors[at].iter().map(|next| *next as usize));
                }
            }
            sum
        };
        (0..own.len()).map(reach).collect()
    }

    #[test]
    fn a_diamond_counts_its_end_once() {
        let successors = [vec![1, 2], vec![3], vec![3], vec![]];
        assert_eq!(sums(&[1, 10, 100, 1000], &successors), [1111, 1010, 1100, 1000]);
    }

    #[test]
    fn more_runs_than_one_block_has_are_summed_exactly() {
        let count = 5000_u32;
        let successors: Vec<Vec<u32>> = (0..count)
            .map(|at| {
                [at + 1, at + 7, at * 2 + 1].into_iter().filter(|next| *next < count && at % 3 != 0).collect()
            })
            .map(|mut next: Vec<u32>| {
                next.sort_unstable();
                next.dedup();
                next
            })
            .collect();
        let own: Vec<u128> = (0..count).map(|at| u128::from(at * at % 97)).collect();
        assert_eq!(sums(&own, &successors), slowly(&own, &successors));
    }

    proptest! {
        #[test]
        fn any_graph_is_summed_as_by_looking_at_each(
            edges in prop::collection::vec((0u32..60, 1u32..20), 0..150),
            weights in prop::collection::vec(0u32..1000, 80),
        ) {
            let own: Vec<u128> = weights.iter().map(|weight| u128::from(*weight)).collect();
            let mut successors = vec![Vec::new(); 80];
            for (from, by) in edges {
                if !successors[from as usize].contains(&(from + by)) {
                    successors[from as usize].push(from + by);
                }
            }
            prop_assert_eq!(sums(&own, &successors), slowly(&own, &successors));
        }
    }
}
