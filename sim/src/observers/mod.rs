//! What must hold, as far as somebody beside the machines can tell it. Each observer sees the events that concern it and
//! recounts by itself; a broken promise is a text that names the rule and the place.

mod acknowledged;
mod allocations;
mod at_most_once;
mod attempts;
mod blocks;
mod budgets;
mod drafts;
mod ends;
mod entries;
mod feeds;
mod fold;
mod handing;
mod last_moments;
mod lingering;
mod lives;
mod nodes;
mod notices;
mod objects;
mod once;
mod order;
mod policies;
mod runners;
pub mod work;

pub use acknowledged::Acknowledged;
pub use allocations::Allocations;
pub use at_most_once::AtMostOnce;
pub use attempts::Attempts;
pub use blocks::Blocks;
pub use budgets::Budgets;
pub use drafts::Drafts;
pub use ends::Ends;
pub use entries::entries_are_there;
pub use feeds::{Feeds, line};
pub use fold::{Folds, fold_equals_state};
pub use handing::Handing;
pub use last_moments::{never_too_late, starts_in_time};
pub use lingering::Lingering;
pub use lives::lives_long_enough;
pub use nodes::Nodes;
pub use notices::Notices;
pub use objects::{Objects, may_be_freed, nobody_waits_for_what_is_gone, what_stays};
pub use once::Once;
pub use order::Order;
pub use policies::Policies;
pub use runners::{Runners, check_inputs, check_results, result_of};

use std::collections::BTreeMap;

use hq_core::server::Effect;
use hq_model::{Epoch, Instance, TaskRef, Timestamp};

/// All observers with a memory.
#[derive(Debug, Default)]
pub struct Observers {
    /// Submits that were answered.
    pub acknowledged: Acknowledged,
    /// What was asked of batch systems.
    pub allocations: Allocations,
    /// Tasks that must never run twice.
    pub at_most_once: AtMostOnce,
    /// Starts of tasks.
    pub attempts: Attempts,
    /// Submits of one request.
    pub blocks: Blocks,
    /// What jobs with budgets have used.
    pub budgets: Budgets,
    /// Jobs that are made together.
    pub drafts: Drafts,
    /// Ends of tasks.
    pub ends: Ends,
    /// Jobs that are fed and drained.
    pub feeds: Feeds,
    /// Open jobs that clients leave.
    pub lingering: Lingering,
    /// Tasks on several nodes.
    pub nodes: Nodes,
    /// Since when, and how often, others took the room of a class that goes before them.
    pub passed_over: BTreeMap<u32, (Timestamp, u32)>,
    /// Who was told of jobs.
    pub notices: Notices,
    /// Objects that tasks leave and take.
    pub objects: Objects,
    /// Ends, once for each task.
    pub once: Once,
    /// The journal against the state.
    pub fold: Folds,
    /// Tasks and those they wait for.
    pub order: Order,
    /// What tasks get of pools with groups.
    pub policies: Policies,
}

impl Observers {
    /// A server wants these effects.
    ///
    /// # Errors
    /// When a task ends twice, or half of a request counts.
    pub fn persisted(&mut self, effects: &[Effect]) -> Result<(), String> {
        self.acknowledged.may_forget(effects);
        self.order.persisted(effects);
        self.at_most_once.persisted(effects);
        self.nodes.persisted(effects)?;
        self.objects.persisted(effects)?;
        check_results(effects)?;
        self.budgets.check(effects)?;
        self.drafts.check(effects)?;
        self.once.check(effects)
    }

    /// A process for a task was started. Whether it was too early can be told when its worker knows.
    ///
    /// # Errors
    /// When the attempt was started before.
    pub fn started(&mut self, task: TaskRef, instance: Instance, epoch: Epoch) -> Result<(), String> {
        self.attempts.started(task, instance, epoch)?;
        self.at_most_once.started(task)
    }

    /// The node could not make the process: nothing of the task has run.
    pub fn not_started(&mut self, task: TaskRef, instance: Instance) {
        self.attempts.not_started(task, instance);
        self.at_most_once.not_started(task);
    }
}
