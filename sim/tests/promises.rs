//! The simulator keeps its own promises: equal seeds give equal runs, planted bugs are found, and what
//! failed once is played again.

use hq_sim::{Canary, Options, run};

/// Seeds that broke a promise once, with their story.
const REGRESSIONS: [(u64, &str); 44] = [
    (
        4_875_838_604_539_528_997,
        "what an earlier attempt had left stayed where the one that counted left nothing",
    ),
    (9_662_839_736_037_621_460, "what was to be left once more for a forgotten job was kept of that"),
    (6_086_642_934_160_475_000, "as 9_662_839_736_037_621_460"),
    (
        6_086_642_934_160_461_513,
        "a task that was put back twice, the second time not on disk, was thought to wait as the second time",
    ),
    (61, "tasks that ask for nothing summed up to more slots than a number holds"),
    (485, "a job that waited for a fed one ran although its generator was tried again"),
    (
        15_228_841_150_280_910_605,
        "a generator that takes nothing kept a whole node from the tasks that it waited for",
    ),
    (18_430_480_406_628_127_475, "as 15_228_841_150_280_910_605, of a reducer"),
    (
        4_783_003_588_732_269_565,
        "a generator whose job somebody had closed ended well before it was ended, and counted as one that had left out lines",
    ),
    (
        9_732_777_444_470_508_797,
        "as 4_783_003_588_732_269_565, where the server died while it closed the job",
    ),
    (1621, "drafts went on waiting for a half made fed job that a restarted server had forgotten"),
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
    (105, "a process that a node could not make passed for a start of a task that must never run twice"),
    (191, "a journal that ended after the end of a worker left that worker its tasks"),
    (
        375,
        "a task on two nodes ran again because its part never arrived, when its first worker had started it",
    ),
    (
        5_000_249,
        "the room of a worker that was kept for a task was offered to nobody once another one was kept",
    ),
    (
        31_000_006,
        "the room of a worker that was not kept any more while a plan was awaited was offered to nobody",
    ),
    (880_000_213, "a node that was frozen twice went on before it heard what had been held back"),
    (
        881_000_380,
        "an amount with a part of an index that had to be close to CPUs had the part elsewhere, and waited beside room",
    ),
    (10_718_594_550_179_220_762, "as 881_000_380"),
    (
        881_001_241,
        "an idle worker that starts only for enough of it was not offered what it had had to leave before",
    ),
    (16_768_345_516_821_015_264, "a link that had lost a report was heard again, and told the next one"),
    (
        16_768_345_516_821_009_633,
        "an end of which a worker had not heard counted as room that it should have used",
    ),
    (
        16_835_248_773_013_081_681,
        "as 16_768_345_516_821_009_633, of what an armed task took over that never began",
    ),
    (
        896_558_603_604_187_239,
        "the end of an armed task was heard before its start, which was said in the same moment",
    ),
    (
        896_558_603_604_193_345,
        "the last worker that could run a task was stopped by a client that had asked long before",
    ),
    (11_595, "a worker that was stopped while it was away made room for another one, and was there still"),
    (881_001_686, "a second attempt counted as running in room that something else had been quicker to take"),
    (
        5_297_471_088_326_804_102,
        "a second attempt that waited until it was too late to start waited for ever when it was the only one left",
    ),
    (
        14_003_565_497_603_927_124,
        "who canceled what waits was never answered when the last of it ended while the journal could not be written",
    ),
    (
        16_608_261_878_786_048_716,
        "two tasks on several nodes changed places in each round, on the workers that were kept for them, and there was no end",
    ),
];

/// The same of those that only strict observers see.
const STRICT_REGRESSIONS: [(u64, &str); 17] = [
    (9, "room of a worker without a store counted as room for tasks that leave objects"),
    (
        1_009_069,
        "a plan placed a task on a worker that had become idle and starts only for enough, which gave it back, and then \
         it was offered to nobody",
    ),
    (
        992_000_179,
        "what waited on a worker started as another variant when more was sent there, and what it had lacked was offered \
         to nobody",
    ),
    (500_909, "as 992_000_179"),
    (
        32_141,
        "beside the set of tasks for which an idle worker started there was room, which was offered to nobody",
    ),
    (700_100_336, "as 32_141"),
    (700_300_201, "as 32_141, on a worker that was to be free for a task on several nodes"),
    (700_600_359, "what waited on a worker stopped to keep room from others, and nobody looked"),
    (701_000_143, "an idle worker was kept for a task that lacked nothing there, and got nothing"),
    (
        830_012_288,
        "what an idle worker gave back that starts only for enough found its room elsewhere taken by lower priority",
    ),
    (
        820_006_037,
        "a task whose earlier attempt had not ended counted as one that an idle worker could start",
    ),
    (
        860_051_116,
        "room that was kept for a task which then started elsewhere was offered to new tasks only, whatever waited \
         before them",
    ),
    (860_024_368, "as 860_051_116"),
    (
        860_008_082,
        "a task that fitted only where room was kept for another one took the place of that one, and got nothing",
    ),
    (860_010_355, "as 860_008_082"),
    (
        870_033_802,
        "room that was kept for one task was let for a new one of higher priority that fits nowhere, and offered to new \
         tasks only",
    ),
    (
        870_017_515,
        "an idle worker that starts only for enough began with a part of a task on several nodes and was offered nothing \
         else",
    ),
];

