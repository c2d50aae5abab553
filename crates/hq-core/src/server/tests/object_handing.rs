//! Workers that leave hand on what they alone store and somebody needs.

use hq_model::WorkerId;
use hq_model::selector::Selector;
use hq_model::worker::StoreConfig;

use super::objects::{leaves, object, stored};
use super::*;
use crate::limits::HAND_ON_BYTES_PER_SECOND;
use crate::object_messages::ObjectNews;

// Some workers with stores, numbered from 1. The first one has the object, of 7 bytes, which a user keeps.
fn world(sizes: &[u64]) -> World {
    let mut world = World::new();
    for (place, size) in sizes.iter().enumerate() {
        world.worker_saying(place as u64 + 1, 1, |hello| {
            hello.config.object_store = Some(StoreConfig { dir: "/store".into(), size: *size, spill: None });
        });
        if place == 0 {
            world.submit(1, leaves);
            world.leaves_object(1, 0, 0);
            world.keeps("1@0:parts");
        }
    }
    for connection in 1..=sizes.len() as u64 {
        world.guards(connection);
    }
    world
}

// What is said of kept objects that go with the worker.
fn stops(world: &mut World, worker: u32, drain: bool) -> Vec<String> {
    let workers = Selector::Ids(IdSet::single(TaskId(worker)));
    let answer = world.ask(ClientRequest::StopWorkers { workers, drain });
    let ClientResponse::WorkersStopped { alone, alone_count, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(alone.len() as u64, alone_count);
    alone.iter().map(ToString::to_string).collect()
}

// Who was told to fetch it since the last call, and what the first worker was told of what it guards.
fn told(world: &mut World) -> (Vec<u64>, String) {
    let takers = world.to_workers.iter().filter_map(|(to, message)| match message {
        ToWorker::BringObjects(sources) => {
            let [source] = &sources[..] else { panic!("{sources:?}") };
            assert_eq!(source.copy.object, object("1@0:parts"));
            assert_eq!(source.holders.iter().map(|holder| holder.worker).collect::<Vec<_>>(), [WorkerId(1)]);
            Some(*to)
        }
        _ => None,
    });
    let takers = takers.collect();
    let guards = world.guards(1);
    world.to_workers.retain(|(_, message)| !matches!(message, ToWorker::BringObjects(_)));
    (takers, guards)
}

fn refuses(world: &mut World, connection: u64) {
    let refused = vec![(object("1@0:parts"), "no room".to_owned())];
    world.reports(connection, |report| {
        report.objects = Some(Box::new(ObjectNews { refused, ..ObjectNews::default() }));
    });
}

#[test]
fn what_only_a_worker_has_that_drains_goes_to_the_one_with_most_room() {
    let mut world = world(&[100, 100, 200]);
    assert_eq!(stops(&mut world, 1, true), [""; 0]);
    assert_eq!(told(&mut world), (vec![3], String::new()), "it stays until the other one has it");
    world.wait(Duration::from_secs(5));
    assert_eq!(told(&mut world), (vec![], String::new()));
    world.has_fetched(3, "1@0:parts");
    assert_eq!((told(&mut world), world.guards(3)), ((vec![], "-1@0:parts".into()), "+1@0:parts".into()));
}

#[test]
fn where_one_cannot_take_it_the_next_one_is_asked_and_in_the_end_it_goes() {
    let mut world = world(&[100, 100, 200]);
    stops(&mut world, 1, true);
    assert_eq!(told(&mut world).0, [3]);
    refuses(&mut world, 3);
    assert_eq!(told(&mut world), (vec![2], String::new()));
    refuses(&mut world, 2);
    assert_eq!(told(&mut world), (vec![], "-1@0:parts".into()));
}

#[test]
fn who_leaves_or_is_gone_takes_nothing() {
    let mut first = world(&[100, 100, 200]);
    stops(&mut first, 1, true);
    assert_eq!(told(&mut first).0, [3]);
    stops(&mut first, 3, true);
    assert_eq!(told(&mut first), (vec![2], String::new()));
    let mut second = world(&[100, 100, 200]);
    stops(&mut second, 1, true);
    told(&mut second);
    second.says(3, FromWorker::Leaving { end: WorkerEnd::Interrupted });
    assert_eq!(told(&mut second), (vec![2], String::new()));
}

#[test]
fn who_may_not_have_heard_that_it_is_to_take_something_is_told_again() {
    let mut world = world(&[100, 100, 200]);
    stops(&mut world, 1, true);
    assert_eq!(told(&mut world).0, [3]);
    world.step(Input::WorkerGone { connection: ConnectionId(3), is_closed: false });
    assert_eq!(told(&mut world), (vec![2], String::new()), "another one, as long as it is away");
    refuses(&mut world, 2);
    assert_eq!(told(&mut world), (vec![], "-1@0:parts".into()));
    world.worker_saying(4, 1, |hello| {
        hello.known_as = Some(WorkerId(3));
        hello.config.object_store = Some(StoreConfig { dir: "/store".into(), size: 200, spill: None });
    });
    assert_eq!(told(&mut world), (vec![4], "+1@0:parts".into()));
}

#[test]
fn what_nobody_can_take_is_named_before_it_goes() {
    let mut small = world(&[100, 6]);
    assert_eq!(stops(&mut small, 1, true), ["1@0:parts"]);
    assert_eq!(told(&mut small), (vec![], "-1@0:parts".into()), "nothing is waited for");
    let mut alone = world(&[100]);
    assert_eq!(stops(&mut alone, 1, true), ["1@0:parts"]);
    // There is no time to hand it on.
    let mut hurried = world(&[100, 100]);
    assert_eq!(stops(&mut hurried, 1, false), ["1@0:parts"]);
    let mut elsewhere = world(&[100, 100]);
    elsewhere.has_fetched(2, "1@0:parts");
    assert_eq!(stops(&mut elsewhere, 1, true), [""; 0]);
    assert_eq!(told(&mut elsewhere), (vec![], "-1@0:parts".into()));
    assert_eq!(stops(&mut elsewhere, 2, false), ["1@0:parts"], "the other one goes, too");
}

#[test]
fn a_worker_that_leaves_by_itself_hands_on_too() {
    let mut world = world(&[100, 100]);
    world.reports(1, |report| report.is_leaving = true);
    assert_eq!(told(&mut world).0, [2]);
}

#[test]
fn what_finds_no_room_beside_what_is_on_its_way_is_named() {
    let mut world = world(&[100, 13]);
    world.submit(1, leaves);
    world.reports(1, |report| {
        report.objects = stored("2@0:parts", 0);
        report.finished = vec![finished(JobId(2), 0, 0, 0)];
    });
    world.keeps("2@0:parts");
    world.guards(1);
    assert_eq!(stops(&mut world, 1, true), ["2@0:parts"]);
    let (takers, guards) = told(&mut world);
    assert_eq!((takers, guards.as_str()), (vec![2], "-2@0:parts"));
}

// Workers that end themselves after so many seconds, if ever. The first one has the object, of so many bytes, which a user keeps.
fn ending(size: u64, limits: &[Option<u64>]) -> World {
    let mut world = World::new();
    for (place, limit) in limits.iter().enumerate() {
        joins(&mut world, place as u64 + 1, *limit);
        if place == 0 {
            world.submit(1, leaves);
            stores(&mut world, 1, size, vec![finished(JobId(1), 0, 0, 0)]);
            world.keeps("1@0:parts");
        }
    }
    for connection in 1..=limits.len() as u64 {
        world.guards(connection);
    }
    world
}

fn joins(world: &mut World, connection: u64, limit: Option<u64>) {
    world.worker_saying(connection, 1, |hello| {
        hello.config.object_store = Some(StoreConfig { dir: "/store".into(), size: 1 << 50, spill: None });
        hello.config.time_limit = limit.map(Duration::from_secs);
        hello.config.time_reserve = Duration::from_secs(30);
    });
}

fn stores(world: &mut World, connection: u64, size: u64, finished: Vec<FinishedSpan>) {
    world.reports(connection, |report| {
        report.objects = stored("1@0:parts", 0);
        report.objects.iter_mut().flat_map(|news| &mut news.stored).for_each(|copy| copy.size = size);
        report.finished = finished;
    });
}

// It takes 110 s from a worker that stays for it until 3 s before its limit.
const LARGE: u64 = 100 * HAND_ON_BYTES_PER_SECOND;

#[test]
fn what_takes_long_is_handed_on_before_the_time_of_its_worker_is_over() {
    let mut world = ending(LARGE, &[Some(1000), None]);
    let begins = world.now.after(Duration::from_secs(1000 - 3 - 110));
    assert!(world.server.next_wakeup().is_some_and(|at| at <= begins));
    world.wait(Duration::from_secs(880));
    assert_eq!(told(&mut world), (vec![], String::new()));
    world.wait(Duration::from_secs(8));
    assert_eq!(told(&mut world), (vec![2], String::new()), "it stays until the other one has it");
    stores(&mut world, 2, LARGE, Vec::new());
    assert_eq!((told(&mut world), world.guards(2)), ((vec![], "-1@0:parts".into()), "+1@0:parts".into()));
}

#[test]
fn what_takes_little_is_handed_on_when_its_worker_ends_itself() {
    let mut world = ending(7, &[Some(1000), None]);
    world.wait(Duration::from_secs(969));
    assert_eq!(told(&mut world), (vec![], String::new()));
    world.reports(1, |report| report.is_leaving = true);
    assert_eq!(told(&mut world), (vec![2], String::new()));
}

#[test]
fn who_ends_as_soon_takes_nothing_from_one_whose_time_is_about_to_be_over() {
    for (limit, takers) in [(1000, vec![]), (1050, vec![]), (1061, vec![2])] {
        let mut world = ending(LARGE, &[Some(1000), Some(limit)]);
        world.wait(Duration::from_secs(888));
        assert_eq!(told(&mut world), (takers, String::new()), "{limit} s");
    }
    // It stays there, and who joins takes it.
    let mut world = ending(LARGE, &[Some(1000), Some(1000)]);
    world.wait(Duration::from_secs(888));
    joins(&mut world, 3, None);
    assert_eq!(told(&mut world), (vec![3], String::new()));
}

#[test]
fn what_an_attempt_left_in_vain_is_not_freed_where_the_object_is_about_to_come() {
    let mut world = world(&[100, 100, 200]);
    stops(&mut world, 1, true);
    assert_eq!(told(&mut world).0, [3]);
    let freed = |world: &mut World| -> Vec<u64> {
        let is_free = |message: &(u64, ToWorker)| matches!(message.1, ToWorker::FreeObjects(_));
        let (free, others) = std::mem::take(&mut world.to_workers).into_iter().partition(is_free);
        world.to_workers = others;
        Vec::into_iter(free).map(|message| message.0).collect()
    };
    // Perhaps it has fetched it by now: its word of that would be on the way.
    world.reports(3, |report| report.objects = stored("1@0:parts", 1));
    assert_eq!(freed(&mut world), []);
    refuses(&mut world, 3);
    assert_eq!(freed(&mut world), [3], "it does not come");
}
