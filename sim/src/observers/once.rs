//! Nothing ends twice: of all attempts of a task, one at most ends it, in one record.

use std::collections::BTreeMap;

use hq_core::record::Record;
use hq_core::server::Effect;
use hq_core::server::state::State;
use hq_model::{IdSet, JobId};

/// Tasks that have ended, and how often a task was begun a second time.
#[derive(Debug, Default)]
pub struct Once {
    ended: BTreeMap<JobId, IdSet>,
    /// Second attempts so far.
    pub speculated: u64,
}

impl Once {
    /// A server starts with this state: records that were not written are gone.
    pub fn restarted(&mut self, state: &State) {
        self.ended.clear();
        for (id, job) in &state.jobs {
            let ended = self.ended.entry(*id).or_default();
            for ids in [&job.finished, &job.failed, &job.canceled, &job.aborted] {
                ended.union_with(ids);
            }
        }
    }

    /// Looks at what a server does.
    ///
    /// # Errors
    /// Names a task that ends again.
    pub fn check(&mut self, effects: &[Effect]) -> Result<(), String> {
        for effect in effects {
            let Effect::Persist { record, .. } = effect else { continue };
            let (job, ids) = match record {
                Record::Finished { span, .. } => (span.job, span.ids.clone()),
                Record::Failed { job, failure } => (*job, IdSet::single(failure.task)),
                Record::Canceled { job, ids, .. } | Record::Aborted { job, ids, .. } => (*job, ids.clone()),
                Record::Speculated { .. } => {
                    self.speculated += 1;
                    continue;
                }
                Record::JobForgotten { job } => {
                    self.ended.remove(job);
                    continue;
                }
                _ => continue,
            };
            let ended = self.ended.entry(job).or_default();
            if ended.intersects(&ids) {
                return Err(format!("job {job}: tasks {} end again: {record:?}", ended.intersection(&ids)));
            }
            ended.union_with(&ids);
        }
        Ok(())
    }
}
