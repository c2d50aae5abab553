//! Second attempts: when they are begun, and every way in which one of two attempts may end.

use hq_model::Body;
use hq_model::task::SpeculateFactor;

use super::*;

const FIRST: u64 = 2;
const SECOND: u64 = 3;

// Six of eight tasks have finished on the first worker within a second each; tasks 6 and 7 run there, and
// another worker has nothing to do.
fn with_slow_tasks(factor: Option<&str>, change: impl FnOnce(&mut TaskSpec)) -> (World, JobId) {
    let mut world = World::new();
    world.worker(FIRST, 8);
    let job = world.submit(8, |spec| {
        spec.speculate = factor.map(|factor| factor.parse::<SpeculateFactor>().expect("a factor"));
        change(spec);
    });
    world.worker(SECOND, 4);
    world.reports(FIRST, |r| r.started = (0..8).map(|task| started(job, task, 0)).collect());
    world.reports(FIRST, |r| r.finished = vec![finished(job, 0, 5, 0)]);
    assert_eq!(world.sent(FIRST), "1:0-7/0");
    (world, job)
}

// As before, and both are started a second time.
fn speculated() -> (World, JobId) {
    let (mut world, job) = with_slow_tasks(Some("3"), |_| {});
    world.wait(Duration::from_secs(4));
    assert_eq!(world.sent(SECOND), "1:6/1 1:7/1");
    world.reports(SECOND, |r| r.started = vec![started(job, 6, 1), started(job, 7, 1)]);
    (world, job)
}

#[test]
fn a_task_that_takes_long_is_started_a_second_time_elsewhere_and_only_once() {
    let (mut world, job) = with_slow_tasks(Some("3"), |_| {});
    world.wait(Duration::from_secs(1));
    assert_eq!(world.sent(SECOND), "", "three times the median is three seconds");
    world.wait(Duration::from_secs(3));
    assert_eq!(world.sent(SECOND), "1:6/1 1:7/1");
    world.wait(Duration::from_secs(60));
    assert_eq!((world.sent(FIRST), world.sent(SECOND)), (String::new(), String::new()));
    assert_eq!(world.states(job), "running: 2 running, 6 finished", "a task counts once");
}

#[test]
fn a_second_attempt_whose_room_something_else_was_quicker_to_take_waits_there() {
    let (mut world, job) = with_slow_tasks(Some("3"), |spec| spec.priority = 1);
    let small = world.submit(9, |_| {});
    let large = world.submit(2, |spec| {
        spec.body = Body::program(["large"]);
        spec.requests = vec![cpus(4)];
    });
    assert_eq!(world.sent(SECOND), "2:6-8/0 3:1/0", "one CPU is free, and one waits for four");
    world.reports(SECOND, |r| r.started = (6..9).map(|task| started(small, task, 0)).collect());
    world.wait(Duration::from_secs(4));
    assert_eq!(world.sent(SECOND), "1:6/1");
    world.reports(SECOND, |r| {
        r.started = vec![started(large, 1, 0)];
        r.finished = vec![finished(small, 6, 8, 0)];
    });
    let live = &world.server.live[&hq_model::WorkerId(2)];
    let template = crate::worker_messages::TemplateId { job, submit: 0 };
    assert_eq!(live.held()[&template].waiting, IdSet::single(TaskId(6)));
    assert!(!live.capacity().is_overdrawn());
}

#[test]
fn a_second_attempt_that_waits_for_room_until_it_is_too_late_is_asked_back_when_it_is_the_only_one() {
    let (mut world, job) = with_slow_tasks(Some("3"), |spec| {
        spec.priority = 1;
        spec.end_by = Some(hq_model::task::EndBy::Within(Duration::from_secs(60)));
    });
    let small = world.submit(9, |_| {});
    let large = world.submit(2, |spec| {
        spec.body = Body::program(["large"]);
        spec.requests = vec![cpus(4)];
    });
    world.reports(SECOND, |r| r.started = (6..9).map(|task| started(small, task, 0)).collect());
    world.wait(Duration::from_secs(4));
    world.reports(SECOND, |r| {
        r.started = vec![started(large, 1, 0)];
        r.finished = vec![finished(small, 6, 8, 0)];
    });
    world.sent(SECOND);
    world.wait(Duration::from_secs(90));
    world.reports(SECOND, |r| r.finished = vec![finished(large, 1, 1, 0)]);
    assert_eq!(
        world.sent(SECOND),
        "",
        "the first attempt runs, and the worker does not start this one any more"
    );
    world.reports(FIRST, |r| r.failed = vec![(job, failed(6, 0, 1))]);
    assert_eq!(world.sent(SECOND), "<1:6");
    world.reports(SECOND, |r| r.returned = vec![(job, IdSet::single(TaskId(6)))]);
    assert_eq!(world.states(job), "running: 1 running, 6 finished, 1 canceled");
    assert!(crate::mark::take().contains("the only attempt left is too late to start"));
}

#[test]
fn without_the_option_nothing_is_started_twice() {
    let (mut world, _) = with_slow_tasks(None, |_| {});
    world.wait(Duration::from_secs(3600));
    assert_eq!(world.sent(SECOND), "");
}

