//! Interpreters that stay from one call of a function to the next.
//!
//! What holds:
//! - A runner has one call at a time, and all its calls are of one job, with the same interpreter, variables and amounts.
//!   Whoever changes a module and submits again never meets the old one.
//! - What a runner may see is never changed below it: the indices of all it was given but CPUs stay the same (a library
//!   looks for its GPUs once), and those of CPUs, too, where tasks are bound to them.
//! - One whose call was ended by force is not used again: what it was about to do is not known.
//! - Idle ones end after a time, the longest idle first when there are more than this worker has CPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use hq_model::request::CPUS;
use hq_model::task::Pin;
use hq_model::{TaskSpec, Timestamp, WorkerResources};

use super::zygotes::{Origin, Zygotes};
use super::{Effect, Grant, RunnerId, RunsIn, ZygoteId};
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
        let Some(zygotes) = self.zygotes.as_mut().filter(|_| template.spec.body.function().is_some()) else {
            return false;
        };
        let origin = zygotes.origin(now, template);
        if !matches!(origin, None | Some(Origin::Unknown)) {
            return false;
        }
        let is_idle = |runner: &Runner| matches!(runner.state, State::Idle(_)) && runner.is_of(template);
        !self.all.values().any(is_idle) && zygotes.find(now, template, effects) == Origin::Unknown
    }

    /// True while calls of such functions wait for a zygote, as far as they need a new runner.
    pub(super) fn are_awaited(&self, template: &Template) -> bool {
        let zygotes = self.zygotes.as_ref().filter(|_| template.spec.body.function().is_some());
        zygotes.is_some_and(|zygotes| zygotes.is_awaited(template))
    }

    /// Where a task that begins now is called.
    ///
    /// # Errors
    /// When it cannot begin now.
    pub(super) fn take(
        &mut self,
        now: Timestamp,
        template: &Arc<Template>,
        variant: u32,
        grant: &Grant,
        effects: &mut Vec<Effect>,
    ) -> Result<RunsIn, NoRunner> {
        let cpus = self.cpus;
        let idle = self.all.iter_mut().filter_map(|(id, runner)| match runner.state {
            State::Idle(since) => Some((since, *id, runner)),
            State::Busy | State::Spent | State::Ending => None,
        });
        let fitting = idle.filter(|(_, _, runner)| runner.serves(template, variant, grant, cpus));
        // The last one that was used: the others come to their end.
        if let Some((_, id, runner)) = fitting.max_by_key(|(since, id, _)| (*since, *id)) {
            runner.state = State::Busy;
            return Ok(RunsIn { runner: id, is_new: false, zygote: None });
        }
        let origin =
            self.zygotes.as_mut().map_or(Origin::Fresh, |zygotes| zygotes.find(now, template, effects));
        let zygote = match origin {
            Origin::Zygote(zygote) => Some(zygote),
            Origin::Fresh => None,
            Origin::Unknown => return Err(NoRunner::Yet),
            Origin::Broken(why) => return Err(NoRunner::Broken(why)),
        };
        let idle = self.all.values().filter(|runner| matches!(runner.state, State::Idle(_))).count();
        if idle >= self.idle_max
            && let Some((_, longest)) = self.longest_idle()
        {
            self.end(longest, effects);
        }
        self.last.0 += 1;
        let (template, grant) = (template.clone(), grant.clone());
        let runner = Runner { template, variant, grant, state: State::Busy, is_spent: false, zygote };
        self.all.insert(self.last, runner);
        Ok(RunsIn { runner: self.last, is_new: true, zygote })
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
    fn is_of(&self, template: &Arc<Template>) -> bool {
        Arc::ptr_eq(&self.template, template)
            || self.template.id.job == template.id.job && is_alike(&self.template.spec, &template.spec)
    }

    fn serves(&self, template: &Arc<Template>, variant: u32, grant: &Grant, cpus: Option<u32>) -> bool {
        let is_alike =
            self.is_of(template) && (!Arc::ptr_eq(&self.template, template) || self.variant == variant);
        let is_bound = template.spec.pin != Pin::None;
        let (had, has) = (&self.grant.resources, &grant.resources);
        is_alike
            && had.len() == has.len()
            && had.iter().zip(has).all(|(had, has)| {
                let may_move = Some(had.pool) == cpus && !is_bound;
                (had.pool, had.amount) == (has.pool, has.amount) && (may_move || had.indices == has.indices)
            })
    }
}

// What an interpreter starts with. Its own arguments stand in no environment.
fn is_alike(one: &TaskSpec, other: &TaskSpec) -> bool {
    one.body.texts() == other.body.texts() && one.env == other.env && one.pin == other.pin
}
