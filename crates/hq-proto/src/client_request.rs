//! What clients ask.

use std::time::Duration;

use hq_core::client_messages::{ClientRequest, WorkerFilter};
use hq_model::{IdSet, Instance, JobId, TaskId, TaskRef, WorkerId};
use prost::Message;

use crate::ProtoError;
use crate::generated::{self as form, client_request::Body};
use crate::idset;
use crate::job::{key_from_wire, key_to_wire, tasks_from_wire, tasks_to_wire};
use crate::overview::{events_to_wire, filter_from_wire};
use crate::wire::{Wire, decode, list_from_wire, list_to_wire, nanos, no_kind, required, wire_enum};

wire_enum!(WorkerFilter = WorkerFilter, "filter of workers": All, Running, Offline);

/// The bytes of request number `request`.
pub fn encode_client_request(request: u64, body: &ClientRequest) -> Vec<u8> {
    form::ClientRequest { request, job_page: page_of(body), body: Some(to_wire(body)) }.encode_to_vec()
}

/// The number and the request in `bytes`.
///
/// # Errors
/// When they are none, or ask for something that cannot be. [`request_number`] may still tell whom to answer.
pub fn decode_client_request(bytes: &[u8]) -> Result<(u64, ClientRequest), ProtoError> {
    let message: form::ClientRequest = decode("request", bytes)?;
    let body = message.body.ok_or_else(|| no_kind("request", bytes, 2..22))?;
    let mut body = from_wire(body)?;
    if let (ClientRequest::JobInfo { page, .. }, Some(form)) = (&mut body, message.job_page) {
        *page = Some(Wire::from_wire(form)?);
    }
    Ok((message.request, body))
}

// It stands beside the request: servers of earlier releases know the request and answer it.
fn page_of(body: &ClientRequest) -> Option<form::JobPage> {
    match body {
        ClientRequest::JobInfo { page, .. } => page.as_ref().map(Wire::to_wire),
        _ => None,
    }
}

/// The number of a request that could not be understood, so that it can be answered with the error.
pub fn request_number(mut bytes: &[u8]) -> Option<u64> {
    while !bytes.is_empty() {
        let (number, wire_type) = prost::encoding::decode_key(&mut bytes).ok()?;
        if number == 1 {
            return prost::encoding::decode_varint(&mut bytes).ok();
        }
        prost::encoding::skip_field(wire_type, number, &mut bytes, Default::default()).ok()?;
    }
    // Zero is not written.
    Some(0)
}

