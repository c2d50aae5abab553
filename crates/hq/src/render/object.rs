//! Objects that tasks leave for others.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::Write;

use hq_core::object_messages::{ObjectPhase, ObjectView};
use hq_model::{JobId, counted};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Value, json};

use super::job::write_error;
use super::json::SCHEMA_VERSION;
use super::style::{Color, Style};
use super::table::{self, Cell, TableWriter};
use super::{Report, json, text, units};
use crate::error::HqError;
use crate::objects::ObjectStream;
use crate::report::{ObjectDetails, ObjectGot, ObjectList, ObjectPut, ObjectsDone, ObjectsGot};

/// Rows printed at once: what a list of any length takes of memory.
const ROWS: usize = 5_000;
const HEADER: [&str; 6] = ["Object", "State", "Size", "Workers", "Kept", "Read by jobs"];

/// What was listed, together.
#[derive(Default)]
struct Sums {
    phases: [u64; ObjectPhase::ALL.len()],
    bytes: u64,
    bytes_of_copies: u64,
}

impl Sums {
    fn add(&mut self, view: &ObjectView) {
        let phase = view.state.phase();
        self.phases[phase as usize] += 1;
        if phase == ObjectPhase::Stored {
            self.bytes = self.bytes.saturating_add(view.copy.size);
            self.bytes_of_copies =
                self.bytes_of_copies.saturating_add(view.copy.size.saturating_mul(view.copies.max(1)));
        }
    }

    fn count(&self) -> u64 {
        self.phases.iter().sum()
    }

    fn line(&self) -> String {
        let parts = ObjectPhase::ALL.iter().zip(self.phases).filter(|(_, count)| *count > 0);
        let words = parts.map(|(phase, count)| match phase {
            ObjectPhase::Stored => {
                let size = text::size_of(self.bytes);
                match self.bytes_of_copies == self.bytes {
                    true => format!("{count} stored ({size})"),
                    false => format!(
                        "{count} stored ({size}; {} in all copies)",
                        text::size_of(self.bytes_of_copies)
                    ),
                }
            }
            phase => format!("{count} {}", phase.word()),
        });
        let words: Vec<String> = words.collect();
        let colon = if words.is_empty() { "" } else { ": " };
        format!("{}{colon}{}", counted(self.count(), "object"), words.join(", "))
    }

    fn document(&self) -> Value {
        let [awaited, stored, lost, gone] = self.phases;
        json!({
            "count": self.count(),
            "awaited": awaited,
            "stored": stored,
            "lost": lost,
            "gone": gone,
            "bytes": self.bytes,
            "bytes_with_copies": self.bytes_of_copies,
        })
    }
}

impl Report for ObjectList {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let mut sums = Sums::default();
        let mut table = TableWriter::new(out, style, &HEADER);
        let mut rows = Vec::new();
        while let Some(view) = self.0.next()? {
            sums.add(&view);
            rows.push(row(&view));
            if rows.len() == ROWS {
                table.rows(&rows)?;
                rows.clear();
            }
        }
        table.rows(&rows)?;
        table.finish()?;
        Ok(writeln!(out, "{}", sums.line())?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let (error, sums) = (RefCell::new(None), RefCell::default());
        let mut serializer = serde_json::Serializer::pretty(&mut *out);
        let mut map = serializer.serialize_map(None).map_err(write_error)?;
        let list = ObjectArray { stream: RefCell::new(&mut self.0), error: &error, sums: &sums };
        let written = map.serialize_entry("objects", &list);
        if let Some(error) = error.take() {
            return Err(error);
        }
        written.map_err(write_error)?;
        map.serialize_entry("summary", &sums.borrow().document()).map_err(write_error)?;
        if !units::is_raw() {
            map.serialize_entry("schema_version", &SCHEMA_VERSION).map_err(write_error)?;
        }
        SerializeMap::end(map).map_err(write_error)?;
        Ok(out.write_all(b"\n")?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        while let Some(view) = self.0.next()? {
            writeln!(out, "{} {}", view.copy.object, state_word(&view))?;
        }
        Ok(())
    }
}

// Objects that are read while they are written.
struct ObjectArray<'a> {
    stream: RefCell<&'a mut ObjectStream>,
    error: &'a RefCell<Option<HqError>>,
    sums: &'a RefCell<Sums>,
}

impl Serialize for ObjectArray<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        loop {
            match self.stream.borrow_mut().next() {
                Ok(Some(view)) => {
                    self.sums.borrow_mut().add(&view);
                    list.serialize_element(&document(&view))?;
                }
                Ok(None) => return list.end(),
                Err(error) => {
                    *self.error.borrow_mut() = Some(error);
                    return Err(serde::ser::Error::custom("the list of objects ended early"));
                }
            }
        }
    }
}

impl Report for ObjectDetails {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        for view in &self.0 {
            table::record(out, style, details(view))?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let objects: Vec<Value> = self.0.iter().map(document).collect();
        Ok(json::write(out, &objects.into())?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for view in &self.0 {
            writeln!(out, "{} {}", view.copy.object, state_word(view))?;
        }
        Ok(())
    }
}

impl Report for ObjectsDone {
    fn is_message(&self) -> bool {
        true
    }

    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        for object in &self.objects {
            writeln!(out, "Object {object} {}", self.done)?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let objects: Vec<String> = self.objects.iter().map(ToString::to_string).collect();
        Ok(json::write_change(out, json!({ self.done: objects }))?)
    }
}

impl Report for ObjectPut {
    fn done(&self) -> Option<String> {
        Some(format!("object {} is stored anyway", self.0.copy.object))
    }

    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        let (copy, workers) = (&self.0.copy, holders(&self.0).join(", "));
        Ok(writeln!(out, "Object {}: {} on worker {workers}.", copy.object, text::size_of(copy.size))?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(json::write(out, &vec![document(&self.0)].into())?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(writeln!(out, "{}", self.0.copy.object)?)
    }
}

impl Report for ObjectGot {
    fn is_message(&self) -> bool {
        true
    }

    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        self.line(out)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut document = self.document();
        document["schema_version"] = SCHEMA_VERSION.into();
        Ok(json::write(out, &document)?)
    }
}

impl Report for ObjectsGot {
    fn is_message(&self) -> bool {
        true
    }

    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        self.0.iter().try_for_each(|got| got.line(out))
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(json::write(out, &self.0.iter().map(ObjectGot::document).collect::<Vec<Value>>().into())?)
    }
}

