//! Tasks that take longer than their workers live. An attempt that had nearly all of a worker's time and was ended with it
//! is counted; after some of these the task waits for workers that live longer, or fails, as its submit says. What was
//! spent on attempts that came to nothing for want of time is booked as lost.

use std::collections::BTreeMap;
use std::time::Duration;

use hq_model::task::OnWalltime;
use hq_model::worker::{TIME_RESERVE, time_reserve};
use hq_model::{
    IdSet, JobId, Request, Submit, TaskRef, TaskState, Timestamp, Usage, WorkerId, counted, duration,
};

use super::HowLost;
use crate::alloc::policy;
use crate::limits::OUTLASTED_MAX;
use crate::record::{Failure, FailureKind, NEVER, Outlasted, RestartCause};
use crate::server::Effect;
use crate::server::capacity::Needs;
use crate::server::explain::about;
use crate::server::live::LiveWorker;
use crate::server::machine::Server;
use crate::worker_messages::WorkerEnd;

/// An attempt had all of a worker's time that began within this part of it.
const START_PART: u32 = 10;

impl Server {
    /// Tasks that ran on a worker are lost. Those that were ended with its time, of which they had had nearly all, are seen to
    /// here: gives them. Generators and reducers are not among them: their next attempt goes on where this one was.
    pub(super) fn lose_to_time(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        id: JobId,
        ids: &IdSet,
        effects: &mut Vec<Effect>,
    ) -> IdSet {
        if self.state.feeders.contains_key(&id) {
            return IdSet::new();
        }
        let Some(life) = self.life_that_is_over(now, worker) else { return IdSet::new() };
        let Some(joined) = self.state.workers.get(&worker).map(|state| state.joined) else {
            return IdSet::new();
        };
        let running = self.running.of_job(id).iter();
        let here: Vec<_> =
            running.filter(|(task, run)| run.worker == worker && ids.contains(**task)).collect();
        if let Some(first) = here.iter().map(|(_, run)| run.since).min() {
            let since =
                self.live.get(&worker).and_then(|live| live.last_finished).map_or(first, |at| at.max(first));
            self.alloc.spent_for_nothing(self.state.workers[&worker].config.origin, since, now);
        }
        let latest = joined.after(now.since(joined) / START_PART);
        let here: BTreeMap<_, _> = here.into_iter().map(|(task, run)| (*task, *run)).collect();
        let had_all: IdSet =
            here.iter().filter(|(_, run)| run.since <= latest).map(|(task, _)| *task).collect();
        let mut outlives: BTreeMap<u32, bool> = BTreeMap::new();
        for task in had_all.iter() {
            let job = &self.state.jobs[&id];
            // A failure before may have ended the rest of the job.
            if job.state_of(task).is_none_or(TaskState::is_terminal) {
                continue;
            }
            let known = job.outlasted.get(&task).copied().unwrap_or_default();
            let (times, longest) = (known.times + 1, known.life.max(life));
            let submit = job.submit_of(task).unwrap_or(0);
            let spec = job.submits[submit as usize].task.clone();
            let run = here[&task];
            if times >= OUTLASTED_MAX && spec.on_walltime == OnWalltime::Fail {
                let failure = Failure {
                    task,
                    instance: job.instance_of(task),
                    worker: Some(worker),
                    kind: FailureKind::Lost,
                    error: too_long(times, longest),
                    started: Some(run.since),
                    usage: Usage { wall_us: now.0.saturating_sub(run.since.0), ..Usage::default() },
                    nodes: Vec::new(),
                    result: Vec::new(),
                    variant: run.variant,
                };
                self.fail(now, id, failure, effects);
                continue;
            }
            let is_too_long = times >= OUTLASTED_MAX;
            let mut is_outlived = || {
                *outlives.entry(submit).or_insert_with(|| self.someone_outlives(now, longest, &spec.requests))
            };
            let waits = is_too_long && !is_outlived();
            self.restart(now, id, &IdSet::single(task), RestartCause::TimeOver { life, waits }, effects);
        }
        had_all
    }

    // The time limit of a worker that ends, or is ended by its batch system, because that is over.
    fn life_that_is_over(&self, now: Timestamp, worker: WorkerId) -> Option<Duration> {
        let config = &self.state.workers.get(&worker)?.config;
        let allocation = config.origin.and_then(|origin| self.state.alloc.allocation(origin));
        let limit = config.time_limit.or_else(|| allocation.map(|one| one.time_limit))?;
        let is_over = match self.how_lost(now, worker) {
            HowLost::Ended(WorkerEnd::TimeLimit) => true,
            HowLost::Ended(WorkerEnd::Interrupted) => {
                let end = allocation.and_then(policy::ends_at);
                end.is_some_and(|end| end <= now.after(TIME_RESERVE))
            }
            _ => false,
        };
        is_over.then_some(limit)
    }

