//! What a worker that leaves waits for.

use super::*;
use crate::limits::HAND_ON_TIME_MAX;
use crate::object_messages::ObjectCopy;

#[test]
fn a_worker_that_is_stopped_stays_until_its_results_are_saved() {
    let wait = Duration::from_secs(60);
    let stopped = |drain| {
        let mut world = World::new(|config| config.reconnect_timeout = wait);
        world.run(1, "0-1", 0, |_| {});
        world.end(1, 0, Outcome::Finished);
        world.step(Input::Server(ToWorker::Stop { drain }));
        world.end(1, 1, failed());
        let said = world.did();
        assert!(said.contains("finished 1:0") && !said.contains("exit"), "{said}");
        world
    };
    for drain in [true, false] {
        let mut world = stopped(drain);
        world.saves();
        assert_eq!(world.did(), "exit Stopped");
        let mut world = stopped(drain);
        world.step(Input::ServerLost);
        world.wait(wait / 2);
        assert_eq!(world.did(), "", "another server takes them");
        world.step(Input::ServerFound);
        assert!(world.did().ends_with("exit Stopped"));
        let mut world = stopped(drain);
        assert!(world.worker.next_wakeup().is_some_and(|at| at > world.now));
        world.wait(wait);
        assert_eq!(world.did(), "exit Stopped", "not for ever");
        let mut world = stopped(drain);
        world.step(Input::Interrupt);
        assert_eq!(world.did(), "exit Stopped", "somebody wants it to be gone");
    }
    let mut world = World::new(|config| config.idle_timeout = Some(wait));
    world.run(1, "0", 0, |_| {});
    world.end(1, 0, Outcome::Finished);
    world.wait(wait);
    assert!(world.worker.next_wakeup().is_some_and(|at| at > world.now), "it is not idle once more");
    world.did();
    world.saves();
    assert_eq!(world.did(), "exit IdleTimeout");
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |_| {});
    world.step(Input::Server(ToWorker::Stop { drain: false }));
    world.end(1, 0, failed());
    assert!(world.did().ends_with("interrupted 1:0, exit Stopped"), "it runs elsewhere: there is no result");
}

#[test]
fn a_worker_that_ends_before_its_welcome_says_everything_first() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |_| {});
    world.step(Input::ServerLost);
    world.end(1, 0, Outcome::Finished);
    world.step(Input::ServerFound);
    world.did();
    let mut effects = Vec::new();
    world.worker.handle(world.now, Input::Interrupt, &mut effects);
    world.worker.settle(world.now, &mut effects);
    let finished =
        matches!(&effects[0], Effect::Send(FromWorker::Report(report)) if report.finished.len() == 1);
    let end = WorkerEnd::Interrupted;
    assert!(finished, "{effects:?}");
    assert_eq!(effects[1..], [Effect::Send(FromWorker::Leaving { end }), Effect::Exit(end)]);
}

#[test]
fn a_worker_that_drains_stays_until_it_is_not_counted_on_for_what_it_stores() {
    let object: hq_model::ObjectId = "1@0:parts".parse().expect("an object");
    let copy =
        ObjectCopy { object: object.clone(), instance: Instance(0), size: 7, checksum: 1, is_dir: false };
    let stops = |drain| {
        let mut world = World::new(|_| {});
        world.worker.storing = Some(Box::default());
        world.step(Input::Stored(copy.clone()));
        world.saves();
        world.step(Input::Server(ToWorker::Stop { drain }));
        world
    };
    let guard = |guard: &[&hq_model::ObjectId], release: &[&hq_model::ObjectId]| {
        let owned =
            |objects: &[&hq_model::ObjectId]| objects.iter().map(|object| (*object).clone()).collect();
        Input::Server(ToWorker::GuardObjects { guard: owned(guard), release: owned(release) })
    };
    assert!(stops(false).did().ends_with("exit Stopped"), "there is no time");
    let mut world = stops(true);
    world.step(guard(&[&object], &[]));
    assert!(!world.did().contains("exit"));
    world.step(guard(&[], &[&object]));
    assert!(world.did().ends_with("exit Stopped"));
    let mut world = stops(true);
    world.step(Input::Server(ToWorker::FreeObjects(vec![object.clone()])));
    assert!(world.did().ends_with("exit Stopped"));
    let mut world = stops(true);
    assert!(!world.did().contains("exit"), "the server has not said yet");
    assert!(world.worker.next_wakeup().is_some_and(|at| at > world.now));
    world.wait(HAND_ON_TIME_MAX);
    assert!(world.did().ends_with("exit Stopped"), "not for ever");
    for hurry in [Input::Interrupt, Input::Server(ToWorker::Stop { drain: false }), Input::ServerLost] {
        let mut world = stops(true);
        world.did();
        world.step(hurry);
        assert!(world.did().ends_with("exit Stopped"));
    }
}

