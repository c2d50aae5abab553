//! Sets of task ids as packed numbers, two for each range: the gap to the range before, and the
//! length less one.
//!
//! The gap is counted from where the next range could begin at the earliest, so each set has exactly
//! one form and nothing unsorted, overlapping or touching can be said. What is left to check is that
//! no id passes the largest.

use hq_model::IdSet;

use crate::error::ProtoError;
use crate::generated as form;
use crate::wire::Wire;

/// The numbers that stand for `set`.
pub(crate) fn to_wire(set: &IdSet) -> Vec<u32> {
    let mut numbers = Vec::with_capacity(2 * set.range_count());
    let mut earliest = 0;
    for range in set.ranges() {
        numbers.push(range.start() - earliest);
        numbers.push(range.end() - range.start());
        // Ranges never touch: the next one begins two ids on. After the last id there is none.
        earliest = range.end().saturating_add(2);
    }
    numbers
}

/// The set that `numbers` stand for.
pub(crate) fn from_wire(field: &'static str, numbers: &[u32]) -> Result<IdSet, ProtoError> {
    let (pairs, rest) = numbers.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(ProtoError::Rule { field, rule: "must hold two numbers for each range" });
    }
    let too_large = ProtoError::Rule { field, rule: "must end at 4294967295" };
    let mut ids = IdSet::new();
    let mut earliest = 0u64;
    for &[gap, more] in pairs {
        let first = earliest + u64::from(gap);
        let last = first + u64::from(more);
        let (Ok(first), Ok(last)) = (u32::try_from(first), u32::try_from(last)) else {
            return Err(too_large);
        };
        ids.insert_range(first, last);
        earliest = u64::from(last) + 2;
    }
    Ok(ids)
}

/// As [`from_wire`], and at least one id.
pub(crate) fn some_from_wire(field: &'static str, numbers: &[u32]) -> Result<IdSet, ProtoError> {
    let ids = from_wire(field, numbers)?;
    if ids.is_empty() {
        return Err(ProtoError::Missing { field });
    }
    Ok(ids)
}

impl Wire for IdSet {
    type Form = form::IdSet;

    fn to_wire(&self) -> form::IdSet {
        form::IdSet { ranges: to_wire(self) }
    }

    fn from_wire(set: form::IdSet) -> Result<IdSet, ProtoError> {
        from_wire("ids", &set.ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hq_model::TaskId;

    #[test]
    fn each_range_is_two_small_numbers() {
        let set: IdSet = [1..=1_000_000, 1_000_002..=1_000_002, u32::MAX..=u32::MAX].into_iter().collect();
        let numbers = to_wire(&set);
        assert_eq!(numbers, [1, 999_999, 0, 0, u32::MAX - 1_000_004, 0]);
        assert_eq!(from_wire("ids", &numbers), Ok(set));
    }

    #[test]
    fn what_passes_the_largest_id_is_refused() {
        for numbers in [&[1][..], &[u32::MAX, 1], &[0, u32::MAX, 0, 0], &[5, u32::MAX - 5, 0, 0], &[1, 1, 7]]
        {
            assert!(matches!(from_wire("ids", numbers), Err(ProtoError::Rule { .. })), "{numbers:?}");
        }
        assert_eq!(from_wire("ids", &[0, u32::MAX]).map(|ids| ids.last()), Ok(Some(TaskId(u32::MAX))));
    }
}
