//! What goes wrong in a run, and how everything is made whole at its end.

use hq_core::client_messages::ClientRequest;
use hq_core::mark;
use hq_core::record::FailureKind;
use hq_core::server::{ConnectionId, Input as ServerInput, Server};
use hq_core::worker::{Input as WorkerInput, Outcome as TaskOutcome};
use hq_model::selector::Selector;
use hq_model::{JobId, Timestamp};

use crate::nodes::Node;
use crate::observers::fold_equals_state;
use crate::world::{Event, Fault, World};

/// How long after everything was made whole, and again and again, users close what is open, µs.
const CLOSED_EVERY_US: u64 = 1_000_000_000;

impl World {
    // A plan takes a while; some come when nobody waits for them any more.
    pub(crate) fn plan(&mut self, number: u64, snapshot: &hq_sched::Snapshot) {
        let plan = Box::new(hq_sched::plan(snapshot, hq_sched::limits::STEPS));
        if self.rng.chance(10) {
            return self.at(30_000_000, Event::Planned { life: self.server_life, number, plan });
        }
        let longest = [100, 20_000, 2_000_000][self.rng.between(0, 2) as usize];
        let after = self.rng.between(10, longest);
        self.at(after, Event::Planned { life: self.server_life, number, plan });
    }

    // What the server says of the first task that is left.
    pub(crate) fn why_nothing_runs(&mut self) -> String {
        let Some(server) = &mut self.server else { return String::new() };
        let left = server.state().jobs.iter().find_map(|(id, job)| Some((*id, job.queued.first()?)));
        let Some((job, task)) = left else { return "no task waits".into() };
        let jobs = Selector::Ids(hq_model::IdSet::single(hq_model::TaskId(job.0)));
        let body = ClientRequest::ExplainTask { jobs, task };
        let input = ServerInput::Client { connection: ConnectionId(u64::MAX), request: 1, body };
        let mut effects = Vec::new();
        server.handle(self.now, input, &mut effects);
        let answers = effects.into_iter().filter_map(|effect| match effect {
            hq_core::server::Effect::Answer { body, .. } => Some(body),
            _ => None,
        });
        format!("{:?}", answers.collect::<Vec<_>>())
    }

    pub(crate) fn what_is_left(&self) -> String {
        let Some(server) = &self.server else { return "the server is down".into() };
        let left = server.state().jobs.iter().filter(|(_, job)| !job.tasks_ended());
        let left: Vec<String> = left
            .map(|(id, job): (&JobId, _)| format!("job {id}: queued {}, leased {:?}", job.queued, job.leased))
            .collect();
        let workers = server.state().workers.iter().filter(|(_, worker)| worker.ended.is_none());
        let workers: Vec<String> = workers
            .map(|(id, worker)| {
                format!("{id}: {:?}", worker.config.resources.pools.first().map(|p| p.kind.total()))
            })
            .collect();
        format!(
            "{} (workers with CPUs: {}; clients wait: {:?})",
            left.join("; "),
            workers.join(", "),
            self.clients.iter().filter_map(|client| client.asked.as_ref()).collect::<Vec<_>>()
        )
    }

