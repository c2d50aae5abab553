//! Pages of the list of tasks.
//!
//! Tasks that differ in little are told together, and a page ends where it would become long. So neither the number of
//! tasks nor what became of them makes one request long to answer: a page looks at so many intervals of each state, and
//! at so many tasks that have something of their own.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use hq_model::selector::Selector;
use hq_model::{IdSet, Instance, JobId, TaskId, TaskRef, TaskSpec, TaskState, Timestamp, Usage, WorkerId};

use super::job::Job;
use super::last_moments::too_late;
use super::machine::{Answer, Server};
use super::requests::shown_state;
use crate::attempt::PastAttempt;
use crate::client_messages::{AlikeTasks, ClientResponse, RequestError, TaskInfo};
use crate::limits::{
    TASK_PAGE_BYTES, TASK_PAGE_MAX, TASK_PAGE_MEASURED, TASK_PAGE_RANGES, TASK_PAGE_SINGLE,
    TASKS_ON_WORKER_SCANNED,
};
use crate::measures::MeasuresWriter;
use crate::record::{Failure, FailureKind};

/// What a job that is looked at, a group and a task told alone cost of [`TASK_PAGE_BYTES`] beside their texts.
const ITEM_BYTES: usize = 96;
/// What the measures of a task cost.
const MEASURED_BYTES: usize = 16;

/// Which tasks of the selected jobs are listed, and how.
pub(super) struct TaskQuery<'a> {
    /// Only these; all when there are none.
    pub(super) tasks: Option<&'a IdSet>,
    /// Only those in one of these states; all when empty.
    pub(super) states: &'a [TaskState],
    /// Only those after this one.
    pub(super) after: Option<TaskRef>,
    /// At most so many one by one.
    pub(super) limit: u32,
    /// Some may be told together.
    pub(super) grouped: bool,
    /// With entries, also where no path depends on them.
    pub(super) with_entries: bool,
    /// What goes into a page.
    pub(super) bounds: Bounds,
    /// When it is asked.
    pub(super) now: Timestamp,
}

/// What goes into a page. Tests make it small.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Intervals that are looked at of one state.
    pub(super) ranges: usize,
    /// Tasks of one state with times of their own.
    pub(super) measured: usize,
    /// Tasks of one state that have nothing in common with others, and ranges of submits.
    pub(super) single: usize,
    /// About how many bytes.
    pub(super) bytes: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            ranges: TASK_PAGE_RANGES,
            measured: TASK_PAGE_MEASURED,
            single: TASK_PAGE_SINGLE,
            bytes: TASK_PAGE_BYTES,
        }
    }
}

// What a page has so far.
#[derive(Default)]
struct Page {
    tasks: Vec<(JobId, TaskInfo)>,
    groups: Vec<AlikeTasks>,
    bytes: usize,
}

// What tasks have in common that are told together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Common<'a> {
    state: TaskState,
    submit: u32,
    instance: Instance,
    crashes: u32,
    worker: Option<WorkerId>,
    error: Option<&'a str>,
    failure: Option<FailureKind>,
    too_late: Option<Timestamp>,
}

// Those that have it: by intervals, or each with its measures.
#[derive(Default)]
struct Alike {
    ranges: Vec<RangeInclusive<u32>>,
    measured: Vec<(TaskId, Timestamp, Usage)>,
}

// The tasks of a job that a page may hold, by state. Up to `last` it is all; without one there are no more.
struct Listed<'a> {
    id: JobId,
    job: &'a Job,
    parts: Vec<(TaskState, IdSet)>,
    last: Option<TaskId>,
}

// The part of a page about one job.
struct Gathering<'a> {
    server: &'a Server,
    id: JobId,
    job: &'a Job,
    alike: BTreeMap<Common<'a>, Alike>,
    singles: IdSet,
    with_entries: bool,
    bounds: Bounds,
    // Up to here it is all; what lies behind is for the next page.
    last: TaskId,
}

