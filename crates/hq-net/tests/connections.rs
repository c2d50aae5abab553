//! Connections over real loopback sockets: who gets in, who does not and what they are told.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use hq_net::limits::{
    CLIENT_FRAME_MAX, HANDSHAKE_TIME_MAX, HELLO_FRAME_MAX, WORKER_FRAME_MAX, frame_max, half_open_max,
    silent_max,
};
use hq_net::queue::bounded_bytes;
use hq_net::{
    AccessFile, ConnectError, Endpoint, FrameReceiver, FrameSender, HandshakeError, Keys, ListenError,
    Listener, NetError, Role, connect,
};
use hq_proto::{Hello, Versions, encode_hello};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

type Frames = (FrameSender, FrameReceiver);

/// A server with two ports, and the access file that its users have.
struct Server {
    client: Listener,
    worker: Listener,
    given: AccessFile,
}

impl Server {
    fn start(encrypt: bool) -> Server {
        let mut file = AccessFile::generate("aB3dE6", ("127.0.0.1", 0), ("127.0.0.1", 0), encrypt, encrypt);
        let bind = |endpoint: &mut Option<Endpoint>, role| {
            let endpoint = endpoint.as_mut().expect("a full file");
            let listener = Listener::bind(LOOPBACK, 0, endpoint, role).expect("a free port");
            endpoint.port = listener.port();
            listener
        };
        let client = bind(&mut file.client, Role::Client);
        let worker = bind(&mut file.worker, Role::Worker);
        Server { client, worker, given: file.without_server_keys(None) }
    }

    fn listener(&self, role: Role) -> &Listener {
        match role {
            Role::Client => &self.client,
            Role::Worker => &self.worker,
            Role::Puller => &self.client,
        }
    }

    fn endpoint(&self, role: Role) -> Endpoint {
        self.given.endpoint(role).expect("both roles").clone()
    }

    /// Someone with this endpoint comes to the port of this role.
    async fn meet(
        &self,
        endpoint: &Endpoint,
        role: Role,
    ) -> (Result<Frames, ConnectError>, Result<Frames, HandshakeError>) {
        let listener = self.listener(role);
        let accept = async {
            let (incoming, _) = listener.accept().await;
            listener.handshake(incoming).await
        };
        tokio::join!(connect(endpoint, role), accept)
    }

    async fn pair(&self, role: Role) -> (Frames, Frames) {
        let (near, far) = self.meet(&self.endpoint(role), role).await;
        (near.expect("the right key"), far.expect("the right key"))
    }

    /// Someone says these bytes at the client port.
    async fn told(&self, bytes: &[u8]) -> Result<Frames, HandshakeError> {
        let port = self.client.port();
        let mut stream = TcpStream::connect((LOOPBACK, port)).await.expect("it listens");
        stream.write_all(bytes).await.expect("room in the socket");
        stream.shutdown().await.expect("still open");
        let (incoming, _) = self.client.accept().await;
        // It hears whatever the answer is (an alert, a hello, a reset) until the server closes.
        tokio::spawn(async move { stream.read_to_end(&mut Vec::new()).await });
        self.client.handshake(incoming).await
    }
}

/// The port differs from run to run.
fn without_port(error: &ConnectError, port: u16) -> String {
    error.to_string().replace(&port.to_string(), "PORT")
}

async fn receive(receiver: &mut FrameReceiver) -> Option<Vec<u8>> {
    receiver.next().await.expect("a whole connection")
}

#[tokio::test]
async fn who_has_the_key_gets_in_and_is_heard() {
    for encrypt in [true, false] {
        for role in [Role::Client, Role::Worker] {
            let server = Server::start(encrypt);
            let ((mut sender, mut receiver), (mut far_sender, mut far_receiver)) = server.pair(role).await;
            assert_eq!(receiver.peer().version, Versions::CURRENT.newest);
            assert_eq!(receiver.peer(), far_receiver.peer());
            sender.send(b"hello").await.expect("connected");
            sender.send(b"").await.expect("connected");
            assert_eq!(sender.buffered(), 13, "nothing leaves before the flush");
            sender.flush().await.expect("connected");
            assert_eq!(receive(&mut far_receiver).await.as_deref(), Some(&b"hello"[..]));
            assert_eq!(receive(&mut far_receiver).await.as_deref(), Some(&b""[..]));
            far_sender.send(b"welcome").await.expect("connected");
            far_sender.close().await.expect("connected");
            assert_eq!(receive(&mut receiver).await.as_deref(), Some(&b"welcome"[..]));
            assert_eq!(receive(&mut receiver).await, None, "it said goodbye");
        }
    }
}

