//! What is answered at the socket, in whatever spelling, and how JSON says it.

use hq_model::Timestamp;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::base64;
use crate::contract::Problem;

/// The answer to a request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Error(Problem),
    Welcome(Welcome),
    Opened(Opened),
    Created(Created),
    Looked(Looked),
    Closed(Closed),
    Left(Left),
    Status(Standing),
    #[serde(untagged)]
    Given(Given),
}

impl Answer {
    /// Appends it as JSON.
    pub(crate) fn put_json(&self, out: &mut Vec<u8>) {
        let before = out.len();
        if let Err(error) = serde_json::to_writer(&mut *out, self) {
            // Only numbers that are none are refused, and none is said.
            out.truncate(before);
            out.extend(format!("{{\"error\":{{\"code\":\"system\",\"message\":\"{error}\"}}}}").bytes());
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Welcome {
    pub(crate) version: u32,
    pub(crate) session: String,
    pub(crate) accepted: u64,
    pub(crate) saved: u64,
    pub(crate) limits: Limits,
}

#[derive(Debug, Serialize)]
pub(crate) struct Limits {
    pub(crate) take: u64,
    pub(crate) tasks: u64,
    pub(crate) request_bytes: u64,
    pub(crate) name_bytes: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) result_bytes: u64,
    pub(crate) session_tasks: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Opened {
    pub(crate) bag: u32,
    pub(crate) name: String,
    pub(crate) new: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct Created {
    pub(crate) bag: u32,
    pub(crate) new: u64,
    pub(crate) known: u64,
}

/// The answer to what takes tasks or ends them.
#[derive(Debug, Serialize)]
pub(crate) struct Given {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tasks: Option<Vec<Task>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) done: Option<Vec<Item>>,
    pub(crate) accepted: u64,
    pub(crate) saved: u64,
}

/// A task that was given.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) attempt: String,
    pub(crate) lease: f64,
}

impl Task {
    pub(crate) fn of(given: hq_core::relay::Given) -> Task {
        // The server takes no other names.
        let name = String::from_utf8(given.name)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Task {
            id: given.task.to_string(),
            name,
            payload: given.payload,
            attempt: given.attempt,
            lease: given.lease.as_secs_f64(),
        }
    }
}

impl Serialize for Task {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut task = serializer.serialize_struct("Task", 5)?;
        task.serialize_field("id", &self.id)?;
        task.serialize_field("name", &self.name)?;
        text_or_base64::<S>(&mut task, ["payload", "payload_base64"], &self.payload)?;
        task.serialize_field("attempt", &self.attempt)?;
        task.serialize_field("lease", &self.lease)?;
        task.end()
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
    pub(crate) fn of(ended: Result<(), Problem>) -> Item {
        match ended {
            Ok(()) => Item::default(),
            Err(problem) => Item { error: Some(problem.code), message: Some(problem.message) },
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Looked {
    pub(crate) bag: u32,
    pub(crate) tasks: Vec<Seen>,
}

/// How a task stands that somebody named.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) error: Option<&'static str>,
    pub(crate) id: Option<String>,
    pub(crate) state: Option<&'static str>,
    pub(crate) message: Option<String>,
    pub(crate) result: Option<Vec<u8>>,
}

impl Serialize for Seen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seen = serializer.serialize_struct("Seen", 6)?;
        seen.serialize_field("name", &self.name)?;
        for (name, text) in [
            ("error", self.error),
            ("id", self.id.as_deref()),
            ("state", self.state),
            ("message", self.message.as_deref()),
        ] {
            if let Some(text) = text {
                seen.serialize_field(name, text)?;
            }
        }
        if let Some(result) = &self.result {
            text_or_base64::<S>(&mut seen, ["result", "result_base64"], result)?;
        }
        seen.end()
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Closed {
    pub(crate) bag: u32,
}

#[derive(Debug, Serialize)]
pub(crate) struct Left {
    pub(crate) returned: u64,
}

/// How bags stand, and who has tasks.
#[derive(Debug, Serialize)]
pub(crate) struct Standing {
    pub(crate) bags: Vec<Bag>,
    pub(crate) sessions: Vec<Session>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) above: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) below: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Bag {
    pub(crate) bag: u32,
    pub(crate) name: String,
    pub(crate) state: &'static str,
    pub(crate) open: bool,
    pub(crate) waiting: u64,
    pub(crate) running: u64,
    pub(crate) finished: u64,
    pub(crate) failed: u64,
    pub(crate) canceled: u64,
    pub(crate) aborted: u64,
    pub(crate) taken_here: u64,
    pub(crate) ahead_here: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Session {
    pub(crate) label: Option<String>,
    pub(crate) connected: bool,
    pub(crate) taken: u64,
    pub(crate) tasks: Vec<Held>,
    pub(crate) accepted: u64,
    pub(crate) saved: u64,
}

/// A task that somebody has.
#[derive(Debug, Serialize)]
pub(crate) struct Held {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) held: f64,
    pub(crate) left: f64,
}

impl Held {
    pub(crate) fn of(info: &hq_core::relay::HeldInfo, now: Timestamp) -> Held {
        Held {
            id: info.task.to_string(),
            name: String::from_utf8_lossy(&info.name).into_owned(),
            held: now.since(info.since).as_secs_f64(),
            left: info.until.since(now).as_secs_f64(),
        }
    }
}

// Bytes that are no text are said as base64, in a member of another name.
fn text_or_base64<S: Serializer>(
    members: &mut S::SerializeStruct,
    [text, encoded]: [&'static str; 2],
    bytes: &[u8],
) -> Result<(), S::Error> {
    match std::str::from_utf8(bytes) {
        Ok(said) => members.serialize_field(text, said),
        Err(_) => members.serialize_field(encoded, &base64::encode(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(answer: &Answer) -> String {
        let mut out = Vec::new();
        answer.put_json(&mut out);
        String::from_utf8(out).expect("JSON is text")
    }

    #[test]
    fn answers_are_named_but_for_what_is_given() {
        assert_eq!(said(&Answer::Closed(Closed { bag: 4 })), r#"{"closed":{"bag":4}}"#);
        let problem = Problem::bad("no");
        assert_eq!(said(&Answer::Error(problem)), r#"{"error":{"code":"bad-request","message":"no"}}"#);
        let task = Task {
            id: "4@1".to_owned(),
            name: "a".to_owned(),
            payload: vec![0xff],
            attempt: "3.0".to_owned(),
            lease: 1.5,
        };
        let given = Given {
            tasks: Some(vec![task]),
            state: Some("some"),
            done: Some(vec![Item::default(), Item::of(Err(Problem::new("stale", "late")))]),
            accepted: 2,
            saved: 0,
        };
        let tasks =
            r#""tasks":[{"id":"4@1","name":"a","payload_base64":"/w==","attempt":"3.0","lease":1.5}]"#;
        let done = r#""done":[{},{"error":"stale","message":"late"}]"#;
        let text = format!(r#"{{{tasks},"state":"some",{done},"accepted":2,"saved":0}}"#);
        assert_eq!(said(&Answer::Given(given)), text);
    }

    #[test]
    fn what_was_looked_at_says_only_what_is_known() {
        let seen = Seen { name: "a".to_owned(), error: Some("unknown-name"), ..Seen::default() };
        let there = Seen {
            name: "b".to_owned(),
            id: Some("1@0".to_owned()),
            state: Some("finished"),
            result: Some(b"x".to_vec()),
            ..Seen::default()
        };
        let answer = Answer::Looked(Looked { bag: 1, tasks: vec![seen, there] });
        let tasks =
            r#"{"name":"a","error":"unknown-name"},{"name":"b","id":"1@0","state":"finished","result":"x"}"#;
        assert_eq!(said(&answer), format!(r#"{{"looked":{{"bag":1,"tasks":[{tasks}]}}}}"#));
    }
}
