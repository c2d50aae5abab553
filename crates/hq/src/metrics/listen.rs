//! Answers `GET /metrics` over HTTP, and nothing else.
//!
//! A page in a browser on this machine must not read it under a name of its own: on a loopback address only requests to an
//! address or to `localhost` are answered.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;

use super::format;
use crate::http::{self, Listener, host_name};

/// How long a connection lives.
const CONNECTION_TIME: Duration = Duration::from_secs(300);

/// Makes the text. It may wait for a server.
pub(crate) type Make = Arc<dyn Fn() -> String + Send + Sync>;

/// Serves until the future is dropped.
pub(crate) async fn serve(listener: TcpListener, is_remote: bool, make: Make) -> io::Result<Infallible> {
    let answer = move |request, _| answer(request, is_remote, Arc::clone(&make));
    http::serve(Listener::Tcp(listener), Some(CONNECTION_TIME), answer).await
}

async fn answer(request: Request<Incoming>, is_remote: bool, make: Make) -> Response<Full<Bytes>> {
    let host = request.headers().get(HOST).map(HeaderValue::to_str);
    let is_for_us = is_remote || matches!(host, Some(Ok(host)) if is_local(host));
    if !is_for_us {
        return refusal(
            StatusCode::MISDIRECTED_REQUEST,
            "Open this address by its IP address or as localhost.\n",
        );
    }
    if request.uri().path() != "/metrics" {
        return refusal(StatusCode::NOT_FOUND, "Not found; try /metrics.\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "Only GET is supported.\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    // The session blocks.
    match tokio::task::spawn_blocking(move || make()).await {
        Ok(text) => response(StatusCode::OK, format::CONTENT_TYPE, text),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "The metrics could not be collected.\n"),
    }
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
    let name = host_name(host);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
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
}