#[test]
fn room_that_is_kept_for_a_large_task_is_not_for_second_attempts() {
    let special = |count: u64| {
        let mut request = cpus(count);
        let amount = AmountRequest::Some(Amount::whole(1), Policy::Compact);
        request.resources.push(ResourceRequest { name: "x".into(), amount });
        move |spec: &mut TaskSpec| spec.requests = vec![request]
    };
    let mut world = World::new();
    world.worker(FIRST, 8);
    let job = world.submit(8, |spec| spec.speculate = "3".parse().ok());
    world.worker_saying(SECOND, 4, |hello| {
        let kind = PoolKind::Sum(Amount::whole(10));
        hello.config.resources.pools.push(ResourcePool { name: "x".into(), kind });
    });
    world.reports(FIRST, |r| r.started = (0..8).map(|task| started(job, task, 0)).collect());
    world.reports(FIRST, |r| r.finished = vec![finished(job, 0, 5, 0)]);
    let small = world.submit(1, special(2));
    let large = world.submit(1, special(4));
    assert_eq!(world.sent(SECOND), "2:0/0");
    for _ in 0..5 {
        world.wait(Duration::from_secs(4));
        assert_eq!(world.sent(SECOND), "", "two CPUs are free, and kept");
    }
    world.reports(SECOND, |r| r.finished = vec![finished(small, 0, 0, 0)]);
    assert_eq!(world.sent(SECOND), "3:0/0");
    world.reports(SECOND, |r| r.finished = vec![finished(large, 0, 0, 0)]);
    world.wait(Duration::from_secs(4));
    assert_eq!(world.sent(SECOND), "1:6/1 1:7/1");
}

#[test]
fn second_attempts_count_towards_a_share() {
    let mut world = World::new();
    world.worker(FIRST, 8);
    let share = hq_model::job::Share { max: Some(3), ..hq_model::job::Share::default() };
    let spec = JobSpec { share: Some(share), ..JobSpec::default() };
    let job = world.submit_as(spec, 8, |spec| spec.speculate = "3".parse().ok());
    for first in [0, 3] {
        world.reports(FIRST, |r| r.finished = vec![finished(job, first, first + 2, 0)]);
    }
    world.worker(SECOND, 4);
    world.reports(FIRST, |r| r.started = vec![started(job, 6, 0), started(job, 7, 0)]);
    world.wait(Duration::from_secs(4));
    assert_eq!(world.sent(SECOND), "1:6/1", "three at once, and two run");
}

#[test]
fn a_worker_on_which_more_is_about_to_end_gets_no_second_attempts() {
    let (mut world, _) = with_slow_tasks(Some("3"), |_| {});
    let id = hq_model::WorkerId(2);
    world.server.gathering.leave_alone(id, world.now);
    world.now = world.now.after(Duration::from_secs(4));
    let mut effects = Vec::new();
    world.server.speculate(world.now, &mut effects);
    world.server.gathering.begin();
    assert_eq!(effects, []);
}

#[test]
fn what_waits_goes_before_second_attempts() {
    let (mut world, _) = with_slow_tasks(Some("3"), |_| {});
    let other = world.submit(12, |_| {});
    world.reports(SECOND, |r| r.started = (6..10).map(|task| started(other, task, 0)).collect());
    world.sent(SECOND);
    world.wait(Duration::from_secs(60));
    assert_eq!(world.sent(SECOND), "");
}

#[test]
fn the_first_result_wins_and_the_other_attempt_is_ended() {
    let (mut world, job) = speculated();
    world.reports(FIRST, |r| r.finished = vec![finished(job, 6, 6, 0)]);
    assert_eq!((world.sent(FIRST), world.sent(SECOND)), (String::new(), "-1:6".into()));
    world.reports(SECOND, |r| r.finished = vec![finished(job, 7, 7, 1)]);
    assert_eq!((world.sent(FIRST), world.sent(SECOND)), ("-1:7".into(), String::new()));
    assert_eq!(world.states(job), "finished: 8 finished");
    // What the others still say comes too late.
    world.reports(FIRST, |r| r.finished = vec![finished(job, 7, 7, 0)]);
    world.reports(SECOND, |r| r.failed = vec![(job, failed(6, 1, 1))]);
    assert_eq!(world.states(job), "finished: 8 finished");
    assert_eq!(world.server.state().jobs[&job].usage.wall_us, 8_000_000, "each is counted once");
}

#[test]
fn an_attempt_that_fails_leaves_the_task_to_the_other_one() {
    let (mut world, job) = speculated();
    world.reports(FIRST, |r| r.failed = vec![(job, failed(6, 0, 1))]);
    world.reports(SECOND, |r| r.failed = vec![(job, failed(7, 1, 1))]);
    assert_eq!(world.states(job), "running: 2 running, 6 finished");
    world.reports(SECOND, |r| r.finished = vec![finished(job, 6, 6, 1)]);
    world.reports(FIRST, |r| r.failed = vec![(job, failed(7, 0, 1))]);
    assert_eq!(world.states(job), "failed: 7 finished, 1 failed");
}

