//! Tasks on several nodes: they start when enough workers of one group are free at once, all of which they hold until
//! they end.
//!
//! Such a task is leased to its first worker, which runs its program; the others hold a part of it, which ends when the
//! server says so. Where workers start ranks, the task ends with any of its nodes; else it goes on without those whose
//! workers are gone, as long as the first one lives.
//!
//! While a task waits for nodes that are busy, workers are kept free for it: those of the group that can give it enough of
//! them soonest. They get nothing more of its priority or below. Where tasks of higher priority wait for one of the nodes
//! that it needs, its turn is yet to come, and nothing is kept for it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hq_model::{IdSet, JobId, Request, TaskId, TaskRef, TaskState, Timestamp, WorkerId};

use super::capacity::Needs;
use super::job::Job;
use super::lease::Lease;
use super::live::{Choice, Held, LiveWorker};
use super::machine::Server;
use super::queue::{ClassId, Place};
use super::workers::Ran;
use super::{Effect, Gate};
use crate::keeping::by_preference;
use crate::limits::{HIGHER_LOOKED_AT_MAX, MULTI_NODE_CLASSES_MAX, RESERVATIONS_MAX};
use crate::mark;
use crate::record::{Record, RestartCause};
use crate::worker_messages::{TaskNode, TemplateId, ToWorker};

/// How far classes on several nodes have been looked at in one round.
#[derive(Debug, Default)]
pub(super) struct MultiNodeRound {
    last: Option<Place>,
    looked_at: usize,
    reservations: usize,
}

/// Workers of a task, and what it takes of each.
type Nodes = Vec<(WorkerId, Needs)>;

// What can be done for the first task of a class.
enum Found {
    Free { nodes: Nodes, is_whole: bool, variant: Option<u32> },
    Busy(Vec<WorkerId>),
    // Others wait for some of its nodes, and go before it there.
    GoesBehind,
    Nowhere,
}

// A worker that could be one of the nodes of a task.
struct Candidate {
    worker: WorkerId,
    needs: Needs,
    room: i64,
    is_free: bool,
    // Others wait for it, and go first there.
    is_wanted: bool,
    // Kept free for its class before.
    was_reserved: bool,
    held: u64,
}

/// What a task on several nodes takes of one of them.
pub(super) struct NodeNeeds<'a> {
    pub(super) priority: i32,
    pub(super) needs: &'a Needs,
    pub(super) is_whole: bool,
}

impl NodeNeeds<'_> {
    /// A ready task of higher priority, run in this way, waits there for what this one would take.
    pub(super) fn goes_behind(&self, now: Timestamp, live: &LiveWorker, other: &Choice) -> bool {
        let is_short = self.is_whole || live.capacity().scarce(&other.needs) & self.needs.pools() != 0;
        is_short && live.has_time(now, other.time_request)
    }

    /// Tasks of higher priority have been handed to that worker, and wait there.
    pub(super) fn waits_behind_backlog(&self, live: &LiveWorker) -> bool {
        self.is_whole && self.priority.checked_add(1).is_some_and(|higher| live.waits_before(higher))
    }
}

/// A task on several nodes and its workers, before a record that may end it.
pub(super) type Together = Vec<(JobId, TaskId, Vec<WorkerId>)>;

/// Workers that are kept free for tasks on several nodes, with the priority and the class of these.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    now: BTreeMap<WorkerId, (i32, ClassId)>,
    // In the round before.
    before: BTreeMap<WorkerId, (i32, ClassId)>,
}

impl Reservations {
    /// How many workers are kept free.
    pub(super) fn count(&self) -> usize {
        self.now.len()
    }
}

impl Server {
    /// Forgets for whom workers are kept free; they are looked at again in this round.
    pub(super) fn end_reservations(&mut self) -> BTreeSet<WorkerId> {
        let reserved = std::mem::take(&mut self.reservations.now);
        for worker in reserved.keys() {
            if let Some(live) = self.live.get_mut(worker) {
                live.reserved = None;
            }
        }
        let workers = reserved.keys().copied().collect();
        self.reservations.before = reserved;
        workers
    }

    /// Of tasks that were not looked at in this round, because others of this priority wait for a plan, workers are kept
    /// free as before.
    pub(super) fn keep_reservations(&mut self, contended: i32) {
        for (worker, kept_for) in &self.reservations.before {
            if let Some(live) = self.live.get_mut(worker)
                && kept_for.0 <= contended
                && live.reserved.is_none()
            {
                live.reserved = Some(kept_for.0);
                self.reservations.now.insert(*worker, *kept_for);
            }
        }
    }

