//! When tasks are due: what the order of ready tasks of equal priority and weight is made of.
//!
//! A long way to the end of its graph counts for a task as if it had come earlier: by as long as the way for a way of up to a
//! few seconds, and by four seconds for each further time that it doubles. So of what comes at about the same time the
//! longest way goes first, as in list scheduling by the critical path, and nothing goes before what came much
//! earlier, however long its own way is.
//!
//! The way becomes shorter as a graph goes on. So that its end does not wait for all that came a little earlier, tasks of a graph
//! count as if they had come some seconds earlier, too.

use hq_model::Timestamp;

use crate::limits::LINKED_HEAD_START;

/// The length of a way, coarser the longer it is.
pub type Step = u32;

/// Of a task that others wait for: an eighth of an octave.
pub(super) fn fine(us: u64) -> Step {
    let us = us.max(8);
    let octave = us.ilog2();
    octave * 8 + ((us >> (octave - 3)) & 7) as Step
}

/// Of a task that nothing waits for: an octave, from the middle between two powers of two to the next one. Jobs of
/// about equal tasks stay in the order in which they came.
pub(super) fn coarse(us: u64) -> Step {
    let us = us.max(8);
    let octave = us.ilog2();
    let is_upper = u128::from(us) * u128::from(us) >= 1_u128 << (2 * octave + 1);
    (octave + u32::from(is_upper)) * 8
}

/// The earlier a task is due, the earlier it goes: µs of the server's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due(i64);

impl Due {
    /// Of the first of all.
    pub const MIN: Due = Due(i64::MIN);

    /// Of a task that came at a time, with a way to the end of this length, and waits for others or is waited for.
    pub(super) fn of(came: Timestamp, step: Step, is_linked: bool) -> Due {
        let linked_us = if is_linked { LINKED_HEAD_START.as_micros() as i64 } else { 0 };
        Due(i64::try_from(came.0).unwrap_or(i64::MAX).saturating_sub(head_start_us(step) + linked_us))
    }
}

// Ways that are shorter than these 4.2 s count as long as they are, 2^n times as long ones as n times that.
const HEAD_START_BITS: u32 = 22;

// By how much earlier a task seems to have come, µs: 1 s for a way of a second, 16 s for a minute, 40 s for an hour and 60 s
// for a day. Logarithms are taken piece by piece, straight between powers of two.
fn head_start_us(step: Step) -> i64 {
    let unit = 1_u64 << HEAD_START_BITS;
    let way_us = (u64::from(8 + step % 8)) << (step / 8).min(50) >> 3;
    let sum = way_us + unit;
    let octave = sum.ilog2();
    let beyond = sum - (1 << octave);
    (u64::from(octave - HEAD_START_BITS) * unit + (beyond >> (octave - HEAD_START_BITS))) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_ways_are_due_earlier_but_not_before_what_came_much_earlier() {
        let second = 1_000_000;
        let start = |us| head_start_us(fine(us)) as f64 / 1e6;
        let found = [second, 60 * second, 3600 * second, 86_400 * second].map(|us| start(us).round());
        assert_eq!(found, [1.0, 16.0, 40.0, 60.0]);
        assert!((0..400).all(|step| head_start_us(step) <= head_start_us(step + 1)));
        assert!(
            (144..400).all(|step| head_start_us(step) < head_start_us(step + 1)),
            "of ways from 0.3 s on"
        );
        assert!(head_start_us(Step::MAX) < 200 * second as i64);
        let due = |came, us| Due::of(Timestamp(came), fine(us), false);
        assert!(due(100 * second, 10 * second) < due(100 * second, second), "what comes together");
        assert!(due(100 * second, second) < due(160 * second, 3600 * second), "what comes a minute later");
    }

    #[test]
    fn steps_grow_with_the_path_and_small_differences_do_not_matter() {
        let second = 1_000_000;
        assert!(fine(103 * second) == fine(101 * second) && fine(115 * second) > fine(101 * second));
        assert!(coarse(second) == coarse(second * 4 / 3) && coarse(2 * second) > coarse(second));
        let mut last = 0;
        for us in (0..60).map(|octave| 1_u64 << octave) {
            assert!(fine(us) >= last && coarse(us) == fine(us), "{us}");
            last = fine(us);
        }
    }
}
