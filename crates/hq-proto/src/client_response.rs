//! What the server answers to clients.

use hq_core::client_messages::{ClientResponse, RequestError};
use hq_model::{IdSet, Instance, JobId, QueueId, TaskId, TaskRef, TaskState, Timestamp, WorkerId};
use prost::Message;

use crate::ProtoError;
use crate::error::{present, rule};
use crate::generated::{self as form, client_response::Body, request_error::Error};
use crate::idset;
use crate::journal::{decode_record, encode_record};
use crate::overview::{counts_from_wire, counts_to_wire};
use crate::shown::{task_from_wire, task_to_wire};
use crate::wire::{Wire, decode, list_from_wire, list_to_wire, no_kind, required};

/// The bytes of an answer to request number `request`.
pub fn encode_client_response(request: u64, body: &ClientResponse) -> Vec<u8> {
    let (refused, rest) = match body {
        ClientResponse::Partly { refused, rest } => (list_to_wire(refused), &**rest),
        rest => (Vec::new(), rest),
    };
    form::ClientResponse { request, body: Some(to_wire(rest)), refused }.encode_to_vec()
}

/// The number of the request and its answer in `bytes`.
///
/// # Errors
/// When they are none, or say something that cannot be.
pub fn decode_client_response(bytes: &[u8]) -> Result<(u64, ClientResponse), ProtoError> {
    let message: form::ClientResponse = decode("answer", bytes)?;
    let body = message.body.ok_or_else(|| no_kind("answer", bytes, 2..20))?;
    let rest = from_wire(body)?;
    let refused: Vec<RequestError> = list_from_wire(message.refused)?;
    Ok((
        message.request,
        match refused.is_empty() {
            true => rest,
            false => ClientResponse::Partly { refused, rest: Box::new(rest) },
        },
    ))
}

