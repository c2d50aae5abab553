//! Calls of a Python function, against the pool of processes of Python's standard library.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cluster::Bench;
use crate::measure::{cpus, median_of};
use crate::row::{BoxError, Row};

/// Calls of a function that does nothing.
const CALLS: u32 = 20_000;
/// Rounds, in turns.
const ROUNDS: usize = 3;

const MODULE: &str = "def nothing():\n    return 1\n";

// Prints how many seconds the calls took, without the start of the processes.
const POOL: &str = r#"
import sys, time
from concurrent.futures import ProcessPoolExecutor
from empty import nothing
calls, processes = int(sys.argv[1]), int(sys.argv[2])
with ProcessPoolExecutor(processes) as pool:
    [future.result() for future in [pool.submit(nothing) for _ in range(processes)]]
    begun = time.monotonic()
    assert sum(future.result() for future in [pool.submit(nothing) for _ in range(calls)]) == calls
    print(time.monotonic() - begun)
"#;

/// 20 000 calls as one array, from the submit to the last result on the disk of the server, in turns with as many `submit` of a
/// `ProcessPoolExecutor` with as many processes. Interpreters are started anew for each array.
///
/// # Errors
/// When there is no Python, or something fails.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(CALLS);
    let processes = cpus();
    let cluster = bench.cluster(&[], 1, &["--cpus", &processes.to_string()])?;
    fs::write(cluster.home().join("empty.py"), MODULE)?;
    fs::write(cluster.home().join("pool.py"), POOL)?;
    let ids = format!("1-{count}");
    let (mut ours, mut pool) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        pool.push(in_pool(cluster.home(), count, processes)?);
        let outputs = ["--stdout=none", "--stderr=none"];
        let submit = ["submit", "--function", "empty:nothing", "--array", &ids, "--wait"];
        ours.push(cluster.run(&submit.into_iter().chain(outputs).collect::<Vec<_>>())?.as_secs_f64());
    }
    let (ours, pool) = (median_of(ours), median_of(pool));
    let rate = |seconds: f64| f64::from(count) / seconds;
    let value = format!("{:.0} calls/s; pool of processes {:.0}", rate(ours), rate(pool));
    Ok(vec![Row::at_most("functions", value, "as fast as the pool", ours / pool, 1.0)])
}

fn in_pool(home: &Path, count: u32, processes: usize) -> Result<f64, BoxError> {
    let mut command = Command::new("python3");
    command.args(["pool.py", &count.to_string(), &processes.to_string()]).current_dir(home);
    let output = command.stdin(Stdio::null()).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    printed.trim().parse().map_err(|_| {
        let errors = String::from_utf8_lossy(&output.stderr);
        errors.lines().last().unwrap_or("python3 said nothing").to_owned().into()
    })
}
