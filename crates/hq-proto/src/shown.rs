//! What the server shows of itself, jobs, tasks and workers, on the wire.

use std::sync::Arc;
use std::time::Duration;

use hq_core::client_messages::{
    AlikeTasks, JobBudget, JobDetail, JobPage, JobSummary, PageStart, Relayed, ServerInfo, SubmitInfo,
    TaskInfo, WorkerInfo,
};
use hq_core::clock_gap::ClockGap;
use hq_core::limit_value::LimitValue;
use hq_core::measures::Measures;
use hq_core::object_messages::ObjectsHeld;
use hq_core::worker_messages::WorkerEnd;
use hq_model::job::FedEnd;
use hq_model::{
    Amount, Epoch, IdSet, Instance, JobId, NodeSample, TaskId, TaskRef, TaskSpec, TaskState, Timestamp,
    Usage, WorkerId,
};

use crate::ProtoError;
use crate::error::short;
use crate::generated as form;
use crate::generated::limit::Number;
use crate::idset;
use crate::load;
use crate::wire::{Wire, list_from_wire, list_to_wire, nanos, required};

impl Wire for ServerInfo {
    type Form = form::ServerInfo;

    fn to_wire(&self) -> form::ServerInfo {
        let limits = self.limits.iter().map(|(name, value)| limit_to_wire(name, value));
        form::ServerInfo {
            uid: self.uid.clone(),
            epoch: self.epoch.0,
            started_us: self.started.0,
            pid: self.pid,
            version: self.version.clone(),
            client_host: self.client_host.clone(),
            client_port: u32::from(self.client_port),
            worker_host: self.worker_host.clone(),
            worker_port: u32::from(self.worker_port),
            server_dir: self.server_dir.clone(),
            journal: self.journal.clone(),
            limits: limits.collect(),
            journal_trouble: self.journal_trouble.as_ref().map(|trouble| trouble.1.clone()),
            journal_trouble_since_us: self.journal_trouble.as_ref().map_or(0, |trouble| trouble.0.0),
            internal_errors: self.internal_errors,
            output_reads: self.output_reads,
            load_bytes: self.load_bytes,
            relayed: self.relayed.as_ref().map(Wire::to_wire),
            stop_waits: self.stop_waits.clone(),
            clock_gap_us: self.clock_gap.map(|gap| {
                let micros = |gap: Duration| i64::try_from(gap.as_micros()).unwrap_or(i64::MAX);
                match gap {
                    ClockGap::Ahead(gap) => micros(gap),
                    ClockGap::Behind(gap) => -micros(gap),
                }
            }),
        }
    }

    fn from_wire(info: form::ServerInfo) -> Result<ServerInfo, ProtoError> {
        Ok(ServerInfo {
            uid: info.uid,
            epoch: Epoch(info.epoch),
            started: Timestamp(info.started_us),
            pid: info.pid,
            version: info.version,
            client_host: info.client_host,
            client_port: short("client port", info.client_port)?,
            worker_host: info.worker_host,
            worker_port: short("worker port", info.worker_port)?,
            server_dir: info.server_dir,
            journal: info.journal,
            limits: info.limits.into_iter().map(limit_from_wire).collect(),
            journal_trouble: info
                .journal_trouble
                .map(|text| (Timestamp(info.journal_trouble_since_us), text)),
            internal_errors: info.internal_errors,
            output_reads: info.output_reads,
            load_bytes: info.load_bytes,
            relayed: info.relayed.map(Relayed::from_wire).transpose()?,
            stop_waits: info.stop_waits,
            clock_gap: info.clock_gap_us.map(|gap| {
                let long = Duration::from_micros(gap.unsigned_abs());
                if gap < 0 { ClockGap::Behind(long) } else { ClockGap::Ahead(long) }
            }),
        })
    }
}

impl Wire for Relayed {
    type Form = form::Relayed;

    fn to_wire(&self) -> form::Relayed {
        form::Relayed { transfers: self.transfers, bytes: self.bytes }
    }

    fn from_wire(relayed: form::Relayed) -> Result<Relayed, ProtoError> {
        Ok(Relayed { transfers: relayed.transfers, bytes: relayed.bytes })
    }
}

