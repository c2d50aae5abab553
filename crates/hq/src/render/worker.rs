//! `hq worker list`, `info` and `stop`.

use std::io::Write;

use hq_core::client_messages::WorkerInfo;
use hq_core::object_messages::ObjectsHeld;
use serde_json::{Value, json};

use super::json;
use super::style::{Color, Style};
use super::table::{self, Cell};
use super::{Report, load, sample, text, units};
use crate::error::HqError;
use crate::report::{WorkerDetails, Workers, WorkersStopped};
use hq_model::{IdSet, TaskId, WorkerId, counted, duration};

// So many workers that stop have a line each.
const STOPPED_NAMED: usize = 10;

impl Report for Workers {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        let rows: Vec<Vec<Cell>> = self
            .0
            .iter()
            .map(|w| {
                let (manager, allocation) = manager(w);
                vec![
                    Cell::number(w.worker),
                    state(w),
                    w.config.hostname.as_str().into(),
                    text::resources(&w.config.resources).into(),
                    manager.into(),
                    allocation.into(),
                ]
            })
            .collect();
        let header = ["ID", "State", "Hostname", "Resources", "Manager", "Manager Job ID"];
        Ok(table::table(out, style, &header, &rows)?)
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let workers: Vec<Value> = self.0.iter().map(worker).collect();
        Ok(json::write(out, &workers.into())?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for w in &self.0 {
            writeln!(out, "{} {}", w.worker, state_word(w))?;
        }
        Ok(())
    }
}

impl Report for WorkerDetails {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        for (w, history) in self.workers.iter().zip(&self.histories) {
            let mut rows = details(w, &style);
            if history.points.len() > 1
                && let Some(at) = rows.iter().position(|(name, _)| *name == "Node now")
            {
                rows.insert(at + 1, ("Last hour", load::lines(history).into()));
            }
            table::record(out, style, rows)?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let of_each = self.workers.iter().zip(&self.histories).map(|(w, history)| {
            let mut document = worker(w);
            document["load"] = load::of_history(history);
            document
        });
        Ok(json::write(out, &of_each.collect::<Vec<_>>().into())?)
    }
}

impl Report for WorkersStopped {
    fn is_message(&self) -> bool {
        true
    }

    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        if self.workers.is_empty() {
            writeln!(out, "No worker to stop")?;
        }
        // In the order in which the first of each comes.
        let mut ways: Vec<(&str, &str, Vec<WorkerId>)> = Vec::new();
        for worker in &self.workers {
            let (of_one, of_many) = how_stopped(self, *worker);
            match ways.iter_mut().find(|way| way.0 == of_one) {
                Some(way) if self.workers.len() > STOPPED_NAMED => way.2.push(*worker),
                _ => ways.push((of_one, of_many, vec![*worker])),
            }
        }
        for (of_one, of_many, workers) in ways {
            match workers[..] {
                [worker] => writeln!(out, "Worker {worker} {of_one}")?,
                _ => {
                    let ids: IdSet = workers.iter().map(|worker| TaskId(worker.0)).collect();
                    writeln!(out, "{} workers {of_many}: {ids}", workers.len())?;
                }
            }
        }
        for relay in &self.relays {
            writeln!(
                out,
                "Relay {relay} was not stopped, because it runs no tasks; use `hq worker stop {relay}` to stop it \
                 and return the tasks taken there"
            )?;
        }
        if self.alone_count > 0 {
            writeln!(out, "{}", alone(self))?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let ids = |workers: &[WorkerId]| {
            workers.iter().map(|worker| TaskId(worker.0)).collect::<IdSet>().to_string()
        };
        let mut document = json!({
            "stopping": ids(&self.workers),
            "away": ids(&self.away),
            "stopping_before": ids(&self.stopping),
        });
        if self.alone_count > 0 {
            let objects = self.alone.iter().map(ToString::to_string);
            document["lost_objects"] = objects.collect::<Vec<_>>().into();
            document["lost_object_count"] = self.alone_count.into();
        }
        Ok(json::write_change(out, document)?)
    }
}

// How a worker stops, as is said of one and of many.
fn how_stopped(stopped: &WorkersStopped, worker: WorkerId) -> (&'static str, &'static str) {
    if stopped.away.contains(&worker) {
        (
            "has no connection and counts as stopped: its tasks run elsewhere, and it will stop if it reconnects",
            "have no connection and count as stopped: their tasks run elsewhere, and they will stop if they reconnect",
        )
    } else if stopped.stopping.contains(&worker) {
        ("is already stopping", "are already stopping")
    } else if stopped.drain {
        ("finishes its running tasks, then stops", "finish their running tasks, then stop")
    } else {
        ("is stopping", "are stopping")
    }
}

