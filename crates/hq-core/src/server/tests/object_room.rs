//! Tasks whose objects find no room, and what clients give, keep and drop.

use hq_model::worker::StoreConfig;
use hq_model::{TaskRef, WorkerId};

use super::explanations::explained;
use super::objects::{PRODUCER, READER, leaves, object, takes};
use super::*;
use crate::object_messages::{GiveObject, ObjectNews, ObjectRequest, ObjectState};

const FIRST: TaskRef = TaskRef { job: PRODUCER, task: TaskId(0) };

// With a store of so many bytes.
fn worker(world: &mut World, connection: u64, size: u64) {
    world.worker_saying(connection, 1, |hello| {
        hello.config.object_store = Some(StoreConfig { dir: "/store".into(), size, spill: None });
    });
}

fn ask(world: &mut World, request: ObjectRequest) -> (Vec<String>, ClientResponse) {
    let body = ClientRequest::Objects(request);
    let mut answers = world.step(Input::Client { connection: CLIENT, request: 1, body });
    match answers.remove(0) {
        ClientResponse::Partly { refused, rest } => {
            (refused.iter().map(ToString::to_string).collect(), *rest)
        }
        rest => (Vec::new(), rest),
    }
}

#[test]
fn a_task_without_room_on_one_worker_goes_to_another_that_is_free() {
    let mut world = World::new();
    world.worker(1, 1);
    world.worker(2, 1);
    world.submit(1, leaves);
    assert_eq!((world.sent(1), world.sent(2)), ("1:0/0".into(), String::new()));
    world.finds_no_room(1, FIRST, 0, 7);
    world.wait(Duration::from_secs(2));
    assert_eq!((world.sent(1), world.sent(2)), (String::new(), "1:0/1".into()));
    // Neither had any: then each may.
    world.finds_no_room(2, FIRST, 1, 7);
    world.wait(Duration::from_secs(4));
    assert_eq!((world.sent(1), world.sent(2)), ("1:0/2".into(), String::new()));
}

#[test]
fn a_task_without_room_on_one_worker_waits_beside_no_other() {
    let mut world = World::new();
    world.worker(1, 1);
    world.worker(2, 1);
    world.submit(1, leaves);
    world.finds_no_room(1, FIRST, 0, 7);
    // Nobody else is free.
    world.submit(1, |spec| spec.requests = vec![cpus(1)]);
    let busy = if world.sent(1).ends_with("2:0/0") { 1 } else { 2 };
    world.sent(2);
    world.wait(Duration::from_secs(2));
    assert_eq!(world.sent(3 - busy), "1:0/1");
}

#[test]
fn tasks_go_where_each_of_them_had_room() {
    let mut world = World::new();
    world.worker(1, 1);
    world.worker(2, 1);
    world.submit(2, leaves);
    assert_eq!((world.sent(1), world.sent(2)), ("1:0/0".into(), "1:1/0".into()));
    world.finds_no_room(1, FIRST, 0, 7);
    world.finds_no_room(2, TaskRef { task: TaskId(1), ..FIRST }, 0, 7);
    world.wait(Duration::from_secs(2));
    assert_eq!((world.sent(1), world.sent(2)), ("1:1/1".into(), "1:0/1".into()));
}

// A store of ten bytes holds an object of seven that a user keeps.
fn full() -> World {
    let mut world = World::new();
    worker(&mut world, 1, 10);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    assert_eq!(world.ask(keep("1@0:parts")), ClientResponse::Done);
    world.submit(1, leaves);
    world
}

fn keep(text: &str) -> ClientRequest {
    ClientRequest::Objects(ObjectRequest::Keep(vec![object(text)]))
}

#[test]
fn it_is_said_early_that_all_stores_are_full_of_what_is_held() {
    let mut world = full();
    let task = TaskRef::new(READER, TaskId(0));
    for instance in 0..5 {
        assert_eq!(world.states(READER), "waiting: 1 waiting", "{instance}");
        world.finds_no_room(1, task, instance, 4);
        if instance == 0 {
            let told = explained(&mut world, READER, 0);
            let why = "could not be stored (no room; all stores that may take it are full of objects that users keep";
            assert!(told[0].contains(why), "{told:?}");
        }
        world.wait(Duration::from_secs(16));
    }
    assert_eq!(world.states(READER), "aborted: 1 aborted");
    let reason = world.abort_reason(READER);
    assert!(
        reason.starts_with("Tried 5 times: object 1@0:parts, which it leaves, could not be stored;"),
        "{reason}"
    );
    assert!(reason.contains("hq object drop"), "{reason}");
}

#[test]
fn what_is_let_go_gives_hope() {
    let mut world = full();
    let task = TaskRef::new(READER, TaskId(0));
    for instance in 0..4 {
        world.finds_no_room(1, task, instance, 4);
        world.wait(Duration::from_secs(16));
    }
    // Another one takes its place.
    let dropped = ClientRequest::Objects(ObjectRequest::Drop(vec![object("1@0:parts")]));
    assert_eq!(world.ask(dropped), ClientResponse::Done);
    world.finds_no_room(1, task, 4, 4);
    world.wait(Duration::from_secs(60));
    assert_eq!(world.states(READER), "waiting: 1 waiting");
}

