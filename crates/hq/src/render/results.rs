//! `hq job result`.

use std::io::Write;

use hq_model::left_behind::{LeftBehind, Packed, Printed};
use hq_model::{IdSet, JobId, counted};
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use serde_json::value::RawValue;

use super::job::write_error;
use super::style::Style;
use super::{Report, text};
use crate::error::HqError;
use crate::report::Results;
use crate::results::{Missing, TaskResult};

/// Jobs of which it is said what is missing.
const JOBS_TOLD: usize = 10;

#[derive(Serialize)]
struct Document<'a> {
    job: u32,
    task: u32,
    result: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pickle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

// What a call of the Python package left, in words: nobody here knows more of a pickle.
fn in_words(packed: &Packed<'_>) -> String {
    let pickle = match packed.object {
        Some(size) => format!("object `value` of {}", bytes(size)),
        None => format!("pickle of {} bytes", packed.pickle.len()),
    };
    let channels = [("stdout", packed.stdout), ("stderr", packed.stderr)];
    let printed = channels.iter().filter(|(_, of)| size(of) > 0);
    let printed: Vec<String> = printed.map(|(name, of)| format!("{} to {name}", bytes(size(of)))).collect();
    match printed.is_empty() {
        true => format!("<{pickle}>"),
        false => format!("<{pickle}; printed {}>", printed.join(" and ")),
    }
}

fn size(printed: &Printed<'_>) -> u64 {
    (printed.bytes.len() as u64).saturating_add(printed.lost)
}

fn bytes(count: u64) -> String {
    counted(count, "byte")
}

/// A result in a line.
pub(super) fn line_of(result: &[u8], is_text: bool) -> Result<String, HqError> {
    let mut line = Vec::new();
    write_result(&mut line, result, is_text)?;
    Ok(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned())
}

/// What a result is.
pub(super) fn left_behind(result: &[u8], is_text: bool) -> LeftBehind<'_> {
    // What is printed is all the same for a text.
    if is_text { LeftBehind::Json(result) } else { LeftBehind::of(result) }
}

fn write_result(out: &mut dyn Write, result: &[u8], is_text: bool) -> Result<(), HqError> {
    match left_behind(result, is_text) {
        // JSON has no such characters; other interpreters than ours may say anything, and so may programs.
        LeftBehind::Json(json) if json.iter().any(u8::is_ascii_control) => {
            writeln!(out, "{}", String::from_utf8_lossy(json).escape_debug())?;
        }
        LeftBehind::Json(json) => {
            out.write_all(json)?;
            out.write_all(b"\n")?;
        }
        LeftBehind::Packed(packed) => writeln!(out, "{}", in_words(&packed))?,
        LeftBehind::Unknown => writeln!(out, "<{} that cannot be read>", bytes(result.len() as u64))?,
    }
    Ok(())
}

// JSON as it is; else, as for what Python says of NaN where JSON has no word for it, a text.
fn json_of(result: &[u8]) -> Box<RawValue> {
    let text = String::from_utf8_lossy(result);
    RawValue::from_string(text.into_owned()).unwrap_or_else(|error| {
        tracing::debug!(%error, "a result is not valid JSON");
        text_of(result)
    })
}

/// A result as a value in JSON, unless nobody here can read it.
pub(super) fn value_of(result: &[u8], is_text: bool) -> Option<Box<RawValue>> {
    match left_behind(result, is_text) {
        LeftBehind::Json(text) if is_text => Some(text_of(text)),
        LeftBehind::Json(json) => Some(json_of(json)),
        LeftBehind::Packed(_) | LeftBehind::Unknown => None,
    }
}

/// The bytes of a result that is meant for a text and is none.
pub(super) fn base64_of(result: &[u8], is_text: bool) -> Option<String> {
    (is_text && std::str::from_utf8(result).is_err()).then(|| hq_pull::base64(result))
}

fn text_of(result: &[u8]) -> Box<RawValue> {
    let text = String::from_utf8_lossy(result);
    RawValue::from_string(serde_json::Value::from(text).to_string()).unwrap_or_default()
}

fn write_document(
    list: &mut impl SerializeSeq<Error = serde_json::Error>,
    TaskResult { task, result, is_text }: &TaskResult,
) -> Result<(), HqError> {
    let value = value_of(result, *is_text).unwrap_or_else(|| RawValue::NULL.to_owned());
    let packed = match left_behind(result, *is_text) {
        LeftBehind::Packed(packed) => Some(packed),
        LeftBehind::Json(_) | LeftBehind::Unknown => None,
    };
    let printed = |printed: Printed<'_>| {
        (!printed.bytes.is_empty()).then(|| String::from_utf8_lossy(printed.bytes).into_owned())
    };
    let document = Document {
        job: task.job.0,
        task: task.task.0,
        result: &value,
        result_base64: base64_of(result, *is_text),
        pickle: packed.as_ref().filter(|packed| packed.object.is_none()).map(|packed| hex(packed.pickle)),
        object: packed.as_ref().and_then(|packed| packed.object).map(|_| "value"),
        object_size: packed.as_ref().and_then(|packed| packed.object),
        stdout: packed.as_ref().and_then(|packed| printed(packed.stdout)),
        stderr: packed.as_ref().and_then(|packed| printed(packed.stderr)),
    };
    list.serialize_element(&document).map_err(write_error)
}

