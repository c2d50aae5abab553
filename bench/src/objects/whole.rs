//! A large file: left by one task, taken by another on another worker.

use std::fs;
use std::process::Command;
use std::time::Instant;

use super::rig::Rig;
use super::{MIB, plain};
use crate::cluster::Bench;
use crate::measure::median;
use crate::row::{BoxError, Row};

/// Bytes of the file.
const SIZE: u64 = 1024 * MIB;
/// Rounds, in turns with what it is compared with.
const ROUNDS: usize = 3;
/// The part of plain TCP that is asked for.
const PART: f64 = 0.5;

/// What storing takes beside `cp`, and what fetching takes beside plain TCP. The same tasks with next to nothing to store, or
/// with nothing to fetch, are taken off.
///
/// # Errors
/// When the cluster does not do what it should.
pub(super) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let size = if bench.is_quick { SIZE / 4 } else { SIZE };
    let mut rig = Rig::start(bench, 2)?;
    let large = rig.file("large", size)?;
    rig.file("small", 1)?;
    let (mut leaving, mut copying, mut fetching) = (vec![], vec![], vec![]);
    let (mut sending, mut sending_files) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let (small, least) = rig.leave("small")?;
        let (job, took) = rig.leave("large")?;
        leaving.push(took.saturating_sub(least));
        let copy = rig.cluster.home().join("copy");
        let begun = Instant::now();
        if !Command::new("cp").arg(&large).arg(&copy).status()?.success() {
            return Err("cp failed".into());
        }
        copying.push(begun.elapsed());
        fs::remove_file(&copy)?;
        // The second one finds it in the store of its worker.
        let took = rig.take(1, "at1", job, "first")?;
        let least = rig.take(1, "at1", job, "second")?;
        fetching.push(took.saturating_sub(least));
        sending.push(plain::send(1, size)?);
        sending_files.push(plain::send_file(&large, &copy)?);
        fs::remove_file(copy)?;
        rig.forget(&[job, small])?;
    }
    let (leaving, copying) = (median(leaving), median(copying));
    let rate = |seconds: f64| size as f64 / seconds / 1e6;
    let (fetched, sent) = (rate(median(fetching)), rate(median(sending)));
    let sent_file = rate(median(sending_files));
    let left = format!("{leaving:.2} s, cp {copying:.2} s");
    let value = format!("{fetched:.0} MB/s, plain TCP {sent:.0} MB/s");
    Ok(vec![
        Row::shown("objects: leave", left, leaving / copying),
        Row::at_most("objects: fetch", value, "half of plain TCP", PART * sent / fetched, 1.0),
        Row::shown(
            "objects: fetch, files",
            format!("plain TCP from file to file {sent_file:.0} MB/s"),
            sent_file / fetched,
        ),
    ])
}
