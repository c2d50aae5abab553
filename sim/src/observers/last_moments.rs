//! Nothing starts that could not end in time: each clock here is the same, so there is no tolerance.

use hq_core::worker::Start;
use hq_model::Timestamp;

/// A worker starts a task.
///
/// # Errors
/// When it is too late for that.
pub fn starts_in_time(now: Timestamp, start: &Start) -> Result<(), String> {
    let template = &start.template;
    match template.spec.last_start(template.submitted) {
        Some(last) if last < now && !start.is_part => Err(format!(
            "task {} starts as instance {} at {now}, and had to until {last} to end in time",
            start.task, start.instance
        )),
        _ => Ok(()),
    }
}

/// A launcher starts a task some time, and asks nobody before.
///
/// # Errors
/// When it may be too late by then.
pub fn never_too_late(start: &Start) -> Result<(), String> {
    match start.template.spec.end_by {
        Some(_) => Err(format!("task {} is armed, and may begin when it cannot end in time", start.task)),
        None => Ok(()),
    }
}
