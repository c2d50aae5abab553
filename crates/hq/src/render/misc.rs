//! Reports without a shape of their own.

use std::io::Write;

use super::json::SCHEMA_VERSION;
use super::style::Style;
use super::{Report, json};
use crate::error::HqError;
use crate::report::{Answer, Nothing, Plain, Sentence};

impl Report for Nothing {
    fn cli(&mut self, _out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        Ok(())
    }
}

impl Report for Sentence {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        Ok(writeln!(out, "{}", self.0)?)
    }
}

impl Report for Answer {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        Ok(writeln!(out, "{}", self.text)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut document = serde_json::Map::new();
        document.insert(self.name.into(), self.text.as_str().into());
        document.insert("schema_version".into(), SCHEMA_VERSION.into());
        Ok(json::write(out, &document.into())?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(writeln!(out, "{}", self.text)?)
    }
}

impl Report for Plain {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        Ok(out.write_all(self.0.as_bytes())?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(out.write_all(self.0.as_bytes())?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(out.write_all(self.0.as_bytes())?)
    }
}