    /// Starts what can start of the classes on several nodes down to a priority, and keeps workers free for what
    /// cannot.
    pub(super) fn place_multi_node(
        &mut self,
        now: Timestamp,
        down_to: i32,
        round: &mut MultiNodeRound,
        effects: &mut Vec<Effect>,
    ) {
        while round.looked_at < MULTI_NODE_CLASSES_MAX
            && let Some(place) = self.queue.next_multi_node(round.last)
            && place.0.0 >= down_to
        {
            round.last = Some(place);
            round.looked_at += 1;
            let class = place.4;
            while self.is_due(class) && self.queue.count(class) > 0 && self.share_room(class) > 0 {
                match self.find_nodes(now, class) {
                    Found::Free { nodes, is_whole, variant } => {
                        self.lease_nodes(now, class, nodes, (is_whole, variant), effects);
                    }
                    Found::Busy(workers) => {
                        if round.reservations < RESERVATIONS_MAX {
                            round.reservations += 1;
                            self.reserve((place.0.0, class), workers, effects);
                        }
                        break;
                    }
                    Found::GoesBehind | Found::Nowhere => break,
                }
            }
        }
    }

    // In the variant that is preferred: those with enough free workers before those whose workers are busy.
    fn find_nodes(&mut self, now: Timestamp, class: ClassId) -> Found {
        let mut busy = None;
        for rank in 0..self.queue.key(class).requests.len() {
            match self.find_nodes_as(now, class, rank) {
                Found::Busy(workers) => {
                    busy.get_or_insert(workers);
                }
                Found::GoesBehind | Found::Nowhere => {}
                free @ Found::Free { .. } => return free,
            }
        }
        busy.map_or(Found::Nowhere, Found::Busy)
    }

    fn find_nodes_as(&mut self, now: Timestamp, class: ClassId, rank: usize) -> Found {
        let key = self.queue.key(class);
        let Some(&variant) = by_preference(&key.requests).get(rank) else { return Found::Nowhere };
        let request = &key.requests[variant as usize];
        let (count, is_whole) = (request.nodes as usize, request.takes_whole_nodes());
        let head = self.queue.head(class);
        let first = head.and_then(|(_, template)| Some((template, self.queue.head_ids(class)?.first()?)));
        let higher = self.higher_within_worker(key.priority);
        let mut groups: BTreeMap<&str, Vec<Candidate>> = BTreeMap::new();
        for (worker, live) in &mut self.live {
            if !live.has_time(now, request.time_request) || !live.is_open() || live.reserved.is_some() {
                continue;
            }
            let choices = live.choices(class, &key.requests);
            let Some(choice) = choices.iter().find(|choice| choice.rank == rank) else { continue };
            let needs = choice.needs.clone();
            let has_it = first.is_some_and(|(template, task)| {
                live.held().get(&template).is_some_and(|held| held.ids.contains(task))
            });
            let room = live.capacity().room(&needs);
            let is_kept = live.kept_from(now, key.priority, &needs).is_some();
            let is_free = room > 0
                && live.takes_tasks()
                && !is_kept
                && !has_it
                && (!is_whole || live.held().values().all(Held::takes_nothing))
                && is_used_enough(live, &needs);
            let own = NodeNeeds { priority: key.priority, needs: &needs, is_whole };
            let is_wanted = !is_free
                && (own.waits_behind_backlog(live)
                    || higher.iter().any(|other| {
                        let requests = &self.queue.key(*other).requests;
                        live.choices(*other, requests);
                        live.known_choices(*other).iter().any(|choice| own.goes_behind(now, live, choice))
                    }));
            // For whom counts: else two classes change places in each round, and none gets what it waits for.
            let kept_for = self.reservations.before.get(worker);
            let was_reserved = kept_for.is_some_and(|kept_for| kept_for.1 == class);
            mark!("a node was kept for another class", kept_for.is_some() && !was_reserved);
            let held = live.held().values().map(|held| held.ids.len()).sum();
            let candidate =
                Candidate { worker: *worker, needs, room, is_free, is_wanted, was_reserved, held };
            groups.entry(&live.group).or_default().push(candidate);
        }
        groups.retain(|_, workers| workers.len() >= count);
        let free = |workers: &[Candidate]| workers.iter().filter(|candidate| candidate.is_free).count();
        // Where enough are free, and fewest are left over.
        let fits = groups.iter().filter(|(_, workers)| free(workers) >= count);
        if let Some((_, workers)) = fits.min_by_key(|(_, workers)| free(workers)) {
            let mut free: Vec<&Candidate> = workers.iter().filter(|candidate| candidate.is_free).collect();
            free.sort_by_key(|candidate| (candidate.room, candidate.worker));
            free.truncate(count);
            free.sort_by_key(|candidate| candidate.worker);
            let nodes = free.into_iter().map(|candidate| (candidate.worker, candidate.needs.clone()));
            return Found::Free { nodes: nodes.collect(), is_whole, variant: Some(variant) };
        }
        let Some(workers) = groups.into_values().max_by_key(|workers| {
            let wanted = workers.iter().filter(|candidate| candidate.is_wanted).count();
            let reserved = workers.iter().filter(|candidate| candidate.was_reserved).count();
            (workers.len() - wanted >= count, free(workers), reserved)
        }) else {
            return Found::Nowhere;
        };
        let is_wanted = |id: &WorkerId| workers.iter().any(|other| other.worker == *id && other.is_wanted);
        let nodes = self.nodes_of_one_task(&workers, count).unwrap_or_else(|| {
            let mut order: Vec<&Candidate> = workers.iter().collect();
            order.sort_unstable_by_key(|candidate| {
                let Candidate { worker, is_free, is_wanted, was_reserved, held, .. } = candidate;
                (*is_wanted, !is_free, !was_reserved, *held, *worker)
            });
            order.into_iter().take(count).map(|candidate| candidate.worker).collect()
        });
        if nodes.iter().any(is_wanted) {
            mark!("others go first on a node of a task on several");
            return Found::GoesBehind;
        }
        Found::Busy(nodes)
    }

