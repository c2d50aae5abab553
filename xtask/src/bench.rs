//! `cargo xtask bench`: each row measures the product and its peer or limit in the same run, and prints the ratio.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Trouble, steps};

/// A row: its name, and how it is measured.
type Row = (&'static str, fn(&Bench) -> Result<String, Trouble>);

const ROWS: [Row; 5] = [
    ("null-array", null_array),
    ("spawn-limit", spawn_limit),
    ("one-task", one_task),
    ("start-up", start_up),
    ("encryption", encryption),
];

struct Bench {
    hq: PathBuf,
}

/// Measures the rows named, or all.
pub(crate) fn run(root: &Path, rows: &[String]) -> Result<(), Trouble> {
    for row in rows {
        if !ROWS.iter().any(|known| known.0 == row) {
            let names: Vec<&str> = ROWS.iter().map(|row| row.0).collect();
            return Err(format!("no row `{row}`: there are {}", names.join(", ")).into());
        }
    }
    let bench = Bench { hq: steps::build_hq(root, true)? };
    for (name, measure) in ROWS {
        if rows.is_empty() || rows.iter().any(|row| row == name) {
            println!("{name:12} {}", measure(&bench)?);
        }
    }
    Ok(())
}

/// A server and workers in a private directory, ended at the end.
struct Cluster<'a> {
    bench: &'a Bench,
    home: tempfile::TempDir,
    processes: Vec<Child>,
}

impl Bench {
    fn cluster(&self, server: &[&str], workers: u32, worker: &[&str]) -> Result<Cluster<'_>, Trouble> {
        let mut cluster = Cluster { bench: self, home: tempfile::tempdir()?, processes: Vec::new() };
        let mut arguments = vec!["server", "start"];
        arguments.extend(server);
        cluster.start(&arguments)?;
        cluster.hq(&["server", "wait"])?;
        for _ in 0..workers {
            let mut arguments = vec!["worker", "start"];
            arguments.extend(worker);
            cluster.start(&arguments)?;
        }
        cluster.hq(&["worker", "wait", &workers.to_string()])?;
        Ok(cluster)
    }
}

