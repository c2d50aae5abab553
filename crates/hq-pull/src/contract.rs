//! What is said at the socket, in JSON: requests with one member that names what is wanted, and their answers.
//!
//! docs/reference/pull-protocol.md is the description for those who write clients.

use std::time::Duration;

use hq_core::relay::BagState;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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
}

/// A bag by its id or its name.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(untagged)]
pub(crate) enum BagRef {
    Id(u32),
    Name(String),
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

/// A task that was given.
#[derive(Debug, Serialize)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payload: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payload_base64: Option<String>,
    pub(crate) attempt: String,
    pub(crate) lease: f64,
}

impl Task {
    pub(crate) fn of(given: hq_core::relay::Given) -> Task {
        let (payload, payload_base64) = text_or_base64(given.payload);
        Task {
            id: given.task.to_string(),
            name: String::from_utf8_lossy(&given.name).into_owned(),
            payload,
            payload_base64,
            attempt: given.attempt,
            lease: given.lease.as_secs_f64(),
        }
    }
}

/// What became of one item of a list: an empty object, or an error.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Item {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

impl Item {
    pub(crate) fn refused(problem: &Problem) -> Item {
        Item { error: Some(problem.code), message: Some(problem.message.clone()) }
    }
}

/// The answer to what takes tasks or ends them.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tasks: Option<Vec<Task>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) done: Option<Vec<Item>>,
    pub(crate) accepted: u64,
    pub(crate) saved: u64,
}

/// Why a request was refused.
#[derive(Clone, Debug)]
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

    pub(crate) fn json(&self) -> Value {
        json!({"error": {"code": self.code, "message": self.message}})
    }
}

impl From<hq_core::relay::Refusal> for Problem {
    fn from(refusal: hq_core::relay::Refusal) -> Problem {
        Problem::new(refusal.code(), refusal.to_string())
    }
}

impl From<hq_core::client_messages::RequestError> for Problem {
    fn from(error: hq_core::client_messages::RequestError) -> Problem {
        use hq_core::client_messages::RequestError::{KeyTaken, NoKey};
        match error {
            NoKey(bag, name) => {
                let text = format!(
                    "no task of bag {bag} has the name `{name}`: create what a task waits for before it, or earlier in the \
                     same request; `\"missing\":\"done\"` takes unknown names for done"
                );
                Problem::new("unknown-name", text)
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

/// Bytes as they are said.
pub(crate) fn text_or_base64(bytes: Vec<u8>) -> (Option<String>, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(base64::encode(error.as_bytes()))),
    }
}

/// Bytes that were said as text or as base64.
pub(crate) fn bytes_of(text: Option<String>, encoded: Option<&str>, what: &str) -> Result<Vec<u8>, Problem> {
    match (text, encoded) {
        (Some(_), Some(_)) => Err(Problem::bad(format!("`{what}` and `{what}_base64` are both given"))),
        (text, None) => Ok(text.unwrap_or_default().into_bytes()),
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
            (&deep, "recursion limit"),
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
        assert_eq!(text_or_base64(b"a".to_vec()), (Some("a".to_owned()), None));
        assert_eq!(text_or_base64(vec![0xff]), (None, Some("/w==".to_owned())));
        assert_eq!(bytes_of(None, Some("/w=="), "payload").ok(), Some(vec![0xff]));
        assert!(bytes_of(None, Some("?"), "payload").is_err());
        assert!(bytes_of(Some(String::new()), Some(""), "payload").is_err());
    }
}
