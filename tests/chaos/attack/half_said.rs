//! Clients with the right key that begin long messages and stop in the middle: what they have said is bounded in bytes for all of
//! them together, and others are heard.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use hq_net::limits::{CLIENT_FRAME_MAX, HALF_SAID_BYTES_MAX};
use hq_net::{AccessFile, Role};
use hq_proto::{Hello, encode_hello};

use super::{SERVER, WORKER, memory_mb, size};
use crate::cluster::{Cluster, Where};

/// What each of them says of its message.
const SAID: usize = 100 << 20;
/// How much memory the server may take for it: the bound, a message more, and what allocators and connections keep.
const MEMORY_MB: f64 = ((HALF_SAID_BYTES_MAX + CLIENT_FRAME_MAX) >> 20) as f64 + 128.0;
/// A server that has taken nothing for so long has no room for more.
const STUCK: Duration = Duration::from_secs(1);

/// Without keys, so that any byte can be said: what a peer may say after its hello is the same with them.
const OPEN: &str = "--disable-client-authentication-and-encryption";

#[test]
fn attack_clients_that_stop_in_the_middle_of_a_message_cost_little_and_hold_up_nobody() {
    let cluster = Cluster::start_with(Where::Here, &format!("{SERVER} {OPEN}"), WORKER).expect("a cluster");
    cluster.ok(&["submit", "--wait", "--", "true"]);
    let access = AccessFile::load(&cluster.server_dir().join("hq-current/access.json")).expect("ports");
    let port = access.endpoint(Role::Client).expect("a part for clients").port;
    let before = memory_mb(cluster.server_pid());
    let (count, mut most) = (size(6, 30), before);
    let mut stopped = Vec::new();
    for number in 0..count {
        stopped.push(says_a_part(port));
        most = most.max(memory_mb(cluster.server_pid()));
        let answer = cluster.ask(&["submit", "--", "true"]);
        assert!(answer.is_success(), "beside {number} clients that stopped in the middle: {answer:?}");
        most = most.max(memory_mb(cluster.server_pid()));
    }
    let grown = most - before;
    eprintln!(
        "{count} clients that each sent {} MB of a message and stopped: the server grew by at most {grown:.0} MB",
        SAID >> 20
    );
    assert!(grown < MEMORY_MB, "the server grew by {grown:.0} MB");
}

// A client that says hello, and then a part of a message, or as much as is taken of it.
fn says_a_part(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("localhost", port)).expect("it listens");
    let hello = encode_hello(&Hello::current(Role::Client));
    stream.write_all(&(hello.len() as u32).to_le_bytes()).expect("connected");
    stream.write_all(&hello).expect("connected");
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("a hello");
    stream.read_exact(&mut vec![0; u32::from_le_bytes(length) as usize]).expect("a hello");
    stream.set_write_timeout(Some(STUCK)).expect("a socket");
    stream.write_all(&(CLIENT_FRAME_MAX as u32).to_le_bytes()).expect("connected");
    let some = vec![7; 1 << 20];
    for _ in 0..SAID / some.len() {
        if stream.write_all(&some).is_err() {
            break;
        }
    }
    stream
}
