//! The state as its server has it: anybody may read it, and records alone change it for good.

use std::ops::Deref;

use hq_model::{JobId, Timestamp};

use super::State;
use super::job::SubmitState;
use crate::record::Record;

/// The state, read only.
#[derive(Debug, Default)]
pub(in crate::server) struct Durable(State);

impl Deref for Durable {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl Durable {
    /// Applies one record.
    pub(in crate::server) fn apply(&mut self, at: Timestamp, record: &Record) {
        self.0.apply(at, record);
    }

    /// Adds a submit to a job for the time in which those after it in one request are checked. It has to be taken back
    /// before anything else.
    pub(in crate::server) fn try_submit(&mut self, job: JobId, submit: SubmitState) {
        if let Some(job) = self.0.jobs.get_mut(&job) {
            job.add_submit(submit);
        }
    }

    /// Takes tried submits back, until a job has so many.
    pub(in crate::server) fn take_back_submits(&mut self, job: JobId, left: usize) {
        if let Some(job) = self.0.jobs.get_mut(&job) {
            job.take_back_submits(left);
        }
    }
}
