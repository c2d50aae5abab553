//! Messages between server and workers.

mod log;

use std::sync::Arc;
use std::time::Duration;

use hq_core::WorkerSecret;
use hq_core::log::LogBatch;
use hq_core::object_messages::{ObjectNews, TaskObjects};
use hq_core::record::Failure;
use hq_core::worker_messages::{
    CallInput, FromWorker, Held, Lends, Report, RunBatch, Started, TaskNode, TaskWords, Template, TemplateId,
    ToWorker, Welcome, WorkerEnd, WorkerHello,
};
use hq_model::{
    Epoch, IdSet, Instance, JobId, NodeSample, TaskId, TaskSpec, TasksSample, Timestamp, WorkerId,
};
use prost::Message;

use crate::ProtoError;
use crate::ended::{absolute, relative, span_from_wire, span_to_wire};
use crate::error::{count, in_range, rule};
use crate::generated::{self as form, from_worker, to_worker};
use crate::idset;
use crate::job::{tasks_from_wire, tasks_to_wire};
use crate::limits::HELD_RUNNING_MAX;
use crate::object::{file_name, ids_to_wire};
use crate::task::{entries_from_wire, entries_to_wire, variable_to_wire};
use crate::wire::{Wire, decode, list_from_wire, list_to_wire, name, nanos, no_kind, required};

/// The bytes of a message to a worker.
pub fn encode_to_worker(message: &ToWorker) -> Vec<u8> {
    use to_worker::Body;
    let body = match message {
        ToWorker::Welcome(welcome) => Body::Welcome(welcome.to_wire()),
        ToWorker::Run(batches) => Body::Run(form::Run { batches: list_to_wire(batches) }),
        ToWorker::Cancel { job, ids, are_elsewhere } => {
            let form::TasksOfJob { job, ids } = tasks_to_wire(*job, ids);
            Body::Cancel(form::CancelTasks { job, ids, are_elsewhere: *are_elsewhere })
        }
        ToWorker::Retract { job, ids } => Body::Retract(tasks_to_wire(*job, ids)),
        ToWorker::Saved { report } => Body::Saved(*report),
        ToWorker::Weighed { report } => Body::Weighed(*report),
        ToWorker::Stop { drain } => Body::Stop(form::Stop { drain: *drain }),
        ToWorker::Logged { number, written } => Body::Logged(log::answer_to_wire(*number, written)),
        ToWorker::ReadOutput(order) => Body::ReadOutput(order.to_wire()),
        ToWorker::DropRead { number } => Body::DropRead(*number),
        ToWorker::FreeObjects(objects) => Body::FreeObjects(ids_to_wire(objects)),
        ToWorker::TakeFile { object, file, is_dir } => {
            let (object, file, is_dir) = (Some(object.to_wire()), file.clone(), *is_dir);
            Body::TakeFile(form::TakeFile { object, file, is_dir })
        }
        ToWorker::BringObjects(sources) => {
            Body::BringObjects(form::BringObjects { sources: list_to_wire(sources) })
        }
        ToWorker::Relay { ticket } => Body::Relay(*ticket),
        ToWorker::GuardObjects { guard, release } => Body::GuardObjects(form::GuardObjects {
            guard: list_to_wire(guard),
            release: list_to_wire(release),
        }),
    };
    form::ToWorker { body: Some(body) }.encode_to_vec()
}

