//! What is forgotten takes no memory: counted by an allocator.

// An allocator cannot be written without.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hq_core::client_messages::ClientRequest;
use hq_core::measures::MeasuresWriter;
use hq_core::record::FinishedSpan;
use hq_core::server::{ConnectionId, Effect, Input, Keep, Server, ServerOptions};
use hq_core::worker_messages::{FromWorker, Report, ToWorker, WorkerHello};
use hq_model::job::{Target, TaskIds};
use hq_model::worker::WorkerConfig;
use hq_model::{
    Amount, AmountRequest, Body, Entries, JobSpec, Policy, Request, ResourceRequest, Submit, TaskSpec,
    Timestamp, Usage, WorkerResources,
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

struct World {
    server: Server,
    now: Timestamp,
    reports: u64,
}

impl World {
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
                    report.finished.push(FinishedSpan {
                        job,
                        instance,
                        ids,
                        measures: measures.finish(),
                        results: Entries::default(),
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

#[test]
fn a_load_that_has_ended_and_is_forgotten_leaves_nothing() {
    let keep_jobs = Keep { jobs: Some(10), time: None };
    let server = Server::new(ServerOptions { keep_jobs, ..ServerOptions::default() });
    let mut world = World { server, now: Timestamp(1_000_000), reports: 0 };
    world.server.start(world.now, "abc123".into(), &mut Vec::new());
    let heartbeat = Duration::from_secs(1_000_000);
    let hello = WorkerHello {
        config: WorkerConfig { heartbeat, ..WorkerConfig::new(WorkerResources::cpus(8)) },
        started: world.now,
        age: None,
        known_as: None,
        holds: Vec::new(),
        last_report: 0,
        follows: true,
        shows: true,
        stores: false,
        objects: Vec::new(),
    };
    world.step(Input::Worker { connection: WORKER, message: FromWorker::Hello(Box::new(hello)) });
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
