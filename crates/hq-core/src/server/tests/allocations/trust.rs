//! Allocations that can be trusted: what is asked for is worth it, what nobody needs goes, and node time adds up.

use super::*;
use crate::alloc::messages::AllocationInfo;

fn gpus(world: &mut World, params: QueueParams) {
    let pool = |name: &str, text: &str| hq_model::resources::parse_pool(name, text).expect("a pool");
    let resources = vec![pool("cpus", "4"), pool("gpus/nvidia", "range(0-1)")];
    world.queue(QueueParams { resources, resources_are_all: true, ..params });
}

fn one(world: &mut World, number: u32) -> AllocationInfo {
    match world.alloc(AllocRequest::Find { id: format!("1.{number}") }) {
        ClientResponse::Alloc(AllocResponse::Found(found)) => *found,
        other => panic!("{other:?}"),
    }
}

fn seconds(micros: u64) -> u64 {
    (micros + 500_000) / 1_000_000
}

#[test]
fn nodes_with_gpus_are_asked_for_what_needs_none_only_when_the_user_says_so() {
    let mut world = World::new();
    gpus(&mut world, params());
    world.queue(params());
    world.submit(12, |_| {});
    world.wait(MINUTE);
    assert_eq!(world.orders(), "+2.1x1", "also while the other queue lets wait");
    world.wait(MINUTE * 10);
    assert!(!world.orders().contains("+1."));
    let words =
        "its nodes have gpus/nvidia, which the tasks do not need; `hq alloc edit 1 --for-any-task` asks";
    let next = world.explained().next;
    assert!(next.contains(words), "{next}");
    let mut world = World::new();
    gpus(&mut world, QueueParams { for_any_task: true, ..params() });
    world.submit(1, |_| {});
    world.wait(MINUTE);
    assert_eq!(world.orders(), "+1.1x1");
}

#[test]
fn what_is_known_to_be_short_gets_no_more_workers_than_are_worth_it() {
    for (expected, orders) in [(Duration::from_millis(500), 1), (HOUR, 4)] {
        let mut world = World::new();
        world.queue(QueueParams { backlog: 4, ..params() });
        world.submit(20, |spec| spec.expected = Some(expected));
        for number in 1..=4 {
            world.wait(MINUTE / 60);
            world.submitted(number);
        }
        assert_eq!(world.orders().matches('+').count(), orders, "{expected:?}");
        if orders == 1 {
            let explained = world.explained();
            let why = explained.demand[0].why_not.clone().unwrap_or_default();
            assert!(
                why.starts_with("workers that are there or on their way will have finished this"),
                "{why}"
            );
        }
    }
}

#[test]
fn an_allocation_that_would_get_nothing_is_canceled_while_others_run() {
    let mut world = World::asking(QueueParams { backlog: 2, ..params() }, 8);
    world.submitted(1);
    world.wait(MINUTE / 60);
    world.submitted(2);
    world.orders();
    // One came, and another worker, of whom nobody knew: all tasks run.
    world.worker_of(2, 1);
    world.worker(3, 4);
    world.reports(2, |r| r.started = (0..4).map(|task| started(JobId(1), task, 0)).collect());
    world.wait(MINUTE);
    world.wait(MINUTE * 4);
    assert!(!world.orders().contains("-101"));
    world.wait(MINUTE * 2);
    world.wait(MINUTE);
    assert!(world.orders().contains("-101"));
}

#[test]
fn node_time_survives_the_server_and_adds_up() {
    let mut world = World::asking(params(), 1);
    world.comes(1, 2);
    world.reports(2, |r| r.started = vec![started(JobId(1), 0, 0)]);
    world.wait(MINUTE * 5);
    world.wait(MINUTE * 5);
    world.restart();
    world.wait(MINUTE / 6);
    let time = one(&mut world, 1).time;
    assert_eq!(
        (seconds(time.used_us), seconds(time.idle_us)),
        (610, 0),
        "its worker had a task all the time"
    );
}

