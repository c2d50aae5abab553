//! How long a round of planning takes, in this process, for snapshots as the server makes them.

use std::time::Instant;

use hq_model::amount::UNITS;
use hq_model::{Amount, WorkerId};
use hq_sched::limits::STEPS;
use hq_sched::{Class, ClassId, Shape, Snapshot, Take, Variant, Worker, plan};

use crate::cluster::Bench;
use crate::measure::median;
use crate::row::{BoxError, Row};

const ROUNDS: usize = 9;

/// Rounds over 10 000 workers.
///
/// # Errors
/// None.
#[allow(clippy::unnecessary_wraps)]
pub(crate) fn run(_: &Bench) -> Result<Vec<Row>, BoxError> {
    let mixed: Vec<(u64, u64, u64)> =
        (0..1_000).map(|at| (1 + at * 7 % 211, 1 + at % 12, 100 + at * 37 % 4_000)).collect();
    let alike = snapshot(10, 10_000, &mixed);
    let mut uneven = alike.clone();
    for (at, worker) in uneven.workers.iter_mut().enumerate() {
        worker.free[1].0 -= at as u64 * UNITS;
    }
    // Of one class nobody asks the planner.
    let two = snapshot(1, 10_000, &[(100_000, 1, 100), (100_000, 2, 100)]);
    Ok(vec![
        row("planning: 1 000 classes", &alike, "50 ms", 0.05),
        row("planning: filled differently", &uneven, "50 ms", 0.05),
        row("planning: two classes", &two, "5 ms", 0.005),
    ])
}

fn row(name: &str, snapshot: &Snapshot, target: &str, most_s: f64) -> Row {
    let mut placed = 0;
    let round = |_| {
        let begun = Instant::now();
        placed = plan(snapshot, STEPS).lines.iter().map(|line| line.count).sum();
        begun.elapsed()
    };
    let seconds = median((0..ROUNDS).map(round).collect());
    let value = format!("{:.1} ms, {placed} tasks placed", seconds * 1e3);
    Row::at_most(name, value, target, seconds / most_s, 1.0)
}

// Ready tasks of each class with their CPUs and memory, in the order in which the server has them.
fn snapshot(shapes: u32, workers: u32, classes: &[(u64, u64, u64)]) -> Snapshot {
    let shape = |at: u64| Shape {
        totals: vec![Amount::whole(16 + 8 * at), Amount::whole(64_000 + 8_000 * at)],
        givers: vec![Some(0), Some(1)],
    };
    let shapes: Vec<Shape> = (0..shapes.into()).map(shape).collect();
    let worker = |at: u32| {
        let shape = at % shapes.len() as u32;
        let free = shapes[shape as usize].totals.clone();
        Worker { id: WorkerId(at + 1), shape, free, life_us: None }
    };
    let workers: Vec<Worker> = (0..workers).map(worker).collect();
    let all = |pool: usize| workers.iter().map(|worker| worker.free[pool].0 / UNITS).sum::<u64>();
    let (all_cpus, all_mem, count) = (all(0), all(1), classes.len() as u64);
    let class = |(at, &(ready, cpus, mem)): (u32, &(u64, u64, u64))| {
        let takes = [cpus, mem].map(|amount| Take::Some(Amount::whole(amount)));
        // Worth what it takes of what is scarcest, and up to a tenth more for what comes first.
        let part = (cpus * 100_000_000 / all_cpus).max(mem * 100_000_000 / all_mem);
        let weight = part * (11 * count - u64::from(at)) / (10 * count);
        let variant = Variant { weight: weight as u32, takes: (0..).zip(takes).collect(), time_us: 0 };
        Class { id: ClassId(at), ready, variants: vec![variant], share: None }
    };
    let classes = (0..).zip(classes).map(class).collect();
    Snapshot { shapes, workers, classes, shares: Vec::new() }
}
