//! `hq journal check` and `repair`.

use std::io::Write;

use hq_journal::{FileKind, Report as Found};
use serde_json::{Value, json};

use super::json::{self, SCHEMA_VERSION};
use super::style::Style;
use super::{Report, table};
use crate::error::HqError;
use crate::report::{JournalChecked, JournalRepaired, Streamed};

impl Report for Streamed {
    fn cli(&mut self, _out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        Ok(())
    }

    fn json(&mut self, _out: &mut dyn Write) -> Result<(), HqError> {
        Ok(())
    }
}

impl Report for JournalChecked {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let report = &self.report;
        let mut files = table::TableWriter::new(out, style, &["File", "Holds", "Bytes", "Records"]);
        for file in &report.files {
            let row: Vec<table::Cell> = vec![
                file.name.as_str().into(),
                kind(file.kind).into(),
                file.bytes.to_string().into(),
                file.records.to_string().into(),
            ];
            files.rows(&[row])?;
        }
        files.finish()?;
        writeln!(out, "{}", state_of(report))?;
        if report.problem.is_some() {
            let path = self.path.display();
            writeln!(
                out,
                "`hq journal repair {path}` keeps the {} records before it and puts the rest aside.",
                report.records
            )?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(json::write(out, &found(&self.report))?)
    }
}

impl Report for JournalRepaired {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        let repaired = &self.repaired;
        let path = self.path.display();
        match (&repaired.before.problem, &repaired.after) {
            (None, _) => writeln!(out, "The journal {path} is whole: nothing was changed.")?,
            (Some(problem), Some(after)) => writeln!(
                out,
                "{problem}\nThe journal {path} can be opened again. {} records were kept, {} whole ones are lost.",
                after.records,
                repaired.records_lost()
            )?,
            (Some(problem), None) => {
                writeln!(out, "{problem}\nNothing of the journal {path} could be kept.")?;
            }
        }
        for file in &repaired.aside {
            writeln!(out, "put aside: {file}")?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let repaired = &self.repaired;
        let document = json!({
            "before": found(&repaired.before),
            "after": repaired.after.as_ref().map(found),
            "records_lost": repaired.records_lost(),
            "aside": repaired.aside,
            "schema_version": SCHEMA_VERSION,
        });
        Ok(json::write(out, &document)?)
    }
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Segment => "records",
        FileKind::Snapshot => "what a compaction left",
    }
}

fn state_of(report: &Found) -> String {
    match (&report.problem, &report.torn) {
        (Some(problem), _) => {
            format!("Damaged: {problem}. {} whole records are behind that.", report.records_behind)
        }
        (None, Some(torn)) => format!(
            "Whole: {} records. The last {} bytes of {} are an unfinished write, which does not count.",
            report.records, torn.bytes, torn.file
        ),
        (None, None) => format!("Whole: {} records.", report.records),
    }
}

fn found(report: &Found) -> Value {
    let files = report.files.iter().map(|file| {
        json!({
            "name": file.name,
            "kind": match file.kind { FileKind::Segment => "segment", FileKind::Snapshot => "snapshot" },
            "bytes": file.bytes,
            "records": file.records,
            "records_behind": file.records_behind,
        })
    });
    json!({
        "id": report.id.map(|id| id.to_string()),
        "is_whole": report.is_whole(),
        "records": report.records,
        "problem": report.problem.as_ref().map(ToString::to_string),
        "records_behind": report.records_behind,
        "torn": report.torn.as_ref().map(|torn| json!({
            "file": torn.file, "offset": torn.offset, "bytes": torn.bytes,
        })),
        "files": files.collect::<Vec<_>>(),
        "leftovers": report.leftovers,
        "schema_version": SCHEMA_VERSION,
    })
}
