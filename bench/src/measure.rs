//! Small tools of measuring: medians, and what the kernel says of a process.

use std::fs;
use std::time::Duration;

/// The middle one of the times, in seconds.
pub(crate) fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

/// The least of the times, in seconds.
pub(crate) fn least(times: &[Duration]) -> f64 {
    times.iter().min().map_or(0.0, Duration::as_secs_f64)
}

/// How much longer the first take than the second, by the least of each, in seconds: what else keeps the machine busy can only
/// add. None where that hides the difference.
pub(crate) fn longer(first: &[Duration], second: &[Duration]) -> Option<f64> {
    let more = first.iter().min()?.saturating_sub(*second.iter().min()?);
    (!more.is_zero()).then_some(more.as_secs_f64())
}

/// The middle one of the numbers.
pub(crate) fn median_of(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Resident memory of a process in MB (10^6 bytes): now, and at its peak.
pub(crate) fn memory_mb(pid: u32) -> (f64, f64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib: f64 = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0.0);
        kib * 1024.0 / 1e6
    };
    (value("VmRSS:"), value("VmHWM:"))
}

/// CPU time a process has used so far, in seconds.
pub(crate) fn cpu_s(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may hold spaces; user and system time are fields 14 and 15.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

/// CPUs this process may use.
pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
