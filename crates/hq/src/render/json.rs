//! The values of JSON documents: names as the reference has them, numbers as users write them.

use std::io::{self, Write};
use std::time::Duration;

use hq_core::client_messages::{JobSummary, SubmitInfo, TaskInfo};
use hq_model::paths::TaskPaths;
use hq_model::task::{CrashLimit, Output, Pin};
use hq_model::{AmountRequest, PoolKind, Request, ResourcePool, TaskSpec, Timestamp, Usage};
use serde_json::{Value, json};

use super::text;

/// Version of all documents.
pub(crate) const SCHEMA_VERSION: u32 = 1;

pub(crate) fn write(out: &mut dyn Write, value: &Value) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}

/// Float seconds.
pub(crate) fn seconds(duration: Duration) -> Value {
    duration.as_secs_f64().into()
}

pub(crate) fn optional_seconds(duration: Option<Duration>) -> Value {
    duration.map_or(Value::Null, seconds)
}

pub(crate) fn time(at: Timestamp) -> Value {
    at.to_string().into()
}

pub(crate) fn optional_time(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, time)
}

pub(crate) fn bytes(text: &[u8]) -> Value {
    text::bytes(text).into()
}

/// A line of the list of jobs.
pub(crate) fn job(summary: &JobSummary) -> Value {
    let counters = &summary.counters;
    json!({
        "id": summary.job.0,
        "name": summary.name,
        "task_count": counters.total(),
        "is_open": summary.is_open,
        "task_stats": {
            "running": counters.running,
            "finished": counters.finished,
            "failed": counters.failed,
            "canceled": counters.canceled,
            "aborted": counters.aborted,
            "waiting": counters.waiting,
        },
        "cancel_reason": summary.cancel_reason,
        "state": summary.state().word(),
        "unrunnable_tasks": summary.unrunnable,
    })
}

/// A submit of a job.
pub(crate) fn submit(submit: &SubmitInfo) -> Value {
    json!({
        "array": task_desc(&submit.spec),
        "ids": submit.ids.to_string(),
        "submit_dir": bytes(&submit.submit_dir),
        "submitted_at": time(submit.submitted),
    })
}

/// What a task executes.
pub(crate) fn task_desc(spec: &TaskSpec) -> Value {
    let env: serde_json::Map<String, Value> =
        spec.env.iter().map(|(key, value)| (text::bytes(key), bytes(value))).collect();
    json!({
        "program": {
            "args": spec.args.iter().map(|arg| bytes(arg)).collect::<Vec<_>>(),
            "env": env,
            "cwd": bytes(&spec.cwd),
            "stdout": output(&spec.stdout),
            "stderr": output(&spec.stderr),
        },
        "resources": spec.requests.iter().map(request).collect::<Vec<_>>(),
        "pin_mode": match spec.pin {
            Pin::None => Value::Null,
            Pin::Taskset => "taskset".into(),
            Pin::Omp => "openmp".into(),
        },
        "priority": spec.priority,
        "time_limit": optional_seconds(spec.time_limit),
        "task_dir": spec.task_dir,
        "service": spec.service,
        "outputs": spec.outputs.iter().map(|path| bytes(path)).collect::<Vec<_>>(),
        "crash_limit": match spec.crash_limit {
            CrashLimit::Times(times) => times.into(),
            other => Value::from(other.to_string()),
        },
        "kill_grace": seconds(spec.kill_grace),
        "signal": spec.warning.map(|w| json!({ "number": w.signal, "before": seconds(w.before) })),
        "retry": {
            "max": spec.retry.max,
            "delay": seconds(spec.retry.delay),
            "on": {
                "codes": spec.retry.on.codes,
                "signal": spec.retry.on.signal,
                "timeout": spec.retry.on.timeout,
            },
        },
        "speculate": spec.speculate.map(|factor| f64::from(factor.thousandths()) / 1000.0),
        "expect": spec.expected.map(|expected| expected.as_secs_f64()),
        "locality": spec.locality.as_ref().map(|key| String::from_utf8_lossy(key)),
        "stdin_bytes": spec.stdin.len(),
    })
}

