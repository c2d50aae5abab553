//! One run: events in virtual time until everything has ended, or a promise is broken.

use std::collections::{BTreeMap, BinaryHeap};

use hq_core::client_messages::{ClientRequest, ClientResponse};
use hq_core::server::{ConnectionId, Input as ServerInput, Server, ServerOptions};
use hq_core::worker::{Input as WorkerInput, Outcome as TaskOutcome, RunnerId, ZygoteId};
use hq_core::worker_messages::{FromWorker, ToWorker};
use hq_model::{Instance, Notice, TaskRef, Timestamp};
use hq_sched::Plan;

use crate::batch::{BatchEvent, BatchSystem};
use crate::campaign::Campaign;
use crate::canary::Canary;
use crate::clients::Client;
use crate::due::Due;
use crate::faults::Faults;
use crate::journal::Journal;
use crate::network::Network;
use crate::nodes::Node;
use crate::objects::{self, Relaying};
use crate::observers::{self, Observers};
use crate::pullers;
use crate::rng::Rng;
use crate::variety;

/// What to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Decides everything.
    pub seed: u64,
    /// A planted bug.
    pub canary: Option<Canary>,
    /// To see many seeds: no story, no fingerprint, fewer looks. What it finds is seen in full when it is played without.
    pub is_hasty: bool,
    /// It is looked for tasks that fit on a worker and do not go or start there, and whether a server and its workers count
    /// the same, too. The first of these is still broken now and then.
    pub is_strict: bool,
}

/// What a run that kept all promises did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Steps taken.
    pub steps: u64,
    /// Tasks started.
    pub starts: usize,
    /// Tasks started a second time beside the first.
    pub speculated: u64,
    /// Amounts that came from several groups of a pool.
    pub spread: u64,
    /// Tasks that had to have what is close to each other.
    pub coupled: u64,
    /// Notices that arrived: of ends, of failures, of standstills.
    pub told: [u64; 3],
    /// Open jobs that were closed because their clients had left them.
    pub left: u64,
    /// Tasks that a launcher began by itself at the end of others.
    pub begun: u64,
    /// Of these, when they were being called back.
    pub begun_late: u64,
    /// Calls of functions in interpreters that had calls before.
    pub reused_runners: u64,
    /// Calls that began behind others, as their runners were told beforehand.
    pub calls_begun: u64,
    /// Calls of functions that waited for others.
    pub waits: u64,
    /// Tasks that got all objects that they take.
    pub taken: u64,
    /// Those that did not.
    pub unfetched: u64,
    /// Objects that came before the task started that takes them.
    pub fetched_ahead: u64,
    /// Objects that came by way of the server.
    pub relays: u64,
    /// Scrambles everything that happened: equal seeds give equal numbers.
    pub fingerprint: u64,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// Virtual time since the start, µs.
    pub at_us: u64,
    /// The step.
    pub step: u64,
    /// Which promise, where.
    pub what: String,
    /// The last things that happened.
    pub story: Vec<String>,
}

pub(crate) const START: Timestamp = Timestamp(1_000_000_000_000);
/// Faults and wishes end here, µs after the start.
const FAULTS_US: u64 = 150_000_000;
/// Everything has ended by then.
const END_US: u64 = 40_000_000_000;
const STEPS_MAX: u64 = 3_000_000;
const STORY_MAX: usize = 600;
/// Little, so that entries of finished tasks are dropped.
const ENDED_ENTRIES_BYTES_MAX: usize = 300;
/// In one of so many steps an explanation is compared with what is so.
const EXPLAINED_ONE_IN: u64 = 16;
/// In haste, what takes long is looked at in one of so many steps.
const HASTY_CHECKS: u64 = 8;