impl Report for Results {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        for result in self.results.by_ref() {
            let TaskResult { task, result, is_text } = result?;
            match (self.is_single, self.are_several) {
                (true, _) => {}
                (false, true) => write!(out, "{}@{}: ", task.job, task.task)?,
                (false, false) => write!(out, "{}: ", task.task)?,
            }
            write_result(out, &result, is_text)?;
        }
        out.flush()?;
        self.complain()
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut serializer = serde_json::Serializer::new(&mut *out);
        let mut list = serializer.serialize_seq(None).map_err(write_error)?;
        for result in self.results.by_ref() {
            write_document(&mut list, &result?)?;
        }
        SerializeSeq::end(list).map_err(write_error)?;
        out.write_all(b"\n")?;
        out.flush()?;
        self.complain()
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for result in self.results.by_ref() {
            let TaskResult { result, is_text, .. } = result?;
            write_result(out, &result, is_text)?;
        }
        out.flush()?;
        self.complain()
    }
}

impl Results {
    // What was asked for and is not there is named, and what is there is printed all the same. Failures are told of where
    // nobody asked for these tasks by name, too, but are no fault of the command then.
    fn complain(&mut self) -> Result<(), HqError> {
        let missing: Vec<_> = self.results.missing().iter().filter(|(_, of)| self.is_missing(of)).collect();
        for (job, of) in missing.iter().take(JOBS_TOLD) {
            let Missing { failed, dropped, without, found } = of;
            if !dropped.is_empty() {
                let what = results_of(dropped, *job);
                let why = match (self.has_reducer)(*job) {
                    true => "its reducer has taken them",
                    false => "of all jobs together 256 MiB are",
                };
                (self.refused)(&format!("{what} no longer kept: {why}"));
            }
            let mut none = without.clone();
            none.union_with(failed);
            if self.is_named && !none.is_empty() {
                (self.refused)(&format!("{} no result", tasks_have(&none, *job)));
            } else if *found == 0 && dropped.is_empty() && failed.is_empty() {
                (self.refused)(&format!("job {job} has no results"));
            }
            if !failed.is_empty() {
                (self.tell_failed)(*job, failed)?;
            }
        }
        if let Some(others) = missing.len().checked_sub(JOBS_TOLD).filter(|others| *others > 0) {
            (self.refused)(&format!("results of {} are also missing", counted(others as u64, "more job")));
        }
        Ok(())
    }

    fn is_missing(&self, of: &Missing) -> bool {
        let is_job_empty = self.are_named && of.found == 0;
        let is_task_empty = self.is_named && !of.without.is_empty();
        !of.dropped.is_empty() || !of.failed.is_empty() || is_task_empty || is_job_empty
    }
}

fn results_of(ids: &IdSet, job: JobId) -> String {
    match ids.len() {
        1 => format!("the result of task {ids} of job {job} is"),
        _ => format!("the results of tasks {} of job {job} are", text::ids(ids)),
    }
}

pub(crate) fn tasks_have(ids: &IdSet, job: JobId) -> String {
    match ids.len() {
        1 => format!("task {ids} of job {job} has"),
        _ => format!("tasks {} of job {job} have", text::ids(ids)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_is_a_text_in_json() {
        for (result, expected) in [
            ("[1.5, null]", "[1.5, null]"),
            ("NaN", "\"NaN\""),
            ("[1,Infinity]", "\"[1,Infinity]\""),
            ("1 2", "\"1 2\""),
            ("\u{1b}[2J", "\"\\u001b[2J\""),
            ("", "\"\""),
        ] {
            assert_eq!(json_of(result.as_bytes()).get(), expected, "{result}");
        }
        assert_eq!(json_of(b"\xff").get(), "\"\u{fffd}\"");
    }

    #[test]
    fn a_line_says_what_it_knows_of_a_result() {
        for (result, expected) in [
            (&b"{\"a\": NaN}"[..], "{\"a\": NaN}\n"),
            (b"\"\x1b[2J\nx\"", "\\\"\\u{1b}[2J\\nx\\\"\n"),
            (b"\x80\x05N.", "<pickle of 4 bytes>\n"),
            (b"E\x01\x01\x00x\x80\x05N.", "<pickle of 4 bytes; printed 1 byte to stdout>\n"),
            (
                b"E\x01\x01\x00x\x02\x01\x00y\x04\x08\x00\x09\0\0\0\0\0\0\0\x80\x05N.",
                "<pickle of 4 bytes; printed 1 byte to stdout and 10 bytes to stderr>\n",
            ),
            (b"E\x09\x08\x00\x00\x50\0\0\0\0\0\0", "<object `value` of 20480 bytes>\n"),
            (b"E\x01", "<2 bytes that cannot be read>\n"),
        ] {
            let mut out = Vec::new();
            write_result(&mut out, result, false).expect("written");
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }
}
