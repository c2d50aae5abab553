//! Clients that follow jobs: they are told what changed, at most so often, and when all has ended.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{ByteString, JobId, TaskRef, Timestamp, WorkerId};

use super::machine::Server;
use super::{ConnectionId, Effect, Gate};
use crate::client_messages::ClientResponse;
use crate::limits::PROGRESS_INTERVAL;

/// All watches.
#[derive(Debug, Default)]
pub(super) struct Watches {
    watches: BTreeMap<(ConnectionId, u64), Watch>,
    by_job: BTreeMap<JobId, BTreeSet<(ConnectionId, u64)>>,
    // Watches with something to tell, and when they may.
    due: BTreeSet<(Timestamp, (ConnectionId, u64))>,
}

#[derive(Debug)]
struct Watch {
    // Not ended yet.
    jobs: BTreeSet<JobId>,
    changed: BTreeSet<JobId>,
    until_closed: bool,
    notifications: bool,
    next_at: Timestamp,
}

impl Watches {
    /// Begins a watch; all its jobs count as changed.
    pub(super) fn add(
        &mut self,
        connection: ConnectionId,
        request: u64,
        jobs: Vec<JobId>,
        until_closed: bool,
        notifications: bool,
    ) {
        let key = (connection, request);
        for job in &jobs {
            self.by_job.entry(*job).or_default().insert(key);
        }
        let jobs: BTreeSet<JobId> = jobs.into_iter().collect();
        let changed = jobs.clone();
        let next_at = Timestamp(0);
        self.due.insert((next_at, key));
        self.watches.insert(key, Watch { jobs, changed, until_closed, notifications, next_at });
    }

    /// Ends all watches of a client.
    pub(super) fn forget_client(&mut self, connection: ConnectionId) {
        let keys: Vec<_> =
            self.watches.range((connection, 0)..=(connection, u64::MAX)).map(|entry| *entry.0).collect();
        for key in keys {
            self.remove(key);
        }
    }

    /// When a watch wants to be told something.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        self.due.first().map(|due| due.0)
    }

    fn touch(&mut self, job: JobId) {
        for key in self.by_job.get(&job).into_iter().flatten() {
            if let Some(watch) = self.watches.get_mut(key) {
                watch.changed.insert(job);
                self.due.insert((watch.next_at, *key));
            }
        }
    }

    fn remove(&mut self, key: (ConnectionId, u64)) {
        let Some(watch) = self.watches.remove(&key) else { return };
        self.due.remove(&(watch.next_at, key));
        for job in watch.jobs {
            self.unlink(job, key);
        }
    }

    fn unlink(&mut self, job: JobId, key: (ConnectionId, u64)) {
        if let Some(keys) = self.by_job.get_mut(&job) {
            keys.remove(&key);
            if keys.is_empty() {
                self.by_job.remove(&job);
            }
        }
    }
}

impl Server {
    /// Tells watching clients what changed.
    pub(super) fn report_progress(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let mut ended = BTreeSet::new();
        for job in std::mem::take(&mut self.touched) {
            self.watches.touch(job);
            if self.state.jobs.get(&job).is_none_or(|job| job.tasks_ended()) {
                ended.insert(job);
            }
        }
        // The end of a job is never held back.
        let at_once = ended.iter().filter_map(|job| self.watches.by_job.get(job)).flatten().copied();
        let mut ready: BTreeSet<(ConnectionId, u64)> = at_once.collect();
        ready.extend(self.watches.due.range(..=(now, (ConnectionId(u64::MAX), u64::MAX))).map(|due| due.1));
        for key in ready {
            self.tell(now, key, effects);
        }
    }

    /// Passes on what a task says.
    pub(super) fn pass_notification(
        &self,
        task: TaskRef,
        worker: WorkerId,
        text: &ByteString,
        effects: &mut Vec<Effect>,
    ) {
        for key in self.watches.by_job.get(&task.job).into_iter().flatten() {
            if self.watches.watches.get(key).is_some_and(|watch| watch.notifications) {
                let body = ClientResponse::Notification { task, worker, text: text.clone() };
                effects.push(Effect::Answer { connection: key.0, request: key.1, body, gate: Gate::Open });
            }
        }
    }

    fn tell(&mut self, now: Timestamp, key: (ConnectionId, u64), effects: &mut Vec<Effect>) {
        let Some(watch) = self.watches.watches.get_mut(&key) else { return };
        self.watches.due.remove(&(watch.next_at, key));
        watch.next_at = now.after(PROGRESS_INTERVAL);
        let changed = std::mem::take(&mut watch.changed);
        let until_closed = watch.until_closed;
        let mut summaries = Vec::with_capacity(changed.len());
        let mut ended = Vec::new();
        for id in changed {
            let job = self.state.jobs.get(&id);
            summaries.extend(job.map(|job| self.summary(id, job)));
            if job.is_none_or(|job| job.tasks_ended() && !(until_closed && job.is_open)) {
                ended.push(id);
            }
        }
        let (connection, request) = key;
        let body = ClientResponse::Progress(summaries);
        effects.push(Effect::Answer { connection, request, body, gate: Gate::Synced });
        let Some(watch) = self.watches.watches.get_mut(&key) else { return };
        for job in &ended {
            watch.jobs.remove(job);
        }
        let is_over = watch.jobs.is_empty();
        for job in ended {
            self.watches.unlink(job, key);
        }
        if is_over {
            self.watches.remove(key);
            let body = ClientResponse::WatchEnded;
            effects.push(Effect::Answer { connection, request, body, gate: Gate::Synced });
        }
    }
}
