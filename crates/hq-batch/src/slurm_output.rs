//! Reads what Slurm's commands print.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::command::Output;
use crate::error::BatchError;
use crate::request::{BatchState, Granted, JobReport, NodeShape};
use crate::script::option_value;

/// The id in one line of `sbatch --parsable`; without the option, the last word.
pub(crate) fn id(line: &str) -> Option<String> {
    let line = line.strip_prefix("Submitted batch job ").unwrap_or(line);
    let (number, cluster) = split_cluster(line);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_named = cluster.is_none_or(|name| !name.is_empty() && !name.contains(char::is_whitespace));
    (is_number && is_named).then(|| line.to_owned())
}

/// `17;cluster` as its parts.
pub(crate) fn split_cluster(id: &str) -> (&str, Option<&str>) {
    id.split_once(';').map_or((id, None), |(number, cluster)| (number, Some(cluster)))
}

/// Lines of `squeue --format=%i|%T|%r|%S|%M`, by the number of the job.
pub(crate) fn squeue(answer: &Output) -> Result<BTreeMap<String, JobReport>, BatchError> {
    let mut reports = BTreeMap::new();
    for line in answer.text().lines().map(str::trim).filter(|line| !is_title(line)) {
        let mut fields = line.splitn(5, '|');
        let (Some(id), Some(state)) = (fields.next(), fields.next()) else {
            return Err(BatchError::NotUnderstood {
                command: answer.command.clone(),
                expected: "a job's id, state and reason",
                answer: crate::error::excerpt(line.as_bytes()),
            });
        };
        let reason = fields.next().unwrap_or_default();
        let reason = (!matches!(reason, "" | "None" | "(null)")).then(|| reason.to_owned());
        let mut report = report(state, reason, None);
        // Slurm expects a start of jobs that it has planned for.
        let start = fields.next().filter(|start| start.starts_with(|c: char| c.is_ascii_digit()));
        if let (BatchState::Queued, Some(reason), Some(start)) = (&report.state, &mut report.reason, start) {
            reason.push_str(&format!(", expected to start at {start}"));
        }
        // Nothing has passed of what waits.
        report.ran = fields.next().and_then(time_used).filter(|ran| !ran.is_zero());
        merge(&mut reports, number(id), report);
    }
    Ok(reports)
}

/// Lines of `sacct --format=JobID,State,ExitCode,ElapsedRaw --parsable2`.
pub(crate) fn sacct(text: &str) -> BTreeMap<String, JobReport> {
    let mut reports = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split('|');
        // `17.batch` and the like are steps.
        let Some(id) = fields.next().filter(|id| !id.contains('.')) else { continue };
        let Some(state) = fields.next() else { continue };
        let mut report = report(state, None, fields.next());
        report.ran = fields.next().and_then(|ran| ran.parse().ok()).map(Duration::from_secs);
        merge(&mut reports, number(id), report);
    }
    reports
}

/// Lines of `sacct --format=JobID,ConsumedEnergyRaw --parsable2`, of jobs and their steps (`17.batch`): the most of each job.
pub(crate) fn energy(text: &str) -> BTreeMap<String, u64> {
    let mut energies: BTreeMap<String, u64> = BTreeMap::new();
    for line in text.lines() {
        let Some((id, joules)) = line.split_once('|') else { continue };
        let job = id.split('.').next().unwrap_or_default();
        // Where nobody counts it says nothing, 0, or a value that stands for none.
        let joules = joules.trim().parse().ok().filter(|joules: &u64| (1..1 << 62).contains(joules));
        if let Some(joules) = joules {
            let most = energies.entry(job.to_owned()).or_default();
            *most = joules.max(*most);
        }
    }
    energies
}

/// One line of `scontrol --oneliner show job`: `JobId=17 … JobState=PENDING Reason=Resources … ExitCode=0:0 …`.
pub(crate) fn shown(text: &str) -> Option<JobReport> {
    let value = |key: &str| text.split_whitespace().find_map(|word| word.strip_prefix(key));
    let reason = value("Reason=").filter(|reason| !matches!(*reason, "" | "None" | "(null)"));
    let ran = value("RunTime=").and_then(time_used).filter(|ran| !ran.is_zero());
    Some(JobReport { ran, ..report(value("JobState=")?, reason.map(str::to_owned), value("ExitCode=")) })
}

