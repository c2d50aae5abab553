//! A server that is to end: its workers leave before, and what was begun outside is seen to its end.

use hq_model::{Timestamp, WorkerId, counted_are};

use super::Server;
use crate::client_messages::ClientResponse;
use crate::limits::STOP_TIME_MAX;
use crate::server::{ConnectionId, Effect, Gate};
use crate::worker_messages::ToWorker;

/// Who has asked a server to end, and when it does so at the latest.
#[derive(Debug)]
pub(super) struct Stopping {
    deadline: Timestamp,
    asked_by: Vec<(ConnectionId, u64)>,
}

impl Stopping {
    /// Then it ends, whatever it still waits for.
    pub(super) fn deadline(&self) -> Timestamp {
        self.deadline
    }
}

impl Server {
    /// Begins to stop: workers are stopped, and the client is answered when they have left.
    pub(super) fn begin_stop(
        &mut self,
        now: Timestamp,
        connection: ConnectionId,
        request: u64,
        effects: &mut Vec<Effect>,
    ) {
        let deadline = now.after(STOP_TIME_MAX);
        if self.stopping.is_none() {
            self.keep_load(now, effects);
            for connection in self.ending_workers() {
                let message = ToWorker::Stop { drain: false };
                effects.push(Effect::ToWorker { connection, message, gate: Gate::Open });
            }
            self.cancel_allocations(now, effects);
        }
        let stopping = self.stopping.get_or_insert(Stopping { deadline, asked_by: Vec::new() });
        stopping.asked_by.push((connection, request));
    }

    fn ending_workers(&self) -> impl Iterator<Item = ConnectionId> {
        self.ending().filter_map(|worker| self.live.get(&worker)?.connection)
    }

    // The workers that end with the server; those in allocations that are kept wait for the next one.
    fn ending(&self) -> impl Iterator<Item = WorkerId> {
        let is_kept = |worker: &WorkerId| {
            self.options.keep_allocations
                && self.state.workers.get(worker).is_some_and(|state| state.config.origin.is_some())
        };
        let connected = self.live.iter().filter(|(_, live)| live.connection.is_some());
        connected.map(|(worker, _)| *worker).filter(move |worker| !is_kept(worker))
    }

    /// True while the server waits for its workers to leave.
    pub(in crate::server) fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }

    pub(super) fn stop_when_done(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.stopping.is_none() {
            return;
        }
        let connected =
            self.ending().next().is_some() || self.alloc.awaits_batch_system() || self.must_send_notices();
        if !self.stopping.as_ref().is_some_and(|stopping| !connected || now >= stopping.deadline) {
            return;
        }
        let left = self.left_outside();
        let body = match left.is_empty() {
            true => ClientResponse::Done,
            false => ClientResponse::Partly { refused: left, rest: Box::new(ClientResponse::Done) },
        };
        for (connection, request) in self.stopping.take().map_or_else(Vec::new, |stopping| stopping.asked_by)
        {
            effects.push(Effect::Answer { connection, request, body: body.clone(), gate: Gate::Last });
        }
        effects.push(Effect::Exit);
    }

    /// What a server that is to end waits for, in words.
    pub(in crate::server) fn stop_waits(&self) -> Option<String> {
        self.stopping.as_ref()?;
        let workers: Vec<WorkerId> = self.ending().collect();
        let notices = self.notices_to_send() as u64;
        let workers = match workers[..] {
            [] => None,
            [worker] => Some(format!("worker {worker} to leave")),
            _ => Some(format!("{} workers to leave", workers.len())),
        };
        let notices = match notices {
            0 => None,
            _ => Some(counted_are(notices, "notice", "that is being sent", "that are being sent")),
        };
        let batch = self.alloc.awaits_batch_system().then(|| "the batch system".to_owned());
        let parts: Vec<String> = [workers, batch, notices].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}
