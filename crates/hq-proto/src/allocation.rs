//! Queues and allocations, in the journal and on the wire.

use std::sync::Arc;
use std::time::Duration;

use hq_core::alloc::decisions::Decision;
use hq_core::alloc::messages::{
    AllocRequest, AllocResponse, AllocationInfo, DemandLine, QueueExplanation, QueueInfo, QueueStatus,
};
use hq_core::alloc::state::Forgotten;
use hq_core::alloc::{AllocRecord, Allocation, QueueState, ShapeSource};
use hq_core::worker_messages::WorkerEnd;
use hq_model::allocation::{
    AllocationEnd, AllocationState, BatchState, Goal, NodeTime, PauseCause, QueueParams,
};
use hq_model::{AllocationRef, QueueId, Timestamp, WorkerId, WorkerResources};

use crate::ProtoError;
use crate::error::{in_range, model, present};
use crate::generated::{
    self as form, alloc_record::Kind, alloc_request::Body as Request, alloc_response::Body as Response,
    allocation_end::End, batch_state::State,
};
use crate::limits::RESOURCES_MAX;
use crate::resources::resources;
use crate::wire::{Wire, list_from_wire, list_to_wire, name, nanos, required, wire_enum};

wire_enum!(AllocationState = AllocationState, "state of an allocation": Queued, Running, Finished, Failed);
wire_enum!(ShapeSource = ShapeSource, "source of a shape": Worker, Manager);

const NOTHING: form::Nothing = form::Nothing {};

impl Wire for AllocationRef {
    type Form = form::AllocationRef;

    fn to_wire(&self) -> form::AllocationRef {
        form::AllocationRef { queue: self.queue.0, number: self.number }
    }

    fn from_wire(which: form::AllocationRef) -> Result<AllocationRef, ProtoError> {
        Ok(AllocationRef::new(QueueId(which.queue), which.number))
    }
}

impl Wire for QueueParams {
    type Form = form::QueueParams;

    fn to_wire(&self) -> form::QueueParams {
        form::QueueParams {
            name: self.name.clone(),
            manager: self.manager.clone(),
            backlog: self.backlog,
            max_workers_per_alloc: self.max_workers_per_alloc,
            max_worker_count: self.max_worker_count,
            time_limit_ns: nanos(self.time_limit),
            manager_args: self.manager_args.clone(),
            worker_args: self.worker_args.clone(),
            resources: list_to_wire(&self.resources),
            resources_are_all: self.resources_are_all,
            min_utilization: self.min_utilization,
            worker_time_limit_ns: self.worker_time_limit.map(nanos),
            idle_timeout_ns: self.idle_timeout.map(nanos),
            start_command: self.start_command.clone(),
            stop_command: self.stop_command.clone(),
            wrap_command: self.wrap_command.clone(),
            chain: self.chain,
            keep_waiting: self.keep_waiting,
            for_any_task: self.for_any_task,
            saves_node_hours: self.goal == Goal::NodeHours,
            budget_ns: self.budget.map(nanos),
        }
    }

    // What makes a queue sensible is checked by the core, which has words for it.
    fn from_wire(params: form::QueueParams) -> Result<QueueParams, ProtoError> {
        in_range("minimal utilization", u64::from(params.min_utilization), 0, hq_model::amount::UNITS)?;
        Ok(QueueParams {
            name: params.name.map(|text| name("name of a queue", text)).transpose()?,
            manager: name("batch system", params.manager)?,
            backlog: params.backlog,
            max_workers_per_alloc: params.max_workers_per_alloc,
            max_worker_count: params.max_worker_count,
            time_limit: Duration::from_nanos(params.time_limit_ns),
            manager_args: params.manager_args,
            worker_args: params.worker_args,
            resources: resources(params.resources, Vec::new())?.pools,
            resources_are_all: params.resources_are_all,
            min_utilization: params.min_utilization,
            worker_time_limit: params.worker_time_limit_ns.map(Duration::from_nanos),
            idle_timeout: params.idle_timeout_ns.map(Duration::from_nanos),
            start_command: params.start_command,
            stop_command: params.stop_command,
            wrap_command: params.wrap_command,
            chain: params.chain,
            keep_waiting: params.keep_waiting,
            for_any_task: params.for_any_task,
            goal: if params.saves_node_hours { Goal::NodeHours } else { Goal::Makespan },
            budget: params.budget_ns.map(Duration::from_nanos),
        })
    }
}

