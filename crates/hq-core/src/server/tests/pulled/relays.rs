//! Relays beside workers: they run nothing, so they are none of those that are counted, waited for, or stopped as all.

use super::*;

#[test]
fn what_relays_have_room_for_is_nothing_that_the_cluster_offers() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["a"], &[]);
    assert_eq!(table.take(1, "x", bag, 1), "a");
    let ClientResponse::Overview(seen) = table.world.ask(ClientRequest::Overview { seen: None }) else {
        panic!("an overview")
    };
    assert_eq!(seen.workers, crate::overview::WorkerCounts::default());
    assert_eq!(seen.resources, Vec::new());
}

#[test]
fn who_waits_for_workers_waits_for_those_that_run_something() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    assert_eq!(table.take(1, "x", bag, 1), "Wait");
    let wait =
        || Input::Client { connection: CLIENT, request: 7, body: ClientRequest::WaitWorkers { count: 1 } };
    assert_eq!(table.world.step(wait()), []);
    table.world.worker(50, 1);
    assert_eq!(table.world.step(wait()), [ClientResponse::Done]);
}

#[test]
fn all_workers_are_stopped_without_relays_which_are_named_by_themselves() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.create(bag, &["a"], &[]);
    assert_eq!(table.take(1, "x", bag, 1), "a");
    let relay = *table.world.server.state().workers.keys().next().expect("a relay");
    table.world.worker(50, 1);
    let worker = *table.world.server.state().workers.keys().last().expect("a worker");
    let stop = |workers| ClientRequest::StopWorkers { workers, drain: false };
    let stopped = |workers| ClientResponse::WorkersStopped {
        workers,
        away: Vec::new(),
        stopping: Vec::new(),
        alone: Vec::new(),
        alone_count: 0,
    };
    assert_eq!(table.world.ask(stop(Selector::All)), stopped(vec![worker]));
    table.pump();
    assert_eq!(table.finish(1, "x", "a"), Ok(()), "the relay has what was taken there");
    let named = Selector::Ids(IdSet::single(TaskId(relay.0)));
    assert_eq!(table.world.ask(stop(named)), stopped(vec![relay]));
}

#[test]
fn a_name_is_meant_in_one_bag_where_that_is_said() {
    let mut table = Table::new(1);
    let bags = ["dock", "other"].map(|name| table.open(name));
    for bag in bags {
        table.create(bag, &["a"], &[]);
        assert_eq!(table.take(1, "x", bag, 1), "a");
    }
    let named = |bag| Which::Named(b"a".to_vec(), bag);
    let mut finish = |which| table.end(1, "x", &which, How::Finished(Vec::new()));
    assert_eq!(finish(named(None)), Err(Refusal::Ambiguous));
    assert_eq!(finish(named(Some(bags[1]))), Ok(()));
    assert_eq!(finish(named(Some(bags[1]))), Err(Refusal::NotHeld));
    assert_eq!(finish(named(None)), Ok(()), "there is one left");
    assert_eq!(table.states(bags[0]), "opened: 1 finished");
}

#[test]
fn what_another_session_has_is_told_apart_from_what_nobody_has() {
    let mut table = Table::new(1);
    let bags = ["dock", "other"].map(|name| table.open(name));
    for bag in bags {
        table.create(bag, &["a", "b"], &[]);
    }
    assert_eq!(table.take(1, "x", bags[1], 1), "a");
    let named = |name: &str, bag| Which::Named(name.as_bytes().to_vec(), bag);
    let mut finish = |label: &str, which| table.end(1, label, &which, How::Finished(Vec::new()));
    assert_eq!(finish("y", named("a", None)), Err(held_by(bags[1], 0, "x")));
    assert_eq!(finish("y", named("a", Some(bags[1]))), Err(held_by(bags[1], 0, "x")));
    assert_eq!(
        finish("y", Which::Task(TaskRef::new(bags[1], TaskId(0)), None)),
        Err(held_by(bags[1], 0, "x"))
    );
    assert_eq!(finish("y", named("a", Some(bags[0]))), Err(Refusal::NotHeld), "that waits");
    assert_eq!(finish("x", named("b", None)), Err(Refusal::NotHeld));
    assert_eq!(finish("x", named("nope", None)), Err(Refusal::NotHeld));
    assert_eq!(finish("x", named("a", None)), Ok(()));
    assert_eq!(finish("y", named("a", None)), Err(Refusal::NotHeld), "it has ended");
}

#[test]
fn a_relay_is_no_worker_that_a_task_could_run_on() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    assert_eq!(table.take(1, "x", bag, 1), "Wait");
    let job = table.world.submit(1, |_| {});
    let request = ClientRequest::ExplainTask { jobs: Selector::Last, task: TaskId(0) };
    let ClientResponse::Explained(explained) = table.world.ask(request) else { panic!("an explanation") };
    let reasons: Vec<String> = explained.reasons.into_iter().map(|reason| reason.text).collect();
    let nobody = "no worker is connected, and no allocation queue could bring one; it needs one with cpus: 1";
    assert_eq!(reasons, [nobody], "job {job}");
}
