//! Calls that are said to a runner beforehand: they are armed behind the one that runs there.

use hq_model::body::Function;

use super::*;
use crate::limits::{CALLS_AHEAD, CALLS_AHEAD_MAX, CALLS_ARMED_TIME};
use crate::worker::RunnerId;

fn function(spec: &mut TaskSpec) {
    spec.body = Body::Function(Function {
        name: "score:main".into(),
        interpreter: vec![b"python3".to_vec()],
        ..Function::default()
    });
}

fn task(task: u32) -> TaskRef {
    TaskRef::new(JobId(1), TaskId(task))
}

fn ids(tasks: &str) -> IdSet {
    tasks.parse().expect("ids")
}

fn ended(id: u32, outcome: Outcome) -> Input {
    Input::ended(task(id), outcome, Usage { wall_us: 100, ..Usage::default() })
}

fn well(id: u32) -> Input {
    ended(id, Outcome::Finished)
}

fn begun(id: u32) -> Input {
    Input::Begun { task: task(id) }
}

fn recalled(id: u32) -> Input {
    Input::Recalled { task: task(id) }
}

impl World {
    /// On one CPU: a call took so long, and those in `rest` come now.
    fn calls(rest: &str, wall_us: u64, change: impl Fn(&mut TaskSpec)) -> World {
        let now = Timestamp(1_000_000_000);
        let config = config(|config| config.resources = WorkerResources::cpus(1));
        let mut world = World::with(Worker::new(config, now).with_arming(), now);
        let change = |spec: &mut TaskSpec| {
            function(spec);
            change(spec);
        };
        world.run(1, "0", 0, change);
        let usage = Usage { wall_us, ..Usage::default() };
        world.step(Input::ended(task(0), Outcome::Finished, usage));
        world.wait(Duration::from_millis(50));
        world.done.clear();
        world.run(1, rest, 0, change);
        world
    }

    fn cancel(&mut self, tasks: &str) {
        self.step(Input::Server(ToWorker::Cancel { job: JobId(1), ids: ids(tasks), are_elsewhere: false }));
    }

    // What it did beside reports.
    fn acts(&mut self) -> String {
        let words = ["start", "arm", "recall", "signal", "end runner", "go on", "exit"];
        let did = self.did();
        let acts = did.split(", ").filter(|act| words.iter().any(|word| act.starts_with(word)));
        acts.collect::<Vec<_>>().join(", ")
    }

    // What it has said to have ended.
    fn ends(&mut self) -> String {
        self.wait(Duration::from_millis(5));
        let ends = self.ended.iter().filter(|(task, _)| task.task.0 > 0);
        ends.map(|(task, how)| format!("{} {}", task.task, how.join("+"))).collect::<Vec<_>>().join(", ")
    }
}

#[test]
fn as_many_as_are_expected_to_run_soon_are_said_beforehand() {
    for (wall_us, ahead) in [(0, 0), (1, 64), (15, 64), (100, 10), (999, 1), (1001, 0), (1_000_000, 0)] {
        let mut world = World::calls("1-99", wall_us, |_| {});
        // What took no time that could be measured took the time until it was told.
        let ahead = if wall_us == 0 { CALLS_AHEAD_MAX } else { ahead };
        assert_eq!(world.did().matches("arm ").count(), ahead, "{wall_us} µs");
    }
    assert_eq!(CALLS_AHEAD.as_micros(), 1000);
}

#[test]
fn nothing_is_known_of_the_first_one() {
    let mut world = World::calls("1", 1, |_| {});
    world.step(well(1));
    world.did();
    world.run(2, "0-9", 0, function);
    assert_eq!(world.acts(), "start 2@0/0 in new 2");
}

#[test]
fn what_has_more_to_it_than_a_call_is_not_said_beforehand() {
    let warned = |spec: &mut TaskSpec| {
        spec.time_limit = Some(Duration::from_secs(9));
        spec.warning = Some(hq_model::task::Warning { signal: 10, before: Duration::from_secs(1) });
    };
    let changes: [fn(&mut TaskSpec); 3] =
        [warned, |spec| spec.task_dir = true, |spec| spec.requests.push(request(&[("cpus", 1)]))];
    for change in changes {
        assert!(!World::calls("1-9", 1, change).did().contains("arm"));
    }
}

#[test]
fn calls_take_over_the_runner_and_the_resources_of_the_one_before() {
    let mut world = World::calls("1-4", 400, |_| {});
    assert_eq!(world.acts(), "start 1@1/0 in 1, arm 1@2/0 after 1@1 in 1, arm 1@3/0 after 1@2 in 1");
    // What ends in the same moment is told in the same moment. An exception ends no runner.
    world.steps(vec![ended(1, failed()), begun(2), well(2), begun(3)]);
    assert_eq!(world.acts(), "arm 1@4/0 after 1@3 in 1");
    world.steps(vec![well(3), begun(4)]);
    world.steps(vec![well(4)]);
    assert_eq!(world.ends(), "1 failed, 2 finished, 3 finished, 4 finished");
    assert_eq!((world.acts().as_str(), world.worker.taken()), ("", vec![0]));
    world.run(1, "5", 0, function);
    assert_eq!(world.acts(), "start 1@5/0 in 1", "the runner is there for the next one");
}