fn to_wire(body: &ClientRequest) -> Body {
    match body {
        ClientRequest::ServerInfo => Body::ServerInfo(form::Nothing {}),
        ClientRequest::StopServer => Body::StopServer(form::Nothing {}),
        ClientRequest::Submit { key, submit } => {
            Body::Submit(form::SubmitRequest { key: key_to_wire(*key), submit: Some(submit.to_wire()) })
        }
        ClientRequest::SubmitAll { key, submits } => {
            Body::SubmitAll(form::SubmitAll { key: key_to_wire(*key), submits: list_to_wire(submits) })
        }
        ClientRequest::Defer { task, instance, after } => Body::Defer(form::Defer {
            task: Some(task.to_wire()),
            instance: instance.0,
            after: list_to_wire(after),
        }),
        ClientRequest::Ready { task, instance, text } => {
            Body::Ready(form::Ready { task: Some(task.to_wire()), instance: instance.0, text: text.clone() })
        }
        ClientRequest::SubmitJobs { key, jobs } => {
            Body::SubmitJobs(form::SubmitJobs { key: key_to_wire(*key), jobs: list_to_wire(jobs) })
        }
        ClientRequest::Feed(request) => Body::Feed(request.to_wire()),
        ClientRequest::Objects(request) => Body::Objects(request.to_wire()),
        ClientRequest::OpenJob { key, spec } => {
            Body::OpenJob(form::OpenJob { key: key_to_wire(*key), spec: Some(spec.to_wire()) })
        }
        ClientRequest::CloseJobs { jobs } => Body::CloseJobs(jobs.to_wire()),
        ClientRequest::SetBudget { jobs, budget } => {
            Body::SetBudget(form::SetBudget { jobs: Some(jobs.to_wire()), budget_ns: budget.map(nanos) })
        }
        ClientRequest::ListJobs { states } => Body::ListJobs(form::ListJobs { states: list_to_wire(states) }),
        ClientRequest::CountJobs => Body::CountJobs(form::Nothing {}),
        ClientRequest::JobInfo { jobs, .. } => Body::JobInfo(jobs.to_wire()),
        ClientRequest::Cancel { jobs, tasks, reason } => Body::Cancel(form::Cancel {
            jobs: Some(jobs.to_wire()),
            tasks: tasks.as_ref().map(Wire::to_wire),
            reason: reason.clone(),
        }),
        ClientRequest::ForgetJobs { jobs, states } => {
            Body::ForgetJobs(form::ForgetJobs { jobs: Some(jobs.to_wire()), states: list_to_wire(states) })
        }
        ClientRequest::ListTasks { jobs, tasks, states, after, limit, grouped, with_entries } => {
            Body::ListTasks(form::ListTasks {
                jobs: Some(jobs.to_wire()),
                tasks: tasks.as_ref().map(Wire::to_wire),
                states: list_to_wire(states),
                after: after.as_ref().map(Wire::to_wire),
                limit: *limit,
                grouped: *grouped,
                with_entries: *with_entries,
            })
        }
        ClientRequest::TaskIds { jobs, states } => {
            Body::TaskIds(form::ListTaskIds { jobs: Some(jobs.to_wire()), states: list_to_wire(states) })
        }
        ClientRequest::WatchJobs { jobs, until_closed, notifications } => Body::WatchJobs(form::WatchJobs {
            jobs: Some(jobs.to_wire()),
            until_closed: *until_closed,
            notifications: *notifications,
        }),
        ClientRequest::ListWorkers { workers, filter } => Body::ListWorkers(form::ListWorkers {
            workers: Some(workers.to_wire()),
            filter: filter.to_wire(),
        }),
        ClientRequest::StopWorkers { workers, drain } => {
            Body::StopWorkers(form::StopWorkers { workers: Some(workers.to_wire()), drain: *drain })
        }
        ClientRequest::Resubmit { key, jobs, tasks, states } => Body::Resubmit(form::Resubmit {
            key: key_to_wire(*key),
            jobs: Some(jobs.to_wire()),
            tasks: tasks.as_ref().map(Wire::to_wire),
            states: list_to_wire(states),
        }),
        ClientRequest::Results { jobs, tasks, from, with_failed } => Body::Results(form::ListResults {
            jobs: Some(jobs.to_wire()),
            tasks: tasks.as_ref().map(Wire::to_wire),
            from: from.map(|task| task.to_wire()),
            with_failed: *with_failed,
        }),
        ClientRequest::AwaitEnds { job, known } => {
            Body::AwaitEnds(form::AwaitEnds { job: job.0, known: idset::to_wire(known) })
        }
        ClientRequest::CancelWaiting { job, tasks } => Body::CancelWaiting(tasks_to_wire(*job, tasks)),
        ClientRequest::JobFailures { jobs, from } => {
            Body::JobFailures(form::ListFailures { jobs: Some(jobs.to_wire()), from: from.map(|job| job.0) })
        }
        ClientRequest::ExplainTask { jobs, task } => {
            Body::ExplainTask(form::ExplainTask { jobs: Some(jobs.to_wire()), task: task.0 })
        }
        ClientRequest::ExplainJobs { jobs } => Body::ExplainJobs(jobs.to_wire()),
        ClientRequest::ReadOutput(read) => Body::ReadOutput(read.to_wire()),
        ClientRequest::WaitWorkers { count } => Body::WaitWorkers(*count),
        ClientRequest::Alloc(request) => Body::Alloc(request.to_wire()),
        ClientRequest::FlushJournal => Body::FlushJournal(form::Nothing {}),
        ClientRequest::PruneJournal => Body::PruneJournal(form::Nothing {}),
        ClientRequest::Events { follow, after, filter } => {
            Body::Events(events_to_wire(*follow, *after, filter))
        }
        ClientRequest::JobShape { job } => Body::JobShape(job.0),
        ClientRequest::WorkerTasks { worker, limit } => {
            Body::WorkerTasks(form::ListWorkerTasks { worker: worker.0, limit: *limit })
        }
        ClientRequest::Load { worker, time } => {
            Body::Load(form::GetLoad { worker: worker.map(|worker| worker.0), time_ns: nanos(*time) })
        }
        ClientRequest::Overview { seen } => Body::Overview(form::Look { seen: *seen }),
        ClientRequest::LatestJobs { states, text, before, limit } => Body::LatestJobs(form::LatestJobs {
            states: list_to_wire(states),
            text: text.clone(),
            before: before.map(|job| job.0),
            limit: *limit,
        }),
    }
}

