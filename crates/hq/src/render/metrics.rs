//! Metrics: the same text for people and in quiet mode.

use std::io::Write;

use super::style::Style;
use super::{Report, json};
use crate::error::HqError;
use crate::metrics::format;
use crate::report::Metrics;

impl Report for Metrics {
    fn cli(&mut self, out: &mut dyn Write, _: Style) -> Result<(), HqError> {
        self.quiet(out)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(json::write(out, &format::document(&self.0))?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(out.write_all(format::text(&self.0).as_bytes())?)
    }
}