impl ObjectGot {
    fn place(&self) -> Cow<'_, str> {
        self.path.as_ref().map_or("-".into(), |path| path.to_string_lossy())
    }

    fn line(&self, out: &mut dyn Write) -> Result<(), HqError> {
        let (object, size) = (&self.copy.object, text::size_of(self.copy.size));
        Ok(writeln!(out, "Object {object} ({size}) is in {}", self.place())?)
    }

    fn document(&self) -> Value {
        let copy = &self.copy;
        json!({
            "id": copy.object.to_string(),
            "path": self.place(),
            "size": copy.size,
            "checksum": checksum(copy.checksum),
        })
    }
}

fn state_word(view: &ObjectView) -> String {
    view.state.phase().word().to_ascii_uppercase()
}

fn state(view: &ObjectView) -> Cell {
    let color = match view.state.phase() {
        ObjectPhase::Awaited => Color::Cyan,
        ObjectPhase::Stored => Color::Green,
        ObjectPhase::Lost => Color::Yellow,
        ObjectPhase::Gone => Color::Magenta,
    };
    Cell::colored(state_word(view), color)
}

// While it is awaited nothing is known of it, and of what never came neither.
fn is_measured(view: &ObjectView) -> bool {
    view.state.phase() == ObjectPhase::Stored || view.copy.checksum != 0
}

fn checksum(checksum: u64) -> String {
    format!("{checksum:016x}")
}

fn row(view: &ObjectView) -> Vec<Cell> {
    let size = if is_measured(view) { text::size_of(view.copy.size) } else { String::new() };
    let workers: Vec<String> = view.holders.iter().map(|holder| holder.worker.to_string()).collect();
    let kept = if view.is_kept { "yes" } else { "" };
    vec![
        view.copy.object.to_string().into(),
        state(view),
        size.into(),
        and_more(workers, view.copies, ", ").into(),
        kept.into(),
        readers(view).into(),
    ]
}

fn readers(view: &ObjectView) -> String {
    and_more(view.readers.iter().map(JobId::to_string).collect(), view.reader_count, ", ")
}

fn holders(view: &ObjectView) -> Vec<String> {
    view.holders.iter().map(|holder| format!("{} ({})", holder.worker, holder.hostname)).collect()
}

fn and_more(some: Vec<String>, all: u64, between: &str) -> String {
    match all.saturating_sub(some.len() as u64) {
        0 => some.join(between),
        more if between == "\n" => format!("{}\nand {more} more", some.join(between)),
        more => format!("{} and {more} more", some.join(between)),
    }
}

fn details(view: &ObjectView) -> Vec<(&'static str, Cell)> {
    let copy = &view.copy;
    let mut rows = vec![("Object", Cell::from(copy.object.to_string())), ("State", state(view))];
    if let Some(why) = view.state.why_gone() {
        rows.push(("Reason", text::one_line(why).into()));
    }
    if let Some(job) = view.state.rebuilt_by() {
        rows.push(("Also stored by", format!("job {job}").into()));
    }
    if is_measured(view) {
        let size = match copy.size < 1024 {
            true => text::size_of(copy.size),
            false => format!("{} ({} B)", text::size_of(copy.size), copy.size),
        };
        if copy.is_dir {
            rows.push(("Kind", "directory".into()));
        }
        rows.push(("Size", size.into()));
        rows.push(("Checksum (XXH64)", checksum(copy.checksum).into()));
        rows.push(("Instance of its task", copy.instance.to_string().into()));
    }
    let workers = match (view.state.phase(), view.copies) {
        (ObjectPhase::Stored, 0) => "none that is connected now".to_owned(),
        _ => and_more(holders(view), view.copies, "\n"),
    };
    rows.push(("Workers", workers.into()));
    rows.push(("Kept", if view.is_kept { "yes" } else { "no" }.into()));
    rows.push(("Read by jobs", readers(view).into()));
    rows
}

fn document(view: &ObjectView) -> Value {
    let copy = &view.copy;
    let measured = |value: Value| if is_measured(view) { value } else { Value::Null };
    let workers =
        view.holders.iter().map(|holder| json!({ "id": holder.worker.0, "hostname": holder.hostname }));
    json!({
        "id": copy.object.to_string(),
        "job_id": copy.object.task.job.0,
        "task_id": copy.object.task.task.0,
        "name": copy.object.name.as_str(),
        "state": view.state.phase().word(),
        "reason": view.state.why_gone(),
        "rebuilt_by": view.state.rebuilt_by().map(|job| job.0),
        "is_dir": measured(copy.is_dir.into()),
        "size": measured(copy.size.into()),
        "checksum": measured(checksum(copy.checksum).into()),
        "instance": measured(copy.instance.0.into()),
        "is_kept": view.is_kept,
        "copies": view.copies,
        "workers": workers.collect::<Vec<Value>>(),
        "reader_count": view.reader_count,
        "reader_jobs": view.readers.iter().map(|job| job.0).collect::<Vec<u32>>(),
    })
}
