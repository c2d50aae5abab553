//! `hq output-log … summary` and `jobs`.

use std::io::Write;

use serde_json::json;

use super::json::SCHEMA_VERSION;
use super::style::Style;
use super::{Report, json, table, text};
use crate::error::HqError;
use crate::report::{StreamJobs, StreamSummary};

impl Report for StreamSummary {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let sizes = |bytes: [u64; 2]| bytes.map(text::size_of);
        let ([stdout, stderr], [old_stdout, old_stderr]) = (sizes(self.bytes), sizes(self.superseded_bytes));
        let mut rows = vec![
            ("Path", self.path.as_str().into()),
            ("Files", self.files.to_string().into()),
            ("Jobs", self.jobs.to_string().into()),
            ("Tasks", self.tasks.to_string().into()),
            ("Opened streams", self.opened.to_string().into()),
            ("Stdout/stderr size", format!("{stdout} / {stderr}").into()),
            ("Superseded streams", self.superseded.to_string().into()),
            ("Superseded stdout/stderr size", format!("{old_stdout} / {old_stderr}").into()),
            ("Size on the disk", text::size_of(self.disk_bytes).into()),
        ];
        if self.damaged > 0 {
            rows.push(("Damaged parts", self.damaged.to_string().into()));
        }
        Ok(table::record(out, style, rows)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let document = json!({
            "filename": self.path,
            "summary": {
                "n_files": self.files,
                "n_jobs": self.jobs,
                "n_tasks": self.tasks,
                "n_streams": self.streams,
                "n_opened": self.opened,
                "stdout_size": self.bytes[0],
                "stderr_size": self.bytes[1],
                "n_superseded": self.superseded,
                "superseded_stdout_size": self.superseded_bytes[0],
                "superseded_stderr_size": self.superseded_bytes[1],
                "disk_size": self.disk_bytes,
                "n_damaged": self.damaged,
            },
            "schema_version": SCHEMA_VERSION,
        });
        Ok(json::write(out, &document)?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(writeln!(out, "{} {} {}", self.jobs, self.tasks, self.bytes.iter().sum::<u64>())?)
    }
}

impl Report for StreamJobs {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        self.0.iter().try_for_each(|job| Ok(writeln!(out, "{job}")?))
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let ids: Vec<u32> = self.0.iter().map(|job| job.0).collect();
        Ok(json::write(out, &json!(ids))?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        self.0.iter().try_for_each(|job| Ok(writeln!(out, "{job}")?))
    }
}
