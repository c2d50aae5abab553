//! Clients that get objects and put files by way of the server, and what else they say there.

mod common;

use common::{Worker, hello, runtime, start, stop};
use hq_core::client_messages::{ClientResponse, RequestError};
use hq_core::node_messages::{AskRelay, Fetch, FromNode, ToNode};
use hq_core::worker_messages::ToWorker;
use hq_model::{Instance, JobId, ObjectId, TaskId, TaskRef, WorkerId};
use hq_net::{AccessFile, FrameReceiver, FrameSender, Role};
use hq_proto::{decode_from_node, decode_to_node, encode_ask_relay, encode_from_node, encode_to_node};

type Connection = (FrameSender, FrameReceiver);

const ENDING: &str = "the connection ends";

async fn asks(access: &AccessFile, role: Role, ask: AskRelay, rest: &[ToNode]) -> Connection {
    let endpoint = access.endpoint(role).expect("a part for everyone");
    let (mut sender, receiver) = hq_net::connect(endpoint, role).await.expect("a connection");
    sender.send(&encode_ask_relay(ask)).await.expect("a connection");
    for message in rest {
        sender.send(&encode_to_node(message)).await.expect("a connection");
    }
    sender.flush().await.expect("a connection");
    (sender, receiver)
}

async fn says(connection: &mut Connection, message: &[u8]) {
    connection.0.send(message).await.expect("a connection");
    connection.0.flush().await.expect("a connection");
}

// What a client hears.
async fn hears(connection: &mut Connection) -> Result<FromNode, &'static str> {
    let frame = connection.1.next().await.ok().flatten().ok_or(ENDING)?;
    Ok(decode_from_node(&frame).expect("a message"))
}

// What a worker hears that has come for a client.
async fn is_asked(connection: &mut Connection) -> Result<ToNode, &'static str> {
    let frame = connection.1.next().await.ok().flatten().ok_or(ENDING)?;
    Ok(decode_to_node(&frame).expect("a message"))
}

fn fetch(worker: WorkerId) -> Fetch {
    let task = TaskRef::new(JobId(1), TaskId(0));
    let object = ObjectId { task, name: "note".parse().expect("a name") };
    Fetch { worker, object, instance: Instance(0), offset: 0, from: None }
}

fn process(worker: WorkerId) -> ToNode {
    ToNode::Hello { task: TaskRef::new(JobId(1), TaskId(0)), instance: Instance(0), worker, node: 0 }
}

// A worker, and its connection for a client that has asked for this.
async fn comes(access: &AccessFile, wish: impl Fn(WorkerId) -> ToNode) -> (Connection, Connection) {
    let mut worker = Worker::connect_as(access, {
        let mut hello = hello();
        (hello.stores, hello.relays) = (true, true);
        hello
    })
    .await;
    let wish = wish(worker.id);
    let client = asks(access, Role::Client, AskRelay::From(worker.id), std::slice::from_ref(&wish)).await;
    let ticket = loop {
        match worker.hear().await {
            Some(ToWorker::Relay { ticket }) => break ticket,
            Some(_) => {}
            None => panic!("the server is there"),
        }
    };
    let mut holder = asks(access, Role::Worker, AskRelay::For(ticket), &[]).await;
    assert_eq!(is_asked(&mut holder).await, Ok(wish));
    (client, holder)
}

#[test]
fn the_key_of_clients_starts_nothing_at_workers_and_answers_for_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(dir.path());
    runtime().block_on(async {
        let access = server.access();
        let mut client = asks(access, Role::Client, AskRelay::For(1), &[]).await;
        let frame = client.1.next().await.expect("a connection").expect("an answer");
        let answer = hq_proto::decode_client_response(&frame);
        let is_refused = matches!(answer, Ok((0, ClientResponse::Error(RequestError::Invalid(_)))));
        assert!(is_refused, "only workers come for others: {answer:?}");
        let busy = Fetch {
            from: Some(hq_core::worker_messages::TaskNode {
                worker: WorkerId(9),
                hostname: "mine".to_owned(),
                address: "mine:1".to_owned(),
            }),
            ..fetch(WorkerId(1))
        };
        for wish in
            [process(WorkerId(1)), ToNode::Fetch(busy), ToNode::Piece { bytes: vec![1], is_last: true }]
        {
            let mut client = asks(access, Role::Client, AskRelay::From(WorkerId(1)), &[wish]).await;
            let said = hears(&mut client).await;
            assert!(
                matches!(&said, Ok(FromNode::Refused { reason, .. }) if reason.starts_with("clients get objects")),
                "{said:?}"
            );
            assert_eq!(hears(&mut client).await, Err(ENDING));
        }
    });
    stop(server);
}

#[test]
fn nothing_follows_the_object_that_a_client_gets() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(dir.path());
    runtime().block_on(async {
        let (mut client, mut holder) = comes(server.access(), |id| ToNode::Fetch(fetch(id))).await;
        let piece = FromNode::Piece { offset: 0, bytes: b"note".to_vec(), is_last: true };
        says(&mut holder, &encode_from_node(&piece)).await;
        assert_eq!(hears(&mut client).await, Ok(piece));
        // The worker would take that as the beginning of something else.
        says(&mut client, &encode_to_node(&process(WorkerId(1)))).await;
        assert_eq!(is_asked(&mut holder).await, Err(ENDING));
        assert_eq!(hears(&mut client).await, Err(ENDING));
    });
    stop(server);
}

#[test]
fn a_file_passes_piece_by_piece_and_its_name_comes_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(dir.path());
    runtime().block_on(async {
        let put = |worker| ToNode::Put { worker, size: 4 };
        let (mut client, mut holder) = comes(server.access(), put).await;
        for (bytes, is_last) in [(b"no".to_vec(), false), (b"te".to_vec(), true)] {
            let piece = ToNode::Piece { bytes, is_last };
            says(&mut client, &encode_to_node(&piece)).await;
            assert_eq!(is_asked(&mut holder).await, Ok(piece));
        }
        let name = FromNode::Put { file: "n-0".to_owned() };
        says(&mut holder, &encode_from_node(&name)).await;
        assert_eq!(hears(&mut client).await, Ok(name));
        drop(client);
        assert_eq!(is_asked(&mut holder).await, Err(ENDING), "the worker hears that the client has gone");
    });
    stop(server);
}
