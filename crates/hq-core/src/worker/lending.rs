//! Calls that wait for what others return lend their CPUs to those.
//!
//! What holds:
//! - Only CPUs are lent: what a library has loaded into memory or onto a GPU stays there while its call waits.
//! - A call that goes on has CPUs again before anything new starts on them, in the order in which calls wanted that.
//! - The interpreter of each call that waits stays, so only so many lend at once: those beyond keep what they have.
//! - A call that is to end needs no CPUs for that.

use std::collections::{BTreeMap, VecDeque};

use hq_model::request::CPUS;
use hq_model::task::Pin;
use hq_model::{TaskRef, WorkerResources};

use super::arming::Why;
use super::machine::Worker;
use super::pools::ResolvedRequest;
use super::{Effect, Grant};
use crate::limits::{LENDING_EACH_CPU_MAX, LENDING_MAX_LEAST};

/// What is lent on a worker.
#[derive(Debug)]
pub(super) struct Lending {
    // Index of the pool of CPUs.
    cpus: Option<u32>,
    most: usize,
    // What each call needs to go on, and where it stood in its grant.
    lent: BTreeMap<TaskRef, (ResolvedRequest, usize)>,
    // Those of them that want to go on, in order.
    wanting: VecDeque<TaskRef>,
}

/// How many calls lend their CPUs at a time on a worker that offers this.
pub(crate) fn lending_max(resources: &WorkerResources) -> usize {
    let cpus = resources.pools.iter().find(|pool| pool.name == CPUS);
    let total = cpus.map_or(0, |pool| pool.kind.total().wholes());
    let most = usize::try_from(total).unwrap_or(usize::MAX).saturating_mul(LENDING_EACH_CPU_MAX);
    most.max(LENDING_MAX_LEAST)
}

impl Lending {
    pub(super) fn new(resources: &WorkerResources) -> Lending {
        let cpus = resources.pools.iter().position(|pool| pool.name == CPUS);
        Lending {
            cpus: cpus.map(|index| index as u32),
            most: lending_max(resources),
            lent: BTreeMap::new(),
            wanting: VecDeque::new(),
        }
    }

    /// True when a call has lent its CPUs.
    pub(super) fn lends(&self, task: TaskRef) -> bool {
        self.lent.contains_key(&task)
    }

    /// Calls that have lent their CPUs.
    pub(super) fn all(&self) -> impl Iterator<Item = TaskRef> {
        self.lent.keys().copied()
    }

    /// Pools of which nothing is given to what is new, as a set: calls want to go on.
    pub(super) fn kept(&self) -> u64 {
        match self.cpus {
            Some(pool @ 0..64) if !self.wanting.is_empty() => 1 << pool,
            _ => 0,
        }
    }

    /// A call has ended.
    pub(super) fn ended(&mut self, task: TaskRef) {
        if self.lent.remove(&task).is_some() {
            self.wanting.retain(|one| *one != task);
        }
    }
}

impl Worker {
    /// A call waits for what others return.
    pub(super) fn call_waits(&mut self, task: TaskRef, effects: &mut Vec<Effect>) {
        // Whether it lends anything or not, its end may be far.
        if let Some(follower) = self.running.get(&task).and_then(|run| run.follower) {
            self.call_one_back(follower, Why::Better, effects);
        }
        let Some(run) = self.running.get_mut(&task) else { return };
        let Some(known) = self.templates.get(&run.template) else { return };
        self.runners.calls_others(&known.template, effects);
        let Some(cpus) = self.lending.cpus else { return };
        if self.lending.lent.len() >= self.lending.most || self.lending.lends(task) {
            return;
        }
        // One that is bound to its CPUs finds itself on them when it goes on.
        let may_lend = run.runner.is_some() && run.ending.is_none() && known.template.spec.pin == Pin::None;
        let at = run.grant.resources.iter().position(|given| given.pool == cpus);
        let way = known.ways.iter().find(|way| run.variant.is_none_or(|variant| way.variant == variant));
        if let (true, Some(at), Some(way)) = (may_lend, at, way) {
            let lent = Grant { resources: vec![run.grant.resources.remove(at)] };
            self.pools.free(&lent);
            self.lending.lent.insert(task, (way.needs.loosely_of(cpus), at));
            self.reporting.lends(task);
        }
    }

    /// A call that waited wants to go on.
    pub(super) fn call_wants(&mut self, task: TaskRef, effects: &mut Vec<Effect>) {
        let is_ending = self.running.get(&task).is_none_or(|run| run.ending.is_some());
        if !self.lending.lends(task) || is_ending {
            effects.push(Effect::GoOn { task });
        } else if !self.lending.wanting.contains(&task) {
            self.lending.wanting.push_back(task);
        }
    }

    /// Gives CPUs to calls that want to go on.
    pub(super) fn give_to_wanting(&mut self, effects: &mut Vec<Effect>) {
        while let Some(&task) = self.lending.wanting.front() {
            let Some((needs, at)) = self.lending.lent.get(&task) else { return };
            let mut grant = Grant::default();
            if !self.pools.take(needs, &mut grant) {
                return;
            }
            if let Some(run) = self.running.get_mut(&task) {
                let at = (*at).min(run.grant.resources.len());
                run.grant.resources.splice(at..at, grant.resources);
            }
            self.lending.ended(task);
            self.reporting.lends(task);
            effects.push(Effect::GoOn { task });
        }
    }

    /// A call is to end: it does not wait for CPUs.
    pub(super) fn lets_go(&mut self, task: TaskRef, effects: &mut Vec<Effect>) {
        let before = self.lending.wanting.len();
        self.lending.wanting.retain(|one| *one != task);
        if self.lending.wanting.len() < before {
            effects.push(Effect::GoOn { task });
        }
    }
}
