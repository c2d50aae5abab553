//! What clients that wait are told, once a batch of inputs is decided.

use std::collections::BTreeSet;

use hq_model::{JobId, Timestamp, WorkerId};

use super::Server;
use crate::client_messages::{ClientRequest, ClientResponse, RequestError};
use crate::limits::{WAITS_BYTES_MAX, WAITS_OF_CLIENT_MAX};
use crate::server::clients::Asked;
use crate::server::live::LiveWorker;
use crate::server::{ConnectionId, Effect, Gate};
use crate::worker_messages::TaskWords;

impl Server {
    /// Tells clients that follow jobs what changed.
    pub(super) fn report_progress(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let changed = std::mem::take(&mut self.touched);
        if self.is_read_only() {
            self.undecided.extend(&changed);
        }
        self.tell_progress(now, &changed, effects);
    }

    /// Tells clients that follow these jobs how far they are.
    pub(super) fn tell_progress(
        &mut self,
        now: Timestamp,
        changed: &BTreeSet<JobId>,
        effects: &mut Vec<Effect>,
    ) {
        self.tell_ends(changed, effects);
        self.tell_feeds(now, changed, effects);
        if self.has_stalled(changed) {
            self.clients.touch_all();
        }
        for news in self.clients.news(now, changed, &self.state) {
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

    /// Passes on what a task says. What nobody hears is kept for a while, for who comes back after the server was away.
    pub(in crate::server) fn pass_words(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        words: TaskWords,
        effects: &mut Vec<Effect>,
    ) {
        let listeners: Vec<Asked> = self.clients.listeners(words.task.job).collect();
        for listener in &listeners {
            tell_words(*listener, worker, words.clone(), effects);
        }
        if listeners.is_empty() {
            self.clients.unheard.keep(now, worker, words);
        }
    }

    /// True when the request may wait to be answered, if it has to.
    pub(super) fn check_room_to_wait(
        &self,
        connection: ConnectionId,
        body: &ClientRequest,
    ) -> Result<(), RequestError> {
        match body {
            // Of these, one for each job of a client waits.
            ClientRequest::AwaitEnds { .. } | ClientRequest::Feed(_) => {}
            ClientRequest::WatchJobs { .. }
            | ClientRequest::WaitWorkers { .. }
            | ClientRequest::CancelWaiting { .. }
            | ClientRequest::Alloc(_)
            | ClientRequest::Overview { seen: Some(_) } => {
                let counts = [
                    self.clients.count_of(connection),
                    self.watching.count_of(connection),
                    self.cancelings.count_of(connection),
                    self.alloc.trials_of(connection),
                ];
                if counts.into_iter().sum::<usize>() >= WAITS_OF_CLIENT_MAX {
                    let text = format!(
                        "{WAITS_OF_CLIENT_MAX} requests of this client wait for something already: end some, or ask by \
                         another connection."
                    );
                    return Err(RequestError::Invalid(text));
                }
            }
            _ => return Ok(()),
        }
        if self.waits_bytes() >= WAITS_BYTES_MAX {
            let text = format!(
                "Requests of all clients that wait for something take {} MiB already: try again when some have been answered.",
                WAITS_BYTES_MAX >> 20
            );
            return Err(RequestError::Invalid(text));
        }
        Ok(())
    }

    /// About what all requests take that wait for something to happen, in bytes.
    pub(in crate::server) fn waits_bytes(&self) -> usize {
        self.clients.bytes()
            + self.watching.bytes()
            + self.cancelings.bytes()
            + self.end_waits.bytes()
            + self.feed_waits.bytes()
    }

    /// A client follows these jobs from now on.
    pub(super) fn follow_jobs(
        &mut self,
        now: Timestamp,
        asked: Asked,
        jobs: Vec<JobId>,
        (until_closed, notifications): (bool, bool),
        effects: &mut Vec<Effect>,
    ) {
        if notifications {
            for (worker, words) in self.clients.unheard.take(now, &jobs) {
                tell_words(asked, worker, words, effects);
            }
        }
        self.clients.watch(asked, jobs, until_closed, notifications);
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

fn tell_words(
    (connection, request): Asked,
    worker: WorkerId,
    TaskWords { task, instance, text }: TaskWords,
    effects: &mut Vec<Effect>,
) {
    let body = ClientResponse::Notification { task, instance, worker, text };
    effects.push(Effect::Answer { connection, request, body, gate: Gate::Open });
}
