//! Interpreters that stay from one call of a function to the next.

use hq_model::body::{Function, Mpi};
use hq_model::task::Pin;

use super::*;
use crate::limits::{LENDING_MAX_LEAST, REPORT_RESULTS_BYTES_MAX, RESULT_BYTES_MAX, RUNNER_IDLE_TIME};
use crate::worker::RunnerId;

fn function(spec: &mut TaskSpec) {
    spec.body = Body::Function(Function {
        name: "score:main".into(),
        interpreter: vec![b"python3".to_vec()],
        ..Function::default()
    });
}

fn returned(job: u32, task: u32, result: &[u8]) -> Input {
    let (task, usage) = (TaskRef::new(JobId(job), TaskId(task)), Usage::default());
    Input::Ended { task, outcome: Outcome::Finished, usage, result: result.to_vec() }
}

#[test]
fn a_runner_has_the_next_call_of_its_job() {
    let mut world = World::new(|_| {});
    world.run(1, "0-3", 0, function);
    assert_eq!(world.did(), "start 1@0/0 in new 1, start 1@1/0 in new 2");
    world.step(returned(1, 1, b"5"));
    world.step(returned(1, 0, b"5"));
    assert!(world.did().starts_with("start 1@2/0 in 2, "));
    world.step(returned(1, 2, b"5"));
    world.step(returned(1, 3, b"5"));
    world.did();
    // Another job may mean another module of the same name.
    world.run(2, "0", 0, function);
    assert!(world.did().contains("start 2@0/0 in new 3"));
}

#[test]
fn what_an_interpreter_starts_with_is_never_changed_below_it() {
    let mut world = World::new(|config| config.resources = resources(&[("cpus", 4), ("gpus", 2)]));
    let with_gpu = |spec: &mut TaskSpec| {
        function(spec);
        spec.requests = vec![request(&[("cpus", 1), ("gpus", 1)])];
    };
    world.run(1, "0-1", 0, with_gpu);
    assert_eq!(world.did(), "start 1@0/0 in new 1, start 1@1/0 in new 2");
    world.step(returned(1, 1, b"5"));
    world.did();
    // The GPU that is free is the second one, and so is the runner.
    world.run(1, "2", 0, with_gpu);
    assert_eq!(world.did(), "start 1@2/0 in 2");
    world.step(returned(1, 0, b"5"));
    world.did();
    world.run(1, "3", 0, |spec| {
        with_gpu(spec);
        spec.env.push((b"CUTOFF".to_vec(), b"2".to_vec()));
    });
    // Whatever the one that had this GPU keeps there goes with it.
    assert_eq!(world.did(), "end runner 1, start 1@3/0 in new 3");
    world.run(1, "4", 0, |spec| {
        function(spec);
        spec.requests = vec![request(&[("cpus", 2)])];
        spec.pin = Pin::Taskset;
    });
    assert_eq!(world.did(), "start 1@4/0 in new 4");
}

#[test]
fn an_idle_runner_ends_when_something_else_gets_its_device() {
    let mut world = World::new(|config| config.resources = resources(&[("cpus", 4), ("gpus", 1)]));
    let half = |is_function: bool, amount: &str| {
        let amount: Amount = amount.parse().expect("an amount");
        move |spec: &mut TaskSpec| {
            if is_function {
                function(spec);
            }
            spec.requests = vec![request(&[("gpus", 1)])];
            spec.requests[0].resources[0].amount = AmountRequest::Some(amount, Policy::Compact);
        }
    };
    world.run(1, "0", 0, half(true, "0.5"));
    world.step(returned(1, 0, b"5"));
    world.did();
    // There is room beside it.
    world.run(2, "0", 0, half(true, "0.5"));
    assert_eq!(world.did(), "start 2@0/0 in new 2");
    world.step(returned(2, 0, b"5"));
    world.did();
    // Programs need it as well; what needs CPUs alone does not.
    world.run(3, "0", 0, |_| {});
    assert_eq!(world.did(), "start 3@0/0");
    world.run(4, "0", 0, half(false, "0.75"));
    assert_eq!(world.did(), "end runner 1, end runner 2, start 4@0/0");
}

