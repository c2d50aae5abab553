//! What leaves the server: records that are written and synced, and the effects that waited for them.

use hq_core::server::{ConnectionId, Effect as ServerEffect, Input as ServerInput};

use hq_model::Notice;

use crate::canary::Canary;
use crate::world::{Event, World};

impl World {
    pub(crate) fn journal_writes(&mut self, life: u64) -> Result<(), String> {
        if life == self.server_life && self.server.is_some() {
            if self.disk_is_full(life)? {
                return Ok(());
            }
            self.journal.write();
            self.release();
            let after = self.rng.between(5, self.faults.disk_max.max(5));
            self.at(after, Event::Sync { life });
        }
        Ok(())
    }

    pub(crate) fn journal_syncs(&mut self, life: u64) -> Result<(), String> {
        if life != self.server_life || self.server.is_none() {
            return Ok(());
        }
        self.journal.sync();
        self.release();
        self.journal_busy = false;
        if let (false, Some(server)) = (self.journal.is_behind(), &self.server) {
            self.observers.ends.check(server.state())?;
        }
        self.after_server_step();
        Ok(())
    }

    pub(crate) fn release(&mut self) {
        let early_answers = self.options.canary == Some(Canary::AnswersBeforeSync);
        let early_runs = self.options.canary == Some(Canary::RunsBeforeWrite);
        while let Some(effect) = self.journal.release(early_runs, early_answers) {
            match effect {
                ServerEffect::Answer { connection, request, body, .. } => {
                    let connection = connection.0;
                    if let Some(at) = self.network.arrival(connection, false, self.now, &mut self.rng) {
                        self.at_time(at, Event::ToClient { connection, request, body });
                    }
                }
                ServerEffect::ToWorker { connection, message, .. } => {
                    let connection = connection.0;
                    let life = self.network.get(connection).map(|c| c.peer).map(|node| self.nodes[node].life);
                    if let (Some(life), Some(at)) =
                        (life, self.network.arrival(connection, false, self.now, &mut self.rng))
                    {
                        self.at_time(at, Event::ToWorker { connection, life, message });
                    }
                }
                ServerEffect::Batch { order, .. } => self.order(order),
                ServerEffect::WatchFiles { paths } => {
                    let life = self.server_life;
                    self.at(3_000_000, Event::FilesFound { life, paths });
                }
                ServerEffect::Notify { notice } => {
                    self.at(200_000, Event::Noticed { life: self.server_life, notice });
                }
                ServerEffect::Plan { number, snapshot } => self.plan(number, &snapshot),
                ServerEffect::NotRelayed { ticket, .. } => self.at(20, Event::RelayOver { ticket }),
                ServerEffect::Close { connection } => self.close_from_server(connection.0),
                ServerEffect::Persist { .. }
                | ServerEffect::WorkerJoined { .. }
                | ServerEffect::Log { .. }
                | ServerEffect::Journal { .. }
                | ServerEffect::Exit => {}
            }
        }
    }

    // Whoever is told hears it, whatever has become of the server since.
    pub(crate) fn noticed(&mut self, life: u64, notice: &Notice) -> Result<(), String> {
        let arrives = self.observers.notices.sent(life, notice)?;
        if life != self.server_life {
            return Ok(());
        }
        let result = if arrives { Ok(()) } else { Err("nobody listens".to_owned()) };
        self.server_step(ServerInput::NoticeSent { job: notice.job, rule: notice.rule, result })
    }

    fn close_from_server(&mut self, id: u64) {
        let Some(at) = self.network.arrival(id, false, self.now, &mut self.rng) else { return };
        if let Some(connection) = self.network.get(id) {
            let node = connection.peer;
            if connection.is_worker && self.nodes[node].connection == Some(id) {
                let life = self.nodes[node].life;
                self.at_time(at, Event::WorkerLostServer { node, life });
            }
        }
        self.network.close(id);
    }

    pub(crate) fn server_sees_loss(&mut self, id: u64, is_closed: bool) -> Result<(), String> {
        let Some(connection) = self.network.close(id) else { return Ok(()) };
        let gone = ConnectionId(id);
        self.server_step(match connection.is_worker {
            true => ServerInput::WorkerGone { connection: gone, is_closed },
            false => ServerInput::ClientGone { connection: gone },
        })
    }
}