// Parameters that were accepted once.
fn accepted(params: Option<form::QueueParams>) -> Result<QueueParams, ProtoError> {
    let params: QueueParams = required("parameters of a queue", params)?;
    model("parameters of a queue", params.check())?;
    Ok(params)
}

impl Wire for BatchState {
    type Form = form::BatchState;

    fn to_wire(&self) -> form::BatchState {
        let state = match self {
            BatchState::Queued => State::Queued(NOTHING),
            BatchState::Held => State::Held(NOTHING),
            BatchState::Running => State::Running(NOTHING),
            BatchState::Suspended => State::Suspended(NOTHING),
            BatchState::Finished => State::Finished(NOTHING),
            BatchState::Failed(text) => State::Failed(text.clone()),
            BatchState::Canceled => State::Canceled(NOTHING),
            BatchState::TimedOut => State::TimedOut(NOTHING),
            BatchState::Preempted => State::Preempted(NOTHING),
            BatchState::NodeFailed => State::NodeFailed(NOTHING),
            BatchState::OutOfMemory => State::OutOfMemory(NOTHING),
            BatchState::Unknown(text) => State::Unknown(text.clone()),
        };
        form::BatchState { state: Some(state) }
    }

    fn from_wire(state: form::BatchState) -> Result<BatchState, ProtoError> {
        Ok(match present("state of a batch job", state.state)? {
            State::Queued(_) => BatchState::Queued,
            State::Held(_) => BatchState::Held,
            State::Running(_) => BatchState::Running,
            State::Suspended(_) => BatchState::Suspended,
            State::Finished(_) => BatchState::Finished,
            State::Failed(text) => BatchState::Failed(text),
            State::Canceled(_) => BatchState::Canceled,
            State::TimedOut(_) => BatchState::TimedOut,
            State::Preempted(_) => BatchState::Preempted,
            State::NodeFailed(_) => BatchState::NodeFailed,
            State::OutOfMemory(_) => BatchState::OutOfMemory,
            State::Unknown(text) => BatchState::Unknown(text),
        })
    }
}

impl Wire for AllocationEnd {
    type Form = form::AllocationEnd;

    fn to_wire(&self) -> form::AllocationEnd {
        let end = match self {
            AllocationEnd::Finished => End::Finished(NOTHING),
            AllocationEnd::TimedOut => End::TimedOut(NOTHING),
            AllocationEnd::Canceled => End::Canceled(NOTHING),
            AllocationEnd::Preempted => End::Preempted(NOTHING),
            AllocationEnd::NodeFailed => End::NodeFailed(NOTHING),
            AllocationEnd::OutOfMemory => End::OutOfMemory(NOTHING),
            AllocationEnd::Failed(text) => End::Failed(text.clone()),
            AllocationEnd::WorkersLost => End::WorkersLost(NOTHING),
            AllocationEnd::Refused(text) => End::Refused(text.clone()),
            AllocationEnd::Vanished(text) => End::Vanished(text.clone()),
        };
        form::AllocationEnd { end: Some(end) }
    }

    fn from_wire(end: form::AllocationEnd) -> Result<AllocationEnd, ProtoError> {
        Ok(match present("end of an allocation", end.end)? {
            End::Finished(_) => AllocationEnd::Finished,
            End::TimedOut(_) => AllocationEnd::TimedOut,
            End::Canceled(_) => AllocationEnd::Canceled,
            End::Preempted(_) => AllocationEnd::Preempted,
            End::NodeFailed(_) => AllocationEnd::NodeFailed,
            End::OutOfMemory(_) => AllocationEnd::OutOfMemory,
            End::Failed(text) => AllocationEnd::Failed(text),
            End::WorkersLost(_) => AllocationEnd::WorkersLost,
            End::Refused(text) => AllocationEnd::Refused(text),
            End::Vanished(text) => AllocationEnd::Vanished(text),
        })
    }
}

impl Wire for PauseCause {
    type Form = form::PauseCause;

