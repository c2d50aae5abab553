//! Followers: a task that waits for one other alone is with the worker of that one before it is ready.

use hq_model::dependency::{Dependencies, Edges};
use hq_model::{TaskRef, WorkerId};

use super::*;
use crate::limits::DEFER_PAUSE;
use crate::worker_messages::{Held, TemplateId};

impl World {
    fn follower(&mut self, connection: u64, cpus: u32) {
        self.worker_saying(connection, cpus, |hello| hello.follows = true);
    }

    // So many tasks, each of which waits for the one before it.
    pub(super) fn chain(&mut self, count: u32) -> JobId {
        self.chain_of(count, |_| {})
    }

    fn chain_of(&mut self, count: u32, change: impl FnOnce(&mut TaskSpec)) -> JobId {
        let list = |task: u32| task.checked_sub(1).map(TaskId).into_iter().collect::<Vec<_>>();
        let edges = Edges::new((0..count).map(list)).expect("few");
        let mut spec = one_cpu();
        change(&mut spec);
        let target = Target::New(JobSpec { name: "chain".into(), ..JobSpec::default() });
        let dependencies = Arc::new(Dependencies { edges, ..Dependencies::default() });
        self.submits(Submit { dependencies, ..Submit::new(target, TaskIds::Next(count), spec) })
    }

    fn ends_well(&mut self, job: JobId, task: u32) {
        self.reports(1, |report| report.finished.push(finished(job, task, task, 0)));
    }

    fn gives_back(&mut self, job: JobId, task: u32) {
        self.reports(1, |report| report.returned.push((job, IdSet::single(TaskId(task)))));
    }

