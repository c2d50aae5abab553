//! The allocator: on a simulated cluster in virtual time, and on a real Slurm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use hq_model::allocation::Goal;
use hq_sim::campaign::{Campaign, Measured, play};
use hq_sim::hindsight;
use serde_json::Value;

use crate::cluster::{Bench, Cluster};
use crate::measure::median;
use crate::row::{BoxError, Row};

/// Workloads of the simulated cluster.
const WORKLOADS: u32 = 1_000;
/// Campaigns of a hundred allocations.
const CAMPAIGNS: u32 = 20;
/// Starts on the real Slurm, of each kind.
const STARTS: u32 = 5;
/// Longest wait for a batch job.
const PATIENCE: Duration = Duration::from_secs(60);

/// Drawn workloads, each to the end of its last allocation.
///
/// # Errors
/// When one breaks a promise.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(WORKLOADS);
    let mut sum = Measured { excess: i64::MIN, ..Measured::default() };
    let mut parts = 0.0;
    for seed in 0..count {
        let one = played(Campaign::draw(seed.into()))?;
        sum.time.add(&one.time);
        sum.started += one.started;
        sum.excess = sum.excess.max(one.excess - one.backlog);
        parts += one.ideal_us as f64 / one.took_us.max(1) as f64;
    }
    let idle = sum.time.idle_us as f64 / sum.time.asked_us.max(1) as f64;
    let (over, part) = (sum.excess.max(0) as f64, parts / f64::from(count));
    let allocations = sum.started;
    let text = format!("{:.1} % of {allocations} allocations", idle * 100.0);
    Ok(vec![
        Row::at_most("allocations: idle node time", text, "5 % of what is asked for", idle / 0.05, 1.0),
        Row::at_most("allocations: too many", format!("{over} at the worst"), "needed + backlog", over, 0.0),
        Row::at_most(
            "allocations: work done",
            format!("{:.1} % of the ideal", part * 100.0),
            "95 % of one that knows the waits",
            0.95 / part,
            1.0,
        ),
    ])
}

/// Node time of the rule by which workers are asked for, on workloads with short tasks and bursts among them.
///
/// # Errors
/// None.
pub(crate) fn hindsight(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let workloads = u64::from(bench.tasks(WORKLOADS));
    let rows = [(Goal::Makespan, "hindsight: makespan"), (Goal::NodeHours, "hindsight: nodehours")].map(
        |(goal, name)| {
            let all = hindsight::compared(goal, workloads);
            let ratio = all.cost as f64 / all.least.max(1) as f64;
            let text = format!(
                "{:+.1} % node time; of the workloads {} % that no fixed number beats by 10 % in time and node time, {} % \
                 within 10 % of those that take no longer, {} % of those that take 10 % longer; {} % of the time with \
                 plenty of workers",
                (ratio - 1.0) * 100.0,
                all.unbeaten,
                all.as_soon,
                all.as_good,
                all.longer
            );
            let target = "10 % more than the best fixed number that takes as long";
            Row::at_most(name, text, target, ratio / 1.1, 1.0)
        },
    );
    Ok(rows.into())
}

/// Campaigns of a hundred allocations, one after the other.
///
/// # Errors
/// When one breaks a promise.
pub(crate) fn commands(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let (mut accepted, mut submits, mut questions) = (0, 0, 0);
    let count = bench.tasks(CAMPAIGNS);
    let mut each = 0.0f64;
    for seed in 0..count {
        let one = played(Campaign::long(seed.into()))?;
        accepted += one.accepted;
        submits += one.submits;
        questions = questions.max(one.questions);
        each = each.max(f64::from(one.submits) / f64::from(one.accepted.max(1)));
    }
    let (allocations, submits) = (accepted / count, submits / count);
    Ok(vec![
        Row::at_most(
            "campaign: submits",
            format!("{submits} for {allocations} allocations"),
            "1 each",
            each,
            1.0,
        ),
        Row::at_most(
            "campaign: status calls",
            format!("{questions} at the worst"),
            "fewer than 10",
            f64::from(questions) / 9.0,
            1.0,
        ),
    ])
}

fn played(campaign: Campaign) -> Result<Measured, BoxError> {
    play(campaign).map_err(|failure| {
        format!("seed {} after {} µs: {}", failure.seed, failure.at_us, failure.what).into()
    })
}

