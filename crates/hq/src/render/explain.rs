//! `hq task explain` and `hq job explain`.

use std::io::Write;

use hq_core::explanation::{Lack, Reason, ReasonKind, TaskGroup, WorkerMatch};
use hq_model::request::MEM;
use hq_model::{Amount, AmountRequest, duration, memory};
use serde_json::{Value, json};

use super::json::{self, SCHEMA_VERSION};
use super::style::Style;
use super::table::{self, Cell};
use super::{Report, text};
use crate::error::HqError;
use crate::report::{Explained, ExplainedJobs};

const HEADER: [&str; 6] = ["Worker Id", "Runnable", "Variant", "Type", "Provides", "Request"];

impl Report for Explained {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let explained = &self.0;
        writeln!(out, "Task {} is {}", explained.task, explained.state)?;
        // What workers lack for good is in the table.
        let is_told = |reason: &&Reason| reason.kind != ReasonKind::Lacks || explained.workers.is_empty();
        for reason in explained.reasons.iter().filter(is_told) {
            writeln!(out, "- {}", line(reason))?;
        }
        if !explained.workers.is_empty() {
            let rows = explained.workers.iter().flat_map(rows);
            table::table(out, style, &HEADER, &rows.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let explained = &self.0;
        let task = explained.task;
        let worker = |of: &WorkerMatch| {
            let variants: Vec<Vec<Value>> =
                of.variants.iter().map(|lacks| lacks.iter().map(lack).collect()).collect();
            json!({ "worker_id": of.worker.0, "variants": variants })
        };
        let document = json!({
            "schema_version": SCHEMA_VERSION,
            "task_id": { "job_id": task.job.0, "job_task_id": task.task.0 },
            "state": explained.state.word(),
            "explanation": {
                "n_task_deps": explained.dependencies,
                "n_waiting_deps": explained.unresolved,
                "workers": explained.workers.iter().map(worker).collect::<Vec<_>>(),
            },
            "reasons": reasons(&explained.reasons),
        });
        Ok(json::write(out, &document)?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for reason in &self.0.reasons {
            writeln!(out, "{}", line(reason))?;
        }
        Ok(())
    }
}

impl Report for ExplainedJobs {
    fn cli(&mut self, out: &mut dyn Write, _: Style) -> Result<(), HqError> {
        for job in &self.0 {
            writeln!(out, "Job {} is {}", job.job, job.state.word())?;
            for reason in &job.reasons {
                writeln!(out, "- {}", line(reason))?;
            }
            for group in &job.groups {
                writeln!(out, "{}:", title(group))?;
                for reason in &group.reasons {
                    writeln!(out, "- {}", line(reason))?;
                }
                if group.reasons.is_empty() {
                    writeln!(out, "- nothing: workers get them now")?;
                }
            }
            if job.others > 0 {
                let tasks = text::count(job.others, "task");
                writeln!(out, "{tasks} in more groups are not shown; `hq task explain` tells of each")?;
            }
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let group = |group: &TaskGroup| {
            json!({
                "ids": group.ids.to_string(),
                "task_count": group.ids.len(),
                "reasons": reasons(&group.reasons),
            })
        };
        let job = |job: &hq_core::explanation::JobExplanation| {
            json!({
                "id": job.job.0,
                "state": job.state.word(),
                "reasons": reasons(&job.reasons),
                "groups": job.groups.iter().map(group).collect::<Vec<_>>(),
                "other_tasks": job.others,
            })
        };
        Ok(json::write(out, &self.0.iter().map(job).collect::<Vec<_>>().into())?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for job in &self.0 {
            for reason in &job.reasons {
                writeln!(out, "{} {}", job.job, line(reason))?;
            }
            for group in &job.groups {
                for reason in &group.reasons {
                    writeln!(out, "{}@{} {}", job.job, group.ids, line(reason))?;
                }
            }
        }
        Ok(())
    }
}

fn title(group: &TaskGroup) -> String {
    match group.ids.len() {
        1 => format!("Task {}", group.ids),
        count if group.ids.range_count() > 8 => {
            let first = group.ids.first().unwrap_or_default();
            format!("{count} tasks ({first} and others)")
        }
        count => format!("{count} tasks ({})", group.ids),
    }
}

fn line(reason: &Reason) -> String {
    match reason.worker {
        Some(worker) => format!("worker {worker}: {}", reason.text),
        None => reason.text.clone(),
    }
}

// A row for each thing that a variant lacks there, or one that says it does not.
fn rows(of: &WorkerMatch) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (variant, lacks) in of.variants.iter().enumerate() {
        let mut row = |runnable: &str, what: [String; 3]| {
            let mut row: Vec<Cell> = vec![of.worker.to_string().into(), runnable.into()];
            row.push((variant + 1).to_string().into());
            row.extend(what.map(Cell::from));
            rows.push(row);
        };
        if lacks.is_empty() {
            row("yes", Default::default());
        }
        for lack in lacks {
            row("no", what(lack));
        }
    }
    rows
}

// Type, provides, request.
fn what(lack: &Lack) -> [String; 3] {
    match lack {
        Lack::Resource { name, request, has } => {
            let shown = |amount: Amount| {
                if name == MEM { memory::format(amount) } else { amount.to_string() }
            };
            let request = match request {
                AmountRequest::All => "all".into(),
                AmountRequest::Some(amount, _) => shown(*amount),
            };
            [name.clone(), shown(*has), request]
        }
        Lack::Time { request, left } if left.is_zero() => {
            let request = if request.is_zero() { "any".into() } else { duration::format(*request) };
            ["time".into(), "none: its time is over".into(), request]
        }
        Lack::Time { request, left } => ["time".into(), text::measured(*left), duration::format(*request)],
        Lack::Group { nodes, size } => ["nodes".into(), size.to_string(), nodes.to_string()],
    }
}

fn lack(lack: &Lack) -> Value {
    match lack {
        Lack::Resource { name, request, has } => json!({ "resources": {
            "resource": name,
            "request_amount": match request {
                AmountRequest::All => "all".into(),
                AmountRequest::Some(amount, _) => text::amount(*amount),
            },
            "worker_amount": text::amount(*has),
        }}),
        Lack::Time { request, left } => json!({ "time": {
            "min_time": json::seconds(*request),
            "remaining_time": json::seconds(*left),
        }}),
        Lack::Group { nodes, size } => json!({ "worker_group": { "n_nodes": nodes, "group_size": size }}),
    }
}

fn reasons(reasons: &[Reason]) -> Value {
    let reason = |reason: &Reason| {
        json!({
            "kind": reason.kind.word(),
            "worker": reason.worker.map(|worker| worker.0),
            "queue": reason.queue.map(|queue| queue.0),
            "until": json::optional_time(reason.until),
            "reason": reason.text,
        })
    };
    reasons.iter().map(reason).collect::<Vec<_>>().into()
}
