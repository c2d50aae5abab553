//! Everything in counts, as JSON.

use hq_core::client_messages::Overview;
use serde_json::{Map, Value, json};

use super::json::{self, SCHEMA_VERSION};
use super::{load, text};

/// As a document.
pub(crate) fn document(overview: &Overview) -> Value {
    let (tasks, ended, workers) = (&overview.tasks, &overview.ended, &overview.workers);
    let jobs: Map<String, Value> =
        overview.jobs.iter().map(|(state, count)| (state.word().to_owned(), (*count).into())).collect();
    let resources: Vec<Value> = overview
        .resources
        .iter()
        .map(|resource| {
            json!({
                "name": resource.name,
                "offered": text::amount(resource.offered),
                "taken": text::amount(resource.taken),
            })
        })
        .collect();
    json!({
        "schema_version": SCHEMA_VERSION,
        "now": json::time(overview.now),
        "started_at": json::time(overview.started),
        "starts": overview.epoch.0,
        "server_uid": overview.uid,
        "version": overview.version,
        "jobs": jobs,
        "task_stats": {
            "running": tasks.running,
            "finished": tasks.finished,
            "failed": tasks.failed,
            "canceled": tasks.canceled,
            "aborted": tasks.aborted,
            "waiting": tasks.waiting,
        },
        "ready_tasks": overview.ready,
        "ended_since_start": {
            "finished": ended.finished,
            "failed": ended.failed,
            "canceled": ended.canceled,
            "aborted": ended.aborted,
            "restarted": ended.restarted,
        },
        "workers": {
            "active": workers.active,
            "closed": workers.closed,
            "away": workers.away,
            "idle": workers.idle,
        },
        "resources": resources,
        "nodes": load::of_nodes(&overview.nodes),
        "server": {
            "memory_bytes": overview.process.memory_bytes,
            "journal_records": overview.process.journal_records,
            "journal_pending": overview.process.journal_pending,
            "journal_fails": overview.process.journal_fails,
            "relayed_transfers": overview.process.relayed.transfers,
            "relayed_bytes": overview.process.relayed.bytes,
        },
    })
}
