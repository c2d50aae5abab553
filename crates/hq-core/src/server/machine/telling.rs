//! What clients that wait are told, once a batch of inputs is decided.

use hq_model::{ByteString, TaskRef, Timestamp, WorkerId};

use super::Server;
use crate::client_messages::ClientResponse;
use crate::server::live::LiveWorker;
use crate::server::{Effect, Gate};

impl Server {
    /// Tells clients that follow jobs what changed.
    pub(super) fn report_progress(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let changed = std::mem::take(&mut self.touched);
        if self.is_read_only() {
            self.undecided.extend(&changed);
        }
        self.tell_ends(&changed, effects);
        self.tell_feeds(now, &changed, effects);
        if self.has_stalled(&changed) {
            self.clients.touch_all();
        }
        for news in self.clients.news(now, &changed, &self.state) {
            let (connection, request) = news.to;
            let jobs = news.changed.iter().filter_map(|id| Some((*id, self.state.jobs.get(id)?)));
            let mut summaries = jobs.map(|(id, job)| self.summary(id, job)).collect::<Vec<_>>();
            self.count_unrunnable_lines(now, &mut summaries);
            let body = ClientResponse::Progress(summaries);
            effects.push(Effect::Answer { connection, request, body, gate: Gate::Synced });
            if news.is_over {
                let body = ClientResponse::WatchEnded;
                effects.push(Effect::Answer { connection, request, body, gate: Gate::Synced });
            }
        }
    }

    /// Passes on what a task says.
    pub(in crate::server) fn pass_notification(
        &self,
        task: TaskRef,
        worker: WorkerId,
        text: &ByteString,
        effects: &mut Vec<Effect>,
    ) {
        for (connection, request) in self.clients.listeners(task.job) {
            let body = ClientResponse::Notification { task, worker, text: text.clone() };
            effects.push(Effect::Answer { connection, request, body, gate: Gate::Open });
        }
    }

    /// Answers clients that have waited for workers.
    pub(super) fn answer_worker_waits(&mut self, effects: &mut Vec<Effect>) {
        if !self.clients.await_workers() {
            return;
        }
        // Relays run nothing.
        let is_there = |worker: &&LiveWorker| worker.connection.is_some() && !worker.is_relay;
        let connected = self.live.values().filter(is_there).count() as u32;
        for (connection, request) in self.clients.with_enough_workers(connected) {
            let body = ClientResponse::Done;
            effects.push(Effect::Answer { connection, request, body, gate: Gate::Open });
        }
    }
}
