//! Time limits of workers, and tasks that ask for time.

use super::explanations::explained;
use super::losses::task;
use super::*;
use crate::client_messages::WorkerFilter;

const SECOND: Duration = Duration::from_secs(1);

impl World {
    fn limited(&mut self, connection: u64, cpus: u32, limit: Duration) {
        self.worker_saying(connection, cpus, |hello| {
            hello.config.time_limit = Some(limit);
            hello.config.time_reserve = hq_model::worker::time_reserve(Some(limit));
        });
    }
}

fn asks(time_request: Duration) -> impl FnOnce(&mut TaskSpec) {
    move |spec| spec.requests[0].time_request = time_request
}

#[test]
fn what_waits_on_a_worker_for_too_long_goes_elsewhere() {
    let mut world = World::new();
    world.limited(2, 4, SECOND * 20);
    let job = world.submit(350, asks(SECOND * 18));
    let sent = world.sent(2);
    assert!(sent.starts_with("1:0-"), "{sent}");
    world.reports(2, |r| r.started = (0..4).map(|task| started(job, task, 0)).collect());
    world.wait(SECOND);
    assert_eq!(world.sent(2), "", "there is time enough");
    let due = world.server.next_wakeup().expect("a deadline").since(world.now);
    assert!((SECOND * 9 / 10..SECOND).contains(&due), "{due:?}");
    world.wait(due);
    let waits = world.sent(2);
    assert!(waits.starts_with("<1:4-"), "{waits}");
    let ids = waits.strip_prefix("<1:").expect("a retraction").parse().expect("ids");
    world.reports(2, |r| r.returned = vec![(job, ids)]);
    assert_eq!(world.sent(2), "", "it has no time for them");
    world.wait(SECOND * 4);
    world.worker(3, 4);
    let sent = world.sent(3);
    assert!(sent.starts_with("1:4-"), "{sent}");
    assert_eq!(world.sent(2), "");
    world.wait(SECOND * 20);
    assert_eq!(world.sent(2), "", "they are asked for once");
}

#[test]
fn tasks_that_ask_for_no_time_wait_where_they_are() {
    let mut world = World::new();
    world.limited(2, 1, SECOND * 20);
    world.submit(10, |_| {});
    assert_eq!(world.sent(2), "1:0-1/0");
    (0..17).for_each(|_| world.wait(SECOND));
    assert_eq!(world.sent(2), "");
}

#[test]
fn the_limit_counts_as_given() {
    for (asked, passed, sent) in [
        (598, 1, "1:0/0"),
        (600, 1, "1:0/0"),
        (601, 0, ""),
        (598, 7, ""),
        (589, 10, "1:0/0"),
        (30, 569, "1:0/0"),
        (32, 569, ""),
        (0, 569, "1:0/0"),
        (0, 570, ""),
    ] {
        let mut world = World::new();
        world.limited(2, 1, SECOND * 600);
        world.wait(SECOND * passed);
        world.submit(1, asks(SECOND * asked));
        assert_eq!(world.sent(2), sent, "{asked} s after {passed} s");
    }
}

#[test]
fn a_worker_that_is_back_too_late_is_asked_for_what_waits_there() {
    let mut world = World::new();
    world.limited(2, 1, SECOND * 100);
    let job = world.submit(2, asks(SECOND * 90));
    assert_eq!(world.sent(2), "1:0-1/0");
    let started_at = world.now;
    world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    world.wait(SECOND * 20);
    assert_eq!(world.sent(2), "");
    let held = crate::worker_messages::Held {
        template: crate::worker_messages::TemplateId { job, submit: 0 },
        instance: Instance(0),
        queued: IdSet::range(1, 1),
        running: IdSet::range(0, 0),
        started: vec![started_at],
        variant: None,
    };
    world.worker_saying(4, 1, |hello| {
        hello.config.time_limit = Some(SECOND * 100);
        hello.started = started_at;
        hello.known_as = Some(hq_model::WorkerId(1));
        hello.holds = vec![held];
        hello.last_report = 1;
    });
    assert_eq!(world.sent(4), "<1:1");
}

