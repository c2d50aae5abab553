//! The live state equals the fold of the journal.

use hq_core::record::Record;
use hq_core::server::state::State;
use hq_model::Timestamp;

use crate::journal::{fold, snapshot};

/// Folds all records and compares; so does it with the records that a compaction would leave.
///
/// # Errors
/// When the two differ.
pub fn fold_equals_state(records: &[(Timestamp, Record)], state: &State) -> Result<(), String> {
    let restored = fold(records);
    if &restored != state {
        return Err("the live state differs from the fold of the journal".into());
    }
    if fold(&snapshot(state)) != restored {
        return Err("a compacted journal rebuilds another state".into());
    }
    Ok(())
}

/// Compares now and then.
#[derive(Debug, Default)]
pub struct Folds {
    // How long the journal was the last time.
    last: usize,
    /// In haste: only when most of it is new.
    pub is_hasty: bool,
}

impl Folds {
    /// As [`fold_equals_state`], when the journal has changed by a part of itself: a fold takes as long as it is.
    ///
    /// # Errors
    /// When the two differ.
    pub fn check(&mut self, records: &[(Timestamp, Record)], state: &State) -> Result<(), String> {
        let parts = if self.is_hasty { 2 } else { 8 };
        if records.len().abs_diff(self.last) * parts < records.len() {
            return Ok(());
        }
        self.last = records.len();
        fold_equals_state(records, state)
    }
}
