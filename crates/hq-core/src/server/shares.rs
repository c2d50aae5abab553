//! Shares of jobs: how many of their tasks are handed out, and how many more may be.
//!
//! Maxima hold for whatever is handed out. Who gets how much where jobs compete is the planner's business. Tasks of
//! such jobs are handed out only when they fit: what waits on a worker could not be shared out any more. A job with a budget
//! is treated as one with a share: that is nothing once the budget is spent.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hq_model::job::Share;
use hq_model::{IdSet, JobId};

use super::machine::Server;
use super::queue::ClassId;
use super::requests::templates_of;

/// Jobs with a share or a budget that may have ready tasks.
#[derive(Debug, Default)]
pub(super) struct Shares {
    jobs: BTreeMap<JobId, SharedJob>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SharedJob {
    // Tasks handed out, those of the present round and second attempts included.
    out: u64,
    // What rounding took from it before, for the planner.
    carried: u64,
}

impl Shares {
    /// Tasks of such a job are ready, or a worker has some.
    pub(super) fn add(&mut self, job: JobId) {
        self.jobs.entry(job).or_default();
    }

    /// True when a job is one of them.
    pub(super) fn has(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job)
    }

    /// Tasks of a job that are handed out.
    pub(super) fn out(&self, job: JobId) -> u64 {
        self.jobs.get(&job).map_or(0, |shared| shared.out)
    }

    /// Tasks are handed out, of a job with a share or of one without.
    pub(super) fn hand_out(&mut self, job: Option<JobId>, count: u64) {
        if let Some(shared) = job.and_then(|job| self.jobs.get_mut(&job)) {
            shared.out += count;
        }
    }

    /// What rounding took from a job before.
    pub(super) fn carried(&self, job: JobId) -> u64 {
        self.jobs.get(&job).map_or(0, |shared| shared.carried)
    }

    /// What rounding took from a job this time.
    pub(super) fn carry(&mut self, job: JobId, carried: u64) {
        if let Some(shared) = self.jobs.get_mut(&job) {
            shared.carried = carried;
        }
    }
}

impl Server {
    /// Counts before a round; classes that may get more are looked at again.
    pub(super) fn count_shares(&mut self) {
        let jobs = &self.state.jobs;
        self.shares.jobs.retain(|id, shared| {
            let Some(job) = jobs.get(id).filter(|job| !job.tasks_ended()) else { return false };
            let seconds = job.seconds.values().filter(|second| second.worker.is_some());
            shared.out = job.leased.values().map(IdSet::len).sum::<u64>() + seconds.count() as u64;
            true
        });
    }

    /// Classes of jobs with shares that have ready tasks and may start some.
    pub(super) fn shared_classes(&self) -> Vec<ClassId> {
        if self.shares.jobs.is_empty() {
            return Vec::new();
        }
        let templates = self.shares.jobs.keys().flat_map(|job| self.classes.range(templates_of(*job)));
        let classes: BTreeSet<ClassId> = templates.map(|entry| *entry.1).collect();
        let mut classes: Vec<ClassId> = classes
            .into_iter()
            .filter(|class| self.queue.count(*class) > 0 && self.share_room(*class) > 0)
            .collect();
        classes.sort_by_key(|class| Reverse(self.queue.key(*class).priority));
        classes
    }

    /// The job whose share a class has.
    pub(super) fn shared_by(&self, class: ClassId) -> Option<JobId> {
        self.queue.key(class).share
    }

    /// Tasks of a class that its share allows beyond those that are handed out.
    pub(super) fn share_room(&self, class: ClassId) -> u64 {
        let Some(job) = self.shared_by(class) else { return u64::MAX };
        let most = self.share_of(job).max.unwrap_or(u64::MAX);
        most.saturating_sub(self.shares.out(job))
    }

    /// The share of a job; nothing when its budget is spent.
    pub(super) fn share_of(&self, job: JobId) -> Share {
        let Some(job) = self.state.jobs.get(&job) else { return Share::default() };
        match job.is_spent() {
            true => Share { min: 0, max: Some(0), ..Share::default() },
            false => job.spec.share.unwrap_or_default(),
        }
    }

    /// Tasks handed out in this round are ready again.
    pub(super) fn give_share_back(&mut self, class: ClassId, count: u64) {
        if let Some(shared) = self.shared_by(class).and_then(|job| self.shares.jobs.get_mut(&job)) {
            shared.out = shared.out.saturating_sub(count);
        }
    }
}