#[test]
fn old_failures_stay_away() {
    let regressions = REGRESSIONS.map(|known| (known, false)).into_iter();
    for ((seed, story), is_strict) in regressions.chain(STRICT_REGRESSIONS.map(|known| (known, true))) {
        let result = run(Options { seed, is_strict, ..Options::default() });
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
fn groups_of_resources_are_played() {
    let played = |seed| run(Options { seed, is_hasty: true, ..Options::default() });
    let outcomes: Vec<_> = (2..222).step_by(11).filter_map(|seed| played(seed).ok()).collect();
    assert!(outcomes.iter().map(|outcome| outcome.spread).sum::<u64>() > 10);
    assert!(outcomes.iter().map(|outcome| outcome.coupled).sum::<u64>() > 10);
}

#[test]
fn notices_are_played() {
    let played = |seed| run(Options { seed, is_hasty: true, ..Options::default() });
    let outcomes: Vec<_> = (4..354).step_by(7).filter_map(|seed| played(seed).ok()).collect();
    for moment in 0..3 {
        assert!(outcomes.iter().map(|outcome| outcome.told[moment]).sum::<u64>() > 10, "{moment}");
    }
}

#[test]
fn open_jobs_are_left() {
    let played = |seed| run(Options { seed, is_hasty: true, ..Options::default() });
    let outcomes: Vec<_> = (1..301).step_by(6).filter_map(|seed| played(seed).ok()).collect();
    assert_eq!(outcomes.len(), 50, "a seed failed");
    assert!(outcomes.iter().map(|outcome| outcome.left).sum::<u64>() > 5);
}

#[test]
fn functions_are_played() {
    let played = |seed| run(Options { seed, is_hasty: true, ..Options::default() });
    let outcomes: Vec<_> = (3..163).step_by(8).filter_map(|seed| played(seed).ok()).collect();
    assert_eq!(outcomes.len(), 20, "a seed failed");
    assert!(outcomes.iter().map(|outcome| outcome.reused_runners).sum::<u64>() > 1_000);
    assert!(outcomes.iter().map(|outcome| outcome.waits).sum::<u64>() > 100);
    let begun_ahead = outcomes.iter().map(|outcome| outcome.calls_begun).sum::<u64>();
    assert!(begun_ahead > 5, "{begun_ahead} calls were told beforehand");
}

#[test]
fn objects_pass_by_way_of_the_server() {
    let played = |seed| run(Options { seed, is_hasty: true, ..Options::default() });
    let outcomes: Vec<_> = (1..400)
        .filter(|seed| hq_sim::objects::has_objects(*seed))
        .filter_map(|seed| played(seed).ok())
        .collect();
    assert!(outcomes.iter().map(|outcome| outcome.relays).sum::<u64>() > 20);
    assert!(outcomes.iter().map(|outcome| outcome.unfetched).sum::<u64>() > 20, "some servers relay nothing");
    let ahead = outcomes.iter().map(|outcome| outcome.fetched_ahead).sum::<u64>();
    assert!(ahead > 20, "{ahead} objects came while their tasks waited");
}

#[test]
fn launchers_that_start_what_follows_are_played() {
    let played = |seed| run(Options { seed, is_hasty: true, ..Options::default() });
    let outcomes: Vec<_> = (1..80).step_by(8).filter_map(|seed| played(seed).ok()).collect();
    let begun: u64 = outcomes.iter().map(|outcome| outcome.begun).sum();
    let late: u64 = outcomes.iter().map(|outcome| outcome.begun_late).sum();
    assert!(begun > 100 && late > 0, "{begun} began, {late} when called back");
}

#[test]
fn planted_bugs_are_found() {
    for canary in Canary::ALL {
        let is_strict = canary.needs_strict();
        let options = |seed| Options { seed, is_strict, ..Options::default() };
        let is_planted = |seed| run(options(seed)).is_ok();
        // A bug may be seen by an assertion of the core first: then another seed has to show it to the observer.
        let played = |seed| {
            let options = Options { canary: Some(canary), ..options(seed) };
            std::panic::catch_unwind(|| run(options)).ok()?.err()
        };
        let mut failures = (0..600).filter_map(played);
        assert!(
            failures.any(|found| found.what.contains(canary.found_by()) && is_planted(found.seed)),
            "{canary:?} lives"
        );
    }
}