#[derive(Debug)]
pub(crate) enum Event {
    FromWorker { connection: u64, message: FromWorker },
    FromClient { connection: u64, request: u64, body: ClientRequest },
    ToWorker { connection: u64, life: u64, message: ToWorker },
    ToClient { connection: u64, request: u64, body: ClientResponse },
    PeerGone { connection: u64, is_closed: bool },
    WorkerLostServer { node: usize, life: u64 },
    ClientLostServer { client: usize, connection: u64 },
    WorkerTick { node: usize, life: u64, at: Timestamp },
    ServerTick { life: u64, at: Timestamp },
    Staged { node: usize, life: u64, task: TaskRef, number: u64 },
    Relayed { ticket: u64, holder: usize },
    RelayOver { ticket: u64 },
    ProcessEnds { node: usize, life: u64, task: TaskRef, number: u64, outcome: TaskOutcome },
    RunnerDies { node: usize, life: u64, runner: RunnerId },
    ZygoteDies { node: usize, life: u64, zygote: ZygoteId },
    CallWaits { node: usize, life: u64, task: TaskRef, number: u64, wants: bool },
    LauncherSays { node: usize, launcher: u64, inputs: Vec<WorkerInput>, begun: Option<Instance> },
    Planned { life: u64, number: u64, plan: Box<Plan> },
    FilesFound { life: u64, paths: Vec<Vec<u8>> },
    Noticed { life: u64, notice: Box<Notice> },
    Write { life: u64 },
    Sync { life: u64 },
    Connect { node: usize, life: u64 },
    PullersAct { node: usize, life: u64 },
    PullerReturns { node: usize, life: u64, task: TaskRef, number: u64 },
    FeederLooks { client: usize },
    ClientActs { client: usize },
    Fault(Fault),
    Unmute { connection: u64 },
    Batch(BatchEvent),
    StartServer,
    StartWorker { node: usize },
    Heal,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    ServerKill,
    WorkerKill,
    Freeze,
    Cut,
    Mute,
    StopWorker,
    DiskFull,
    KillTask,
    KillBusyWorker,
    LoseObject,
}

pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) rng: Rng,
    pub(crate) now: Timestamp,
    events: BinaryHeap<Due>,
    pub(crate) sequence: u64,
    pub(crate) server: Option<Server>,
    pub(crate) server_life: u64,
    pub(crate) server_tick: Option<Timestamp>,
    pub(crate) journal: Journal,
    pub(crate) journal_busy: bool,
    pub(crate) disk_full_until: Timestamp,
    pub(crate) network: Network,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<Client>,
    pub(crate) faults: Faults,
    pub(crate) batch: Option<BatchSystem>,
    pub(crate) campaign: Option<Box<Campaign>>,
    /// Everything has ended by then, µs after the start.
    pub(crate) end_us: u64,
    pub(crate) observers: Observers,
    pub(crate) processes: u64,
    /// What launchers began, and how much of it was being called back.
    pub(crate) begun: (u64, u64),
    /// Calls of functions in runners that had calls before.
    pub(crate) reused_runners: u64,
    // Calls that were armed and began.
    pub(crate) calls_begun: u64,
    /// Calls of functions that waited for others.
    pub(crate) waits: u64,
    /// Tasks that got all objects that they take, and those that did not.
    pub(crate) taken: u64,
    pub(crate) unfetched: u64,
    /// Objects that came before the task started that takes them.
    pub(crate) fetched_ahead: u64,
    /// Objects that came by way of the server, who waits for such, and how many have.
    pub(crate) relays: u64,
    pub(crate) relaying: BTreeMap<u64, Relaying>,
    pub(crate) tickets: u64,
    /// When all tasks had ended.
    pub(crate) over_since: Option<Timestamp>,
    pub(crate) healed: bool,
    pub(crate) steps: u64,
    /// What takes long is looked at in one of so many steps.
    pub(crate) checked_one_in: u64,
    pub(crate) fingerprint: u64,
    pub(crate) story: Vec<String>,
}

