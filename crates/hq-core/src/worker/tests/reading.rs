//! What a worker lets be read: the outputs of tasks that are or were here, and nothing else.

use hq_model::Channel;

use super::*;
use crate::limits::RAN_RANGES_MAX;
use crate::output_messages::{ReadFrom, ReadOrder};

impl World {
    fn reads(&mut self, job: u32, task: u32, instance: u32) -> String {
        self.done.clear();
        let order = ReadOrder {
            entry: None,
            number: 1,
            task: TaskRef::new(JobId(job), TaskId(task)),
            instance: Instance(instance),
            channel: Channel::Stdout,
            from: ReadFrom::Lines(10),
            bytes_max: 100,
            wait: Duration::ZERO,
        };
        self.step(Input::Server(ToWorker::ReadOutput(order)));
        self.did()
    }
}

const NEVER_HERE: &str = "Unreadable(\"its worker does not know that it ran there\")";

#[test]
fn only_what_runs_or_has_run_here_is_read() {
    let mut world = World::new(|_| {});
    world.run(1, "0-3", 4, |_| {});
    assert_eq!(world.reads(1, 0, 4), "read 1@0/4");
    assert_eq!(world.reads(1, 0, 3), NEVER_HERE);
    assert_eq!(world.reads(1, 2, 4), NEVER_HERE, "it has not started");
    assert_eq!(world.reads(2, 0, 4), NEVER_HERE);
    world.did();
    world.end(1, 0, Outcome::Finished);
    assert_eq!(world.did(), "no more of 1@0, start 1@2/4, finished 1:0");
    world.end(1, 1, Outcome::Finished);
    assert_eq!(world.did(), "start 1@3/4, finished 1:1", "nobody has read it");
    assert_eq!(world.reads(1, 0, 4), "read 1@0/4 that has ended");
    assert_eq!(world.reads(1, 1, 4), "read 1@1/4 that has ended");
    world.step(Input::Server(ToWorker::DropRead { number: 1 }));
    assert_eq!(world.did(), "drop 1");
}

#[test]
fn what_ran_long_ago_is_forgotten() {
    let mut world = World::new(|_| {});
    // Every second one, so that each is an interval of its own.
    for task in (0..2 * RAN_RANGES_MAX as u32).step_by(2) {
        world.run(1, &task.to_string(), 0, |_| {});
        let task = TaskRef::new(JobId(1), TaskId(task));
        world.step(Input::ended(task, Outcome::Finished, Usage::default()));
        world.saves();
    }
    world.run(2, "0", 0, |_| {});
    world.end(2, 0, Outcome::Finished);
    assert_eq!(world.reads(1, 0, 0), NEVER_HERE);
    assert_eq!(world.reads(2, 0, 0), "read 2@0/0 that has ended");
}