#[test]
fn a_runner_is_not_used_after_a_call_that_was_ended() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |spec| {
        function(spec);
        spec.time_limit = Some(Duration::from_secs(1));
    });
    world.did();
    world.wait(Duration::from_secs(1));
    assert_eq!(world.did(), "signal 1@0 15");
    world.end(1, 0, failed());
    assert_eq!(world.did(), "end runner 1, timeout 1:0");
    world.run(1, "1", 0, function);
    assert_eq!(world.did(), "start 1@1/0 in new 2");
    world.step(Input::RunnerEnded { runner: RunnerId(1) });
}

#[test]
fn a_runner_that_dies_is_replaced() {
    let mut world = World::new(|_| {});
    world.run(1, "0-1", 0, function);
    world.did();
    let task = TaskRef::new(JobId(1), TaskId(0));
    // The end of its call may need time until it is told.
    world.step(Input::RunnerEnded { runner: RunnerId(1) });
    world.steps(vec![Input::ended(task, failed(), Usage::default()), returned(1, 1, b"5")]);
    world.step(Input::RunnerEnded { runner: RunnerId(2) });
    world.did();
    world.run(1, "2-3", 0, function);
    assert_eq!(world.did(), "start 1@2/0 in new 3, start 1@3/0 in new 4");
}

#[test]
fn idle_runners_end_after_a_time_and_when_there_are_many() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, function);
    world.step(returned(1, 0, b"5"));
    world.did();
    assert_eq!(world.worker.next_wakeup().map(|at| at <= world.now.after(RUNNER_IDLE_TIME)), Some(true));
    world.wait(RUNNER_IDLE_TIME);
    assert_eq!(world.did(), "end runner 1");
    world.step(Input::RunnerEnded { runner: RunnerId(1) });
    for job in 2..7 {
        world.run(job, "0", 0, function);
        world.step(returned(job, 0, b"5"));
        world.wait(Duration::from_millis(10));
    }
    // Four are kept.
    assert_eq!(world.did().matches("end runner 2").count(), 1);
}

#[test]
fn results_are_reported_with_their_tasks_and_no_report_is_too_large() {
    let mut world = World::new(|_| {});
    let count = 2 * REPORT_RESULTS_BYTES_MAX / RESULT_BYTES_MAX;
    let results: Vec<u8> = vec![b'1'; RESULT_BYTES_MAX];
    world.run(1, &format!("0-{count}"), 0, function);
    let mut effects = Vec::new();
    for task in 0..=count as u32 {
        world.worker.handle(world.now, returned(1, task, &results), &mut effects);
        // The next one starts, and nothing is said yet.
        world.worker.start_what_fits(world.now, &mut effects);
    }
    world.worker.settle(world.now.after(Duration::from_secs(1)), &mut effects);
    let reports = effects.iter().filter_map(|effect| match effect {
        Effect::Send(FromWorker::Report(report)) => Some(report),
        _ => None,
    });
    let spans = reports.flat_map(|report| &report.finished);
    let sizes: Vec<usize> = spans.clone().map(|span| span.results.bytes_len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), (count + 1) * RESULT_BYTES_MAX);
    assert!(
        sizes.len() >= 3 && sizes.iter().all(|size| *size <= REPORT_RESULTS_BYTES_MAX + RESULT_BYTES_MAX)
    );
    for span in spans {
        assert_eq!(span.ids.len(), span.results.len() as u64);
    }
}

#[test]
fn a_runner_that_says_that_it_can_do_no_more_is_replaced() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, function);
    world.did();
    let task = TaskRef::new(JobId(1), TaskId(0));
    world.steps(vec![
        Input::RunnerSpent { runner: RunnerId(1) },
        Input::ended(task, failed(), Usage::default()),
    ]);
    assert!(world.did().contains("end runner 1"));
    world.run(1, "1", 0, function);
    assert_eq!(world.did(), "start 1@1/0 in new 2");
}

fn packed(spec: &mut TaskSpec) {
    spec.body = Body::Function(Function {
        name: "fit".into(),
        code: b"code".to_vec(),
        entry: hq_model::body::EntryKind::Packed,
        interpreter: vec![b"python3".to_vec()],
        ..Function::default()
    });
}

