//! `hq task explain` and `hq job explain`.

use std::io::Write;
use std::time::Duration;

use hq_core::explanation::{Lack, Reason, ReasonKind, TaskExplanation, TaskGroup, WorkerMatch};
use hq_model::job::JobState;
use hq_model::request::MEM;
use hq_model::{Amount, AmountRequest, IdSet, TaskId, TaskState, counted, duration, memory};
use serde_json::{Value, json};

use super::json::{self, SCHEMA_VERSION};
use super::style::{Color, Style};
use super::table::{self, Cell};
use super::{Report, text, units};
use crate::error::HqError;
use crate::report::{Explained, ExplainedJobs};

const HEADER: [&str; 6] = ["Worker Id", "Runnable", "Variant", "Type", "Provides", "Request"];

impl Report for Explained {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let explained = &self.told;
        writeln!(out, "{}", readiness(explained))?;
        if !explained.workers.is_empty() {
            writeln!(out, "{}", able(&explained.workers))?;
        }
        // What workers lack for good is in the table.
        let is_told = |reason: &&Reason| reason.kind != ReasonKind::Lacks || explained.workers.is_empty();
        for reason in explained.reasons.iter().filter(is_told) {
            writeln!(out, "- {}", style.times_in(&line(reason)))?;
        }
        if !explained.workers.is_empty() {
            let rows = explained.workers.iter().flat_map(|of| self.rows(of));
            table::table(out, style, &HEADER, &rows.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let explained = &self.told;
        let task = explained.task;
        let worker = |of: &WorkerMatch| {
            let of_variant = |variant| self.asked(of, variant).iter().map(asked_of).collect();
            let variants: Vec<Vec<Value>> = (0..of.variants.len()).map(of_variant).collect();
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
        for reason in &self.told.reasons {
            writeln!(out, "{}", line(reason))?;
        }
        Ok(())
    }
}

// Whether what the task was to wait for has ended.
fn readiness(explained: &TaskExplanation) -> String {
    let TaskExplanation { task, state, dependencies, unresolved, .. } = explained;
    match (state, dependencies, unresolved) {
        (TaskState::Waiting, 0, 0) => format!("Task {task} is ready to run because it has no dependencies."),
        (TaskState::Waiting, all, 0) => {
            let are = if *all == 1 { "its dependency is" } else { "all its dependencies are" };
            format!("Task {task} is ready to run because {are} finished.")
        }
        (TaskState::Waiting, all, left) => {
            format!("Task {task} is not ready to run, because {left}/{all} dependencies are not finished.")
        }
        (TaskState::Failed, ..) => format!("Task {task} has failed"),
        (TaskState::Finished, ..) => format!("Task {task} has finished"),
        (TaskState::Canceled | TaskState::Aborted, ..) => format!("Task {task} was {state}"),
        (state, ..) => format!("Task {task} is {state}"),
    }
}

// Which workers have what one of the variants asks for, now or when what runs there has ended.
fn able(workers: &[WorkerMatch]) -> String {
    let fits = |of: &&WorkerMatch| of.variants.iter().any(Vec::is_empty);
    let able: IdSet = workers.iter().filter(fits).map(|of| TaskId(of.worker.0)).collect();
    match able.len() {
        0 => "There is no worker where the task can run.".to_owned(),
        count => format!("The task can run on {}: {able}", counted(count, "worker")),
    }
}

// A thing that a variant asks for, what a worker has of it, and whether that is enough.
struct Asked {
    what: Thing,
    is_met: bool,
}

enum Thing {
    Resource { name: String, request: AmountRequest, has: Amount },
    // Without the time that is left where it is enough.
    Time { request: Duration, left: Option<Duration> },
    Group { nodes: u32, size: Option<u32> },
}

impl Explained {
    // All that a variant asks for, or what lacks, where no more is known.
    fn asked(&self, of: &WorkerMatch, variant: usize) -> Vec<Asked> {
        let lacks = of.variants.get(variant).map_or(&[][..], Vec::as_slice);
        let (Some(request), Some(offer)) = (self.requests.get(variant), self.offers.get(&of.worker)) else {
            return lacks.iter().map(lacking).collect();
        };
        let mut all: Vec<Asked> = Vec::new();
        let is_time = |lack: &&Lack| matches!(lack, Lack::Time { .. });
        all.extend(match lacks.iter().find(is_time) {
            Some(lack) => Some(lacking(lack)),
            None if request.time_request.is_zero() => None,
            None => {
                Some(Asked { what: Thing::Time { request: request.time_request, left: None }, is_met: true })
            }
        });
        if request.nodes > 0 {
            let is_group = |lack: &&Lack| matches!(lack, Lack::Group { .. });
            let met = Asked { what: Thing::Group { nodes: request.nodes, size: None }, is_met: true };
            all.push(lacks.iter().find(is_group).map_or(met, lacking));
        }
        for resource in &request.resources {
            let is_this =
                |lack: &&Lack| matches!(lack, Lack::Resource { name, .. } if *name == resource.name);
            let has = offer.giver(&resource.name).map_or(Amount::ZERO, |pool| offer.pools[pool].kind.total());
            let what = Thing::Resource { name: resource.name.clone(), request: resource.amount, has };
            all.push(lacks.iter().find(is_this).map_or(Asked { what, is_met: true }, lacking));
        }
        all
    }

    // A row for each thing that a variant asks for.
    fn rows(&self, of: &WorkerMatch) -> Vec<Vec<Cell>> {
        let fit = of.variants.iter().filter(|lacks| lacks.is_empty()).count();
        let runnable = match of.variants.len() {
            0 => "No".to_owned(),
            all if fit == all => "Yes".to_owned(),
            _ if fit == 0 => "No".to_owned(),
            all => format!("Yes ({fit}/{all})"),
        };
        let mut rows = Vec::new();
        for variant in 0..of.variants.len() {
            let mut row = |what: [String; 3], color: Option<Color>| {
                let mut row = vec![Cell::number(of.worker), runnable.as_str().into(), Cell::number(variant)];
                row.extend(
                    what.map(|text| color.map_or(text.as_str().into(), |color| Cell::colored(&*text, color))),
                );
                rows.push(row);
            };
            let asked = self.asked(of, variant);
            if asked.is_empty() {
                row(Default::default(), None);
            }
            for asked in asked {
                row(shown(&asked.what), (!asked.is_met).then_some(Color::Red));
            }
        }
        rows
    }
}

fn lacking(lack: &Lack) -> Asked {
    let what = match lack.clone() {
        Lack::Resource { name, request, has } => Thing::Resource { name, request, has },
        Lack::Time { request, left } => Thing::Time { request, left: Some(left) },
        Lack::Group { nodes, size } => Thing::Group { nodes, size: Some(size) },
    };
    Asked { what, is_met: false }
}

impl Report for ExplainedJobs {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        for job in &self.0 {
            let is = match job.state {
                JobState::Opened => "is open",
                JobState::Waiting => "waits",
                JobState::Running => "runs",
                JobState::Finished => "has finished",
                JobState::Failed => "has failed",
                JobState::Aborted => "was aborted",
                JobState::Canceled => "was canceled",
            };
            writeln!(out, "Job {} {is}", job.job)?;
            for reason in &job.reasons {
                writeln!(out, "- {}", style.times_in(&line(reason)))?;
            }
            if job.state == JobState::Opened && job.reasons.is_empty() && job.groups.is_empty() {
                writeln!(
                    out,
                    "- no task of it waits or runs: it ends once it is closed with `hq job close {}`",
                    job.job
                )?;
            }
            for group in &job.groups {
                writeln!(out, "{}:", title(group))?;
                for reason in &group.reasons {
                    writeln!(out, "- {}", style.times_in(&line(reason)))?;
                }
                if group.reasons.is_empty() {
                    writeln!(out, "- nothing: they are being sent to workers")?;
                }
            }
            if job.others > 0 {
                let tasks = counted(job.others, "task");
                writeln!(
                    out,
                    "{tasks} in more groups are not shown; use `hq task explain` for single tasks"
                )?;
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

// Type, provides, request.
fn shown(what: &Thing) -> [String; 3] {
    match what {
        Thing::Resource { name, request, has } => {
            let shown = |amount: Amount| {
                if name == MEM { memory::format(amount) } else { amount.to_string() }
            };
            let request = match request {
                AmountRequest::All => "all".into(),
                AmountRequest::Some(amount, _) => shown(*amount),
            };
            [name.clone(), shown(*has), request]
        }
        Thing::Time { request, left: Some(left) } if left.is_zero() => {
            let request = if request.is_zero() { "any".into() } else { duration::format(*request) };
            ["time".into(), "none: its time is over".into(), request]
        }
        Thing::Time { request, left } => [
            "time".into(),
            left.map_or_else(|| "enough".to_owned(), text::measured),
            duration::format(*request),
        ],
        Thing::Group { nodes, size } => {
            let size =
                size.map_or_else(|| "group is large enough".to_owned(), |size| format!("group size {size}"));
            ["nodes".into(), size, nodes.to_string()]
        }
    }
}

fn asked_of(asked: &Asked) -> Value {
    match &asked.what {
        Thing::Resource { name, request, has } => json!({ "Resources": {
            "resource": name,
            "request_amount": units::asked(request),
            "worker_amount": units::amount(*has),
        }}),
        Thing::Time { request, left } => json!({ "Time": {
            "min_time": units::time(*request),
            "remaining_time": left.map(units::time),
        }}),
        Thing::Group { nodes, size } => json!({ "WorkerGroup": { "n_nodes": nodes, "group_size": size }}),
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
