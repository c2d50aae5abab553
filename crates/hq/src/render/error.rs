//! Errors on standard error, or as a JSON document on standard output.

use std::io::{self, Write};

use serde_json::Value;

use super::json::SCHEMA_VERSION;
use super::style::Style;
use crate::error::HqError;

pub(crate) fn cli(out: &mut dyn Write, error: &HqError) -> io::Result<()> {
    let style = Style::of_stderr();
    writeln!(out, "ERROR {}", style.times_in(&error.text))?;
    match &error.hint {
        Some(hint) => writeln!(out, "hint: {}", style.times_in(hint)),
        None => Ok(()),
    }
}

pub(crate) fn json(out: &mut dyn Write, error: &HqError) -> io::Result<()> {
    super::json::write(out, &document(error))
}

pub(super) fn document(error: &HqError) -> Value {
    let mut document = Value::Object(error.done.as_deref().cloned().unwrap_or_default());
    document["error"] = error.text.as_str().into();
    document["code"] = error.code.into();
    if let Some(hint) = &error.hint {
        document["hint"] = hint.as_str().into();
    }
    document["schema_version"] = SCHEMA_VERSION.into();
    document
}
