//! What `hq job info` says of notices.

use hq_core::client_messages::NoticeInfo;
use hq_model::notice::{ToldEnd, with_escapes};
use serde::ser::SerializeMap;
use serde_json::{Value, json};

use super::json::optional_time;
use super::style::Style;
use super::table::Cell;

/// A row of a job that somebody is told of.
pub(super) fn row(notices: &[NoticeInfo], style: Style) -> Option<(&'static str, Cell)> {
    let lines: Vec<String> = notices.iter().map(|notice| line(notice, style)).collect();
    (!lines.is_empty()).then(|| ("Notices", lines.join("\n").into()))
}

fn line(notice: &NoticeInfo, style: Style) -> String {
    let (on, target) = (notice.rule.on.word(), notice.rule.target.shown());
    let told = match (&notice.told, &notice.trouble) {
        (None, _) => return format!("{on}: {target}"),
        (Some(told), _) if told.end.is_some() => match &told.end {
            Some(ToldEnd { at, error: None }) => format!("sent {}", style.time(*at)),
            Some(ToldEnd { error: Some(error), .. }) => {
                format!("not sent, given up: {}", with_escapes(error))
            }
            None => String::new(),
        },
        (Some(_), Some(trouble)) => format!("tried again: {}", with_escapes(trouble)),
        (Some(told), None) => format!("waiting to be sent since {}", style.time(told.since)),
    };
    format!("{on}: {target} ({told})")
}

/// The same in a JSON document about the job.
pub(super) fn put<M: SerializeMap>(map: &mut M, notices: &[NoticeInfo]) -> Result<(), M::Error> {
    match notices {
        [] => Ok(()),
        some => map.serialize_entry("notices", &some.iter().map(one).collect::<Value>()),
    }
}

fn one(notice: &NoticeInfo) -> Value {
    let end = notice.told.as_ref().and_then(|told| told.end.as_ref());
    let state = match (&notice.told, end) {
        (None, _) => "none",
        (Some(_), None) => "due",
        (Some(_), Some(ToldEnd { error: None, .. })) => "sent",
        (Some(_), Some(_)) => "failed",
    };
    let error = end.and_then(|end| end.error.as_ref()).or(notice.trouble.as_ref());
    json!({
        "on": notice.rule.on.word(),
        "target": notice.rule.target.shown(),
        "state": state,
        "since": optional_time(notice.told.as_ref().map(|told| told.since)),
        "ended_at": optional_time(end.map(|end| end.at)),
        "error": error,
    })
}
