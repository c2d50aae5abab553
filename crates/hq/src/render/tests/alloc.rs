//! How reports about queues and allocations look.

use hq_core::alloc::ShapeSource;
use hq_core::alloc::decisions::Decision;
use hq_core::alloc::messages::{AllocationInfo, DemandLine, QueueExplanation, QueueInfo, QueueStatus};
use hq_model::allocation::{AllocationEnd, AllocationState, NodeTime, QueueParams};
use hq_model::resources::parse_pool;
use hq_model::{AllocationRef, QueueId};

use super::*;

pub(crate) fn queue(id: u32, status: QueueStatus) -> QueueInfo {
    QueueInfo {
        queue: QueueId(id),
        params: QueueParams {
            name: (id == 1).then(|| "big".into()),
            manager: "slurm".into(),
            backlog: 2,
            max_workers_per_alloc: 4,
            max_worker_count: (id == 1).then_some(20),
            time_limit: Duration::from_secs(14_400),
            manager_args: vec![b"--partition=cpu".to_vec(), b"--comment=it's".to_vec()],
            worker_args: vec![b"--idle-timeout=3m".to_vec()],
            resources: if id == 3 { vec![parse_pool("cpus", "2x8").expect("a pool")] } else { Vec::new() },
            ..QueueParams::default()
        },
        status,
        added: at(0),
        known: (id == 1).then(|| (pools(), ShapeSource::Worker)),
        counts: [1, 2, 30, 4],
        time: NodeTime {
            asked_us: 36_000_000_000,
            used_us: 18_000_000_000,
            idle_us: 900_000_000,
            lost_us: 36_000_000,
        },
        over_budget: None,
    }
}

pub(crate) fn allocation(number: u32, state: AllocationState) -> AllocationInfo {
    let has_started = !matches!(state, AllocationState::Queued);
    AllocationInfo {
        allocation: AllocationRef::new(QueueId(1), number),
        batch_id: (number > 1).then(|| format!("{}", 1000 + number)),
        state,
        detail: (number == 1).then(|| "is being submitted".into()),
        workers: 4,
        connected: if state == AllocationState::Running {
            vec![WorkerId(3), WorkerId(4)]
        } else {
            Vec::new()
        },
        planned: at(10),
        queued: (number > 1).then(|| at(11)),
        started: has_started.then(|| at(60)),
        ended: (state == AllocationState::Finished).then(|| (at(3600), AllocationEnd::TimedOut)),
        seen: None,
        directory: b"/home/user/.hq-server/003/autoalloc/1-big/001".to_vec(),
        after: None,
        time: NodeTime { asked_us: 57_600_000_000, used_us: 7_200_000_000, ..NodeTime::default() },
    }
}

pub(super) fn info() -> Allocations {
    let state = [AllocationState::Queued, AllocationState::Running, AllocationState::Finished];
    Allocations {
        queue: queue(1, QueueStatus::Active),
        allocations: (1..).zip(state).map(|(number, state)| allocation(number, state)).collect(),
        verbose: true,
        cost: None,
    }
}

pub(super) fn explanation() -> QueueExplanation {
    QueueExplanation {
        queue: queue(1, QueueStatus::Active),
        next: "it asks for 1 allocation with 2 workers".into(),
        facts: vec!["1 of at most 2 allocations wait in the batch system (backlog)".into()],
        demand: vec![DemandLine {
            request: "cpus: 2 or cpus: 1, gpus: 1".into(),
            priority: 3,
            waiting: 100,
            coming: 8,
            new: 16,
            elsewhere: 4,
            why_not: Some("a worker of this queue has no gpus".into()),
        }],
        decisions: vec![
            Decision { first: at(1), last: at(1), count: 1, text: "resumed by a user".into() },
            Decision { first: at(2), last: at(60), count: 7, text: "nothing more is asked for".into() },
        ],
    }
}

pub(super) fn list() -> Queues {
    Queues(vec![
        queue(1, QueueStatus::Active),
        queue(2, QueueStatus::Paused(at(5), "3 allocations in a row failed".into())),
        queue(3, QueueStatus::Draining),
    ])
}

snapshots! {
    alloc_add: QueueAdded(QueueId(1));
    alloc_list: list();
    alloc_list_empty: Queues(Vec::new());
    alloc_info: info();
    alloc_explain: ExplainedQueue(explanation());
}