#[tokio::test]
async fn a_peer_that_vanishes_is_no_goodbye() {
    let server = Server::start(true);
    let ((sender, receiver), (_far_sender, mut far_receiver)) = server.pair(Role::Worker).await;
    drop((sender, receiver));
    assert!(matches!(far_receiver.next().await, Err(NetError::Cut)));
}

#[tokio::test]
async fn the_file_of_another_server_is_recognised() {
    let (server, other) = (Server::start(true), Server::start(true));
    for role in [Role::Client, Role::Worker] {
        let stale = Endpoint { port: server.listener(role).port(), ..other.endpoint(role) };
        let (near, far) = server.meet(&stale, role).await;
        let near = near.expect_err("not its keys");
        assert!(matches!(near, ConnectError::OtherServer { .. }), "{near}");
        assert!(matches!(far, Err(HandshakeError::Tls(_))), "{far:?}");
    }
}

#[tokio::test]
async fn a_key_that_the_server_does_not_know_is_refused_on_both_sides() {
    let server = Server::start(true);
    for role in [Role::Client, Role::Worker] {
        let mut endpoint = server.endpoint(role);
        let keys = endpoint.keys.as_mut().expect("encrypted");
        keys.secret = Keys::generate().secret;
        let found = keys.secret.public().fingerprint();
        let (near, far) = server.meet(&endpoint, role).await;
        let near = near.expect_err("not its key");
        assert!(matches!(near, ConnectError::Refused { .. }), "{near}");
        let far = far.expect_err("not its key").to_string();
        assert!(far.contains(&format!("not the key of a {role}")) && far.contains(&found), "{far}");
    }
}

#[tokio::test]
async fn the_key_of_a_client_does_not_open_the_worker_port() {
    let server = Server::start(true);
    let (client, worker) = (server.endpoint(Role::Client), server.endpoint(Role::Worker));
    // The client file as it is: the worker port shows another key than the one it knows.
    let swapped = Endpoint { port: worker.port, ..client.clone() };
    let (near, _) = server.meet(&swapped, Role::Worker).await;
    assert!(matches!(near, Err(ConnectError::OtherServer { .. })), "{near:?}");
    // Someone who knows the public key of that port, too.
    let (mut forged, keys) = (worker.clone(), client.keys.expect("encrypted"));
    forged.keys.as_mut().expect("encrypted").secret = keys.secret;
    let (near, far) = server.meet(&forged, Role::Worker).await;
    assert!(matches!(near, Err(ConnectError::Refused { .. })), "{near:?}");
    assert!(matches!(far, Err(HandshakeError::Key { role: Role::Worker, .. })), "{far:?}");
}

#[tokio::test]
async fn one_side_with_keys_and_one_without_do_not_meet() {
    let (encrypted, plain) = (Server::start(true), Server::start(false));
    let keyless = Endpoint { keys: None, ..encrypted.endpoint(Role::Client) };
    let (near, far) = encrypted.meet(&keyless, Role::Client).await;
    let port = keyless.port;
    insta::assert_snapshot!(without_port(&near.expect_err("no keys"), port), @"the program listening on \
        127.0.0.1:PORT does not use the protocol given in the access file: it may require encryption, but the \
        access file has no keys");
    assert!(matches!(far, Err(HandshakeError::Tls(_))), "{far:?}");

    let keyed = Endpoint { port: plain.client.port(), ..encrypted.endpoint(Role::Client) };
    let (near, far) = plain.meet(&keyed, Role::Client).await;
    assert!(matches!(near, Err(ConnectError::NoSense { .. })), "{near:?}");
    assert!(matches!(far, Err(HandshakeError::Net(NetError::TooLarge { .. }))), "{far:?}");
}

#[tokio::test]
async fn without_keys_a_swapped_port_is_noticed_by_the_role() {
    let server = Server::start(false);
    let listener = &server.worker;
    let endpoint = Endpoint { port: listener.port(), ..server.endpoint(Role::Client) };
    let (near, far) = tokio::join!(connect(&endpoint, Role::Client), async {
        let (incoming, _) = listener.accept().await;
        listener.handshake(incoming).await
    });
    insta::assert_snapshot!(without_port(&near.expect_err("wrong port"), endpoint.port), @"127.0.0.1:PORT is the server's port for a worker, not for a client");
    insta::assert_snapshot!(far.expect_err("wrong port"), @"a client came to the port for a worker");
}

