//! What configuration files and variables set.

use std::io::Write;

use serde_json::{Value as Json, json};

use super::Report;
use super::json::{self, SCHEMA_VERSION};
use super::style::Style;
use super::table::{self, Cell};
use crate::config::{Setting, Value};
use crate::error::HqError;
use crate::report::Settings;

impl Report for Settings {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        if self.settings.is_empty() {
            writeln!(
                out,
                "No options are set: there is no configuration file with options (see `hq doc config`)."
            )?;
            return Ok(());
        }
        let columns: &[&str] = &["Command", "Option", "Value", "Origin"];
        let columns = if self.with_origin { columns } else { &columns[..3] };
        let rows = self.settings.iter().map(|setting| {
            let command = if setting.command.is_empty() { "(all)" } else { &setting.command };
            let mut row: Vec<Cell> =
                vec![command.into(), setting.option.as_str().into(), text(&setting.value).into()];
            row.extend(self.with_origin.then(|| setting.origin.as_str().into()));
            row
        });
        Ok(table::table(out, style, columns, &rows.collect::<Vec<_>>())?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let settings: Vec<Json> = self.settings.iter().map(document).collect();
        Ok(json::write(out, &json!({ "settings": settings, "schema_version": SCHEMA_VERSION }))?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for setting in &self.settings {
            let space = if setting.command.is_empty() { "" } else { " " };
            writeln!(out, "{}{space}{}={}", setting.command, setting.option, text(&setting.value))?;
        }
        Ok(())
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Flag(is_given) => is_given.to_string(),
        Value::Values(values) => values.join("\n"),
    }
}

fn document(setting: &Setting) -> Json {
    let value = match &setting.value {
        Value::Flag(is_given) => json!(is_given),
        Value::Values(values) => match &values[..] {
            [value] => json!(value),
            values => json!(values),
        },
    };
    let Setting { command, option, origin, .. } = setting;
    json!({ "command": command, "option": option, "value": value, "origin": origin })
}