/// What a line of `scontrol --oneliner show job` says of a job that waits: its nodes, and what it has of each.
pub(crate) fn granted(text: &str) -> Option<Granted> {
    let value = |key: &str| text.split_whitespace().find_map(|word| word.strip_prefix(key));
    // `2-2`, the least and the most.
    let nodes = value("NumNodes=")?.split('-').next().and_then(leading_number).filter(|nodes| *nodes > 0)?;
    let number = |key: &str| value(key).and_then(leading_number);
    let tasks = number("NumTasks=").unwrap_or(1);
    let tres =
        |key: &str| value("TRES=")?.split(',').find_map(|part| part.strip_prefix(key)?.strip_prefix('='));
    let each = |key: &str, many: u32, parts: u32| {
        let found = value(key).map(gpus).unwrap_or_default();
        let each =
            found.into_iter().map(move |(kind, count)| (kind, count.saturating_mul(many) / parts.max(1)));
        each.filter(|(_, count)| *count > 0).collect::<Vec<_>>()
    };
    let asked = [
        each("TresPerNode=", 1, 1),
        each("TresPerJob=", 1, nodes),
        each("TresPerTask=", tasks, nodes),
        each("TresPerSocket=", 1, 1),
    ];
    Some(Granted {
        nodes: Some(nodes),
        time_limit: value("TimeLimit=").and_then(time_limit),
        is_array: value("ArrayTaskId=").is_some(),
        is_whole: matches!(value("OverSubscribe="), Some("NO" | "EXCLUSIVE")),
        cpus: number("NumCPUs=").map(|cpus| (cpus / nodes).max(1)),
        memory_bytes: tres("mem").and_then(memory).map(|bytes| bytes / u64::from(nodes)),
        gpus: asked.into_iter().find(|gpus| !gpus.is_empty()).unwrap_or_default(),
    })
}

/// Whether a configuration, as `scontrol show config` prints it, gives out whole nodes.
pub(crate) fn selects_whole_nodes(text: &str) -> bool {
    let value =
        text.lines().find_map(|line| line.split_once('=').filter(|(key, _)| key.trim() == "SelectType"));
    value.is_some_and(|(_, value)| value.trim() == "select/linear")
}

/// Whether arguments say how many CPUs there shall be of a node.
pub(crate) fn says_of_cpus(args: &[OsString]) -> bool {
    let valued = [
        (Some('c'), "cpus-per-task"),
        (Some('n'), "ntasks"),
        (None, "ntasks-per-node"),
        (None, "mincpus"),
        (None, "cpus-per-gpu"),
    ];
    valued.iter().any(|(short, long)| option_value(args, *short, Some(long)).is_some()) || is_exclusive(args)
}

fn is_exclusive(args: &[OsString]) -> bool {
    args.iter().any(|arg| arg.to_str().is_some_and(|arg| arg.starts_with("--exclusive")))
}

/// A time that has passed: `1:05`, `1:00:00`, `1-00:00:00`.
fn time_used(text: &str) -> Option<Duration> {
    text.contains(':').then(|| time_limit(text)).flatten()
}

/// The empty lines, and those that `squeue` puts above each cluster's jobs.
fn is_title(line: &str) -> bool {
    line.is_empty() || line.starts_with("CLUSTER:")
}

/// The job of an id: `27_[2-5%2]` and `27_3` are parts of 27, `30+1` is a part of 30.
fn number(id: &str) -> &str {
    id.trim().split(['_', '+']).next().unwrap_or_default()
}

