//! Reads what PBS's commands print.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::command::Output;
use crate::error::BatchError;
use crate::request::{BatchState, Granted, JobReport, NodeShape};
use crate::slurm_output::is_same;

/// `substate` of a job that waits for another one.
const WAITS_FOR_JOB: i64 = 22;
/// `substate` of a job that `qdel` ended.
const DELETED: i64 = 91;
/// `substate` of a job that was ended for a limit.
const TERMINATED: i64 = 93;
/// `Exit_status` beyond this is 256 and the number of a signal.
const SIGNALLED: i64 = 256;

/// The attributes of jobs, by their ids.
pub(crate) type Jobs = BTreeMap<String, Map<String, Value>>;

/// Whether a text is a job's id: `12.server`, `12[].server`, or the number alone.
pub(crate) fn is_id(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = text[digits..].trim_start_matches("[]");
    let is_server = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-:".contains(c))
    };
    digits > 0 && (rest.is_empty() || rest.strip_prefix('.').is_some_and(is_server))
}

/// Whether two ids mean one job: the numbers agree, and one server's name begins with the other's.
pub(crate) fn is_same_id(one: &str, other: &str) -> bool {
    let parts = |id: &str| {
        id.split_once('.').map_or((id.to_owned(), String::new()), |(n, s)| (n.to_owned(), s.to_owned()))
    };
    let ((number, server), (other_number, other_server)) = (parts(one), parts(other));
    let begins = |long: &str, short: &str| {
        long.strip_prefix(short)
            .is_some_and(|rest| short.is_empty() || rest.is_empty() || rest.starts_with('.'))
    };
    number == other_number && (begins(&server, &other_server) || begins(&other_server, &server))
}

/// Whether a text of errors speaks of a job.
pub(crate) fn names(errors: &str, id: &str) -> bool {
    errors.split_whitespace().any(|word| is_id(word) && is_same_id(word, id))
}

/// Whether the answer is only that ended jobs are not kept.
pub(crate) fn keeps_no_history(answer: &Output) -> bool {
    let words = "not configured to maintain job history";
    answer.errors().contains(words) || answer.text().contains(words)
}

/// The jobs of `qstat -f -F json`, by id. Some releases print what is no JSON when a variable of a job holds
/// quotes; then the attributes are picked line by line.
pub(crate) fn jobs(answer: &Output) -> Result<Jobs, BatchError> {
    let text = answer.text();
    let text = text.trim();
    if text.is_empty() {
        return Ok(BTreeMap::new());
    }
    let jobs = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(mut answer)) => match answer.remove("Jobs") {
            Some(Value::Object(jobs)) => Some(jobs),
            Some(_) => None,
            None => Some(Map::new()),
        },
        Ok(_) => None,
        Err(_) => picked(text),
    };
    let Some(jobs) = jobs else {
        return Err(BatchError::NotUnderstood {
            command: answer.command.clone(),
            expected: "jobs in JSON",
            answer: crate::error::excerpt(text.as_bytes()),
        });
    };
    Ok(jobs
        .into_iter()
        .filter_map(|(id, job)| match job {
            Value::Object(job) => Some((id, job)),
            _ => None,
        })
        .collect())
}

/// The attributes of jobs, from a document that is JSON by its lines only: `"12.server":{`, then `"name":value,`.
fn picked(text: &str) -> Option<Map<String, Value>> {
    if !text.starts_with('{') || !text.contains("\"Jobs\"") {
        return None;
    }
    let mut jobs = Map::new();
    let mut current = None;
    for line in text.lines() {
        let Some((key, value)) = line.trim().strip_prefix('"').and_then(|line| line.split_once("\":")) else {
            continue;
        };
        let value = value.trim();
        if value.starts_with('{') && is_id(key) {
            jobs.insert(key.to_owned(), Value::Object(Map::new()));
            current = Some(key.to_owned());
        } else if let Some(job) =
            current.as_ref().and_then(|id| jobs.get_mut(id)).and_then(Value::as_object_mut)
            && let Ok(value) = serde_json::from_str(value.trim_end_matches(','))
        {
            // The first counts: what follows may be a variable of the same name.
            job.entry(key).or_insert(value);
        }
    }
    Some(jobs)
}