fn to_wire(body: &ClientResponse) -> Body {
    match body {
        ClientResponse::Error(error) => Body::Error(error.to_wire()),
        // What is refused is no part of the body, and in one there is no other.
        ClientResponse::Partly { rest, .. } => to_wire(rest),
        ClientResponse::Done => Body::Done(form::Nothing {}),
        ClientResponse::ServerInfo(info) => Body::ServerInfo(info.to_wire()),
        ClientResponse::Submitted { job, ids, existing, warnings } => Body::Submitted(form::JobSubmitted {
            job: job.0,
            ids: idset::to_wire(ids),
            warnings: warnings.clone(),
            existing: existing.iter().flat_map(|(place, task)| [*place, task.0]).collect(),
        }),
        ClientResponse::JobsSubmitted { jobs, warnings } => Body::JobsSubmitted(form::JobsSubmitted {
            jobs: jobs.iter().map(|job| job.0).collect(),
            warnings: warnings.clone(),
        }),
        ClientResponse::Jobs(jobs) => {
            Body::Jobs(form::NumberList { numbers: jobs.iter().map(|job| job.0).collect() })
        }
        ClientResponse::JobList(jobs) => Body::JobList(form::JobSummaries { jobs: list_to_wire(jobs) }),
        ClientResponse::JobCounts(counts) => {
            Body::JobCounts(form::JobCounts { counts: counts_to_wire(counts) })
        }
        ClientResponse::JobDetails { jobs, next, now } => Body::JobDetails(form::JobDetails {
            jobs: list_to_wire(jobs),
            next: next.as_ref().map(Wire::to_wire),
            now_us: now.map(|now| now.0),
        }),
        ClientResponse::Canceled(jobs) => {
            let jobs = jobs.iter().map(|(job, ids, ended_before)| form::CanceledJob {
                job: job.0,
                ids: idset::to_wire(ids),
                ended_before: *ended_before,
            });
            Body::Canceled(form::CanceledJobs { jobs: jobs.collect() })
        }
        ClientResponse::Tasks { tasks, groups, next, now } => Body::Tasks(form::TaskPage {
            tasks: tasks.iter().map(|(job, task)| task_to_wire(*job, task)).collect(),
            groups: list_to_wire(groups),
            next: next.as_ref().map(Wire::to_wire),
            now_us: now.map(|now| now.0),
        }),
        ClientResponse::TaskIds(jobs) => {
            let jobs =
                jobs.iter().map(|(job, ids)| form::TaskIdsOfJob { job: job.0, ids: idset::to_wire(ids) });
            Body::TaskIds(form::JobTaskIds { jobs: jobs.collect() })
        }
        ClientResponse::JobShape(shape) => Body::JobShape(shape.to_wire()),
        ClientResponse::Load(history) => Body::Load(history.to_wire()),
        ClientResponse::Overview(overview) => Body::Overview(overview.to_wire()),
        ClientResponse::Progress(jobs) => Body::Progress(form::JobSummaries { jobs: list_to_wire(jobs) }),
        ClientResponse::Notification { task, instance, worker, text } => {
            Body::Notification(form::Notification {
                task: Some(task.to_wire()),
                worker: worker.0,
                text: text.clone(),
                instance: instance.0,
            })
        }
        ClientResponse::Output(output) => Body::Output(output.to_wire()),
        ClientResponse::WatchEnded => Body::WatchEnded(form::Nothing {}),
        ClientResponse::Workers(workers) => Body::Workers(form::Workers { workers: list_to_wire(workers) }),
        ClientResponse::WorkersStopped { workers, away, stopping, alone, alone_count } => {
            let numbers = |workers: &[WorkerId]| workers.iter().map(|worker| worker.0).collect();
            Body::WorkersStopped(form::WorkersStopped {
                numbers: numbers(workers),
                away: numbers(away),
                stopping: numbers(stopping),
                alone: list_to_wire(alone),
                alone_count: *alone_count,
            })
        }
        ClientResponse::Explained(explained) => Body::Explained(explained.to_wire()),
        ClientResponse::Results { jobs, next } => {
            Body::Results(form::Results { jobs: list_to_wire(jobs), next: next.map(|task| task.to_wire()) })
        }
        ClientResponse::Feed(state) => Body::Feed(state.to_wire()),
        ClientResponse::Objects(page) => Body::Objects(page.to_wire()),
        ClientResponse::ObjectGiven(copy) => Body::ObjectGiven(copy.to_wire()),
        ClientResponse::Ends(ends) => Body::Ends(ends.to_wire()),
        ClientResponse::Failures { jobs, next } => {
            Body::Failures(form::Failures { jobs: list_to_wire(jobs), next: next.map(|job| job.0) })
        }
        ClientResponse::ExplainedJobs(jobs) => {
            Body::ExplainedJobs(form::ExplainedJobs { jobs: list_to_wire(jobs) })
        }
        ClientResponse::Alloc(response) => Body::Alloc(response.to_wire()),
        ClientResponse::Events { records, next } => {
            // Whoever follows need not know which changes counted together.
            let parts = records.iter().flat_map(|(at, record)| record.parts().iter().map(|part| (*at, part)));
            let records = parts.map(|(at, record)| encode_record(at, record));
            Body::Events(form::Events { records: records.collect(), next: *next })
        }
    }
}

