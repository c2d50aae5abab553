//! What workers report of tasks, and what it changes.
//!
//! A report changes a task only if the task is leased to that worker as that instance. Whatever its
//! state, a reported task takes nothing of the worker any more.

use std::collections::BTreeMap;

use hq_model::job::FedEnd;
use hq_model::task::{Retry, RetryOn};
use hq_model::{Entries, IdSet, Instance, JobId, TaskId, TaskRef, Timestamp, Usage, WorkerId, counted};

use super::machine::Server;
use super::workers::Ran;
use super::{Effect, Gate};
use crate::attempt::AttemptEnd;
use crate::limits::{ERROR_TEXT_MAX, PULLED_ROOM_MAX, RETRY_DELAY_MAX};
use crate::mark;
use crate::measures::MeasuresWriter;
use crate::record::{Failure, FailureKind, FinishedSpan, Record, RestartCause};
use crate::worker_messages::{Lends, Report, Started, TemplateId, ToWorker};

impl Server {
    /// Takes in a report.
    pub(super) fn worker_reports(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        report: Report,
        effects: &mut Vec<Effect>,
    ) {
        let Some(live) = self.live.get_mut(&worker) else { return };
        let Some(connection) = live.connection else { return };
        // It was told so by a server before this one, or decided it by itself.
        let begins_to_leave = report.is_leaving && !live.is_draining;
        live.is_draining |= report.is_leaving;
        live.lets_end = report.is_draining;
        if begins_to_leave {
            mark!("a worker that holds tasks says that it leaves", !live.held().is_empty());
            mark!("a worker was told to leave by a server before this one", live.reconcile_at.is_some());
            self.copies.doubt_all_on(worker);
        }
        let number = report.number;
        mark!("a report of before the hello comes", live.reconcile_at.is_some_and(|last| number <= last));
        // A repeated report was taken in before; it only wants to hear so again.
        if number > live.last_report {
            live.last_report = number;
            let short = |mut reason: String| {
                cut(&mut reason, ERROR_TEXT_MAX);
                reason
            };
            live.trouble = report.trouble.map(short);
            live.output_waits = report.output_waits.map(short);
            live.internal_errors = report.internal_errors;
            self.changes.of_worker(worker);
            if let Some(room) = report.room.filter(|_| live.is_relay) {
                live.wants(room.min(PULLED_ROOM_MAX));
                self.weighs.insert(worker, number);
            }
            for words in report.words {
                self.pass_words(now, worker, words, effects);
            }
            self.hear_of_ended(now, worker, &report.started, effects);
            let mut news = report.objects.unwrap_or_default();
            self.objects_reported(now, worker, &mut news, effects);
            for span in report.finished {
                self.tasks_finished(now, worker, span, effects);
            }
            if self.followers.any() {
                // What else is said may be of those that could start because of that.
                self.resolve_dependencies(now, effects);
            }
            for (job, failure) in report.failed {
                self.task_failed(now, worker, job, failure, effects);
            }
            for (job, ids) in report.returned {
                let ids = self.not_held_again(worker, job, ids);
                let leased = self.leased_to(worker, job, &ids);
                if let Some(live) = self.live.get_mut(&worker) {
                    live.gives_back(job, &ids);
                }
                self.release(worker, job, &ids);
                self.drop_seconds_on(now, worker, job, &ids, None, effects);
                let leased = self.lose_parts(now, worker, job, &ids, leased, effects);
                let leased = self.speculated_go_on_or_restart(now, job, leased, effects);
                if !leased.is_empty() {
                    self.end_running(job, &leased);
                    self.record(now, Record::Returned { worker, job, ids: leased.clone() }, effects);
                    self.make_ready(job, &leased);
                }
            }
            for (job, ids) in report.canceled {
                // Leased ones were not canceled by us: the worker gave them up by itself.
                let ids = self.not_held_again(worker, job, ids);
                self.tasks_lost(now, worker, job, &ids, Ran::Perhaps, effects);
            }
            for (job, ids) in report.interrupted {
                let ids = self.not_held_again(worker, job, ids);
                self.tasks_lost(now, worker, job, &ids, Ran::Surely, effects);
            }
            for (job, ids) in report.expired {
                let ids = self.not_held_again(worker, job, ids);
                let leased = self.leased_to(worker, job, &ids);
                self.release(worker, job, &ids);
                self.lose_running(now, worker, job, &leased, (RestartCause::Crash, Ran::Surely), effects);
            }
            self.tasks_unfetched(now, worker, news.unfetched, effects);
            for started in report.started {
                self.task_started(now, worker, started);
            }
            for lends in report.lends {
                self.call_lends(now, worker, lends);
            }
            self.presume_starts(now, worker);
            self.reconcile(now, worker, effects);
            self.end_feeders_on(worker, effects);
        }
        effects.push(Effect::ToWorker {
            connection,
            message: ToWorker::Saved { report: number },
            gate: Gate::Synced,
        });
    }

