//! A file that is broadcast to many workers.

use std::fs;

use super::rig::Rig;
use super::{MIB, plain};
use crate::cluster::Bench;
use crate::measure::{least, longer, median_of};
use crate::row::{BoxError, Row};

/// Workers that take it.
const READERS: u32 = 8;
/// Bytes of it.
const SIZE: u64 = 256 * MIB;
const ROUNDS: usize = 3;
/// So many times as long as one transfer.
const TIMES_MAX: f64 = 4.0;

/// One object is broadcast to eight workers, against one that takes it alone; beside it how often its first holder read it, and
/// the same with plain TCP.
///
/// # Errors
/// When the cluster does not do what it should.
pub(super) fn run(bench: &Bench) -> Result<Row, BoxError> {
    let size = if bench.is_quick { SIZE / 4 } else { SIZE };
    let mut rig = Rig::start(bench, READERS + 1)?;
    rig.file("file", size)?;
    let (mut one, mut one_again) = (vec![], vec![]);
    let (mut all, mut all_again, mut sent) = (vec![], vec![], vec![]);
    let (mut plain_one, mut plain_all) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let (alone, _) = rig.leave("file")?;
        one.push(rig.broadcast(1, "at1", alone)?);
        one_again.push(rig.broadcast(1, "at1", alone)?);
        rig.forget(&[alone])?;
        let (shared, _) = rig.leave("file")?;
        let before = bytes_read(rig.cluster.worker_pid())?;
        all.push(rig.broadcast(READERS, "reader", shared)?);
        sent.push((bytes_read(rig.cluster.worker_pid())? - before) / size as f64);
        all_again.push(rig.broadcast(READERS, "reader", shared)?);
        rig.forget(&[shared])?;
        plain_one.push(plain::send(1, size)?);
        plain_all.push(plain::send(READERS as usize, size)?);
    }
    let busy = "the machine is too busy to tell";
    let (all, one) = (longer(&all, &all_again).ok_or(busy)?, longer(&one, &one_again).ok_or(busy)?);
    let (times, sent) = (all / one, median_of(sent));
    let plain = least(&plain_all) / least(&plain_one);
    let value = format!("{times:.1} × one, sent {sent:.1} ×; plain {plain:.1} ×");
    let target = format!("{TIMES_MAX} × one transfer");
    Ok(Row::at_most("objects: readers", value, &target, times / TIMES_MAX, 1.0))
}

// Of files, by a process: what it has sent of objects, and a little more.
fn bytes_read(pid: u32) -> Result<f64, BoxError> {
    let counts = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let count = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
    Ok(count.ok_or("the kernel does not count what is read")?.parse()?)
}
