//! Clients that wait: those that follow jobs are told what changed, at most so often, and when all has ended; those that
//! wait for workers, when enough of them are there.

mod unheard;

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{IdSet, JobId, Timestamp};

use super::ConnectionId;
use super::state::State;
use crate::limits::PROGRESS_INTERVAL;
use unheard::Unheard;

/// A request that is not answered for good yet: its client, and its number there.
pub(super) type Asked = (ConnectionId, u64);

/// About what a request that waits takes, beside what it asks, in bytes.
pub(super) const WAIT_BYTES: usize = 128;
/// About what each job takes that a client follows, in bytes.
const FOLLOWED_JOB_BYTES: usize = 64;

/// What a request asks that waits.
pub(super) trait Asks {
    /// About what it takes in memory beside itself, in bytes.
    fn bytes(&self) -> usize;
}

impl Asks for IdSet {
    fn bytes(&self) -> usize {
        self.range_count() * size_of::<[u32; 2]>()
    }
}

/// Requests that wait until something of their job changes, with what each asks.
#[derive(Debug)]
pub(super) struct JobWaits<T> {
    by_job: BTreeMap<JobId, BTreeMap<Asked, T>>,
    bytes: usize,
}

impl<T> Default for JobWaits<T> {
    fn default() -> Self {
        JobWaits { by_job: BTreeMap::new(), bytes: 0 }
    }
}

fn bytes_of(what: &impl Asks) -> usize {
    WAIT_BYTES + what.bytes()
}

impl<T: Asks> JobWaits<T> {
    /// One more in the place of others that the same client has asked before for the job.
    pub(super) fn add_last(&mut self, job: JobId, asked: Asked, what: T) {
        let waits = self.by_job.entry(job).or_default();
        let before: Vec<Asked> = waits.range((asked.0, 0)..=(asked.0, u64::MAX)).map(|one| *one.0).collect();
        for one in before {
            self.bytes -= waits.remove(&one).as_ref().map_or(0, bytes_of);
        }
        self.bytes += bytes_of(&what);
        waits.insert(asked, what);
    }

    /// About what they take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes those whose jobs have changed. Who has to wait on is added again.
    pub(super) fn take(&mut self, changed: &BTreeSet<JobId>) -> Vec<(JobId, Asked, T)> {
        if self.by_job.is_empty() {
            return Vec::new();
        }
        let of_jobs = changed.iter().filter_map(|job| Some((*job, self.by_job.remove(job)?)));
        let taken: Vec<(JobId, Asked, T)> = of_jobs
            .flat_map(|(job, waits)| waits.into_iter().map(move |(asked, what)| (job, asked, what)))
            .collect();
        self.bytes -= taken.iter().map(|(_, _, what)| bytes_of(what)).sum::<usize>();
        taken
    }

    /// True while somebody waits for something of this job.
    pub(super) fn has(&self, job: JobId) -> bool {
        self.by_job.contains_key(&job)
    }

    /// A client has left. Gives the jobs for which nobody waits any more.
    pub(super) fn forget(&mut self, connection: ConnectionId) -> Vec<JobId> {
        let mut left = Vec::new();
        let bytes = &mut self.bytes;
        self.by_job.retain(|job, waits| {
            for (_, what) in waits.extract_if(.., |asked, _| asked.0 == connection) {
                *bytes -= bytes_of(&what);
            }
            if waits.is_empty() {
                left.push(*job);
            }
            !waits.is_empty()
        });
        left
    }
}

/// All clients that wait for something.
#[derive(Debug, Default)]
pub(super) struct Clients {
    watches: BTreeMap<Asked, Watch>,
    by_job: BTreeMap<JobId, BTreeSet<Asked>>,
    // Watches with something to tell, and when they may.
    due: BTreeSet<(Timestamp, Asked)>,
    // How many workers are waited for.
    worker_waits: BTreeMap<Asked, u32>,
    // About what all of these take.
    bytes: usize,
    /// What tasks have said to nobody.
    pub(super) unheard: Unheard,
}

/// What a client that follows jobs is to be told.
#[derive(Debug, PartialEq)]
pub(super) struct News {
    /// By which request.
    pub(super) to: Asked,
    /// Jobs that have changed.
    pub(super) changed: Vec<JobId>,
    /// All has ended: there will be nothing more to tell.
    pub(super) is_over: bool,
}

#[derive(Debug)]
struct Watch {
    // Not ended yet.
    jobs: BTreeSet<JobId>,
    changed: BTreeSet<JobId>,
    until_closed: bool,
    notifications: bool,
    next_at: Timestamp,
    // About what it took at first.
    bytes: usize,
}

impl Clients {
    /// How many requests of a client wait here.
    pub(super) fn count_of(&self, connection: ConnectionId) -> usize {
        let all = (connection, 0)..=(connection, u64::MAX);
        self.watches.range(all.clone()).count() + self.worker_waits.range(all).count()
    }

