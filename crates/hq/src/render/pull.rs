//! What a relay answered.

use hq_model::{counted, counted_are};
use std::io::Write;
use std::time::Duration;

use serde_json::Value;

use super::json::SCHEMA_VERSION;
use super::style::Style;
use super::{Report, json, text};
use crate::error::HqError;
use crate::report::Pulled;

impl Report for Pulled {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        if self.names_only {
            return self.quiet(out);
        }
        let answer = &self.answer;
        if let Some(tasks) = answer["tasks"].as_array() {
            for task in tasks {
                writeln!(out, "{} {} {}", word(task, "id"), word(task, "attempt"), word(task, "name"))?;
            }
            if tasks.is_empty() {
                let text = match answer["state"].as_str() {
                    Some("over") => "The bag is closed and all of its tasks have ended",
                    _ => "Nothing is ready now",
                };
                writeln!(out, "{text}")?;
            }
        }
        if let (Some(finished), Some(failed)) = (answer["finished"].as_u64(), answer["failed"].as_u64()) {
            write!(out, "{} finished, {failed} failed", counted(finished, "task"))?;
            match answer["over"].as_u64() {
                None | Some(0) => writeln!(out)?,
                Some(over) => {
                    writeln!(out, ", {} canceled or over time", counted_are(over, "other", "was", "were"))?
                }
            }
        }
        let created = &answer["created"];
        if !created.is_null() {
            let (new, bag) = (&created["new"], &created["bag"]);
            let known = match created["known"].as_u64() {
                Some(0) | None => String::new(),
                Some(1) => ", 1 was there".to_owned(),
                Some(known) => format!(", {known} were there"),
            };
            writeln!(out, "{new} new in bag {bag}{known}")?;
        }
        let opened = &answer["opened"];
        if !opened.is_null() {
            let is_new = if opened["new"] == true { "" } else { ", which was open" };
            writeln!(out, "Bag {} ({}){is_new}", opened["bag"], word(opened, "name"))?;
        }
        if !answer["closed"].is_null() {
            writeln!(out, "Bag {} takes no more tasks", answer["closed"]["bag"])?;
        }
        if !answer["left"].is_null() {
            writeln!(out, "{} given back", answer["left"]["returned"])?;
        }
        for task in answer["looked"]["tasks"].as_array().into_iter().flatten() {
            let state = task["state"].as_str().unwrap_or("unknown");
            write!(out, "{} {state}", word(task, "name"))?;
            for more in ["result", "result_base64", "message"] {
                if let Some(text) = task[more].as_str() {
                    write!(out, " {}", text::one_line(text))?;
                }
            }
            writeln!(out)?;
        }
        for bag in answer["status"]["bags"].as_array().into_iter().flatten() {
            write!(
                out,
                "Bag {} ({}): {}, {} waiting, {} taken, {} finished, {} failed",
                bag["bag"],
                word(bag, "name"),
                word(bag, "state"),
                bag["waiting"],
                bag["running"],
                bag["finished"],
                bag["failed"]
            )?;
            for state in ["canceled", "aborted"] {
                if bag[state].as_u64().is_some_and(|count| count > 0) {
                    write!(out, ", {} {state}", bag[state])?;
                }
            }
            writeln!(out)?;
        }
        for session in answer["status"]["sessions"].as_array().into_iter().flatten() {
            held_by(out, session)?;
        }
        let status = &answer["status"];
        for (place, text) in [("above", "below the relays"), ("below", "above the relays")] {
            let relays = status[place].as_array().map(Vec::as_slice).unwrap_or_default();
            let relays: Vec<&str> = relays.iter().filter_map(Value::as_str).collect();
            if !relays.is_empty() {
                let text = if relays.len() == 1 { text.trim_end_matches('s') } else { text };
                writeln!(out, "This relay is {text} {}", relays.join(", "))?;
            }
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut document = self.answer.clone();
        document["schema_version"] = SCHEMA_VERSION.into();
        Ok(json::write(out, &document)?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let answer = &self.answer;
        for task in answer["tasks"].as_array().into_iter().flatten() {
            writeln!(out, "{}", word(task, "name"))?;
        }
        for made in [&answer["created"], &answer["opened"]].into_iter().filter(|made| !made.is_null()) {
            writeln!(out, "{}", made["bag"])?;
        }
        for task in answer["looked"]["tasks"].as_array().into_iter().flatten() {
            let state = task["state"].as_str().unwrap_or("unknown");
            writeln!(out, "{} {}", word(task, "name"), state.to_ascii_uppercase())?;
        }
        for bag in answer["status"]["bags"].as_array().into_iter().flatten() {
            writeln!(out, "{} {}", bag["bag"], word(bag, "state").to_ascii_uppercase())?;
        }
        Ok(())
    }
}

// What somebody has, since when, and how others get it.
fn held_by(out: &mut dyn Write, session: &Value) -> std::io::Result<()> {
    let taken = session["taken"].as_u64().unwrap_or_default();
    let label = session["label"].as_str();
    write!(out, "{} has {}", label.unwrap_or("(a connection)"), counted(taken, "task"))?;
    match label.filter(|_| taken > 0) {
        Some(label) => writeln!(out, "; `hq pull exit {}` returns all of them", quoted(label))?,
        None => writeln!(out)?,
    }
    let tasks = session["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    for task in tasks {
        let [held, left] = ["held", "left"].map(|name| seconds(&task[name]));
        let (id, name) = (word(task, "id"), word(task, "name"));
        writeln!(out, "  {name} ({id}) for {held}; goes to others in {left} unless its lease is extended")?;
    }
    match taken.saturating_sub(tasks.len() as u64) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more"),
    }
}

fn seconds(value: &Value) -> String {
    text::measured(Duration::from_secs(value.as_f64().unwrap_or_default().max(0.0) as u64))
}

fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), |quoted| quoted.into_owned())
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
