//! Objects that tasks leave for others.

use hq_model::{ObjectId, TaskRef, WorkerId};

use super::*;
use crate::object_messages::{ObjectCopy, ObjectEnd, ObjectNews, ObjectRequest, ObjectState, Unfetched};

pub(super) const PRODUCER: JobId = JobId(1);
pub(super) const READER: JobId = JobId(2);

pub(super) fn object(text: &str) -> ObjectId {
    text.parse().expect(text)
}

pub(super) fn copy(text: &str, instance: u32) -> ObjectCopy {
    ObjectCopy { object: object(text), instance: Instance(instance), size: 7, checksum: 9 }
}

pub(super) fn leaves(spec: &mut TaskSpec) {
    spec.output_objects = vec!["parts=out/parts.bin".parse().expect("an object")];
}

pub(super) fn takes(text: &str) -> impl FnOnce(&mut TaskSpec) {
    let input = text.parse().expect(text);
    |spec| spec.input_objects = vec![input]
}

impl World {
    pub(super) fn leaves_object(&mut self, connection: u64, task: u32, instance: u32) {
        self.reports(connection, |report| {
            let stored = vec![copy(&format!("1@{task}:parts"), instance)];
            report.objects = Some(Box::new(ObjectNews { stored, ..ObjectNews::default() }));
            report.finished = vec![finished(PRODUCER, task, task, instance)];
        });
    }

    fn unfetched(&mut self, connection: u64, instance: u32) {
        self.reports(connection, |report| {
            let unfetched = vec![Unfetched {
                task: TaskRef::new(READER, TaskId(0)),
                instance: Instance(instance),
                object: object("1@0:parts"),
                holders: vec![WorkerId(1)],
                reason: "the connection was refused".into(),
            }];
            report.objects = Some(Box::new(ObjectNews { unfetched, ..ObjectNews::default() }));
        });
    }

    // What a worker is told of the objects that tasks take, since the last call: `object/instance path from workers`.
    fn told_objects(&mut self, connection: u64) -> String {
        let mut told = Vec::new();
        for (_, message) in self.to_workers.iter().filter(|(to, _)| *to == connection) {
            let ToWorker::Run(batches) = message else { continue };
            for input in batches.iter().flat_map(|batch| &batch.objects).flat_map(|task| &task.inputs) {
                let holders: Vec<String> = input.holders.iter().map(|node| node.worker.to_string()).collect();
                let (path, copy) = (String::from_utf8_lossy(&input.path), &input.copy);
                told.push(format!("{}/{} {path} from {}", copy.object, copy.instance, holders.join(",")));
            }
        }
        self.to_workers.retain(|(to, _)| *to != connection);
        told.join(" ")
    }

    fn object_state(&mut self, text: &str) -> ObjectState {
        let page = self.ask(ClientRequest::Objects(ObjectRequest::Info(object(text))));
        let ClientResponse::Objects(mut page) = page else { panic!("{page:?}") };
        page.objects.remove(0).state
    }

    fn abort_reason(&self, job: JobId) -> String {
        self.server.state().jobs[&job].abort_reasons[0].1.clone()
    }
}

#[test]
fn a_reader_waits_for_the_object_and_is_told_where_it_is() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.submit(1, takes("in=1@0:parts->in/parts.bin"));
    assert_eq!(world.sent(1), "1:0/0", "the reader waits");
    assert_eq!(world.object_state("1@0:parts"), ObjectState::Awaited);
    world.leaves_object(1, 0, 0);
    assert_eq!(world.told_objects(1), "1@0:parts/0 in/parts.bin from 1");
    assert_eq!(world.object_state("1@0:parts"), ObjectState::Stored);
}

#[test]
fn element_after_element() {
    let mut world = World::new();
    world.worker(1, 4);
    world.submit(2, leaves);
    world.submit(2, takes("in=1@%{TASK_ID}:parts"));
    world.leaves_object(1, 1, 0);
    assert_eq!(world.told_objects(1), "1@1:parts/0 in from 1");
    assert_eq!(world.states(READER), "waiting: 2 waiting");
}

