//! Reports without a shape of their own.

use std::io::Write;

use super::json::SCHEMA_VERSION;
use super::style::Style;
use super::table::{self, Cell};
use super::{Report, json};
use crate::dashboard::Served;
use crate::error::HqError;
use crate::report::{Answer, Changed, LauncherList, LauncherRow, Nothing, Plain, Sentence};

impl Report for Nothing {
    fn cli(&mut self, _out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        Ok(())
    }
}

impl Report for Sentence {
    fn is_message(&self) -> bool {
        true
    }

    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        Ok(writeln!(out, "{}", self.0)?)
    }
}

impl Report for Changed {
    fn is_message(&self) -> bool {
        true
    }

    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        Ok(writeln!(out, "{}", self.text)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(json::write_change(out, self.document.take())?)
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
        Ok(out.write_all(&self.0)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(out.write_all(&self.0)?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(out.write_all(&self.0)?)
    }
}

impl Report for Served {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        if self.is_next {
            writeln!(out, "That link has been used. This one opens another browser, once:")?;
        } else if self.needs_tunnel {
            writeln!(out, "Run this on the machine with your browser: {}", self.tunnel)?;
            writeln!(
                out,
                "and open this link there; it works once (press Ctrl-C here to stop the dashboard):"
            )?;
        } else {
            writeln!(out, "If your browser is on another machine, first run this there: {}", self.tunnel)?;
            writeln!(out, "Open this link; it works once (press Ctrl-C here to stop the dashboard):")?;
        }
        Ok(writeln!(out, "{}", self.link)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let document =
            serde_json::json!({ "link": self.link, "tunnel": self.tunnel, "schema_version": SCHEMA_VERSION });
        Ok(json::write(out, &document)?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(writeln!(out, "{}", self.link)?)
    }
}

impl Report for LauncherList {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let row = |launcher: &LauncherRow| -> Vec<Cell> {
            let verified = if launcher.is_verified { "" } else { " (not tried with this release)" };
            vec![
                launcher.name.as_str().into(),
                if launcher.is_found { "yes" } else { "no" }.into(),
                format!("{}{verified}", launcher.about).into(),
            ]
        };
        let rows: Vec<Vec<Cell>> = self.0.iter().map(row).collect();
        Ok(table::table(out, style, &["Launcher", "Found", "About"], &rows)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let row = |launcher: &LauncherRow| {
            serde_json::json!({
                "name": launcher.name,
                "about": launcher.about,
                "rank_variable": launcher.rank,
                "found": launcher.is_found,
                "verified": launcher.is_verified,
            })
        };
        let launchers: Vec<_> = self.0.iter().map(row).collect();
        Ok(json::write(
            out,
            &serde_json::json!({ "launchers": launchers, "schema_version": SCHEMA_VERSION }),
        )?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for launcher in self.0.iter().filter(|launcher| launcher.is_found) {
            writeln!(out, "{}", launcher.name)?;
        }
        Ok(())
    }
}