impl Server {
    /// The next page of the tasks of these jobs.
    pub(super) fn list_tasks(&self, jobs: &Selector, query: &TaskQuery<'_>) -> Answer {
        let mut page = Page::default();
        let mut jobs = self.select_jobs(jobs)?.into_iter().peekable();
        while let Some(id) = jobs.next() {
            let first = match query.after {
                Some(after) if id < after.job => continue,
                Some(after) if id == after.job => match after.task.0.checked_add(1) {
                    Some(first) => TaskId(first),
                    None => continue,
                },
                _ => TaskId(0),
            };
            let job = &self.state.jobs[&id];
            let (parts, last) = self.parts(id, job, query, first);
            let listed = Listed { id, job, parts, last };
            let last = if query.grouped {
                self.tell_together(listed, query, &mut page)
            } else {
                self.tell_one_by_one(listed, query, &mut page)
            };
            page.bytes += ITEM_BYTES;
            let is_full = page.bytes >= query.bounds.bytes
                || !query.grouped && page.tasks.len() >= singles_max(query.limit);
            let is_cut = is_full && jobs.peek().is_some();
            if let Some(last) = last.or(is_cut.then_some(TaskId(u32::MAX))) {
                let next = Some(TaskRef::new(id, last));
                return Ok(ClientResponse::Tasks {
                    tasks: page.tasks,
                    groups: page.groups,
                    next,
                    now: Some(query.now),
                });
            }
        }
        Ok(ClientResponse::Tasks { tasks: page.tasks, groups: page.groups, next: None, now: Some(query.now) })
    }

    /// Tasks that are on a worker now.
    pub(super) fn list_tasks_on(&self, now: Timestamp, worker: WorkerId, limit: u32) -> Answer {
        if !self.state.workers.contains_key(&worker) {
            return Err(RequestError::NoWorker(worker));
        }
        let mut page = Page::default();
        let mut room = singles_max(limit) as u64;
        let mut next = None;
        let held = || self.live.get(&worker).into_iter().flat_map(|live| live.held());
        for is_running in [true, false] {
            for (template, held) in held() {
                let runs = self.running.of_job(template.job);
                let has_begun = |task: &TaskId| runs.get(task).is_some_and(|run| run.worker == worker);
                let looked_at = held.ids.iter().take(TASKS_ON_WORKER_SCANNED);
                let mut those = looked_at.filter(|task| has_begun(task) == is_running);
                let ids: IdSet = those.by_ref().take(room as usize).collect();
                room -= ids.len();
                let cut = self.describe_on(now, template.job, &ids, &mut page);
                if next.is_none() {
                    next = cut.or_else(|| those.next()).map(|task| TaskRef::new(template.job, task));
                }
            }
        }
        Ok(ClientResponse::Tasks { tasks: page.tasks, groups: page.groups, next, now: Some(now) })
    }

    fn describe_on(&self, now: Timestamp, id: JobId, ids: &IdSet, page: &mut Page) -> Option<TaskId> {
        let job = self.state.jobs.get(&id).filter(|_| !ids.is_empty())?;
        let query = TaskQuery {
            tasks: Some(ids),
            states: &[],
            after: None,
            limit: 0,
            grouped: false,
            with_entries: false,
            bounds: Bounds::default(),
            now,
        };
        self.describe(id, job, ids, &query, page)
    }

    // Tells tasks of a job, each with all about it; the last one when there are more.
    fn tell_one_by_one(&self, listed: Listed<'_>, query: &TaskQuery<'_>, page: &mut Page) -> Option<TaskId> {
        let Listed { id, job, parts, last } = listed;
        let mut rest: IdSet = parts.iter().flat_map(|(_, ids)| ids.ranges()).collect();
        let ids = rest.take_first((singles_max(query.limit) - page.tasks.len()) as u64);
        let cut = self.describe(id, job, &ids, query, page);
        cut.or(if rest.is_empty() { last } else { ids.last() })
    }

    // Tells tasks of a job, those that differ in little together; the last one when there are more.
    fn tell_together(&self, listed: Listed<'_>, query: &TaskQuery<'_>, page: &mut Page) -> Option<TaskId> {
        let Listed { id, job, parts, last } = listed;
        let mut gathering = Gathering {
            server: self,
            id,
            job,
            alike: BTreeMap::new(),
            singles: IdSet::new(),
            with_entries: query.with_entries,
            bounds: query.bounds,
            last: last.unwrap_or(TaskId(u32::MAX)),
        };
        for (state, ids) in parts {
            for (submit, ids) in job.by_submit(&ids) {
                gathering.add(state, submit, ids);
            }
        }
        gathering.tell(query, page)
    }

