//! The shell around a worker machine: its processes, its connection, its clock.

use std::collections::BTreeMap;
use std::time::Duration;

use hq_core::WorkerSecret;
use hq_core::limits::PULLED_ROOM_MAX;
use hq_core::object_messages::ObjectCopy;
use hq_core::worker::{Effect, Input, Start, Worker};
use hq_core::worker_messages::{ToWorker, WorkerEnd};
use hq_model::request::CPUS;
use hq_model::worker::{Executor, Manager, OnServerLost, StoreConfig, WorkerConfig};
use hq_model::{
    AllocationRef, Epoch, Instance, JobId, ObjectId, ResourcePool, TaskRef, Timestamp, Usage, WorkerResources,
};

use crate::campaign;
use crate::objects::Store;
use crate::observers::{Handing, Nodes, Runners};
use crate::rng::Rng;
use crate::variety;

/// A node with a worker process, or without one for the moment.
#[derive(Debug)]
pub struct Node {
    /// The machine; `None` while no worker runs there.
    pub worker: Option<Worker>,
    /// Counts the worker processes on this node; events for an earlier one are dropped.
    pub life: u64,
    /// When that process was started.
    pub started: Timestamp,
    /// Its connection.
    pub connection: Option<u64>,
    /// It is stopped until then.
    pub frozen_until: Timestamp,
    /// Processes of tasks, by task: a number that tells the process from an earlier one.
    pub processes: BTreeMap<TaskRef, Process>,
    /// Interpreters that functions are called in.
    pub runners: Runners,
    /// What its launcher starts by itself at the end of a task.
    pub armed: BTreeMap<TaskRef, Start>,
    /// What the launcher says comes in order: not before this.
    pub says_from: Timestamp,
    /// Counts its launchers: of an earlier one nothing is heard.
    pub launcher: u64,
    /// Epoch of the server that took its worker in.
    pub epoch: Epoch,
    /// Epochs of the servers that handed it tasks: with them, attempts have names of their own even when a machine
    /// lost what was written.
    pub handed: BTreeMap<(TaskRef, Instance), Epoch>,
    /// A wakeup is under way for this time.
    pub wakeup: Option<Timestamp>,
    /// Every worker here has so many CPUs and stays; else it is drawn.
    pub cpus: Option<u32>,
    /// Its workers offer something in groups, too.
    pub has_groups: bool,
    /// What its workers offer in a campaign.
    pub pools: Option<Vec<ResourcePool>>,
    /// The allocation it belongs to, with its id in the batch system and its wall time.
    pub origin: Option<(AllocationRef, String, Duration)>,
    /// Its worker left in order.
    pub has_left: bool,
    /// Its workers offer more than the usual, as this says.
    pub variety: Option<Rng>,
    /// Its launcher starts tasks at the end of others by itself.
    pub arms: bool,
    /// Its workers offer all that tasks may ask for.
    pub has_all: bool,
    /// None of its workers only pretends to run tasks.
    pub runs_all: bool,
    /// Its workers are relays of this bag.
    pub relay_of: Option<JobId>,
    /// Its workers store so many objects.
    pub room: Option<usize>,
    /// What the worker there stores.
    pub store: Option<Store>,
    /// What that worker is counted on for.
    pub handing: Handing,
    /// Tasks that what they take is being brought to.
    pub staging: BTreeMap<TaskRef, Start>,
    /// What processes leave when they end well.
    pub leaves: BTreeMap<TaskRef, Vec<(ObjectId, Instance)>>,
}

/// A task's process.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// Tells it from others.
    pub number: u64,
    /// The attempt.
    pub instance: Instance,
    /// It does not react to SIGTERM.
    pub stubborn: bool,
    /// Nothing else may run here meanwhile.
    pub is_alone: bool,
    /// It takes nothing, and runs beside such a one, too.
    pub is_beside: bool,
    /// No process, but a part of a task whose process runs elsewhere.
    pub is_part: bool,
    /// Its end comes later than what it had is free.
    pub is_streamed: bool,
    /// When it started.
    pub since: Timestamp,
}

impl Process {
    /// That of a task which starts, and reacts to SIGTERM.
    pub fn new(number: u64, start: &Start, since: Timestamp) -> Process {
        let is_alone = Nodes::wants_alone(start);
        let (instance, is_beside, is_part) = (start.instance, Nodes::is_beside(start), start.is_part);
        // As in the worker: where nothing else is to be looked for, and for what has a process of its own.
        let spec = &start.template.spec;
        let is_plain = !is_part && start.nodes.is_empty() && start.runs_in.is_none();
        let is_streamed = is_plain && spec.is_streamed() && !spec.has_aftermath_in_files();
        Process { number, instance, stubborn: false, is_alone, is_beside, is_part, is_streamed, since }
    }

    /// What it used when it ends now: time alone.
    pub fn usage(&self, now: Timestamp) -> Usage {
        Usage { wall_us: now.since(self.since).as_micros() as u64, ..Usage::default() }
    }
}

