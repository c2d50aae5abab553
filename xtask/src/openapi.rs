//! Describes the HTTP form of the pull protocol as OpenAPI, from `pull.proto`, its one contract.

use std::collections::BTreeMap;

use protox::prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use protox::prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
};
use serde_json::{Map, Value, json};

/// The file, below the workspace.
pub(crate) const FILE: &str = "docs/reference/pull-openapi.json";
const SOURCE: &str = "pull.proto";
/// Members of `Answer`, for the requests that are not answered by what is given.
const ANSWERS: [(&str, &str); 7] = [
    ("hello", "welcome"),
    ("open", "opened"),
    ("create", "created"),
    ("look", "looked"),
    ("close", "closed"),
    ("leave", "left"),
    ("status", "status"),
];
/// Texts that may be numbers in JSON.
const OR_NUMBERS: [&str; 3] = ["bag", "bags", "crash_limit"];
// Places in a descriptor, as comments name them.
const MESSAGES: i32 = 4;
const FIELDS: i32 = 2;

/// The description.
///
/// # Panics
/// When the sources have no such file, or a request without an answer.
pub(crate) fn of(descriptors: &FileDescriptorSet) -> String {
    let file = descriptors.file.iter().find(|file| file.name() == SOURCE);
    let source = Source { file: file.expect("it is one of the sources") };
    let requests = source.message("Request");
    let mut paths = Map::new();
    for (place, field) in requests.field.iter().enumerate() {
        let operation = source.operation(field, place as i32);
        let mut path = Map::from_iter([("post".to_owned(), operation)]);
        if field.name() == "status" {
            path.insert(
                "get".to_owned(),
                source.get("status", "Counts tasks of the bags that are known here."),
            );
        }
        paths.insert(format!("/v1/pull/{}", field.name()), Value::Object(path));
    }
    let this = json!({"get": {
        "operationId": "openapi",
        "summary": "This document.",
        "responses": {"200": {"description": "This document.", "content": {"application/json": {}}}},
    }});
    paths.insert("/v1/pull/openapi.json".to_owned(), this);
    let schemas = source.file.message_type.iter().enumerate();
    let schemas = schemas.filter(|(_, message)| !matches!(message.name(), "Request" | "Answer"));
    let schemas: Map<String, Value> =
        schemas.map(|(place, message)| (message.name().to_owned(), source.schema(message, place))).collect();
    let about = "How programs create tasks, take them, and say how they ended. Over the Unix socket that HQ_PULL_SOCKET \
                 names (`hq pull env`). Times are seconds and may have fractions.";
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": "Headquarters pull protocol", "version": "1", "description": about},
        "servers": [{"url": "http://hq"}],
        "paths": paths,
        "components": {"schemas": schemas},
    });
    format!("{document:#}\n")
}

struct Source<'a> {
    file: &'a FileDescriptorProto,
}

