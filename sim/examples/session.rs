//! Writes what a server, a worker and a client of this release say to each other over a small job to a file:
//! `cargo run --package hq-sim --example session tests/compat/session-VERSION.frames`. Made once for each release.
//!
//! Each frame has a letter before it (`q` request of the client, `a` answer to it, `f` from the worker, `w` to the
//! worker) and its length, four bytes, small end first.

use hq_core::client_messages::ClientRequest;
use hq_core::record::FailureKind;
use hq_core::server::{ConnectionId, Effect, Input, Server, ServerOptions};
use hq_core::worker::{Effect as WorkerEffect, Input as WorkerInput, Outcome, Worker};
use hq_model::job::{Target, TaskIds};
use hq_model::request::parse_amount;
use hq_model::selector::Selector;
use hq_model::task::{Retry, RetryOn};
use hq_model::{Body, Entries, IdSet, JobSpec, Request, ResourceRequest, Submit, TaskSpec, Timestamp, Usage};
use hq_sim::nodes::Node;
use hq_sim::rng::Rng;

const CLIENT: ConnectionId = ConnectionId(1);

struct Session {
    now: Timestamp,
    server: Server,
    worker: Worker,
    connection: ConnectionId,
    frames: Vec<u8>,
}

impl Session {
    fn keep(&mut self, kind: u8, frame: &[u8]) {
        self.frames.push(kind);
        self.frames.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        self.frames.extend_from_slice(frame);
    }

    fn client(&mut self, request: u64, body: ClientRequest) {
        self.keep(b'q', &hq_proto::encode_client_request(request, &body));
        self.server(Input::Client { connection: CLIENT, request, body });
    }

    fn server(&mut self, input: Input) {
        self.now = Timestamp(self.now.0 + 30_000);
        let mut effects = Vec::new();
        self.server.handle(self.now, input, &mut effects);
        self.server.settle(self.now, &mut effects);
        for effect in effects {
            match effect {
                Effect::Answer { request, body, .. } => {
                    self.keep(b'a', &hq_proto::encode_client_response(request, &body));
                }
                Effect::ToWorker { message, .. } => {
                    self.keep(b'w', &hq_proto::encode_to_worker(&message));
                    self.worker(WorkerInput::Server(message));
                }
                _ => {}
            }
        }
    }

    fn worker(&mut self, input: WorkerInput) {
        self.now = Timestamp(self.now.0 + 30_000);
        let mut effects = Vec::new();
        self.worker.handle(self.now, input, &mut effects);
        self.worker.settle(self.now, &mut effects);
        for effect in effects {
            match effect {
                WorkerEffect::Send(message) => {
                    self.keep(b'f', &hq_proto::encode_from_worker(&message));
                    let connection = self.connection;
                    self.server(Input::Worker { connection, message });
                }
                WorkerEffect::EndRunner { .. }
                | WorkerEffect::StartZygote { .. }
                | WorkerEffect::LoadPackage { .. }
                | WorkerEffect::EndZygote { .. }
                | WorkerEffect::GoOn { .. } => {}
                WorkerEffect::FreeObjects(_)
                | WorkerEffect::BringObjects { .. }
                | WorkerEffect::Relay { .. }
                | WorkerEffect::TakeFile { .. }
                | WorkerEffect::GuardObjects { .. } => {}
                // Each second instance succeeds, and so does each task but the third.
                WorkerEffect::Start(start) => {
                    let fails = start.task.task.0 == 2 && start.instance.0 == 0;
                    let outcome = match fails {
                        true => Outcome::Failed(FailureKind::Exit(75), "exit code 75".into()),
                        false => Outcome::Finished,
                    };
                    let usage = Usage { wall_us: 5000, user_us: 4000, ..Usage::default() };
                    self.worker(WorkerInput::ended(start.task, outcome, usage));
                }
                WorkerEffect::Signal { .. } | WorkerEffect::KillLauncher | WorkerEffect::Exit(_) => {}
                WorkerEffect::Arm { .. } | WorkerEffect::Recall { .. } => {}
                WorkerEffect::Read { .. }
                | WorkerEffect::DropRead { .. }
                | WorkerEffect::Expired { .. }
                | WorkerEffect::ReadEnded { .. } => {}
            }
        }
    }
}

fn submit() -> ClientRequest {
    let cpus = parse_amount("cpus", "1").map(|amount| ResourceRequest { name: "cpus".into(), amount });
    let spec = TaskSpec {
        body: Body::program(["score", "%{TASK_ID}"]),
        requests: vec![Request { resources: cpus.into_iter().collect(), ..Request::default() }],
        retry: Retry { max: 1, on: RetryOn { codes: vec![75], ..RetryOn::default() }, ..Retry::default() },
        ..TaskSpec::default()
    };
    let entries = ["a", "b", "c", "d"].map(str::as_bytes);
    ClientRequest::Submit {
        key: 7,
        submit: Box::new(Submit {
            entries: Entries::new(entries).unwrap_or_default(),
            ..Submit::new(
                Target::New(JobSpec { name: "score".into(), max_fails: None, ..JobSpec::default() }),
                TaskIds::Given(IdSet::range(0, 3)),
                spec,
            )
        }),
    }
}

fn main() -> std::io::Result<()> {
    let path = std::env::args_os().nth(1).ok_or_else(|| std::io::Error::other("name the file to write"))?;
    let now = Timestamp(1_700_000_000_000_000);
    let mut node = Node::with_cpus(4);
    node.start(now, &mut Rng::new(1));
    let worker = node.worker.ok_or_else(|| std::io::Error::other("a started node has a worker"))?;
    let mut server = Server::new(ServerOptions::default());
    server.start(now, "abc123".into(), &mut Vec::new());
    let mut session = Session { now, server, worker, connection: ConnectionId(2), frames: Vec::new() };
    session.worker(WorkerInput::ServerFound);
    session.client(1, submit());
    // The connection breaks, and the worker comes back with what it has not heard to be saved.
    session.server(Input::WorkerGone { connection: ConnectionId(2), is_closed: false });
    session.worker(WorkerInput::ServerLost);
    session.connection = ConnectionId(3);
    session.worker(WorkerInput::ServerFound);
    for _ in 0..20 {
        session.worker(WorkerInput::Tick);
    }
    session.client(2, ClientRequest::JobInfo { jobs: Selector::All, page: None });
    session.client(3, ClientRequest::StopWorkers { workers: Selector::All, drain: true });
    std::fs::write(path, &session.frames)
}
