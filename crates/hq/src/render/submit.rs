//! `hq submit` and `hq job open`.

use std::io::Write;

use hq_model::{JobId, ObjectName};
use serde_json::{Map, Value, json};

use super::json::{self as form, SCHEMA_VERSION};
use super::style::Style;
use super::{Report, wait};
use crate::error::HqError;
use crate::report::{Feeders, Opened, SubmitWaited, Submitted};

impl Report for Submitted {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        if self.together.is_empty() {
            writeln!(out, "Job submitted successfully, job ID: {}", self.job)?;
        } else {
            let named: Vec<String> =
                self.together.iter().map(|(job, name)| format!("{job} ({name})")).collect();
            writeln!(out, "Jobs submitted successfully, job IDs: {}", named.join(", "))?;
            for Feeders { job, generator, reducer } in &self.feeders {
                let reduced =
                    reducer.map_or(String::new(), |reducer| format!(", job {reducer} reduces them"));
                writeln!(out, "Job {generator} generates the tasks of job {job}{reduced}")?;
            }
        }
        match self.existing {
            0 => {}
            1 => writeln!(out, "1 task already existed")?,
            count => writeln!(out, "{count} tasks already existed")?,
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut document = fields(self);
        document.insert("schema_version".into(), SCHEMA_VERSION.into());
        Ok(form::write(out, &document.into())?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        if self.together.is_empty() {
            writeln!(out, "{}", self.job)?;
        }
        for (job, _) in &self.together {
            writeln!(out, "{job}")?;
        }
        Ok(())
    }

    fn done(&self) -> Option<String> {
        let jobs = self.jobs();
        let (what, were) = if jobs.len() == 1 { ("job", "was") } else { ("jobs", "were") };
        Some(format!("{what} {jobs} {were} submitted"))
    }
}

impl Report for Opened {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        Ok(writeln!(out, "Job {} is open.", self.0.job)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        self.0.json(out)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        self.0.quiet(out)
    }

    fn done(&self) -> Option<String> {
        Some(format!("job {} is open", self.0.job))
    }
}

impl Report for SubmitWaited {
    fn is_message(&self) -> bool {
        true
    }

    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        self.waited.cli(out, style)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut document = fields(&self.submitted);
        document.insert("schema_version".into(), SCHEMA_VERSION.into());
        document.insert("wait".into(), wait::document(&self.waited));
        Ok(form::write(out, &document.into())?)
    }

    fn done(&self) -> Option<String> {
        self.submitted.done()
    }
}

/// What is said of a submit, without a version.
pub(crate) fn fields(submitted: &Submitted) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("id".into(), submitted.job.0.into());
    let add_feeders = |fields: &mut Map<String, Value>, job: JobId| {
        if let Some(feeders) = submitted.feeders.iter().find(|feeders| feeders.job == job) {
            fields.insert("generator".into(), feeders.generator.0.into());
            fields.insert("reducer".into(), feeders.reducer.map(|reducer| reducer.0).into());
        }
    };
    if submitted.together.is_empty() {
        add_feeders(&mut fields, submitted.job);
    } else {
        let job = |(job, name): &(JobId, String)| {
            let mut told = Map::new();
            told.insert("id".into(), job.0.into());
            told.insert("name".into(), name.as_str().into());
            add_feeders(&mut told, *job);
            Value::Object(told)
        };
        fields.insert("jobs".into(), submitted.together.iter().map(job).collect());
    }
    if !submitted.broadcasts.is_empty() {
        let broadcast = |(job, name): &(JobId, ObjectName)| json!({ "id": job.0, "name": name.as_str() });
        fields.insert("broadcasts".into(), submitted.broadcasts.iter().map(broadcast).collect());
    }
    if submitted.existing > 0 {
        fields.insert("existing_tasks".into(), submitted.existing.into());
    }
    if !submitted.warnings.is_empty() {
        fields.insert("warnings".into(), submitted.warnings.clone().into());
    }
    fields
}