    fn to_wire(&self) -> form::PauseCause {
        let (submissions, allocations, last) = match self {
            PauseCause::User => (0, 0, ""),
            PauseCause::Submissions(count, last) => (*count, 0, last.as_str()),
            PauseCause::Allocations(count, last) => (0, *count, last.as_str()),
        };
        form::PauseCause { submissions, allocations, last: last.to_owned() }
    }

    fn from_wire(cause: form::PauseCause) -> Result<PauseCause, ProtoError> {
        Ok(match (cause.submissions, cause.allocations) {
            (0, 0) => PauseCause::User,
            (0, count) => PauseCause::Allocations(count, cause.last),
            (count, _) => PauseCause::Submissions(count, cause.last),
        })
    }
}

impl Wire for NodeTime {
    type Form = form::NodeTime;

    fn to_wire(&self) -> form::NodeTime {
        let NodeTime { asked_us, used_us, idle_us, lost_us } = *self;
        form::NodeTime { asked_us, used_us, idle_us, lost_us }
    }

    fn from_wire(time: form::NodeTime) -> Result<NodeTime, ProtoError> {
        let form::NodeTime { asked_us, used_us, idle_us, lost_us } = time;
        Ok(NodeTime { asked_us, used_us, idle_us, lost_us })
    }
}

type Shape = (WorkerResources, ShapeSource);

fn shape_to_wire(resources: &WorkerResources, source: ShapeSource) -> form::WorkerShape {
    form::WorkerShape {
        pools: list_to_wire(&resources.pools),
        coupling: list_to_wire(&resources.coupling),
        source: source.to_wire(),
    }
}

fn shape_from_wire(shape: form::WorkerShape) -> Result<Shape, ProtoError> {
    in_range("pools of a queue", shape.pools.len() as u64, 0, RESOURCES_MAX as u64)?;
    Ok((resources(shape.pools, shape.coupling)?, ShapeSource::from_wire(shape.source)?))
}

impl Wire for AllocRecord {
    type Form = form::AllocRecord;

    fn to_wire(&self) -> form::AllocRecord {
        let queue_record = |queue: &QueueId, params: &QueueParams| form::QueueRecord {
            queue: queue.0,
            params: Some(params.to_wire()),
            dry_run: false,
        };
        let kind = match self {
            AllocRecord::QueueAdded { queue, params } => Kind::QueueAdded(queue_record(queue, params)),
            AllocRecord::QueueEdited { queue, params } => Kind::QueueEdited(queue_record(queue, params)),
            AllocRecord::QueuePaused { queue, cause } => {
                Kind::QueuePaused(form::QueuePaused { queue: queue.0, cause: Some(cause.to_wire()) })
            }
            AllocRecord::QueueResumed { queue, is_trial } => {
                Kind::QueueResumed(form::QueueResumed { queue: queue.0, is_trial: *is_trial })
            }
            AllocRecord::QueueDrained { queue } => Kind::QueueDrained(queue.0),
            AllocRecord::QueueRemoved { queue } => Kind::QueueRemoved(queue.0),
            AllocRecord::ShapeLearned { queue, resources, source } => {
                Kind::ShapeLearned(form::ShapeLearned {
                    queue: queue.0,
                    shape: Some(shape_to_wire(resources, *source)),
                })
            }
            AllocRecord::Planned { allocation, workers, time_limit, directory, after } => {
                Kind::Planned(form::AllocationPlanned {
                    allocation: Some(allocation.to_wire()),
                    workers: *workers,
                    time_limit_ns: nanos(*time_limit),
                    directory: directory.clone(),
                    after: *after,
                })
            }
            AllocRecord::Submitted { allocation, batch_id } => Kind::Submitted(form::AllocationSubmitted {
                allocation: Some(allocation.to_wire()),
                batch_id: batch_id.clone(),
            }),
            AllocRecord::Measured { allocation, time } => Kind::Measured(form::AllocationMeasured {
                allocation: Some(allocation.to_wire()),
                time: Some(time.to_wire()),
            }),
            AllocRecord::Started { allocation } => Kind::Started(allocation.to_wire()),
            AllocRecord::Requeued { allocation } => Kind::Requeued(allocation.to_wire()),
            AllocRecord::Ended { allocation, end, time } => Kind::Ended(form::AllocationEnded {
                allocation: Some(allocation.to_wire()),
                end: Some(end.to_wire()),
                time: Some(time.to_wire()),
            }),
            AllocRecord::QueueIdGiven { queue } => Kind::QueueIdGiven(queue.0),
            AllocRecord::QueueKept { queue, state } => Kind::QueueKept(queue_to_wire(*queue, state)),
            AllocRecord::AllocationKept { allocation, state } => {
                Kind::AllocationKept(allocation_to_wire(*allocation, state))
            }
        };
        form::AllocRecord { kind: Some(kind) }
    }

