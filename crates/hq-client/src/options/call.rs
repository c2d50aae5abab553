//! Options of calls that a program makes: those of `[[task]]` in a job file, in JSON.

use hq_model::TaskSpec;
use hq_model::body::Function;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::job_file::Task;

/// Those that a call can have.
const OPTIONS: [&str; 21] = [
    "crash_limit",
    "cwd",
    "env",
    "expect",
    "gather",
    "kill_grace",
    "launcher",
    "locality",
    "mpi",
    "on_walltime",
    "pin",
    "priority",
    "request",
    "retry",
    "retry_delay",
    "retry_on",
    "signal",
    "speculate",
    "stderr",
    "stdout",
    "time_limit",
];

/// What calls of a function have in common, from an object of options in JSON. Outputs go nowhere unless they are named.
///
/// # Errors
/// What is wrong with which option.
pub fn call_spec(options: &str, function: Function) -> Result<TaskSpec, String> {
    let value: Value =
        serde_json::from_str(options).map_err(|error| format!("the options are not valid JSON: {error}"))?;
    let Some(object) = value.as_object() else {
        return Err("the options are not a JSON object".to_owned());
    };
    if let Some(unknown) = object.keys().find(|key| !OPTIONS.contains(&key.as_str())) {
        return Err(format!("{unknown}: a call has no such option; the options are {}", OPTIONS.join(", ")));
    }
    let task = Task::deserialize(&value)
        .map_err(|error| wrong_key::<Task>(object).unwrap_or_else(|| error.to_string()))?;
    task.spec_of_call(function)
}

/// What is wrong with the first table of a job in JSON that cannot be read.
pub(super) fn wrong_table(content: &str) -> Option<String> {
    let file: Value = serde_json::from_str(content).ok()?;
    let tables = file.get("task")?.as_array()?.iter().enumerate();
    tables.into_iter().find_map(|(place, table)| {
        let wrong = wrong_key::<Task>(table.as_object()?)?;
        let name = match table.get("id").and_then(Value::as_u64) {
            Some(id) => format!("task with id {id}"),
            None => format!("task {}", place + 1),
        };
        Some(format!("{name}: {wrong}"))
    })
}

// The first key of a table whose value is none of what it may be, and what is wrong with that.
fn wrong_key<T: DeserializeOwned>(table: &Map<String, Value>) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let alone = Map::from_iter([(key.clone(), value.clone())]);
        let error = T::deserialize(&Value::Object(alone)).err()?;
        Some(format!("{key}: {value}: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hq_model::OutputSink;
    use hq_model::body::EntryKind;

    use super::*;

    fn spec(options: &str) -> Result<TaskSpec, String> {
        let interpreter = vec![b"python3".to_vec()];
        call_spec(options, Function { interpreter, entry: EntryKind::Packed, ..Function::default() })
    }

    #[test]
    fn options_are_those_of_job_files() {
        let options = r#"{"priority": 3, "time_limit": "10m", "retry": 2, "env": {"A": "1"},
            "request": [{"resources": {"cpus": 4, "gpus": 1}}], "stderr": "%{TASK_ID}.err"}"#;
        let spec = spec(options).expect("good options");
        assert_eq!((spec.priority, spec.retry.max), (3, 2));
        assert_eq!(spec.time_limit, Some(Duration::from_secs(600)));
        assert_eq!(spec.requests[0].resources.len(), 2);
        assert_eq!(spec.stdout, OutputSink::None);
        assert!(matches!(spec.stderr, OutputSink::File { .. }));
        assert!(spec.body.is_packed_call());
    }

    #[test]
    fn bad_options_are_named() {
        let error = |options: &str| spec(options).expect_err("bad options");
        assert!(error("{").starts_with("the options are not valid JSON: "));
        assert_eq!(error("[]"), "the options are not a JSON object");
        assert!(error(r#"{"command": ["ls"]}"#).starts_with("command: a call has no such option"));
        assert!(error(r#"{"time_limit": "soon"}"#).starts_with("time_limit: "));
        assert!(error(r#"{"request": [{"resources": {"cpus": -1}}]}"#).starts_with("request: cpus"));
        assert!(error(r#"{"retry_delay": "1s"}"#).contains("need retry"));
        assert_eq!(
            error(r#"{"priority": 1, "retry": "x"}"#),
            r#"retry: "x": invalid type: string "x", expected u32"#
        );
        assert_eq!(
            error(r#"{"crash_limit": [1]}"#),
            "crash_limit: [1]: invalid type: sequence, expected a number or a string"
        );
        assert_eq!(
            error(r#"{"request": [{"resources": {"cpus": null}}]}"#),
            r#"request: [{"resources":{"cpus":null}}]: invalid type: null, expected a number or a string"#
        );
    }
}