    pub(super) fn leased_to(&self, worker: WorkerId, job: JobId, ids: &IdSet) -> IdSet {
        let leased = self.state.jobs.get(&job).and_then(|job| job.leased.get(&worker));
        leased.map_or_else(IdSet::new, |leased| leased.intersection(ids))
    }

    // Reports that a returned worker sends again are older than its hello: what it says to hold was
    // handed to it after they were made.
    fn not_held_again(&self, worker: WorkerId, job: JobId, mut ids: IdSet) -> IdSet {
        if let Some(live) = self.live.get(&worker).filter(|live| live.reconcile_at.is_some()) {
            for (_, held) in live.held().range(super::requests::templates_of(job)) {
                ids.subtract(&held.ids);
            }
        }
        ids
    }

    // A worker ended these as that instance: it has none of them any more, but for those that were
    // handed to it as another one. Returns those whose attempt this was.
    pub(super) fn attempt_ended(
        &mut self,
        worker: WorkerId,
        id: JobId,
        ids: &IdSet,
        instance: Instance,
    ) -> IdSet {
        let ids = self.not_held_again(worker, id, ids.clone());
        let leased = self.leased_to(worker, id, &ids);
        let valid = match self.state.jobs.get(&id) {
            Some(job) => job.attempts_on(worker, &ids, instance),
            None => IdSet::new(),
        };
        let mut other = leased;
        other.union_with(&self.seconds_on(worker, id, &ids));
        other.subtract(&valid);
        self.release(worker, id, &ids.difference(&other));
        valid
    }

    fn tasks_finished(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        span: FinishedSpan,
        effects: &mut Vec<Effect>,
    ) {
        let id = span.job;
        self.learn_wall(worker, id, &span.ids, span.measures.count(), span.measures.total().wall_us);
        if let Some(live) = self.live.get_mut(&worker) {
            live.last_finished = Some(now);
        }
        self.learn_siblings(&span);
        let late = self.ended_unheard(worker, id, &span.ids, span.instance);
        if !late.is_empty() {
            let measured = span.ids.iter().zip(span.measures.iter()).filter(|(task, _)| late.contains(*task));
            let attempts = measured.map(|(task, (started, usage))| Failure {
                started: Some(started),
                usage,
                variant: span.variant,
                ..ended_early(worker, task, span.instance)
            });
            self.note_ended_early(now, id, attempts.collect(), effects);
        }
        let valid = self.attempt_ended(worker, id, &span.ids, span.instance);
        let Some(last) = valid.last() else { return };
        let span = if valid.len() == span.ids.len() { span } else { part_of(&span, valid) };
        // The start of a short one is told with its end. They started within moments: nothing is unpacked for it.
        let last = TaskRef::new(id, last);
        let seen = self.within_sight(now, worker, last, span.measures.base());
        self.last_tasks.started(worker, last, seen);
        let Some(span) = self.without_returned_calls(now, worker, span, effects) else { return };
        self.note_superseded(now, worker, id, &span.ids, effects);
        self.end_other_attempts(Some(worker), id, &span.ids, effects);
        self.end_running(id, &span.ids);
        self.check_left(now, &span, effects);
        self.record(now, Record::Finished { worker, span }, effects);
        self.forget_if_over(id);
    }

    // Tasks that were canceled or given up before anybody knew that they ran there, as an attempt that this worker has.
    fn ended_unheard(&self, worker: WorkerId, id: JobId, ids: &IdSet, instance: Instance) -> IdSet {
        let mut unheard = IdSet::new();
        let Some(job) = self.state.jobs.get(&id) else { return unheard };
        if job.canceled.is_empty() && job.aborted.is_empty() {
            return unheard;
        }
        let Some(live) = self.live.get(&worker) else { return unheard };
        for (_, held) in live.held().range(super::requests::templates_of(id)) {
            let here = held.ids.intersection(ids);
            unheard.union_with(&here.intersection(&job.canceled));
            unheard.union_with(&here.intersection(&job.aborted));
        }
        let unheard = job.with_instance(&unheard, instance);
        unheard.iter().filter(|task| !job.failures.contains_key(task)).collect()
    }

