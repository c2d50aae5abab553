//! What the tasks of a job wait for, in groups that wait for the same.
//!
//! Cost: submits and request classes of the job, up to a limit times workers; never tasks.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::dependency::Mapping;
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, JobState, TaskId, TaskRef, Timestamp, WorkerId};

use super::super::fleet::Fleet;
use super::super::job::Job;
use super::super::last_moments::why_canceled;
use super::super::machine::{Answer, Server};
use super::super::queue::ClassId;
use super::super::workers::too_long;
use super::verdict::{about, away, leaving};
use super::{NOT_WHOLE, is_with_relay, named};
use crate::client_messages::ClientResponse;
use crate::explanation::{JobExplanation, Reason, ReasonKind, TaskGroup};
use crate::limits::{EXPLAINED_BUSY_MAX, EXPLAINED_GROUPS_MAX, EXPLAINED_WORKERS_MAX};
use crate::record::NEVER;
use crate::worker_messages::TemplateId;

// Why tasks wait for the end of a delay.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Back {
    Failed,
    WithoutObject,
    ByItself,
}

impl Server {
    /// Says what the tasks of jobs wait for.
    pub(in crate::server) fn explain_jobs(&self, now: Timestamp, jobs: &Selector) -> Answer {
        let jobs = self.select_jobs(jobs)?;
        let fleet = self.fleet(now);
        let explain = |id: JobId| self.explain_job(now, &fleet, id);
        Ok(ClientResponse::ExplainedJobs(jobs.into_iter().map(explain).collect()))
    }

    /// Says what the tasks of a job wait for.
    pub(in crate::server) fn explain_job(
        &self,
        now: Timestamp,
        fleet: &Fleet<'_>,
        id: JobId,
    ) -> JobExplanation {
        let job = &self.state.jobs[&id];
        let mut groups = self.with_workers(now, id, job);
        let too_long = self.waiting_for_time(id, &job.queued);
        if let Some(first) = too_long.first().and_then(|first| job.outlasted.get(&first)) {
            let reason = Reason::new(ReasonKind::Unfit, self::too_long(first.times, first.life));
            groups.push(TaskGroup { ids: too_long.clone(), reasons: vec![reason] });
        }
        let is_delayed = |at: &Timestamp| *at > now && *at < NEVER;
        let mut delayed = too_long;
        let back = |task: TaskId| {
            let task = TaskRef::new(id, task);
            match self.copies.why_back(task) {
                _ if job.deferred.contains_key(&task.task) => Back::ByItself,
                Some(_) => Back::WithoutObject,
                None => Back::Failed,
            }
        };
        for why in [Back::Failed, Back::WithoutObject, Back::ByItself] {
            let found = job.delayed.iter().filter(|(task, at)| {
                is_delayed(at) && !self.readiness.is_blocked(TaskRef::new(id, **task)) && back(**task) == why
            });
            let ids: IdSet = found.clone().map(|(task, _)| *task).collect();
            let Some(at) = found.map(|(_, at)| *at).min() else { continue };
            let is_one = ids.len() == 1;
            let first_back = ids.first().and_then(|task| self.copies.why_back(TaskRef::new(id, task)));
            let what = match (why, is_one) {
                (Back::Failed, true) => "it failed and is tried again",
                (Back::Failed, false) => "they failed and are tried again",
                (Back::WithoutObject, true) => first_back.unwrap_or_default(),
                (Back::WithoutObject, false) => {
                    "they take objects that could not be had, and are tried again"
                }
                (Back::ByItself, true) => "it put itself back behind what has ended, and runs again",
                (Back::ByItself, false) => "they put themselves back behind what has ended, and run again",
            };
            let first = if is_one { "" } else { "the first " };
            let text = format!("{what}, {first}in {}", about(at.since(now)));
            let reasons = vec![Reason::new(ReasonKind::Delay, text).until(Some(at))];
            delayed.union_with(&ids);
            groups.push(TaskGroup { ids, reasons });
        }
        let blocked = self.readiness.blocked(id).cloned().unwrap_or_default().difference(&delayed);
        let ready = job.queued.difference(&blocked).difference(&delayed);
        let mut others = 0;
        for (class, ids) in self.by_class(id, job, &ready) {
            if groups.len() < EXPLAINED_GROUPS_MAX {
                let reasons = self.of_class(now, fleet, id, class, &ids);
                groups.push(TaskGroup { ids, reasons });
            } else {
                others += ids.len();
            }
        }
        for (submit, ids) in if blocked.is_empty() { Vec::new() } else { job.by_submit(&blocked) } {
            if groups.len() < EXPLAINED_GROUPS_MAX {
                let reasons = self.of_blocked(now, fleet, id, job, submit, &ids);
                groups.push(TaskGroup { ids, reasons });
            } else {
                others += ids.len();
            }
        }
        for group in groups.iter_mut().filter(|group| !is_running(group)) {
            group.reasons.extend(self.too_late_reason_of(now, id, &group.ids));
        }
        let state = job.state(self.running.count(id));
        let is_fed = job.is_open && job.feed.is_some();
        let fed = is_fed.then(|| Reason::new(ReasonKind::Dependency, format!("it {}", self.why_fed_on(id))));
        let aborted = job.why_aborted().map(|aborted| Reason::new(ReasonKind::Ended, aborted.words(id)));
        let canceled = why_canceled(job).filter(|_| state == JobState::Canceled);
        let canceled = canceled.map(|why| Reason::new(ReasonKind::Ended, why));
        let reasons = fed.into_iter().chain(aborted).chain(canceled).chain(self.why_left(now, id)).collect();
        JobExplanation { job: id, state, reasons, groups, others }
    }