impl Node {
    /// True while a process of a task is there that the worker of this life has started.
    pub fn runs(&self, life: u64, task: TaskRef, number: u64) -> bool {
        self.life == life && self.processes.get(&task).is_some_and(|process| process.number == number)
    }

    /// A node without a worker.
    pub fn new() -> Node {
        Node {
            worker: None,
            life: 0,
            started: Timestamp(0),
            connection: None,
            frozen_until: Timestamp(0),
            processes: BTreeMap::new(),
            runners: Runners::default(),
            armed: BTreeMap::new(),
            says_from: Timestamp(0),
            launcher: 0,
            epoch: Epoch::default(),
            handed: BTreeMap::new(),
            wakeup: None,
            cpus: None,
            has_groups: false,
            pools: None,
            origin: None,
            has_left: false,
            variety: None,
            arms: true,
            has_all: false,
            runs_all: false,
            relay_of: None,
            room: None,
            store: None,
            handing: Handing::default(),
            staging: BTreeMap::new(),
            leaves: BTreeMap::new(),
        }
    }

    /// A node whose workers all have so many CPUs, and stay.
    pub fn with_cpus(cpus: u32) -> Node {
        Node { cpus: Some(cpus), ..Node::new() }
    }

    /// A node with relays of a bag.
    pub fn relay(bag: u32) -> Node {
        Node { relay_of: Some(JobId(bag)), arms: false, ..Node::new() }
    }

    /// Starts a worker process.
    pub fn start(&mut self, now: Timestamp, rng: &mut Rng) {
        self.life += 1;
        self.started = now;
        self.connection = None;
        self.launcher_dies();
        self.handed.clear();
        self.wakeup = None;
        let mut config = config(rng);
        if self.has_groups {
            config.resources = with_groups(config.resources);
        }
        if let Some(variety) = &mut self.variety {
            variety::offer(variety, &mut config);
        }
        if self.runs_all {
            config.executor = Executor::Process;
        }
        if self.has_all {
            variety::offer_all(&mut config);
        }
        if let Some((allocation, id, limit)) = &self.origin {
            config.origin = Some(*allocation);
            config.group.clone_from(id);
            config.allocation = Some((Manager::Slurm, id.clone()));
            config.time_limit = Some(*limit);
            config.idle_timeout = Some(Duration::from_secs(rng.between(1, 60)));
        }
        if let Some(cpus) = self.cpus {
            let pools = hq_model::resources::parse_pool("cpus", &cpus.to_string()).into_iter().collect();
            config.resources = WorkerResources::new(pools, Vec::new()).unwrap_or_default();
            (config.idle_timeout, config.time_limit) = (None, None);
            (config.on_server_lost, config.executor) = (OnServerLost::Reconnect, Executor::Process);
        }
        if let Some(pools) = &self.pools {
            config.resources = WorkerResources::new(pools.clone(), Vec::new()).unwrap_or_default();
            (config.idle_timeout, config.heartbeat) = (Some(campaign::IDLE), campaign::HEARTBEAT);
            (config.on_server_lost, config.executor) = (OnServerLost::Reconnect, Executor::Process);
            config.time_reserve = hq_model::worker::TIME_RESERVE;
        }
        if let Some(bag) = self.relay_of {
            let tags: &[&str] = if crate::pullers::has_tag(bag) { &[crate::pullers::TAG] } else { &[] };
            let relay = WorkerConfig::relay(bag, tags, PULLED_ROOM_MAX);
            (config.resources, config.executor) = (relay.resources, relay.executor);
            (config.idle_timeout, config.time_limit) = (None, None);
            config.on_server_lost = OnServerLost::Reconnect;
        }
        config.object_store =
            self.room.map(|room| StoreConfig { dir: "/store".to_owned(), size: room as u64, spill: None });
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&now.0.to_le_bytes());
        let mut worker = Worker::new(config, now).with_secret(WorkerSecret(secret));
        if self.arms {
            worker = worker.with_arming();
        }
        if self.life % 4 != 3 && self.relay_of.is_none() {
            worker = worker.with_zygotes();
        }
        self.store = self.room.map(Store::new);
        self.handing = Handing::default();
        if self.store.is_some() {
            worker = worker.with_store();
        }
        self.worker = Some(worker);
    }

    /// Starts a worker that is big enough for every task, and stays, unless it is said what the workers here have.
    pub fn start_to_last(&mut self, now: Timestamp, rng: &mut Rng) {
        self.has_all |= self.variety.take().is_some();
        let is_given = self.cpus.is_some() || self.pools.is_some() || self.relay_of.is_some();
        loop {
            self.start(now, rng);
            if is_given || self.worker.as_ref().is_some_and(|worker| worker.is_lasting(4)) {
                break;
            }
        }
    }

    /// The worker process is gone, and its tasks with it.
    pub fn die(&mut self) {
        self.life += 1;
        self.worker = None;
        self.connection = None;
        self.store = None;
        self.launcher_dies();
    }

    /// Looks whether the worker there takes nothing new.
    pub fn leaves(&mut self, now: Timestamp) {
        if self.worker.as_ref().is_some_and(Worker::is_leaving) {
            self.handing.leaves(now);
        }
    }

    /// The worker there ends itself.
    ///
    /// # Errors
    /// When it should hand on something first.
    pub fn may_end(&self, now: Timestamp, end: WorkerEnd) -> Result<(), String> {
        match (&self.worker, &self.store) {
            (Some(worker), Some(store)) => {
                self.handing.ends(now, end, worker.config().life(self.started), store)
            }
            _ => Ok(()),
        }
    }

    /// What executes tasks is gone, and these with it.
    pub fn launcher_dies(&mut self) {
        self.launcher += 1;
        self.processes.clear();
        self.runners.clear();
        self.armed.clear();
        self.staging.clear();
        self.leaves.clear();
    }

    /// Remembers who hands it what.
    pub fn note(&mut self, message: &ToWorker) {
        match message {
            ToWorker::Welcome(welcome) => self.epoch = welcome.epoch,
            ToWorker::Run(batches) => {
                for batch in batches {
                    let job = batch.template.job;
                    let tasks = batch.ids.iter().map(|task| (TaskRef::new(job, task), batch.instance));
                    self.handed.extend(tasks.map(|attempt| (attempt, self.epoch)));
                }
            }
            ToWorker::Cancel { .. }
            | ToWorker::Retract { .. }
            | ToWorker::Saved { .. }
            | ToWorker::Weighed { .. }
            | ToWorker::ReadOutput(_)
            | ToWorker::DropRead { .. }
            | ToWorker::FreeObjects(_)
            | ToWorker::BringObjects(_)
            | ToWorker::Relay { .. }
            | ToWorker::TakeFile { .. }
            | ToWorker::GuardObjects { .. }
            | ToWorker::Stop { .. }
            | ToWorker::Logged { .. } => {}
        }
    }

    /// Stores an object, and says what its worker hears of that.
    pub fn takes_in(&mut self, copy: ObjectCopy, said: &mut Vec<Input>) {
        let pinned = self.pinned();
        if let Some(store) = &mut self.store {
            said.extend(store.takes_in(copy, |object| pinned.contains(object)));
        }
    }

    /// True when there is room for another object, at the cost of none that is needed.
    pub fn has_room(&self) -> bool {
        let pinned = self.pinned();
        self.store.as_ref().is_some_and(|store| store.has_room(|object| pinned.contains(object)))
    }

    // What tasks take that are about to start.
    fn pinned(&self) -> Vec<ObjectId> {
        let taken = self.staging.values().flat_map(|start| &start.objects);
        taken.map(|source| source.copy.object.clone()).collect()
    }

    /// Lets the machine act, unless that `is_forgotten`, and returns what it wants.
    pub fn step(
        &mut self,
        now: Timestamp,
        inputs: Vec<Input>,
        is_forgotten: bool,
    ) -> Result<Vec<Effect>, String> {
        let mut effects = Vec::new();
        if let Some(worker) = &mut self.worker {
            inputs.into_iter().for_each(|input| worker.handle(now, input, &mut effects));
            if !is_forgotten {
                worker.settle(now, &mut effects);
            }
            worker.check()?;
        }
        Ok(effects)
    }
}

