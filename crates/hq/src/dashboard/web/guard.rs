//! Who may read and change what the dashboard serves: links that are used once, sessions, and from where requests come.
//!
//! Other users of this machine reach a loopback address, too, and so do pages of any origin that the browser shows: the first
//! have no session, and the second are known by the names that a browser puts into each request.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hyper::header::{COOKIE, HOST, HeaderMap, HeaderName, ORIGIN};
use ring::digest::{SHA256, digest};

use crate::error::HqError;
use crate::http::{host_name, is_loopback};

/// Browsers that have a session at once. With one more, the one that opened first has none any more.
const SESSIONS_MAX: usize = 32;

/// What browsers say of where a request comes from.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Hands out sessions for links.
pub(super) struct Guard {
    // Cookies go to all ports of a host: each dashboard has a name of its own.
    cookie: String,
    inner: Mutex<Inner>,
}

struct Inner {
    // Of what is secret only digests are kept: comparing those tells nothing by the time it takes.
    link: Digest,
    sessions: VecDeque<Digest>,
}

type Digest = [u8; 32];

/// What a link was traded for.
pub(super) struct Opened {
    /// The header that gives the browser its session.
    pub cookie: String,
    /// The token of the next link.
    pub next: String,
}

impl Guard {
    /// With the token of its first link.
    pub(super) fn new() -> Result<(Guard, String), HqError> {
        let (token, name) = (secret()?, secret()?);
        let inner = Inner { link: hash(&token), sessions: VecDeque::new() };
        Ok((Guard { cookie: format!("hq-{}", &name[..16]), inner: Mutex::new(inner) }, token))
    }

    /// Trades the token of a link for a session. `None` when it is wrong, or was used before.
    pub(super) fn trade(&self, token: &str) -> Result<Option<Opened>, HqError> {
        let (session, next) = (secret()?, secret()?);
        let mut inner = self.lock();
        if inner.link != hash(token) {
            return Ok(None);
        }
        inner.link = hash(&next);
        if inner.sessions.len() >= SESSIONS_MAX {
            inner.sessions.pop_front();
        }
        inner.sessions.push_back(hash(&session));
        let cookie = format!("{}={session}; HttpOnly; SameSite=Strict; Path=/", self.cookie);
        Ok(Some(Opened { cookie, next }))
    }