/// Runs one seed.
///
/// # Errors
/// The first broken promise.
pub fn run(options: Options) -> Result<Outcome, Failure> {
    let mut world = World::new(options);
    match world.play() {
        Ok(()) => Ok(Outcome {
            steps: world.steps,
            starts: world.observers.attempts.count(),
            speculated: world.observers.once.speculated,
            spread: world.observers.policies.spread,
            coupled: world.observers.policies.coupled,
            told: world.observers.notices.count,
            left: world.observers.lingering.closed,
            begun: world.begun.0,
            begun_late: world.begun.1,
            reused_runners: world.reused_runners,
            calls_begun: world.calls_begun,
            waits: world.waits,
            taken: world.taken,
            unfetched: world.unfetched,
            fetched_ahead: world.fetched_ahead,
            relays: world.relays,
            fingerprint: world.fingerprint,
        }),
        Err(what) => Err(world.failure(what)),
    }
}

impl World {
    fn new(options: Options) -> World {
        let mut rng = Rng::new(options.seed);
        let mut faults = Faults::draw(&mut rng);
        faults.speculates = options.seed % 3 == 2;
        faults.has_multi_node = options.seed % 5 < 2;
        faults.has_groups = matches!(options.seed % 11, 2 | 7 | 8);
        faults.has_functions = options.seed % 8 == 3;
        faults.has_streams = options.seed / 8 % 4 == 1;
        faults.has_last_moments = options.seed % 5 == 2;
        faults.has_notices = options.seed % 7 == 4;
        faults.has_lingering = options.seed % 6 == 1;
        faults.has_pulled = options.seed % 8 == 6;
        faults.has_feeds = options.seed % 8 == 5;
        faults.has_objects = objects::has_objects(options.seed);
        faults.losses = if faults.has_objects { options.seed / 37 % 4 } else { 0 };
        faults.has_variety = variety::has_variety(options.seed);
        // So short that launchers begin most of them.
        faults.runs_us = if options.seed % 8 == 1 { Some((100, 20_000)) } else { faults.runs_us };
        faults.not_started_per_mille = if options.seed % 4 == 1 { 20 } else { 0 };
        if matches!(options.canary, Some(Canary::RunsBeforeWrite | Canary::AnswersBeforeSync)) {
            faults.hurry_commits();
        }
        let nodes = rng.between(1, 5);
        let clients = rng.between(1, 4);
        let variety = |at: u64| faults.has_variety.then(|| variety::of_node(options.seed, at));
        let arms = !options.seed.is_multiple_of(4);
        let (has_groups, runs_all) = (faults.has_groups, faults.has_feeds || faults.has_objects);
        let room = |at: u64| objects::room_of(options.seed, at).filter(|_| faults.has_objects);
        let node = |at| {
            let (variety, room) = (variety(at), room(at));
            Node { has_groups, runs_all, variety, arms, room, ..Node::new() }
        };
        let relays = pullers::BAGS.filter(|_| faults.has_pulled).map(Node::relay);
        let nodes = (0..nodes).map(node).chain(relays).collect();
        let clients =
            (0..clients).map(|_| Client { wishes: rng.between(2, 12), ..Client::default() }).collect();
        let mut world = World::bare(options, rng, faults, nodes, clients);
        world.observers.fold.is_hasty = options.is_hasty;
        world.at(0, Event::StartServer);
        for node in 0..world.nodes.len() {
            let after = world.rng.between(0, 20_000_000);
            world.at(after, Event::StartWorker { node });
        }
        for client in 0..world.clients.len() {
            let after = world.rng.between(0, 5_000_000);
            world.at(after, Event::ClientActs { client });
        }
        let f = world.faults.clone();
        for (count, fault) in [
            (f.server_kills, Fault::ServerKill),
            (f.worker_kills, Fault::WorkerKill),
            (f.freezes, Fault::Freeze),
            (f.cuts, Fault::Cut),
            (f.mutes, Fault::Mute),
            (f.stops, Fault::StopWorker),
            (f.full_disks, Fault::DiskFull),
            (f.losses, Fault::LoseObject),
        ] {
            for _ in 0..count {
                let after = world.rng.between(0, FAULTS_US);
                world.at(after, Event::Fault(fault));
            }
        }
        world.at(FAULTS_US, Event::Heal);
        world.batch = BatchSystem::draw(options.seed);
        world.begin_batch();
        world
    }