    fn from_wire(record: form::AllocRecord) -> Result<AllocRecord, ProtoError> {
        let which = |allocation| required("allocation of a record", allocation);
        Ok(match present("kind of a record about allocations", record.kind)? {
            Kind::QueueAdded(record) => AllocRecord::QueueAdded {
                queue: QueueId(record.queue),
                params: Box::new(accepted(record.params)?),
            },
            Kind::QueueEdited(record) => AllocRecord::QueueEdited {
                queue: QueueId(record.queue),
                params: Box::new(accepted(record.params)?),
            },
            Kind::QueuePaused(paused) => AllocRecord::QueuePaused {
                queue: QueueId(paused.queue),
                cause: required("cause of a pause", paused.cause)?,
            },
            Kind::QueueResumed(resumed) => {
                AllocRecord::QueueResumed { queue: QueueId(resumed.queue), is_trial: resumed.is_trial }
            }
            Kind::QueueDrained(queue) => AllocRecord::QueueDrained { queue: QueueId(queue) },
            Kind::QueueRemoved(queue) => AllocRecord::QueueRemoved { queue: QueueId(queue) },
            Kind::ShapeLearned(learned) => {
                let (resources, source) = shape_from_wire(present("shape", learned.shape)?)?;
                let resources = Box::new(resources);
                AllocRecord::ShapeLearned { queue: QueueId(learned.queue), resources, source }
            }
            Kind::Planned(planned) => AllocRecord::Planned {
                allocation: which(planned.allocation)?,
                workers: planned.workers,
                time_limit: Duration::from_nanos(planned.time_limit_ns),
                directory: planned.directory,
                after: planned.after,
            },
            Kind::Submitted(submitted) => AllocRecord::Submitted {
                allocation: which(submitted.allocation)?,
                batch_id: name("id in the batch system", submitted.batch_id)?,
            },
            Kind::Measured(measured) => AllocRecord::Measured {
                allocation: which(measured.allocation)?,
                time: required("node time of an allocation", measured.time)?,
            },
            Kind::Started(allocation) => AllocRecord::Started { allocation: Wire::from_wire(allocation)? },
            Kind::Requeued(allocation) => AllocRecord::Requeued { allocation: Wire::from_wire(allocation)? },
            Kind::Ended(ended) => AllocRecord::Ended {
                allocation: which(ended.allocation)?,
                end: required("end of an allocation", ended.end)?,
                time: required("node time of an allocation", ended.time)?,
            },
            Kind::QueueIdGiven(queue) => AllocRecord::QueueIdGiven { queue: QueueId(queue) },
            Kind::QueueKept(kept) => {
                let queue = QueueId(kept.queue);
                AllocRecord::QueueKept { queue, state: Box::new(queue_from_wire(kept)?) }
            }
            Kind::AllocationKept(kept) => {
                let (allocation, state) = allocation_from_wire(kept)?;
                AllocRecord::AllocationKept { allocation, state: Box::new(state) }
            }
        })
    }
}

fn queue_to_wire(id: QueueId, queue: &QueueState) -> form::QueueKept {
    form::QueueKept {
        queue: id.0,
        params: Some(queue.params.to_wire()),
        added_us: queue.added.0,
        paused: queue.paused.as_ref().map(|(_, cause)| cause.to_wire()),
        paused_us: queue.paused.as_ref().map_or(0, |(at, _)| at.0),
        is_draining: queue.is_draining,
        is_removed: queue.is_removed,
        known: queue.known.as_ref().map(|(resources, source)| shape_to_wire(resources, *source)),
        last_number: queue.last_number,
        submit_failures: queue.submit_failures,
        allocation_failures: queue.allocation_failures,
        last_failure_us: queue.last_failure.0,
        forgotten_finished: queue.forgotten.finished,
        forgotten_failed: queue.forgotten.failed,
        forgotten_time: Some(queue.forgotten.time.to_wire()),
    }
}

