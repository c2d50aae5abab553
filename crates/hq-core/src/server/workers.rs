//! Workers come, go, are lost and come back.

mod outlasting;

use std::collections::BTreeSet;

pub(super) use outlasting::too_long;

use hq_model::task::CrashLimit;
use hq_model::{IdSet, Instance, JobId, NodeSample, TaskRef, TasksSample, Timestamp, Usage, WorkerId};

use super::live::{LiveWorker, Stop};
use super::machine::Server;
use super::queue::ClassId;
use super::running::Run;
use super::{ConnectionId, Effect, Gate};
use crate::attempt::AttemptEnd;
use crate::clock_gap;
use crate::limits::WORKER_GRACE_CLOSED;
use crate::mark;
use crate::record::{Failure, FailureKind, Record, RestartCause};
use crate::worker_messages::{
    FromWorker, Held, TaskWords, TemplateId, ToWorker, Welcome, WorkerEnd, WorkerHello,
};

/// What is known of tasks that are lost with a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    /// They ran.
    Surely,
    /// They were handed over, and may have run.
    Perhaps,
}

impl Server {
    /// A worker speaks.
    pub(super) fn worker_says(
        &mut self,
        now: Timestamp,
        connection: ConnectionId,
        message: FromWorker,
        effects: &mut Vec<Effect>,
    ) {
        let known = self.worker_connections.get(&connection).copied();
        let (worker, message) = match (known, message) {
            (None, FromWorker::Hello(hello)) => return self.worker_joins(now, connection, *hello, effects),
            (Some(worker), message) if !matches!(message, FromWorker::Hello(_)) => (worker, message),
            // A hello too many or one missing: not a worker of ours.
            _ => {
                effects.push(Effect::Close { connection });
                return self.connection_lost(now, connection, false);
            }
        };
        if let Some(live) = self.live.get_mut(&worker) {
            live.heard(self.state.workers[&worker].config.heartbeat, now);
            // What a node does is told without waiting for a welcome.
            live.is_welcomed |= !matches!(message, FromWorker::Sampled { .. });
        }
        match message {
            FromWorker::Hello(_) | FromWorker::Heartbeat => {}
            FromWorker::Sampled { node, tasks } => self.worker_samples(now, worker, node, tasks, effects),
            FromWorker::Report(report) => self.worker_reports(now, worker, report, effects),
            FromWorker::Notify { task, text } => {
                self.pass_words(now, worker, TaskWords { task, instance: Instance(0), text }, effects);
            }
            FromWorker::Log(batch) => self.log(worker, connection, batch, effects),
            FromWorker::Output(answer) => self.worker_read(connection, answer, effects),
            FromWorker::Leaving { end } => {
                effects.push(Effect::Close { connection });
                self.worker_ends(now, worker, end, effects);
            }
        }
    }

    // In the journal of workers alone that were told to look, and while it can be written.
    fn worker_samples(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        sample: Box<NodeSample>,
        tasks: Option<Box<TasksSample>>,
        effects: &mut Vec<Effect>,
    ) {
        self.load_is_told(now, worker, sample.clone(), tasks, effects);
        if self.state.workers[&worker].config.overview_interval.is_some() && !self.is_read_only() {
            self.record(now, Record::WorkerSampled { worker, sample }, effects);
        }
    }

