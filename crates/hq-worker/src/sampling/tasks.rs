//! What running tasks use: CPU time, memory and what they read and write, as the kernel tells of their processes.
//!
//! The processes of a task are found as where a task is ended or watched: those of its group, those that descend from them,
//! and those that did when they were seen first. One look goes through all processes of the node once.

use std::collections::BTreeMap;
use std::fs;

use hq_model::{Instance, TaskLoad, TaskRef, TaskSample};

use crate::launcher::MARK;
use crate::launcher::family::{self, Process};
use crate::notify::AccessKeys;

/// Generations between a process and the task that it belongs to; what is further away is not counted.
const DEPTH_MAX: usize = 64;

/// Looks at the tasks of one worker.
#[derive(Debug)]
pub(crate) struct TaskLooks {
    launcher: i32,
    keys: AccessKeys,
    kernel: Units,
    /// By the number of the process that executes the program.
    tasks: BTreeMap<i32, Known>,
}

/// In which the kernel counts.
#[derive(Clone, Copy, Debug)]
struct Units {
    ticks_per_second: u64,
    page_bytes: u64,
}

/// A task that has been seen.
#[derive(Debug)]
struct Known {
    task: TaskRef,
    instance: Instance,
    born: u64,
    // By number and birth, as of the last look.
    members: Vec<(i32, u64)>,
    counts: Counts,
    // When that was begun, in ticks since the node started.
    seen: u64,
}

/// What counts up over the life of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    ticks: u64,
    read_bytes: u64,
    written_bytes: u64,
}

impl TaskLooks {
    /// For the tasks that this launcher executes, and that were given such keys.
    pub(crate) fn new(launcher: u32, keys: AccessKeys) -> TaskLooks {
        let kernel =
            Units { ticks_per_second: procfs::ticks_per_second().max(1), page_bytes: procfs::page_size() };
        TaskLooks { launcher: launcher as i32, keys, kernel, tasks: BTreeMap::new() }
    }

    /// What each task uses now. Of what the kernel does not tell, nothing.
    pub(crate) fn look(&mut self) -> Vec<TaskSample> {
        let uptime = || uptime_ticks(self.kernel.ticks_per_second);
        let (Some(begun), processes, Some(now)) = (uptime(), family::processes(), uptime()) else {
            return Vec::new();
        };
        self.find(&processes);
        let mut families = families(&processes, &self.tasks);
        let (kernel, mut samples) = (self.kernel, Vec::new());
        for (pid, known) in &mut self.tasks {
            known.members = families.remove(pid).unwrap_or_default();
            let of_family = known.members.iter().filter_map(|(pid, _)| Some((*pid, processes.get(pid)?)));
            let mut counts = Counts::default();
            let mut pages = 0;
            for (pid, process) in of_family {
                let (read_bytes, written_bytes) = read_and_written(pid);
                counts.ticks += process.ticks;
                counts.read_bytes += read_bytes;
                counts.written_bytes += written_bytes;
                pages += process.pages;
            }
            let load = known.goes_on((begun, now), counts, pages, kernel);
            samples.push(TaskSample { task: known.task, instance: known.instance, load });
        }
        samples
    }

    // A process that has no program yet shows the environment of the launcher, and is asked again.
    fn find(&mut self, processes: &BTreeMap<i32, Process>) {
        self.tasks.retain(|pid, known| {
            processes.get(pid).is_some_and(|process| process.born == known.born && !process.is_over)
        });
        for (pid, process) in processes {
            let is_new = process.parent == self.launcher && process.group == *pid && !process.is_over;
            if !is_new || self.tasks.contains_key(pid) {
                continue;
            }
            let mark = family::variable(*pid, MARK);
            let attempt = mark.and_then(|mark| self.keys.attempt_of(&mark[MARK.len()..]));
            if let Some((task, instance)) = attempt {
                let born = process.born;
                let known = Known {
                    task,
                    instance,
                    born,
                    members: Vec::new(),
                    counts: Counts::default(),
                    seen: born,
                };
                self.tasks.insert(*pid, known);
            }
        }
    }
}

impl Known {
    // What a process had used that was lost sight of is not in the sums any more: these never go back. A look takes its time, on a
    // busy node as long as between two: what was used in it is of the time from the begin of the look before to the end of this.
    fn goes_on(&mut self, (begun, now): (u64, u64), counts: Counts, pages: u64, kernel: Units) -> TaskLoad {
        let before = self.counts;
        self.counts = Counts {
            ticks: counts.ticks.max(before.ticks),
            read_bytes: counts.read_bytes.max(before.read_bytes),
            written_bytes: counts.written_bytes.max(before.written_bytes),
        };
        let time = now.saturating_sub(self.seen).max(1);
        self.seen = begun;
        TaskLoad {
            cpus: (self.counts.ticks - before.ticks).saturating_mul(1000) / time,
            memory_bytes: pages.saturating_mul(kernel.page_bytes),
            cpu_us: self.counts.ticks.saturating_mul(1_000_000) / kernel.ticks_per_second,
            read_bytes: self.counts.read_bytes,
            written_bytes: self.counts.written_bytes,
            processes: self.members.len() as u64,
        }
    }
}