#[test]
fn a_worker_whose_time_is_over_stays_for_what_it_stores_until_shortly_before_its_limit() {
    let object: hq_model::ObjectId = "1@0:parts".parse().expect("an object");
    let over = || {
        let mut world = World::new(|config| {
            config.time_limit = Some(Duration::from_secs(100));
            config.time_reserve = Duration::from_secs(30);
        });
        let copy =
            ObjectCopy { object: object.clone(), instance: Instance(0), size: 7, checksum: 1, is_dir: false };
        world.worker.storing = Some(Box::default());
        world.step(Input::Stored(copy));
        world.saves();
        world.did();
        world.wait(Duration::from_secs(70));
        let did = world.did();
        assert!(did.contains("leaving") && !did.contains("exit"), "{did}");
        world
    };
    let mut world = over();
    let release = vec![object.clone()];
    world.step(Input::Server(ToWorker::GuardObjects { guard: Vec::new(), release }));
    assert!(world.did().ends_with("exit TimeLimit"), "another worker has it, or none can take it");
    let mut world = over();
    world.wait(Duration::from_secs(26));
    assert!(!world.did().contains("exit"));
    assert!(world.worker.next_wakeup().is_some_and(|at| at <= world.now.after(Duration::from_secs(1))));
    world.wait(Duration::from_secs(1));
    assert!(world.did().ends_with("exit TimeLimit"), "a tenth of what it keeps for its end is for itself");
    for hurry in [Input::Interrupt, Input::Server(ToWorker::Stop { drain: false }), Input::ServerLost] {
        let mut world = over();
        world.step(hurry);
        assert!(world.did().ends_with("exit TimeLimit"));
    }
}

#[test]
fn a_worker_that_is_idle_for_too_long_says_that_it_leaves_where_it_stores_something() {
    let timeout = Duration::from_secs(60);
    let leaves = |stores: bool| {
        let mut world = World::new(|config| config.idle_timeout = Some(timeout));
        if stores {
            let object = "1@0:parts".parse().expect("an object");
            let copy = ObjectCopy { object, instance: Instance(0), size: 7, checksum: 1, is_dir: false };
            world.worker.storing = Some(Box::default());
            world.step(Input::Stored(copy));
            world.saves();
        }
        world.did();
        world.wait(timeout);
        world
    };
    assert!(leaves(false).did().ends_with("exit IdleTimeout"));
    let mut world = leaves(true);
    let did = world.did();
    assert!(did.contains("leaving") && !did.contains("exit"), "{did}");
}

#[test]
fn a_worker_that_leaves_says_so_to_a_server_that_may_not_know_it() {
    let mut world = World::new(|_| {});
    world.run(1, "0", 0, |_| {});
    world.step(Input::Server(ToWorker::Stop { drain: true }));
    world.did();
    world.step(Input::ServerLost);
    world.step(Input::ServerFound);
    assert_eq!(world.did(), "hello 0+ after 0");
    world.welcome(None);
    world.wait(Duration::from_secs(1));
    assert_eq!(world.did(), "leaving");
}

#[test]
fn a_worker_that_is_done_looks_for_its_server_to_tell_the_results() {
    let finishes = |config: &mut WorkerConfig| {
        config.on_server_lost = OnServerLost::FinishRunning;
        config.reconnect_timeout = Duration::from_secs(60);
    };
    let lose_and_finish = || {
        let mut world = World::new(finishes);
        world.run(1, "0-2", 0, |_| {});
        world.step(Input::ServerLost);
        world.wait(Duration::from_secs(100));
        assert_eq!(world.worker.next_wakeup(), None, "it waits for its tasks");
        world.end(1, 0, Outcome::Finished);
        world.end(1, 1, failed());
        assert_eq!(world.did(), "start 1@0/0, start 1@1/0");
        let tasks = "0-1".parse().expect("ids");
        assert_eq!(world.worker.untold(), [(JobId(1), tasks)]);
        world
    };
    let mut world = lose_and_finish();
    world.wait(Duration::from_secs(59));
    world.step(Input::ServerFound);
    assert_eq!(
        world.did(),
        "hello  after 1, finished 1:0, failed 1:1, returned 1:2, exit ConnectionLost",
        "the server came back in time"
    );
    let mut world = lose_and_finish();
    assert!(world.worker.next_wakeup().is_some_and(|at| at > world.now));
    world.wait(Duration::from_secs(60));
    assert_eq!(world.did(), "exit ConnectionLost", "the server did not come back");
    let mut world = lose_and_finish();
    world.step(Input::Interrupt);
    assert_eq!(world.did(), "exit ConnectionLost", "somebody wants it to be gone");
    let mut world = World::new(finishes);
    world.step(Input::ServerLost);
    assert_eq!(world.did(), "exit ConnectionLost", "there is nothing to tell");
}
