//! Objects that tasks leave for others.

use hq_model::worker::StoreConfig;
use hq_model::{ObjectId, TaskRef, WorkerId};

use super::explanations::explained;
use super::*;
use crate::object_messages::{ObjectCopy, ObjectEnd, ObjectNews, ObjectRequest, ObjectState, Unfetched};
use crate::worker_messages::{Held, TemplateId};

pub(super) const PRODUCER: JobId = JobId(1);
pub(super) const READER: JobId = JobId(2);

pub(super) fn object(text: &str) -> ObjectId {
    text.parse().expect(text)
}

pub(super) fn copy(text: &str, instance: u32) -> ObjectCopy {
    ObjectCopy { object: object(text), instance: Instance(instance), size: 7, checksum: 9, is_dir: false }
}

/// What a worker says that stores an object.
pub(super) fn stored(text: &str, instance: u32) -> Option<Box<ObjectNews>> {
    Some(Box::new(ObjectNews { stored: vec![copy(text, instance)], ..ObjectNews::default() }))
}

/// What one says that does not store it any more.
pub(super) fn lost(text: &str) -> Option<Box<ObjectNews>> {
    Some(Box::new(ObjectNews { lost: vec![object(text)], ..ObjectNews::default() }))
}

pub(super) fn leaves(spec: &mut TaskSpec) {
    spec.output_objects = vec!["parts=out/parts.bin".parse().expect("an object")];
}

pub(super) fn leaves_once(spec: &mut TaskSpec) {
    leaves(spec);
    spec.crash_limit = CrashLimit::NeverRestart;
}

pub(super) fn takes(text: &str) -> impl FnOnce(&mut TaskSpec) {
    let input = text.parse().expect(text);
    |spec| spec.input_objects = vec![input]
}

impl World {
    pub(super) fn leaves_object(&mut self, connection: u64, task: u32, instance: u32) {
        self.reports(connection, |report| {
            report.objects = stored(&format!("1@{task}:parts"), instance);
            report.finished = vec![finished(PRODUCER, task, task, instance)];
        });
    }

    fn unfetched(&mut self, connection: u64, instance: u32) {
        self.comes_back(connection, READER, instance, "the connection was refused");
    }

    // The first task of a job comes back, since the object could not be had, or not be stored.
    fn comes_back(&mut self, connection: u64, job: JobId, instance: u32, reason: &str) {
        let (task, holders) = (TaskRef::new(job, TaskId(0)), vec![WorkerId(1)]);
        self.has_not(connection, (task, instance), (holders, 0), reason);
    }

    // A task that leaves an object comes back, since so many bytes find no room in the store.
    pub(super) fn finds_no_room(&mut self, connection: u64, task: TaskRef, instance: u32, wanted: u64) {
        self.has_not(connection, (task, instance), (Vec::new(), wanted), "no room");
    }

    fn has_not(
        &mut self,
        connection: u64,
        (task, instance): (TaskRef, u32),
        (holders, wanted): (Vec<WorkerId>, u64),
        reason: &str,
    ) {
        self.reports(connection, |report| {
            let unfetched = vec![Unfetched {
                task,
                instance: Instance(instance),
                object: object("1@0:parts"),
                holders,
                reason: reason.into(),
                wanted,
            }];
            report.objects = Some(Box::new(ObjectNews { unfetched, ..ObjectNews::default() }));
        });
    }