// The processes of each task, by number and birth.
fn families(
    processes: &BTreeMap<i32, Process>,
    tasks: &BTreeMap<i32, Known>,
) -> BTreeMap<i32, Vec<(i32, u64)>> {
    let seen = |(task, known): (&i32, &Known)| {
        let task = *task;
        known.members.clone().into_iter().map(move |member| (member, task))
    };
    let before: BTreeMap<(i32, u64), i32> = tasks.iter().flat_map(seen).collect();
    let own = |pid: i32, process: &Process| {
        let leads = [pid, process.group].into_iter().find(|leader| tasks.contains_key(leader));
        leads.or_else(|| before.get(&(pid, process.born)).copied())
    };
    let mut families: BTreeMap<i32, Vec<(i32, u64)>> = BTreeMap::new();
    for (pid, process) in processes.iter().filter(|(_, process)| !process.is_over) {
        let (mut at, mut of) = (*pid, process);
        for _ in 0..DEPTH_MAX {
            if let Some(task) = own(at, of) {
                families.entry(task).or_default().push((*pid, process.born));
                break;
            }
            let Some(parent) = processes.get(&of.parent) else { break };
            (at, of) = (of.parent, parent);
        }
    }
    families
}

// Bytes that went through system calls, those of its ended children included.
fn read_and_written(pid: i32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let count = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name));
        rest.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
    };
    (count("rchar:"), count("wchar:"))
}

// Since the node started, on the clock by which processes are born.
fn uptime_ticks(ticks_per_second: u64) -> Option<u64> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some((seconds * ticks_per_second as f64) as u64)
}

#[cfg(test)]
mod tests {
    use hq_model::{JobId, TaskId};

    use super::*;

    const KERNEL: Units = Units { ticks_per_second: 100, page_bytes: 4096 };

    fn known(members: &[(i32, u64)]) -> Known {
        Known {
            task: TaskRef { job: JobId(1), task: TaskId(1) },
            instance: Instance(0),
            born: 7,
            members: members.to_vec(),
            counts: Counts::default(),
            seen: 1000,
        }
    }

    fn process(parent: i32, group: i32) -> Process {
        Process { parent, group, born: 7, pages: 1, ticks: 0, is_over: false }
    }

    #[test]
    fn each_process_counts_for_the_task_that_it_belongs_to() {
        let over = Process { is_over: true, ..process(10, 10) };
        let processes = BTreeMap::from([
            (1, process(0, 1)),
            (5, process(1, 5)),
            (10, process(5, 10)),
            (11, process(10, 10)),
            // It left its group, and its child, too.
            (12, process(11, 12)),
            (13, process(12, 13)),
            (14, over),
            (20, process(5, 20)),
            // It belonged to the second task before its parent ended.
            (21, process(5, 21)),
            (22, process(21, 21)),
            (30, process(1, 30)),
        ]);
        let tasks = BTreeMap::from([(10, known(&[])), (20, known(&[(21, 7), (30, 6)]))]);
        let found = families(&processes, &tasks);
        let pids = |task: i32| found[&task].iter().map(|(pid, _)| *pid).collect::<Vec<_>>();
        assert_eq!(
            (pids(10), pids(20)),
            (vec![10, 11, 12, 13], vec![20, 21, 22]),
            "30 is another one by now"
        );
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn use_is_told_since_the_look_before_and_since_the_start() {
        let mut known = known(&[(10, 7), (11, 7)]);
        let counts = |ticks, read_bytes| Counts { ticks, read_bytes, written_bytes: 5 };
        let first = known.goes_on((1500, 1500), counts(250, 1000), 3, KERNEL);
        assert_eq!((first.cpus, first.memory_bytes, first.cpu_us), (500, 3 * 4096, 2_500_000));
        assert_eq!((first.read_bytes, first.written_bytes, first.processes), (1000, 5, 2));
        let second = known.goes_on((2500, 2500), counts(2250, 1500), 1, KERNEL);
        assert_eq!((second.cpus, second.memory_bytes, second.cpu_us), (2000, 4096, 22_500_000));
        // A child was lost sight of, with all that it had used.
        let third = known.goes_on((3400, 3500), counts(1000, 0), 1, KERNEL);
        assert_eq!((third.cpus, third.cpu_us, third.read_bytes), (0, 22_500_000, 1500));
        let slow = known.goes_on((3500, 3600), counts(2450, 0), 1, KERNEL);
        assert_eq!(slow.cpus, 1000, "from the begin of the look before to the end of this");
        let at_once = known.goes_on((3500, 3500), counts(2451, 0), 1, KERNEL);
        assert_eq!(at_once.cpus, 1000, "one tick is the shortest time");
    }

    #[test]
    fn the_kernel_tells() {
        let own = std::process::id() as i32;
        assert!(uptime_ticks(100).expect("an uptime") > 0);
        let process = family::process(own).expect("this process");
        assert!(process.pages > 0);
        // What this test has read counts.
        fs::read("/proc/self/stat").expect("a file");
        assert!(read_and_written(own).0 > 0);
        assert_eq!(read_and_written(-1), (0, 0));
    }
}
