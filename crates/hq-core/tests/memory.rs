//! What is forgotten takes no memory: counted by an allocator.

// An allocator cannot be written without.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hq_core::client_messages::ClientRequest;
use hq_core::measures::MeasuresWriter;
use hq_core::object_messages::{ObjectCopy, ObjectRequest};
use hq_core::record::FinishedSpan;
use hq_core::server::{ConnectionId, Effect, Input, Keep, Server, ServerOptions};
use hq_core::worker_messages::{FromWorker, Report, ToWorker, WorkerHello};
use hq_model::job::{Target, TaskIds};
use hq_model::worker::WorkerConfig;
use hq_model::{
    Amount, AmountRequest, Body, Entries, Instance, JobId, JobSpec, ObjectId, Policy, Request,
    ResourceRequest, Submit, TaskId, TaskRef, TaskSpec, Timestamp, Usage, WorkerResources,
};

struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the allocator of the system.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const WORKER: ConnectionId = ConnectionId(1);
const CLIENT: ConnectionId = ConnectionId(2);

// What others use must not be counted.
static ALONE: Mutex<()> = Mutex::new(());

struct World {
    server: Server,
    now: Timestamp,
    reports: u64,
    // So many objects each of its tasks leaves.
    leaves: u32,
}

impl World {
    // With one worker.
    fn new(options: ServerOptions, stores: bool) -> World {
        let server = Server::new(options);
        let mut world = World { server, now: Timestamp(1_000_000), reports: 0, leaves: 0 };
        world.server.start(world.now, "abc123".into(), &mut Vec::new());
        let heartbeat = Duration::from_secs(1_000_000);
        let hello = WorkerHello {
            config: WorkerConfig { heartbeat, ..WorkerConfig::new(WorkerResources::cpus(8)) },
            started: world.now,
            age: None,
            known_as: None,
            secret: None,
            holds: Vec::new(),
            last_report: 0,
            follows: true,
            follows_calls: false,
            shows: true,
            stores,
            relays: stores,
            objects: Vec::new(),
        };
        world.step(Input::Worker { connection: WORKER, message: FromWorker::Hello(Box::new(hello)) });
        world
    }

    // Steps until the worker has nothing left: all it gets has finished at once.
    fn step(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.now = self.now.after(Duration::from_millis(1));
            let mut effects = Vec::new();
            self.server.handle(self.now, input, &mut effects);
            self.server.settle(self.now, &mut effects);
            for effect in effects {
                let Effect::ToWorker { message: ToWorker::Run(batches), .. } = effect else { continue };
                self.reports += 1;
                let mut report = Report { number: self.reports, ..Report::default() };
                for batch in batches {
                    let mut measures = MeasuresWriter::new(true);
                    let usage = Usage { wall_us: 1000, ..Usage::default() };
                    batch.ids.iter().for_each(|_| measures.push(self.now, &usage));
                    let (job, instance, ids) = (batch.template.job, batch.instance, batch.ids);
                    let (news, names) = (report.objects.get_or_insert_default(), 0..self.leaves);
                    for task in ids.iter() {
                        let left = names.clone().map(|number| left(TaskRef::new(job, task), number));
                        news.stored.extend(left);
                    }
                    report.finished.push(FinishedSpan {
                        job,
                        instance,
                        ids,
                        measures: measures.finish(),
                        results: Entries::default(),
                        variant: None,
                    });
                }
                inputs.push(Input::Worker { connection: WORKER, message: FromWorker::Report(report) });
            }
        }
    }

    fn job(&mut self, number: u64) {
        let amount = AmountRequest::Some(Amount::whole(1 + number % 3), Policy::Compact);
        let resources = vec![ResourceRequest { name: "cpus".into(), amount }];
        let spec = TaskSpec {
            body: Body::program([format!("/bin/program-{number}").into_bytes(), vec![b'x'; 500]]),
            env: (0..10).map(|name| (format!("NAME_{name}").into_bytes(), vec![b'y'; 200])).collect(),
            requests: vec![Request { resources, ..Request::default() }],
            ..TaskSpec::default()
        };
        let target = Target::New(JobSpec { name: format!("job {number}"), ..JobSpec::default() });
        let submit = Submit::new(target, TaskIds::Next(1 + (number % 4) as u32), spec);
        let body = ClientRequest::Submit { key: u128::from(number + 1), submit: Box::new(submit) };
        self.step(Input::Client { connection: CLIENT, request: number, body });
    }
}

// As it comes from a worker, with a text of its own.
fn left(task: TaskRef, number: u32) -> ObjectCopy {
    let object = ObjectId { task, name: format!("parts.{number}").parse().expect("a name") };
    ObjectCopy { object, instance: Instance(0), size: 1000, checksum: 7, is_dir: false }
}

