//! Holding tasks to what they asked for: in control groups where those can be made, else by watching.
//!
//! Off unless the user asks for it. Groups are named after the worker's process, so that the next worker on the node
//! finds and removes what one that was killed left behind.

mod groups;
mod over;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hq_core::worker::Start;
use hq_model::amount::UNITS;
use hq_model::task::WordError;
use hq_model::{Amount, Instance, TaskRef, memory};
use tracing::{info, warn};

use groups::Groups;
pub use groups::Kernel;
use over::Watch;

const MIB: u64 = 1 << 20;

/// What tasks are held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enforce {
    /// No more memory than asked for, where a task asks for some.
    pub memory: bool,
    /// No more CPU time than asked for.
    pub cpu: bool,
}

impl Enforce {
    /// True when tasks are held to something.
    pub fn is_on(self) -> bool {
        self.memory || self.cpu
    }
}

impl FromStr for Enforce {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Enforce, WordError> {
        let mut enforce = Enforce::default();
        for word in text.split(',').map(str::trim) {
            match word {
                "memory" | "mem" => enforce.memory = true,
                "cpu" | "cpus" => enforce.cpu = true,
                "none" if text.trim() == "none" => {}
                _ => return Err(WordError::new(word, "memory, cpu or none")),
            }
        }
        Ok(enforce)
    }
}

impl fmt::Display for Enforce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.memory, self.cpu) {
            (true, true) => "memory,cpu",
            (true, false) => "memory",
            (false, true) => "cpu",
            (false, false) => "none",
        })
    }
}

/// What one task is held to, and how.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Files to write a process id to, NUL-terminated paths.
    pub(crate) groups: Vec<u8>,
    /// Bytes of resident memory over which the launcher ends it; 0 without.
    pub(crate) memory_bytes: u64,
    /// It is bound to its CPUs.
    pub(crate) is_bound: bool,
}

/// Holds the tasks of one worker to what they asked for.
#[derive(Debug, Default)]
pub(crate) struct Enforcer {
    enforce: Enforce,
    groups: Groups,
    // An interpreter is held to what its first task asked for, beside what may begin of that task meanwhile.
    running: HashMap<(TaskRef, Instance), Enforced>,
    watch: Watch,
}

#[derive(Debug)]
struct Enforced {
    memory: Option<Amount>,
    directories: Vec<PathBuf>,
}

impl Enforcer {
    /// Makes the groups that this worker can make, after removing those that workers before it left. `root` is the
    /// node's root directory, `launcher` the process that starts tasks.
    pub(crate) fn new(enforce: Enforce, root: &Path, kernel: Kernel, launcher: u32) -> Enforcer {
        let mut groups = Groups::default();
        if enforce.is_on() {
            groups = Groups::make(root, kernel, enforce, launcher);
            for note in groups.take_notes() {
                warn!("{note}");
            }
            let by = |is_in_group: bool, otherwise| if is_in_group { "control groups" } else { otherwise };
            if enforce.memory {
                info!(
                    by = by(groups.has_memory(), "watching resident memory"),
                    "tasks are held to their memory"
                );
            }
            if enforce.cpu {
                info!(by = by(groups.has_cpu(), "binding to CPUs"), "tasks are held to their CPUs");
            }
        }
        Enforcer { enforce, groups, running: HashMap::new(), watch: Watch::default() }
    }

    /// What a task that is about to start is held to: `memory` and `cpus` are what it got.
    ///
    /// # Errors
    /// The text for people when its group cannot be made.
    pub(crate) fn begin(
        &mut self,
        start: &Start,
        memory: Option<Amount>,
        cpus: Option<Amount>,
    ) -> Result<Limits, String> {
        let mut limits = Limits::default();
        if !self.enforce.is_on() {
            return Ok(limits);
        }
        let memory = memory.filter(|_| self.enforce.memory);
        let cpus = cpus.filter(|_| self.enforce.cpu);
        if let Some(memory) = memory.filter(|_| !self.groups.has_memory()) {
            limits.memory_bytes = bytes(memory);
        }
        limits.is_bound = cpus.is_some_and(|cpus| !self.groups.has_cpu() && cpus.0 % UNITS == 0);
        let name = format!("task-{}-{}-{}", start.task.job, start.task.task, start.instance);
        let made = self.groups.make_task(&name, memory.map(bytes), cpus).map_err(|(path, error)| {
            format!("cannot create the control group {} for the task: {error}", path.display())
        })?;
        for directory in &made {
            limits.groups.extend_from_slice(directory.join("cgroup.procs").as_os_str().as_encoded_bytes());
            limits.groups.push(0);
        }
        if memory.is_some() && self.groups.end_in_part() {
            self.watch.look_at(&made);
        }
        self.running.insert((start.task, start.instance), Enforced { memory, directories: made });
        Ok(limits)
    }

    /// A task has ended. Says so when it was for its memory; `watched_kib` is what it used when the launcher ended it for
    /// that.
    pub(crate) fn end(&mut self, attempt: (TaskRef, Instance), watched_kib: Option<u64>) -> Option<String> {
        let held = self.running.remove(&attempt)?;
        let used = held.directories.iter().find_map(|directory| groups::killed_for_memory(directory));
        self.watch.look_no_more_at(&held.directories);
        self.groups.remove_task(held.directories);
        let asked = memory::format(held.memory?);
        let shown = |bytes: u64| memory::format(Amount::whole(bytes.div_ceil(MIB)));
        if let Some(kib) = watched_kib {
            let used = shown(kib.saturating_mul(1024));
            return Some(format!(
                "The task used more memory than it requested: {asked} requested, {used} used."
            ));
        }
        let used = shown(used?);
        Some(format!(
            "The task used more memory than it requested: {asked} requested, {used} used when it wanted more."
        ))
    }
}

fn bytes(memory: Amount) -> u64 {
    (u128::from(memory.0) * u128::from(MIB) / u128::from(UNITS)).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_enforced_is_a_list_of_words() {
        for (text, memory, cpu) in [
            ("memory", true, false),
            ("cpu", false, true),
            ("memory,cpu", true, true),
            ("cpus, mem", true, true),
            ("none", false, false),
        ] {
            assert_eq!(text.parse(), Ok(Enforce { memory, cpu }), "{text}");
        }
        for text in ["", "disk", "memory,,cpu", "none,cpu"] {
            assert!(text.parse::<Enforce>().is_err(), "{text}");
        }
        assert_eq!(Enforce { memory: true, cpu: true }.to_string(), "memory,cpu");
    }

    #[test]
    fn mebibytes_become_bytes() {
        assert_eq!(bytes(Amount::whole(64)), 64 << 20);
        assert_eq!(bytes(Amount(5000)), 512 << 10);
        assert!(bytes(Amount(u64::MAX)) > 1 << 60);
    }
}