    fn why(&mut self, task: &str) -> String {
        let (job, task) = task.split_once('@').expect("a task");
        let jobs = Selector::Ids(job.parse().expect("a job"));
        match self.ask(ClientRequest::ExplainTask { jobs, task: TaskId(task.parse().expect("a task")) }) {
            ClientResponse::Explained(told) => {
                told.reasons.iter().map(|reason| reason.text.clone()).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn each_task_of_a_chain_is_there_before_it_is_ready() {
    let mut world = World::new();
    world.follower(1, 1);
    let job = world.chain(5);
    assert_eq!(world.sent(1), "1:0/0 1:1/0 after 0");
    assert_eq!(world.why("1@1"), "it waits for task 1@0, which is waiting");
    world.ends_well(job, 0);
    assert_eq!(world.sent(1), "1:2/0 after 1");
    world.ends_well(job, 1);
    assert_eq!(world.sent(1), "1:3/0 after 2");
    world.ends_well(job, 2);
    assert_eq!(world.sent(1), "1:4/0 after 3");
    world.ends_well(job, 3);
    world.ends_well(job, 4);
    assert_eq!(world.states(job), "finished: 5 finished");
}

#[test]
fn of_short_ones_several_wait_there_in_a_row() {
    let mut world = World::new();
    world.follower(1, 1);
    let job = world.chain(5);
    world.sent(1);
    world.reports(1, |report| report.finished.push(finished_within(66_000, job, 0, 0, 0)));
    assert_eq!(
        world.sent(1),
        "1:2/0 after 1 1:3/0 after 2 1:4/0 after 3",
        "which take the time of a backlog"
    );
    world.reports(1, |report| report.finished.push(finished(job, 1, 3, 0)));
    world.ends_well(job, 4);
    assert_eq!(world.states(job), "finished: 5 finished");
    assert_eq!(world.sent(1), "");
}

#[test]
fn two_that_end_before_the_next_one_is_there() {
    let mut world = World::new();
    world.follower(1, 1);
    let job = world.chain(3);
    assert_eq!(world.sent(1), "1:0/0 1:1/0 after 0");
    world.reports(1, |report| report.finished.push(finished(job, 0, 1, 0)));
    assert_eq!(world.sent(1), "1:2/0");
}

#[test]
fn a_worker_that_does_not_know_of_it_gets_them_one_by_one() {
    let mut world = World::new();
    world.worker(1, 1);
    let job = world.chain(2);
    assert_eq!(world.sent(1), "1:0/0");
    world.ends_well(job, 0);
    assert_eq!(world.sent(1), "1:1/0");
}

#[test]
fn it_takes_the_room_of_the_one_before_it() {
    let mut world = World::new();
    world.follower(1, 1);
    let chain = world.chain(2);
    world.sent(1);
    world.ends_well(chain, 0);
    world.submit(1, |_| {});
    assert_eq!(world.sent(1), "", "nothing is placed where the second one has started by now");
    world.ends_well(chain, 1);
    assert_eq!(world.sent(1), "2:0/0");
}

#[test]
fn it_is_asked_back_when_others_wait_for_room() {
    let mut world = World::new();
    world.follower(1, 1);
    let chain = world.chain(2);
    world.sent(1);
    world.submit(30, |spec| spec.priority = 1);
    let sent = world.sent(1);
    assert!(sent.ends_with("<1:1"), "{sent}");
    world.gives_back(chain, 1);
    assert_eq!(world.states(chain), "waiting: 2 waiting");
    assert_eq!(world.why("1@1"), "it waits for task 1@0, which is waiting");
}

#[test]
fn it_stays_where_those_that_wait_for_room_go_behind_it() {
    let mut world = World::new();
    world.follower(1, 1);
    world.chain(4);
    assert_eq!(world.sent(1), "1:0/0 1:1/0 after 0");
    world.submit(300, |_| {});
    let sent = world.sent(1);
    assert!(sent.starts_with("2:0") && !sent.contains('<'), "{sent}");
    world.reports(1, |report| report.finished.push(finished(JobId(1), 0, 0, 0)));
    let sent = world.sent(1);
    assert!(sent.contains("1:2/0 after 1"), "{sent}");
}

#[test]
fn what_others_wait_for_is_handed_to_a_worker_that_has_its_backlog_of_others() {
    let mut world = World::new();
    world.worker(1, 2);
    let many = world.submit(3000, |_| {});
    world.sent(1);
    world.reports(1, |report| report.finished.push(finished_within(66_000, many, 0, 0, 0)));
    world.sent(1);
    world.chain(3);
    assert_eq!(world.sent(1), "2:0/0", "no CPU is free");
    let waiting = |world: &World| {
        let held = &world.server.live[&WorkerId(1)].held()[&TemplateId { job: JobId(2), submit: 0 }];
        held.waiting.clone()
    };
    assert_eq!(waiting(&world), IdSet::single(TaskId(0)));
    world.reports(1, |report| report.finished.push(finished(many, 1, 1, 0)));
    assert!(waiting(&world).is_empty(), "it is thought to have started");
}

#[test]
fn nothing_follows_where_more_than_one_waits_or_is_waited_for() {
    let mut world = World::new();
    world.follower(1, 4);
    let lists: [&[u32]; 4] = [&[], &[0], &[0], &[1, 2]];
    let lists = lists.map(|list| list.iter().copied().map(TaskId).collect::<Vec<_>>());
    let job = world.graph(4, Vec::new(), Edges::new(lists).expect("few")).expect("a diamond");
    assert_eq!(world.sent(1), "1:0/0");
    world.ends_well(job, 0);
    assert_eq!(world.sent(1), "1:1-2/0");
    world.ends_well(job, 1);
    assert_eq!(world.sent(1), "", "what is handed out already is not looked at again");
    world.ends_well(job, 2);
    assert_eq!(world.sent(1), "1:3/0");
}

#[test]
fn with_a_leader_that_fails_it_is_aborted() {
    let mut world = World::new();
    world.follower(1, 1);
    let job = world.chain(3);
    world.sent(1);
    world.reports(1, |report| {
        report.failed.push((job, failed(0, 0, 1)));
        report.returned.push((job, IdSet::single(TaskId(1))));
    });
    assert_eq!(world.states(job), "failed: 1 failed, 2 aborted");
    assert_eq!(world.sent(1), "", "it is not there any more");
}

#[test]
fn with_a_leader_that_is_tried_again_it_waits_again() {
    let mut world = World::new();
    world.follower(1, 1);
    let job = world.chain(2);
    world.sent(1);
    world.reports(1, |report| {
        report.interrupted.push((job, IdSet::single(TaskId(0))));
        report.returned.push((job, IdSet::single(TaskId(1))));
    });
    assert_eq!(world.sent(1), "1:0/1 1:1/0 after 0");
}

#[test]
fn a_follower_that_fails_in_the_report_of_its_leader_is_tried_again_after_its_delay() {
    let mut world = World::new();
    world.follower(1, 1);
    let job = world.submit(1, |_| {});
    world.ends_well(job, 0);
    let retry = Retry { max: 1, delay: Duration::from_secs(5), ..Retry::default() };
    let chain = world.chain_of(2, |spec| spec.retry = retry);
    world.sent(1);
    world.reports(1, |report| {
        report.finished.push(finished(chain, 0, 0, 0));
        report.failed.push((chain, failed(1, 0, 1)));
    });
    assert_eq!(world.sent(1), "");
    world.wait(Duration::from_secs(6));
    assert_eq!(world.sent(1), "2:1/1");
}

#[test]
fn a_task_that_puts_itself_back_waits_until_its_follower_is_back() {
    let mut world = World::new();
    world.follower(1, 1);
    let first = world.submit(1, |_| {});
    world.ends_well(first, 0);
    let chain = world.chain(2);
    world.sent(1);
    let task = TaskRef::new(chain, TaskId(0));
    let after = vec!["1".parse().expect("a dependency")];
    let body = ClientRequest::Defer { task, instance: Instance(0), after };
    let answers = world.step(Input::Client { connection: CLIENT, request: 7, body });
    assert!(answers.is_empty(), "{answers:?}");
    assert_eq!(world.sent(1), "<2:1");
    world.gives_back(chain, 1);
    assert_eq!(world.sent(1), "-2:0", "now its instance ends");
    assert_eq!(world.states(chain), "waiting: 2 waiting");
    world.reports(1, |report| report.canceled.push((chain, IdSet::single(TaskId(0)))));
    world.wait(DEFER_PAUSE);
    assert_eq!(world.sent(1), "2:0/1 2:1/0 after 0");
}

#[test]
fn a_task_that_ended_before_its_follower_was_back_is_not_put_back() {
    let mut world = World::new();
    world.follower(1, 1);
    let chain = world.chain(2);
    let other = world.submit(1, |_| {});
    let after = vec![other.to_string().parse().expect("a dependency")];
    let task = TaskRef::new(chain, TaskId(0));
    let body = ClientRequest::Defer { task, instance: Instance(0), after };
    world.step(Input::Client { connection: CLIENT, request: 7, body });
    let mut report = Report { number: 1, ..Report::default() };
    report.finished.push(finished(chain, 0, 0, 0));
    report.started.push(Started {
        job: chain,
        task: TaskId(1),
        instance: Instance(0),
        at: Timestamp(0),
        variant: None,
    });
    let message = FromWorker::Report(report);
    let answers = world.step(Input::Worker { connection: ConnectionId(1), message });
    let answered = format!("{answers:?}");
    assert!(answered.contains("NotRunning"), "{answered}");
    assert_eq!(world.states(chain), "running: 1 running, 1 finished");
}

#[test]
fn it_is_known_again_after_a_restart_of_the_server() {
    let mut world = World::new();
    world.follower(1, 1);
    let chain = world.chain(3);
    world.sent(1);
    world.restart();
    let [queued, running] = [IdSet::range(1, 1), IdSet::range(0, 0)];
    let template = crate::worker_messages::TemplateId { job: chain, submit: 0 };
    let started = vec![Timestamp(0)];
    let held = Held { template, instance: Instance(0), variant: None, queued, running, started };
    world.worker_saying(2, 1, |hello| {
        hello.follows = true;
        hello.known_as = Some(hq_model::WorkerId(1));
        hello.holds = vec![held];
    });
    assert_eq!(world.sent(2), "");
    world.reports(2, |report| report.finished.push(finished(chain, 0, 0, 0)));
    assert_eq!(world.sent(2), "1:2/0 after 1");
    world.reports(2, |report| report.finished.push(finished(chain, 1, 1, 0)));
    world.reports(2, |report| report.finished.push(finished(chain, 2, 2, 0)));
    assert_eq!(world.states(chain), "finished: 3 finished");
}

#[test]
fn a_call_follows_the_one_whose_value_it_takes() {
    let mut world = World::new();
    world.worker_saying(1, 1, |hello| (hello.follows, hello.follows_calls) = (true, true));
    let job = world.chain_of(3, super::calls::packed);
    assert_eq!(world.sent(1), "1:0/0 1:1/0 after 0");
    // The value was elsewhere, and the server tells where.
    world.reports(1, |report| {
        report.finished.push(finished(job, 0, 0, 0));
        report.returned.push((job, IdSet::single(TaskId(1))));
    });
    assert_eq!(world.sent(1), "1:1/0 1:2/0 after 1");
    world.ends_well(job, 1);
    world.ends_well(job, 2);
    assert_eq!(world.states(job), "finished: 3 finished");
}

#[test]
fn a_call_that_takes_the_values_of_two_follows_none_of_them() {
    let mut world = World::new();
    world.worker_saying(1, 1, |hello| (hello.follows, hello.follows_calls) = (true, true));
    let lists: [&[u32]; 3] = [&[], &[], &[0, 1]];
    let edges =
        Edges::new(lists.map(|list| list.iter().copied().map(TaskId).collect::<Vec<_>>())).expect("few");
    let mut spec = one_cpu();
    super::calls::packed(&mut spec);
    let target = Target::New(JobSpec::default());
    let dependencies = Arc::new(Dependencies { edges, ..Dependencies::default() });
    let job = world.submits(Submit { dependencies, ..Submit::new(target, TaskIds::Next(3), spec) });
    world.sent(1);
    world.ends_well(job, 0);
    assert_eq!(world.sent(1), "", "the value of the first one is not with the worker of the second one");
    world.ends_well(job, 1);
    assert_eq!(world.sent(1), "1:2/0");
}

#[test]
fn calls_follow_only_where_they_are_given_values_and_never_something_else() {
    for (follows_calls, changes) in [(false, [true, true]), (true, [true, false]), (true, [false, true])] {
        let mut world = World::new();
        let job = world.open();
        for (task, is_call) in changes.into_iter().enumerate() {
            let mut spec = one_cpu();
            if is_call {
                super::calls::packed(&mut spec);
            }
            let edges = Edges::new([(0..task as u32).map(TaskId).collect::<Vec<_>>()]).expect("few");
            let dependencies = Arc::new(Dependencies { edges, ..Dependencies::default() });
            world.submits(Submit { dependencies, ..Submit::new(Target::Open(job), TaskIds::Next(1), spec) });
        }
        world.worker_saying(1, 1, |hello| (hello.follows, hello.follows_calls) = (true, follows_calls));
        assert_eq!(world.sent(1), "1:0/0", "{follows_calls} {changes:?}");
    }
}

#[test]
fn a_follower_of_another_submit_is_held_when_it_has_started() {
    let mut world = World::new();
    let job = world.open();
    for task in 0..2 {
        let edges = Edges::new([(0..task).map(TaskId).collect::<Vec<_>>()]).expect("few");
        let dependencies = Arc::new(Dependencies { edges, ..Dependencies::default() });
        world.submits(Submit { dependencies, ..Submit::new(Target::Open(job), TaskIds::Next(1), one_cpu()) });
    }
    world.follower(1, 1);
    assert_eq!(world.sent(1), "1:0/0 1:1/0 after 0");
    // Each step checks that what is leased is held.
    world.reports(1, |report| {
        report.finished.push(finished(job, 0, 0, 0));
        report.started.push(started(job, 1, 0));
    });
    assert_eq!(world.states(job), "running: 1 running, 1 finished");
}
