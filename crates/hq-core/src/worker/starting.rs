//! Starting of what fits: tasks in the order of their priorities, and parts of tasks on several nodes.

use hq_model::worker::{Executor, Life};
use hq_model::{ByteString, Entry, Instance, Request, TaskId, TaskRef, Timestamp, Usage};

use super::deadlines::Deadline;
use super::machine::{Batch, Known, QueuePlace, Running, Way, Worker};
use super::pools::{Pools, ResolvedRequest};
use super::runners::NoRunner;
use super::{Effect, Grant, Outcome, RunnerId, Start};
use crate::keeping::keeps_room;
use crate::limits::{NULL_TASKS_AT_ONCE, SCAN_BLOCKED_MAX, SCAN_QUEUED_MAX, STARTS_INTERVAL};
use crate::mark;
use crate::record::FailureKind;
use crate::worker_messages::TemplateId;

// What waits and does not fit.
struct Lacking {
    priority: i32,
    since: Timestamp,
    // Pools that cannot give it what it needs.
    scarce: u64,
}

impl Worker {
    /// Starts what fits, larger priority first. What waits for one pool is no reason not to use another one.
    pub(super) fn start_what_fits(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let life = self.config.life(self.started);
        let mut lacking: Vec<Lacking> = Vec::new();
        let mut misses = 0;
        let mut null_left = NULL_TASKS_AT_ONCE;
        self.has_more = false;
        let mut key = None;
        for _ in 0..SCAN_QUEUED_MAX {
            let exhausted = self.pools.exhausted();
            // Mostly all CPUs are in use.
            if self.queue_pools & exhausted != 0 {
                return;
            }
            let Some(next) = self.next_batch(key) else { return };
            let before = key.replace(next);
            let batch = &self.queue[&next];
            let (priority, since) = (next.0.0, batch.since);
            let known = &self.templates[&batch.template];
            let Some(placed) = in_time(known, batch, life, now) else { continue };
            if self.config.executor != Executor::Null && self.runners.waits(now, &known.template, effects) {
                continue;
            }
            let keeps = |other: &&Lacking| keeps_room(now.since(other.since), other.priority == priority);
            let kept = lacking.iter().filter(keeps).fold(0, |kept, other| kept | other.scarce);
            // What was placed into free room has it, unless a call that has lent its CPUs wants to go on.
            let kept = self.lending.kept() | if batch.variant.is_some() { 0 } else { kept };
            // Small tasks must not starve a large one, nor those of lower priority one of higher: what that lacks is
            // kept for it.
            let may_fit = known.pools & (kept | exhausted) == 0
                && ways(known, placed, kept).any(|way| self.pools.scarce(&way.needs) == 0);
            if may_fit {
                self.start_batch(now, next, kept, &mut null_left, effects);
            }
            if self.queue.contains_key(&next) {
                misses += usize::from(may_fit);
                if null_left == 0 {
                    self.has_more = true;
                    return;
                }
                if misses == SCAN_BLOCKED_MAX {
                    return;
                }
                // Something else started in the room that it was placed into: it waits for whichever variant fits, as the
                // server counts it once it knows.
                if let Some(batch) = self.queue.get_mut(&next).filter(|batch| batch.nodes.is_empty())
                    && batch.variant.take().is_some()
                {
                    key = before;
                    continue;
                }
                let batch = &self.queue[&next];
                let known = &self.templates[&batch.template];
                let Some(way) =
                    in_time(known, batch, life, now).and_then(|placed| ways(known, placed, 0).next())
                else {
                    continue;
                };
                let scarce = self.pools.scarce(&way.needs);
                let is_said = |known: &Lacking| (known.priority, known.scarce) == (priority, scarce);
                if !lacking.iter().any(is_said) && lacking.len() < SCAN_BLOCKED_MAX {
                    lacking.push(Lacking { priority, since, scarce });
                }
            }
        }
    }