fn limit_to_wire(name: &str, value: &LimitValue) -> form::Limit {
    let number = match value {
        LimitValue::Count(count) => Some(Number::Count(*count)),
        LimitValue::Bytes(bytes) => Some(Number::Bytes(*bytes)),
        LimitValue::Time(time) => Some(Number::TimeUs(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))),
        LimitValue::None => Some(Number::None(true)),
        LimitValue::Text(_) => None,
    };
    form::Limit { name: name.to_owned(), value: value.to_string(), number }
}

fn limit_from_wire(limit: form::Limit) -> (String, LimitValue) {
    let value = match limit.number {
        Some(Number::Count(count)) => LimitValue::Count(count),
        Some(Number::Bytes(bytes)) => LimitValue::Bytes(bytes),
        Some(Number::TimeUs(micros)) => LimitValue::Time(Duration::from_micros(micros)),
        Some(Number::None(_)) => LimitValue::None,
        None => LimitValue::Text(limit.value),
    };
    (limit.name, value)
}

impl Wire for JobSummary {
    type Form = form::JobSummary;

    fn to_wire(&self) -> form::JobSummary {
        form::JobSummary {
            job: self.job.0,
            name: self.name.clone(),
            is_open: self.is_open,
            counters: Some(self.counters.to_wire()),
            cancel_reason: self.cancel_reason.clone(),
            unrunnable: self.unrunnable,
            fed_end: self.fed_end.to_wire(),
            stalled: self.stalled.clone(),
        }
    }

    fn from_wire(summary: form::JobSummary) -> Result<JobSummary, ProtoError> {
        Ok(JobSummary {
            job: JobId(summary.job),
            name: summary.name,
            is_open: summary.is_open,
            counters: required("counters of a job", summary.counters)?,
            cancel_reason: summary.cancel_reason,
            unrunnable: summary.unrunnable,
            fed_end: FedEnd::from_wire(summary.fed_end)?,
            stalled: summary.stalled,
        })
    }
}

impl Wire for JobDetail {
    type Form = form::JobDetail;

    fn to_wire(&self) -> form::JobDetail {
        form::JobDetail {
            summary: Some(self.summary.to_wire()),
            max_fails: self.max_fails,
            share: self.share.as_ref().map(Wire::to_wire),
            notices: list_to_wire(&self.notices),
            submitted_us: self.submitted.0,
            ended_us: self.ended.map(|time| time.0),
            submits: list_to_wire(&self.submits),
            usage: Some(self.usage.to_wire()),
            workers: self.workers.iter().map(|worker| worker.0).collect(),
            feed: self.feed.as_ref().map(|feed| feed.to_wire()),
            budget: self.budget.map(|budget| form::JobBudget {
                limit_ns: budget.limit.map(nanos),
                used_ns: nanos(budget.used),
            }),
            ending: self.ending,
        }
    }

    fn from_wire(detail: form::JobDetail) -> Result<JobDetail, ProtoError> {
        Ok(JobDetail {
            summary: required("summary of a job", detail.summary)?,
            max_fails: detail.max_fails,
            share: detail.share.map(hq_model::job::Share::from_wire).transpose()?,
            notices: list_from_wire(detail.notices)?,
            submitted: Timestamp(detail.submitted_us),
            ended: detail.ended_us.map(Timestamp),
            submits: submits_from_wire(detail.submits)?,
            usage: required("usage of a job", detail.usage)?,
            workers: detail.workers.into_iter().map(WorkerId).collect(),
            feed: detail.feed.map(Wire::from_wire).transpose()?.map(Box::new),
            budget: detail.budget.map(|budget| JobBudget {
                limit: budget.limit_ns.map(Duration::from_nanos),
                used: Duration::from_nanos(budget.used_ns),
            }),
            ending: detail.ending,
        })
    }
}

// Servers of earlier releases tell all submits of a job, and neither their places nor how much their tasks read.
fn submits_from_wire(submits: Vec<form::SubmitInfo>) -> Result<Vec<SubmitInfo>, ProtoError> {
    let with_place = submits.into_iter().zip(0..).map(|(mut submit, place): (_, u32)| {
        submit.index.get_or_insert(place);
        Wire::from_wire(submit)
    });
    with_place.collect()
}

impl Wire for SubmitInfo {
    type Form = form::SubmitInfo;

    fn to_wire(&self) -> form::SubmitInfo {
        form::SubmitInfo {
            index: Some(self.index),
            ids: idset::to_wire(&self.ids),
            spec: Some(self.spec.to_wire()),
            stdin_bytes: Some(self.stdin_bytes),
            submit_dir: self.submit_dir.clone(),
            submitted_us: self.submitted.0,
        }
    }

