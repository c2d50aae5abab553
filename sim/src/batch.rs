//! A batch system that makes jobs wait, rejects them, loses its answers and kills what runs. It outlives every server.

use std::collections::BTreeMap;
use std::time::Duration;

use hq_core::alloc::messages::AllocRequest;
use hq_core::alloc::{BatchOrder, BatchReport};
use hq_core::client_messages::ClientRequest;
use hq_core::server::{ConnectionId, Input as ServerInput};
use hq_core::worker::Input as WorkerInput;
use hq_model::allocation::{BatchState, QueueParams};
use hq_model::{AllocationRef, QueueId, Timestamp};

use crate::nodes::Node;
use crate::rng::Rng;
use crate::world::{Event, World};

/// Longest time that a command takes, µs; and of a batch system that is well.
const COMMAND_MAX_US: u64 = 3_000_000;
const CAMPAIGN_COMMAND_MAX_US: u64 = 300_000;
/// How often a running job is looked at, µs.
const LOOK_US: u64 = 2_000_000;

/// The batch system of a run. It draws from a source of its own, so that runs without one stay what they were.
#[derive(Debug)]
pub struct BatchSystem {
    rng: Rng,
    /// Jobs by their ids.
    pub jobs: BTreeMap<u64, BatchJob>,
    /// What was asked for when queues were made, and how often.
    pub queues: Vec<QueueParams>,
    /// Commands that fail, that are not answered, and jobs that are killed, in per mille.
    rejected: u64,
    lost: u64,
    killed: u64,
}

/// A job.
#[derive(Clone, Debug)]
pub struct BatchJob {
    /// What it was submitted for.
    pub allocation: AllocationRef,
    /// Nodes.
    pub workers: u32,
    /// Its wall time.
    pub limit: Duration,
    /// When it got its nodes.
    pub started: Option<Timestamp>,
    /// How it is.
    pub state: BatchState,
    /// Its nodes once it has them.
    pub nodes: Vec<usize>,
    /// It was told to end, and its workers have a moment to do so.
    pub is_ending: bool,
}

/// Something that happens in the batch system.
#[derive(Clone, Debug)]
pub(crate) enum BatchEvent {
    /// A user makes or removes a queue.
    UserAsks(Box<AllocRequest>),
    /// An order arrives.
    Order(Box<BatchOrder>),
    /// An answer arrives at the server that asked.
    Report(u64, Box<BatchReport>),
    /// A job may start.
    Start(u64),
    /// A running job is looked at.
    Look(u64),
    /// A job ends like this, whatever it does.
    End(u64, BatchState),
}

impl BatchSystem {
    /// Draws one; most runs have none.
    pub fn draw(seed: u64) -> Option<BatchSystem> {
        let mut rng = Rng::new(seed ^ 0x0bad_cafe_5eed_f00d);
        if !rng.chance(400) {
            return None;
        }
        let [rejected, lost, killed] = [200, 200, 300].map(|most| if rng.chance(500) { most } else { 0 });
        let (jobs, queues) = (BTreeMap::new(), Vec::new());
        Some(BatchSystem { rng, jobs, queues, rejected, lost, killed })
    }

    /// One for a campaign, which says how long jobs wait and which are killed.
    pub fn for_campaign(seed: u64, queues: Vec<QueueParams>, rejected: u64, lost: u64) -> BatchSystem {
        BatchSystem { rng: Rng::new(seed), jobs: BTreeMap::new(), queues, rejected, lost, killed: 0 }
    }

    /// Jobs of a queue that wait or run.
    pub fn living(&self, queue: QueueId) -> impl Iterator<Item = &BatchJob> {
        let jobs = self.jobs.values();
        jobs.filter(move |job| job.allocation.queue == queue && !BatchSystem::is_ended(job))
    }

