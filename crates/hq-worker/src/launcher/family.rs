//! Processes as the kernel shows them: who descends from whom, and of which task a process is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// With the number it names a process for good.
    pub(crate) born: u64,
    pub(crate) pages: u64,
    /// CPU time that it and those of its children have used that have ended, in ticks of the kernel.
    pub(crate) ticks: u64,
    /// It runs no more, and only waits to be noticed by its parent.
    pub(crate) is_over: bool,
}

/// All processes of the system.
pub(crate) fn processes() -> BTreeMap<i32, Process> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(process) = process(pid) {
            found.insert(pid, process);
        }
    }
    found
}

/// One process.
pub(crate) fn process(pid: i32) -> Option<Process> {
    parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

// The command in parentheses may hold anything; the fields follow the last one.
fn parse(stat: &[u8]) -> Option<Process> {
    let end = stat.iter().rposition(|b| *b == b')')?;
    let text = String::from_utf8_lossy(&stat[end + 1..]);
    let mut words = [""; 22];
    for (place, word) in words.iter_mut().zip(text.split_ascii_whitespace()) {
        *place = word;
    }
    let number = |at: usize| words[at].parse::<u64>().ok();
    Some(Process {
        parent: words[1].parse().ok()?,
        group: words[2].parse().ok()?,
        born: number(19)?,
        pages: number(21)?,
        ticks: (11..15).map(number).sum::<Option<u64>>()?,
        is_over: matches!(words[0], "Z" | "X" | "x"),
    })
}

/// These processes and all that descend from them.
pub(crate) fn with_descendants(processes: &BTreeMap<i32, Process>, roots: Vec<i32>) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (pid, process) in processes {
        children.entry(process.parent).or_default().push(*pid);
    }
    let mut next = roots;
    let mut found = BTreeSet::new();
    while let Some(pid) = next.pop() {
        if processes.contains_key(&pid) && found.insert(pid) {
            next.extend(children.get(&pid).into_iter().flatten());
        }
    }
    found
}

/// The processes of a task that runs: those of its group, those that descend from them, and those that did `before`.
pub(crate) fn members(
    processes: &BTreeMap<i32, Process>,
    task: i32,
    before: &BTreeSet<(i32, u64)>,
) -> BTreeSet<(i32, u64)> {
    let is_root = |pid: i32, process: &Process| {
        pid == task || process.group == task || before.contains(&(pid, process.born))
    };
    let roots = processes.iter().filter(|(pid, process)| is_root(**pid, process)).map(|(pid, _)| *pid);
    let found = with_descendants(processes, roots.collect());
    found.into_iter().map(|pid| (pid, processes[&pid].born)).collect()
}

/// Kills a process, whatever its group or session.
pub(crate) fn kill(pid: i32) {
    // SAFETY: a plain system call.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// The variable of a process's first environment that begins with `NAME=`.
pub(crate) fn variable(pid: i32, name: &[u8]) -> Option<Vec<u8>> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    variables.find(|variable| variable.starts_with(name)).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_a_group_its_descendants_and_those_seen_before() {
        let process = |parent, group| Process { parent, group, born: 7, pages: 1, ticks: 0, is_over: false };
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
        assert_eq!(pids(members(&processes, 10, &BTreeSet::new())), [10, 11, 12]);
        let before = BTreeSet::from([(13, 7), (20, 6)]);
        assert_eq!(pids(members(&processes, 10, &before)), [10, 11, 12, 13], "20 is another one by now");
    }

    #[test]
    fn what_the_kernel_says_of_a_process_is_read() {
        let own = process(std::process::id() as i32).expect("as the kernel writes it");
        assert!(own.parent > 0 && own.pages > 0 && own.born > 0 && !own.is_over);
        let odd = b"7 (a) b (c) Z 1 2 3 0 -1 4194560 0 0 0 0 5 6 7 8 20 0 1 0 99 1000 55 0";
        let odd = parse(odd).expect("a line");
        assert_eq!((odd.parent, odd.group, odd.born, odd.pages, odd.is_over), (1, 2, 99, 55, true));
        assert_eq!(odd.ticks, 26, "with those of children that have ended");
    }
}
