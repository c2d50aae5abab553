//! What is told of tasks that the server has ended.

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