fn queue_from_wire(kept: form::QueueKept) -> Result<QueueState, ProtoError> {
    let paused = kept.paused.map(|cause| Ok((Timestamp(kept.paused_us), PauseCause::from_wire(cause)?)));
    Ok(QueueState {
        params: Arc::new(accepted(kept.params)?),
        added: Timestamp(kept.added_us),
        paused: paused.transpose()?,
        is_draining: kept.is_draining,
        is_removed: kept.is_removed,
        known: kept.known.map(shape_from_wire).transpose()?,
        last_number: kept.last_number,
        submit_failures: kept.submit_failures,
        allocation_failures: kept.allocation_failures,
        last_failure: Timestamp(kept.last_failure_us),
        forgotten: Forgotten {
            finished: kept.forgotten_finished,
            failed: kept.forgotten_failed,
            time: required("node time of a queue", kept.forgotten_time)?,
        },
        allocations: Default::default(),
    })
}

fn allocation_to_wire(which: AllocationRef, one: &Allocation) -> form::AllocationKept {
    form::AllocationKept {
        allocation: Some(which.to_wire()),
        workers: one.workers,
        time_limit_ns: nanos(one.time_limit),
        directory: one.directory.clone(),
        after: one.after,
        planned_us: one.planned.0,
        batch_id: one.batch_id.clone(),
        queued_us: one.queued.map(|at| at.0),
        started_us: one.started.map(|at| at.0),
        end: one.ended.as_ref().map(|(_, end)| end.to_wire()),
        ended_us: one.ended.as_ref().map_or(0, |(at, _)| at.0),
        joined: one.joined,
        lost: one.lost,
        connected: one.connected.iter().map(|worker| worker.0).collect(),
        last_left_us: one.last_left.map(|(at, _)| at.0),
        last_end: one.last_left.map_or(0, |(_, end)| end.to_wire()),
        time: Some(one.time.to_wire()),
        measured_us: one.measured.map(|at| at.0),
    }
}

fn allocation_from_wire(kept: form::AllocationKept) -> Result<(AllocationRef, Allocation), ProtoError> {
    let ended = kept.end.map(|end| Ok((Timestamp(kept.ended_us), AllocationEnd::from_wire(end)?)));
    let last_left = kept.last_left_us.map(|at| Ok((Timestamp(at), WorkerEnd::from_wire(kept.last_end)?)));
    let one = Allocation {
        workers: kept.workers,
        time_limit: Duration::from_nanos(kept.time_limit_ns),
        directory: kept.directory,
        after: kept.after,
        planned: Timestamp(kept.planned_us),
        batch_id: kept.batch_id.map(|id| name("id in the batch system", id)).transpose()?,
        queued: kept.queued_us.map(Timestamp),
        started: kept.started_us.map(Timestamp),
        ended: ended.transpose()?,
        joined: kept.joined,
        lost: kept.lost,
        connected: kept.connected.into_iter().map(WorkerId).collect(),
        last_left: last_left.transpose()?,
        time: required("node time of an allocation", kept.time)?,
        measured: kept.measured_us.map(Timestamp),
    };
    Ok((required("allocation", kept.allocation)?, one))
}

impl Wire for AllocRequest {
    type Form = form::AllocRequest;

    fn to_wire(&self) -> form::AllocRequest {
        let body = match self {
            AllocRequest::Add { params, dry_run } => {
                Request::Add(form::AddQueue { params: Some(params.to_wire()), dry_run: *dry_run })
            }
            AllocRequest::DryRun { params } => Request::DryRun(params.to_wire()),
            AllocRequest::List => Request::List(NOTHING),
            AllocRequest::Info { queue } => Request::Info(queue.0),
            AllocRequest::Find { id } => Request::Find(id.clone()),
            AllocRequest::Pause { queue } => Request::Pause(queue.0),
            AllocRequest::Resume { queue } => Request::Resume(queue.0),
            AllocRequest::Drain { queue } => Request::Drain(queue.0),
            AllocRequest::Remove { queue, force } => {
                Request::Remove(form::RemoveQueue { queue: queue.0, force: *force })
            }
            AllocRequest::Edit { queue, params, dry_run } => {
                let (params, dry_run) = (Some(params.to_wire()), *dry_run);
                Request::Edit(form::QueueRecord { queue: queue.0, params, dry_run })
            }
            AllocRequest::Explain { queue } => Request::Explain(queue.0),
        };
        form::AllocRequest { body: Some(body) }
    }

