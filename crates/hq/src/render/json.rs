//! The values of JSON documents: names as the reference has them, numbers as users write them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use hq_core::client_messages::{JobSummary, SubmitInfo, TaskInfo};
use hq_core::record::FailureKind;
use hq_model::job::Counters;
use hq_model::left_behind::{LeftBehind, Packed, Raised};
use hq_model::paths::TaskPaths;
use hq_model::resources::Coupling;
use hq_model::task::{CrashLimit, Pin};
use hq_model::{
    Body, Compression, IdSet, InputObject, JobId, OutputObject, OutputSink, PoolKind, Request, ResourcePool,
    Stream, TaskSpec, TaskState, Timestamp, Usage, WorkerResources,
};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use super::results::{base64_of, left_behind, value_of};
use super::{attempts, load, text, units};
use crate::results::TaskResult;

/// Version of all documents.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// Writes what a command has changed. In version 0 it is nothing: there such commands have no answer.
pub(super) fn write_change(out: &mut dyn Write, mut document: Value) -> io::Result<()> {
    if units::is_raw() {
        return out.write_all(b"{}\n");
    }
    document["schema_version"] = SCHEMA_VERSION.into();
    write(out, &document)
}

pub(crate) fn write(out: &mut dyn Write, value: &Value) -> io::Result<()> {
    match value {
        Value::Object(map) if units::is_raw() => {
            let without: BTreeMap<&String, &Value> =
                map.iter().filter(|(key, _)| *key != "schema_version").collect();
            serde_json::to_writer_pretty(&mut *out, &without)?;
        }
        value => serde_json::to_writer_pretty(&mut *out, value)?,
    }
    out.write_all(b"\n")
}

/// Float seconds, as exact as times are: digits beyond these would mean nothing.
pub(crate) fn seconds(duration: Duration) -> Value {
    ((duration.as_micros() as f64) / 1e6).into()
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
        "task_stats": task_stats(counters),
        "cancel_reason": summary.cancel_reason,
        "state": summary.state().word(),
        "unrunnable_tasks": summary.unrunnable,
        "stalled": summary.stalled,
    })
}

/// How many tasks there are of each state.
pub(crate) fn task_stats(counters: &Counters) -> Value {
    json!({
        "running": counters.running,
        "finished": counters.finished,
        "failed": counters.failed,
        "canceled": counters.canceled,
        "aborted": counters.aborted,
        "waiting": counters.waiting,
    })
}

/// A submit of a job, whose tasks work and print there.
pub(crate) fn submit(submit: &SubmitInfo, paths: &TaskPaths) -> Value {
    json!({
        "array": described(submit, paths),
        "ids": submit.ids.to_string(),
        "submit_dir": bytes(&submit.submit_dir),
        "submitted_at": time(submit.submitted),
    })
}

/// One of several that came together, as those of a job file do.
pub(crate) fn graph_part(submit: &SubmitInfo, paths: &TaskPaths) -> Value {
    let mut part = described(submit, paths);
    part["ids"] = submit.ids.to_string().into();
    part
}

// With paths as far as they are the same for all tasks.
fn described(submit: &SubmitInfo, paths: &TaskPaths) -> Value {
    let mut described = task_desc(&submit.spec, submit.submitted);
    let program = &mut described["program"];
    program["cwd"] = bytes(&paths.cwd);
    for (name, path) in [("stdout", &paths.stdout), ("stderr", &paths.stderr)] {
        if let Some(path) = path {
            program[name] = bytes(path);
        }
    }
    described["stdin_bytes"] = submit.stdin_bytes.into();
    described
}

/// Where a channel goes that goes to a stream: what callers look for.
const PIPE: &str = "<pipe>";

