//! How tasks end that the server cancels, and what is told of them.

use super::*;

#[test]
fn of_a_task_that_is_canceled_before_its_start_was_reported_that_is_told_with_its_end() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |_| {});
    world.step(Input::Server(ToWorker::Cancel {
        job: JobId(1),
        ids: IdSet::single(TaskId(0)),
        are_elsewhere: false,
    }));
    assert_eq!(world.starts, [], "a start can wait a little");
    world.end(1, 0, failed());
    assert_eq!(world.did(), "start 1@0/0, signal 1@0 15, canceled 1:0");
    assert_eq!(world.starts, [TaskRef::new(JobId(1), TaskId(0))]);
    // One that waited has not run.
    world.run(2, "0-2", 0, |_| {});
    world.step(Input::Server(ToWorker::Cancel {
        job: JobId(2),
        ids: IdSet::single(TaskId(2)),
        are_elsewhere: false,
    }));
    world.wait(REPORT_INTERVAL);
    assert!(!world.starts.contains(&TaskRef::new(JobId(2), TaskId(2))), "{:?}", world.starts);
}

#[test]
fn canceled_tasks_are_dropped_or_ended() {
    let mut world = World::new(|_| {});
    world.run(1, "0-3", 0, |_| {});
    world.did();
    world.step(Input::Server(ToWorker::Cancel {
        job: JobId(1),
        ids: "1-2".parse().expect("ids"),
        are_elsewhere: false,
    }));
    world.wait(Duration::from_millis(10));
    assert_eq!(world.did(), "signal 1@1 15, canceled 1:2");
    world.end(1, 1, failed());
    assert_eq!(world.did(), "start 1@3/0, canceled 1:1");
}

#[test]
fn what_another_attempt_may_have_left_is_told_apart() {
    let mut world = World::new(|_| {});
    world.run(1, "0-1", 0, |_| {});
    world.did();
    let ids = IdSet::single(TaskId(0));
    world.step(Input::Server(ToWorker::Cancel { job: JobId(1), ids, are_elsewhere: true }));
    assert_eq!(world.did(), "signal 1@0 15 for another");
    world.wait(Duration::from_secs(60));
    assert!(world.did().starts_with("signal 1@0 9 for another"));
    world.end(1, 0, Outcome::Finished);
    assert_eq!(world.did(), "canceled 1:0");
    world.run(1, "1", 1, |_| {});
    assert_eq!(world.did(), "signal 1@1 15 for another", "a later attempt is to run here");
}
