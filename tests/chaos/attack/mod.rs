//! What an attacker with an account on the same machine does, and what bad luck does: strangers who say nothing,
//! clients that never read, killed launchers, vanished directories, wrong clocks, full disks.
//!
//! Each attack is a short test; with `HQ_ATTACK=long` it is many times as large. `cargo xtask attack` plays that.

mod clocks;
mod directories;
mod disks;
mod half_said;
mod memory;
mod processes;
mod readers;
mod strangers;

use std::fs;

/// A server that gives workers up soon, and workers that come back fast.
const SERVER: &str = "server start --host localhost --worker-grace 3s";
const WORKER: &str = "worker start --cpus 4 --heartbeat 500ms";

/// The size of an attack: the first as one of all tests, the second when it is all that is played.
fn size(short: u32, long: u32) -> u32 {
    if std::env::var("HQ_ATTACK").is_ok_and(|how| how == "long") { long } else { short }
}

/// Resident memory of a process, in megabytes.
fn memory_mb(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}

/// Whether this process may change what belongs to others.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
