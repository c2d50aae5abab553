//! Clients and workers played by hand over real connections.

#![allow(dead_code)]

use std::path::Path;

use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_core::worker_messages::{FromWorker, Report, RunBatch, ToWorker, WorkerHello};
use hq_core::{measures::MeasuresWriter, record::FinishedSpan};
use hq_model::job::{Target, TaskIds};
use hq_model::selector::Selector;
use hq_model::worker::{Executor, WorkerConfig};
use hq_model::{
    Amount, AmountRequest, Body, Entries, IdSet, JobId, JobSpec, Policy, Request, ResourceRequest, Submit,
    TaskSpec, Timestamp, Usage, WorkerId, WorkerResources,
};
use hq_net::{AccessFile, FrameReceiver, FrameSender, Role};
use hq_server::{Running, ServerError, ServerOptions};
use tokio::runtime::{Builder, Runtime};

/// A runtime for the peers of one test.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Starts a server as the process would, but reachable by the name of the loopback interface.
pub(crate) fn start(dir: &Path) -> Running {
    try_start(ServerOptions::new(dir)).expect("a server")
}

/// Starts a server with these options.
pub(crate) fn try_start(mut options: ServerOptions) -> Result<Running, ServerError> {
    options.host = Some("127.0.0.1".to_owned());
    hq_server::start(options)
}

/// Asks a server to end and waits for it.
pub(crate) fn stop(server: Running) {
    server.stop();
    server.wait().expect("a clean end");
}

/// A client.
pub(crate) struct Client {
    pub(crate) sender: FrameSender,
    pub(crate) receiver: FrameReceiver,
    last: u64,
}

impl Client {
    pub(crate) async fn connect(access: &AccessFile) -> Client {
        let endpoint = access.endpoint(Role::Client).expect("a part for clients");
        let (sender, receiver) = hq_net::connect(endpoint, Role::Client).await.expect("a connection");
        Client { sender, receiver, last: 0 }
    }

    pub(crate) async fn send(&mut self, body: &ClientRequest) -> u64 {
        self.last += 1;
        let frame = hq_proto::encode_client_request(self.last, body);
        self.sender.send(&frame).await.expect("a connection");
        self.sender.flush().await.expect("a connection");
        self.last
    }

    /// The next answer to a request.
    pub(crate) async fn answer(&mut self, request: u64) -> ClientResponse {
        let frame = self.receiver.next().await.expect("a connection").expect("an answer");
        let (number, body) = hq_proto::decode_client_response(&frame).expect("an answer");
        assert_eq!(number, request);
        body
    }

    pub(crate) async fn ask(&mut self, body: ClientRequest) -> ClientResponse {
        let request = self.send(&body).await;
        self.answer(request).await
    }

    /// Submits an array of so many tasks; gives the job's id.
    pub(crate) async fn submit(&mut self, key: u128, count: u32, spec: TaskSpec) -> JobId {
        self.submit_entries(key, count, Entries::default(), spec).await
    }

    /// Submits tasks with an entry each.
    pub(crate) async fn submit_entries(
        &mut self,
        key: u128,
        count: u32,
        entries: Entries,
        spec: TaskSpec,
    ) -> JobId {
        let submit = Box::new(submit_of(count, entries, spec));
        match self.ask(ClientRequest::Submit { key, submit }).await {
            ClientResponse::Submitted { job, .. } => job,
            other => panic!("{other:?}"),
        }
    }

