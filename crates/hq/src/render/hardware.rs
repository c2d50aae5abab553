//! `hq worker hwdetect`.

use std::io::Write;

use serde_json::json;

use super::json::{self, SCHEMA_VERSION};
use super::style::Style;
use super::{Report, text};
use crate::error::HqError;
use crate::report::Hardware;

impl Report for Hardware {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        writeln!(out, "Summary: {}", text::resources(&self.0))?;
        for pool in &self.0.pools {
            writeln!(out, "{}: {}", pool.name, text::pool_long(pool))?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let pools: Vec<_> = self.0.pools.iter().map(json::pool).collect();
        let coupling: Vec<_> = self.0.coupling.iter().map(ToString::to_string).collect();
        let document = json!({ "resources": pools, "coupling": coupling, "schema_version": SCHEMA_VERSION });
        Ok(json::write(out, &document)?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(writeln!(out, "{}", text::resources(&self.0))?)
    }
}
