//! One task at a time: how long a user waits for it, and whether that holds five thousand times.

use std::fs::File;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::{Bench, Cluster};
use crate::measure::median;
use crate::row::{BoxError, Row};

/// What a task may take beside one `fsync`.
const TARGET_S: f64 = 0.005;
/// Clients of the steady load.
const CLIENTS: u32 = 8;

/// One `true` with `submit --wait`, and one `fsync` of the same disk, in turns.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn one(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let cluster = bench.cluster(&[], 1, &["--cpus", "1"])?;
    let mut file = File::create(cluster.home().join("sync"))?;
    let (mut waits, mut syncs) = (Vec::new(), Vec::new());
    for _ in 0..bench.tasks(300) {
        waits.push(submit(&cluster)?);
        let begun = Instant::now();
        file.write_all(&[7; 100])?;
        file.sync_data()?;
        syncs.push(begun.elapsed());
    }
    let (wait, sync) = (median(waits), median(syncs));
    let value = format!("median {:.2} ms, one fsync {:.2} ms", wait * 1e3, sync * 1e3);
    Ok(vec![Row::at_most("latency", value, "below 5 ms and one fsync", wait / (TARGET_S + sync), 1.0)])
}

/// 5 000 times `submit --wait` from eight clients: none hangs or fails, and the server counts as many.
///
/// # Errors
/// When one fails.
pub(crate) fn steady(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let cluster = bench.cluster(&[], 1, &["--cpus", "2"])?;
    let each = bench.tasks(5000) / CLIENTS;
    let begun = Instant::now();
    let times = thread::scope(|scope| {
        let client = || {
            (0..each)
                .map(|_| submit(&cluster).map_err(|error| error.to_string()))
                .collect::<Result<Vec<_>, _>>()
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let results =
            clients.into_iter().map(|client| client.join().unwrap_or_else(|_| Err("panicked".to_owned())));
        results.collect::<Result<Vec<_>, _>>()
    })?
    .concat();
    let seconds = begun.elapsed().as_secs_f64();
    let summary = cluster
        .command(&["job", "summary", "--output-mode", "json"])
        .stdout(std::process::Stdio::piped())
        .output()?;
    let summary: serde_json::Value = serde_json::from_slice(&summary.stdout)?;
    let finished = summary["Finished"].as_u64().or(summary["finished"].as_u64()).unwrap_or(0);
    let expected = u64::from(each * CLIENTS);
    let slowest = times.iter().max().copied().unwrap_or(Duration::ZERO).as_secs_f64();
    let value =
        format!("{finished} finished, {:.0}/s, slowest {:.0} ms", expected as f64 / seconds, slowest * 1e3);
    let wrong = expected.abs_diff(finished) as f64;
    Ok(vec![Row::at_most("steady", value, "never hangs, never wrong", wrong, 0.0)])
}

fn submit(cluster: &Cluster) -> Result<Duration, BoxError> {
    cluster.run(&["submit", "--wait", "--", "/bin/true"])
}
