//! Peers that say anything at any time: only their own connection suffers.

mod common;

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Client, Worker, runtime, spec, start, stop, submit_of, try_start, watch};
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_core::worker_messages::FromWorker;
use hq_model::job::Target;
use hq_model::selector::Selector;
use hq_model::{Amount, AmountRequest, Body, Entries, JobSpec, Policy};
use hq_net::Role;
use hq_server::{Running, ServerOptions};
use rustix::net::sockopt::set_socket_linger;

fn server() -> (tempfile::TempDir, Running) {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(dir.path());
    (dir, server)
}

#[test]
fn a_job_runs_from_submit_to_its_end() {
    let (_dir, server) = server();
    runtime().block_on(async {
        let mut client = Client::connect(server.access()).await;
        let worker = tokio::spawn(Worker::connect(server.access()).await.work());
        let job = client.submit(1, 100_000, spec()).await;
        assert_eq!(watch(&mut client, job).await, (100_000, 100_000));
        worker.abort();
    });
    stop(server);
}

#[test]
fn a_violation_of_the_protocol_closes_that_connection_and_nothing_else() {
    let (_dir, server) = server();
    runtime().block_on(async {
        let mut good = Client::connect(server.access()).await;
        let mut worker = Worker::connect(server.access()).await;

        let mut bad = Client::connect(server.access()).await;
        bad.sender.send(b"\xff\xff no message").await.expect("a connection");
        bad.sender.flush().await.expect("a connection");
        assert!(bad.is_closed().await);

        let mut rude = Worker::connect(server.access()).await;
        rude.sender.send(b"\xff\xff no message").await.expect("a connection");
        rude.sender.flush().await.expect("a connection");
        assert_eq!(rude.hear().await, None);

        // A worker that does not say hello is no worker.
        let endpoint = server.access().endpoint(Role::Worker).expect("a part");
        let (mut sender, mut receiver) = hq_net::connect(endpoint, Role::Worker).await.expect("a connection");
        sender.send(&hq_proto::encode_from_worker(&FromWorker::Heartbeat)).await.expect("a connection");
        sender.flush().await.expect("a connection");
        assert!(matches!(receiver.next().await, Ok(None)));

        worker.say(&FromWorker::Heartbeat).await;
        assert_eq!(good.ask(ClientRequest::WaitWorkers { count: 1 }).await, ClientResponse::Done);
        assert_eq!(good.jobs().await, [0; 0]);
    });
    stop(server);
}

