//! Interpreters from which runners are forked.

use hq_model::body::{EntryKind, Function};

use super::*;
use crate::limits::{
    RUNNER_IDLE_TIME, ZYGOTE_BROKEN_TIME, ZYGOTE_IDLE_TIME, ZYGOTE_PATIENCE, ZYGOTE_PAUSE, ZYGOTE_START_TIME,
    ZYGOTES_MAX,
};
use crate::worker::{RECYCLE_VARIABLE, RunnerId, ZygoteId};

fn world() -> World {
    let now = Timestamp(1_000_000_000);
    World::with(Worker::new(config(|_| {}), now).with_zygotes(), now)
}

fn function(spec: &mut TaskSpec) {
    let interpreter = vec![b"python3".to_vec()];
    spec.body = Body::Function(Function { name: "score:main".into(), interpreter, ..Function::default() });
}

fn ready(zygote: u32) -> Input {
    Input::ZygoteReady { zygote: ZygoteId(zygote), is_of_job: false }
}

fn ended(zygote: u32) -> Input {
    Input::ZygoteEnded { zygote: ZygoteId(zygote), why: "exit code 3".into() }
}

#[test]
fn calls_wait_for_a_zygote_and_other_tasks_do_not() {
    let mut world = world();
    world.run(1, "0-2", 0, function);
    world.run(2, "0", 0, |_| {});
    assert_eq!(world.did(), "zygote 1, start 2@0/0");
    world.step(ready(1));
    assert_eq!(world.did(), "start 1@0/0 in new 1 from 1");
    world.end(2, 0, Outcome::Finished);
    assert!(world.did().starts_with("start 1@1/0 in new 2 from 1"));
    world.end(1, 0, Outcome::Finished);
    assert!(world.did().starts_with("start 1@2/0 in 1"));
}

#[test]
fn a_zygote_serves_all_jobs_of_its_environment_and_no_other() {
    let mut world = world();
    world.run(1, "0", 0, function);
    world.step(ready(1));
    world.end(1, 0, Outcome::Finished);
    world.did();
    world.run(2, "0", 0, |spec| {
        function(spec);
        spec.env.push((RECYCLE_VARIABLE.to_vec(), b"1".to_vec()));
    });
    assert_eq!(world.did(), "start 2@0/0 in new 2 from 1");
    world.run(3, "0", 0, |spec| {
        function(spec);
        spec.env.push((b"CUTOFF".to_vec(), b"2".to_vec()));
    });
    assert_eq!(world.did(), "zygote 2");
    world.step(Input::ZygoteReady { zygote: ZygoteId(2), is_of_job: true });
    assert_eq!(world.did(), "start 3@0/0 in new 3 from 2");
    // It has loaded what the next job may have changed.
    world.run(4, "0", 0, |spec| {
        function(spec);
        spec.env.push((b"CUTOFF".to_vec(), b"2".to_vec()));
    });
    world.end(3, 0, Outcome::Finished);
    assert!(world.did().contains("zygote 3"));
}

fn waits(job: u32) -> Input {
    Input::CallWaits { task: TaskRef::new(JobId(job), TaskId(0)) }
}