    fn from_wire(submit: form::SubmitInfo) -> Result<SubmitInfo, ProtoError> {
        let spec: TaskSpec = required("spec of a submit", submit.spec)?;
        Ok(SubmitInfo {
            index: submit.index.unwrap_or_default(),
            ids: idset::from_wire("ids of a submit", &submit.ids)?,
            stdin_bytes: submit.stdin_bytes.unwrap_or(spec.stdin.len() as u64),
            spec: Arc::new(spec),
            submit_dir: submit.submit_dir,
            submitted: Timestamp(submit.submitted_us),
        })
    }
}

impl Wire for JobPage {
    type Form = form::JobPage;

    fn to_wire(&self) -> form::JobPage {
        form::JobPage {
            tasks: self.tasks.as_ref().map(Wire::to_wire),
            from: self.from.as_ref().map(Wire::to_wire),
        }
    }

    fn from_wire(page: form::JobPage) -> Result<JobPage, ProtoError> {
        let tasks = page.tasks.map(IdSet::from_wire).transpose()?;
        Ok(JobPage { tasks, from: page.from.map(Wire::from_wire).transpose()? })
    }
}

impl Wire for PageStart {
    type Form = form::PageStart;

    fn to_wire(&self) -> form::PageStart {
        form::PageStart { job: self.job.0, place: self.place }
    }

    fn from_wire(start: form::PageStart) -> Result<PageStart, ProtoError> {
        Ok(PageStart { job: JobId(start.job), place: start.place })
    }
}

/// The form of what is shown of a task.
pub(crate) fn task_to_wire(job: JobId, task: &TaskInfo) -> form::TaskInfo {
    form::TaskInfo {
        job: job.0,
        task: task.task.0,
        submit: task.submit,
        state: task.state.to_wire(),
        instance: task.instance.0,
        crashes: task.crashes,
        worker: task.worker.map(|worker| worker.0),
        started_us: task.started.map(|time| time.0),
        ended_us: task.ended.map(|time| time.0),
        usage: task.usage.as_ref().map(Wire::to_wire),
        error: task.error.clone(),
        dependencies: list_to_wire(&task.dependencies),
        key: task.key.clone(),
        nodes: task.nodes.iter().map(|worker| worker.0).collect(),
        failure: task.failure.as_ref().map(Wire::to_wire),
        entry: task.entry.clone(),
        entry_gone: task.entry_gone,
        too_late_us: task.too_late.map(|time| time.0),
        attempts: list_to_wire(&task.attempts),
        load: task.load.iter().map(|load| load::use_to_wire(load)).collect(),
    }
}

/// What is shown of a task, and its job.
pub(crate) fn task_from_wire(task: form::TaskInfo) -> Result<(JobId, TaskInfo), ProtoError> {
    let attempt = (task.worker.map(WorkerId).unwrap_or_default(), Instance(task.instance));
    let load = task.load.into_iter().next();
    let load = load.map(|load| load::use_from_wire(attempt, load)).transpose()?;
    let info = TaskInfo {
        task: TaskId(task.task),
        submit: task.submit,
        state: TaskState::from_wire(task.state)?,
        instance: Instance(task.instance),
        crashes: task.crashes,
        worker: task.worker.map(WorkerId),
        started: task.started_us.map(Timestamp),
        ended: task.ended_us.map(Timestamp),
        usage: task.usage.map(Usage::from_wire).transpose()?,
        error: task.error,
        dependencies: list_from_wire(task.dependencies)?,
        key: task.key,
        nodes: task.nodes.into_iter().map(WorkerId).collect(),
        failure: task.failure.map(Wire::from_wire).transpose()?,
        entry: task.entry,
        entry_gone: task.entry_gone,
        load: load.map(Box::new),
        too_late: task.too_late_us.map(Timestamp),
        attempts: list_from_wire(task.attempts)?,
    };
    Ok((JobId(task.job), info))
}

impl Wire for AlikeTasks {
    type Form = form::AlikeTasks;

    fn to_wire(&self) -> form::AlikeTasks {
        let measures = self.measures.as_ref();
        form::AlikeTasks {
            common: Some(task_to_wire(self.job, &self.common)),
            ids: idset::to_wire(&self.ids),
            measures: measures.map_or_else(Vec::new, |measures| measures.bytes().to_vec()),
            has_usage: measures.is_some_and(Measures::has_usage),
            start_us: measures.map_or(0, |measures| measures.base().0),
        }
    }

