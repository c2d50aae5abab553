//! A cluster in virtual time: the machines of the server and of workers, tasks that only take time, and messages that
//! take a while. Hours pass in seconds, and what is measured is what is decided.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_core::server::{self, ConnectionId, Server, ServerOptions};
use hq_core::worker::{self, Outcome, Start, Worker};
use hq_core::worker_messages::{FromWorker, ToWorker};
use hq_model::amount::UNITS;
use hq_model::job::{Target, TaskIds};
use hq_model::request::WEIGHT_NEUTRAL;
use hq_model::worker::WorkerConfig;
use hq_model::{
    Amount, AmountRequest, Body, JobSpec, Policy, Request, ResourceRequest, Submit, TaskRef, TaskSpec,
    Timestamp, Usage, WorkerResources,
};
use hq_sched::limits::STEPS;
use hq_sched::{Plan, plan};

/// A message takes so long.
const LATENCY: Duration = Duration::from_micros(500);
/// Planning takes so long.
const PLANNING: Duration = Duration::from_millis(2);
const START: Timestamp = Timestamp(1_000_000_000);
const CLIENT: ConnectionId = ConnectionId(0);

/// How long a task runs: told the worker, from 0, and the task.
pub(crate) type RunTime = Box<dyn FnMut(usize, &Start) -> Duration>;

enum Event {
    ToServer(Box<FromWorker>, usize),
    ToWorker(Box<ToWorker>, usize),
    Ended(TaskRef, Timestamp, usize),
    Planned(u64, Box<Plan>),
    WakeServer,
    WakeWorker(usize),
}

/// The cluster.
pub(crate) struct VirtualCluster {
    pub(crate) server: Server,
    workers: Vec<Worker>,
    run_time: RunTime,
    now: Timestamp,
    due: BinaryHeap<Reverse<(Timestamp, u64)>>,
    events: BTreeMap<u64, Event>,
    last: u64,
    /// Tasks that have ended.
    pub(crate) ended: u64,
    /// Tasks that have started, by worker.
    pub(crate) started: Vec<u64>,
    /// Real time in which the server decided.
    pub(crate) deciding: Duration,
    requests: u64,
}

impl VirtualCluster {
    /// Workers with so many cores each, all connected.
    pub(crate) fn new(workers: usize, cores: u32, run_time: RunTime) -> VirtualCluster {
        let mut cluster = VirtualCluster {
            server: Server::new(ServerOptions::default()),
            workers: (0..workers).map(|_| Worker::new(config(cores), START)).collect(),
            run_time,
            now: START,
            due: BinaryHeap::new(),
            events: BTreeMap::new(),
            last: 0,
            ended: 0,
            started: vec![0; workers],
            deciding: Duration::ZERO,
            requests: 0,
        };
        let mut effects = Vec::new();
        cluster.server.start(START, "virtual".into(), &mut effects);
        cluster.take(effects);
        for worker in 0..workers {
            cluster.tell_worker(worker, worker::Input::ServerFound);
        }
        cluster.run_for(Duration::from_secs(1));
        cluster
    }

