//! What must hold, one observer a promise. They see every event and recount by themselves; a broken
//! promise is a text that names the rule and the place.

mod acknowledged;
mod attempts;
mod ends;
mod fold;

pub use acknowledged::Acknowledged;
pub use attempts::Attempts;
pub use ends::Ends;
pub use fold::{Folds, fold_equals_state};

/// All observers with a memory.
#[derive(Debug, Default)]
pub struct Observers {
    /// Submits that were answered.
    pub acknowledged: Acknowledged,
    /// Starts of tasks.
    pub attempts: Attempts,
    /// Ends of tasks.
    pub ends: Ends,
    /// The journal against the state.
    pub fold: Folds,
}
