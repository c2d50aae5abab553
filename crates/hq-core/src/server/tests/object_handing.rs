//! Workers that leave hand on what they alone store and somebody needs.

use hq_model::WorkerId;
use hq_model::selector::Selector;
use hq_model::worker::StoreConfig;

use super::objects::{leaves, object, stored};
use super::*;
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