    fn worker_joins(
        &mut self,
        now: Timestamp,
        connection: ConnectionId,
        hello: WorkerHello,
        effects: &mut Vec<Effect>,
    ) {
        // Who has the key of workers may say any id; one of an earlier release has nothing to show.
        let is_that_one = |id: &WorkerId| {
            let joined_with = self.state.workers[id].secret;
            joined_with.is_none_or(|secret| hello.secret == Some(secret))
        };
        let claimed = hello.known_as.filter(|id| self.live.contains_key(id));
        let returning = claimed.filter(is_that_one);
        let worker = returning.unwrap_or(WorkerId(self.state.last_worker.0 + 1));
        if returning.is_none() {
            let mut config = Box::new(hello.config.clone());
            config.origin = config.origin.or_else(|| {
                let (manager, id) = config.allocation.as_ref()?;
                self.state.alloc.active_with(&manager.to_string(), id)
            });
            self.alloc_worker_joins(now, &config, effects);
            self.record(now, Record::WorkerJoined { worker, config, secret: hello.secret }, effects);
        }
        let started = clock_gap::on_this_clock(now, hello.started, hello.age);
        let mut live = LiveWorker::new(Some(connection), &hello.config, started, now);
        // Until the reports of before are in, nothing is handed to it that they could be about.
        live.reconcile_at = Some(hello.last_report);
        live.follows = hello.follows;
        live.follows_calls = hello.follows_calls;
        live.shows = hello.shows;
        live.stores = hello.stores;
        live.relays = hello.relays;
        live.is_welcomed = returning.is_some();
        mark!("reports of before come under a new id", returning.is_none() && hello.last_report > 0);
        if let Some(before) = self.live.remove(&worker) {
            if let Some(old) = before.connection {
                self.worker_connections.remove(&old);
                effects.push(Effect::Close { connection: old });
            }
            live.last_report = before.last_report;
            live.is_draining = before.is_draining;
            live.lets_end = before.lets_end;
            live.end = before.end;
            live.stop = before.stop;
            live.trouble = before.trouble;
            live.output_waits = before.output_waits;
            live.internal_errors = before.internal_errors;
            live.reserved = before.reserved;
            self.forget_running_on(worker);
        }
        self.lost_from = self.lost_from.min(live.lost_at);
        self.live.insert(worker, live);
        self.watching.touch();
        self.worker_connections.insert(connection, worker);
        let unproven = claimed.filter(|_| returning.is_none());
        effects.push(Effect::WorkerJoined { connection, worker, unproven });
        let idle_timeout = hello.config.idle_timeout.or(self.options.idle_timeout);
        let message = ToWorker::Welcome(Welcome {
            worker,
            epoch: self.state.epoch,
            server_uid: self.state.uid.clone(),
            idle_timeout,
            hears: true,
        });
        // On disk first: an id that a worker knows must never be given again. The id of one that comes back is: it
        // does not wait for a journal that cannot be written, and its tasks go on.
        let gate = if returning.is_some() { Gate::Open } else { Gate::Synced };
        effects.push(Effect::ToWorker { connection, message, gate });
        // Of one that was given up and comes back as another one, too: it may have what is meant.
        self.gives_fail_on(worker, effects);
        self.objects_of_worker(worker, hello.objects);
        for held in hello.holds {
            self.take_over(now, worker, connection, returning.is_some(), held, effects);
        }
        // It may not have heard so, or counts as stopped since it was away then: its tasks are others' now.
        let was_stopped = hello
            .known_as
            .and_then(|id| self.state.workers.get(&id))
            .is_some_and(|before| matches!(before.ended, Some((_, WorkerEnd::Stopped))));
        let stop = self.live.get(&worker).and_then(|live| live.stop);
        if let Some(drain) = match stop {
            _ if self.is_stopping() || was_stopped => Some(false),
            stop => stop.map(|stop| stop.drain),
        } {
            if let Some(live) = self.live.get_mut(&worker) {
                self.watching.touch();
                live.is_draining = true;
                live.stop = Some(Stop { drain });
                live.end = Some(WorkerEnd::Stopped);
            }
            let message = ToWorker::Stop { drain };
            effects.push(Effect::ToWorker { connection, message, gate });
        }
        self.presume_starts(now, worker);
        self.reconcile(now, worker, effects);
        self.changes.of_worker(worker);
    }