    /// About what all that wait here take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.worker_waits.len() * WAIT_BYTES
    }

    /// Begins a watch; all its jobs count as changed.
    pub(super) fn watch(&mut self, key: Asked, jobs: Vec<JobId>, until_closed: bool, notifications: bool) {
        for job in &jobs {
            self.by_job.entry(*job).or_default().insert(key);
        }
        let jobs: BTreeSet<JobId> = jobs.into_iter().collect();
        let changed = jobs.clone();
        let next_at = Timestamp(0);
        let bytes = WAIT_BYTES + jobs.len() * FOLLOWED_JOB_BYTES;
        self.bytes += bytes;
        self.due.insert((next_at, key));
        self.watches.insert(key, Watch { jobs, changed, until_closed, notifications, next_at, bytes });
    }

    /// A client waits until so many workers are connected.
    pub(super) fn wait_for_workers(&mut self, key: Asked, count: u32) {
        self.worker_waits.insert(key, count);
    }

    /// A client has left.
    pub(super) fn forget(&mut self, connection: ConnectionId) {
        let keys: Vec<Asked> =
            self.watches.range((connection, 0)..=(connection, u64::MAX)).map(|entry| *entry.0).collect();
        for key in keys {
            self.remove(key);
        }
        self.worker_waits.retain(|key, _| key.0 != connection);
    }

    /// When a watch wants to be told something.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        self.due.first().map(|due| due.0)
    }

    /// Something has changed that may concern any job that is followed.
    pub(super) fn touch_all(&mut self) {
        let jobs: Vec<JobId> = self.by_job.keys().copied().collect();
        jobs.into_iter().for_each(|job| self.touch(job));
    }

    /// What is to be told, after these jobs have changed. The end of a job is never held back.
    pub(super) fn news(&mut self, now: Timestamp, changed: &BTreeSet<JobId>, state: &State) -> Vec<News> {
        let mut ready = BTreeSet::new();
        for job in changed {
            self.touch(*job);
            if state.jobs.get(job).is_none_or(|job| job.tasks_ended()) {
                ready.extend(self.by_job.get(job).into_iter().flatten().copied());
            }
        }
        ready.extend(self.due.range(..=(now, (ConnectionId(u64::MAX), u64::MAX))).map(|due| due.1));
        ready.into_iter().filter_map(|key| self.news_of(now, key, state)).collect()
    }

    /// Who wants to know what the tasks of a job say.
    pub(super) fn listeners(&self, job: JobId) -> impl Iterator<Item = Asked> {
        let keys = self.by_job.get(&job).into_iter().flatten().copied();
        keys.filter(|key| self.watches.get(key).is_some_and(|watch| watch.notifications))
    }

    /// True while somebody waits for workers.
    pub(super) fn await_workers(&self) -> bool {
        !self.worker_waits.is_empty()
    }

    /// Those who have waited for so many workers.
    pub(super) fn with_enough_workers(&mut self, connected: u32) -> Vec<Asked> {
        let enough: Vec<Asked> =
            self.worker_waits.iter().filter(|(_, count)| connected >= **count).map(|(key, _)| *key).collect();
        enough.iter().for_each(|key| {
            self.worker_waits.remove(key);
        });
        enough
    }

    fn news_of(&mut self, now: Timestamp, to: Asked, state: &State) -> Option<News> {
        let watch = self.watches.get_mut(&to)?;
        self.due.remove(&(watch.next_at, to));
        watch.next_at = now.after(PROGRESS_INTERVAL);
        let changed: Vec<JobId> = std::mem::take(&mut watch.changed).into_iter().collect();
        let until_closed = watch.until_closed;
        let has_ended = |id: &&JobId| {
            state.jobs.get(id).is_none_or(|job| job.tasks_ended() && !(until_closed && job.is_open))
        };
        let ended: Vec<JobId> = changed.iter().filter(has_ended).copied().collect();
        for job in &ended {
            watch.jobs.remove(job);
        }
        let is_over = watch.jobs.is_empty();
        for job in ended {
            self.unlink(job, to);
        }
        if is_over {
            self.remove(to);
        }
        Some(News { to, changed, is_over })
    }

    fn touch(&mut self, job: JobId) {
        for key in self.by_job.get(&job).into_iter().flatten() {
            if let Some(watch) = self.watches.get_mut(key) {
                watch.changed.insert(job);
                self.due.insert((watch.next_at, *key));
            }
        }
    }

    fn remove(&mut self, key: Asked) {
        let Some(watch) = self.watches.remove(&key) else { return };
        self.bytes -= watch.bytes;
        self.due.remove(&(watch.next_at, key));
        for job in watch.jobs {
            self.unlink(job, key);
        }
    }

    fn unlink(&mut self, job: JobId, key: Asked) {
        if let Some(keys) = self.by_job.get_mut(&job) {
            keys.remove(&key);
            if keys.is_empty() {
                self.by_job.remove(&job);
            }
        }
    }
}
