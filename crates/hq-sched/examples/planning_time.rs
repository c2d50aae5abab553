//! How long a round takes, in milliseconds, and how much longer than one plain pass over the same snapshot.
//!
//! `cargo run --release -p hq-sched --example planning_time`

use std::io::Write;
use std::time::{Duration, Instant};

use hq_model::amount::UNITS;
use hq_model::{
    Amount, AmountRequest, Policy, PoolKind, Request, ResourcePool, ResourceRequest, WorkerId,
    WorkerResources,
};
use hq_sched::{Class, ClassId, Options, PoolFree, Snapshot, Worker, all_free, plan};

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

// Reads every number of the snapshot once.
fn pass(snapshot: &Snapshot) -> u64 {
    let free = |free: &PoolFree| match free {
        PoolFree::Sum(amount) => amount.0,
        PoolFree::Groups(groups) => groups.iter().map(|g| u64::from(g.whole) + g.partial.len() as u64).sum(),
    };
    let workers: u64 = snapshot.workers.iter().flat_map(|w| &w.free).map(free).sum();
    let needs = snapshot.classes.iter().flat_map(|c| &c.variants).map(|v| v.resources.len() as u64);
    workers + needs.sum::<u64>()
}

fn best(rounds: u32, mut run: impl FnMut() -> u64) -> Duration {
    let time = |_| {
        let start = Instant::now();
        std::hint::black_box(run());
        start.elapsed()
    };
    (0..rounds).map(time).min().unwrap_or_default()
}

fn main() -> std::io::Result<()> {
    let mixed = |count: u64| -> Vec<(u64, u64, u64)> {
        (0..count).map(|at| (1 + at * 7 % 211, 1 + at % 12, 100 + at * 37 % 4_000)).collect()
    };
    let mut uneven = snapshot(10, 10_000, &mixed(1_000));
    for (at, worker) in uneven.workers.iter_mut().enumerate() {
        if let PoolFree::Sum(amount) = &mut worker.free[1] {
            *amount = Amount(amount.0 - at as u64 * UNITS);
        }
    }
    let mut out = std::io::stdout().lock();
    for (name, snapshot) in [
        ("1 000 classes, 10 000 workers in 10 shapes", snapshot(10, 10_000, &mixed(1_000))),
        ("the same, each worker filled differently", uneven),
        ("100 000 tasks of one class, 10 000 workers", snapshot(1, 10_000, &[(100_000, 1, 100)])),
        ("100 000 distinct classes, 1 000 workers", snapshot(10, 1_000, &mixed(100_000))),
    ] {
        let planned = plan(&snapshot, &Options::default());
        let placed: u64 = planned.lines.iter().map(|line| line.count).sum();
        let round = best(5, || plan(&snapshot, &Options::default()).lines.len() as u64);
        let plain = best(5, || pass(&snapshot));
        writeln!(
            out,
            "{name}: {:.2} ms, {:.0} times a plain pass; {placed} tasks placed, {} classes deferred",
            round.as_secs_f64() * 1e3,
            round.as_secs_f64() / plain.as_secs_f64().max(1e-9),
            planned.deferred
        )?;
    }
    Ok(())
}