/// Left out where Slurm is not installed. The first task without a worker, and the same script with `sbatch`, in
/// turns.
///
/// # Errors
/// When one does not start.
pub(crate) fn slurm(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let Some(slurm) = Slurm::start(&[])? else { return Ok(Vec::new()) };
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    for turn in 0..bench.tasks(10 * STARTS).div_ceil(10) {
        plain.push(slurm.plain(turn)?);
        // A server and a queue for each turn: no worker of before is there.
        let cluster = bench.cluster_in(&[("SLURM_CONF", &slurm.conf)], &[], 0, &[])?;
        cluster.run(&["alloc", "add", "slurm", "--time-limit", "5m", "--", "--partition=cpu"])?;
        let mark = cluster.home().join("mark");
        let begun = SystemTime::now();
        let command = format!("date +%s.%N >{0}.new; mv {0}.new {0}", mark.display());
        cluster.run(&["submit", "--", "sh", "-c", &command])?;
        ours.push(since(begun, &mark)?);
        drop(cluster);
    }
    let (plain, ours) = (median(plain), median(ours));
    let value = format!("{ours:.2} s, sbatch {plain:.2} s");
    Ok(vec![Row::at_most("slurm", value, "1 s more than sbatch", ours - plain, 1.0)])
}

/// Nodes of the real Slurm that workloads get.
const NODES: u64 = 4;
/// Idle timeout of their workers.
const IDLE: Duration = Duration::from_secs(5);

/// Work for the real Slurm: so many times an array, with pauses.
struct Work {
    name: &'static str,
    /// Each has its part of the nodes.
    queues: u64,
    times: u32,
    pause: Duration,
    tasks: u64,
    each: Duration,
    /// A task takes a node, not a CPU.
    takes_all: bool,
}

const WORKS: [Work; 3] = [
    Work {
        name: "slurm: 200 tasks of 1 s",
        queues: 2,
        times: 1,
        pause: Duration::ZERO,
        tasks: 200,
        each: Duration::from_secs(1),
        takes_all: false,
    },
    Work {
        name: "slurm: bursts of 20 x 0.5 s",
        queues: 1,
        times: 6,
        pause: Duration::from_secs(12),
        tasks: 20,
        each: Duration::from_millis(500),
        takes_all: false,
    },
    Work {
        name: "slurm: five tasks of 40 s",
        queues: 1,
        times: 1,
        pause: Duration::ZERO,
        tasks: 5,
        each: Duration::from_secs(40),
        takes_all: true,
    },
];

/// Left out where Slurm is not installed. Node time of short tasks, bursts and long tasks, against fixed numbers of workers
/// without any cost but their start and their idle time.
///
/// # Errors
/// When one does not end.
pub(crate) fn slurm_work(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let nodes = NODES.to_string();
    let Some(slurm) = Slurm::start(&["--nodes", &nodes, "--gpu-nodes", "0"])? else { return Ok(Vec::new()) };
    WORKS.iter().map(|work| worked(bench, &slurm, work)).collect()
}

fn worked(bench: &Bench, slurm: &Slurm, work: &Work) -> Result<Row, BoxError> {
    let cluster = bench.cluster_in(&[("SLURM_CONF", &slurm.conf)], &[], 0, &[])?;
    let (most, idle) = ((NODES / work.queues).to_string(), format!("{}s", IDLE.as_secs()));
    for _ in 0..work.queues {
        let limits = ["--backlog=4", "--time-limit=5m", "--max-worker-count", &most, "--idle-timeout", &idle];
        let slurms = ["--", "--exclusive", "--partition=cpu"];
        cluster.run(&[&["alloc", "add", "slurm"][..], &limits, &slurms].concat())?;
    }
    let (ids, seconds) = (format!("1-{}", work.tasks), work.each.as_secs_f64().to_string());
    let cpus = if work.takes_all { "all" } else { "1" };
    let (begun, mut bursts) = (Instant::now(), Vec::new());
    for time in 0..work.times {
        bursts.push((begun.elapsed(), work.tasks, work.each));
        cluster.run(&["submit", "--wait", "--array", &ids, "--cpus", cpus, "--", "sleep", &seconds])?;
        if time + 1 < work.times {
            thread::sleep(work.pause);
        }
    }
    let took = begun.elapsed();
    let (allocations, held, idle) = node_seconds(&cluster, work.queues)?;
    // A worker offers no more CPUs than this machine has.
    let slots = if work.takes_all { 1 } else { thread::available_parallelism()?.get().min(4) as u64 };
    let fixed = hindsight::fixed(&bursts, (NODES, slots), IDLE);
    let least = fixed.iter().filter(|(end, _)| *end <= took).map(|(_, node)| node.as_secs_f64());
    let least = least.fold(f64::INFINITY, f64::min);
    let value = format!(
        "{:.0} s, {allocations} allocations, {held:.0} node s, of which {:.0} % idle; the best fixed number {least:.0} node s",
        took.as_secs_f64(),
        100.0 * idle / held
    );
    Ok(Row::at_most(work.name, value, "10 % more than that", held / least / 1.1, 1.0))
}