fn output(output: &Output) -> Value {
    match output {
        Output::None => Value::Null,
        Output::File { path, remove_if_finished: false } => bytes(path),
        Output::File { path, remove_if_finished: true } => {
            json!({ "path": bytes(path), "on_close": "rm-if-finished" })
        }
    }
}

fn request(request: &Request) -> Value {
    let resources: Vec<Value> = request
        .resources
        .iter()
        .map(|r| json!({ "resource": r.name, "request": amount_request(&r.amount) }))
        .collect();
    let mut document = json!({
        "n_nodes": request.nodes,
        "resources": resources,
        "min_time": seconds(request.time_request),
        "weight": f64::from(request.weight) / f64::from(hq_model::request::WEIGHT_NEUTRAL),
    });
    if let (true, Some(object)) = (request.ranks > 0, document.as_object_mut()) {
        object.insert("ranks_per_node".into(), request.ranks.into());
        object.insert("exclusive".into(), request.exclusive.into());
    }
    document
}

fn amount_request(request: &AmountRequest) -> Value {
    match request {
        AmountRequest::All => "all".into(),
        AmountRequest::Some(amount, policy) => {
            json!({ policy.to_string(): text::amount(*amount) })
        }
    }
}

/// A pool of a worker.
pub(crate) fn pool(pool: &ResourcePool) -> Value {
    match &pool.kind {
        PoolKind::Groups(groups) => match groups.as_slice() {
            [values] => json!({ "name": pool.name, "kind": "list", "values": values }),
            _ => json!({ "name": pool.name, "kind": "groups", "groups": groups }),
        },
        PoolKind::Range { first, last } => {
            json!({ "name": pool.name, "kind": "range", "start": first, "end": last })
        }
        PoolKind::Sum(amount) => json!({ "name": pool.name, "kind": "sum", "size": text::amount(*amount) }),
    }
}

/// Measured use.
pub(crate) fn usage(usage: &Usage) -> Value {
    json!({
        "wall": seconds(Duration::from_micros(usage.wall_us)),
        "cpu_user": seconds(Duration::from_micros(usage.user_us)),
        "cpu_system": seconds(Duration::from_micros(usage.system_us)),
        "memory_peak_bytes": usage.rss_max_kib.saturating_mul(1024),
        "read_bytes": usage.blocks_read.saturating_mul(512),
        "written_bytes": usage.blocks_written.saturating_mul(512),
    })
}

/// A task, and where its files are if it has any.
pub(crate) fn task(task: &TaskInfo, paths: Option<&TaskPaths>) -> Value {
    let mut object = serde_json::Map::new();
    object.insert("id".into(), task.task.0.into());
    object.insert("state".into(), task.state.word().into());
    if let Some(paths) = paths {
        object.insert("cwd".into(), bytes(&paths.cwd));
        for (name, path) in [("stdout", &paths.stdout), ("stderr", &paths.stderr)] {
            object.insert(name.into(), path.as_deref().map_or(Value::Null, bytes));
        }
    }
    if let Some(at) = task.started {
        object.insert("started_at".into(), time(at));
    }
    if let Some(worker) = task.worker {
        object.insert("worker".into(), worker.0.into());
    }
    if !task.nodes.is_empty() {
        let workers: Vec<u32> = task.nodes.iter().map(|worker| worker.0).collect();
        object.insert("workers".into(), workers.into());
    }
    if let Some(at) = task.ended {
        object.insert("finished_at".into(), time(at));
    }
    if let Some(key) = &task.key {
        object.insert("key".into(), key.as_str().into());
    }
    if let Some(error) = &task.error {
        object.insert("error".into(), error.as_str().into());
    }
    object.insert("instance".into(), task.instance.0.into());
    object.insert("crashes".into(), task.crashes.into());
    if let Some(used) = &task.usage {
        object.insert("usage".into(), usage(used));
    }
    Value::Object(object)
}
