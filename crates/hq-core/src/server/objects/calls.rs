//! Values of calls: what a function returns that is too large to travel with the end of its task, and who takes it.
//!
//! No call declares what it leaves or takes. A value is there when a worker has said so, and a call takes the values of those
//! that it waits for. Whoever called says when a value is needed no more; a call that finds none of its arguments comes back, and
//! is put behind a job that leaves it once more.

use hq_model::{Body, ObjectId, ObjectName};

use crate::server::machine::Server;

impl Server {
    /// True while whoever has called, or has given it, may ask for it: as long as its job has not ended.
    pub(super) fn is_value_of_session(&self, object: &ObjectId) -> bool {
        let Some(job) = self.state.jobs.get(&object.task.job).filter(|job| !job.has_ended()) else {
            return false;
        };
        let submit = job.submit_of(object.task.task).map(|submit| &job.submits[submit as usize]);
        submit.is_some_and(|submit| match submit.task.body {
            Body::Given => true,
            _ => submit.task.body.is_packed_call() && object.name == ObjectName::value(),
        })
    }
}