    // Nodes and clients, and nothing that happens to them.
    pub(crate) fn bare(
        options: Options,
        rng: Rng,
        faults: Faults,
        nodes: Vec<Node>,
        clients: Vec<Client>,
    ) -> World {
        World {
            options,
            now: START,
            events: BinaryHeap::new(),
            sequence: 0,
            server: None,
            server_life: 0,
            server_tick: None,
            journal: Journal::default(),
            journal_busy: false,
            disk_full_until: Timestamp(0),
            network: Network::new(faults.delay_max),
            nodes,
            clients,
            faults,
            batch: None,
            campaign: None,
            end_us: END_US,
            observers: Observers::default(),
            processes: 0,
            begun: (0, 0),
            reused_runners: 0,
            calls_begun: 0,
            waits: 0,
            taken: 0,
            unfetched: 0,
            fetched_ahead: 0,
            relays: 0,
            relaying: BTreeMap::new(),
            tickets: 0,
            over_since: None,
            healed: false,
            steps: 0,
            checked_one_in: if options.is_hasty { HASTY_CHECKS } else { 1 },
            fingerprint: options.seed,
            story: Vec::new(),
            rng,
        }
    }

    pub(crate) fn at(&mut self, after_us: u64, event: Event) {
        self.at_time(Timestamp(self.now.0 + after_us), event);
    }

    pub(crate) fn at_time(&mut self, at: Timestamp, event: Event) {
        self.sequence += 1;
        self.events.push(Due { at: at.max(self.now), sequence: self.sequence, event: Box::new(event) });
    }

    pub(crate) fn failure(self, what: String) -> Failure {
        let at_us = self.now.0 - START.0;
        Failure { seed: self.options.seed, at_us, step: self.steps, what, story: self.story }
    }

    pub(crate) fn play(&mut self) -> Result<(), String> {
        while let Some(Due { at, event, .. }) = self.events.pop() {
            self.now = at;
            self.steps += 1;
            self.note(&event);
            self.happen(*event)?;
            if self.healed && self.is_over() && self.campaign_is_over() && self.has_settled()? {
                return self.last_look();
            }
            if self.now.0 - START.0 > self.end_us || self.steps > STEPS_MAX {
                let why = self.why_nothing_runs();
                return Err(format!("not everything has ended: {}; {why}", self.what_is_left()));
            }
        }
        Err("nothing happens any more".into())
    }

