//! How long a round of planning takes, in this process.

use std::time::Instant;

use hq_model::amount::UNITS;
use hq_model::{
    Amount, AmountRequest, Policy, PoolKind, Request, ResourcePool, ResourceRequest, WorkerId,
    WorkerResources,
};
use hq_sched::{Class, ClassId, Options, PoolFree, Snapshot, Worker, all_free, plan};

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
        if let PoolFree::Sum(amount) = &mut worker.free[1] {
            *amount = Amount(amount.0 - at as u64 * UNITS);
        }
    }
    Ok(vec![
        row("planning: 1 000 classes", &alike, "50 ms", 0.05),
        row("planning: filled differently", &uneven, "50 ms", 0.05),
        row("planning: one class", &snapshot(1, 10_000, &[(100_000, 1, 100)]), "5 ms", 0.005),
    ])
}

fn row(name: &str, snapshot: &Snapshot, target: &str, most_s: f64) -> Row {
    let mut placed = 0;
    let round = |_| {
        let begun = Instant::now();
        placed = plan(snapshot, &Options::default()).lines.iter().map(|line| line.count).sum();
        begun.elapsed()
    };
    let seconds = median((0..ROUNDS).map(round).collect());
    let value = format!("{:.1} ms, {placed} tasks placed", seconds * 1e3);
    Row::at_most(name, value, target, seconds / most_s, 1.0)
}

fn snapshot(shapes: u32, workers: u32, classes: &[(u64, u64, u64)]) -> Snapshot {
    let pool = |name: &str, kind| ResourcePool { name: name.into(), kind };
    let shape = |at: u32| {
        let cpus = pool("cpus", PoolKind::Range { first: 0, last: 15 + 8 * at });
        let mem = pool("mem", PoolKind::Sum(Amount::whole(64_000 + 8_000 * u64::from(at))));
        WorkerResources { pools: vec![cpus, mem], coupling: Vec::new() }
    };
    let shapes: Vec<WorkerResources> = (0..shapes).map(shape).collect();
    let worker = |at: u32| {
        let shape = at % shapes.len() as u32;
        let free = all_free(&shapes[shape as usize]);
        Worker {
            id: WorkerId(at + 1),
            shape,
            free,
            life_us: None,
            group: 0,
            ends: Vec::new(),
            keys: Vec::new(),
        }
    };
    let class = |(at, &(ready, cpus, mem)): (usize, &(u64, u64, u64))| {
        let part = |name: &str, count| ResourceRequest {
            name: name.into(),
            amount: AmountRequest::Some(Amount(count * UNITS), Policy::Compact),
        };
        let resources = vec![part("cpus", cpus), part("mem", mem)];
        Class {
            id: ClassId(at as u32),
            ready,
            priority: 0,
            path_us: 0,
            age: at as u64,
            variants: vec![Request { resources, weight: 10_000, ..Request::default() }],
            share: None,
            key: None,
            expected_us: None,
            waiting_us: 0,
        }
    };
    let classes = classes.iter().enumerate().map(class).collect();
    Snapshot { workers: (0..workers).map(worker).collect(), shapes, classes, shares: Vec::new() }
}
