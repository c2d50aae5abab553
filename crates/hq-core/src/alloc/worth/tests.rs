//! Tables of what is worth its node time.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn check(work: Work, coming: &[Slots], slots: u64, cost: Cost, expected: (u64, &str)) {
    let there = work.slots_here() + coming.iter().map(|slots| slots.count).sum::<u64>();
    let left = work.tasks.saturating_sub(there);
    let (workers, held) = worthwhile(&work, coming, (left, slots), &cost);
    let why = match held {
        None => "",
        Some(Held::DoneSooner(_)) => "sooner",
        Some(Held::TooLittle(..)) => "little",
        Some(Held::Probing(_)) => "probing",
    };
    assert_eq!((workers, why), expected, "{work:?} {cost:?}");
}

fn tasks(tasks: u64, each: Duration) -> Work {
    Work { tasks, each: Some(each), ..Work::default() }
}

fn idle(seconds: u32) -> Cost {
    Cost {
        wait: SECOND * 30,
        together: 1,
        waited: Duration::ZERO,
        idle: SECOND * seconds,
        goal: Goal::Makespan,
    }
}

#[test]
fn demand_is_work_and_not_the_number_of_tasks() {
    let (cost, saving) = (idle(300), Cost { goal: Goal::NodeHours, ..idle(300) });
    // Twenty times half a second are done by one.
    check(tasks(20, SECOND / 2), &[], 1, cost, (1, "little"));
    check(tasks(20, SECOND * 10), &[], 1, cost, (5, "little"));
    check(tasks(20, SECOND * 3600), &[], 1, cost, (20, ""));
    check(tasks(20, SECOND * 60), &[], 1, saving, (1, "little"));
    check(tasks(20, SECOND * 3600), &[], 1, saving, (20, ""));
    check(tasks(1000, SECOND * 10), &[], 4, cost, (65, "little"));
}

#[test]
fn nothing_is_asked_for_what_others_finish_sooner() {
    let here = |count, tasks| Work {
        tasks,
        each: Some(SECOND),
        here: vec![Slots::lasting(count)],
        ..Work::default()
    };
    check(here(4, 100), &[], 4, idle(10), (0, "sooner"));
    check(here(4, 1_000), &[], 4, idle(10), (116, "little"));
    let soon = Slots { count: 4, from: SECOND * 5, until: SECOND * 600 };
    check(here(0, 100), &[soon], 4, idle(10), (0, "sooner"));
    // What starts with the new ones shares with them.
    check(here(0, 100), &[Slots { from: SECOND * 30, ..soon }], 4, idle(10), (12, "little"));
    // What is gone by then does neither.
    let ending = Work { here: vec![Slots { until: SECOND * 10, ..Slots::lasting(4) }], ..here(0, 100) };
    check(ending, &[], 4, idle(10), (8, "little"));
}

#[test]
fn what_is_not_known_is_probed_with_few_until_it_shows() {
    let unknown = |ran: u32, here| Work {
        tasks: 500,
        ran: SECOND * ran,
        here: vec![Slots::lasting(here)],
        ..Work::default()
    };
    check(unknown(0, 0), &[], 1, idle(300), (PROBED_FEW, "probing"));
    check(unknown(0, 0), &[Slots::lasting(1)], 1, idle(300), (PROBED_FEW - 1, "probing"));
    check(unknown(0, PROBED_FEW), &[], 1, idle(300), (0, "probing"));
    // The longer they run, the more: 500 tasks of 20 s are worth 262 workers.
    check(unknown(10, PROBED_FEW), &[], 1, idle(300), (255, "probing"));
    check(unknown(80, PROBED_FEW), &[], 1, idle(300), (500 - PROBED_FEW, ""));
    check(unknown(200, PROBED_FEW), &[], 1, idle(300), (500 - PROBED_FEW, ""));
    // Where workers are waited for, few would be waited for first, and then the rest.
    let waited = Cost { waited: SECOND * 40, ..idle(300) };
    check(unknown(0, 0), &[Slots::lasting(2)], 1, waited, (PROBED_MAX - 2, "probing"));
    check(unknown(0, 0), &[], 1, Cost { together: 8, ..idle(300) }, (8, "probing"));
    // A few tasks are shown by fewer still: one of five workers that they would fill.
    let few = || Work { tasks: 20, here: Vec::new(), ..unknown(0, 0) };
    check(few(), &[], 2, idle(300), (2, "probing"));
    check(few(), &[Slots::lasting(2)], 2, idle(300), (1, "probing"));
    check(few(), &[], 4, idle(300), (1, "probing"));
    check(few(), &[], 2, waited, (2, "probing"));
    check(few(), &[], 2, Cost { together: 4, ..idle(300) }, (4, "probing"));
    // Workers that leave soon are started no sooner.
    let soon = Cost { wait: START_UP_TIME, ..idle(1) };
    check(unknown(0, 0), &[], 1, soon, (PROBED_FEW, "probing"));
    let usual = Cost { wait: SECOND * 3600, ..idle(300) };
    check(unknown(0, 0), &[], 1, usual, (PROBED_MAX, "probing"));
    let saving = Cost { goal: Goal::NodeHours, ..idle(300) };
    check(unknown(0, 0), &[], 1, saving, (1, "probing"));
}