// How many allocations there were, what they held and what was idle of it, when the last one has ended.
fn node_seconds(cluster: &Cluster, queues: u64) -> Result<(usize, f64, f64), BoxError> {
    let json = |args: &[&str]| -> Result<Value, BoxError> {
        Ok(serde_json::from_str(&cluster.read(&[args, &["--output-mode", "json"]].concat())?)?)
    };
    let begun = Instant::now();
    loop {
        let mut allocations = Vec::new();
        for queue in 1..=queues {
            let all = json(&["alloc", "info", &queue.to_string()])?;
            allocations.extend(all.as_array().cloned().unwrap_or_default());
        }
        if allocations.iter().all(|one| one["status"] == "finished") {
            let queues = json(&["alloc", "list"])?;
            let sum = |part: &str| -> f64 {
                let hours = queues.as_array().into_iter().flatten().map(|queue| &queue["node_hours"][part]);
                hours.filter_map(Value::as_f64).sum::<f64>() * 3600.0
            };
            return Ok((allocations.len(), sum("used") + sum("idle") + sum("lost"), sum("idle")));
        }
        if begun.elapsed() > PATIENCE {
            return Err("allocations did not end".into());
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// The cluster of `tests/slurm`.
struct Slurm {
    dir: PathBuf,
    conf: String,
}

impl Slurm {
    // None, with a line that says so, where Slurm is not installed.
    fn start(options: &[&str]) -> Result<Option<Slurm>, BoxError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |program: &&str| std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
        if !["slurmctld", "slurmd", "sbatch", "python3"].iter().all(is_there) {
            eprintln!("left out: slurm: install slurm-wlm and python3");
            return Ok(None);
        }
        let dir = tempfile::Builder::new().prefix("hq-bench").tempdir()?.keep();
        let mut slurm = Slurm { conf: String::new(), dir };
        let owner = std::process::id().to_string();
        slurm.tell("up", &[&["--owner", &owner][..], options].concat())?;
        // As the cluster itself says it: its directory may be reached by a shorter name.
        let text = fs::read_to_string(slurm.dir.join("env.sh"))?;
        let conf = text.trim().trim_start_matches("export SLURM_CONF='").trim_end_matches('\'');
        slurm.conf = conf.to_owned();
        Ok(Some(slurm))
    }

    fn tell(&self, verb: &str, args: &[&str]) -> Result<(), BoxError> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/slurm/cluster.py");
        let output = Command::new("python3").arg(script).arg(verb).arg(&self.dir).args(args).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("cluster.py {verb}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }

    // From `sbatch` to the first line of its script.
    fn plain(&self, turn: u32) -> Result<Duration, BoxError> {
        let mark = self.dir.join(format!("mark-{turn}"));
        let script = self.dir.join(format!("script-{turn}"));
        fs::write(&script, format!("#!/bin/sh\ndate +%s.%N >{0}.new\nmv {0}.new {0}\n", mark.display()))?;
        let begun = SystemTime::now();
        let status = Command::new("sbatch")
            .args(["--partition=cpu", "--output=/dev/null", "--time=5"])
            .arg(&script)
            .env("SLURM_CONF", &self.conf)
            .stdout(std::process::Stdio::null())
            .status()?;
        if !status.success() {
            return Err(format!("sbatch ended with {status}").into());
        }
        since(begun, &mark)
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        if let Err(error) = self.tell("down", &[]) {
            eprintln!("error: {error}");
        }
    }
}

// From then until the time that a script has written.
fn since(begun: SystemTime, mark: &Path) -> Result<Duration, BoxError> {
    let waited = Instant::now();
    while !mark.exists() {
        if waited.elapsed() > PATIENCE {
            return Err(format!("{} was not written", mark.display()).into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    let at: f64 = fs::read_to_string(mark)?.trim().parse()?;
    let begun = begun.duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
    Ok(Duration::from_secs_f64((at - begun).max(0.0)))
}