#[test]
fn a_worker_whose_time_is_over_is_said_to_get_nothing_more() {
    let mut world = World::new();
    world.limited(2, 2, SECOND * 600);
    let early = world.submit(4, |_| {});
    world.starts(2, early, 0);
    world.starts(2, early, 1);
    world.wait(SECOND * 500);
    let long = world.submit(1, asks(SECOND * 200));
    let left = explained(&mut world, long, 0).pop().expect("a reason");
    assert_eq!(left, "1: it ends in 1m 39s, and the task asks for 3m 20s");
    // It has not said yet that it leaves.
    world.wait(SECOND * 80);
    let late = world.submit(1, |_| {});
    let over = "1: its time is over: it takes nothing new and leaves soon";
    assert_eq!(explained(&mut world, late, 0).pop().as_deref(), Some(over));
    assert_eq!(explained(&mut world, long, 0).pop().as_deref(), Some(over));
    let waits = explained(&mut world, early, 2);
    assert_eq!(
        waits,
        ["1: it is handed to this worker, and goes elsewhere when that gives it back or leaves", over]
    );
    let of_job = |world: &mut World| {
        let request = ClientRequest::ExplainJobs { jobs: Selector::Ids(IdSet::single(TaskId(early.0))) };
        let ClientResponse::ExplainedJobs(jobs) = world.ask(request) else { panic!("an explanation") };
        let lines = jobs[0].groups[1].reasons.iter().map(|reason| reason.text.clone());
        lines.collect::<Vec<_>>()
    };
    let handed = "they are handed to worker 1 and go elsewhere when that gives them back or leaves";
    assert_eq!(of_job(&mut world), [handed, &over[3..]]);
    // It says so.
    world.reports(2, |r| r.is_leaving = true);
    assert_eq!(explained(&mut world, late, 0).pop().as_deref(), Some(over));
    assert_eq!(of_job(&mut world), [handed, &over[3..]]);
}

#[test]
fn a_worker_whose_clock_is_wrong_does_not_make_its_tasks_last_for_days() {
    let day = SECOND * 24 * 3600;
    let clocks: [fn(Timestamp, Duration) -> Timestamp; 2] =
        [|now, day| now.after(day), |now, day| Timestamp(now.0 - day.as_micros() as u64)];
    for clock in clocks {
        let mut world = World::new();
        world.wait(day * 10);
        world.worker(2, 2);
        let job = world.submit(2, |_| {});
        let at = clock(world.now, day * 2);
        let submitted = world.now;
        world.reports(2, |r| r.started = (0..2).map(|id| Started { at, ..started(job, id, 0) }).collect());
        let seen = submitted..=world.now;
        let list = ClientRequest::ListWorkers { workers: Selector::All, filter: WorkerFilter::All };
        let ClientResponse::Workers(workers) = world.ask(list) else { panic!("workers") };
        let last = workers[0].last_task.expect("a task").1;
        assert!(seen.contains(&last), "{last:?}");
        let start = task(&mut world, job, 0).started.expect("it runs");
        assert!(seen.contains(&start), "{start:?}");
        world.wait(SECOND * 10);
        let said = explained(&mut world, job, 0);
        assert!(said[0].starts_with("1: it has run there for 10s"), "{said:?}");
        world.ask(ClientRequest::Cancel { jobs: Selector::Last, tasks: None, reason: None });
        let info = task(&mut world, job, 1);
        let lasted = info.ended.expect("an end").since(info.started.expect("a start"));
        assert!((SECOND * 10..SECOND * 11).contains(&lasted), "{lasted:?}");
    }
}

#[test]
fn a_worker_whose_clock_is_wrong_lives_as_long_as_others() {
    let month = SECOND * 30 * 24 * 3600;
    let clocks: [fn(Timestamp, Duration) -> Timestamp; 2] =
        [|now, month| now.after(month), |now, month| Timestamp(now.0 - month.as_micros() as u64)];
    for clock in clocks {
        let mut world = World::new();
        world.wait(month * 5);
        let started = clock(world.now, month * 3);
        world.worker_saying(2, 1, |hello| {
            hello.config.time_limit = Some(SECOND * 600);
            hello.config.time_reserve = hq_model::worker::time_reserve(Some(SECOND * 600));
            hello.started = started;
            hello.age = Some(SECOND * 100);
        });
        let job = world.submit(1, asks(SECOND * 490));
        assert_eq!(world.sent(2), "1:0/0");
        world.reports(2, |r| r.finished = vec![finished(job, 0, 0, 0)]);
        world.submit(1, asks(SECOND * 510));
        assert_eq!(world.sent(2), "", "it ends in 500 s");
    }
}