#[test]
fn what_a_client_waits_for_is_reported_at_once_and_then_with_what_ends_soon_after() {
    let mut world = World::new(|_| {});
    world.run(1, "0-99", 0, packed);
    world.did();
    world.wait(crate::limits::AWAITED_REPORT_INTERVAL);
    world.step(returned(1, 0, b"a"));
    assert!(world.did().ends_with("finished 1:0"), "though others are queued");
    world.step(returned(1, 1, b"a"));
    world.step(returned(1, 2, b"a"));
    assert!(!world.did().contains("finished"), "the one before was told just now");
    world.wait(crate::limits::AWAITED_REPORT_INTERVAL);
    assert_eq!(world.did(), "finished 1:1-2");
}

fn calls_in_a_row(count: u32) -> World {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, packed);
    for task in 1..count {
        world.run_after(1, &task.to_string(), 0, Some((TaskId(task - 1), Instance(0))), packed);
    }
    world.did();
    world
}

#[test]
fn a_call_that_follows_another_is_given_what_that_one_returns() {
    let mut world = calls_in_a_row(3);
    world.step(returned(1, 0, b"\x80a"));
    assert_eq!(world.did(), r"start 1@1/0 in 1 with \x80a of 1@0, finished 1:0");
    world.wait(crate::limits::AWAITED_REPORT_INTERVAL);
    // What it has printed stands before the value.
    world.step(returned(1, 1, b"E\x01\x02\0hi\x80b"));
    assert_eq!(world.did(), r"start 1@2/0 in 1 with E\x01\x02\x00hi\x80b of 1@1, finished 1:1");
}

#[test]
fn it_goes_back_where_the_value_is_not_here() {
    let object = [b"E\x09\x18\0", &[1; 24][..]].concat();
    let another_call = b"E\x0b\x08\0\x01\0\0\0\x07\0\0\0".to_vec();
    let with_references = [b"E\x0a\x21\0", &[1; 33][..], b"\x80a"].concat();
    for left in [object, another_call, with_references, Vec::new(), b"{}".to_vec()] {
        let mut world = calls_in_a_row(3);
        world.step(returned(1, 0, &left));
        assert_eq!(world.did(), "finished 1:0, returned 1:1-2", "{}", left.escape_ascii());
    }
}

#[test]
fn a_call_that_comes_after_the_end_of_the_one_before_it_is_given_what_that_left() {
    let mut world = calls_in_a_row(1);
    world.step(returned(1, 0, b"\x80a"));
    assert_eq!(world.did(), "finished 1:0");
    world.run_after(1, "1", 0, Some((TaskId(0), Instance(0))), packed);
    assert_eq!(
        world.did(),
        r"start 1@1/0 in 1 with \x80a of 1@0",
        "the server has not saved the end of the first one"
    );
    world.step(returned(1, 1, b"\x80b"));
    world.saves();
    world.did();
    world.run_after(1, "2", 0, Some((TaskId(1), Instance(0))), packed);
    world.wait(Duration::from_millis(20));
    assert_eq!(world.did(), "returned 1:2", "what is saved is forgotten here");
}

#[test]
fn what_a_failed_call_leaves_behind_is_reported_unless_it_was_ended() {
    let mut world = World::new(|_| {});
    let raised = |task: u32| Input::Ended {
        task: TaskRef::new(JobId(1), TaskId(task)),
        outcome: failed(),
        usage: Usage::default(),
        result: b"error".to_vec(),
    };
    world.run(1, "0", 0, packed);
    world.step(raised(0));
    world.run(1, "1", 0, |spec| {
        packed(spec);
        spec.time_limit = Some(Duration::from_secs(1));
    });
    world.wait(Duration::from_secs(1));
    world.step(raised(1));
    let failures = world.worker.reporting.unsaved().flat_map(|report| &report.failed);
    let results: Vec<_> = failures.map(|(_, failure)| failure.result.as_slice()).collect();
    assert_eq!(results, [&b"error"[..], b""]);
}

fn waits(task: u32) -> Input {
    Input::CallWaits { task: TaskRef::new(JobId(1), TaskId(task)) }
}