fn from_wire(body: Body) -> Result<ClientResponse, ProtoError> {
    Ok(match body {
        Body::Error(error) => ClientResponse::Error(Wire::from_wire(error)?),
        Body::Done(_) => ClientResponse::Done,
        Body::ServerInfo(info) => ClientResponse::ServerInfo(Box::new(Wire::from_wire(info)?)),
        Body::Submitted(submitted) => ClientResponse::Submitted {
            job: JobId(submitted.job),
            ids: idset::from_wire("ids of submitted tasks", &submitted.ids)?,
            existing: pairs("tasks there before", &submitted.existing)?,
            warnings: submitted.warnings,
        },
        Body::JobsSubmitted(submitted) => ClientResponse::JobsSubmitted {
            jobs: submitted.jobs.into_iter().map(JobId).collect(),
            warnings: submitted.warnings,
        },
        Body::Jobs(jobs) => ClientResponse::Jobs(jobs.numbers.into_iter().map(JobId).collect()),
        Body::JobList(list) => ClientResponse::JobList(list_from_wire(list.jobs)?),
        Body::JobCounts(counts) => ClientResponse::JobCounts(counts_from_wire(counts.counts)?),
        Body::JobShape(shape) => ClientResponse::JobShape(Box::new(Wire::from_wire(shape)?)),
        Body::Load(history) => ClientResponse::Load(Box::new(Wire::from_wire(history)?)),
        Body::Overview(overview) => ClientResponse::Overview(Box::new(Wire::from_wire(overview)?)),
        Body::JobDetails(details) => ClientResponse::JobDetails {
            jobs: list_from_wire(details.jobs)?,
            next: details.next.map(Wire::from_wire).transpose()?,
            now: details.now_us.map(Timestamp),
        },
        Body::Canceled(canceled) => {
            let jobs = canceled.jobs.into_iter().map(|job| {
                Ok((JobId(job.job), idset::from_wire("ids of canceled tasks", &job.ids)?, job.ended_before))
            });
            ClientResponse::Canceled(jobs.collect::<Result<_, ProtoError>>()?)
        }
        Body::Tasks(page) => ClientResponse::Tasks {
            tasks: page.tasks.into_iter().map(task_from_wire).collect::<Result<_, _>>()?,
            groups: list_from_wire(page.groups)?,
            next: page.next.map(TaskRef::from_wire).transpose()?,
            now: page.now_us.map(Timestamp),
        },
        Body::TaskIds(list) => {
            let jobs = list.jobs.into_iter().map(|job| Ok((JobId(job.job), ids(&job.ids)?)));
            ClientResponse::TaskIds(jobs.collect::<Result<_, ProtoError>>()?)
        }
        Body::Explained(explained) => ClientResponse::Explained(Box::new(Wire::from_wire(explained)?)),
        Body::Results(list) => ClientResponse::Results {
            jobs: list_from_wire(list.jobs)?,
            next: list.next.map(TaskRef::from_wire).transpose()?,
        },
        Body::Feed(state) => ClientResponse::Feed(Box::new(Wire::from_wire(state)?)),
        Body::Objects(page) => ClientResponse::Objects(Box::new(Wire::from_wire(page)?)),
        Body::ObjectGiven(copy) => ClientResponse::ObjectGiven(Wire::from_wire(copy)?),
        Body::Ends(ends) => ClientResponse::Ends(Box::new(Wire::from_wire(ends)?)),
        Body::Failures(list) => {
            ClientResponse::Failures { jobs: list_from_wire(list.jobs)?, next: list.next.map(JobId) }
        }
        Body::ExplainedJobs(list) => ClientResponse::ExplainedJobs(list_from_wire(list.jobs)?),
        Body::Progress(list) => ClientResponse::Progress(list_from_wire(list.jobs)?),
        Body::Notification(notification) => ClientResponse::Notification {
            task: required("task of a notification", notification.task)?,
            instance: Instance(notification.instance),
            worker: WorkerId(notification.worker),
            text: notification.text,
        },
        Body::Output(output) => ClientResponse::Output(Wire::from_wire(output)?),
        Body::WatchEnded(_) => ClientResponse::WatchEnded,
        Body::Workers(list) => ClientResponse::Workers(list_from_wire(list.workers)?),
        Body::WorkersStopped(workers) => {
            let ids = |numbers: Vec<u32>| numbers.into_iter().map(WorkerId).collect();
            ClientResponse::WorkersStopped {
                workers: ids(workers.numbers),
                away: ids(workers.away),
                stopping: ids(workers.stopping),
                alone: list_from_wire(workers.alone)?,
                alone_count: workers.alone_count,
            }
        }
        Body::Alloc(response) => ClientResponse::Alloc(Wire::from_wire(response)?),
        Body::Events(events) => {
            let records = events.records.iter().map(|bytes| decode_record(bytes)).filter(|record| {
                // What a later release may skip, this one does.
                !matches!(record, Err(ProtoError::UnknownRecord { critical: false, .. }))
            });
            let next = events.next;
            ClientResponse::Events { records: records.collect::<Result<_, ProtoError>>()?, next }
        }
    })
}

