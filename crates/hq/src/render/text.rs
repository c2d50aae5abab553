//! The words and numbers of tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hq_core::worker_messages::WorkerEnd;
use hq_model::request::{MEM, PULLED, WEIGHT_NEUTRAL};
use hq_model::task::Pin;
use hq_model::{
    Amount, Body, ByteString, IdSet, JobState, OnClose, OutputSink, PoolKind, Request, ResourcePool,
    TaskState, WorkerResources, duration,
};

use super::style::Color;
use super::table::Cell;

/// Shown for what is not there.
pub(crate) const NONE: &str = "None";
/// Shown for an output channel that goes nowhere.
pub(crate) const NO_OUTPUT: &str = "<None>";
/// Shown for an output channel that goes to a stream.
pub(crate) const STREAM: &str = "<Stream>";

pub(crate) fn bytes(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// True for what a terminal takes as an order: control characters, and marks that turn the direction of writing, with which a
/// name looks like another one.
pub(crate) fn is_order(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Intervals of ids that are shown to people one by one.
const INTERVALS_SHOWN: usize = 20;

/// Ids for people: the first of many intervals, and how many ids come after them.
pub(crate) fn ids(ids: &IdSet) -> String {
    if ids.range_count() <= INTERVALS_SHOWN {
        return ids.to_string();
    }
    let first: IdSet = ids.ranges().take(INTERVALS_SHOWN).collect();
    format!("{first} and {} more", ids.len() - first.len())
}

/// What a task executes.
pub(crate) fn body(body: &Body) -> String {
    match body {
        Body::Program { args } => command(args),
        Body::Pulled => "(pulled by any program)".to_owned(),
        Body::Given => "(given by a client)".to_owned(),
        Body::Function(function) => match function.arguments.is_empty() {
            true => format!("function {}", function.name),
            false => format!("function {} {}", function.name, bytes(&function.arguments)),
        },
    }
}

/// What a task executes, an argument of a program on each line.
pub(crate) fn body_lines(what: &Body) -> String {
    match what {
        Body::Program { args } => args.iter().map(|arg| bytes(arg)).collect::<Vec<_>>().join("\n"),
        Body::Pulled | Body::Given | Body::Function(_) => body(what),
    }
}

/// A command as a shell takes it.
pub(crate) fn command(args: &[Vec<u8>]) -> String {
    let quoted: Vec<String> = args.iter().map(|arg| quoted(arg)).collect();
    quoted.join(" ")
}

/// A path as a word of a command that is shown.
pub(crate) fn path_word(path: &Path) -> String {
    quoted(path.as_os_str().as_encoded_bytes())
}

fn quoted(arg: &[u8]) -> String {
    match shlex::bytes::try_quote(arg) {
        Ok(quoted) => bytes(&quoted),
        Err(_) => bytes(arg),
    }
}

/// Values one below the other.
pub(super) fn listed<T: ToString>(values: &[T]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

pub(crate) fn environment(env: &[(Vec<u8>, Vec<u8>)]) -> String {
    let lines: Vec<String> = env.iter().map(|(k, v)| format!("{}={}", bytes(k), bytes(v))).collect();
    lines.join("\n")
}

/// Where a channel goes, with the path of its file as far as it is known.
pub(crate) fn output(output: &OutputSink, path: Option<&ByteString>) -> String {
    let path = path.map_or_else(String::new, |path| bytes(path));
    match output {
        OutputSink::None => NO_OUTPUT.to_owned(),
        OutputSink::Stream => STREAM.to_owned(),
        OutputSink::File { on_close, .. } => match on_close {
            OnClose::Keep => path,
            OnClose::RemoveIfFinished => format!("{path} (removed if finished)"),
            OnClose::RemoveIfEmpty => format!("{path} (removed if empty)"),
        },
    }
}

pub(crate) fn pin(pin: Pin) -> &'static str {
    match pin {
        Pin::None => "none",
        Pin::Taskset => "taskset",
        Pin::Omp => "omp",
    }
}

pub(crate) fn optional_duration(value: Option<Duration>) -> String {
    value.map_or_else(|| NONE.to_owned(), duration::format)
}

/// A measured duration: to the millisecond, which is all that a reader can use.
pub(crate) fn measured(value: Duration) -> String {
    if value < Duration::from_millis(1) {
        return duration::format(Duration::from_micros(value.as_micros() as u64));
    }
    duration::format(Duration::from_millis(u64::try_from(value.as_millis()).unwrap_or(u64::MAX)))
}

/// What a request asks for, a line for each thing; variants one below the other.
pub(crate) fn request_lines(requests: &[Request]) -> String {
    let lines = |request: &Request| {
        let mut lines = request.lines();
        // What asks for nothing weighs nothing.
        if request.weight != WEIGHT_NEUTRAL && !lines.is_empty() {
            lines.push(format!("[weight: {}]", f64::from(request.weight) / f64::from(WEIGHT_NEUTRAL)));
        }
        lines.join("\n")
    };
    match requests {
        [one] => lines(one),
        several => {
            let variants = several.iter().enumerate();
            let variants = variants.map(|(at, request)| format!("# Variant {}\n{}", at + 1, lines(request)));
            variants.collect::<Vec<_>>().join("\n\n")
        }
    }
}

/// How long workers must live to get a task, for each of its variants.
pub(crate) fn time_requests(requests: &[Request]) -> String {
    let all: Vec<String> = requests.iter().map(|request| duration::format(request.time_request)).collect();
    if requests.iter().all(|request| request.time_request.is_zero()) { NONE.to_owned() } else { listed(&all) }
}

/// The variants of a request in one line each.
pub(crate) fn requests(requests: &[Request]) -> String {
    match requests {
        [one] => one.to_string(),
        several => {
            let variants: Vec<String> =
                several.iter().enumerate().map(|(i, r)| format!("variant {i}: {r}")).collect();
            variants.join("\n")
        }
    }
}

/// What a worker offers in one line: `2x8 cpus; mem 64 GiB`.
pub(crate) fn resources(resources: &WorkerResources) -> String {
    let parts = sorted(&resources.pools).into_iter().map(|pool| {
        let coupled = if is_coupled(resources, &pool.name) { " [coupled]" } else { "" };
        of_relay(pool).unwrap_or_else(|| format!("{} {}{coupled}", pool.name, pool_amount(pool)))
    });
    parts.collect::<Vec<_>>().join("; ")
}

/// The same, of a part of it.
pub(crate) fn pools(pools: &[ResourcePool]) -> String {
    let parts = sorted(pools).into_iter().map(|pool| format!("{} {}", pool.name, pool_amount(pool)));
    parts.collect::<Vec<_>>().join("; ")
}

/// What a worker offers, a line for each pool: how much, as in `cpus: 2x8`.
pub(crate) fn resources_short_lines(resources: &WorkerResources) -> String {
    let lines = sorted(&resources.pools).into_iter().map(|pool| {
        let coupled = if is_coupled(resources, &pool.name) { " [coupled]" } else { "" };
        of_relay(pool).unwrap_or_else(|| format!("{}: {}{coupled}", pool.name, pool_amount(pool)))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What a worker offers, a line for each pool, with labels.
pub(crate) fn resources_long(resources: &WorkerResources) -> String {
    let mut lines: Vec<String> = resources.pools.iter().map(|p| format!("{}: {}", p.name, p.kind)).collect();
    if !resources.coupling.is_empty() {
        let parts: Vec<String> = resources.coupling.iter().map(ToString::to_string).collect();
        lines.push(format!("coupling: {}", parts.join(",")));
    }
    lines.join("\n")
}

// What a relay offers: as many tasks as somebody takes.
fn of_relay(pool: &ResourcePool) -> Option<String> {
    pool.name.strip_prefix(PULLED).map(|rest| match rest.split_once('/') {
        Some((_, tag)) => format!("those with the tag {tag}"),
        None => format!("tasks of bag {rest}"),
    })
}

fn sorted(pools: &[ResourcePool]) -> Vec<&ResourcePool> {
    let mut pools: Vec<&ResourcePool> = pools.iter().collect();
    pools.sort_by(|first, second| first.name.cmp(&second.name));
    pools
}

fn is_coupled(resources: &WorkerResources, name: &str) -> bool {
    resources.coupling.iter().any(|coupling| coupling.left.0 == name || coupling.right.0 == name)
}

// `4`, `2x8`, groups of different sizes as `1x1 1x2`, `64.00 GiB`.
fn pool_amount(pool: &ResourcePool) -> String {
    match &pool.kind {
        PoolKind::Sum(amount) if pool.name == MEM => memory_amount(*amount),
        PoolKind::Groups(groups) if groups.len() > 1 => {
            let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
            for group in groups {
                *sizes.entry(group.len()).or_default() += 1;
            }
            let parts: Vec<String> = sizes.iter().map(|(size, count)| format!("{count}x{size}")).collect();
            parts.join(" ")
        }
        PoolKind::Sum(_) | PoolKind::Range { .. } | PoolKind::Groups(_) => pool.kind.total().to_string(),
    }
}

// With two decimals, as other programs read it.
fn memory_amount(mib: Amount) -> String {
    let value = mib.0 as f64 / hq_model::amount::UNITS as f64;
    if value >= 1024.0 { format!("{:.2} GiB", value / 1024.0) } else { format!("{mib} MiB") }
}

/// Whole amounts as integers, others with up to four decimals.
pub(crate) fn amount(amount: Amount) -> serde_json::Value {
    if amount.fraction() == 0 { amount.wholes().into() } else { (amount.0 as f64 / 10_000.0).into() }
}

pub(crate) fn task_state(state: TaskState) -> Cell {
    let color = match state {
        TaskState::Waiting => Color::Cyan,
        TaskState::Running => Color::Yellow,
        TaskState::Finished => Color::Green,
        TaskState::Failed | TaskState::Aborted => Color::Red,
        TaskState::Canceled => Color::Magenta,
    };
    Cell::colored(state.word().to_ascii_uppercase(), color)
}

pub(crate) fn job_state(state: JobState) -> Cell {
    let color = match state {
        JobState::Opened | JobState::Waiting => Color::Cyan,
        JobState::Running => Color::Yellow,
        JobState::Finished => Color::Green,
        JobState::Failed | JobState::Aborted => Color::Red,
        JobState::Canceled => Color::Magenta,
    };
    Cell::colored(state.word().to_ascii_uppercase(), color)
}

/// The lower-case word for the state of a worker.
pub(crate) fn worker_state(ended: Option<WorkerEnd>) -> &'static str {
    match ended {
        None => "running",
        Some(WorkerEnd::ConnectionLost) => "connection lost",
        Some(WorkerEnd::HeartbeatLost) => "heartbeat lost",
        Some(WorkerEnd::Stopped) => "stopped",
        Some(WorkerEnd::IdleTimeout) => "idle timeout",
        Some(WorkerEnd::TimeLimit) => "time limit reached",
        Some(WorkerEnd::Interrupted) => "interrupted",
        Some(WorkerEnd::LauncherLost) => "launcher lost",
    }
}

/// A size of so many KiB, in the largest unit that leaves at least one of it.
pub(crate) fn size(kib: u64) -> String {
    let (mut value, mut unit) = (kib as f64, "KiB");
    for next in ["MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "KiB" { format!("{kib} KiB") } else { format!("{value:.1} {unit}") }
}

/// The size of so many bytes: exact below 1 KiB.
pub(crate) fn size_of(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes} B") } else { size(bytes / 1024) }
}

/// What to do when a process counted what can never happen. `who` is a server or a worker.
pub(crate) fn internal_errors(number: u64, who: &str) -> String {
    format!(
        "{number}: please report the lines of the {who}'s log that say \"this can never happen\"; it continues \
         without the affected parts"
    )
}

/// A text that others wrote, on one line and without anything that moves the cursor.
pub(crate) fn one_line(text: &str) -> String {
    let clean = |c: char| if is_order(c) { ' ' } else { c };
    text.lines().collect::<Vec<_>>().join(" ").chars().map(clean).collect()
}

/// An energy in kWh, or in Wh where it is little.
pub(crate) fn energy(joules: f64) -> String {
    match joules / 3600.0 {
        hours if hours < 100.0 => format!("{hours:.2} Wh"),
        hours => format!("{:.3} kWh", hours / 1000.0),
    }
}