    fn params(&mut self) -> QueueParams {
        let rng = &mut self.rng;
        let known = hq_model::resources::parse_pool("cpus", "4").into_iter();
        QueueParams {
            manager: if rng.chance(500) { "slurm" } else { "pbs" }.into(),
            backlog: rng.between(1, 4) as u32,
            max_workers_per_alloc: rng.between(1, 3) as u32,
            max_worker_count: if rng.chance(500) { Some(rng.between(1, 6) as u32) } else { None },
            time_limit: Duration::from_secs(rng.between(60, 600)),
            resources: if rng.chance(500) { known.collect() } else { Vec::new() },
            ..QueueParams::default()
        }
    }

    fn is_ended(job: &BatchJob) -> bool {
        !matches!(job.state, BatchState::Queued | BatchState::Running)
    }
}

impl World {
    /// Queues are made, and some of them removed again.
    pub(crate) fn begin_batch(&mut self) {
        let Some(batch) = &mut self.batch else { return };
        let mut asks = Vec::new();
        for queue in 1..=batch.rng.between(1, 3) as u32 {
            let params = batch.params();
            batch.queues.push(params.clone());
            let first = batch.rng.between(0, 20_000_000);
            asks.push((first, AllocRequest::Add { params: Box::new(params), dry_run: false }));
            if batch.rng.chance(300) {
                let later = first + batch.rng.between(20_000_000, 100_000_000);
                asks.push((later, AllocRequest::Remove { queue: QueueId(queue), force: true }));
            }
        }
        for (after, request) in asks {
            self.at(after, Event::Batch(BatchEvent::UserAsks(Box::new(request))));
        }
    }

    /// Something happens in the batch system.
    pub(crate) fn batch_event(&mut self, event: BatchEvent) -> Result<(), String> {
        match event {
            BatchEvent::UserAsks(request) => self.user_asks(*request),
            BatchEvent::Order(order) => self.carry_out(*order),
            BatchEvent::Report(life, report) => {
                if life == self.server_life {
                    self.server_step(ServerInput::Batch(*report))?;
                }
                Ok(())
            }
            BatchEvent::Start(id) => {
                self.start_job(id);
                Ok(())
            }
            BatchEvent::Look(id) => {
                self.look_at_job(id);
                Ok(())
            }
            BatchEvent::End(id, state) => self.end_job(id, state),
        }
    }

    fn user_asks(&mut self, request: AllocRequest) -> Result<(), String> {
        if self.server.as_ref().is_none_or(hq_core::server::Server::is_read_only) {
            self.at(1_000_000, Event::Batch(BatchEvent::UserAsks(Box::new(request))));
            return Ok(());
        }
        let id = self.network.open(0, false, self.now);
        let (connection, body) = (ConnectionId(id), ClientRequest::Alloc(request));
        self.server_step(ServerInput::Client { connection, request: 1, body })?;
        self.network.close(id);
        Ok(())
    }

    /// The server gave an order; it arrives after a while.
    pub(crate) fn order(&mut self, order: BatchOrder) {
        let most = self.command_max();
        let Some(batch) = &mut self.batch else { return };
        let after = batch.rng.between(1_000, most);
        self.at(after, Event::Batch(BatchEvent::Order(Box::new(order))));
    }

    fn command_max(&self) -> u64 {
        if self.campaign.is_some() { CAMPAIGN_COMMAND_MAX_US } else { COMMAND_MAX_US }
    }