/// What the attributes of a job say.
pub(crate) fn report(job: &Map<String, Value>) -> JobReport {
    let text = |key: &str| job.get(key).and_then(Value::as_str).map(str::trim);
    let reason = text("comment").filter(|comment| !comment.is_empty()).map(str::to_owned);
    let word = text("job_state").unwrap_or_default();
    let state = match word {
        "H" if number(job, "substate") == Some(WAITS_FOR_JOB) => BatchState::Queued,
        "H" => BatchState::Held,
        // T: on its way to another server; W: its time has not come.
        "Q" | "T" | "W" => BatchState::Queued,
        // B: an array that has begun; E: its nodes are being cleaned up.
        "R" | "B" | "E" => BatchState::Running,
        "S" | "U" => BatchState::Suspended,
        "F" | "X" | "C" => ended(job, reason.as_deref().unwrap_or_default()),
        "M" => BatchState::Unknown("M (moved to another server)".to_owned()),
        word => BatchState::Unknown(word.to_owned()),
    };
    let is_hopeless = state == BatchState::Queued
        && reason.as_ref().is_some_and(|reason| reason.starts_with("Can Never Run"));
    let used = job.get("resources_used").and_then(|used| used.get("walltime")).and_then(Value::as_str);
    JobReport { state, reason, is_hopeless, ran: used.and_then(clock) }
}

/// What the attributes of a job say of its nodes, and of what it has of each.
pub(crate) fn granted(id: &str, job: &Map<String, Value>) -> Granted {
    let list = job.get("Resource_List").and_then(Value::as_object).cloned().unwrap_or_default();
    let nodes =
        number(&list, "nodect").and_then(|nodes| u32::try_from(nodes).ok()).filter(|nodes| *nodes > 0);
    let each = |key: &str| {
        let all = number(&list, key).and_then(|count| u32::try_from(count).ok())?;
        Some(all / nodes.unwrap_or(1))
    };
    let text = |key: &str| list.get(key).and_then(Value::as_str);
    Granted {
        nodes,
        time_limit: text("walltime").and_then(clock),
        is_array: id.contains("[]"),
        is_whole: text("place").is_some_and(|place| place.contains("excl")),
        cpus: each("ncpus").filter(|cpus| *cpus > 0),
        memory_bytes: text("mem").and_then(bytes).map(|bytes| bytes / u64::from(nodes.unwrap_or(1))),
        gpus: each("ngpus").filter(|gpus| *gpus > 0).map(|gpus| (String::new(), gpus)).into_iter().collect(),
    }
}

/// The nodes in `select=2:ncpus=4+1:ncpus=8` or `nodes=2:ppn=4`; none where nodes are named.
pub(crate) fn nodes_asked(asked: &[(String, String)]) -> Option<u32> {
    let (_, chunks) = asked.iter().rfind(|(key, _)| key == "select" || key == "nodes")?;
    let count = |chunk: &str| match chunk.split(':').next().unwrap_or_default() {
        first if first.contains('=') => Some(1),
        first => first.parse::<u32>().ok(),
    };
    chunks.split('+').map(count).sum()
}