/// Several parts of a job are one report: what lives, wins.
fn merge(reports: &mut BTreeMap<String, JobReport>, number: &str, report: JobReport) {
    if number.is_empty() {
        return;
    }
    let weight = |report: &JobReport| match report.state {
        BatchState::Running => 5,
        BatchState::Suspended => 4,
        BatchState::Queued => 3,
        BatchState::Held => 2,
        BatchState::Unknown(_) => 1,
        _ => 0,
    };
    match reports.get(number) {
        Some(known) if weight(known) > weight(&report) => {}
        _ => {
            reports.insert(number.to_owned(), report);
        }
    }
}

/// What a state's word means. Words may carry more: `CANCELLED by 1000`, `RUNNING+COMPLETING`.
fn report(state: &str, reason: Option<String>, exit: Option<&str>) -> JobReport {
    let word = state.split([' ', '+', ',']).next().unwrap_or_default();
    let is_held = reason.as_deref().is_some_and(|reason| {
        reason.starts_with("JobHeld") || matches!(reason, "JobHoldMaxRequeue" | "launch_failed_requeued_held")
    });
    let failure = || {
        let exit = exit.filter(|exit| *exit != "0:0").map(|exit| format!("exit status {exit}"));
        // `NonZeroExitCode` and the like.
        reason.clone().or(exit).unwrap_or_else(|| word.to_owned())
    };
    let state = match word {
        "PENDING" if is_held => BatchState::Held,
        "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_FED" | "POWER_UP_NODE" | "EXPEDITING" => {
            BatchState::Queued
        }
        "REQUEUE_HOLD" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => BatchState::Held,
        // Its nodes are not free yet, and how it ended comes after.
        "RUNNING" | "COMPLETING" | "RESIZING" | "SIGNALING" | "STAGE_OUT" | "UPDATE_DB" => {
            BatchState::Running
        }
        "SUSPENDED" | "STOPPED" => BatchState::Suspended,
        "COMPLETED" => BatchState::Finished,
        "CANCELLED" | "REVOKED" => BatchState::Cancelled,
        "FAILED" | "LAUNCH_FAILED" | "RECONFIG_FAIL" => BatchState::Failed(failure()),
        "TIMEOUT" | "DEADLINE" => BatchState::TimedOut,
        "PREEMPTED" => BatchState::Preempted,
        "NODE_FAIL" | "BOOT_FAIL" => BatchState::NodeFailed,
        "OUT_OF_MEMORY" => BatchState::OutOfMemory,
        word => BatchState::Unknown(word.to_owned()),
    };
    let is_hopeless = state == BatchState::Queued && reason.as_deref().is_some_and(is_hopeless);
    JobReport { state, reason, is_hopeless, ran: None }
}

/// Reasons that no waiting changes: only the user or the administrator can.
fn is_hopeless(reason: &str) -> bool {
    matches!(
        reason,
        "PartitionTimeLimit"
            | "PartitionNodeLimit"
            | "PartitionConfig"
            | "BadConstraints"
            | "AccountNotAllowed"
            | "InvalidAccount"
            | "InvalidQOS"
            | "QOSNotAllowed"
            | "QOSTimeLimit"
            | "DependencyNeverSatisfied"
            | "JobHoldMaxRequeue"
    ) || reason.ends_with("WallDurationPerJobLimit")
        || reason.ends_with("PerJobLimit")
        || reason.ends_with("PerJob")
}

/// Whether all that `scancel` has to say is that jobs have ended.
pub(crate) fn all_are_gone(errors: &str) -> bool {
    let mut lines = errors.lines().filter(|line| !line.trim().is_empty()).peekable();
    let gone = ["Invalid job id", "already completing or completed", "Job/step already completing"];
    lines.peek().is_some() && lines.all(|line| gone.iter().any(|words| line.contains(words)))
}

