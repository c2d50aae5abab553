//! The journal: how fast a server is back, how much is written for a task, and what waiting for the disk costs.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hq_client::Session;
use hq_core::client_messages::ClientRequest;
use hq_model::job::{Target, TaskIds};
use hq_model::{Body, JobSpec, Submit, TaskSpec};

use crate::cluster::{Bench, Cluster};
use crate::measure::{median, median_of};
use crate::row::{BoxError, Row};
use crate::startup::one_cpu;

const NULL: [&str; 4] = ["--executor", "null", "--cpus", "2"];
/// Rounds of what is measured in turns.
const ROUNDS: usize = 3;
/// Jobs that a million tasks are in.
const JOBS: u32 = 10_000;
/// Clients that submit at the same time.
const CLIENTS: u32 = 16;

/// A killed server with a million finished tasks, in one array and in 10 000 jobs, and with a graph of a million that
/// is half done, until it answers.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn restart(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(1_000_000);
    let mut one = bench.cluster(&[], 1, &NULL)?;
    one.array(count)?;
    let jobs = bench.tasks(JOBS);
    let mut many = bench.cluster(&[], 1, &NULL)?;
    submits(&mut Session::connect(&many.server_dir())?, jobs, count / jobs)?;
    many.run(&["job", "wait", "all"])?;
    let mut graph = crate::graph::half_done(bench, count)?;
    Ok(vec![
        restarted("restart: one array", &mut one, "0.1 s to the first answer", 0.1)?,
        restarted(&format!("restart: {jobs} jobs"), &mut many, "0.5 s to the first answer", 0.5)?,
        restarted("restart: half of a graph", &mut graph, "2 s to the first answer", 2.0)?,
    ])
}

fn restarted(name: &str, cluster: &mut Cluster, target: &str, most_s: f64) -> Result<Row, BoxError> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(cluster.kill_and_restart()?);
    }
    let kib = journal_bytes(&cluster.server_dir().join("journal"))? / 1024;
    let seconds = median(times);
    let value = format!("{:.0} ms, a journal of {kib} KiB", seconds * 1e3);
    Ok(Row::at_most(name, value, target, seconds / most_s, 1.0))
}

/// Bytes of the journal for each task of an array of programs.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn size(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(50_000);
    let cluster = bench.cluster(&[], 1, &[])?;
    cluster.run(&["submit", "--wait", "--stdout=none", "--stderr=none", "--", "true"])?;
    let journal = cluster.server_dir().join("journal");
    let before = journal_bytes(&journal)?;
    cluster.array(count)?;
    cluster.run(&["journal", "flush"])?;
    let each = (journal_bytes(&journal)? - before) as f64 / f64::from(count);
    let value = format!("{each:.1} bytes, {count} programs");
    Ok(vec![Row::at_most("journal-size: a task", value, "12 bytes", each / 12.0, 1.0)])
}

/// The null array with a journal and without, in turns.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn cost(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(20_000_000);
    let (kept, lost) = (bench.cluster(&[], 1, &NULL)?, bench.cluster(&["--journal", "none"], 1, &NULL)?);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (first, second) = (kept.array(count)?.as_secs_f64(), lost.array(count)?.as_secs_f64());
        // The first round warms up.
        if round > 0 {
            with.push(first);
            without.push(second);
        }
    }
    let (with, without) = (median_of(with), median_of(without));
    let value = format!("{with:.2} s with, {without:.2} s without");
    Ok(vec![Row::at_most("journal-cost", value, "at most 10 % slower", with / without, 1.1)])
}

/// Submits of one task each from 16 clients, against how often the disk can sync.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn group_commit(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let each = bench.tasks(3_000);
    let cluster = bench.cluster(&[], 0, &[])?;
    let syncs = sync_rate(&cluster.home().join("probe"))?;
    // Connecting is not what is measured.
    let sessions: Result<Vec<_>, _> = (0..CLIENTS).map(|_| Session::connect(&cluster.server_dir())).collect();
    let sessions = sessions?;
    let begun = Instant::now();
    thread::scope(|scope| {
        let clients = sessions.into_iter().map(|mut session| {
            scope.spawn(move || submits(&mut session, each, 1).map_err(|error| error.to_string()))
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().try_for_each(|client| client.join().unwrap_or(Err("a client broke".to_owned())))
    })?;
    let rate = f64::from(CLIENTS * each) / begun.elapsed().as_secs_f64();
    // How often the disk syncs changes from minute to minute.
    let syncs = f64::midpoint(syncs, sync_rate(&cluster.home().join("probe"))?);
    let value = format!("{rate:.0} submits/s, {syncs:.0} syncs/s");
    Ok(vec![Row::at_most(
        "group-commit: 16 clients",
        value,
        "5 × the syncs of the disk",
        5.0 * syncs / rate,
        1.0,
    )])
}

// How often a second a few bytes can be appended and synced.
fn sync_rate(path: &Path) -> Result<f64, BoxError> {
    let mut file = File::create(path)?;
    let begun = Instant::now();
    let mut syncs = 0;
    while begun.elapsed() < Duration::from_secs(1) {
        file.write_all(&[7; 100])?;
        file.sync_data()?;
        syncs += 1;
    }
    Ok(f64::from(syncs) / begun.elapsed().as_secs_f64())
}

// Submits jobs of some tasks each, one after the other.
fn submits(session: &mut Session, jobs: u32, tasks: u32) -> Result<(), BoxError> {
    let spec = Arc::new(TaskSpec {
        body: Body::program(["true"]),
        requests: vec![one_cpu()?],
        ..TaskSpec::default()
    });
    for _ in 0..jobs {
        let submit = Submit::new(
            Target::New(JobSpec { name: "many".to_owned(), ..JobSpec::default() }),
            TaskIds::Next(tasks),
            spec.clone(),
        );
        let key = hq_client::session::request_key()?;
        session.request(ClientRequest::Submit { key, submit: Box::new(submit) })?;
    }
    Ok(())
}

pub(crate) fn journal_bytes(dir: &Path) -> Result<u64, BoxError> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}