impl Default for Node {
    fn default() -> Self {
        Node::new()
    }
}

// With things that lie beside the CPUs where these are in groups, too.
fn with_groups(resources: WorkerResources) -> WorkerResources {
    let mut pools = resources.pools;
    pools.extend(hq_model::resources::parse_pool("foo", "[[a,b,c],[d,e,f,g]]"));
    let is_coupled = pools.iter().any(|pool| pool.name == CPUS && pool.kind.labels().len() == 2);
    let coupling = hq_model::resources::parse_coupling("cpus[0]:foo[0],cpus[1]:foo[1]");
    let coupling = coupling.ok().filter(|_| is_coupled).unwrap_or_default();
    WorkerResources::new(pools, coupling).unwrap_or_default()
}

fn config(rng: &mut Rng) -> WorkerConfig {
    let cpus = hq_model::resources::parse_pool("cpus", ["1", "2", "2x2", "4"][rng.between(0, 3) as usize]);
    let mem = hq_model::resources::parse_pool("mem", "sum(1000)");
    let pools: Vec<ResourcePool> = cpus.into_iter().chain(mem).collect();
    let resources = WorkerResources::new(pools, Vec::new()).unwrap_or_default();
    let seconds = std::time::Duration::from_secs;
    WorkerConfig {
        idle_timeout: if rng.chance(100) { Some(seconds(rng.between(1, 120))) } else { None },
        time_limit: if rng.chance(150) { Some(seconds(rng.between(30, 300))) } else { None },
        time_reserve: seconds(10),
        on_server_lost: match rng.between(0, 9) {
            0 => OnServerLost::Stop,
            1 => OnServerLost::FinishRunning,
            _ => OnServerLost::Reconnect,
        },
        executor: if rng.chance(100) { Executor::Null } else { Executor::Process },
        ..WorkerConfig::new(resources)
    }
}
