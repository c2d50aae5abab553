//! Followers: the only task that waits for another one, and for nothing else, is handed to the worker of that one before it is
//! ready, and so is what follows that one, unless something waits for room that goes before the first of them. Each starts there
//! as soon as the one before it has ended well, in its place among what waits there, so that a chain of tasks waits neither for
//! its server between two links nor for others.
//!
//! A follower is leased and blocked at once, which can be told from the durable state. Nothing of the worker is promised
//! to it before it is ready.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hq_model::task::CrashLimit;
use hq_model::{IdSet, Instance, JobId, TaskId, TaskRef, Timestamp, WorkerId};

use super::machine::Server;
use super::queue::Place;
use super::{ConnectionId, Effect, Gate};
use crate::client_messages::{ClientRequest, ClientResponse, RequestError};
use crate::limits::DEFERRALS_MAX;
use crate::record::Record;
use crate::worker_messages::{RunBatch, TemplateId, ToWorker};

/// Tasks that are handed out before they are ready.
#[derive(Clone, Debug, Default)]
pub(super) struct Followers {
    // Where each one is.
    on: BTreeMap<TaskRef, WorkerId>,
    // Who came first of those that wait for room, as known when they were looked at last.
    before: Option<Place>,
    // What was handed out, or became ready where it was, and may be followed.
    leaders: Vec<(WorkerId, JobId, IdSet)>,
    // Tasks that want to be put back when their followers are here again.
    deferrals: Vec<(ConnectionId, u64, ClientRequest)>,
}

impl Followers {
    /// Those of the tasks of a job that wait on a worker.
    pub(super) fn on_worker(&self, worker: WorkerId, job: JobId, ids: &IdSet) -> IdSet {
        self.among(job, ids).filter(|(_, on)| *on == worker).map(|(task, _)| task.task).collect()
    }

    fn among(&self, job: JobId, ids: &IdSet) -> impl Iterator<Item = (TaskRef, WorkerId)> {
        let task = move |id: &u32| TaskRef::new(job, TaskId(*id));
        let found =
            ids.ranges().flat_map(move |range| self.on.range(task(range.start())..=task(range.end())));
        found.map(|(task, worker)| (*task, *worker))
    }

    pub(super) fn any(&self) -> bool {
        !self.on.is_empty()
    }

    /// How many they are.
    pub(super) fn count(&self) -> u64 {
        self.on.len() as u64
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (TaskRef, WorkerId)> {
        self.on.iter().map(|(task, worker)| (*task, *worker))
    }

    pub(super) fn forget_client(&mut self, connection: ConnectionId) {
        self.deferrals.retain(|deferral| deferral.0 != connection);
    }
}

impl Server {
    /// A worker that has come back has these, and nobody has asked it since.
    pub(super) fn hold_followers(&mut self, worker: WorkerId, template: TemplateId, ids: &IdSet) {
        if let Some(live) = self.live.get_mut(&worker).filter(|_| !ids.is_empty()) {
            live.hold_follower(template, ids);
            live.learns(template);
            // It is to be looked at anew.
            self.followers.before = None;
        }
    }

    /// Finds those of before a restart.
    pub(super) fn find_followers(&mut self) {
        self.followers.on = self.leased_and_blocked();
    }

    /// All followers with their workers, told from the state and from who waits.
    pub(super) fn leased_and_blocked(&self) -> BTreeMap<TaskRef, WorkerId> {
        let mut found = BTreeMap::new();
        for (id, job) in &self.state.jobs {
            let Some(blocked) = self.readiness.blocked(*id) else { continue };
            for (worker, leased) in &job.leased {
                let followers = leased.intersection(blocked);
                found.extend(followers.iter().map(|task| (TaskRef::new(*id, task), *worker)));
            }
        }
        found
    }

    /// Tasks were handed to a worker, or became ready there.
    pub(super) fn may_lead(&mut self, worker: WorkerId, job: JobId, ids: &IdSet) {
        if self.readiness.has_edges_from(job) {
            self.followers.leaders.push((worker, job, ids.clone()));
        }
    }

    /// Hands out followers where nothing waits for room that goes before what they follow, and takes back those of before that something
    /// goes before.
    pub(super) fn hand_out_followers(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let leaders = std::mem::take(&mut self.followers.leaders);
        let first = self.queue.first();
        let before = std::mem::replace(&mut self.followers.before, first);
        if first.is_some_and(|first| before.is_none_or(|before| first < before)) {
            let all: Vec<(TaskRef, WorkerId)> = self.followers.all().collect();
            let behind = all.into_iter().filter(|(task, _)| !self.goes_before_all(*task)).collect::<Vec<_>>();
            self.ask_followers_back(behind, effects);
        }
        for (worker, job, ids) in leaders {
            let mut run = Vec::new();
            for leader in self.readiness.leaders(job, &ids) {
                self.hand_out_chain(now, worker, TaskRef::new(job, leader), &mut run, effects);
            }
            self.send_run(worker, run, Gate::Written, effects);
        }
    }

