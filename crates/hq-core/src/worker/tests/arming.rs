//! What follows a task is said to the launcher beforehand, called back, begun, or never begun.

use super::*;
use crate::limits::ARMED_TIME;

fn task(task: u32) -> TaskRef {
    TaskRef::new(JobId(1), TaskId(task))
}

fn ids(tasks: &str) -> IdSet {
    tasks.parse().expect("ids")
}

fn short() -> Usage {
    Usage { wall_us: 100, ..Usage::default() }
}

fn well(id: u32) -> Input {
    Input::ended(task(id), Outcome::Finished, short())
}

impl World {
    /// Tasks 0 and 1 were brisk; those in `rest` come now.
    fn armed(rest: &str, change: impl FnOnce(&mut WorkerConfig)) -> World {
        let mut world = World::quiet(change);
        world.run(1, rest, 0, |_| {});
        world
    }

    fn quiet(change: impl FnOnce(&mut WorkerConfig)) -> World {
        let now = Timestamp(1_000_000_000);
        let mut world = World::with(Worker::new(config(change), now).with_arming(), now);
        world.run(1, "0-1", 0, |_| {});
        world.end(1, 0, Outcome::Finished);
        world.end(1, 1, Outcome::Finished);
        world.did();
        world
    }

    /// Tasks that were like those in `rest` were very short.
    fn short(rest: &str) -> World {
        let mut world = World::taking(100);
        world.run(1, rest, 0, |_| {});
        world
    }

    /// Tasks of that template have taken so long.
    fn taking(wall_us: u64) -> World {
        let mut world = World::quiet(|_| {});
        world.run(1, "100-101", 0, |_| {});
        let usage = Usage { wall_us, ..Usage::default() };
        world.steps([100, 101].map(|id| Input::ended(task(id), Outcome::Finished, usage)).to_vec());
        world.wait(Duration::from_millis(10));
        world.did();
        world
    }

    fn ended(&mut self, leader: u32, outcome: Outcome, follower: Input) {
        let ended = Input::ended(task(leader), outcome, Usage::default());
        self.steps(vec![ended, follower]);
        self.wait(Duration::from_millis(10));
    }

    fn follows(&mut self, leader: u32, follower: u32) {
        self.ended(leader, Outcome::Finished, Input::Begun { task: task(follower) });
    }

    fn never(&mut self, follower: u32) {
        self.step(Input::Recalled { task: task(follower) });
        self.wait(Duration::from_millis(10));
    }
}

#[test]
fn what_follows_is_said_when_a_task_starts_and_runs_when_it_has_begun() {
    let mut world = World::armed("2-6", |_| {});
    assert_eq!(world.did(), "start 1@2/0, start 1@3/0, arm 1@4/0 after 1@2, arm 1@5/0 after 1@3");
    world.follows(2, 4);
    assert_eq!(world.did(), "arm 1@6/0 after 1@4, finished 1:2");
    world.follows(3, 5);
    world.follows(4, 6);
    assert_eq!(world.did(), "finished 1:3-4", "nothing is left to follow");
    world.end(1, 5, Outcome::Finished);
    world.end(1, 6, failed());
    assert_eq!(world.did(), "finished 1:5, failed 1:6");
}

#[test]
fn nothing_is_said_of_tasks_that_take_long() {
    let mut world = World::quiet(|_| {});
    world.run(1, "2-9", 0, |_| {});
    world.did();
    world.now = world.now.after(ARMED_TIME);
    world.never(4);
    world.never(5);
    world.did();
    world.end(1, 2, Outcome::Finished);
    assert_eq!(world.did(), "start 1@4/0, finished 1:2");
}

#[test]
fn what_was_kept_for_it_is_free_once_it_is_armed() {
    let takes = |amount, priority| {
        move |spec: &mut TaskSpec| {
            spec.requests = vec![request(&[("mem", amount)])];
            spec.priority = priority;
        }
    };
    let mut world = World::quiet(|config| config.resources = resources(&[("cpus", 9), ("mem", 3)]));
    world.run(5, "0", 0, takes(2, 0));
    world.end(5, 0, Outcome::Finished);
    world.run(4, "0", 0, takes(2, 0));
    world.run(5, "2-3", 0, takes(2, 0));
    world.run(2, "0", 0, takes(1, -1));
    world.did();
    let task = TaskRef::new(JobId(4), TaskId(0));
    world.step(Input::ended(task, Outcome::Finished, Usage::default()));
    assert_eq!(world.did(), "start 5@2/0, arm 5@3/0 after 5@2, start 2@0/0", "in this very moment");
}

#[test]
fn after_another_end_it_starts_as_always() {
    let mut world = World::armed("2-5", |_| {});
    world.did();
    world.ended(2, failed(), Input::Recalled { task: task(4) });
    assert_eq!(world.did(), "start 1@4/0, failed 1:2", "the next one follows the other one");
}

