//! Pulled tasks: how long a relay takes for a message beside a bare round trip, and how many tasks it passes on.

mod client;
mod echo;

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{Bench, Cluster};
use crate::measure::{median, median_of, memory_mb};
use crate::row::{BoxError, Row};
use client::{Puller, Spelling};
pub(crate) use echo::echo;

/// Messages of a round, one task each.
const MESSAGES: u32 = 10_000;
/// Rounds, in turns.
const ROUNDS: usize = 5;
/// Tasks of a question, where they are taken in blocks.
const BLOCK: u32 = 64;
/// Tasks that are taken in blocks.
const TASKS: u32 = 600_000;
/// Tasks of the graph.
const NODES: u32 = 1_000_000;
/// So many are to be done in ten seconds.
const NODES_IN_10_S: f64 = 1e6;
/// A relay more may take so many µs.
const HOP_US_MAX: f64 = 30.0;
/// Starts of commands.
const STARTS: u32 = 100;

/// Takes and completes tasks one by one and in blocks, in all spellings.
///
/// # Errors
/// When the cluster does not do what it should.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let cluster = bench.cluster(&[], 0, &[])?;
    let relay = Relay::start(&cluster, "relay", None)?;
    let mut rows = Vec::new();
    for (spelling, most) in [(Spelling::Frames, 1.6), (Spelling::Lines, 2.5), (Spelling::Http, 0.0)] {
        rows.push(one_by_one(bench, &relay, spelling, most)?);
    }
    let least = [(Spelling::Frames, 300_000.0), (Spelling::Lines, 300_000.0), (Spelling::Http, 150_000.0)];
    for (spelling, least) in least {
        let rates: Result<Vec<f64>, BoxError> =
            (0..3).map(|round| blocks(&relay, spelling, bench.tasks(TASKS), round)).collect();
        let rate = median_of(rates?);
        let name = format!("pull: {}, blocks of {BLOCK}", spelling.word());
        let target = format!("{least:.0} tasks/s");
        rows.push(Row::at_most(&name, format!("{rate:.0} tasks/s"), &target, least / rate, 1.0));
    }
    rows.push(hop(bench, &cluster, &relay)?);
    rows.push(python(bench, &relay)?);
    rows.push(shell(bench, &cluster, &relay)?);
    rows.extend(graph(bench, &cluster, &relay)?);
    Ok(rows)
}

// The relay of a cluster, in a process of its own.
struct Relay {
    process: Child,
    socket: std::path::PathBuf,
}