    // What follows a task, and what follows that, as far as the worker gets in a short time.
    fn hand_out_chain(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        first: TaskRef,
        run: &mut Vec<RunBatch>,
        effects: &mut Vec<Effect>,
    ) {
        // All of them as the first one: the end of a chain is shorter than what its begin went before.
        let Some(template) = self.template_of(first).filter(|_| self.goes_before_all(first)) else { return };
        let Some(class) = self.classes.get(&template) else { return };
        let Some(live) = self.live.get_mut(&worker) else { return };
        let choices = live.choices(*class, &self.queue.key(*class).requests);
        let Some(needs) = choices.first().map(|choice| choice.needs.clone()) else { return };
        let count = live.followers_target(template, live.capacity().slots(&needs));
        let mut leader = first;
        for _ in 0..count {
            let Some(follower) = self.readiness.follower(leader) else { return };
            if !self.followers.on.contains_key(&follower) {
                let Some((template, instance)) = self.may_follow(worker, leader, follower) else { return };
                // Nothing of its submit may have been ready before.
                let _ = self.class_of(template);
                let ids = IdSet::single(follower.task);
                if let Some(live) = self.live.get_mut(&worker) {
                    live.hold_follower(template, &ids);
                }
                self.followers.on.insert(follower, worker);
                let begin = run.len();
                self.lease(now, worker, (template, Reverse(None)), &ids, run, effects);
                run[begin..].iter_mut().for_each(|batch| batch.after = Some((leader.task, instance)));
            }
            leader = follower;
        }
    }

    // Before all that wait for room.
    fn goes_before_all(&self, task: TaskRef) -> bool {
        let Some(first) = self.followers.before else { return true };
        let Some(template) = self.template_of(task) else { return false };
        let Some(class) = self.classes.get(&template) else { return false };
        let groups = self.forecast.groups(&self.state, template, &IdSet::single(task.task));
        groups.first().is_some_and(|group| self.queue.place_as(*class, template, group.0) < first)
    }

    fn template_of(&self, task: TaskRef) -> Option<TemplateId> {
        let submit = self.state.jobs.get(&task.job)?.submit_of(task.task)?;
        Some(TemplateId { job: task.job, submit })
    }

    // The follower's template and the leader's instance, if one may follow the other on the worker.
    fn may_follow(
        &self,
        worker: WorkerId,
        leader: TaskRef,
        follower: TaskRef,
    ) -> Option<(TemplateId, Instance)> {
        let (job, live) = (self.state.jobs.get(&leader.job)?, self.live.get(&worker)?);
        let templates = [self.template_of(leader)?, self.template_of(follower)?];
        let [first, second] = templates.map(|template| &*job.submits[template.submit as usize].task);
        let [request] = &second.requests[..] else { return None };
        let is_alike = first.priority == second.priority && first.requests == second.requests;
        let is_plain = request.nodes == 0
            && request.ranks == 0
            && second.locality.is_none()
            && second.crash_limit != CrashLimit::NeverRestart
            && !first.service
            && second.input_objects.is_empty()
            && !job.spec.is_rationed();
        let lives = live.life.is_none() || request.time_request.is_zero();
        // One attempt alone, that may still end well.
        let leads = job.leased.get(&worker).is_some_and(|leased| leased.contains(leader.task))
            && !job.seconds.contains_key(&leader.task);
        // What a task waits for that has put itself back is forgotten when it is handed out.
        let is_late = job.delayed.contains_key(&follower.task) || job.deferred.contains_key(&follower.task);
        let waits = job.queued.contains(follower.task) && !is_late;
        let is_open = live.follows && live.takes(second.priority) && !live.has(follower);
        let has_arguments = match (first.body.is_packed_call(), second.body.is_packed_call()) {
            (false, false) => true,
            // The worker has what the first one returns. Of others it would be told by the server.
            (true, true) => {
                let may_take = live.stores || !job.submits[templates[1].submit as usize].needs_store();
                may_take
                    && live.follows_calls
                    && job.dependencies_of(leader.job, follower.task).iter().all(|after| {
                        after.job == leader.job && after.tasks.as_ref() == Some(&IdSet::single(leader.task))
                    })
            }
            // A call may return another one, with whose value it ends.
            (true, false) | (false, true) => false,
        };
        let may = is_alike && is_plain && has_arguments && lives && leads && waits && is_open;
        may.then(|| (templates[1], job.instance_of(leader.task)))
    }

