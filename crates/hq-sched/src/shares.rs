//! Dividing running tasks among jobs with shares.
//!
//! With room for all minima each job gets its minimum and then, filled like water, an equal part (by weight) of the
//! rest up to its maximum. Without room for them, each gets a part in proportion to its minimum.

/// What one job asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Tasks it should have at least.
    pub min: u64,
    /// Tasks it can use: the smaller of its maximum and what it has ready and running.
    pub max: u64,
    /// Its part of the rest; zero counts as one.
    pub weight: u32,
    /// What rounding took from it before, in parts that [`divide`] handed out.
    pub carried: u64,
}

/// One unit of a carried remainder is so small a part of a task.
pub const CARRY_UNITS: u64 = 1 << 20;

/// What each job gets, and the remainder to hand in with the next division. The sum never exceeds `room`, and
/// reaches it unless every job has its maximum.
pub fn divide(room: u64, shares: &[Share]) -> Vec<(u64, u64)> {
    let minimum = |s: &Share| s.min.min(s.max);
    let minima: u64 = shares.iter().map(minimum).sum();
    let most: Vec<u64> = shares.iter().map(|s| s.max).collect();
    if minima >= room {
        let parts: Vec<u64> = shares.iter().map(minimum).collect();
        return proportional(room, &parts, &parts, shares);
    }
    let mut given: Vec<(u64, u64)> = shares.iter().map(|s| (minimum(s), s.carried)).collect();
    let mut rest = room - minima;
    // Each pass either serves everybody or fills at least one to the brim.
    while rest > 0 {
        let open: Vec<usize> = (0..shares.len()).filter(|&i| given[i].0 < most[i]).collect();
        if open.is_empty() {
            break;
        }
        let weight = |i: usize| u128::from(shares[i].weight.max(1));
        let sum: u128 = open.iter().map(|&i| weight(i)).sum();
        let part = |i: usize| (u128::from(rest) * weight(i) / sum) as u64;
        let full: Vec<usize> = open.iter().copied().filter(|&i| part(i) >= most[i] - given[i].0).collect();
        if full.is_empty() {
            let weights: Vec<u64> =
                (0..shares.len()).map(|i| if open.contains(&i) { weight(i) as u64 } else { 0 }).collect();
            let left: Vec<u64> = (0..shares.len()).map(|i| most[i] - given[i].0).collect();
            for (i, (more, carried)) in proportional(rest, &weights, &left, shares).into_iter().enumerate() {
                given[i] = (given[i].0 + more, carried);
            }
            break;
        }
        let before = rest;
        for i in full {
            // What a part leaves by rounding stays for the others.
            let more = (most[i] - given[i].0).min((u128::from(before) * weight(i) / sum) as u64);
            given[i].0 += more;
            rest -= more;
        }
    }
    given
}

// Largest remainders first, those carried before included; ties to the first.
fn proportional(room: u64, parts: &[u64], most: &[u64], shares: &[Share]) -> Vec<(u64, u64)> {
    let sum: u128 = parts.iter().map(|p| u128::from(*p)).sum();
    if sum == 0 {
        return shares.iter().map(|s| (0, s.carried)).collect();
    }
    let exact = |i: usize| u128::from(room) * u128::from(parts[i]) * u128::from(CARRY_UNITS) / sum;
    let units = u128::from(CARRY_UNITS);
    let mut given: Vec<(u64, u64)> = (0..parts.len())
        .map(|i| {
            let whole = exact(i) / units;
            ((whole as u64).min(most[i]), ((exact(i) % units) as u64).saturating_add(shares[i].carried))
        })
        .collect();
    let mut rest = room - given.iter().map(|g| g.0).sum::<u64>();
    let mut order: Vec<usize> = (0..parts.len()).filter(|&i| parts[i] > 0).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(given[i].1), i));
    while rest > 0 {
        let mut moved = false;
        for &i in &order {
            if rest > 0 && given[i].0 < most[i] {
                given[i].0 += 1;
                given[i].1 = given[i].1.saturating_sub(CARRY_UNITS);
                rest -= 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn given(room: u64, shares: &[(u64, u64)]) -> Vec<u64> {
        let share = |&(min, max): &(u64, u64)| Share { min, max, weight: 10_000, carried: 0 };
        let shares: Vec<Share> = shares.iter().map(share).collect();
        divide(room, &shares).into_iter().map(|g| g.0).collect()
    }

    #[test]
    fn minima_come_first_and_the_rest_is_filled_like_water() {
        for (room, shares, expected) in [
            (2400, &[(800, 9999), (800, 9999), (400, 9999), (400, 9999)][..], &[800, 800, 400, 400][..]),
            (2800, &[(800, 9999), (800, 9999), (400, 9999), (400, 9999)], &[900, 900, 500, 500]),
            (1200, &[(800, 9999), (800, 9999), (400, 9999), (400, 9999)], &[400, 400, 200, 200]),
            (100, &[(0, 10), (0, 1000)], &[10, 90]),
            (100, &[(0, 10), (0, 20)], &[10, 20]),
            (3, &[(0, 9), (0, 9)], &[2, 1]),
            (7, &[], &[]),
        ] {
            assert_eq!(given(room, shares), expected, "{room} among {shares:?}");
        }
    }

    #[test]
    fn carried_remainders_even_out() {
        let mut shares = [Share { min: 1, max: 9, weight: 1, carried: 0 }; 3];
        let mut sums = [0; 3];
        for _ in 0..30 {
            for (i, (count, carried)) in divide(2, &shares).into_iter().enumerate() {
                sums[i] += count;
                shares[i].carried = carried;
            }
        }
        assert_eq!(sums, [20, 20, 20]);
    }

    proptest! {
        #[test]
        fn all_room_is_given_within_the_maxima(
            room in 0u64..5_000,
            asked in prop::collection::vec((0u64..900, 0u64..900, 1u32..30_000), 0..8),
        ) {
            let shares: Vec<Share> = asked
                .iter()
                .map(|&(min, more, weight)| Share { min, max: min + more, weight, carried: 0 })
                .collect();
            let given: Vec<u64> = divide(room, &shares).into_iter().map(|g| g.0).collect();
            let most: u64 = shares.iter().map(|s| s.max).sum();
            prop_assert_eq!(given.iter().sum::<u64>(), room.min(most));
            let minima: u64 = shares.iter().map(|s| s.min).sum();
            for (count, share) in given.iter().zip(&shares) {
                prop_assert!(*count <= share.max);
                prop_assert!(minima > room || *count >= share.min);
            }
        }
    }
}