#[tokio::test]
async fn nobody_listens() {
    let socket = TcpListener::bind((LOOPBACK, 0)).await.expect("a free port");
    let port = socket.local_addr().expect("bound").port();
    drop(socket);
    let endpoint = Endpoint { host: "127.0.0.1".to_owned(), port, keys: Some(Keys::generate()) };
    let error = connect(&endpoint, Role::Client).await.expect_err("nobody is there");
    insta::assert_snapshot!(without_port(&error, port), @"no server answers at 127.0.0.1:PORT: Connection refused (os error 111)");
    assert!(error.is_transient());
}

#[tokio::test]
async fn a_server_is_found_on_its_own_node_whatever_host_it_publishes() {
    // Nobody looks up a name with so long a part.
    let unknown = "x".repeat(64);
    for (host, encrypt) in [("127.0.0.9", true), (unknown.as_str(), true), ("127.0.0.9", false)] {
        let server = Server::start(encrypt);
        let endpoint = Endpoint { host: host.to_owned(), ..server.endpoint(Role::Client) };
        let connected = if encrypt {
            server.meet(&endpoint, Role::Client).await.0
        } else {
            connect(&endpoint, Role::Client).await
        };
        // Without keys anybody could listen here.
        assert_eq!(connected.is_ok(), encrypt, "{host}: {:?}", connected.err());
    }
    let gone = Server::start(true).endpoint(Role::Client);
    let error = connect(&Endpoint { host: unknown, ..gone }, Role::Client).await.err();
    assert!(matches!(error, Some(ConnectError::Host { .. })), "{error:?}");
}

#[tokio::test]
async fn a_file_for_clients_starts_no_server() {
    let given = AccessFile::generate("u", ("h", 0), ("h", 0), true, true).without_server_keys(None);
    let endpoint = given.endpoint(Role::Worker).expect("both roles");
    let error = Listener::bind(LOOPBACK, 0, endpoint, Role::Worker).expect_err("no private key");
    insta::assert_snapshot!(error, @"the access file has no private key of the server for workers");
    let server = Server::start(false);
    let taken = Listener::bind(LOOPBACK, server.client.port(), &server.endpoint(Role::Client), Role::Client);
    assert!(matches!(taken, Err(ListenError::Port { .. })), "{taken:?}");
}

#[tokio::test]
async fn all_interfaces_means_both_families() {
    let plain = Endpoint { host: "127.0.0.1".to_owned(), port: 0, keys: None };
    let listener = Listener::bind(hq_net::ANY_ADDRESS, 0, &plain, Role::Client).expect("a free port");
    for host in ["127.0.0.1", "::1"] {
        let endpoint = Endpoint { host: host.to_owned(), port: listener.port(), keys: None };
        let (near, far) = tokio::join!(connect(&endpoint, Role::Client), async {
            let (incoming, _) = listener.accept().await;
            listener.handshake(incoming).await
        });
        assert!(near.is_ok() && far.is_ok(), "{host}: {near:?} {far:?}");
    }
}

/// A hello of a release that speaks only these versions, as it would arrive on a plain connection.
fn hello(oldest: u32, newest: u32) -> Vec<u8> {
    let versions = Versions { oldest, newest };
    let bytes = encode_hello(&Hello { versions, role: Role::Client, release: "9.9.9".to_owned() });
    [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
}

#[tokio::test]
async fn a_release_of_another_time_is_told_the_versions() {
    let server = Server::start(false);
    let far = server.told(&hello(7, 9)).await.expect_err("no version in common").to_string();
    assert!(far.contains("hq 9.9.9 speaks 7 to 9: install a newer hq on this side"), "{far}");

    let listener = TcpListener::bind((LOOPBACK, 0)).await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let endpoint = Endpoint { host: "127.0.0.1".to_owned(), port, keys: None };
    let (near, ()) = tokio::join!(connect(&endpoint, Role::Client), async {
        let (mut stream, _) = listener.accept().await.expect("someone connects");
        stream.write_all(&hello(7, 9)).await.expect("connected");
    });
    let near = near.expect_err("no version in common");
    assert!(matches!(near, ConnectError::Version(_)), "{near}");
}

#[tokio::test]
async fn a_newer_release_that_still_speaks_our_version_gets_in() {
    let server = Server::start(false);
    let (_, receiver) = server.told(&hello(1, 9)).await.expect("our version in common");
    let ours = Versions::CURRENT.newest;
    assert_eq!((receiver.peer().version, receiver.peer().release.as_str()), (ours, "9.9.9"));
}

#[tokio::test]
async fn random_bytes_end_the_connection_and_nothing_else() {
    // A generator of its own, so that a failure can be repeated.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for encrypt in [true, false] {
        let server = Server::start(encrypt);
        for round in 0..200 {
            let length = random() as usize % 300;
            let mut bytes: Vec<u8> = (0..length).map(|_| random() as u8).collect();
            match round % 4 {
                // As if TLS began, or a frame of a possible length.
                0 => bytes.splice(0..0, [0x16, 3, 1, 0, (length % 256) as u8]).for_each(drop),
                1 => bytes.splice(0..0, (length as u32).to_le_bytes()).for_each(drop),
                _ => {}
            }
            let result = server.told(&bytes).await;
            assert!(result.is_err(), "{bytes:?}");
        }
        server.pair(Role::Client).await;
    }
}

