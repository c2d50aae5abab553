//! Every command that reads × jobs of every size, kind and state × every output mode: exit status, contents, memory.
//!
//! The tests take small jobs. `HQ_MATRIX_SIZES` names others, and then a table says how long each command took:
//! `cargo xtask matrix` does all of it.

// The long form says what it did.
#![allow(clippy::print_stdout)]

mod read;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use hq_model::IdSet;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::patience;
use crate::pulled::stop_with_relay;
use read::{Contents, Mode, Reader, Tally};

/// Tasks of a job when nobody says how many.
const SIZES: [u32; 2] = [1, 2_000];
/// Memory that a server with jobs of a million tasks may ever have taken, in KiB.
const SERVER_MEMORY_MAX: u64 = 640 << 10;
/// Processes that fail or print, and edges of a graph, which are read from a file: there are at most so many.
const COSTLY_MAX: u32 = 20_000;
/// Pulled tasks that are taken or failed with one command.
const PULLED_AT_ONCE: u32 = 10_000;
/// Those that are made with one.
const CREATED_AT_ONCE: usize = 100_000;
/// Longest time for a listing of 100 000 tasks, the best of [`LISTINGS`]; looked at in the long form alone, with a program
/// that is optimized.
const LISTING_MAX: Duration = Duration::from_millis(300);
/// So often it is tried.
const LISTINGS: usize = 3;
/// Tasks of which `task info` is read in tables, twenty lines each.
const TABLES_MAX: u32 = 2_000;
/// Intervals that are written as an argument.
const INTERVALS_MAX: usize = 1_000;
/// The words of all states.
const STATES: [&str; 6] = ["waiting", "running", "finished", "failed", "canceled", "aborted"];
/// Only the worker that executes nothing has these resources.
const NULL: &str = "--stdout none --stderr none --resource null=1";
/// Only the worker that starts processes has these.
const REAL: &str = "--stdout none --stderr none --resource real=1";
/// Nobody has these.
const NEVER: &str = "--stdout none --stderr none --resource never=1";

/// A job, and what was done to its tasks.
pub(crate) struct Job {
    kind: &'static str,
    id: u32,
    is_open: bool,
    tasks: BTreeMap<&'static str, IdSet>,
    /// The file into which its tasks print, a line each on both channels.
    log: Option<&'static str>,
    /// Tasks of it are pulled.
    is_bag: bool,
}

impl Job {
    fn ids(&self) -> IdSet {
        self.tasks.values().flat_map(IdSet::ranges).collect()
    }

    // Of the tasks in `ids`.
    fn tally(&self, ids: &IdSet) -> Tally {
        let of = |set: &IdSet| {
            let set = set.intersection(ids);
            (set.len(), set.iter().map(|id| u64::from(id.0)).sum())
        };
        let states = self.tasks.iter().map(|(state, set)| ((*state).to_owned(), of(set)));
        Tally { states: states.filter(|(_, (count, _))| *count > 0).collect() }
    }

    fn has_ended(&self) -> bool {
        !self.is_open && !self.tasks.contains_key("waiting") && !self.tasks.contains_key("running")
    }
}

fn ids(text: impl Into<String>) -> IdSet {
    text.into().parse().expect("ids")
}

fn sizes() -> Vec<u32> {
    match std::env::var("HQ_MATRIX_SIZES") {
        Ok(text) => text.split(',').map(|size| size.trim().parse().expect("a number of tasks")).collect(),
        Err(_) => SIZES.to_vec(),
    }
}

#[test]
fn whatever_reads_is_right_about_jobs_of_any_size_in_any_state() {
    let is_long = std::env::var_os("HQ_MATRIX_SIZES").is_some();
    if is_long {
        for size in sizes() {
            println!("{}", matrix(size));
        }
        return;
    }
    // All are waited for, also when one fails: a thread that is left at the end of the process leaves its servers.
    std::thread::scope(|threads| {
        for size in sizes() {
            threads.spawn(move || matrix(size));
        }
    });
}