    // Of an open job that is closed unless somebody comes back.
    fn why_left(&self, now: Timestamp, id: JobId) -> Option<Reason> {
        let at = self.lingering.until(id)?;
        let text = format!(
            "nothing of it is left, and no client is there for it: it is closed in {}, unless one comes back",
            about(at.since(now))
        );
        Some(Reason::new(ReasonKind::Delay, text).until(Some(at)))
    }

    // Tasks that workers have.
    fn with_workers(&self, now: Timestamp, id: JobId, job: &Job) -> Vec<TaskGroup> {
        let mut groups = Vec::new();
        let running = self.running.ids_of(id);
        let blocked = self.readiness.blocked(id);
        let is_away = |worker: &WorkerId| self.live.get(worker).is_some_and(|live| live.connection.is_none());
        // Those of workers that are there, and of workers that are away.
        let mut run: BTreeMap<bool, (IdSet, BTreeSet<WorkerId>)> = BTreeMap::new();
        for (task, attempt) in self.running.of_job(id) {
            let (ids, workers) = run.entry(is_away(&attempt.worker)).or_default();
            ids.insert(*task);
            workers.insert(attempt.worker);
        }
        for (are_away, (ids, workers)) in run {
            let text = match (are_away, ids.len() == 1) {
                (false, true) => format!("it runs on {}", workers_named(&workers)),
                (false, false) => format!("they run on {}", workers_named(&workers)),
                (true, is_one) => format!(
                    "{} on {} when {} last heard of",
                    if is_one { "it ran" } else { "they ran" },
                    workers_named(&workers),
                    if workers.len() == 1 { "that was" } else { "those were" },
                ),
            };
            let mut reasons = vec![Reason::new(ReasonKind::Running, text)];
            reasons.extend(self.first_lost(now, &workers).filter(|_| are_away));
            groups.push(TaskGroup { ids, reasons });
        }
        // Those of workers that start them, of workers that take nothing new any more, and of workers that are away.
        let mut handed: BTreeMap<(bool, Option<String>), (IdSet, BTreeSet<WorkerId>)> = BTreeMap::new();
        for (worker, ids) in &job.leased {
            // What is handed out ahead is among those that wait for others.
            let waiting = ids.difference(&running);
            let waiting = blocked.map_or_else(|| waiting.clone(), |blocked| waiting.difference(blocked));
            let is_relay =
                self.live.get(worker).is_some_and(|live| live.is_relay && live.connection.is_some());
            if !waiting.is_empty() && is_relay {
                let reasons = vec![is_with_relay(id, waiting.len()).on(*worker)];
                groups.push(TaskGroup { ids: waiting, reasons });
            } else if !waiting.is_empty() {
                let live = self.live.get(worker).filter(|_| !is_away(worker));
                let why = live.and_then(|live| leaving(now, live));
                let (ids, workers) = handed.entry((is_away(worker), why)).or_default();
                ids.union_with(&waiting);
                workers.insert(*worker);
            }
        }
        for ((are_away, why), (ids, workers)) in handed {
            let is_one = ids.len() == 1;
            let each = if is_one { "it is" } else { "they are" };
            let stays = !are_away && why.is_none();
            let then = match (stays, is_one, workers.len() == 1) {
                (true, true, _) => "and starts there as soon as it fits",
                (true, false, _) => "and start there as soon as they fit",
                (false, true, _) => "and goes elsewhere when that gives it back or leaves",
                (false, false, true) => "and go elsewhere when that gives them back or leaves",
                (false, false, false) => "and go elsewhere when those give them back or leave",
            };
            let text = format!("{each} handed to {} {then}", workers_named(&workers));
            let mut reasons = vec![Reason::new(ReasonKind::HandedOut, text)];
            reasons.extend(why.map(|text| of_each(Reason::new(ReasonKind::Closed, text), &workers)));
            reasons.extend(self.first_lost(now, &workers).filter(|_| are_away));
            groups.push(TaskGroup { ids, reasons });
        }
        groups
    }