    // A returning worker holds these. What is still leased to it as that instance stays with it; the
    // rest it is told to end.
    fn take_over(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        connection: ConnectionId,
        is_known: bool,
        held: Held,
        effects: &mut Vec<Effect>,
    ) {
        let id = held.template.job;
        let variant = held.variant;
        let mut all = held.queued.clone();
        all.union_with(&held.running);
        let valid = match self.state.jobs.get(&id).filter(|_| is_known) {
            Some(job) => {
                let mut valid = job.attempts_on(worker, &all, held.instance);
                valid.union_with(&job.with_instance(&job.parts_on(worker).intersection(&all), held.instance));
                valid
            }
            None => IdSet::new(),
        };
        let stale = all.difference(&valid);
        if !stale.is_empty() {
            // What was canceled as this very instance was tried nowhere else.
            let mut only_here = IdSet::new();
            if let Some(job) = self.state.jobs.get(&id) {
                let mut ended_early = stale.intersection(&job.canceled);
                ended_early.union_with(&stale.intersection(&job.aborted));
                only_here = job.with_instance(&ended_early, held.instance);
            }
            let elsewhere = stale.difference(&only_here);
            for (ids, are_elsewhere) in [(only_here, false), (elsewhere, true)] {
                if !ids.is_empty() {
                    let message = ToWorker::Cancel { job: id, ids, are_elsewhere };
                    effects.push(Effect::ToWorker { connection, message, gate: Gate::Written });
                }
            }
            if let Some(live) = self.live.get_mut(&worker) {
                live.claimed.entry(id).or_default().union_with(&stale);
            }
        }
        for (task, at) in held.running.iter().zip(&held.started) {
            if valid.contains(task) && !self.is_part(worker, id, task) {
                self.task_runs(now, worker, TaskRef::new(id, task), (held.instance, held.variant), *at);
            }
        }
        let followers = self.followers.on_worker(worker, id, &all);
        self.hold_followers(worker, held.template, &followers);
        let Some(class) = self.class_of(held.template) else { return };
        let requests = &self.queue.key(class).requests;
        let mut queued = held.queued.difference(&followers);
        let mut running = held.running.difference(&followers);
        if requests.iter().any(|request| request.nodes > 0) {
            // They got their room when they were handed over.
            running.union_with(&std::mem::take(&mut queued));
        }
        if let Some(live) = self.live.get_mut(&worker) {
            let choices = live.choices(class, requests);
            let ran = variant.and_then(|variant| choices.iter().find(|choice| choice.variant == variant));
            let needs = ran.or(choices.first()).map(|choice| choice.needs.clone());
            live.place(held.template, needs.as_ref(), &running);
            live.learns(held.template);
            if requests.iter().any(hq_model::Request::takes_whole_nodes) {
                live.whole = Some(held.template);
            }
        }
        self.wait_on(now, worker, held.template, &queued);
        self.may_be_late(worker, held.template);
        self.last_moments.look_again(id);
    }

    // The class of a template, of which a worker has something. `None` when its job is forgotten: the worker ends that,
    // and nothing is counted.
    pub(super) fn class_of(&mut self, template: TemplateId) -> Option<ClassId> {
        let class = match (self.classes.get(&template), self.state.jobs.get(&template.job)) {
            (Some(class), _) => *class,
            (None, Some(job)) if (template.submit as usize) < job.submits.len() => {
                let task = &job.submits[template.submit as usize].task;
                let share = job.spec.is_rationed().then_some(template.job);
                let stores = job.submits[template.submit as usize].needs_store();
                let class = self.queue.class(task.priority, &task.requests, share, stores);
                if share.is_some() {
                    self.shares.add(template.job);
                }
                self.classes.insert(template, class);
                class
            }
            (None, _) => return None,
        };
        Some(class)
    }

