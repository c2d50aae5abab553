//! Who is taken for a worker that is known.

use super::*;
use crate::WorkerSecret;
use hq_model::WorkerId;

const OWN: Option<WorkerSecret> = Some(WorkerSecret([1; 32]));
const OTHER: Option<WorkerSecret> = Some(WorkerSecret([2; 32]));

fn comes_as(world: &mut World, connection: u64, secret: Option<WorkerSecret>) -> WorkerId {
    world.to_workers.clear();
    world.worker_saying(connection, 1, |hello| {
        hello.known_as = Some(WorkerId(1));
        hello.secret = secret;
    });
    let welcome = world.to_workers.iter().find_map(|(to, message)| match message {
        ToWorker::Welcome(welcome) if *to == connection => Some(welcome.worker),
        _ => None,
    });
    welcome.expect("it is welcomed")
}

#[test]
fn nobody_takes_the_place_of_another_worker() {
    let mut world = World::new();
    let job = world.submit(1, |_| {});
    world.worker_saying(2, 1, |hello| hello.secret = OWN);
    world.reports(2, |r| r.started = vec![started(job, 0, 0)]);
    for (connection, secret, new) in [(3, OTHER, 2), (4, None, 3)] {
        assert_eq!(comes_as(&mut world, connection, secret), WorkerId(new), "{secret:?}");
        world.reports = 0;
        world.reports(connection, |r| r.finished = vec![finished(job, 0, 0, 0)]);
        assert_eq!(world.states(job), "running: 1 running", "it is not its task");
    }
    // Its connection is open, and it is heard.
    world.reports = 1;
    world.reports(2, |r| r.finished = vec![finished(job, 0, 0, 0)]);
    assert_eq!(world.states(job), "finished: 1 finished");
}

#[test]
fn a_worker_that_comes_back_is_known_by_its_secret_after_a_restart_too() {
    let mut world = World::new();
    world.worker_saying(2, 1, |hello| hello.secret = OWN);
    assert_eq!(comes_as(&mut world, 3, OWN), WorkerId(1));
    world.restart();
    assert_eq!(comes_as(&mut world, 4, OTHER), WorkerId(2));
    assert_eq!(comes_as(&mut world, 5, OWN), WorkerId(1));
}

#[test]
fn a_worker_of_an_earlier_release_has_nothing_to_show() {
    let mut world = World::new();
    world.worker(2, 1);
    world.restart();
    assert_eq!(comes_as(&mut world, 3, None), WorkerId(1));
}
