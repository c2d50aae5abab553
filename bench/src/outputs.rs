//! What it costs that tasks print: nowhere, into files, into a stream and into a log, against a bare loop that runs the same
//! program.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::bare::{self, Outputs};
use crate::cluster::{Bench, Cluster};
use crate::measure::{cpu_s, cpus, median_of, memory_mb};
use crate::row::{BoxError, Row};

/// Programs that print.
const TASKS: u32 = 10_000;
/// What each of them prints.
const BYTES: usize = 10 << 10;
/// Rounds, in turns.
const ROUNDS: usize = 3;
/// What one task prints into a stream, in KiB.
const LONG_KIB: u32 = 10 << 20;
/// Memory that this may take, in MB.
const LONG_MB: f64 = 8.0;

/// What is printed to be compressed, in MiB.
const TEXT_MIB: u32 = 256;
/// How it is compressed.
const LEVELS: [&str; 4] = ["none", "zstd:1", "zstd:3", "zstd:9"];
/// What `zstd:3` may take, in the worker's CPU time for each second of CPU time without.
const ZSTD_RATIO: f64 = 6.0;

/// Where a task's outputs go.
const KINDS: [(&str, &[&str]); 4] = [
    ("none", &["--stdout=none", "--stderr=none"]),
    ("files", &["--stdout=ours-%{JOB_ID}/%{TASK_ID}.stdout", "--stderr=ours-%{JOB_ID}/%{TASK_ID}.stderr"]),
    ("stream", &["--stream=ours-%{JOB_ID}"]),
    ("log", &["--log=ours-%{JOB_ID}.log"]),
];

/// 10 000 programs that print 10 KiB each, in turns with the bare loop. The limit is the time in which that loop runs
/// them with their outputs going nowhere, and in which one process writes as many bytes.
///
/// # Errors
/// When something fails.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(TASKS);
    let spawners = cpus();
    let cluster = bench.cluster(&[], 1, &["--cpus", &spawners.to_string()])?;
    let ids = format!("1-{count}");
    let bytes = BYTES.to_string();
    let program = ["/usr/bin/head", "-c", &bytes, "/dev/zero"];
    let mut ours = KINDS.map(|_| Vec::new());
    let mut bare = KINDS.map(|_| Vec::new());
    let mut writes = Vec::new();
    for round in 0..ROUNDS {
        for (kind, (name, options)) in KINDS.iter().enumerate() {
            let directory = cluster.home().join(format!("bare-{name}-{round}"));
            fs::create_dir(&directory)?;
            let collected = Outputs::Collected(&directory);
            let outputs = [Outputs::Nowhere, Outputs::Files(&directory), collected, collected][kind];
            bare[kind].push(bare::run(&program, outputs, count, spawners)?.as_secs_f64());
            let submit = ["submit", "--array", &ids, "--wait"];
            let submit = submit.iter().chain(*options).chain(&["--"]).chain(&program).copied();
            ours[kind].push(cluster.run(&submit.collect::<Vec<_>>())?.as_secs_f64());
        }
        writes.push(write(&cluster.home().join(format!("written-{round}")), count)?.as_secs_f64());
    }
    let spawn = median_of(bare[0].clone());
    let written = median_of(writes);
    let rows = KINDS.iter().zip(ours.into_iter().zip(bare)).map(|((name, _), (ours, bare))| {
        let (ours, bare) = (median_of(ours), median_of(bare));
        let limit = if *name == "none" { spawn } else { spawn + written };
        let value = format!("{ours:.2} s; limit {limit:.2} s, its own {bare:.2} s");
        Row::at_most(&format!("outputs: {name}"), value, "15 % over the limit", ours / limit, 1.15)
    });
    Ok(rows.collect())
}

// As many bytes by one process, into one file.
fn write(path: &Path, count: u32) -> Result<Duration, BoxError> {
    let begun = Instant::now();
    let mut file = File::create(path)?;
    for _ in 0..count {
        file.write_all(&[0; BYTES])?;
    }
    Ok(begun.elapsed())
}