    /// A worker does not have these tasks any more.
    pub(super) fn release(&mut self, worker: WorkerId, job: JobId, ids: &IdSet) {
        let Some(live) = self.live.get_mut(&worker) else { return };
        let templates: Vec<TemplateId> = match self.state.jobs.get(&job) {
            Some(state) if state.submits.len() == 1 => vec![TemplateId { job, submit: 0 }],
            // Of many submits or of a forgotten job: those that the worker holds something of.
            _ => live.held().range(super::requests::templates_of(job)).map(|held| *held.0).collect(),
        };
        for template in templates {
            live.drop_held(template, ids);
        }
        self.changes.of_worker(worker);
        self.forget_if_over(job);
    }

    /// Notes that a task runs, `since` by the clock of its worker.
    pub(super) fn task_runs(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        task: TaskRef,
        (instance, variant): (Instance, Option<u32>),
        since: Timestamp,
    ) {
        let since = self.within_sight(now, worker, task, since);
        self.reads.started(task.job);
        let run = Run { worker, instance, since, variant };
        self.may_speculate(task.job, task.task, since);
        if self.seconds_on(worker, task.job, &IdSet::single(task.task)).contains(task.task) {
            self.running.start_second(task, run);
        } else {
            self.running.start(task, run);
        }
    }

    /// When a task started, as far as this server saw it: after it was submitted and its worker had joined, and before now.
    /// The clock of the worker may be days away from that.
    pub(super) fn within_sight(
        &self,
        now: Timestamp,
        worker: WorkerId,
        task: TaskRef,
        since: Timestamp,
    ) -> Timestamp {
        let job = self.state.jobs.get(&task.job);
        let submit = job.and_then(|job| job.submits.get(job.submit_of(task.task)? as usize));
        let submitted = submit.map_or(since, |submit| submit.submitted);
        let joined = self.state.workers.get(&worker).map_or(since, |worker| worker.joined);
        since.max(submitted).max(joined).min(now)
    }

    fn forget_running_on(&mut self, worker: WorkerId) {
        self.loads.forget_tasks_on(worker);
        self.running.forget_worker(worker);
    }

    /// Once a returned worker has said all it had to: what is leased to it and not there never arrived.
    pub(super) fn reconcile(&mut self, now: Timestamp, worker: WorkerId, effects: &mut Vec<Effect>) {
        let Some(live) = self.live.get_mut(&worker) else { return };
        if live.reconcile_at.is_none_or(|report| live.last_report < report) {
            return;
        }
        live.reconcile_at = None;
        let mut missing = Vec::new();
        for (id, job) in &self.state.jobs {
            let mut lost = job.seconds_on(worker);
            lost.union_with(job.leased.get(&worker).unwrap_or(&IdSet::new()));
            lost.union_with(&job.parts_on(worker));
            if lost.is_empty() {
                continue;
            }
            let of_job = super::requests::templates_of(*id);
            for (_, held) in live.held().range(of_job) {
                lost.subtract(&held.ids);
            }
            if !lost.is_empty() {
                missing.push((*id, lost));
            }
        }
        for (job, mut ids) in missing {
            ids.subtract(&self.drop_seconds_on(now, worker, job, &ids, None, effects));
            let parts = self.parts_among(worker, job, &ids);
            mark!("a part of a task never arrived", !parts.is_empty());
            self.restart(now, job, &ids.difference(&parts), RestartCause::Left, effects);
            // Their first workers may have started them.
            self.lose_running(now, worker, job, &parts, (RestartCause::Left, Ran::Perhaps), effects);
        }
    }

    /// A connection broke: its worker may come back for a while.
    pub(super) fn connection_lost(&mut self, now: Timestamp, connection: ConnectionId, is_closed: bool) {
        let Some(worker) = self.worker_connections.remove(&connection) else { return };
        if let Some(live) = self.live.get_mut(&worker).filter(|live| live.connection == Some(connection)) {
            live.connection = None;
            self.watching.touch();
            self.copies.worker_is_away(worker);
            let grace = self.options.worker_grace;
            live.lost_at = now.after(if is_closed { grace.min(WORKER_GRACE_CLOSED) } else { grace });
            self.lost_from = self.lost_from.min(live.lost_at);
        }
    }

