//! `hq job result`.

use std::io::Write;

use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use serde_json::value::RawValue;

use super::Report;
use super::job::write_error;
use super::style::Style;
use crate::error::HqError;
use crate::report::Results;
use crate::results::TaskResult;

#[derive(Serialize)]
struct Document<'a> {
    job: u32,
    task: u32,
    result: &'a RawValue,
}

impl Report for Results {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        for result in self.results.by_ref() {
            let TaskResult { task, result } = result?;
            match (self.is_single, self.are_several) {
                (true, _) => {}
                (false, true) => write!(out, "{}@{}: ", task.job, task.task)?,
                (false, false) => write!(out, "{}: ", task.task)?,
            }
            out.write_all(&result)?;
            out.write_all(b"\n")?;
        }
        self.complain()
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut serializer = serde_json::Serializer::new(&mut *out);
        let mut list = serializer.serialize_seq(None).map_err(write_error)?;
        for result in self.results.by_ref() {
            let TaskResult { task, result } = result?;
            // Python says NaN where JSON has no word for it.
            let text = String::from_utf8_lossy(&result).into_owned();
            let value = RawValue::from_string(text).unwrap_or_else(|error| {
                let text = serde_json::Value::from(String::from_utf8_lossy(&result)).to_string();
                tracing::debug!(%error, "a result is no JSON");
                RawValue::from_string(text).unwrap_or_default()
            });
            let document = Document { job: task.job.0, task: task.task.0, result: &value };
            list.serialize_element(&document).map_err(write_error)?;
        }
        SerializeSeq::end(list).map_err(write_error)?;
        out.write_all(b"\n")?;
        self.complain()
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for result in self.results.by_ref() {
            out.write_all(&result?.result)?;
            out.write_all(b"\n")?;
        }
        self.complain()
    }
}

impl Results {
    // What was asked for by name is there, or it is an error.
    fn complain(&self) -> Result<(), HqError> {
        let (found, missing) = self.results.counts();
        if missing > 0 && (found == 0 || self.is_named) {
            let text = match (found, missing) {
                (0, 1) => "The task has no result".to_owned(),
                (0, _) => "None of these tasks has a result".to_owned(),
                (_, missing) => format!("{missing} of these tasks have no result"),
            };
            let hint = "Functions (`hq submit --function`) have one when they have finished; `hq task list` says how far \
                        tasks are.";
            return Err(HqError::failed("no-result", text).hint(hint));
        }
        Ok(())
    }
}