/// The message to a worker in `bytes`.
///
/// # Errors
/// When they are none, or say something that cannot be.
pub fn decode_to_worker(bytes: &[u8]) -> Result<ToWorker, ProtoError> {
    use to_worker::Body;
    let message: form::ToWorker = decode("message to a worker", bytes)?;
    Ok(match message.body.ok_or_else(|| no_kind("message to a worker", bytes, 1..9))? {
        Body::Welcome(welcome) => ToWorker::Welcome(Welcome::from_wire(welcome)?),
        Body::Run(run) => ToWorker::Run(list_from_wire(run.batches)?),
        Body::Cancel(form::CancelTasks { job, ids, are_elsewhere }) => {
            let (job, ids) = tasks_from_wire(form::TasksOfJob { job, ids })?;
            ToWorker::Cancel { job, ids, are_elsewhere }
        }
        Body::Retract(tasks) => {
            let (job, ids) = tasks_from_wire(tasks)?;
            ToWorker::Retract { job, ids }
        }
        Body::Saved(report) => ToWorker::Saved { report },
        Body::Weighed(report) => ToWorker::Weighed { report },
        Body::Stop(stop) => ToWorker::Stop { drain: stop.drain },
        Body::Logged(answer) => {
            let (number, written) = log::answer_from_wire(answer)?;
            ToWorker::Logged { number, written }
        }
        Body::ReadOutput(order) => ToWorker::ReadOutput(Wire::from_wire(order)?),
        Body::DropRead(number) => ToWorker::DropRead { number },
        Body::FreeObjects(objects) => ToWorker::FreeObjects(list_from_wire(objects.objects)?),
        Body::TakeFile(form::TakeFile { object, file, is_dir }) => {
            let object = required("object that is a file", object)?;
            ToWorker::TakeFile { object, file: file_name(file)?, is_dir }
        }
        Body::BringObjects(bring) => ToWorker::BringObjects(list_from_wire(bring.sources)?),
        Body::Relay(ticket) => ToWorker::Relay { ticket },
        Body::GuardObjects(form::GuardObjects { guard, release }) => {
            ToWorker::GuardObjects { guard: list_from_wire(guard)?, release: list_from_wire(release)? }
        }
    })
}

/// The bytes of a message from a worker.
pub fn encode_from_worker(message: &FromWorker) -> Vec<u8> {
    use from_worker::Body;
    let body = match message {
        FromWorker::Hello(hello) => Body::Hello(hello.to_wire()),
        FromWorker::Report(report) => Body::Report(report.to_wire()),
        FromWorker::Heartbeat => Body::Heartbeat(form::Nothing {}),
        FromWorker::Notify { task, text } => {
            Body::Notify(form::TaskNotify { task: Some(task.to_wire()), text: text.clone(), instance: 0 })
        }
        FromWorker::Output(answer) => Body::Output(answer.to_wire()),
        FromWorker::Leaving { end } => Body::Leaving(end.to_wire()),
        FromWorker::Log(batch) => Body::Log(batch.to_wire()),
        FromWorker::Sampled { node, .. } => Body::Sampled(node.to_wire()),
    };
    let tasks = match message {
        FromWorker::Sampled { tasks, .. } => tasks.as_ref().map(|tasks| tasks.to_wire()),
        _ => None,
    };
    form::FromWorker { body: Some(body), tasks }.encode_to_vec()
}

/// The message from a worker in `bytes`.
///
/// # Errors
/// When they are none, or say something that cannot be.
pub fn decode_from_worker(bytes: &[u8]) -> Result<FromWorker, ProtoError> {
    use from_worker::Body;
    let message: form::FromWorker = decode("message from a worker", bytes)?;
    Ok(match message.body.ok_or_else(|| no_kind("message from a worker", bytes, 1..7))? {
        Body::Hello(hello) => FromWorker::Hello(Box::new(WorkerHello::from_wire(hello)?)),
        Body::Report(report) => FromWorker::Report(Report::from_wire(report)?),
        Body::Heartbeat(_) => FromWorker::Heartbeat,
        Body::Notify(notify) => {
            FromWorker::Notify { task: required("task of a notification", notify.task)?, text: notify.text }
        }
        Body::Output(answer) => FromWorker::Output(Wire::from_wire(answer)?),
        Body::Leaving(end) => FromWorker::Leaving { end: WorkerEnd::from_wire(end)? },
        Body::Log(batch) => FromWorker::Log(Box::new(LogBatch::from_wire(batch)?)),
        Body::Sampled(sample) => FromWorker::Sampled {
            node: Box::new(NodeSample::from_wire(sample)?),
            tasks: message.tasks.map(|tasks| TasksSample::from_wire(tasks).map(Box::new)).transpose()?,
        },
    })
}

impl Wire for Welcome {
    type Form = form::Welcome;

