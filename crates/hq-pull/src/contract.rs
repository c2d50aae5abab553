//! What is asked at the socket, in whatever spelling: requests with one member that names what is wanted, as JSON says them.
//!
//! `pull.proto` is the contract, and docs/reference/pull-protocol.md the description for those who write clients.

use std::time::Duration;

use hq_core::relay::BagState;
use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{base64, limits};

/// A request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    Hello(Hello),
    Open(Open),
    Create(Create),
    Next(Next),
    Take(Take),
    Complete(Ends),
    Fail(Ends),
    Release(Ends),
    Defer(Ends),
    Extend(Ends),
    Sync(Nothing),
    Look(Look),
    Close(Close),
    Leave(Leave),
    Status(Status),
}

/// The names of all requests, as paths of HTTP have them.
pub(crate) const NAMES: [&str; 15] = [
    "hello", "open", "create", "next", "take", "complete", "fail", "release", "defer", "extend", "sync",
    "look", "close", "leave", "status",
];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Hello {
    pub(crate) version: Option<u32>,
    pub(crate) label: Option<String>,
    pub(crate) lease: Option<f64>,
    pub(crate) grace: Option<f64>,
}

/// A bag by its id or its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BagRef {
    Id(u32),
    Name(String),
}

impl<'de> Deserialize<'de> for BagRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BagRef, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = BagRef;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a bag, or the id of its job")
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<BagRef, E> {
                let id = u32::try_from(value);
                id.map(BagRef::Id).map_err(|_| E::custom(format!("{value} is no id of a job")))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<BagRef, E> {
                Ok(BagRef::Name(value.to_owned()))
            }

            fn visit_string<E: Error>(self, value: String) -> Result<BagRef, E> {
                Ok(BagRef::Name(value))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// How often a task may be lost: a number, or a word.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub(crate) enum LimitWord {
    Number(u32),
    Word(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Open {
    pub(crate) name: Option<String>,
    pub(crate) max_fails: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Missing {
    /// To wait for a name that no task has is an error.
    #[default]
    Error,
    /// A name that no task has is taken for done.
    Done,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Create {
    pub(crate) bag: Option<BagRef>,
    pub(crate) tasks: Vec<NewTask>,
    pub(crate) missing: Missing,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NewTask {
    pub(crate) name: String,
    pub(crate) payload: Option<String>,
    pub(crate) payload_base64: Option<String>,
    /// As frames have it.
    #[serde(skip)]
    pub(crate) payload_bytes: Vec<u8>,
    pub(crate) after: Vec<String>,
    pub(crate) after_any: Vec<String>,
    pub(crate) after_tasks: Vec<String>,
    pub(crate) priority: i32,
    pub(crate) retries: u32,
    pub(crate) crash_limit: Option<LimitWord>,
    pub(crate) time_limit: Option<f64>,
    pub(crate) expect: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Next {
    pub(crate) done: Vec<End>,
    pub(crate) take: u32,
    pub(crate) wait: f64,
    pub(crate) bags: Vec<BagRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Take {
    pub(crate) count: Option<u32>,
    pub(crate) wait: f64,
    pub(crate) bags: Vec<BagRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct End {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) attempt: Option<String>,
    pub(crate) result: Option<String>,
    pub(crate) result_base64: Option<String>,
    /// As frames have it.
    #[serde(skip)]
    pub(crate) result_bytes: Vec<u8>,
    pub(crate) failed: Option<String>,
    pub(crate) released: bool,
    pub(crate) deferred: Option<Deferred>,
    pub(crate) lease: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Deferred {
    pub(crate) after: Vec<String>,
    pub(crate) after_any: Vec<String>,
    pub(crate) after_tasks: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Ends {
    pub(crate) bag: Option<BagRef>,
    pub(crate) tasks: Vec<End>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Look {
    pub(crate) bag: Option<BagRef>,
    pub(crate) names: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Close {
    pub(crate) bag: Option<BagRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Leave {
    pub(crate) label: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Status {
    pub(crate) bags: Vec<BagRef>,
}

/// What helps against a name that is not known.
pub(crate) const CREATE_BEFORE: &str = "create what a task waits for before it, or earlier in the same request; \
     `\"missing\":\"done\"` takes unknown names for done";

/// Why a request was refused.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Problem {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Problem {
        Problem { code, message: message.into() }
    }

    pub(crate) fn bad(message: impl Into<String>) -> Problem {
        Problem::new("bad-request", message)
    }
}

impl From<hq_core::relay::Refusal> for Problem {
    fn from(refusal: hq_core::relay::Refusal) -> Problem {
        Problem::new(refusal.code(), refusal.to_string())
    }
}

impl From<hq_core::client_messages::RequestError> for Problem {
    fn from(error: hq_core::client_messages::RequestError) -> Problem {
        use hq_core::client_messages::RequestError::{Hopeless, JobNotOpen, KeyTaken, NoKey};
        match error {
            NoKey(bag, name) => {
                let text = format!("no task of bag {bag} has the name `{name}`: {CREATE_BEFORE}");
                Problem::new("unknown-name", text)
            }
            JobNotOpen(job) => {
                let text = format!(
                    "bag {job} is closed and takes no more tasks; `hq pull open NAME` makes another one, and a bag of the same \
                     name when all tasks of this one have ended"
                );
                Problem::new("job-not-open", text)
            }
            Hopeless { job, tasks, state } => {
                let text = format!(
                    "what waits for {tasks} of job {job} to succeed could never run: {state} already; `after_any` waits for \
                     any end"
                );
                Problem::new("hopeless", text)
            }
            KeyTaken { job, key, difference, .. } => {
                let text = format!(
                    "bag {job} has a task `{key}` already, with another {difference}: give this one a name of its own"
                );
                Problem::new("name-taken", text)
            }
            other => Problem::new(other.code(), other.to_string()),
        }
    }
}

/// The word for the state of bags.
pub(crate) fn word(state: BagState) -> Result<&'static str, Problem> {
    Ok(match state {
        BagState::Some => "some",
        BagState::Wait => "wait",
        BagState::Over => "over",
        BagState::Unknown => return Err(no_server()),
    })
}

/// Nobody knows whether there is something.
pub(crate) fn no_server() -> Problem {
    Problem::new(
        "no-server",
        "the server does not answer at the moment: ask again; what was taken stays taken",
    )
}

/// Bytes that were said as text, as base64, or as they are.
pub(crate) fn bytes_of(
    text: Option<String>,
    encoded: Option<&str>,
    bytes: Vec<u8>,
    what: &str,
) -> Result<Vec<u8>, Problem> {
    match (text, encoded) {
        (Some(_), Some(_)) => Err(Problem::bad(format!("`{what}` and `{what}_base64` are both given"))),
        (Some(text), None) => Ok(text.into_bytes()),
        (None, None) => Ok(bytes),
        (None, Some(encoded)) => {
            base64::decode(encoded).ok_or_else(|| Problem::bad(format!("`{what}_base64` is no base64")))
        }
    }
}

/// Seconds that were said, within bounds.
pub(crate) fn seconds(value: f64, what: &str, most: Duration) -> Result<Duration, Problem> {
    let given = Duration::try_from_secs_f64(value);
    given.map(|given| given.min(most)).map_err(|_| Problem::bad(format!("`{what}` is no number of seconds")))
}

/// A lease that was said.
pub(crate) fn lease(value: Option<f64>) -> Result<Option<Duration>, Problem> {
    let lease = value.map(|value| seconds(value, "lease", limits::LEASE_MAX)).transpose()?;
    if lease.is_some_and(|lease| lease < limits::LEASE_MIN) {
        let least = limits::LEASE_MIN.as_secs_f64();
        return Err(Problem::bad(format!(
            "a `lease` of less than {least} s would be over before anything could be done"
        )));
    }
    Ok(lease)
}

/// What is inside of the request of a name. `None` when there is none of that name.
pub(crate) fn parse_inside(name: &str, inside: &[u8]) -> Option<Result<Request, Problem>> {
    fn of<T: DeserializeOwned>(inside: &[u8], request: fn(T) -> Request) -> Result<Request, Problem> {
        serde_json::from_slice(inside).map(request).map_err(|error| no_request(&error))
    }
    Some(match name {
        "hello" => of(inside, Request::Hello),
        "open" => of(inside, Request::Open),
        "create" => of(inside, Request::Create),
        "next" => of(inside, Request::Next),
        "take" => of(inside, Request::Take),
        "complete" => of(inside, Request::Complete),
        "fail" => of(inside, Request::Fail),
        "release" => of(inside, Request::Release),
        "defer" => of(inside, Request::Defer),
        "extend" => of(inside, Request::Extend),
        "sync" => of(inside, Request::Sync),
        "look" => of(inside, Request::Look),
        "close" => of(inside, Request::Close),
        "leave" => of(inside, Request::Leave),
        "status" => of(inside, Request::Status),
        _ => return None,
    })
}

fn no_request(error: &serde_json::Error) -> Problem {
    Problem::bad(format!("this is no request: {error}"))
}

/// A line as a request.
pub(crate) fn parse(line: &[u8]) -> Result<Request, Problem> {
    serde_json::from_slice(line).map_err(|error| no_request(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_request_is_explained() {
        let deep = format!("{{\"create\":{}", "[".repeat(100_000));
        for (line, told) in [
            ("{", "EOF while parsing"),
            ("{}", "expected value"),
            (r#"{"tkae":{}}"#, "unknown variant `tkae`"),
            (r#"{"take":{"n":1}}"#, "unknown field `n`"),
            (r#"{"take":{"count":-1}}"#, "invalid value"),
            (r#"{"take":{"count":1}}{"#, "trailing characters"),
            (&deep, "invalid type: sequence"),
            ("nonsense", "expected"),
        ] {
            let message = parse(line.as_bytes()).expect_err(&line[..line.len().min(40)]).message;
            assert!(message.contains(told), "{message}");
        }
        assert!(parse(b"\xff\xfe{}").is_err());
    }

    #[test]
    fn all_requests_can_be_said() {
        for name in NAMES {
            let line = format!("{{\"{name}\":{{}}}}");
            assert!(parse(line.as_bytes()).is_ok(), "{line}");
            assert!(parse_inside(name, b"{}").is_some_and(|request| request.is_ok()), "{name}");
        }
        assert!(parse_inside("tkae", b"{}").is_none());
    }

    #[test]
    fn what_is_wrong_inside_of_a_request_is_told_by_its_place_there() {
        let told =
            |inside: &str| parse_inside("take", inside.as_bytes()).expect("known").expect_err(inside).message;
        assert!(told(r#"{"n":1}"#).contains("line 1 column 4"), "{}", told(r#"{"n":1}"#));
        assert!(told(r#"{"count":1"#).contains("EOF while parsing an object at line 1 column 10"));
        assert!(told("{}, \"next\":{}").contains("trailing characters at line 1 column 3"));
    }

    #[test]
    fn times_are_bounded() {
        assert!(seconds(f64::NAN, "wait", limits::WAIT_MAX).is_err());
        assert!(seconds(-1.0, "wait", limits::WAIT_MAX).is_err());
        assert_eq!(seconds(1e9, "wait", limits::WAIT_MAX).ok(), Some(limits::WAIT_MAX));
        assert_eq!(lease(Some(0.1)).ok(), Some(Some(limits::LEASE_MIN)));
        let told = lease(Some(0.0)).expect_err("over at once").message;
        assert!(told.contains("less than 0.1 s"), "{told}");
    }

    #[test]
    fn bytes_that_are_no_text_are_said_as_base64() {
        let of = |text: Option<&str>, encoded, bytes: &[u8]| {
            bytes_of(text.map(str::to_owned), encoded, bytes.to_vec(), "payload").ok()
        };
        assert_eq!(of(None, Some("/w=="), b""), Some(vec![0xff]));
        assert_eq!(of(None, None, b"\xff"), Some(vec![0xff]));
        assert_eq!(of(Some("a"), None, b""), Some(vec![b'a']));
        assert_eq!(of(None, Some("?"), b""), None);
        assert_eq!(of(Some(""), Some(""), b""), None);
    }
}