#[test]
fn a_worker_that_never_came_has_lost_its_node_time() {
    let mut world = World::asking(params(), 1);
    world.submitted(1);
    world.wait(MINUTE * 2);
    let failed = BatchState::Failed("exit status 1".into());
    world.is_said(1, Said { ran: Some(Duration::from_secs(112)), ..failed.into() });
    assert_eq!(seconds(one(&mut world, 1).time.lost_us), 112);
}

#[test]
fn what_is_lost_is_what_the_batch_system_says() {
    let mut world = World::asking(params(), 1);
    world.comes(1, 2);
    world.wait(MINUTE);
    world.says(2, FromWorker::Leaving { end: WorkerEnd::Interrupted });
    world.wait(MINUTE / 60);
    world.wait(MINUTE * 2);
    world.is_said(1, Said { ran: Some(Duration::from_secs(63)), ..BatchState::Canceled.into() });
    let time = one(&mut world, 1).time;
    assert_eq!((seconds(time.used_us + time.idle_us), seconds(time.lost_us)), (61, 2));
}

#[test]
fn what_waits_is_asked_about_soon_after_errors_and_when_it_is_new() {
    let mut world = World::asking(params(), 1);
    world.submitted(1);
    let error = BatchReport::States { manager: "slurm".into(), states: Err("cannot connect".into()) };
    for _ in 0..3 {
        world.wait(MINUTE);
        world.wait(MINUTE / 60);
        assert!(world.orders().ends_with("?100"), "once a minute");
        world.step(Input::Batch(error.clone()));
    }
    for _ in 0..6 {
        world.wait(MINUTE * 20);
        world.states_are(&[(1, BatchState::Queued)]);
    }
    world.orders();
    // Another queue of the same batch system, with a new allocation.
    world.queue(QueueParams { worker_time_limit: None, ..params() });
    world.submit(9, |_| {});
    world.wait(MINUTE);
    assert!(world.orders().contains("+2.1x1"));
    let allocation = AllocationRef::new(QueueId(2), 1);
    world.step(Input::Batch(BatchReport::Submitted { allocation, batch_id: "7".into() }));
    world.wait(MINUTE * 2);
    world.wait(MINUTE / 60);
    assert!(world.orders().contains("?100,7"), "it may be one that can never run");
}

#[test]
fn one_that_the_batch_system_does_not_know_is_asked_for_again_soon() {
    let mut world = World::asking(params(), 1);
    world.submitted(1);
    world.orders();
    world.wait(MINUTE);
    world.wait(MINUTE / 60);
    assert_eq!(world.orders(), "?100");
    world.states_are(&[]);
    assert!(world.allocations().starts_with("1.1 queued"), "it may be on its way");
    world.wait(MINUTE / 12);
    assert_eq!(world.orders(), "");
    world.wait(MINUTE / 12);
    assert_eq!(world.orders(), "?100");
    world.states_are(&[]);
    let lost = "1.1 failed (its end is not known: the batch system does not know it)";
    assert!(world.allocations().starts_with(lost), "{}", world.allocations());
    // Its workers are believed more, and nobody is asked about them again and again.
    let mut world = World::asking(params(), 1);
    world.comes(1, 2);
    world.orders();
    world.wait(MINUTE);
    world.orders();
    world.states_are(&[]);
    world.wait(MINUTE / 6);
    world.orders();
    world.states_are(&[]);
    world.wait(MINUTE / 6);
    assert_eq!(world.orders(), "");
}

#[test]
fn what_was_taken_away_before_it_began_is_canceled() {
    for (never_began, end) in
        [(true, "1.1 finished (canceled)"), (false, "1.1 failed (its end is not known: gone)")]
    {
        let mut world = World::asking(params(), 1);
        world.submitted(1);
        for _ in 0..2 {
            world.wait(MINUTE * 5);
            world.is_said(1, Said { never_began, ..BatchState::Unknown("gone".into()).into() });
        }
        assert!(world.allocations().starts_with(end), "{}", world.allocations());
    }
}

