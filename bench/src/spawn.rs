//! Real processes: against the machine's own limit, a loop that does nothing but spawn and wait.

use std::fs;

use crate::bare::{self, Outputs};
use crate::cluster::Bench;
use crate::measure::{cpus, median_of};
use crate::row::{BoxError, Row};

/// Rounds, in turns.
const ROUNDS: usize = 3;

/// 50 000 programs with output files on one worker, and by the bare loop.
///
/// # Errors
/// When either fails.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(50_000);
    let spawners = cpus();
    let cluster = bench.cluster(&[], 1, &["--cpus", &spawners.to_string()])?;
    let ids = format!("1-{count}");
    let (mut ours, mut limits) = (Vec::new(), Vec::new());
    // Files stay until the end: some file systems make new ones slowly for a while after many were removed.
    for round in 0..ROUNDS {
        let directory = cluster.home().join(format!("bare-{round}"));
        fs::create_dir(&directory)?;
        let limit = bare::run(&["/bin/true"], Outputs::Files(&directory), count, spawners)?;
        limits.push(limit.as_secs_f64());
        let path = |suffix: &str| format!("ours-{round}/%{{TASK_ID}}.{suffix}");
        let (stdout, stderr) = (path("stdout"), path("stderr"));
        let submit = ["submit", "--array", &ids, "--stdout", &stdout, "--stderr", &stderr, "--wait"];
        ours.push(cluster.run(&[&submit[..], &["--", "/bin/true"]].concat())?.as_secs_f64());
    }
    let (ours, limit) = (median_of(ours), median_of(limits));
    let rate = |seconds: f64| f64::from(count) / seconds;
    let value = format!("{:.0}/s; {spawners} bare spawners {:.0}/s", rate(ours), rate(limit));
    Ok(vec![Row::at_most("spawn", value, "within 10 % of the bare loop", ours / limit, 1.1)])
}
