//! A file that many workers take at once.

use std::fs;

use super::rig::Rig;
use super::{MIB, plain};
use crate::cluster::Bench;
use crate::measure::median_of;
use crate::row::{BoxError, Row};

/// Workers that take it.
const READERS: u32 = 8;
/// Bytes of it.
const SIZE: u64 = 256 * MIB;
const ROUNDS: usize = 3;
/// So many times as long as one transfer.
const TIMES_MAX: f64 = 4.0;

/// Eight workers take one object at once, against one that takes it alone; beside it how often its first holder read it, and
/// the same with plain TCP.
///
/// # Errors
/// When the cluster does not do what it should.
pub(super) fn run(bench: &Bench) -> Result<Row, BoxError> {
    let size = if bench.is_quick { SIZE / 4 } else { SIZE };
    let mut rig = Rig::start(bench, READERS + 1)?;
    rig.file("file", size)?;
    let (mut times, mut sent, mut plain_times) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let (alone, _) = rig.leave("file")?;
        let took = rig.take(1, "at1", alone, "alone")?;
        let one = took.saturating_sub(rig.take(1, "at1", alone, "again")?).as_secs_f64();
        rig.forget(&[alone])?;
        let (shared, _) = rig.leave("file")?;
        let before = bytes_read(rig.cluster.worker_pid())?;
        let took = rig.take(READERS, "reader", shared, "all")?;
        sent.push((bytes_read(rig.cluster.worker_pid())? - before) / size as f64);
        let all = took.saturating_sub(rig.take(READERS, "reader", shared, "again")?).as_secs_f64();
        rig.forget(&[shared])?;
        times.push(all / one);
        let plain = plain::send(READERS as usize, size)?.as_secs_f64();
        plain_times.push(plain / plain::send(1, size)?.as_secs_f64());
    }
    let (times, sent, plain) = (median_of(times), median_of(sent), median_of(plain_times));
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
