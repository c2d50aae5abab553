//! Followers: they start when the task that they wait for has ended well here, and go back in every other case.

use super::*;

impl World {
    fn follow(&mut self, task: u32, instance: u32, leader: u32, leader_instance: u32) {
        let after = (TaskId(leader), Instance(leader_instance));
        self.run_after(1, &task.to_string(), instance, Some(after), |_| {});
    }
}

#[test]
fn a_follower_starts_when_its_leader_has_ended_well() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |_| {});
    world.follow(1, 0, 0, 0);
    assert_eq!(world.did(), "start 1@0/0", "a CPU is free, but it waits");
    world.end(1, 0, Outcome::Finished);
    assert_eq!(world.did(), "start 1@1/0, finished 1:0");
    world.end(1, 1, Outcome::Finished);
    assert_eq!(world.did(), "finished 1:1");
}

#[test]
fn it_goes_back_when_its_leader_does_not_end_well() {
    let mut world = World::new(|_| {});
    world.run(1, "0,2", 0, |_| {});
    world.follow(1, 0, 0, 0);
    world.follow(3, 0, 2, 0);
    world.did();
    world.end(1, 0, failed());
    assert_eq!(world.did(), "failed 1:0, returned 1:1");
    world.step(Input::Server(ToWorker::Cancel {
        job: JobId(1),
        ids: IdSet::range(2, 2),
        are_elsewhere: false,
    }));
    world.end(1, 2, Outcome::Finished);
    assert_eq!(world.did(), "signal 1@2 15, canceled 1:2, returned 1:3");
}

#[test]
fn it_goes_back_with_a_leader_that_never_started() {
    let mut world = World::new(|_| {});
    world.run(1, "0-2", 0, |_| {});
    world.follow(3, 0, 2, 0);
    world.did();
    world.step(Input::Server(ToWorker::Retract { job: JobId(1), ids: IdSet::range(2, 2) }));
    world.wait(Duration::from_millis(10));
    assert_eq!(world.did(), "returned 1:2-3");
}

#[test]
fn a_chain_starts_link_by_link_and_goes_back_as_a_whole() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |_| {});
    (1..5).for_each(|task| world.follow(task, 0, task - 1, 0));
    world.did();
    world.end(1, 0, Outcome::Finished);
    world.end(1, 1, Outcome::Finished);
    world.wait(Duration::from_millis(30));
    assert_eq!(world.did(), "start 1@1/0, finished 1:0, start 1@2/0, finished 1:1");
    world.end(1, 2, failed());
    assert_eq!(world.did(), "failed 1:2, returned 1:3-4");
}

#[test]
fn it_can_be_asked_back_and_canceled() {
    let mut world = World::new(|_| {});
    world.run(1, "0,2", 0, |_| {});
    world.follow(1, 0, 0, 0);
    world.follow(3, 0, 2, 0);
    world.did();
    world.step(Input::Server(ToWorker::Retract { job: JobId(1), ids: IdSet::range(1, 1) }));
    world.step(Input::Server(ToWorker::Cancel {
        job: JobId(1),
        ids: IdSet::range(3, 3),
        are_elsewhere: false,
    }));
    world.wait(Duration::from_millis(10));
    assert_eq!(world.did(), "returned 1:1, canceled 1:3");
    world.end(1, 0, Outcome::Finished);
    world.end(1, 2, Outcome::Finished);
    assert_eq!(world.did(), "finished 1:0, finished 1:2");
}

#[test]
fn it_may_come_when_its_leader_has_just_ended() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |_| {});
    world.end(1, 0, Outcome::Finished);
    world.did();
    world.follow(1, 0, 0, 0);
    assert_eq!(world.did(), "start 1@1/0", "the server has not saved the end of the first one yet");
    world.step(Input::Server(ToWorker::Saved { report: 99 }));
    world.follow(2, 0, 0, 0);
    world.wait(Duration::from_millis(10));
    assert_eq!(world.did(), "returned 1:2", "what is saved is forgotten here");
}

#[test]
fn another_attempt_is_no_leader() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 1, |_| {});
    world.follow(1, 0, 0, 0);
    world.wait(Duration::from_millis(10));
    assert_eq!(world.did(), "start 1@0/1, returned 1:1");
}

#[test]
fn nothing_follows_while_the_server_cannot_hear_of_it() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |_| {});
    world.follow(1, 0, 0, 0);
    world.step(Input::ServerLost);
    world.end(1, 0, Outcome::Finished);
    world.did();
    world.step(Input::ServerFound);
    assert_eq!(world.did(), "hello  after 1", "it has neither of them, and a report that says so");
}

impl World {
    // What it has started since the last look; what has ended it says later.
    fn started(&mut self) -> String {
        let did = self.did();
        let starts = did.split(", ").filter(|did| did.starts_with("start "));
        starts.collect::<Vec<_>>().join(", ")
    }

    // Of jobs of which the template is known.
    fn run_ahead(&mut self, job: u32, task: u32, head_start_s: u64, after: Option<u32>) {
        let batch = RunBatch {
            template: TemplateId { job: JobId(job), submit: 0 },
            content: None,
            ids: IdSet::single(TaskId(task)),
            instance: Instance(0),
            entries: Entries::default(),
            services: Vec::new(),
            nodes: Vec::new(),
            after: after.map(|leader| (TaskId(leader), Instance(0))),
            variant: None,
            head_start: Duration::from_secs(head_start_s),
            inputs: Vec::new(),
            objects: Vec::new(),
        };
        self.step(Input::Server(ToWorker::Run(vec![batch])));
    }
}

#[test]
fn what_others_wait_for_starts_before_what_has_not_waited_for_much_longer() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |_| {});
    world.run(2, "0-9", 0, |_| {});
    world.did();
    world.wait(Duration::from_secs(2));
    world.run_ahead(1, 1, 3, None);
    world.run_ahead(1, 2, 5, None);
    world.end(2, 0, Outcome::Finished);
    world.end(1, 2, Outcome::Finished);
    world.end(1, 1, Outcome::Finished);
    assert_eq!(world.started(), "start 1@2/0, start 1@1/0, start 2@1/0", "what has most to come is first");
    world.wait(Duration::from_secs(2));
    world.did();
    world.run_ahead(1, 3, 3, None);
    world.end(2, 1, Outcome::Finished);
    assert_eq!(world.started(), "start 2@2/0", "that has come 4 s before");
}

#[test]
fn a_link_of_a_chain_goes_on_before_others_wherever_its_leader_is() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |_| {});
    world.run(2, "0-9", 0, |_| {});
    world.run_ahead(1, 1, 5, Some(0));
    world.did();
    world.end(1, 0, Outcome::Finished);
    world.end(1, 1, Outcome::Finished);
    assert_eq!(world.started(), "start 1@1/0, start 2@1/0");
    world.run_ahead(1, 2, 5, Some(1));
    world.end(2, 0, Outcome::Finished);
    assert_eq!(world.started(), "start 1@2/0", "it came when its leader had ended");
}