    /// One fault happens.
    pub(crate) fn fault(&mut self, fault: Fault) -> Result<(), String> {
        match fault {
            Fault::ServerKill => self.kill_server(),
            Fault::WorkerKill => {
                let node = self.any_node();
                if self.nodes[node].worker.is_some() && self.rng.chance(250) {
                    // Only what executes its tasks, and these with it.
                    self.nodes[node].launcher_dies();
                    self.worker_step(node, WorkerInput::LauncherLost)?;
                } else {
                    self.kill_worker(node);
                }
            }
            Fault::Freeze => {
                let node = self.any_node();
                let until = self.now.0 + self.rng.between(1_000_000, 60_000_000);
                // What was held back until it goes on waits for that.
                let known = &mut self.nodes[node];
                mark!("a node is frozen twice", known.frozen_until > Timestamp(until));
                known.frozen_until = known.frozen_until.max(Timestamp(until));
            }
            Fault::Cut => {
                let ids = self.network.ids();
                if !ids.is_empty() {
                    let id = ids[self.rng.between(0, ids.len() as u64 - 1) as usize];
                    self.cut(id);
                }
            }
            Fault::Mute => {
                let ids = self.network.ids();
                if !ids.is_empty() {
                    let id = ids[self.rng.between(0, ids.len() as u64 - 1) as usize];
                    let down = self.rng.chance(500);
                    if let Some(connection) = self.network.get(id) {
                        mark!(
                            "a link is muted both ways",
                            if down { connection.mute_up } else { connection.mute_down }
                        );
                        // What was lost once is never followed by what was said later: a stream has no holes.
                        connection.mute_down |= down;
                        connection.mute_up |= !down;
                    }
                    // The kernel gives up on what is never acknowledged.
                    let after = self.rng.between(10_000_000, 60_000_000);
                    self.at(after, Event::Unmute { connection: id });
                }
            }
            Fault::DiskFull => {
                self.disk_full_until = Timestamp(self.now.0 + self.rng.between(100_000, 30_000_000));
            }
            Fault::KillTask => {
                let busy = (0..self.nodes.len()).filter(|node| !self.nodes[*node].processes.is_empty());
                let busy: Vec<usize> = busy.collect();
                let node = busy[self.rng.between(0, busy.len() as u64 - 1) as usize];
                if let Some((task, process)) = self.nodes[node].processes.first_key_value() {
                    let (task, number, life) = (*task, process.number, self.nodes[node].life);
                    let outcome = TaskOutcome::Failed(FailureKind::Signal(9), "killed".into());
                    self.at(0, Event::ProcessEnds { node, life, task, number, outcome });
                }
            }
            Fault::KillBusyWorker => {
                // With as many as it can run, and nothing said that the server has not on disk.
                let busy = self.nodes.iter().position(|node| {
                    let worker = node.worker.as_ref().filter(|worker| worker.has_said_all());
                    worker.is_some_and(|_| node.cpus == Some(node.processes.len() as u32))
                });
                let Some(node) = busy else {
                    self.at(10_000, Event::Fault(fault));
                    return Ok(());
                };
                self.kill_worker(node);
            }
            Fault::LoseObject => {
                let node = self.any_node();
                self.loses_any(node)?;
            }
            Fault::StopWorker => {
                let node = self.any_node();
                if self.nodes[node].worker.is_some() {
                    self.worker_step(node, WorkerInput::Interrupt)?;
                }
            }
        }
        Ok(())
    }

    /// True when the journal cannot be written now; it is tried again.
    pub(crate) fn disk_is_full(&mut self, life: u64) -> Result<bool, String> {
        if self.disk_full_until > self.now {
            let error = "no space left on device".into();
            self.journal.set_failing(true);
            self.server_step(ServerInput::JournalFails { error })?;
            let after = self.rng.between(1_000, 1_000_000);
            self.at(after, Event::Write { life });
            return Ok(true);
        }
        self.journal.set_failing(false);
        if self.server.as_ref().is_some_and(Server::is_read_only) {
            self.server_step(ServerInput::JournalWorks)?;
        }
        Ok(false)
    }

    fn kill_worker(&mut self, node: usize) {
        if let Some(connection) = self.nodes[node].connection {
            self.at(500, Event::PeerGone { connection, is_closed: true });
        }
        self.nodes[node].die();
        let after = self.rng.between(1_000_000, 60_000_000);
        self.at(after, Event::StartWorker { node });
    }

    fn any_node(&mut self) -> usize {
        self.rng.between(0, self.nodes.len() as u64 - 1) as usize
    }

    // Both ends see a connection end, each when it does; nothing under way arrives.
    pub(crate) fn cut(&mut self, id: u64) {
        let Some(connection) = self.network.get(id) else { return };
        let (peer, is_worker) = (connection.peer, connection.is_worker);
        connection.mute_down = true;
        connection.mute_up = true;
        let (up, down) = (self.rng.between(100, 2_000_000), self.rng.between(100, 2_000_000));
        // Of every second one it is heard that the other side closed it.
        self.at(up, Event::PeerGone { connection: id, is_closed: up % 2 == 0 });
        if is_worker {
            if self.nodes[peer].connection == Some(id) {
                let life = self.nodes[peer].life;
                self.nodes[peer].connection = None;
                self.at(down, Event::WorkerLostServer { node: peer, life });
            }
        } else {
            self.at(down, Event::ClientLostServer { client: peer, connection: id });
        }
    }