/// How a job ended: PBS's own codes are below 0, signals above 256.
fn ended(job: &Map<String, Value>, comment: &str) -> BatchState {
    let substate = number(job, "substate");
    if comment.to_ascii_lowercase().contains("preempt") {
        return BatchState::Preempted;
    }
    let Some(exit) = number(job, "Exit_status") else {
        return if substate == Some(DELETED) { BatchState::Cancelled } else { BatchState::Finished };
    };
    match exit {
        // Its script may have ended in order when it was told to.
        0 if substate == Some(DELETED) => BatchState::Cancelled,
        0 if substate == Some(TERMINATED) => BatchState::TimedOut,
        0 => BatchState::Finished,
        -29 => BatchState::TimedOut,
        -27 | -26 => BatchState::OutOfMemory,
        -20 | -6 => BatchState::NodeFailed,
        _ if substate == Some(DELETED) => BatchState::Cancelled,
        _ if substate == Some(TERMINATED) && exit > SIGNALLED => BatchState::TimedOut,
        exit if exit > SIGNALLED => BatchState::Failed(format!("signal {}", exit - SIGNALLED)),
        exit if exit < 0 => BatchState::Failed(format!("PBS could not run it (Exit_status {exit})")),
        exit => BatchState::Failed(format!("exit status {exit}")),
    }
}

/// Whether all that `qdel` has to say is that jobs have ended or are unknown.
pub(crate) fn all_are_gone(errors: &str) -> bool {
    let mut lines = errors.lines().filter(|line| !line.trim().is_empty()).peekable();
    let gone = ["Unknown Job Id", "Job has finished"];
    lines.peek().is_some() && lines.all(|line| gone.iter().any(|words| line.contains(words)))
}

/// The ids of jobs that bear a wanted name and were submitted from its directory. The latest counts.
pub(crate) fn named(jobs: &Jobs, wanted: &[(String, PathBuf)]) -> BTreeMap<(String, PathBuf), String> {
    let sequence = |id: &str| id.split(['.', '[']).next().and_then(|number| number.parse::<u64>().ok());
    let mut found = BTreeMap::<(String, PathBuf), String>::new();
    for (id, job) in jobs {
        let name = job.get("Job_Name").and_then(Value::as_str);
        let Some(directory) = submitted_from(job) else { continue };
        for key in wanted {
            let is_later = found.get(key).is_none_or(|known| sequence(known) < sequence(id));
            if Some(key.0.as_str()) == name && is_same(&directory, &key.1) && is_later {
                found.insert(key.clone(), id.clone());
            }
        }
    }
    found
}

/// Where a job was submitted, or where its output goes, which for our jobs is the same.
fn submitted_from(job: &Map<String, Value>) -> Option<PathBuf> {
    let variable =
        job.get("Variable_List").and_then(|list| list.get("PBS_O_WORKDIR")).and_then(Value::as_str);
    if let Some(directory) = variable {
        return Some(PathBuf::from(directory));
    }
    let output = job.get("Output_Path").and_then(Value::as_str)?;
    Path::new(output.split_once(':').map_or(output, |(_, path)| path)).parent().map(Path::to_owned)
}

/// The resources of `-l` among the user's arguments: `-l select=2:ncpus=4 -lplace=excl,walltime=60`.
pub(crate) fn asked_resources(args: &[OsString]) -> Vec<(String, String)> {
    let mut asked = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let Some(list) = arg.to_str().and_then(|arg| arg.strip_prefix("-l")) else { continue };
        let list = if list.is_empty() {
            rest.next().and_then(|value| value.to_str()).unwrap_or_default()
        } else {
            list
        };
        for entry in list.trim().split(',') {
            let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
            asked.push((key.trim().to_owned(), value.to_owned()));
        }
    }
    asked
}

/// What each node must have by `select=N:ncpus=…`, if it says how many CPUs. Of several chunks the least.
pub(crate) fn asked_shape(asked: &[(String, String)]) -> Option<NodeShape> {
    let (_, select) = asked.iter().rfind(|(key, _)| key == "select")?;
    let chunks = select.split('+').map(|chunk| {
        let mut shape = NodeShape::default();
        for (key, value) in chunk.split(':').filter_map(|part| part.split_once('=')) {
            match key {
                "ncpus" => shape.cpus = value.parse().ok()?,
                "mem" => shape.memory_bytes = bytes(value),
                "ngpus" => {
                    shape.gpus = value
                        .parse()
                        .ok()
                        .filter(|n| *n > 0)
                        .map(|n| (String::new(), n))
                        .into_iter()
                        .collect();
                }
                _ => {}
            }
        }
        (shape.cpus > 0).then_some(shape)
    });
    chunks.collect::<Option<Vec<_>>>()?.into_iter().reduce(least)
}

