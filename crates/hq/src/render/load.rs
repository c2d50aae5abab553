//! How loaded nodes are and were, and what running tasks use.

use hq_core::load_history::LoadHistory;
use hq_core::overview::NodesLoad;
use hq_core::series::{LoadPoint, NodeLoad};
use hq_core::task_use::{TaskUse, TasksSum};
use hq_model::TaskLoad;
use serde_json::{Value, json};

use super::json::{self, SCHEMA_VERSION};
use super::table::Cell;
use super::text;

/// Signs of a line of bars.
const LINE_MAX: usize = 60;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A history as a document.
pub(crate) fn document(history: &LoadHistory) -> Value {
    let mut document = of_history(history);
    document["schema_version"] = SCHEMA_VERSION.into();
    document
}

/// A history, as a part of a document.
pub(crate) fn of_history(history: &LoadHistory) -> Value {
    json!({
        "worker": history.worker.map(|worker| worker.0),
        "now": of_nodes(&history.nodes),
        "step": json::seconds(history.step),
        "points": history.points.iter().map(point).collect::<Vec<_>>(),
    })
}

/// What nodes do now, and what they have.
pub(crate) fn of_nodes(nodes: &NodesLoad) -> Value {
    json!({
        "nodes": nodes.nodes,
        "load": load(&nodes.load),
        "cpus_total": thousandths(nodes.cpus_total),
        "memory_total": nodes.memory_total_mib << 20,
        "gpus_total": thousandths(nodes.gpus_total),
        "tasks": of_tasks(&nodes.tasks),
    })
}

/// What tasks use together.
pub(crate) fn of_tasks(sum: &TasksSum) -> Value {
    let mut document = task_load(&sum.load);
    document["count"] = sum.count.into();
    document
}

fn point(point: &LoadPoint) -> Value {
    json!({
        "at": json::time(point.start),
        "samples": point.count,
        "mean": load(&point.mean),
        "max": load(&point.max),
    })
}

fn load(load: &NodeLoad) -> Value {
    json!({
        "cpus": thousandths(load.cpus.into()),
        "memory": u64::from(load.memory_mib) << 20,
        "gpus": thousandths(load.gpus.into()),
        "gpu_memory": thousandths(load.gpu_memory.into()),
        "network_per_second": u64::from(load.network_kib) << 10,
        "disk_per_second": u64::from(load.disk_kib) << 10,
    })
}

fn task_load(load: &TaskLoad) -> Value {
    json!({
        "cpus": thousandths(load.cpus),
        "memory": load.memory_bytes,
        "cpu_seconds": load.cpu_us as f64 / 1e6,
        "read": load.read_bytes,
        "written": load.written_bytes,
        "processes": load.processes,
    })
}

/// What a running task uses, as a part of a document.
pub(crate) fn of_task(used: &TaskUse) -> Value {
    let mut document = task_load(&used.load);
    document["at"] = json::time(used.at);
    document["from"] = json::time(used.from);
    document["cpus_max"] = thousandths(used.cpus_max).into();
    document["memory_max"] = used.memory_max.into();
    document["points"] = used
        .points
        .iter()
        .map(|point| {
            json!({ "cpus": thousandths(point.cpus.into()), "memory_max": u64::from(point.memory_kib) << 10 })
        })
        .collect();
    document
}

/// Rows of what a running task uses.
pub(crate) fn task_rows(used: &TaskUse) -> Vec<(&'static str, Cell)> {
    let mut rows = vec![("Use now", Cell::from(task_words(used)))];
    if used.points.len() > 1 {
        let cpus: Vec<f64> = used.points.iter().map(|point| point.cpus.into()).collect();
        let memory: Vec<f64> = used.points.iter().map(|point| point.memory_kib.into()).collect();
        rows.push((
            "Use so far",
            format!("CPUs   {}\nmemory {}", bars(&cpus, None), bars(&memory, None)).into(),
        ));
    }
    rows
}

/// What a running task uses, in words.
pub(crate) fn task_words(used: &TaskUse) -> String {
    let TaskUse { load, cpus_max, memory_max, .. } = used;
    let mut lines = vec![
        format!("CPUs: {}, {} at most", cpus(load.cpus), cpus(*cpus_max)),
        format!("memory: {}, {} at most", text::size_of(load.memory_bytes), text::size_of(*memory_max)),
    ];
    // Of a call it is not known.
    if load.cpu_us > 0 {
        let time = std::time::Duration::from_micros(load.cpu_us);
        lines.push(format!("CPU time: {}", text::measured(time)));
        let (read, written) = (text::size_of(load.read_bytes), text::size_of(load.written_bytes));
        lines.push(format!("IO: {read} read, {written} written"));
    }
    if load.processes != 1 {
        lines.push(format!("{} processes", load.processes));
    }
    lines.join("\n")
}