fn wants(task: u32) -> Input {
    Input::CallWants { task: TaskRef::new(JobId(1), TaskId(task)) }
}

#[test]
fn a_call_that_waits_lends_its_cpus_and_has_some_before_anything_new_starts() {
    let mut world = World::new(|_| {});
    world.run(1, "0-4", 0, function);
    assert_eq!(world.did(), "start 1@0/0 in new 1, start 1@1/0 in new 2");
    world.step(waits(0));
    assert_eq!(world.did(), "start 1@2/0 in new 3, lends 1@0");
    world.step(waits(0));
    world.step(wants(0));
    assert_eq!(world.did(), "", "both CPUs are in use");
    world.step(returned(1, 2, b"5"));
    world.wait(Duration::from_millis(10));
    assert_eq!(world.did(), "go on 1@0, has 1@0, finished 1:2", "the others wait on");
    // What did not wait, or is told to go on already, does.
    world.step(wants(1));
    assert_eq!(world.did(), "go on 1@1");
    world.step(returned(1, 0, b"5"));
    world.step(returned(1, 1, b"5"));
    assert!(world.did().contains("start 1@3/0 in 1"));
}

#[test]
fn only_cpus_are_lent_and_only_by_calls_that_are_not_bound_to_them() {
    let mut world = World::new(|config| config.resources = resources(&[("cpus", 2), ("gpus", 1)]));
    world.run(1, "0", 0, |spec| {
        function(spec);
        spec.requests = vec![request(&[("gpus", 1), ("cpus", 2)])];
    });
    world.step(waits(0));
    world.run(2, "0", 0, |spec| {
        function(spec);
        spec.requests = vec![request(&[("gpus", 1)])];
    });
    world.run(3, "0", 0, |spec| {
        function(spec);
        spec.pin = Pin::Taskset;
    });
    assert_eq!(world.did(), "start 1@0/0 in new 1, lends 1@0, start 3@0/0 in new 2");
    world.step(Input::CallWaits { task: TaskRef::new(JobId(3), TaskId(0)) });
    world.step(wants(0));
    assert_eq!(world.did(), "");
    world.step(returned(3, 0, b"5"));
    world.wait(Duration::from_millis(10));
    assert_eq!(world.did(), "go on 1@0, has 1@0, finished 3:0");
    assert_eq!(world.worker.taken(), [20_000, 10_000]);
    world.step(returned(1, 0, b"5"));
    assert!(world.did().starts_with("end runner 1, start 2@0/0 in new 3"));
}

#[test]
fn a_call_that_is_ended_or_dies_while_it_waits_gives_back_what_it_has_left() {
    let mut world = World::new(|_| {});
    world.run(1, "0-3", 0, function);
    world.steps(vec![waits(0), waits(1)]);
    world.did();
    world.steps(vec![wants(0), wants(1)]);
    world.step(Input::Server(ToWorker::Cancel {
        job: JobId(1),
        ids: IdSet::single(TaskId(1)),
        are_elsewhere: false,
    }));
    assert_eq!(world.did(), "go on 1@1, signal 1@1 15");
    world.step(Input::RunnerEnded { runner: RunnerId(1) });
    world.end(1, 0, failed());
    world.end(1, 1, failed());
    world.step(returned(1, 2, b"5"));
    world.step(returned(1, 3, b"5"));
    assert_eq!(world.worker.running_count(), 0);
}

#[test]
fn what_is_lent_is_said_again_after_a_hello() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, function);
    world.step(waits(0));
    world.did();
    world.step(Input::ServerLost);
    world.step(Input::ServerFound);
    world.welcome(None);
    assert!(world.did().ends_with("lends 1@0"));
}

#[test]
fn so_many_lend_and_those_beyond_keep_what_they_have() {
    let mut world = World::new(|_| {});
    world.run(1, "0-69", 0, function);
    (0..70).for_each(|task| world.step(waits(task)));
    // Two more run than lend.
    assert_eq!(world.worker.running_count(), LENDING_MAX_LEAST + 2);
}

fn on_ranks(ranks: u32) -> impl Fn(&mut TaskSpec) {
    move |spec| {
        function(spec);
        (spec.requests[0].nodes, spec.requests[0].ranks) = (1, ranks);
    }
}

