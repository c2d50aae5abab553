//! The durable state of the server: the fold of its records.
//!
//! [`State::apply`] is the only function that changes it, live and on restore alike. The server holds it as `Durable`,
//! which everybody else can only read.

pub mod attempts;
mod budget;
pub mod details;
mod durable;
pub mod job;
mod keys;
pub mod notices;
pub mod objects;
mod progress;
pub mod results;
mod snapshot;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hq_model::worker::WorkerConfig;
use hq_model::{
    Body, Entries, Epoch, IdSet, JobId, ObjectId, ObjectName, TaskRef, TaskState, Timestamp, WorkerId,
};

use crate::WorkerSecret;
use crate::alloc::AllocState;
use crate::cause;
use crate::feed::{Feed, FeedChange};
use crate::limits::{
    FAILURE_DETAILS_BYTES_MAX, REQUEST_KEYS_BYTES_MAX, REQUEST_KEYS_MAX, SERIES_LEVELS, TIME_AWAY_MAX,
    TIME_GAPS_MAX,
};
use crate::record::{
    Failure, FailureKind, FinishedSpan, NEVER, Outlasted, Record, RequestKey, RestartCause, SecondAttempt,
};
use crate::series::{self, LoadPoint};
use crate::worker_messages::WorkerEnd;
use attempts::Attempts;
use details::Details;
pub(super) use durable::Durable;
use job::{Job, SubmitState};
pub(super) use keys::hash_of;
use notices::Notices;
use objects::Objects;
use results::Results;

/// All that survives a restart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Names the server.
    pub uid: String,
    /// How often it was started.
    pub epoch: Epoch,
    /// The release of hq that was started last.
    pub release: String,
    /// Jobs that are not forgotten.
    pub jobs: BTreeMap<JobId, Job>,
    /// Workers that joined and are not forgotten.
    pub workers: BTreeMap<WorkerId, WorkerState>,
    /// The largest job id ever given.
    pub last_job: JobId,
    /// The largest worker id ever given.
    pub last_worker: WorkerId,
    /// Time of the latest record.
    pub latest: Timestamp,
    /// Times and use of finished tasks.
    pub details: Details,
    /// Earlier attempts of tasks that ran more than once.
    pub attempts: Attempts,
    /// What finished tasks left behind.
    pub results: Results,
    /// Files that finished tasks left as objects for others.
    pub objects: Objects,
    /// Notices that are to be sent.
    pub notices: Notices,
    /// Jobs whose tasks feed or drain another job, and which.
    pub feeders: BTreeMap<JobId, JobId>,
    /// Queues and allocations.
    pub alloc: AllocState,
    /// Answers to recent requests by their keys.
    pub answered: BTreeMap<RequestKey, (JobId, IdSet)>,
    /// Bytes that all jobs and their submits take.
    pub submits_bytes: usize,
    /// When servers started, and how much of the time before does not count for how long ended jobs are kept, µs.
    pub gaps: Vec<(Timestamp, u64)>,
    /// How loaded all nodes together were, in the longest steps of their series.
    pub loads: VecDeque<LoadPoint>,
    answered_order: VecDeque<RequestKey>,
    answered_bytes: usize,
    failures_order: VecDeque<(JobId, hq_model::TaskId)>,
    failures_bytes: usize,
}

/// A worker's durable state.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerState {
    /// What it said of itself.
    pub config: WorkerConfig,
    /// Digest of what it shows when it comes back, if it does.
    pub secret: Option<WorkerSecret>,
    /// When it joined.
    pub joined: Timestamp,
    /// When and why it left.
    pub ended: Option<(Timestamp, WorkerEnd)>,
}