impl Source<'_> {
    fn message(&self, name: &str) -> &DescriptorProto {
        let found = self.file.message_type.iter().find(|message| message.name() == name);
        found.unwrap_or_else(|| panic!("{SOURCE} has no message {name}"))
    }

    fn enumeration(&self, name: &str) -> &EnumDescriptorProto {
        let found = self.file.enum_type.iter().find(|found| found.name() == name);
        found.unwrap_or_else(|| panic!("{SOURCE} has no enum {name}"))
    }

    // What stands before a message, or before one of its fields.
    fn comment(&self, path: &[i32]) -> Option<String> {
        let info = self.file.source_code_info.as_ref()?;
        let location = info.location.iter().find(|location| location.path == path)?;
        let text = location.leading_comments().split_whitespace().collect::<Vec<_>>().join(" ");
        (!text.is_empty()).then_some(text)
    }

    fn place_of(&self, message: &str) -> i32 {
        let place = self.file.message_type.iter().position(|known| known.name() == message);
        place.map_or(-1, |place| place as i32)
    }

    fn operation(&self, request: &FieldDescriptorProto, place: i32) -> Value {
        let name = request.name();
        let of_request = self.comment(&[MESSAGES, self.place_of("Request"), FIELDS, place]);
        let inside = reference(request);
        let mut operation = self.get(name, &of_request.unwrap_or_default());
        operation["requestBody"] = json!({"content": {"application/json": {"schema": inside}}});
        operation
    }

    // Without a body.
    fn get(&self, name: &str, summary: &str) -> Value {
        let label = json!({
            "name": "as",
            "in": "query",
            "schema": {"type": "string"},
            "description": "The label of who speaks, as in `hello`.",
        });
        let error = json!({
            "type": "object",
            "properties": {"error": {"$ref": "#/components/schemas/Error"}},
            "required": ["error"],
        });
        let content = |schema: Value| json!({"application/json": {"schema": schema}});
        json!({
            "operationId": name,
            "summary": summary,
            "parameters": [label],
            "responses": {
                "200": {"description": "Done.", "content": content(self.answer(name))},
                "default": {"description": "Refused.", "content": content(error)},
            },
        })
    }

    // What is given stands by itself, all else in a member that names it.
    fn answer(&self, request: &str) -> Value {
        let Some((_, member)) = ANSWERS.iter().find(|(known, _)| *known == request) else {
            return json!({"$ref": "#/components/schemas/Given"});
        };
        let answers = self.message("Answer");
        let field = answers.field.iter().find(|field| field.name() == *member);
        let schema = reference(field.unwrap_or_else(|| panic!("no answer is called {member}")));
        json!({"type": "object", "properties": {*member: schema}, "required": [member]})
    }

    fn schema(&self, message: &DescriptorProto, place: usize) -> Value {
        let mut members = BTreeMap::new();
        for (number, field) in message.field.iter().enumerate() {
            let path = [MESSAGES, place as i32, FIELDS, number as i32];
            for (name, mut schema) in self.members(field) {
                if let Some(comment) = self.comment(&path) {
                    schema["description"] = comment.into();
                }
                members.insert(name, schema);
            }
        }
        let mut schema = json!({"type": "object", "properties": members, "additionalProperties": false});
        if let Some(comment) = self.comment(&[MESSAGES, place as i32]) {
            schema["description"] = comment.into();
        }
        schema
    }

    // Bytes are said as a text, or as base64 in a member of another name.
    fn members(&self, field: &FieldDescriptorProto) -> Vec<(String, Value)> {
        let name = field.name().to_owned();
        let one = match field.r#type() {
            Type::Bytes => {
                let encoded =
                    (format!("{name}_base64"), json!({"type": "string", "contentEncoding": "base64"}));
                return vec![(name, json!({"type": "string"})), encoded];
            }
            Type::String if OR_NUMBERS.contains(&field.name()) => json!({"type": ["string", "integer"]}),
            Type::String => json!({"type": "string"}),
            Type::Bool => json!({"type": "boolean"}),
            Type::Double => json!({"type": "number"}),
            Type::Uint32 | Type::Uint64 => json!({"type": "integer", "minimum": 0}),
            Type::Sint32 => json!({"type": "integer"}),
            Type::Message => reference(field),
            Type::Enum => self.words(field),
            other => panic!("nothing says how {other:?} stands in JSON: {name}"),
        };
        let is_list = field.label() == Label::Repeated;
        vec![(name, if is_list { json!({"type": "array", "items": one}) } else { one })]
    }

    // `MISSING_DONE` of `Missing` is `done`.
    fn words(&self, field: &FieldDescriptorProto) -> Value {
        let name = last(field.type_name());
        let prefix = format!("{}_", name.to_uppercase());
        let values = self.enumeration(name).value.iter().map(|value| value.name().to_owned());
        let words: Vec<String> = values.map(|word| word.replacen(&prefix, "", 1).to_lowercase()).collect();
        json!({"type": "string", "enum": words})
    }
}

fn reference(field: &FieldDescriptorProto) -> Value {
    json!({"$ref": format!("#/components/schemas/{}", last(field.type_name()))})
}

fn last(type_name: &str) -> &str {
    type_name.rsplit('.').next().unwrap_or(type_name)
}
