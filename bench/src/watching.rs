//! Clients that watch: how fast one is told what happens, what a hundred cost the server, and what a dashboard costs.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hq_client::{Next, Session};
use hq_core::client_messages::{ClientRequest, ClientResponse, EventFilter, EventKind, FROM_NOW};
use hq_core::record::Record;
use hq_model::job::{Target, TaskIds};
use hq_model::{Body, JobSpec, Submit, TaskSpec};

use crate::cluster::{Bench, Cluster};
use crate::measure::{cpu_s, median_of};
use crate::null::NULL;
use crate::row::{BoxError, Row};
use crate::startup::one_cpu;

const WATCHERS: usize = 100;
const ROUNDS: usize = 3;
/// Tasks that end in a second below the dashboard, by arrays that are submitted so often.
const RATE: u32 = 10_000;
const BEAT: Duration = Duration::from_millis(100);
const SHOWN_FOR: Duration = Duration::from_secs(20);

/// All of that.
///
/// # Errors
/// When the cluster does not do what it should, or `script` of util-linux, which gives the dashboard a terminal, is not there.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let cluster = bench.cluster(&[], 1, &NULL)?;
    cluster.array(bench.tasks(1_000_000))?;
    let mut rows = vec![one(bench, &cluster)?];
    rows.extend(many(bench, &cluster)?);
    rows.push(dashboard(bench, &cluster)?);
    Ok(rows)
}

// Tasks that are handed out and tasks that end, as they come in intervals.
fn events_in(record: &Record) -> u64 {
    match record {
        Record::Leased { ids, .. } => ids.len(),
        Record::Finished { span, .. } => span.ids.len(),
        Record::Together { records } => records.iter().map(events_in).sum(),
        _ => 0,
    }
}

fn events(filter: EventFilter) -> ClientRequest {
    ClientRequest::Events { follow: true, after: FROM_NOW, filter }
}

// From the submit until the watcher has heard of the last end.
fn one(bench: &Bench, cluster: &Cluster) -> Result<Row, BoxError> {
    let count = bench.tasks(3_000_000);
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let mut session = Session::connect(&cluster.server_dir())?;
        let mut watch = session.watch(events(EventFilter::default()))?;
        // It begins with nothing.
        watch.next_response()?;
        let begun = Instant::now();
        let mut heard = 0;
        thread::scope(|scope| -> Result<(), BoxError> {
            let submits = scope.spawn(|| cluster.array(count).map(drop).map_err(|error| error.to_string()));
            while heard < 2 * u64::from(count) {
                if let ClientResponse::Events { records, next } = watch.next_response()? {
                    heard += records.iter().map(|(_, record)| events_in(record)).sum::<u64>();
                    let filter = EventFilter::default();
                    watch.resume_with(ClientRequest::Events { follow: true, after: next, filter });
                }
            }
            submits.join().map_err(|_| "a thread has died")??;
            Ok(())
        })?;
        rates.push(heard as f64 / begun.elapsed().as_secs_f64());
    }
    let rate = median_of(rates);
    let value = format!("{rate:.0} task events/s");
    Ok(Row::at_most("watching: one", value, "1 000 000 task events/s", 1e6 / rate, 1.0))
}

// CPU time of the server for arrays, watched by many and by nobody.
fn many(bench: &Bench, cluster: &Cluster) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(10_000_000);
    let spent = || -> Result<f64, BoxError> {
        let before = cpu_s(cluster.server_pid());
        for _ in 0..ROUNDS {
            cluster.array(count)?;
        }
        Ok(cpu_s(cluster.server_pid()) - before)
    };
    let alone = spent()?;
    let mut rows = Vec::new();
    let jobs = EventFilter { jobs: None, kinds: vec![EventKind::Job] };
    for (what, request) in [
        ("events of jobs", events(jobs)),
        (
            "progress",
            ClientRequest::WatchJobs {
                jobs: hq_model::selector::Selector::All,
                until_closed: false,
                notifications: false,
            },
        ),
    ] {
        // Those who watch progress need something that does not end.
        let held = cluster.read(&["submit", "--output-mode", "quiet", "--cpus", "77", "--", "true"])?;
        let is_over = Arc::new(AtomicBool::new(false));
        let watchers: Vec<_> = (0..WATCHERS)
            .map(|_| {
                let (dir, request, is_over) = (cluster.server_dir(), request.clone(), Arc::clone(&is_over));
                thread::spawn(move || watch(&dir, request, &is_over).map_err(|error| error.to_string()))
            })
            .collect();
        thread::sleep(Duration::from_secs(2));
        let watched = spent()?;
        is_over.store(true, Ordering::Release);
        cluster.run(&["job", "cancel", held.trim()])?;
        for watcher in watchers {
            watcher.join().map_err(|_| "a thread has died")??;
        }
        let value = format!("{alone:.2} s of CPU alone, {watched:.2} s with {WATCHERS}");
        let name = format!("watching: {WATCHERS}, {what}");
        rows.push(Row::at_most(&name, value, "at most 10 % more", watched / alone, 1.1));
    }
    Ok(rows)
}