impl State {
    /// Applies one record. Records come from this server's own decisions or from its journal, and
    /// those are in the order in which they were made; one about something unknown changes nothing.
    pub fn apply(&mut self, at: Timestamp, record: &Record) {
        if let Record::ServerStarted { epoch, .. } = record
            && self.epoch.0 > 0
            && *epoch != self.epoch
        {
            self.note_gap(at);
        }
        self.latest = self.latest.max(at);
        match record {
            Record::Together { records } => records.iter().for_each(|record| self.apply(at, record)),
            Record::TimeSkipped { gaps } => self.gaps.clone_from(gaps),
            Record::ServerStarted { epoch, uid, release } => {
                self.epoch = *epoch;
                self.uid.clone_from(uid);
                self.release.clone_from(release);
            }
            Record::JobOpened { job, key, spec } => {
                self.insert_job(*job, Job::new(spec.clone(), true, at));
                self.last_job = self.last_job.max(*job);
                self.remember(*key, *job, IdSet::new());
            }
            Record::Submitted {
                job,
                key,
                spec,
                ids,
                entries,
                entries_gone,
                keys,
                dependencies,
                task,
                submit_dir,
            } => {
                if let Some(spec) = spec {
                    self.insert_job(*job, Job::new(spec.clone(), false, at));
                    self.last_job = self.last_job.max(*job);
                }
                if let Some(job) = self.jobs.get_mut(job) {
                    let submit = SubmitState {
                        ids: ids.clone(),
                        entries: entries.clone(),
                        entries_gone: IdSet::clone(entries_gone),
                        keys: keys.clone(),
                        dependencies: dependencies.clone(),
                        task: task.clone(),
                        submit_dir: submit_dir.clone(),
                        submitted: at,
                    };
                    self.submits_bytes += submit.bytes();
                    job.add_submit(submit);
                }
                self.remember(*key, *job, ids.clone());
            }
            Record::EntriesDropped { job, ids } => {
                if let Some(job) = self.jobs.get_mut(job) {
                    let (before, after) = job.drop_entries(ids);
                    self.submits_bytes = self.submits_bytes - before + after;
                }
            }
            Record::JobForgotten { job } => {
                let forgotten = self.jobs.remove(job);
                self.details.forget(*job);
                self.attempts.forget(*job);
                self.results.forget(*job);
                self.objects.forget(*job);
                self.forget_earlier(*job);
                if let Some(forgotten) = forgotten {
                    self.feeders.retain(|_, fed| fed != job);
                    self.submits_bytes -= forgotten.submits_bytes();
                    self.failures_bytes -=
                        forgotten.failures.values().map(|failure| failure.1.bytes()).sum::<usize>();
                    if !forgotten.failures.is_empty() {
                        self.failures_order.retain(|failure| failure.0 != *job);
                    }
                }
            }
            Record::WorkerJoined { worker, config, secret } => {
                let config = (**config).clone();
                if let Some(origin) = config.origin {
                    self.alloc.worker_joined(at, *worker, origin, &config.resources);
                }
                self.workers
                    .insert(*worker, WorkerState { config, secret: *secret, joined: at, ended: None });
                self.last_worker = self.last_worker.max(*worker);
            }
            Record::WorkerForgotten { worker } => {
                self.workers.remove(worker);
            }
            Record::IdsGiven { job, worker } => {
                self.last_job = self.last_job.max(*job);
                self.last_worker = self.last_worker.max(*worker);
            }
            Record::Alloc(record) => self.alloc.apply(at, record),
            Record::DetailKept { worker, span, nodes } => {
                self.details.add(*worker, span.clone(), nodes.clone());
            }
            Record::EndedEarly { job: id, attempts } => {
                if let Some(job) = self.jobs.get_mut(id) {
                    for attempt in attempts {
                        job.failures.insert(attempt.task, (at, attempt.clone()));
                        job.note_workers(attempt.worker.iter().chain(&attempt.nodes));
                    }
                    attempts.iter().for_each(|attempt| self.bound_failures(*id, attempt));
                }
            }
            Record::AttemptsEnded { job, attempts } => {
                if self.jobs.contains_key(job) {
                    attempts.iter().for_each(|attempt| self.attempts.add(*job, attempt));
                }
            }
            Record::FailureKept { job: id, failure } => {
                if let Some(job) = self.jobs.get_mut(id) {
                    job.failures.insert(failure.task, (at, failure.clone()));
                    self.bound_failures(*id, failure);
                }
            }
            Record::Objects(change) => {
                let is_value = |object: &ObjectId| is_value(&self.jobs, object.task, &object.name);
                self.objects.apply(change, &is_value);
            }
            Record::Notice { job, rule, change } => {
                self.notices.apply((*job, *rule), change);
                if let Some(job) = self.jobs.get_mut(job) {
                    notices::note(&mut job.progress, at, *rule, change);
                }
            }
            Record::Feed { job, change } => self.feed(*job, change),
            Record::Answered { key, job, ids } => self.remember(*key, *job, ids.clone()),
            Record::JobKept { job: id, progress } => {
                if let Some(job) = self.jobs.get_mut(id) {
                    job.resume(progress);
                }
                if let Some(feed) = &progress.feed {
                    self.link(*id, feed, progress.is_open);
                }
            }
            Record::WorkerEnded { worker, end, is_away } => {
                if let Some(state) = self.workers.get_mut(worker) {
                    state.ended = Some((at, *end));
                    if let Some(origin) = state.config.origin {
                        self.alloc.worker_ended(at, *worker, origin, *end, *is_away);
                    }
                }
            }
            Record::Finished { worker, span } => {
                if let Some(job) = self.jobs.get_mut(&span.job) {
                    let nodes = job.nodes_of(&span.ids);
                    job.spend_on_span(&self.workers, *worker, span);
                    job.settle_seconds(&span.ids, span.instance);
                    job.take_alive_from(*worker, &span.ids);
                    job.forget_values_of(&span.ids);
                    job.progress.finished.union_with(&span.ids);
                    job.progress.usage.add(span.measures.total());
                    job.note_workers([worker].into_iter().chain(nodes.iter().flat_map(|(_, nodes)| nodes)));
                    job.progress.last_end = at;
                    let promised = job.promising_texts(&span.ids);
                    self.results.add_told(span.job, &span.ids, &span.results, &promised);
                    // Those are dropped apart.
                    let span = FinishedSpan { results: Entries::default(), ..span.clone() };
                    self.details.add(*worker, span, nodes);
                }
            }
            Record::ResultsKept { job, ids, results } => {
                let promised = self.jobs.get(job).map(|job| job.promising_texts(ids)).unwrap_or_default();
                self.results.add_told(*job, ids, results, &promised);
            }
            Record::Failed { job: id, failure } => {
                if let Some(job) = self.jobs.get_mut(id) {
                    job.take_alive(&IdSet::single(failure.task));
                    job.progress.values_of.remove(&failure.task);
                    job.spend_on(&self.workers, failure);
                    job.progress.failed.insert(failure.task);
                    cause::note(&mut job.progress.causes, failure);
                    if failure.kind == FailureKind::Crashes {
                        *job.progress.crashes.entry(failure.task).or_default() += 1;
                    }
                    job.progress.usage.add(&failure.usage);
                    job.note_workers(failure.worker.iter().chain(&failure.nodes));
                    job.progress.last_end = at;
                    let result = (!failure.result.is_empty()).then_some(failure.result.as_slice());
                    let results = result.and_then(|result| Entries::new([result])).unwrap_or_default();
                    self.results.add(*id, &IdSet::single(failure.task), &results);
                    // Those are dropped apart.
                    let failure = Failure { result: Vec::new(), ..failure.clone() };
                    self.bound_failures(*id, &failure);
                    if let Some(job) = self.jobs.get_mut(id) {
                        job.failures.insert(failure.task, (at, failure));
                    }
                }
            }
            Record::WorkerSampled { .. } => {}
            Record::LoadKept { point } => {
                let (_, points_max) = SERIES_LEVELS[SERIES_LEVELS.len() - 1];
                series::append(&mut self.loads, **point, points_max);
            }
            Record::JobClosed { job }
            | Record::JobLeft { job, .. }
            | Record::Budget { job, .. }
            | Record::Leased { job, .. }
            | Record::LeasedNodes { job, .. }
            | Record::Returned { job, .. }
            | Record::Restarted { job, .. }
            | Record::Deferred { job, .. }
            | Record::ServiceReady { job, .. }
            | Record::FilesFound { job, .. }
            | Record::Speculated { job, .. }
            | Record::AttemptDropped { job, .. }
            | Record::Canceled { job, .. }
            | Record::Aborted { job, .. } => {
                if matches!(record, Record::JobClosed { .. } | Record::JobLeft { .. }) {
                    self.results.release(*job);
                }
                if let Some(job) = self.jobs.get_mut(job) {
                    apply_to_job(job, at, record);
                }
            }
        }
    }

