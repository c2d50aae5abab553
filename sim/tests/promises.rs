//! The simulator keeps its own promises: equal seeds give equal runs, planted bugs are found, and what
//! failed once is played again.

use std::path::Path;

use hq_core::mark;
use hq_sim::{Canary, Options, run};

/// What the run of a seed must come by, so that it still shows what it is kept for.
enum Marks {
    /// Places in the code, by their names in `mark!`.
    Reached(&'static [&'static str]),
    /// None, and why.
    None(&'static str),
}

/// A seed, what its run must come by, and its story.
type Regression = (u64, Marks, &'static str);

/// Seeds that broke a promise once.
const REGRESSIONS: [Regression; 45] = [
    (
        610_002_730,
        Marks::None("none of 2 800 seeds comes by the branch; a test of faults of objects in hq-core does"),
        "what an attempt that did not count had stored in the place of an object stayed for ever",
    ),
    (
        4_875_838_604_539_528_997,
        Marks::None("none of 9 600 seeds comes by the branch; a test of the values in hq-core does"),
        "what an earlier attempt had left stayed where the one that counted left nothing",
    ),
    (
        7_003_722,
        Marks::None("none of 13 800 seeds comes by the branch; a test of faults of objects in hq-core does"),
        "what was to be left once more for a forgotten job was kept of that",
    ),
    (230_001_723, Marks::Reached(&["a value is left once more for a forgotten job"]), "as 7_003_722"),
    (
        6_086_642_934_160_461_513,
        Marks::None("the observer was mended, and none of 9 600 seeds comes by the place"),
        "a task that was put back twice, the second time not on disk, was thought to wait as the second time",
    ),
    (
        61,
        Marks::Reached(&["more slots than one worker may have are summed up"]),
        "tasks that ask for nothing summed up to more slots than a number holds",
    ),
    (
        5_000_005,
        Marks::Reached(&["a fed job is over and its generator is not"]),
        "a job that waited for a fed one ran although its generator was tried again",
    ),
    (
        8_000_885,
        Marks::Reached(&["a whole node is given beside a generator"]),
        "a generator that takes nothing kept a whole node from the tasks that it waited for",
    ),
    (5_000_045, Marks::Reached(&["a whole node is given beside a reducer"]), "as 8_000_885, of a reducer"),
    (
        4_783_003_588_732_269_565,
        Marks::None("the observer was mended, and none of 9 600 seeds comes by the place"),
        "a generator whose job somebody had closed ended well before it was ended, and counted as one that had \
         left out lines",
    ),
    (
        9_732_777_444_470_508_797,
        Marks::Reached(&["a half closed job is looked at"]),
        "as 4_783_003_588_732_269_565, where the server died while it closed the job",
    ),
    (
        30_000_381,
        Marks::Reached(&["a draft waits for a half made fed job"]),
        "drafts went on waiting for a half made fed job that a restarted server had forgotten",
    ),
    (
        8_000_029,
        Marks::Reached(&["a worker still has an earlier attempt"]),
        "a worker got a task whose earlier attempt it still had, and its room was counted twice",
    ),
    (
        5_000_704,
        Marks::Reached(&["a failure has ended what else is lost"]),
        "tasks that a failure had just aborted were failed as well when their worker was lost",
    ),
    (
        5_001_412,
        Marks::Reached(&["a failure has ended what else is lost"]),
        "as 5_000_704, with several jobs",
    ),
    (
        5_000_003,
        Marks::Reached(&["reports of before come under a new id", "a report of before the hello comes"]),
        "a worker that came back under a new id had its old reports applied to what it was handed anew",
    ),
    (
        5_000_070,
        Marks::Reached(&["the id of a worker was not on disk"]),
        "a machine went down before a worker's id was on disk, and two workers had the same",
    ),
    (
        710_000_023,
        Marks::Reached(&["of a failed job the successes are heard of first"]),
        "a job whose last tasks ended together, the successes heard of first, passed for finished",
    ),
    (
        5_000_006,
        Marks::Reached(&["a worker was told to leave by a server before this one"]),
        "a drained worker and a restarted server gave the same tasks to each other without end",
    ),
    (
        5_000_266,
        Marks::Reached(&["what a server before handed out is started"]),
        "a worker started what a machine that lost its journal had handed it, and was thought to follow the next \
         server",
    ),
    (
        211_200,
        Marks::Reached(&["a worker that holds tasks says that it leaves"]),
        "a worker that was leaving gave back its tasks and got them again, until its last one had ended",
    ),
    (
        5_000_040,
        Marks::Reached(&["a canceled allocation has a moment to end"]),
        "an allocation that was canceled, and had a moment to end, passed for forgotten by an observer",
    ),
    (
        6_107_967_321_671_540_070,
        Marks::None("none of 9 600 seeds comes by the branch; a test of the worker in hq-core does"),
        "ranks that were to have their node for themselves started beside a task that was being ended",
    ),
    (
        730_000_006,
        Marks::Reached(&["nothing but a share has room again"]),
        "a job with a share waited for ever once its only running task had ended with its worker",
    ),
    (
        2_112_478,
        Marks::None("the observer was mended, and none of 9 600 seeds comes by the place"),
        "an allocation whose workers had just left, of a queue that was removed, passed for forgotten by an \
         observer",
    ),
    (
        730_000_003,
        Marks::Reached(&["a task starts for which a worker was kept"]),
        "a worker that was kept as a whole counted as full also for the task that it was kept for",
    ),
    (
        105,
        Marks::Reached(&["what never runs twice was not started"]),
        "a process that a node could not make passed for a start of a task that must never run twice",
    ),
    (
        5_000_550,
        Marks::Reached(&["tasks are left to a worker that has ended"]),
        "a journal that ended after the end of a worker left that worker its tasks",
    ),
    (
        5_000_196,
        Marks::Reached(&["a part of a task never arrived"]),
        "a task on two nodes ran again because its part never arrived, when its first worker had started it",
    ),
    (
        5_000_002,
        Marks::Reached(&["a node is frozen twice"]),
        "a node that was frozen twice went on before it heard what had been held back",
    ),
    (
        5_000_008,
        Marks::Reached(&["a part of an index is taken where it is near"]),
        "an amount with a part of an index that had to be close to CPUs had the part elsewhere, and waited beside \
         room",
    ),
    (
        10_718_594_550_179_220_762,
        Marks::Reached(&["a part of an index is taken where it is near"]),
        "as 5_000_008",
    ),
    (
        5_000_151,
        Marks::Reached(&["a link is muted both ways"]),
        "a link that had lost a report was heard again, and told the next one",
    ),
    (
        16_768_345_516_821_009_633,
        Marks::Reached(&["a worker has not heard of an end"]),
        "an end of which a worker had not heard counted as room that it should have used",
    ),
    (
        16_835_248_773_013_081_681,
        Marks::Reached(&["an armed task has what the one before it had"]),
        "as 16_768_345_516_821_009_633, of what an armed task took over that never began",
    ),
    (
        610_000_095,
        Marks::Reached(&["a launcher says two things in one moment"]),
        "the end of an armed task was heard before its start, which was said in the same moment",
    ),
    (
        896_558_603_604_193_345,
        Marks::Reached(&["a worker starts once more when all is healed"]),
        "the last worker that could run a task was stopped by a client that had asked long before",
    ),
    (
        5_000_103,
        Marks::Reached(&["a worker is stopped while it is away"]),
        "a worker that was stopped while it was away made room for another one, and was there still",
    ),
    (
        5_002_292,
        Marks::None(
            "workers are placed otherwise, and none of 7 376 seeds comes by the place: a core test does",
        ),
        "a second attempt that waited until it was too late to start waited for ever when it was the only one left",
    ),
    (
        8_002_730,
        Marks::Reached(&[
            "who cancels waits for the journal",
            "what was not decided is when the journal works",
        ]),
        "who canceled what waits was never answered when the last of it ended while the journal could not be \
         written",
    ),
    (
        16_608_261_878_786_048_716,
        Marks::Reached(&["a node was kept for another class"]),
        "two tasks on several nodes changed places in each round, on the workers that were kept for them, and \
         there was no end",
    ),
    (
        18_073_373_168_866_555_957,
        Marks::Reached(&["a job is forgotten beside others that have changed"]),
        "what had changed beside a draft that was dropped was told to nobody whose notice it was, and a job that had ended was said \
         to stand still",
    ),
    (
        610_000_237,
        Marks::Reached(&["a job is given up whose tasks were not wanted"]),
        "a job waited for ever for one whose reducer had enough, and then failed",
    ),
    (
        16_154_004_183_661_876_101,
        Marks::None("nothing marks the gate of an answer; a test of hq-core looks at it"),
        "a generator that waited for room was told what a full disk had not taken",
    ),
    (
        16_852_805_047_525_288_826,
        Marks::Reached(&["what a worker is to fetch is not freed there"]),
        "a worker that had fetched an object was told to free it, for it had reported before what an attempt had left in vain",
    ),
];

/// The same of those that only strict observers see.
const STRICT_REGRESSIONS: [Regression; 39] = [
    (
        5_000_170,
        Marks::Reached(&["a hungry worker has no store"]),
        "room of a worker without a store counted as room for tasks that leave objects",
    ),
    (
        600_000_125,
        Marks::Reached(&["a plan counts on a picky worker"]),
        "a plan placed a task on a worker that had become idle and starts only for enough, which gave it back, \
         and then it was offered to nobody",
    ),
    (
        5_000_004,
        Marks::Reached(&["what waits on a worker leaves room to others"]),
        "what waited on a worker started as another variant when more was sent there, and what it had lacked was \
         offered to nobody",
    ),
    (600_000_001, Marks::Reached(&["what waits on a worker leaves room to others"]), "as 5_000_004"),
    (
        32_141,
        Marks::Reached(&["a picky worker begins"]),
        "beside the set of tasks for which an idle worker started there was room, which was offered to nobody",
    ),
    (700_100_336, Marks::Reached(&["a picky worker begins"]), "as 32_141"),
    (
        700_300_201,
        Marks::Reached(&["a picky worker begins that is to be free"]),
        "as 32_141, on a worker that was to be free for a task on several nodes",
    ),
    (
        5_000_674,
        Marks::Reached(&["what waits on a worker stops to keep room"]),
        "what waited on a worker stopped to keep room from others, and nobody looked",
    ),
    (
        701_000_143,
        Marks::Reached(&["an idle picky worker is not kept"]),
        "an idle worker was kept for a task that lacked nothing there, and got nothing",
    ),
    (
        5_000_011,
        Marks::Reached(&["a picky worker gives back what is too little"]),
        "what an idle worker gave back that starts only for enough found its room elsewhere taken by lower priority",
    ),
    (
        820_006_037,
        Marks::None("the strict observer was mended, and none of 9 600 seeds comes by the place"),
        "a task whose earlier attempt had not ended counted as one that an idle worker could start",
    ),
    (
        700_000_000,
        Marks::Reached(&[
            "room is left of what was kept for a task that starts",
            "room is kept for nobody any more",
        ]),
        "room that was kept for a task which then started elsewhere was offered to new tasks only, whatever \
         waited before them",
    ),
    (
        860_024_368,
        Marks::Reached(&["room is left of what was kept for a task that starts"]),
        "as 700_000_000",
    ),
    (
        5_000_042,
        Marks::Reached(&["a task may fit where room is kept for its equal"]),
        "a task that fitted only where room was kept for another one took the place of that one, and got nothing",
    ),
    (860_010_355, Marks::Reached(&["a task may fit where room is kept for its equal"]), "as 5_000_042"),
    (
        5_000_080,
        Marks::Reached(&["room is kept for one of higher priority"]),
        "room that was kept for one task was let for a new one of higher priority that fits nowhere, and offered \
         to new tasks only",
    ),
    (
        870_017_515,
        Marks::Reached(&["a picky worker begins with a part of a task"]),
        "an idle worker that starts only for enough began with a part of a task on several nodes and was offered \
         nothing else",
    ),
    (
        730_000_000,
        Marks::Reached(&["room is kept for another one"]),
        "the room of a worker that was kept for a task was offered to nobody once another one was kept",
    ),
    (
        31_000_006,
        Marks::Reached(&["a worker is not kept any more while a plan is made"]),
        "the room of a worker that was not kept any more while a plan was awaited was offered to nobody",
    ),
    (
        5_000_036,
        Marks::Reached(&["a picky worker begins with what it left before"]),
        "an idle worker that starts only for enough of it was not offered what it had had to leave before",
    ),
    (
        5_000_435,
        Marks::Reached(&["a second attempt waits for room"]),
        "a second attempt counted as running in room that something else had been quicker to take",
    ),
    (
        600_000_008,
        Marks::Reached(&["a pool is let go that another one was taken beside"]),
        "a pool that was kept for a task was let go when another one that it needs was taken, and offered to nobody",
    ),
    (40_002_055, Marks::Reached(&["a pool is let go that another one was taken beside"]), "as 600_000_008"),
    (
        40_005_835,
        Marks::None("the strict observer was mended"),
        "a call kept room beside an idle runner that could not serve it, which counted as room for others",
    ),
    (
        8_002_002,
        Marks::Reached(&["a pool is let go that another one was taken beside"]),
        "the strict observer forgot what was kept until a task of lower priority was placed beside it",
    ),
    (
        8_001_919,
        Marks::Reached(&["a picky worker begins with what it was kept for"]),
        "an idle worker that starts only for enough was given to others first, beside which what it was kept for had no \
         room, so it got nothing",
    ),
    (
        740_000_504,
        Marks::Reached(&["nothing is kept any more on a picky worker that begins"]),
        "an idle worker that starts only for enough was kept for a task that is too little for it, and those that would \
         have been enough together were kept from each other's room",
    ),
    (
        90_001_459,
        Marks::Reached(&["nothing is kept any more on a picky worker that begins"]),
        "as 740_000_504",
    ),
    (
        700_000_088,
        Marks::Reached(&["nothing is kept any more on a picky worker that begins"]),
        "a worker began with a task for which it was kept, and went on to be kept for the next one of these, so that what \
         made the first one enough was kept from it",
    ),
    (
        600_000_005,
        Marks::Reached(&["picky workers are tried while a task on several nodes waits"]),
        "workers were kept for a task on several nodes behind others of higher priority while these were tried on workers          that start only for enough, and gave them back",
    ),
    (
        140_003_785,
        Marks::Reached(&["picky workers are tried while a task on several nodes waits"]),
        "as 600_000_005",
    ),
    (
        150_001_940,
        Marks::Reached(&["a second attempt takes some of a worker that is kept"]),
        "a second attempt took CPUs of a worker that was kept for a task, which then had no use for the GPU that was kept \
         there, and nobody was offered that",
    ),
    (
        170_005_181,
        Marks::Reached(&["a task that may fit elsewhere fits on no picky worker"]),
        "workers were not kept any more for a task once another one had been tried on workers that start only for enough, \
         and were offered to nobody",
    ),
    (
        8_000_011,
        Marks::Reached(&["others go first on a node of a task on several"]),
        "workers idled for a task on several nodes before which others went on one of them",
    ),
    (
        8_000_002,
        Marks::Reached(&["what is free is of no use to a task that waits on a worker"]),
        "CPUs idled for a large task that could not start before another large one ended",
    ),
    (
        600_004_732,
        Marks::Reached(&["a policy gives way to a strict one"]),
        "CPUs that were to come from one group kept a strict policy from what it would have had from two",
    ),
    (
        230_014_448,
        Marks::Reached(&["what is kept stays kept when a picky worker does not begin"]),
        "a task was tried on a worker that starts only for enough, and taken back: nothing was kept for it any more, and what was \
         let go was offered to nobody",
    ),
    (
        710_000_747,
        Marks::Reached(&["a worker that was kept for one class is kept for another one"]),
        "what one class had lacked on a worker was offered to nobody once it was kept for another one, which lacks something \
         else",
    ),
    (
        760_000_003,
        Marks::Reached(&["a class that fits nowhere comes before another one now"]),
        "what was left of a class, behind others by now, kept all workers to itself, and those before it got none (seen by \
         a test of hq-core)",
    ),
];

#[test]
fn old_failures_stay_away() {
    let regressions = REGRESSIONS.iter().map(|known| (known, false));
    let mut stale = Vec::new();
    for ((seed, marks, story), is_strict) in
        regressions.chain(STRICT_REGRESSIONS.iter().map(|known| (known, true)))
    {
        mark::take();
        let result = run(Options { seed: *seed, is_strict, ..Options::default() });
        assert!(result.is_ok(), "{story}: {result:#?}");
        let reached = mark::take();
        if let Marks::Reached(marks) = marks {
            let missed = marks.iter().filter(|name| !reached.contains(*name));
            stale.extend(missed.map(|name| format!("seed {seed} ({story}) does not come by {name:?}")));
        }
    }
    assert!(stale.is_empty(), "other seeds have to show what these were kept for: {stale:#?}");
}

#[test]
fn each_mark_is_there_once_and_wanted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources = Vec::new();
    for dir in ["crates", "sim"] {
        read_sources(&root.join(dir), &mut sources);
    }
    // What is written here is a source, too, and no mark.
    let begin = concat!("mark!", "(");
    let name_in = |text: &str| Some(text.trim_start().strip_prefix('"')?.split_once('"')?.0.to_owned());
    let marks: Vec<String> =
        sources.iter().flat_map(|text| text.split(begin).skip(1)).filter_map(name_in).collect();
    for mark in &marks {
        assert_eq!(
            marks.iter().filter(|other| *other == mark).count(),
            1,
            "{mark:?} is the name of one place"
        );
        let literal = format!("{mark:?}");
        let count = sources.iter().map(|text| text.matches(&literal).count()).sum::<usize>();
        assert!(count > 1, "no seed and no test asks for {mark:?}");
    }
    for (seed, wanted, _) in REGRESSIONS.iter().chain(&STRICT_REGRESSIONS) {
        match wanted {
            Marks::Reached(names) => {
                assert!(!names.is_empty(), "seed {seed} has marks, or a reason why it has none");
                for name in *names {
                    assert!(
                        marks.iter().any(|mark| mark == name),
                        "nothing is called {name:?} (seed {seed})"
                    );
                }
            }
            Marks::None(reason) => assert!(!reason.is_empty(), "seed {seed} says why it has no marks"),
        }
    }
}

fn read_sources(dir: &Path, sources: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(std::fs::read_to_string(&path).unwrap());
        }
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
        let mut failures = (0..3000).filter_map(played);
        assert!(
            failures.any(|found| found.what.contains(canary.found_by()) && is_planted(found.seed)),
            "{canary:?} lives"
        );
    }
}
