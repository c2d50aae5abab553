//! Requests of clients that only look.

use std::collections::BTreeMap;

use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, JobState, TaskId, TaskRef, TaskState, Timestamp, WorkerId};

use super::job::Job;
use super::machine::{Answer, Server};
use super::requests::shown_state;
use crate::client_messages::{
    ClientRequest, ClientResponse, JobDetail, JobSummary, RequestError, SubmitInfo, TaskInfo, WorkerFilter,
    WorkerInfo,
};
use crate::limits::TASK_PAGE_MAX;

impl Server {
    /// Answers a request that changes nothing.
    pub(super) fn view(&self, now: Timestamp, body: &ClientRequest) -> Answer {
        match body {
            ClientRequest::ServerInfo => Ok(ClientResponse::ServerInfo(Box::new(self.options.info.clone()))),
            ClientRequest::ListJobs { states } => Ok(ClientResponse::JobList(self.list_jobs(now, states))),
            ClientRequest::CountJobs => Ok(ClientResponse::JobCounts(self.count_jobs())),
            ClientRequest::JobInfo { jobs } => {
                let jobs = self.select_jobs(jobs)?;
                let unrunnable = self.unrunnable(now, &jobs);
                let mut details: Vec<JobDetail> = jobs.into_iter().map(|id| self.job_detail(id)).collect();
                for detail in &mut details {
                    detail.summary.unrunnable =
                        unrunnable.get(&detail.summary.job).copied().unwrap_or_default();
                }
                Ok(ClientResponse::JobDetails(details))
            }
            ClientRequest::ListTasks { jobs, tasks, states, after, limit } => {
                self.list_tasks(jobs, tasks.as_ref(), states, *after, *limit)
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
            counters: job.counters(self.running_count(id)),
            cancel_reason: job.cancel_reason.clone(),
            unrunnable: 0,
        }
    }

    fn list_jobs(&self, now: Timestamp, states: &[JobState]) -> Vec<JobSummary> {
        let shown = |id: &JobId, job: &Job| {
            states.is_empty() || {
                let counters = job.counters(self.running_count(*id));
                // An open job is listed under `opened` whatever its tasks do.
                states.contains(&counters.state(job.is_open))
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
            *counts.entry(job.counters(self.running_count(*id)).state(job.is_open)).or_default() += 1;
        }
        JobState::ALL.into_iter().map(|state| (state, counts[&state])).collect()
    }

    fn job_detail(&self, id: JobId) -> JobDetail {
        let job = &self.state.jobs[&id];
        let submit = |submit: &super::job::SubmitState| SubmitInfo {
            ids: submit.ids.clone(),
            spec: submit.task.clone(),
            submit_dir: submit.submit_dir.clone(),
            submitted: submit.submitted,
        };
        JobDetail {
            summary: self.summary(id, job),
            max_fails: job.spec.max_fails,
            share: job.spec.share,
            submitted: job.submitted,
            ended: job.has_ended().then_some(job.last_end),
            submits: job.submits.iter().map(submit).collect(),
            usage: job.usage,
            workers: job.workers.iter().copied().collect(),
        }
    }

    fn tasks_in(&self, id: JobId, job: &Job, states: &[TaskState]) -> IdSet {
        if states.is_empty() {
            return job.ids.clone();
        }
        let running: IdSet =
            self.running.get(&id).into_iter().flat_map(|tasks| tasks.keys().copied()).collect();
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

    fn list_tasks(
        &self,
        jobs: &Selector,
        tasks: Option<&IdSet>,
        states: &[TaskState],
        after: Option<TaskRef>,
        limit: u32,
    ) -> Answer {
        let mut left = u64::from(limit.clamp(1, TASK_PAGE_MAX));
        let mut page = Vec::new();
        for id in self.select_jobs(jobs)? {
            if after.is_some_and(|after| id < after.job) {
                continue;
            }
            let job = &self.state.jobs[&id];
            if let Some(unknown) = tasks.and_then(|tasks| tasks.difference(&job.ids).first()) {
                return Err(RequestError::NoTask(id, unknown));
            }
            let mut ids = self.tasks_in(id, job, states);
            if let Some(tasks) = tasks {
                ids = ids.intersection(tasks);
            }
            if let Some(after) = after.filter(|after| after.job == id) {
                ids.remove_range(0, after.task.0);
            }
            let mut rest = ids;
            let ids = rest.take_first(left);
            left -= ids.len();
            self.describe(id, job, &ids, &mut page);
            if left == 0 {
                let next = page.last().map(|(job, info): &(JobId, TaskInfo)| TaskRef::new(*job, info.task));
                return Ok(ClientResponse::Tasks { tasks: page, next });
            }
        }
        Ok(ClientResponse::Tasks { tasks: page, next: None })
    }

    fn describe(&self, id: JobId, job: &Job, ids: &IdSet, page: &mut Vec<(JobId, TaskInfo)>) {
        let details = self.state.details.find(id, ids);
        let running = self.running.get(&id);
        for task in ids.iter() {
            let run = running.and_then(|running| running.get(&task));
            let Some(state) = job.state_of(task) else { continue };
            let mut info = TaskInfo {
                task,
                submit: job.submit_of(task).unwrap_or(0),
                state: shown_state(state, run.is_some()),
                instance: job.instance_of(task),
                crashes: job.crashes.get(&task).copied().unwrap_or(0),
                worker: run.map(|run| run.worker),
                started: run.map(|run| run.since),
                ended: None,
                usage: None,
                error: None,
                dependencies: job.dependencies_of(id, task),
                key: job.key_of(task).map(|key| String::from_utf8_lossy(key).into_owned()),
                nodes: job.nodes.get(&task).cloned().unwrap_or_default(),
            };
            match state {
                TaskState::Finished => {
                    if let Some(detail) = details.get(&task) {
                        info.worker = Some(detail.worker);
                        info.started = Some(detail.started);
                        info.ended = Some(Timestamp(detail.started.0.saturating_add(detail.usage.wall_us)));
                        info.usage = Some(detail.usage);
                    }
                }
                TaskState::Failed => {
                    if let Some((at, failure)) = job.failures.get(&task) {
                        let wall = failure.usage.wall_us;
                        info.worker = failure.worker;
                        info.started = failure.started;
                        info.ended = Some(
                            failure.started.map_or(*at, |start| Timestamp(start.0.saturating_add(wall))),
                        );
                        info.usage = failure.started.map(|_| failure.usage);
                        info.error = Some(failure.error.clone());
                    }
                }
                TaskState::Aborted => info.error = abort_reason(job, task),
                TaskState::Canceled => info.error.clone_from(&job.cancel_reason),
                TaskState::Waiting | TaskState::Running => {}
            }
            page.push((id, info));
        }
    }

    fn worker_info(&self, id: WorkerId) -> WorkerInfo {
        let worker = &self.state.workers[&id];
        let live = self.live.get(&id);
        WorkerInfo {
            worker: id,
            config: worker.config.clone(),
            started: worker.joined,
            ended: worker.ended,
            tasks_assigned: live.map_or(0, |live| live.held.values().map(|held| held.ids.len()).sum()),
            tasks_running: live.map_or(0, |live| live.running),
            last_task: live.and_then(|live| live.last_task),
            is_draining: live.is_some_and(|live| live.is_draining),
            idle_timeout: worker.config.idle_timeout.or(self.options.idle_timeout),
            multi_node: live.and_then(|live| self.multi_node_of(id, live)),
            is_reserved: live.is_some_and(|live| live.reserved.is_some()),
        }
    }
}

fn abort_reason(job: &Job, task: TaskId) -> Option<String> {
    let reason = job.abort_reasons.iter().find(|(ids, _)| ids.contains(task));
    reason.map(|(_, reason)| reason.clone())
}
