//! No task loses its entry that may still run, may be submitted again as it failed, or of which a reducer is to be told.

use hq_core::server::state::State;
use hq_model::IdSet;

/// Looks at all submits.
///
/// # Errors
/// Names a task without its entry.
pub fn entries_are_there(state: &State) -> Result<(), String> {
    for (id, job) in &state.jobs {
        let feed = job.feed.as_deref().filter(|feed| feed.reducer.is_some() && job.is_open);
        for submit in &job.submits {
            let gone = &submit.entries_gone;
            let mut needed = gone.difference(&job.finished);
            needed.union_with(&feed.map_or_else(IdSet::new, |feed| gone.difference(&feed.reduced)));
            if let Some(task) = needed.first() {
                return Err(format!("the entry of task {task} of job {id} is gone, and may be needed"));
            }
            let (has_entries, left) = (!submit.entries.is_empty(), submit.ids.len() - gone.len());
            if (has_entries || !gone.is_empty()) && submit.entries.len() as u64 != left {
                let count = submit.entries.len();
                return Err(format!("job {id} has {count} entries of {left} tasks that have theirs"));
            }
        }
    }
    Ok(())
}
