//! What `hq make` says.

use hq_model::counted;
use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::json;
use super::style::Style;
use super::{Report, text};
use crate::error::HqError;
use crate::make::FailedRun;

/// Failures of which the last lines are shown.
const TAILS_MAX: usize = 10;

/// A text, and the same for programs.
pub(crate) struct Shown {
    text: String,
    document: Value,
    quiet: String,
    is_message: bool,
}

impl Shown {
    /// An answer.
    pub(crate) fn of(text: String, document: Value) -> Shown {
        Shown { text, document, quiet: String::new(), is_message: false }
    }

    /// With what is printed in quiet mode.
    pub(crate) fn quiet(self, quiet: String) -> Shown {
        Shown { quiet, ..self }
    }

    /// Something that was done.
    pub(crate) fn message(text: String, document: Value) -> Shown {
        Shown { is_message: true, ..Shown::of(text, document) }
    }
}

impl Report for Shown {
    fn cli(&mut self, out: &mut dyn Write, _: Style) -> Result<(), HqError> {
        Ok(out.write_all(self.text.as_bytes())?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        if let Some(fields) = self.document.as_object_mut() {
            fields.insert("schema_version".into(), json::SCHEMA_VERSION.into());
        }
        Ok(json::write(out, &self.document)?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(out.write_all(self.quiet.as_bytes())?)
    }

    fn is_message(&self) -> bool {
        self.is_message
    }
}

/// How all runs ended.
pub(crate) struct MakeEnded {
    /// Well.
    pub completed: usize,
    /// Found unchanged at their start.
    pub unchanged: usize,
    /// Those that failed.
    pub failed: Vec<FailedRun>,
    /// The last lines of their logs.
    pub tails: Vec<Vec<String>>,
    /// Those that never ran, or were ended.
    pub not_run: usize,
    /// Those of them that could not have ended in time.
    pub not_in_time: usize,
    /// What is wanted and nobody can make.
    pub missing: usize,
    /// How long it took.
    pub duration: Duration,
}

impl MakeEnded {
    /// 0 if all that is wanted is there.
    pub(crate) fn exit(&self) -> u8 {
        u8::from(!self.failed.is_empty() || self.not_run > 0 || self.missing > 0)
    }
}

impl Report for MakeEnded {
    fn cli(&mut self, out: &mut dyn Write, _: Style) -> Result<(), HqError> {
        let total = self.completed + self.unchanged + self.failed.len() + self.not_run;
        let mut parts = vec![format!("{} completed", self.completed)];
        let others =
            [(self.unchanged, "unchanged"), (self.failed.len(), "failed"), (self.not_run, "not run")];
        parts.extend(
            others.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")),
        );
        let runs = counted(total as u64, "run");
        writeln!(out, "{runs} in {}: {}", text::measured(self.duration), parts.join(", "))?;
        if self.not_in_time > 0 {
            let runs = counted(self.not_in_time as u64, "run");
            writeln!(out, "Not started for lack of time: {runs}")?;
        }
        for (run, tail) in self.failed.iter().zip(&self.tails).take(TAILS_MAX) {
            writeln!(out, "\n{} failed: {}", text::one_line(&run.name), text::one_line(&run.error))?;
            writeln!(
                out,
                "  log: {}{}",
                text::one_line(&run.log),
                if tail.is_empty() { ", which is empty" } else { "" }
            )?;
            for line in tail {
                writeln!(out, "    {}", text::one_line(line))?;
            }
        }
        if self.failed.len() > TAILS_MAX {
            writeln!(out, "\nand {} more: `hq make --list-failed` lists all", self.failed.len() - TAILS_MAX)?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let failed: Vec<Value> = self
            .failed
            .iter()
            .zip(&self.tails)
            .map(|(run, tail)| json!({ "name": run.name, "error": run.error, "log": run.log, "last_lines": tail }))
            .collect();
        let document = json!({
            "completed": self.completed, "unchanged": self.unchanged, "failed": failed, "not_run": self.not_run,
            "not_in_time": self.not_in_time,
            "missing": self.missing, "duration": json::seconds(self.duration), "schema_version": json::SCHEMA_VERSION,
        });
        Ok(json::write(out, &document)?)
    }
}

/// Runs that failed.
pub(crate) struct Failures(pub Vec<FailedRun>);

impl Report for Failures {
    fn cli(&mut self, out: &mut dyn Write, _: Style) -> Result<(), HqError> {
        for run in &self.0 {
            let [name, error, log] = [&run.name, &run.error, &run.log].map(|text| text::one_line(text));
            writeln!(out, "{name}: {error} ({log})")?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let one = |run: &FailedRun| json!({ "name": run.name, "error": run.error, "log": run.log });
        Ok(json::write(out, &self.0.iter().map(one).collect::<Value>())?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for run in &self.0 {
            writeln!(out, "{}", text::one_line(&run.name))?;
        }
        Ok(())
    }
}
