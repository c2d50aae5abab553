//! The books of a worker, recounted.

use std::collections::BTreeMap;

use super::Worker;

impl Worker {
    /// Checks the machine's own bookkeeping, recounted from scratch: for the simulator and tests.
    ///
    /// # Errors
    /// Says which rule is broken.
    pub fn check(&self) -> Result<(), String> {
        let mut indices = BTreeMap::new();
        for (task, run) in &self.running {
            for given in run.ranks.iter().chain([&run.grant]).flat_map(|given| &given.resources) {
                for (index, units) in &given.indices {
                    let taken = indices.entry((given.pool, *index)).or_insert(0u64);
                    *taken += u64::from(*units);
                    if *taken > hq_model::amount::UNITS {
                        return Err(format!(
                            "task {task}: index {index} of pool {} is taken twice",
                            given.pool
                        ));
                    }
                }
            }
            if !self.templates.contains_key(&run.template) {
                return Err(format!("task {task} runs without a template"));
            }
        }
        let kept = self.armed.values().filter_map(|armed| armed.after.as_ref()?.runner);
        let calls = self.running.values().filter_map(|run| run.runner).chain(kept);
        if calls.filter(|id| self.runners.is_busy(*id)).count() != self.runners.busy_count() {
            return Err("a runner is busy without a call, or has two".into());
        }
        let is_kept = self.armed.values().any(|armed| armed.after.is_some());
        if self.running.is_empty() && !is_kept && !self.pools.is_free() {
            return Err("nothing runs and something is taken".into());
        }
        if self.queue.values().chain(self.followers.values()).any(|batch| batch.left.is_empty()) {
            return Err("an empty batch is queued".into());
        }
        if let Some(leader) = self.followers.keys().find(|leader| self.instance_here(**leader).is_none()) {
            return Err(format!("a task waits for {leader}, which is not here"));
        }
        Ok(())
    }
}
