//! Allocations that nobody wants any more are canceled, whatever the batch system says to that.

use super::*;

fn nothing_is_left(world: &mut World) {
    world.ask(ClientRequest::Cancel { jobs: hq_model::selector::Selector::All, tasks: None, reason: None });
}

fn not_canceled(world: &mut World, number: u32) {
    let report = BatchReport::Canceled { allocations: vec![first(number)], result: Err("denied".into()) };
    world.step(Input::Batch(report));
}

// Lets time pass by quarters of a second, in which every cancel is refused. Says after how many seconds each was.
fn refused_for(world: &mut World, time: Duration) -> Vec<u64> {
    let (begin, mut tries) = (world.now, Vec::new());
    while world.now.since(begin) < time {
        world.wait(MINUTE / 240);
        if world.orders().contains("-100") {
            tries.push(world.now.since(begin).as_secs());
            not_canceled(world, 1);
        }
    }
    tries
}

#[test]
fn a_cancel_that_is_refused_is_tried_again_more_and_more_rarely() {
    for is_removed in [false, true] {
        let mut world = World::asking(QueueParams { idle_timeout: Some(MINUTE / 12), ..params() }, 1);
        world.submitted(1);
        world.orders();
        if is_removed {
            world.alloc(AllocRequest::Remove { queue: QueueId(1), force: false });
            assert_eq!(world.orders(), "-100");
            not_canceled(&mut world, 1);
        } else {
            nothing_is_left(&mut world);
            world.wait(MINUTE / 240);
        }
        let tries = refused_for(&mut world, MINUTE * 40);
        let since = if is_removed { 0 } else { 5 };
        let expected = [0, 60, 180, 420, 900, 1860].map(|after| after + since);
        assert!(tries.len().abs_diff(5) <= 1, "{tries:?}");
        for (tried, expected) in tries.iter().rev().zip(expected.iter().rev()) {
            assert!(tried.abs_diff(*expected) <= 2, "{tries:?}");
        }
        if is_removed {
            continue;
        }
        let told: Vec<String> = world.explained().decisions.into_iter().map(|one| one.text).collect();
        let asked = "asks for 1 allocation with 1 worker for 1 waiting task";
        assert_eq!(told.first().map(String::as_str), Some(asked), "what was decided before is still there");
        assert_eq!(told.len(), 4, "{told:?}");
        // Whoever asks need not wait.
        world.alloc(AllocRequest::Remove { queue: QueueId(1), force: false });
        assert_eq!(world.orders(), "-100");
    }
}

#[test]
fn one_that_runs_and_whose_worker_does_not_come_is_canceled_when_nothing_is_left() {
    let mut world = World::asking(QueueParams { keep_waiting: true, ..params() }, 1);
    world.submitted(1);
    world.wait(MINUTE * 2);
    world.states_are(&[(1, BatchState::Running)]);
    world.orders();
    world.wait(MINUTE * 20);
    assert!(!world.orders().contains("-100"), "a task waits for it");
    nothing_is_left(&mut world);
    world.wait(MINUTE / 60);
    world.wait(MINUTE * 4);
    assert!(!world.orders().contains("-100"), "its worker may be about to come");
    world.wait(MINUTE);
    assert!(world.orders().contains("-100"));
    let told = world.explained().decisions.into_iter().map(|one| one.text).next_back();
    let words = "allocation 1.1 is canceled: no worker of it has come, and nothing is left for it to do";
    assert_eq!(told.as_deref(), Some(words));
}

#[test]
fn the_time_in_which_nothing_is_left_counts_anew_when_an_allocation_starts() {
    let mut world = World::asking(params(), 1);
    world.submitted(1);
    world.wait(MINUTE * 2);
    world.orders();
    nothing_is_left(&mut world);
    world.wait(MINUTE / 60);
    world.wait(MINUTE * 4);
    world.states_are(&[(1, BatchState::Running)]);
    world.wait(MINUTE * 4);
    assert!(!world.orders().contains("-100"), "its worker has had four minutes to come");
    world.wait(MINUTE);
    assert!(world.orders().contains("-100"));
}

