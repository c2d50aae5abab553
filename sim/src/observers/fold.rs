//! The live state equals the fold of the journal.

use hq_core::record::Record;
use hq_core::server::state::State;
use hq_model::Timestamp;

/// Folds all records and compares.
///
/// # Errors
/// When the two differ.
pub fn fold_equals_state(records: &[(Timestamp, Record)], state: &State) -> Result<(), String> {
    let mut fold = State::default();
    for (at, record) in records {
        fold.apply(*at, record);
    }
    if &fold != state {
        return Err("the live state differs from the fold of the journal".into());
    }
    Ok(())
}