#[test]
fn it_is_called_back_when_its_leader_takes_long() {
    let mut world = World::armed("2-5", |_| {});
    world.did();
    assert!(world.worker.next_wakeup() <= Some(world.now.after(ARMED_TIME)));
    world.wait(ARMED_TIME);
    assert_eq!(world.did(), "recall 1@4, recall 1@5");
    world.never(4);
    world.never(5);
    world.wait(ARMED_TIME);
    assert_eq!(world.did(), "", "once in the life of a leader");
    world.end(1, 3, Outcome::Finished);
    assert_eq!(world.did(), "start 1@4/0, finished 1:3");
}

#[test]
fn it_is_called_back_for_what_goes_before_it() {
    let mut world = World::armed("2-5", |_| {});
    world.did();
    world.run(2, "0", 0, |spec| spec.priority = 1);
    assert_eq!(world.did(), "recall 1@4, recall 1@5");
    world.follows(2, 4);
    assert_eq!(world.did(), "finished 1:2", "too late for this one");
    world.never(5);
    world.end(1, 3, Outcome::Finished);
    assert_eq!(world.did(), "start 2@0/0, finished 1:3");
}

#[test]
fn it_is_called_back_when_it_fits_elsewhere() {
    let mut world = World::armed("2-4", |_| {});
    assert_eq!(world.did(), "start 1@2/0, start 1@3/0, arm 1@4/0 after 1@2");
    world.end(1, 3, Outcome::Finished);
    assert_eq!(world.did(), "recall 1@4, finished 1:3");
    world.never(4);
    assert_eq!(world.did(), "start 1@4/0");
}

#[test]
fn asked_back_it_goes_when_it_has_surely_not_begun() {
    let mut world = World::armed("2-5", |_| {});
    world.did();
    world.step(Input::Server(ToWorker::Retract { job: JobId(1), ids: ids("4-5") }));
    world.wait(Duration::from_millis(10));
    assert_eq!(world.did(), "recall 1@4, recall 1@5");
    world.never(4);
    assert_eq!(world.did(), "returned 1:4");
    world.follows(3, 5);
    world.end(1, 5, Outcome::Finished);
    assert_eq!(world.did(), "finished 1:3, finished 1:5");
}

#[test]
fn canceled_it_is_over_at_once_or_is_ended() {
    let mut world = World::armed("2-5", |_| {});
    world.did();
    world.step(Input::Server(ToWorker::Cancel { job: JobId(1), ids: ids("4-5"), are_elsewhere: false }));
    world.never(4);
    assert_eq!(world.did(), "recall 1@4, recall 1@5, canceled 1:4");
    world.follows(3, 5);
    assert_eq!(world.did(), "signal 1@5 15, finished 1:3");
    world.end(1, 5, failed());
    assert_eq!(world.did(), "canceled 1:5");
}

#[test]
fn a_leader_that_is_being_ended_has_no_follower() {
    let mut world = World::armed("2-4", |_| {});
    world.did();
    world.step(Input::Server(ToWorker::Cancel { job: JobId(1), ids: ids("2"), are_elsewhere: false }));
    assert_eq!(world.did(), "recall 1@4, signal 1@2 15");
    world.never(4);
    world.end(1, 2, failed());
    assert_eq!(world.did(), "start 1@4/0, canceled 1:2");
}

#[test]
fn a_newer_attempt_waits_until_the_armed_one_is_gone() {
    let mut world = World::armed("2-4", |_| {});
    world.did();
    world.run(1, "4", 1, |_| {});
    assert_eq!(world.did(), "recall 1@4");
    world.end(1, 3, Outcome::Finished);
    assert_eq!(world.did(), "finished 1:3", "the first attempt may have begun");
    world.never(4);
    assert_eq!(world.did(), "start 1@4/1");
}

#[test]
fn a_worker_that_leaves_waits_for_the_word_of_what_is_armed() {
    let mut world = World::armed("2-5", |_| {});
    world.did();
    world.step(Input::Server(ToWorker::Stop { drain: true }));
    assert_eq!(world.did(), "recall 1@4, recall 1@5");
    world.follows(2, 4);
    world.never(5);
    world.end(1, 3, Outcome::Finished);
    assert_eq!(world.did(), "finished 1:2, returned 1:5, finished 1:3");
    world.end(1, 4, Outcome::Finished);
    world.saves();
    assert_eq!(world.did(), "finished 1:4, exit Stopped");
}

