//! Attempts of tasks that have put themselves back, as long as their workers have them: the next attempt of such a task
//! starts when they have ended.

use std::collections::BTreeSet;

use hq_model::{IdSet, JobId, TaskId, TaskRef, WorkerId};

/// Those attempts.
#[derive(Debug, Default)]
pub(super) struct Parting {
    attempts: BTreeSet<(TaskRef, WorkerId)>,
}

impl Parting {
    /// A task was put back while these workers have it.
    pub(super) fn add(&mut self, task: TaskRef, workers: impl IntoIterator<Item = WorkerId>) {
        self.attempts.extend(workers.into_iter().map(|worker| (task, worker)));
    }

    /// Those of some tasks of a job that must wait.
    pub(super) fn among(&self, job: JobId, ids: &IdSet) -> IdSet {
        let all = (TaskRef::new(job, TaskId(0)), WorkerId(0));
        let of_job = self.attempts.range(all..).take_while(|attempt| attempt.0.job == job);
        of_job.map(|attempt| attempt.0.task).filter(|task| ids.contains(*task)).collect()
    }

    /// Forgets attempts that have ended. Returns their tasks.
    pub(super) fn end(&mut self, has_ended: impl Fn(TaskRef, WorkerId) -> bool) -> Vec<TaskRef> {
        let attempts = self.attempts.iter().copied();
        let ended: Vec<_> = attempts.filter(|(task, worker)| has_ended(*task, *worker)).collect();
        for attempt in &ended {
            self.attempts.remove(attempt);
        }
        ended.into_iter().map(|(task, _)| task).collect()
    }
}
