//! Generators of explanations.

use hq_core::explanation::{
    JobExplanation, Lack, Reason, ReasonKind, TaskExplanation, TaskGroup, WorkerMatch,
};

use super::*;

fn reason() -> impl Strategy<Value = Reason> {
    let queue = any::<u32>().prop_map(hq_model::QueueId);
    (select(ReasonKind::ALL.to_vec()), of(worker()), of(queue), of(timestamp()), text())
        .prop_map(|(kind, worker, queue, until, text)| Reason { kind, worker, queue, until, text })
}

fn lack() -> impl Strategy<Value = Lack> {
    let amount_request = (of(amount()), policy()).prop_map(|(amount, policy)| {
        amount.filter(|amount| amount.0 > 0).map_or(AmountRequest::All, |a| AmountRequest::Some(a, policy))
    });
    prop_oneof![
        (resource_name(), amount_request, amount()).prop_map(|(name, request, has)| Lack::Resource {
            name,
            request,
            has
        }),
        (duration(), duration()).prop_map(|(request, left)| Lack::Time { request, left }),
        any::<(u32, u32)>().prop_map(|(nodes, size)| Lack::Group { nodes, size }),
    ]
}

/// What a task waits for.
pub(super) fn task_explanation() -> impl Strategy<Value = TaskExplanation> {
    let worker = (worker(), vec(vec(lack(), 0..3), 0..3))
        .prop_map(|(worker, variants)| WorkerMatch { worker, variants });
    let counts = any::<(u64, u64)>();
    (task_ref(), select(TaskState::ALL.to_vec()), counts, vec(reason(), 0..4), vec(worker, 0..3)).prop_map(
        |(task, state, (dependencies, unresolved), reasons, workers)| TaskExplanation {
            task,
            state,
            dependencies,
            unresolved,
            reasons,
            workers,
        },
    )
}

/// What the tasks of a job wait for.
pub(super) fn job_explanation() -> impl Strategy<Value = JobExplanation> {
    let group = (id_set(), vec(reason(), 0..3)).prop_map(|(ids, reasons)| TaskGroup { ids, reasons });
    (job(), select(JobState::ALL.to_vec()), vec(reason(), 0..3), vec(group, 0..3), any::<u64>()).prop_map(
        |(job, state, reasons, groups, others)| JobExplanation { job, state, reasons, groups, others },
    )
}