    /// True when a worker that is there, or that a queue may bring, lives longer than that and could run such tasks.
    pub(in crate::server) fn someone_outlives(
        &self,
        now: Timestamp,
        life: Duration,
        requests: &[Request],
    ) -> bool {
        let could = |live: &LiveWorker| {
            let lives = live.life_left(now).is_none_or(|left| left > life);
            let fits = |request: &Request| Needs::new(&live.resources, request).is_some();
            lives && !live.is_draining && requests.iter().any(fits)
        };
        self.live.values().any(could)
            || self.offers(now).iter().any(|(offer, _)| {
                let queue = self.state.alloc.queues.get(&offer.queue);
                let is_open = queue.is_some_and(|queue| !queue.is_draining && queue.paused.is_none());
                is_open && offer.life > life && offer.why_not(requests).is_none()
            })
    }

    /// What is to be said of a submit whose tasks are expected to take longer than any worker has time for.
    pub(in crate::server) fn too_long_told(&self, now: Timestamp, submit: &Submit) -> Option<String> {
        let expected = submit.spec.expected?;
        let longest = self.longest_life(now, &submit.spec.requests).filter(|longest| *longest < expected)?;
        Some(format!(
            "These tasks are expected to take {} (--expect), and no worker that is there, or that a queue could bring, \
             has more than {} for them: they would be ended with the time of their workers, again and again. They need a queue \
             with a longer --time-limit.",
            duration::format(expected),
            about(longest)
        ))
    }

    // How long the longest worker lives that could run such tasks and that is there or that a queue may bring, less what it
    // keeps for its end; `None` when that is known of none, or one has no end.
    fn longest_life(&self, now: Timestamp, requests: &[Request]) -> Option<Duration> {
        let mut longest = None;
        let fits = |live: &LiveWorker, request: &Request| Needs::new(&live.resources, request).is_some();
        for live in self.live.values().filter(|live| !live.is_draining) {
            if requests.iter().any(|request| fits(live, request)) {
                longest = longest.max(Some(live.life_left(now)?));
            }
        }
        let offers = self.offers(now).into_iter().map(|(offer, _)| offer);
        let lives = offers.filter(|offer| offer.why_not(requests).is_none()).map(|offer| offer.life);
        let lives = lives.map(|life| life.saturating_sub(time_reserve(Some(life))));
        longest.max(lives.max())
    }

    /// Tasks that wait for workers that live longer are ready when there may be such workers.
    pub(in crate::server) fn end_waits_for_time(&mut self, now: Timestamp) {
        if self.changes.workers_count() == 0 && !self.alloc.has_changed() {
            return;
        }
        let mut known: BTreeMap<(JobId, u32, Duration), bool> = BTreeMap::new();
        let waiting: Vec<TaskRef> = self.readiness.wait_for_time().collect();
        for task in waiting {
            let Some(job) = self.state.jobs.get(&task.job) else { continue };
            let Outlasted { life, .. } = job.outlasted.get(&task.task).copied().unwrap_or_default();
            let submit = job.submit_of(task.task).unwrap_or(0);
            let requests = &job.submits[submit as usize].task.requests;
            let key = (task.job, submit, life);
            if *known.entry(key).or_insert_with(|| self.someone_outlives(now, life, requests)) {
                self.readiness.end_wait_for_time(task);
                self.make_ready(task.job, &IdSet::single(task.task));
            }
        }
    }

    /// Those among tasks of a job that wait for workers that live longer.
    pub(in crate::server) fn waiting_for_time(&self, id: JobId, ids: &IdSet) -> IdSet {
        let delayed = self.state.jobs.get(&id).into_iter().flat_map(|job| &job.delayed);
        let waits = |task| ids.contains(task) && self.readiness.waits_for_time(TaskRef::new(id, task));
        delayed.filter(|(task, at)| **at == NEVER && waits(**task)).map(|(task, _)| *task).collect()
    }
}

/// Why a task waits, or fails, that is longer than its workers live.
pub(in crate::server) fn too_long(times: u32, life: Duration) -> String {
    format!(
        "it takes longer than its workers live: {} of it began with workers of {} and {} ended with their time; an allocation \
         queue with a longer --time-limit, or a worker without an end, runs it",
        counted(times, "attempt"),
        duration::format(life),
        if times == 1 { "was" } else { "were" }
    )
}