    fn to_wire(&self) -> form::Welcome {
        form::Welcome {
            worker: self.worker.0,
            epoch: self.epoch.0,
            server_uid: self.server_uid.clone(),
            idle_timeout_ns: self.idle_timeout.map(nanos),
            hears: self.hears,
        }
    }

    fn from_wire(welcome: form::Welcome) -> Result<Welcome, ProtoError> {
        Ok(Welcome {
            worker: WorkerId(welcome.worker),
            epoch: Epoch(welcome.epoch),
            server_uid: name("server uid", welcome.server_uid)?,
            idle_timeout: welcome.idle_timeout_ns.map(Duration::from_nanos),
            hears: welcome.hears,
        })
    }
}

impl Wire for RunBatch {
    type Form = form::RunBatch;

    fn to_wire(&self) -> form::RunBatch {
        let content = self.content.as_ref().map(|template| form::Template {
            spec: Some(template.spec.to_wire()),
            submit_dir: template.submit_dir.clone(),
            submitted_us: template.submitted.0,
            has_siblings: template.has_siblings,
        });
        form::RunBatch {
            job: self.template.job.0,
            submit: self.template.submit,
            ids: idset::to_wire(&self.ids),
            instance: self.instance.0,
            content,
            entries: entries_to_wire(&self.entries),
            services: self.services.iter().map(variable_to_wire).collect(),
            nodes: list_to_wire(&self.nodes),
            after: self.after.map(|(task, _)| task.0),
            after_instance: self.after.map_or(0, |(_, instance)| instance.0),
            variant: self.variant,
            head_start_ms: u32::try_from(self.head_start.as_millis()).unwrap_or(u32::MAX),
            inputs: list_to_wire(&self.inputs),
            objects: list_to_wire(&self.objects),
        }
    }

    fn from_wire(batch: form::RunBatch) -> Result<RunBatch, ProtoError> {
        let id = TemplateId { job: JobId(batch.job), submit: batch.submit };
        let ids = idset::some_from_wire("ids of tasks to run", &batch.ids)?;
        let content = batch.content.map(|content| {
            let spec: TaskSpec = required("spec of a template", content.spec)?;
            let submitted = Timestamp(content.submitted_us);
            Ok(Template {
                id,
                spec: Arc::new(spec),
                submit_dir: content.submit_dir,
                submitted,
                has_siblings: content.has_siblings,
            })
        });
        rule("nodes of a task", batch.nodes.is_empty() || ids.len() == 1, "must be of one task")?;
        let after = batch.after.map(|task| (TaskId(task), Instance(batch.after_instance)));
        let follows = after.is_none_or(|(leader, _)| ids.len() == 1 && !ids.contains(leader));
        rule("task to follow", follows, "must be another one, of one task")?;
        let inputs: Vec<CallInput> = list_from_wire(batch.inputs)?;
        let in_order = inputs.is_sorted_by_key(|input| input.task);
        rule("inputs of calls", in_order, "must come in order of the calls")?;
        let objects: Vec<TaskObjects> = list_from_wire(batch.objects)?;
        let in_order = objects.is_sorted_by_key(|objects| objects.tasks.first());
        rule("objects of tasks", in_order, "must come in order of the tasks")?;
        Ok(RunBatch {
            objects,
            template: id,
            inputs,
            nodes: list_from_wire(batch.nodes)?,
            after,
            variant: batch.variant,
            head_start: Duration::from_millis(batch.head_start_ms.into()),
            content: content.transpose()?,
            instance: Instance(batch.instance),
            entries: entries_from_wire(batch.entries, ids.len())?,
            services: batch.services.into_iter().map(|said| (said.name, said.value)).collect(),
            ids,
        })
    }
}

impl Wire for CallInput {
    type Form = form::CallInput;

    fn to_wire(&self) -> form::CallInput {
        form::CallInput { task: self.task.0, of: Some(self.of.to_wire()), result: self.result.clone() }
    }

    fn from_wire(input: form::CallInput) -> Result<CallInput, ProtoError> {
        let of = required("task of an input", input.of)?;
        Ok(CallInput { task: TaskId(input.task), of, result: input.result })
    }
}

impl Wire for TaskNode {
    type Form = form::TaskNode;

