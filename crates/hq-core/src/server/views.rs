//! Requests of clients that only look.

use std::collections::BTreeMap;

use hq_model::selector::Selector;
use hq_model::{Entries, IdSet, JobId, JobState, TaskId, TaskRef, TaskState, Timestamp, WorkerId};

use super::ends::before;
use super::job::{Job, SubmitState};
use super::last_moments::why_canceled;
use super::machine::{Answer, Server};
use super::task_pages::{Bounds, TaskQuery};
use crate::cause::JobFailures;
use crate::client_messages::{
    ClientRequest, ClientResponse, JobResults, JobSummary, RequestError, ServerInfo, WorkerFilter, WorkerInfo,
};
use crate::limits::{FAILURES_PAGE_BYTES, JOB_PAGE_BYTES, RESULTS_PAGE_BYTES};

/// What a job costs of an answer beside its causes.
const JOB_BYTES: usize = 64;

impl Server {
    /// Answers a request that changes nothing but what is kept for the next one.
    pub(super) fn view(&mut self, now: Timestamp, body: &ClientRequest) -> Answer {
        match body {
            ClientRequest::ServerInfo => {
                let info = ServerInfo {
                    output_reads: self.reads.count() as u64,
                    load_bytes: self.loads.bytes(),
                    stop_waits: self.stop_waits(),
                    ..self.options.info.clone()
                };
                Ok(ClientResponse::ServerInfo(Box::new(info)))
            }
            ClientRequest::ListJobs { states } => Ok(ClientResponse::JobList(self.list_jobs(now, states))),
            ClientRequest::LatestJobs { states, text, before, limit } => {
                Ok(ClientResponse::JobList(self.latest_jobs((states, text), *before, *limit)))
            }
            ClientRequest::Load { worker, time } => {
                let unknown = worker.filter(|worker| !self.state.workers.contains_key(worker));
                match unknown {
                    Some(worker) => Err(RequestError::NoWorker(worker)),
                    None => Ok(ClientResponse::Load(Box::new(self.loads.history(now, *worker, *time)))),
                }
            }
            ClientRequest::CountJobs => Ok(ClientResponse::JobCounts(self.count_jobs())),
            ClientRequest::JobInfo { jobs, page } => self.job_info(now, jobs, page.as_ref(), JOB_PAGE_BYTES),
            ClientRequest::ListTasks { jobs, tasks, states, after, limit, grouped, with_entries } => {
                let tasks = tasks.as_ref();
                let query = TaskQuery {
                    tasks,
                    states,
                    after: *after,
                    limit: *limit,
                    grouped: *grouped,
                    with_entries: *with_entries,
                    bounds: Bounds::default(),
                    now,
                };
                self.list_tasks(jobs, &query)
            }
            ClientRequest::JobShape { job } => self.job_shape(now, *job),
            ClientRequest::WorkerTasks { worker, limit } => self.list_tasks_on(now, *worker, *limit),
            ClientRequest::JobFailures { jobs, from } => self.failures(jobs, *from, FAILURES_PAGE_BYTES),
            ClientRequest::Results { jobs, tasks, from, with_failed } => {
                self.results(jobs, tasks.as_ref(), *from, *with_failed, RESULTS_PAGE_BYTES)
            }
            ClientRequest::ExplainTask { jobs, task } => self.explain(now, jobs, *task),
            ClientRequest::ExplainJobs { jobs } => self.explain_jobs(now, jobs),
            ClientRequest::TaskIds { jobs, states } => {
                let jobs = self.select_jobs(jobs)?;
                let ids = jobs.into_iter().map(|id| (id, self.tasks_in(id, &self.state.jobs[&id], states)));
                Ok(ClientResponse::TaskIds(ids.collect()))
            }
            ClientRequest::ListWorkers { workers, filter } => {
                let selected = self.select_workers(workers)?;
                let infos = selected.into_iter().map(|id| self.worker_info(id));
                let shown = |info: &WorkerInfo| match filter {
                    WorkerFilter::All => true,
                    WorkerFilter::Running => info.ended.is_none(),
                    WorkerFilter::Offline => info.ended.is_some(),
                };
                Ok(ClientResponse::Workers(infos.filter(shown).collect()))
            }
            other => Err(RequestError::Invalid(format!("This server cannot answer {other:?}."))),
        }
    }

