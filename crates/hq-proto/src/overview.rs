//! Everything in counts, and which events a client wants, on the wire.

use hq_core::client_messages::{EventFilter, EventKind, Overview, Relayed};
use hq_core::overview::{Ended, NodesLoad, ResourceUse, ServerProcess, WorkerCounts};
use hq_model::{Amount, Epoch, IdSet, JobState, Timestamp};

use crate::ProtoError;
use crate::generated as form;
use crate::wire::{Wire, list_from_wire, list_to_wire, required, wire_enum};

wire_enum!(EventKind = EventKind, "kind of events": Server, Job, Task, Worker, Allocation);

/// The numbers of states and how many jobs are in each.
pub(crate) fn counts_to_wire(counts: &[(JobState, u64)]) -> Vec<form::JobCount> {
    counts.iter().map(|&(state, count)| form::JobCount { state: state.to_wire(), count }).collect()
}

/// States, and how many jobs are in each.
pub(crate) fn counts_from_wire(counts: Vec<form::JobCount>) -> Result<Vec<(JobState, u64)>, ProtoError> {
    counts.into_iter().map(|count| Ok((JobState::from_wire(count.state)?, count.count))).collect()
}

impl Wire for Overview {
    type Form = form::Overview;

    fn to_wire(&self) -> form::Overview {
        form::Overview {
            change: self.change,
            now_us: self.now.0,
            started_us: self.started.0,
            epoch: self.epoch.0,
            uid: self.uid.clone(),
            version: self.version.clone(),
            jobs: counts_to_wire(&self.jobs),
            tasks: Some(self.tasks.to_wire()),
            ready: self.ready,
            finished: self.ended.finished,
            failed: self.ended.failed,
            canceled: self.ended.canceled,
            aborted: self.ended.aborted,
            restarted: self.ended.restarted,
            workers_active: self.workers.active,
            workers_closed: self.workers.closed,
            workers_away: self.workers.away,
            workers_idle: self.workers.idle,
            resources: list_to_wire(&self.resources),
            memory_bytes: self.process.memory_bytes,
            journal_records: self.process.journal_records,
            journal_pending: self.process.journal_pending,
            journal_fails: self.process.journal_fails,
            relayed: Some(self.process.relayed.to_wire()),
            nodes: Some(self.nodes.to_wire()),
        }
    }

    fn from_wire(form: form::Overview) -> Result<Overview, ProtoError> {
        Ok(Overview {
            change: form.change,
            now: Timestamp(form.now_us),
            started: Timestamp(form.started_us),
            epoch: Epoch(form.epoch),
            uid: form.uid,
            version: form.version,
            jobs: counts_from_wire(form.jobs)?,
            tasks: required("counts of tasks", form.tasks)?,
            ready: form.ready,
            ended: Ended {
                finished: form.finished,
                failed: form.failed,
                canceled: form.canceled,
                aborted: form.aborted,
                restarted: form.restarted,
            },
            workers: WorkerCounts {
                active: form.workers_active,
                closed: form.workers_closed,
                away: form.workers_away,
                idle: form.workers_idle,
            },
            resources: list_from_wire(form.resources)?,
            nodes: form.nodes.map_or(Ok(NodesLoad::default()), NodesLoad::from_wire)?,
            process: ServerProcess {
                memory_bytes: form.memory_bytes,
                journal_records: form.journal_records,
                journal_pending: form.journal_pending,
                journal_fails: form.journal_fails,
                relayed: form.relayed.map(Relayed::from_wire).transpose()?.unwrap_or_default(),
            },
        })
    }
}

impl Wire for ResourceUse {
    type Form = form::ResourceUse;

    fn to_wire(&self) -> form::ResourceUse {
        form::ResourceUse { name: self.name.clone(), offered: self.offered.0, taken: self.taken.0 }
    }

    fn from_wire(form: form::ResourceUse) -> Result<ResourceUse, ProtoError> {
        Ok(ResourceUse { name: form.name, offered: Amount(form.offered), taken: Amount(form.taken) })
    }
}

/// A request for events.
pub(crate) fn events_to_wire(follow: bool, after: u64, filter: &EventFilter) -> form::FollowEvents {
    let jobs = filter.jobs.as_ref().map(Wire::to_wire);
    form::FollowEvents { follow, after, jobs, kinds: list_to_wire(&filter.kinds) }
}

/// What is wanted of events.
pub(crate) fn filter_from_wire(
    jobs: Option<form::IdSet>,
    kinds: Vec<i32>,
) -> Result<EventFilter, ProtoError> {
    Ok(EventFilter { jobs: jobs.map(IdSet::from_wire).transpose()?, kinds: list_from_wire(kinds)? })
}