    fn to_wire(&self) -> form::TaskNode {
        form::TaskNode {
            worker: self.worker.0,
            hostname: self.hostname.clone(),
            address: self.address.clone(),
        }
    }

    fn from_wire(node: form::TaskNode) -> Result<TaskNode, ProtoError> {
        Ok(TaskNode { worker: WorkerId(node.worker), hostname: node.hostname, address: node.address })
    }
}

impl Wire for WorkerHello {
    type Form = form::WorkerHello;

    fn to_wire(&self) -> form::WorkerHello {
        form::WorkerHello {
            config: Some(self.config.to_wire()),
            started_us: self.started.0,
            known_as: self.known_as.map(|worker| worker.0),
            secret: self.secret.map(secret_to_wire),
            holds: self.holds.iter().map(|held| held_to_wire(held, self.started)).collect(),
            last_report: self.last_report,
            follows: self.follows,
            follows_calls: self.follows_calls,
            shows: self.shows,
            stores: self.stores,
            relays: self.relays,
            objects: list_to_wire(&self.objects),
            age_ns: self.age.map(nanos),
        }
    }

    fn from_wire(hello: form::WorkerHello) -> Result<WorkerHello, ProtoError> {
        let started = Timestamp(hello.started_us);
        let holds = hello.holds.into_iter().map(|held| held_from_wire(held, started));
        Ok(WorkerHello {
            config: required("configuration of a worker", hello.config)?,
            started,
            age: hello.age_ns.map(Duration::from_nanos),
            known_as: hello.known_as.map(WorkerId),
            secret: hello.secret.map(secret_from_wire).transpose()?,
            holds: holds.collect::<Result<_, _>>()?,
            last_report: hello.last_report,
            follows: hello.follows,
            follows_calls: hello.follows_calls,
            shows: hello.shows,
            stores: hello.stores,
            relays: hello.relays,
            objects: list_from_wire(hello.objects)?,
        })
    }
}

pub(crate) fn secret_to_wire(secret: WorkerSecret) -> Vec<u8> {
    secret.0.to_vec()
}

pub(crate) fn secret_from_wire(bytes: Vec<u8>) -> Result<WorkerSecret, ProtoError> {
    let wrong = |_| ProtoError::Rule { field: "secret of a worker", rule: "has 32 bytes" };
    bytes.try_into().map(WorkerSecret).map_err(wrong)
}

fn held_to_wire(held: &Held, base: Timestamp) -> form::Held {
    form::Held {
        job: held.template.job.0,
        submit: held.template.submit,
        instance: held.instance.0,
        queued: idset::to_wire(&held.queued),
        running: idset::to_wire(&held.running),
        started_us: held.started.iter().map(|&time| relative(time, base)).collect(),
        variant: held.variant,
    }
}

fn held_from_wire(held: form::Held, base: Timestamp) -> Result<Held, ProtoError> {
    let running = idset::from_wire("ids of running tasks", &held.running)?;
    in_range("running tasks", running.len(), 0, HELD_RUNNING_MAX)?;
    count("start times of running tasks", held.started_us.len() as u64, running.len())?;
    Ok(Held {
        template: TemplateId { job: JobId(held.job), submit: held.submit },
        instance: Instance(held.instance),
        variant: held.variant,
        queued: idset::from_wire("ids of queued tasks", &held.queued)?,
        running,
        started: held.started_us.into_iter().map(|time| absolute(time, base)).collect(),
    })
}

impl Wire for Report {
    type Form = form::Report;