/// How loaded a node was, in lines.
pub(crate) fn lines(history: &LoadHistory) -> String {
    let nodes = &history.nodes;
    let line = |name: &str, of: fn(&NodeLoad) -> u32, total: u64| {
        let most = total.max(1) as f64;
        let means: Vec<f64> = history.points.iter().map(|point| f64::from(of(&point.mean)) / most).collect();
        let largest = history.points.iter().map(|point| of(&point.max)).max().unwrap_or(0);
        let mean = means.iter().sum::<f64>() / means.len().max(1) as f64;
        let (mean, largest) = (mean * 100.0, f64::from(largest) / most * 100.0);
        format!("{name:<6} {} {mean:.0}% on average, {largest:.0}% at most", bars(&means, Some(1.0)))
    };
    let mut lines = vec![
        line("CPUs", |load| load.cpus, nodes.cpus_total),
        line("memory", |load| load.memory_mib, nodes.memory_total_mib),
    ];
    if nodes.gpus_total > 0 {
        lines.push(line("GPUs", |load| load.gpus, nodes.gpus_total));
    }
    lines.join("\n")
}

/// A bar for each value, the last ones where there are many; `most` is the height of the highest, else the largest value.
pub(crate) fn bars(values: &[f64], most: Option<f64>) -> String {
    let values = &values[values.len().saturating_sub(LINE_MAX)..];
    let most = most.unwrap_or_else(|| values.iter().copied().fold(0.0, f64::max)).max(1e-9);
    let bar = |value: &f64| BARS[((value / most * 8.0) as usize).min(7)];
    values.iter().map(bar).collect()
}

/// A number of CPUs or GPUs that is told in 1/1000.
pub(crate) fn cpus(thousandths: u64) -> String {
    format!("{:.2}", thousandths as f64 / 1000.0)
}

fn thousandths(number: u64) -> f64 {
    number as f64 / 1000.0
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use hq_model::{Instance, Timestamp, WorkerId};

    use super::*;

    const SECOND: u64 = 1_000_000;

    /// A task that uses more and more.
    pub(crate) fn used(start: Timestamp) -> TaskUse {
        let mut used = TaskUse::new(WorkerId(4), Instance(0), start);
        for step in 1..=9_u64 {
            let load = TaskLoad {
                cpus: 500 * step,
                memory_bytes: step << 28,
                cpu_us: step * 20 * SECOND,
                read_bytes: step << 24,
                written_bytes: step << 20,
                processes: 3,
            };
            used.push(Timestamp(start.0 + step * 10 * SECOND), load);
        }
        used
    }

    /// A node that was busy for a while.
    pub(crate) fn history(now: Timestamp) -> LoadHistory {
        let load = |step: u32| NodeLoad {
            cpus: 100 * (step % 40),
            memory_mib: 1024 * (step % 16),
            gpus: 250,
            gpu_memory: 500,
            network_kib: 1000,
            disk_kib: 10,
        };
        let points = (0..30_u32).map(|step| LoadPoint {
            start: Timestamp(now.0 - u64::from(30 - step) * 60 * SECOND),
            count: 6,
            mean: load(step),
            max: load(step + 1),
        });
        let tasks = TasksSum {
            count: 2,
            load: TaskLoad { cpus: 1500, memory_bytes: 3 << 30, ..TaskLoad::default() },
        };
        let nodes = NodesLoad {
            nodes: 1,
            load: load(29),
            cpus_total: 4000,
            memory_total_mib: 16 << 10,
            gpus_total: 1000,
            tasks,
        };
        LoadHistory { worker: None, now, nodes, step: Duration::from_secs(60), points: points.collect() }
    }

    #[test]
    fn bars_are_as_high_as_values() {
        assert_eq!(bars(&[0.0, 0.5, 1.0, 2.0], Some(1.0)), "▁▅██");
        assert_eq!(bars(&[1.0, 4.0], None), "▃█");
        assert_eq!((bars(&[], None), bars(&[0.0], None)), (String::new(), "▁".to_owned()));
        assert_eq!(bars(&[1.0; 1000], None).chars().count(), LINE_MAX);
    }

    #[test]
    fn loads_are_shown() {
        let start = Timestamp(1_700_000_000 * SECOND);
        insta::assert_snapshot!("load_lines", lines(&history(start)));
        insta::assert_snapshot!("task_use", task_words(&used(start)));
        insta::assert_json_snapshot!("task_use_json", of_task(&used(start)));
        let mut short = history(start);
        short.points.truncate(1);
        insta::assert_json_snapshot!("load_json", document(&short));
    }
}
