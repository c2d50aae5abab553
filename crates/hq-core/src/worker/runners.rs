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
//! - A new one is forked from a zygote (`zygotes.rs`), unless it is a world.
//! - Idle ones end after a time, the longest idle first when there are more than this worker has CPUs, and at once when a device
//!   that they had is given to another task.

use std::collections::BTreeMap;
use std::sync::Arc;

use hq_model::amount::UNITS;
use hq_model::body::Mpi;
use hq_model::request::CPUS;
use hq_model::task::Pin;
use hq_model::{TaskSpec, Timestamp, WorkerResources};

use super::zygotes::{Origin, Zygotes};
use super::{Effect, Grant, GrantedResource, RunnerId, RunsIn, Start, ZygoteId};
use crate::limits::{RUNNER_IDLE_TIME, RUNNERS_IDLE_MIN};
use crate::worker_messages::Template;

/// Those of a worker.
#[derive(Debug)]
pub(super) struct Runners {
    all: BTreeMap<RunnerId, Runner>,
    last: RunnerId,
    /// Where runners are forked.
    pub(super) zygotes: Option<Zygotes>,
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
    // Where it was forked, until it has had a call.
    zygote: Option<ZygoteId>,
}

/// Why there is no runner for a call.
#[derive(Debug)]
pub(super) enum NoRunner {
    /// There will be: a zygote starts.
    Yet,
    /// No interpreter of its environment works here.
    Broken(String),
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
            zygotes: None,
            cpus: cpus.map(|index| index as u32),
            idle_max,
        }
    }

    /// True while no call of such functions can begin, because a zygote starts; if need be it does from now on.
    pub(super) fn waits(
        &mut self,
        now: Timestamp,
        template: &Arc<Template>,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(zygotes) = self.zygotes.as_mut().filter(|_| may_be_forked(template)) else { return false };
        let origin = zygotes.origin(now, template);
        if !matches!(origin, None | Some(Origin::Unknown)) {
            return false;
        }
        !has_idle(&self.all, template) && zygotes.find(now, template, effects) == Origin::Unknown
    }

    /// True when an idle runner has had calls of such functions.
    pub(super) fn has_idle(&self, template: &Arc<Template>) -> bool {
        has_idle(&self.all, template)
    }

    /// True while calls of such functions wait for a zygote, as far as they need a new runner.
    pub(super) fn are_awaited(&self, template: &Template) -> bool {
        let zygotes = self.zygotes.as_ref().filter(|_| may_be_forked(template));
        zygotes.is_some_and(|zygotes| zygotes.is_awaited(template))
    }

    /// A call of such functions has called others.
    pub(super) fn calls_others(&mut self, template: &Template, effects: &mut Vec<Effect>) {
        let zygotes = self.zygotes.as_mut().filter(|_| may_be_forked(template));
        zygotes.into_iter().for_each(|zygotes| zygotes.calls_others(template, effects));
    }

    /// Where a task that begins now is called.
    ///
    /// # Errors
    /// When it cannot begin now.
    pub(super) fn take(
        &mut self,
        now: Timestamp,
        start: &Start,
        effects: &mut Vec<Effect>,
    ) -> Result<RunsIn, NoRunner> {
        let cpus = self.cpus;
        let idle = self.all.iter_mut().filter_map(|(id, runner)| match runner.state {
            State::Idle(since) => Some((since, *id, runner)),
            State::Busy | State::Spent | State::Ending => None,
        });
        let fitting = idle.filter(|(_, _, runner)| runner.serves(start, cpus));
        // The last one that was used: the others come to their end.
        if let Some((_, id, runner)) = fitting.max_by_key(|(since, id, _)| (*since, *id)) {
            runner.state = State::Busy;
            return Ok(RunsIn { runner: id, is_new: false, zygote: None });
        }
        let zygotes = self.zygotes.as_mut().filter(|_| may_be_forked(&start.template));
        let origin = zygotes.map_or(Origin::Fresh, |zygotes| zygotes.find(now, &start.template, effects));
        let zygote = match origin {
            Origin::Zygote(zygote) => Some(zygote),
            Origin::Fresh => None,
            Origin::Unknown => return Err(NoRunner::Yet),
            Origin::Broken(why) => return Err(NoRunner::Broken(why)),
        };
        while self.idle_processes() >= self.idle_max
            && let Some((_, longest)) = self.longest_idle()
        {
            self.end(longest, effects);
        }
        self.last.0 += 1;
        let (template, grant, ranks) = (start.template.clone(), start.grant.clone(), start.ranks.clone());
        let function = template.spec.body.function();
        let is_spent = function.is_some_and(|function| function.mpi == Mpi::World) || start.nodes.len() > 1;
        let (variant, state) = (start.variant, State::Busy);
        let runner = Runner { template, variant, grant, ranks, state, is_spent, zygote };
        self.all.insert(self.last, runner);
        Ok(RunsIn { runner: self.last, is_new: true, zygote })
    }

    /// What begins has this: idle runners end that had more of it than is beside that, for what they keep in the memory of a
    /// device they may keep as long as they live. CPUs keep nothing.
    pub(super) fn make_way<'a>(
        &mut self,
        grants: impl Iterator<Item = &'a Grant>,
        effects: &mut Vec<Effect>,
    ) {
        let cpus = self.cpus;
        let devices = grants.flat_map(|grant| &grant.resources).filter(|given| Some(given.pool) != cpus);
        for given in devices.filter(|given| !given.indices.is_empty()) {
            let in_the_way = self.all.iter().filter(|(_, runner)| {
                matches!(runner.state, State::Idle(_))
                    && runner.kept().any(|kept| is_more_than_all(kept, given))
            });
            let in_the_way: Vec<RunnerId> = in_the_way.map(|(id, _)| *id).collect();
            in_the_way.into_iter().for_each(|id| self.end(id, effects));
        }
    }

    /// Its call has ended; one that was ended by force is not used again.
    pub(super) fn release(&mut self, now: Timestamp, id: RunnerId, was_forced: bool) {
        // It may have ended with its call.
        if let Some(runner) = self.all.get_mut(&id) {
            runner.state = if was_forced || runner.is_spent { State::Spent } else { State::Idle(now) };
            if let (Some(zygote), Some(zygotes)) = (runner.zygote.take(), &mut self.zygotes) {
                zygotes.is_proven(zygote);
            }
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
        while let Some((since, longest)) = self.longest_idle()
            && since.after(RUNNER_IDLE_TIME) <= now
        {
            self.end(longest, effects);
        }
        self.zygotes.iter_mut().for_each(|zygotes| zygotes.expire(now, effects));
    }

    /// When the next one, or a zygote, has been idle for too long.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let runner = self.longest_idle().map(|(since, _)| since.after(RUNNER_IDLE_TIME));
        runner.into_iter().chain(self.zygotes.as_ref().and_then(Zygotes::next)).min()
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

    fn longest_idle(&self) -> Option<(Timestamp, RunnerId)> {
        let idle = self.all.iter().filter_map(|(id, runner)| match runner.state {
            State::Idle(since) => Some((since, *id)),
            State::Busy | State::Spent | State::Ending => None,
        });
        idle.min()
    }

    fn end(&mut self, id: RunnerId, effects: &mut Vec<Effect>) {
        if let Some(runner) = self.all.get_mut(&id) {
            runner.state = State::Ending;
            effects.push(Effect::EndRunner { runner: id });
        }
    }
}

