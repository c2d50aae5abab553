//! How attempts ended that did not end their tasks.

use hq_core::attempt::{AttemptEnd, PastAttempt};
use hq_model::{Instance, TaskId, Timestamp, WorkerId};

use crate::ProtoError;
use crate::error::present;
use crate::generated::{self as form, attempt_end::End};
use crate::wire::{Wire, required};

impl Wire for PastAttempt {
    type Form = form::PastAttempt;

    fn to_wire(&self) -> form::PastAttempt {
        form::PastAttempt {
            task: self.task.0,
            instance: self.instance.0,
            worker: self.worker.map(|worker| worker.0),
            nodes: self.nodes.iter().map(|worker| worker.0).collect(),
            started_us: self.started.map(|time| time.0),
            ended_us: self.ended.0,
            end: Some(self.end.to_wire()),
            error: self.error.clone(),
        }
    }

    fn from_wire(attempt: form::PastAttempt) -> Result<PastAttempt, ProtoError> {
        Ok(PastAttempt {
            task: TaskId(attempt.task),
            instance: Instance(attempt.instance),
            worker: attempt.worker.map(WorkerId),
            nodes: attempt.nodes.into_iter().map(WorkerId).collect(),
            started: attempt.started_us.map(Timestamp),
            ended: Timestamp(attempt.ended_us),
            end: required("end of an attempt", attempt.end)?,
            error: attempt.error,
        })
    }
}

impl Wire for AttemptEnd {
    type Form = form::AttemptEnd;

    fn to_wire(&self) -> form::AttemptEnd {
        let nothing = form::Nothing {};
        let end = match *self {
            AttemptEnd::Failed(kind) => End::Failed(kind.to_wire()),
            AttemptEnd::WorkerLost => End::WorkerLost(nothing),
            AttemptEnd::WorkerLeft => End::WorkerLeft(nothing),
            AttemptEnd::Walltime => End::Walltime(nothing),
            AttemptEnd::Objects => End::Objects(nothing),
            AttemptEnd::PutBack => End::PutBack(nothing),
            AttemptEnd::Superseded => End::Superseded(nothing),
            AttemptEnd::EndedEarly => End::EndedEarly(nothing),
        };
        form::AttemptEnd { end: Some(end) }
    }

    fn from_wire(end: form::AttemptEnd) -> Result<AttemptEnd, ProtoError> {
        Ok(match present("end of an attempt", end.end)? {
            End::Failed(kind) => AttemptEnd::Failed(Wire::from_wire(kind)?),
            End::WorkerLost(_) => AttemptEnd::WorkerLost,
            End::WorkerLeft(_) => AttemptEnd::WorkerLeft,
            End::Walltime(_) => AttemptEnd::Walltime,
            End::Objects(_) => AttemptEnd::Objects,
            End::PutBack(_) => AttemptEnd::PutBack,
            End::Superseded(_) => AttemptEnd::Superseded,
            End::EndedEarly(_) => AttemptEnd::EndedEarly,
        })
    }
}
