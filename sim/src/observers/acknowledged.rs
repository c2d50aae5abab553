//! An acknowledged submit survives every restart, with all its tasks; ids are never given twice.

use std::collections::BTreeMap;

use hq_core::record::{Record, RequestKey};
use hq_core::server::Effect;
use hq_core::server::state::State;
use hq_model::{IdSet, JobId};

/// Submits that clients were told of.
#[derive(Debug, Default)]
pub struct Acknowledged {
    submits: BTreeMap<RequestKey, (JobId, IdSet)>,
    forgotten: Vec<JobId>,
    unnamed: u128,
}

impl Acknowledged {
    /// A client was told that its submit is kept.
    ///
    /// # Errors
    /// When it was told something else before, or somebody else was told the same.
    pub fn submitted(&mut self, key: RequestKey, job: JobId, ids: &IdSet) -> Result<(), String> {
        // Those without a key are no repetitions of each other.
        let key = match key {
            0 => {
                self.unnamed += 1;
                u128::MAX - self.unnamed
            }
            key => key,
        };
        if let Some(known) = self.submits.get(&key) {
            if known != &(job, ids.clone()) {
                return Err(format!(
                    "a repeated submit was answered {job}:{ids}, before {}:{}",
                    known.0, known.1
                ));
            }
            return Ok(());
        }
        let twice = self.submits.values().find(|(other, taken)| *other == job && taken.intersects(ids));
        if let Some((_, taken)) = twice {
            return Err(format!("job {job}: tasks {ids} were given to two submits, the other has {taken}"));
        }
        self.submits.insert(key, (job, ids.clone()));
        Ok(())
    }

    /// A client asked to drop a job.
    pub fn forgotten(&mut self, job: JobId) {
        self.forgotten.push(job);
    }

    /// The server forgets ended jobs by its rule: it says so in its journal.
    pub fn may_forget(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Persist { record: Record::JobForgotten { job }, .. } = effect {
                self.forgotten(*job);
            }
        }
    }

    /// Compares with what a server has.
    ///
    /// # Errors
    /// Names a submit that is not there.
    pub fn check(&self, state: &State) -> Result<(), String> {
        for (job, ids) in self.submits.values() {
            if self.forgotten.contains(job) {
                continue;
            }
            let known = state.jobs.get(job);
            if !known.is_some_and(|known| known.ids.contains_all(ids)) {
                return Err(format!("the acknowledged submit {job}:{ids} is gone"));
            }
        }
        Ok(())
    }
}
