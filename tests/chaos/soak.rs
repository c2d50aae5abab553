//! Millions of null tasks in big arrays and many small jobs for a long time, with faults, and the server's memory.
//!
//! In the first half the server is killed now and then, workers all the time. In the second half the server is left
//! alone, and what it uses must stay what it was. `HQ_SOAK_MINUTES` says for how long (a few seconds by default);
//! `cargo xtask soak` plays an hour.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::{Chance, number, seed};

/// Tasks of the long form.
const TASKS: u64 = 2_000_000;
/// Tasks of the short form, and how long it takes.
const TASKS_SHORT: u64 = 20_000;
const TIME_SHORT: Duration = Duration::from_secs(8);
/// Rounds of the play; each takes as long and submits as much.
const ROUNDS: u64 = 120;
const ROUNDS_SHORT: u64 = 8;
/// Small jobs of a round, and their tasks at most.
const SMALL_JOBS: u64 = 20;
const SMALL_TASKS: u64 = 100;
/// A server that keeps few ended jobs: after a while memory has no reason to grow.
const SERVER: &str = "server start --host localhost --worker-grace 2s --keep-jobs 200";
const WORKER: &str = "worker start --executor null --cpus 4 --heartbeat 500ms";
/// Memory may grow by a tenth and by so much between the third and the last quarter of the time.
const GROWTH_MB: f64 = 4.0;

/// What a play came to.
#[derive(Default)]
struct Totals {
    tasks: u64,
    jobs: u64,
    lost_clients: u64,
    server_kills: u64,
    worker_kills: u64,
}

#[test]
fn a_soak_leaves_the_memory_of_the_server_flat() {
    let (tasks, time, rounds) = match number("HQ_SOAK_MINUTES") {
        Some(minutes) => (TASKS, Duration::from_secs(60 * minutes), ROUNDS),
        None => (TASKS_SHORT, TIME_SHORT, ROUNDS_SHORT),
    };
    let mut chance = Chance(seed());
    let mut cluster = Cluster::start_with(SERVER, WORKER);
    let mut totals = Totals::default();
    // In the quarters of the time.
    let mut most_mb = [0.0f64; 4];
    let mut journal_mb = [0.0f64; 4];
    let begin = Instant::now();
    for round in 0..rounds {
        let due = begin + time * (round as u32 + 1) / rounds as u32;
        let quarter = (round * 4 / rounds) as usize;
        let left = tasks - totals.tasks.min(tasks);
        let small: Vec<u64> = (0..SMALL_JOBS).map(|_| 1 + chance.below(SMALL_TASKS)).collect();
        let big = (left / (rounds - round)).saturating_sub(small.iter().sum()).max(1);
        let mut clients: Vec<(u64, Child)> = Vec::new();
        for count in [big].into_iter().chain(small) {
            clients.push((count, submit(&cluster, count)));
        }
        std::thread::sleep(Duration::from_millis(chance.below(300)));
        match chance.below(4) {
            0 if quarter < 2 => {
                cluster.kill_server();
                totals.server_kills += 1;
            }
            0 | 1 => {
                cluster.kill_worker(chance.below(2) as usize);
                totals.worker_kills += 1;
            }
            _ => {}
        }
        for (count, client) in clients {
            finish(count, client, &mut totals);
        }
        // Sampled once more after the round, until the next one is due.
        loop {
            most_mb[quarter] = most_mb[quarter].max(memory_mb(cluster.server_pid()));
            journal_mb[quarter] = journal_mb[quarter].max(cluster.journal_mb());
            let rest = due.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            std::thread::sleep(rest.min(Duration::from_secs(1)));
        }
    }
    let Totals { tasks: finished, jobs, lost_clients, server_kills, worker_kills } = totals;
    eprintln!(
        "{finished} tasks in {jobs} jobs, {server_kills} servers and {worker_kills} workers killed, \
         {lost_clients} clients lost before an answer, {:.0} s; in the quarters the server had {most_mb:.1?} MB, \
         its journal {journal_mb:.1?} MB",
        begin.elapsed().as_secs_f64()
    );
    assert!(finished >= tasks * 9 / 10, "{finished} of {tasks} tasks were submitted and finished");
    if number("HQ_SOAK_MINUTES").is_some() {
        let [.., before, last] = most_mb;
        assert!(last <= before * 1.1 + GROWTH_MB, "the memory of the server grows: {most_mb:.1?} MB");
    }
}

fn submit(cluster: &Cluster, count: u64) -> Child {
    let mut command = cluster.command();
    command.args(["--output-mode", "quiet", "submit", "--wait", "--array", &format!("1-{count}")]);
    command.args(["--crash-limit", "unlimited", "--stdout", "none", "--stderr", "none", "--", "null"]);
    command.stdout(Stdio::null()).stderr(cluster.client_log()).spawn().expect("hq can be run")
}

// All of a job's tasks have finished, or the server was killed before it could say that it has the job.
fn finish(count: u64, mut client: Child, totals: &mut Totals) {
    match client.wait().expect("a child").code() {
        Some(0) => {
            totals.tasks += count;
            totals.jobs += 1;
        }
        Some(3) => totals.lost_clients += 1,
        other => panic!("`submit --wait` of {count} tasks ended with {other:?}"),
    }
}

fn memory_mb(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: f64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4096.0 / 1e6
}
