//! What a task takes of a worker, and how often that fits. Amounts are in 1/10000, pool by pool.

use crate::snapshot::{Shape, Take, Variant};

/// What one task takes of a worker of this shape; `None` when none of them can ever run it.
pub(crate) fn units(shape: &Shape, variant: &Variant) -> Option<Vec<u64>> {
    let mut units = vec![0_u64; shape.totals.len()];
    for &(resource, take) in &variant.takes {
        let pool = shape.givers[resource as usize]? as usize;
        let total = shape.totals[pool].0;
        let more = match take {
            Take::All => total,
            Take::Some(amount) => amount.0,
        };
        units[pool] = units[pool].saturating_add(more);
        if more == 0 || units[pool] > total {
            return None;
        }
    }
    Some(units)
}

/// How many such tasks fit into what is free.
pub(crate) fn room(free: &[u64], units: &[u64]) -> u64 {
    let taken = free.iter().zip(units).filter(|(_, units)| **units > 0);
    taken.map(|(free, units)| free / units).min().unwrap_or(u64::MAX)
}

/// True when one such task fits.
pub(crate) fn fits(free: &[u64], units: &[u64]) -> bool {
    free.iter().zip(units).all(|(free, units)| free >= units)
}

/// Takes what so many tasks take, for which there is room.
pub(crate) fn take(free: &mut [u64], units: &[u64], count: u64) {
    free.iter_mut().zip(units).for_each(|(free, units)| *free -= units * count);
}

#[cfg(test)]
mod tests {
    use hq_model::Amount;

    use super::*;

    #[test]
    fn resources_of_one_giver_are_taken_together() {
        let shape =
            Shape { totals: vec![Amount(40_000), Amount(0)], givers: vec![Some(0), Some(0), Some(1), None] };
        let some = |units| Take::Some(Amount(units));
        for (takes, units, most) in [
            (&[(0, some(15_000))][..], Some(vec![15_000, 0]), 2),
            (&[(0, some(15_000)), (1, some(10_000))], Some(vec![25_000, 0]), 1),
            (&[(0, Take::All)], Some(vec![40_000, 0]), 1),
            (&[], Some(vec![0, 0]), u64::MAX),
            (&[(0, Take::All), (1, some(1))], None, 0),
            (&[(0, some(40_001))], None, 0),
            (&[(0, some(0))], None, 0),
            (&[(2, Take::All)], None, 0),
            (&[(3, some(1))], None, 0),
        ] {
            let variant = Variant { weight: 1, takes: takes.to_vec(), time_us: 0 };
            let found = super::units(&shape, &variant);
            assert_eq!(found, units, "{takes:?}");
            assert_eq!(found.map_or(0, |units| room(&[40_000, 0], &units)), most, "{takes:?}");
        }
    }
}
