//! A terminal state is final: what a client could have seen as ended stays ended in the same way, over
//! every restart.

use std::collections::BTreeMap;

use hq_core::server::state::State;
use hq_model::{IdSet, JobId};

/// Ended tasks as they were seen on disk.
#[derive(Debug, Default)]
pub struct Ends {
    seen: BTreeMap<JobId, [IdSet; 4]>,
}

impl Ends {
    /// Looks at a state that is on disk.
    ///
    /// # Errors
    /// Names a task that had ended and has not any more.
    pub fn check(&mut self, state: &State) -> Result<(), String> {
        for (id, job) in &state.jobs {
            let now = [&job.finished, &job.failed, &job.canceled, &job.aborted];
            let words = ["finished", "failed", "canceled", "aborted"];
            let seen = self.seen.entry(*id).or_default();
            for ((seen, now), word) in seen.iter_mut().zip(now).zip(words) {
                if !now.contains_all(seen) {
                    return Err(format!("job {id}: tasks {} were {word} and are not", seen.difference(now)));
                }
                seen.clone_from(now);
            }
        }
        Ok(())
    }
}
