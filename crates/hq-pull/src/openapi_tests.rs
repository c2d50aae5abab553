//! Whether what `docs/reference/pull-openapi.json` says, which is made from `pull.proto`, is what requests in JSON take and
//! answers have.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::answers::{Answer, Given, Item, Looked, Seen, Task};
use crate::contract::{NAMES, Problem, parse_inside};
use crate::http::OPENAPI;

fn document() -> Value {
    serde_json::from_str(OPENAPI).expect("a generated file")
}

// The schema that a reference names, or this one.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(place) => document.pointer(place.trim_start_matches('#')).unwrap_or_else(|| panic!("{place}")),
        None => schema,
    }
}

fn inside<'a>(document: &'a Value, request: &str) -> &'a Value {
    let place = &document["paths"][format!("/v1/pull/{request}")]["post"]["requestBody"];
    resolved(document, &place["content"]["application/json"]["schema"])
}

// A value with all that a schema names.
fn sample(document: &Value, schema: &Value) -> Value {
    let schema = resolved(document, schema);
    if let Some(word) = schema["enum"].as_array().and_then(|words| words.last()) {
        return word.clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let members = schema["properties"].as_object().expect("an object has members");
            let members = members.iter().map(|(name, schema)| (name.clone(), sample(document, schema)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Some("array") => json!([sample(document, &schema["items"])]),
        Some("integer") => json!(3),
        Some("number") => json!(1.5),
        Some("boolean") => json!(true),
        _ => json!("text"),
    }
}

fn names(schema: &Value) -> BTreeSet<String> {
    schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

// The names that a reader says it knows when it is given another one.
fn known(request: &str, text: &str) -> BTreeSet<String> {
    let error = parse_inside(request, text.as_bytes()).expect(request).expect_err(text).message;
    let listed = error.split_once("unknown field `zz`").unwrap_or_else(|| panic!("{error}")).1;
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_paths_are_the_requests() {
    let document = document();
    let paths: BTreeSet<&str> = document["paths"]
        .as_object()
        .expect("paths")
        .keys()
        .map(|path| path.rsplit('/').next().expect("a name"))
        .collect();
    assert_eq!(paths, NAMES.into_iter().chain(["openapi.json"]).collect());
}

#[test]
fn requests_take_what_the_schemas_say_and_nothing_else() {
    let document = document();
    for request in NAMES {
        let schema = inside(&document, request);
        let full = sample(&document, schema).to_string();
        let read = parse_inside(request, full.as_bytes()).expect(request);
        assert!(read.is_ok(), "{full}: {:?}", read.err());
        assert_eq!(known(request, r#"{"zz":1}"#), names(schema), "{request}");
    }
    let schema = |name: &str| &document["components"]["schemas"][name];
    assert_eq!(known("create", r#"{"tasks":[{"zz":1}]}"#), names(schema("NewTask")));
    assert_eq!(known("next", r#"{"done":[{"zz":1}]}"#), names(schema("End")));
    assert_eq!(known("next", r#"{"done":[{"deferred":{"zz":1}}]}"#), names(schema("Deferred")));
}

#[test]
fn answers_have_what_the_schemas_say() {
    let document = document();
    let has = |name: &str, value: &Value| {
        let schema = names(&document["components"]["schemas"][name]);
        let members: BTreeSet<String> = value.as_object().expect(name).keys().cloned().collect();
        assert!(members.is_subset(&schema), "{name}: {members:?} of {schema:?}");
    };
    let said = |answer: &Answer| {
        let mut text = Vec::new();
        answer.put_json(&mut text);
        serde_json::from_slice::<Value>(&text).expect("JSON")
    };
    for payload in [vec![b'x'], vec![0xff]] {
        let task = Task {
            id: "4@1".to_owned(),
            name: "a".to_owned(),
            payload: payload.clone(),
            attempt: "3.0".to_owned(),
            lease: 1.0,
        };
        let given = said(&Answer::Given(Given {
            tasks: Some(vec![task]),
            state: Some("some"),
            done: Some(vec![Item::of(Err(Problem::bad("no")))]),
            accepted: 1,
            saved: 0,
        }));
        has("Given", &given);
        has("Task", &given["tasks"][0]);
        has("Item", &given["done"][0]);
        let seen = Seen {
            name: "a".to_owned(),
            error: Some("unknown-name"),
            id: Some("4@1".to_owned()),
            state: Some("failed"),
            message: Some("no".to_owned()),
            result: Some(payload),
        };
        let looked = said(&Answer::Looked(Looked { bag: 4, tasks: vec![seen] }));
        has("Looked", &looked["looked"]);
        has("Seen", &looked["looked"]["tasks"][0]);
    }
    has("Error", &said(&Answer::Error(Problem::bad("no")))["error"]);
}