#[test]
fn a_world_has_the_next_call_on_as_many_ranks_and_holds_nothing_until_then() {
    let mut world = World::new(|config| config.resources = resources(&[("cpus", 4)]));
    world.run(1, "0", 0, on_ranks(3));
    assert_eq!((world.did().as_str(), world.worker.taken()), ("start 1@0/0 in new 1", vec![30_000]));
    world.step(returned(1, 0, b"5"));
    assert_eq!(world.worker.taken(), [0]);
    world.did();
    world.run(1, "1", 0, on_ranks(2));
    assert_eq!(world.did(), "start 1@1/0 in new 2");
    world.step(returned(1, 1, b"5"));
    world.did();
    // What each rank has may be other CPUs than before.
    world.run(1, "2", 0, on_ranks(3));
    assert_eq!(world.did(), "start 1@2/0 in 1");
    world.run(1, "3", 0, function);
    assert_eq!(world.did(), "start 1@3/0 in new 3", "an interpreter alone is no rank");
}

#[test]
fn ranks_that_are_bound_or_have_gpus_find_what_they_had() {
    let mut world = World::new(|config| config.resources = resources(&[("cpus", 4), ("gpus", 4)]));
    let with_gpus = |spec: &mut TaskSpec| {
        on_ranks(2)(spec);
        spec.requests[0].resources = request(&[("cpus", 1), ("gpus", 1)]).resources;
    };
    world.run(1, "0-1", 0, with_gpus);
    assert_eq!(world.did(), "start 1@0/0 in new 1, start 1@1/0 in new 2");
    world.step(returned(1, 1, b"5"));
    world.did();
    world.run(1, "2", 0, with_gpus);
    assert_eq!(world.did(), "start 1@2/0 in 2");
}

#[test]
fn a_world_of_its_own_has_one_call() {
    let mut world = World::new(|_| {});
    let alone = |spec: &mut TaskSpec| {
        on_ranks(2)(spec);
        let Body::Function(function) = &mut spec.body else { panic!("a function") };
        function.mpi = Mpi::World;
    };
    world.run(1, "0", 0, alone);
    world.did();
    // It ends with its call.
    world.steps(vec![returned(1, 0, b"5"), Input::RunnerEnded { runner: RunnerId(1) }]);
    assert!(!world.did().contains("end runner"));
    world.run(1, "1", 0, alone);
    assert_eq!(world.did(), "start 1@1/0 in new 2");
    world.step(returned(1, 1, b"5"));
    assert!(world.did().starts_with("end runner 2"), "one that stays is ended");
}

#[test]
fn a_rank_that_dies_takes_its_world_with_it_and_no_other_call() {
    let mut world = World::new(|config| config.resources = resources(&[("cpus", 4)]));
    world.run(1, "0-2", 0, on_ranks(2));
    assert_eq!(world.did(), "start 1@0/0 in new 1, start 1@1/0 in new 2");
    let task = TaskRef::new(JobId(1), TaskId(0));
    world.steps(vec![
        Input::ended(task, failed(), Usage::default()),
        Input::RunnerEnded { runner: RunnerId(1) },
    ]);
    assert!(world.did().starts_with("start 1@2/0 in new 3"));
    world.step(returned(1, 1, b"5"));
    world.did();
    // Some of its ranks may hang after a call that has ended: that was its last.
    world.steps(vec![Input::RunnerSpent { runner: RunnerId(3) }, returned(1, 2, b"5")]);
    assert!(world.did().starts_with("end runner 3"));
}

#[test]
fn idle_worlds_count_as_many_interpreters_as_they_have_ranks() {
    let mut world = World::new(|config| config.resources = resources(&[("cpus", 4)]));
    for job in 1..=2 {
        world.run(job, "0", 0, on_ranks(2));
        world.step(returned(job, 0, b"5"));
        world.wait(Duration::from_millis(10));
    }
    assert!(!world.did().contains("end runner"));
    world.run(3, "0", 0, function);
    assert!(world.did().contains("end runner 1, start 3@0/0 in new 3"));
}