    // Those among starts whose tasks were canceled or given up before anybody knew that they ran: that they did is kept.
    fn hear_of_ended(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        starts: &[Started],
        effects: &mut Vec<Effect>,
    ) {
        let mut ended: BTreeMap<JobId, Vec<Failure>> = BTreeMap::new();
        for start in starts {
            if self.ended_unheard(worker, start.job, &IdSet::single(start.task), start.instance).is_empty() {
                continue;
            }
            let since = self.within_sight(now, worker, TaskRef::new(start.job, start.task), start.at);
            let usage = Usage { wall_us: now.since(since).as_micros() as u64, ..Usage::default() };
            let attempt = ended_early(worker, start.task, start.instance);
            let attempt = Failure { started: Some(since), usage, variant: start.variant, ..attempt };
            ended.entry(start.job).or_default().push(attempt);
        }
        for (job, attempts) in ended {
            self.note_ended_early(now, job, attempts, effects);
        }
    }

    fn learn_wall(&mut self, worker: WorkerId, job: JobId, ids: &IdSet, count: u32, wall_us: u64) {
        let submit = ids.first().and_then(|task| self.state.jobs.get(&job)?.submit_of(task));
        if let (Some(submit), Some(live)) = (submit, self.live.get_mut(&worker)) {
            live.learn_wall(TemplateId { job, submit }, count, wall_us);
        }
    }

    fn task_failed(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        id: JobId,
        mut failure: Failure,
        effects: &mut Vec<Effect>,
    ) {
        let ids = IdSet::single(failure.task);
        self.learn_wall(worker, id, &ids, 1, failure.usage.wall_us);
        if failure.started.is_some() && !self.ended_unheard(worker, id, &ids, failure.instance).is_empty() {
            let Failure { task, instance, started, usage, variant, .. } = failure;
            let attempt = Failure { started, usage, variant, ..ended_early(worker, task, instance) };
            self.note_ended_early(now, id, vec![attempt], effects);
        }
        if self.attempt_ended(worker, id, &ids, failure.instance).is_empty() {
            return;
        }
        if self.has_second(id, failure.task) {
            // The other attempt may still finish.
            failure.worker = Some(worker);
            self.note_failed(now, id, &failure, effects);
            return self.drop_attempt(now, id, failure.task, failure.instance, None, effects);
        }
        if let Some(missing) = self.missing_node(id, failure.task) {
            // Most likely that is why.
            let loss = (RestartCause::Crash, Ran::Surely);
            return self.lose_running(now, missing, id, &ids, loss, effects);
        }
        let job = &self.state.jobs[&id];
        failure.worker = Some(worker);
        cut(&mut failure.error, ERROR_TEXT_MAX);
        let retries = job.retries.get(&failure.task).copied().unwrap_or(0);
        let submit = job.submit_of(failure.task).unwrap_or(0) as usize;
        let delay = retry_delay(&job.submits[submit].task.retry, retries, failure.kind);
        let template = TemplateId { job: id, submit: submit as u32 };
        // What would start too late is not tried again: it has failed.
        match delay.filter(|delay| self.may_start(template, now.after(*delay))) {
            Some(delay) => {
                let not_before = now.after(delay);
                self.note_failed(now, id, &failure, effects);
                // What it used is known, also where nothing was heard of it before: the server may have been away.
                self.spend_on_ended(now, id, std::slice::from_ref(&failure), effects);
                self.end_running(id, &ids);
                self.restart(now, id, &ids, RestartCause::Retry { not_before }, effects);
            }
            None => self.fail(now, id, failure, effects),
        }
    }

    /// A task failed for good; perhaps that is one failure too many for its job.
    pub(super) fn fail(
        &mut self,
        now: Timestamp,
        id: JobId,
        mut failure: Failure,
        effects: &mut Vec<Effect>,
    ) {
        let task = IdSet::single(failure.task);
        self.make_unready(id, &task);
        self.end_running(id, &task);
        failure.nodes = self.state.jobs[&id].nodes.get(&failure.task).cloned().unwrap_or_default();
        self.record(now, Record::Failed { job: id, failure }, effects);
        let job = &self.state.jobs[&id];
        let failed = job.failed.len();
        if let Some(limit) = job.exceeded_max_fails() {
            let ids = job.alive();
            let tasks = counted(failed, "task");
            let reason = format!("{tasks} of the job failed, more than the {limit} allowed.");
            if !ids.is_empty() {
                let reason = reason.clone();
                self.end_by(now, Record::Aborted { job: id, ids: ids.clone(), reason }, &ids, effects);
            }
            self.stop_feeding(now, id, (FedEnd::Aborted, &reason), effects);
        }
        self.forget_if_over(id);
    }

