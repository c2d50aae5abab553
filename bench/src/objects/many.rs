//! Many small objects: how fast they move, and what the server needs for each.

use std::time::Duration;

use super::rig::Rig;
use crate::cluster::Bench;
use crate::measure::memory_mb;
use crate::row::{BoxError, Row};

/// Objects of a task.
const EACH: u32 = 50;
/// Objects that move.
const OBJECTS: u32 = 20_000;
/// Bytes of each of these.
const SIZE: u64 = 20 << 10;
/// So many a second are asked for.
const RATE: f64 = 10_000.0;
/// Objects for which the memory of the server is measured.
const STORED: u32 = 100_000;
/// Bytes that each of these may take there.
const BYTES_MAX: f64 = 120.0;

/// Objects of 20 KiB, left by tasks on one worker and taken by as many on another. The time of as many tasks without objects is
/// taken off.
///
/// # Errors
/// When the cluster does not do what it should.
pub(super) fn moved(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let objects = bench.tasks(OBJECTS);
    let tasks = objects / EACH;
    let mut rig = Rig::start(bench, 2)?;
    rig.file("small", SIZE)?;
    let (_, none) = rig.job(tasks, "at0", &[], &["true"])?;
    let (from, left) = rig.job(tasks, "at0", &outputs(), &["true"])?;
    let (_, taken) = rig.job(tasks, "at1", &inputs(from), &["true"])?;
    let row = |name: &str, took: Duration| {
        let rate = f64::from(objects) / took.saturating_sub(none).as_secs_f64();
        let value = format!("{rate:.0}/s; {tasks} tasks {:.2} s, else {:.2} s", secs(took), secs(none));
        Row::at_most(name, value, &format!("{RATE:.0} objects/s"), RATE / rate, 1.0)
    };
    Ok(vec![row("objects: many, left", left), row("objects: many, taken", taken)])
}

/// Memory of the server for objects of a byte, beside as many tasks without any.
///
/// # Errors
/// When the cluster does not do what it should.
pub(super) fn memory(bench: &Bench) -> Result<Row, BoxError> {
    let objects = if bench.is_quick { STORED / 5 } else { STORED };
    let mut rig = Rig::start(bench, 1)?;
    rig.file("small", 1)?;
    let mut used = Vec::new();
    for options in [vec![], vec![], outputs()] {
        rig.job(objects / EACH, "at0", &options, &["true"])?;
        used.push(memory_mb(rig.cluster.server_pid()).0 * 1e6);
    }
    let (tasks, all) = (used[1] - used[0], used[2] - used[1]);
    let each = (all - tasks) / f64::from(objects);
    let value = format!("{each:.0} bytes of the server for one of {objects}");
    let target = format!("{BYTES_MAX:.0} bytes");
    Ok(Row::at_most("objects: memory", value, &target, each / BYTES_MAX, 1.0))
}

fn outputs() -> Vec<String> {
    (0..EACH).map(|number| format!("--output-object=o{number}=small")).collect()
}

fn inputs(from: u32) -> Vec<String> {
    let input =
        |number| format!("--input-object=o{number}={from}@%{{TASK_ID}}:o{number}->in/%{{TASK_ID}}/{number}");
    (0..EACH).map(input).collect()
}

fn secs(time: Duration) -> f64 {
    time.as_secs_f64()
}
