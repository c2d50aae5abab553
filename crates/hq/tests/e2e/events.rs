//! Events of real journals are as their schema says, which has all of their fields.

use serde_json::{Value, json};

use crate::cluster::Cluster;

/// Checks every event in the journal of a server.
pub(crate) fn keep_their_schema(cluster: &Cluster) {
    let mut schema: Value = serde_json::from_str(&cluster.ok("journal schema")).expect("JSON");
    for definition in schema["$defs"].as_object_mut().expect("definitions").values_mut() {
        allow_nothing_else(definition);
    }
    // Jobs in JSON have a page of their own, which says more of it.
    if let Some(task) = schema["$defs"]["task_desc"].as_object_mut() {
        task.remove("additionalProperties");
    }
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let events = cluster.ok("journal export");
    assert!(events.lines().count() > 1, "{events}");
    for line in events.lines() {
        let event = serde_json::from_str(line).expect("JSON");
        let wrong: Vec<String> =
            schema.iter_errors(&event).map(|error| format!("{error} at {}", error.instance_path())).collect();
        assert!(wrong.is_empty(), "{wrong:#?} of {line}");
    }
}

// New fields may come, so the schema allows them; those of today are all in it.
fn allow_nothing_else(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(allow_nothing_else);
            if map.contains_key("properties") && map.contains_key("required") {
                map.insert("additionalProperties".into(), json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(allow_nothing_else),
        _ => {}
    }
}
