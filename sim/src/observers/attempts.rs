//! An attempt starts at most once. The instance alone tells attempts apart as long as no machine loses
//! what was written; with the epoch it always does.

use std::collections::BTreeMap;

use hq_model::{Epoch, Instance, TaskRef};

/// Every start of a task.
#[derive(Debug, Default)]
pub struct Attempts {
    started: BTreeMap<(TaskRef, Instance), Epoch>,
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

    /// The node could not start it: it may be started again as the same instance.
    pub fn not_started(&mut self, task: TaskRef, instance: Instance) {
        self.started.remove(&(task, instance));
    }

    /// Number of starts.
    pub fn count(&self) -> usize {
        self.started.len()
    }
}