    // Until when workers that are away are waited for: of several by the one that counts as lost first.
    fn first_lost(&self, now: Timestamp, workers: &BTreeSet<WorkerId>) -> Option<Reason> {
        let found = workers.iter().filter_map(|worker| away(now, *worker, self.live.get(worker)?));
        found.min_by_key(|reason| reason.until).map(|reason| of_each(reason, workers))
    }

    fn by_class(&self, id: JobId, job: &Job, ready: &IdSet) -> BTreeMap<Option<ClassId>, IdSet> {
        let mut found: BTreeMap<Option<ClassId>, IdSet> = BTreeMap::new();
        for (submit, ids) in if ready.is_empty() { Vec::new() } else { job.by_submit(ready) } {
            let class = self.classes.get(&TemplateId { job: id, submit }).copied();
            found.entry(class).or_default().union_with(&ids);
        }
        found
    }

    fn of_class(
        &self,
        now: Timestamp,
        fleet: &Fleet<'_>,
        id: JobId,
        class: Option<ClassId>,
        ids: &IdSet,
    ) -> Vec<Reason> {
        let mut reasons = self.of_server();
        let job = &self.state.jobs[&id];
        if job.is_draft() {
            reasons.push(Reason::new(ReasonKind::Dependency, NOT_WHOLE));
            return reasons;
        }
        let Some((class, first)) = class.zip(ids.first()) else { return reasons };
        let Some(submit) = job.submit_of(first) else { return reasons };
        let template = TemplateId { job: id, submit };
        let requests = &self.queue.key(class).requests;
        if !fleet.could_run(requests) {
            reasons.extend(self.unfit(now, fleet, template));
            // Some of those that take nothing new could have run it.
            let of_workers = self.of_workers(now, fleet, class, requests);
            reasons.extend(of_workers.filter(|reason| fleet.is_empty() || reason.kind == ReasonKind::Closed));
            return reasons;
        }
        if let Some(spent) = self.budget_reason(id) {
            reasons.push(spent);
            return reasons;
        }
        if requests.iter().any(hq_model::Request::is_pulled) {
            reasons.extend(self.share_reason(class, id));
            reasons.push(self.waits_for_puller(id, requests));
            return reasons;
        }
        reasons.extend(self.share_reason(class, id));
        reasons.extend(self.ahead(fleet, class, TaskRef::new(id, first), template));
        reasons.extend(self.of_queues(now, class));
        reasons.extend(self.of_workers(now, fleet, class, requests));
        reasons
    }

