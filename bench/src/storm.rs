//! A server that is killed under a thousand workers with eight thousand running tasks: how long until all are back.
//!
//! The workers are the program's own state machine, each on a real connection; only their processes are missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hq_client::Session;
use hq_client::session::access_path;
use hq_core::client_messages::{ClientRequest, ClientResponse, JobPage};
use hq_core::worker::{Effect, Input, Worker};
use hq_model::Timestamp;
use hq_model::selector::Selector;
use hq_model::worker::OnServerLost;
use hq_net::{AccessFile, Backoff, FrameReceiver, FrameSender, Role, connect};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep, sleep_until};

use crate::cluster::{Bench, Cluster};
use crate::idle::config;
use crate::row::{BoxError, Row};

/// Tasks of each worker.
const TASKS_EACH: u32 = 8;
/// The pauses of a worker that looks for its server, as those of the program.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Nothing takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the simulated workers have come to.
#[derive(Default)]
pub(crate) struct Seen {
    starts: AtomicU32,
    signals: AtomicU32,
    up: AtomicU32,
}

/// The time from the kill of the server until all workers are back and all tasks run as before.
///
/// # Errors
/// When they do not come back, or a task is started again.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let workers = bench.tasks(1000);
    let tasks = workers * TASKS_EACH;
    let mut cluster = bench.cluster(&[], 0, &[])?;
    let (runtime, seen) = join(&cluster, workers)?;
    cluster.run(&["submit", "--array", &format!("1-{tasks}"), "--", "sleep", "1000"])?;
    wait_for("all tasks to run", || Ok(running(&cluster)? == u64::from(tasks)))?;
    let begun = std::time::Instant::now();
    let to_answer = cluster.kill_and_restart()?;
    wait_for("the workers to come back", || {
        Ok(seen.up.load(Ordering::Relaxed) == workers && running(&cluster)? == u64::from(tasks))
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let starts = seen.starts.load(Ordering::Relaxed);
    let signals = seen.signals.load(Ordering::Relaxed);
    runtime.shutdown_background();
    if (starts, signals) != (tasks, 0) {
        return Err(format!("{tasks} tasks were started {starts} times and sent {signals} signals").into());
    }
    let value = format!("{seconds:.1} s, {:.0} ms to an answer", to_answer.as_secs_f64() * 1e3);
    Ok(vec![Row::at_most(
        &format!("storm: {workers} workers, {tasks} tasks"),
        value,
        "10 s, nothing restarted",
        seconds / 10.0,
        1.0,
    )])
}

/// So many simulated workers have joined a cluster, and live as long as the runtime.
///
/// # Errors
/// When they do not come.
pub(crate) fn join(cluster: &Cluster, workers: u32) -> Result<(Runtime, Arc<Seen>), BoxError> {
    let seen = Arc::new(Seen::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    for number in 0..workers {
        runtime.spawn(live(cluster.server_dir(), number, seen.clone()));
    }
    wait_for("the workers to join", || Ok(seen.up.load(Ordering::Relaxed) == workers))?;
    Ok((runtime, seen))
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> Result<bool, BoxError>) -> Result<(), BoxError> {
    let begun = std::time::Instant::now();
    while !is_so()? {
        if begun.elapsed() > PATIENCE {
            return Err(format!("waited for {what} for {} s", PATIENCE.as_secs()).into());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn running(cluster: &Cluster) -> Result<u64, BoxError> {
    let mut session = Session::connect(&cluster.server_dir())?;
    match session.request(ClientRequest::JobInfo { jobs: Selector::Last, page: Some(JobPage::default()) })? {
        ClientResponse::JobDetails { jobs, .. } => {
            Ok(jobs.first().map_or(0, |job| job.summary.counters.running))
        }
        other => Err(format!("the server answered {other:?}").into()),
    }
}

// A worker without processes, for ever.
async fn live(server_dir: std::path::PathBuf, number: u32, seen: Arc<Seen>) {
    let mut config = config(number);
    config.on_server_lost = OnServerLost::Reconnect;
    config.reconnect_timeout = PATIENCE;
    config.executor = hq_model::worker::Executor::Process;
    let mut machine = Worker::new(config, now());
    let mut effects = Vec::new();
    loop {
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
        let (mut sender, mut receiver) = loop {
            sleep(backoff.next_pause()).await;
            let Ok(access) = AccessFile::load(&access_path(&server_dir)) else { continue };
            let Ok(endpoint) = access.endpoint(Role::Worker) else { continue };
            if let Ok(connection) = connect(endpoint, Role::Worker).await {
                break connection;
            }
        };
        let is_up = talk(&mut machine, &mut sender, &mut receiver, &mut effects, &seen).await;
        if is_up {
            seen.up.fetch_sub(1, Ordering::Relaxed);
        }
        machine.handle(now(), Input::ServerLost, &mut effects);
        machine.settle(now(), &mut effects);
        effects.clear();
    }
}

// Until the connection is lost; true when the server had said welcome.
async fn talk(
    machine: &mut Worker,
    sender: &mut FrameSender,
    receiver: &mut FrameReceiver,
    effects: &mut Vec<Effect>,
    seen: &Seen,
) -> bool {
    let mut is_up = false;
    let mut input = Input::ServerFound;
    loop {
        machine.handle(now(), input, effects);
        machine.settle(now(), effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::EndRunner { .. }
                | Effect::StartZygote { .. }
                | Effect::LoadPackage { .. }
                | Effect::EndZygote { .. }
                | Effect::GoOn { .. } => {}
                Effect::Start(_) => drop(seen.starts.fetch_add(1, Ordering::Relaxed)),
                Effect::Signal { .. } => drop(seen.signals.fetch_add(1, Ordering::Relaxed)),
                Effect::Send(message) => {
                    if sender.send(&hq_proto::encode_from_worker(&message)).await.is_err() {
                        return is_up;
                    }
                }
                Effect::KillLauncher | Effect::Arm { .. } | Effect::Recall { .. } => {}
                Effect::Read { .. }
                | Effect::FreeObjects(_)
                | Effect::BringObjects { .. }
                | Effect::Relay { .. }
                | Effect::TakeFile { .. }
                | Effect::GuardObjects { .. }
                | Effect::DropRead { .. }
                | Effect::Expired { .. }
                | Effect::ReadEnded { .. } => {}
                Effect::Exit(_) => return is_up,
            }
        }
        if sender.flush().await.is_err() {
            return is_up;
        }
        let wakeup = machine.next_wakeup().unwrap_or_else(|| now().after(PATIENCE));
        let wakeup = Instant::now() + wakeup.since(now());
        input = tokio::select! {
            frame = receiver.next() => match frame {
                Ok(Some(frame)) => match hq_proto::decode_to_worker(&frame) {
                    Ok(message) => Input::Server(message),
                    Err(_) => return is_up,
                },
                _ => return is_up,
            },
            () = sleep_until(wakeup) => Input::Tick,
        };
        if !is_up && matches!(input, Input::Server(_)) {
            is_up = true;
            seen.up.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_micros() as u64)
}