    fn from_wire(request: form::AllocRequest) -> Result<AllocRequest, ProtoError> {
        let params = |params| Ok::<_, ProtoError>(Box::new(required("parameters of a queue", params)?));
        Ok(match present("request about allocations", request.body)? {
            Request::Add(add) => AllocRequest::Add { params: params(add.params)?, dry_run: add.dry_run },
            Request::DryRun(form) => AllocRequest::DryRun { params: params(Some(form))? },
            Request::List(_) => AllocRequest::List,
            Request::Info(queue) => AllocRequest::Info { queue: QueueId(queue) },
            Request::Find(id) => AllocRequest::Find { id: name("id of an allocation", id)? },
            Request::Pause(queue) => AllocRequest::Pause { queue: QueueId(queue) },
            Request::Resume(queue) => AllocRequest::Resume { queue: QueueId(queue) },
            Request::Drain(queue) => AllocRequest::Drain { queue: QueueId(queue) },
            Request::Remove(remove) => {
                AllocRequest::Remove { queue: QueueId(remove.queue), force: remove.force }
            }
            Request::Edit(edit) => {
                let (queue, dry_run) = (QueueId(edit.queue), edit.dry_run);
                AllocRequest::Edit { queue, params: params(edit.params)?, dry_run }
            }
            Request::Explain(queue) => AllocRequest::Explain { queue: QueueId(queue) },
        })
    }
}

impl Wire for AllocResponse {
    type Form = form::AllocResponse;

    fn to_wire(&self) -> form::AllocResponse {
        let body = match self {
            AllocResponse::Added(queue) => Response::Added(queue.0),
            AllocResponse::Queues(queues) => {
                Response::Queues(form::QueueInfos { queues: list_to_wire(queues) })
            }
            AllocResponse::Details { queue, allocations } => Response::Details(form::QueueDetails {
                queue: Some(queue.to_wire()),
                allocations: list_to_wire(allocations),
            }),
            AllocResponse::Found(allocation) => Response::Found(allocation.to_wire()),
            AllocResponse::Explained(explanation) => Response::Explained(form::QueueExplanation {
                queue: Some(explanation.queue.to_wire()),
                next: explanation.next.clone(),
                facts: explanation.facts.clone(),
                demand: list_to_wire(&explanation.demand),
                decisions: list_to_wire(&explanation.decisions),
            }),
        };
        form::AllocResponse { body: Some(body) }
    }

    fn from_wire(response: form::AllocResponse) -> Result<AllocResponse, ProtoError> {
        Ok(match present("answer about allocations", response.body)? {
            Response::Added(queue) => AllocResponse::Added(QueueId(queue)),
            Response::Queues(list) => AllocResponse::Queues(list_from_wire(list.queues)?),
            Response::Details(details) => AllocResponse::Details {
                queue: Box::new(required("queue", details.queue)?),
                allocations: list_from_wire(details.allocations)?,
            },
            Response::Found(allocation) => AllocResponse::Found(Box::new(Wire::from_wire(allocation)?)),
            Response::Explained(explained) => AllocResponse::Explained(Box::new(QueueExplanation {
                queue: required("queue", explained.queue)?,
                next: explained.next,
                facts: explained.facts,
                demand: list_from_wire(explained.demand)?,
                decisions: list_from_wire(explained.decisions)?,
            })),
        })
    }
}

impl Wire for QueueInfo {
    type Form = form::QueueInfo;

    fn to_wire(&self) -> form::QueueInfo {
        let (paused, paused_us) = match &self.status {
            QueueStatus::Paused(at, why) => (Some(why.clone()), at.0),
            QueueStatus::Active | QueueStatus::Draining => (None, 0),
        };
        let [queued, running, finished, failed] = self.counts;
        form::QueueInfo {
            queue: self.queue.0,
            params: Some(self.params.to_wire()),
            paused,
            paused_us,
            is_draining: self.status == QueueStatus::Draining,
            added_us: self.added.0,
            known: self.known.as_ref().map(|(resources, source)| shape_to_wire(resources, *source)),
            queued,
            running,
            finished,
            failed,
            time: Some(self.time.to_wire()),
            over_budget: self.over_budget.clone(),
        }
    }

