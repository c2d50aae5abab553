//! A peer of an earlier release: its half of a conversation, kept in `tests/compat`, is said to this release, in both
//! roles; and one of a later release, whose messages have fields that nobody here knows.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hq_core::client_messages::ClientResponse;
use hq_core::server::{ConnectionId, Effect, Input, Server, ServerOptions};
use hq_core::worker::{Effect as WorkerEffect, Input as WorkerInput, Outcome, Worker};
use hq_core::worker_messages::{FromWorker, ToWorker};
use hq_model::{JobId, JobState, TaskRef, Timestamp, Usage};
use hq_proto::{
    decode_client_request, decode_client_response, decode_from_worker, decode_to_worker,
    encode_client_response, encode_from_worker, encode_to_worker,
};

const START: u64 = 1_700_000_000_000_000;

type Frames = Vec<(u8, Vec<u8>)>;

fn sessions() -> Vec<(PathBuf, Frames)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/compat");
    let mut sessions = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "frames") {
            continue;
        }
        let (bytes, mut frames) = (fs::read(&path).expect("a file"), Frames::new());
        let mut rest = bytes.as_slice();
        while let Some((kind, more)) = rest.split_first() {
            let (length, more) = more.split_first_chunk::<4>().expect("a length");
            let (frame, more) = more.split_at(u32::from_le_bytes(*length) as usize);
            frames.push((*kind, frame.to_vec()));
            rest = more;
        }
        sessions.push((path, frames));
    }
    assert!(!sessions.is_empty(), "there is a session of each release");
    sessions
}

// As a later release would say it: with a field 1999 at its end.
fn of_later_release(mut frames: Frames) -> Frames {
    frames.iter_mut().for_each(|(_, frame)| frame.extend([0xf8, 0x7c, 0x01]));
    frames
}

// The server of this release hears an older client and worker. Its answers are as understandable to them as
// bytes are: they only grow by fields.
fn serve(frames: &Frames) -> String {
    let mut server = Server::new(ServerOptions::default());
    server.start(Timestamp(START), "abc123".into(), &mut Vec::new());
    let mut worker = 1;
    let mut answers = Vec::new();
    for (number, (kind, frame)) in frames.iter().enumerate() {
        let now = Timestamp(START + number as u64 * 100_000);
        let mut effects = Vec::new();
        let input = match kind {
            b'q' => {
                let (request, body) = decode_client_request(frame).expect("a request");
                Input::Client { connection: ConnectionId(1), request, body }
            }
            b'f' => {
                let message = decode_from_worker(frame).expect("words of a worker");
                if matches!(message, FromWorker::Hello(_)) {
                    server.handle(
                        now,
                        Input::WorkerGone { connection: ConnectionId(worker), is_closed: false },
                        &mut effects,
                    );
                    worker += 1;
                }
                Input::Worker { connection: ConnectionId(worker), message }
            }
            _ => continue,
        };
        server.handle(now, input, &mut effects);
        server.settle(now, &mut effects);
        assert_eq!(server.check(), Ok(()));
        for effect in effects {
            match effect {
                Effect::Answer { request, body, .. } => {
                    let again = decode_client_response(&encode_client_response(request, &body));
                    answers.push(again.expect("an answer").1);
                }
                Effect::ToWorker { message, .. } => {
                    assert_eq!(decode_to_worker(&encode_to_worker(&message)), Ok(message));
                }
                _ => {}
            }
        }
    }
    let job = answers.iter().find_map(|answer| match answer {
        ClientResponse::JobDetails { jobs, .. } => jobs.first(),
        _ => None,
    });
    job.map_or_else(String::new, |job| format!("{}: {:?}", job.summary.state(), job.summary.counters))
}

// The worker of this release hears an older server.
fn work(frames: &Frames) -> (BTreeSet<TaskRef>, BTreeSet<TaskRef>) {
    let hello = frames.iter().find(|(kind, _)| *kind == b'f').map(|(_, frame)| decode_from_worker(frame));
    let Some(Ok(FromWorker::Hello(hello))) = hello else { panic!("a worker says hello first: {hello:?}") };
    let mut worker = Worker::new(hello.config, Timestamp(START));
    let (mut given, mut finished) = (BTreeSet::new(), BTreeSet::new());
    let mut inputs = vec![WorkerInput::ServerFound];
    let mut said = frames.iter().filter(|(kind, _)| *kind == b'w').map(|(_, frame)| decode_to_worker(frame));
    let mut now = Timestamp(START);
    loop {
        let mut effects = Vec::new();
        for input in inputs.drain(..) {
            now = Timestamp(now.0 + 100_000);
            worker.handle(now, input, &mut effects);
            worker.settle(now, &mut effects);
        }
        for effect in effects {
            match effect {
                WorkerEffect::Start(start) => {
                    inputs.push(WorkerInput::ended(start.task, Outcome::Finished, Usage::default()))
                }
                WorkerEffect::Send(message) => {
                    if let FromWorker::Report(report) = &message {
                        for span in &report.finished {
                            finished.extend(span.ids.iter().map(|task| TaskRef::new(span.job, task)));
                        }
                    }
                    assert_eq!(decode_from_worker(&encode_from_worker(&message)), Ok(message));
                }
                WorkerEffect::Signal { .. } | WorkerEffect::KillLauncher | WorkerEffect::Exit(_) => {}
                WorkerEffect::Arm { .. } | WorkerEffect::Recall { .. } => {}
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
                WorkerEffect::Read { .. }
                | WorkerEffect::DropRead { .. }
                | WorkerEffect::Expired { .. }
                | WorkerEffect::ReadEnded { .. } => {}
            }
        }
        if !inputs.is_empty() {
            continue;
        }
        let Some(message) = said.next() else { break };
        let message = message.expect("words of a server");
        if let ToWorker::Run(batches) = &message {
            let tasks = batches.iter().flat_map(|batch| batch.ids.iter());
            given.extend(tasks.map(|task| TaskRef::new(JobId(1), task)));
        }
        inputs.extend([WorkerInput::Server(message), WorkerInput::Tick]);
    }
    (given, finished)
}

#[test]
fn older_workers_and_clients_are_served() {
    for (path, frames) in sessions() {
        for frames in [frames.clone(), of_later_release(frames)] {
            let counters =
                "Counters { waiting: 0, running: 0, finished: 4, failed: 0, canceled: 0, aborted: 0 }";
            assert_eq!(serve(&frames), format!("{}: {counters}", JobState::Finished), "{}", path.display());
        }
    }
}

#[test]
fn a_worker_serves_older_servers() {
    for (path, frames) in sessions() {
        for frames in [frames.clone(), of_later_release(frames)] {
            let (given, finished) = work(&frames);
            assert!(!given.is_empty(), "{}", path.display());
            assert_eq!(given, finished, "{}", path.display());
        }
    }
}