impl Cluster<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.bench.hq);
        command.args(arguments).current_dir(self.home.path()).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("HQ_SERVER_DIR", self.home.path().join("server"));
        command
    }

    fn start(&mut self, arguments: &[&str]) -> Result<(), Trouble> {
        self.processes.push(self.command(arguments).spawn()?);
        Ok(())
    }

    /// Runs a command and says how long it took.
    fn hq(&self, arguments: &[&str]) -> Result<Duration, Trouble> {
        let begin = Instant::now();
        let status = self.command(arguments).status()?;
        if !status.success() {
            return Err(format!("`hq {}` ended with {status}", arguments.join(" ")).into());
        }
        Ok(begin.elapsed())
    }

    /// Peak resident memory of the server, KiB.
    fn server_peak_kib(&self) -> u64 {
        let pid = self.processes[0].id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        let _ = self.hq(&["server", "stop"]);
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

const NULL: [&str; 4] = ["--executor", "null", "--cpus", "2"];

fn null_array(bench: &Bench) -> Result<String, Trouble> {
    let cluster = bench.cluster(&[], 1, &NULL)?;
    let run = |count: u32| {
        cluster.hq(&[
            "submit",
            "--array",
            &format!("1-{count}"),
            "--stdout=none",
            "--stderr=none",
            "--wait",
            "--",
            "true",
        ])
    };
    run(100_000)?;
    let (one, two) = (run(1_000_000)?.as_secs_f64(), run(2_000_000)?.as_secs_f64());
    let peak = cluster.server_peak_kib();
    drop(cluster);
    let many = bench.cluster(&[], 16, &NULL)?;
    let sixteen = many
        .hq(&["submit", "--array", "1-1000000", "--stdout=none", "--stderr=none", "--wait", "--", "true"])?
        .as_secs_f64();
    Ok(format!(
        "{:.0} tasks/s (must reach 1000000); twice the tasks take {:.2} x; 16 workers take {:.2} x the time of one; server peak {} MB",
        1e6 / one,
        two / one,
        sixteen / one,
        peak / 1024
    ))
}

fn spawn_limit(bench: &Bench) -> Result<String, Trouble> {
    const TASKS: u32 = 10_000;
    let cluster = bench.cluster(&[], 1, &["--cpus", "2"])?;
    let array = format!("1-{TASKS}");
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let limit = raw_spawns(&cluster, TASKS)?;
        let ours = cluster.hq(&["submit", "--array", &array, "--wait", "--", "true"])?;
        ratios.push(ours.as_secs_f64() / limit.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    Ok(format!(
        "{TASKS} x true take {:.2} x a bare spawn-and-wait loop with two spawners (must reach 1.10)",
        ratios[1]
    ))
}

// The machine's own limit: as many spawners as CPUs, output files included.
fn raw_spawns(cluster: &Cluster<'_>, tasks: u32) -> Result<Duration, Trouble> {
    let folder = cluster.home.path().join("raw");
    std::fs::create_dir_all(&folder)?;
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let spawn = |first: u32| {
            let folder = &folder;
            move || -> std::io::Result<()> {
                for task in (first..tasks).step_by(2) {
                    let out = std::fs::File::create(folder.join(format!("{task}.stdout")))?;
                    let err = std::fs::File::create(folder.join(format!("{task}.stderr")))?;
                    Command::new("/bin/true").stdin(Stdio::null()).stdout(out).stderr(err).status()?;
                }
                Ok(())
            }
        };
        let threads: Vec<_> = (0..2).map(|first| scope.spawn(spawn(first))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    Ok(begin.elapsed())
}

fn one_task(bench: &Bench) -> Result<String, Trouble> {
    use std::io::Write;
    let cluster = bench.cluster(&[], 1, &["--cpus", "1"])?;
    let mut times = Vec::new();
    let mut syncs = Vec::new();
    let mut file = std::fs::File::create(cluster.home.path().join("sync"))?;
    for _ in 0..50 {
        times.push(cluster.hq(&["submit", "--wait", "--", "true"])?);
        let begin = Instant::now();
        file.write_all(&[0; 64])?;
        file.sync_data()?;
        syncs.push(begin.elapsed());
    }
    times.sort();
    syncs.sort();
    Ok(format!(
        "`submit --wait` of true: median {:.2?} (must reach 5 ms + one fsync of {:.2?})",
        times[25], syncs[25]
    ))
}

fn start_up(bench: &Bench) -> Result<String, Trouble> {
    let cluster = bench.cluster(&[], 0, &[])?;
    let median = |program: &Path, arguments: &[&str]| -> Result<f64, Trouble> {
        let mut times = Vec::new();
        for _ in 0..30 {
            let begin = Instant::now();
            let mut command = Command::new(program);
            command.args(arguments).env("HQ_SERVER_DIR", cluster.home.path().join("server"));
            command.stdout(Stdio::null()).status()?;
            times.push(begin.elapsed());
        }
        times.sort();
        Ok(times[15].as_secs_f64() * 1e3)
    };
    let empty = median(Path::new("/bin/true"), &[])?;
    let version = median(&bench.hq, &["--version"])?;
    let list = median(&bench.hq, &["job", "list"])?;
    Ok(format!(
        "--version {:.1} x, job list {:.1} x an empty program's {empty:.2} ms (must reach 3 x)",
        version / empty,
        list / empty
    ))
}

fn encryption(bench: &Bench) -> Result<String, Trouble> {
    let off =
        ["--disable-client-authentication-and-encryption", "--disable-worker-authentication-and-encryption"];
    let measure = |server: &[&str]| -> Result<f64, Trouble> {
        let cluster = bench.cluster(server, 1, &NULL)?;
        let submit =
            ["submit", "--array", "1-2000000", "--stdout=none", "--stderr=none", "--wait", "--", "true"];
        Ok(cluster.hq(&submit)?.as_secs_f64())
    };
    let mut ratios = Vec::new();
    for _ in 0..3 {
        ratios.push(measure(&[])? / measure(&off)?);
    }
    ratios.sort_by(f64::total_cmp);
    Ok(format!("encrypted takes {:.2} x the time of plain (must reach 1.10)", ratios[1]))
}