    fn to_wire(&self) -> form::Report {
        // Any time near the others makes them short.
        let first_started = self.started.first().map(|started| started.at);
        let first_finished = self.finished.first().map(|span| span.measures.base());
        let base = first_started.or(first_finished).unwrap_or_default();
        let failed = self.failed.iter().map(|(job, failure)| {
            let failure = form::Failure { worker: None, nodes: Vec::new(), ..failure.to_wire() };
            form::FailureOfJob { job: job.0, failure: Some(failure) }
        });
        form::Report {
            number: self.number,
            base_us: base.0,
            started: self.started.iter().map(|started| started_to_wire(started, base)).collect(),
            finished: self.finished.iter().map(|span| span_to_wire(span, base)).collect(),
            failed: failed.collect(),
            canceled: jobs_to_wire(&self.canceled),
            returned: jobs_to_wire(&self.returned),
            interrupted: jobs_to_wire(&self.interrupted),
            expired: jobs_to_wire(&self.expired),
            room: self.room,
            lends: self.lends.iter().map(lends_to_wire).collect(),
            objects: self.objects.as_ref().map(|news| news.to_wire()),
            words: list_to_wire(&self.words),
            is_leaving: self.is_leaving,
            is_draining: self.is_draining,
            trouble: self.trouble.clone(),
            output_waits: self.output_waits.clone(),
            internal_errors: self.internal_errors,
        }
    }

    fn from_wire(report: form::Report) -> Result<Report, ProtoError> {
        let base = Timestamp(report.base_us);
        let finished = report.finished.into_iter().map(|span| {
            rule("ids of finished tasks", !span.ids.is_empty(), "must not be empty")?;
            span_from_wire(span, base, None)
        });
        let failed = report.failed.into_iter().map(|failed| {
            let failure: Failure = required("failure", failed.failure)?;
            Ok((JobId(failed.job), Failure { worker: None, nodes: Vec::new(), ..failure }))
        });
        Ok(Report {
            number: report.number,
            started: report.started.iter().map(|started| started_from_wire(started, base)).collect(),
            finished: finished.collect::<Result<_, _>>()?,
            failed: failed.collect::<Result<_, ProtoError>>()?,
            canceled: jobs_from_wire(report.canceled)?,
            returned: jobs_from_wire(report.returned)?,
            interrupted: jobs_from_wire(report.interrupted)?,
            expired: jobs_from_wire(report.expired)?,
            room: report.room,
            lends: report.lends.iter().map(lends_from_wire).collect(),
            objects: report.objects.map(ObjectNews::from_wire).transpose()?.map(Box::new),
            words: list_from_wire(report.words)?,
            is_leaving: report.is_leaving,
            is_draining: report.is_draining,
            trouble: report.trouble,
            output_waits: report.output_waits,
            internal_errors: report.internal_errors,
        })
    }
}

impl Wire for TaskWords {
    type Form = form::TaskNotify;

    fn to_wire(&self) -> form::TaskNotify {
        form::TaskNotify {
            task: Some(self.task.to_wire()),
            text: self.text.clone(),
            instance: self.instance.0,
        }
    }

    fn from_wire(words: form::TaskNotify) -> Result<TaskWords, ProtoError> {
        let form::TaskNotify { task, text, instance } = words;
        Ok(TaskWords { task: required("task of a notification", task)?, instance: Instance(instance), text })
    }
}

fn lends_to_wire(lends: &Lends) -> form::Lends {
    let Lends { job, task, instance, is_lent } = *lends;
    form::Lends { job: job.0, task: task.0, instance: instance.0, is_lent }
}

fn lends_from_wire(lends: &form::Lends) -> Lends {
    let form::Lends { job, task, instance, is_lent } = *lends;
    Lends { job: JobId(job), task: TaskId(task), instance: Instance(instance), is_lent }
}

fn started_to_wire(started: &Started, base: Timestamp) -> form::Started {
    form::Started {
        job: started.job.0,
        task: started.task.0,
        instance: started.instance.0,
        at_us: relative(started.at, base),
        variant: started.variant,
    }
}

fn started_from_wire(started: &form::Started, base: Timestamp) -> Started {
    Started {
        job: JobId(started.job),
        task: TaskId(started.task),
        instance: Instance(started.instance),
        at: absolute(started.at_us, base),
        variant: started.variant,
    }
}

fn jobs_to_wire(jobs: &[(JobId, IdSet)]) -> Vec<form::TasksOfJob> {
    jobs.iter().map(|(job, ids)| tasks_to_wire(*job, ids)).collect()
}

fn jobs_from_wire(jobs: Vec<form::TasksOfJob>) -> Result<Vec<(JobId, IdSet)>, ProtoError> {
    jobs.into_iter().map(tasks_from_wire).collect()
}
