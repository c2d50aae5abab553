//! Generators of everything about queues and allocations.

use hq_core::alloc::decisions::Decision;
use hq_core::alloc::messages::{
    AllocRequest, AllocResponse, AllocationInfo, DemandLine, QueueExplanation, QueueInfo, QueueStatus,
};
use hq_core::alloc::state::Forgotten;
use hq_core::alloc::{AllocRecord, Allocation, QueueState, ShapeSource};
use hq_model::allocation::{
    AllocationEnd, AllocationState, BatchState, Goal, NodeTime, PauseCause, QueueParams,
};
use hq_model::{AllocationRef, QueueId};

use super::*;

/// Any queue.
fn queue() -> impl Strategy<Value = QueueId> {
    any::<u32>().prop_map(QueueId)
}

/// Any allocation.
pub(crate) fn allocation_ref() -> impl Strategy<Value = AllocationRef> {
    (queue(), any::<u32>()).prop_map(|(queue, number)| AllocationRef::new(queue, number))
}

/// Any parameters that a queue may have.
fn queue_params() -> impl Strategy<Value = QueueParams> {
    let words = (
        of("[a-z0-9][a-z.]{0,9}"),
        select(vec!["slurm", "pbs", "flux"]),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    );
    let counts = (1..=u32::MAX, 1..=u32::MAX, of(1..=u32::MAX), 0..=10_000_u32);
    let times = (1..1_000_000_u64, of(0..1_000_000_u64), of(duration()));
    let args = (vec("[ -~]{0,9}", 0..3), vec("[ -~]{0,9}", 0..3), of(text()), of(text()), of(text()));
    (words, counts, times, args, worker_resources()).prop_map(|(words, counts, times, args, resources)| {
        let (name, manager, resources_are_all, chain, keep_waiting) = words;
        let (backlog, max_workers_per_alloc, max_worker_count, min_utilization) = counts;
        let (limit, worker_limit, idle_timeout) = times;
        let (manager_args, worker_args, start_command, stop_command, wrap_command) = args;
        let bytes = |list: Vec<String>| list.into_iter().map(String::into_bytes).collect();
        QueueParams {
            name,
            manager: manager.into(),
            backlog,
            max_workers_per_alloc,
            max_worker_count,
            time_limit: Duration::from_secs(limit),
            manager_args: bytes(manager_args),
            worker_args: bytes(worker_args),
            resources: resources.pools,
            resources_are_all,
            min_utilization,
            worker_time_limit: worker_limit.map(|worker| Duration::from_secs(worker.min(limit))),
            idle_timeout,
            start_command,
            stop_command,
            wrap_command,
            chain,
            keep_waiting,
            for_any_task: backlog % 2 == 0,
            goal: if backlog % 3 == 0 { Goal::NodeHours } else { Goal::Makespan },
            budget: (backlog % 5 == 0).then(|| Duration::from_millis(u64::from(backlog))),
        }
    })
}

fn batch_state() -> impl Strategy<Value = BatchState> {
    use BatchState::*;
    let plain = vec![
        Queued,
        Held,
        Running,
        Suspended,
        Finished,
        Canceled,
        TimedOut,
        Preempted,
        NodeFailed,
        OutOfMemory,
    ];
    prop_oneof![select(plain), text().prop_map(Failed), text().prop_map(Unknown)]
}

fn allocation_end() -> impl Strategy<Value = AllocationEnd> {
    use AllocationEnd::*;
    let plain = vec![Finished, TimedOut, Canceled, Preempted, NodeFailed, OutOfMemory, WorkersLost];
    prop_oneof![select(plain), text().prop_map(Failed), text().prop_map(Refused), text().prop_map(Vanished)]
}

fn pause_cause() -> impl Strategy<Value = PauseCause> {
    prop_oneof![
        Just(PauseCause::User),
        (1..=u32::MAX, text()).prop_map(|(count, last)| PauseCause::Submissions(count, last)),
        (1..=u32::MAX, text()).prop_map(|(count, last)| PauseCause::Allocations(count, last)),
    ]
}

