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
    #[serde(skip_serializing_if = "Option::is_none")]
    pickle: Option<String>,
}

// What a client in Python packed for itself: no JSON begins like that.
fn is_pickle(result: &[u8]) -> bool {
    matches!(result, [0x80, ..] | [b'P', 0x80, ..])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write_result(out: &mut dyn Write, result: &[u8]) -> Result<(), HqError> {
    if is_pickle(result) {
        writeln!(out, "<pickle of {} bytes>", result.len())?;
        return Ok(());
    }
    out.write_all(result)?;
    out.write_all(b"\n")?;
    Ok(())
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
            write_result(out, &result)?;
        }
        self.complain();
        Ok(())
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
            let pickle = is_pickle(&result).then(|| hex(&result));
            let value = if pickle.is_some() { RawValue::NULL.to_owned() } else { value };
            let document = Document { job: task.job.0, task: task.task.0, result: &value, pickle };
            list.serialize_element(&document).map_err(write_error)?;
        }
        SerializeSeq::end(list).map_err(write_error)?;
        out.write_all(b"\n")?;
        self.complain();
        Ok(())
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for result in self.results.by_ref() {
            write_result(out, &result?.result)?;
        }
        self.complain();
        Ok(())
    }
}

impl Results {
    // What was asked for by its id is there, or it is said that it is not: what is there is printed all the same.
    fn complain(&self) {
        let (_, missing) = self.results.counts();
        if missing > 0 && self.is_named {
            let have = if missing == 1 { "has" } else { "have" };
            (self.refused)(&format!("{missing} of these tasks {have} no result"));
        }
    }
}