// Bytes that a server holds for an array which has ended; a user keeps all that it has left, or nothing of that.
fn bytes_of_array(tasks: u32, leaves: u32, keeps: bool) -> usize {
    let mut world = World::new(ServerOptions::default(), true);
    world.leaves = leaves;
    let amount = AmountRequest::Some(Amount::whole(1), Policy::Compact);
    let resources = vec![ResourceRequest { name: "cpus".into(), amount }];
    let mut spec = TaskSpec {
        body: Body::program(["true"]),
        requests: vec![Request { resources, ..Request::default() }],
        ..TaskSpec::default()
    };
    let output = |number| format!("parts.{number}=out/parts.{number}").parse().expect("an object");
    spec.output_objects = (0..leaves).map(output).collect();
    let before = IN_USE.load(Ordering::Relaxed);
    let submit = Submit::new(Target::New(JobSpec::default()), TaskIds::Next(tasks), spec);
    let body = ClientRequest::Submit { key: 1, submit: Box::new(submit) };
    world.step(Input::Client { connection: CLIENT, request: 1, body });
    assert_eq!(world.server.state().objects.iter().count(), (tasks * leaves) as usize);
    for task in (0..tasks).filter(|_| keeps) {
        let objects = (0..leaves).map(|number| left(TaskRef::new(JobId(1), TaskId(task)), number).object);
        let body = ClientRequest::Objects(ObjectRequest::Keep(objects.collect()));
        world.step(Input::Client { connection: CLIENT, request: 2, body });
    }
    // Some of what has changed is looked at later.
    while world.server.next_wakeup() == Some(Timestamp(0)) {
        world.step(Input::Tick);
    }
    IN_USE.load(Ordering::Relaxed) - before
}

#[test]
fn an_object_takes_little_of_the_server() {
    const OBJECTS: u32 = 20_000;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (leaves, keeps, most) in [(1, false, 100), (1, true, 120), (50, false, 120), (50, true, 140)] {
        let tasks = OBJECTS / leaves;
        let all = bytes_of_array(tasks, leaves, keeps).saturating_sub(bytes_of_array(tasks, 0, false));
        let each = all / OBJECTS as usize;
        assert!(each <= most, "each of {leaves} objects of a task takes {each} bytes, kept: {keeps}");
    }
}

#[test]
fn a_load_that_has_ended_and_is_forgotten_leaves_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let keep_jobs = Keep { jobs: Some(10), time: None };
    let mut world = World::new(ServerOptions { keep_jobs, ..ServerOptions::default() }, false);
    // What is remembered of the latest requests and programs is full then.
    (0..12_000).for_each(|number| world.job(number));
    let before = IN_USE.load(Ordering::Relaxed);
    (12_000..32_000).for_each(|number| world.job(number));
    assert_eq!(world.server.state().jobs.len(), 10);
    let after = IN_USE.load(Ordering::Relaxed);
    let grown = after.saturating_sub(before);
    assert!(grown < 1 << 20, "20 000 jobs were forgotten, and {grown} bytes stayed");
    assert!(before < 32 << 20, "12 000 jobs were forgotten, and {before} bytes stayed");
}

// Bytes that so many submits take while their tasks wait, and those that they count: each into a job of its own, or all into an open one.
fn bytes_of_submits(count: u64, job_of_each: bool, change: impl Fn(u64, &mut Submit)) -> (usize, usize) {
    let mut world = World::new(ServerOptions::default(), false);
    let body = ClientRequest::OpenJob { key: 0, spec: JobSpec::default() };
    world.step(Input::Client { connection: CLIENT, request: 0, body });
    let before = IN_USE.load(Ordering::Relaxed);
    for number in 1..=count {
        let amount = AmountRequest::Some(Amount::whole(100), Policy::Compact);
        let resources = vec![ResourceRequest { name: "cpus".into(), amount }];
        let spec = TaskSpec {
            body: Body::program(["true".to_owned(), number.to_string()]),
            requests: vec![Request { resources, ..Request::default() }],
            ..TaskSpec::default()
        };
        let target = if job_of_each { Target::New(JobSpec::default()) } else { Target::Open(JobId(1)) };
        let mut submit = Submit::new(target, TaskIds::Next(1), spec);
        change(number, &mut submit);
        let body = ClientRequest::Submit { key: 0, submit: Box::new(submit) };
        world.step(Input::Client { connection: CLIENT, request: number, body });
    }
    while world.server.next_wakeup() == Some(Timestamp(0)) {
        world.step(Input::Tick);
    }
    (IN_USE.load(Ordering::Relaxed) - before, world.server.state().submits_bytes)
}

#[test]
fn submits_count_about_what_they_take() {
    const SUBMITS: u64 = 2000;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Allocators add up to half as much again, so what counts is more than what was asked for.
    let check = |what: &str, job_of_each: bool, change: &dyn Fn(u64, &mut Submit)| {
        let (taken, counted) = bytes_of_submits(SUBMITS, job_of_each, change);
        let [taken, counted] = [taken, counted].map(|bytes| bytes / SUBMITS as usize);
        let is_right = (taken..=taken * 7 / 4).contains(&counted);
        assert!(is_right, "a submit of {what} takes {taken} bytes, and counts {counted}");
    };
    check("one task", false, &|_, _| {});
    check("a job", true, &|_, _| {});
    check("an array", false, &|_, submit| submit.ids = TaskIds::Next(100));
    check("a task with a key", false, &|number, submit| {
        submit.keys = Entries::new([format!("key-{number}").as_bytes()]).expect("little");
    });
    check("a task with variables", false, &|_, submit| {
        let variable = |name| (format!("NAME_{name}").into_bytes(), vec![b'y'; 200]);
        Arc::make_mut(&mut submit.spec).env = (0..10).map(variable).collect();
    });
    check("an array with entries", false, &|_, submit| {
        submit.ids = TaskIds::Next(100);
        submit.entries = Entries::new([&b"an entry"[..]; 100]).expect("little");
    });
}
