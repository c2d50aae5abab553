//! Workers of the world: they start, connect, hear, and do what they decide.

use hq_core::mark;
use hq_core::worker::{Effect as WorkerEffect, Input as WorkerInput};
use hq_core::worker_messages::{FromWorker, ToWorker};
use hq_model::{TaskRef, Timestamp};

use crate::canary::Canary;
use crate::observers::{self, never_too_late, starts_in_time};
use crate::world::{Event, World};

impl World {
    pub(crate) fn start_worker(&mut self, node: usize) {
        if self.nodes[node].worker.is_some() || self.nodes[node].origin.is_some() {
            return;
        }
        // Somebody may have stopped the last one that could run what is left.
        if self.healed {
            mark!("a worker starts once more when all is healed");
            self.nodes[node].start_to_last(self.now, &mut self.rng);
        } else {
            self.nodes[node].start(self.now, &mut self.rng);
        }
        let life = self.nodes[node].life;
        self.at(1_000, Event::Connect { node, life });
        if self.nodes[node].relay_of.is_some() {
            self.at(2_000, Event::PullersAct { node, life });
        }
    }

    pub(crate) fn connect_worker(&mut self, node: usize, life: u64) -> Result<(), String> {
        let known = &self.nodes[node];
        if known.life != life || known.worker.is_none() || known.connection.is_some() {
            return Ok(());
        }
        if self.server.is_none() {
            self.at(1_000_000, Event::Connect { node, life });
            return Ok(());
        }
        let id = self.network.open(node, true, self.now);
        self.nodes[node].connection = Some(id);
        self.worker_step(node, WorkerInput::ServerFound)
    }

    pub(crate) fn worker_hears(
        &mut self,
        connection: u64,
        life: u64,
        message: ToWorker,
    ) -> Result<(), String> {
        let Some(node) = self.network.get(connection).map(|known| known.peer) else { return Ok(()) };
        if self.nodes[node].life != life || self.nodes[node].connection != Some(connection) {
            return Ok(());
        }
        if self.nodes[node].frozen_until > self.now {
            let at = self.nodes[node].frozen_until;
            self.at_time(at, Event::ToWorker { connection, life, message });
            return Ok(());
        }
        if self.options.canary == Some(Canary::LosesRuns)
            && matches!(message, ToWorker::Run(_))
            && self.rng.chance(20)
        {
            return Ok(());
        }
        self.nodes[node].note(&message);
        let message = match self.options.canary {
            Some(canary) => canary.changes(message),
            None => message,
        };
        self.worker_step(node, WorkerInput::Server(message))
    }

    pub(crate) fn worker_ticks(&mut self, node: usize, life: u64, at: Timestamp) -> Result<(), String> {
        if self.nodes[node].life != life || self.nodes[node].wakeup != Some(at) {
            return Ok(());
        }
        if self.nodes[node].frozen_until > self.now {
            let later = self.nodes[node].frozen_until;
            self.nodes[node].wakeup = Some(later);
            self.at_time(later, Event::WorkerTick { node, life, at: later });
            return Ok(());
        }
        self.nodes[node].wakeup = None;
        self.worker_step(node, WorkerInput::Tick)
    }

    pub(crate) fn worker_step(&mut self, node: usize, input: WorkerInput) -> Result<(), String> {
        self.worker_steps(node, vec![input])
    }