    // New workers are silent until they are welcomed, and their welcome waits for the disk. While the journal cannot
    // be written, and once more when it can, they have the time in which they must be heard anew.
    pub(super) fn wait_for_welcomed(&mut self, now: Timestamp, all: bool) {
        for (worker, live) in &mut self.live {
            if live.connection.is_some() && !live.is_welcomed && (all || live.lost_at <= now) {
                live.heard(self.state.workers[worker].config.heartbeat, now);
            }
        }
    }

    /// Gives up on workers that were silent for too long.
    pub(super) fn lose_silent_workers(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if now < self.lost_from {
            return;
        }
        if self.is_read_only() {
            self.wait_for_welcomed(now, false);
        }
        let lost = self.live.iter().filter(|(_, live)| live.lost_at <= now);
        let lost: Vec<_> = lost.map(|(id, live)| (*id, live.connection)).collect();
        for (worker, connection) in lost {
            let end = match connection {
                Some(connection) => {
                    effects.push(Effect::Close { connection });
                    WorkerEnd::HeartbeatLost
                }
                None => WorkerEnd::ConnectionLost,
            };
            self.worker_ends(now, worker, end, effects);
        }
        self.lost_from = self.live.values().map(|live| live.lost_at).min().unwrap_or(Timestamp(u64::MAX));
    }

    /// A worker is gone for good; what it held goes elsewhere.
    pub(super) fn worker_ends(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        end: WorkerEnd,
        effects: &mut Vec<Effect>,
    ) {
        let (mut has_said_so, mut is_away) = (false, false);
        if let Some(live) = self.live.get_mut(&worker) {
            is_away = live.connection.is_none();
            has_said_so = live.connection.is_some() && !end.is_crash();
            live.end = Some(end);
            // It is told nothing any more.
            if let Some(connection) = live.connection.take() {
                self.worker_connections.remove(&connection);
            }
        }
        self.record(now, Record::WorkerEnded { worker, end, is_away }, effects);
        self.alloc.look();
        self.lose_tasks_of(now, worker, end, has_said_so, effects);
        self.forget_running_on(worker);
        self.locality.worker_gone(worker);
        self.gives_fail_on(worker, effects);
        self.live.remove(&worker);
        self.copies.worker_is_gone(&self.state, worker);
        self.loads.forget_worker(worker);
        self.changes.forget_worker(worker);
    }

    /// At a start: the records of an end may be on disk only in part, and tasks be left to workers that have ended.
    pub(super) fn lose_tasks_of_ended(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let mut ended = BTreeSet::<WorkerId>::new();
        for job in self.state.jobs.values() {
            ended.extend(job.leased.keys());
            ended.extend(job.seconds.values().filter_map(|second| second.worker));
            ended.extend(job.nodes.values().flatten());
        }
        ended.retain(|worker| !self.live.contains_key(worker));
        for worker in ended {
            mark!("tasks are left to a worker that has ended");
            // However it ended: what it had started is not known any more.
            self.lose_tasks_of(now, worker, WorkerEnd::ConnectionLost, false, effects);
        }
    }