// All of it for one size; how long it took.
fn matrix(size: u32) -> String {
    let mut cluster = Cluster::server();
    cluster.worker("--executor null --cpus 4 --resource null=sum(1000000)");
    cluster.worker("--cpus 2 --resource real=sum(1000000)");
    let begin = Instant::now();
    let jobs = jobs(&cluster, size);
    let made = begin.elapsed();
    let reader = Reader::new(&cluster, size);
    for job in &jobs {
        about_tasks(&reader, job);
        about_job(&reader, job);
    }
    about_all(&reader, &jobs);
    about_outputs(&reader, &jobs);
    about_none(&reader, &cluster);
    if size == 100_000 {
        about_time(&reader, &jobs);
    }
    let faults = reader.faults();
    assert!(faults.is_empty(), "{size} tasks:\n{}", faults.join("\n"));
    let server = cluster.server.as_ref().expect("a server").id();
    let memory = peak_memory(server);
    assert!(memory <= SERVER_MEMORY_MAX, "the server took {memory} KiB");
    let mut table = reader.table();
    let total = begin.elapsed();
    let _ = write!(
        table,
        "{size} tasks: made in {:.1} s, {} commands in {:.1} s, the server took {} MiB at most",
        made.as_secs_f64(),
        reader.count(),
        (total - made).as_secs_f64(),
        memory >> 10
    );
    stop_with_relay(&cluster);
    table
}

fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