/// The least node of `pbsnodes -a -F json` that may serve a queue. Virtual nodes of one host are one node; hosts that
/// are gone do not count.
pub(crate) fn least_node(answer: &Output, queue: Option<&str>) -> Option<NodeShape> {
    let document: Value = serde_json::from_str(answer.text().trim()).ok()?;
    let mut hosts = BTreeMap::<String, NodeShape>::new();
    for (name, node) in document.get("nodes")?.as_object()? {
        let state = node.get("state").and_then(Value::as_str).unwrap_or_default();
        let serves = node.get("queue").and_then(Value::as_str);
        if ["down", "offline", "state-unknown"].iter().any(|word| state.contains(word))
            || serves.is_some() && serves != queue
        {
            continue;
        }
        let Some(available) = node.get("resources_available").and_then(Value::as_object) else { continue };
        let list = available.get("Qlist").and_then(Value::as_str);
        if let (Some(list), Some(queue)) = (list, queue)
            && !list.split(',').any(|one| one.trim() == queue)
        {
            continue;
        }
        let count =
            |key: &str| number(available, key).and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
        let memory = available.get("mem").and_then(Value::as_str).and_then(bytes);
        let host = available.get("host").and_then(Value::as_str).unwrap_or(name);
        let shape = hosts.entry(host.to_owned()).or_default();
        shape.cpus = shape.cpus.saturating_add(count("ncpus"));
        shape.memory_bytes = match (shape.memory_bytes, memory) {
            (Some(known), Some(more)) => Some(known.saturating_add(more)),
            (known, more) => known.or(more),
        };
        let known = shape.gpus.first().map_or(0, |(_, count)| *count);
        let gpus = count("ngpus").saturating_add(known);
        shape.gpus = if gpus > 0 { vec![(String::new(), gpus)] } else { Vec::new() };
    }
    hosts.into_values().filter(|shape| shape.cpus > 0).reduce(least)
}

/// The longest wall time of a queue, from `qstat -Q -f -F json`.
pub(crate) fn queue_time(answer: &Output, queue: &str) -> Option<Duration> {
    let document: Value = serde_json::from_str(answer.text().trim()).ok()?;
    let text = document.get("Queue")?.get(queue)?.get("resources_max")?.get("walltime")?.as_str()?.to_owned();
    clock(&text)
}

/// A time as PBS prints it: `01:30:00`, or seconds.
fn clock(text: &str) -> Option<Duration> {
    let parts = text.split(':').map(|part| part.trim().parse::<u64>().ok()).collect::<Option<Vec<_>>>()?;
    Some(Duration::from_secs(
        parts.iter().fold(0u64, |sum, part| sum.saturating_mul(60).saturating_add(*part)),
    ))
}

fn least(one: NodeShape, other: NodeShape) -> NodeShape {
    NodeShape {
        cpus: one.cpus.min(other.cpus),
        memory_bytes: one.memory_bytes.min(other.memory_bytes),
        gpus: one.gpus.min(other.gpus),
        max_time: one.max_time.min(other.max_time),
    }
}

/// A number, also where it was printed as text.
fn number(job: &Map<String, Value>, key: &str) -> Option<i64> {
    match job.get(key)? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// PBS's sizes: `8388608kb`, `16gb`, `1024` (bytes), words `w` of 8 bytes.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let (unit, word) = match &text[end..] {
        "" | "b" => (1, 1),
        "w" => (1, 8),
        unit => {
            let word = if unit.ends_with('w') { 8 } else { 1 };
            (1u64 << (10 * (1 + "kmgtp".find(unit.chars().next()?)?)), word)
        }
    };
    number.checked_mul(unit)?.checked_mul(word)
}

#[cfg(test)]
mod tests;
