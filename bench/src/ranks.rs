//! Ranks of a task on several nodes, started by the workers themselves.

use std::fs;
use std::time::Duration;

use crate::cluster::Bench;
use crate::measure::median;
use crate::row::{BoxError, Row};

/// Nodes, and ranks on each.
const NODES: u32 = 4;
/// Starts of each kind.
const STARTS: u32 = 31;

/// Sixteen ranks of an empty program on four workers, in turns with one empty program started by a shell.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn direct(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let cluster = bench.cluster(&[], NODES, &["--cpus", "4"])?;
    let script = format!(
        "for i in $(seq {STARTS}); do a=$(date +%s%N); $HQ task mpirun --launcher direct -- /bin/true || exit 1\n\
         b=$(date +%s%N); /bin/true; c=$(date +%s%N); echo $((b - a)) $((c - b)) >> times; done"
    );
    fs::write(cluster.home().join("starts.sh"), script)?;
    let nodes = NODES.to_string();
    let wanted = ["submit", "--wait", "--nodes", &nodes, "--ranks-per-node", &nodes, "--launcher", "none"];
    let task = ["--stdout=none", "--stderr=err", "--", "bash", "starts.sh"];
    cluster.run(&[&wanted[..], &task[..]].concat())?;
    let times = fs::read_to_string(cluster.home().join("times"))?;
    let column = |index: usize| -> Vec<Duration> {
        let numbers = times.lines().filter_map(|line| line.split(' ').nth(index)?.parse().ok());
        numbers.map(Duration::from_nanos).collect()
    };
    let (ranks, spawns) = (column(0), column(1));
    if ranks.len() != STARTS as usize {
        return Err(format!("{} of {STARTS} starts were measured", ranks.len()).into());
    }
    let (ranks, spawn) = (median(ranks) * 1e3, median(spawns) * 1e3);
    let value = format!("{ranks:.1} ms, {spawn:.1} ms one local spawn");
    Ok(vec![Row::at_most(
        "ranks: 4 × 4, direct",
        value,
        "20 ms more than the spawn",
        (ranks - spawn) / 20.0,
        1.0,
    )])
}
