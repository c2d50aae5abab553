//! A journal that is compacted while the server works: it stays small, and a restart finds the same.

mod common;

use std::fs;
use std::path::Path;

use common::{Client, Worker, runtime, spec, stop, try_start, watch};
use hq_core::client_messages::{ClientRequest, ClientResponse, EventFilter};
use hq_core::server::Keep;
use hq_model::selector::Selector;
use hq_model::{Body, TaskSpec};
use hq_server::{Running, ServerOptions};

/// Bytes by which the journal grows at least before it is compacted.
const GROWTH: u64 = 64 << 10;

fn start(dir: &Path) -> Running {
    let keep_jobs = Keep { jobs: Some(5), time: None };
    let options = ServerOptions { keep_jobs, compact_bytes_min: GROWTH, ..ServerOptions::new(dir) };
    try_start(options).expect("a server")
}

fn sizes(dir: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(dir.join("journal")).expect("a journal").map(|entry| entry.expect("an entry"));
    let sizes = entries.map(|entry| {
        // One that a compaction takes away at this moment counts nothing.
        let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
        (entry.file_name().to_string_lossy().into_owned(), bytes)
    });
    sizes.collect()
}

async fn jobs(client: &mut Client) -> ClientResponse {
    client.ask(ClientRequest::ListJobs { states: Vec::new() }).await
}

#[test]
fn a_long_history_takes_no_room_and_a_restart_finds_the_present() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(dir.path());
    let access = server.access().clone();
    let before = runtime().block_on(async {
        let mut client = Client::connect(&access).await;
        let worker = tokio::spawn(Worker::connect(&access).await.work());
        for key in 1..=300 {
            let job = client.submit(key, 500, spec()).await;
            assert_eq!(watch(&mut client, job).await, (500, 500));
        }
        // What is followed is not lost by a compaction either.
        let events = client
            .send(&ClientRequest::Events { follow: false, after: 0, filter: EventFilter::default() })
            .await;
        while let ClientResponse::Events { .. } = client.answer(events).await {}
        assert_eq!(client.ask(ClientRequest::FlushJournal).await, ClientResponse::Done);
        let before = jobs(&mut client).await;
        worker.abort();
        before
    });
    let sizes = sizes(dir.path());
    let total: u64 = sizes.iter().map(|(_, bytes)| bytes).sum();
    assert!(sizes.iter().any(|(name, _)| name.starts_with("snapshot-")), "{sizes:?}");
    assert!(total < 8 * GROWTH, "{sizes:?}");
    stop(server);
    let server = start(dir.path());
    let access = server.access().clone();
    runtime().block_on(async {
        let mut client = Client::connect(&access).await;
        assert_eq!(jobs(&mut client).await, before);
        assert_eq!(client.submit(999, 1, spec()).await.0, 301);
    });
    stop(server);
}

#[test]
fn a_journal_of_jobs_that_were_forgotten_becomes_small_by_itself_and_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = || ServerOptions { compact_bytes_min: GROWTH, ..ServerOptions::new(dir.path()) };
    let server = try_start(options()).expect("a server");
    let access = server.access().clone();
    let heavy = |key: u128| {
        let text = format!("{key}-").repeat(20_000);
        TaskSpec { body: Body::program(["true", text.as_str()]), ..spec() }
    };
    runtime().block_on(async {
        let mut client = Client::connect(&access).await;
        let worker = tokio::spawn(Worker::connect(&access).await.work());
        for key in 1..=20 {
            let job = client.submit(key, 1, heavy(key)).await;
            assert_eq!(watch(&mut client, job).await, (1, 1));
        }
        worker.abort();
    });
    stop(server);
    let sizes = || sizes(dir.path());
    let total = || sizes().iter().map(|(_, bytes)| bytes).sum::<u64>();
    let snapshot = |(name, bytes): &(String, u64)| name.starts_with("snapshot-") && *bytes > GROWTH;
    assert!(sizes().iter().any(snapshot), "some of it is in a snapshot: {:?}", sizes());
    // What is dead must be known again.
    let server = try_start(options()).expect("a server");
    let access = server.access().clone();
    runtime().block_on(async {
        let mut client = Client::connect(&access).await;
        client.ask(ClientRequest::ForgetJobs { jobs: Selector::All, states: Vec::new() }).await;
        assert_eq!(client.ask(ClientRequest::FlushJournal).await, ClientResponse::Done);
        // A worker that has ended, and the like, is all that is left.
        while total() > GROWTH {
            assert_eq!(client.ask(ClientRequest::FlushJournal).await, ClientResponse::Done);
        }
    });
    stop(server);
}
