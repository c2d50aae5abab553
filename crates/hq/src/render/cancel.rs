//! `hq job cancel`.

use std::io::Write;

use hq_model::{IdSet, JobId, TaskId, counted};
use serde_json::{Value, json};

use super::Report;
use super::json::{self, SCHEMA_VERSION};
use super::style::Style;
use crate::error::HqError;
use crate::report::Canceled;

// So many jobs of which nothing was canceled have a line each.
const ENDED_JOBS_NAMED: usize = 3;

impl Report for Canceled {
    fn is_message(&self) -> bool {
        true
    }

    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        if self.jobs.is_empty() {
            writeln!(out, "There is nothing to cancel")?;
        }
        let has_ended = |job: JobId, ids: &IdSet| ids.is_empty() && !self.closed.contains(TaskId(job.0));
        let had_ended = self.jobs.iter().filter(|(job, ids, _)| has_ended(*job, ids)).count();
        let are_counted = had_ended > ENDED_JOBS_NAMED;
        for (job, ids, ended) in &self.jobs {
            if has_ended(*job, ids) && are_counted {
                continue;
            }
            let canceled = counted(ids.len(), "task");
            match self.of_tasks {
                _ if ids.is_empty() && self.closed.contains(TaskId(job.0)) => {
                    let ended = counted(*ended, "task");
                    writeln!(
                        out,
                        "Job {job} canceled: no more tasks will be created ({ended} already finished)"
                    )?;
                }
                _ if ids.is_empty() && *ended == 0 => {
                    writeln!(out, "Job {job} has no tasks to cancel")?;
                }
                false if ids.is_empty() => {
                    writeln!(out, "Canceling job {job} failed; all tasks are already finished")?;
                }
                _ if ids.is_empty() => {
                    let ended = match *ended {
                        1 => "this task had ended".to_owned(),
                        _ => format!("these {ended} tasks had ended"),
                    };
                    writeln!(out, "Job {job}: nothing to cancel, {ended} already")?;
                }
                true => writeln!(out, "Job {job}: {canceled} canceled, {ended} already ended")?,
                false => writeln!(
                    out,
                    "Job {job} canceled ({canceled} canceled, {} already finished)",
                    counted(*ended, "task")
                )?,
            }
        }
        if are_counted {
            let which = if self.of_tasks { "these" } else { "their" };
            writeln!(
                out,
                "{}: nothing to cancel, {which} tasks had already ended",
                counted(had_ended, "job")
            )?;
        }
        let open = &self.open;
        match open.len() {
            0 => {}
            1 => {
                writeln!(out, "Job {open} stays open for more tasks; use `hq job close {open}` to close it")?
            }
            _ => writeln!(
                out,
                "Jobs {open} stay open for more tasks; use `hq job close {open}` to close them"
            )?,
        }
        let over = &self.over;
        match over.len() {
            0 => {}
            1 => writeln!(
                out,
                "Job {over} is open, but accepts no more tasks because too many failed; use `hq job close {over}` \
                 to close it"
            )?,
            _ => writeln!(
                out,
                "Jobs {over} are open, but accept no more tasks because too many failed; use `hq job close {over}` \
                 to close them"
            )?,
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(json::write(out, &canceled_document(self))?)
    }
}

// Jobs of which nothing was canceled, for all had ended, and jobs that were named and are not there, are lists of their own:
// scripts that only want to know what goes on look at `canceled`.
fn canceled_document(report: &Canceled) -> Value {
    let takes = |job: JobId| report.open.contains(TaskId(job.0));
    let is_canceled =
        |(job, ids, _): &&(JobId, IdSet, u64)| !ids.is_empty() || report.closed.contains(TaskId(job.0));
    let job = |(job, ids, ended): &(JobId, IdSet, u64)| {
        json!({
            "id": job.0,
            "canceled_tasks": ids.to_string(),
            "canceled_count": ids.len(),
            "ended_before": ended,
            "is_open": takes(*job),
        })
    };
    let canceled: Vec<Value> = report.jobs.iter().filter(is_canceled).map(job).collect();
    let ended: Vec<Value> = report.jobs.iter().filter(|of| !is_canceled(of)).map(job).collect();
    json!({
        "schema_version": SCHEMA_VERSION,
        "canceled": canceled,
        "ended": ended,
        "unknown": report.unknown.to_string(),
    })
}
