//! A simulated cluster on which the allocator is measured: how long the batch system lets wait, what it refuses, loses
//! and kills, and what users submit are drawn; `ideal.rs` says what an allocator that knows all that could do at best.
//!
//! Virtual hours pass in milliseconds: workers say that they live every few minutes only.

use std::sync::Arc;
use std::time::Duration;

use hq_core::alloc::messages::AllocRequest;
use hq_core::client_messages::ClientRequest;
use hq_model::allocation::{NodeTime, QueueParams};
use hq_model::dependency::{After, Condition, Mapping};
use hq_model::job::{Target, TaskIds};
use hq_model::request::parse_amount;
use hq_model::resources::parse_pool;
use hq_model::task::CrashLimit;
use hq_model::worker::TIME_RESERVE;
use hq_model::{
    Body, Dependencies, JobId, JobSpec, QueueId, Request, ResourcePool, ResourceRequest, Submit, TaskRef,
    TaskSpec, Timestamp,
};

use crate::batch::{BatchEvent, BatchJob, BatchSystem};
use crate::clients::Client;
use crate::faults::Faults;
use crate::ideal;
use crate::rng::Rng;
use crate::world::{Event, Failure, Options, World};

/// Idle workers of an allocation leave after this time: what `hq alloc add` says when the user does not.
pub const IDLE: Duration = Duration::from_secs(300);
/// Workers say that they live this often: rarely, so that days pass quickly.
pub const HEARTBEAT: Duration = Duration::from_secs(300);
const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// Nothing takes longer.
const END_US: u64 = 2_000 * HOUR;
/// Server and workers are looked at in one of so many steps.
const CHECKED_ONE_IN: u64 = 1_000;

/// A queue of the workload and its part of the cluster.
#[derive(Clone, Debug)]
pub struct Partition {
    /// What the queue asks for.
    pub params: QueueParams,
    /// How long allocations wait in the mean, µs.
    pub wait_us: u64,
    /// GPUs of a node.
    pub gpus: u32,
}

/// Tasks that are submitted together.
#[derive(Clone, Copy, Debug)]
pub struct Wave {
    /// When, µs.
    pub at_us: u64,
    /// How many.
    pub tasks: u32,
    /// How long they run: from, to, µs.
    pub runs_us: (u64, u64),
    /// They need a GPU.
    pub needs_gpu: bool,
    /// They say how long they may take.
    pub says_time: bool,
    /// They wait for all of the wave before.
    pub waits: bool,
}

/// What is drawn for one run.
#[derive(Clone, Debug)]
pub struct Campaign {
    seed: u64,
    /// CPUs of a node.
    pub cpus: u32,
    /// Queues, the first with id 1.
    pub partitions: Vec<Partition>,
    /// Submits in order; the first is job 1.
    pub waves: Vec<Wave>,
    /// Submissions that fail, and answers that are lost, in per mille.
    pub rejected: u64,
    /// As above.
    pub lost: u64,
    /// Allocations that are killed while they run, in per mille.
    pub killed: u64,
    /// When all tasks had ended, µs.
    pub done_at: Option<u64>,
    /// Allocations without a task over those that what waits would fill, at the worst submission; the backlog may be
    /// that many.
    pub excess: i64,
    /// Submissions and questions for states that reached the batch system.
    pub submits: u32,
    /// As above.
    pub questions: u32,
}

/// What came out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Node time of all allocations that started, as the server tells it.
    pub time: NodeTime,
    /// Time from the first submit to the last end, µs.
    pub took_us: u64,
    /// The same for an allocator that knows what will happen.
    pub ideal_us: u64,
    /// Allocations beyond those needed, at worst.
    pub excess: i64,
    /// The backlog of all queues.
    pub backlog: i64,
    /// Submissions to the batch system.
    pub submits: u32,
    /// Questions for states.
    pub questions: u32,
    /// Allocations that started.
    pub started: u32,
    /// Allocations that the batch system had, also those that were canceled while they waited.
    pub accepted: u32,
}