    fn carry_out(&mut self, order: BatchOrder) -> Result<(), String> {
        let healed = self.healed && self.campaign.is_none();
        if let (Some(campaign), BatchOrder::AskStates { .. }) = (&mut self.campaign, &order) {
            campaign.questions += 1;
        }
        let Some(batch) = &mut self.batch else { return Ok(()) };
        let happens = |per_mille: u64, rng: &mut Rng| !healed && rng.chance(per_mille);
        let report = match order {
            BatchOrder::Submit { allocation, params, workers, .. } => {
                if happens(batch.rejected, &mut batch.rng) {
                    // A limit on how many jobs there may be, or nobody there; every other time for good.
                    match batch.jobs.len() % 2 {
                        0 => BatchReport::Refused { allocation, error: "no".into() },
                        _ => BatchReport::NotNow { allocation, error: "not now".into() },
                    }
                } else {
                    let id = self.submit_job(allocation, &params, workers)?;
                    let Some(batch) = &mut self.batch else { return Ok(()) };
                    if happens(batch.lost, &mut batch.rng) {
                        BatchReport::Unclear { allocation, error: "no answer".into() }
                    } else {
                        BatchReport::Submitted { allocation, batch_id: id.to_string() }
                    }
                }
            }
            BatchOrder::Recover { allocation, .. } => {
                let found = batch.jobs.iter().find(|(_, job)| job.allocation == allocation);
                match found.map(|(id, _)| id.to_string()) {
                    _ if happens(batch.lost, &mut batch.rng) => {
                        BatchReport::Unclear { allocation, error: "no answer".into() }
                    }
                    Some(batch_id) => BatchReport::Submitted { allocation, batch_id },
                    None => BatchReport::NotFound { allocation },
                }
            }
            BatchOrder::Cancel { allocations, .. } => {
                let (which, ids): (Vec<_>, Vec<String>) = allocations.into_iter().unzip();
                if happens(batch.lost, &mut batch.rng) {
                    BatchReport::Canceled { allocations: which, result: Err("no answer".into()) }
                } else {
                    for id in ids.iter().filter_map(|id| id.parse().ok()) {
                        self.end_job(id, BatchState::Canceled)?;
                    }
                    BatchReport::Canceled { allocations: which, result: Ok(()) }
                }
            }
            BatchOrder::AskStates { manager, jobs } => {
                let known = |(id, _): &(String, Vec<u8>)| {
                    Some((id.clone(), batch.jobs.get(&id.parse().ok()?)?.state.clone().into()))
                };
                let states: Vec<_> = jobs.iter().filter_map(known).collect();
                let is_lost = happens(batch.lost, &mut batch.rng);
                let states = if is_lost { Err("no answer".to_owned()) } else { Ok(states) };
                BatchReport::States { manager, states }
            }
            BatchOrder::Try { ticket, .. } => BatchReport::Tried { ticket, result: Ok(None) },
            BatchOrder::AskShape { queue, .. } => BatchReport::Shape { queue, resources: None },
            BatchOrder::Remove { .. } => return Ok(()),
        };
        let most = self.command_max();
        let Some(batch) = &mut self.batch else { return Ok(()) };
        let after = batch.rng.between(1_000, most);
        let report = BatchEvent::Report(self.server_life, Box::new(report));
        self.at(after, Event::Batch(report));
        Ok(())
    }

    fn submit_job(
        &mut self,
        allocation: AllocationRef,
        params: &QueueParams,
        workers: u32,
    ) -> Result<u64, String> {
        let Some(batch) = &mut self.batch else { return Ok(0) };
        let id = batch.jobs.len() as u64 + 1;
        let (limit, state) = (params.time_limit, BatchState::Queued);
        batch.jobs.insert(
            id,
            BatchJob {
                allocation,
                workers,
                limit,
                state,
                started: None,
                nodes: Vec::new(),
                is_ending: false,
            },
        );
        let place = batch.jobs.values().filter(|job| job.allocation.queue == allocation.queue).count() - 1;
        let after = match &self.campaign {
            Some(campaign) => campaign.wait(allocation.queue, place as u64),
            None => {
                let wait = [10_000, 5_000_000, 60_000_000][batch.rng.between(0, 2) as usize];
                batch.rng.between(1_000, wait)
            }
        };
        self.at(after, Event::Batch(BatchEvent::Start(id)));
        self.count_submission(allocation.queue);
        let Some(batch) = &self.batch else { return Ok(id) };
        self.observers.allocations.submitted(batch, allocation, &self.nodes).map_err(|error| {
            let known = self.server.as_ref().and_then(|s| s.state().alloc.queues.get(&allocation.queue));
            format!(
                "{error}; jobs: {:?}; the server knows: {:?}",
                batch.jobs,
                known.map(|queue| &queue.allocations)
            )
        })?;
        Ok(id)
    }

