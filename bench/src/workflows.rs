//! Workflows as the package `wfcommons` draws them after real ones, in virtual time, against list schedules that know
//! how long each task takes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use hq_core::client_messages::ClientRequest;
use hq_core::worker::Start;
use hq_model::dependency::Edges;
use hq_model::job::{Target, TaskIds};
use hq_model::{Dependencies, IdSet, JobId, JobSpec, Submit, TaskId, TaskSpec};
use serde_json::Value;

use crate::cluster::Bench;
use crate::python;
use crate::row::{BoxError, Row};
use crate::scheduling::Numbers;
use crate::virtual_cluster::{VirtualCluster, array};

const WORKERS: u64 = 4;
const CORES: u32 = 16;
/// Orders that are tried beside that of the longest ways, each of them shaken.
const ORDERS: u32 = 300;

struct Task {
    category: String,
    us: u64,
    parents: Vec<u32>,
}

/// Montage, Epigenomics, 1000Genome and BLAST with about a thousand tasks: with `--expect` for each of them, and with
/// the mean time of its kind.
///
/// # Errors
/// When the package is not to be had, or something does not end.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(1_000);
    let script = include_str!("workflows/make.py");
    let text = python::run(bench, &["wfcommons==1.6"], script, &[count.to_string()])?;
    let mut rows = Vec::new();
    for line in text.lines() {
        let workflow: Value = serde_json::from_str(line)?;
        let tasks = tasks(&workflow["tasks"]).ok_or("the script printed something else")?;
        let (best, bound) = (best_schedule(&tasks), bound(&tasks));
        let exact: Vec<u64> = tasks.iter().map(|task| task.us).collect();
        let (took, rough) = (makespan(&tasks, &exact)?, makespan(&tasks, &means(&tasks))?);
        let name = format!("workflows: {}", workflow["name"].as_str().unwrap_or("?"));
        let seconds = |us: u64| us as f64 / 1e6;
        let value = format!(
            "{:.0} s, {:.0} s by kinds; best list {:.0} s, bound {:.0} s",
            seconds(took),
            seconds(rough),
            seconds(best),
            seconds(bound)
        );
        rows.push(Row::at_most(&name, value, "5 % over the best list", took as f64 / best as f64, 1.05));
    }
    Ok(rows)
}

fn tasks(list: &Value) -> Option<Vec<Task>> {
    let task = |task: &Value| {
        let parents = task[2].as_array()?.iter().map(|place| Some(place.as_u64()? as u32));
        let us = (task[1].as_f64()? * 1e6) as u64;
        Some(Task { category: task[0].as_str()?.to_owned(), us, parents: parents.collect::<Option<_>>()? })
    };
    list.as_array()?.iter().map(task).collect()
}

// What no schedule can beat.
fn bound(tasks: &[Task]) -> u64 {
    let longest = ways(tasks).into_iter().max().unwrap_or(0);
    let work: u64 = tasks.iter().map(|task| task.us).sum();
    longest.max(work.div_ceil(WORKERS * u64::from(CORES)))
}

// The longest way from each task to the end, with its own time. Parents come before their children.
fn ways(tasks: &[Task]) -> Vec<u64> {
    let mut ways: Vec<u64> = tasks.iter().map(|task| task.us).collect();
    for at in (0..tasks.len()).rev() {
        for parent in &tasks[at].parents {
            let way = tasks[*parent as usize].us + ways[at];
            let known = &mut ways[*parent as usize];
            *known = (*known).max(way);
        }
    }
    ways
}

// The shortest of many list schedules: by the longest ways, exact and shaken more and more.
fn best_schedule(tasks: &[Task]) -> u64 {
    let ways = ways(tasks);
    let mut numbers = Numbers(11);
    let mut best = scheduled(tasks, &ways);
    for order in 0..ORDERS {
        let most = 2 + u64::from(order) * 3;
        let shaken: Vec<u64> = ways.iter().map(|way| way + way / 1_000 * numbers.below(most)).collect();
        best = best.min(scheduled(tasks, &shaken));
    }
    best
}

// Of the tasks that are ready, those with the largest keys first; none waits while a core is free.
fn scheduled(tasks: &[Task], keys: &[u64]) -> u64 {
    let mut left: Vec<usize> = tasks.iter().map(|task| task.parents.len()).collect();
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); tasks.len()];
    for (at, task) in tasks.iter().enumerate() {
        task.parents.iter().for_each(|parent| children[*parent as usize].push(at as u32));
    }
    let is_free = |at: &u32| left[*at as usize] == 0;
    let mut ready: BinaryHeap<(u64, Reverse<u32>)> =
        (0..tasks.len() as u32).filter(is_free).map(|at| (keys[at as usize], Reverse(at))).collect();
    let mut running: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
    let (mut now, slots) = (0, (WORKERS * u64::from(CORES)) as usize);
    loop {
        while running.len() < slots
            && let Some((_, Reverse(at))) = ready.pop()
        {
            running.push(Reverse((now + tasks[at as usize].us, at)));
        }
        let Some(Reverse((ends, at))) = running.pop() else { return now };
        now = ends;
        for child in &children[at as usize] {
            left[*child as usize] -= 1;
            if left[*child as usize] == 0 {
                ready.push((keys[*child as usize], Reverse(*child)));
            }
        }
    }
}

// The mean time of each task's kind.
fn means(tasks: &[Task]) -> Vec<u64> {
    let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for task in tasks {
        let (sum, count) = kinds.entry(&task.category).or_default();
        *sum += task.us;
        *count += 1;
    }
    let mean = |task: &Task| {
        let (sum, count) = kinds[task.category.as_str()];
        sum / count
    };
    tasks.iter().map(mean).collect()
}

// Virtual time until all have ended, from the submit on, where so much is expected of each.
fn makespan(tasks: &[Task], expected: &[u64]) -> Result<u64, BoxError> {
    let times: Vec<u64> = tasks.iter().map(|task| task.us).collect();
    let run_time =
        move |_: usize, start: &Start| Duration::from_micros(times[start.task.task.0 as usize].max(1));
    let mut cluster = VirtualCluster::new(WORKERS as usize, CORES, Box::new(run_time));
    let spec = JobSpec { name: "workflow".into(), ..JobSpec::default() };
    cluster.request(|key| ClientRequest::OpenJob { key, spec });
    let begun = cluster.elapsed();
    let submits = (0..).zip(tasks.iter().zip(expected)).map(|(id, (task, us))| submit(id, task, *us));
    let submits = submits.collect::<Result<Vec<Submit>, BoxError>>()?;
    cluster.request(|key| ClientRequest::SubmitAll { key, submits });
    if !cluster.run_until_ended(tasks.len() as u64) {
        return Err(format!("{} of {} tasks ended", cluster.ended, tasks.len()).into());
    }
    Ok((cluster.elapsed() - begun).as_micros() as u64)
}

fn submit(id: u32, task: &Task, expected_us: u64) -> Result<Submit, BoxError> {
    let expected = Some(Duration::from_micros(expected_us));
    let one = array(1, 1, |spec: &mut TaskSpec, _| spec.expected = expected);
    let parents: Vec<TaskId> = task.parents.iter().map(|parent| TaskId(*parent)).collect();
    let edges = Edges::new([parents]).ok_or("too many edges")?;
    Ok(Submit {
        target: Target::Open(JobId(1)),
        ids: TaskIds::Given(IdSet::single(TaskId(id))),
        dependencies: Arc::new(Dependencies { edges, ..Dependencies::default() }),
        ..one
    })
}