impl Campaign {
    /// Draws a workload and a cluster.
    pub fn draw(seed: u64) -> Campaign {
        let mut rng = Rng::new(seed ^ 0x00ca_4e5e_ed00_a110);
        let rng = &mut rng;
        let limit = [HOUR / 2, HOUR, 4 * HOUR, 12 * HOUR][rng.between(0, 3) as usize];
        let wait_us = [30 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR][rng.between(0, 3) as usize];
        let cpus = [4, 16, 64][rng.between(0, 2) as usize];
        let has_gpus = rng.chance(300);
        let partitions = (0..=u32::from(has_gpus)).map(|gpus| {
            let workers = [1, 1, 2, 4][rng.between(0, 3) as usize];
            Partition { params: params(limit, workers, cpus, 2 * gpus), wait_us, gpus: 2 * gpus }
        });
        let partitions: Vec<Partition> = partitions.collect();
        let shape = rng.between(0, 2);
        let says_time = rng.chance(500);
        // Work of 0.2 to 10 lives of an allocation, in tasks of a drawn length.
        let mean = rng.between(20 * SECOND, limit / 6);
        let work = limit / 10 * rng.between(2, 100) * u64::from(cpus);
        let tasks = (work / mean).clamp(1, 800) as u32;
        let runs_us = (mean / 2, mean * 3 / 2);
        let wave = |at_us, tasks: u32, waits, needs_gpu| Wave {
            at_us,
            tasks: tasks.max(1),
            runs_us,
            needs_gpu,
            says_time,
            waits,
        };
        let waves = match shape {
            0 => vec![wave(SECOND, tasks, false, false), wave(2 * SECOND, tasks / 8, false, has_gpus)],
            1 => vec![wave(SECOND, tasks, false, false), wave(2 * SECOND, tasks / 4, true, has_gpus)],
            _ => {
                let later = |at: u64, rng: &mut Rng| SECOND + at * rng.between(MINUTE, limit);
                (0..4).map(|at| wave(later(at, rng), tasks / 4, false, has_gpus && at == 3)).collect()
            }
        };
        let mut waves: Vec<Wave> = waves;
        waves.sort_by_key(|wave| wave.at_us);
        let [rejected, lost, killed] = [20, 20, 100].map(|most| if rng.chance(300) { most } else { 0 });
        Campaign { seed, cpus, partitions, waves, rejected, lost, killed, ..Campaign::bare(seed) }
    }

    /// One queue that asks for a hundred allocations one after the other.
    pub fn long(seed: u64) -> Campaign {
        let mut rng = Rng::new(seed);
        let wait_us = [5 * MINUTE, 30 * MINUTE, 2 * HOUR][rng.between(0, 2) as usize];
        let params = QueueParams { backlog: rng.between(1, 4) as u32, ..params(HOUR, 1, 4, 0) };
        // As many as a hundred allocations can do, each task a quarter of an hour.
        let quarter = 15 * MINUTE;
        let wave = Wave {
            at_us: SECOND,
            tasks: 100 * 4 * 3,
            runs_us: (quarter, quarter + MINUTE),
            needs_gpu: false,
            says_time: true,
            waits: false,
        };
        let partitions = vec![Partition { params, wait_us, gpus: 0 }];
        Campaign { cpus: 4, partitions, waves: vec![wave], ..Campaign::bare(seed) }
    }

    fn bare(seed: u64) -> Campaign {
        Campaign {
            seed,
            cpus: 1,
            partitions: Vec::new(),
            waves: Vec::new(),
            rejected: 0,
            lost: 0,
            killed: 0,
            done_at: None,
            excess: i64::MIN,
            submits: 0,
            questions: 0,
        }
    }

    fn chance(&self, what: u64, a: u64, b: u64) -> Rng {
        let mut rng = Rng::new(self.seed ^ what.rotate_left(48) ^ a.rotate_left(24) ^ b);
        rng.draw();
        rng
    }

    /// How long the allocation of a queue waits that is submitted as its so many-th, µs.
    pub fn wait(&self, queue: QueueId, place: u64) -> u64 {
        let mean = self.partitions[queue.0 as usize - 1].wait_us as f64;
        let mut rng = self.chance(1, u64::from(queue.0), place);
        let part = rng.between(1, 1_000_000) as f64 / 1e6;
        ((mean * -part.ln()) as u64).clamp(SECOND, 8 * mean as u64)
    }

