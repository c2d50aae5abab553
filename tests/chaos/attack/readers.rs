//! Clients with the right key that ask and never read: the server's memory is bounded, and others are served.

use std::time::Duration;

use hq_core::client_messages::ClientRequest;
use hq_model::selector::Selector;
use hq_net::{AccessFile, Role};

use super::{SERVER, WORKER, memory_mb, size};
use crate::cluster::{Cluster, Where};

/// What all of them together may cost the server, in megabytes.
const MEMORY_MB: f64 = 256.0;
/// A server that has not taken a request for so long waits for its answers to be read.
const STUCK: Duration = Duration::from_secs(2);
/// Lines that the server may log of one of them.
const LINES_MAX: usize = 50;

#[test]
fn attack_clients_that_never_read_cost_little_and_hold_up_nobody() {
    let cluster = Cluster::start_with(Where::Here, SERVER, WORKER).expect("a cluster");
    for _ in 0..20 {
        cluster.ok(&["submit", "--array", "1-1000", "--cpus", "1000", "--", "true"]);
    }
    let access = AccessFile::load(&cluster.server_dir().join("hq-current/access.json")).expect("keys");
    let before = memory_mb(cluster.server_pid());
    let count = size(4, 30);
    let requests = [
        ClientRequest::ListJobs { states: Vec::new() },
        ClientRequest::JobInfo { jobs: Selector::All, page: None },
        ClientRequest::ServerInfo,
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut most = before;
    let mut lazy = Vec::new();
    for number in 0..count {
        let request = &requests[number as usize % requests.len()];
        let asked = runtime.block_on(async {
            let endpoint = access.endpoint(Role::Client).expect("a part for clients");
            let (mut sender, receiver) = hq_net::connect(endpoint, Role::Client).await.expect("a connection");
            let mut asked = 0u64;
            // Until it takes no more, or has hung up.
            while asked < 200_000 {
                let frame = hq_proto::encode_client_request(asked + 1, request);
                let sent = async {
                    sender.send(&frame).await?;
                    if asked.is_multiple_of(64) { sender.flush().await } else { Ok(()) }
                };
                match tokio::time::timeout(STUCK, sent).await {
                    Ok(Ok(())) => asked += 1,
                    Ok(Err(_)) | Err(_) => break,
                }
            }
            lazy.push((sender, receiver));
            asked
        });
        most = most.max(memory_mb(cluster.server_pid()));
        let answer = cluster.ask(&["job", "list"]);
        assert!(answer.is_success(), "beside {number} clients that never read, {asked} requests: {answer:?}");
    }
    let log = std::fs::read_to_string(cluster.root().join("server.log")).unwrap_or_default();
    let lines = log.lines().count();
    eprintln!(
        "{count} clients that never read: the server grew by at most {:.0} MB and logged {lines} lines",
        most - before
    );
    assert!(most - before < MEMORY_MB, "the server grew by {:.0} MB", most - before);
    assert!(lines < LINES_MAX * count as usize, "the server logged {lines} lines");
}
