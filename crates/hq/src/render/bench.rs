//! `hq bench`.

use std::io::Write;
use std::time::Duration;

use hq_model::{counted, duration};
use serde_json::{Value, json};

use super::json::SCHEMA_VERSION;
use super::style::Style;
use super::table::{self, Cell};
use super::{Report, json, text};
use crate::error::HqError;
use crate::metg::{Found, Point};
use crate::report::Metg;

const HEADER: [&str; 5] = ["Task length", "Tasks", "Makespan", "Tasks/s", "Efficiency"];

impl Report for Metg {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let rows: Vec<Vec<Cell>> = self.points.iter().map(row).collect();
        table::table(out, style, &HEADER, &rows)?;
        let on = format!("on {} with {}", counted(self.workers, "worker"), counted(self.cpus, "CPU"));
        match self.found {
            Some(Found::Metg(length)) => {
                writeln!(out, "METG {on}: {}. Combine tasks that are shorter than this", two_digits(length))?
            }
            Some(Found::Below(length)) => writeln!(
                out,
                "METG {on}: less than {}. Use --shortest to try shorter tasks",
                text::measured(length)
            )?,
            Some(Found::Above(length)) => writeln!(
                out,
                "METG {on}: more than {}. Use --longest to try longer tasks; is something else running?",
                text::measured(length)
            )?,
            None => {}
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let (found, bound) = match self.found {
            Some(Found::Metg(length)) => (Some(length), "exact"),
            Some(Found::Below(length)) => (Some(length), "below"),
            Some(Found::Above(length)) => (Some(length), "above"),
            None => (None, "none"),
        };
        let points: Vec<Value> = self.points.iter().map(point).collect();
        let document = json!({
            "schema_version": SCHEMA_VERSION,
            "workers": self.workers,
            "cpus": self.cpus,
            "metg": found.map(|length| length.as_secs_f64()),
            "bound": bound,
            "jobs": points,
        });
        Ok(json::write(out, &document)?)
    }

    // The length in seconds, with `<` or `>` where it is only known to be less or more.
    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let (mark, length) = match self.found {
            Some(Found::Metg(length)) => ("", length),
            Some(Found::Below(length)) => ("<", length),
            Some(Found::Above(length)) => (">", length),
            None => return Ok(()),
        };
        Ok(writeln!(out, "{mark}{:.6}", length.as_secs_f64())?)
    }
}

// What is measured is not more exact than that.
fn two_digits(length: Duration) -> String {
    if length >= Duration::from_millis(10) {
        return text::measured(length);
    }
    duration::format(Duration::from_micros((length.as_micros() as u64 + 50) / 100 * 100))
}

fn row(point: &Point) -> Vec<Cell> {
    vec![
        Cell::number(duration::format(point.length)),
        Cell::number(point.tasks),
        Cell::number(text::measured(point.makespan)),
        Cell::number(format!("{:.1}", point.rate())),
        Cell::number(format!("{:.0} %", point.efficiency * 100.0)),
    ]
}

fn point(point: &Point) -> Value {
    json!({
        "length": point.length.as_secs_f64(),
        "tasks": point.tasks,
        "makespan": point.makespan.as_secs_f64(),
        "efficiency": point.efficiency,
    })
}
