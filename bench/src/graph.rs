//! Tasks that wait for others: chains, layers, arrays after arrays, and a graph of a million tasks.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hq_client::Session;
use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_model::dependency::{After, Edges, Mapping};
use hq_model::job::{Target, TaskIds};
use hq_model::{Body, Dependencies, JobId, JobSpec, Submit, TaskId, TaskSpec};

use crate::cluster::{Bench, Cluster};
use crate::measure::{median, memory_mb};
use crate::null::NULL;
use crate::row::{BoxError, Row};
use crate::startup::one_cpu;

/// Tasks of a layer.
const WIDTH: u32 = 100;
/// How often a chain is run.
const CHAINS: u32 = 5;

/// A chain of a thousand `true`, in turns with as many spawns one after the other.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn chain(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(1000);
    let cluster = bench.cluster(&[], 1, &["--cpus", "1"])?;
    let (mut chains, mut spawns) = (Vec::new(), Vec::new());
    for _ in 0..CHAINS {
        let lists = (0..count).map(|task| task.checked_sub(1).map(TaskId).into_iter().collect());
        chains.push(submit_and_wait(&cluster, count, edges(lists)?)?);
        let begun = Instant::now();
        for _ in 0..count {
            Command::new("/bin/true").stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        }
        spawns.push(begun.elapsed());
    }
    let (chain, spawn) = (median(chains), median(spawns));
    let link = |seconds: f64| seconds * 1e3 / f64::from(count);
    let value = format!("{:.2} ms a link, {:.2} ms a bare spawn", link(chain), link(spawn));
    Ok(vec![Row::at_most("chain", value, "1.3 × the bare spawns", chain / spawn, 1.3)])
}

/// Layers of a hundred tasks, each waiting for three of the layer before, with the null executor.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn layers(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(10_000);
    let cluster = bench.cluster(&[], 1, &NULL)?;
    let mut times = Vec::new();
    for _ in 0..CHAINS {
        times.push(submit_and_wait(&cluster, count, edges((0..count).map(|task| before(task, WIDTH)))?)?);
    }
    let rate = f64::from(count) / median(times);
    Ok(vec![Row::at_most("layers", format!("{rate:.0} tasks/s"), "100 000 tasks/s", 1e5 / rate, 1.0)])
}

/// An array of a million after another one, element by element, with the null executor.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn arrays(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(1_000_000);
    let mut cluster = bench.cluster(&[], 0, &[])?;
    let first = submit(&cluster, count, Dependencies::default())?;
    let tasks = Some((0..count).map(TaskId).collect());
    let after = After { tasks, mapping: Mapping::Window(0), ..After::of(first) };
    let second = submit(&cluster, count, Dependencies { after: vec![after], ..Dependencies::default() })?;
    cluster.start("worker", &NULL)?;
    cluster.run(&["worker", "wait", "1"])?;
    let time = cluster.run(&["job", "wait", &second.to_string()])?;
    let rate = 2.0 * f64::from(count) / time.as_secs_f64();
    let (_, peak) = memory_mb(cluster.server_pid());
    let size = format!("{peak:.0} MB");
    Ok(vec![
        Row::at_most("arrays: rate", format!("{rate:.0} tasks/s"), "500 000 tasks/s", 5e5 / rate, 1.0),
        Row::at_most("arrays: server", size, "150 MB", peak / 150.0, 1.0),
    ])
}

/// A graph of a million tasks with three edges each: until it is accepted, and the server's memory.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn memory(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(1_000_000);
    let cluster = bench.cluster(&[], 0, &[])?;
    let list = |task: u32| -> Vec<TaskId> {
        let earlier = |distance: u32| task.checked_sub(distance).map(TaskId);
        [1, 10, 1000].into_iter().filter_map(earlier).collect()
    };
    let dependencies = edges((0..count).map(list))?;
    let begun = Instant::now();
    submit(&cluster, count, dependencies)?;
    let seconds = begun.elapsed().as_secs_f64();
    let (now, peak) = memory_mb(cluster.server_pid());
    let size = format!("{now:.0} MB, {peak:.0} MB at most");
    Ok(vec![
        Row::at_most("graph: accepted", format!("{seconds:.2} s"), "3 s", seconds / 3.0, 1.0),
        Row::at_most("graph: server", size, "200 MB", now / 200.0, 1.0),
    ])
}

/// A cluster without workers, with a graph of that many tasks in layers, of which half are done.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn half_done(bench: &Bench, count: u32) -> Result<Cluster, BoxError> {
    let cluster = bench.cluster(&[], 1, &NULL)?;
    let graph = submit(&cluster, count, edges((0..count).map(|task| before(task, WIDTH * 10)))?)?;
    let middle = After { tasks: Some([TaskId(count / 2)].into_iter().collect()), ..After::of(graph) };
    let reached = submit(&cluster, 1, Dependencies { after: vec![middle], ..Dependencies::default() })?;
    cluster.run(&["job", "wait", &reached.to_string()])?;
    cluster.run(&["worker", "stop", "all"])?;
    Ok(cluster)
}

// The three tasks of the layer before that a task waits for.
fn before(task: u32, width: u32) -> Vec<TaskId> {
    let Some(layer) = (task / width).checked_sub(1) else { return Vec::new() };
    (0..3).map(|offset| TaskId(layer * width + (task + offset * 7) % width)).collect()
}

fn edges(lists: impl Iterator<Item = Vec<TaskId>>) -> Result<Dependencies, BoxError> {
    let edges = Edges::new(lists).ok_or("too many edges")?;
    Ok(Dependencies { edges, ..Dependencies::default() })
}

fn submit_and_wait(cluster: &Cluster, count: u32, dependencies: Dependencies) -> Result<Duration, BoxError> {
    let begun = Instant::now();
    let job = submit(cluster, count, dependencies)?;
    cluster.run(&["job", "wait", &job.to_string()])?;
    Ok(begun.elapsed())
}

fn submit(cluster: &Cluster, count: u32, dependencies: Dependencies) -> Result<JobId, BoxError> {
    let mut session = Session::connect(&cluster.server_dir())?;
    let body = Body::program(["/bin/true"]);
    let submit = Submit {
        dependencies: Arc::new(dependencies),
        ..Submit::new(
            Target::New(JobSpec { name: "graph".to_owned(), max_fails: None, ..JobSpec::default() }),
            TaskIds::Next(count),
            TaskSpec { body, requests: vec![one_cpu()?], cwd: b"/".to_vec(), ..TaskSpec::default() },
        )
    };
    let key = hq_client::session::request_key()?;
    match session.request(ClientRequest::Submit { key, submit: Box::new(submit) })? {
        ClientResponse::Submitted { job, .. } => Ok(job),
        other => Err(format!("the submit was answered with {other:?}").into()),
    }
}