    fn tasks_lost(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        job: JobId,
        ids: &IdSet,
        has_run: Ran,
        effects: &mut Vec<Effect>,
    ) {
        let mut leased = self.leased_to(worker, job, ids);
        leased.union_with(&self.parts_lost_among(worker, job, ids));
        self.release(worker, job, ids);
        self.drop_seconds_on(now, worker, job, ids, Some(AttemptEnd::WorkerLeft), effects);
        if !leased.is_empty() {
            self.lose_running(now, worker, job, &leased, (RestartCause::Left, has_run), effects);
        }
    }

    // A call has lent its CPUs to those that it waits for, or has some again.
    fn call_lends(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        Lends { job: id, task, instance, is_lent }: Lends,
    ) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        let Some(submit) = job.submit_of(task) else { return };
        let is_current = !job.attempts_on(worker, &IdSet::single(task), instance).is_empty();
        if let Some(live) = self.live.get_mut(&worker).filter(|_| is_current) {
            live.lends(TemplateId { job: id, submit }, task, is_lent);
            if live.capacity().is_overdrawn() {
                // What was to have its CPUs waits.
                self.settle_overdraft(now, worker);
            }
        }
    }

    fn task_started(&mut self, now: Timestamp, worker: WorkerId, started: Started) {
        let Started { job: id, task, instance, at, variant } = started;
        let Some(job) = self.state.jobs.get(&id) else { return };
        let submit = job.submit_of(task);
        if !job.attempts_on(worker, &IdSet::single(task), instance).is_empty() {
            self.task_runs(now, worker, TaskRef::new(id, task), (instance, variant), at);
            self.touched.insert(id);
            self.watching.touch();
        }
        let template = submit.map(|submit| TemplateId { job: id, submit });
        let seen = self.within_sight(now, worker, TaskRef::new(id, task), at);
        // One that runs on several nodes runs on all of them.
        let nodes = self.state.jobs.get(&id).and_then(|job| job.nodes.get(&task));
        let others = nodes.into_iter().flatten().filter(|node| **node != worker);
        for worker in [worker].iter().chain(others) {
            self.last_tasks.started(*worker, TaskRef::new(id, task), seen);
        }
        if let (Some(live), Some(template)) = (self.live.get_mut(&worker), template) {
            live.keeps(template, task);
        }
        if let Some(template) = template {
            self.note_start(now, worker, template, task, variant);
        }
    }
}

// An attempt whose task had been ended before anybody knew that it ran.
fn ended_early(worker: WorkerId, task: TaskId, instance: Instance) -> Failure {
    Failure {
        task,
        instance,
        worker: Some(worker),
        kind: FailureKind::EndedEarly,
        error: String::new(),
        started: None,
        usage: Usage::default(),
        nodes: Vec::new(),
        result: Vec::new(),
        variant: None,
    }
}

// Some tasks of a span.
pub(super) fn part_of(span: &FinishedSpan, ids: IdSet) -> FinishedSpan {
    let mut measures = MeasuresWriter::new(span.measures.has_usage());
    for (task, (start, usage)) in span.ids.iter().zip(span.measures.iter()) {
        if ids.contains(task) {
            measures.push(start, &usage);
        }
    }
    let results = span.ids.iter().zip(span.results.iter()).filter(|(task, _)| ids.contains(*task));
    let results = Entries::new(results.map(|(_, result)| result)).unwrap_or_default();
    FinishedSpan { ids, measures: measures.finish(), results, ..*span }
}

// The wait before the next retry; `None` when there is none.
fn retry_delay(retry: &Retry, retries: u32, failure: FailureKind) -> Option<std::time::Duration> {
    if retries >= retry.max {
        return None;
    }
    let RetryOn { codes, signal, timeout } = &retry.on;
    let any = codes.is_empty() && !signal && !timeout;
    let wanted = match failure {
        FailureKind::Exit(code) => codes.contains(&code),
        FailureKind::Signal(_) => *signal,
        FailureKind::Timeout => *timeout,
        FailureKind::Start
        | FailureKind::Puller
        | FailureKind::Crashes
        | FailureKind::Lost
        | FailureKind::Output
        | FailureKind::EndedEarly => false,
    };
    (any || wanted).then(|| retry.delay.saturating_mul(1 << retries.min(20)).min(RETRY_DELAY_MAX))
}

fn cut(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        let end = (0..=bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
}