/// What tasks execute that were submitted then.
pub(crate) fn task_desc(spec: &TaskSpec, submitted: Timestamp) -> Value {
    let env: serde_json::Map<String, Value> =
        spec.env.iter().map(|(key, value)| (text::bytes(key), bytes(value))).collect();
    let function = spec.body.function().map(|function| {
        json!({
            "name": function.name,
            "interpreter": function.interpreter.iter().map(|word| bytes(word)).collect::<Vec<_>>(),
            "arguments": serde_json::from_slice::<Value>(&function.arguments).ok(),
        })
    });
    let args = match &spec.body {
        Body::Program { args } => &args[..],
        Body::Function(_) | Body::Pulled | Body::Given => &[],
    };
    let (stream, log) = match &spec.stream {
        None => (Value::Null, Value::Null),
        Some(Stream::Directory(path)) => (bytes(path), Value::Null),
        Some(Stream::Log(path)) => (Value::Null, bytes(path)),
    };
    json!({
        "program": {
            "args": args.iter().map(|arg| bytes(arg)).collect::<Vec<_>>(),
            "env": env,
            "cwd": bytes(&spec.cwd),
            "stdout": output(&spec.stdout),
            "stderr": output(&spec.stderr),
            "stdout_on_close": spec.stdout.on_close().word(),
            "stderr_on_close": spec.stderr.on_close().word(),
        },
        "function": function,
        "resources": spec.requests.iter().map(request).collect::<Vec<_>>(),
        "pin_mode": match spec.pin {
            Pin::None => Value::Null,
            Pin::Taskset => "taskset".into(),
            Pin::Omp => "openmp".into(),
        },
        "priority": spec.priority,
        "time_limit": optional_seconds(spec.time_limit),
        "end_by": spec.end_by.map(|end| end.after(submitted).to_string()),
        "task_dir": spec.task_dir,
        "service": spec.service,
        "stream": stream,
        "log": log,
        "compress": match spec.compression {
            Compression::None => Value::Null,
            other => other.to_string().into(),
        },
        "outputs": spec.outputs.iter().map(|path| bytes(path)).collect::<Vec<_>>(),
        "output_objects": spec.output_objects.iter().map(output_object).collect::<Vec<_>>(),
        "input_objects": spec.input_objects.iter().map(input_object).collect::<Vec<_>>(),
        "result": spec.result.is_some().then(|| spec.result.to_string()),
        "output_patience": seconds(spec.output_patience),
        "crash_limit": match spec.crash_limit {
            CrashLimit::Times(times) => times.into(),
            other => Value::from(other.to_string()),
        },
        "on_walltime": spec.on_walltime.word(),
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

fn output_object(object: &OutputObject) -> Value {
    json!({ "name": object.name.as_str(), "path": bytes(&object.path) })
}

fn input_object(object: &InputObject) -> Value {
    json!({ "name": object.name.as_str(), "from": object.from.to_string(), "path": bytes(object.path()) })
}

fn output(output: &OutputSink) -> Value {
    match output {
        OutputSink::None => Value::Null,
        OutputSink::Stream => PIPE.into(),
        OutputSink::File { path, .. } => bytes(path),
    }
}

fn request(request: &Request) -> Value {
    let resources: Vec<Value> = request
        .resources
        .iter()
        .map(|r| json!({ "resource": r.name, "request": units::request(&r.amount) }))
        .collect();
    let mut document = json!({
        "n_nodes": request.nodes,
        "resources": resources,
        "min_time": seconds(request.time_request),
        "weight": units::weight(request.weight),
    });
    if let (true, Some(object)) = (request.ranks > 0, document.as_object_mut()) {
        object.insert("ranks_per_node".into(), request.ranks.into());
        object.insert("exclusive".into(), request.exclusive.into());
    }
    document
}

/// How groups of pools are coupled, by the places of the pools.
pub(crate) fn coupling(resources: &WorkerResources) -> Value {
    let place = |name: &str| resources.pools.iter().position(|pool| pool.name == name);
    let weight = |coupling: &Coupling| {
        let ((left, left_group), (right, right_group)) = (&coupling.left, &coupling.right);
        json!({
            "resource1_idx": place(left),
            "group1_idx": left_group,
            "resource2_idx": place(right),
            "group2_idx": right_group,
            "weight": coupling.weight,
        })
    };
    json!({ "weights": resources.coupling.iter().map(weight).collect::<Vec<_>>() })
}

/// What a worker offers.
pub(crate) fn resources(resources: &WorkerResources) -> Value {
    json!({ "resources": resources.pools.iter().map(pool).collect::<Vec<_>>(), "coupling": coupling(resources) })
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
        PoolKind::Sum(amount) => json!({ "name": pool.name, "kind": "sum", "size": units::amount(*amount) }),
    }
}

/// A batch system as callers know it.
pub(crate) fn manager(name: &str) -> String {
    match name.to_ascii_lowercase().as_str() {
        "slurm" => "Slurm".to_owned(),
        "pbs" => "PBS".to_owned(),
        _ => name.to_owned(),
    }
}

/// Measured use.
pub(crate) fn usage(usage: &Usage) -> impl Serialize {
    UsageOf(usage)
}

/// A task, and where its files are if it has any. Written field by field: lists have millions of them.
pub(crate) struct Task<'a> {
    /// The task.
    pub task: &'a TaskInfo,
    /// Its job and what its submit says, if that is to be told.
    pub submitted: Option<(JobId, &'a TaskSpec)>,
    /// Its files.
    pub paths: Option<&'a TaskPaths>,
    /// What it left behind, if that is to be told.
    pub left: Option<&'a TaskResult>,
    /// All tasks that it stands for, where they are several: paths are those of the first.
    pub alike: Option<&'a IdSet>,
}

impl Serialize for Task<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let task = self.task;
        let mut map = serializer.serialize_map(None)?;
        match self.alike {
            Some(ids) => map.serialize_entry("ids", &format_args!("{ids}"))?,
            None => map.serialize_entry("id", &task.task.0)?,
        }
        map.serialize_entry("state", task.state.word())?;
        if let Some(paths) = self.paths {
            map.serialize_entry("cwd", &String::from_utf8_lossy(&paths.cwd))?;
            let channels = [("stdout", &paths.stdout), ("stderr", &paths.stderr)];
            for ((name, path), is_streamed) in channels.into_iter().zip(paths.is_streamed) {
                if is_streamed {
                    map.serialize_entry(name, PIPE)?;
                } else {
                    map.serialize_entry(name, &path.as_deref().map(String::from_utf8_lossy))?;
                }
            }
        }
        if let Some(at) = task.started {
            map.serialize_entry("started_at", &format_args!("{at}"))?;
        }
        if let Some(worker) = task.worker {
            map.serialize_entry("worker", &worker.0)?;
        }
        if !task.nodes.is_empty() {
            let workers: Vec<u32> = task.nodes.iter().map(|worker| worker.0).collect();
            map.serialize_entry("workers", &workers)?;
        }
        if let Some(at) = task.ended {
            map.serialize_entry("finished_at", &format_args!("{at}"))?;
        }
        if let Some(key) = &task.key {
            map.serialize_entry("key", key)?;
        }
        if let Some((job, spec)) = self.submitted {
            if let Some(entry) = &task.entry {
                map.serialize_entry("entry", &bytes(entry))?;
            } else if task.entry_gone {
                map.serialize_entry("entry", &())?;
            }
            map.serialize_entry("priority", &spec.priority)?;
            map.serialize_entry("expect", &spec.expected.map(|expected| expected.as_secs_f64()))?;
            map.serialize_entry("locality", &super::task::locality(job, task, spec))?;
        }
        // Callers of version 0 take what has an error for failed.
        let has_failed = !matches!(task.state, TaskState::Canceled | TaskState::Aborted);
        if let Some(error) = task.error.as_ref().filter(|_| has_failed || !units::is_raw()) {
            map.serialize_entry("error", error)?;
        }
        if let Some(end) = task.too_late {
            map.serialize_entry("cause", "end-by")?;
            map.serialize_entry("end_by", &format_args!("{end}"))?;
        }
        if let Some(kind) = task.failure {
            let (exit_code, signal) = how(kind);
            map.serialize_entry("kind", kind.word())?;
            map.serialize_entry("exit_code", &exit_code)?;
            map.serialize_entry("signal", &signal)?;
        }
        if let Some(left) = self.left.filter(|_| task.state == TaskState::Finished)
            && let Some(value) = value_of(&left.result, left.is_text)
        {
            map.serialize_entry("result", &value)?;
            if let Some(bytes) = base64_of(&left.result, left.is_text) {
                map.serialize_entry("result_base64", &bytes)?;
            }
        }
        if let Some(LeftBehind::Packed(Packed { failure: Some(raised), .. })) =
            self.left.map(|left| left_behind(&left.result, left.is_text))
        {
            map.serialize_entry("exception", &Exception(&raised))?;
        }
        map.serialize_entry("instance", &task.instance.0)?;
        map.serialize_entry("crashes", &task.crashes)?;
        if self.submitted.is_some() && !units::is_raw() {
            let attempts: Vec<Value> = task.attempts.iter().map(attempts::document).collect();
            map.serialize_entry("attempts", &attempts)?;
        }
        if let Some(used) = task.measured() {
            map.serialize_entry("usage", &UsageOf(used))?;
        }
        if let Some(used) = &task.load {
            map.serialize_entry("use_now", &load::of_task(used))?;
        }
        map.end()
    }
}