    /// Classes within one worker that go before a task on several nodes: the first of those of higher priority with ready tasks
    /// that may start.
    pub(super) fn higher_within_worker(&self, priority: i32) -> Vec<ClassId> {
        let waiting = self.queue.within_worker_above(priority).take(HIGHER_LOOKED_AT_MAX);
        waiting.map(|(_, class)| class).filter(|class| self.share_room(*class) > 0).collect()
    }

    // Where such a task has to wait for another one, the nodes of that one: they come free together, and what is free now is
    // of use to others meanwhile. Of several, those kept before, or of the task that has run longest.
    fn nodes_of_one_task(&self, workers: &[Candidate], count: usize) -> Option<Vec<WorkerId>> {
        let mut taken: BTreeMap<TaskRef, Vec<&Candidate>> = BTreeMap::new();
        for candidate in workers {
            let live = self.live.get(&candidate.worker)?;
            let Some(template) = live.whole else { continue };
            let Some(task) = live.held().get(&template).and_then(|held| held.ids.first()) else { continue };
            taken.entry(TaskRef::new(template.job, task)).or_default().push(candidate);
        }
        let others = workers.len() - taken.values().map(Vec::len).sum::<usize>();
        if others >= count {
            return None;
        }
        let enough = taken.into_iter().filter(|(_, nodes)| nodes.len() >= count);
        let (_, nodes) = enough.min_by_key(|(task, nodes)| {
            let was_reserved = nodes.iter().filter(|candidate| candidate.was_reserved).count();
            let runs = self.running.of(task.job, task.task);
            (Reverse(was_reserved), runs.map_or(Timestamp(u64::MAX), |run| run.since))
        })?;
        Some(nodes.into_iter().map(|candidate| candidate.worker).take(count).collect())
    }

    // They get no more, and what waits there goes elsewhere.
    fn reserve(&mut self, kept_for: (i32, ClassId), workers: Vec<WorkerId>, effects: &mut Vec<Effect>) {
        let priority = kept_for.0;
        for worker in workers {
            let Some(live) = self.live.get_mut(&worker) else { continue };
            live.reserved = Some(priority);
            self.reservations.now.insert(worker, kept_for);
            if live.has_backlog() {
                let may_wait = |template: &TemplateId| {
                    let class = self.classes.get(template);
                    class.is_some_and(|class| self.queue.key(*class).priority <= priority)
                };
                let waiting = live.held().iter();
                let waiting =
                    waiting.filter(|(template, held)| held.retracting.is_empty() && may_wait(template));
                let waiting: Vec<(TemplateId, u64)> =
                    waiting.map(|(template, held)| (*template, held.waiting.len())).collect();
                for (template, count) in waiting {
                    self.retract(worker, template, count, effects);
                }
            }
        }
    }

