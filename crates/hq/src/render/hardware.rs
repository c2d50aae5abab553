//! `hq worker hwdetect`.

use std::io::Write;

use hq_worker::discovery::Detected;
use serde_json::json;

use super::json::{self, SCHEMA_VERSION};
use super::style::Style;
use super::{Report, text};
use crate::error::HqError;
use crate::report::Hardware;

impl Report for Hardware {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        let Detected { resources, notes } = &self.0;
        writeln!(out, "Summary:\n{}\n", text::resources_short_lines(resources))?;
        writeln!(out, "Full Description:\n{}", text::resources_long(resources))?;
        for note in notes {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let Detected { resources, notes } = &self.0;
        let pools: Vec<_> = resources.pools.iter().map(json::pool).collect();
        let coupling: Vec<_> = resources.coupling.iter().map(ToString::to_string).collect();
        let document = json!({
            "resources": pools,
            "coupling": coupling,
            "notes": notes,
            "schema_version": SCHEMA_VERSION,
        });
        Ok(json::write(out, &document)?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(writeln!(out, "{}", text::resources(&self.0.resources))?)
    }
}
