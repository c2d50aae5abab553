//! A journal that cannot be written: nothing is changed, who looks is answered, and workers and their tasks stay.

use std::time::Duration;

use hq_model::WorkerId;

use super::*;
use crate::server::Gate;
use crate::worker_messages::{Held, TemplateId};

#[test]
fn while_the_journal_cannot_be_written_nothing_changes_and_nothing_is_begun() {
    let mut world = World::new();
    let job = world.submit(1, |_| {});
    world.step(Input::JournalFails { error: "no space".into() });
    world.worker(2, 1);
    assert_eq!(world.sent(2), "", "nothing is begun");
    let answer = world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    let ClientResponse::Error(error) = answer else { panic!("{answer:?}") };
    assert_eq!(error.code(), "read-only");
    assert_eq!(world.states(job), "waiting: 1 waiting", "whoever only looks is answered");
    world.step(Input::JournalWorks);
    assert_eq!(world.sent(2), "1:0/0");
}

#[test]
fn who_only_looks_and_who_is_refused_never_waits_for_a_journal_that_cannot_be_written() {
    let mut world = World::new();
    world.submit(1, |_| {});
    let gate = |world: &mut World, body: ClientRequest| {
        let mut effects = Vec::new();
        let input = Input::Client { connection: CLIENT, request: 1, body };
        world.server.handle(world.now, input, &mut effects);
        effects.iter().find_map(|effect| match effect {
            Effect::Answer { gate, .. } => Some(*gate),
            _ => None,
        })
    };
    let cancel = ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None };
    for body in [ClientRequest::ServerInfo, ClientRequest::ListJobs { states: Vec::new() }] {
        // The machine may be asked before it is told that the journal fails.
        assert_eq!(gate(&mut world, body), Some(Gate::Shown));
    }
    world.step(Input::JournalFails { error: "no space".into() });
    assert_eq!(gate(&mut world, cancel.clone()), Some(Gate::Shown));
    world.step(Input::JournalWorks);
    assert_eq!(gate(&mut world, cancel), Some(Gate::Synced));
}

#[test]
fn workers_stay_while_the_journal_cannot_be_written() {
    let mut world = World::new();
    let job = world.submit(1, |_| {});
    world.worker(2, 1);
    assert_eq!(world.sent(2), "1:0/0");
    world.step(Input::JournalFails { error: "no space".into() });

    // The one that comes back is welcomed at once, and a new one waits for its welcome.
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    let hello = |known_as, queued| {
        let template = TemplateId { job, submit: 0 };
        let running = IdSet::new();
        let held =
            Held { template, instance: Instance(0), variant: None, queued, running, started: Vec::new() };
        FromWorker::Hello(Box::new(WorkerHello {
            config: WorkerConfig { heartbeat: Duration::from_secs(8), ..config(1) },
            started: Timestamp(1),
            age: None,
            known_as,
            secret: None,
            holds: known_as.map(|_| held).into_iter().collect(),
            last_report: 0,
            follows: false,
            follows_calls: false,
            shows: true,
            stores: true,
            relays: false,
            objects: Vec::new(),
        }))
    };
    let gates = |world: &mut World, connection, message| {
        let mut effects = Vec::new();
        let input = Input::Worker { connection: ConnectionId(connection), message };
        world.server.handle(world.now, input, &mut effects);
        effects.retain(|effect| matches!(effect, Effect::ToWorker { .. } | Effect::Persist { .. }));
        for effect in &effects {
            if let Effect::Persist { at, record } = effect {
                world.fold.apply(*at, record);
            }
        }
        let gate = |effect| match effect {
            Effect::ToWorker { message: ToWorker::Welcome(_), gate, .. } => Some(gate),
            _ => None,
        };
        effects.into_iter().filter_map(gate).collect::<Vec<_>>()
    };
    let held = IdSet::single(TaskId(0));
    assert_eq!(gates(&mut world, 3, hello(Some(WorkerId(1)), held)), [Gate::Open]);
    assert_eq!(gates(&mut world, 4, hello(None, IdSet::new())), [Gate::Synced]);
    let node = Box::<hq_model::NodeSample>::default();
    world.says(4, FromWorker::Sampled { node, tasks: None });
    for _ in 0..100 {
        world.says(3, FromWorker::Heartbeat);
        world.wait(Duration::from_secs(8));
    }
    let ends = |world: &World| [1, 2].map(|worker| world.server.worker_end(WorkerId(worker)));
    assert_eq!(ends(&world), [None, None]);
    assert_eq!(world.sent(3), "", "what it runs is left alone");

    // Its welcome leaves; then it is to be heard as all others are.
    world.step(Input::JournalWorks);
    world.says(3, FromWorker::Heartbeat);
    world.wait(Duration::from_secs(8));
    assert_eq!(ends(&world), [None, None]);
    world.says(3, FromWorker::Heartbeat);
    world.wait(Duration::from_secs(12));
    assert_eq!(ends(&world), [None, Some(WorkerEnd::HeartbeatLost)]);
}

#[test]
fn a_worker_whose_id_cannot_be_saved_is_not_said_to_be_stopped() {
    let mut world = World::new();
    world.worker(2, 1);
    world.says(2, FromWorker::Heartbeat);
    world.step(Input::JournalFails { error: "no space".into() });
    world.worker(3, 1);
    world.to_workers.clear();
    let stop = |workers| ClientRequest::StopWorkers { workers, drain: false };
    let only = |id| Selector::Ids(IdSet::single(TaskId(id)));
    let stopped = |world: &mut World, workers| match world.ask(stop(workers)) {
        ClientResponse::WorkersStopped { workers, .. } => Ok(workers),
        ClientResponse::Error(error) => Err(error.code()),
        other => panic!("{other:?}"),
    };
    for workers in [only(2), Selector::Last, Selector::Ids(IdSet::range(1, 2))] {
        assert_eq!(stopped(&mut world, workers), Err("read-only"));
    }
    assert_eq!((world.sent(2), world.sent(3)), (String::new(), String::new()), "nothing was changed");

    // Those that are known are stopped.
    assert_eq!(stopped(&mut world, Selector::All), Ok(vec![WorkerId(1)]));
    assert_eq!((world.sent(2), world.sent(3)), ("stop".into(), String::new()));
    world.says(2, FromWorker::Leaving { end: WorkerEnd::Stopped });
    assert_eq!(stopped(&mut world, Selector::All), Err("read-only"));

    // So is the new one, once there is room.
    world.step(Input::JournalWorks);
    assert_eq!(stopped(&mut world, Selector::All), Ok(vec![WorkerId(2)]));
    assert_eq!(world.sent(3), "stop");
}

#[test]
fn a_worker_that_comes_back_while_the_journal_cannot_be_written_can_be_stopped() {
    let mut world = World::new();
    world.worker(2, 1);
    world.step(Input::JournalFails { error: "no space".into() });
    world.step(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    world.worker_saying(3, 1, |hello| hello.known_as = Some(WorkerId(1)));
    world.to_workers.clear();
    let answer = world.ask(ClientRequest::StopWorkers { workers: Selector::All, drain: false });
    assert_eq!(
        answer,
        ClientResponse::WorkersStopped {
            workers: vec![WorkerId(1)],
            away: Vec::new(),
            stopping: Vec::new(),
            alone: Vec::new(),
            alone_count: 0
        }
    );
    assert_eq!(world.sent(3), "stop");
}