// What nobody will have any more.
fn alone(stopped: &WorkersStopped) -> String {
    let words = match (stopped.drain, stopped.alone_count == 1) {
        (true, true) => {
            "that is kept has no other copy, no worker can store it, and it is lost with the worker"
        }
        (true, false) => {
            "that are kept have no other copy, no worker can store them, and they are lost with the worker"
        }
        (false, true) => "that is kept has no other copy, and is lost with the worker",
        (false, false) => "that are kept have no other copy, and are lost with the worker",
    };
    let mut names: Vec<String> = stopped.alone.iter().map(ToString::to_string).collect();
    let more = stopped.alone_count.saturating_sub(names.len() as u64);
    names.extend((more > 0).then(|| format!("{more} more")));
    format!("{} {words}: {}", counted(stopped.alone_count, "object"), names.join(", "))
}

fn state_word(w: &WorkerInfo) -> String {
    match w.ended {
        None if w.away_until.is_some() => "DISCONNECTED".into(),
        None if w.is_stopping => "STOPPING".into(),
        None if w.is_draining => "DRAINING".into(),
        None if w.trouble.is_some() => "CANNOT START TASKS".into(),
        ended => text::worker_state(ended.map(|(_, end)| end)).to_ascii_uppercase(),
    }
}

fn state(w: &WorkerInfo) -> Cell {
    let color = match w.ended {
        None if w.trouble.is_some() || w.away_until.is_some() => Color::Red,
        None => Color::Green,
        Some(_) => Color::Magenta,
    };
    Cell::colored(state_word(w), color)
}

fn manager(w: &WorkerInfo) -> (String, String) {
    match &w.config.allocation {
        Some((manager, id)) => (manager.to_string().to_ascii_uppercase(), id.clone()),
        None => (text::NONE.into(), "N/A".into()),
    }
}

fn details(w: &WorkerInfo, style: &Style) -> Vec<(&'static str, Cell)> {
    let config = &w.config;
    let (manager, allocation) = manager(w);
    let listens = if config.listen_address.is_empty() { text::NONE } else { &config.listen_address };
    let last_task =
        w.last_task.map_or(String::new(), |(task, at)| format!("{task}; Time: {}", style.time(at)));
    let runtime = if w.ended.is_some() {
        text::NONE.into()
    } else if let Some((task, main)) = w.multi_node {
        let node = if main == w.worker { "main node" } else { "secondary node" };
        format!("running multinode task; {node}; task {task}, led by worker {main}")
    } else if w.is_reserved {
        format!("running tasks: {}; reserved for a multi-node task", w.tasks_running)
    } else if w.tasks_running > 0 {
        format!("assigned tasks: {}; running tasks: {}", w.tasks_assigned, w.tasks_running)
    } else {
        format!("assigned tasks: {}", w.tasks_assigned)
    };
    let mut rows = vec![
        ("Worker", w.worker.to_string().into()),
        ("State", state(w)),
        ("Hostname", config.hostname.as_str().into()),
        ("Started", style.time(w.started).into()),
        ("Data provider", listens.into()),
        ("Working directory", config.work_dir.as_str().into()),
        ("Heartbeat", duration::format(config.heartbeat).into()),
        ("Idle timeout", text::optional_duration(w.idle_timeout).into()),
        ("Overview interval", text::optional_duration(config.overview_interval).into()),
        ("Resources", text::resources_short_lines(&config.resources).into()),
        ("Time Limit", text::optional_duration(config.time_limit).into()),
        ("Process pid", config.pid.to_string().into()),
        ("Group", config.group.as_str().into()),
        ("Manager", manager.into()),
        ("Manager Job ID", allocation.into()),
        ("Last task started", last_task.into()),
        ("Runtime Info", runtime.into()),
        ("Time reserve", duration::format(config.time_reserve).into()),
        ("On server lost", config.on_server_lost.to_string().into()),
        ("Executor", config.executor.to_string().into()),
        ("Object store", object_store(w).into()),
    ];
    if let Some((_, sample)) = &w.sample {
        rows.push(("Node now", sample::words(sample).into()));
        if let Some(tasks) = w.tasks {
            let memory = text::size_of(tasks.load.memory_bytes);
            let words = format!("CPUs: {}, memory: {memory}", load::cpus(tasks.load.cpus));
            rows.push(("Tasks now", words.into()));
        }
    }
    if config.min_utilization > 0 {
        rows.push(("Min utilization", (f64::from(config.min_utilization) / 10_000.0).to_string().into()));
    }
    if let Some(until) = w.away_until {
        let text = format!("lost; unless it comes back, its tasks run elsewhere from {}", style.time(until));
        rows.push(("Connection", text.into()));
    }
    if w.is_stopping {
        rows.push(("Stopping", "ending running tasks, accepts no new ones".into()));
    } else if w.is_draining && w.ended.is_none() {
        rows.push(("Draining", "finishing running tasks, accepts no new ones".into()));
    }
    if let Some(reason) = &w.trouble {
        rows.push(("Cannot start tasks", format!("{reason}; it retries automatically").into()));
    }
    if w.internal_errors > 0 {
        rows.push(("Internal errors", text::internal_errors(w.internal_errors, "worker").into()));
    }
    if let Some((at, _)) = w.ended {
        rows.push(("Ended", style.time(at).into()));
    }
    rows
}

