//! `hq job failures`.

use std::collections::BTreeSet;
use std::io::Write;

use hq_core::limits::{CAUSE_WORKERS_MAX, CAUSES_MAX};
use hq_core::record::FailureKind;
use hq_model::{IdSet, TaskId, WorkerId, counted};
use serde::ser::{SerializeSeq, Serializer};
use serde_json::{Value, json};

use super::job::write_error;
use super::style::{Color, Style};
use super::table::{self, Cell};
use super::{Report, text};
use crate::error::HqError;
use crate::failures::{Cause, FailedJob, Told};
use crate::report::Failures;

const HEADER: [&str; 5] = ["Tasks", "Cause", "Workers", "First task", "Last line of its stderr"];
/// Intervals of workers that are shown to people.
const INTERVALS_SHOWN: usize = 4;

impl Report for Failures {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let mut has_failures = false;
        for job in self.jobs.by_ref() {
            let job = job?;
            let of = &job.failures;
            if of.failed > 0 || of.aborted.is_some() || of.stopped.is_some() || !self.are_several {
                has_failures = true;
                table_of(out, style, &job)?;
            }
        }
        if !has_failures {
            writeln!(out, "No task of these jobs failed")?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let mut serializer = serde_json::Serializer::pretty(&mut *out);
        let mut list = serializer.serialize_seq(None).map_err(write_error)?;
        for job in self.jobs.by_ref() {
            list.serialize_element(&document(&job?)).map_err(write_error)?;
        }
        SerializeSeq::end(list).map_err(write_error)?;
        Ok(out.write_all(b"\n")?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for job in self.jobs.by_ref() {
            let job = job?;
            let begin = job.failures.job;
            if let Some(stopped) = &job.failures.stopped {
                writeln!(out, "{begin} 0 {}", text::one_line(stopped))?;
            }
            for cause in &job.causes {
                let mut words = words(cause);
                if let (Told::ByLastLine { .. }, Some(line)) = (cause.told, &cause.last_line) {
                    words = format!("{}: {line}", words.trim_end_matches('.'));
                }
                writeln!(out, "{begin} {} {}", count(cause), text::one_line(&words))?;
            }
            if job.failures.others() > 0 {
                writeln!(out, "{begin} {} other causes", job.failures.others())?;
            }
            if let Some(aborted) = &job.failures.aborted {
                writeln!(out, "{begin} {} {}", aborted.count, text::one_line(&aborted.words(begin)))?;
            }
        }
        Ok(())
    }
}

/// Why tasks of a job failed, for people.
pub(super) fn table_of(out: &mut dyn Write, style: Style, job: &FailedJob) -> Result<(), HqError> {
    let of = &job.failures;
    let stopped = of.stopped.as_ref().map_or_else(String::new, |why| format!("; {}", text::one_line(why)));
    let aborted = of.aborted.as_ref().map(|aborted| text::one_line(&aborted.words(of.job)).to_string());
    if let Some(why) = aborted.as_ref().filter(|_| of.failed == 0) {
        return Ok(writeln!(out, "Job {}: no task failed; {why}{stopped}", of.job)?);
    }
    if of.failed == 0 {
        return Ok(writeln!(out, "Job {}: no task failed{stopped}", of.job)?);
    }
    let causes = match job.causes.len() {
        0 => String::new(),
        count => format!(", {}", counted(count as u64, "cause")),
    };
    let tasks = counted(of.tasks, "task");
    writeln!(out, "Job {}: {} of {tasks} failed{causes}{stopped}", of.job, of.failed)?;
    if !job.causes.is_empty() {
        let rows: Vec<Vec<Cell>> = job.causes.iter().map(row).collect();
        table::table(out, style, &HEADER, &rows)?;
    }
    if job.causes.iter().any(Cause::is_estimate) {
        writeln!(out, "~ marks an estimate: only an even sample of the tasks was examined")?;
    }
    if of.others() > 0 {
        let tasks = counted(of.others(), "task");
        let why = if of.causes.len() >= CAUSES_MAX {
            "failed for other causes, which are not listed separately"
        } else {
            "failed under a release of hq that did not store the cause"
        };
        writeln!(out, "{tasks} {why}; `hq task list {} --filter failed` lists them", of.job)?;
    }
    if let Some(why) = aborted {
        writeln!(out, "{why}")?;
    }
    Ok(())
}

fn row(cause: &Cause) -> Vec<Cell> {
    let of = &cause.cause;
    let mut first = of.first.to_string();
    if of.first_error != of.text {
        first = format!("{first}: {}", of.first_error);
    }
    let line = cause.last_line.clone().unwrap_or_default();
    vec![
        count(cause).into(),
        Cell::colored(words(cause), Color::Red),
        workers(&of.workers).into(),
        first.into(),
        match cause.told {
            Told::Various { .. } => format!("various, such as: {line}").into(),
            Told::Whole | Told::ByLastLine { .. } => line.into(),
        },
    ]
}

fn count(cause: &Cause) -> String {
    format!("{}{}", if cause.is_estimate() { "~" } else { "" }, cause.cause.count)
}

/// What is said of the failures of a job where something else was asked for: the first of them, and where to look.
pub(crate) fn note(job: &FailedJob) -> String {
    let of = &job.failures;
    let id = of.job;
    let aborted = of.aborted.as_ref().map(|aborted| text::one_line(&aborted.words(id)).to_string());
    if let Some(why) = aborted.as_ref().filter(|_| of.failed == 0) {
        return why.clone();
    }
    // Causes came up in this order.
    let first = of.causes.first().map(|(cause, _)| cause.first);
    let Some(cause) = job.causes.iter().find(|cause| Some(cause.cause.first) == first) else {
        let tasks = counted(of.tasks, "task");
        return format!(
            "{} of {tasks} of job {id} failed; `hq task list {id} --filter failed` lists them",
            of.failed
        );
    };
    let task = cause.cause.first;
    let which = match (of.failed, of.tasks) {
        (_, 1) => format!("Task {task} of job {id} failed"),
        (1, tasks) => format!("1 of {tasks} tasks of job {id} failed, task {task}"),
        (failed, tasks) => format!("{failed} of {tasks} tasks of job {id} failed, task {task} first"),
    };
    let why = with_kind(cause.cause.kind, &cause.cause.first_error);
    let mut note = format!("{which}: {}", text::one_line(&why));
    if let Some(line) = &cause.last_line {
        note.push_str(&format!("\n  The last line of its stderr: {}", text::one_line(line)));
    }
    if let Some(why) = aborted {
        note.push_str(&format!("\n  {why}"));
    }
    note.push_str(&format!("\n  `hq job failures {id}` shows the causes"));
    note
}

/// The cause, with its exit code or signal where its text does not tell.
fn words(cause: &Cause) -> String {
    with_kind(cause.cause.kind, &cause.cause.text)
}

fn with_kind(kind: FailureKind, text: &str) -> String {
    let missing = match kind {
        FailureKind::Exit(code) if !text.contains("exit code") => format!("exit code {code}"),
        FailureKind::Signal(signal) if !text.contains("signal") => format!("signal {signal}"),
        _ => return text.to_owned(),
    };
    if text.is_empty() { missing } else { format!("{text} ({missing})") }
}

fn workers(workers: &BTreeSet<WorkerId>) -> String {
    let ids = ids(workers);
    let first: IdSet = ids.ranges().take(INTERVALS_SHOWN).collect();
    let more = if first.len() < ids.len() { "…" } else { "" };
    match ids.len() {
        0 => String::new(),
        1 => format!("worker {first}"),
        count if count >= CAUSE_WORKERS_MAX as u64 => format!("{count} or more workers: {first}{more}"),
        count => format!("{count} workers: {first}{more}"),
    }
}

fn ids(workers: &BTreeSet<WorkerId>) -> IdSet {
    workers.iter().map(|worker| TaskId(worker.0)).collect()
}

/// The document of a job with failures.
pub(super) fn document(job: &FailedJob) -> Value {
    json!({
        "id": job.failures.job.0,
        "task_count": job.failures.tasks,
        "failed": job.failures.failed,
        "causes": job.causes.iter().map(cause).collect::<Vec<_>>(),
        "other_failures": job.failures.others(),
        "aborted": job.failures.aborted.as_ref().map(|aborted| {
            json!({ "count": aborted.count, "first": aborted.first.0, "reason": aborted.reason })
        }),
        "stopped": job.failures.stopped,
    })
}

fn cause(cause: &Cause) -> Value {
    let of = &cause.cause;
    let (exit_code, signal) = super::json::how(of.kind);
    json!({
        "count": of.count,
        "count_is_estimate": cause.is_estimate(),
        "last_lines_differ": matches!(cause.told, Told::Various { .. }),
        "cause": of.text,
        "kind": of.kind.word(),
        "exit_code": exit_code,
        "signal": signal,
        "worker_count": of.workers.len(),
        "workers": ids(&of.workers).to_string(),
        "first": {
            "id": of.first.0,
            "instance": cause.instance.0,
            "worker": of.first_worker.map(|worker| worker.0),
            "error": of.first_error,
            "stderr": cause.stderr.as_ref().map(|path| path.to_string_lossy()),
            "stderr_last_line": cause.last_line,
        },
    })
}
