//! What looking at a node and at its tasks costs a worker: CPU time of the thread that does it.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::cluster::Bench;
use crate::row::{BoxError, Row};

/// Tasks that are looked at.
const TASKS: u32 = 128;
/// How often is looked here, and how often a worker looks unless it is told.
const INTERVAL: Duration = Duration::from_millis(100);
const USUAL_S: f64 = 10.0;
/// How long is looked.
const WATCHED: Duration = Duration::from_secs(20);

/// CPU time for 128 tasks, looked at as often as is usual.
///
/// # Errors
/// When the worker has no such thread.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let cpus = TASKS.to_string();
    let cluster = bench.cluster(&[], 1, &["--cpus", &cpus, "--sample-interval", "100ms"])?;
    let ids = format!("1-{TASKS}");
    cluster.run(&["submit", "--array", &ids, "--stdout=none", "--stderr=none", "--", "sleep", "1000"])?;
    let running = || -> Result<u64, BoxError> {
        let info: serde_json::Value =
            serde_json::from_str(&cluster.read(&["worker", "info", "1", "--output-mode", "json"])?)?;
        Ok(info[0]["tasks_now"]["count"].as_u64().unwrap_or(0))
    };
    while running()? < TASKS.into() {
        sleep(INTERVAL);
    }
    let watched = if bench.is_quick { WATCHED / 10 } else { WATCHED };
    let pid = cluster.worker_pid();
    let before = thread_cpu_s(pid).ok_or("the worker has no thread that samples")?;
    sleep(watched);
    let cpu = thread_cpu_s(pid).ok_or("the thread that samples has ended")? - before;
    let look = cpu / (watched.as_secs_f64() / INTERVAL.as_secs_f64());
    let part = look / USUAL_S;
    Ok(vec![Row::at_most(
        &format!("sampling: {TASKS} tasks"),
        format!("{:.3} % of a core, {:.2} ms a look", part * 100.0, look * 1e3),
        "below 0.5 % of a core",
        part / 0.005,
        1.0,
    )])
}

// CPU time of the thread, as finely as the scheduler counts it.
fn thread_cpu_s(pid: u32) -> Option<f64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of = |path: std::path::PathBuf| {
        let name = fs::read_to_string(path.join("comm")).ok()?;
        let ns = fs::read_to_string(path.join("schedstat")).ok()?;
        let ns: f64 = ns.split_whitespace().next()?.parse().ok()?;
        (name.trim() == "sampling").then_some(ns / 1e9)
    };
    threads.flatten().find_map(|thread| of(thread.path()))
}
