//! Posting a document to a URL. A redirect is a failure: where it leads, nobody has asked for.

use std::io::ErrorKind;
use std::sync::OnceLock;

use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::limits::{HEADER_BYTES, POST_TIME};

/// Posts a document.
///
/// # Errors
/// When it does not get there in time, or is not taken.
pub(crate) fn post(url: &str, document: &str) -> Result<(), String> {
    let sent = agent().post(url).header("content-type", "application/json").send(document);
    let status = sent.map_err(|error| plain(error, url))?.status();
    match status.as_u16() {
        200..=299 => Ok(()),
        300..=399 => Err(format!("the answer was {status}: redirects are not followed")),
        _ => Err(format!("the answer was {status}")),
    }
}

fn plain(error: ureq::Error, url: &str) -> String {
    match error {
        ureq::Error::Timeout(_) => format!("no answer within {} s", POST_TIME.as_secs()),
        ureq::Error::HostNotFound => "its host cannot be resolved".to_owned(),
        ureq::Error::ConnectionFailed => "no connection to its host".to_owned(),
        ureq::Error::Io(error) => match error.kind() {
            ErrorKind::ConnectionRefused => "nothing listens there: the connection was refused".to_owned(),
            ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => {
                "the connection was closed before an answer came".to_owned()
            }
            ErrorKind::TimedOut => "no connection to its host in time".to_owned(),
            _ => format!("no connection, or it broke: {error}"),
        },
        ureq::Error::Protocol(error) => format!("the answer is not HTTP: {error}"),
        ureq::Error::LargeResponseHeader(..) => {
            format!("the head of the answer is longer than {HEADER_BYTES} bytes")
        }
        // What is secret in a URL goes into no message.
        error => error.to_string().replace(url, "the URL"),
    }
}

fn agent() -> &'static Agent {
    static AGENT: OnceLock<Agent> = OnceLock::new();
    AGENT.get_or_init(|| {
        let config = Agent::config_builder()
            .timeout_global(Some(POST_TIME))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .max_response_header_size(HEADER_BYTES)
            .max_idle_connections(0)
            .user_agent(concat!("hq/", env!("CARGO_PKG_VERSION")))
            .tls_config(TlsConfig::builder().root_certs(roots()).build());
        Agent::new_with_config(config.build())
    })
}

// Those of the system, where it has some: institutes add their own.
fn roots() -> RootCerts {
    let found = rustls_native_certs::load_native_certs().certs;
    if found.is_empty() {
        return RootCerts::WebPki;
    }
    let certificates: Vec<_> = found.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    RootCerts::new_with_certs(&certificates)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn why_nothing_could_be_posted_is_said_in_plain_words() {
        let of = |kind: ErrorKind| ureq::Error::Io(io::Error::from(kind));
        for (error, expected) in [
            (ureq::Error::Timeout(ureq::Timeout::Global), "no answer within 30 s"),
            (ureq::Error::HostNotFound, "its host cannot be resolved"),
            (of(ErrorKind::ConnectionRefused), "nothing listens there: the connection was refused"),
            (of(ErrorKind::UnexpectedEof), "the connection was closed before an answer came"),
            (ureq::Error::LargeResponseHeader(1, 2), "the head of the answer is longer than 16384 bytes"),
            (ureq::Error::BadUri("http://a/secret".into()), "bad uri: the URL"),
        ] {
            assert_eq!(plain(error, "http://a/secret"), expected);
        }
    }
}
