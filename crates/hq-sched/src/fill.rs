//! What is free on a worker, and taking from it as a worker would: whole indices, shares of one index, groups.

use hq_model::Policy;
use hq_model::amount::UNITS;

use crate::need::{Need, Part};
use crate::snapshot::{GroupFree, PoolFree};

/// Free units of a pool, shared indices included.
pub(crate) fn units(free: &PoolFree) -> u64 {
    match free {
        PoolFree::Sum(amount) => amount.0,
        PoolFree::Groups(groups) => groups.iter().map(group_units).sum(),
    }
}

fn group_units(group: &GroupFree) -> u64 {
    u64::from(group.whole) * UNITS + group.partial.iter().map(|p| u64::from(*p)).sum::<u64>()
}

/// Takes up to `count` times `need`; says how many fitted.
pub(crate) fn take(free: &mut [PoolFree], empty: &[PoolFree], need: &Need, count: u64) -> u64 {
    if count == 0 {
        return 0;
    }
    if let Some(room) = simple_room(free, need) {
        let count = room.min(count);
        for part in &need.parts {
            match &mut free[part.pool] {
                PoolFree::Sum(amount) => amount.0 -= part.units * count,
                PoolFree::Groups(groups) => groups[0].whole -= (part.units / UNITS * count) as u32,
            }
        }
        return count;
    }
    let mut taken = 0;
    while taken < count && take_one(free, empty, need) {
        taken += 1;
    }
    taken
}

/// True when `need` fits once.
pub(crate) fn fits(free: &[PoolFree], empty: &[PoolFree], need: &Need) -> bool {
    if let Some(room) = simple_room(free, need) {
        return room > 0;
    }
    need.parts.iter().all(|part| part_fits(&free[part.pool], &empty[part.pool], part))
}

// How often it fits, where only totals count: one group, whole indices, no request for all.
fn simple_room(free: &[PoolFree], need: &Need) -> Option<u64> {
    let mut room = u64::MAX;
    for part in &need.parts {
        let here = match &free[part.pool] {
            _ if part.all => return None,
            PoolFree::Sum(amount) => amount.0 / part.units,
            PoolFree::Groups(groups) if groups.len() == 1 && part.units.is_multiple_of(UNITS) => {
                u64::from(groups[0].whole) * UNITS / part.units
            }
            PoolFree::Groups(_) => return None,
        };
        room = room.min(here);
    }
    Some(room)
}

fn take_one(free: &mut [PoolFree], empty: &[PoolFree], need: &Need) -> bool {
    if !need.parts.iter().all(|part| part_fits(&free[part.pool], &empty[part.pool], part)) {
        return false;
    }
    let mut chosen: Vec<(usize, usize)> = Vec::new();
    for part in &need.parts {
        match &mut free[part.pool] {
            PoolFree::Sum(amount) => amount.0 -= part.units,
            PoolFree::Groups(groups) => {
                let pull = |group: usize| -> u64 {
                    let with = |c: &&(usize, usize, usize, u64)| c.0 == group && chosen.contains(&(c.1, c.2));
                    part.coupled.iter().filter(with).map(|c| c.3).sum()
                };
                let from = take_indices(groups, part, &pull);
                chosen.extend(from.into_iter().map(|group| (part.pool, group)));
            }
        }
    }
    true
}

fn part_fits(free: &PoolFree, empty: &PoolFree, part: &Part) -> bool {
    let groups = match free {
        _ if part.all => return free == empty,
        PoolFree::Sum(amount) => return amount.0 >= part.units,
        PoolFree::Groups(groups) => groups,
    };
    match part.groups_max {
        None => enough(groups.iter(), part.units),
        Some(groups_max) => strict_groups(groups, part.units, groups_max).is_some(),
    }
}

