//! What the records of a journal say of workers, attempts and waiting.

use std::collections::{BTreeMap, HashMap};

use hq_core::record::{Failure, FinishedSpan, JobProgress, Record, RestartCause};
use hq_core::worker_messages::WorkerEnd;
use hq_model::worker::{Manager, WorkerConfig};
use hq_model::{IdSet, Instance, JobId, TaskId, Timestamp, WorkerId};

use super::budgets::Budgets;
use super::energy::Measured;
use super::shapes::{Shape, Shapes, offered};
use super::waiting::{Step, Waiting};
use super::{Amounts, Attempt, KINDS, Kind, Offer, Part};

/// Attempts that are remembered.
const ATTEMPTS_MAX: usize = 20_000_000;

/// Everything that is needed of a journal.
#[derive(Default)]
pub(crate) struct Gathered {
    /// Workers that were there.
    pub(crate) offers: BTreeMap<WorkerId, Offer>,
    /// Attempts that ended, in order of the records of their ends, and those that ran when the journal ended.
    pub(crate) attempts: Vec<Attempt>,
    /// Attempts beyond those.
    pub(crate) left_out: u64,
    /// Names of jobs.
    pub(crate) names: BTreeMap<JobId, String>,
    /// Name of the server.
    pub(crate) uid: String,
    /// When the first server started, or the first worker joined.
    begin: Option<Timestamp>,
    /// The first submit.
    pub(crate) first_submit: Option<Timestamp>,
    /// The latest thing that happened.
    pub(crate) latest: Timestamp,
    /// Up to when a compaction may have left out what waited.
    pub(crate) compacted: Timestamp,
    // Who waits for CPUs and who for GPUs, which are other tasks: places as those of `KINDS`.
    pub(super) waiting: [Waiting; KINDS.len()],
    pub(super) budgets: Budgets,
    /// What workers measured, where they were told to look and somebody counts.
    pub(crate) energy: BTreeMap<WorkerId, Measured>,
    shapes: BTreeMap<JobId, Shapes>,
    leases: HashMap<(JobId, TaskId), Lease>,
    // Of tasks that have a second attempt.
    seconds: HashMap<(JobId, TaskId), (WorkerId, Timestamp, Instance)>,
    // When attempts ran that did not end their tasks, until the record that says what becomes of these.
    past: HashMap<(JobId, TaskId, WorkerId), (Timestamp, Timestamp)>,
}

struct Lease {
    worker: WorkerId,
    at: Timestamp,
    // Of a task on several nodes, those that do not lead.
    others: Vec<WorkerId>,
}

