//! Answers `GET /metrics` over HTTP, and nothing else.
//!
//! A page in a browser on this machine must not read it under a name of its own: on a loopback address only requests to an
//! address or to `localhost` are answered.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::debug;

use super::format;

/// Connections at once.
const CONNECTIONS_MAX: usize = 128;
/// How long a client may take for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a connection lives.
const CONNECTION_TIME: Duration = Duration::from_secs(300);
/// Bytes of a head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long to wait where the system has no room for one more connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Makes the text. It may wait for a server.
pub(crate) type Make = Arc<dyn Fn() -> String + Send + Sync>;

/// Serves until the future is dropped. When there are too many connections, the oldest ends: one that is asking is done within
/// milliseconds, and the oldest is one that says nothing.
pub(crate) async fn serve(listener: TcpListener, is_remote: bool, make: Make) -> io::Result<Infallible> {
    let mut connections: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                debug!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        connections.retain(|connection| !connection.is_finished());
        if connections.len() >= CONNECTIONS_MAX
            && let Some(oldest) = connections.pop_front()
        {
            oldest.abort();
        }
        let make = Arc::clone(&make);
        let served = tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, is_remote, Arc::clone(&make)));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), service);
            if let Ok(Err(error)) = timeout(CONNECTION_TIME, connection).await {
                debug!(%peer, %error, "a connection has failed");
            }
        });
        connections.push_back(served.abort_handle());
    }
}

async fn answer(
    request: Request<Incoming>,
    is_remote: bool,
    make: Make,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let host = request.headers().get(HOST).map(HeaderValue::to_str);
    let is_for_us = is_remote || matches!(host, Some(Ok(host)) if is_local(host));
    if !is_for_us {
        return Ok(refusal(
            StatusCode::MISDIRECTED_REQUEST,
            "Ask for this address by its number or as localhost.\n",
        ));
    }
    if request.uri().path() != "/metrics" {
        return Ok(refusal(StatusCode::NOT_FOUND, "There is nothing here but /metrics.\n"));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "Only GET is answered.\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    // The session blocks.
    Ok(match tokio::task::spawn_blocking(move || make()).await {
        Ok(text) => response(StatusCode::OK, format::CONTENT_TYPE, text),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "The metrics could not be made.\n"),
    })
}

fn refusal(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", text.to_owned())
}

fn response(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

// True for an address or `localhost`, with or without a port.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// True when only this machine reaches an address.
pub(crate) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pages_are_not_local() {
        for host in ["localhost", "localhost:9464", "127.0.0.1:9464", "[::1]:9464", "127.1.2.3"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["example.org", "localhost.example.org:9464", "", "127.0.0.1.example.org"] {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn loopback_has_several_forms() {
        for (address, is) in [
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("10.0.0.1:1", false),
        ] {
            assert_eq!(is_loopback(address.parse().expect("an address")), is, "{address}");
        }
    }
}