    fn from_wire(tasks: form::AlikeTasks) -> Result<AlikeTasks, ProtoError> {
        let common: form::TaskInfo = tasks.common.ok_or(ProtoError::Missing { field: "what tasks share" })?;
        let (job, common) = task_from_wire(common)?;
        let ids = idset::some_from_wire("ids of tasks alike", &tasks.ids)?;
        let measures = if tasks.measures.is_empty() {
            None
        } else {
            let damaged = ProtoError::Rule { field: "measures", rule: "must describe each task" };
            let count = u32::try_from(ids.len()).map_err(|_| damaged.clone())?;
            let start = Timestamp(tasks.start_us);
            let parsed = Measures::parse(count, tasks.has_usage, start, tasks.measures);
            Some(parsed.map_err(|_| damaged)?)
        };
        Ok(AlikeTasks { job, ids, common, measures })
    }
}

impl Wire for WorkerInfo {
    type Form = form::WorkerInfo;

    fn to_wire(&self) -> form::WorkerInfo {
        let (ended_us, end) = match &self.ended {
            Some((time, end)) => (Some(time.0), end.to_wire()),
            None => (None, form::WorkerEnd::Unspecified as i32),
        };
        form::WorkerInfo {
            worker: self.worker.0,
            config: Some(self.config.to_wire()),
            started_us: self.started.0,
            ended_us,
            end,
            tasks_assigned: self.tasks_assigned,
            tasks_running: self.tasks_running,
            last_task: self.last_task.map(|(task, _)| task.to_wire()),
            last_task_us: self.last_task.map_or(0, |(_, time)| time.0),
            is_draining: self.is_draining,
            idle_timeout_ns: self.idle_timeout.map(nanos),
            multi_node_task: self.multi_node.map(|(task, _)| task.to_wire()),
            main_node: self.multi_node.map_or(0, |(_, main)| main.0),
            is_reserved: self.is_reserved,
            trouble: self.trouble.clone(),
            internal_errors: self.internal_errors,
            is_stopping: self.is_stopping,
            away_until_us: self.away_until.map(|time| time.0),
            taken: self.taken.iter().map(|amount| amount.0).collect(),
            sample: self.sample.as_ref().map(|(_, sample)| sample.to_wire()),
            sampled_us: self.sample.as_ref().map_or(0, |(at, _)| at.0),
            tasks: self.tasks.as_ref().map(Wire::to_wire),
            objects_count: self.objects.count,
            objects_bytes: self.objects.bytes,
            spilled_count: self.spilled.count,
            spilled_bytes: self.spilled.bytes,
        }
    }

    fn from_wire(worker: form::WorkerInfo) -> Result<WorkerInfo, ProtoError> {
        let ended = worker.ended_us.map(|time| Ok((Timestamp(time), WorkerEnd::from_wire(worker.end)?)));
        let last_task = worker.last_task.map(TaskRef::from_wire).transpose()?;
        let multi_node = worker.multi_node_task.map(TaskRef::from_wire).transpose()?;
        let sample = worker.sample.map(NodeSample::from_wire).transpose()?;
        Ok(WorkerInfo {
            worker: WorkerId(worker.worker),
            config: required("configuration of a worker", worker.config)?,
            started: Timestamp(worker.started_us),
            ended: ended.transpose()?,
            tasks_assigned: worker.tasks_assigned,
            tasks_running: worker.tasks_running,
            last_task: last_task.map(|task| (task, Timestamp(worker.last_task_us))),
            is_draining: worker.is_draining,
            idle_timeout: worker.idle_timeout_ns.map(Duration::from_nanos),
            multi_node: multi_node.map(|task| (task, WorkerId(worker.main_node))),
            is_reserved: worker.is_reserved,
            trouble: worker.trouble,
            internal_errors: worker.internal_errors,
            is_stopping: worker.is_stopping,
            away_until: worker.away_until_us.map(Timestamp),
            taken: worker.taken.into_iter().map(Amount).collect(),
            sample: sample.map(|sample| (Timestamp(worker.sampled_us), Box::new(sample))),
            tasks: worker.tasks.map(Wire::from_wire).transpose()?,
            objects: ObjectsHeld { count: worker.objects_count, bytes: worker.objects_bytes },
            spilled: ObjectsHeld { count: worker.spilled_count, bytes: worker.spilled_bytes },
        })
    }
}