    fn lease_nodes(
        &mut self,
        now: Timestamp,
        class: ClassId,
        nodes: Nodes,
        (is_whole, variant): (bool, Option<u32>),
        effects: &mut Vec<Effect>,
    ) {
        let Some((template, ids)) = self.queue.take(class, 1) else { return };
        let Some(task) = ids.first() else { return };
        self.shares.hand_out(self.shared_by(class), 1);
        let workers: Vec<WorkerId> = nodes.iter().map(|node| node.0).collect();
        let services = self.by_services(template, &ids).pop().unwrap_or_default().0;
        self.record(now, Record::LeasedNodes { job: template.job, task, workers: workers.clone() }, effects);
        let instance = self.state.jobs[&template.job].instance_of(task);
        let all: Vec<TaskNode> = workers.iter().map(|worker| self.task_node(*worker)).collect();
        let mut objects = self.objects_for(workers[0], template, &ids);
        let gate = self.gate_of_run(&[template]);
        for (at, (worker, needs)) in nodes.iter().enumerate() {
            let Some(live) = self.live.get_mut(worker) else { continue };
            if live.is_idle_and_picky() {
                // Now that it begins it takes others, too.
                mark!("a picky worker begins with a part of a task");
                self.changes.of_worker(*worker);
            }
            if cfg!(debug_assertions) && is_whole {
                for feeder in live.held().keys() {
                    let fed = self.state.feeders.get(&feeder.job).and_then(|fed| self.state.jobs.get(fed));
                    let reducer = fed.and_then(|fed| fed.feed.as_ref()?.reducer);
                    mark!("a whole node is given beside a reducer", reducer == Some(feeder.job));
                    mark!(
                        "a whole node is given beside a generator",
                        fed.is_some() && reducer != Some(feeder.job)
                    );
                }
            }
            live.place(template, Some(needs), &ids);
            live.whole = is_whole.then_some(template);
            let lease = Lease {
                variant,
                services: services.clone(),
                nodes: if at == 0 { all.clone() } else { all[..1].to_vec() },
                // The first one runs the program.
                objects: std::mem::take(&mut objects),
                ..Lease::of(template, ids.clone(), instance)
            };
            let run = self.told(*worker, lease).into_iter().collect();
            self.send_run(*worker, run, gate, effects);
        }
    }

    pub(super) fn task_node(&self, worker: WorkerId) -> TaskNode {
        let config = &self.state.workers[&worker].config;
        TaskNode { worker, hostname: config.hostname.clone(), address: config.listen_address.clone() }
    }

    /// Tasks on several nodes that a record may end, with their workers.
    pub(super) fn together_before(&self, record: &Record) -> Together {
        let (id, ids) = match record {
            Record::Finished { span, .. } => (span.job, &span.ids),
            Record::Failed { job, failure } => (*job, &IdSet::single(failure.task)),
            Record::Canceled { job, ids, .. }
            | Record::Aborted { job, ids, .. }
            | Record::Returned { job, ids, .. }
            | Record::Restarted { job, ids, .. } => (*job, ids),
            _ => return Together::new(),
        };
        let Some(job) = self.state.jobs.get(&id).filter(|job| !job.nodes.is_empty()) else {
            return Together::new();
        };
        let affected = job.nodes.iter().filter(|(task, _)| ids.contains(**task));
        affected.map(|(task, workers)| (id, *task, workers.clone())).collect()
    }

    /// Those of them that have ended or run again: whoever still has a part of them is told to end it.
    pub(super) fn end_together(&mut self, together: Together, effects: &mut Vec<Effect>) {
        for (id, task, workers) in together {
            let Some(submit) = self.state.jobs.get(&id).and_then(|job| job.submit_of(task)) else { continue };
            if self.state.jobs[&id].nodes.contains_key(&task) {
                continue;
            }
            let template = TemplateId { job: id, submit };
            let state = self.state.jobs[&id].state_of(task);
            let are_elsewhere =
                !matches!(state, Some(TaskState::Failed | TaskState::Canceled | TaskState::Aborted));
            for worker in workers {
                let live = self.live.get(&worker);
                let has_it = |live: &&LiveWorker| {
                    live.held().get(&template).is_some_and(|held| held.ids.contains(task))
                };
                if let Some(connection) = live.filter(has_it).and_then(|live| live.connection) {
                    let message = ToWorker::Cancel { job: id, ids: IdSet::single(task), are_elsewhere };
                    effects.push(Effect::ToWorker { connection, message, gate: Gate::Written });
                }
            }
        }
    }

