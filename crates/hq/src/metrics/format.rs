//! Metrics as text in the form of OpenMetrics 1.0, and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Family, Kind};
use crate::render::json::SCHEMA_VERSION;

/// What HTTP calls the form.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// As text.
pub(crate) fn text(families: &[Family]) -> String {
    let mut out = String::new();
    // Writing to a text does not fail.
    let _ = families.iter().try_for_each(|family| write_family(&mut out, family));
    out.push_str("# EOF\n");
    out
}

/// As a document.
pub(crate) fn document(families: &[Family]) -> Value {
    let family = |family: &Family| {
        let samples = family.samples.iter().map(|sample| {
            let labels: serde_json::Map<String, Value> = sample
                .labels
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone().into()))
                .collect();
            json!({ "labels": labels, "value": sample.value })
        });
        json!({
            "name": family.name,
            "type": word(family.kind),
            "unit": (!family.unit.is_empty()).then_some(family.unit),
            "help": family.help,
            "samples": samples.collect::<Vec<_>>(),
        })
    };
    json!({ "schema_version": SCHEMA_VERSION, "metrics": families.iter().map(family).collect::<Vec<_>>() })
}

fn write_family(out: &mut String, family: &Family) -> std::fmt::Result {
    let name = family.name;
    writeln!(out, "# TYPE {name} {}", word(family.kind))?;
    if !family.unit.is_empty() {
        writeln!(out, "# UNIT {name} {}", family.unit)?;
    }
    writeln!(out, "# HELP {name} {}", escaped(family.help))?;
    let ending = match family.kind {
        Kind::Gauge => "",
        Kind::Counter(_) => "_total",
        Kind::Info => "_info",
    };
    for sample in &family.samples {
        let labels = labels(&sample.labels);
        writeln!(out, "{name}{ending}{labels} {}", number(sample.value))?;
        if let Kind::Counter(Some(since)) = family.kind {
            writeln!(out, "{name}_created{labels} {}", number(super::seconds(since)))?;
        }
    }
    Ok(())
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Gauge => "gauge",
        Kind::Counter(_) => "counter",
        Kind::Info => "info",
    }
}

fn labels(labels: &[(&'static str, String)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", labels.join(","))
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            // No reader needs them, and a terminal would take them for orders.
            char if char.is_control() => out.push('\u{fffd}'),
            char => out.push(char),
        }
    }
    out
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value:.0}") } else { format!("{value}") }
}