    fn lose_tasks_of(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        end: WorkerEnd,
        has_said_so: bool,
        effects: &mut Vec<Effect>,
    ) {
        let with_seconds = self.state.jobs.iter().filter(|(_, job)| !job.seconds.is_empty());
        let with_seconds: Vec<(JobId, IdSet)> =
            with_seconds.map(|(id, job)| (*id, job.seconds_on(worker))).collect();
        let cause = if end.is_crash() { RestartCause::Crash } else { RestartCause::Left };
        for (job, ids) in with_seconds {
            self.drop_seconds_on(now, worker, job, &ids, AttemptEnd::of(&cause), effects);
        }
        let leased = self.state.jobs.iter().filter_map(|(id, job)| {
            let mut ids = job.parts_needed_on(worker);
            ids.union_with(job.leased.get(&worker).unwrap_or(&IdSet::new()));
            (!ids.is_empty()).then_some((*id, ids))
        });
        let leased: Vec<(JobId, IdSet)> = leased.collect();
        for (job, ids) in leased {
            let running: IdSet =
                self.running.of_job(job).keys().copied().filter(|task| ids.contains(*task)).collect();
            let ran = ids.intersection(&running);
            // One that says that it leaves has said before what it had started. Of one that vanished, as of a part of a
            // task on several nodes, it is not known.
            let leads = self.leased_to(worker, job, &ids.difference(&running));
            let unstarted = if has_said_so { leads } else { IdSet::new() };
            self.restart(now, job, &unstarted, RestartCause::Left, effects);
            let unknown = ids.difference(&running).difference(&unstarted);
            self.lose_running(now, worker, job, &unknown, (RestartCause::Left, Ran::Perhaps), effects);
            self.lose_running(now, worker, job, &ran, (cause.clone(), Ran::Surely), effects);
        }
    }

    /// Tasks ran on a worker that is gone or ended them, or may have: they run again, or fail when their limit is
    /// reached, or when they must never run twice.
    pub(super) fn lose_running(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        id: JobId,
        ids: &IdSet,
        (cause, has_run): (RestartCause, Ran),
        effects: &mut Vec<Effect>,
    ) {
        if ids.is_empty() {
            return;
        }
        let mut again = IdSet::new();
        let ids = &self.speculated_go_on(now, id, ids, AttemptEnd::of(&cause), effects);
        for (submit, ids) in self.state.jobs[&id].by_submit(ids) {
            let limit = self.state.jobs[&id].submits[submit as usize].task.crash_limit;
            let may_fail = match limit {
                CrashLimit::NeverRestart => true,
                CrashLimit::Times(_) => cause == RestartCause::Crash,
                CrashLimit::Unlimited => false,
            };
            if !may_fail {
                again.union_with(&ids);
                continue;
            }
            for task in ids.iter() {
                let job = &self.state.jobs[&id];
                // A failure before may have ended the rest of the job.
                if job.state_of(task).is_none_or(hq_model::TaskState::is_terminal) {
                    mark!("a failure has ended what else is lost");
                    continue;
                }
                let crashes = job.crashes.get(&task).copied().unwrap_or(0) + 1;
                let run = self.running.of(id, task);
                let error = match limit {
                    CrashLimit::NeverRestart => {
                        let is_sure = run.is_some() || has_run == Ran::Surely;
                        never_again(&self.named(worker), self.how_lost(now, worker), is_sure)
                    }
                    // Tools know how it begins.
                    CrashLimit::Times(limit) if crashes >= limit => format!(
                        "Task was running on a worker that was lost; the task has occurred {crashes} times in \
                         this situation and limit was reached. The last one was {}: {}.",
                        self.named(worker),
                        self.how_lost(now, worker).words()
                    ),
                    CrashLimit::Times(_) | CrashLimit::Unlimited => {
                        again.insert(task);
                        continue;
                    }
                };
                let kind =
                    if cause == RestartCause::Crash { FailureKind::Crashes } else { FailureKind::Lost };
                let failure = Failure {
                    task,
                    instance: job.instance_of(task),
                    worker: Some(worker),
                    kind,
                    error,
                    started: run.map(|run| run.since),
                    usage: Usage {
                        wall_us: run.map_or(0, |run| now.0.saturating_sub(run.since.0)),
                        ..Usage::default()
                    },
                    nodes: Vec::new(),
                    result: Vec::new(),
                    variant: run.and_then(|run| run.variant),
                };
                self.fail(now, id, failure, effects);
            }
        }
        again.subtract(&self.lose_to_time(now, worker, id, &again.clone(), effects));
        // So may the last one.
        let alive = self.state.jobs[&id].alive();
        self.restart(now, id, &again.intersection(&alive), cause, effects);
    }