    /// Those of the tasks, none of which waits for others any more, that are not with a worker already. What is there
    /// starts as soon as it fits.
    pub(super) fn not_followers(&mut self, now: Timestamp, id: JobId, mut ids: IdSet) -> IdSet {
        if self.followers.on.is_empty() {
            return ids;
        }
        let found: Vec<(TaskRef, WorkerId)> = self.followers.among(id, &ids).collect();
        for (task, worker) in found {
            self.followers.on.remove(&task);
            ids.remove(task.task);
            let single = IdSet::single(task.task);
            let template = self.template_of(task);
            // What a worker that is away had is held again when it is back.
            if let (Some(template), Some(live)) = (template, self.live.get_mut(&worker))
                && live.held().get(&template).is_some_and(|held| held.followers.contains(task.task))
            {
                live.forget_follower(template, &single);
                self.wait_on(now, worker, template, &single);
                self.presume_starts(now, worker);
                self.may_lead(worker, id, &single);
            }
        }
        ids
    }

    /// The leases of tasks have ended.
    pub(super) fn followers_end(&mut self, record: &Record) {
        if self.followers.on.is_empty() {
            return;
        }
        let single;
        let (job, ids) = match record {
            Record::Finished { span, .. } => (span.job, &span.ids),
            Record::Failed { job, failure } => {
                single = IdSet::single(failure.task);
                (*job, &single)
            }
            Record::Returned { job, ids, .. }
            | Record::Restarted { job, ids, .. }
            | Record::Canceled { job, ids, .. }
            | Record::Aborted { job, ids, .. } => (*job, ids),
            _ => return,
        };
        let ended: Vec<TaskRef> = self.followers.among(job, ids).map(|(task, _)| task).collect();
        for task in &ended {
            self.followers.on.remove(task);
        }
    }

    fn ask_followers_back(
        &mut self,
        followers: impl IntoIterator<Item = (TaskRef, WorkerId)>,
        effects: &mut Vec<Effect>,
    ) {
        let mut asked: BTreeMap<(WorkerId, JobId), IdSet> = BTreeMap::new();
        for (task, worker) in followers {
            let template = self.template_of(task);
            let Some(live) = self.live.get_mut(&worker).filter(|live| live.connection.is_some()) else {
                continue;
            };
            if template.is_some_and(|template| live.ask_follower_back(template, task.task)) {
                asked.entry((worker, task.job)).or_default().insert(task.task);
            }
        }
        for ((worker, job), ids) in asked {
            if let Some(connection) = self.live.get(&worker).and_then(|live| live.connection) {
                let message = ToWorker::Retract { job, ids };
                effects.push(Effect::ToWorker { connection, message, gate: Gate::Written });
            }
        }
    }

    fn followers_of(&self, task: TaskRef) -> BTreeSet<(TaskRef, WorkerId)> {
        let successors = self.readiness.successors(task);
        successors.filter_map(|task| Some((task, *self.followers.on.get(&task)?))).collect()
    }

    /// A task wants to be put back and may have a follower, which must not start when the present attempt ends: it is
    /// asked back first. Or it is one itself, of which the worker has not said yet that it has started. Returns what can
    /// be decided now.
    pub(super) fn without_follower(
        &mut self,
        connection: ConnectionId,
        request: u64,
        body: ClientRequest,
        effects: &mut Vec<Effect>,
    ) -> Option<ClientRequest> {
        let ClientRequest::Defer { task, .. } = &body else { return Some(body) };
        let followers = self.followers_of(*task);
        if followers.is_empty() && !self.followers.on.contains_key(task) {
            return Some(body);
        }
        if self.followers.deferrals.len() >= DEFERRALS_MAX {
            let text = format!("{DEFERRALS_MAX} tasks put themselves back already; try again.");
            let body = ClientResponse::Error(RequestError::Invalid(text));
            effects.push(Effect::Answer { connection, request, body, gate: Gate::Open });
            return None;
        }
        self.ask_followers_back(followers, effects);
        self.followers.deferrals.push((connection, request, body));
        None
    }

    /// Looks again at tasks that want to be put back.
    pub(super) fn put_back_without_followers(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.followers.deferrals.is_empty() {
            return;
        }
        for (connection, request, body) in std::mem::take(&mut self.followers.deferrals) {
            self.client_asks(now, connection, request, body, effects);
        }
        self.resolve_dependencies(now, effects);
    }
}
