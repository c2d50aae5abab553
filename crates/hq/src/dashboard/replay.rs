//! The past as a source: records of a journal are applied up to a time, and a server machine that never started answers as
//! a real one would.
//!
//! A journal does not say when a task began that has not ended: tasks that were handed to a worker count as running.

use std::collections::BTreeMap;
use std::time::Duration;

use hq_core::client_messages::{ClientRequest, ClientResponse, JobSummary, Overview, WorkerInfo};
use hq_core::overview::{Ended, ResourceUse, WorkerCounts};
use hq_core::record::Record;
use hq_core::server::state::WorkerState;
use hq_core::server::{ConnectionId, Effect, Input, Server, ServerOptions};
use hq_model::selector::Selector;
use hq_model::worker::Executor;
use hq_model::{Amount, AmountRequest, JobId, ResourcePool, TaskState, Timestamp, WorkerId};

use super::model::Replay;
use super::series::{Point, Series};

/// Points of the whole past.
const POINTS: u32 = 500;
/// Tasks of one job that are with workers and are shown as running in lists of its tasks.
const SUPPOSED_MAX: u64 = 1_000_000;
/// How long a replay takes, if nobody changes the speed.
const WHOLE_TIME: Duration = Duration::from_secs(60);
/// Slowest and fastest.
const SPEED: (f64, f64) = (0.125, 1_048_576.0);

/// A journal, and how it was at a time.
pub(crate) struct Replayer {
    // Each with the latest time up to it: they count in their order.
    records: Vec<(Timestamp, Record)>,
    machine: Server,
    // Records that were applied.
    applied: usize,
    series: Series,
    replay: Replay,
}

impl Replayer {
    /// A replay of these records, in their order, that begins at the first. `None` without any.
    pub(crate) fn new(mut records: Vec<(Timestamp, Record)>, damage: Option<String>) -> Option<Replayer> {
        let mut latest = Timestamp(0);
        for (at, _) in &mut records {
            latest = latest.max(*at);
            *at = latest;
        }
        let (begin, end) = (records.first()?.0, records.last()?.0);
        let factor = end.since(begin).as_secs_f64() / WHOLE_TIME.as_secs_f64();
        let speed = 2f64.powf(factor.max(1.0).log2().ceil());
        let replay = Replay { begin, end, at: begin, speed, is_paused: false, damage };
        let machine = Server::new(ServerOptions::default());
        let mut replayer = Replayer { records, machine, applied: 0, series: Series::default(), replay };
        replayer.draw_series();
        Some(replayer)
    }

    /// How far it is.
    pub(crate) fn replay(&self) -> &Replay {
        &self.replay
    }

    /// Everything in counts until now.
    pub(crate) fn series(&self) -> Series {
        let mut series = self.series.clone();
        series.cut(self.replay.at);
        series
    }

    /// Some time has passed. False when nothing has changed by that.
    pub(crate) fn pass(&mut self, time: Duration) -> bool {
        if self.replay.is_paused || self.replay.at >= self.replay.end {
            return false;
        }
        let past = Duration::from_secs_f64((time.as_secs_f64() * self.replay.speed).min(1e12));
        self.go(self.replay.at.after(past));
        true
    }

    /// Stops, or goes on; at the end, from the beginning.
    pub(crate) fn pause(&mut self) {
        if self.replay.at >= self.replay.end {
            self.go(self.replay.begin);
            self.replay.is_paused = false;
        } else {
            self.replay.is_paused = !self.replay.is_paused;
        }
    }

    /// Goes faster by this factor.
    pub(crate) fn speed(&mut self, factor: f64) {
        self.replay.speed = (self.replay.speed * factor).clamp(SPEED.0, SPEED.1);
    }

    /// Goes to a part of the past, from 0 to 1.
    pub(crate) fn seek(&mut self, part: f64) {
        let whole = self.replay.end.since(self.replay.begin).as_secs_f64();
        let passed = Duration::from_secs_f64(whole * part.clamp(0.0, 1.0));
        self.go(if part >= 1.0 { self.replay.end } else { self.replay.begin.after(passed) });
    }

    /// What a server would have answered then.
    pub(crate) fn ask(&mut self, body: ClientRequest) -> Result<ClientResponse, String> {
        let mut effects = Vec::new();
        let supposed = self.supposed(&body);
        if let Some(job) = supposed {
            self.machine.suppose_leased_run(self.replay.at, job, true);
        }
        let input = Input::Client { connection: ConnectionId(1), request: 1, body };
        self.machine.handle(self.replay.at, input, &mut effects);
        if let Some(job) = supposed {
            self.machine.suppose_leased_run(self.replay.at, job, false);
        }
        let answer = effects.into_iter().find_map(|effect| match effect {
            Effect::Answer { body, .. } => Some(body),
            _ => None,
        });
        match answer {
            Some(ClientResponse::Error(error)) => Err(error.to_string()),
            Some(ClientResponse::Overview(overview)) => {
                Ok(ClientResponse::Overview(Box::new(self.complete(*overview))))
            }
            Some(ClientResponse::Tasks { mut tasks, groups, next, now }) => {
                // Nobody knows since when.
                for (_, task) in tasks.iter_mut().filter(|(_, task)| task.state == TaskState::Running) {
                    task.started = None;
                }
                Ok(ClientResponse::Tasks { tasks, groups, next, now })
            }
            Some(ClientResponse::JobList(mut jobs)) => {
                jobs.iter_mut().for_each(|job| self.note_running(job));
                Ok(ClientResponse::JobList(jobs))
            }
            Some(ClientResponse::JobDetails { mut jobs, next, now }) => {
                jobs.iter_mut().for_each(|job| self.note_running(&mut job.summary));
                Ok(ClientResponse::JobDetails { jobs, next, now })
            }
            Some(ClientResponse::Workers(mut workers)) => {
                let held = self.held();
                workers.iter_mut().for_each(|worker| note_held(worker, held.get(&worker.worker)));
                Ok(ClientResponse::Workers(workers))
            }
            Some(answer) => Ok(answer),
            None => Err("Not recorded in a journal.".to_owned()),
        }
    }