/// The exit code of a failure, or its signal.
pub(super) fn how(kind: FailureKind) -> (Option<u8>, Option<u8>) {
    match kind {
        FailureKind::Exit(code) => (Some(code), None),
        FailureKind::Signal(signal) => (None, Some(signal)),
        _ => (None, None),
    }
}

struct Exception<'a>(&'a Raised<'a>);

impl Serialize for Exception<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", &self.0.kind)?;
        map.serialize_entry("type", &self.0.type_name)?;
        map.serialize_entry("text", &self.0.text)?;
        map.serialize_entry("traceback", &self.0.traceback)?;
        map.end()
    }
}

struct UsageOf<'a>(&'a Usage);

impl Serialize for UsageOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let used = self.0;
        let seconds = |us| Duration::from_micros(us).as_secs_f64();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("wall", &seconds(used.wall_us))?;
        map.serialize_entry("cpu_user", &seconds(used.user_us))?;
        map.serialize_entry("cpu_system", &seconds(used.system_us))?;
        map.serialize_entry("memory_peak_bytes", &used.rss_max_kib.saturating_mul(1024))?;
        map.serialize_entry("read_bytes", &used.blocks_read.saturating_mul(512))?;
        map.serialize_entry("written_bytes", &used.blocks_written.saturating_mul(512))?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_no_digits_that_mean_nothing() {
        for (us, text) in
            [(61_000_123, "61.000123"), (4_100_001, "4.100001"), (7, "7e-6"), (2_000_000, "2.0")]
        {
            assert_eq!(seconds(Duration::from_micros(us)).to_string(), text);
        }
    }
}