    /// The ids of all jobs.
    pub(crate) async fn jobs(&mut self) -> Vec<u32> {
        match self.ask(ClientRequest::ListJobs { states: Vec::new() }).await {
            ClientResponse::JobList(jobs) => jobs.iter().map(|job| job.job.0).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// True when the server closes the connection, whatever it says before.
    pub(crate) async fn is_closed(&mut self) -> bool {
        loop {
            match self.receiver.next().await {
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return true,
            }
        }
    }
}

/// A job of its own with tasks 1 to `count`.
pub(crate) fn submit_of(count: u32, entries: Entries, spec: TaskSpec) -> Submit {
    Submit {
        entries,
        ..Submit::new(
            Target::New(JobSpec { name: "job".to_owned(), ..JobSpec::default() }),
            TaskIds::Given(IdSet::range(1, count)),
            spec,
        )
    }
}

/// What a task executes: one CPU, the program `true`.
pub(crate) fn spec() -> TaskSpec {
    let cpu = ResourceRequest {
        name: "cpus".to_owned(),
        amount: AmountRequest::Some(Amount::whole(1), Policy::Compact),
    };
    TaskSpec {
        body: Body::program(["true"]),
        requests: vec![Request { resources: vec![cpu], ..Request::default() }],
        ..TaskSpec::default()
    }
}

/// A worker that ends each task as soon as it gets it.
pub(crate) struct Worker {
    pub(crate) sender: FrameSender,
    pub(crate) receiver: FrameReceiver,
    pub(crate) id: WorkerId,
    reports: u64,
}

pub(crate) fn worker_config() -> WorkerConfig {
    WorkerConfig { executor: Executor::Null, ..WorkerConfig::new(WorkerResources::cpus(4)) }
}

/// What a new worker says that can do nothing but run tasks.
pub(crate) fn hello() -> WorkerHello {
    WorkerHello {
        config: worker_config(),
        started: Timestamp(1),
        age: None,
        known_as: None,
        secret: None,
        holds: Vec::new(),
        last_report: 0,
        follows: false,
        follows_calls: false,
        shows: false,
        stores: false,
        relays: false,
        objects: Vec::new(),
    }
}

impl Worker {
    pub(crate) async fn connect(access: &AccessFile) -> Worker {
        Worker::connect_as(access, hello()).await
    }

    /// Introduces itself so, and waits for the welcome.
    pub(crate) async fn connect_as(access: &AccessFile, hello: WorkerHello) -> Worker {
        let endpoint = access.endpoint(Role::Worker).expect("a part for workers");
        let (sender, receiver) = hq_net::connect(endpoint, Role::Worker).await.expect("a connection");
        let mut worker = Worker { sender, receiver, id: WorkerId(0), reports: 0 };
        worker.say(&FromWorker::Hello(Box::new(hello))).await;
        match worker.hear().await {
            Some(ToWorker::Welcome(welcome)) => worker.id = welcome.worker,
            other => panic!("{other:?}"),
        }
        worker
    }

    pub(crate) async fn say(&mut self, message: &FromWorker) {
        self.sender.send(&hq_proto::encode_from_worker(message)).await.expect("a connection");
        self.sender.flush().await.expect("a connection");
    }

    pub(crate) async fn hear(&mut self) -> Option<ToWorker> {
        let frame = self.receiver.next().await.ok()??;
        Some(hq_proto::decode_to_worker(&frame).expect("a message"))
    }

    /// Works until the server closes the connection.
    pub(crate) async fn work(mut self) {
        while let Some(message) = self.hear().await {
            match message {
                ToWorker::Run(batches) => {
                    let finished = batches.iter().map(finished).collect();
                    self.reports += 1;
                    let report = Report { number: self.reports, finished, ..Report::default() };
                    self.say(&FromWorker::Report(report)).await;
                }
                ToWorker::Stop { .. } => break,
                _ => {}
            }
        }
    }
}

pub(crate) fn finished(batch: &RunBatch) -> FinishedSpan {
    let mut measures = MeasuresWriter::new(false);
    for _ in batch.ids.iter() {
        measures.push(Timestamp(1), &Usage::default());
    }
    FinishedSpan {
        job: batch.template.job,
        instance: batch.instance,
        ids: batch.ids.clone(),
        measures: measures.finish(),
        results: Entries::default(),
        variant: None,
    }
}

/// Follows a job to its end; gives its last counters as finished and total.
pub(crate) async fn watch(client: &mut Client, job: JobId) -> (u64, u64) {
    let jobs = Selector::Ids(IdSet::range(job.0, job.0));
    let request = ClientRequest::WatchJobs { jobs, until_closed: false, notifications: false };
    let request = client.send(&request).await;
    let mut counters = (0, 0);
    loop {
        match client.answer(request).await {
            ClientResponse::Progress(jobs) => {
                counters = (jobs[0].counters.finished, jobs[0].counters.total());
            }
            ClientResponse::WatchEnded => return counters,
            other => panic!("{other:?}"),
        }
    }
}