    fn next_batch(&self, after: Option<QueuePlace>) -> Option<QueuePlace> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        self.queue.range((from, Unbounded)).next().map(|entry| *entry.0)
    }

    // Starts tasks of a batch one by one as long as they fit; removes the batch when it is empty.
    fn start_batch(
        &mut self,
        now: Timestamp,
        key: QueuePlace,
        kept: u64,
        null_left: &mut u32,
        effects: &mut Vec<Effect>,
    ) {
        let ends_at = self.ends_at();
        let life = self.config.life(self.started);
        let Some(batch) = self.queue.get_mut(&key) else { return };
        if let Some(storing) = self.storing.as_mut().filter(|_| !batch.objects.is_empty()) {
            storing.ahead.look_again();
        }
        let known = &self.templates[&batch.template];
        let Some(placed) = in_time(known, batch, life, now) else { return };
        if self.config.executor == Executor::Null && !batch.is_part {
            // What fits now fits again, for each ends at once; only parts of tasks on several nodes stay.
            let way = ways(known, placed, kept);
            let way = way.into_iter().find(|way| self.pools.take(&way.needs, &mut self.scratch));
            assert!(
                way.is_some() || kept != 0 || !self.running.is_empty(),
                "a task that this worker can run fits when nothing runs"
            );
            let Some(way) = way else { return };
            self.pools.free(&self.scratch);
            let count = u64::from(*null_left).min(batch.left.len());
            let ids = batch.left.take_first(count);
            for task in ids.iter() {
                // Each is admitted, started and ended by itself.
                let fits = self.pools.take(&way.needs, &mut self.scratch);
                assert!(fits, "a task that ended at once left room for the next one");
                self.pools.free(&self.scratch);
                let task = TaskRef::new(batch.template.job, task);
                self.reporting.finished(task, (batch.instance, None), now, Usage::default(), Vec::new());
            }
            *null_left -= count as u32;
            if !self.followers.is_empty() {
                let job = batch.template.job;
                ids.iter().for_each(|task| self.leader_ended(TaskRef::new(job, task), Some(&[])));
            }
        } else {
            while let Some(batch) = self.queue.get_mut(&key)
                && let Some(id) = batch.left.first()
            {
                let known = &self.templates[&batch.template];
                let requests = &known.template.spec.requests;
                // An attempt that is being ended still has the task, or the whole node.
                let (runs, task) = (&self.running, TaskRef::new(batch.template.job, id));
                let is_beside = requests.iter().all(Request::takes_nothing);
                if runs.contains_key(&task)
                    || self.armed.contains_key(&task)
                    || (!is_beside && runs.values().any(|run| run.has_node))
                {
                    break;
                }
                let is_unused = || runs.values().all(|run| run.takes_nothing);
                let mut grant = Grant::default();
                let mut ranks = Vec::new();
                let pools = &mut self.pools;
                let chosen = ways(known, placed, kept)
                    .map(|way| (way, &requests[way.variant as usize]))
                    .filter(|(_, request)| {
                        let fits = !request.takes_whole_nodes() || is_unused();
                        mark!("ranks wait for the rest of their node", request.ranks > 0 && !fits);
                        fits
                    })
                    .filter(|(_, request)| batch.is_part || has_time(life, now, request))
                    .find(|(way, request)| match request.ranks {
                        0 => pools.take(&way.needs, &mut grant),
                        count => {
                            ranks = take_ranks(pools, &way.needs, count);
                            !ranks.is_empty()
                        }
                    });
                let Some((way, _)) = chosen else { break };
                let variant = way.variant;
                let mut start = start_of(known, batch, id, variant, &grant, &ranks);
                // A part of one that has ranks on several nodes runs where its rank 0 is.
                if known.template.spec.body.function().is_some() && !batch.is_part {
                    match self.runners.take(now, &start, effects) {
                        Ok(runs_in) => start.runs_in = Some(runs_in),
                        Err(no_runner) => {
                            ranks.iter().chain([&grant]).for_each(|given| self.pools.free(given));
                            let NoRunner::Broken(why) = no_runner else { break };
                            batch.left.remove(id);
                            self.environment_is_broken(now, key, id, variant, why, effects);
                            continue;
                        }
                    }
                }
                self.runners.make_way(ranks.iter().chain([&grant]), effects);
                batch.left.remove(id);
                let runner = start.runs_in.map(|runs_in| runs_in.runner);
                effects.push(Effect::Start(start));
                let entered = Entered::of(batch, variant, grant, ranks).called_in(runner);
                self.enter(now, ends_at, task, entered);
            }
        }
        self.drop_if_empty(key);
    }

    // A function cannot be called here: it ends with that.
    fn environment_is_broken(
        &mut self,
        now: Timestamp,
        key: QueuePlace,
        id: TaskId,
        variant: u32,
        why: String,
        effects: &mut Vec<Effect>,
    ) {
        let batch = &self.queue[&key];
        let task = TaskRef::new(batch.template.job, id);
        let entered = Entered::of(batch, variant, Grant::default(), Vec::new());
        self.enter(now, None, task, entered);
        let outcome = Outcome::Failed(FailureKind::Start, why);
        self.task_ended(now, task, outcome, (Usage::default(), ByteString::new()), effects);
    }

    /// A task has begun to run.
    pub(super) fn enter(
        &mut self,
        now: Timestamp,
        ends_at: Option<Timestamp>,
        task: TaskRef,
        entered: Entered,
    ) {
        let Entered { template, instance, is_part, variant, grant, ranks, runner } = entered;
        let spec = &self.templates[&template].template.spec;
        let request = &spec.requests[variant as usize];
        // The one that runs the program has an eye on the time.
        let limit = spec.time_limit.filter(|_| !is_part).map(|limit| now.after(limit));
        limit.into_iter().for_each(|at| self.deadlines.insert(at, task, Deadline::TimeLimit));
        // It is warned of its own limit, and of the end of this worker if that comes first.
        if let (Some(end), Some(warning)) = (limit.into_iter().chain(ends_at).min(), spec.warning)
            && !is_part
        {
            let before = u64::try_from(warning.before.as_micros()).unwrap_or(u64::MAX);
            let at = Timestamp(end.0.saturating_sub(before)).max(now);
            self.deadlines.insert(at, task, Deadline::Warning);
        }
        let run = Running {
            instance,
            template,
            variant: (spec.requests.len() > 1).then_some(variant),
            grant,
            ranks,
            is_part,
            has_node: request.takes_whole_nodes(),
            takes_nothing: request.takes_nothing(),
            follower: None,
            since: now,
            runner,
            promised_until: now.after(request.time_request),
            lease_until: None,
            ending: None,
            has_exited: false,
        };
        self.promised_until = self.promised_until.max(run.promised_until);
        let before = self.running.insert(task, run);
        assert!(before.is_none(), "a task runs once at a time: {task}");
        if is_part {
            return;
        }
        if self.arms {
            self.begun.push(task);
        }
        if !self.reporting.has_news() {
            self.starts_due = now.after(STARTS_INTERVAL);
        }
        self.reporting.started(task);
    }
}

