//! A server inside this process, as `hq run` has it.

mod common;

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use common::{Client, Worker, runtime, spec, watch};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_net::{AccessFile, Role};
use hq_server::directory::access_path;
use hq_server::{Embedded, EmbeddedOptions, Reach};

// Threads are counted in the whole process.
static ONE_SERVER_AT_A_TIME: Mutex<()> = Mutex::new(());

fn options(dir: &tempfile::TempDir, has_journal: bool) -> EmbeddedOptions {
    let version = "0.0.0".to_owned();
    EmbeddedOptions {
        dir: dir.path().to_owned(),
        has_journal,
        idle_timeout: None,
        jobs_before: 0,
        worker_grace: Duration::from_secs(30),
        reach: Reach::Loopback,
        version,
    }
}

#[test]
fn it_runs_jobs_over_loopback_encrypted_with_few_threads() {
    let _alone = ONE_SERVER_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("a directory");
    let server = Embedded::start(options(&dir, false)).expect("a server");
    assert_eq!(AccessFile::load(&access_path(dir.path())).expect("a file"), *server.access());
    for role in [Role::Client, Role::Worker] {
        let endpoint = server.access().endpoint(role).expect("a part");
        assert_eq!(endpoint.host, "127.0.0.1");
        assert!(endpoint.keys.is_some());
        assert_eq!(listening_addresses(endpoint.port), ["0100007F"]);
    }
    runtime().block_on(async {
        let mut client = Client::connect(server.access()).await;
        let worker = tokio::spawn(Worker::connect(server.access()).await.work());
        let job = client.submit(1, 1000, spec()).await;
        assert_eq!(watch(&mut client, job).await, (1000, 1000));
        worker.abort();
    });
    let names = fs::read_dir("/proc/self/task").expect("it lives");
    let names = names.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let ours = names.filter(|name| name.starts_with("hq-")).count();
    assert!(ours <= 8, "{ours} threads");
    server.stop().expect("a clean end");
    assert!(!dir.path().join("journal").exists());
    assert!(!access_path(dir.path()).exists());
}

#[test]
fn a_client_may_end_it_too_and_dropping_it_is_enough() {
    let _alone = ONE_SERVER_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("a directory");
    for has_journal in [false, true, true] {
        let server = Embedded::start(options(&dir, has_journal)).expect("a server");
        runtime().block_on(async {
            let mut client = Client::connect(server.access()).await;
            assert_eq!(client.ask(ClientRequest::StopServer).await, ClientResponse::Done);
        });
    }
}

#[test]
fn what_can_never_happen_is_counted_where_a_user_sees_it() {
    let _alone = ONE_SERVER_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("a directory");
    let server = Embedded::start(options(&dir, false)).expect("a server");
    runtime().block_on(async {
        let mut client = Client::connect(server.access()).await;
        for expected in 0..2 {
            match client.ask(ClientRequest::ServerInfo).await {
                ClientResponse::ServerInfo(info) => assert_eq!(info.internal_errors, expected),
                other => panic!("{other:?}"),
            }
            hq_core::never::happened("here:1", format_args!("task 3@1 is nowhere"));
        }
    });
    server.stop().expect("a clean end");
}

// The IPv4 and IPv6 addresses at which something listens at a port, in hexadecimal digits.
fn listening_addresses(port: u16) -> Vec<String> {
    const LISTENING: &str = "0A";
    let table = |name: &str| fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    let lines = table("tcp") + &table("tcp6");
    let local = lines.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next()?, words.nth(1)?);
        let (address, its_port) = local.split_once(':')?;
        (state == LISTENING && its_port == format!("{port:04X}")).then(|| address.to_owned())
    });
    local.collect()
}
