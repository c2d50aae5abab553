//! `hq job wait`, `progress`, and the end of `hq run`.

use std::io::Write;

use hq_model::{JobState, counted};
use serde_json::{Value, json};

use super::json::{self, SCHEMA_VERSION};
use super::style::Style;
use super::table::{self, Cell};
use super::{Report, failures, text};
use crate::error::HqError;
use crate::report::{RunEnded, Waited};

/// Ids in a sentence for people, in characters.
pub(super) const IDS_CHARS_MAX: usize = 1000;
/// Ids of tasks that failed and that nobody can ask for later, in characters: as much as an argument may have.
const FAILED_CHARS_MAX: usize = 128 << 10;

const ENDS: [(JobState, &str); 4] = [
    (JobState::Finished, "finished"),
    (JobState::Failed, "failed"),
    (JobState::Aborted, "aborted"),
    (JobState::Canceled, "canceled"),
];

impl Report for Waited {
    fn is_message(&self) -> bool {
        true
    }

    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        let parts: Vec<String> = ENDS
            .iter()
            .map(|(state, word)| (self.count(*state), *word))
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{} {word}", counted(count, "job")))
            .collect();
        if parts.is_empty() {
            return Ok(writeln!(out, "There are no jobs to wait for")?);
        }
        Ok(writeln!(out, "Wait ended after {}: {}", text::measured(self.duration), parts.join(", "))?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut document = document(self);
        document["schema_version"] = SCHEMA_VERSION.into();
        Ok(json::write(out, &document)?)
    }
}

/// The document of a wait, without a version.
pub(super) fn document(waited: &Waited) -> Value {
    json!({
        "duration": json::seconds(waited.duration),
        "finished": waited.count(JobState::Finished),
        "failed": waited.count(JobState::Failed),
        "canceled": waited.count(JobState::Canceled),
        "invalid": 0,
        "aborted": waited.count(JobState::Aborted),
    })
}

impl Report for RunEnded {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let failures = self.failures.as_ref().filter(|(_, ids)| ids.len() > self.failed.len() as u64);
        match failures {
            Some((why, ids)) => {
                failures::table_of(out, style, why)?;
                // They can be given to --array; what no argument can hold is in JSON.
                let text = ids.to_string();
                match text.len() < FAILED_CHARS_MAX {
                    true => writeln!(out, "Failed tasks, in the format of --array: {text}")?,
                    false => writeln!(
                        out,
                        "The ids of the {} failed tasks are too long for one argument; --output-mode json prints them",
                        ids.len()
                    )?,
                }
            }
            None if !self.failed.is_empty() => failed_tasks(out, style, &self.failed)?,
            None => {}
        }
        for job in &self.waited.jobs {
            let c = &job.counters;
            let parts: Vec<String> = [
                (c.finished, "finished"),
                (c.failed, "failed"),
                (c.aborted, "aborted"),
                (c.canceled, "canceled"),
            ]
            .iter()
            .filter(|(count, word)| *count > 0 || *word == "finished")
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
            let total = counted(c.total(), "task");
            writeln!(out, "{total} in {}: {}", text::measured(self.waited.duration), parts.join(", "))?;
        }
        for (channel, path) in &self.outputs {
            writeln!(out, "{channel}: {path}")?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut document = document(&self.waited);
        let stats: Vec<Value> = self.waited.jobs.iter().map(json::job).collect();
        document["jobs"] = stats.into();
        let outputs: serde_json::Map<String, Value> =
            self.outputs.iter().map(|(name, path)| ((*name).to_lowercase(), path.as_str().into())).collect();
        document["outputs"] = outputs.into();
        if let Some((why, ids)) = &self.failures {
            document["failures"] = failures::document(why);
            document["failed_tasks"] = ids.to_string().into();
        }
        document["schema_version"] = SCHEMA_VERSION.into();
        Ok(json::write(out, &document)?)
    }
}

/// Some failed tasks.
pub(super) fn failed_tasks(
    out: &mut dyn Write,
    style: Style,
    tasks: &[hq_core::client_messages::TaskInfo],
) -> Result<(), HqError> {
    let rows: Vec<Vec<Cell>> = tasks
        .iter()
        .map(|task| {
            vec![
                Cell::number(task.task),
                super::task::workers_of(task).into(),
                Cell::colored(task.error.clone().unwrap_or_default(), super::style::Color::Red),
            ]
        })
        .collect();
    Ok(table::table(out, style, &["Task ID", "Worker", "Error"], &rows)?)
}