/// A task that begins to run.
pub(super) struct Entered {
    template: TemplateId,
    instance: Instance,
    is_part: bool,
    variant: u32,
    grant: Grant,
    ranks: Vec<Grant>,
    runner: Option<RunnerId>,
}

impl Entered {
    /// One of a batch.
    pub(super) fn of(batch: &Batch, variant: u32, grant: Grant, ranks: Vec<Grant>) -> Entered {
        let Batch { template, instance, is_part, .. } = *batch;
        Entered { template, instance, is_part, variant, grant, ranks, runner: None }
    }

    /// The same, of a function.
    pub(super) fn called_in(self, runner: Option<RunnerId>) -> Entered {
        Entered { runner, ..self }
    }
}

/// What is said of a task of a batch to whoever starts it.
pub(super) fn start_of(
    known: &Known,
    batch: &Batch,
    id: TaskId,
    variant: u32,
    grant: &Grant,
    ranks: &[Grant],
) -> Start {
    let rank = if batch.entries.is_empty() { None } else { batch.all.rank(id) };
    Start {
        task: TaskRef::new(batch.template.job, id),
        instance: batch.instance,
        template: known.template.clone(),
        entry: rank.and_then(|rank| batch.entries.get(rank as usize)).map(|entry| Entry::new(entry.to_vec())),
        services: batch.services.clone(),
        inputs: batch.inputs_of(id),
        objects: batch.objects_of(id),
        variant,
        grant: grant.clone(),
        ranks: ranks.to_vec(),
        nodes: batch.nodes.clone(),
        is_part: batch.is_part,
        runs_in: None,
    }
}

pub(super) fn has_time(life: Option<Life>, now: Timestamp, request: &Request) -> bool {
    life.is_none_or(|life| life.has(now, request.time_request))
}

/// As which variant tasks are to start, or as any. `None` when it is too late for all of them: they hold up nobody, and the
/// server asks for them.
pub(super) fn in_time(
    known: &Known,
    batch: &Batch,
    life: Option<Life>,
    now: Timestamp,
) -> Option<Option<u32>> {
    if known.last_start.is_some_and(|last| last < now) && !batch.is_part {
        return None;
    }
    let requests = &known.template.spec.requests;
    let is_late = |variant: u32| !batch.is_part && !has_time(life, now, &requests[variant as usize]);
    let placed = batch.variant.filter(|variant| !is_late(*variant));
    ways(known, placed, 0).any(|way| !is_late(way.variant)).then_some(placed)
}

/// As what a task can start that was placed as this variant, or as whichever fits, where pools are kept for others.
pub(super) fn ways(known: &Known, variant: Option<u32>, kept: u64) -> impl Iterator<Item = &Way> {
    let may = move |way: &&Way| variant.is_none_or(|variant| way.variant == variant) && way.pools & kept == 0;
    known.ways.iter().filter(may)
}

// What each of so many ranks has; nothing when not all of them fit.
fn take_ranks(pools: &mut Pools, needs: &ResolvedRequest, count: u32) -> Vec<Grant> {
    let mut ranks = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let mut rank = Grant::default();
        if !pools.take(needs, &mut rank) {
            ranks.iter().for_each(|rank| pools.free(rank));
            return Vec::new();
        }
        ranks.push(rank);
    }
    ranks
}