fn node_time() -> impl Strategy<Value = NodeTime> {
    any::<[u64; 4]>().prop_map(|[asked_us, used_us, idle_us, lost_us]| NodeTime {
        asked_us,
        used_us,
        idle_us,
        lost_us,
    })
}

fn known() -> impl Strategy<Value = Option<(WorkerResources, ShapeSource)>> {
    of((worker_resources(), select(vec![ShapeSource::Worker, ShapeSource::Manager])))
}

fn queue_state() -> impl Strategy<Value = QueueState> {
    let flags = (any::<bool>(), any::<bool>(), of((timestamp(), pause_cause())));
    let numbers = (any::<[u32; 3]>(), any::<[u64; 2]>(), node_time());
    (queue_params(), timestamp(), flags, known(), numbers, timestamp()).prop_map(
        |(params, added, (is_draining, is_removed, paused), known, (counts, done, time), last_failure)| {
            QueueState {
                paused,
                is_draining,
                is_removed,
                known,
                last_number: counts[0],
                submit_failures: counts[1],
                allocation_failures: counts[2],
                last_failure,
                forgotten: Forgotten { finished: done[0], failed: done[1], time },
                ..QueueState::new(params, added)
            }
        },
    )
}

fn allocation() -> impl Strategy<Value = Allocation> {
    let times = (timestamp(), of(timestamp()), of(timestamp()), of((timestamp(), allocation_end())));
    let workers = (any::<[u32; 3]>(), vec(worker(), 0..4), of((timestamp(), worker_end())));
    (duration(), byte_string(), of(any::<u32>()), of(text()), times, workers, node_time()).prop_map(
        |(time_limit, directory, after, batch_id, times, workers, time)| Allocation {
            workers: workers.0[0],
            time_limit,
            directory,
            after,
            planned: times.0,
            batch_id,
            queued: times.1,
            started: times.2,
            ended: times.3,
            joined: workers.0[1],
            lost: workers.0[2],
            connected: workers.1.into_iter().collect(),
            last_left: workers.2,
            time,
            measured: times.2,
        },
    )
}

/// Any record about queues and allocations.
pub(crate) fn alloc_record() -> impl Strategy<Value = AllocRecord> {
    use AllocRecord::*;
    let boxed = || queue_params().prop_map(Box::new);
    let learned = (queue(), worker_resources(), select(vec![ShapeSource::Worker, ShapeSource::Manager]));
    prop_oneof![
        (queue(), boxed()).prop_map(|(queue, params)| QueueAdded { queue, params }),
        (allocation_ref(), node_time()).prop_map(|(allocation, time)| Measured { allocation, time }),
        (queue(), boxed()).prop_map(|(queue, params)| QueueEdited { queue, params }),
        (queue(), pause_cause()).prop_map(|(queue, cause)| QueuePaused { queue, cause }),
        (queue(), any::<bool>()).prop_map(|(queue, is_trial)| QueueResumed { queue, is_trial }),
        queue().prop_map(|queue| QueueDrained { queue }),
        queue().prop_map(|queue| QueueRemoved { queue }),
        learned.prop_map(|(queue, resources, source)| ShapeLearned {
            queue,
            resources: Box::new(resources),
            source
        }),
        (allocation_ref(), any::<u32>(), duration(), byte_string(), of(any::<u32>())).prop_map(
            |(allocation, workers, time_limit, directory, after)| Planned {
                allocation,
                workers,
                time_limit,
                directory,
                after
            }
        ),
        (allocation_ref(), text()).prop_map(|(allocation, batch_id)| Submitted { allocation, batch_id }),
        allocation_ref().prop_map(|allocation| Started { allocation }),
        allocation_ref().prop_map(|allocation| Requeued { allocation }),
        (allocation_ref(), allocation_end(), node_time()).prop_map(|(allocation, end, time)| Ended {
            allocation,
            end,
            time
        }),
        queue().prop_map(|queue| QueueIdGiven { queue }),
        (queue(), queue_state()).prop_map(|(queue, state)| QueueKept { queue, state: Box::new(state) }),
        (allocation_ref(), allocation())
            .prop_map(|(allocation, state)| AllocationKept { allocation, state: Box::new(state) }),
    ]
}