    // How a worker ends, as far as that is known before it has left.
    fn how_lost(&self, now: Timestamp, worker: WorkerId) -> HowLost {
        let Some(live) = self.live.get(&worker) else {
            let end = self.state.workers.get(&worker).and_then(|state| state.ended);
            return end.map_or(HowLost::Away, |(_, end)| HowLost::Ended(end));
        };
        if let Some(end) = live.end {
            return HowLost::Ended(end);
        }
        if live.is_draining || self.is_stopping() {
            let is_over = live.life.is_some_and(|life| life.ends_at() <= now);
            return HowLost::Ended(match () {
                () if self.is_stopping() => WorkerEnd::Stopped,
                () if is_over => WorkerEnd::TimeLimit,
                () => WorkerEnd::Interrupted,
            });
        }
        if live.connection.is_some() { HowLost::Without } else { HowLost::Away }
    }

    // A worker for people.
    fn named(&self, worker: WorkerId) -> String {
        match self.state.workers.get(&worker) {
            Some(state) => format!("worker {worker} ({})", state.config.hostname),
            None => format!("worker {worker}"),
        }
    }

    /// Tasks will run again as their next instance.
    pub(super) fn restart(
        &mut self,
        now: Timestamp,
        id: JobId,
        ids: &IdSet,
        cause: RestartCause,
        effects: &mut Vec<Effect>,
    ) {
        let end = AttemptEnd::of(&cause);
        let ids = &self.speculated_go_on(now, id, ids, end, effects);
        self.note_running(now, id, ids, end, effects);
        self.spend_on_lost(now, id, ids, effects);
        self.end_running(id, ids);
        let parts = self.state.jobs[&id].by_last_instance(ids);
        for (instance, ids) in parts {
            let instance = Instance(instance.0 + 1);
            let record = Record::Restarted { job: id, ids: ids.clone(), instance, cause: cause.clone() };
            self.record(now, record, effects);
            match cause {
                // Ready once their delay is over, or a worker may come that lives longer.
                RestartCause::Retry { .. }
                | RestartCause::Unfetched { .. }
                | RestartCause::TimeOver { waits: true, .. } => {}
                RestartCause::Left | RestartCause::Crash | RestartCause::TimeOver { waits: false, .. } => {
                    self.make_ready(id, &ids);
                }
            }
        }
    }
}

/// How a task was lost with a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HowLost {
    /// The worker has ended, or ends.
    Ended(WorkerEnd),
    /// It has no connection, and may come back.
    Away,
    /// It is there, and does not have the task.
    Without,
}

impl HowLost {
    // What became of the worker.
    fn words(self) -> &'static str {
        match self {
            HowLost::Ended(WorkerEnd::ConnectionLost) => {
                "its connection was lost, and it did not come back in time"
            }
            HowLost::Ended(WorkerEnd::HeartbeatLost) => "it was silent for too long",
            HowLost::Ended(WorkerEnd::Stopped) => "it was stopped",
            HowLost::Ended(WorkerEnd::IdleTimeout) => "it left",
            HowLost::Ended(WorkerEnd::TimeLimit) => "it came to its time limit",
            HowLost::Ended(WorkerEnd::Interrupted) => "it was asked to end",
            HowLost::Ended(WorkerEnd::LauncherLost) => "it lost its launcher",
            HowLost::Away => "its connection was lost",
            HowLost::Without => "it does not have the task any more",
        }
    }
}

// Why a task fails that must not run again. Tools know how the text begins.
fn never_again(worker: &str, how: HowLost, is_sure: bool) -> String {
    let words = how.words();
    let was = if is_sure { "was" } else { "may have been" };
    format!("Task {was} running on a lost worker while never restart flag was set. It was {worker}: {words}.")
}