    // What a worker is told of the objects that tasks take, since the last call: `object/instance path from workers`.
    pub(super) fn told_objects(&mut self, connection: u64) -> String {
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

    pub(super) fn object_state(&mut self, text: &str) -> ObjectState {
        let page = self.ask(ClientRequest::Objects(ObjectRequest::Info(object(text))));
        let ClientResponse::Objects(mut page) = page else { panic!("{page:?}") };
        page.objects.remove(0).state
    }

    pub(super) fn abort_reason(&self, job: JobId) -> String {
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
fn what_many_take_is_told_once() {
    let mut world = World::new();
    world.worker(1, 2000);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    world.submit(1000, takes("in=1@0:parts"));
    let told = world.to_workers.iter().flat_map(|(_, message)| match message {
        ToWorker::Run(batches) => batches.iter().flat_map(|batch| &batch.objects).collect(),
        _ => Vec::new(),
    });
    let told: Vec<_> = told.map(|objects| (objects.tasks.clone(), objects.inputs.len())).collect();
    assert_eq!(told, [(IdSet::range(0, 999), 1)]);
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
    assert_eq!(world.server.wastes_nothing(world.now), Ok(()), "its room is not for them");
    world.worker(2, 4);
    assert_eq!(world.sent(2), "1:0/0");
}

#[test]
fn what_waits_on_a_worker_that_stores_is_not_asked_back_for_one_that_does_not() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(3, leaves);
    assert_eq!(world.sent(1), "1:0-1/0", "the second one waits there");
    world.worker_saying(2, 4, |hello| hello.stores = false);
    assert_eq!((world.sent(1), world.sent(2)), (String::new(), String::new()));
    world.worker(3, 4);
    assert_eq!((world.sent(1), world.sent(3)), ("<1:1".into(), "1:2/0".into()));
}

#[test]
fn an_object_is_lost_with_its_last_worker() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    world.says(1, FromWorker::Leaving { end: WorkerEnd::Stopped });
    let state = world.object_state("1@0:parts");
    assert!(matches!(state, ObjectState::Lost { rebuilt_by: None, .. }), "nobody needs it: {state:?}");
    world.submit(1, leaves_once);
    world.worker(2, 1);
    world.sent(2);
    world.reports(2, |report| {
        report.objects = stored("2@0:parts", 0);
        report.finished = vec![finished(JobId(2), 0, 0, 0)];
    });
    world.says(2, FromWorker::Leaving { end: WorkerEnd::Stopped });
    assert!(matches!(world.object_state("2@0:parts"), ObjectState::Gone(ObjectEnd::Lost(_))));
}

#[test]
fn a_lost_object_is_left_once_more_for_those_that_need_it() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, |spec| {
        leaves(spec);
        spec.cwd = b"run-%{JOB_ID}".to_vec();
        spec.body = Body::program(["true", "%{JOB_ID} %{TASK_ID}"]);
    });
    world.leaves_object(1, 0, 0);
    world.says(1, FromWorker::Leaving { end: WorkerEnd::Stopped });
    assert_eq!(world.server.state().jobs.len(), 1, "nobody needs it");
    world.submit(1, takes("in=1@0:parts"));
    let last = world.ask(ClientRequest::TaskIds { jobs: Selector::Last, states: Vec::new() });
    assert!(matches!(&last, ClientResponse::TaskIds(jobs) if jobs[0].0 == READER), "{last:?}");
    world.submit(1, takes("in=1@0:parts"));
    let again = JobId(3);
    let spec = &world.server.state().jobs[&again].submits[0].task;
    assert_eq!(
        (&spec.cwd[..], spec.body.texts()),
        (&b"run-1"[..], &[b"true".to_vec(), b"1 %{TASK_ID}".to_vec()][..])
    );
    assert_eq!(world.server.state().jobs[&again].spec.name, "rebuild 1@0");
    assert_eq!(world.states(PRODUCER), "finished: 1 finished", "it stays finished");
    world.worker(2, 1);
    assert_eq!(world.sent(2), "3:0/0", "the readers wait");
    assert_eq!(
        explained(&mut world, READER, 0),
        ["it waits for task 3@0 of `rebuild 1@0`, which is waiting"]
    );
    let state = world.object_state("1@0:parts");
    assert!(matches!(state, ObjectState::Lost { rebuilt_by: Some(JobId(3)), .. }), "{state:?}");
    world.restart();
    world.worker_saying(2, 1, |hello| {
        hello.known_as = Some(WorkerId(2));
        hello.holds = vec![Held {
            template: TemplateId { job: again, submit: 0 },
            variant: None,
            instance: Instance(0),
            queued: IdSet::new(),
            running: IdSet::single(TaskId(0)),
            started: vec![Timestamp(9)],
        }];
    });
    world.reports(2, |report| {
        report.objects = stored("1@0:parts", 1);
        report.finished = vec![finished(again, 0, 0, 0)];
    });
    assert_eq!(world.told_objects(2), "1@0:parts/1 in from 2");
    assert_eq!(world.object_state("1@0:parts"), ObjectState::Stored);
    let ClientResponse::Objects(page) = world.ask(ClientRequest::Objects(ObjectRequest::List {
        jobs: Selector::All,
        phases: Vec::new(),
        after: None,
    })) else {
        panic!("a page")
    };
    assert_eq!(page.objects.len(), 1, "job 3 has none of its own");
}

