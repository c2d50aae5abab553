//! Why tasks do not run, on the wire.

use std::time::Duration;

use hq_core::explanation::{
    JobExplanation, Lack, Reason, ReasonKind, TaskExplanation, TaskGroup, WorkerMatch,
};
use hq_model::{Amount, JobId, JobState, QueueId, ResourceRequest, TaskState, Timestamp, WorkerId};

use crate::ProtoError;
use crate::error::present;
use crate::generated::{self as form, lack::Kind};
use crate::idset;
use crate::wire::{Wire, list_from_wire, list_to_wire, nanos, required};

impl Wire for TaskExplanation {
    type Form = form::Explained;

    fn to_wire(&self) -> form::Explained {
        form::Explained {
            task: Some(self.task.to_wire()),
            state: self.state.to_wire(),
            reasons: list_to_wire(&self.reasons),
            dependencies: self.dependencies,
            unresolved: self.unresolved,
            workers: list_to_wire(&self.workers),
        }
    }

    fn from_wire(explained: form::Explained) -> Result<TaskExplanation, ProtoError> {
        Ok(TaskExplanation {
            task: required("task that is explained", explained.task)?,
            state: TaskState::from_wire(explained.state)?,
            dependencies: explained.dependencies,
            unresolved: explained.unresolved,
            reasons: list_from_wire(explained.reasons)?,
            workers: list_from_wire(explained.workers)?,
        })
    }
}

impl Wire for JobExplanation {
    type Form = form::JobExplanation;

    fn to_wire(&self) -> form::JobExplanation {
        form::JobExplanation {
            job: self.job.0,
            state: self.state.to_wire(),
            groups: list_to_wire(&self.groups),
            others: self.others,
            reasons: list_to_wire(&self.reasons),
        }
    }

    fn from_wire(job: form::JobExplanation) -> Result<JobExplanation, ProtoError> {
        Ok(JobExplanation {
            job: JobId(job.job),
            state: JobState::from_wire(job.state)?,
            groups: list_from_wire(job.groups)?,
            others: job.others,
            reasons: list_from_wire(job.reasons)?,
        })
    }
}

impl Wire for TaskGroup {
    type Form = form::TaskGroup;

    fn to_wire(&self) -> form::TaskGroup {
        form::TaskGroup { ids: idset::to_wire(&self.ids), reasons: list_to_wire(&self.reasons) }
    }

    fn from_wire(group: form::TaskGroup) -> Result<TaskGroup, ProtoError> {
        Ok(TaskGroup {
            ids: idset::from_wire("tasks that wait for the same", &group.ids)?,
            reasons: list_from_wire(group.reasons)?,
        })
    }
}

impl Wire for Reason {
    type Form = form::Reason;

    fn to_wire(&self) -> form::Reason {
        form::Reason {
            worker: self.worker.map(|worker| worker.0),
            text: self.text.clone(),
            kind: self.kind.word().into(),
            queue: self.queue.map(|queue| queue.0),
            until_us: self.until.map(|until| until.0),
        }
    }

    fn from_wire(reason: form::Reason) -> Result<Reason, ProtoError> {
        Ok(Reason {
            kind: ReasonKind::of_word(&reason.kind),
            worker: reason.worker.map(WorkerId),
            queue: reason.queue.map(QueueId),
            until: reason.until_us.map(Timestamp),
            text: reason.text,
        })
    }
}

impl Wire for WorkerMatch {
    type Form = form::WorkerMatch;

    fn to_wire(&self) -> form::WorkerMatch {
        let lacks = |lacks: &Vec<Lack>| form::Lacks { lacks: list_to_wire(lacks) };
        form::WorkerMatch { worker: self.worker.0, variants: self.variants.iter().map(lacks).collect() }
    }

    fn from_wire(of: form::WorkerMatch) -> Result<WorkerMatch, ProtoError> {
        let variants = of.variants.into_iter().map(|variant| list_from_wire(variant.lacks));
        Ok(WorkerMatch { worker: WorkerId(of.worker), variants: variants.collect::<Result<_, _>>()? })
    }
}

impl Wire for Lack {
    type Form = form::Lack;

    fn to_wire(&self) -> form::Lack {
        let kind = match self {
            Lack::Resource { name, request, has } => {
                let request = ResourceRequest { name: name.clone(), amount: *request };
                Kind::Resource(form::LackedResource { request: Some(request.to_wire()), has: has.0 })
            }
            Lack::Time { request, left } => {
                Kind::Time(form::LackedTime { request_ns: nanos(*request), left_ns: nanos(*left) })
            }
            Lack::Group { nodes, size } => Kind::Group(form::LackedNodes { nodes: *nodes, size: *size }),
        };
        form::Lack { kind: Some(kind) }
    }

    fn from_wire(lack: form::Lack) -> Result<Lack, ProtoError> {
        Ok(match present("what a worker lacks", lack.kind)? {
            Kind::Resource(resource) => {
                let request: ResourceRequest = required("resource that a worker lacks", resource.request)?;
                Lack::Resource { name: request.name, request: request.amount, has: Amount(resource.has) }
            }
            Kind::Time(time) => Lack::Time {
                request: Duration::from_nanos(time.request_ns),
                left: Duration::from_nanos(time.left_ns),
            },
            Kind::Group(group) => Lack::Group { nodes: group.nodes, size: group.size },
        })
    }
}