// Jobs of every kind.
fn jobs(cluster: &Cluster, size: u32) -> Vec<Job> {
    let few = size.min(COSTLY_MAX);
    let mut jobs: Vec<Job> = Vec::new();
    let submit = |options: &str| -> u32 {
        let id = cluster.json(&format!("submit {options}"))["id"].as_u64().expect("an id");
        id.try_into().expect("a small id")
    };
    let mut add = |kind, id, is_open, tasks: &[(&'static str, IdSet)]| {
        let tasks = tasks.iter().filter(|(_, ids)| !ids.is_empty()).cloned().collect();
        jobs.push(Job { kind, id, is_open, tasks, log: None, is_bag: false });
        id
    };
    let all = || IdSet::range(1, size);

    let gate = submit(&format!("{NEVER} true"));
    add("waiting", submit(&format!("--array 1-{size} {NEVER} true")), false, &[("waiting", all())]);
    let finished = submit(&format!("--array 1-{size} {NULL} true"));
    add("finished", finished, false, &[("finished", all())]);
    let keyed = submit(&format!("--array 1-{size} --key 'key-%{{TASK_ID}}' {NULL} true"));
    add("keyed", keyed, false, &[("finished", all())]);
    let canceled = submit(&format!("--array 1-{size} {NEVER} true"));
    cluster.ok(&format!("job cancel {canceled} --reason enough"));
    add("canceled", canceled, false, &[("canceled", all())]);
    let aborted = submit(&format!("--array 1-{size} --after {gate} {NULL} true"));
    let blocked = submit(&format!("--array 1-{size} --after {finished} --after-any {gate} {NULL} true"));
    cluster.ok(&format!("job cancel {gate}"));
    add("gate", gate, false, &[("canceled", IdSet::range(0, 0))]);
    add("aborted", aborted, false, &[("aborted", all())]);
    add("after others", blocked, false, &[("finished", all())]);

    let lines: String = (0..size).map(|line| format!("line {line}\n")).collect();
    cluster.write("lines", lines);
    let entries = submit(&format!("--each-line lines {NULL} true"));
    add("entries", entries, false, &[("finished", IdSet::range(0, size - 1))]);

    let mut graph = "name = \"graph\"\n".to_owned();
    for task in 1..=few {
        let _ = write!(
            graph,
            "[[task]]\nid = {task}\ncommand = [\"true\"]\nstdout = \"none\"\nstderr = \"none\"\n"
        );
        if task > 50 {
            let _ = writeln!(graph, "deps = [{}]", task - 50);
        }
        graph += "[[task.request]]\nresources = { null = 1 }\n";
    }
    cluster.write("graph.toml", graph);
    let graph = cluster.json("job submit-file graph.toml")["id"].as_u64().expect("an id") as u32;
    add("graph", graph, false, &[("finished", IdSet::range(1, few))]);

    let failed = submit(&format!("--array 1-{few} {REAL} false"));
    add("failed", failed, false, &[("failed", IdSet::range(1, few))]);

    // In an open job: odd ones finish, of the even ones half are canceled, in as many intervals as there can be.
    let open = cluster.json("job open")["id"].as_u64().expect("an id") as u32;
    let odd = spread(size, 1, 2);
    submit(&format!("--job {open} --array {odd} {NULL} true"));
    let (mut waiting, mut stopped) = (IdSet::new(), IdSet::new());
    if size > 4 {
        submit(&format!("--job {open} --array {} {NEVER} true", spread(size, 2, 2)));
        cluster.ok(&format!("job cancel {open} --tasks {}", spread(size, 4, 4)));
        waiting = ids(spread(size, 2, 4));
        stopped = ids(spread(size, 4, 4));
    }
    let mixed = [("finished", ids(odd)), ("waiting", waiting), ("canceled", stopped)];
    add("open", open, true, &mixed);

    // Many submits with gaps between them.
    let several = cluster.json("job open")["id"].as_u64().expect("an id") as u32;
    let mut expected = IdSet::new();
    for part in 0..10.min(size) {
        let (first, last) = (1 + part * (size / 10 + 2), part * (size / 10 + 2) + (size / 10).max(1));
        submit(&format!("--job {several} --array {first}-{last} {NULL} true"));
        expected.insert_range(first, last);
    }
    cluster.ok(&format!("job close {several}"));
    add("submits", several, false, &[("finished", expected)]);

    for job in [finished, keyed, blocked, entries, graph, several] {
        assert_eq!(cluster.hq(&format!("job wait {job}")).exit, 0);
    }
    assert_eq!(cluster.hq(&format!("job wait {failed}")).exit, 1);

    let run = size.min(2);
    let log =
        submit(&format!("--array 1-{few} --log all.log --resource real=1 sh -c 'echo out; echo err >&2'"));
    assert_eq!(cluster.hq(&format!("job wait {log}")).exit, 0);
    add("logged", log, false, &[("finished", IdSet::range(1, few))]);
    let retried = submit(&format!("--array 1-{run} --retry 9 --retry-delay 1h {REAL} false"));
    patience::until("tasks wait for their next attempt", || {
        let tasks = cluster.json(&format!("task info {retried} 1-{run}"));
        let tasks = tasks.as_array().expect("a list");
        let waits = |task: &Value| task["instance"] == 1 && task["state"] == "waiting";
        if tasks.iter().all(waits) { Ok(()) } else { Err(format!("{tasks:?}")) }
    });
    add("delayed", retried, false, &[("waiting", IdSet::range(1, run))]);

    let running = submit(&format!("--array 1-{size} {REAL} sleep 100000"));
    until_stats("tasks start", cluster, running, "running", run);
    until_stats("tasks of the open job end", cluster, open, "finished", size.div_ceil(2));
    let rest = if size > run { IdSet::range(run + 1, size) } else { IdSet::new() };
    add("running", running, false, &[("running", IdSet::range(1, run)), ("waiting", rest)]);

    let (taken, _) = bag(cluster, size, "taken");
    add("taken", taken, true, &[("running", IdSet::range(0, size - 1))]);
    let (given_up, held) = bag(cluster, size, "given up");
    for (who, names) in held {
        let names = names.replace('\n', " ");
        cluster.ok(&format!("pull fail --as {who} --bag {given_up} --message 'no luck' {names}"));
    }
    cluster.ok(&format!("pull close {given_up}"));
    cluster.hq(&format!("job wait {given_up}"));
    add("given up", given_up, false, &[("failed", IdSet::range(0, size - 1))]);
    for job in &mut jobs {
        job.log = (job.id == log).then_some("all.log");
        job.is_bag = [taken, given_up].contains(&job.id);
    }
    jobs
}

// A bag all of whose tasks are taken; and who has which of them, a name on each line.
fn bag(cluster: &Cluster, size: u32, name: &str) -> (u32, Vec<(String, String)>) {
    let lines: Vec<String> = (1..=size).map(|task| format!("t{task}\n")).collect();
    cluster.ok(&format!("pull open '{name}'"));
    for lines in lines.chunks(CREATED_AT_ONCE) {
        cluster.write("names", lines.concat());
        cluster.ok(&format!("pull addfile --bag '{name}' names"));
    }
    let (mut held, mut taken) = (Vec::new(), 0);
    while taken < size as usize {
        // They come to the relay bit by bit, and nobody has too many.
        let who = format!("'{name} {taken}'");
        let steal =
            format!("pull steal --quiet --bag '{name}' -n {PULLED_AT_ONCE} --lease 10d --wait --as {who}");
        let names = cluster.ok(&steal);
        taken += names.lines().count();
        held.push((who, names));
    }
    let id = cluster.json("job info last")[0]["info"]["id"].as_u64().expect("an id") as u32;
    until_stats("the tasks of a bag are taken", cluster, id, "running", size);
    (id, held)
}

fn until_stats(what: &str, cluster: &Cluster, job: u32, state: &str, count: u32) {
    patience::until(what, || match &stats(cluster, job)[state] {
        found if *found == count => Ok(()),
        found => Err(format!("{found} of {count} tasks are {state}")),
    });
}

// From the first id in steps, up to the size.
fn spread(size: u32, first: u32, step: u32) -> String {
    if size < first + step { first.to_string() } else { format!("{first}-{size}:{step}") }
}

fn stats(cluster: &Cluster, job: u32) -> Value {
    cluster.json(&format!("job info {job}"))[0]["info"]["task_stats"].take()
}

fn about_tasks(reader: &Reader<'_>, job: &Job) {
    let (id, kind, all) = (job.id, job.kind, job.ids());
    let (first, last) = (all.first().expect("tasks").0, all.last().expect("tasks").0);
    let whole = job.tally(&all);
    let list = format!("task list {id}");
    reader.ok(kind, Mode::Cli, &list).has(&whole);
    reader.ok(kind, Mode::Cli, &format!("{list} --verbose")).has(&whole);
    reader.ok(kind, Mode::Json, &list).has(&whole);
    reader.ok(kind, Mode::Quiet, &list).says("");
    for state in STATES {
        let expected = job.tasks.get(state).map_or_else(Tally::default, |ids| job.tally(ids));
        let mode = if expected.states.is_empty() { Mode::Cli } else { Mode::Json };
        reader.ok(kind, mode, &format!("{list} --filter {state}")).has(&expected);
        let state_ids = job.tasks.get(state).map(IdSet::to_string).unwrap_or_default();
        reader
            .ok(kind, Mode::Cli, &format!("job task-ids {id} --filter {state}"))
            .says(&format!("{state_ids}\n"));
    }
    let ends: IdSet = [first..=first, last..=last].into_iter().collect();
    for mode in [Mode::Cli, Mode::Json] {
        reader.ok(kind, mode, &format!("{list} --tasks {ends}")).has(&job.tally(&ends));
    }
    // A task that is not there.
    reader.run(kind, Mode::Json, &format!("{list} --tasks {}", last + 1), Contents::Document).ends_with(1);

    let info = format!("task info {id} {all}");
    if all.range_count() <= INTERVALS_MAX {
        reader.ok(kind, Mode::Json, &info).has(&whole);
        reader.ok(kind, Mode::Quiet, &info).says("");
        if all.len() <= u64::from(TABLES_MAX) {
            reader.run(kind, Mode::Cli, &info, Contents::Lines).names("Task ID", all.iter().map(|id| id.0));
        }
    }
    reader.run(kind, Mode::Cli, &format!("task info {id} {last}"), Contents::Lines).names("Task ID", [last]);
    for mode in Mode::ALL {
        reader.ok(kind, mode, &format!("task explain {id} {last}"));
    }
    let task_ids = format!("job task-ids {id}");
    reader.ok(kind, Mode::Cli, &task_ids).says(&format!("{all}\n"));
    reader.ok(kind, Mode::Quiet, &task_ids);
    reader.run(kind, Mode::Json, &task_ids, Contents::Numbers).counts(all.len());
}

fn about_job(reader: &Reader<'_>, job: &Job) {
    let (id, kind, all) = (job.id, job.kind, job.ids());
    let info = format!("job info {id}");
    let states = job.tasks.iter().map(|(state, ids)| match (all.len(), state.to_ascii_uppercase()) {
        // The state of the job.
        (1, _) => String::new(),
        (_, state) => format!("{state} ({})", ids.len()),
    });
    let words: Vec<String> = [format!("| {}; Ids: ", all.len())].into_iter().chain(states).collect();
    reader.ok(kind, Mode::Cli, &info).mentions(&words);
    reader.ok(kind, Mode::Json, &info).has(&job.tally(&all));
    reader.ok(kind, Mode::Quiet, &info);
    let lines = if job.log.is_some() { all.len() } else { 0 };
    for channel in ["stdout", "stderr"] {
        let cat = format!("job cat {id} {channel}");
        for mode in [Mode::Cli, Mode::Quiet] {
            let told = reader.run(kind, mode, &cat, Contents::Lines).ends_with(0);
            let nothing = format!("No task of job {id} has a `{channel}` stream associated with it");
            let told = if lines == 0 && mode == Mode::Cli { told.warns(&nothing) } else { told };
            told.counts(lines);
        }
    }
    let heads = format!("job cat {id} stdout --print-task-header");
    reader.run(kind, Mode::Cli, &heads, Contents::Lines).ends_with(0).counts(all.len() + lines);
    let last = all.last().expect("tasks").0;
    for mode in [Mode::Cli, Mode::Quiet] {
        reader
            .run(kind, mode, &format!("task tail {id}@{last}"), Contents::Lines)
            .ends_with(0)
            .counts(lines.min(1));
    }
    for mode in Mode::ALL {
        reader.ok(kind, mode, &format!("job efficiency {id}"));
        reader.ok(kind, mode, &format!("object list {id}"));
        // Nothing of this has a result.
        let contents = if mode == Mode::Json { Contents::Document } else { Contents::Text };
        reader.run(kind, mode, &format!("job result {id}"), contents).ends_with(1);
        if job.is_bag {
            reader.ok(kind, mode, &format!("pull status {id}"));
            reader.ok(kind, mode, &format!("pull look --bag {id} t{}", last + 1));
        }
    }
    // Files have no JSON form.
    reader.run(kind, Mode::Json, &format!("job cat {id} stdout"), Contents::Document).ends_with(2);
    for mode in Mode::ALL {
        reader.ok(kind, mode, &format!("job explain {id}"));
    }
    let failures = format!("job failures {id}");
    let failed = job.tasks.get("failed").map_or(0, IdSet::len);
    let aborted = job.tasks.get("aborted").map_or(0, IdSet::len);
    reader.ok(kind, Mode::Cli, &failures);
    reader.ok(kind, Mode::Json, &failures);
    let told = reader.ok(kind, Mode::Quiet, &failures);
    match (failed, aborted) {
        (0, 0) => told.says(""),
        (0, _) => told.mentions(&[format!("{id} {aborted} "), "Task 1@0 was canceled".to_owned()]),
        _ if job.is_bag => told.says(&format!("{id} {failed} no luck\n")),
        _ => told.says(&format!("{id} {failed} Program terminated with exit code 1.\n")),
    }
    if job.has_ended() {
        let is_well = job.tasks.keys().all(|state| *state == "finished");
        for what in ["wait", "progress"] {
            for mode in Mode::ALL {
                let contents = if mode == Mode::Json { Contents::Document } else { Contents::Text };
                reader.run(kind, mode, &format!("job {what} {id}"), contents).ends_with(i32::from(!is_well));
            }
        }
    }
}

fn about_all(reader: &Reader<'_>, jobs: &[Job]) {
    const ALL: &str = "all";
    let listed = reader.ok(ALL, Mode::Json, "job list --all").text();
    let listed: Vec<Value> = serde_json::from_str(&listed).expect("a list");
    assert_eq!(listed.len(), jobs.len());
    for job in jobs {
        let one = listed.iter().find(|one| one["id"] == job.id).expect("each job is listed");
        assert_eq!(one["task_count"], job.ids().len(), "{}", job.kind);
        for state in STATES {
            assert_eq!(one["task_stats"][state], job.tasks.get(state).map_or(0, IdSet::len), "{}", job.kind);
        }
    }
    reader.run(ALL, Mode::Cli, "job list --all", Contents::Lines).counts_at_least(jobs.len() as u64 + 4);
    reader.run(ALL, Mode::Quiet, "job list --all", Contents::Lines).counts(jobs.len() as u64);
    let mut whole = Tally::default();
    jobs.iter().for_each(|job| whole.add_all(&job.tally(&job.ids())));
    let ids: IdSet = jobs.iter().map(|job| hq_model::TaskId(job.id)).collect();
    reader.ok(ALL, Mode::Json, &format!("task list {ids}")).has(&whole);
    for mode in Mode::ALL {
        for command in [
            "job list",
            "job summary",
            "job explain all",
            "job failures all",
            "server info",
            "server wait",
            "worker list",
            "worker list --all",
            "worker info all",
            "worker address 1",
            "worker wait 2",
            "worker hwdetect",
            "alloc list",
            "journal flush",
            "journal check",
            "journal report ../server/journal report.html",
            "journal utilization",
            "journal utilization --by job",
            "journal profile profile",
            "metrics",
            "config show",
            "server debug-dump dump",
            "object list all",
            "job efficiency all",
            "pull status",
        ] {
            reader.ok(ALL, mode, command);
        }
        for command in ["journal replay", "journal export"] {
            reader.run(ALL, mode, command, Contents::Documents).ends_with(0).counts_at_least(whole.count());
        }
    }
    let first = Contents::First(whole.count());
    reader.run(ALL, Mode::Cli, "journal stream", first).counts(whole.count());
}

// What was printed into one file.
fn about_outputs(reader: &Reader<'_>, jobs: &[Job]) {
    for (job, log) in jobs.iter().filter_map(|job| Some((job, job.log?))) {
        let (kind, count) = (job.kind, job.ids().len());
        for mode in Mode::ALL {
            reader.ok(kind, mode, &format!("output-log {log} summary"));
            reader.ok(kind, mode, &format!("output-log {log} export"));
        }
        reader.ok(kind, Mode::Cli, &format!("output-log {log} jobs")).says(&format!("{}\n", job.id));
        let lines = |command: &str| {
            reader.run(kind, Mode::Cli, &format!("output-log {log} {command}"), Contents::Lines).ends_with(0)
        };
        lines("show").counts(2 * count);
        lines(&format!("cat {} stdout", job.id)).counts(count);
    }
}

// A job that was forgotten is not there, and whoever asks for it hears that.
fn about_none(reader: &Reader<'_>, cluster: &Cluster) {
    const KIND: &str = "forgotten";
    let id = cluster.json(&format!("submit --array 1-2 {NULL} true"))["id"].as_u64().expect("an id");
    cluster.ok(&format!("job wait {id}"));
    cluster.ok(&format!("job forget {id}"));
    for command in ["info", "wait", "progress", "failures", "explain", "task-ids", "efficiency", "result"] {
        for mode in Mode::ALL {
            let contents = if mode == Mode::Json { Contents::Document } else { Contents::Text };
            reader.run(KIND, mode, &format!("job {command} {id}"), contents).ends_with(1);
        }
    }
    let commands = [
        format!("task list {id}"),
        format!("task info {id} 1"),
        format!("task explain {id} 1"),
        format!("task tail {id}@1"),
        format!("job cat {id} stdout"),
    ];
    for command in commands {
        let told = reader.run(KIND, Mode::Cli, &command, Contents::Text).ends_with(1);
        told.warns(&format!("Job {id} not found")).says("");
    }
}

// Listings take as long as they may.
fn about_time(reader: &Reader<'_>, jobs: &[Job]) {
    if cfg!(debug_assertions) {
        return;
    }
    for job in jobs.iter().filter(|job| job.ids().len() == 100_000) {
        let listing = format!("task list {}", job.id);
        let times = (0..LISTINGS).map(|_| {
            let begin = Instant::now();
            reader.ok(job.kind, Mode::Cli, &listing).has(&job.tally(&job.ids()));
            begin.elapsed()
        });
        let best = times.min().expect("more than none");
        println!("{:8.2} s  hq {listing} ({}, the best of {LISTINGS})", best.as_secs_f64(), job.kind);
        assert!(best < LISTING_MAX, "hq {listing} ({}) took {best:.0?} at best", job.kind);
    }
}