impl Runner {
    // What it had for its calls.
    fn kept(&self) -> impl Iterator<Item = &GrantedResource> {
        [&self.grant].into_iter().chain(&self.ranks).flat_map(|grant| &grant.resources)
    }

    fn is_of(&self, template: &Arc<Template>) -> bool {
        Arc::ptr_eq(&self.template, template)
            || self.template.id.job == template.id.job && is_alike(&self.template.spec, &template.spec)
    }

    fn serves(&self, start: &Start, cpus: Option<u32>) -> bool {
        let template = &start.template;
        let is_alike =
            self.is_of(template) && (!Arc::ptr_eq(&self.template, template) || self.variant == start.variant);
        let is_bound = template.spec.pin != Pin::None;
        let had = [&self.grant].into_iter().chain(&self.ranks);
        let has = [&start.grant].into_iter().chain(&start.ranks);
        is_alike
            && self.ranks.len() == start.ranks.len()
            && had.zip(has).all(|(had, has)| serves_as(had, has, cpus.filter(|_| !is_bound)))
    }
}

// Ranks are started by a launcher of MPI.
fn has_idle(all: &BTreeMap<RunnerId, Runner>, template: &Arc<Template>) -> bool {
    all.values().any(|runner| matches!(runner.state, State::Idle(_)) && runner.is_of(template))
}

fn may_be_forked(template: &Template) -> bool {
    template.spec.body.function().is_some() && !template.spec.starts_ranks()
}

// Both together take more of an index than there is.
fn is_more_than_all(one: &GrantedResource, other: &GrantedResource) -> bool {
    let both = |index: u32, units: u16| {
        let same = other.indices.iter().find(|(there, _)| *there == index);
        same.is_some_and(|(_, more)| u64::from(units) + u64::from(*more) > UNITS)
    };
    one.pool == other.pool && one.indices.iter().any(|(index, units)| both(*index, *units))
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
