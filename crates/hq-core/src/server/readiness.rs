//! Readiness: which tasks wait for something, what becomes ready, and what can never be.
//!
//! All of it is told from the durable state: heard record by record, and made anew by a restart.

mod artifact;
mod barrier;
mod cycles;
mod deferral;
mod delays;
mod missing;
mod named;
mod services;
mod waits;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{ByteString, IdSet, JobId, TaskId, TaskRef, TaskState, Timestamp};

use super::state::State;
use crate::limits::FILES_WATCHED_MAX;
use crate::never;
use crate::record::{NEVER, Record, RestartCause};
use crate::worker_messages::TemplateId;
use delays::Delays;
pub(super) use missing::{dependency_count, files_missing, held_back, unresolved};
pub(super) use named::{existing, with_names_found, without};
pub(super) use services::{Services, by_services};
use waits::Waits;
pub(super) use waits::{Ending, Outcome};
pub(super) use wanted::because_of;

/// Tasks that wait for something.
#[derive(Clone, Debug, Default)]
pub(super) struct Readiness {
    waits: Waits,
    // Ends of the delays of those that are tried again, or that put themselves back behind nothing.
    delays: Delays,
    // Files that were asked for last.
    watched: Vec<ByteString>,
    // Tasks that waited for files alone, which are there now.
    found: BTreeMap<JobId, IdSet>,
}

impl Readiness {
    /// What the state says before this server has heard anything.
    pub(super) fn recount(state: &State) -> Readiness {
        let mut readiness = Readiness::default();
        for (id, job) in &state.jobs {
            job.delayed.iter().for_each(|(task, at)| readiness.delays.begin(TaskRef::new(*id, *task), *at));
            for submit in 0..job.submits.len() as u32 {
                readiness.waits.add(state, TemplateId { job: *id, submit });
            }
            readiness.waits.add_deferred(state, *id);
        }
        readiness
    }

    /// Hears a record that is in the state already.
    pub(super) fn hear(&mut self, state: &State, record: &Record) {
        for part in record.parts() {
            match part {
                Record::Submitted { job, ids, .. } => {
                    let submit = ids.first().and_then(|task| state.jobs.get(job)?.submit_of(task));
                    match submit {
                        Some(submit) => self.waits.add(state, TemplateId { job: *job, submit }),
                        None => never!("a submit of {ids:?} to job {job} is heard of and not there"),
                    }
                }
                Record::Finished { span, .. } => self.ended(span.job, &span.ids, TaskState::Finished),
                Record::Failed { job, failure } => {
                    self.ended(*job, &IdSet::single(failure.task), TaskState::Failed);
                }
                Record::Canceled { job, ids, .. } => self.ended(*job, ids, TaskState::Canceled),
                Record::Aborted { job, ids, .. } => self.ended(*job, ids, TaskState::Aborted),
                Record::ServiceReady { job, task, .. } => {
                    self.waits.note(*job, &IdSet::single(*task), TaskState::Finished);
                }
                Record::JobClosed { job } | Record::JobLeft { job, .. } => {
                    self.waits.note(*job, &IdSet::new(), TaskState::Finished);
                }
                Record::JobForgotten { job } => self.waits.forget(*job),
                Record::Deferred { job, task, not_before, .. } => {
                    let task = TaskRef::new(*job, *task);
                    self.waits.defer(state, task);
                    // What it waits for now is something else.
                    self.delays.end(task);
                    not_before.iter().for_each(|at| self.delays.begin(task, *at));
                }
                Record::FilesFound { job, files } => {
                    let ready = self.waits.found(state, *job, files);
                    self.found.entry(*job).or_default().union_with(&ready);
                }
                Record::Restarted { job, ids, cause: RestartCause::TimeOver { waits: true, .. }, .. } => {
                    ids.iter().for_each(|task| self.delays.begin(TaskRef::new(*job, task), NEVER));
                }
                Record::Restarted {
                    job,
                    ids,
                    cause: RestartCause::Retry { not_before } | RestartCause::Unfetched { not_before },
                    ..
                } => {
                    ids.iter().for_each(|task| self.delays.begin(TaskRef::new(*job, task), *not_before));
                }
                _ => {}
            }
        }
    }

    // What has ended waits for nothing.
    fn ended(&mut self, job: JobId, ids: &IdSet, state: TaskState) {
        self.waits.unblock(job, ids);
        self.delays.end_all(job, ids);
        if let Some(found) = self.found.get_mut(&job) {
            found.subtract(ids);
        }
        self.waits.note(job, ids, state);
    }