impl Gathered {
    /// Takes the next record.
    pub(crate) fn take(&mut self, at: Timestamp, record: &Record) {
        self.latest = self.latest.max(at);
        match record {
            Record::Together { records } => records.iter().for_each(|record| self.take(at, record)),
            Record::ServerStarted { uid, .. } => {
                self.begin = Some(self.begin.map_or(at, |begin| begin.min(at)));
                self.uid.clone_from(uid);
            }
            Record::JobOpened { job, spec, .. } => {
                self.budgets.made(*job, spec);
                self.names.insert(*job, spec.name.clone());
            }
            Record::Submitted { job, spec, ids, dependencies, task, .. } => {
                self.first_submit = Some(self.first_submit.map_or(at, |first| first.min(at)));
                if let Some(spec) = spec {
                    self.budgets.made(*job, spec);
                    self.names.insert(*job, spec.name.clone());
                }
                self.budgets.submitted(*job, ids, task);
                let shape = Shape::new(&task.requests);
                self.shapes.entry(*job).or_default().add(ids, shape);
                for (waiting, kind) in self.waiting.iter_mut().zip(KINDS) {
                    waiting.submitted(at, *job, ids, dependencies, shape.asks_for(kind));
                }
            }
            Record::Leased { worker, job, ids } => {
                self.wait(|waiting| waiting.leave(at, *job, ids));
                for task in ids.iter() {
                    self.leases.insert((*job, task), Lease { worker: *worker, at, others: Vec::new() });
                }
            }
            Record::LeasedNodes { job, task, workers } => {
                self.wait(|waiting| waiting.leave(at, *job, &IdSet::single(*task)));
                if let Some((first, others)) = workers.split_first() {
                    let lease = Lease { worker: *first, at, others: others.to_vec() };
                    self.leases.insert((*job, *task), lease);
                }
            }
            Record::Returned { job, ids, .. } => {
                self.wait(|waiting| waiting.come_back(at, *job, ids));
                for task in ids.iter() {
                    self.leases.remove(&(*job, task));
                }
            }
            Record::Restarted { job, ids, cause, .. } => {
                let from = match cause {
                    RestartCause::Retry { not_before } | RestartCause::Unfetched { not_before } => {
                        at.max(*not_before)
                    }
                    RestartCause::Crash | RestartCause::Left | RestartCause::TimeOver { .. } => at,
                };
                self.wait(|waiting| waiting.come_back(from, *job, ids));
                for task in ids.iter() {
                    self.lose_first(at, *job, task);
                    self.lose_second(at, *job, task);
                }
            }
            Record::AttemptsEnded { job, attempts } => {
                let ran = attempts.iter().filter_map(|attempt| {
                    let ran = (attempt.started?, attempt.ended);
                    Some(((*job, attempt.task, attempt.worker?), ran))
                });
                self.past.extend(ran);
            }
            Record::Deferred { job, task, .. } => {
                self.lose_first(at, *job, *task);
                self.wait(|waiting| waiting.defer(at, *job, *task));
            }
            Record::FilesFound { job, .. } => self.wait(|waiting| waiting.files_found(at, *job)),
            Record::Speculated { worker, job, task, instance } => {
                self.seconds.insert((*job, *task), (*worker, at, *instance));
            }
            Record::AttemptDropped { job, task, instance } => self.drop_one(at, *job, *task, *instance),
            Record::Finished { worker, span } => {
                self.finished(at, *worker, span);
                self.budgets.finished(at, *worker, span);
            }
            Record::DetailKept { worker, span, nodes } => {
                self.compacted = self.compacted.max(at);
                for (task, nodes) in nodes {
                    self.note_nodes(at, span.job, *task, nodes);
                }
                self.finished(at, *worker, span);
            }
            Record::Failed { job, failure } => {
                self.failed(at, *job, failure);
                self.budgets.failed(at, *job, failure);
            }
            Record::Budget { job, change } => self.budgets.changed(at, *job, *change),
            Record::FailureKept { job, failure } => {
                self.compacted = self.compacted.max(at);
                self.failed(at, *job, failure);
            }
            Record::EndedEarly { job, attempts } => {
                attempts.iter().for_each(|attempt| self.failed(at, *job, attempt));
            }
            Record::Canceled { job, ids, .. } | Record::Aborted { job, ids, .. } => {
                self.wait(|waiting| waiting.end(at, *job, ids));
                // Of attempts that ran a record tells that comes later.
                for task in ids.iter() {
                    if self.leases.is_empty() && self.seconds.is_empty() {
                        break;
                    }
                    self.leases.remove(&(*job, task));
                    self.lose_second(at, *job, task);
                }
            }
            Record::JobKept { job, progress } => {
                self.kept(at, *job, progress);
                self.budgets.kept(at, *job, progress);
            }
            Record::WorkerJoined { worker, config, .. } => {
                self.begin = Some(self.begin.map_or(at, |begin| begin.min(at)));
                self.budgets.joined(*worker, config);
                self.offers.insert(*worker, offer(at, config));
            }
            Record::WorkerEnded { worker, end, .. } => {
                if let Some(offer) = self.offers.get_mut(worker) {
                    offer.ended = Some(at);
                    offer.was_sent_away =
                        matches!(end, WorkerEnd::Stopped | WorkerEnd::TimeLimit | WorkerEnd::Interrupted);
                }
            }
            Record::WorkerSampled { worker, sample } => {
                if let Some(energy) = sample.energy {
                    self.energy.entry(*worker).or_default().heard(at, energy);
                }
            }
            Record::EntriesDropped { .. }
            | Record::JobClosed { .. }
            | Record::JobLeft { .. }
            | Record::JobForgotten { .. }
            | Record::ServiceReady { .. }
            | Record::LoadKept { .. }
            | Record::WorkerForgotten { .. }
            | Record::IdsGiven { .. }
            | Record::ResultsKept { .. }
            | Record::TimeSkipped { .. }
            | Record::Alloc(_)
            | Record::Objects(_)
            | Record::Feed { .. }
            | Record::Notice { .. }
            | Record::Answered { .. } => {}
        }
    }

