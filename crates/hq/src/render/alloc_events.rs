//! Events of queues and allocations as JSON.

use hq_core::alloc::AllocRecord;
use hq_model::AllocationRef;
use hq_model::allocation::QueueParams;
use serde_json::{Value, json};

use super::json;

/// The type and the content of an event; none for what only a compacted journal holds.
pub(crate) fn event(record: &AllocRecord) -> Option<(&'static str, Value)> {
    Some(match record {
        AllocRecord::QueueAdded { queue, params } => {
            ("autoalloc-queue-created", json!({ "queue-id": queue.0, "params": parameters(params) }))
        }
        AllocRecord::QueueEdited { queue, params } => {
            ("autoalloc-queue-edited", json!({ "queue-id": queue.0, "params": parameters(params) }))
        }
        AllocRecord::QueuePaused { queue, cause } => {
            ("autoalloc-queue-paused", json!({ "queue-id": queue.0, "reason": cause.to_string() }))
        }
        AllocRecord::QueueResumed { queue, is_trial } => {
            ("autoalloc-queue-resumed", json!({ "queue-id": queue.0, "is_trial": is_trial }))
        }
        AllocRecord::QueueDrained { queue } => ("autoalloc-queue-drained", json!({ "queue-id": queue.0 })),
        AllocRecord::QueueRemoved { queue } => ("autoalloc-queue-removed", json!({ "queue-id": queue.0 })),
        AllocRecord::Planned { allocation, workers, directory, .. } => (
            "autoalloc-allocation-planned",
            with(*allocation, json!({ "worker_count": workers, "workdir": json::bytes(directory) })),
        ),
        AllocRecord::Submitted { allocation, batch_id } => {
            ("autoalloc-allocation-queued", with(*allocation, json!({ "allocation-id": batch_id })))
        }
        AllocRecord::Started { allocation } => ("autoalloc-allocation-started", with(*allocation, json!({}))),
        AllocRecord::Requeued { allocation } => {
            ("autoalloc-allocation-requeued", with(*allocation, json!({})))
        }
        AllocRecord::Ended { allocation, end, .. } => {
            let event = json!({ "status": end.state().word(), "reason": end.to_string() });
            ("autoalloc-allocation-finished", with(*allocation, event))
        }
        AllocRecord::QueueKept { queue, state } => {
            ("autoalloc-queue-created", json!({ "queue-id": queue.0, "params": parameters(&state.params) }))
        }
        AllocRecord::ShapeLearned { .. }
        | AllocRecord::Measured { .. }
        | AllocRecord::QueueIdGiven { .. }
        | AllocRecord::AllocationKept { .. } => return None,
    })
}

fn parameters(params: &QueueParams) -> Value {
    json!({
        "name": params.name,
        "manager": params.manager,
        "backlog": params.backlog,
        "max_workers_per_alloc": params.max_workers_per_alloc,
        "max_worker_count": params.max_worker_count,
        "timelimit": json::seconds(params.time_limit),
        "additional_args": params.manager_args.iter().map(|arg| json::bytes(arg)).collect::<Vec<_>>(),
    })
}

fn with(allocation: AllocationRef, mut event: Value) -> Value {
    if let Value::Object(event) = &mut event {
        event.insert("queue-id".into(), allocation.queue.0.into());
        event.insert("allocation".into(), allocation.to_string().into());
    }
    event
}
