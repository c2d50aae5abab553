//! `hq job efficiency`.

use std::io::Write;
use std::time::Duration;

use hq_model::{Amount, counted, memory};
use serde_json::{Value, json};

use super::json::SCHEMA_VERSION;
use super::style::{Color, Style};
use super::table::{self, Cell};
use super::{Report, json, text};
use crate::efficiency::{KINDS_MAX, Kind};
use crate::error::HqError;
use crate::report::Efficiency;

const HEADER: [&str; 6] =
    ["Tasks", "Ask for", "CPU used", "Memory of 99 %", "Time of 99 %", "Enough would be"];
/// Below this part of the CPU time that was asked for, it is pointed out.
const LOW: f64 = 0.5;
/// Fewer node hours are not worth a line.
const SAVED_SHOWN: f64 = 0.01;

impl Report for Efficiency {
    fn cli(&mut self, out: &mut dyn Write, style: Style) -> Result<(), HqError> {
        if self.kinds.is_empty() {
            return Ok(writeln!(out, "No task of these jobs has finished, so there is nothing to compare")?);
        }
        let with_cost = |kind: &Kind| {
            let cost = self.cost.map(|price| {
                let hours = kind.node_hours();
                [format!("{hours:.3}").into(), format!("{:.2}", hours * price).into()]
            });
            row(kind).into_iter().chain(cost.into_iter().flatten()).collect()
        };
        let rows: Vec<Vec<Cell>> = self.kinds.iter().map(with_cost).collect();
        let mut header = HEADER.to_vec();
        header.extend(self.cost.iter().flat_map(|_| ["Node hours", "Cost"]));
        table::table(out, style, &header, &rows)?;
        if let Some(price) = self.cost {
            let hours: f64 = self.kinds.iter().map(Kind::node_hours).sum();
            writeln!(out, "{hours:.3} node hours were used, which cost {:.2}", hours * price)?;
            let unknown: u64 = self.kinds.iter().map(|kind| kind.measured - kind.on_known).sum();
            if unknown > 0 {
                let tasks = counted(unknown, "task");
                writeln!(out, "Not including {tasks} whose workers have been forgotten")?;
            }
        }
        if let Some(watts) = self.watts_per_cpu {
            let joules: f64 = self.kinds.iter().map(|kind| kind.cpu_seconds() * watts).sum();
            writeln!(out, "{} were used, estimated at {watts} W per CPU", text::energy(joules))?;
        }
        let unused: f64 = self.kinds.iter().filter_map(Kind::core_hours_unused).sum();
        if unused >= 0.1 {
            writeln!(out, "{unused:.1} core hours were requested but not used")?;
        }
        let saved: f64 = self.kinds.iter().map(Kind::node_hours_saved).sum();
        if saved >= SAVED_SHOWN {
            let hours: f64 = self.kinds.iter().map(Kind::node_hours).sum();
            writeln!(
                out,
                "{saved:.2} of {hours:.2} node hours would have been saved by requesting what would be enough"
            )?;
        }
        if self.left_out > 0 {
            let tasks = counted(self.left_out, "task");
            writeln!(out, "{tasks} of more than {KINDS_MAX} kinds are not shown")?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let with_cost = |kind: &Kind| {
            let mut document = document(kind);
            if let Some(price) = self.cost {
                document["used"]["node_hours"] = kind.node_hours().into();
                document["used"]["tasks_with_node_hours"] = kind.on_known.into();
                document["cost"] = (kind.node_hours() * price).into();
            }
            if let Some(watts) = self.watts_per_cpu {
                document["used"]["energy_estimated_joules"] = (kind.cpu_seconds() * watts).into();
            }
            document
        };
        let kinds: Vec<Value> = self.kinds.iter().map(with_cost).collect();
        let document =
            json!({ "schema_version": SCHEMA_VERSION, "kinds": kinds, "tasks_left_out": self.left_out });
        Ok(json::write(out, &document)?)
    }

    // One line a kind: tasks, part of the CPU time used, MiB and seconds of 99 % of them, and what they ask for.
    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        for kind in &self.kinds {
            let part = kind.cpu_part().map_or_else(|| "-".to_owned(), |part| format!("{part:.3}"));
            let (memory, time) = (kind.memory_used_mib().0, kind.time_used_us().0 as f64 / 1e6);
            writeln!(out, "{} {part} {memory} {time:.3} {}", kind.tasks, text::one_line(&kind.asks))?;
        }
        Ok(())
    }
}