#[test]
fn when_its_interpreter_dies_only_the_call_that_runs_fails() {
    let mut world = World::calls("1-4", 400, |_| {});
    world.did();
    let gone = || Input::RunnerEnded { runner: RunnerId(1) };
    world.steps(vec![well(1), begun(2), recalled(3), ended(2, failed()), gone()]);
    assert_eq!(world.acts(), "start 1@3/0 in new 2, arm 1@4/0 after 1@3 in 2");
    world.steps(vec![well(3), begun(4), well(4)]);
    assert_eq!(world.ends(), "1 finished, 2 failed, 3 finished, 4 finished");
    // However late it is heard that the next one has not begun.
    let mut world = World::calls("1-3", 400, |_| {});
    world.did();
    world.steps(vec![ended(1, failed()), gone()]);
    assert_eq!((world.acts().as_str(), world.worker.taken()), ("", vec![10_000]));
    world.step(recalled(2));
    assert_eq!(world.acts(), "start 1@2/0 in new 2, arm 1@3/0 after 1@2 in 2");
}

#[test]
fn a_runner_that_can_do_no_more_gives_the_others_back() {
    let mut world = World::calls("1-3", 400, |_| {});
    world.did();
    world.steps(vec![Input::RunnerSpent { runner: RunnerId(1) }, ended(1, failed()), recalled(2)]);
    assert_eq!(world.acts(), "end runner 1, start 1@2/0 in new 2, arm 1@3/0 after 1@2 in 2");
}

#[test]
fn a_call_that_waits_has_none_behind_it() {
    let mut world = World::calls("1-2", 400, |_| {});
    world.did();
    world.step(Input::CallWaits { task: task(1) });
    assert_eq!(world.acts(), "recall 1@2");
    world.step(recalled(2));
    assert_eq!(world.acts(), "start 1@2/0 in new 2");
    world.step(Input::CallWants { task: task(1) });
    world.step(well(2));
    assert_eq!(world.acts(), "go on 1@1");
    world.step(well(1));
    assert_eq!(world.worker.taken(), [0]);
}

#[test]
fn a_call_that_is_being_ended_has_none_behind_it() {
    let mut world = World::calls("1-3", 400, |_| {});
    world.did();
    world.cancel("1");
    assert_eq!(world.acts(), "recall 1@2, signal 1@1 15");
    world.steps(vec![recalled(2), ended(1, failed())]);
    assert_eq!(world.acts(), "end runner 1, start 1@2/0 in new 2, arm 1@3/0 after 1@2 in 2");
    assert_eq!(world.ends(), "1 canceled");
}

#[test]
fn a_call_that_was_over_before_it_was_ended_leaves_its_runner_to_one_more() {
    let mut world = World::calls("1-4", 400, |_| {});
    world.did();
    world.cancel("1");
    world.did();
    // The next one had begun; whatever its runner is told now, it is not used again.
    world.steps(vec![recalled(3), well(1), begun(2)]);
    assert_eq!(world.acts(), "");
    world.step(well(2));
    assert_eq!(world.acts(), "end runner 1, start 1@3/0 in new 2, arm 1@4/0 after 1@3 in 2");
}

#[test]
fn what_is_in_the_way_of_those_behind_calls_them_back() {
    let armed = || {
        let mut world = World::calls("1-4", 400, |_| {});
        world.did();
        world
    };
    let mut world = armed();
    world.step(Input::Server(ToWorker::Retract { job: JobId(1), ids: ids("3") }));
    assert_eq!(world.acts(), "recall 1@3");
    world.step(recalled(3));
    assert_eq!(world.ends(), "3 returned");

    let mut world = armed();
    world.run(2, "0", 0, |spec| spec.priority = 1);
    assert_eq!(world.acts(), "recall 1@2, recall 1@3");

    let mut world = armed();
    world.wait(CALLS_ARMED_TIME);
    assert_eq!(world.acts(), "recall 1@2, recall 1@3");
    world.steps(vec![recalled(2), recalled(3)]);
    world.step(well(1));
    assert_eq!(world.acts(), "start 1@2/0 in 1, arm 1@3/0 after 1@2 in 1");

    let mut world = armed();
    world.step(Input::Server(ToWorker::Stop { drain: true }));
    assert_eq!(world.acts(), "recall 1@2, recall 1@3");
    world.steps(vec![well(1), begun(2), recalled(3), well(2)]);
    assert_eq!(world.ends(), "1 finished, 2 finished, 3 returned, 4 returned");
}

#[test]
fn what_it_returned_may_be_stored_while_the_next_one_runs() {
    let mut world = World::calls("1-3", 400, |_| {});
    world.did();
    world.steps(vec![Input::Exited { task: task(1), is_success: true }, begun(2)]);
    assert_eq!(world.acts(), "arm 1@3/0 after 1@2 in 1");
    world.steps(vec![well(2), begun(3), well(3)]);
    assert_eq!(world.ends(), "2 finished, 3 finished");
    world.step(well(1));
    assert_eq!(world.ends(), "1 finished, 2 finished, 3 finished");
    assert_eq!(world.worker.taken(), [0]);
}

#[test]
fn the_time_of_each_call_is_its_own() {
    let limited = |spec: &mut TaskSpec| spec.time_limit = Some(Duration::from_millis(5));
    let mut world = World::calls("1-2", 400, limited);
    world.did();
    world.wait(Duration::from_millis(4));
    let usage = Usage { wall_us: 4000, ..Usage::default() };
    world.steps(vec![Input::ended(task(1), Outcome::Finished, usage), begun(2)]);
    world.wait(Duration::from_millis(1));
    assert_eq!(world.acts(), "");
    world.wait(Duration::from_millis(4));
    assert_eq!(world.acts(), "signal 1@2 15");
}
