//! What is asked at the socket, in whatever spelling: requests with one member that names what is wanted, as JSON says them.
//!
//! `pull.proto` is the contract, and docs/reference/pull-protocol.md the description for those who write clients.

use std::marker::PhantomData;
use std::time::Duration;

use hq_core::relay::BagState;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{base64, limits, numbers};

/// A request.
#[derive(Debug)]
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
    /// What whoever speaks can do.
    pub(crate) tags: Vec<String>,
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
#[serde(untagged, expecting = "a crash limit is a whole number, `never-restart` or `unlimited`")]
pub(crate) enum LimitWord {
    Number(u32),
    Word(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Open {
    pub(crate) name: Option<String>,
    #[serde(deserialize_with = "numbers::max_fails")]
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
    #[serde(deserialize_with = "objects")]
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
    #[serde(deserialize_with = "numbers::priority")]
    pub(crate) priority: i32,
    #[serde(deserialize_with = "numbers::retries")]
    pub(crate) retries: u32,
    pub(crate) crash_limit: Option<LimitWord>,
    pub(crate) time_limit: Option<f64>,
    pub(crate) expect: Option<f64>,
    /// Tags that whoever takes it must have.
    pub(crate) needs: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Next {
    #[serde(deserialize_with = "objects")]
    pub(crate) done: Vec<End>,
    #[serde(deserialize_with = "numbers::take")]
    pub(crate) take: u32,
    pub(crate) wait: f64,
    pub(crate) bags: Vec<BagRef>,
    /// Instead of those of the connection.
    pub(crate) tags: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Take {
    #[serde(deserialize_with = "numbers::count")]
    pub(crate) count: Option<u32>,
    pub(crate) wait: f64,
    pub(crate) bags: Vec<BagRef>,
    /// Instead of those of the connection.
    pub(crate) tags: Vec<String>,
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
    #[serde(deserialize_with = "object_if_any")]
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
    #[serde(deserialize_with = "objects")]
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
        (Some(_), Some(_)) => Err(Problem::bad(format!(
            "`{what}` and `{what}_base64` are both given: say one of them, the second where it is no text"
        ))),
        (Some(text), None) => Ok(text.into_bytes()),
        (None, None) => Ok(bytes),
        (None, Some(encoded)) => {
            base64::decode(encoded).ok_or_else(|| {
                Problem::bad(format!(
                    "`{what}_base64` is no base64: it has the letters A-Z, a-z, 0-9, + and /, four for three bytes, \
                     filled up with ="
                ))
            })
        }
    }
}

/// Seconds that were said, within bounds.
pub(crate) fn seconds(value: f64, what: &str, most: Duration) -> Result<Duration, Problem> {
    // What is more than can be counted is more than the most, too.
    match Duration::try_from_secs_f64(value) {
        Ok(given) => Ok(given.min(most)),
        Err(_) if value > 0.0 => Ok(most),
        Err(_) => Err(Problem::bad(format!("`{what}` is {value}: say 0 seconds or more, such as 2.5"))),
    }
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
    if !NAMES.contains(&name) {
        return None;
    }
    let parsed = || {
        check_is_object(inside).map_err(|came| {
            let text = format!("what `{name}` asks for is an object, such as `{{}}`, and here is {came}");
            no_request(&text)
        })?;
        let mut read = serde_json::Deserializer::from_slice(inside);
        let request = Inside(name).deserialize(&mut read);
        request.and_then(|request| read.end().map(|()| request)).map_err(|error| no_request(&error))
    };
    Some(parsed())
}

/// A line as a request.
pub(crate) fn parse(line: &[u8]) -> Result<Request, Problem> {
    check_is_object(line).map_err(|came| no_request(&format!("{WHAT}, and here is {came}")))?;
    let mut read = serde_json::Deserializer::from_slice(line);
    let request = read.deserialize_map(Line);
    request.and_then(|request| read.end().map(|()| request)).map_err(|error| no_request(&error))
}

/// What a line has to be.
const WHAT: &str = "a request is an object with one member that names it, such as `{\"take\":{\"count\":1}}`";

fn no_request(why: &impl std::fmt::Display) -> Problem {
    Problem::bad(format!("this is no request: {why}"))
}

// That a text begins as an object does; else what it is instead.
fn check_is_object(text: &[u8]) -> Result<(), String> {
    let text = text.trim_ascii();
    Err(match text.first() {
        Some(b'{') => return Ok(()),
        None => "nothing".to_owned(),
        Some(b'[') => "an array".to_owned(),
        Some(b'"') => "a string".to_owned(),
        Some(b'-' | b'0'..=b'9') => "a number".to_owned(),
        _ if matches!(text, b"true" | b"false" | b"null") => format!("`{}`", text.escape_ascii()),
        Some(byte) => format!("what begins with `{}` and is no JSON", byte.escape_ascii()),
    })
}

// A request on a line: its name, and what is inside.
struct Line;

impl<'de> Visitor<'de> for Line {
    type Value = Request;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Request, A::Error> {
        let Some(name) = members.next_key::<String>()? else {
            return Err(A::Error::custom(format!("{WHAT}, and this one has none")));
        };
        let request = members.next_value_seed(Inside(&name))?;
        match members.next_key::<String>()? {
            None => Ok(request),
            Some(more) => Err(A::Error::custom(format!(
                "it has a member `{}` beside `{name}`, and a request has one: send each on a line of its own",
                shown(&more)
            ))),
        }
    }
}

// What is inside of the request of this name.
struct Inside<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Inside<'_> {
    type Value = Request;

    fn deserialize<D: Deserializer<'de>>(self, inside: D) -> Result<Request, D::Error> {
        fn of<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
            inside: D,
            request: fn(T) -> Request,
        ) -> Result<Request, D::Error> {
            Object::deserialize(inside).map(|Object(inside)| request(inside))
        }
        match self.0 {
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
            name => {
                let (name, known) = (shown(name), NAMES.join(", "));
                Err(D::Error::custom(format!("there is none of the name `{name}`: they are {known}")))
            }
        }
    }
}