    /// When it is killed after its start, µs.
    pub fn killed(&self, queue: QueueId, place: u64) -> Option<u64> {
        let mut rng = self.chance(2, u64::from(queue.0), place);
        let limit = self.partitions[queue.0 as usize - 1].params.time_limit.as_micros() as u64;
        rng.chance(self.killed).then(|| rng.between(SECOND, limit))
    }

    /// How long a task runs, µs.
    pub fn runs(&self, task: TaskRef) -> u64 {
        let (from, to) = self.waves[task.job.0 as usize - 1].runs_us;
        self.chance(3, u64::from(task.job.0), u64::from(task.task.0)).between(from, to)
    }

    /// Pools of a node of a queue.
    pub fn pools(&self, queue: QueueId) -> Vec<ResourcePool> {
        pools(self.cpus, self.partitions[queue.0 as usize - 1].gpus)
    }

    /// Tasks of a wave that run on one node at a time.
    pub fn slots(&self, wave: &Wave, partition: &Partition) -> u32 {
        match wave.needs_gpu {
            true => partition.gpus.min(self.cpus),
            false => self.cpus,
        }
    }
}

fn pools(cpus: u32, gpus: u32) -> Vec<ResourcePool> {
    let cpus = parse_pool("cpus", &cpus.to_string()).ok();
    let gpus = (gpus > 0).then(|| parse_pool("gpus", &format!("range(1-{gpus})")).ok()).flatten();
    cpus.into_iter().chain(gpus).collect()
}

fn params(limit_us: u64, workers: u32, cpus: u32, gpus: u32) -> QueueParams {
    QueueParams {
        manager: "slurm".into(),
        backlog: 1,
        max_workers_per_alloc: workers,
        time_limit: Duration::from_micros(limit_us),
        resources: pools(cpus, gpus),
        for_any_task: true,
        resources_are_all: true,
        idle_timeout: Some(IDLE),
        ..QueueParams::default()
    }
}

/// Plays a campaign to the end of its last allocation.
///
/// # Errors
/// The first broken promise.
pub fn play(campaign: Campaign) -> Result<Measured, Failure> {
    let seed = campaign.seed;
    let faults = Faults { delay_max: 2_000, disk_max: 5_000, ..Faults::default() };
    let mut rng = Rng::new(seed);
    let clients = campaign.waves.iter().enumerate();
    let clients = clients
        .map(|(at, wave)| Client { asked: Some(submit(at, wave, &mut rng)), ..Client::default() })
        .collect();
    let options = Options { seed, is_hasty: true, ..Options::default() };
    let mut world = World::bare(options, rng, faults, Vec::new(), clients);
    world.healed = true;
    world.checked_one_in = CHECKED_ONE_IN;
    world.observers.fold.is_hasty = true;
    world.end_us = END_US;
    let queues: Vec<QueueParams> = campaign.partitions.iter().map(|one| one.params.clone()).collect();
    let ideal_us = ideal::time(&campaign);
    world.batch = Some(BatchSystem::for_campaign(seed, queues.clone(), campaign.rejected, campaign.lost));
    world.at(0, Event::StartServer);
    for (at, params) in queues.into_iter().enumerate() {
        let ask = AllocRequest::Add { params: Box::new(params), dry_run: false };
        world.at(1_000 * (at as u64 + 1), Event::Batch(BatchEvent::UserAsks(Box::new(ask))));
    }
    for (client, wave) in campaign.waves.iter().enumerate() {
        world.at(wave.at_us, Event::ClientActs { client });
    }
    let first = campaign.waves.first().map_or(0, |wave| wave.at_us);
    let backlog = campaign.partitions.iter().map(|one| i64::from(one.params.backlog)).sum();
    world.campaign = Some(Box::new(campaign));
    if let Err(what) = world.play() {
        return Err(world.failure(what));
    }
    let accepted = world.batch.iter().map(|batch| batch.jobs.len()).sum::<usize>() as u32;
    let started = world.batch.iter().flat_map(|batch| batch.jobs.values());
    let mut measured = Measured {
        ideal_us,
        backlog,
        accepted,
        started: started.filter(|job| !job.nodes.is_empty()).count() as u32,
        ..Measured::default()
    };
    if let Some(campaign) = &world.campaign {
        measured.took_us = campaign.done_at.unwrap_or(END_US).saturating_sub(first);
        measured.excess = campaign.excess;
        (measured.submits, measured.questions) = (campaign.submits, campaign.questions);
    }
    if let Some(server) = &world.server {
        for queue in server.state().alloc.queues.values() {
            measured.time.add(&queue.totals().time);
        }
    }
    Ok(measured)
}

