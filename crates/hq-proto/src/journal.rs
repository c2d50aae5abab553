//! Records of the journal.
//!
//! The frequent ones (handed out, finished) take a few bytes whatever the number of tasks; times
//! inside are relative to the record's own.

use std::sync::Arc;

use hq_core::record::{Record, RestartCause};
use hq_core::worker_messages::WorkerEnd;
use hq_model::worker::WorkerConfig;
use hq_model::{Epoch, Instance, JobId, JobSpec, TaskSpec, Timestamp, WorkerId};
use prost::Message;

use crate::ProtoError;
use crate::ended::{span_from_wire, span_to_wire};
use crate::error::present;
use crate::generated::{self as form, record::Kind, restarted::Cause};
use crate::idset;
use crate::job::{key_from_wire, key_to_wire};
use crate::task::{entries_from_wire, entries_to_wire};
use crate::wire::{Wire, decode, name, required, unknown_field};

/// The first field number of kinds that a release may skip when it does not know them.
const SKIPPABLE_FROM: u32 = 1000;
/// The field number after the last kind that this release knows.
const KINDS_END: u32 = 16;

/// The bytes of a record of time `at`.
pub fn encode_record(at: Timestamp, record: &Record) -> Vec<u8> {
    form::Record { at_us: at.0, kind: Some(kind_to_wire(at, record)) }.encode_to_vec()
}

/// The time and the record in `bytes`.
///
/// # Errors
/// When they are none; [`ProtoError::UnknownRecord`] when a later release wrote it.
pub fn decode_record(bytes: &[u8]) -> Result<(Timestamp, Record), ProtoError> {
    let record: form::Record = decode("record", bytes)?;
    let at = Timestamp(record.at_us);
    let Some(kind) = record.kind else {
        return Err(match unknown_field(bytes, |number| number < KINDS_END) {
            Some(number) => ProtoError::UnknownRecord { number, critical: number < SKIPPABLE_FROM },
            None => ProtoError::Missing { field: "kind of a record" },
        });
    };
    Ok((at, kind_from_wire(at, kind)?))
}

fn kind_to_wire(at: Timestamp, record: &Record) -> Kind {
    match record {
        Record::ServerStarted { epoch, uid } => {
            Kind::ServerStarted(form::ServerStarted { epoch: epoch.0, uid: uid.clone() })
        }
        Record::JobOpened { job, key, spec } => {
            let (key, spec) = (key_to_wire(*key), Some(spec.to_wire()));
            Kind::JobOpened(form::JobOpened { job: job.0, key, spec })
        }
        Record::Submitted { job, key, spec, ids, entries, task, submit_dir } => {
            Kind::Submitted(form::Submitted {
                job: job.0,
                key: key_to_wire(*key),
                spec: spec.as_ref().map(Wire::to_wire),
                ids: idset::to_wire(ids),
                entries: entries_to_wire(entries),
                task: Some(task.to_wire()),
                submit_dir: submit_dir.clone(),
            })
        }
        Record::JobClosed { job } => Kind::JobClosed(job.0),
        Record::JobForgotten { job } => Kind::JobForgotten(job.0),
        Record::Leased { worker, job, ids } => {
            Kind::Leased(form::Leased { worker: worker.0, job: job.0, ids: idset::to_wire(ids) })
        }
        Record::Returned { worker, job, ids } => {
            Kind::Returned(form::Returned { worker: worker.0, job: job.0, ids: idset::to_wire(ids) })
        }
        Record::Restarted { job, ids, instance, cause } => Kind::Restarted(form::Restarted {
            job: job.0,
            ids: idset::to_wire(ids),
            instance: instance.0,
            cause: Some(cause_to_wire(cause)),
        }),
        Record::Finished { worker, span } => {
            Kind::Finished(form::Finished { worker: worker.0, span: Some(span_to_wire(span, at)) })
        }
        Record::Failed { job, failure } => {
            Kind::Failed(form::Failed { job: job.0, failure: Some(failure.to_wire()) })
        }
        Record::Canceled { job, ids, reason } => {
            let (ids, reason) = (idset::to_wire(ids), reason.clone());
            Kind::Canceled(form::TasksCanceled { job: job.0, ids, reason })
        }
        Record::Aborted { job, ids, reason } => {
            let (ids, reason) = (idset::to_wire(ids), reason.clone());
            Kind::Aborted(form::TasksAborted { job: job.0, ids, reason })
        }
        Record::WorkerJoined { worker, config } => {
            Kind::WorkerJoined(form::WorkerJoined { worker: worker.0, config: Some(config.to_wire()) })
        }
        Record::WorkerEnded { worker, end } => {
            Kind::WorkerEnded(form::WorkerEnded { worker: worker.0, end: end.to_wire() })
        }
    }
}

