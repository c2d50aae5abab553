//! The simulator keeps its own promises: equal seeds give equal runs, planted bugs are found, and what
//! failed once is played again.

use hq_sim::{Canary, Options, run};

/// Seeds that broke a promise once, with their story.
const REGRESSIONS: [(u64, &str); 14] = [
    (12, "a worker got a task whose earlier attempt it still had, and its room was counted twice"),
    (33, "tasks that a failure had just aborted were failed as well when their worker was lost"),
    (516, "as 33, with several jobs"),
    (664, "a worker that came back under a new id had its old reports applied to what it was handed anew"),
    (5368, "a machine went down before a worker's id was on disk, and two workers had the same"),
    (660, "a job whose last tasks ended together, the successes heard of first, passed for finished"),
    (2390, "a drained worker and a restarted server gave the same tasks to each other without end"),
    (
        100_840,
        "a worker started what a machine that lost its journal had handed it, and was thought to follow the next server",
    ),
    (
        211_200,
        "a worker that was leaving gave back its tasks and got them again, until its last one had ended",
    ),
    (
        1_309_737,
        "an allocation that was canceled, and had a moment to end, passed for forgotten by an observer",
    ),
    (
        6_107_967_321_671_540_070,
        "ranks that were to have their node for themselves started beside a task that was being ended",
    ),
    (786_384, "a job with a share waited for ever once its only running task had ended with its worker"),
    (
        2_112_478,
        "an allocation whose workers had just left, of a queue that was removed, passed for forgotten by an observer",
    ),
    (880_012_827, "a worker that was kept as a whole counted as full also for the task that it was kept for"),
];

#[test]
fn old_failures_stay_away() {
    for (seed, story) in REGRESSIONS {
        let result = run(Options { seed, ..Options::default() });
        assert!(result.is_ok(), "{story}: {result:#?}");
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 0..5 {
        let options = Options { seed, ..Options::default() };
        assert_eq!(run(options), run(options));
    }
}

#[test]
fn second_attempts_are_played() {
    let speculated =
        |seed| run(Options { seed, ..Options::default() }).map_or(0, |outcome| outcome.speculated);
    assert!((2..62).step_by(3).map(speculated).sum::<u64>() > 10);
}

#[test]
fn planted_bugs_are_found() {
    for canary in Canary::ALL {
        let found =
            (0..600).any(|seed| run(Options { seed, canary: Some(canary), ..Options::default() }).is_err());
        assert!(found, "{canary:?} lives");
    }
}