    /// True when a request comes with a session.
    pub(super) fn knows(&self, headers: &HeaderMap) -> bool {
        let all = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let pairs = all.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut ours = pairs.filter(|(name, _)| *name == self.cookie).map(|(_, session)| hash(session));
        let inner = self.lock();
        ours.any(|session| inner.sessions.contains(&session))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// 256 bits that nobody guesses.
fn secret() -> Result<String, HqError> {
    let half = hq_client::request_key;
    Ok(format!("{:032x}{:032x}", half()?, half()?))
}

fn hash(secret: &str) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
    bytes
}

/// The host that a request is for, if that is a name of this machine for itself. A page whose name somebody lets point to this
/// machine asks under that name.
pub(super) fn host(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(HOST).iter();
    let (Some(host), None) = (all.next(), all.next()) else { return None };
    let host = host.to_str().ok()?;
    let name = host_name(host);
    let is_ours = name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(is_loopback);
    is_ours.then_some(host)
}

/// True when no page of another origin has made a request, as far as the browser says. A program says nothing.
pub(super) fn is_same_site(headers: &HeaderMap, host: &str) -> bool {
    let site = headers.get(SITE).is_none_or(|site| site == "same-origin" || site == "none");
    site && (!headers.contains_key(ORIGIN) || is_same_origin(headers, host))
}

/// True when a request says that it comes from our page.
pub(super) fn is_same_origin(headers: &HeaderMap, host: &str) -> bool {
    let mut all = headers.get_all(ORIGIN).iter();
    let (Some(origin), None) = (all.next(), all.next()) else { return false };
    origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://")) == Some(host)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    fn with_cookie(cookie: &str) -> HeaderMap {
        let pair = cookie.split(';').next().expect("a pair");
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, format!("other=1; {pair}").parse().expect("a value"));
        headers
    }

    #[test]
    fn a_link_opens_one_session() {
        let (guard, token) = Guard::new().expect("randomness");
        assert!(guard.trade("").expect("randomness").is_none());
        assert!(guard.trade("wrong").expect("randomness").is_none());
        let opened = guard.trade(&token).expect("randomness").expect("a session");
        assert!(opened.cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{}", opened.cookie);
        assert!(guard.knows(&with_cookie(&opened.cookie)));
        assert!(guard.trade(&token).expect("randomness").is_none(), "a token is used once");
        assert!(guard.trade(&opened.next).expect("randomness").is_some());
        assert!(guard.knows(&with_cookie(&opened.cookie)), "another session ends none");
    }

    #[test]
    fn without_a_session_nothing_is_known() {
        let (guard, token) = Guard::new().expect("randomness");
        let (other, other_token) = Guard::new().expect("randomness");
        let of_other = other.trade(&other_token).expect("randomness").expect("a session").cookie;
        assert!(!guard.knows(&HeaderMap::new()));
        assert!(!guard.knows(&with_cookie(&of_other)));
        assert!(!guard.knows(&with_cookie(&format!("{}={token}", guard.cookie))), "a token is not a session");
    }

    #[test]
    fn there_are_so_many_sessions() {
        let (guard, mut token) = Guard::new().expect("randomness");
        let mut cookies = Vec::new();
        for _ in 0..=SESSIONS_MAX {
            let opened = guard.trade(&token).expect("randomness").expect("a session");
            token = opened.next;
            cookies.push(opened.cookie);
        }
        let known: Vec<bool> = cookies.iter().map(|cookie| guard.knows(&with_cookie(cookie))).collect();
        assert_eq!(known.iter().filter(|known| **known).count(), SESSIONS_MAX);
        assert!(!known[0]);
    }

    #[test]
    fn only_names_of_this_machine_are_hosts() {
        for (name, is) in [
            ("localhost:8642", true),
            ("LOCALHOST", true),
            ("127.0.0.1:8642", true),
            ("127.1.2.3", true),
            ("[::1]:8642", true),
            ("10.0.0.1:8642", false),
            ("0.0.0.0:8642", false),
            ("evil.example.org", false),
            ("localhost.example.org", false),
            ("127.0.0.1:80@example.org", false),
            ("127.0.0.1:8642, example.org", false),
            ("[::1]example.org", false),
            ("127.0.0.1.example.org", false),
            ("evil.example.org:127.0.0.1", false),
            ("", false),
        ] {
            assert_eq!(host(&headers(&[(HOST, name)])), is.then_some(name), "{name}");
        }
        assert_eq!(host(&HeaderMap::new()), None);
        assert_eq!(host(&headers(&[(HOST, "localhost"), (HOST, "localhost")])), None);
    }

    #[test]
    fn another_origin_is_told_from_ours() {
        let host = "127.0.0.1:8642";
        for (origin, is) in [
            ("http://127.0.0.1:8642", true),
            ("http://127.0.0.1:8643", false),
            ("https://127.0.0.1:8642", false),
            ("http://localhost:8642", false),
            ("http://127.0.0.1:8642.example.org", false),
            ("null", false),
            ("", false),
        ] {
            let headers = headers(&[(ORIGIN, origin)]);
            assert_eq!((is_same_origin(&headers, host), is_same_site(&headers, host)), (is, is), "{origin}");
        }
        assert!(!is_same_origin(&HeaderMap::new(), host), "what changes something must say so");
        assert!(is_same_site(&HeaderMap::new(), host), "a program has no origin");
        for (site, is) in [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)]
        {
            assert_eq!(is_same_site(&headers(&[(SITE, site)]), host), is, "{site}");
        }
    }
}