#[test]
fn what_is_lost_before_it_is_left_once_more_too() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    // It leaves something of what it takes.
    world.submit(1, |spec| {
        leaves(spec);
        takes("in=1@0:parts")(spec);
    });
    world.reports(1, |report| {
        report.objects = stored("2@0:parts", 0);
        report.finished = vec![finished(JobId(2), 0, 0, 0)];
    });
    world.says(1, FromWorker::Leaving { end: WorkerEnd::Stopped });
    world.submit(1, takes("in=2@0:parts"));
    let names = |world: &World| -> Vec<String> {
        world.server.state().jobs.values().map(|job| job.spec.name.clone()).skip(3).collect()
    };
    assert_eq!(names(&world), ["rebuild 2@0", "rebuild 1@0"]);
    world.worker(2, 1);
    assert_eq!(world.sent(2), "5:0/0");
    world.reports(2, |report| report.failed = vec![(JobId(5), failed(0, 0, 1))]);
    assert_eq!(world.states(JobId(4)), "aborted: 1 aborted");
    assert_eq!(world.states(JobId(3)), "aborted: 1 aborted");
    let reason = world.abort_reason(JobId(4));
    assert!(
        reason.contains("1@0:parts") && reason.contains("job 5, which was to leave it once more, is failed"),
        "{reason}"
    );
    assert!(world.abort_reason(JobId(3)).contains("2@0:parts"));
}

#[test]
fn what_is_lost_again_and_again_is_given_up() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    world.says(1, FromWorker::Leaving { end: WorkerEnd::Stopped });
    world.submit(1, |spec| {
        takes("in=1@0:parts")(spec);
        spec.requests = vec![cpus(2)];
    });
    for time in 0..3_u32 {
        let (worker, again) = (2 + u64::from(time), JobId(3 + time));
        world.worker(worker, 1);
        assert_eq!(world.sent(worker), format!("{again}:0/0"));
        world.reports(worker, |report| {
            report.objects = stored("1@0:parts", 1 + time);
            report.finished = vec![finished(again, 0, 0, 0)];
        });
        world.says(worker, FromWorker::Leaving { end: WorkerEnd::Stopped });
    }
    assert_eq!(world.states(READER), "aborted: 1 aborted");
    let reason = world.abort_reason(READER);
    assert!(reason.ends_with("and it was lost again after it had been left 3 times more."), "{reason}");
}

#[test]
fn a_job_whose_objects_are_needed_is_not_forgotten() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    world.submit(1, |spec| {
        takes("in=1@0:parts")(spec);
        spec.requests = vec![cpus(2)];
    });
    let forget = || ClientRequest::ForgetJobs { jobs: Selector::Ids(IdSet::range(1, 1)), states: Vec::new() };
    let refused = "Job 1 is needed by job 2, which takes its objects and has not ended.";
    assert_eq!(world.ask(forget()), ClientResponse::Error(RequestError::Invalid(refused.into())));
    let jobs = Selector::Ids(IdSet::range(2, 2));
    world.ask(ClientRequest::Cancel { jobs, tasks: None, reason: None });
    assert_eq!(world.ask(forget()), ClientResponse::Jobs(vec![PRODUCER]));
}