    fn kill_server(&mut self) {
        if self.server.take().is_none() {
            return;
        }
        self.server_life += 1;
        let machine = self.rng.chance(self.faults.machine_per_mille);
        // Takes nothing from the chances: runs of before stay what they were.
        let torn = (self.steps ^ self.options.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.journal.crash(machine, torn);
        self.observers.attempts.machine_lost |= machine;
        for id in self.network.ids() {
            let Some(connection) = self.network.close(id) else { continue };
            let after = self.rng.between(100, 1_000_000);
            if connection.is_worker {
                let life = self.nodes[connection.peer].life;
                if self.nodes[connection.peer].connection == Some(id) {
                    self.nodes[connection.peer].connection = None;
                    self.at(after, Event::WorkerLostServer { node: connection.peer, life });
                }
            } else {
                self.at(after, Event::ClientLostServer { client: connection.peer, connection: id });
            }
        }
        let after = self.rng.between(100_000, 90_000_000);
        self.at(after, Event::StartServer);
    }

    // From now on nothing bad happens, and there is a node that can run everything.
    pub(crate) fn heal(&mut self) -> Result<(), String> {
        if self.healed {
            return self.closes_all();
        }
        self.faults.not_started_per_mille = 0;
        self.healed = true;
        self.disk_full_until = Timestamp(0);
        self.journal.set_failing(false);
        self.start_server()?;
        if self.server.as_ref().is_some_and(Server::is_read_only) {
            self.server_step(ServerInput::JournalWorks)?;
        }
        for client in &mut self.clients {
            client.wishes = 0;
        }
        self.closes_all()?;
        for _ in 0..1 + u32::from(self.faults.has_multi_node) {
            let life = self.nodes.len();
            let mut node =
                Node { has_groups: self.faults.has_groups, has_all: self.faults.has_variety, ..Node::new() };
            node.runs_all = self.faults.has_feeds || self.faults.has_objects;
            node.room = self.faults.has_objects.then_some(usize::MAX);
            node.start_to_last(self.now, &mut self.rng);
            let number = node.life;
            self.nodes.push(node);
            self.at(1_000, Event::Connect { node: life, life: number });
        }
        Ok(())
    }

    // What waits for a reducer that fails after that is closed once more.
    fn closes_all(&mut self) -> Result<(), String> {
        let id = self.network.open(0, false, self.now);
        let connection = ConnectionId(id);
        let close = ClientRequest::CloseJobs { jobs: Selector::All };
        self.server_step(ServerInput::Client { connection, request: 1, body: close })?;
        self.lifts_budgets(connection)?;
        self.network.close(id);
        if self.faults.has_feeds {
            self.at(CLOSED_EVERY_US, Event::Heal);
        }
        Ok(())
    }

    /// Nothing waits for node hours any more, not even what was on its way when nothing bad happened from then on.
    pub(crate) fn lifts_budgets(&mut self, connection: ConnectionId) -> Result<(), String> {
        let body = ClientRequest::SetBudget { jobs: Selector::All, budget: None };
        // Of a number that no client waits for.
        self.server_step(ServerInput::Client { connection, request: u64::MAX, body })
    }

    /// What came to the server when it could not take it has its budget lifted later.
    pub(crate) fn lifts_late_budgets(&mut self) -> Result<(), String> {
        let waits = |server: &Server| {
            server.state().jobs.values().any(|job| job.budget.is_some() && !job.has_ended())
        };
        if !self.healed || !self.server.as_ref().is_some_and(waits) {
            return Ok(());
        }
        let id = self.network.open(0, false, self.now);
        self.lifts_budgets(ConnectionId(id))?;
        self.network.close(id);
        Ok(())
    }

    /// When all is over.
    pub(crate) fn last_look(&self) -> Result<(), String> {
        let Some(server) = &self.server else { return Ok(()) };
        self.observers.acknowledged.check(server.state())?;
        self.observers.blocks.check(server.state())?;
        self.observers.attempts.check_kept(server.state())?;
        self.observers.feeds.last_look(server.state())?;
        self.observers.notices.check(server.state())?;
        if let Some(batch) = &self.batch {
            self.observers.allocations.check(batch, server.state(), &self.nodes)?;
        }
        fold_equals_state(self.journal.records(), server.state())
    }
}
