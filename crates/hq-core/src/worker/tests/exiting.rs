//! Nothing runs any more of a task, and what it has printed is being made safe: what it had is of use to others.

use hq_model::OutputSink;

use super::*;

fn task(task: u32) -> TaskRef {
    TaskRef::new(JobId(1), TaskId(task))
}

fn streamed(spec: &mut TaskSpec) {
    spec.stdout = OutputSink::Stream;
}

impl World {
    fn exit(&mut self, id: u32, is_success: bool) {
        self.step(Input::Exited { task: task(id), is_success });
        self.wait(Duration::from_millis(10));
    }
}

#[test]
fn what_a_task_had_is_free_and_its_end_is_told_later() {
    let mut world = World::new(|_| {});
    world.run(1, "0-3", 0, streamed);
    assert_eq!(world.did(), "start 1@0/0, start 1@1/0");
    world.exit(0, true);
    assert_eq!(world.did(), "start 1@2/0");
    world.exit(1, false);
    assert_eq!(world.did(), "start 1@3/0");
    world.exit(1, false);
    assert_eq!(world.did(), "", "it has nothing more");
    world.end(1, 1, failed());
    world.end(1, 0, Outcome::Finished);
    assert_eq!(world.did(), "failed 1:1, finished 1:0");
    world.end(1, 2, Outcome::Finished);
    assert_eq!(world.did(), "finished 1:2", "whose exit was not told");
}

#[test]
fn what_is_armed_begins_before_the_end_of_its_leader() {
    let now = Timestamp(1_000_000_000);
    let mut world = World::with(Worker::new(config(|_| {}), now).with_arming(), now);
    world.run(1, "0-1", 0, streamed);
    world.end(1, 0, Outcome::Finished);
    world.end(1, 1, Outcome::Finished);
    world.run(1, "2-6", 0, streamed);
    world.did();
    world.steps(vec![Input::Exited { task: task(2), is_success: true }, Input::Begun { task: task(4) }]);
    world.wait(Duration::from_millis(10));
    assert_eq!(world.did(), "arm 1@6/0 after 1@4");
    world.steps(vec![Input::Exited { task: task(3), is_success: false }, Input::Recalled { task: task(5) }]);
    world.wait(Duration::from_millis(10));
    assert_eq!(world.did(), "start 1@5/0");
    world.end(1, 2, failed());
    world.end(1, 3, failed());
    assert_eq!(world.did(), "failed 1:2, failed 1:3", "what follows was not for their success");
}

#[test]
fn what_waits_for_a_task_waits_for_its_end() {
    let now = Timestamp(1_000_000_000);
    let mut world = World::with(Worker::new(config(|_| {}), now).with_arming(), now);
    world.run(1, "0", 0, streamed);
    world.end(1, 0, Outcome::Finished);
    world.run(1, "2", 0, streamed);
    world.run_after(1, "3", 0, Some((TaskId(2), Instance(0))), streamed);
    assert_eq!(world.did(), "start 1@0/0, finished 1:0, start 1@2/0", "nothing is armed");
    world.exit(2, true);
    assert_eq!(world.did(), "");
    world.end(1, 2, Outcome::Finished);
    assert_eq!(world.did(), "start 1@3/0, finished 1:2");
}

#[test]
fn nothing_of_it_is_signalled_and_its_time_does_not_run_out() {
    let mut world = World::new(|_| {});
    world.run(1, "0-1", 0, |spec| {
        streamed(spec);
        spec.time_limit = Some(Duration::from_secs(1));
    });
    world.did();
    world.exit(0, true);
    world.exit(1, true);
    world.wait(Duration::from_secs(2));
    world.step(Input::Server(ToWorker::Cancel {
        job: JobId(1),
        ids: "1".parse().expect("ids"),
        are_elsewhere: false,
    }));
    world.wait(Duration::from_secs(100));
    assert_eq!(world.did(), "");
    world.end(1, 0, Outcome::Finished);
    world.end(1, 1, Outcome::Finished);
    assert_eq!(world.did(), "finished 1:0, canceled 1:1");
}