#[test]
fn one_that_must_go_at_once_ends_what_begins_meanwhile() {
    let mut world = World::armed("2-4", |_| {});
    world.did();
    world.step(Input::Interrupt);
    assert_eq!(world.did(), "recall 1@4, signal 1@2 15, signal 1@3 15");
    world.follows(2, 4);
    world.end(1, 3, failed());
    world.end(1, 4, failed());
    assert_eq!(
        world.did(),
        "signal 1@4 15, finished 1:2, interrupted 1:3, interrupted 1:4, exit Interrupted"
    );
}

#[test]
fn what_waits_for_its_leader_begins_with_it_unless_the_server_cannot_hear_of_that() {
    let mut world = World::quiet(|_| {});
    world.run(1, "2", 0, |_| {});
    let follow = |world: &mut World, id: u32| {
        world.run_after(1, &id.to_string(), 0, Some((TaskId(id - 1), Instance(0))), |_| {});
    };
    (3..8).for_each(|id| follow(&mut world, id));
    world.end(1, 2, Outcome::Finished);
    assert_eq!(world.did(), "start 1@2/0, start 1@3/0, arm 1@4/0 after 1@3, finished 1:2");
    world.follows(3, 4);
    world.wait(Duration::from_millis(10));
    assert_eq!(world.did(), "arm 1@5/0 after 1@4, finished 1:3");
    world.ended(4, failed(), Input::Recalled { task: task(5) });
    assert_eq!(world.did(), "failed 1:4, returned 1:5-7");
    world.run(1, "8", 0, |_| {});
    follow(&mut world, 9);
    follow(&mut world, 10);
    world.end(1, 8, Outcome::Finished);
    assert_eq!(world.did(), "start 1@8/0, start 1@9/0, arm 1@10/0 after 1@9, finished 1:8");
    world.step(Input::ServerLost);
    assert_eq!(world.did(), "recall 1@10");
    world.never(10);
    world.end(1, 9, Outcome::Finished);
    world.step(Input::ServerFound);
    assert_eq!(world.did(), "hello  after 7");
}

#[test]
fn what_began_after_a_leader_that_was_being_ended_is_ended() {
    let mut world = World::quiet(|_| {});
    world.run(1, "2", 0, |_| {});
    world.run_after(1, "3", 0, Some((TaskId(2), Instance(0))), |_| {});
    world.run_after(1, "4", 0, Some((TaskId(3), Instance(0))), |_| {});
    world.end(1, 2, Outcome::Finished);
    assert_eq!(world.did(), "start 1@2/0, start 1@3/0, arm 1@4/0 after 1@3, finished 1:2");
    world.step(Input::Server(ToWorker::Cancel { job: JobId(1), ids: ids("3"), are_elsewhere: false }));
    world.follows(3, 4);
    world.end(1, 4, failed());
    assert_eq!(world.did(), "recall 1@4, signal 1@3 15, signal 1@4 15, canceled 1:3, interrupted 1:4");
}

#[test]
fn a_launcher_that_dies_says_nothing_of_what_was_armed() {
    let mut world = World::armed("2-5", |_| {});
    world.saves();
    world.did();
    world.step(Input::Server(ToWorker::Cancel { job: JobId(1), ids: ids("5"), are_elsewhere: false }));
    world.step(Input::LauncherLost);
    assert_eq!(world.did(), "recall 1@5, recall 1@4, canceled 1:5, exit LauncherLost");
}

#[test]
fn what_is_armed_counts_as_waiting() {
    let mut world = World::armed("2-5", |_| {});
    world.did();
    world.step(Input::ServerLost);
    world.step(Input::ServerFound);
    assert_eq!(world.did(), "hello 2-3+4-5 after 2");
}

#[test]
fn nothing_is_armed_where_it_matters_which_indices_it_gets() {
    let group = |labels: [&str; 2]| labels.map(str::to_owned).to_vec();
    let groups = PoolKind::Groups(vec![group(["0", "1"]), group(["2", "3"])]);
    for (kind, cpus, is_armed) in
        [(groups.clone(), 1, true), (groups, 2, false), (PoolKind::Range { first: 0, last: 3 }, 2, true)]
    {
        let pools = vec![ResourcePool { name: "cpus".into(), kind }];
        let mut world =
            World::quiet(|config| config.resources = WorkerResources { pools, coupling: Vec::new() });
        let wide = |spec: &mut TaskSpec| spec.requests = vec![request(&[("cpus", cpus)])];
        world.run(2, "0-1", 0, wide);
        world.end(2, 0, Outcome::Finished);
        world.end(2, 1, Outcome::Finished);
        world.run(2, "2-9", 0, wide);
        assert_eq!(world.did().contains("arm 2@"), is_armed, "{cpus} of them");
    }
}