/// The ids of jobs that bear a wanted name and were submitted from its directory, from lines of
/// `--format=%i|%j|%Z`. The latest counts.
pub(crate) fn named(text: &[u8], wanted: &[(String, PathBuf)]) -> BTreeMap<(String, PathBuf), String> {
    let mut found = BTreeMap::<(String, PathBuf), String>::new();
    for line in text.split(|byte| *byte == b'\n') {
        let mut fields = line.splitn(3, |byte| *byte == b'|');
        let (Some(id), Some(name), Some(directory)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let id = String::from_utf8_lossy(id);
        let id = number(&id);
        let directory = Path::new(OsStr::from_bytes(directory));
        for key in wanted {
            let is_later =
                found.get(key).is_none_or(|known| known.parse::<u64>().ok() < id.parse::<u64>().ok());
            if key.0.as_bytes() == name && is_same(directory, &key.1) && is_later && !id.is_empty() {
                found.insert(key.clone(), id.to_owned());
            }
        }
    }
    found
}

/// Whether two paths lead to the same place.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// The least of the nodes in lines of `sinfo --format=%P|%D|%c|%m|%G|%l|%h|%N`; of the default partition, which
/// has a star, if none was asked for. Where the arguments ask for CPUs, memory or GPUs, that counts.
pub(crate) fn shape(text: &str, is_asked: bool, args: &[OsString]) -> Option<NodeShape> {
    let mut least: Option<NodeShape> = None;
    let mut is_whole = is_exclusive(args);
    for line in text.lines() {
        let fields: Vec<&str> = line.trim().split('|').collect();
        let [partition, nodes, cpus, memory, gres, time, sharing, ..] = fields[..] else { continue };
        if !is_asked && !partition.ends_with('*') || nodes == "0" {
            continue;
        }
        is_whole |= sharing == "EXCLUSIVE";
        let one = NodeShape {
            cpus: leading_number(cpus)?,
            memory_bytes: leading_number(memory).filter(|mib| *mib > 1).map(|mib| u64::from(mib) << 20),
            gpus: gpus(gres),
            max_time: time_limit(time),
        };
        least = Some(match least {
            None => one,
            Some(known) => NodeShape {
                cpus: known.cpus.min(one.cpus),
                memory_bytes: known.memory_bytes.min(one.memory_bytes),
                gpus: if known.gpus == one.gpus { one.gpus } else { Vec::new() },
                max_time: [known.max_time, one.max_time].into_iter().flatten().max(),
            },
        });
    }
    let mut shape = least?;
    let number =
        |short, long| option_value(args, short, Some(long)).and_then(|value| value.parse::<u32>().ok());
    if !is_whole {
        let per_task = number(Some('c'), "cpus-per-task");
        let tasks = number(None, "ntasks-per-node");
        if per_task.is_some() || tasks.is_some() {
            let asked = per_task.unwrap_or(1).saturating_mul(tasks.unwrap_or(1));
            shape.cpus = asked.clamp(1, shape.cpus.max(1));
        }
        let memory = option_value(args, None, Some("mem")).and_then(|text| memory(&text));
        shape.memory_bytes = memory.or(shape.memory_bytes);
        // Slurm gives GPUs only to those who ask.
        shape.gpus = asked_gpus(args, &shape.gpus);
    }
    Some(shape)
}

/// The most that nodes have in such lines.
pub(crate) fn largest(text: &str, is_asked: bool) -> Option<NodeShape> {
    let mut most: Option<NodeShape> = None;
    for line in text.lines() {
        let fields: Vec<&str> = line.trim().split('|').collect();
        let [partition, nodes, cpus, memory, gres, ..] = fields[..] else { continue };
        if !is_asked && !partition.ends_with('*') || nodes == "0" {
            continue;
        }
        let known = most.take().unwrap_or_default();
        let memory = leading_number(memory).map(|mib| u64::from(mib) << 20);
        let count = |gpus: &[(String, u32)]| gpus.iter().map(|(_, count)| count).sum::<u32>();
        let gpus = gpus(gres);
        most = Some(NodeShape {
            cpus: known.cpus.max(leading_number(cpus).unwrap_or(0)),
            memory_bytes: known.memory_bytes.max(memory),
            gpus: if count(&gpus) > count(&known.gpus) { gpus } else { known.gpus },
            max_time: None,
        });
    }
    most
}

/// GPUs per node that arguments ask for, with the type that the nodes have if they name none.
fn asked_gpus(args: &[OsString], of_nodes: &[(String, u32)]) -> Vec<(String, u32)> {
    let number =
        |short, long| option_value(args, short, Some(long)).and_then(|value| value.parse::<u32>().ok());
    let nodes = number(Some('N'), "nodes").unwrap_or(1).max(1);
    let tasks = number(None, "ntasks-per-node").or(number(Some('n'), "ntasks").map(|tasks| tasks / nodes));
    let said = [
        (option_value(args, None, Some("gpus-per-node")), 1, 1),
        (option_value(args, Some('G'), Some("gpus")), 1, nodes),
        (option_value(args, None, Some("gpus-per-task")), tasks.unwrap_or(1).max(1), 1),
        (option_value(args, None, Some("gpus-per-socket")), 1, 1),
    ];
    let said =
        said.into_iter().find_map(|(value, many, parts)| Some((format!("gpu:{}", value?), many, parts)));
    let gres = || option_value(args, None, Some("gres")).map(|gres| (gres, 1, 1));
    let Some((asked, many, parts)) = said.or_else(gres) else { return Vec::new() };
    let mut asked = gpus(&asked);
    asked.iter_mut().for_each(|(_, count)| *count = count.saturating_mul(many) / parts);
    asked.retain(|(_, count)| *count > 0);
    for (kind, _) in &mut asked {
        if let ("", [(of_nodes, _)]) = (kind.as_str(), of_nodes) {
            kind.clone_from(of_nodes);
        }
    }
    asked
}

/// GPUs in a list of generic resources: `gpu:a100:4(S:0-1),gpu:2,nvme:1`, or `(null)`.
fn gpus(gres: &str) -> Vec<(String, u32)> {
    let mut plain = String::new();
    let mut depth = 0;
    for c in gres.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let mut kinds = BTreeMap::<String, u32>::new();
    for entry in plain.split(',') {
        let parts: Vec<&str> =
            entry.trim().trim_start_matches("gres/").trim_start_matches("gres:").split([':', '=']).collect();
        let (kind, count) = match parts[..] {
            ["gpu"] => ("", Some(1)),
            ["gpu", last] => match last.parse().ok() {
                Some(count) => ("", Some(count)),
                None => (last, Some(1)),
            },
            ["gpu", kind, count, ..] => (kind, count.parse().ok()),
            _ => continue,
        };
        if let Some(count) = count.filter(|count| *count > 0) {
            let sum = kinds.entry(kind.to_owned()).or_insert(0);
            *sum = sum.saturating_add(count);
        }
    }
    kinds.into_iter().collect()
}

fn leading_number(text: &str) -> Option<u32> {
    text.trim().trim_end_matches('+').parse().ok()
}

/// Memory as `sbatch --mem` takes it: MiB, or with K, M, G, T.
fn memory(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok().filter(|number| *number > 0)?;
    let shift = match text[end..].to_ascii_uppercase().trim_end_matches('B') {
        "K" => 10,
        "" | "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// Slurm's times: `MM`, `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM`, `D-HH:MM:SS`; none for `infinite`, `n/a`.
fn time_limit(text: &str) -> Option<Duration> {
    let (days, rest) = match text.trim().split_once('-') {
        Some((days, rest)) => (Some(days.parse::<u64>().ok()?), rest),
        None => (None, text.trim()),
    };
    let parts = rest.split(':').map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<_>>>()?;
    let (hours, minutes, seconds) = match (days, &parts[..]) {
        (None, [minutes]) => (0, *minutes, 0),
        (None, [minutes, seconds]) => (0, *minutes, *seconds),
        (Some(_), [hours]) => (*hours, 0, 0),
        (Some(_), [hours, minutes]) => (*hours, *minutes, 0),
        (_, [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        _ => return None,
    };
    let hours = days.unwrap_or(0).checked_mul(24)?.checked_add(hours)?;
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    Some(Duration::from_secs(minutes.checked_mul(60)?.checked_add(seconds)?))
}

#[cfg(test)]
mod tests;