    /// True when a worker has a part of a task that another worker leads.
    pub(super) fn is_part(&self, worker: WorkerId, id: JobId, task: TaskId) -> bool {
        let workers = self.state.jobs.get(&id).and_then(|job| job.nodes.get(&task));
        workers.is_some_and(|workers| workers[1..].contains(&worker))
    }

    /// A worker of a task on several nodes that is not connected.
    pub(super) fn missing_node(&self, id: JobId, task: TaskId) -> Option<WorkerId> {
        let workers = self.state.jobs.get(&id)?.nodes.get(&task)?;
        let is_missing =
            |worker: &&WorkerId| self.live.get(worker).is_none_or(|live| live.connection.is_none());
        workers.iter().find(is_missing).copied()
    }

    /// Those of some tasks of which a worker has a part that another worker leads.
    pub(super) fn parts_among(&self, worker: WorkerId, id: JobId, ids: &IdSet) -> IdSet {
        let job = self.state.jobs.get(&id);
        job.map_or_else(IdSet::new, |job| job.parts_on(worker).intersection(ids))
    }

    /// As [`Server::parts_among`], when the worker does not have them any more: without those of tasks that go on, because
    /// it leaves and nothing runs on it that their programs need.
    pub(super) fn parts_lost_among(&self, worker: WorkerId, id: JobId, ids: &IdSet) -> IdSet {
        let leaves = self.live.get(&worker).is_none_or(|live| live.is_draining || live.end.is_some());
        let Some(job) = self.state.jobs.get(&id) else { return IdSet::new() };
        let parts = if leaves { job.parts_needed_on(worker) } else { job.parts_on(worker) };
        parts.intersection(ids)
    }

    /// A worker gives back tasks that it has not started, `leased` of which are leased to it: those on several nodes
    /// cannot go on without it. Returns the others that are leased to it.
    pub(super) fn lose_parts(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        id: JobId,
        ids: &IdSet,
        leased: IdSet,
        effects: &mut Vec<Effect>,
    ) -> IdSet {
        let Some(job) = self.state.jobs.get(&id).filter(|job| !job.nodes.is_empty()) else { return leased };
        let led: IdSet = job.nodes.keys().copied().filter(|task| leased.contains(*task)).collect();
        let parts = self.parts_lost_among(worker, id, ids);
        self.restart(now, id, &led, RestartCause::Left, effects);
        // Their first workers may have started them.
        self.lose_running(now, worker, id, &parts, (RestartCause::Left, Ran::Perhaps), effects);
        leased.difference(&led)
    }

    /// A task on several nodes that a worker is one of, and the first of these.
    pub(super) fn multi_node_of(&self, worker: WorkerId, live: &LiveWorker) -> Option<(TaskRef, WorkerId)> {
        live.held().iter().find_map(|(template, held)| {
            let nodes = &self.state.jobs.get(&template.job)?.nodes;
            let mut here = held.ids.iter().filter_map(|task| Some((task, nodes.get(&task)?)));
            let (task, workers) = here.find(|(_, workers)| workers.contains(&worker))?;
            Some((TaskRef::new(template.job, task), workers[0]))
        })
    }

    /// True when tasks of higher priority wait for what a task on several nodes, run in one of these ways, takes of a worker.
    pub(super) fn go_before_on_node(
        &self,
        now: Timestamp,
        live: &LiveWorker,
        class: ClassId,
        ways: &[Choice],
    ) -> bool {
        let key = self.queue.key(class);
        let higher = self.higher_within_worker(key.priority);
        ways.iter().any(|way| {
            let is_whole = key.requests[way.variant as usize].takes_whole_nodes();
            let own = NodeNeeds { priority: key.priority, needs: &way.needs, is_whole };
            let waits = |other: &ClassId| {
                let others = live.ways(Some(*other), &self.queue.key(*other).requests);
                others.iter().any(|other| own.goes_behind(now, live, other))
            };
            own.waits_behind_backlog(live) || higher.iter().any(waits)
        })
    }

    /// Checks what is kept of tasks on several nodes.
    ///
    /// # Errors
    /// Says which rule is broken, where.
    pub(super) fn nodes_are_in_order(&self) -> Result<(), String> {
        for (id, job) in &self.state.jobs {
            for (task, workers) in &job.nodes {
                self.nodes_of_task_are_in_order(*id, job, *task, workers)?;
            }
        }
        for (worker, kept_for) in &self.reservations.now {
            if self.live.get(worker).is_some_and(|live| live.reserved != Some(kept_for.0)) {
                return Err(format!("worker {worker} is kept free and does not know it"));
            }
        }
        Ok(())
    }