    /// A line of `job list`.
    pub(super) fn summary(&self, id: JobId, job: &Job) -> JobSummary {
        JobSummary {
            job: id,
            name: job.spec.name.clone(),
            is_open: job.is_open,
            counters: job.counters(self.running.count(id)),
            cancel_reason: why_canceled(job),
            unrunnable: 0,
            fed_end: job.fed_end(),
            stalled: self.why_never_ends(id),
        }
    }

    /// Why tasks of these jobs failed: of as many jobs as fit into so many bytes.
    pub(super) fn failures(&self, jobs: &Selector, from: Option<JobId>, page_bytes: usize) -> Answer {
        let (mut told, mut bytes) = (Vec::new(), 0);
        for id in self.select_jobs(jobs)?.into_iter().filter(|id| Some(*id) >= from) {
            if bytes >= page_bytes {
                return Ok(ClientResponse::Failures { jobs: told, next: Some(id) });
            }
            let job = &self.state.jobs[&id];
            let causes = job.causes.iter().map(|cause| (cause.clone(), job.instance_of(cause.first)));
            let causes: Vec<_> = causes.collect();
            let aborted = job.why_aborted();
            bytes += JOB_BYTES + causes.iter().map(|(cause, _)| cause.bytes()).sum::<usize>();
            bytes += aborted.as_ref().map_or(0, |aborted| aborted.reason.len());
            let (tasks, failed) = (job.ids.len(), job.failed.len());
            let first_stderr = self.first_stderr(id, job);
            bytes += first_stderr.len();
            let stopped = self.why_stopped(id, job);
            bytes += stopped.as_ref().map_or(0, String::len);
            told.push(JobFailures { job: id, tasks, failed, causes, aborted, first_stderr, stopped });
        }
        Ok(ClientResponse::Failures { jobs: told, next: None })
    }

    /// What tasks left behind, and which of them have left nothing: as many as fit into so many bytes.
    pub(super) fn results(
        &self,
        jobs: &Selector,
        tasks: Option<&IdSet>,
        from: Option<TaskRef>,
        with_failed: bool,
        page_bytes: usize,
    ) -> Answer {
        let (mut told, mut room) = (Vec::new(), page_bytes);
        let from = from.unwrap_or(TaskRef::new(JobId(0), TaskId(0)));
        for id in self.select_jobs(jobs)?.into_iter().filter(|id| *id >= from.job) {
            let job = &self.state.jobs[&id];
            let mut ids = job.ids.clone();
            if let Some(tasks) = tasks {
                ids = ids.intersection(tasks);
            }
            if id == from.job && from.task.0 > 0 {
                ids.subtract(&IdSet::range(0, from.task.0 - 1));
            }
            let Some(left) = room.checked_sub(JOB_BYTES) else {
                return Ok(ClientResponse::Results {
                    jobs: told,
                    next: ids.first().map(|first| TaskRef::new(id, first)),
                });
            };
            room = left;
            let mut ended = ids.intersection(&job.finished);
            if with_failed {
                ended.union_with(&ids.intersection(&job.failed));
            }
            let (found, results, next) = self.state.results.page(id, &ended, &mut room);
            let results = Entries::new(results).unwrap_or_default();
            if let Some(next) = next {
                ids = ids.intersection(&before(next));
            }
            if !ids.is_empty() {
                let failed = with_results(job, &ids).intersection(&job.failed);
                let dropped = leaving(job, &ids).intersection(&job.finished).difference(&found);
                let mut without = ids;
                [&found, &failed, &dropped].into_iter().for_each(|ids| without.subtract(ids));
                let texts = texts(job, &found);
                told.push(JobResults { job: id, ids: found, results, texts, failed, dropped, without });
            }
            if let Some(next) = next {
                return Ok(ClientResponse::Results { jobs: told, next: Some(TaskRef::new(id, next)) });
            }
        }
        Ok(ClientResponse::Results { jobs: told, next: None })
    }