    /// The first start of the server or the first worker that is known.
    pub(crate) fn begin(&self) -> Timestamp {
        self.begin.unwrap_or(self.latest)
    }

    /// Nothing more comes: what runs has run until now, and counts as work. Which of those that were handed out run is not in the
    /// journal: the first of each worker, as many as have room there.
    pub(crate) fn close(&mut self) {
        self.wait(Waiting::resolve);
        let mut running: Vec<_> = self.leases.drain().collect();
        // Some were handed out ahead, and still wait, or could begin later.
        let waiting = &self.waiting[Kind::Cpus as usize];
        running.retain_mut(|((job, task), lease)| match waiting.could_begin(lease.at, *job, *task) {
            Some(begin) => {
                lease.at = begin;
                true
            }
            None => false,
        });
        running.sort_unstable_by_key(|(task, lease)| (lease.at, *task));
        let mut taken: BTreeMap<WorkerId, Amounts> = BTreeMap::new();
        let end = self.latest;
        for ((job, task), lease) in running {
            let asked = self.amounts(job, task, lease.worker);
            let offered = self.offers.get(&lease.worker).map(|offer| offer.amounts).unwrap_or_default();
            let sum = taken.entry(lease.worker).or_default();
            let after = sum.plus(asked);
            if KINDS.iter().all(|kind| after.of(*kind) <= offered.of(*kind)) {
                *sum = after;
                self.attempts_of(job, task, &lease, Part::Work, lease.at, end);
            }
        }
    }

    /// What an attempt takes.
    pub(crate) fn taken_by(&self, attempt: &Attempt) -> Amounts {
        self.amounts(attempt.job, attempt.task, attempt.worker)
    }

    /// How many tasks that ask for CPUs waited, from moment to moment.
    pub(crate) fn waiting_steps(&mut self) -> Vec<Step> {
        self.waiting[Kind::Cpus as usize].steps()
    }

    // What a task takes on a worker.
    fn amounts(&self, job: JobId, task: TaskId, worker: WorkerId) -> Amounts {
        let shape = self.shapes.get(&job).map_or(Shape::new(&[]), |shapes| shapes.of(task));
        // Of a worker that is forgotten nobody knows what all of it was.
        shape.on(self.offers.get(&worker).map(|offer| offer.amounts).unwrap_or_default())
    }

    fn wait(&mut self, mut tell: impl FnMut(&mut Waiting)) {
        self.waiting.iter_mut().for_each(&mut tell);
    }

    fn finished(&mut self, at: Timestamp, worker: WorkerId, span: &FinishedSpan) {
        self.wait(|waiting| waiting.end(at, span.job, &span.ids));
        for (task, (start, usage)) in span.ids.iter().zip(span.measures.iter()) {
            let end = Timestamp(start.0.saturating_add(usage.wall_us));
            self.ended(at, worker, span.job, task, Part::Work, (start, end));
        }
    }

    fn failed(&mut self, at: Timestamp, job: JobId, failure: &Failure) {
        self.wait(|waiting| waiting.end(at, job, &IdSet::single(failure.task)));
        match (failure.worker, failure.started) {
            (Some(worker), Some(start)) => {
                let end = Timestamp(start.0.saturating_add(failure.usage.wall_us));
                self.note_nodes(start, job, failure.task, &failure.nodes);
                self.ended(at, worker, job, failure.task, Part::Failed, (start, end));
            }
            _ => {
                self.lose_first(at, job, failure.task);
                self.lose_second(at, job, failure.task);
            }
        }
    }

    // Of a task on several nodes whose lease is not known any more.
    fn note_nodes(&mut self, at: Timestamp, job: JobId, task: TaskId, nodes: &[WorkerId]) {
        if let Some((first, others)) = nodes.split_first() {
            let lease = || Lease { worker: *first, at, others: others.to_vec() };
            self.leases.entry((job, task)).or_insert_with(lease);
        }
    }

