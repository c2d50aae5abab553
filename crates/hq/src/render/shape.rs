//! Layers and timelines of jobs as documents.

use hq_core::job_shape::{JobShape, Layer, SlowTask};
use serde_json::{Value, json};

use super::json::{self, SCHEMA_VERSION};

/// How the layers of a job's graph stand.
pub(crate) fn layers(shape: &JobShape) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "job": shape.job.0,
        "depth": shape.depth,
        "layers": shape.layers.iter().map(layer).collect::<Vec<_>>(),
    })
}

/// How many of its tasks ran when.
pub(crate) fn timeline(shape: &JobShape) -> Value {
    let timeline = &shape.timeline;
    let bars = &timeline.bars;
    json!({
        "schema_version": SCHEMA_VERSION,
        "job": shape.job.0,
        "from": json::time(timeline.from),
        "now": json::time(shape.now),
        "step": json::seconds(timeline.step),
        "running": bars.iter().map(|bar| bar.running_milli as f64 / 1000.0).collect::<Vec<_>>(),
        "ended": bars.iter().map(|bar| bar.ended).collect::<Vec<_>>(),
        "failed": bars.iter().map(|bar| bar.failed).collect::<Vec<_>>(),
        "attempts": timeline.attempts,
        "is_complete": timeline.is_complete,
        "slowest": shape.slowest.iter().map(slow_task).collect::<Vec<_>>(),
    })
}

fn slow_task(slow: &SlowTask) -> Value {
    json!({
        "task": slow.task.0,
        "took": json::seconds(slow.took),
        "worker": slow.worker.map(|worker| worker.0),
        "state": slow.state.to_string(),
    })
}

fn layer(layer: &Layer) -> Value {
    json!({
        "first": layer.first,
        "last": layer.last,
        "first_task": layer.task.0,
        "task_stats": json::task_stats(&layer.counters),
    })
}