    // The listed tasks of a job from `first` on by state, and the last one up to which that is all.
    fn parts(
        &self,
        id: JobId,
        job: &Job,
        query: &TaskQuery<'_>,
        first: TaskId,
    ) -> (Vec<(TaskState, IdSet)>, Option<TaskId>) {
        let of = query.tasks.unwrap_or(&job.ids);
        let is_listed = |state| query.states.is_empty() || query.states.contains(&state);
        let mut ends: Vec<TaskId> = job.end_of_submits(first, query.bounds.single).into_iter().collect();
        let mut parts = Vec::new();
        let mut find = |set: &IdSet| {
            let (found, last) = set.common_from(of, first, query.bounds.ranges);
            ends.extend(last);
            found
        };
        if is_listed(TaskState::Waiting) || is_listed(TaskState::Running) {
            let runs = self.running.of_job(id).range(first..);
            let mut runs = runs.map(|(task, _)| *task).filter(|task| of.contains(*task));
            let running: IdSet = runs.by_ref().take(query.bounds.measured).collect();
            let alive: IdSet = [&job.queued]
                .into_iter()
                .chain(job.leased.values())
                .flat_map(|set| find(set).ranges().collect::<Vec<_>>())
                .collect();
            if runs.next().is_some() {
                ends.extend(running.last());
            }
            if is_listed(TaskState::Waiting) {
                parts.push((TaskState::Waiting, alive.difference(&running)));
            }
            if is_listed(TaskState::Running) {
                parts.push((TaskState::Running, running));
            }
        }
        for (state, set) in [
            (TaskState::Finished, &job.finished),
            (TaskState::Failed, &job.failed),
            (TaskState::Canceled, &job.canceled),
            (TaskState::Aborted, &job.aborted),
        ] {
            if is_listed(state) {
                let (found, last) = set.common_from(of, first, query.bounds.ranges);
                ends.extend(last);
                parts.push((state, found));
            }
        }
        let last = ends.into_iter().min();
        if let Some(behind) = last.and_then(|last| last.0.checked_add(1)) {
            for (_, ids) in &mut parts {
                ids.remove_range(behind, u32::MAX);
            }
        }
        (parts, last)
    }

