//! A thread that watches the resident memory of tasks that are held to some, and ends those that use more.
//!
//! A task's processes are those of its group, those that descend from them, and those that did when they were first
//! seen. Memory that they share is counted once, where the kernel tells.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::family::{kill, members, processes};
use super::process::Shared;
use crate::limits::MEMORY_LOOK;

/// Looks again and again.
pub(super) fn run(shared: &'static Shared) {
    // SAFETY: a plain query.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as u64;
    let mut seen: BTreeMap<i32, BTreeSet<(i32, u64)>> = BTreeMap::new();
    loop {
        std::thread::sleep(MEMORY_LOOK);
        let watched = shared.held_to_memory();
        seen.retain(|task, _| watched.iter().any(|(pid, _)| pid == task));
        if watched.is_empty() {
            continue;
        }
        let processes = processes();
        for (task, limit) in watched {
            let found = seen.entry(task).or_default();
            *found = members(&processes, task, found);
            let resident: u64 = found.iter().map(|(pid, _)| processes[pid].pages * page).sum();
            if resident <= limit {
                continue;
            }
            let used: u64 = found.iter().map(|(pid, _)| own_share(*pid, processes[pid].pages * page)).sum();
            if used > limit && shared.is_over_memory(task, used / 1024) {
                found.iter().for_each(|(pid, _)| kill(*pid));
            }
        }
    }
}

// Bytes, of what is shared with others only a part; all that is resident where the kernel does not tell.
fn own_share(pid: i32, resident: u64) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
    kib.map_or(resident, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_told() {
        assert!(own_share(std::process::id() as i32, 1) > 1);
    }
}
