//! The forecast: how long tasks take, and how long the way from each of them to the end of its graph is.
//!
//! All of it is told from the durable state: learned record by record, and counted again by a restart. What was kept of
//! finished tasks is bounded, and paths are found again only when they are far off, so a recount may know less than
//! what was heard; of tasks that have not ended it knows the same submits.

mod paths;
mod run_times;

use std::collections::BTreeSet;
use std::time::Duration;

use hq_model::{IdSet, JobId, Timestamp};

use super::details::Kept;
use super::job::{Job, SubmitState};
use super::state::State;
use super::step::Due;
use crate::limits::{EXPECTED_DEFAULT, SPANS_LEARNED_AGAIN_MAX};
use crate::never;
use crate::record::{FinishedSpan, Record};
use crate::worker_messages::TemplateId;
use paths::Paths;
pub(super) use run_times::Estimate;
use run_times::RunTimes;

/// What is expected of tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Forecast {
    run_times: RunTimes,
    paths: Paths,
}

impl Forecast {
    /// Hears a record that is in the state already. Gives the submits whose paths are others now.
    pub(super) fn hear(&mut self, state: &State, record: &Record) -> Vec<TemplateId> {
        let mut changed = Vec::new();
        for part in record.parts() {
            match part {
                Record::Submitted { job, ids, .. } => changed.extend(self.submitted(state, *job, ids)),
                Record::Finished { span, .. } => changed.extend(self.finished(state, span)),
                _ => {}
            }
        }
        if let Some(job) = record.job()
            && state.jobs.get(&job).is_none_or(Job::has_ended)
        {
            self.run_times.forget(job);
            self.paths.forget(job);
        }
        changed
    }

    /// The forecast that can be told from the state: of run times what the latest tasks say.
    pub(super) fn recount(state: &State) -> Forecast {
        let mut forecast = Forecast::default();
        let latest = state.details.spans().rev().take(SPANS_LEARNED_AGAIN_MAX);
        let latest: Vec<&Kept> = latest.collect();
        let mut ended = BTreeSet::new();
        for Kept { span, .. } in latest.into_iter().rev() {
            forecast.learn_run_times(state, span);
            ended.insert(span.job);
        }
        // Of ended jobs only their programs are of interest.
        ended.retain(|job| state.jobs.get(job).is_none_or(Job::has_ended));
        ended.into_iter().for_each(|job| forecast.run_times.forget(job));
        for (id, job) in state.jobs.iter().filter(|(_, job)| !job.has_ended()) {
            for submit in 0..job.submits.len() as u32 {
                forecast.add_paths(state, TemplateId { job: *id, submit });
            }
        }
        forecast
    }

    /// How long a task of a submit should take; `None` when nothing is known.
    pub(super) fn run_time(&self, state: &State, id: TemplateId) -> Option<Estimate> {
        self.run_times.of(id, &submit_of(state, id)?.task)
    }

    /// The same by what is known of the submit alone: what was said of it, and how long tasks of it took.
    pub(super) fn own_run_time(&self, state: &State, id: TemplateId) -> Option<Duration> {
        self.run_times.of_submit(id, &submit_of(state, id)?.task).map(Duration::from_micros)
    }

    /// When a submit's tasks are due: groups of tasks for which it is the same.
    pub(super) fn groups(&self, state: &State, id: TemplateId, ids: &IdSet) -> Vec<(Due, IdSet)> {
        let submit = submit_of(state, id);
        let came = submit.map_or(Timestamp(0), |submit| submit.submitted);
        let waits = submit.is_some_and(|submit| !submit.dependencies.is_empty());
        let is_linked = waits || self.paths.are_waited_for(id);
        let groups = self.paths.groups(state, id, ids).into_iter();
        groups.map(|(step, ids)| (Due::of(came, step, is_linked), ids)).collect()
    }

    /// How much earlier than they do a submit's tasks count as coming to a worker, among those of equal priority: groups of tasks
    /// for which it is the same. Nothing where nothing waits for them.
    pub(super) fn head_starts(&self, state: &State, id: TemplateId, ids: &IdSet) -> Vec<(Duration, IdSet)> {
        self.paths.head_starts(state, id, ids)
    }

    /// Checks what was heard against a recount.
    ///
    /// # Errors
    /// Says what differs.
    pub(super) fn check(&self, state: &State) -> Result<(), String> {
        let recount = Forecast::recount(state);
        let (heard, counted): (Vec<_>, Vec<_>) =
            (self.paths.templates().collect(), recount.paths.templates().collect());
        if heard != counted {
            return Err(format!(
                "paths are known of {heard:?}, tasks that have not ended are of {counted:?}"
            ));
        }
        let has_all = state.details.has_all() && state.details.spans().len() <= SPANS_LEARNED_AGAIN_MAX;
        if has_all && !self.run_times.is_alike(&recount.run_times) {
            let (heard, counted) = (&self.run_times, &recount.run_times);
            return Err(format!("run times are {heard:?}, finished tasks say {counted:?}"));
        }
        Ok(())
    }

    fn submitted(&mut self, state: &State, job: JobId, ids: &IdSet) -> Vec<TemplateId> {
        let submit = ids.first().and_then(|task| state.jobs.get(&job)?.submit_of(task));
        let Some(submit) = submit else {
            never!("a submit of {ids:?} to job {job} is heard of and not there");
            return Vec::new();
        };
        self.add_paths(state, TemplateId { job, submit })
    }

    fn add_paths(&mut self, state: &State, id: TemplateId) -> Vec<TemplateId> {
        let own_us = self.expected_us(state, id);
        self.paths.add(state, id, own_us)
    }

    fn finished(&mut self, state: &State, span: &FinishedSpan) -> Vec<TemplateId> {
        let Some(id) = self.learn_run_times(state, span) else {
            never!("{:?} of job {} have finished and are not there", span.ids, span.job);
            return Vec::new();
        };
        let own_us = self.expected_us(state, id);
        self.paths.learn(state, id, span.measures.count().into(), own_us)
    }

    fn learn_run_times(&mut self, state: &State, span: &FinishedSpan) -> Option<TemplateId> {
        let job = state.jobs.get(&span.job)?;
        let id = TemplateId { job: span.job, submit: job.submit_of(span.ids.first()?)? };
        self.run_times.learn_all(id, &submit_of(state, id)?.task, &span.measures);
        Some(id)
    }

    // How long a task of a submit takes, for the order of tasks.
    fn expected_us(&self, state: &State, id: TemplateId) -> u64 {
        let known = submit_of(state, id).and_then(|submit| self.run_times.for_order(id, &submit.task));
        known.unwrap_or(EXPECTED_DEFAULT.as_micros() as u64)
    }
}

fn submit_of(state: &State, id: TemplateId) -> Option<&SubmitState> {
    state.jobs.get(&id.job)?.submits.get(id.submit as usize)
}
