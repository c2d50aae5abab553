//! Attempts of a task that did not end it, in lines and in JSON.

use hq_core::attempt::{AttemptEnd, PastAttempt};
use hq_model::Timestamp;
use serde_json::{Value, json};

use super::{json, text};

/// An attempt in a line: which, where, when and why it ended.
pub(crate) fn line(attempt: &PastAttempt, clock: impl Fn(Timestamp) -> String) -> String {
    let mut line = format!("{}: ", attempt.instance);
    match (attempt.worker, attempt.nodes.as_slice()) {
        (_, [_, _, ..]) => {
            let workers: Vec<String> = attempt.nodes.iter().map(ToString::to_string).collect();
            line.push_str(&format!("workers {}, ", workers.join(" ")));
        }
        (Some(worker), _) => line.push_str(&format!("worker {worker}, ")),
        (None, _) => {}
    }
    match attempt.started {
        Some(started) => {
            let took = text::measured(attempt.ended.since(started));
            line.push_str(&format!("started {}, after {took} ", clock(started)));
        }
        None => line.push_str(&format!("ended {}, ", clock(attempt.ended))),
    }
    let said = attempt.error.lines().next().unwrap_or_default();
    match attempt.end {
        AttemptEnd::Failed(_) if !said.is_empty() => line.push_str(&format!("failed: {said}")),
        end => line.push_str(end.words()),
    }
    line
}

/// The same for programs.
pub(crate) fn document(attempt: &PastAttempt) -> Value {
    let mut document = json!({
        "instance": attempt.instance.0,
        "worker": attempt.worker.map(|worker| worker.0),
        "started_at": attempt.started.map(json::time),
        "finished_at": json::time(attempt.ended),
        "end": attempt.end.word(),
    });
    if !attempt.nodes.is_empty() {
        document["workers"] = attempt.nodes.iter().map(|worker| worker.0).collect();
    }
    if let AttemptEnd::Failed(kind) = attempt.end {
        let (exit_code, signal) = json::how(kind);
        document["kind"] = kind.word().into();
        document["exit_code"] = exit_code.into();
        document["signal"] = signal.into();
        document["error"] = attempt.error.as_str().into();
    }
    document
}

#[cfg(test)]
mod tests {
    use hq_core::record::FailureKind;
    use hq_model::{Instance, TaskId, WorkerId};

    use super::*;

    fn attempt(end: AttemptEnd) -> PastAttempt {
        PastAttempt {
            task: TaskId(1),
            instance: Instance(2),
            worker: Some(WorkerId(7)),
            nodes: Vec::new(),
            started: Some(Timestamp(10_000_000)),
            ended: Timestamp(12_500_000),
            end,
            error: String::new(),
        }
    }

    #[test]
    fn a_line_says_where_when_and_why() {
        let failed = AttemptEnd::Failed(FailureKind::Exit(3));
        let said = PastAttempt { error: "exit code 3\nand more".into(), ..attempt(failed) };
        let nodes = vec![WorkerId(7), WorkerId(9)];
        for (attempt, expected) in [
            (attempt(AttemptEnd::WorkerLost), "2: worker 7, started 10, after 2s 500ms lost with its worker"),
            (said.clone(), "2: worker 7, started 10, after 2s 500ms failed: exit code 3"),
            (
                PastAttempt { nodes, ..attempt(AttemptEnd::Superseded) },
                "2: workers 7 9, started 10, after 2s 500ms another attempt finished first",
            ),
            (PastAttempt { worker: None, started: None, ..said }, "2: ended 12, failed: exit code 3"),
        ] {
            assert_eq!(line(&attempt, |at| (at.0 / 1_000_000).to_string()), expected);
        }
    }

    #[test]
    fn a_document_says_of_failures_alone_how_they_failed() {
        let lost = document(&attempt(AttemptEnd::WorkerLost));
        assert_eq!((lost["end"].as_str(), lost.get("kind")), (Some("worker-lost"), None));
        let failed = document(&attempt(AttemptEnd::Failed(FailureKind::Signal(9))));
        assert_eq!(failed["kind"], "signal");
        assert_eq!((failed["signal"].as_u64(), failed["exit_code"].as_u64()), (Some(9), None));
    }
}