    // The job whose tasks are asked for one by one, unless very many of them are with workers.
    fn supposed(&self, body: &ClientRequest) -> Option<JobId> {
        let job = match body {
            ClientRequest::ListTasks { jobs: Selector::Ids(jobs), .. }
            | ClientRequest::ExplainTask { jobs: Selector::Ids(jobs), .. }
                if jobs.len() == 1 =>
            {
                JobId(jobs.first()?.0)
            }
            _ => return None,
        };
        let leased = self.machine.state().jobs.get(&job)?.leased_count();
        (leased <= SUPPOSED_MAX).then_some(job)
    }

    // Goes to a time; back means from the beginning.
    fn go(&mut self, to: Timestamp) {
        let to = to.clamp(self.replay.begin, self.replay.end);
        if to < self.replay.at {
            self.machine = Server::new(ServerOptions::default());
            self.applied = 0;
        }
        self.replay.at = to;
        while let Some((at, record)) = self.records.get(self.applied)
            && *at <= to
        {
            self.machine.restore(*at, record);
            self.applied += 1;
        }
    }

    // Looks at the whole past once.
    fn draw_series(&mut self) {
        let (begin, end) = (self.replay.begin, self.replay.end);
        let step = end.since(begin) / POINTS;
        for point in 0..=POINTS {
            self.go(if point == POINTS { end } else { begin.after(step * point) });
            if let Ok(ClientResponse::Overview(overview)) = self.ask(ClientRequest::Overview { seen: None }) {
                self.series.push(Point::of(&overview));
            }
        }
        self.go(begin);
    }

    fn note_running(&self, job: &mut JobSummary) {
        let leased = self.machine.state().jobs.get(&job.job).map_or(0, |job| job.leased_count());
        job.counters.running = leased;
        job.counters.waiting = job.counters.waiting.saturating_sub(leased);
    }

    // What a machine that never started does not know.
    fn complete(&self, mut overview: Overview) -> Overview {
        let state = self.machine.state();
        let leased: u64 = state.jobs.values().map(|job| job.leased_count()).sum();
        let tasks = &mut overview.tasks;
        tasks.running = leased;
        tasks.waiting = tasks.waiting.saturating_sub(leased);
        overview.ended = Ended {
            finished: tasks.finished,
            failed: tasks.failed,
            canceled: tasks.canceled,
            aborted: tasks.aborted,
            restarted: 0,
        };
        (overview.uid, overview.epoch) = (state.uid.clone(), state.epoch);
        overview.version.clone_from(&state.release);
        let held = self.held();
        let mut pools = Vec::new();
        let mut counts = WorkerCounts::default();
        // Relays run nothing.
        let runs = |worker: &WorkerState| worker.ended.is_none() && worker.config.executor != Executor::Pull;
        for (id, worker) in state.workers.iter().filter(|(_, worker)| runs(worker)) {
            counts.active += 1;
            counts.idle += u64::from(!held.contains_key(id));
            pools
                .extend(worker.config.resources.pools.iter().map(|pool| (pool, taken(held.get(id), pool).0)));
        }
        overview.workers = counts;
        overview.resources = ResourceUse::sums(pools);
        overview
    }

    // What was handed to each worker.
    fn held(&self) -> BTreeMap<WorkerId, Held> {
        let state = self.machine.state();
        let mut all: BTreeMap<WorkerId, Held> = BTreeMap::new();
        for job in state.jobs.values() {
            for (worker, ids) in &job.leased {
                let held = all.entry(*worker).or_default();
                held.tasks += ids.len();
                for (submit, ids) in job.by_submit(ids) {
                    let submit = job.submits.get(submit as usize);
                    let requests = submit.and_then(|submit| submit.task.requests.first());
                    for resource in requests.into_iter().flat_map(|request| &request.resources) {
                        let taken = held.taken.entry(resource.name.clone()).or_default();
                        *taken = taken.saturating_add(match resource.amount {
                            AmountRequest::All => u64::MAX,
                            AmountRequest::Some(amount, _) => amount.0.saturating_mul(ids.len()),
                        });
                    }
                }
            }
        }
        all
    }
}

// What a worker was handed: tasks, and what these ask for by name.
#[derive(Default)]
struct Held {
    tasks: u64,
    taken: BTreeMap<String, u64>,
}

fn note_held(worker: &mut WorkerInfo, held: Option<&Held>) {
    worker.tasks_assigned = held.map_or(0, |held| held.tasks);
    worker.tasks_running = worker.tasks_assigned;
    worker.taken = worker.config.resources.pools.iter().map(|pool| taken(held, pool)).collect();
}

// How much of a pool that is, at most all of it.
fn taken(held: Option<&Held>, pool: &ResourcePool) -> Amount {
    let taken = held.and_then(|held| held.taken.get(&pool.name)).copied().unwrap_or(0);
    Amount(taken.min(pool.kind.total().0))
}

#[cfg(test)]
mod tests;