// A fraction needs one index with that much free.
fn enough<'a>(groups: impl Iterator<Item = &'a GroupFree>, units: u64) -> bool {
    let (wholes, fraction) = (units / UNITS, units % UNITS);
    let mut whole = 0;
    let mut is_shared = fraction == 0;
    for group in groups {
        whole += u64::from(group.whole);
        is_shared = is_shared || group.partial.iter().any(|p| u64::from(*p) >= fraction);
    }
    whole >= wholes + u64::from(!is_shared)
}

// The groups to take from when there may be so many at most: the fullest ones, perhaps with one exchanged for one
// that has a fitting part of an index.
fn strict_groups(groups: &[GroupFree], units: u64, groups_max: usize) -> Option<Vec<usize>> {
    if groups_max == 1 {
        let fitting = (0..groups.len()).filter(|&g| enough(std::iter::once(&groups[g]), units));
        return fitting.min_by_key(|&g| (group_units(&groups[g]), g)).map(|g| vec![g]);
    }
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|&g| (std::cmp::Reverse(group_units(&groups[g])), g));
    let top: Vec<usize> = order.iter().copied().take(groups_max).collect();
    if enough(top.iter().map(|&g| &groups[g]), units) {
        return Some(top);
    }
    for &other in order.iter().skip(groups_max) {
        let mut exchanged = top.clone();
        exchanged[groups_max - 1] = other;
        if enough(exchanged.iter().map(|&g| &groups[g]), units) {
            return Some(exchanged);
        }
    }
    None
}

// Takes what is known to fit; says from which groups.
fn take_indices(groups: &mut [GroupFree], part: &Part, pull: &dyn Fn(usize) -> u64) -> Vec<usize> {
    if part.all {
        groups.iter_mut().for_each(|group| *group = GroupFree::default());
        return (0..groups.len()).collect();
    }
    let (mut wholes, fraction) = (part.units / UNITS, part.units % UNITS);
    let mut order: Vec<usize> = match part.groups_max {
        Some(most) => strict_groups(groups, part.units, most).unwrap_or_default(),
        None => (0..groups.len()).collect(),
    };
    order.sort_by_key(|&g| (std::cmp::Reverse((pull(g), group_units(&groups[g]))), g));
    if part.policy != Policy::Scatter {
        // One group where one is enough, the least free of those, coupled ones before others.
        let one = order.iter().copied().filter(|&g| enough(std::iter::once(&groups[g]), part.units));
        if let Some(one) = one.min_by_key(|&g| (std::cmp::Reverse(pull(g)), group_units(&groups[g]), g)) {
            order = vec![one];
        } else {
            order.sort_by_key(|&g| (std::cmp::Reverse(group_units(&groups[g])), g));
        }
    }
    let mut from = Vec::new();
    if fraction > 0 {
        let smallest = order.iter().filter_map(|&g| {
            let at = groups[g].partial.iter().position(|p| u64::from(*p) >= fraction)?;
            Some((groups[g].partial[at], g, at))
        });
        if let Some((part, g, at)) = smallest.min() {
            groups[g].partial.remove(at);
            put_partial(&mut groups[g], u64::from(part) - fraction);
            from.push(g);
        } else if let Some(&g) = order.iter().find(|&&g| groups[g].whole > 0) {
            groups[g].whole -= 1;
            put_partial(&mut groups[g], UNITS - fraction);
            from.push(g);
        }
    }
    while wholes > 0 {
        let mut moved = 0;
        for &g in &order {
            let wanted = if part.policy == Policy::Scatter { 1 } else { wholes };
            let here = u64::from(groups[g].whole).min(wanted).min(wholes);
            groups[g].whole -= here as u32;
            wholes -= here;
            moved += here;
            if here > 0 && !from.contains(&g) {
                from.push(g);
            }
        }
        assert!(moved > 0, "what is taken was found to fit");
    }
    from
}

fn put_partial(group: &mut GroupFree, units: u64) {
    if units > 0 {
        let units = units as u16;
        let at = group.partial.partition_point(|p| *p < units);
        group.partial.insert(at, units);
    }
}