fn from_wire(body: Body) -> Result<ClientRequest, ProtoError> {
    Ok(match body {
        Body::ServerInfo(_) => ClientRequest::ServerInfo,
        Body::StopServer(_) => ClientRequest::StopServer,
        Body::Submit(submit) => ClientRequest::Submit {
            key: key_from_wire(&submit.key)?,
            submit: Box::new(required("submit", submit.submit)?),
        },
        Body::SubmitAll(all) => {
            ClientRequest::SubmitAll { key: key_from_wire(&all.key)?, submits: list_from_wire(all.submits)? }
        }
        Body::Defer(defer) => ClientRequest::Defer {
            task: required("task that is put back", defer.task)?,
            instance: Instance(defer.instance),
            after: list_from_wire(defer.after)?,
        },
        Body::Ready(ready) => ClientRequest::Ready {
            task: required("service that is ready", ready.task)?,
            instance: Instance(ready.instance),
            text: ready.text,
        },
        Body::SubmitJobs(all) => {
            ClientRequest::SubmitJobs { key: key_from_wire(&all.key)?, jobs: list_from_wire(all.jobs)? }
        }
        Body::Feed(request) => ClientRequest::Feed(Box::new(Wire::from_wire(request)?)),
        Body::OpenJob(open) => ClientRequest::OpenJob {
            key: key_from_wire(&open.key)?,
            spec: required("spec of a job", open.spec)?,
        },
        Body::CloseJobs(jobs) => ClientRequest::CloseJobs { jobs: Wire::from_wire(jobs)? },
        Body::SetBudget(set) => ClientRequest::SetBudget {
            jobs: required("jobs to give a budget", set.jobs)?,
            budget: set.budget_ns.map(Duration::from_nanos),
        },
        Body::ListJobs(list) => ClientRequest::ListJobs { states: list_from_wire(list.states)? },
        Body::CountJobs(_) => ClientRequest::CountJobs,
        Body::JobInfo(jobs) => ClientRequest::JobInfo { jobs: Wire::from_wire(jobs)?, page: None },
        Body::Cancel(cancel) => ClientRequest::Cancel {
            jobs: required("jobs to cancel", cancel.jobs)?,
            tasks: cancel.tasks.map(IdSet::from_wire).transpose()?,
            reason: cancel.reason,
        },
        Body::ForgetJobs(forget) => ClientRequest::ForgetJobs {
            jobs: required("jobs to forget", forget.jobs)?,
            states: list_from_wire(forget.states)?,
        },
        Body::ListTasks(list) => ClientRequest::ListTasks {
            jobs: required("jobs to list", list.jobs)?,
            tasks: list.tasks.map(IdSet::from_wire).transpose()?,
            states: list_from_wire(list.states)?,
            after: list.after.map(TaskRef::from_wire).transpose()?,
            limit: list.limit,
            grouped: list.grouped,
            with_entries: list.with_entries,
        },
        Body::TaskIds(list) => ClientRequest::TaskIds {
            jobs: required("jobs to list", list.jobs)?,
            states: list_from_wire(list.states)?,
        },
        Body::ReadOutput(read) => ClientRequest::ReadOutput(Wire::from_wire(read)?),
        Body::Resubmit(again) => ClientRequest::Resubmit {
            key: key_from_wire(&again.key)?,
            jobs: required("job whose tasks are submitted again", again.jobs)?,
            tasks: again.tasks.map(IdSet::from_wire).transpose()?,
            states: list_from_wire(again.states)?,
        },
        Body::Results(list) => ClientRequest::Results {
            jobs: required("jobs whose results are listed", list.jobs)?,
            tasks: list.tasks.map(IdSet::from_wire).transpose()?,
            from: list.from.map(TaskRef::from_wire).transpose()?,
            with_failed: list.with_failed,
        },
        Body::AwaitEnds(wait) => ClientRequest::AwaitEnds {
            job: JobId(wait.job),
            known: idset::from_wire("ids of tasks whose ends are known", &wait.known)?,
        },
        Body::CancelWaiting(cancel) => {
            let (job, tasks) = tasks_from_wire(cancel)?;
            ClientRequest::CancelWaiting { job, tasks }
        }
        Body::JobFailures(list) => ClientRequest::JobFailures {
            jobs: required("jobs whose failures are listed", list.jobs)?,
            from: list.from.map(JobId),
        },
        Body::ExplainJobs(jobs) => ClientRequest::ExplainJobs { jobs: Wire::from_wire(jobs)? },
        Body::ExplainTask(explain) => ClientRequest::ExplainTask {
            jobs: required("job to explain", explain.jobs)?,
            task: TaskId(explain.task),
        },
        Body::WatchJobs(watch) => ClientRequest::WatchJobs {
            jobs: required("jobs to watch", watch.jobs)?,
            until_closed: watch.until_closed,
            notifications: watch.notifications,
        },
        Body::ListWorkers(list) => ClientRequest::ListWorkers {
            workers: required("workers to list", list.workers)?,
            filter: WorkerFilter::from_wire(list.filter)?,
        },
        Body::StopWorkers(stop) => ClientRequest::StopWorkers {
            workers: required("workers to stop", stop.workers)?,
            drain: stop.drain,
        },
        Body::WaitWorkers(count) => ClientRequest::WaitWorkers { count },
        Body::Alloc(request) => ClientRequest::Alloc(Wire::from_wire(request)?),
        Body::FlushJournal(_) => ClientRequest::FlushJournal,
        Body::PruneJournal(_) => ClientRequest::PruneJournal,
        Body::Events(form::FollowEvents { follow, after, jobs, kinds }) => {
            ClientRequest::Events { follow, after, filter: filter_from_wire(jobs, kinds)? }
        }
        Body::Objects(request) => ClientRequest::Objects(Wire::from_wire(request)?),
        Body::JobShape(job) => ClientRequest::JobShape { job: JobId(job) },
        Body::WorkerTasks(list) => {
            ClientRequest::WorkerTasks { worker: WorkerId(list.worker), limit: list.limit }
        }
        Body::Load(load) => ClientRequest::Load {
            worker: load.worker.map(WorkerId),
            time: Duration::from_nanos(load.time_ns),
        },
        Body::Overview(look) => ClientRequest::Overview { seen: look.seen },
        Body::LatestJobs(list) => ClientRequest::LatestJobs {
            states: list_from_wire(list.states)?,
            text: list.text,
            before: list.before.map(JobId),
            limit: list.limit,
        },
    })
}