// As much of a name as is shown of one that is not known.
fn shown(name: &str) -> String {
    name.chars().take(limits::UNKNOWN_NAME_CHARS_SHOWN).collect()
}

// What is said as an object, and not as a list of its members.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        struct Reader<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members)).map(Object)
            }
        }
        deserializer.deserialize_map(Reader(PhantomData))
    }
}

fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(list: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::<Object<T>>::deserialize(list)?;
    Ok(list.into_iter().map(|Object(item)| item).collect())
}

fn object_if_any<'de, D: Deserializer<'de>, T: Deserialize<'de>>(object: D) -> Result<Option<T>, D::Error> {
    let object = Option::<Object<T>>::deserialize(object)?;
    Ok(object.map(|Object(inside)| inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_request_is_explained() {
        let deep = format!("{{\"create\":{}", "[".repeat(100_000));
        let an_object =
            "a request is an object with one member that names it, such as `{\"take\":{\"count\":1}}`, and";
        for (line, told) in [
            ("{", "EOF while parsing"),
            ("{}", &format!("{an_object} this one has none")),
            ("[]", &format!("{an_object} here is an array")),
            (" [{\"take\":{}}]\r\n", &format!("{an_object} here is an array")),
            ("17", &format!("{an_object} here is a number")),
            ("-1.5", &format!("{an_object} here is a number")),
            (r#""take""#, &format!("{an_object} here is a string")),
            ("null\n", &format!("{an_object} here is `null`")),
            ("nonsense", &format!("{an_object} here is what begins with `n` and is no JSON")),
            ("\u{e9}", r"here is what begins with `\xc3` and is no JSON"),
            (r#"{"tkae":{}}"#, "there is none of the name `tkae`: they are hello, open, create, next,"),
            (r#"{"take":{},"sync":{}}"#, "it has a member `sync` beside `take`, and a request has one"),
            (r#"{"take":[]}"#, "invalid type: sequence, expected an object at line 1 column 8"),
            (r#"{"take":null}"#, "invalid type: null, expected an object"),
            (r#"{"create":{"tasks":[["a"]]}}"#, "invalid type: sequence, expected an object"),
            (
                r#"{"create":{"tasks":[{"crash_limit":true}]}}"#,
                "a crash limit is a whole number, `never-restart`",
            ),
            (r#"{"next":{"done":[{"deferred":[["a"]]}]}}"#, "invalid type: sequence, expected an object"),
            (r#"{"take":{"n":1}}"#, "unknown field `n`"),
            (
                r#"{"take":{"count":-1}}"#,
                "integer `-1`, expected `count` to be a whole number from 0 to 4294967295",
            ),
            (
                r#"{"next":{"take":4294967296}}"#,
                "integer `4294967296`, expected `take` to be a whole number from 0 to 4294967295",
            ),
            (
                r#"{"take":{"count":1.5}}"#,
                "floating point `1.5`, expected `count` to be a whole number from 0",
            ),
            (
                r#"{"open":{"max_fails":"2"}}"#,
                "string \"2\", expected `max_fails` to be a whole number from 0",
            ),
            (
                r#"{"create":{"tasks":[{"priority":2147483648}]}}"#,
                "expected `priority` to be a whole number from -2147483648 to 2147483647",
            ),
            (
                r#"{"create":{"tasks":[{"retries":null}]}}"#,
                "null, expected `retries` to be a whole number from 0",
            ),
            (r#"{"take":{"count":1}}{"#, "trailing characters"),
            (&deep, "invalid type: sequence"),
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
        let nothing = told("[]");
        assert!(nothing.ends_with("what `take` asks for is an object, such as `{}`, and here is an array"));
        assert!(told("{}, \"next\":{}").contains("trailing characters at line 1 column 3"));
    }

    #[test]
    fn times_are_bounded() {
        assert!(seconds(f64::NAN, "wait", limits::WAIT_MAX).is_err());
        let told = seconds(-1.0, "wait", limits::WAIT_MAX).expect_err("a time to come").message;
        assert_eq!(told, "`wait` is -1: say 0 seconds or more, such as 2.5");
        for many in [1e9, 1e308, f64::INFINITY] {
            assert_eq!(seconds(many, "wait", limits::WAIT_MAX).ok(), Some(limits::WAIT_MAX));
        }
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
