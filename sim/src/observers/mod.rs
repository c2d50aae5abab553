//! What must hold, one observer a promise. They see every event and recount by themselves; a broken
//! promise is a text that names the rule and the place.

mod acknowledged;
mod allocations;
mod attempts;
mod ends;
mod fold;
mod nodes;
mod once;
mod order;

pub use acknowledged::Acknowledged;
pub use allocations::Allocations;
pub use attempts::Attempts;
pub use ends::Ends;
pub use fold::{Folds, fold_equals_state};
pub use nodes::Nodes;
pub use once::Once;
pub use order::Order;

use hq_core::server::Effect;
use hq_model::{Epoch, Instance, TaskRef};

/// All observers with a memory.
#[derive(Debug, Default)]
pub struct Observers {
    /// Submits that were answered.
    pub acknowledged: Acknowledged,
    /// What was asked of batch systems.
    pub allocations: Allocations,
    /// Starts of tasks.
    pub attempts: Attempts,
    /// Ends of tasks.
    pub ends: Ends,
    /// Tasks on several nodes.
    pub nodes: Nodes,
    /// Ends, once for each task.
    pub once: Once,
    /// The journal against the state.
    pub fold: Folds,
    /// Tasks and those they wait for.
    pub order: Order,
}

impl Observers {
    /// A server wants these effects.
    ///
    /// # Errors
    /// When a task ends twice.
    pub fn persisted(&mut self, effects: &[Effect]) -> Result<(), String> {
        self.acknowledged.may_forget(effects);
        self.order.persisted(effects);
        self.nodes.persisted(effects)?;
        self.once.check(effects)
    }

    /// A process for a task was started.
    ///
    /// # Errors
    /// When the attempt was started before, or too early.
    pub fn started(
        &mut self,
        process: (usize, u64),
        task: TaskRef,
        instance: Instance,
        epoch: Epoch,
    ) -> Result<(), String> {
        self.attempts.started(task, instance, epoch)?;
        self.order.started(process, task, instance)
    }
}
