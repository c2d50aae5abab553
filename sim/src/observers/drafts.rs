//! Jobs that are made together count when all of them are there, or not at all.

use std::collections::BTreeMap;

use hq_core::record::Record;
use hq_core::server::Effect;
use hq_core::server::state::State;
use hq_model::{IdSet, JobId};

/// Drafts, with their tasks that have not ended.
#[derive(Debug, Default)]
pub struct Drafts {
    alive: BTreeMap<JobId, IdSet>,
}

impl Drafts {
    /// A server starts with this state: records that were not written are gone.
    pub fn restarted(&mut self, state: &State) {
        let drafts = state.jobs.iter().filter(|(_, job)| job.is_draft());
        self.alive = drafts.map(|(id, job)| (*id, job.alive())).collect();
    }

    /// Looks at what a server does. No client makes drafts here: those of the server count by a record that says more than that.
    ///
    /// # Errors
    /// Names a draft that was closed by itself, as if it were whole.
    pub fn check(&mut self, effects: &[Effect]) -> Result<(), String> {
        for effect in effects {
            let Effect::Persist { record, .. } = effect else { continue };
            if let Record::JobClosed { job } = record
                && self.alive.get(job).is_some_and(|alive| !alive.is_empty())
            {
                return Err(format!("job {job} counts, and is half of a request"));
            }
            self.take(record);
        }
        Ok(())
    }

    fn take(&mut self, record: &Record) {
        match record {
            Record::Together { records } => records.iter().for_each(|record| self.take(record)),
            Record::JobOpened { job, spec, .. } if spec.is_draft => {
                self.alive.insert(*job, IdSet::new());
            }
            Record::Submitted { job, ids, .. } => {
                if let Some(alive) = self.alive.get_mut(job) {
                    alive.union_with(ids);
                }
            }
            Record::Canceled { job, ids, .. } | Record::Aborted { job, ids, .. } => {
                if let Some(alive) = self.alive.get_mut(job) {
                    alive.subtract(ids);
                }
            }
            Record::JobClosed { job } | Record::JobForgotten { job } => {
                self.alive.remove(job);
            }
            _ => {}
        }
    }
}