#[test]
fn losing_one_of_two_workers_restarts_nothing_and_is_no_crash() {
    for (lost, left, instance) in [(FIRST, SECOND, 1), (SECOND, FIRST, 0)] {
        let (mut world, job) = speculated();
        world.says(lost, FromWorker::Leaving { end: WorkerEnd::HeartbeatLost });
        assert_eq!(world.states(job), "running: 2 running, 6 finished");
        assert!(world.server.state().jobs[&job].crashes.is_empty());
        world.reports(left, |r| r.finished = vec![finished(job, 6, 7, instance)]);
        assert_eq!(world.states(job), "finished: 8 finished");
    }
}

#[test]
fn an_instance_of_a_dropped_attempt_is_not_given_again() {
    let (mut world, job) = speculated();
    world.says(SECOND, FromWorker::Leaving { end: WorkerEnd::HeartbeatLost });
    world.says(FIRST, FromWorker::Leaving { end: WorkerEnd::HeartbeatLost });
    world.worker(4, 4);
    assert_eq!(world.sent(4), "1:6-7/2");
    assert_eq!(world.states(job), "waiting: 2 waiting, 6 finished");
}

#[test]
fn an_attempt_that_was_never_started_may_come_back() {
    let (mut world, job) = with_slow_tasks(Some("3"), |_| {});
    world.wait(Duration::from_secs(4));
    world.reports(SECOND, |r| r.returned = vec![(job, IdSet::range(6, 7))]);
    world.reports(FIRST, |r| r.returned = vec![(job, IdSet::range(6, 7))]);
    world.sent(SECOND);
    world.reports(SECOND, |r| r.finished = vec![finished(job, 6, 7, 2)]);
    assert_eq!(world.states(job), "waiting: 2 waiting, 6 finished");
    world.reports(FIRST, |r| r.finished = vec![finished(job, 6, 7, 2)]);
    assert_eq!(world.states(job), "finished: 8 finished");
}

#[test]
fn a_canceled_task_is_ended_on_both_workers() {
    let (mut world, job) = speculated();
    world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    assert_eq!((world.sent(FIRST), world.sent(SECOND)), ("-1:6-7".into(), "-1:6-7".into()));
    assert_eq!(world.states(job), "canceled: 6 finished, 2 canceled");
}

#[test]
fn a_worker_that_comes_back_still_has_its_second_attempts() {
    let (mut world, job) = speculated();
    world.step(Input::WorkerGone { connection: ConnectionId(SECOND), is_closed: false });
    let hello = WorkerHello {
        config: config(4),
        started: world.now,
        age: None,
        known_as: Some(hq_model::WorkerId(2)),
        secret: None,
        holds: vec![crate::worker_messages::Held {
            template: crate::worker_messages::TemplateId { job, submit: 0 },
            variant: None,
            instance: Instance(1),
            queued: IdSet::new(),
            running: IdSet::single(TaskId(6)),
            started: vec![Timestamp(9)],
        }],
        last_report: 0,
        follows: true,
        follows_calls: false,
        shows: true,
        stores: true,
        relays: false,
        objects: Vec::new(),
    };
    world.says(9, FromWorker::Hello(Box::new(hello)));
    assert_eq!(world.sent(9), "", "nothing is ended");
    world.reports(9, |r| r.finished = vec![finished(job, 6, 7, 1)]);
    assert_eq!(world.states(job), "running: 1 running, 7 finished", "the other one was lost on the way");
}

#[test]
fn after_a_restart_the_server_still_knows_what_takes_long() {
    let (world, job) = with_slow_tasks(Some("3"), |_| {});
    let mut server = Server::new(ServerOptions::default());
    let restored = world.server.state().snapshot::<()>(&mut |at, record| {
        server.restore(at, &record);
        Ok(())
    });
    assert_eq!(restored, Ok(()));
    let mut world = World { server, ..world };
    let mut effects = Vec::new();
    world.server.start(world.now, String::new(), &mut effects);
    world.take(effects);
    for (connection, worker, cpus, running) in [(12, 1, 8, IdSet::range(6, 7)), (13, 2, 4, IdSet::new())] {
        let hello = WorkerHello {
            config: config(cpus),
            started: world.now,
            age: None,
            known_as: Some(hq_model::WorkerId(worker)),
            secret: None,
            holds: vec![crate::worker_messages::Held {
                template: crate::worker_messages::TemplateId { job, submit: 0 },
                variant: None,
                instance: Instance(0),
                queued: IdSet::new(),
                started: running.iter().map(|_| Timestamp(9)).collect(),
                running,
            }],
            last_report: 0,
            follows: true,
            follows_calls: false,
            shows: true,
            stores: true,
            relays: false,
            objects: Vec::new(),
        };
        world.says(connection, FromWorker::Hello(Box::new(hello)));
    }
    world.wait(Duration::from_secs(4));
    assert_eq!(world.sent(13), "1:6/1 1:7/1");
}