    // An attempt that ended its task.
    fn ended(
        &mut self,
        at: Timestamp,
        worker: WorkerId,
        job: JobId,
        task: TaskId,
        part: Part,
        (start, end): (Timestamp, Timestamp),
    ) {
        let is_second = !self.seconds.is_empty()
            && self.seconds.get(&(job, task)).is_some_and(|second| second.0 == worker);
        let lease = if is_second {
            self.lose_first(at, job, task);
            self.seconds.remove(&(job, task)).map(|(worker, at, _)| Lease { worker, at, others: Vec::new() })
        } else {
            self.lose_second(at, job, task);
            self.leases.remove(&(job, task))
        };
        let lease = lease.filter(|lease| lease.worker == worker);
        let lease = lease.unwrap_or(Lease { worker, at: start, others: Vec::new() });
        self.attempts_of(job, task, &lease, part, start, end);
    }

    fn lose_first(&mut self, at: Timestamp, job: JobId, task: TaskId) {
        if let Some(lease) = self.leases.remove(&(job, task)) {
            self.lost(at, job, task, &lease);
        }
    }

    // It ran as a record before said, or since it was handed out.
    fn lost(&mut self, at: Timestamp, job: JobId, task: TaskId, lease: &Lease) {
        let past = self.past.remove(&(job, task, lease.worker)).filter(|past| past.1 >= lease.at);
        let (start, end) = past.unwrap_or((lease.at, at));
        self.attempts_of(job, task, lease, Part::Lost, start, end);
    }

    fn lose_second(&mut self, at: Timestamp, job: JobId, task: TaskId) {
        if self.seconds.is_empty() {
            return;
        }
        if let Some((worker, from, _)) = self.seconds.remove(&(job, task)) {
            self.lost(at, job, task, &Lease { worker, at: from, others: Vec::new() });
        }
    }

    // Of two attempts the one of this instance; the task goes on as the other one.
    fn drop_one(&mut self, at: Timestamp, job: JobId, task: TaskId, instance: Instance) {
        match self.seconds.get(&(job, task)) {
            Some(second) if second.2 == instance => self.lose_second(at, job, task),
            Some(_) => {
                self.lose_first(at, job, task);
                if let Some((worker, from, _)) = self.seconds.remove(&(job, task)) {
                    self.leases.insert((job, task), Lease { worker, at: from, others: Vec::new() });
                }
            }
            None => {}
        }
    }

    fn kept(&mut self, at: Timestamp, job: JobId, progress: &JobProgress) {
        self.compacted = self.compacted.max(at);
        for ended in [&progress.finished, &progress.failed, &progress.canceled] {
            self.wait(|waiting| waiting.end(at, job, ended));
        }
        for (ids, _) in &progress.abort_reasons {
            self.wait(|waiting| waiting.end(at, job, ids));
        }
        for (worker, ids) in &progress.leased {
            self.wait(|waiting| waiting.leave(at, job, ids));
            for task in ids.iter() {
                let others =
                    progress.nodes.get(&task).map_or(&[][..], |nodes| nodes.get(1..).unwrap_or_default());
                let lease = Lease { worker: *worker, at, others: others.to_vec() };
                self.leases.insert((job, task), lease);
            }
        }
    }

    // Of this lease: one attempt, and one on each further node.
    fn attempts_of(
        &mut self,
        job: JobId,
        task: TaskId,
        lease: &Lease,
        part: Part,
        start: Timestamp,
        end: Timestamp,
    ) {
        let workers = std::iter::once(lease.worker).chain(lease.others.iter().copied());
        for (place, worker) in workers.enumerate() {
            if self.attempts.len() >= ATTEMPTS_MAX {
                self.left_out += 1;
                continue;
            }
            let leased = lease.at.min(start);
            let end = end.max(start);
            // By a quarter: there may be millions.
            if self.attempts.len() == self.attempts.capacity() {
                self.attempts.reserve_exact(self.attempts.len() / 4 + 1024);
            }
            let leads = place == 0;
            self.attempts.push(Attempt { worker, job, task, part, leased, start, end, leads });
        }
    }
}

fn offer(at: Timestamp, config: &WorkerConfig) -> Offer {
    let allocation = match (&config.origin, &config.allocation) {
        (Some(origin), _) => Some(origin.to_string()),
        (None, Some((_, id))) => Some(id.clone()),
        (None, None) => None,
    };
    let slurm_job = config.allocation.iter().find(|(manager, _)| *manager == Manager::Slurm);
    Offer {
        hostname: config.hostname.clone(),
        allocation,
        slurm_job: slurm_job.map(|(_, id)| id.clone()),
        joined: at,
        ended: None,
        was_sent_away: false,
        amounts: offered(&config.resources.pools),
    }
}