    fn note(&mut self, event: &Event) {
        if self.options.is_hasty {
            return;
        }
        let mut text = format!("{:>12} {event:?}", self.now.0 - START.0);
        for byte in text.bytes() {
            self.fingerprint = (self.fingerprint ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        text.truncate(text.floor_char_boundary(300));
        if self.story.len() == STORY_MAX {
            self.story.remove(0);
        }
        self.story.push(text);
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::FromWorker { connection, message } => {
                if self.network.get(connection).is_some() {
                    let connection = ConnectionId(connection);
                    self.server_step(ServerInput::Worker { connection, message })?;
                }
            }
            Event::FromClient { connection, request, body } => {
                if self.network.get(connection).is_some() {
                    let connection = ConnectionId(connection);
                    self.server_step(ServerInput::Client { connection, request, body })?;
                    if self.healed {
                        self.lifts_budgets(connection)?;
                    }
                }
            }
            Event::ToWorker { connection, life, message } => self.worker_hears(connection, life, message)?,
            Event::ToClient { connection, request, body } => self.client_hears(connection, request, body)?,
            Event::PeerGone { connection, is_closed } => self.server_sees_loss(connection, is_closed)?,
            Event::WorkerLostServer { node, life } => {
                if self.nodes[node].life == life {
                    self.nodes[node].connection = None;
                    self.worker_step(node, WorkerInput::ServerLost)?;
                    let after = self.rng.between(1_000, 5_000_000);
                    self.at(after, Event::Connect { node, life });
                }
            }
            Event::ClientLostServer { client, connection } => {
                if self.clients[client].connection == Some(connection) {
                    self.clients[client].connection = None;
                    let after = self.rng.between(1_000, 3_000_000);
                    self.at(after, Event::ClientActs { client });
                }
            }
            Event::WorkerTick { node, life, at } => self.worker_ticks(node, life, at)?,
            Event::ServerTick { life, at } => {
                if life == self.server_life && self.server_tick == Some(at) {
                    self.server_tick = None;
                    self.server_step(ServerInput::Tick)?;
                    self.lifts_late_budgets()?;
                }
            }
            Event::Staged { node, life, task, number } => self.staged(node, life, task, number)?,
            Event::Relayed { ticket, holder } => self.relayed(ticket, holder)?,
            Event::RelayOver { ticket } => self.relay_over(ticket)?,
            Event::ProcessEnds { node, life, task, number, outcome } => {
                self.process_ends(node, life, task, number, outcome)?;
            }
            Event::RunnerDies { node, life, runner } => self.runner_dies(node, life, runner)?,
            Event::ZygoteDies { node, life, zygote } => self.zygote_dies(node, life, zygote),
            Event::CallWaits { node, life, task, number, wants } => {
                self.call_waits(node, life, task, number, wants);
            }
            Event::LauncherSays { node, launcher, inputs, begun } => {
                self.launcher_said(node, launcher, inputs, begun)?;
            }
            Event::Planned { life, number, plan } => {
                if life == self.server_life {
                    self.server_step(ServerInput::Planned { number, plan })?;
                }
            }
            Event::FilesFound { life, paths } if life == self.server_life => {
                self.server_step(ServerInput::FilesFound { paths })?;
            }
            Event::FilesFound { .. } => {}
            Event::Noticed { life, notice } => self.noticed(life, &notice)?,
            Event::Write { life } => self.journal_writes(life)?,
            Event::Sync { life } => self.journal_syncs(life)?,
            Event::Connect { node, life } => self.connect_worker(node, life)?,
            Event::PullersAct { node, life } => self.pullers_act(node, life)?,
            Event::PullerReturns { node, life, task, number } => {
                self.puller_returns(node, life, task, number)?;
            }
            Event::ClientActs { client } => self.client_acts(client),
            Event::FeederLooks { client } => self.feeder_looks(client),
            Event::Fault(fault) => self.fault(fault)?,
            Event::Unmute { connection } => self.cut(connection),
            Event::Batch(event) => self.batch_event(event)?,
            Event::StartServer => self.start_server()?,
            Event::StartWorker { node } => self.start_worker(node),
            Event::Heal => self.heal()?,
        }
        Ok(())
    }

    // --- server ---

    pub(crate) fn start_server(&mut self) -> Result<(), String> {
        if self.server.is_some() {
            return Ok(());
        }
        let mut server = Server::new(ServerOptions {
            keep_jobs: self.faults.keep_jobs,
            ended_entries_bytes_max: ENDED_ENTRIES_BYTES_MAX,
            ..Default::default()
        });
        if self.rng.chance(300) {
            self.journal.compact();
        }
        for (at, record) in self.journal.restore() {
            server.restore(*at, record);
        }
        self.observers.blocks.check(server.state())?;
        self.observers.acknowledged.check(server.state())?;
        self.observers.ends.check(server.state())?;
        self.observers.feeds.check(server.state())?;
        self.observers.notices.restarted(server.state())?;
        self.observers.lingering.restarted(self.now);
        self.observers.once.restarted(server.state());
        self.observers.drafts.restarted(server.state());
        self.observers.budgets.restarted(server.state());
        self.observers.order.restarted(server.state());
        self.observers.objects.restarted(server.state());
        self.observers.at_most_once.restarted(server.state());
        self.observers.passed_over.clear();
        let mut effects = Vec::new();
        server.start(self.now, "sim123".into(), &mut effects);
        server.settle(self.now, &mut effects);
        server.check()?;
        server.check_recount()?;
        self.observers.persisted(&effects)?;
        self.observers.notices.persisted(server.state(), &effects)?;
        self.server = Some(server);
        self.server_life += 1;
        self.server_tick = None;
        self.journal_busy = false;
        self.journal.take(effects);
        self.after_server_step();
        Ok(())
    }

    pub(crate) fn server_step(&mut self, input: ServerInput) -> Result<(), String> {
        let Some(server) = &mut self.server else { return Ok(()) };
        let mut effects = Vec::new();
        self.observers.lingering.heard(self.now, &input);
        server.handle(self.now, input, &mut effects);
        if self.options.canary != Some(Canary::LeavesServerUnsettled) || !self.rng.chance(20) {
            server.settle(self.now, &mut effects);
        }
        let is_looked_at = self.steps.is_multiple_of(self.checked_one_in);
        server.has_turns(&effects, &mut self.observers.passed_over);
        if is_looked_at {
            server.check()?;
            if self.options.is_strict {
                observers::work::server_wastes_nothing(self.now, server)?;
                server.passes_nothing_over(self.now, &effects)?;
                server.gives_turns(self.now, &effects, &mut self.observers.passed_over)?;
            }
        }
        self.observers.persisted(&effects)?;
        self.observers.notices.persisted(server.state(), &effects)?;
        self.observers.lingering.persisted(self.now, server.state(), &effects)?;
        observers::nobody_waits_for_what_is_gone(server.state(), &effects)?;
        self.journal.take(effects);
        if self.options.canary == Some(Canary::LosesRecords) && self.rng.chance(20) {
            self.journal.lose_last();
        }
        if self.options.canary == Some(Canary::TearsBlocks) {
            self.journal.tear_blocks();
        }
        if self.rng.chance(20) {
            self.observers.fold.check(self.journal.records(), server.state())?;
            observers::entries_are_there(server.state())?;
            self.observers.attempts.check_kept(server.state())?;
            server.check_recount()?;
        }
        self.after_server_step();
        if is_looked_at && self.options.is_strict { self.counts_agree() } else { Ok(()) }
    }

    // Where nothing is on its way.
    fn counts_agree(&mut self) -> Result<(), String> {
        let explains = self.steps.is_multiple_of(EXPLAINED_ONE_IN);
        // Amounts are all that a server knows: tasks that want to be close to each other may wait where there is enough.
        let is_known = !self.journal.is_behind() && !self.faults.has_groups;
        let Some(server) = self.server.as_mut().filter(|_| is_known) else { return Ok(()) };
        for node in self.nodes.iter().filter(|node| node.frozen_until < self.now) {
            let is_quiet = node.connection.is_some_and(|id| self.network.is_quiet(id, self.now));
            let Some(worker) = node.worker.as_ref().filter(|_| is_quiet) else { continue };
            let Some(id) = worker.id() else { continue };
            observers::work::counts_agree(server, id, worker)?;
            if explains {
                observers::work::tells_the_truth(self.now, server, id, worker)?;
            }
        }
        Ok(())
    }

    pub(crate) fn after_server_step(&mut self) {
        self.release();
        if !self.journal_busy && self.journal.is_behind() {
            self.journal_busy = true;
            let after = self.rng.between(5, self.faults.disk_max.max(5));
            self.at(after, Event::Write { life: self.server_life });
            if !self.healed && self.faults.commit_kills > 0 && self.rng.chance(50) {
                self.faults.commit_kills -= 1;
                let after = self.rng.between(0, 3 * self.faults.disk_max);
                self.at(after, Event::Fault(Fault::ServerKill));
            }
        }
        let wanted = self.server.as_ref().and_then(Server::next_wakeup);
        if let Some(at) = wanted
            && self.server_tick.is_none_or(|known| at < known)
        {
            let at = at.max(Timestamp(self.now.0 + 1));
            self.server_tick = Some(at);
            self.at_time(at, Event::ServerTick { life: self.server_life, at });
        }
    }

    fn is_over(&self) -> bool {
        let clients = self.clients.iter().all(|client| client.asked.is_none());
        let is_quiet =
            |s: &Server| s.state().jobs.values().all(|job| job.tasks_ended()) && s.state().notices.is_empty();
        clients && self.server.as_ref().is_some_and(is_quiet)
    }
}
