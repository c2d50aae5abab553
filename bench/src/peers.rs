//! The same programs run by other tools, where they can be had.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::cluster::Bench;
use crate::measure::cpus;
use crate::python;
use crate::row::{BoxError, Row};

/// Releases of HyperQueue's Python package that bring its program.
const HYPERQUEUE: [&str; 2] = ["0.25.0", "0.27.0"];

const HYPERQUEUE_SCRIPT: &str = "
import sys, time
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
count, cpus = int(sys.argv[1]), int(sys.argv[2])
with LocalCluster() as cluster:
    cluster.start_worker(WorkerConfig(cores=cpus))
    client = cluster.client()
    job = Job()
    for _ in range(count):
        job.program(['/bin/true'], stdout=None, stderr=None)
    begun = time.monotonic()
    client.wait_for_jobs([client.submit(job)])
    print(time.monotonic() - begun)
";

const DASK_SCRIPT: &str = "
import subprocess, sys, time
from dask.distributed import Client, LocalCluster
count, cpus = int(sys.argv[1]), int(sys.argv[2])
def run(_):
    return subprocess.call(['/bin/true'])
if __name__ == '__main__':
    with LocalCluster(n_workers=1, threads_per_worker=cpus, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            begun = time.monotonic()
            assert sum(client.gather(client.map(run, range(count), pure=False))) == 0
            print(time.monotonic() - begun)
";

/// 2 000 times `true` with each tool, no outputs kept; ratios are against this program.
///
/// # Errors
/// When this program fails; other tools that fail are left out.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(2000);
    let cluster = bench.cluster(&[], 1, &["--cpus", &cpus().to_string()])?;
    let ids = format!("1-{count}");
    let submit = ["submit", "--array", &ids, "--stdout=none", "--stderr=none", "--wait", "--", "/bin/true"];
    cluster.run(&submit)?;
    let ours = cluster.run(&submit)?.as_secs_f64();
    drop(cluster);
    let mut rows = vec![row("hq", count, ours, ours)];
    let mut add = |name: &str, measured: Result<f64, BoxError>| match measured {
        Ok(seconds) => rows.push(row(name, count, seconds, ours)),
        Err(why) => eprintln!("left out: {name}: {why}"),
    };
    add("xargs -P", shell(&format!("seq {count} | xargs -P {} -n 1 /bin/true", cpus())));
    add("GNU parallel", shell(&format!("seq {count} | parallel -j {} /bin/true", cpus())));
    for version in HYPERQUEUE {
        let package = format!("hyperqueue=={version}");
        add(&format!("HyperQueue {version}"), seconds(bench, &[&package], HYPERQUEUE_SCRIPT, count));
    }
    add("Dask", seconds(bench, &["dask", "distributed"], DASK_SCRIPT, count));
    Ok(rows)
}

fn row(name: &str, count: u32, seconds: f64, ours: f64) -> Row {
    let rate = f64::from(count) / seconds;
    Row::shown(&format!("peers: {name}"), format!("{rate:.0} programs/s"), seconds / ours)
}

fn shell(line: &str) -> Result<f64, BoxError> {
    let program = line.split("| ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let is_there =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status()?;
    if !is_there.success() {
        return Err("not installed".into());
    }
    let begun = Instant::now();
    let status = Command::new("sh")
        .args(["-c", line])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    let elapsed = begun.elapsed().as_secs_f64();
    if status.success() { Ok(elapsed) } else { Err(format!("it ended with {status}").into()) }
}

// A script prints how many seconds it took.
fn seconds(bench: &Bench, packages: &[&str], script: &str, count: u32) -> Result<f64, BoxError> {
    let text = python::run(bench, packages, script, &[count.to_string(), cpus().to_string()])?;
    let seconds = text.lines().last().and_then(|line| line.trim().parse().ok());
    seconds.ok_or_else(|| "it printed no time".into())
}
