//! An experiment of the literature, accelerated: 23 298 tasks on 256 workers, and how many are sent in all when
//! some are lost, workers are killed, or the server is.
//!
//! Whoever keeps results only in memory computes some of them again: the published system sent 768 tasks more
//! when its server was killed.

use std::time::Duration;

use hq_core::client_messages::ClientRequest;
use hq_model::job::{Target, TaskIds};
use hq_model::request::parse_amount;
use hq_model::task::{CrashLimit, Retry, RetryOn};
use hq_model::{Body, JobSpec, Request, ResourceRequest, Submit, TaskSpec};

use crate::clients::Client;
use crate::faults::Faults;
use crate::nodes::Node;
use crate::rng::Rng;
use crate::world::{Event, Failure, Fault, Options, World};

/// Tasks.
pub const TASKS: u32 = 23_298;
/// Workers.
pub const WORKERS: usize = 256;
/// Tasks that run on a worker at a time.
pub const TASKS_EACH: u32 = 10;

/// The machine's own bookkeeping is recounted in one of so many steps: with so many workers it takes long.
const CHECKED_ONE_IN: u64 = 200;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// Nothing.
    None,
    /// So many running tasks are killed from outside, and retried.
    TasksLost(u32),
    /// So many workers are killed, each with ten running tasks.
    WorkersKilled(u32),
    /// The server is killed when about half is done.
    ServerKilled,
}

/// Plays the experiment and returns how many executions were begun in all.
///
/// # Errors
/// The first broken promise; above all when not every task has finished.
pub fn play(seed: u64, mishap: Mishap) -> Result<usize, Failure> {
    let mut rng = Rng::new(seed);
    let seconds = |s: u64| s * 1_000_000;
    let faults = Faults {
        delay_max: 2_000,
        disk_max: 5_000,
        runs_us: Some((seconds(20), seconds(40))),
        ..Faults::default()
    };
    let nodes = (0..WORKERS).map(|_| Node::with_cpus(TASKS_EACH)).collect();
    let client = Client { asked: Some(submit(&mut rng)), ..Client::default() };
    let mut world = World::bare(Options { seed, ..Options::default() }, rng, faults, nodes, vec![client]);
    world.healed = true;
    world.checked_one_in = CHECKED_ONE_IN;
    world.at(0, Event::StartServer);
    for node in 0..WORKERS {
        let after = world.rng.between(0, seconds(5));
        world.at(after, Event::StartWorker { node });
    }
    world.at(1_000, Event::ClientActs { client: 0 });
    let (fault, count) = match mishap {
        Mishap::None => (Fault::ServerKill, 0),
        Mishap::TasksLost(count) => (Fault::KillTask, count),
        Mishap::WorkersKilled(count) => (Fault::KillBusyWorker, count),
        Mishap::ServerKilled => (Fault::ServerKill, 1),
    };
    for _ in 0..count {
        let after = world.rng.between(seconds(100), seconds(180));
        world.at(after, Event::Fault(fault));
    }
    let result = world.play().and_then(|()| world.all_finished(TASKS));
    match result {
        Ok(()) => Ok(world.observers.attempts.count()),
        Err(what) => Err(world.failure(what)),
    }
}

impl World {
    fn all_finished(&self, tasks: u32) -> Result<(), String> {
        let jobs = self.server.as_ref().map(|server| &server.state().jobs);
        let finished: u64 = jobs.into_iter().flatten().map(|(_, job)| job.finished.len()).sum();
        if finished == u64::from(tasks) { Ok(()) } else { Err(format!("{finished} of {tasks} finished")) }
    }
}

fn submit(rng: &mut Rng) -> ClientRequest {
    let cpus = parse_amount("cpus", "1").map(|amount| ResourceRequest { name: "cpus".into(), amount });
    let spec = TaskSpec {
        body: Body::program(["score"]),
        requests: vec![Request { resources: cpus.into_iter().collect(), ..Request::default() }],
        crash_limit: CrashLimit::Unlimited,
        retry: Retry {
            max: TASKS,
            delay: Duration::ZERO,
            on: RetryOn { signal: true, ..RetryOn::default() },
        },
        ..TaskSpec::default()
    };
    let submit = Submit::new(
        Target::New(JobSpec { name: "literature".into(), max_fails: None, ..JobSpec::default() }),
        TaskIds::Next(TASKS),
        spec,
    );
    ClientRequest::Submit { key: u128::from(rng.draw()), submit: Box::new(submit) }
}