impl Relay {
    fn start(cluster: &Cluster, name: &str, parent: Option<&Relay>) -> Result<Relay, BoxError> {
        let socket = cluster.home().join(name).join("pull");
        let log = File::create(cluster.home().join(format!("{name}.log")))?;
        let mut command = cluster.command(&["pull", "relay"]);
        if let Some(parent) = parent {
            command.arg("--parent").arg(&parent.socket);
        }
        let process = command.arg("--socket").arg(&socket).stdout(log.try_clone()?).stderr(log).spawn()?;
        let relay = Relay { process, socket };
        let until = Instant::now() + Duration::from_secs(30);
        while Puller::connect(&relay.socket, Spelling::Lines, "any").is_err() {
            if Instant::now() > until {
                return Err("the relay does not come up".into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(relay)
    }

    fn puller(&self, spelling: Spelling, bag: &str) -> Result<Puller, BoxError> {
        Puller::connect(&self.socket, spelling, bag)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}

// A task taken and the one before completed in each message, in turns with bare round trips of as many bytes.
fn one_by_one(bench: &Bench, relay: &Relay, spelling: Spelling, most: f64) -> Result<Row, BoxError> {
    let count = bench.tasks(MESSAGES);
    let bag = format!("single-{}", spelling.word());
    let mut puller = relay.puller(spelling, &bag)?;
    puller.create(count * ROUNDS as u32 + 1)?;
    // The relay has none ahead before somebody asks.
    puller.next(1)?;
    let mut bare = echo::Echo::start(&bench.hq, puller.sizes())?;
    let (mut ours, mut trips) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        trips.push(bare.round_trips(count)?);
        let begun = Instant::now();
        for _ in 0..count {
            if puller.next(1)? != 1 {
                return Err("the relay gave no task".into());
            }
        }
        ours.push(begun.elapsed());
    }
    let each = |seconds: f64| seconds / f64::from(count) * 1e6;
    let (ours, trips) = (each(median(ours)), each(median(trips)));
    let name = format!("pull: {}, one by one", spelling.word());
    let value = format!("{ours:.1} µs; a bare round trip {trips:.1} µs");
    if most == 0.0 {
        return Ok(Row::shown(&name, value, ours / trips));
    }
    Ok(Row::at_most(&name, value, &format!("{most} round trips"), ours / trips, most))
}

// A question to the server by a relay, and by one below it, in turns: what one hop more costs.
fn hop(bench: &Bench, cluster: &Cluster, relay: &Relay) -> Result<Row, BoxError> {
    let count = bench.tasks(MESSAGES);
    let below = Relay::start(cluster, "below", Some(relay))?;
    let mut pullers = [relay, &below].map(|relay| relay.puller(Spelling::Lines, "hop"));
    for puller in &mut pullers {
        puller.as_mut().map_err(|error| error.to_string())?.create(1)?;
    }
    let [direct, below] = pullers;
    let (mut direct, mut below) = (direct?, below?);
    direct.look()?;
    let mut bare = echo::Echo::start(&bench.hq, direct.sizes())?;
    let mut taken = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        taken[0].push(bare.round_trips(count)?);
        for (puller, taken) in [&mut direct, &mut below].into_iter().zip(&mut taken[1..]) {
            let begun = Instant::now();
            for _ in 0..count {
                puller.look()?;
            }
            taken.push(begun.elapsed());
        }
    }
    let [trip, direct, below] = taken.map(|taken| median(taken) / f64::from(count) * 1e6);
    let (more, most) = (below - direct, trip.max(HOP_US_MAX));
    let value = format!("{more:.1} µs more than {direct:.1} µs; a bare round trip {trip:.1} µs");
    let target = format!("{HOP_US_MAX} µs or 1 round trip");
    Ok(Row::at_most("pull: one relay more", value, &target, more / most, 1.0))
}

// Tasks a second, from the first question to all of them saved.
fn blocks(relay: &Relay, spelling: Spelling, count: u32, round: usize) -> Result<f64, BoxError> {
    let bag = format!("blocks-{}-{round}", spelling.word());
    let mut puller = relay.puller(spelling, &bag)?;
    puller.create(count)?;
    puller.close()?;
    let begun = Instant::now();
    let mut taken = 0;
    while taken < count {
        taken += puller.next(BLOCK)?;
    }
    puller.next(0)?;
    puller.sync()?;
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

const PYTHON: &str = "
import sys, time
from pull import Puller
begun = time.monotonic()
count = 0
with Puller(sys.argv[1], block=64) as puller:
    for task in puller:
        puller.done(task)
        count += 1
print(count / (time.monotonic() - begun))
";

// The module of the Python package, as it stands in the tree.
fn python(bench: &Bench, relay: &Relay) -> Result<Row, BoxError> {
    let mut puller = relay.puller(Spelling::Lines, "blocks-python")?;
    puller.create(bench.tasks(TASKS / 2))?;
    puller.close()?;
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../python/headquarters");
    let mut command = Command::new("python3");
    command.args(["-c", PYTHON, "blocks-python"]).env("HQ_PULL_SOCKET", &relay.socket);
    let output = command.env("PYTHONPATH", package).stdin(Stdio::null()).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let rate: f64 = printed.trim().parse().map_err(|_| {
        let errors = String::from_utf8_lossy(&output.stderr);
        errors.lines().last().unwrap_or("python3 said nothing").to_owned()
    })?;
    let value = format!("{rate:.0} tasks/s");
    let name = format!("pull: Python, blocks of {BLOCK}");
    Ok(Row::at_most(&name, value, "150 000 tasks/s", 150_000.0 / rate, 1.0))
}

// `hq pull steal` and `hq pull complete` beside two empty programs.
fn shell(bench: &Bench, cluster: &Cluster, relay: &Relay) -> Result<Row, BoxError> {
    let count = bench.tasks(STARTS);
    relay.puller(Spelling::Lines, "shell")?.create(count)?;
    let (mut ours, mut empty) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let begun = Instant::now();
        for _ in 0..2 {
            Command::new("/bin/true").stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        }
        empty.push(begun.elapsed());
        let begun = Instant::now();
        let command = |words: &[&str]| {
            let mut command = cluster.command(words);
            command.env("HQ_PULL_SOCKET", &relay.socket).stdout(Stdio::piped()).output()
        };
        let stolen = command(&["pull", "steal", "-q", "--bag", "shell"])?;
        let name = String::from_utf8_lossy(&stolen.stdout);
        if !command(&["pull", "complete", name.trim()])?.status.success() {
            return Err(format!("`hq pull complete {}` failed", name.trim()).into());
        }
        ours.push(begun.elapsed());
    }
    let (ours, empty) = (median(ours), median(empty));
    let value = format!("{:.2} ms, two empty programs {:.2} ms", ours * 1e3, empty * 1e3);
    Ok(Row::at_most("pull: steal and complete", value, "2.2 × two empty programs", ours / empty, 2.2))
}

// Tasks that each wait for three others: created, taken, completed, saved.
fn graph(bench: &Bench, cluster: &Cluster, relay: &Relay) -> Result<Vec<Row>, BoxError> {
    let count = bench.tasks(NODES);
    let mut puller = relay.puller(Spelling::Lines, "graph")?;
    let before = memory_mb(cluster.server_pid()).0;
    let begun = Instant::now();
    puller.create_graph(count)?;
    puller.close()?;
    let created = begun.elapsed().as_secs_f64();
    let each = (memory_mb(cluster.server_pid()).0 - before) * 1e6 / f64::from(count);
    let mut taken = 0;
    while taken < count {
        taken += puller.next(BLOCK)?;
    }
    puller.next(0)?;
    puller.sync()?;
    let seconds = begun.elapsed().as_secs_f64();
    let most = 10.0 * f64::from(count) / NODES_IN_10_S;
    let value = format!("{seconds:.1} s for {count}, {created:.1} s to create them");
    Ok(vec![
        Row::at_most("pull: graph", value, &format!("{most} s"), seconds / most, 1.0),
        Row::at_most("pull: memory", format!("{each:.0} bytes a task"), "500 bytes", each / 500.0, 1.0),
    ])
}