impl World {
    /// Something was submitted: more than is needed?
    pub(crate) fn count_submission(&mut self, queue: QueueId) {
        let Some(server) = &self.server else { return };
        let (Some(batch), Some(campaign)) = (&self.batch, &mut self.campaign) else { return };
        campaign.submits += 1;
        let jobs = &server.state().jobs;
        let has_ended = |id: u32| jobs.get(&JobId(id)).is_some_and(|job| job.tasks_ended());
        // Those that wait and may run in this queue, and on how many of its nodes.
        let partition = &campaign.partitions[queue.0 as usize - 1];
        let mut nodes = 0.0;
        for (id, job) in jobs {
            let wave = &campaign.waves[id.0 as usize - 1];
            let is_ready = !wave.waits || has_ended(id.0 - 1);
            let slots = campaign.slots(wave, partition);
            if is_ready && slots > 0 {
                let runs = self.nodes.iter().flat_map(|node| node.processes.keys());
                let runs = runs.filter(|task| task.job == *id).count() as u64;
                nodes += job.alive().len().saturating_sub(runs) as f64 / f64::from(slots);
            }
        }
        let each = f64::from(partition.params.max_workers_per_alloc);
        let needed = (nodes / each).ceil() as i64;
        // What is about to end takes nothing any more.
        let longest = campaign.waves.iter().filter(|wave| wave.says_time).map(|wave| wave.runs_us.1).max();
        let longest = Duration::from_micros(longest.unwrap_or(0)) + TIME_RESERVE;
        let is_unused = |job: &&BatchJob| {
            let ends = job.started.map(|at| at.after(job.limit));
            let is_idle = job.nodes.iter().all(|node| self.nodes[*node].processes.is_empty());
            is_idle && ends.is_none_or(|ends| self.now.after(longest) < ends)
        };
        let unused = batch.living(queue).filter(is_unused).count() as i64;
        campaign.excess = campaign.excess.max(unused - needed);
    }

    /// True when the last allocation is over, too.
    pub(crate) fn campaign_is_over(&mut self) -> bool {
        let Some(campaign) = &mut self.campaign else { return true };
        campaign.done_at.get_or_insert(self.now.0 - crate::world::START.0);
        let living = |at: usize| self.batch.iter().any(|b| b.living(QueueId(at as u32 + 1)).next().is_some());
        let is_over = |server: &hq_core::server::Server| server.state().alloc.active().next().is_none();
        !(0..campaign.partitions.len()).any(living) && self.server.as_ref().is_some_and(is_over)
    }
}

fn submit(at: usize, wave: &Wave, rng: &mut Rng) -> ClientRequest {
    let part =
        |name: &str| parse_amount(name, "1").ok().map(|amount| ResourceRequest { name: name.into(), amount });
    let gpus = wave.needs_gpu.then(|| part("gpus")).flatten();
    let time_request = if wave.says_time { Duration::from_micros(wave.runs_us.1) } else { Duration::ZERO };
    let resources = part("cpus").into_iter().chain(gpus).collect();
    let spec = TaskSpec {
        body: Body::program(["work"]),
        requests: vec![Request { resources, time_request, ..Request::default() }],
        crash_limit: CrashLimit::Unlimited,
        ..TaskSpec::default()
    };
    let mut dependencies = Dependencies::default();
    if wave.waits {
        let job = JobId(at as u32);
        dependencies.after.push(After {
            job,
            tasks: None,
            key: None,
            condition: Condition::Success,
            mapping: Mapping::All,
        });
    }
    let submit = Submit {
        dependencies: Arc::new(dependencies),
        ..Submit::new(
            Target::New(JobSpec { name: "wave".into(), ..JobSpec::default() }),
            TaskIds::Next(wave.tasks),
            spec,
        )
    };
    ClientRequest::Submit { key: u128::from(rng.draw()), submit: Box::new(submit) }
}

/// A time of the run, for people.
pub fn hours(us: u64) -> f64 {
    Timestamp(us).0 as f64 / HOUR as f64
}
