//! How many tasks a second the worker machine alone passes with the null executor.
#![allow(clippy::print_stdout, clippy::expect_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use hq_core::worker::{Effect, Input, Worker};
use hq_core::worker_messages::{FromWorker, RunBatch, Template, TemplateId, ToWorker, Welcome};
use hq_model::worker::{Executor, WorkerConfig};
use hq_model::*;

fn main() {
    let config = WorkerConfig { executor: Executor::Null, ..WorkerConfig::new(WorkerResources::cpus(16)) };
    let begin = Instant::now();
    let now = || Timestamp(begin.elapsed().as_micros() as u64);
    let mut worker = Worker::new(config, now());
    let mut effects = Vec::new();
    worker.handle(now(), Input::ServerFound, &mut effects);
    let welcome = Welcome {
        worker: WorkerId(1),
        epoch: Epoch(1),
        server_uid: String::new(),
        idle_timeout: None,
        hears: true,
    };
    worker.handle(now(), Input::Server(ToWorker::Welcome(welcome)), &mut effects);
    let cpus = ResourceRequest {
        name: "cpus".into(),
        amount: AmountRequest::Some(Amount::whole(1), Policy::Compact),
    };
    let spec = TaskSpec {
        body: Body::program(["true"]),
        requests: vec![Request { resources: vec![cpus], ..Request::default() }],
        ..TaskSpec::default()
    };
    let template = TemplateId { job: JobId(1), submit: 0 };
    let content = Template {
        id: template,
        spec: Arc::new(spec),
        submit_dir: Vec::new(),
        submitted: Timestamp(0),
        has_siblings: true,
    };
    const TASKS: u32 = 10_000_000;
    let batch = RunBatch {
        template,
        content: Some(content),
        ids: IdSet::range(0, TASKS - 1),
        instance: Instance(0),
        entries: Entries::default(),
        services: Vec::new(),
        nodes: Vec::new(),
        after: None,
        variant: None,
        head_start: Duration::ZERO,
        inputs: Vec::new(),
        objects: Vec::new(),
    };
    worker.handle(now(), Input::Server(ToWorker::Run(vec![batch])), &mut effects);
    let mut done = 0;
    while done < TASKS {
        worker.settle(now(), &mut effects);
        for effect in effects.drain(..) {
            if let Effect::Send(FromWorker::Report(report)) = effect {
                done += report.finished.iter().map(|span| span.measures.count()).sum::<u32>();
                worker.handle(
                    now(),
                    Input::Server(ToWorker::Saved { report: report.number }),
                    &mut Vec::new(),
                );
            }
        }
    }
    println!("{:.0} tasks/s", f64::from(TASKS) / begin.elapsed().as_secs_f64());
}