fn kind_from_wire(at: Timestamp, kind: Kind) -> Result<Record, ProtoError> {
    Ok(match kind {
        Kind::ServerStarted(started) => {
            Record::ServerStarted { epoch: Epoch(started.epoch), uid: name("server uid", started.uid)? }
        }
        Kind::JobOpened(opened) => Record::JobOpened {
            job: JobId(opened.job),
            key: key_from_wire(&opened.key)?,
            spec: required("spec of a job", opened.spec)?,
        },
        Kind::Submitted(submitted) => submitted_from_wire(submitted)?,
        Kind::JobClosed(job) => Record::JobClosed { job: JobId(job) },
        Kind::JobForgotten(job) => Record::JobForgotten { job: JobId(job) },
        Kind::Leased(leased) => Record::Leased {
            worker: WorkerId(leased.worker),
            job: JobId(leased.job),
            ids: idset::from_wire("ids of leased tasks", &leased.ids)?,
        },
        Kind::Returned(returned) => Record::Returned {
            worker: WorkerId(returned.worker),
            job: JobId(returned.job),
            ids: idset::from_wire("ids of returned tasks", &returned.ids)?,
        },
        Kind::Restarted(restarted) => Record::Restarted {
            job: JobId(restarted.job),
            ids: idset::from_wire("ids of restarted tasks", &restarted.ids)?,
            instance: Instance(restarted.instance),
            cause: cause_from_wire(present("cause of a restart", restarted.cause)?),
        },
        Kind::Finished(finished) => Record::Finished {
            worker: WorkerId(finished.worker),
            span: span_from_wire(present("finished tasks", finished.span)?, at)?,
        },
        Kind::Failed(failed) => {
            Record::Failed { job: JobId(failed.job), failure: required("failure", failed.failure)? }
        }
        Kind::Canceled(canceled) => Record::Canceled {
            job: JobId(canceled.job),
            ids: idset::from_wire("ids of canceled tasks", &canceled.ids)?,
            reason: canceled.reason,
        },
        Kind::Aborted(aborted) => Record::Aborted {
            job: JobId(aborted.job),
            ids: idset::from_wire("ids of aborted tasks", &aborted.ids)?,
            reason: aborted.reason,
        },
        Kind::WorkerJoined(joined) => {
            let config: WorkerConfig = required("configuration of a worker", joined.config)?;
            Record::WorkerJoined { worker: WorkerId(joined.worker), config: Box::new(config) }
        }
        Kind::WorkerEnded(ended) => {
            Record::WorkerEnded { worker: WorkerId(ended.worker), end: WorkerEnd::from_wire(ended.end)? }
        }
    })
}

fn submitted_from_wire(submitted: form::Submitted) -> Result<Record, ProtoError> {
    let ids = idset::from_wire("ids of submitted tasks", &submitted.ids)?;
    let task: TaskSpec = required("spec of submitted tasks", submitted.task)?;
    Ok(Record::Submitted {
        job: JobId(submitted.job),
        key: key_from_wire(&submitted.key)?,
        spec: submitted.spec.map(JobSpec::from_wire).transpose()?,
        entries: entries_from_wire(submitted.entries, ids.len())?,
        ids,
        task: Arc::new(task),
        submit_dir: submitted.submit_dir,
    })
}

fn cause_to_wire(cause: &RestartCause) -> Cause {
    match cause {
        RestartCause::Crash => Cause::Crash(form::Nothing {}),
        RestartCause::Left => Cause::Left(form::Nothing {}),
        RestartCause::Retry { not_before } => Cause::RetryNotBeforeUs(not_before.0),
    }
}

fn cause_from_wire(cause: Cause) -> RestartCause {
    match cause {
        Cause::Crash(_) => RestartCause::Crash,
        Cause::Left(_) => RestartCause::Left,
        Cause::RetryNotBeforeUs(time) => RestartCause::Retry { not_before: Timestamp(time) },
    }
}
