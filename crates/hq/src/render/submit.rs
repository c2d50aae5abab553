//! `hq submit` and `hq job open`.

use std::io::Write;

use serde_json::{Value, json};

use super::json::{self, SCHEMA_VERSION};
use super::style::Style;
use super::{Report, wait};
use crate::error::HqError;
use crate::report::{Opened, SubmitWaited, Submitted};

impl Report for Submitted {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        writeln!(out, "Job submitted successfully, job ID: {}", self.job)?;
        match self.existing {
            0 => {}
            1 => writeln!(out, "1 task was there already")?,
            count => writeln!(out, "{count} tasks were there already")?,
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(json::write(out, &document(self))?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(writeln!(out, "{}", self.job)?)
    }
}

impl Report for Opened {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        Ok(writeln!(out, "Job {} is open", self.0.job)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        self.0.json(out)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        self.0.quiet(out)
    }
}

impl Report for SubmitWaited {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        self.waited.cli(out, style)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut document = document(&self.submitted);
        document["wait"] = wait::document(&self.waited);
        Ok(json::write(out, &document)?)
    }
}

fn document(submitted: &Submitted) -> Value {
    let mut document = json!({ "id": submitted.job.0 });
    if submitted.existing > 0 {
        document["existing_tasks"] = submitted.existing.into();
    }
    if !submitted.warnings.is_empty() {
        document["warnings"] = submitted.warnings.clone().into();
    }
    document["schema_version"] = SCHEMA_VERSION.into();
    document
}