// Hears everything until it is over.
fn watch(dir: &std::path::Path, request: ClientRequest, is_over: &AtomicBool) -> Result<(), BoxError> {
    let mut session = Session::connect(dir)?;
    let filter = match &request {
        ClientRequest::Events { filter, .. } => Some(filter.clone()),
        _ => None,
    };
    let mut watch = session.watch(request)?;
    while !is_over.load(Ordering::Acquire) {
        let pause = std::pin::pin!(async { tokio::time::sleep(Duration::from_millis(500)).await });
        match watch.next_or(pause)? {
            Next::Response(ClientResponse::Events { next, .. }) => {
                let filter = filter.clone().unwrap_or_default();
                watch.resume_with(ClientRequest::Events { follow: true, after: next, filter });
            }
            Next::Response(_) | Next::Other(()) => {}
        }
    }
    Ok(())
}

// A dashboard in a terminal of its own.
struct Terminal {
    script: Child,
    dashboard: u32,
}

impl Terminal {
    fn start(cluster: &Cluster, bench: &Bench) -> Result<Terminal, BoxError> {
        let program = bench.hq.to_str().ok_or("the path of hq is no text")?;
        let dir = cluster.server_dir();
        let dir = dir.to_str().ok_or("the path of the server directory is no text")?;
        let command = format!("stty rows 40 cols 120; exec '{program}' --server-dir '{dir}' dashboard");
        let mut script = Command::new("script");
        script.args(["-qfc", &command, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
        script.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut terminal = Terminal { script: script.spawn()?, dashboard: 0 };
        let children = format!("/proc/{0}/task/{0}/children", terminal.script.id());
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) {
            let child = std::fs::read_to_string(&children)?;
            let child = child.split_whitespace().next().and_then(|pid| pid.parse().ok());
            let is_begun = |pid: &u32| {
                std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("hq"))
            };
            if let Some(pid) = child.filter(is_begun) {
                terminal.dashboard = pid;
                return Ok(terminal);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Err("the dashboard did not start".into())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // What runs in the terminal ends with it.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

// CPU time of the dashboard while tasks end below it.
fn dashboard(bench: &Bench, cluster: &Cluster) -> Result<Row, BoxError> {
    let terminal = Terminal::start(cluster, bench)?;
    let shown = if bench.is_quick { SHOWN_FOR / 10 } else { SHOWN_FOR };
    let mut session = Session::connect(&cluster.server_dir())?;
    let each = RATE / 10;
    let before = cpu_s(terminal.dashboard);
    let begun = Instant::now();
    let mut ended = 0;
    while begun.elapsed() < shown {
        submit(&mut session, each)?;
        ended += each;
        let due = BEAT * (ended / each);
        thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    let passed = begun.elapsed().as_secs_f64();
    let part = (cpu_s(terminal.dashboard) - before) / passed;
    let value = format!("{:.1} % of a core at {:.0} tasks/s", part * 100.0, f64::from(ended) / passed);
    Ok(Row::at_most("watching: dashboard", value, "5 % of a core", part / 0.05, 1.0))
}

fn submit(session: &mut Session, count: u32) -> Result<(), BoxError> {
    let job = JobSpec { name: "beat".to_owned(), ..JobSpec::default() };
    let spec = TaskSpec {
        body: Body::program(["/bin/true"]),
        requests: vec![one_cpu()?],
        cwd: b"/".to_vec(),
        ..TaskSpec::default()
    };
    let submit = Submit::new(Target::New(job), TaskIds::Next(count), spec);
    let key = hq_client::session::request_key()?;
    session.request(ClientRequest::Submit { key, submit: Box::new(submit) })?;
    Ok(())
}
