//! How long the way from a task to the end of its graph is, as far as it matters for the order of tasks.

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

#[cfg(test)]
mod tests {
    use super::*;

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