    fn insert_job(&mut self, id: JobId, job: Job) {
        self.submits_bytes += job.own_bytes();
        self.submits_bytes -= self.jobs.insert(id, job).map_or(0, |before| before.submits_bytes());
    }

    /// True for an object that a call returns, or a client gives: no submit declares it.
    pub fn is_value(&self, task: TaskRef, name: &ObjectName) -> bool {
        is_value(&self.jobs, task, name)
    }

    /// Bytes that all jobs and their submits take, with what is known of the values of their calls.
    pub fn held_bytes(&self) -> usize {
        self.submits_bytes + self.objects.values_bytes()
    }

    fn feed(&mut self, id: JobId, change: &FeedChange) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let made = job.ids.len();
        let feed = job.progress.feed.get_or_insert_default();
        feed.apply(change, made);
        match change {
            FeedChange::Made { .. } => {
                let (feed, is_open) = (feed.clone(), job.is_open);
                self.link(id, &feed, is_open);
            }
            FeedChange::Reduced { ids, .. } => self.results.drop_of(id, ids, &feed.reduced),
            FeedChange::Fed { .. } | FeedChange::GivenUp(_) => {}
        }
    }

    fn link(&mut self, id: JobId, feed: &Feed, is_open: bool) {
        self.feeders.retain(|_, fed| *fed != id);
        self.feeders.extend(feed.own_jobs().map(|own| (own, id)));
        if feed.reducer.is_some() && is_open {
            self.results.hold(id);
        }
    }

    // Nobody can ask for a job again that is gone.
    fn forget_earlier(&mut self, id: JobId) {
        let fed = self.feeders.get(&id).and_then(|fed| self.jobs.get_mut(fed));
        let Some(feed) = fed.and_then(|fed| fed.progress.feed.as_mut()) else { return };
        if feed.earlier.contains(&id) {
            feed.earlier.retain(|earlier| *earlier != id);
            self.feeders.remove(&id);
        }
    }

    /// The last job that is there as a whole, and not to leave lost objects once more: nobody has submitted those.
    pub fn last_of_users(&self) -> Option<JobId> {
        let rebuilds = |job: &Job| job.submits.first().is_some_and(|submit| submit.task.rebuilds.is_some());
        self.jobs.iter().rev().find(|(_, job)| !rebuilds(job) && !job.is_draft()).map(|(id, _)| *id)
    }

    /// Number of jobs by state needs what runs; this is the state of one task as far as it is durable.
    pub fn task_state(&self, task: TaskRef) -> Option<TaskState> {
        self.jobs.get(&task.job)?.state_of(task.task)
    }

    /// What is known of a task, in a line for the log.
    pub fn story(&self, whole: TaskRef) -> String {
        let Some(job) = self.jobs.get(&whole.job) else {
            return format!("task {whole} of a job that is not there");
        };
        job.story(whole)
    }

    fn remember(&mut self, key: RequestKey, job: JobId, ids: IdSet) {
        if key == 0 {
            return;
        }
        self.answered_bytes += answer_bytes(&ids);
        match self.answered.insert(key, (job, ids)) {
            Some((_, before)) => self.answered_bytes -= answer_bytes(&before),
            None => self.answered_order.push_back(key),
        }
        while (self.answered_order.len() > REQUEST_KEYS_MAX || self.answered_bytes > REQUEST_KEYS_BYTES_MAX)
            && let Some(oldest) = self.answered_order.pop_front()
        {
            let known = self.answered.remove(&oldest);
            self.answered_bytes -= known.map_or(0, |(_, ids)| answer_bytes(&ids));
        }
    }

    fn bound_failures(&mut self, job: JobId, failure: &Failure) {
        self.failures_order.push_back((job, failure.task));
        self.failures_bytes += failure.bytes();
        while self.failures_bytes > FAILURE_DETAILS_BYTES_MAX
            && let Some((job, task)) = self.failures_order.pop_front()
        {
            let failure = self.jobs.get_mut(&job).and_then(|job| job.failures.remove(&task));
            self.failures_bytes -= failure.map_or(0, |failure| failure.1.bytes());
        }
    }

    // A server starts and finds this time. A clock that jumped looks like a server that was away for long.
    fn note_gap(&mut self, at: Timestamp) {
        let skipped = at.since(self.latest).saturating_sub(TIME_AWAY_MAX).as_micros() as u64;
        if skipped == 0 {
            return;
        }
        // Together, two count for what ended before the later one: that is kept for longer.
        if self.gaps.len() == TIME_GAPS_MAX {
            let first = self.gaps.remove(0);
            self.gaps[0].1 = self.gaps[0].1.saturating_add(first.1);
        }
        self.gaps.push((at, skipped));
    }

    /// How much of the time since then does not count for how long ended jobs are kept.
    pub fn skipped_since(&self, then: Timestamp) -> Duration {
        let gaps = self.gaps.iter().filter(|gap| gap.0 > then);
        Duration::from_micros(gaps.fold(0, |sum, gap| gap.1.saturating_add(sum)))
    }
}

