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
