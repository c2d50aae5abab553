//! What is kept of attempts that did not end their tasks: each is a record in front of the one that says what becomes
//! of the task. Of what never started nothing is kept.

use hq_model::{IdSet, Instance, JobId, TaskId, TaskRef, Timestamp, WorkerId};

use super::Effect;
use super::machine::Server;
use super::running::Run;
use crate::attempt::{AttemptEnd, PastAttempt};
use crate::record::{Failure, Record};

impl Server {
    /// An attempt has failed, and its task goes on.
    pub(super) fn note_failed(
        &mut self,
        now: Timestamp,
        job: JobId,
        failure: &Failure,
        effects: &mut Vec<Effect>,
    ) {
        let nodes = self.state.jobs.get(&job).and_then(|job| job.nodes.get(&failure.task));
        let nodes = nodes.cloned().unwrap_or_default();
        let attempt = PastAttempt { nodes, ..PastAttempt::failed(now, failure) };
        self.note_attempts(now, job, vec![attempt], effects);
    }

    /// What runs of these tasks ends now, and they run again. Nothing without an `end`.
    pub(super) fn note_running(
        &mut self,
        now: Timestamp,
        id: JobId,
        ids: &IdSet,
        end: Option<AttemptEnd>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(end) = end else { return };
        let running = self.running.of_job(id);
        if running.is_empty() {
            return;
        }
        let here =
            ids.ranges().flat_map(|range| running.range(TaskId(*range.start())..=TaskId(*range.end())));
        let attempts = here.map(|(task, run)| self.past(now, TaskRef::new(id, *task), run, end)).collect();
        self.note_attempts(now, id, attempts, effects);
    }

    /// One of two attempts of a task ends now. Nothing without an `end`.
    pub(super) fn note_dropped(
        &mut self,
        now: Timestamp,
        task: TaskRef,
        instance: Instance,
        end: Option<AttemptEnd>,
        effects: &mut Vec<Effect>,
    ) {
        let runs = [self.running.of(task.job, task.task), self.running.second_of(task)];
        let run = runs.into_iter().flatten().find(|run| run.instance == instance);
        if let (Some(run), Some(end)) = (run, end) {
            let attempt = self.past(now, task, run, end);
            self.note_attempts(now, task.job, vec![attempt], effects);
        }
    }

    /// Tasks have finished on a worker: what runs of them elsewhere is in vain.
    pub(super) fn note_superseded(
        &mut self,
        now: Timestamp,
        winner: WorkerId,
        id: JobId,
        ids: &IdSet,
        effects: &mut Vec<Effect>,
    ) {
        let Some(job) = self.state.jobs.get(&id).filter(|job| !job.seconds.is_empty()) else { return };
        let both = job.seconds.keys().filter(|task| ids.contains(**task)).flat_map(|task| {
            let task = TaskRef::new(id, *task);
            let runs = [self.running.of(id, task.task), self.running.second_of(task)];
            runs.into_iter().flatten().map(move |run| (task, run))
        });
        let others = both.filter(|(_, run)| run.worker != winner);
        let attempts = others.map(|(task, run)| self.past(now, task, run, AttemptEnd::Superseded)).collect();
        self.note_attempts(now, id, attempts, effects);
    }

    /// Tasks are canceled or given up, or put themselves back: that ends the second attempts of those that have two.
    pub(super) fn note_seconds(&mut self, now: Timestamp, id: JobId, ids: &IdSet, effects: &mut Vec<Effect>) {
        let Some(job) = self.state.jobs.get(&id).filter(|job| !job.seconds.is_empty()) else { return };
        let both = job.seconds.keys().filter(|task| ids.contains(**task)).map(|task| TaskRef::new(id, *task));
        let seconds = both.filter_map(|task| Some((task, self.running.second_of(task)?)));
        let attempts = seconds.map(|(task, run)| self.past(now, task, run, AttemptEnd::EndedEarly)).collect();
        self.note_attempts(now, id, attempts, effects);
    }

    fn past(&self, now: Timestamp, task: TaskRef, run: &Run, end: AttemptEnd) -> PastAttempt {
        let nodes = self.state.jobs.get(&task.job).and_then(|job| job.nodes.get(&task.task));
        PastAttempt {
            task: task.task,
            instance: run.instance,
            worker: Some(run.worker),
            nodes: nodes.cloned().unwrap_or_default(),
            started: Some(run.since),
            ended: now.max(run.since),
            end,
            error: String::new(),
        }
    }

    fn note_attempts(
        &mut self,
        now: Timestamp,
        job: JobId,
        attempts: Vec<PastAttempt>,
        effects: &mut Vec<Effect>,
    ) {
        if !attempts.is_empty() {
            self.record(now, Record::AttemptsEnded { job, attempts }, effects);
        }
    }

    /// Checks what is kept of earlier attempts.
    ///
    /// # Errors
    /// Says what of it is wrong.
    pub(super) fn past_attempts_are_in_order(&self) -> Result<(), String> {
        for (id, attempt) in self.state.attempts.all() {
            let is_task = self.state.jobs.get(&id).is_some_and(|job| job.ids.contains(attempt.task));
            let has_times = attempt.started.is_none_or(|at| at <= attempt.ended);
            if !is_task || !has_times {
                return Err(format!("job {id}: an attempt is kept that cannot be: {attempt:?}"));
            }
        }
        Ok(())
    }
}
