//! `hq alloc list`, `info` and `explain`.

use std::io::Write;

use hq_core::alloc::messages::{AllocationInfo, QueueExplanation, QueueInfo, QueueStatus};
use hq_model::allocation::{AllocationState, NodeTime, in_hours, node_hours_told};
use hq_model::{Timestamp, duration};
use serde_json::{Value, json};

use super::json::{self, SCHEMA_VERSION};
use super::style::{Color, Style};
use super::table::{self, Cell};
use super::{Report, text};
use crate::error::HqError;
use crate::report::{Allocations, ExplainedQueue, QueueAdded, Queues};

impl Report for QueueAdded {
    fn is_message(&self) -> bool {
        true
    }

    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        Ok(writeln!(out, "Allocation queue {} successfully created", self.0)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(json::write(out, &json!({ "id": self.0.0, "schema_version": SCHEMA_VERSION }))?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(writeln!(out, "{}", self.0)?)
    }
}

impl Report for Queues {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let header = [
            "ID",
            "State",
            "Backlog size",
            "Max workers per alloc",
            "Max worker count",
            "Timelimit",
            "Manager",
            "Worker resources",
            "Name",
            "Args",
            "Queued",
            "Running",
            "Finished",
            "Failed",
        ];
        let rows: Vec<Vec<Cell>> = self.0.iter().map(queue_row).collect();
        Ok(table::table(out, style, &header, &rows)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let queues: Vec<Value> = self.0.iter().map(queue).collect();
        Ok(json::write(out, &queues.into())?)
    }
}

impl Report for Allocations {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let header = [
            "ID",
            "State",
            "Working directory",
            "Worker count",
            "Queue time",
            "Start time",
            "Finish time",
            "Connected",
            "Detail",
            "Allocation",
        ];
        let rows: Vec<Vec<Cell>> = self.allocations.iter().map(|one| allocation_row(one, &style)).collect();
        table::table(out, style, &header, &rows)?;
        if let Some(budget) = self.queue.params.budget {
            writeln!(out, "Its allocations may use {} (budget)", node_hours_told(budget))?;
        }
        if let Some(why) = &self.queue.over_budget {
            writeln!(out, "It is requesting no more allocations: {}", style.times_in(why))?;
        }
        if !self.verbose && self.cost.is_none() {
            return Ok(());
        }
        writeln!(out, "Workers of queue {} offer: {}", self.queue.queue, worker_resources(&self.queue))?;
        let mut header = vec!["Node hours", "Asked for", "Used by tasks", "Idle", "Lost"];
        header.extend(self.cost.map(|_| "Cost"));
        let mut rows: Vec<Vec<Cell>> =
            self.allocations.iter().map(|one| hours_row(&id(one), &one.time, self.cost)).collect();
        rows.push(hours_row("Total", &self.queue.time, self.cost));
        Ok(table::table(out, style, &header, &rows)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let with_cost = |one: &AllocationInfo| {
            let mut value = allocation(one);
            if let Some(price) = self.cost {
                value["cost"] = json!(cost(&one.time, price));
            }
            value
        };
        let allocations: Vec<Value> = self.allocations.iter().map(with_cost).collect();
        Ok(json::write(out, &allocations.into())?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for one in &self.allocations {
            writeln!(out, "{} {}", id(one), one.state.word().to_ascii_uppercase())?;
        }
        Ok(())
    }
}

impl Report for ExplainedQueue {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let QueueExplanation { queue, next, facts, demand, decisions } = &self.0;
        writeln!(out, "Queue {} ({}): {}.", queue.queue, queue.params.manager, style.times_in(next))?;
        for fact in facts {
            writeln!(out, "- {}", style.times_in(fact))?;
        }
        if !demand.is_empty() {
            let header =
                ["Waiting tasks", "Request", "Priority", "Coming", "New", "Elsewhere", "Why no more"];
            let rows: Vec<Vec<Cell>> = demand
                .iter()
                .map(|line| {
                    vec![
                        Cell::number(line.waiting),
                        line.request.as_str().into(),
                        Cell::number(line.priority),
                        Cell::number(line.coming),
                        Cell::number(line.new),
                        Cell::number(line.elsewhere),
                        style.times_in(line.why_not.as_deref().unwrap_or_default()).into(),
                    ]
                })
                .collect();
            table::table(out, style, &header, &rows)?;
        }
        if !decisions.is_empty() {
            writeln!(out, "Decisions since the server was started:")?;
        }
        for decision in decisions {
            let again = match decision.count {
                1 => String::new(),
                count => format!(" ({count} times since {})", style.time(decision.first)),
            };
            writeln!(out, "{}  {}{again}", style.time(decision.last), style.times_in(&decision.text))?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let QueueExplanation { queue: info, next, facts, demand, decisions } = &self.0;
        let demand = demand.iter().map(|line| {
            json!({
                "request": line.request,
                "priority": line.priority,
                "waiting": line.waiting,
                "coming": line.coming,
                "new": line.new,
                "elsewhere": line.elsewhere,
                "why_not": line.why_not,
            })
        });
        let decisions = decisions.iter().map(|decision| {
            json!({
                "first": json::time(decision.first),
                "last": json::time(decision.last),
                "count": decision.count,
                "text": decision.text,
            })
        });
        let document = json!({
            "queue": queue(info),
            "next": next,
            "facts": facts,
            "demand": demand.collect::<Vec<Value>>(),
            "decisions": decisions.collect::<Vec<Value>>(),
            "schema_version": SCHEMA_VERSION,
        });
        Ok(json::write(out, &document)?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(writeln!(out, "{}", self.0.next)?)
    }
}

fn queue_state(info: &QueueInfo) -> (&'static str, Color) {
    match info.status {
        QueueStatus::Active if info.over_budget.is_some() => ("Over budget", Color::Yellow),
        QueueStatus::Active => ("Active", Color::Green),
        QueueStatus::Paused(..) => ("Paused", Color::Yellow),
        QueueStatus::Draining => ("Draining", Color::Magenta),
    }
}

fn queue_row(info: &QueueInfo) -> Vec<Cell> {
    let params = &info.params;
    let (word, color) = queue_state(info);
    let mut cells: Vec<Cell> = vec![
        Cell::number(info.queue),
        Cell::colored(word.to_ascii_uppercase(), color),
        Cell::number(params.backlog),
        Cell::number(params.max_workers_per_alloc),
        params.max_worker_count.map_or_else(|| "N/A".to_owned(), |count| count.to_string()).into(),
        duration::format(params.time_limit).into(),
        params.manager.to_ascii_uppercase().into(),
        worker_resources(info).into(),
        params.name.clone().unwrap_or_default().into(),
        params.manager_args.iter().map(|arg| text::bytes(arg)).collect::<Vec<_>>().join(",").into(),
    ];
    cells.extend(info.counts.iter().map(|count| Cell::from(count.to_string())));
    cells
}

// What a worker offers, as far as it is known: until one was there, what the user has said of it.
fn worker_resources(info: &QueueInfo) -> String {
    match &info.known {
        Some((resources, _)) => text::resources(resources),
        None if info.params.resources.is_empty() => "<unknown>".to_owned(),
        None => text::pools(&info.params.resources),
    }
}

fn queue(info: &QueueInfo) -> Value {
    let params = &info.params;
    let known = info.known.as_ref().map(|(resources, _)| json::resources(resources));
    let (paused_at, reason) = match &info.status {
        QueueStatus::Paused(at, why) => (json::time(*at), Some(why)),
        QueueStatus::Active | QueueStatus::Draining => (Value::Null, None),
    };
    let [queued, running, finished, failed] = info.counts;
    json!({
        "id": info.queue.0,
        "name": params.name,
        "state": match info.status {
            // What scripts know: why it asks for nothing is said beside it.
            QueueStatus::Active => "Active",
            _ => queue_state(info).0,
        },
        "manager": json::manager(&params.manager),
        "additional_args": params.manager_args.iter().map(|arg| json::bytes(arg)).collect::<Vec<_>>(),
        "backlog": params.backlog,
        "max_workers_per_alloc": params.max_workers_per_alloc,
        "timelimit": json::seconds(params.time_limit),
        "max_worker_count": params.max_worker_count,
        "worker_args": params.worker_args.iter().map(|arg| json::bytes(arg)).collect::<Vec<_>>(),
        "known_worker_resources": known,
        "declared_worker_resources": params.resources.iter().map(json::pool).collect::<Vec<_>>(),
        "worker_time_limit": json::optional_seconds(params.worker_time_limit),
        "worker_start_cmd": params.start_command,
        "worker_stop_cmd": params.stop_command,
        "worker_wrap_cmd": params.wrap_command,
        "chain": params.chain,
        "keep_waiting": params.keep_waiting,
        "for_any_task": params.for_any_task,
        "goal": params.goal.word(),
        "budget": params.budget.map(in_hours),
        "over_budget": info.over_budget,
        "added": json::time(info.added),
        "paused_at": paused_at,
        "pause_reason": reason,
        "allocations": { "queued": queued, "running": running, "finished": finished, "failed": failed },
        "node_hours": node_hours(&info.time),
    })
}

// The batch system's id, or the server's own until there is one.
fn id(one: &AllocationInfo) -> String {
    one.batch_id.clone().unwrap_or_else(|| one.allocation.to_string())
}

fn allocation_row(one: &AllocationInfo, style: &Style) -> Vec<Cell> {
    let color = match one.state {
        AllocationState::Queued => Color::Yellow,
        AllocationState::Running => Color::Cyan,
        AllocationState::Finished => Color::Green,
        AllocationState::Failed => Color::Red,
    };
    let time = |at: Option<Timestamp>| Cell::from(at.map_or_else(String::new, |at| style.clock(at)));
    vec![
        id(one).into(),
        Cell::colored(one.state.word().to_ascii_uppercase(), color),
        text::bytes(&one.directory).into(),
        Cell::number(one.workers),
        time(Some(one.queued.unwrap_or(one.planned))),
        time(one.started),
        time(one.ended.as_ref().map(|(at, _)| *at)),
        Cell::number(one.connected.len()),
        style.times_in(one.detail.as_deref().unwrap_or_default()).into(),
        Cell::number(one.allocation),
    ]
}

fn allocation(one: &AllocationInfo) -> Value {
    json!({
        "id": id(one),
        "target_worker_count": one.workers,
        "queued_at": json::time(one.queued.unwrap_or(one.planned)),
        "started_at": json::optional_time(one.started),
        "ended_at": json::optional_time(one.ended.as_ref().map(|(at, _)| *at)),
        "status": one.state.word(),
        "workdir": json::bytes(&one.directory),
        "allocation": one.allocation.to_string(),
        "detail": one.detail,
        "workers": one.connected.iter().map(|worker| worker.0).collect::<Vec<_>>(),
        "after": one.after,
        "node_hours": node_hours(&one.time),
    })
}

fn hours(microseconds: u64) -> f64 {
    microseconds as f64 / 3.6e9
}

// What was held of nodes, at this price for an hour.
fn cost(time: &NodeTime, price: f64) -> f64 {
    time.held().as_secs_f64() / 3600.0 * price
}

fn hours_row(name: &str, time: &NodeTime, price: Option<f64>) -> Vec<Cell> {
    let all = [time.asked_us, time.used_us, time.idle_us, time.lost_us];
    let numbers = all.iter().map(|part| Cell::from(format!("{:.3}", hours(*part))));
    let cost = price.map(|price| Cell::from(format!("{:.2}", cost(time, price))));
    [Cell::from(name)].into_iter().chain(numbers).chain(cost).collect()
}

fn node_hours(time: &NodeTime) -> Value {
    json!({
        "asked": hours(time.asked_us),
        "used": hours(time.used_us),
        "idle": hours(time.idle_us),
        "lost": hours(time.lost_us),
    })
}