#[test]
fn a_request_of_a_later_release_is_answered_with_an_error() {
    let (_dir, server) = server();
    runtime().block_on(async {
        let mut client = Client::connect(server.access()).await;
        // Request number 9, and a kind that does not exist yet.
        client.sender.send(&[0x08, 9, 0xfa, 0x3f, 0]).await.expect("a connection");
        client.sender.flush().await.expect("a connection");
        match client.answer(9).await {
            ClientResponse::Error(error) => {
                assert!(error.to_string().contains("does not understand"), "{error}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(client.jobs().await, [0; 0]);
    });
    stop(server);
}

#[test]
fn a_request_that_says_what_cannot_be_is_answered_with_the_reason() {
    let (_dir, server) = server();
    runtime().block_on(async {
        let mut client = Client::connect(server.access()).await;
        let mut submit = submit_of(1, Entries::default(), spec());
        submit.target = Target::New(JobSpec { name: "n".repeat(5000), ..JobSpec::default() });
        match client.ask(ClientRequest::Submit { key: 1, submit: Box::new(submit) }).await {
            ClientResponse::Error(error) => {
                let text = error.to_string();
                assert!(text.contains("name of a job has 5000 bytes, the limit is 4096"), "{text}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(client.jobs().await, [0; 0]);
    });
    stop(server);
}

#[test]
fn garbage_and_half_open_connections_on_both_ports_hurt_nobody() {
    let (_dir, server) = server();
    let ports = [server.info().client_port, server.info().worker_port];
    let connect = |port| TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let half_open: Vec<TcpStream> = ports.iter().flat_map(|port| (0..20).map(|_| connect(*port))).collect();
    for port in ports {
        let mut stream = connect(port);
        stream.write_all(&[0x5a; 4096]).expect("it reads");
        let mut said = Vec::new();
        // It is told that this is no TLS, and the connection ends.
        let _ = stream.read_to_end(&mut said);
    }
    runtime().block_on(async {
        let mut client = Client::connect(server.access()).await;
        assert_eq!(client.jobs().await, [0; 0]);
        Worker::connect(server.access()).await;
    });
    drop(half_open);
    stop(server);
}

#[test]
fn strangers_that_open_connections_without_end_delay_nobody() {
    // Nothing, a part of a first message, and a handshake that stops.
    const SAID: [&[u8]; 3] = [b"", &[0x16, 3, 1], &[0x16, 3, 1, 0, 4, 1, 0, 1, 0]];
    const HELD: usize = 600;
    let (_dir, server) = server();
    let ports = [server.info().client_port, server.info().worker_port];
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut held = VecDeque::new();
            for said in SAID.iter().cycle().take(2000).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                for port in ports {
                    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
                    // When it is closed here, its port is free at once.
                    set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
                    stream.write_all(said).expect("room in the socket");
                    held.push_back(stream);
                    held.drain(..held.len().saturating_sub(HELD));
                }
            }
        });
        runtime().block_on(async {
            for _ in 0..30 {
                let mut client = Client::connect(server.access()).await;
                assert_eq!(client.jobs().await, [0; 0]);
                Worker::connect(server.access()).await;
            }
        });
        is_over.store(true, Ordering::Relaxed);
    });
    stop(server);
}

#[test]
fn a_client_that_asks_much_and_reads_later_gets_all_and_holds_up_nobody() {
    let (_dir, server) = server();
    runtime().block_on(async {
        let mut good = Client::connect(server.access()).await;
        let mut large = spec();
        large.body = Body::program([b"true".to_vec(), vec![b'x'; 4 << 20]]);
        good.submit(1, 1, large).await;
        // Asks for 400 MiB, far more than may wait for one client, and reads nothing of it for now.
        let mut lazy = Client::connect(server.access()).await;
        for _ in 0..100 {
            lazy.send(&ClientRequest::JobInfo { jobs: Selector::All, page: None }).await;
        }
        for _ in 0..20 {
            assert_eq!(good.jobs().await, [1]);
        }
        for request in 1..=100 {
            match lazy.answer(request).await {
                ClientResponse::JobDetails { jobs, .. } => assert_eq!(jobs.len(), 1),
                other => panic!("{other:?}"),
            }
        }
    });
    stop(server);
}

#[test]
fn tasks_with_a_lot_of_entries_reach_the_worker_in_several_messages() {
    let (_dir, server) = server();
    runtime().block_on(async {
        let mut client = Client::connect(server.access()).await;
        // More than the largest frame to a worker.
        let entries = vec![vec![b'e'; 9 << 20]; 8];
        let entries = Entries::new(entries.iter().map(Vec::as_slice)).expect("short");
        let mut spec = spec();
        // All of them fit on the worker at once.
        spec.requests[0].resources[0].amount = AmountRequest::Some(Amount(5000), Policy::Compact);
        let job = client.submit_entries(1, 8, entries, spec).await;
        let worker = tokio::spawn(Worker::connect(server.access()).await.work());
        assert_eq!(watch(&mut client, job).await, (8, 8));
        worker.abort();
    });
    stop(server);
}

#[test]
fn a_task_that_no_frame_could_carry_is_refused() {
    let (_dir, server) = server();
    runtime().block_on(async {
        let mut client = Client::connect(server.access()).await;
        let mut spec = spec();
        spec.stdin = vec![b'x'; 33 << 20];
        let submit = submit_of(1, Entries::default(), spec);
        match client.ask(ClientRequest::Submit { key: 1, submit: Box::new(submit) }).await {
            ClientResponse::Error(error) => assert_eq!(error.code(), "invalid"),
            other => panic!("{other:?}"),
        }
        assert_eq!(client.jobs().await, [0; 0]);
    });
    stop(server);
}

#[test]
fn an_idle_peer_or_a_leaving_one_does_not_hold_up_the_end() {
    let (_dir, server) = server();
    let runtime = runtime();
    let (client, mut worker) = runtime
        .block_on(async { (Client::connect(server.access()).await, Worker::connect(server.access()).await) });
    stop(server);
    // Both are told goodbye.
    runtime.block_on(async {
        let mut client = client;
        assert!(matches!(client.receiver.next().await, Ok(None)));
        assert_eq!(worker.hear().await, None);
    });
}

#[test]
fn without_keys_nothing_is_encrypted_and_everything_works() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut options = ServerOptions::new(dir.path());
    options.encrypt_clients = false;
    options.encrypt_workers = false;
    let server = try_start(options).expect("a server");
    assert!(server.access().endpoint(Role::Client).expect("a part").keys.is_none());
    runtime().block_on(async {
        let mut client = Client::connect(server.access()).await;
        let worker = tokio::spawn(Worker::connect(server.access()).await.work());
        let job = client.submit(1, 10, spec()).await;
        assert_eq!(watch(&mut client, job).await, (10, 10));
        worker.abort();
    });
    stop(server);
}