fn ids(numbers: &[u32]) -> Result<IdSet, ProtoError> {
    idset::from_wire("ids", numbers)
}

// Places and tasks in turn.
fn pairs(field: &'static str, numbers: &[u32]) -> Result<Vec<(u32, TaskId)>, ProtoError> {
    let (pairs, rest) = numbers.as_chunks::<2>();
    rule(field, rest.is_empty(), "must be pairs of numbers")?;
    Ok(pairs.iter().map(|&[place, task]| (place, TaskId(task))).collect())
}

impl Wire for RequestError {
    type Form = form::RequestError;

    fn to_wire(&self) -> form::RequestError {
        let error = match self {
            RequestError::NoJob(job) => Error::NoJob(job.0),
            RequestError::NoJobs => Error::NoJobs(form::Nothing {}),
            RequestError::Forgotten(job) => Error::Forgotten(job.0),
            RequestError::JobNotOpen(job) => Error::JobNotOpen(job.0),
            RequestError::TooManyFailed { job, failed, limit } => {
                Error::TooManyFailed(form::TooManyFailed { job: job.0, failed: *failed, limit: *limit })
            }
            RequestError::TaskExists(job, task) => Error::TaskExists(TaskRef::new(*job, *task).to_wire()),
            RequestError::NoTask(job, task) => Error::NoTask(TaskRef::new(*job, *task).to_wire()),
            RequestError::KeyTaken { job, key, task, difference } => {
                let (key, difference) = (key.clone(), difference.clone());
                Error::KeyTaken(form::KeyTaken { job: job.0, key, task: task.0, difference })
            }
            RequestError::NotRunning { task, instance, now } => Error::NotRunning(form::NotRunning {
                task: Some(task.to_wire()),
                instance: instance.0,
                now: now.clone(),
            }),
            RequestError::NoService(task) => Error::NoService(task.to_wire()),
            RequestError::Full { held, wanted } => Error::Full(form::Full { held: *held, wanted: *wanted }),
            RequestError::NoKey(job, key) => Error::NoKey(form::NoKey { job: job.0, key: key.clone() }),
            RequestError::NoObject(object, names) => {
                Error::NoObject(form::ObjectWords { object: Some(object.to_wire()), words: names.clone() })
            }
            RequestError::NotStored(object, why) => {
                Error::NotStored(form::ObjectWords { object: Some(object.to_wire()), words: why.clone() })
            }
            RequestError::ObjectNeeded(object, task) => Error::ObjectNeeded(form::ObjectNeeded {
                object: Some(object.to_wire()),
                task: Some(task.to_wire()),
            }),
            RequestError::JobAlive(job) => Error::JobAlive(job.0),
            RequestError::Hopeless { job, tasks, state } => {
                let (job, tasks, state) = (job.0, tasks.clone(), state.to_wire());
                Error::Hopeless(form::Hopeless { job, tasks, state })
            }
            RequestError::Cycle(job, tasks) => Error::Cycle(form::Cycle { job: job.0, tasks: tasks.clone() }),
            RequestError::NoWorker(worker) => Error::NoWorker(worker.0),
            RequestError::NoWorkers => Error::NoWorkers(form::Nothing {}),
            RequestError::WorkerEnded(worker) => Error::WorkerEnded(worker.0),
            RequestError::WorkerAway { worker, until } => {
                Error::WorkerAway(form::WorkerAway { worker: worker.0, until_us: until.0 })
            }
            RequestError::Invalid(text) => Error::Invalid(text.clone()),
            RequestError::NothingToDo(text) => Error::NothingToDo(text.clone()),
            RequestError::Stopping => Error::Stopping(form::Nothing {}),
            RequestError::ReadOnly(text) => Error::ReadOnly(text.clone()),
            RequestError::NoJournal => Error::NoJournal(form::Nothing {}),
            RequestError::Journal(text) => Error::Journal(text.clone()),
            RequestError::NoQueue(queue) => Error::NoQueue(queue.0),
            RequestError::NoAllocation(id) => Error::NoAllocation(id.clone()),
            RequestError::QueueBusy => Error::QueueBusy(form::Nothing {}),
            RequestError::Batch(text) => Error::Batch(text.clone()),
            RequestError::OneOfMany { error, others } => {
                return form::RequestError { others: *others, ..error.one().to_wire() };
            }
        };
        form::RequestError { error: Some(error), others: 0 }
    }