/// One task that prints 10 GiB into a stream: the memory of worker and server.
///
/// # Errors
/// When it fails.
pub(crate) fn memory(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let cluster = bench.cluster(&[], 1, &["--cpus", "1"])?;
    let print = |kib: u32| {
        let bytes = format!("{kib}K");
        cluster.run(&["submit", "--stream=stream", "--wait", "--", "head", "-c", &bytes, "/dev/zero"])
    };
    print(1)?;
    let peaks = |cluster: &Cluster| [cluster.worker_pid(), cluster.server_pid()].map(|pid| memory_mb(pid).1);
    let before = peaks(&cluster);
    let kib = bench.tasks(LONG_KIB);
    let seconds = print(kib)?.as_secs_f64();
    let after = peaks(&cluster);
    let rate = f64::from(kib) / 1024.0 / seconds;
    let row = |number: usize, name: &str| {
        let (before, after) = (before[number], after[number]);
        let value = format!("{before:.1} MB before, {after:.1} MB at most");
        let name = format!("stream-memory: {name}");
        Row::at_most(&name, value, "8 MB more", (after - before) / LONG_MB, 1.0)
    };
    let rate = Row::shown("stream-memory: rate", format!("{rate:.0} MiB/s"), rate);
    Ok(vec![row(0, "worker"), row(1, "server"), rate])
}

/// One task that prints log lines into a stream, compressed and not, in turns: bytes on the disk, CPU time of the worker, and
/// time.
///
/// # Errors
/// When it fails.
pub(crate) fn compressed(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let cluster = bench.cluster(&[], 1, &["--cpus", "1"])?;
    let text = cluster.home().join("text");
    let bytes = write_lines(&text, u64::from(bench.tasks(TEXT_MIB)) << 20)?;
    let text = text.to_string_lossy().into_owned();
    let mut measured = LEVELS.map(|_| (Vec::new(), Vec::new(), 0));
    for round in 0..ROUNDS {
        for (level, (times, cpu, stored)) in LEVELS.iter().zip(&mut measured) {
            let directory = cluster.home().join(format!("{}-{round}", level.replace(':', "-")));
            let stream = format!("--stream={}", directory.display());
            let before = cpu_s(cluster.worker_pid());
            let took =
                cluster.run(&["submit", &stream, "--compress", level, "--wait", "--", "cat", &text])?;
            times.push(took.as_secs_f64());
            cpu.push(cpu_s(cluster.worker_pid()) - before);
            let files = fs::read_dir(&directory)?.map(|entry| Ok(entry?.metadata()?.len()));
            *stored = files.sum::<Result<u64, std::io::Error>>()?;
            fs::remove_dir_all(&directory)?;
        }
    }
    let measured = measured.map(|(times, cpu, stored)| (median_of(times), median_of(cpu), stored));
    let (time_plain, cpu_plain, _) = measured[0];
    let rows = LEVELS.iter().zip(measured).map(|(level, (time, cpu, stored))| {
        let (share, cpu_ratio) = (stored as f64 / bytes as f64, cpu / cpu_plain.max(0.01));
        let rate = bytes as f64 / f64::from(1 << 20) / cpu.max(0.01);
        let value = format!(
            "{:.1} % of the bytes; {cpu:.2} s CPU ({rate:.0} MiB/s), {cpu_ratio:.1} times; {time:.2} s, {:.2} times",
            100.0 * share,
            time / time_plain
        );
        let name = format!("stream-compressed: {level}");
        match *level {
            "zstd:3" => Row::at_most(&name, value, "6 times the CPU time without", cpu_ratio / ZSTD_RATIO, 1.0),
            _ => Row::shown(&name, value, cpu_ratio),
        }
    });
    Ok(rows.collect())
}

// Lines as a simulation prints them: words that come again, and numbers that do not. Gives how many bytes they are.
fn write_lines(path: &Path, bytes: u64) -> Result<u64, BoxError> {
    let mut file = std::io::BufWriter::new(File::create(path)?);
    let (mut state, mut written) = (0x9e37_79b9_7f4a_7c15_u64, 0);
    let mut step = 0;
    while written < bytes {
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let (energy, residual) = (next() % 100_000_000, next() % 10_000);
        let line = format!(
            "INFO step {step:>8} energy = -1234.{energy:08} Eh, residual {}.{:03}e-06, converged: no\n",
            residual / 1000,
            residual % 1000
        );
        file.write_all(line.as_bytes())?;
        written += line.len() as u64;
        step += 1;
    }
    file.flush()?;
    Ok(written)
}
