//! `hq journal check` and `repair`.

use hq_model::counted;
use std::io::Write;

use hq_journal::{FileKind, FileReport, JournalError, MissingRecords, Report as Found};
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
        let row = |file: &FileReport| -> Vec<table::Cell> {
            vec![
                file.name.as_str().into(),
                kind(file.kind).into(),
                file.bytes.to_string().into(),
                file.records.to_string().into(),
            ]
        };
        let rows: Vec<_> = report.files.iter().map(row).collect();
        table::table(out, style, &["File", "Holds", "Bytes", "Records"], &rows)?;
        for file in report.files.iter().filter(|file| file.records_repeated > 0) {
            let again = counted(file.records_repeated, "record");
            writeln!(out, "Not counted: {again} at the end of {}, repeated in the next file.", file.name)?;
        }
        for file in report.files.iter().filter(|file| file.bytes_ignored > 0) {
            let bytes = counted(file.bytes_ignored, "byte");
            writeln!(
                out,
                "Not counted: {bytes} at the end of {}, which the next file does not continue from: an unfinished \
                 write, or data appended by someone else.",
                file.name
            )?;
        }
        writeln!(out, "{}", state_of(report))?;
        if !report.has_note {
            writeln!(
                out,
                "The file `synced`, which records how much of the last file was safely written, is missing or does \
                 not belong to this journal, so it is unknown whether the last records are complete."
            )?;
        }
        for line in missing(&report.missing) {
            writeln!(out, "{line}")?;
        }
        if report.problem.is_some() {
            let path = self.path.display();
            writeln!(
                out,
                "`hq journal repair {path}` keeps the {} before it and sets the rest aside.",
                counted(report.records, "record")
            )?;
        }
        if let Some(stray) = stray(report) {
            writeln!(
                out,
                "If {stray} is a copy that someone made, move it away: everything before it is intact."
            )?;
        }
        if let Some(exposed) = &self.exposed {
            writeln!(out, "{exposed}.")?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut found = found(&self.report);
        found["exposed"] = self.exposed.clone().into();
        Ok(json::write(out, &found)?)
    }
}

// The only file behind a gap: files that were lost leave more behind them, most often.
fn stray(report: &Found) -> Option<&str> {
    let is_gap = matches!(report.problem, Some(JournalError::MissingFile { .. }));
    match report.files_behind() {
        [only] if is_gap && report.files.len() > 1 => Some(&only.name),
        _ => None,
    }
}

impl Report for JournalRepaired {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        let repaired = &self.repaired;
        let path = self.path.display();
        match (&repaired.before.problem, &repaired.after) {
            (None, _) => writeln!(out, "The journal {path} is intact: nothing was changed.")?,
            (Some(problem), Some(after)) => writeln!(
                out,
                "{problem}\nThe journal {path} can be opened again. Kept: {}. Lost: everything from record {} on; that is {}, \
                 with {} among them.",
                counted(after.records, "intact record"),
                after.next_seq,
                counted(repaired.bytes_lost(), "byte"),
                counted(repaired.records_lost(), "intact record")
            )?,
            (Some(problem), None) => {
                writeln!(out, "{problem}\nNothing of the journal {path} could be kept.")?;
            }
        }
        for line in missing(&repaired.before.missing) {
            writeln!(out, "{line}")?;
        }
        for file in &repaired.aside {
            writeln!(out, "set aside: {file}")?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let repaired = &self.repaired;
        let document = json!({
            "before": found(&repaired.before),
            "after": repaired.after.as_ref().map(found),
            "records_lost": repaired.records_lost(),
            "records_missing": repaired.before.records_missing(),
            "bytes_lost": repaired.bytes_lost(),
            "aside": repaired.aside,
            "schema_version": SCHEMA_VERSION,
        });
        Ok(json::write(out, &document)?)
    }
}

// What is neither intact nor set aside: nobody finds it in these files.
fn missing(missing: &[MissingRecords]) -> Vec<String> {
    let line = |missing: &MissingRecords| match missing.records {
        Some(records) => {
            format!("Missing or unreadable: {} of {}.", counted(records, "record"), missing.files)
        }
        None => format!("Missing or unreadable: an unknown number of records of {}.", missing.files),
    };
    missing.iter().map(line).collect()
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
            format!("Damaged: {problem}. After that: {}.", counted(report.records_behind, "intact record"))
        }
        (None, Some(torn)) => format!(
            "Intact: {}. Not counted: {} at the end of {}, an unfinished write.",
            counted(report.records, "record"),
            counted(torn.bytes, "byte"),
            torn.file
        ),
        (None, None) => format!("Intact: {}.", counted(report.records, "record")),
    }
}

fn found(report: &Found) -> Value {
    let files = report.files.iter().map(|file| {
        json!({
            "name": file.name,
            "kind": match file.kind { FileKind::Segment => "segment", FileKind::Snapshot => "snapshot" },
            "bytes": file.bytes,
            "records": file.records,
            "records_repeated": file.records_repeated,
            "bytes_ignored": file.bytes_ignored,
            "records_behind": file.records_behind,
        })
    });
    let missing =
        report.missing.iter().map(|missing| json!({ "files": missing.files, "records": missing.records }));
    json!({
        "id": report.id.map(|id| id.to_string()),
        "is_whole": report.is_whole(),
        "records": report.records,
        "problem": report.problem.as_ref().map(ToString::to_string),
        "records_behind": report.records_behind,
        "records_missing": report.records_missing(),
        "missing": missing.collect::<Vec<_>>(),
        "torn": report.torn.as_ref().map(|torn| json!({
            "file": torn.file, "offset": torn.offset, "bytes": torn.bytes,
        })),
        "files": files.collect::<Vec<_>>(),
        "has_note": report.has_note,
        "leftovers": report.leftovers,
        "schema_version": SCHEMA_VERSION,
    })
}
