//! Connections of a small HTTP server: how many there are, how long they may say nothing, and how large a request may be.
//!
//! Who answers what is said by whoever serves.

mod line;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Request;
use hyper::Response;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::debug;

use line::Lines;

/// Connections at once.
pub(crate) const CONNECTIONS_MAX: usize = 128;
/// How long a client may take for the head of a request, and say nothing between two of them.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Bytes of a head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long to wait where the system has no room for one more connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Where connections come from.
pub(crate) enum Listener {
    /// A port.
    Tcp(TcpListener),
    /// A socket in a directory, for processes of this user alone.
    Unix(UnixListener),
}

/// A connection that a request came over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_held: AtomicBool,
    end: Notify,
}

impl Held {
    /// From now on it does not end in favor of another one.
    pub(crate) fn hold(&self) {
        self.0.is_held.store(true, Ordering::Relaxed);
    }

    /// It ends now, whatever is on the way.
    pub(crate) fn end(&self) {
        self.0.end.notify_one();
    }

    /// Waits until it is to end.
    pub(crate) async fn ended(&self) {
        self.0.end.notified().await;
    }

    fn is_held(&self) -> bool {
        self.0.is_held.load(Ordering::Relaxed)
    }
}

/// Serves until the future is dropped. When there are too many connections, the oldest that is not held ends: one that is
/// asking is done within milliseconds, and the oldest is one that says nothing.
pub(crate) async fn serve<S, F, B>(
    listener: Listener,
    connection_time: Option<Duration>,
    answer: S,
) -> io::Result<Infallible>
where
    S: Fn(Request<Incoming>, Held) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut connections: VecDeque<(AbortHandle, Held)> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok(Some(stream)) => stream,
            Ok(None) => continue,
            Err(error) => {
                debug!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        connections.retain(|(connection, _)| !connection.is_finished());
        if connections.len() >= CONNECTIONS_MAX {
            let Some(oldest) = connections.iter().position(|(_, held)| !held.is_held()) else { continue };
            if let Some((connection, _)) = connections.remove(oldest) {
                connection.abort();
            }
        }
        let (answer, kept) = (answer.clone(), Held::default());
        let (held, of_requests) = (kept.clone(), kept.clone());
        let served = tokio::spawn(async move {
            let has_body = Arc::new(AtomicBool::new(false));
            let lines = Lines::new(stream, has_body.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                has_body.fetch_or(!request.body().is_end_stream(), Ordering::Relaxed);
                let answered = answer(request, of_requests.clone());
                async move { Ok::<_, Infallible>(answered.await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                // Who has said all that it wants may close its sending end, as `nc -N` does, and hears the answer.
                .half_close(true)
                .header_read_timeout(HEAD_TIME)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(lines), service);
            let limited = async {
                match connection_time {
                    Some(time) => timeout(time, connection).await.unwrap_or(Ok(())),
                    None => connection.await,
                }
            };
            let ended = tokio::select! {
                ended = limited => ended,
                () = held.ended() => Ok(()),
            };
            if let Err(error) = ended {
                debug!(%error, "a connection has failed");
            }
        });
        connections.push_back((served.abort_handle(), kept));
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Listener {
    // None when somebody else knocks at a socket of this user.
    async fn accept(&self) -> io::Result<Option<Box<dyn Stream>>> {
        match self {
            Listener::Tcp(listener) => Ok(Some(Box::new(listener.accept().await?.0))),
            Listener::Unix(listener) => {
                let stream = listener.accept().await?.0;
                let is_ours = stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw();
                Ok(is_ours.then(|| Box::new(stream) as Box<dyn Stream>))
            }
        }
    }
}

/// The name in a `Host` header, without a port; empty where something else than a port follows it.
pub(crate) fn host_name(host: &str) -> &str {
    let (name, rest) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or_default(),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |text: &str| text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    if rest.is_empty() || is_port(rest) { name } else { "" }
}

/// True when only this machine reaches an address.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// The error of an address that cannot be had.
pub(crate) fn cannot_listen(address: SocketAddr, error: &io::Error) -> String {
    format!("cannot listen on {address}: {error}")
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn loopback_has_several_forms() {
        for (address, is) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("0.0.0.0", false),
            ("::", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(address.parse().expect("an address")), is, "{address}");
        }
    }

    #[test]
    fn what_is_too_long_is_answered_however_much_of_it_comes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let status = |request: Vec<u8>| {
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                let address = listener.local_addr().expect("an address");
                let answer = |_: Request<Incoming>, _: Held| async { Response::new("found\n".to_owned()) };
                let served = tokio::spawn(serve(Listener::Tcp(listener), None, answer));
                let stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
                let (mut read, mut write) = stream.into_split();
                let said = tokio::spawn(async move {
                    // Whoever is refused may hear it before all is said.
                    let _ = write.write_all(&request).await;
                    write
                });
                let mut answer = Vec::new();
                read.read_to_end(&mut answer).await.expect("an answer, and an end");
                drop(said.await);
                served.abort();
                let answer = String::from_utf8(answer).expect("text");
                let heads = answer.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 "));
                heads.map(|head| head[..3].to_owned()).collect::<Vec<_>>().join(" ")
            })
        };
        let head = " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
        let line = |bytes: usize| format!("GET /{}{head}\r\n", "x".repeat(bytes)).into_bytes();
        let field = |bytes: usize| format!("GET /{head}X: {}\r\n\r\n", "x".repeat(bytes)).into_bytes();
        for (bytes, expected) in [(1, "200"), (7000, "200"), (9000, "414"), (20_000, "414"), (900_000, "414")]
        {
            assert_eq!(status(line(bytes)), expected, "a line of {bytes} bytes");
        }
        for (bytes, expected) in [(1, "200"), (9000, "200"), (20_000, "431"), (900_000, "431")] {
            assert_eq!(status(field(bytes)), expected, "a field of {bytes} bytes");
        }
        // Also behind another request, and without an end.
        let before = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
        assert_eq!(status([before.clone(), line(1)].concat()), "200 200");
        assert_eq!(status(b"x".repeat(9000)), "414");
        let body = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30000\r\n\r\n".to_vec();
        // A body is no line, also where it is not read.
        let answered = status([body, b"x".repeat(30_000), line(1)].concat());
        assert!(["200", "200 200"].contains(&answered.as_str()), "{answered}");
    }

    #[test]
    fn a_host_has_a_name() {
        for (host, name) in
            [("localhost", "localhost"), ("127.0.0.1:80", "127.0.0.1"), ("[::1]:80", "::1"), ("", "")]
        {
            assert_eq!(host_name(host), name, "{host}");
        }
    }
}
