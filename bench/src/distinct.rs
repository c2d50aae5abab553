//! Tasks that all differ: each its own number of cores and time request, and some their own priority. Where every task
//! is a case of its own, a scheduler that solves its plans exactly falls behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hq_client::Session;
use hq_core::client_messages::ClientRequest;
use hq_model::job::{Target, TaskIds};
use hq_model::request::{self, ResourceRequest};
use hq_model::{Body, JobSpec, Request, Submit, TaskSpec};

use crate::cluster::{Bench, Cluster};
use crate::row::{BoxError, Row};

const TASK_S: f64 = 0.2;

/// 200 tasks with priorities on four workers of 16 declared cores, 600 without on 16 workers of 32; and what another client waits meanwhile.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let mut rows = case(bench, 200, 4, 16, |at| (at * 31 % 211) as i32)?;
    rows.extend(case(bench, 600, 16, 32, |_| 0)?);
    Ok(rows)
}

fn case(
    bench: &Bench,
    tasks: u32,
    workers: u32,
    cores: u32,
    priority: fn(u32) -> i32,
) -> Result<Vec<Row>, BoxError> {
    let tasks = if bench.is_quick { tasks / 4 } else { tasks };
    let declared = cores.to_string();
    // Without a journal: its syncs are measured elsewhere.
    let cluster = bench.cluster(
        &["--journal", "none"],
        workers,
        &["--cpus", &declared, "--detect-resources", "none"],
    )?;
    let wanted = |at: u32| 1 + at * 7 % cores;
    let ideal_s = f64::from((0..tasks).map(wanted).sum::<u32>()) * TASK_S / f64::from(workers * cores);
    let is_over = AtomicBool::new(false);
    let (elapsed, slowest) = thread::scope(|scope| -> Result<(Duration, Duration), BoxError> {
        let other = scope.spawn(|| slowest_submit(&cluster, &is_over).map_err(|error| error.to_string()));
        let begun = Instant::now();
        let mut session = Session::connect(&cluster.server_dir())?;
        for at in 0..tasks {
            submit(&mut session, "sleep", &["sleep", "0.2"], wanted(at), at, priority(at))?;
        }
        let ended = cluster.run(&["job", "wait", "all"]);
        let elapsed = begun.elapsed();
        is_over.store(true, Ordering::Relaxed);
        let slowest = other.join().map_err(|_| "a client broke")??;
        ended?;
        Ok((elapsed, slowest))
    })?;
    let seconds = elapsed.as_secs_f64();
    let name = format!("distinct: {tasks} tasks");
    let value = format!("{seconds:.2} s, ideal {ideal_s:.2} s");
    let latency = slowest.as_secs_f64();
    Ok(vec![
        Row::at_most(&name, value, "within 8 % of the ideal", seconds / ideal_s, 1.08),
        Row::at_most(
            &format!("{name}, a client"),
            format!("slowest submit {:.1} ms", latency * 1e3),
            "10 ms",
            latency / 0.01,
            1.0,
        ),
    ])
}

// Another client submits a task of one core now and then.
fn slowest_submit(cluster: &Cluster, is_over: &AtomicBool) -> Result<Duration, BoxError> {
    let mut session = Session::connect(&cluster.server_dir())?;
    let mut slowest = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        submit(&mut session, "other", &["true"], 1, 0, 0)?;
        slowest = slowest.max(begun.elapsed());
        thread::sleep(Duration::from_millis(20));
    }
    Ok(slowest)
}

fn submit(
    session: &mut Session,
    name: &str,
    args: &[&str],
    cpus: u32,
    at: u32,
    priority: i32,
) -> Result<(), BoxError> {
    let amount = request::parse_amount("cpus", &cpus.to_string())?;
    let resources = vec![ResourceRequest { name: "cpus".to_owned(), amount }];
    let time_request = Duration::from_secs(u64::from(at) + 1);
    let weight = request::WEIGHT_NEUTRAL;
    let spec = TaskSpec {
        body: Body::program(args.iter().copied()),
        requests: vec![Request { resources, time_request, weight, ..Request::default() }],
        priority,
        ..TaskSpec::default()
    };
    let job = JobSpec { name: name.to_owned(), ..JobSpec::default() };
    let submit = Submit::new(Target::New(job), TaskIds::Next(1), spec);
    let key = hq_client::session::request_key()?;
    session.request(ClientRequest::Submit { key, submit: Box::new(submit) })?;
    Ok(())
}