    // Why workers do not run tasks of a class, those with the same reason together.
    fn of_workers(
        &self,
        now: Timestamp,
        fleet: &Fleet<'_>,
        class: ClassId,
        requests: &[hq_model::Request],
    ) -> impl Iterator<Item = Reason> {
        let mut same: BTreeMap<(ReasonKind, String), Vec<Reason>> = BTreeMap::new();
        for (worker, live) in self.live.iter().take(EXPLAINED_WORKERS_MAX) {
            let verdict = self.verdict(
                now,
                *worker,
                live,
                fleet.group_size(self, *worker),
                (Some(class), requests),
                false,
            );
            same.entry((verdict.kind, without_numbers(&verdict.text))).or_default().push(verdict);
        }
        let mut groups: Vec<_> = same.into_iter().map(|((kind, _), verdicts)| (kind, verdicts)).collect();
        groups.sort_by_key(|(kind, verdicts)| (*kind, verdicts[0].worker));
        groups
            .into_iter()
            .filter_map(move |(kind, verdicts)| self.summed_up(now, fleet, kind, verdicts, requests))
    }

    // What is true of several workers, told by one of them: of busy ones by the one that is free first.
    fn summed_up(
        &self,
        now: Timestamp,
        fleet: &Fleet<'_>,
        kind: ReasonKind,
        verdicts: Vec<Reason>,
        requests: &[hq_model::Request],
    ) -> Option<Reason> {
        let count = verdicts.len();
        let full = |reason: &Reason| {
            let worker = reason.worker?;
            let live = self.live.get(&worker)?;
            Some(self.verdict(now, worker, live, fleet.group_size(self, worker), (None, requests), true))
        };
        let told = match kind {
            ReasonKind::Busy => verdicts
                .iter()
                .take(EXPLAINED_BUSY_MAX)
                .filter_map(full)
                .min_by_key(|reason| (reason.until.is_none(), reason.until)),
            _ => verdicts.into_iter().next(),
        }?;
        if count == 1 {
            return Some(told);
        }
        let worker = told.worker.map_or_else(String::new, |worker| format!(", as on worker {worker}"));
        Some(Reason { worker: None, text: format!("on {count} workers{worker}: {}", told.text), ..told })
    }

    fn of_blocked(
        &self,
        now: Timestamp,
        fleet: &Fleet<'_>,
        id: JobId,
        job: &Job,
        submit: u32,
        ids: &IdSet,
    ) -> Vec<Reason> {
        let mut reasons = self.of_server();
        let of = &job.submits[submit as usize];
        if !fleet.is_empty() && !fleet.could_run(&of.task.requests) {
            reasons.extend(self.unfit(now, fleet, TemplateId { job: id, submit }));
        }
        let Some(first) = ids.first() else { return reasons };
        let is_same = of.dependencies.edges.is_empty()
            && of.dependencies.after.iter().all(|after| after.mapping == Mapping::All);
        let of_first = self.dependency_reasons(id, first);
        if ids.len() == 1 {
            reasons.extend(of_first);
            return reasons;
        }
        if is_same {
            let told =
                |reason: Reason| Reason { text: reason.text.replacen("it waits", "they wait", 1), ..reason };
            reasons.extend(of_first.into_iter().map(told));
            return reasons;
        }
        let told = |reason: Reason| {
            let text = reason.text.strip_prefix("it waits").map_or(reason.text.clone(), |rest| {
                format!("the first of them, {}, waits{rest}", TaskRef::new(id, first))
            });
            Reason { text, ..reason }
        };
        reasons.extend(of_first.into_iter().map(told));
        reasons
    }
}

// What is true of each of some workers.
fn of_each(reason: Reason, workers: &BTreeSet<WorkerId>) -> Reason {
    match workers.first() {
        Some(worker) if workers.len() == 1 => reason.on(*worker),
        _ => Reason { worker: None, text: format!("of each of these workers: {}", reason.text), ..reason },
    }
}

fn is_running(group: &TaskGroup) -> bool {
    group.reasons.first().is_some_and(|reason| reason.kind == ReasonKind::Running)
}

// What workers with the same reason have in common, as each tells it with its own amounts and times.
fn without_numbers(text: &str) -> String {
    let what = text.split(": ").next().unwrap_or(text);
    let is_word = |word: &&str| !word.starts_with(|first: char| first.is_ascii_digit());
    what.split(' ').filter(is_word).collect::<Vec<_>>().join(" ")
}

fn workers_named(workers: &BTreeSet<WorkerId>) -> String {
    named("worker", &workers.iter().map(|worker| TaskId(worker.0)).collect())
}