    /// Those of a job's tasks that wait for others.
    pub(super) fn blocked(&self, job: JobId) -> Option<&IdSet> {
        self.waits.blocked(job)
    }

    /// True when a task waits for others.
    pub(super) fn is_blocked(&self, task: TaskRef) -> bool {
        self.blocked(task.job).is_some_and(|blocked| blocked.contains(task.task))
    }

    /// True while a task waits for the end of a delay.
    pub(super) fn is_delayed(&self, task: TaskRef) -> bool {
        self.delays.of(task).is_some()
    }

    /// When the next delay ends.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        self.delays.first().filter(|at| *at < NEVER)
    }

    /// A task whose delay has ended.
    pub(super) fn next_delayed(&mut self, now: Timestamp) -> Option<TaskRef> {
        self.delays.next(now)
    }

    /// Tasks that wait for workers that live longer than those that they had.
    pub(super) fn wait_for_time(&self) -> impl Iterator<Item = TaskRef> + '_ {
        self.delays.for_ever()
    }

    /// True while a task waits for workers that live longer.
    pub(super) fn waits_for_time(&self, task: TaskRef) -> bool {
        self.delays.of(task) == Some(NEVER)
    }

    /// There may be such workers.
    pub(super) fn end_wait_for_time(&mut self, task: TaskRef) {
        if self.waits_for_time(task) {
            self.delays.end(task);
        }
    }

    /// Tasks that wait for nothing since files were found.
    pub(super) fn take_found(&mut self) -> BTreeMap<JobId, IdSet> {
        std::mem::take(&mut self.found)
    }

    /// True when an ending of a job was heard of and has not been looked at.
    pub(super) fn has_ending_of(&self, job: JobId) -> bool {
        self.waits.has_ending_of(job)
    }

    /// The next ending that was heard of, with what it leads to. The tasks concerned do not wait any more.
    pub(super) fn next_ending(&mut self, state: &State) -> Option<(Ending, Outcome)> {
        self.waits.next_ending(state)
    }

    /// The files to look for, when they are others than before.
    pub(super) fn files_to_watch(&mut self, state: &State) -> Option<Vec<ByteString>> {
        // The others come when these are there.
        let paths: Vec<ByteString> =
            self.waits.files_wanted(state)?.into_iter().take(FILES_WATCHED_MAX).collect();
        if paths == self.watched {
            return None;
        }
        self.watched.clone_from(&paths);
        Some(paths)
    }

    /// The files that were asked for last.
    #[cfg(test)]
    pub(super) fn watched(&self) -> &[ByteString] {
        &self.watched
    }

    /// By job, ascending, those of some files that its tasks wait for.
    pub(super) fn jobs_with_files(&self, paths: &[ByteString]) -> BTreeMap<JobId, BTreeSet<ByteString>> {
        self.waits.jobs_with_files(paths)
    }

    /// True when single tasks wait for single tasks of a job.
    pub(super) fn has_edges_from(&self, job: JobId) -> bool {
        self.waits.has_edges_from(job)
    }

    /// Tasks that wait for a task alone or among others.
    pub(super) fn successors(&self, task: TaskRef) -> impl Iterator<Item = TaskRef> {
        self.waits.successors(task)
    }

    /// Those of the tasks of a job that others wait for.
    pub(super) fn leaders(&self, job: JobId, ids: &IdSet) -> Vec<TaskId> {
        self.waits.leaders(job, ids)
    }

    /// The task of the same job that alone waits for the success of a task, and for nothing else.
    pub(super) fn follower(&self, leader: TaskRef) -> Option<TaskRef> {
        self.waits.follower(leader)
    }

    /// Checks what was heard, once all endings are looked at, against a recount.
    ///
    /// # Errors
    /// Says what differs.
    pub(super) fn check(&self, state: &State) -> Result<(), String> {
        let recount = Readiness::recount(state);
        if !self.waits.is_alike(&recount.waits) {
            return Err(format!("tasks wait as in {:?}, the state says {:?}", self.waits, recount.waits));
        }
        match self.delays.unknown_to(&recount.delays) {
            Some(delay) => Err(format!("{delay:?} is waited for, and the state has no such delay")),
            None => Ok(()),
        }
    }
}