    // Tells tasks one by one, ascending; the last one when there was no room for more.
    fn describe(
        &self,
        id: JobId,
        job: &Job,
        ids: &IdSet,
        query: &TaskQuery<'_>,
        page: &mut Page,
    ) -> Option<TaskId> {
        let details = self.state.details.find(id, ids);
        let reasons = reasons_by_task(job, ids);
        let running = self.running.of_job(id);
        // Neighbours are mostly of one submit.
        let mut has_entry = (u32::MAX, false);
        for task in ids.iter() {
            let run = running.get(&task);
            let Some(state) = job.state_of(task) else { continue };
            let dependencies = if query.grouped { Vec::new() } else { job.dependencies_of(id, task) };
            let index = job.submit_of(task).unwrap_or(0);
            let submit = job.submits.get(index as usize);
            if has_entry.0 != index {
                has_entry =
                    (index, submit.is_some_and(|submit| tells_entries(&submit.task, query.with_entries)));
            }
            let entry = submit.filter(|_| has_entry.1).and_then(|submit| submit.entry_of(task));
            let mut info = TaskInfo {
                task,
                submit: index,
                state: shown_state(state, run.is_some()),
                instance: job.instance_of(task),
                crashes: job.crashes.get(&task).copied().unwrap_or(0),
                worker: run.map(|run| run.worker),
                started: run.map(|run| run.since),
                ended: None,
                usage: None,
                error: None,
                dependencies,
                key: job.key_of(task).map(|key| String::from_utf8_lossy(key).into_owned()),
                nodes: job.nodes.get(&task).cloned().unwrap_or_default(),
                failure: None,
                entry: entry.map(<[u8]>::to_vec),
                entry_gone: has_entry.1 && submit.is_some_and(|submit| submit.entries_gone.contains(task)),
                load: None,
                too_late: None,
                attempts: Vec::new(),
            };
            if !query.grouped {
                // One that was told of and not ended, before a server was killed, may be the present one.
                let others = self.state.attempts.of(TaskRef::new(id, task));
                let others = others.filter(|attempt| attempt.instance != info.instance);
                info.attempts = others.cloned().collect();
            }
            if let Some(run) = run {
                info.load = self.loads.task(TaskRef { job: id, task }, run.worker).cloned().map(Box::new);
            }
            match state {
                TaskState::Finished => {
                    if let Some(detail) = details.get(&task) {
                        info.worker = Some(detail.worker);
                        info.nodes.clone_from(&detail.nodes);
                        info.started = Some(detail.started);
                        info.ended = Some(Timestamp(detail.started.0.saturating_add(detail.usage.wall_us)));
                        info.usage = Some(detail.usage);
                    }
                }
                TaskState::Failed => {
                    if let Some((at, failure)) = job.failures.get(&task) {
                        info.worker = failure.worker;
                        info.nodes.clone_from(&failure.nodes);
                        info.started = failure.started;
                        info.ended = Some(end_of(*at, failure));
                        info.usage = failure.started.map(|_| failure.usage);
                        info.error = Some(failure.error.clone());
                        info.failure = Some(failure.kind);
                    }
                }
                TaskState::Aborted | TaskState::Canceled => {
                    let late = job.too_late.iter().find(|(ids, _)| ids.contains(task));
                    info.too_late = late.map(|(_, end)| *end);
                    info.error = match (state, info.too_late) {
                        (TaskState::Aborted, _) => reasons.get(&task).map(|reason| (*reason).to_owned()),
                        (_, Some(end)) => Some(too_late(end)),
                        _ => job.cancel_reason.clone(),
                    };
                    // What it used is not known.
                    if let Some((at, attempt)) = job.failures.get(&task) {
                        info.worker = attempt.worker;
                        info.nodes.clone_from(&attempt.nodes);
                        info.started = attempt.started;
                        info.ended = Some(end_of(*at, attempt));
                    }
                }
                TaskState::Waiting | TaskState::Running => {}
            }
            let ranges = info.dependencies.iter().flat_map(|after| &after.tasks).map(IdSet::range_count);
            let texts = [&info.error, &info.key].into_iter().flatten().map(String::len);
            page.bytes += ITEM_BYTES + 8 * ranges.sum::<usize>() + texts.sum::<usize>();
            page.bytes += info.entry.as_ref().map_or(0, Vec::len);
            page.bytes += info.attempts.iter().map(PastAttempt::bytes).sum::<usize>();
            page.tasks.push((id, info));
            if page.bytes >= query.bounds.bytes {
                return ids.last().filter(|last| *last > task).map(|_| task);
            }
        }
        None
    }
}

// When an attempt ended that was reported at this time.
fn end_of(at: Timestamp, attempt: &Failure) -> Timestamp {
    attempt.started.map_or(at, |start| Timestamp(start.0.saturating_add(attempt.usage.wall_us)))
}

impl<'a> Gathering<'a> {
    // Adds tasks of one state and submit.
    fn add(&mut self, state: TaskState, submit: u32, mut ids: IdSet) {
        let of_submit = &self.job.submits[submit as usize];
        let has_ended = matches!(state, TaskState::Finished | TaskState::Failed);
        let had_nodes = has_ended && of_submit.task.requests.iter().any(|request| request.nodes > 0);
        let had_entries = !of_submit.entries.is_empty() || !of_submit.entries_gone.is_empty();
        let has_entries = had_entries && tells_entries(&of_submit.task, self.with_entries);
        if had_nodes || has_entries || !of_submit.keys.is_empty() {
            self.add_singles(ids);
            return;
        }
        let on_nodes = keys_within(&self.job.nodes, &ids, self.bounds.single);
        ids.subtract(&on_nodes);
        self.add_singles(on_nodes);
        let measured = match state {
            TaskState::Finished => self.add_finished(submit, &ids),
            TaskState::Failed => self.add_failed(submit, &ids),
            TaskState::Running => self.add_running(submit, &ids),
            TaskState::Waiting | TaskState::Canceled | TaskState::Aborted => IdSet::new(),
        };
        ids.subtract(&measured);
        let crashed = keys_within(&self.job.crashes, &ids, self.bounds.single);
        ids.subtract(&crashed);
        self.add_singles(crashed);
        if matches!(state, TaskState::Canceled | TaskState::Aborted) {
            let ran = keys_within(&self.job.failures, &ids, self.bounds.single);
            ids.subtract(&ran);
            self.add_singles(ran);
        }
        let error = match state {
            TaskState::Aborted => {
                let with_reasons = self.add_aborted(submit, &ids);
                ids.subtract(&with_reasons);
                None
            }
            TaskState::Canceled => {
                for (late, end) in &self.job.too_late {
                    let late = late.intersection(&ids);
                    ids.subtract(&late);
                    self.add_intervals(state, submit, (None, Some(*end)), &late);
                }
                self.job.cancel_reason.as_deref()
            }
            _ => None,
        };
        self.add_intervals(state, submit, (error, None), &ids);
    }

