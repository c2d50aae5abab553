//! Posting a document to an URL. A redirect is a failure: where it leads, nobody has asked for.

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

// What is secret in an URL goes into no message.
fn plain(error: ureq::Error, url: &str) -> String {
    error.to_string().replace(url, "the URL")
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
