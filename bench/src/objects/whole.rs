//! A large file: left by one task, taken by another on another worker.

use std::fs;
use std::process::Command;
use std::time::Instant;

use super::rig::Rig;
use super::{MIB, plain};
use crate::cluster::Bench;
use crate::measure::{least, longer};
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
    let (mut leaving, mut leaving_little, mut copying) = (vec![], vec![], vec![]);
    let (mut taking, mut taking_again) = (vec![], vec![]);
    let (mut sending, mut sending_files) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let (small, took) = rig.leave("small")?;
        leaving_little.push(took);
        let (job, took) = rig.leave("large")?;
        leaving.push(took);
        let copy = rig.cluster.home().join("copy");
        let begun = Instant::now();
        if !Command::new("cp").arg(&large).arg(&copy).status()?.success() {
            return Err("cp failed".into());
        }
        copying.push(begun.elapsed());
        fs::remove_file(&copy)?;
        // The second one finds it in the store of its worker.
        taking.push(rig.take(1, "at1", job, "first")?);
        taking_again.push(rig.take(1, "at1", job, "second")?);
        sending.push(plain::send(1, size)?);
        sending_files.push(plain::send_file(&large, &copy)?);
        fs::remove_file(copy)?;
        rig.forget(&[job, small])?;
    }
    let busy = "the machine is too busy to tell";
    let leaving = longer(&leaving, &leaving_little).ok_or(busy)?;
    let fetching = longer(&taking, &taking_again).ok_or(busy)?;
    let copying = least(&copying);
    let rate = |seconds: f64| size as f64 / seconds / 1e6;
    let (fetched, sent) = (rate(fetching), rate(least(&sending)));
    let sent_file = rate(least(&sending_files));
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