    fn start_job(&mut self, id: u64) {
        let healed = self.healed;
        let Some(batch) = &mut self.batch else { return };
        let place = |job: &BatchJob| {
            let before =
                batch.jobs.range(..id).filter(|(_, one)| one.allocation.queue == job.allocation.queue);
            before.count() as u64
        };
        let place = batch.jobs.get(&id).map_or(0, place);
        let Some(job) = batch.jobs.get_mut(&id).filter(|job| job.state == BatchState::Queued) else { return };
        job.state = BatchState::Running;
        job.started = Some(self.now);
        let mut after = job.limit.as_micros() as u64;
        let mut end = BatchState::TimedOut;
        let mut pools = None;
        if let Some(campaign) = &self.campaign {
            pools = Some(campaign.pools(job.allocation.queue));
            if let Some(at) = campaign.killed(job.allocation.queue, place) {
                (after, end) = (at.min(after), BatchState::NodeFailed);
            }
        }
        if !healed && batch.rng.chance(batch.killed) {
            after = batch.rng.between(1_000, after.min(60_000_000));
            end = [BatchState::Preempted, BatchState::NodeFailed, BatchState::Canceled]
                [batch.rng.between(0, 2) as usize]
                .clone();
        }
        for _ in 0..job.workers {
            let node = self.nodes.len();
            job.nodes.push(node);
            let mut new = Node { runs_all: self.faults.has_feeds, ..Node::new() };
            new.origin = Some((job.allocation, id.to_string(), job.limit));
            new.pools.clone_from(&pools);
            new.start(self.now, &mut batch.rng);
            self.nodes.push(new);
        }
        let nodes = job.nodes.clone();
        for node in nodes {
            let life = self.nodes[node].life;
            self.at(1_000, Event::Connect { node, life });
        }
        self.at(after, Event::Batch(BatchEvent::End(id, end)));
        if self.campaign.is_none() {
            self.at(LOOK_US, Event::Batch(BatchEvent::Look(id)));
        }
    }

    /// A worker has left its node: its job may be over.
    pub(crate) fn node_left(&mut self, node: usize) {
        if let (Some(_), Some((_, id, _))) = (&self.campaign, &self.nodes[node].origin)
            && let Ok(id) = id.parse()
        {
            self.at(LOOK_US, Event::Batch(BatchEvent::Look(id)));
        }
    }

    // A job is over when all its workers are.
    fn look_at_job(&mut self, id: u64) {
        let Some(batch) = &mut self.batch else { return };
        let Some(job) = batch.jobs.get_mut(&id).filter(|job| job.state == BatchState::Running) else {
            return;
        };
        if job.nodes.iter().any(|node| self.nodes[*node].worker.is_some()) {
            if self.campaign.is_some() {
                return;
            }
            self.at(LOOK_US, Event::Batch(BatchEvent::Look(id)));
            return;
        }
        let in_order = job.nodes.iter().all(|node| self.nodes[*node].has_left);
        job.state =
            if in_order { BatchState::Finished } else { BatchState::Failed("exit status 137".into()) };
    }

    // Workers get a word of warning, sometimes.
    fn end_job(&mut self, id: u64, state: BatchState) -> Result<(), String> {
        let Some(batch) = &mut self.batch else { return Ok(()) };
        let warned = batch.rng.chance(500);
        let Some(job) = batch.jobs.get_mut(&id).filter(|job| !BatchSystem::is_ended(job)) else {
            return Ok(());
        };
        let grace = job.nodes.iter().any(|node| self.nodes[*node].worker.is_some()) && warned;
        let nodes = job.nodes.clone();
        if grace && state != BatchState::NodeFailed {
            job.is_ending = true;
            for node in &nodes {
                if self.nodes[*node].worker.is_some() {
                    self.worker_step(*node, WorkerInput::Interrupt)?;
                }
            }
            self.at(30_000_000, Event::Batch(BatchEvent::End(id, BatchState::NodeFailed)));
            // Until its workers have gone, it runs.
            return Ok(());
        }
        job.state = state;
        for node in nodes {
            if let Some(connection) = self.nodes[node].connection {
                self.at(500, Event::PeerGone { connection, is_closed: true });
            }
            self.nodes[node].die();
        }
        Ok(())
    }
}