/// Any request about queues and allocations.
pub(crate) fn alloc_request() -> impl Strategy<Value = AllocRequest> {
    use AllocRequest::*;
    let boxed = || queue_params().prop_map(Box::new);
    prop_oneof![
        (boxed(), any::<bool>()).prop_map(|(params, dry_run)| Add { params, dry_run }),
        boxed().prop_map(|params| DryRun { params }),
        Just(List),
        queue().prop_map(|queue| Info { queue }),
        text().prop_map(|id| Find { id }),
        queue().prop_map(|queue| Pause { queue }),
        queue().prop_map(|queue| Resume { queue }),
        queue().prop_map(|queue| Drain { queue }),
        (queue(), any::<bool>()).prop_map(|(queue, force)| Remove { queue, force }),
        (queue(), boxed(), any::<bool>()).prop_map(|(queue, params, dry_run)| Edit {
            queue,
            params,
            dry_run
        }),
        queue().prop_map(|queue| Explain { queue }),
    ]
}

fn queue_info() -> impl Strategy<Value = QueueInfo> {
    let status = prop_oneof![
        Just(QueueStatus::Active),
        Just(QueueStatus::Draining),
        (timestamp(), text()).prop_map(|(at, why)| QueueStatus::Paused(at, why)),
    ];
    let spent = (node_time(), of(text()));
    (queue(), queue_params(), status, timestamp(), known(), any::<[u64; 4]>(), spent).prop_map(
        |(queue, params, status, added, known, counts, (time, over_budget))| QueueInfo {
            queue,
            params,
            status,
            added,
            known,
            counts,
            time,
            over_budget,
        },
    )
}

fn allocation_info() -> impl Strategy<Value = AllocationInfo> {
    let state = select(AllocationState::ALL.to_vec());
    (allocation_ref(), allocation(), state, of(text()), of((timestamp(), batch_state()))).prop_map(
        |(allocation, one, state, detail, seen)| AllocationInfo {
            allocation,
            batch_id: one.batch_id,
            state,
            detail,
            workers: one.workers,
            connected: one.connected.into_iter().collect(),
            planned: one.planned,
            queued: one.queued,
            started: one.started,
            ended: one.ended,
            seen,
            directory: one.directory,
            after: one.after,
            time: one.time,
        },
    )
}

fn explanation() -> impl Strategy<Value = QueueExplanation> {
    let line = (text(), any::<i32>(), any::<[u64; 4]>(), of(text())).prop_map(
        |(request, priority, [waiting, coming, new, elsewhere], why_not)| DemandLine {
            request,
            priority,
            waiting,
            coming,
            new,
            elsewhere,
            why_not,
        },
    );
    let decision = (timestamp(), timestamp(), any::<u64>(), text())
        .prop_map(|(first, last, count, text)| Decision { first, last, count, text });
    (queue_info(), text(), vec(text(), 0..3), vec(line, 0..3), vec(decision, 0..3)).prop_map(
        |(queue, next, facts, demand, decisions)| QueueExplanation { queue, next, facts, demand, decisions },
    )
}

/// Any answer about queues and allocations.
pub(crate) fn alloc_response() -> impl Strategy<Value = AllocResponse> {
    use AllocResponse::*;
    prop_oneof![
        queue().prop_map(Added),
        vec(queue_info(), 0..3).prop_map(Queues),
        (queue_info(), vec(allocation_info(), 0..3))
            .prop_map(|(queue, allocations)| Details { queue: Box::new(queue), allocations }),
        allocation_info().prop_map(|info| Found(Box::new(info))),
        explanation().prop_map(|explanation| Explained(Box::new(explanation))),
    ]
}