// What zygotes were told to load since the last look.
fn loads(world: &mut World) -> String {
    let did = world.did();
    did.split(", ").filter(|word| word.starts_with("load")).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_zygote_loads_once_what_takes_to_call_others() {
    let mut world = world();
    let other = |spec: &mut TaskSpec| {
        function(spec);
        spec.env.push((b"CUTOFF".to_vec(), b"2".to_vec()));
    };
    world.run(1, "0", 0, function);
    world.step(ready(1));
    world.run(2, "0", 0, other);
    world.step(ready(2));
    world.did();
    world.step(waits(2));
    assert_eq!(loads(&mut world), "load in 2");
    world.step(waits(1));
    assert_eq!(loads(&mut world), "load in 1");
    // Each of them once, whoever waits there.
    world.run(3, "0", 0, function);
    world.did();
    [waits(1), waits(2), waits(3)].into_iter().for_each(|input| world.step(input));
    assert_eq!(loads(&mut world), "");
    // One that is started again does, when it is ready.
    world.step(ended(2));
    world.step(waits(2));
    world.wait(ZYGOTE_PAUSE);
    assert!(world.did().contains("zygote 2"));
    world.step(ready(2));
    assert_eq!(loads(&mut world), "load in 2");
    // One that has ended because nobody used it does when that is known again.
    [1, 2, 3].into_iter().for_each(|job| world.end(job, 0, Outcome::Finished));
    world.wait(ZYGOTE_IDLE_TIME);
    assert!(world.did().contains("end zygote 1, end zygote 2"));
    world.step(ended(2));
    world.run(4, "0", 0, other);
    world.step(ready(3));
    assert_eq!(loads(&mut world), "");
    world.step(waits(4));
    assert_eq!(loads(&mut world), "load in 3");
}

#[test]
fn calls_have_called_others_that_return_them_and_do_not_wait() {
    let mut world = world();
    let packed = |spec: &mut TaskSpec| {
        function(spec);
        let Body::Function(function) = &mut spec.body else { unreachable!("it is one") };
        (function.code, function.entry) = (b"code".to_vec(), EntryKind::Packed);
    };
    let returned = b"E\x0b\x08\0\x01\0\0\0\x07\0\0\0".as_slice();
    let held = b"E\x0a\x01\0\x80\x80".as_slice();
    let results = [b"\x80".as_slice(), b"E\x01\x02\0hi\x80", b"E\x0b", returned, held];
    let mut told = Vec::new();
    for (job, result) in (1..).zip(results) {
        world.run(job, "0", 0, |spec| {
            packed(spec);
            spec.env.push((b"N".to_vec(), job.to_string().into_bytes()));
        });
        world.step(ready(job));
        let task = TaskRef::new(JobId(job), TaskId(0));
        let (outcome, usage, result) = (Outcome::Finished, Usage::default(), result.to_vec());
        world.did();
        world.step(Input::Ended { task, outcome, usage, result });
        told.push(loads(&mut world));
    }
    assert_eq!(told, ["", "", "", "load in 4", "load in 5"]);
}

#[test]
fn a_zygote_that_starts_or_can_fork_nothing_is_told_nothing() {
    let mut world = world();
    world.run(1, "0", 0, function);
    world.wait(ZYGOTE_PATIENCE);
    assert!(world.did().ends_with("start 1@0/0 in new 1"), "by itself");
    world.step(waits(1));
    assert_eq!(loads(&mut world), "", "it is not ready");
    world.step(ready(1));
    assert_eq!(loads(&mut world), "load in 1");
    world.run(2, "0", 0, |spec| {
        function(spec);
        spec.env.push((b"CUTOFF".to_vec(), b"2".to_vec()));
    });
    world.step(Input::ZygoteUnfit { zygote: ZygoteId(2) });
    world.did();
    world.step(waits(2));
    world.step(waits(9));
    assert_eq!(loads(&mut world), "", "there is none");
}

#[test]
fn ranks_are_never_forked_and_wait_for_no_zygote() {
    let mut world = world();
    world.run(1, "0", 0, |spec| {
        function(spec);
        (spec.requests[0].nodes, spec.requests[0].ranks) = (1, 1);
    });
    assert_eq!(world.did(), "start 1@0/0 in new 1");
    world.run(2, "0", 0, function);
    assert_eq!(world.did(), "zygote 1");
}

#[test]
fn where_nothing_can_be_forked_runners_are_started_one_by_one() {
    let mut world = world();
    world.run(1, "0-1", 0, function);
    world.did();
    world.step(Input::ZygoteUnfit { zygote: ZygoteId(1) });
    assert_eq!(world.did(), "start 1@0/0 in new 1, start 1@1/0 in new 2");
    world.step(ended(1));
    world.step(ended(1));
    assert_eq!(world.did(), "");
}

#[test]
fn a_zygote_that_dies_is_started_again_and_its_runners_go_on() {
    let mut world = world();
    world.run(1, "0", 0, function);
    world.step(ready(1));
    world.did();
    world.step(ended(1));
    world.end(1, 0, Outcome::Finished);
    world.run(1, "1-2", 0, function);
    let did = world.did();
    assert!(did.contains("start 1@1/0 in 1") && !did.contains("1@2"), "the runner is there: {did}");
    world.wait(ZYGOTE_PAUSE);
    assert!(world.did().contains("zygote 1"));
    world.step(ready(1));
    assert!(world.did().contains("start 1@2/0 in new 2 from 1"));
    // When it has died again and again, it is not tried any more, and nothing waits.
    world.step(Input::RunnerEnded { runner: RunnerId(1) });
    for pause in [4, 0] {
        world.step(ended(1));
        world.wait(ZYGOTE_PAUSE * pause);
        if pause > 0 {
            assert!(world.did().contains("zygote 1"));
            world.step(ready(1));
        }
    }
    world.end(1, 1, failed());
    world.run(2, "0", 0, function);
    assert!(world.did().contains("start 2@0/0 in new 3"));
}

#[test]
fn what_cannot_be_started_is_tried_again_and_then_its_calls_fail_for_a_while() {
    let mut world = world();
    world.run(1, "0-1", 0, function);
    for pause in [1, 4] {
        assert!(world.did().contains("zygote 1"));
        world.step(ended(1));
        assert_eq!(world.did(), "");
        world.wait(ZYGOTE_PAUSE * pause);
    }
    world.did();
    world.step(ended(1));
    world.wait(REPORT_INTERVAL);
    assert_eq!(world.did(), "failed 1:0, failed 1:1");
    world.run(1, "2", 0, function);
    world.wait(REPORT_INTERVAL);
    assert_eq!(world.did(), "failed 1:2", "at once");
    // Who has mended it submits again.
    world.run(2, "0", 0, function);
    assert!(world.did().contains("zygote 2"));
    world.wait(ZYGOTE_BROKEN_TIME);
    world.step(Input::ZygoteUnfit { zygote: ZygoteId(2) });
    assert!(world.did().contains("start 2@0/0 in new 1"));
    world.run(1, "3", 0, function);
    assert!(world.did().contains("start 1@3/0 in new 2"), "the one that is alike now");
}

#[test]
fn a_zygote_ends_when_it_was_not_used_or_loads_for_too_long() {
    let mut world = world();
    world.run(1, "0", 0, function);
    world.step(ready(1));
    world.end(1, 0, Outcome::Finished);
    world.did();
    assert_eq!(RUNNER_IDLE_TIME, ZYGOTE_IDLE_TIME);
    world.wait(ZYGOTE_IDLE_TIME);
    let did = world.did();
    assert!(did.contains("end runner 1") && did.contains("end zygote 1"), "{did}");
    world.step(ended(1));
    world.step(Input::RunnerEnded { runner: RunnerId(1) });
    world.run(1, "1", 0, function);
    assert!(world.did().contains("zygote 2"));
    world.wait(ZYGOTE_START_TIME);
    assert!(world.did().contains("end zygote 2"));
    world.step(ended(2));
    world.wait(ZYGOTE_PAUSE);
    assert!(world.did().contains("zygote 2"));
}

#[test]
fn calls_do_not_wait_for_ever_for_a_zygote() {
    let mut world = world();
    world.run(1, "0", 0, |spec| {
        function(spec);
        spec.time_limit = Some(Duration::from_secs(1));
    });
    world.did();
    assert!(world.worker.next_wakeup().is_some_and(|at| at <= world.now.after(ZYGOTE_PATIENCE)));
    world.wait(ZYGOTE_PATIENCE);
    assert_eq!(world.did(), "start 1@0/0 in new 1");
    world.wait(Duration::from_secs(1));
    assert_eq!(world.did(), "signal 1@0 15");
    world.step(ready(1));
    world.end(1, 0, failed());
    world.run(1, "1", 0, function);
    assert!(world.did().contains("start 1@1/0 in new 2 from 1"));
}

#[test]
fn zygotes_end_with_their_worker_and_what_waits_for_one_goes_back() {
    let mut world = world();
    world.run(1, "0", 0, function);
    world.did();
    world.step(Input::Server(ToWorker::Stop { drain: true }));
    assert!(world.did().contains("end zygote 1"));
    world.step(ended(1));
    assert_eq!(world.worker.running_count(), 0);
}

#[test]
fn calls_that_wait_for_a_zygote_can_be_canceled() {
    let mut world = world();
    world.run(1, "0-1", 0, function);
    world.did();
    let ids = IdSet::single(TaskId(0));
    world.step(Input::Server(ToWorker::Cancel { job: JobId(1), ids, are_elsewhere: false }));
    world.step(ready(1));
    assert!(world.did().contains("start 1@1/0 in new 1 from 1"));
}

#[test]
fn only_so_many_zygotes_are_kept() {
    let mut world = world();
    let with = |value: usize| {
        move |spec: &mut TaskSpec| {
            function(spec);
            spec.env.push((b"N".to_vec(), value.to_string().into_bytes()));
        }
    };
    for number in 0..ZYGOTES_MAX {
        world.run(1, &number.to_string(), 0, with(number));
        world.step(ready(number as u32 + 1));
        world.end(1, number as u32, Outcome::Finished);
        world.wait(Duration::from_millis(10));
    }
    world.did();
    world.run(1, &ZYGOTES_MAX.to_string(), 0, with(ZYGOTES_MAX));
    assert!(world.did().starts_with("end zygote 1, zygote 17"));
}