    // Nothing behind this task is told.
    fn end_at(&mut self, last: Option<TaskId>) {
        self.last = last.map_or(self.last, |last| last.min(self.last));
    }

    fn add_singles(&mut self, mut ids: IdSet) {
        let some = ids.take_first(self.bounds.single as u64);
        if !ids.is_empty() {
            self.end_at(some.last());
        }
        self.singles.union_with(&some);
    }

    fn add_intervals(
        &mut self,
        state: TaskState,
        submit: u32,
        (error, too_late): (Option<&'a str>, Option<Timestamp>),
        ids: &IdSet,
    ) {
        for (instance, ids) in self.job.by_instance(ids) {
            let (worker, failure) = (None, None);
            let common = Common { state, submit, instance, crashes: 0, worker, error, failure, too_late };
            self.alike.entry(common).or_default().ranges.extend(ids.ranges());
        }
    }

    fn add_measured(
        &mut self,
        (state, submit): (TaskState, u32),
        (worker, failure): (Option<WorkerId>, Option<&'a Failure>),
        (task, started, usage): (TaskId, Timestamp, Usage),
    ) {
        let instance = self.job.instance_of(task);
        let crashes = self.job.crashes.get(&task).copied().unwrap_or(0);
        let error = failure.map(|failure| failure.error.as_str());
        let failure = failure.map(|failure| failure.kind);
        let too_late = None;
        let common = Common { state, submit, instance, crashes, worker, error, failure, too_late };
        self.alike.entry(common).or_default().measured.push((task, started, usage));
    }

    // Those of which it is known where and when they ran.
    fn add_finished(&mut self, submit: u32, ids: &IdSet) -> IdSet {
        let mut later = ids.clone();
        let some = later.take_first(self.bounds.measured as u64);
        let details = self.server.state.details.find(self.id, &some);
        if !later.is_empty() {
            self.end_at(some.last());
        }
        for (task, detail) in &details {
            let measures = (*task, detail.started, detail.usage);
            self.add_measured((TaskState::Finished, submit), (Some(detail.worker), None), measures);
        }
        details.into_keys().collect()
    }

    // Those whose failure is kept. One that never started stands alone.
    fn add_failed(&mut self, submit: u32, ids: &IdSet) -> IdSet {
        let mut never_started = IdSet::new();
        let mut started = Vec::new();
        let mut bytes = 0;
        let job = self.job;
        for (task, (_, failure)) in job.failures.range(bounds(ids)).filter(|(task, _)| ids.contains(**task)) {
            let state = TaskState::Failed;
            match failure.started {
                Some(at) => {
                    let common = (failure.worker, Some(failure));
                    self.add_measured((state, submit), common, (*task, at, failure.usage));
                    started.push(*task);
                }
                None => {
                    never_started.insert(*task);
                }
            }
            bytes += MEASURED_BYTES + failure.error.len();
            if bytes >= self.bounds.bytes {
                self.end_at(Some(*task));
                break;
            }
        }
        let mut told: IdSet = started.into_iter().collect();
        told.union_with(&never_started);
        self.add_singles(never_started);
        told
    }

    fn add_running(&mut self, submit: u32, ids: &IdSet) -> IdSet {
        let runs = self.server.running.of_job(self.id).range(bounds(ids));
        let mut running = Vec::new();
        for (task, run) in runs.filter(|(task, _)| ids.contains(**task)) {
            let measures = (*task, run.since, Usage::default());
            self.add_measured((TaskState::Running, submit), (Some(run.worker), None), measures);
            running.push(*task);
        }
        running.into_iter().collect()
    }

    // Those that were given up for a reason.
    fn add_aborted(&mut self, submit: u32, ids: &IdSet) -> IdSet {
        let mut rest = ids.clone();
        let mut found = Vec::new();
        for (with_reason, reason) in &self.job.abort_reasons {
            let ids = with_reason.intersection(&rest);
            if let Some(first) = ids.first() {
                rest.subtract(&ids);
                found.push((first, ids, reason.as_str()));
            }
        }
        found.sort_unstable_by_key(|(first, ..)| *first);
        let mut bytes = 0;
        for (place, (first, ids, reason)) in found.into_iter().enumerate() {
            bytes += ITEM_BYTES + reason.len();
            if bytes >= self.bounds.bytes && place > 0 {
                self.end_at(first.0.checked_sub(1).map(TaskId));
                break;
            }
            self.add_intervals(TaskState::Aborted, submit, (Some(reason), None), &ids);
        }
        ids.difference(&rest)
    }

    // Puts everything into the page; the last task when there are more.
    fn tell(mut self, query: &TaskQuery<'_>, page: &mut Page) -> Option<TaskId> {
        self.cut_singles();
        let cut = self.server.describe(self.id, self.job, &self.singles, query, page);
        self.end_at(cut);
        for (common, mut alike) in self.alike {
            alike.measured.retain(|(task, ..)| *task <= self.last);
            let mut ids: IdSet = alike.ranges.into_iter().collect();
            if let Some(behind) = self.last.0.checked_add(1) {
                ids.remove_range(behind, u32::MAX);
            }
            // What has measures and what has none is not alike.
            for (ids, measured) in
                [(ids, Vec::new()), (alike.measured.iter().map(|(task, ..)| *task).collect(), alike.measured)]
            {
                let Some(first) = ids.first() else { continue };
                let common = common.info(first);
                page.bytes += ITEM_BYTES + 8 * ids.range_count() + MEASURED_BYTES * measured.len();
                page.bytes += common.error.as_ref().map_or(0, String::len);
                let mut writer = MeasuresWriter::new(common.state != TaskState::Running);
                for (_, started, usage) in &measured {
                    writer.push(*started, usage);
                }
                let measures = (!measured.is_empty()).then(|| writer.finish());
                page.groups.push(AlikeTasks { job: self.id, ids, common, measures });
            }
        }
        (self.last < TaskId(u32::MAX)).then_some(self.last)
    }

    fn cut_singles(&mut self) {
        if let Some(behind) = self.last.0.checked_add(1) {
            self.singles.remove_range(behind, u32::MAX);
        }
    }
}

impl Common<'_> {
    fn info(&self, task: TaskId) -> TaskInfo {
        TaskInfo {
            task,
            submit: self.submit,
            state: self.state,
            instance: self.instance,
            crashes: self.crashes,
            worker: self.worker,
            started: None,
            ended: None,
            usage: None,
            error: self.too_late.map(too_late).or(self.error.map(str::to_owned)),
            attempts: Vec::new(),
            dependencies: Vec::new(),
            key: None,
            nodes: Vec::new(),
            failure: self.failure,
            entry: None,
            entry_gone: false,
            load: None,
            too_late: self.too_late,
        }
    }
}

// Payloads of pulled tasks stand in their entries, and are nobody's who looks at tasks.
fn tells_entries(task: &TaskSpec, are_wanted: bool) -> bool {
    task.has_paths_of_entry() || (are_wanted && !task.body.is_pulled())
}

fn singles_max(limit: u32) -> usize {
    limit.clamp(1, TASK_PAGE_MAX) as usize
}

// From the first to the last id; nothing of an empty set.
fn bounds(ids: &IdSet) -> RangeInclusive<TaskId> {
    match (ids.first(), ids.last()) {
        (Some(first), Some(last)) => first..=last,
        _ => TaskId(u32::MAX)..=TaskId(u32::MAX),
    }
}

// Those of `ids` that the map knows; of more than `count`, one more.
fn keys_within<T>(map: &BTreeMap<TaskId, T>, ids: &IdSet, count: usize) -> IdSet {
    let known = map.range(bounds(ids)).map(|(task, _)| *task).filter(|task| ids.contains(*task));
    known.take(count + 1).collect()
}

fn reasons_by_task<'a>(job: &'a Job, ids: &IdSet) -> BTreeMap<TaskId, &'a str> {
    let mut reasons = BTreeMap::new();
    for (with_reason, reason) in &job.abort_reasons {
        for task in with_reason.intersection(ids).iter() {
            reasons.entry(task).or_insert(reason.as_str());
        }
    }
    reasons
}
