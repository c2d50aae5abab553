//! Interpreters that stay from one call of a function to the next.
//!
//! What holds:
//! - A runner is one interpreter, or one world of MPI with an interpreter for each rank. Which of the two makes no difference
//!   but here: what it was given is what all its ranks were given, and it takes as many places as it has ranks.
//! - A world serves calls on as many ranks. One that was started for a single call, as those on several nodes are, has no other.
//! - A runner has one call at a time, and others of its kind may be armed behind that (`arming.rs`): then it stays busy until it
//!   is known whether the next one has begun. All its calls are of one job, with the same interpreter, variables and amounts.
//!   Whoever changes a module and submits again never meets the old one.
//! - What a runner may see is never changed below it: the indices of all it was given but CPUs stay the same (a library
//!   looks for its GPUs once), and those of CPUs, too, where tasks are bound to them.
//! - One whose call was ended by force is not used again: what it was about to do is not known.
//! - Idle ones end after a time, the longest idle first when there are more than this worker has CPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use hq_model::body::Mpi;
use hq_model::request::CPUS;
use hq_model::task::Pin;
use hq_model::{TaskSpec, Timestamp, WorkerResources};

use super::{Effect, Grant, RunnerId, RunsIn, Start};
use crate::limits::{RUNNER_IDLE_TIME, RUNNERS_IDLE_MIN};
use crate::worker_messages::Template;

/// Those of a worker.
#[derive(Debug)]
pub(super) struct Runners {
    all: BTreeMap<RunnerId, Runner>,
    last: RunnerId,
    // Index of the pool of CPUs.
    cpus: Option<u32>,
    idle_max: usize,
}

#[derive(Debug)]
struct Runner {
    template: Arc<Template>,
    variant: u32,
    grant: Grant,
    ranks: Vec<Grant>,
    state: State,
    // The call that it has is its last one.
    is_spent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Busy,
    /// Since when.
    Idle(Timestamp),
    /// Its call was ended by force, or it can do no other: it is told to end when all that has happened is known.
    Spent,
    Ending,
}

impl Runners {
    pub(super) fn new(resources: &WorkerResources) -> Runners {
        let cpus = resources.pools.iter().position(|pool| pool.name == CPUS);
        let total = cpus.map_or(0, |index| resources.pools[index].kind.total().wholes());
        let idle_max = usize::try_from(total).unwrap_or(usize::MAX).max(RUNNERS_IDLE_MIN);
        Runners {
            all: BTreeMap::new(),
            last: RunnerId::default(),
            cpus: cpus.map(|index| index as u32),
            idle_max,
        }
    }

    /// Where a task that begins now is called.
    pub(super) fn take(&mut self, start: &Start, effects: &mut Vec<Effect>) -> RunsIn {
        let cpus = self.cpus;
        let idle = self.all.iter_mut().filter_map(|(id, runner)| match runner.state {
            State::Idle(since) => Some((since, *id, runner)),
            State::Busy | State::Spent | State::Ending => None,
        });
        let fitting = idle.filter(|(_, _, runner)| runner.serves(start, cpus));
        // The last one that was used: the others come to their end.
        if let Some((_, id, runner)) = fitting.max_by_key(|(since, id, _)| (*since, *id)) {
            runner.state = State::Busy;
            return RunsIn { runner: id, is_new: false };
        }
        while self.idle_processes() >= self.idle_max
            && let Some(longest) = self.longest_idle()
        {
            self.end(longest, effects);
        }
        self.last.0 += 1;
        let (template, grant, ranks) = (start.template.clone(), start.grant.clone(), start.ranks.clone());
        let function = template.spec.body.function();
        let is_spent = function.is_some_and(|function| function.mpi == Mpi::World) || start.nodes.len() > 1;
        let runner = Runner { template, variant: start.variant, grant, ranks, state: State::Busy, is_spent };
        self.all.insert(self.last, runner);
        RunsIn { runner: self.last, is_new: true }
    }

    /// Its call has ended; one that was ended by force is not used again.
    pub(super) fn release(&mut self, now: Timestamp, id: RunnerId, was_forced: bool) {
        // It may have ended with its call.
        if let Some(runner) = self.all.get_mut(&id) {
            runner.state = if was_forced || runner.is_spent { State::Spent } else { State::Idle(now) };
        }
    }