// Where objects are, how much room there is, and how much of it is taken.
fn object_store(w: &WorkerInfo) -> String {
    let Some(store) = &w.config.object_store else { return text::NONE.to_owned() };
    let line = |dir: &str, size: u64, held: ObjectsHeld| {
        let (used, objects) = (text::size_of(held.bytes), counted(held.count, "object"));
        format!("{dir}\n{used} of {} in {objects}", text::size_of(size))
    };
    let of_store = line(&store.dir, store.size, not_spilled(w));
    match &store.spill {
        Some(spill) => format!("{of_store}\nspill: {}", line(&spill.dir, spill.size, w.spilled)),
        None => of_store,
    }
}

// What lies in the store itself.
fn not_spilled(w: &WorkerInfo) -> ObjectsHeld {
    ObjectsHeld {
        count: w.objects.count.saturating_sub(w.spilled.count),
        bytes: w.objects.bytes.saturating_sub(w.spilled.bytes),
    }
}

fn worker(w: &WorkerInfo) -> Value {
    let config = &w.config;
    let runtime = match w.multi_node {
        Some((task, main)) => json!({ "MultiNodeTask": {
            "task": { "job_id": task.job.0, "job_task_id": task.task.0 },
            "main_node": main == w.worker,
            "main_worker": main.0,
        }}),
        None => json!({ "SingleNodeTasks": {
            "assigned_tasks": w.tasks_assigned,
            "running_tasks": w.tasks_running,
            "is_reserved": w.is_reserved,
        }}),
    };
    json!({
        "id": w.worker.0,
        "configuration": {
            "heartbeat_interval": json::seconds(config.heartbeat),
            "idle_timeout": json::optional_seconds(w.idle_timeout),
            "time_limit": json::optional_seconds(config.time_limit),
            "work_dir": config.work_dir,
            "hostname": config.hostname,
            "group": config.group,
            "listen_address": config.listen_address,
            "resources": json::resources(&config.resources),
            "on_server_lost": config.on_server_lost.to_string(),
            "min_utilization": f64::from(config.min_utilization) / 10_000.0,
            "time_reserve": json::seconds(config.time_reserve),
            "reconnect_timeout": json::seconds(config.reconnect_timeout),
            "overview_interval": json::optional_seconds(config.overview_interval),
            "executor": config.executor.to_string(),
            "pid": config.pid,
        },
        "allocation": config.allocation.as_ref().map(|(manager, id)| {
            json!({ "manager": json::manager(&manager.to_string()), "id": id })
        }),
        "resources_taken": config.resources.pools.iter().zip(&w.taken).map(|(pool, taken)| {
            json!({ "name": pool.name, "amount": units::amount(*taken) })
        }).collect::<Vec<_>>(),
        "runtime_info": if w.ended.is_some() { Value::Null } else { runtime },
        "last_task_started": w.last_task.map(|(task, at)| {
            json!({ "task_id": { "job_id": task.job.0, "job_task_id": task.task.0 }, "time": json::time(at) })
        }),
        "started": json::time(w.started),
        "ended": w.ended.map(|(at, end)| {
            json!({ "at": json::time(at), "reason": text::worker_state(Some(end)) })
        }),
        "state": text::worker_state(w.ended.map(|(_, end)| end)),
        "is_draining": w.is_draining,
        "is_stopping": w.is_stopping,
        "disconnected_until": w.away_until.map(json::time),
        "trouble": w.trouble,
        "internal_errors": w.internal_errors,
        "object_store": config.object_store.as_ref().map(|store| {
            json!({
                "dir": store.dir,
                "size": store.size,
                "used": not_spilled(w).bytes,
                "objects": not_spilled(w).count,
                "spill": store.spill.as_ref().map(|spill| json!({
                    "dir": spill.dir,
                    "size": spill.size,
                    "used": w.spilled.bytes,
                    "objects": w.spilled.count,
                })),
            })
        }),
        "tasks_now": w.tasks.as_ref().map(load::of_tasks),
        "hw_state": w.sample.as_ref().map(|(at, sample)| sample::state(*at, sample)),
    })
}