fn row(kind: &Kind) -> Vec<Cell> {
    let tasks = match kind.failed {
        0 => kind.tasks.to_string(),
        failed => format!("{}, {failed} failed", kind.tasks),
    };
    if kind.measured == 0 {
        let nothing = || Cell::from("not measured");
        return vec![tasks.into(), kind.asks.clone().into(), nothing(), nothing(), nothing(), "".into()];
    }
    let cpu = match kind.cpu_part() {
        Some(part) if part < LOW => Cell::colored(percent(part), Color::Yellow),
        Some(part) => percent(part).into(),
        None => format!("{} h", hours(kind.cpu_us)).into(),
    };
    let (memory_99, memory_max) = kind.memory_used_mib();
    let (time_99, time_max) = kind.time_used_us();
    vec![
        tasks.into(),
        kind.asks.clone().into(),
        cpu,
        format!("{} (at most {})", mib(memory_99), mib(memory_max)).into(),
        format!("{} (at most {})", seconds(time_99), seconds(time_max)).into(),
        advice(kind).into(),
    ]
}

// Options of a submit that would have been enough for 99 of 100, where they differ from what was asked for.
fn advice(kind: &Kind) -> String {
    let mut words = Vec::new();
    if let (Some(asked), Some(enough)) = (kind.cpus, kind.cpus_advised())
        && enough < asked
    {
        words.push(format!("--cpus {enough}"));
    }
    if let Some(enough) = kind.memory_advised_mib()
        && kind.memory_mib.is_some_and(|asked| (enough as f64) < asked || enough as f64 > asked * 1.25)
    {
        words.push(format!("--mem {}", mib(enough).replace(' ', "")));
    }
    if words.is_empty() { "as it is".to_owned() } else { words.join(" ") }
}

fn document(kind: &Kind) -> Value {
    let (memory_99, memory_max) = kind.memory_used_mib();
    let (time_99, time_max) = kind.time_used_us();
    let bytes = |mib: u64| mib.saturating_mul(1 << 20);
    let is_known = kind.measured > 0;
    json!({
        "asks": kind.asks,
        "first_job": kind.jobs.0.0,
        "last_job": kind.jobs.1.0,
        "tasks": kind.tasks,
        "failed": kind.failed,
        "measured": kind.measured,
        "asked": {
            "cpus": kind.cpus,
            "memory_bytes": kind.memory_mib.map(|mib| (mib * 1_048_576.0) as u64),
            "time": kind.time_us.map(|us| us as f64 / 1e6),
        },
        "used": {
            "wall_sum": kind.wall_us as f64 / 1e6,
            "cpu_sum": kind.cpu_us as f64 / 1e6,
            "cpu_part": kind.cpu_part(),
            "memory_bytes_99": is_known.then(|| bytes(memory_99)),
            "memory_bytes_max": is_known.then(|| bytes(memory_max)),
            "time_99": is_known.then(|| time_99 as f64 / 1e6),
            "time_max": is_known.then(|| time_max as f64 / 1e6),
            "core_hours_unused": kind.core_hours_unused(),
        },
        "enough": {
            "cpus": kind.cpus_advised(),
            "memory_bytes": kind.memory_advised_mib().map(bytes),
            "node_hours_saved": kind.node_hours_saved(),
        },
    })
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

fn hours(us: u128) -> String {
    format!("{:.1}", us as f64 / 3.6e9)
}

fn mib(mib: u64) -> String {
    memory::format(Amount::whole(mib))
}

fn seconds(us: u64) -> String {
    let time = Duration::from_micros(us);
    match us {
        0..1_000_000 => format!("{} ms", us.div_ceil(1000)),
        1_000_000..10_000_000 => format!("{:.1}s", time.as_secs_f64()),
        _ => hq_model::duration::format(Duration::from_secs(time.as_secs())),
    }
}