fn is_value(jobs: &BTreeMap<JobId, Job>, task: TaskRef, name: &ObjectName) -> bool {
    let job = jobs.get(&task.job);
    let submit = job.and_then(|job| job.submits.get(job.submit_of(task.task)? as usize));
    match submit.map(|submit| &submit.task.body) {
        Some(Body::Given) => true,
        Some(body) => body.is_packed_call() && *name == ObjectName::value(),
        None => false,
    }
}

fn answer_bytes(ids: &IdSet) -> usize {
    128 + ids.range_count() * 8
}

fn apply_to_job(job: &mut Job, at: Timestamp, record: &Record) {
    match record {
        Record::JobClosed { .. } | Record::JobLeft { .. } => job.progress.is_open = false,
        Record::Budget { change, .. } => job.change_budget(*change),
        Record::Leased { worker, ids, .. } => {
            if job.queued.contains_all(ids) && job.delayed.is_empty() && job.deferred.is_empty() {
                job.queued.subtract(ids);
            } else {
                job.take_alive(ids);
            }
            job.progress.is_stalled = false;
            job.progress.leased.entry(*worker).or_default().union_with(ids);
        }
        Record::LeasedNodes { task, workers, .. } => {
            job.take_alive(&IdSet::single(*task));
            job.progress.is_stalled = false;
            if let Some(first) = workers.first() {
                job.progress.leased.entry(*first).or_default().insert(*task);
            }
            job.progress.nodes.insert(*task, workers.clone());
        }
        Record::Returned { worker, ids, .. } => {
            job.take_leased(*worker, ids);
            job.queued.union_with(ids);
        }
        Record::Speculated { worker, task, instance, .. } => {
            job.progress.seconds.insert(*task, SecondAttempt { worker: Some(*worker), instance: *instance });
        }
        Record::AttemptDropped { task, instance, .. } => job.drop_attempt(*task, *instance),
        Record::Restarted { ids, instance, cause, .. } => {
            job.take_alive(ids);
            job.queued.union_with(ids);
            job.set_instance(ids, *instance);
            match cause {
                RestartCause::Left => {}
                RestartCause::Crash => {
                    ids.iter().for_each(|task| *job.progress.crashes.entry(task).or_default() += 1)
                }
                RestartCause::TimeOver { life, waits } => {
                    for task in ids.iter() {
                        let known = job.progress.outlasted.entry(task).or_default();
                        *known = Outlasted { times: known.times + 1, life: known.life.max(*life) };
                        if *waits {
                            job.progress.delayed.insert(task, NEVER);
                        }
                    }
                }
                RestartCause::Unfetched { not_before } => {
                    job.progress.delayed.extend(ids.iter().map(|task| (task, *not_before)));
                }
                RestartCause::Retry { not_before } => {
                    for task in ids.iter() {
                        *job.progress.retries.entry(task).or_default() += 1;
                        job.progress.delayed.insert(task, *not_before);
                    }
                }
            }
        }
        Record::FilesFound { files, .. } => job.progress.files.extend(files.iter().cloned()),
        Record::ServiceReady { task, text, .. } => {
            job.progress.ready.insert(*task, text.clone());
        }
        Record::Deferred { task, instance, after, not_before, value_of, .. } => {
            let ids = IdSet::single(*task);
            job.take_alive(&ids);
            job.queued.union_with(&ids);
            job.set_instance(&ids, *instance);
            job.progress.deferred.insert(*task, after.clone());
            job.progress.delayed.remove(task);
            job.progress.delayed.extend(not_before.map(|at| (*task, at)));
            job.progress.values_of.extend(value_of.map(|of| (*task, of)));
        }
        Record::Canceled { ids, reason, end_by, .. } => {
            job.take_alive(ids);
            job.forget_values_of(ids);
            job.progress.canceled.union_with(ids);
            if let Some(end) = end_by {
                let too_late = &mut job.progress.too_late;
                match too_late.iter_mut().find(|(_, known)| known == end) {
                    Some((known, _)) => known.union_with(ids),
                    None => too_late.push((ids.clone(), *end)),
                }
            }
            if reason.is_some() {
                job.progress.cancel_reason.clone_from(reason);
            }
            job.progress.last_end = at;
        }
        Record::Aborted { ids, reason, .. } => {
            job.take_alive(ids);
            job.forget_values_of(ids);
            job.aborted.union_with(ids);
            job.progress.abort_reasons.push((ids.clone(), reason.clone()));
            job.progress.last_end = at;
        }
        other => unreachable!("not a record about tasks of a job: {other:?}"),
    }
}