    fn from_wire(
        form::RequestError { error, others }: form::RequestError,
    ) -> Result<RequestError, ProtoError> {
        let error = match present("error", error)? {
            Error::NoJob(job) => RequestError::NoJob(JobId(job)),
            Error::NoJobs(_) => RequestError::NoJobs,
            Error::Forgotten(job) => RequestError::Forgotten(JobId(job)),
            Error::JobNotOpen(job) => RequestError::JobNotOpen(JobId(job)),
            Error::TooManyFailed(form::TooManyFailed { job, failed, limit }) => {
                RequestError::TooManyFailed { job: JobId(job), failed, limit }
            }
            Error::TaskExists(task) => {
                let task = TaskRef::from_wire(task)?;
                RequestError::TaskExists(task.job, task.task)
            }
            Error::NoTask(task) => {
                let task = TaskRef::from_wire(task)?;
                RequestError::NoTask(task.job, task.task)
            }
            Error::KeyTaken(form::KeyTaken { job, key, task, difference }) => {
                RequestError::KeyTaken { job: JobId(job), key, task: TaskId(task), difference }
            }
            Error::NoService(task) => RequestError::NoService(TaskRef::from_wire(task)?),
            Error::Full(form::Full { held, wanted }) => RequestError::Full { held, wanted },
            Error::NotRunning(form::NotRunning { task, instance, now }) => RequestError::NotRunning {
                task: required("task that does not run", task)?,
                instance: Instance(instance),
                now,
            },
            Error::NoKey(form::NoKey { job, key }) => RequestError::NoKey(JobId(job), key),
            Error::NoObject(form::ObjectWords { object, words }) => {
                RequestError::NoObject(required("object that is not there", object)?, words)
            }
            Error::NotStored(form::ObjectWords { object, words }) => {
                RequestError::NotStored(required("object that is not stored", object)?, words)
            }
            Error::ObjectNeeded(form::ObjectNeeded { object, task }) => RequestError::ObjectNeeded(
                required("object that is needed", object)?,
                required("task that needs an object", task)?,
            ),
            Error::JobAlive(job) => RequestError::JobAlive(JobId(job)),
            Error::Hopeless(form::Hopeless { job, tasks, state }) => {
                RequestError::Hopeless { job: JobId(job), tasks, state: TaskState::from_wire(state)? }
            }
            Error::Cycle(form::Cycle { job, tasks }) => RequestError::Cycle(JobId(job), tasks),
            Error::NoWorker(worker) => RequestError::NoWorker(WorkerId(worker)),
            Error::NoWorkers(_) => RequestError::NoWorkers,
            Error::WorkerEnded(worker) => RequestError::WorkerEnded(WorkerId(worker)),
            Error::WorkerAway(form::WorkerAway { worker, until_us }) => {
                RequestError::WorkerAway { worker: WorkerId(worker), until: Timestamp(until_us) }
            }
            Error::Invalid(text) => RequestError::Invalid(text),
            Error::NothingToDo(text) => RequestError::NothingToDo(text),
            Error::Stopping(_) => RequestError::Stopping,
            Error::ReadOnly(text) => RequestError::ReadOnly(text),
            Error::NoJournal(_) => RequestError::NoJournal,
            Error::Journal(text) => RequestError::Journal(text),
            Error::NoQueue(queue) => RequestError::NoQueue(QueueId(queue)),
            Error::NoAllocation(id) => RequestError::NoAllocation(id),
            Error::QueueBusy(_) => RequestError::QueueBusy,
            Error::Batch(text) => RequestError::Batch(text),
        };
        Ok(match others {
            0 => error,
            others => RequestError::OneOfMany { error: Box::new(error), others },
        })
    }
}