    /// Looks for workers that are kept free for a task that waits for others on some of its nodes: for the simulator, after the
    /// machine has settled.
    ///
    /// # Errors
    /// Names the worker and the class.
    pub(super) fn nothing_is_kept_behind_others(&self, now: Timestamp) -> Result<(), String> {
        for (worker, (priority, class)) in &self.reservations.now {
            let is_looked_at = self.queue.knows(*class) && self.is_due(*class);
            let Some(live) = self.live.get(worker).filter(|_| is_looked_at) else { continue };
            let ways = live.ways(Some(*class), &self.queue.key(*class).requests);
            // What is free lacks nothing: who waits and fits there does so for another reason.
            let is_busy = ways.iter().all(|way| live.capacity().room(&way.needs) <= 0);
            if is_busy && ways.len() == 1 && self.go_before_on_node(now, live, *class, &ways) {
                return Err(format!(
                    "worker {worker} is kept for a task of priority {priority}, before which others go there"
                ));
            }
        }
        Ok(())
    }

    fn nodes_of_task_are_in_order(
        &self,
        id: JobId,
        job: &Job,
        task: TaskId,
        workers: &[WorkerId],
    ) -> Result<(), String> {
        let is_leased = job.leased.get(&workers[0]).is_some_and(|leased| leased.contains(task));
        let distinct: BTreeSet<&WorkerId> = workers.iter().collect();
        if !is_leased || distinct.len() != workers.len() {
            return Err(format!("task {id}@{task} is on {workers:?}, leased are {:?}", job.leased));
        }
        let submit = job.submit_of(task).unwrap_or_default();
        let template = TemplateId { job: id, submit };
        let requests = &job.submits[submit as usize].task.requests;
        let is_whole = requests.iter().all(Request::takes_whole_nodes);
        for worker in workers {
            let goes_on = *worker != workers[0] && !job.parts_needed_on(*worker).contains(task);
            let Some(live) = self.live.get(worker) else {
                if goes_on {
                    continue;
                }
                return Err(format!("task {id}@{task} is on worker {worker}, which is gone"));
            };
            if live.connection.is_none() || live.reconcile_at.is_some() || live.is_draining && goes_on {
                continue;
            }
            if !live.held().get(&template).is_some_and(|held| held.ids.contains(task)) {
                return Err(format!("task {id}@{task} is on worker {worker}, which does not hold it"));
            }
            let taking = live.held().values().filter(|held| !held.takes_nothing());
            let others: u64 = taking.map(|held| held.ids.len()).sum();
            if is_whole && others != 1 {
                return Err(format!(
                    "task {id}@{task} has worker {worker} for itself, which holds {others} tasks"
                ));
            }
        }
        Ok(())
    }
}

impl Job {
    /// Tasks of which a worker has a part that another worker leads.
    pub fn parts_on(&self, worker: WorkerId) -> IdSet {
        let parts = self.nodes.iter().filter(|(_, workers)| workers[1..].contains(&worker));
        parts.map(|(task, _)| *task).collect()
    }

    /// Those of them that cannot go on without that worker: it runs ranks of theirs.
    pub fn parts_needed_on(&self, worker: WorkerId) -> IdSet {
        let parts = self.parts_on(worker);
        let starts_ranks = |task: &TaskId| {
            let submit = self.submit_of(*task).and_then(|submit| self.submits.get(submit as usize));
            submit.is_none_or(|submit| submit.task.starts_ranks())
        };
        parts.iter().filter(starts_ranks).collect()
    }

    /// Those of some tasks that are on several nodes, with their workers.
    pub(super) fn nodes_of(&self, ids: &IdSet) -> Vec<(TaskId, Vec<WorkerId>)> {
        let nodes = self.nodes.iter().filter(|(task, _)| ids.contains(**task));
        nodes.map(|(task, workers)| (*task, workers.clone())).collect()
    }
}

// A worker that is idle may want to start only when enough of it is used.
fn is_used_enough(live: &LiveWorker, needs: &Needs) -> bool {
    if !live.is_idle_and_picky() {
        return true;
    }
    let mut used = live.capacity().clone();
    used.promise(needs, 1);
    used.used_cpus() >= u64::from(live.min_utilization)
}
