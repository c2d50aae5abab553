//! A server with a thousand idle workers: real connections, whose other ends are simulated here.

use std::time::Duration;

use hq_client::session::access_path;
use hq_core::worker_messages::{FromWorker, WorkerHello};
use hq_model::worker::{Executor, OnServerLost, WorkerConfig};
use hq_model::{Timestamp, WorkerResources};
use hq_net::{AccessFile, Endpoint, FrameReceiver, FrameSender, Role};
use tokio::time::{Instant, sleep_until};

use crate::cluster::Bench;
use crate::measure::{cpu_s, memory_mb};
use crate::row::{BoxError, Row};

/// How often a worker says that it lives; the default of the program.
const HEARTBEAT: Duration = Duration::from_secs(8);
/// How long the server is watched.
const WATCHED: Duration = Duration::from_secs(40);

/// CPU time and memory of the server.
///
/// # Errors
/// When the workers cannot connect.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let workers = bench.tasks(1000);
    let cluster = bench.cluster(&[], 0, &[])?;
    let access = AccessFile::load(&access_path(&cluster.server_dir()))?;
    let endpoint = access.endpoint(Role::Worker)?.clone();
    let pid = cluster.server_pid();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let watched = if bench.is_quick { WATCHED / 4 } else { WATCHED };
    let (cpu, peak) = runtime.block_on(async {
        let mut connected = Vec::new();
        for number in 0..workers {
            connected.push(join(&endpoint, number).await?);
        }
        let beating: Vec<_> = connected
            .into_iter()
            .enumerate()
            .map(|(number, worker)| tokio::spawn(beat(worker, HEARTBEAT * number as u32 / workers)))
            .collect();
        // One round of heartbeats until everything has settled.
        tokio::time::sleep(HEARTBEAT).await;
        let before = cpu_s(pid);
        tokio::time::sleep(watched).await;
        let cpu = (cpu_s(pid) - before) / watched.as_secs_f64();
        let is_alive = beating.iter().filter(|worker| !worker.is_finished()).count();
        if is_alive < workers as usize {
            return Err(format!("only {is_alive} of {workers} workers are still connected").into());
        }
        Ok::<_, BoxError>((cpu, memory_mb(pid).1))
    })?;
    Ok(vec![
        Row::at_most(
            &format!("idle: CPU, {workers} workers"),
            format!("{:.2} % of a core", cpu * 100.0),
            "below 1 % of a core",
            cpu / 0.01,
            1.0,
        ),
        Row::at_most(
            &format!("idle: memory, {workers} workers"),
            format!("{peak:.0} MB"),
            "below 100 MB",
            peak / 100.0,
            1.0,
        ),
    ])
}

struct Worker {
    sender: FrameSender,
    receiver: FrameReceiver,
}

async fn join(endpoint: &Endpoint, number: u32) -> Result<Worker, BoxError> {
    let (mut sender, mut receiver) = hq_net::connect(endpoint, Role::Worker).await?;
    let hello = FromWorker::Hello(Box::new(WorkerHello {
        config: config(number),
        started: Timestamp(1),
        age: None,
        known_as: None,
        secret: None,
        holds: Vec::new(),
        last_report: 0,
        follows: true,
        follows_calls: false,
        shows: false,
        stores: false,
        relays: false,
        objects: Vec::new(),
    }));
    sender.send(&hq_proto::encode_from_worker(&hello)).await?;
    sender.flush().await?;
    receiver.next().await?.ok_or("the server did not welcome a worker")?;
    Ok(Worker { sender, receiver })
}

/// What a simulated worker says of itself.
pub(crate) fn config(number: u32) -> WorkerConfig {
    WorkerConfig {
        hostname: format!("node{number}"),
        heartbeat: HEARTBEAT,
        on_server_lost: OnServerLost::Stop,
        executor: Executor::Null,
        pid: number,
        ..WorkerConfig::new(WorkerResources::cpus(8))
    }
}

// Heartbeats at even intervals, until the connection is lost.
async fn beat(mut worker: Worker, offset: Duration) {
    let frame = hq_proto::encode_from_worker(&FromWorker::Heartbeat);
    let mut next = Instant::now() + offset;
    loop {
        tokio::select! {
            frame = worker.receiver.next() => match frame {
                Ok(Some(_)) => continue,
                _ => return,
            },
            () = sleep_until(next) => {}
        }
        next += HEARTBEAT;
        if worker.sender.send(&frame).await.is_err() || worker.sender.flush().await.is_err() {
            return;
        }
    }
}
