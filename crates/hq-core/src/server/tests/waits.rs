//! Requests that wait for something to happen: how many may, and that nothing stays of those that do not any more.

use hq_model::selector::Selector;

use super::*;
use crate::limits::{WAITS_BYTES_MAX, WAITS_OF_CLIENT_MAX};

impl World {
    // Whether the request waits, or is answered at once by this refusal.
    fn waits(&mut self, connection: u64, request: u64, body: ClientRequest) -> Option<String> {
        let answers = self.step(Input::Client { connection: ConnectionId(connection), request, body });
        answers.into_iter().find_map(|answer| match answer {
            ClientResponse::Error(error) => Some(error.to_string()),
            _ => None,
        })
    }

    fn waits_bytes(&self) -> usize {
        self.server.waits_bytes()
    }
}

fn workers() -> ClientRequest {
    ClientRequest::WaitWorkers { count: 1000 }
}

fn all_jobs() -> ClientRequest {
    ClientRequest::WatchJobs { jobs: Selector::All, until_closed: true, notifications: false }
}

#[test]
fn a_client_whose_requests_wait_without_number_is_refused_and_others_are_not() {
    let mut world = World::new();
    world.submit(1, |_| {});
    for request in 0..WAITS_OF_CLIENT_MAX as u64 {
        let body = if request % 2 == 0 { workers() } else { all_jobs() };
        assert_eq!(world.waits(9, request, body), None, "request {request}");
    }
    for body in [workers(), all_jobs()] {
        let refusal = world.waits(9, 5000, body).expect("a refusal");
        assert!(refusal.starts_with("1000 requests of this client wait"), "{refusal}");
    }
    assert_eq!(world.waits(8, 1, all_jobs()), None, "of another client");
    let seen = world.ask(ClientRequest::ListJobs { states: Vec::new() });
    assert!(matches!(seen, ClientResponse::JobList(_)), "{seen:?}");
    world.step(Input::ClientGone { connection: ConnectionId(9) });
    assert_eq!(world.waits(9, 1, all_jobs()), None, "it has come again");
}

#[test]
fn what_waits_is_bounded_in_bytes_and_leaves_nothing() {
    let mut world = World::new();
    assert_eq!(world.waits_bytes(), 0);
    // Of a client that knows every other end of very many tasks, and asks again and again.
    let job = world.submit(1, |_| {});
    let known: IdSet = (0..1_000_000).map(|number| TaskId(1000 + 2 * number)).collect();
    let awaits = |known: &IdSet| ClientRequest::AwaitEnds { job, known: known.clone() };
    let mut client = 10;
    for request in 0..3 {
        assert_eq!(world.waits(client, request, awaits(&known)), None);
    }
    let one = world.waits_bytes();
    assert!((8_000_000..9_000_000).contains(&one), "the last one alone waits, with {one} bytes");
    let refusal = loop {
        client += 1;
        assert!(client < 60, "{} bytes wait", world.waits_bytes());
        if let Some(refusal) = world.waits(client, 1, awaits(&known)) {
            break refusal;
        }
    };
    assert!(refusal.starts_with("Requests of all clients that wait for something take 256 MiB"), "{refusal}");
    assert!(world.waits(client, 2, workers()).is_some());
    assert!(world.waits_bytes() < WAITS_BYTES_MAX + one);
    world.step(Input::ClientGone { connection: ConnectionId(10) });
    world.step(Input::ClientGone { connection: ConnectionId(11) });
    assert_eq!(world.waits(client, 3, workers()), None);
    assert_eq!(world.waits(client, 4, all_jobs()), None);
    // All is answered when the job has ended.
    world.waits(1, 1, ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    assert!(world.waits_bytes() < 200, "{} bytes stay", world.waits_bytes());
    world.step(Input::ClientGone { connection: ConnectionId(client) });
    assert_eq!(world.waits_bytes(), 0);
}

#[test]
fn who_waits_for_a_job_hears_how_it_ended_though_it_is_forgotten_in_that_moment() {
    let mut world = World::new();
    world.worker(2, 1);
    let job = world.submit(1, |_| {});
    let body = ClientRequest::WatchJobs { jobs: Selector::Last, until_closed: false, notifications: false };
    world.step(Input::Client { connection: CLIENT, request: 9, body });
    let mut effects = Vec::new();
    let report = Report { number: 1, finished: vec![finished(job, 0, 0, 0)], ..Report::default() };
    let message = FromWorker::Report(report);
    world.server.handle(world.now, Input::Worker { connection: ConnectionId(2), message }, &mut effects);
    let body = ClientRequest::ForgetJobs { jobs: Selector::All, states: Vec::new() };
    let other = ConnectionId(77);
    world.server.handle(world.now, Input::Client { connection: other, request: 1, body }, &mut effects);
    world.server.settle(world.now, &mut effects);
    assert!(world.server.state().jobs.is_empty(), "it is forgotten");
    let told = |effect: &Effect| match effect {
        Effect::Answer { request: 9, body: ClientResponse::Progress(jobs), .. } => {
            jobs.iter().map(|job| job.counters.finished).sum::<u64>()
        }
        _ => 0,
    };
    assert_eq!(effects.iter().map(told).sum::<u64>(), 1);
    let is_over = |effect: &Effect| {
        matches!(effect, Effect::Answer { request: 9, body: ClientResponse::WatchEnded, .. })
    };
    assert!(effects.iter().any(is_over));
}
