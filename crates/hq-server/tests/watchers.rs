//! Clients that watch everything in counts, hundreds at once; and events of some jobs and kinds, from now on.

mod common;

use common::{Client, runtime, spec, start, stop};
use hq_core::client_messages::{ClientRequest, ClientResponse, EventFilter, EventKind, FROM_NOW, Overview};
use hq_core::record::Record;
use hq_model::{IdSet, JobId};

/// Clients that watch.
const WATCHERS: usize = 300;

fn overview(answer: ClientResponse) -> Overview {
    match answer {
        ClientResponse::Overview(overview) => *overview,
        other => panic!("{other:?}"),
    }
}

#[test]
fn hundreds_watch_and_each_hears_of_what_has_changed() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(dir.path());
    let access = server.access().clone();
    runtime().block_on(async {
        let mut client = Client::connect(&access).await;
        let before = overview(client.ask(ClientRequest::Overview { seen: None }).await);
        assert!(before.process.memory_bytes > 1 << 20, "{before:?}");
        let mut watchers = Vec::new();
        for _ in 0..WATCHERS {
            let mut watcher = Client::connect(&access).await;
            let request = watcher.send(&ClientRequest::Overview { seen: Some(before.change) }).await;
            watchers.push((watcher, request));
        }
        client.submit(1, 10, spec()).await;
        for (watcher, request) in &mut watchers {
            let mut told = overview(watcher.answer(*request).await);
            // The first may have been told of something else, as when it has just started.
            while told.tasks.waiting < 10 {
                told = overview(watcher.ask(ClientRequest::Overview { seen: Some(told.change) }).await);
            }
            assert!(told.change > before.change);
            assert!(told.process.journal_records > before.process.journal_records, "{told:?}");
        }
    });
    stop(server);
}

#[test]
fn events_from_now_on_are_those_that_are_wanted_and_a_cursor_goes_on_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(dir.path());
    let access = server.access().clone();
    runtime().block_on(async {
        let mut client = Client::connect(&access).await;
        client.submit(1, 10, spec()).await;
        let filter = EventFilter { jobs: Some(IdSet::range(1, 3)), kinds: vec![EventKind::Job] };
        let follow = |after| ClientRequest::Events { follow: true, after, filter: filter.clone() };
        let mut watcher = Client::connect(&access).await;
        let request = watcher.send(&follow(FROM_NOW)).await;
        let ClientResponse::Events { records, next } = watcher.answer(request).await else {
            panic!("no events")
        };
        assert_eq!(records, Vec::new(), "nothing of the past");
        // Jobs 2 to 4, the last of which is not wanted.
        for key in 2..=4 {
            client.submit(key, 10, spec()).await;
        }
        client.submit(5, 1, spec()).await;
        assert_eq!(submitted(&mut watcher, request, 2).await, [JobId(2), JobId(3)]);
        // Another one that begins where the first began is told the same.
        let mut other = Client::connect(&access).await;
        let request = other.send(&follow(next)).await;
        assert_eq!(submitted(&mut other, request, 2).await, [JobId(2), JobId(3)]);
    });
    stop(server);
}

// The first submits that a client is told of, and nothing else.
async fn submitted(client: &mut Client, request: u64, count: usize) -> Vec<JobId> {
    let mut jobs = Vec::new();
    while jobs.len() < count {
        let ClientResponse::Events { records, .. } = client.answer(request).await else {
            panic!("no events")
        };
        for (_, record) in records {
            match record {
                Record::Submitted { job, .. } => jobs.push(job),
                other => panic!("{other:?}"),
            }
        }
    }
    jobs
}