#[test]
fn a_store_where_the_end_of_a_task_makes_room_is_waited_for() {
    let mut world = World::new();
    worker(&mut world, 1, 10);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    world.submit(1, |spec| {
        takes("in=1@0:parts")(spec);
        spec.requests = vec![cpus(2)];
    });
    world.submit(1, leaves);
    for instance in 0..7 {
        world.finds_no_room(1, TaskRef::new(JobId(3), TaskId(0)), instance, 4);
        world.wait(Duration::from_secs(60));
    }
    assert_eq!(world.states(JobId(3)), "waiting: 1 waiting");
}

fn give(name: &str) -> ObjectRequest {
    let name = name.parse().expect("a name");
    ObjectRequest::Give(Box::new(GiveObject {
        job: Err("given".into()),
        name,
        worker: WorkerId(1),
        file: "c-1".into(),
        is_dir: false,
    }))
}

impl World {
    // Which objects a worker is to take.
    fn told_files(&mut self) -> Vec<String> {
        let taken = self.to_workers.drain(..).filter_map(|(_, message)| match message {
            ToWorker::TakeFile { object, .. } => Some(object.to_string()),
            _ => None,
        });
        taken.collect()
    }

    fn has_taken(&mut self, name: &str) -> Vec<String> {
        let body = ClientRequest::Objects(give(name));
        assert_eq!(self.step(Input::Client { connection: CLIENT, request: 1, body }), []);
        self.told_files()
    }
}

#[test]
fn what_a_worker_refuses_costs_no_job_id() {
    let mut world = World::new();
    world.worker(1, 1);
    let refuse = |world: &mut World, text: &str| {
        let refused = vec![(object(text), "no room".to_owned())];
        world.reports(1, |report| {
            report.objects = Some(Box::new(ObjectNews { refused, ..ObjectNews::default() }));
        });
    };
    assert_eq!(world.has_taken("a"), ["1@0:a"]);
    refuse(&mut world, "1@0:a");
    assert_eq!(world.has_taken("b"), ["1@0:b"]);
    assert_eq!(world.has_taken("c"), ["2@0:c"], "the other one is not stored yet");
    // Another job has come since.
    refuse(&mut world, "1@0:b");
    assert_eq!(world.has_taken("d"), ["3@0:d"]);
    refuse(&mut world, "3@0:d");
    assert_eq!(world.submit(1, |_| {}), JobId(4));
    assert_eq!(world.has_taken("e"), ["5@0:e"]);
}

#[test]
fn a_worker_that_is_away_takes_nothing() {
    let mut world = World::new();
    world.worker(1, 1);
    world.step(Input::WorkerGone { connection: ConnectionId(1), is_closed: false });
    let ClientResponse::Error(error) = world.ask(ClientRequest::Objects(give("a"))) else {
        panic!("refused")
    };
    assert!(
        error.to_string().starts_with("Worker 1 has no connection to the server now. Try again"),
        "{error}"
    );
}

#[test]
fn what_can_be_kept_and_dropped_is_and_the_rest_is_named() {
    let mut world = World::new();
    world.worker(1, 2);
    world.submit(2, leaves);
    world.leaves_object(1, 0, 0);
    world.leaves_object(1, 1, 0);
    let all = || ["1@0:parts", "1@1:parts", "9@0:x"].map(object).to_vec();
    let (refused, rest) = ask(&mut world, ObjectRequest::Keep(all()));
    assert_eq!((refused, rest), (vec!["Job 9 not found.".into()], ClientResponse::Done));
    assert_eq!(ask(&mut world, ObjectRequest::Drop(vec![object("1@0:parts")])).1, ClientResponse::Done);
    let (refused, rest) = ask(&mut world, ObjectRequest::Drop(all()));
    assert_eq!(rest, ClientResponse::Done);
    assert_eq!(refused, ["Object 1@0:parts is gone: it was dropped.", "Job 9 not found."]);
    assert!(matches!(world.object_state("1@1:parts"), ObjectState::Gone(_)));
    let (refused, rest) = ask(&mut world, ObjectRequest::Drop(all()));
    assert_eq!((refused.len(), rest), (2, ClientResponse::Error(RequestError::NoJob(JobId(9)))));
}

#[test]
fn objects_of_the_last_job() {
    let mut world = World::new();
    let submit = |world: &mut World| {
        let mut spec = one_cpu();
        takes("in=last@0:parts")(&mut spec);
        world.answer_to(Submit::new(Target::New(JobSpec::default()), TaskIds::Next(1), spec))
    };
    assert_eq!(submit(&mut world), ClientResponse::Error(RequestError::NoJobs));
    world.submit(1, |_| {});
    world.submit(1, leaves);
    let ClientResponse::Submitted { job, .. } = submit(&mut world) else { panic!("submitted") };
    let taken = &world.server.state().jobs[&job].submits[0].task.input_objects[0];
    assert_eq!(taken.to_string(), "in=2@0:parts");
    assert!(
        matches!(submit(&mut world), ClientResponse::Error(RequestError::NoObject(..))),
        "the last one leaves none"
    );
}