#[tokio::test]
async fn before_the_hello_only_small_frames_pass() {
    let server = Server::start(false);
    let length = HELLO_FRAME_MAX as u32 + 1;
    let far = server.told(&length.to_le_bytes()).await.expect_err("too long for a hello");
    insta::assert_snapshot!(far, @"a frame of 4097 bytes exceeds the limit of 4096");
}

#[tokio::test]
async fn a_frame_over_the_limit_is_neither_sent_nor_taken() {
    for (role, limit) in [(Role::Client, CLIENT_FRAME_MAX), (Role::Worker, WORKER_FRAME_MAX)] {
        let server = Server::start(false);
        let ((mut sender, _receiver), _far) = server.pair(role).await;
        let sent = sender.send(&vec![0; limit + 1]).await;
        assert!(matches!(sent, Err(NetError::TooLarge { .. })), "{sent:?}");
        sender.send(b"still good").await.expect("connected");
        sender.flush().await.expect("connected");
    }
    // A peer without manners.
    let server = Server::start(false);
    let claim = (CLIENT_FRAME_MAX as u32 + 1).to_le_bytes();
    let (_, mut receiver) =
        server.told(&[&hello(1, 1)[..], &claim].concat()).await.expect("the hello is fine");
    assert!(matches!(receiver.next().await, Err(NetError::TooLarge { limit: CLIENT_FRAME_MAX, .. })));
}

#[tokio::test]
async fn large_frames_pass_in_both_directions_at_once() {
    for encrypt in [true, false] {
        let server = Server::start(encrypt);
        let ((mut a_out, mut a_in), (mut b_out, mut b_in)) = server.pair(Role::Worker).await;
        let frame: Vec<u8> = (0..10_000_019_u32).map(|i| (i % 251) as u8).collect();
        let send = async |out: &mut FrameSender| {
            for length in [0, 1, 65_535, 65_536, 65_537, frame.len()] {
                out.send(&frame[..length]).await.expect("connected");
            }
            out.flush().await.expect("connected");
        };
        let check = async |from: &mut FrameReceiver| {
            for length in [0, 1, 65_535, 65_536, 65_537, frame.len()] {
                let got = receive(from).await.expect("a frame");
                assert!(got == frame[..length], "a frame of {length} bytes, {} came", got.len());
            }
        };
        tokio::join!(send(&mut a_out), send(&mut b_out), check(&mut a_in), check(&mut b_in));
    }
}