// One whose worker has left in order while its batch job runs.
fn deserted() -> World {
    let mut world = World::asking(params(), 1);
    world.comes(1, 2);
    world.reports(2, |r| r.finished = vec![finished(JobId(1), 0, 0, 0)]);
    world.wait(MINUTE);
    world.says(2, FromWorker::Leaving { end: WorkerEnd::IdleTimeout });
    world.wait(MINUTE / 20);
    world.wait(MINUTE / 20);
    assert!(world.orders().ends_with("?100"), "is it over?");
    world.states_are(&[(1, BatchState::Running)]);
    world
}

#[test]
fn a_batch_job_that_goes_on_when_its_workers_have_left_is_canceled_after_a_while() {
    let mut world = deserted();
    let lost = |world: &mut World| match world.alloc(AllocRequest::Find { id: "1.1".into() }) {
        ClientResponse::Alloc(AllocResponse::Found(found)) => found.time.lost_us / 1_000_000,
        other => panic!("{other:?}"),
    };
    for _ in 0..4 {
        world.wait(MINUTE);
        assert_eq!(world.orders(), "?100", "once a minute");
        world.states_are(&[(1, BatchState::Running)]);
        assert_eq!(world.allocations(), "1.1 running (all its workers have left)");
    }
    assert!((240..250).contains(&lost(&mut world)), "its node is held");
    world.wait(MINUTE);
    assert!(world.orders().contains("-100"));
    world.step(Input::Batch(BatchReport::Canceled { allocations: vec![first(1)], result: Ok(()) }));
    assert_eq!(world.allocations(), "1.1 finished");
    assert!((300..310).contains(&lost(&mut world)));
}

#[test]
fn whoever_removes_the_queue_or_stops_the_server_cancels_what_its_workers_have_left() {
    let mut world = deserted();
    let removed = world.alloc(AllocRequest::Remove { queue: QueueId(1), force: false });
    assert_eq!(removed, ClientResponse::Done, "nobody works there any more");
    assert_eq!(world.orders(), "-100");
    let mut world = deserted();
    let stop = Input::Client { connection: CLIENT, request: 1, body: ClientRequest::StopServer };
    assert_eq!(world.step(stop), []);
    assert_eq!(world.orders(), "-100");
    let canceled = BatchReport::Canceled { allocations: vec![first(1)], result: Ok(()) };
    assert_eq!(world.step(Input::Batch(canceled)), [ClientResponse::Done]);
}

#[test]
fn a_server_that_ends_says_what_may_go_on_in_the_batch_system() {
    let stop = || Input::Client { connection: CLIENT, request: 1, body: ClientRequest::StopServer };
    let told = |answers: Vec<ClientResponse>| match &answers[..] {
        [ClientResponse::Partly { refused, rest }] => {
            assert_eq!(**rest, ClientResponse::Done, "it ends all the same");
            refused.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        }
        other => panic!("{other:?}"),
    };
    let mut world = deserted();
    assert_eq!(world.step(stop()), []);
    let refused = BatchReport::Canceled { allocations: vec![first(1)], result: Err("denied".into()) };
    assert_eq!(
        told(world.step(Input::Batch(refused))),
        "Allocation 1.1 (100) may still be in the batch system, which did not cancel it: denied. `scancel 100` cancels it."
    );
    let mut world = deserted();
    world.step(stop());
    world.now = world.now.after(crate::limits::STOP_TIME_MAX);
    let told = told(world.step(Input::Tick));
    assert!(told.contains("did not cancel it: it has not answered. `scancel 100`"), "{told}");
}

#[test]
fn a_server_that_ends_names_what_the_batch_system_may_still_take() {
    let mut world = World::asking(params(), 1);
    let body = ClientRequest::StopServer;
    assert_eq!(world.step(Input::Client { connection: CLIENT, request: 1, body }), []);
    world.now = world.now.after(crate::limits::STOP_TIME_MAX);
    let answers = world.step(Input::Tick);
    let [ClientResponse::Partly { refused, .. }] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(
        refused[0].to_string(),
        "Allocation 1.1 was being submitted: the batch system has not said whether it took it, and may start it. `squeue \
         --name=hq-1-1` shows it if so, and `scancel --name=hq-1-1` cancels it."
    );
}

#[test]
fn what_its_workers_have_left_keeps_nobody_from_new_ones() {
    let mut world = World::asking(QueueParams { max_worker_count: Some(1), ..params() }, 1);
    world.comes(1, 2);
    world.says(2, FromWorker::Leaving { end: WorkerEnd::TimeLimit });
    world.orders();
    world.wait(MINUTE / 60);
    assert_eq!(world.orders(), "+1.2x1");
}
