//! An open job is closed for want of clients only when nothing of it is left, and nobody has waited for its ends for as long as
//! it was to linger.

use std::collections::BTreeMap;

use hq_core::client_messages::ClientRequest;
use hq_core::record::Record;
use hq_core::server::state::State;
use hq_core::server::{Effect, Input};
use hq_model::{JobId, Timestamp};

/// Who waits for ends.
#[derive(Debug, Default)]
pub struct Lingering {
    waits: BTreeMap<(u64, u64), JobId>,
    // When the last one left, of those that anybody has waited for.
    left: BTreeMap<JobId, Timestamp>,
    // When the server was started.
    since: Timestamp,
    /// How many jobs were closed.
    pub closed: u64,
}

impl Lingering {
    /// A server starts: nobody waits yet.
    pub fn restarted(&mut self, now: Timestamp) {
        self.waits.clear();
        self.since = now;
    }

    /// A server hears something.
    pub fn heard(&mut self, now: Timestamp, input: &Input) {
        match input {
            Input::Client { connection, request, body: ClientRequest::AwaitEnds { job, .. } } => {
                self.waits.insert((connection.0, *request), *job);
            }
            Input::ClientGone { connection } => {
                let gone: Vec<_> =
                    self.waits.keys().copied().filter(|(client, _)| *client == connection.0).collect();
                gone.into_iter().for_each(|asked| self.no_more(now, asked));
            }
            _ => {}
        }
    }

    /// It wants these effects.
    ///
    /// # Errors
    /// When it closes a job that somebody may want.
    pub fn persisted(&mut self, now: Timestamp, state: &State, effects: &[Effect]) -> Result<(), String> {
        for effect in effects {
            match effect {
                Effect::Answer { connection, request, .. } => self.no_more(now, (connection.0, *request)),
                Effect::Persist { record: Record::JobLeft { job, linger }, .. } => {
                    self.closed += 1;
                    if let Some(known) = state.jobs.get(job).filter(|known| !known.tasks_ended()) {
                        return Err(format!("job {job} was left with tasks {:?}", known.alive()));
                    }
                    if self.waits.values().any(|waited| waited == job) {
                        return Err(format!("job {job} is closed, and somebody waits for its ends"));
                    }
                    let left = self.left.get(job).copied().unwrap_or_default().max(self.since);
                    if now < left.after(*linger) {
                        return Err(format!("job {job} was left at {left}, and is closed at {now}"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn no_more(&mut self, now: Timestamp, asked: (u64, u64)) {
        if let Some(job) = self.waits.remove(&asked) {
            self.left.insert(job, now);
        }
    }
}
