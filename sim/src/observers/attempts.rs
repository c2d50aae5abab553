//! An attempt starts at most once. The instance alone tells attempts apart as long as no machine loses
//! what was written; with the epoch it always does.

use std::collections::{BTreeMap, BTreeSet};

use hq_core::limits::ATTEMPTS_OF_TASK_MAX;
use hq_core::server::state::State;
use hq_model::{Epoch, Instance, TaskRef};

/// Every start of a task.
#[derive(Debug, Default)]
pub struct Attempts {
    started: BTreeMap<(TaskRef, Instance), Epoch>,
    // Those whose start was ordered of a launcher: to a server they have begun, though their process may be made later.
    ordered: BTreeSet<(TaskRef, Instance)>,
    /// Written records were lost: the same instance may come again in a later epoch.
    pub machine_lost: bool,
}

impl Attempts {
    /// A process for a task was started.
    ///
    /// # Errors
    /// When the same attempt was started before.
    pub fn started(&mut self, task: TaskRef, instance: Instance, epoch: Epoch) -> Result<(), String> {
        match self.started.insert((task, instance), epoch) {
            Some(before) if !self.machine_lost || before == epoch => {
                Err(format!("task {task} was started twice as instance {instance}"))
            }
            _ => Ok(()),
        }
    }

    /// A worker orders a start.
    pub fn ordered(&mut self, task: TaskRef, instance: Instance) {
        self.ordered.insert((task, instance));
    }

    /// The node could not start it: it may be started again as the same instance.
    pub fn not_started(&mut self, task: TaskRef, instance: Instance) {
        self.started.remove(&(task, instance));
    }

    /// What a server keeps of attempts that did not end their tasks.
    ///
    /// # Errors
    /// When one is said to have started that never was, or a task has more than are kept of one.
    pub fn check_kept(&self, state: &State) -> Result<(), String> {
        let mut counts: BTreeMap<TaskRef, usize> = BTreeMap::new();
        for (job, attempt) in state.attempts.all() {
            let task = TaskRef::new(job, attempt.task);
            let attempt_of = (task, attempt.instance);
            let is_known = self.started.contains_key(&attempt_of) || self.ordered.contains(&attempt_of);
            if attempt.started.is_some() && !is_known && !self.machine_lost {
                return Err(format!(
                    "task {task} never started as instance {}, which is kept",
                    attempt.instance
                ));
            }
            let count = counts.entry(task).or_default();
            *count += 1;
            if *count > ATTEMPTS_OF_TASK_MAX {
                return Err(format!("{count} attempts of task {task} are kept"));
            }
        }
        Ok(())
    }

    /// Number of starts.
    pub fn count(&self) -> usize {
        self.started.len()
    }
}
