//! A listener of a process that has run out of descriptors. Alone in its file, since the limit is the
//! whole process's.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use hq_net::{Endpoint, Listener, Role};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

#[tokio::test(start_paused = true)]
async fn a_listener_waits_for_descriptors_and_goes_on() {
    let limit = Rlimit { current: Some(100), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).expect("a lower limit is always allowed");
    let endpoint = Endpoint { host: "127.0.0.1".to_owned(), port: 0, keys: None };
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let listener = Listener::bind(address, 0, &endpoint, Role::Worker).expect("a free port");

    let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    files.pop();
    let mut client = TcpStream::connect((address, listener.port())).await.expect("one descriptor is left");
    client.write_all(&[0; 4]).await.expect("room in the socket");
    let early = timeout(Duration::from_secs(5), listener.accept()).await;
    assert!(early.is_err(), "there is no descriptor for it");

    drop(files);
    let (incoming, peer) = listener.accept().await;
    assert_eq!(peer, client.local_addr().expect("connected"));
    drop(incoming);
}
