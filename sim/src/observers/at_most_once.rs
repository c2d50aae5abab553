//! What must never run twice is started once at most, whatever was lost: but for retries of its own failures and when it
//! puts itself back.

use std::collections::BTreeMap;

use hq_core::mark;
use hq_core::record::{Record, RestartCause};
use hq_core::server::Effect;
use hq_core::server::state::State;
use hq_model::task::{CrashLimit, TaskSpec};
use hq_model::{IdSet, JobId, TaskRef};

/// Starts of all tasks, and which of these must never run twice.
#[derive(Debug, Default)]
pub struct AtMostOnce {
    never_twice: BTreeMap<JobId, IdSet>,
    starts: BTreeMap<TaskRef, u32>,
    // How often a task runs again because it failed or asked for it.
    again: BTreeMap<TaskRef, u32>,
}

impl AtMostOnce {
    /// A server starts with this state: jobs whose records were lost have never been.
    pub fn restarted(&mut self, state: &State) {
        self.starts.retain(|task, _| state.jobs.contains_key(&task.job));
        self.never_twice.clear();
        for (job, submit) in state.jobs.iter().flat_map(|(id, job)| job.submits.iter().map(|s| (*id, s))) {
            self.submitted(job, &submit.ids, &submit.task);
        }
    }

    fn submitted(&mut self, job: JobId, ids: &IdSet, task: &TaskSpec) {
        // A second attempt was asked for.
        if task.crash_limit == CrashLimit::NeverRestart && task.speculate.is_none() {
            self.never_twice.entry(job).or_default().union_with(ids);
        }
    }

    /// Looks at what a server does.
    pub fn persisted(&mut self, effects: &[Effect]) {
        let records = effects.iter().filter_map(|effect| match effect {
            Effect::Persist { record, .. } => Some(record),
            _ => None,
        });
        for record in records.flat_map(Record::parts) {
            match record {
                Record::Submitted { job, ids, task, .. } => self.submitted(*job, ids, task),
                Record::Restarted {
                    job,
                    ids,
                    cause: RestartCause::Retry { .. } | RestartCause::Unfetched { .. },
                    ..
                } => {
                    let tasks = ids.iter().map(|task| TaskRef::new(*job, task));
                    tasks.for_each(|task| *self.again.entry(task).or_default() += 1);
                }
                Record::Deferred { job, task, .. } => {
                    *self.again.entry(TaskRef::new(*job, *task)).or_default() += 1;
                }
                _ => {}
            }
        }
    }

    /// A process for a task was started.
    ///
    /// # Errors
    /// When it must not run again.
    pub fn started(&mut self, task: TaskRef) -> Result<(), String> {
        let starts = self.starts.entry(task).or_default();
        *starts += 1;
        let most = 1 + self.again.get(&task).copied().unwrap_or(0);
        if *starts > most && self.never_twice.get(&task.job).is_some_and(|ids| ids.contains(task.task)) {
            return Err(format!("task {task} must never run twice and was started {starts} times"));
        }
        Ok(())
    }

    /// The node could not make its process: that was no start.
    pub fn not_started(&mut self, task: TaskRef) {
        if let Some(starts) = self.starts.get_mut(&task) {
            let never_twice = self.never_twice.get(&task.job);
            mark!(
                "what never runs twice was not started",
                never_twice.is_some_and(|ids| ids.contains(task.task))
            );
            *starts = starts.saturating_sub(1);
        }
    }
}