#[test]
fn a_node_that_failed_under_a_worker_that_went_on_has_failed() {
    let mut world = World::asking(params(), 8);
    world.comes(1, 2);
    world.orders();
    world.wait(MINUTE / 60);
    world.wait(MINUTE);
    world.submitted(2);
    world.wait(MINUTE * 5);
    assert_eq!(world.orders(), "+1.2x1 ?100,101");
    world.states_are(&[(1, BatchState::NodeFailed), (2, BatchState::Queued)]);
    assert!(world.allocations().starts_with("1.1 running"), "its worker is there");
    world.says(2, FromWorker::Leaving { end: WorkerEnd::IdleTimeout });
    world.wait(MINUTE / 60);
    assert!(world.allocations().starts_with("1.1 failed (a node failed)"), "{}", world.allocations());
}

#[test]
fn files_of_allocations_are_where_the_server_is_now() {
    let mut options = ServerOptions::default();
    options.info.server_dir = b"/old/001".to_vec();
    let mut world = World::with(options);
    world.queue(params());
    world.submit(1, |_| {});
    world.wait(MINUTE);
    world.submitted(1);
    assert_eq!(one(&mut world, 1).directory, b"/old/001/autoalloc/1/001");
    // Each start of a server has a directory of its own; those before stay.
    for (now, directory) in
        [("/old/002", "/old/001/autoalloc/1/001"), ("/new/003", "/new/001/autoalloc/1/001")]
    {
        world.server.set_info(crate::client_messages::ServerInfo {
            server_dir: now.into(),
            ..crate::client_messages::ServerInfo::default()
        });
        assert_eq!(one(&mut world, 1).directory, directory.as_bytes());
    }
}

#[test]
fn an_edit_that_asks_for_something_else_is_tried_first() {
    let mut world = World::new();
    world.queue(params());
    let edit = |world: &mut World, params: QueueParams| {
        let params = Box::new(params);
        let body = ClientRequest::Alloc(AllocRequest::Edit { queue: QueueId(1), params, dry_run: true });
        world.step(Input::Client { connection: CLIENT, request: 1, body })
    };
    assert_eq!(edit(&mut world, QueueParams { backlog: 7, ..params() }), [ClientResponse::Done]);
    let nope = QueueParams { manager_args: vec![b"-pnope".to_vec()], ..params() };
    assert_eq!(edit(&mut world, nope.clone()), [], "the batch system is asked");
    assert_eq!(world.orders(), "shape 1 try 1");
    let error = "invalid partition specified: nope".to_owned();
    let report = BatchReport::Tried { ticket: 1, result: Err(error.clone()) };
    assert_eq!(world.step(Input::Batch(report)), [ClientResponse::Error(RequestError::Batch(error))]);
    assert!(world.fold.alloc.queues[&QueueId(1)].params.manager_args.is_empty(), "nothing has changed");
    edit(&mut world, nope);
    let report = BatchReport::Tried { ticket: 2, result: Ok(Some(config(2).resources)) };
    assert_eq!(world.step(Input::Batch(report)), [ClientResponse::Done]);
    let queue = &world.fold.alloc.queues[&QueueId(1)];
    assert!(!queue.params.manager_args.is_empty() && queue.known.is_some());
}

#[test]
fn a_queue_that_suddenly_lets_wait_or_is_held_leaves_work_to_another() {
    for is_held in [false, true] {
        let mut world = World::asking(params(), 1);
        // The first starts at once, and leaves its task to the next.
        world.comes(1, 2);
        world.wait(MINUTE / 60);
        world.says(2, FromWorker::Leaving { end: WorkerEnd::TimeLimit });
        world.wait(MINUTE / 20);
        assert_eq!(world.orders(), "+1.1x1 ?100 +1.2x1");
        world.states_are(&[(1, BatchState::Finished)]);
        world.submitted(2);
        world.queue(params());
        world.wait(MINUTE / 6);
        assert_eq!(world.orders(), "", "the first queue will serve it");
        if is_held {
            world.explained();
            world.wait(MINUTE / 60);
            assert_eq!(world.orders(), "?101");
            world.is_said(2, BatchState::Held.into());
            world.wait(MINUTE / 60);
        } else {
            world.wait(MINUTE / 2);
        }
        assert!(world.orders().contains("+2.1x1"), "another queue is asked: {is_held}");
    }
}