#[test]
fn readers_that_wait_are_given_up_with_the_cause() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves_once);
    world.leaves_object(1, 0, 0);
    // There is no room for it.
    world.submit(1, |spec| {
        takes("in=1@0:parts")(spec);
        spec.requests = vec![cpus(2)];
    });
    world.reports(1, |report| {
        report.objects = lost("1@0:parts");
    });
    assert_eq!(world.states(READER), "aborted: 1 aborted");
    let reason = world.abort_reason(READER);
    assert!(
        reason.starts_with("Object 1@0:parts is gone, which this task takes: it was last on worker 1 ("),
        "{reason}"
    );
    assert!(reason.contains("which does not store it any more, and task 1@0 does not run again"), "{reason}");
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
        if instance == 0 {
            let why = "object 1@0:parts, which it takes, could not be had (the connection was refused), and it is tried again in";
            assert!(explained(&mut world, READER, 0)[0].starts_with(why));
        }
        world.wait(Duration::from_secs(60));
    }
    assert_eq!(world.states(READER), "aborted: 1 aborted");
    let reason = world.abort_reason(READER);
    assert_eq!(
        reason,
        "Tried 8 times: object 1@0:parts, which it takes, could not be had; the last time: the connection was refused"
    );
    assert_eq!(explained(&mut world, READER, 0), [format!("it does not wait: it was aborted: {reason}")]);
}

#[test]
fn what_is_larger_than_any_store_is_not_tried_again() {
    let mut world = World::new();
    world.worker_saying(1, 1, |hello| {
        hello.config.object_store = Some(StoreConfig { dir: "/store".into(), size: 6, spill: None });
    });
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    world.submit(1, takes("in=1@0:parts"));
    world.sent(1);
    world.unfetched(1, 0);
    assert_eq!(world.states(READER), "aborted: 1 aborted");
    assert!(world.abort_reason(READER).contains("fits into the store of no worker"));
}

#[test]
fn what_finds_no_room_is_tried_again() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.sent(1);
    world.comes_back(1, PRODUCER, 0, "7 bytes do not fit");
    let why = "object 1@0:parts, which it leaves, could not be stored (7 bytes do not fit), and it is tried again in";
    let told = explained(&mut world, PRODUCER, 0);
    assert!(told[0].starts_with(why), "{told:?}");
    world.wait(Duration::from_secs(2));
    assert_eq!(world.sent(1), "1:0/1");
}

// Those that are to be tried again later when the loss is known do not make a job each.
#[test]
fn readers_that_wait_for_another_try_are_put_behind_at_once() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    world.worker(2, 1);
    world.submit(1, takes("in=1@0:parts"));
    let with = if world.sent(1).ends_with("2:0/0") { 1 } else { 2 };
    world.unfetched(with, 0);
    world.sent(2);
    world.says(1, FromWorker::Leaving { end: WorkerEnd::Stopped });
    assert_eq!(world.sent(2), "3:0/0");
    world.reports(2, |report| {
        report.objects = stored("1@0:parts", 1);
        report.finished = vec![finished(JobId(3), 0, 0, 0)];
    });
    assert_eq!(world.sent(2), "2:0/1", "without waiting for the end of the delay");
    world.wait(Duration::from_secs(600));
    assert_eq!(world.sent(2), "", "once");
}

#[test]
fn what_is_lost_can_be_dropped() {
    let mut world = World::new();
    world.worker(1, 1);
    world.submit(1, leaves);
    world.leaves_object(1, 0, 0);
    let keep = ClientRequest::Objects(ObjectRequest::Keep(vec![object("1@0:parts")]));
    assert_eq!(world.ask(keep), ClientResponse::Done);
    world.says(1, FromWorker::Leaving { end: WorkerEnd::Stopped });
    let drop = ClientRequest::Objects(ObjectRequest::Drop(vec![object("1@0:parts")]));
    assert_eq!(world.ask(drop), ClientResponse::Done);
    assert_eq!(world.object_state("1@0:parts"), ObjectState::Gone(ObjectEnd::Dropped));
    assert!(!world.server.state().objects.get(&object("1@0:parts")).is_some_and(|known| known.is_kept));
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
    assert!(matches!(world.object_state("1@0:parts"), ObjectState::Lost { .. }));
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
        report.objects = stored("3@0:parts", 0);
        report.finished = vec![finished(JobId(3), 0, 0, 0)];
    });
    world.sent(1);
    world.ask(ClientRequest::ForgetJobs { jobs: Selector::Ids(IdSet::range(3, 3)), states: Vec::new() });
    world.wait(Duration::from_secs(1));
    assert_eq!(world.sent(1), "free 3@0:parts");
}