    fn from_wire(info: form::QueueInfo) -> Result<QueueInfo, ProtoError> {
        Ok(QueueInfo {
            queue: QueueId(info.queue),
            params: required("parameters of a queue", info.params)?,
            status: match (info.paused, info.is_draining) {
                (Some(why), _) => QueueStatus::Paused(Timestamp(info.paused_us), why),
                (None, true) => QueueStatus::Draining,
                (None, false) => QueueStatus::Active,
            },
            added: Timestamp(info.added_us),
            known: info.known.map(shape_from_wire).transpose()?,
            counts: [info.queued, info.running, info.finished, info.failed],
            time: required("node time of a queue", info.time)?,
            over_budget: info.over_budget,
        })
    }
}

impl Wire for AllocationInfo {
    type Form = form::AllocationInfo;

    fn to_wire(&self) -> form::AllocationInfo {
        form::AllocationInfo {
            allocation: Some(self.allocation.to_wire()),
            batch_id: self.batch_id.clone(),
            state: self.state.to_wire(),
            detail: self.detail.clone(),
            workers: self.workers,
            connected: self.connected.iter().map(|worker| worker.0).collect(),
            planned_us: self.planned.0,
            queued_us: self.queued.map(|at| at.0),
            started_us: self.started.map(|at| at.0),
            end: self.ended.as_ref().map(|(_, end)| end.to_wire()),
            ended_us: self.ended.as_ref().map_or(0, |(at, _)| at.0),
            seen: self.seen.as_ref().map(|(_, state)| state.to_wire()),
            seen_us: self.seen.as_ref().map_or(0, |(at, _)| at.0),
            directory: self.directory.clone(),
            after: self.after,
            time: Some(self.time.to_wire()),
        }
    }

    fn from_wire(info: form::AllocationInfo) -> Result<AllocationInfo, ProtoError> {
        let ended = info.end.map(|end| Ok((Timestamp(info.ended_us), AllocationEnd::from_wire(end)?)));
        let seen = info.seen.map(|state| Ok((Timestamp(info.seen_us), BatchState::from_wire(state)?)));
        Ok(AllocationInfo {
            allocation: required("allocation", info.allocation)?,
            batch_id: info.batch_id.map(|id| name("id in the batch system", id)).transpose()?,
            state: AllocationState::from_wire(info.state)?,
            detail: info.detail,
            workers: info.workers,
            connected: info.connected.into_iter().map(WorkerId).collect(),
            planned: Timestamp(info.planned_us),
            queued: info.queued_us.map(Timestamp),
            started: info.started_us.map(Timestamp),
            ended: ended.transpose()?,
            seen: seen.transpose()?,
            directory: info.directory,
            after: info.after,
            time: required("node time of an allocation", info.time)?,
        })
    }
}

impl Wire for DemandLine {
    type Form = form::DemandLine;

    fn to_wire(&self) -> form::DemandLine {
        form::DemandLine {
            request: self.request.clone(),
            priority: self.priority,
            waiting: self.waiting,
            coming: self.coming,
            new: self.new,
            elsewhere: self.elsewhere,
            why_not: self.why_not.clone(),
        }
    }

    fn from_wire(line: form::DemandLine) -> Result<DemandLine, ProtoError> {
        let form::DemandLine { request, priority, waiting, coming, new, elsewhere, why_not } = line;
        Ok(DemandLine { request, priority, waiting, coming, new, elsewhere, why_not })
    }
}

impl Wire for Decision {
    type Form = form::Decision;

    fn to_wire(&self) -> form::Decision {
        form::Decision {
            first_us: self.first.0,
            last_us: self.last.0,
            count: self.count,
            text: self.text.clone(),
        }
    }

    fn from_wire(decision: form::Decision) -> Result<Decision, ProtoError> {
        let form::Decision { first_us, last_us, count, text } = decision;
        Ok(Decision { first: Timestamp(first_us), last: Timestamp(last_us), count, text })
    }
}
