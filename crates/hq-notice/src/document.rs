//! What is told: a JSON document, and the same as variables of programs.

use hq_model::Notice;
use hq_model::notice::NoticeEvent;
use serde_json::{Value, json};

/// A notice as a JSON document, with the last line of a failed task's standard error. Names and meanings of its fields stay.
pub fn document(notice: &Notice, said: Option<&str>) -> Value {
    let of = &notice.counters;
    let mut value = json!({
        "reason": notice.event.moment().word(),
        "title": notice.title(),
        "time": notice.at.to_string(),
        "job": {
            "id": notice.job.0,
            "name": notice.name,
            "state": notice.state.word(),
            "tasks": {
                "total": of.total(),
                "waiting": of.waiting,
                "running": of.running,
                "finished": of.finished,
                "failed": of.failed,
                "canceled": of.canceled,
                "aborted": of.aborted,
            },
        },
    });
    match &notice.event {
        NoticeEvent::End => {}
        NoticeEvent::Failure { task, error, .. } => {
            value["failure"] = json!({ "task": task.0, "error": error, "stderr_last_line": said });
        }
        NoticeEvent::Stall { quiet, explanation } => {
            value["stall"] = json!({ "quiet_s": quiet.as_secs(), "explanation": explanation });
        }
    }
    value
}

/// The same as variables of a program.
pub(crate) fn variables(notice: &Notice, said: Option<&str>) -> Vec<(&'static str, String)> {
    let of = &notice.counters;
    let mut variables = vec![
        ("HQ_NOTICE_REASON", notice.event.moment().word().to_owned()),
        ("HQ_NOTICE_TITLE", notice.title()),
        ("HQ_NOTICE_TEXT", notice.details().to_owned()),
        ("HQ_JOB_ID", notice.job.to_string()),
        ("HQ_JOB_NAME", notice.name.clone()),
        ("HQ_JOB_STATE", notice.state.word().to_owned()),
        ("HQ_TASKS_TOTAL", of.total().to_string()),
        ("HQ_TASKS_FINISHED", of.finished.to_string()),
        ("HQ_TASKS_FAILED", of.failed.to_string()),
        ("HQ_TASKS_CANCELED", of.canceled.to_string()),
        ("HQ_TASKS_ABORTED", of.aborted.to_string()),
    ];
    if let NoticeEvent::Failure { task, .. } = &notice.event {
        variables.push(("HQ_TASK_ID", task.to_string()));
        variables.extend(said.map(|said| ("HQ_NOTICE_STDERR_LAST_LINE", said.to_owned())));
    }
    for (_, value) in &mut variables {
        // No variable holds one.
        value.retain(|c| c != '\0');
    }
    variables
}
