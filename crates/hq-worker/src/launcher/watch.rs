//! A thread that watches the resident memory of tasks that are held to some, and ends those that use more.
//!
//! A task's processes are those of its group, those that descend from them, and those that did when they were first
//! seen. Memory that they share is counted once, where the kernel tells.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::process::Shared;
use crate::limits::MEMORY_LOOK;

/// A process as the kernel shows it.
#[derive(Clone, Copy, Debug)]
struct Process {
    parent: i32,
    group: i32,
    // With the number it names a process for good.
    born: u64,
    pages: u64,
}

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
            let members = seen.entry(task).or_default();
            *members = family(&processes, task, members);
            let resident: u64 = members.iter().map(|(pid, _)| processes[pid].pages * page).sum();
            if resident <= limit {
                continue;
            }
            let used: u64 = members.iter().map(|(pid, _)| own_share(*pid, processes[pid].pages * page)).sum();
            if used > limit && shared.is_over_memory(task, used / 1024) {
                for (pid, _) in members.iter() {
                    // SAFETY: a plain system call.
                    unsafe { libc::kill(*pid, libc::SIGKILL) };
                }
            }
        }
    }
}

// All processes of the system.
fn processes() -> BTreeMap<i32, Process> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(process) = fs::read(entry.path().join("stat")).ok().and_then(|stat| parse(&stat)) {
            found.insert(pid, process);
        }
    }
    found
}

// The command in parentheses may hold anything; the fields follow the last one.
fn parse(stat: &[u8]) -> Option<Process> {
    let end = stat.iter().rposition(|b| *b == b')')?;
    let text = String::from_utf8_lossy(&stat[end + 1..]);
    let words: Vec<&str> = text.split_whitespace().collect();
    let word = |at: usize| words.get(at).copied();
    Some(Process {
        parent: word(1)?.parse().ok()?,
        group: word(2)?.parse().ok()?,
        born: word(19)?.parse().ok()?,
        pages: word(21)?.parse().ok()?,
    })
}

fn family(
    processes: &BTreeMap<i32, Process>,
    task: i32,
    before: &BTreeSet<(i32, u64)>,
) -> BTreeSet<(i32, u64)> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (pid, process) in processes {
        children.entry(process.parent).or_default().push(*pid);
    }
    let is_root = |pid: i32, process: &Process| {
        pid == task || process.group == task || before.contains(&(pid, process.born))
    };
    let mut next: Vec<i32> =
        processes.iter().filter(|(pid, process)| is_root(**pid, process)).map(|(pid, _)| *pid).collect();
    let mut found = BTreeSet::new();
    while let Some(pid) = next.pop() {
        let Some(process) = processes.get(&pid) else { continue };
        if found.insert((pid, process.born)) {
            next.extend(children.get(&pid).into_iter().flatten());
        }
    }
    found
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
    fn a_family_is_a_group_its_descendants_and_those_seen_before() {
        let process = |parent, group| Process { parent, group, born: 7, pages: 1 };
        let processes = BTreeMap::from([
            (1, process(0, 1)),
            (10, process(1, 10)),
            (11, process(10, 10)),
            // Left its group, then lost its parent.
            (12, process(11, 12)),
            (13, process(1, 13)),
            (20, process(1, 20)),
        ]);
        let pids = |found: BTreeSet<(i32, u64)>| found.into_iter().map(|(pid, _)| pid).collect::<Vec<_>>();
        assert_eq!(pids(family(&processes, 10, &BTreeSet::new())), [10, 11, 12]);
        let before = BTreeSet::from([(13, 7), (20, 6)]);
        assert_eq!(pids(family(&processes, 10, &before)), [10, 11, 12, 13], "20 is another one by now");
    }

    #[test]
    fn what_the_kernel_says_of_a_process_is_read() {
        let own =
            parse(&fs::read("/proc/self/stat").expect("of this process")).expect("as the kernel writes it");
        assert!(own.parent > 0 && own.pages > 0 && own.born > 0);
        let odd = b"7 (a) b (c) S 1 2 3 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 99 1000 55 0";
        let odd = parse(odd).expect("a line");
        assert_eq!((odd.parent, odd.group, odd.born, odd.pages), (1, 2, 99, 55));
        assert!(own_share(std::process::id() as i32, 1) > 1);
    }
}