    pub(crate) fn worker_steps(&mut self, node: usize, mut inputs: Vec<WorkerInput>) -> Result<(), String> {
        let is_forgotten = self.options.canary == Some(Canary::LeavesWorkerUnsettled) && self.rng.chance(20);
        inputs.iter().for_each(|input| self.nodes[node].handing.heard(input));
        if let Some(canary) = self.options.canary {
            inputs.iter_mut().for_each(|input| canary.mishears(input));
        }
        let effects = self.nodes[node].step(self.now, inputs, is_forgotten)?;
        self.nodes[node].leaves(self.now);
        let is_relay = self.nodes[node].relay_of.is_some();
        if let Some(worker) = self.nodes[node].worker.as_ref().filter(|_| !is_relay) {
            let starts = effects.iter().filter_map(|effect| match effect {
                WorkerEffect::Start(start) => Some(start),
                _ => None,
            });
            let has_ended = |task: &TaskRef| !self.nodes[node].processes.contains_key(task);
            let starting: Vec<TaskRef> = starts.clone().map(|start| start.task).collect();
            let mut others = worker.grants().filter(|(task, _)| !starting.contains(task));
            mark!(
                "a worker has not heard of an end",
                !starting.is_empty() && others.any(|(task, _)| has_ended(&task))
            );
            self.observers.policies.decided(worker, starts);
        }
        if let Some(worker) = self.nodes[node].worker.as_ref().filter(|_| self.options.is_strict) {
            observers::work::worker_wastes_nothing(self.now, node, worker)?;
        }
        let life = self.nodes[node].life;
        for effect in effects {
            match effect {
                WorkerEffect::Start(start) => {
                    starts_in_time(self.now, &start)?;
                    if let Some(worker) = self.nodes[node].worker.as_ref().filter(|_| !is_relay) {
                        self.observers.policies.starts(&worker.config().resources, &start)?;
                    }
                    self.starts(node, &start)?;
                    if !start.is_part {
                        self.observers.order.started((node, life), start.task, start.instance)?;
                    }
                }
                WorkerEffect::EndRunner { runner } => {
                    self.nodes[node].runners.ends(runner)?;
                    self.launcher_says(node, vec![WorkerInput::RunnerEnded { runner }], None);
                }
                WorkerEffect::StartZygote { zygote, .. } => self.starts_zygote(node, zygote)?,
                WorkerEffect::LoadPackage { zygote } => self.nodes[node].runners.loads(zygote)?,
                WorkerEffect::EndZygote { zygote } => {
                    if self.nodes[node].runners.ends_zygote(zygote)? {
                        let why = String::new();
                        self.launcher_says(node, vec![WorkerInput::ZygoteEnded { zygote, why }], None);
                    }
                }
                WorkerEffect::GoOn { task } => self.nodes[node].runners.goes_on(task)?,
                WorkerEffect::Arm { start, after } => {
                    never_too_late(&start)?;
                    self.arms(node, start, after);
                }
                WorkerEffect::Recall { task } => self.recalls(node, task),
                WorkerEffect::Signal { task, signal, .. } => self.signal(node, task, signal),
                WorkerEffect::FreeObjects(objects) => self.frees(node, &objects)?,
                WorkerEffect::GuardObjects { guard, release } => {
                    if let Some(store) = &mut self.nodes[node].store {
                        store.guards(guard, &release);
                    }
                }
                WorkerEffect::BringObjects { sources, is_ahead } => {
                    self.takes_over(node, &sources, is_ahead)?
                }
                WorkerEffect::Relay { ticket } => {
                    let after = self.rng.between(20, 1_000_000);
                    self.at(after, Event::Relayed { ticket, holder: node });
                }
                WorkerEffect::TakeFile { object, .. } => self.takes_file(node, object),
                // Nobody reads there.
                WorkerEffect::Read { .. }
                | WorkerEffect::DropRead { .. }
                | WorkerEffect::ReadEnded { .. } => {}
                WorkerEffect::Expired { task } => self.lease_is_over(node, task)?,
                WorkerEffect::KillLauncher => self.nodes[node].launcher_dies(),
                WorkerEffect::Send(message) => self.worker_sends(node, message)?,
                WorkerEffect::Exit(end) => {
                    self.nodes[node].may_end(self.now, end)?;
                    // What was sent still arrives; then the connection ends.
                    if let Some(connection) = self.nodes[node].connection
                        && let Some(at) = self.network.arrival(connection, true, self.now, &mut self.rng)
                    {
                        self.at_time(at, Event::PeerGone { connection, is_closed: true });
                    }
                    if !self.nodes[node].processes.is_empty() {
                        return Err(format!("worker on node {node} left while tasks ran"));
                    }
                    self.nodes[node].die();
                    self.nodes[node].has_left = true;
                    self.node_left(node);
                    let after = self.rng.between(1_000_000, 20_000_000);
                    self.at(after, Event::StartWorker { node });
                    return Ok(());
                }
            }
        }
        let wanted = self.nodes[node].worker.as_ref().and_then(|worker| worker.next_wakeup());
        if let Some(at) = wanted
            && self.nodes[node].wakeup.is_none_or(|known| at < known)
        {
            let at = at.max(Timestamp(self.now.0 + 1));
            self.nodes[node].wakeup = Some(at);
            self.at_time(at, Event::WorkerTick { node, life, at });
        }
        Ok(())
    }

    pub(crate) fn worker_sends(&mut self, node: usize, mut message: FromWorker) -> Result<(), String> {
        self.observers.order.reported((node, self.nodes[node].life), &message)?;
        let Some(connection) = self.nodes[node].connection else { return Ok(()) };
        if let (Some(Canary::ReportsWrongInstance), FromWorker::Report(report)) =
            (self.options.canary, &mut message)
        {
            let started = std::mem::take(&mut report.started);
            report.started = started.into_iter().filter(|_| self.rng.chance(500)).collect();
            for span in &mut report.finished {
                if self.rng.chance(50) {
                    span.instance.0 += 1;
                }
            }
        }
        if let (Some(Canary::MisnamesVariants), FromWorker::Report(report)) =
            (self.options.canary, &mut message)
        {
            report.started.iter_mut().for_each(|one| one.variant = one.variant.map(|known| 1 - known.min(1)));
        }
        if let Some(at) = self.network.arrival(connection, true, self.now, &mut self.rng) {
            self.at_time(at, Event::FromWorker { connection, message });
        }
        Ok(())
    }
}