    /// Virtual time since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now.since(START)
    }

    /// Submits a job.
    pub(crate) fn submit(&mut self, submit: Submit) {
        self.request(|key| ClientRequest::Submit { key, submit: Box::new(submit) });
    }

    /// Makes a request under a key.
    pub(crate) fn request(&mut self, body: impl FnOnce(u128) -> ClientRequest) {
        // Each task of a block has a key of its own.
        self.requests += 1;
        let body = body(u128::from(self.requests) << 32);
        let input = server::Input::Client { connection: CLIENT, request: self.requests, body };
        self.tell_server(vec![input]);
    }

    /// Lets virtual time pass.
    pub(crate) fn run_for(&mut self, time: Duration) {
        let until = self.now.after(time);
        while self.due.peek().is_some_and(|next| next.0.0 <= until) {
            self.step();
        }
        self.now = until;
    }

    /// Lets time pass until so many tasks have ended. False when nothing more happens before.
    pub(crate) fn run_until_ended(&mut self, tasks: u64) -> bool {
        let most = self.now.after(Duration::from_secs(1_000_000));
        while self.ended < tasks {
            if self.due.is_empty() || self.now > most {
                return false;
            }
            self.step();
        }
        true
    }

    // What comes at one moment is taken together, as the server does.
    fn step(&mut self) {
        let Some(Reverse((at, _))) = self.due.peek().copied() else { return };
        self.now = at.max(self.now);
        let mut inputs = Vec::new();
        while let Some(Reverse((next, number))) = self.due.peek().copied()
            && next == at
        {
            self.due.pop();
            match self.events.remove(&number) {
                Some(Event::ToServer(message, worker)) => {
                    inputs.push(server::Input::Worker { connection: connection(worker), message: *message });
                }
                Some(Event::Planned(number, plan)) => inputs.push(server::Input::Planned { number, plan }),
                Some(Event::WakeServer) => inputs.push(server::Input::Tick),
                Some(Event::ToWorker(message, worker)) => {
                    self.tell_worker(worker, worker::Input::Server(*message));
                }
                Some(Event::Ended(task, since, worker)) => {
                    self.ended += 1;
                    let usage = Usage { wall_us: self.now.0 - since.0, ..Usage::default() };
                    let input = worker::Input::ended(task, Outcome::Finished, usage);
                    self.tell_worker(worker, input);
                }
                Some(Event::WakeWorker(worker)) => self.tell_worker(worker, worker::Input::Tick),
                None => {}
            }
        }
        if !inputs.is_empty() {
            self.tell_server(inputs);
        }
    }

    fn tell_server(&mut self, inputs: Vec<server::Input>) {
        let mut effects = Vec::new();
        let begun = Instant::now();
        for input in inputs {
            self.server.handle(self.now, input, &mut effects);
        }
        self.server.settle(self.now, &mut effects);
        self.deciding += begun.elapsed();
        self.take(effects);
        if let Some(at) = self.server.next_wakeup() {
            self.push(at.max(Timestamp(self.now.0 + 1)), Event::WakeServer);
        }
    }

    fn take(&mut self, effects: Vec<server::Effect>) {
        for effect in effects {
            match effect {
                server::Effect::ToWorker { connection, message, .. } => {
                    let event = Event::ToWorker(Box::new(message), connection.0 as usize - 1);
                    self.push(self.now.after(LATENCY), event);
                }
                server::Effect::Plan { number, snapshot } => {
                    let plan = Box::new(plan(&snapshot, STEPS));
                    self.push(self.now.after(PLANNING), Event::Planned(number, plan));
                }
                server::Effect::Answer { body, .. } => {
                    assert!(!matches!(body, ClientResponse::Error(_)), "nothing is refused: {body:?}");
                }
                _ => {}
            }
        }
    }

    fn tell_worker(&mut self, at: usize, input: worker::Input) {
        let mut effects = Vec::new();
        self.workers[at].handle(self.now, input, &mut effects);
        self.workers[at].settle(self.now, &mut effects);
        for effect in effects {
            match effect {
                worker::Effect::EndRunner { .. }
                | worker::Effect::StartZygote { .. }
                | worker::Effect::LoadPackage { .. }
                | worker::Effect::EndZygote { .. }
                | worker::Effect::GoOn { .. } => {}
                worker::Effect::FreeObjects(_)
                | worker::Effect::BringObjects { .. }
                | worker::Effect::Relay { .. }
                | worker::Effect::TakeFile { .. }
                | worker::Effect::GuardObjects { .. } => {}
                worker::Effect::Start(start) => {
                    self.started[at] += 1;
                    let end = self.now.after((self.run_time)(at, &start));
                    self.push(end, Event::Ended(start.task, self.now, at));
                }
                worker::Effect::Send(message) => {
                    self.push(self.now.after(LATENCY), Event::ToServer(Box::new(message), at));
                }
                worker::Effect::Signal { .. } | worker::Effect::KillLauncher | worker::Effect::Exit(_) => {}
                worker::Effect::Arm { .. } | worker::Effect::Recall { .. } => {}
                worker::Effect::Read { .. }
                | worker::Effect::DropRead { .. }
                | worker::Effect::Expired { .. }
                | worker::Effect::ReadEnded { .. } => {}
            }
        }
        if let Some(wake) = self.workers[at].next_wakeup() {
            self.push(wake.max(Timestamp(self.now.0 + 1)), Event::WakeWorker(at));
        }
    }

    fn push(&mut self, at: Timestamp, event: Event) {
        // Of the times to wake up at only those that are near matter.
        if matches!(event, Event::WakeServer | Event::WakeWorker(_))
            && at > self.now.after(Duration::from_secs(60))
        {
            return;
        }
        self.last += 1;
        self.due.push(Reverse((at, self.last)));
        self.events.insert(self.last, event);
    }
}

fn connection(worker: usize) -> ConnectionId {
    ConnectionId(worker as u64 + 1)
}

fn config(cores: u32) -> WorkerConfig {
    WorkerConfig {
        heartbeat: Duration::from_secs(1_000_000),
        ..WorkerConfig::new(WorkerResources::cpus(cores))
    }
}

/// An array of tasks with so many cores each.
pub(crate) fn array(tasks: u32, cores: u32, change: impl FnOnce(&mut TaskSpec, &mut JobSpec)) -> Submit {
    let amount = AmountRequest::Some(Amount(u64::from(cores) * UNITS), Policy::Compact);
    let resources = vec![ResourceRequest { name: "cpus".into(), amount }];
    let mut spec = TaskSpec {
        body: Body::program(["task"]),
        requests: vec![Request { resources, weight: WEIGHT_NEUTRAL, ..Request::default() }],
        ..TaskSpec::default()
    };
    let mut job = JobSpec { name: "array".into(), ..JobSpec::default() };
    change(&mut spec, &mut job);
    Submit::new(Target::New(job), TaskIds::Next(tasks), spec)
}