#[test]
fn what_nobody_leaves_is_refused() {
    let mut world = World::new();
    world.submit(1, leaves);
    let refused = |world: &mut World, text: &str| {
        let mut spec = one_cpu();
        takes(text)(&mut spec);
        let submit = Submit::new(Target::New(JobSpec::default()), TaskIds::Next(1), spec);
        match world.answer_to(submit) {
            ClientResponse::Error(error) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let text = "Task 1@0 leaves no object `other`. It leaves parts.";
    assert_eq!(refused(&mut world, "a=1@0:other"), text);
    assert_eq!(refused(&mut world, "a=1@7:parts"), RequestError::NoTask(JobId(1), TaskId(7)).to_string());
    assert_eq!(refused(&mut world, "a=9@0:parts"), RequestError::NoJob(JobId(9)).to_string());
    assert_eq!(
        refused(&mut world, "a=@3:parts"),
        "`a=@3:parts`: no earlier submit of the same job has task 3."
    );
}

#[test]
fn only_workers_that_store_get_such_tasks() {
    let mut world = World::new();
    world.worker_saying(1, 4, |hello| hello.stores = false);
    world.submit(1, leaves);
    assert_eq!(world.sent(1), "");
    world.worker(2, 4);
    assert_eq!(world.sent(2), "1:0/0");
}

#[test]
fn an_object_is_lost_with_its_last_worker() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    world.says(1, FromWorker::Leaving { end: WorkerEnd::Stopped });
    assert!(matches!(world.object_state("1@0:parts"), ObjectState::Gone(ObjectEnd::Lost(_))));
}

#[test]
fn readers_that_wait_are_given_up_with_the_cause() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    // There is no room for it.
    world.submit(1, |spec| {
        takes("in=1@0:parts")(spec);
        spec.requests = vec![cpus(2)];
    });
    world.reports(1, |report| {
        let lost = vec![object("1@0:parts")];
        report.objects = Some(Box::new(ObjectNews { lost, ..ObjectNews::default() }));
    });
    assert_eq!(world.states(READER), "aborted: 1 aborted");
    let reason = world.abort_reason(READER);
    assert!(
        reason.starts_with("Object 1@0:parts is gone, which this task takes: it was last on worker 1 ("),
        "{reason}"
    );
    assert!(reason.ends_with("which does not store it any more."), "{reason}");
}

#[test]
fn what_could_not_be_had_is_tried_again_and_then_given_up() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    world.submit(1, takes("in=1@0:parts"));
    for instance in 0..8 {
        assert_eq!(world.told_objects(1), "1@0:parts/0 in from 1", "{instance}");
        world.unfetched(1, instance);
        world.wait(Duration::from_secs(60));
    }
    assert_eq!(world.states(READER), "aborted: 1 aborted");
    let reason = world.abort_reason(READER);
    assert!(reason.contains("could not be had in 8 attempts") && reason.contains("refused"), "{reason}");
}

#[test]
fn nothing_is_lost_while_workers_may_come_back() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    world.restart();
    world.wait(Duration::from_secs(1));
    assert_eq!(world.object_state("1@0:parts"), ObjectState::Stored);
    world.worker_saying(2, 1, |hello| {
        hello.known_as = Some(WorkerId(1));
        hello.objects = vec![copy("1@0:parts", 0), copy("9@0:x", 0)];
    });
    assert_eq!(world.sent(2), "free 9@0:x");
    world.submit(1, takes("in=1@0:parts"));
    assert_eq!(world.told_objects(2), "1@0:parts/0 in from 1");
    world.restart();
    world.wait(Duration::from_secs(600));
    assert!(matches!(world.object_state("1@0:parts"), ObjectState::Gone(ObjectEnd::Lost(_))));
}

#[test]
fn what_is_dropped_or_forgotten_is_freed() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    world.submit(1, |spec| {
        takes("in=1@0:parts")(spec);
        spec.requests = vec![cpus(2)];
    });
    let drop = || ClientRequest::Objects(ObjectRequest::Drop(vec![object("1@0:parts")]));
    let refused = RequestError::ObjectNeeded(object("1@0:parts"), TaskRef::new(READER, TaskId(0)));
    assert_eq!(world.ask(drop()), ClientResponse::Error(refused));
    let jobs = Selector::Ids(IdSet::range(2, 2));
    world.ask(ClientRequest::Cancel { jobs, tasks: None, reason: None });
    world.sent(1);
    let keep = ClientRequest::Objects(ObjectRequest::Keep(vec![object("1@0:parts")]));
    assert_eq!(world.ask(keep), ClientResponse::Done);
    assert_eq!(world.ask(drop()), ClientResponse::Done);
    assert_eq!(world.sent(1), "free 1@0:parts");
    assert_eq!(world.object_state("1@0:parts"), ObjectState::Gone(ObjectEnd::Dropped));

    world.submit(1, leaves);
    world.reports(1, |report| {
        let stored = vec![copy("3@0:parts", 0)];
        report.objects = Some(Box::new(ObjectNews { stored, ..ObjectNews::default() }));
        report.finished = vec![finished(JobId(3), 0, 0, 0)];
    });
    world.sent(1);
    world.ask(ClientRequest::ForgetJobs { jobs: Selector::Ids(IdSet::range(3, 3)), states: Vec::new() });
    world.wait(Duration::from_secs(1));
    assert_eq!(world.sent(1), "free 3@0:parts");
}