    /// It is not used again after the call that it has.
    pub(super) fn spend(&mut self, id: RunnerId) {
        if let Some(runner) = self.all.get_mut(&id) {
            runner.is_spent = true;
        }
    }

    /// True when it is not used again after the call that it has.
    pub(super) fn is_spent(&self, id: RunnerId) -> bool {
        self.all.get(&id).is_none_or(|runner| runner.is_spent)
    }

    /// It is gone, by itself or because that was wanted.
    pub(super) fn ended(&mut self, id: RunnerId) {
        self.all.remove(&id);
    }

    /// All are gone.
    pub(super) fn all_ended(&mut self) {
        self.all.clear();
    }

    /// Ends those that are not used again, and those that were idle for too long.
    pub(super) fn expire(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let spent = self.all.iter().filter(|(_, runner)| runner.state == State::Spent);
        let spent: Vec<RunnerId> = spent.map(|(id, _)| *id).collect();
        spent.into_iter().for_each(|id| self.end(id, effects));
        while self.next().is_some_and(|at| at <= now)
            && let Some(longest) = self.longest_idle()
        {
            self.end(longest, effects);
        }
    }

    /// When the next one has been idle for too long.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let since = self.all.values().filter_map(|runner| match runner.state {
            State::Idle(since) => Some(since),
            State::Busy | State::Spent | State::Ending => None,
        });
        since.min().map(|since| since.after(RUNNER_IDLE_TIME))
    }

    /// True when it is there, and has a call.
    pub(super) fn is_busy(&self, id: RunnerId) -> bool {
        self.all.get(&id).is_some_and(|runner| runner.state == State::Busy)
    }

    /// How many have a call.
    pub(super) fn busy_count(&self) -> usize {
        self.all.values().filter(|runner| runner.state == State::Busy).count()
    }

    fn idle_processes(&self) -> usize {
        let idle = self.all.values().filter(|runner| matches!(runner.state, State::Idle(_)));
        idle.map(|runner| runner.ranks.len().max(1)).sum()
    }

    fn longest_idle(&self) -> Option<RunnerId> {
        let idle = self.all.iter().filter_map(|(id, runner)| match runner.state {
            State::Idle(since) => Some((since, *id)),
            State::Busy | State::Spent | State::Ending => None,
        });
        idle.min().map(|(_, id)| id)
    }

    fn end(&mut self, id: RunnerId, effects: &mut Vec<Effect>) {
        if let Some(runner) = self.all.get_mut(&id) {
            runner.state = State::Ending;
            effects.push(Effect::EndRunner { runner: id });
        }
    }
}

impl Runner {
    fn serves(&self, start: &Start, cpus: Option<u32>) -> bool {
        let template = &start.template;
        let is_alike = Arc::ptr_eq(&self.template, template) && self.variant == start.variant
            || self.template.id.job == template.id.job && is_alike(&self.template.spec, &template.spec);
        let is_bound = template.spec.pin != Pin::None;
        let had = [&self.grant].into_iter().chain(&self.ranks);
        let has = [&start.grant].into_iter().chain(&start.ranks);
        is_alike
            && self.ranks.len() == start.ranks.len()
            && had.zip(has).all(|(had, has)| serves_as(had, has, cpus.filter(|_| !is_bound)))
    }
}

// `may_move` is a pool of which other indices are as good.
fn serves_as(had: &Grant, has: &Grant, may_move: Option<u32>) -> bool {
    let (had, has) = (&had.resources, &has.resources);
    had.len() == has.len()
        && had.iter().zip(has).all(|(had, has)| {
            (had.pool, had.amount) == (has.pool, has.amount)
                && (Some(had.pool) == may_move || had.indices == has.indices)
        })
}

// What an interpreter starts with. Its own arguments stand in no environment.
fn is_alike(one: &TaskSpec, other: &TaskSpec) -> bool {
    let world = |spec: &TaskSpec| spec.body.function().map(|function| function.mpi);
    one.body.texts() == other.body.texts()
        && one.env == other.env
        && one.pin == other.pin
        && one.launcher == other.launcher
        && world(one) == world(other)
}
