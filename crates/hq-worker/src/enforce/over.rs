//! A thread that looks at control groups of version 1: where the kernel has ended a process there for its memory, the rest
//! of the task is ended, too. In version 2 the kernel does so itself.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tracing::warn;

use super::groups::{kill_all, killed_for_memory};
use crate::limits::MEMORY_LOOK;

/// The groups that are looked at. The thread is there from the first one on, and ends with this.
#[derive(Debug, Default)]
pub(super) struct Watch {
    directories: Arc<Mutex<Vec<PathBuf>>>,
    has_thread: bool,
}

impl Watch {
    /// From now on groups of a task, too.
    pub(super) fn look_at(&mut self, directories: &[PathBuf]) {
        lock(&self.directories).extend_from_slice(directories);
        if !self.has_thread {
            let watched = Arc::downgrade(&self.directories);
            let thread = std::thread::Builder::new().name("hq-groups".into()).spawn(move || watch(&watched));
            match thread {
                Ok(_) => self.has_thread = true,
                Err(error) => {
                    warn!(%error, "tasks over their memory are only partly ended: a thread is missing")
                }
            }
        }
    }

    /// The task has ended.
    pub(super) fn look_no_more_at(&mut self, directories: &[PathBuf]) {
        if self.has_thread {
            lock(&self.directories).retain(|one| !directories.contains(one));
        }
    }
}

fn watch(watched: &Weak<Mutex<Vec<PathBuf>>>) {
    while let Some(directories) = watched.upgrade() {
        // While this is held no group is removed, nor is another one made in its place.
        end_the_rest(&lock(&directories));
        drop(directories);
        std::thread::sleep(MEMORY_LOOK);
    }
}

// Ends what is left in groups in which something was ended for its memory.
fn end_the_rest(directories: &[PathBuf]) {
    directories.iter().filter(|group| killed_for_memory(group).is_some()).for_each(|group| kill_all(group));
}

fn lock(directories: &Mutex<Vec<PathBuf>>) -> MutexGuard<'_, Vec<PathBuf>> {
    directories.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_rest_of_a_task_is_ended_when_the_kernel_has_ended_a_part() {
        let root = tempfile::tempdir().expect("a directory");
        let mut sleeps = ["0", "1"].map(|kills| {
            let child = Command::new("sleep").arg("1000").spawn().expect("sleep can be run");
            let group = root.path().join(kills);
            std::fs::create_dir(&group).expect("writable");
            let control = format!("oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n");
            std::fs::write(group.join("memory.oom_control"), control).expect("writable");
            std::fs::write(group.join("memory.max_usage_in_bytes"), "4096\n").expect("writable");
            std::fs::write(group.join("cgroup.procs"), format!("{}\n", child.id())).expect("writable");
            child
        });
        let mut watch = Watch::default();
        watch.look_at(&["0", "1"].map(|kills| root.path().join(kills)));
        assert_eq!(sleeps[1].wait().expect("a child").signal(), Some(9));
        assert!(sleeps[0].try_wait().expect("a child").is_none(), "nothing was ended in its group");
        sleeps[0].kill().expect("a child");
        sleeps[0].wait().expect("a child");
    }
}
