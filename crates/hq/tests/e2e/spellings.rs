//! The other spellings of what is said to a relay: HTTP and frames.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use hq_proto::pull as form;
use hq_proto::pull::request::Body;
use serde_json::{Value, json};

use crate::cluster::{Cluster, PATIENCE};
use crate::pulled::Relay;

#[test]
fn http_says_the_same() {
    let cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    let post = |path: &str, body: &str| {
        let mut line = relay.line();
        let length = body.len();
        line.say(
            format!("POST /v1/pull/{path} HTTP/1.1\r\nHost: hq\r\nContent-Length: {length}\r\n\r\n{body}")
                .as_bytes(),
        );
        let text = line.rest();
        let status: u16 =
            text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{text}"));
        let body = text.split_once("\r\n\r\n").expect("a head").1.to_owned();
        (status, serde_json::from_str::<Value>(&body).unwrap_or_else(|error| panic!("{error}: {text}")))
    };
    let (status, created) = post("create", r#"{"tasks":[{"name":"a","payload":"x"}]}"#);
    assert_eq!((status, &created["created"]["new"]), (200, &json!(1)));
    let (status, taken) = post("take?as=curl", r#"{"wait":60}"#);
    assert_eq!((status, &taken["tasks"][0]["payload"]), (200, &json!("x")));
    let (status, ended) = post("complete?as=curl", r#"{"tasks":[{"name":"a"}]}"#);
    assert_eq!((status, &ended["done"]), (200, &json!([{}])));
    assert_eq!(post("look", r#"{"names":["a"]}"#).1["looked"]["tasks"][0]["state"], "finished");
    for (path, body, expected) in [
        ("tkae", "{}", 404),
        ("take", "{", 400),
        ("take", r#"{"n":1}"#, 400),
        ("close", r#"{"bag":"nobody"}"#, 404),
        ("create", r#"{"tasks":[{"name":"a","payload":"y"}]}"#, 409),
    ] {
        let (status, answer) = post(path, body);
        assert_eq!(status, expected, "{path} {body}: {answer}");
    }
    // Several requests at once, and what is no HTTP.
    let mut line = relay.line();
    let get = "GET /v1/pull/status HTTP/1.1\r\n\r\n";
    line.say(format!("{get}{get}").as_bytes());
    assert_eq!(line.rest().matches("HTTP/1.1 200 OK").count(), 2);
    for (text, expected) in [
        ("POST /v1/pull/take HTTP/1.1\r\n\r\n", " 411 "),
        ("POST /v1/pull/take HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", " 411 "),
        ("POST /v1/pull/take HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", " 413 "),
        ("PUT /v1/pull/take HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", " 405 "),
        ("GARBAGE\r\n\r\n", " 400 "),
    ] {
        let mut line = relay.line();
        line.say(text.as_bytes());
        let answer = line.rest();
        assert!(answer.contains(expected), "{text:?}: {answer}");
    }
}

#[test]
fn the_paths_of_http_are_described_by_the_relay() {
    let cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    let mut line = relay.line();
    line.say(b"GET /v1/pull/openapi.json HTTP/1.1\r\n\r\n");
    let text = line.rest();
    let body = text.split_once("\r\n\r\n").expect("a head").1;
    let document: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(document["openapi"], "3.1.0");
}

// A connection that speaks in frames.
struct Frames(UnixStream);

impl Frames {
    fn say(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the relay reads");
    }

    fn hear(&mut self) -> form::answer::Body {
        let mut length = [0; form::LENGTH_BYTES];
        self.0.read_exact(&mut length).expect("an answer");
        let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut bytes).expect("all of it");
        form::decode_answer(&bytes).expect("an answer").body.expect("of this release")
    }

    fn ask(&mut self, body: Body) -> form::answer::Body {
        let mut frame = Vec::new();
        form::put_request(&form::Request { body: Some(body) }, &mut frame);
        self.say(&frame);
        self.hear()
    }
}

#[test]
fn frames_say_the_same() {
    let cluster = Cluster::server();
    let relay = Relay::start(&cluster);
    let connect = || {
        let stream = UnixStream::connect(&relay.path).expect("a relay");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Frames(stream)
    };
    let mut frames = connect();
    let task = form::NewTask { name: "a".into(), payload: vec![0xff], ..form::NewTask::default() };
    let create = form::Create { tasks: vec![task], ..form::Create::default() };
    let created = frames.ask(Body::Create(create));
    assert!(matches!(created, form::answer::Body::Created(form::Created { new: 1, .. })), "{created:?}");
    let take = form::Take { wait: 60.0, ..form::Take::default() };
    let form::answer::Body::Given(given) = frames.ask(Body::Take(take)) else { panic!("a task") };
    assert_eq!((given.tasks[0].name.as_str(), &given.tasks[0].payload[..]), ("a", &[0xff][..]));
    let task = &given.tasks[0];
    let end = form::End {
        id: Some(task.id.clone()),
        attempt: Some(task.attempt.clone()),
        result: vec![0xfe],
        ..form::End::default()
    };
    let ends = form::Ends { tasks: vec![end], ..form::Ends::default() };
    let form::answer::Body::Given(ended) = frames.ask(Body::Complete(ends.clone())) else { panic!("given") };
    assert_eq!((&ended.done[..], ended.accepted, ended.saved), (&[form::Item::default()][..], 1, 1));
    // Said again, it is refused: by itself, and not the request.
    let form::answer::Body::Given(ended) = frames.ask(Body::Complete(ends)) else { panic!("given") };
    assert_eq!(ended.done[0].error.as_deref(), Some("not-held"));
    let look = form::Look { names: vec!["a".into()], ..form::Look::default() };
    let form::answer::Body::Looked(looked) = frames.ask(Body::Look(look)) else { panic!("looked") };
    assert_eq!(
        (looked.tasks[0].state.as_deref(), looked.tasks[0].result.as_deref()),
        (Some("finished"), Some(&[0xfe][..]))
    );
    // A line says of the same task what a frame said.
    let seen = relay.line().ask(&json!({"look": {"names": ["a"]}}));
    assert_eq!(seen["looked"]["tasks"][0]["result_base64"], "/g==");
    // What is no message is answered, and the next one is heard.
    frames.say(&[0, 0, 0, 2, 0xff, 0xff]);
    let form::answer::Body::Error(error) = frames.hear() else { panic!("an error") };
    assert_eq!(error.code, "bad-request");
    let synced = frames.ask(Body::Sync(form::Nothing {}));
    assert!(matches!(synced, form::answer::Body::Given(_)), "{synced:?}");
    // One that is too long ends the connection; one that is cut off is heard by nobody.
    frames.say(&[1, 0xff, 0xff, 0xff]);
    let form::answer::Body::Error(error) = frames.hear() else { panic!("an error") };
    assert_eq!(error.code, "too-large");
    let mut rest = Vec::new();
    assert_eq!(frames.0.read_to_end(&mut rest).expect("the end"), 0);
    let mut cut = connect();
    cut.say(&[0, 0, 0, 9, 1, 2]);
    cut.0.shutdown(std::net::Shutdown::Write).expect("a socket");
    assert_eq!(cut.0.read_to_end(&mut rest).expect("the end"), 0);
    let status = relay.line().ask(&json!({"status": {}}));
    assert_eq!(status["status"]["bags"][0]["finished"], 1);
}