    fn list_jobs(&self, now: Timestamp, states: &[JobState]) -> Vec<JobSummary> {
        let shown = |id: &JobId, job: &Job| {
            states.is_empty() || {
                // An open job is listed under `opened` whatever its tasks do.
                states.contains(&job.state(self.running.count(*id)))
                    || job.is_open && states.contains(&JobState::Opened)
            }
        };
        let jobs = self.state.jobs.iter().filter(|(id, job)| shown(id, job));
        let mut list: Vec<JobSummary> = jobs.map(|(id, job)| self.summary(*id, job)).collect();
        let ids: Vec<JobId> = list.iter().map(|summary| summary.job).collect();
        let unrunnable = self.unrunnable(now, &ids);
        for summary in &mut list {
            summary.unrunnable = unrunnable.get(&summary.job).copied().unwrap_or_default();
        }
        list
    }

    fn count_jobs(&self) -> Vec<(JobState, u64)> {
        let mut counts: BTreeMap<JobState, u64> = JobState::ALL.into_iter().map(|state| (state, 0)).collect();
        for (id, job) in &self.state.jobs {
            *counts.entry(job.state(self.running.count(*id))).or_default() += 1;
        }
        JobState::ALL.into_iter().map(|state| (state, counts[&state])).collect()
    }

    pub(super) fn tasks_in(&self, id: JobId, job: &Job, states: &[TaskState]) -> IdSet {
        if states.is_empty() {
            return job.ids.clone();
        }
        let running = self.running.ids_of(id);
        let mut ids = IdSet::new();
        for state in states {
            match state {
                TaskState::Waiting => ids.union_with(&job.alive().difference(&running)),
                TaskState::Running => ids.union_with(&running),
                TaskState::Finished => ids.union_with(&job.finished),
                TaskState::Failed => ids.union_with(&job.failed),
                TaskState::Canceled => ids.union_with(&job.canceled),
                TaskState::Aborted => ids.union_with(&job.aborted),
            }
        }
        ids
    }

    fn worker_info(&self, id: WorkerId) -> WorkerInfo {
        let worker = &self.state.workers[&id];
        let live = self.live.get(&id);
        WorkerInfo {
            worker: id,
            config: worker.config.clone(),
            started: worker.joined,
            ended: worker.ended,
            tasks_assigned: live.map_or(0, |live| live.held().values().map(|held| held.ids.len()).sum()),
            tasks_running: self.running.count_on(id),
            last_task: self.last_tasks.of(id),
            is_draining: live.is_some_and(|live| live.is_draining),
            is_stopping: live.is_some_and(|live| live.ends_tasks()),
            away_until: live.filter(|live| live.connection.is_none()).map(|live| live.lost_at),
            trouble: live.and_then(|live| live.trouble.clone()),
            internal_errors: live.map_or(0, |live| live.internal_errors),
            idle_timeout: worker.config.idle_timeout.or(self.options.idle_timeout),
            multi_node: live.and_then(|live| self.multi_node_of(id, live)),
            is_reserved: live.is_some_and(|live| live.reserved.is_some()),
            taken: live.map_or_else(Vec::new, |live| live.taken().collect()),
            sample: self.loads.node_of(id),
            tasks: self.loads.tasks_of(id),
            objects: self.copies.held_by(id),
            spilled: self.copies.spilled_by(id),
        }
    }
}

// Those of some tasks of a job of which results are kept.
fn with_results(job: &Job, ids: &IdSet) -> IdSet {
    of_submits(job, ids, |submit| submit.task.has_results())
}

// Those that leave something behind whenever they finish. Whoever takes tasks may say nothing of them.
fn leaving(job: &Job, ids: &IdSet) -> IdSet {
    of_submits(job, ids, |submit| submit.task.has_results() && !submit.task.body.is_pulled())
}

// Those whose results are words of programs, or of whoever took them, and not of functions.
fn texts(job: &Job, ids: &IdSet) -> IdSet {
    of_submits(job, ids, |submit| submit.task.body.function().is_none())
}

fn of_submits(job: &Job, ids: &IdSet, is_it: impl Fn(&SubmitState) -> bool) -> IdSet {
    let is_it = |submit: u32| job.submits.get(submit as usize).is_some_and(&is_it);
    let parts = job.by_submit(ids).into_iter().filter(|(submit, _)| is_it(*submit));
    parts.fold(IdSet::new(), |mut all, (_, ids)| {
        all.union_with(&ids);
        all
    })
}