#[test]
fn short_ones_are_said_in_rows_while_more_wait_than_run() {
    let mut world = World::short("2-11");
    assert_eq!(
        world.did(),
        "start 1@2/0, start 1@3/0, arm 1@4/0 after 1@2, arm 1@5/0 after 1@3, arm 1@6/0 after 1@4, \
         arm 1@7/0 after 1@5, arm 1@8/0 after 1@6, arm 1@9/0 after 1@7",
        "the last two are for whoever is free first"
    );
    let ended = |leader: u32, follower: u32| [well(leader), Input::Begun { task: task(follower) }];
    world.run(1, "12-13", 0, |_| {});
    world.did();
    world.steps([ended(2, 4), ended(4, 6), ended(3, 5)].concat());
    world.wait(Duration::from_millis(10));
    assert_eq!(world.did(), "arm 1@10/0 after 1@8, arm 1@11/0 after 1@9, finished 1:2-4");
    world.steps([ended(6, 8), ended(8, 10), ended(5, 7), ended(7, 9), ended(9, 11)].concat());
    assert_eq!(world.did(), "arm 1@12/0 after 1@10, arm 1@13/0 after 1@11");
}

#[test]
fn the_longer_they_take_the_fewer_are_in_a_row() {
    for (took_us, count) in [(100, 16), (1_000, 10), (4_000, 2), (11_000, 1), (49_999, 1), (50_000, 0)] {
        let mut world = World::taking(took_us);
        world.run(1, "2-99", 0, |_| {});
        assert_eq!(world.did().matches("arm 1@").count(), 2 * count, "{took_us} us each");
    }
}

#[test]
fn those_behind_one_that_does_not_begin_come_back_with_it() {
    let mut world = World::short("2-9");
    assert!(world.did().ends_with("arm 1@6/0 after 1@4, arm 1@7/0 after 1@5"));
    world.step(Input::Server(ToWorker::Cancel { job: JobId(1), ids: ids("4"), are_elsewhere: false }));
    assert_eq!(world.did(), "recall 1@4");
    world.steps(vec![Input::Recalled { task: task(4) }, Input::Recalled { task: task(6) }]);
    world.wait(Duration::from_millis(10));
    assert_eq!(world.did(), "canceled 1:4");
    world.steps(vec![
        Input::ended(task(3), failed(), short()),
        Input::Recalled { task: task(5) },
        Input::Recalled { task: task(7) },
    ]);
    assert_eq!(world.did(), "start 1@5/0, arm 1@6/0 after 1@5, arm 1@7/0 after 1@6");
}

#[test]
fn a_whole_row_is_called_back_when_there_is_room_elsewhere() {
    let mut world = World::short("2-9");
    world.did();
    let begun = |follower: u32| Input::Begun { task: task(follower) };
    world.steps(vec![well(3), begun(5), well(5), begun(7)]);
    assert_eq!(world.did(), "arm 1@8/0 after 1@7");
    world.steps(vec![well(7), begun(8)]);
    assert_eq!(world.did(), "arm 1@9/0 after 1@8");
    world.steps(vec![well(8), begun(9), well(9)]);
    assert_eq!(world.did(), "recall 1@4, recall 1@6");
    world.steps(vec![Input::Recalled { task: task(4) }, Input::Recalled { task: task(6) }]);
    assert_eq!(world.did(), "start 1@4/0, arm 1@6/0 after 1@4");
}

#[test]
fn a_late_word_of_one_behind_it_unlinks_nothing_newer() {
    let mut world = World::short("2-9");
    world.did();
    world.step(Input::Recalled { task: task(4) });
    let back = [5, 7].map(|id| Input::Recalled { task: task(id) });
    world.steps([vec![Input::ended(task(3), failed(), short())], back.to_vec()].concat());
    assert_eq!(world.did(), "start 1@4/0, arm 1@5/0 after 1@4, arm 1@7/0 after 1@5");
    world.step(Input::Recalled { task: task(6) });
    world.steps(vec![well(4), Input::Begun { task: task(5) }]);
    assert_eq!(world.worker.running_count(), 2);
}

#[test]
fn those_of_a_row_ran_one_after_the_other_though_they_are_told_of_together() {
    for (later_us, first_us) in [(4_000, 100), (20_000, 15_000)] {
        let mut world = World::short("2-11");
        let start = world.now;
        world.wait(Duration::from_micros(later_us));
        let begun = |id: u32| Input::Begun { task: task(id) };
        let (mut since, told) = (Vec::new(), [(2, 4), (4, 6), (6, 8)]);
        let mut effects = Vec::new();
        for (leader, follower) in told {
            world.worker.handle(world.now, well(leader), &mut effects);
            world.worker.handle(world.now, begun(follower), &mut effects);
            since.push(world.worker.running[&task(follower)].since.since(start).as_micros());
        }
        assert_eq!(since, [first_us, first_us + 100, first_us + 200]);
    }
}