#[tokio::test]
async fn who_does_not_read_fills_a_queue_and_no_more() {
    const LIMIT: usize = 1 << 20;
    let server = Server::start(true);
    let ((_sender, mut receiver), (mut far_sender, _far_receiver)) = server.pair(Role::Client).await;
    let (queue, mut queued) = bounded_bytes::<Vec<u8>>(LIMIT);
    let writer = tokio::spawn(async move {
        while let Some(frame) = queued.recv().await {
            far_sender.send(&frame).await?;
            far_sender.flush().await?;
        }
        far_sender.close().await
    });
    // The sockets of the kernel take some megabytes before they, too, are full.
    let mut pushed = 0_u64;
    while queue.try_push(vec![7; 32 << 10], 32 << 10).is_ok() {
        pushed += 1;
        assert!(pushed < 2048, "the queue never fills");
        tokio::task::yield_now().await;
    }
    assert!(queue.bytes() >= LIMIT && queue.bytes() <= LIMIT + (32 << 10));
    // Once it reads, everything is there.
    drop(queue);
    let mut got = 0;
    while receive(&mut receiver).await.is_some() {
        got += 1;
    }
    assert_eq!(got, pushed);
    writer.await.expect("no panic").expect("connected");
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_or_not_enough_is_turned_away_in_time() {
    for encrypt in [true, false] {
        let server = Server::start(encrypt);
        let address = (LOOPBACK, server.client.port());
        let mut silent = TcpStream::connect(address).await.expect("it listens");
        let mut slow = TcpStream::connect(address).await.expect("it listens");
        slow.write_all(&[0x16, 3]).await.expect("room in the socket");
        let begin = Instant::now();
        let closed = async {
            silent.read_to_end(&mut Vec::new()).await.expect("nothing but its end");
            // Bytes that nobody read are answered by a reset.
            slow.read_to_end(&mut Vec::new()).await.expect_err("nothing but its end");
        };
        tokio::select! {
            (_, peer) = server.client.accept() => panic!("{peer} has not spoken"),
            () = closed => {}
        }
        assert!(begin.elapsed().abs_diff(HANDSHAKE_TIME_MAX) < Duration::from_millis(10));
    }
}

#[tokio::test(start_paused = true)]
async fn who_begins_a_handshake_and_stops_is_turned_away_in_time() {
    let server = Server::start(true);
    let mut stream = TcpStream::connect((LOOPBACK, server.client.port())).await.expect("it listens");
    stream.write_all(&CLIENT_HELLO_BEGUN).await.expect("room in the socket");
    let (incoming, _) = server.client.accept().await;
    let begin = Instant::now();
    let result = server.client.handshake(incoming).await;
    assert!(matches!(result, Err(HandshakeError::Timeout)), "{result:?}");
    assert!(begin.elapsed().abs_diff(HANDSHAKE_TIME_MAX) < Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_given_up_in_time() {
    let silent = TcpListener::bind((LOOPBACK, 0)).await.expect("a free port");
    let port = silent.local_addr().expect("bound").port();
    for keys in [None, Some(Keys::generate())] {
        let endpoint = Endpoint { host: "127.0.0.1".to_owned(), port, keys };
        let error = connect(&endpoint, Role::Worker).await.expect_err("it says nothing");
        assert!(matches!(error, ConnectError::Timeout { .. }), "{error}");
    }
}

/// A TLS record that is whole and holds the beginning of a client's hello.
const CLIENT_HELLO_BEGUN: [u8; 9] = [0x16, 3, 1, 0, 4, 1, 0, 1, 0];

/// Serves a listener until the task is ended.
fn serve(listener: Arc<Listener>) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            let (incoming, _) = listener.accept().await;
            let listener = listener.clone();
            tokio::spawn(async move { listener.handshake(incoming).await.map(drop) });
        }
    })
}

#[tokio::test]
async fn whatever_strangers_leave_undone_an_honest_peer_gets_in() {
    // Nothing at all, a beginning of TLS, and TLS that stops in the middle.
    for said in [&[][..], &CLIENT_HELLO_BEGUN[..3], &CLIENT_HELLO_BEGUN] {
        let server = Server::start(true);
        let endpoint = server.endpoint(Role::Client);
        let listener = Arc::new(server.client);
        let port = listener.port();
        let serving = serve(listener);
        let mut strangers = Vec::new();
        // Descriptors of this process are the limit: each connection has two of them here.
        let count =
            if said.len() == CLIENT_HELLO_BEGUN.len() { half_open_max() + 50 } else { silent_max() + 50 };
        for _ in 0..count {
            let mut stranger = TcpStream::connect((LOOPBACK, port)).await.expect("it listens");
            stranger.write_all(said).await.expect("room in the socket");
            strangers.push(stranger);
        }
        for _ in 0..3 {
            connect(&endpoint, Role::Client).await.expect("strangers do not matter");
        }
        serving.abort();
    }
}

#[tokio::test]
async fn a_storm_of_honest_peers_gets_in_whole() {
    const PEERS: usize = 200;
    let server = Server::start(true);
    let endpoint = Arc::new(server.endpoint(Role::Worker));
    let listener = Arc::new(server.worker);
    let peers: Vec<_> = (0..PEERS)
        .map(|_| {
            let endpoint = endpoint.clone();
            tokio::spawn(async move { connect(&endpoint, Role::Worker).await })
        })
        .collect();
    let mut handshakes = Vec::new();
    for _ in 0..PEERS {
        let (incoming, _) = listener.accept().await;
        let listener = listener.clone();
        handshakes.push(tokio::spawn(async move { listener.handshake(incoming).await }));
    }
    for (peer, handshake) in peers.into_iter().zip(handshakes) {
        peer.await.expect("no panic").expect("the right key");
        handshake.await.expect("no panic").expect("the right key");
    }
}

#[test]
fn limits_are_those_of_the_role() {
    assert_eq!(frame_max(Role::Client), CLIENT_FRAME_MAX);
    assert_eq!(frame_max(Role::Worker), WORKER_FRAME_MAX);
}
