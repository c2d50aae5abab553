//! Accounts of the past: a journal of a million executions, read by `hq journal utilization` and `hq journal report`.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::campaign::{Campaign, SECOND, write};
use crate::cluster::Bench;
use crate::measure::median_of;
use crate::row::{BoxError, Row};

const ROUNDS: usize = 3;

/// How long both take, and how large the page is.
///
/// # Errors
/// When one of them fails.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let place = tempfile::tempdir()?;
    let (journal, page) = (place.path().join("journal"), place.path().join("page.html"));
    let (tasks, task_us) = (bench.tasks(1_000_000), (SECOND / 10, SECOND));
    write(&journal, &Campaign { workers: 16, cpus: 32, tasks, fails: 1000, task_us }.records());
    let timed = |command: &str, out: Option<&std::path::Path>| -> Result<f64, BoxError> {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            let mut run = Command::new(&bench.hq);
            run.args(["journal", command]).arg(&journal).args(out).stdout(Stdio::null());
            if !run.status()?.success() {
                return Err(format!("hq journal {command} failed").into());
            }
            times.push(begun.elapsed().as_secs_f64());
        }
        Ok(median_of(times))
    };
    let utilization = timed("utilization", None)?;
    let report = timed("report", Some(&page))?;
    let megabytes = fs::metadata(&page)?.len() as f64 / 1e6;
    let row = |what: &str, value: String, target: &str, ratio: f64| {
        Row::at_most(&format!("accounts: {what}"), value, target, ratio, 1.0)
    };
    Ok(vec![
        row("utilization", format!("{utilization:.2} s"), "2 s", utilization / 2.0),
        row("report", format!("{report:.2} s"), "5 s", report / 5.0),
        row("report, size", format!("{megabytes:.1} MB"), "5 MB", megabytes / 5.0),
    ])
}
