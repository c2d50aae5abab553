//! The worker machine: takes what it is handed, starts what fits, ends what must end, reports.

mod followers;
mod greeting;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hq_model::worker::{Executor, OnServerLost, WorkerConfig};
use hq_model::{ByteString, Entries, IdSet, Instance, JobId, TaskRef, Timestamp, Usage, WorkerId};
use rustc_hash::FxHashMap;

use super::outside::Outside;
use super::pools::{Needs, Pools};
use super::reporting::Reporting;
use super::{Allocation, Effect, Input, Outcome};
use crate::limits::REPORT_INTERVAL;
use crate::record::{Failure, FailureKind};
use crate::worker_messages::{FromWorker, RunBatch, TaskNode, Template, TemplateId, ToWorker, WorkerEnd};

const SIGTERM: u8 = 15;
const SIGKILL: u8 = 9;

/// The worker's state machine.
#[derive(Debug)]
pub struct Worker {
    pub(super) config: WorkerConfig,
    pub(super) started: Timestamp,
    pub(super) id: Option<WorkerId>,
    pub(super) link: Link,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) pools: Pools,
    pub(super) templates: BTreeMap<TemplateId, Known>,
    // Larger priority first, then in order of arrival.
    pub(super) queue: BTreeMap<(Reverse<i32>, u64), Batch>,
    pub(super) arrivals: u64,
    // By the task that each waits for.
    pub(super) followers: BTreeMap<TaskRef, Batch>,
    // Looked up by task, never iterated.
    pub(super) running: FxHashMap<TaskRef, Running>,
    pub(super) deadlines: BTreeSet<(Timestamp, TaskRef, Deadline)>,
    pub(super) reporting: Reporting,
    // Failures that the end of the worker may explain.
    outside: Outside,
    pub(super) next_report: Timestamp,
    // When starts are to be reported, unless an end takes them along before.
    pub(super) starts_due: Timestamp,
    pub(super) next_heartbeat: Timestamp,
    pub(super) idle_since: Option<Timestamp>,
    pub(super) leaving: Option<WorkerEnd>,
    pub(super) has_left: bool,
    // Reused by the null executor.
    pub(super) scratch: Allocation,
    // Null tasks that would fit wait for the next round.
    pub(super) has_more: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Link {
    /// Not connected; since when.
    Down(Timestamp),
    /// Hello is said, the welcome is not there yet.
    Greeting,
    /// Welcome.
    Up,
}

#[derive(Debug)]
pub(super) struct Known {
    pub(super) template: Arc<Template>,
    // One a variant.
    pub(super) needs: Vec<Option<Needs>>,
    pub(super) mask: u64,
}

#[derive(Debug)]
pub(super) struct Batch {
    // When it came.
    pub(super) since: Timestamp,
    pub(super) priority: i32,
    pub(super) template: TemplateId,
    pub(super) instance: Instance,
    // As it came, for the entries.
    pub(super) all: IdSet,
    pub(super) left: IdSet,
    pub(super) entries: Entries,
    // Of a task on several nodes.
    pub(super) nodes: Vec<TaskNode>,
    // It is not the first of them: the program runs elsewhere.
    pub(super) is_part: bool,
    pub(super) services: Arc<Vec<(ByteString, ByteString)>>,
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) instance: Instance,
    pub(super) template: TemplateId,
    pub(super) allocation: Allocation,
    // What each of its ranks has.
    pub(super) ranks: Vec<Allocation>,
    // Held for a program that runs on another worker.
    pub(super) is_part: bool,
    // Nothing starts beside it.
    pub(super) has_node: bool,
    pub(super) since: Timestamp,
    pub(super) ending: Option<Ending>,
}

/// Why a running task is being ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ending {
    Timeout,
    Canceled,
    /// The worker stops.
    Stopped,
    /// A higher instance of the same task was handed over.
    Superseded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Deadline {
    Warning,
    TimeLimit,
    Kill,
}

impl Worker {
    /// A worker that has not yet spoken; `started` is when its process began.
    pub fn new(config: WorkerConfig, started: Timestamp) -> Self {
        Worker {
            pools: Pools::new(&config.resources),
            config,
            started,
            id: None,
            link: Link::Down(started),
            idle_timeout: None,
            templates: BTreeMap::new(),
            queue: BTreeMap::new(),
            arrivals: 0,
            followers: BTreeMap::new(),
            running: FxHashMap::default(),
            deadlines: BTreeSet::new(),
            reporting: Reporting::default(),
            outside: Outside::default(),
            next_report: started,
            starts_due: started,
            next_heartbeat: started,
            idle_since: None,
            leaving: None,
            has_left: false,
            scratch: Allocation::default(),
            has_more: false,
        }
    }

    /// Its id, once the server has given it one.
    pub fn id(&self) -> Option<WorkerId> {
        self.id
    }

    /// True when it offers so many CPUs and no time of its own ends it: for the simulator.
    pub fn is_lasting(&self, cpus: u64) -> bool {
        let pool = self.config.resources.pool(hq_model::request::CPUS);
        pool.is_some_and(|pool| pool.kind.total().wholes() >= cpus)
            && self.config.idle_timeout.is_none()
            && self.config.time_limit.is_none()
            && self.config.on_server_lost == OnServerLost::Reconnect
    }

    /// True when the server has all that happened here on disk: for the simulator.
    pub fn has_said_all(&self) -> bool {
        !self.reporting.has_news() && self.reporting.last_unsaved() == 0
    }

    /// Number of tasks that run.
    pub fn running_count(&self) -> usize {
        self.running.len()
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Timestamp, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Server(message) => self.server_says(now, message, effects),
            Input::ServerLost => self.server_lost(now, effects),
            Input::ServerFound => self.greet(effects),
            Input::Ended { task, outcome, usage } => self.task_ended(now, task, outcome, usage),
            Input::Notify { task, text } => {
                if self.link == Link::Up && self.running.contains_key(&task) {
                    effects.push(Effect::Send(FromWorker::Notify { task, text }));
                }
            }
            Input::Tick => {}
            Input::Interrupt => self.leave(now, WorkerEnd::Interrupted, false, effects),
        }
    }

    /// Acts after a batch of inputs: starts what fits, sends reports. To be called before the shell waits for more.
    pub fn settle(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.check_deadlines(now, effects);
        self.outside.release(Some(now), &mut self.reporting);
        self.check_life(now, effects);
        if self.leaving.is_none() && !self.reporting.is_stuck() {
            self.start_what_fits(now, effects);
        }
        self.check_idle(now, effects);
        self.speak(now, effects);
    }

    /// When the machine wants [`Input::Tick`] even if nothing happens.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        if self.has_left {
            return None;
        }
        let deadline = self.deadlines.first().map(|deadline| deadline.0);
        let up = self.link == Link::Up;
        let report = (up && self.reporting.has_news()).then(|| self.report_due());
        let heartbeat = up.then_some(self.next_heartbeat);
        let idle = self.idle_since.zip(self.idle_timeout).map(|(since, timeout)| since.after(timeout));
        let life = if self.leaving.is_none() { self.ends_at() } else { None };
        let lost = match self.link {
            Link::Down(since) if self.id.is_some() => Some(since.after(self.config.reconnect_timeout)),
            _ => None,
        };
        let null = self.has_more && !self.queue.is_empty() && self.leaving.is_none();
        let more = (null && !self.reporting.is_stuck()).then_some(Timestamp(0));
        [deadline, report, heartbeat, idle, life, lost, more, self.outside.next()].into_iter().flatten().min()
    }

    pub(super) fn ends_at(&self) -> Option<Timestamp> {
        let limit = self.config.time_limit?;
        Some(self.started.after(limit.saturating_sub(self.config.time_reserve)))
    }

    // --- the server ---

    fn server_says(&mut self, now: Timestamp, message: ToWorker, effects: &mut Vec<Effect>) {
        match message {
            ToWorker::Welcome(welcome) => {
                self.id = Some(welcome.worker);
                self.idle_timeout = welcome.idle_timeout;
                self.link = Link::Up;
                self.next_heartbeat = now.after(self.config.heartbeat);
                for report in self.reporting.unsaved() {
                    effects.push(Effect::Send(FromWorker::Report(report.clone())));
                }
            }
            ToWorker::Run(batches) => {
                for batch in batches {
                    self.take_batch(now, batch, effects);
                }
            }
            ToWorker::Cancel { job, ids } => self.cancel(now, job, &ids, effects),
            ToWorker::Retract { job, ids } => {
                let taken = self.unqueue(job, &ids);
                self.reporting.returned(job, &taken);
            }
            ToWorker::Saved { report } => self.reporting.saved(report),
            ToWorker::Stop { drain } => self.leave(now, WorkerEnd::Stopped, drain, effects),
        }
    }

    fn server_lost(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.link = Link::Down(now);
        match self.config.on_server_lost {
            OnServerLost::Reconnect => {}
            OnServerLost::FinishRunning => self.leave(now, WorkerEnd::ConnectionLost, true, effects),
            OnServerLost::Stop => self.leave(now, WorkerEnd::ConnectionLost, false, effects),
        }
    }

    fn take_batch(&mut self, now: Timestamp, batch: RunBatch, effects: &mut Vec<Effect>) {
        if let Some(content) = batch.content {
            let needs: Vec<_> =
                content.spec.requests.iter().map(|request| self.pools.needs(request)).collect();
            let mask = needs.iter().flatten().fold(0, |mask, needs| mask | self.pools.mask(needs));
            let template = Arc::new(content);
            self.templates.insert(batch.template, Known { template, needs, mask });
        }
        let job = batch.template.job;
        self.reporting.handed_again(job, &batch.ids);
        let Some(known) = self.templates.get(&batch.template) else {
            // The server thought it was here: it sends it again with the tasks.
            self.reporting.returned(job, &batch.ids);
            return;
        };
        if self.leaving.is_some() || known.needs.iter().all(Option::is_none) {
            self.reporting.returned(job, &batch.ids);
            return;
        }
        let priority = known.template.spec.priority;
        let mut ids = batch.ids.clone();
        self.drop_other_attempts(now, job, batch.instance, &mut ids, effects);
        if !ids.is_empty() {
            let queued = Batch {
                since: now,
                priority,
                template: batch.template,
                instance: batch.instance,
                all: batch.ids,
                left: ids,
                entries: batch.entries,
                services: Arc::new(batch.services),
                is_part: batch.nodes.first().is_some_and(|first| Some(first.worker) != self.id),
                nodes: batch.nodes,
            };
            match batch.after {
                Some((leader, instance)) => self.take_follower(TaskRef::new(job, leader), instance, queued),
                None => self.enqueue(queued),
            }
        }
    }

    fn enqueue(&mut self, batch: Batch) {
        self.arrivals += 1;
        self.queue.insert((Reverse(batch.priority), self.arrivals), batch);
    }

    // What has not started.
    fn unstarted(&mut self, job: JobId) -> impl Iterator<Item = &mut Batch> {
        let batches = self.queue.values_mut().chain(self.followers.values_mut());
        batches.filter(move |batch| batch.template.job == job)
    }

    fn drop_empty_batches(&mut self) {
        self.queue.retain(|_, batch| !batch.left.is_empty());
        self.followers.retain(|_, batch| !batch.left.is_empty());
    }

    // A task that is here already as this instance stays as it is; one of a lower instance is ended.
    fn drop_other_attempts(
        &mut self,
        now: Timestamp,
        job: JobId,
        instance: Instance,
        ids: &mut IdSet,
        effects: &mut Vec<Effect>,
    ) {
        let mut dropped = IdSet::new();
        for batch in self.unstarted(job) {
            if batch.instance == instance {
                ids.subtract(&batch.left);
            } else {
                dropped.union_with(&batch.left.intersection(ids));
                batch.left.subtract(ids);
            }
        }
        if !dropped.is_empty() {
            self.drop_empty_batches();
            self.leaders_gone(job, &dropped);
        }
        if self.running.is_empty() {
            return;
        }
        for task in self.running_of(job, ids) {
            if self.running[&task].instance == instance {
                ids.remove(task.task);
            } else {
                self.end(now, task, Ending::Superseded, effects);
            }
        }
    }

    // Running tasks of a job among `ids`, in order.
    fn running_of(&self, job: JobId, ids: &IdSet) -> Vec<TaskRef> {
        if ids.len() <= self.running.len() as u64 {
            let tasks = ids.iter().map(|task| TaskRef::new(job, task));
            return tasks.filter(|task| self.running.contains_key(task)).collect();
        }
        let mut tasks: Vec<TaskRef> =
            self.running.keys().filter(|task| task.job == job && ids.contains(task.task)).copied().collect();
        tasks.sort_unstable();
        tasks
    }

    fn unqueue(&mut self, job: JobId, ids: &IdSet) -> IdSet {
        let mut taken = IdSet::new();
        for batch in self.unstarted(job) {
            taken.union_with(&batch.left.intersection(ids));
            batch.left.subtract(ids);
        }
        self.drop_empty_batches();
        self.leaders_gone(job, &taken);
        taken
    }

    fn cancel(&mut self, now: Timestamp, job: JobId, ids: &IdSet, effects: &mut Vec<Effect>) {
        let taken = self.unqueue(job, ids);
        self.reporting.canceled(job, &taken);
        for task in self.running_of(job, ids) {
            self.end(now, task, Ending::Canceled, effects);
        }
    }

    // --- tasks ---

    fn task_ended(&mut self, now: Timestamp, task: TaskRef, outcome: Outcome, usage: Usage) {
        let Some(run) = self.running.remove(&task) else { return };
        self.pools.free(&run.allocation);
        run.ranks.iter().for_each(|rank| self.pools.free(rank));
        if !self.deadlines.is_empty() {
            let spec = &self.templates[&run.template].template.spec;
            if spec.time_limit.is_some() || run.ending.is_some() {
                self.deadlines.retain(|deadline| deadline.1 != task);
            }
        }
        let is_success = run.ending.is_none() && !run.is_part && matches!(outcome, Outcome::Finished);
        self.leader_ended(task, is_success);
        let single = IdSet::single(task.task);
        let (kind, error) = match (run.ending, outcome) {
            (Some(Ending::Superseded), _) => return,
            (Some(Ending::Canceled), _) => return self.reporting.canceled(task.job, &single),
            // Nothing of it is an end of the task.
            _ if run.is_part => return self.reporting.interrupted(task.job, &single),
            (Some(Ending::Stopped), Outcome::Failed(..)) => {
                return self.reporting.interrupted(task.job, &single);
            }
            (Some(Ending::Timeout), _) => (FailureKind::Timeout, "Time limit reached".to_owned()),
            (None | Some(Ending::Stopped), Outcome::Finished) => {
                return self.reporting.finished(task, run.instance, run.since, usage);
            }
            (None, Outcome::Failed(kind, error)) => (kind, error),
        };
        let failure = Failure {
            task: task.task,
            instance: run.instance,
            worker: None,
            kind,
            error,
            started: Some(run.since),
            usage,
        };
        if self.config.allocation.is_some() && self.leaving.is_none() && Outside::may_cause(kind) {
            self.outside.hold(now, task.job, failure);
        } else {
            self.reporting.failed(task.job, failure);
        }
    }

    // Ends a running task: SIGTERM, and SIGKILL after its grace. The first reason counts.
    fn end(&mut self, now: Timestamp, task: TaskRef, ending: Ending, effects: &mut Vec<Effect>) {
        let Some(run) = self.running.get_mut(&task) else { return };
        if run.ending.is_some() {
            return;
        }
        run.ending = Some(ending);
        let grace = self.templates[&run.template].template.spec.kill_grace;
        effects.push(Effect::Signal { task, signal: SIGTERM });
        self.deadlines.insert((now.after(grace), task, Deadline::Kill));
    }

    fn check_deadlines(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        while let Some(&(at, task, deadline)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            let Some(run) = self.running.get(&task) else { continue };
            match deadline {
                Deadline::Warning => {
                    let spec = &self.templates[&run.template].template.spec;
                    if let (None, Some(warning)) = (run.ending, spec.warning) {
                        effects.push(Effect::Signal { task, signal: warning.signal });
                    }
                }
                Deadline::TimeLimit => self.end(now, task, Ending::Timeout, effects),
                Deadline::Kill => effects.push(Effect::Signal { task, signal: SIGKILL }),
            }
        }
    }

    // --- leaving ---

    fn check_life(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.ends_at().is_some_and(|end| end <= now) {
            self.leave(now, WorkerEnd::TimeLimit, false, effects);
        }
        if let Link::Down(since) = self.link
            && self.id.is_some()
            && since.after(self.config.reconnect_timeout) <= now
        {
            self.leave(now, WorkerEnd::ConnectionLost, true, effects);
        }
    }

    fn check_idle(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let is_idle = self.link == Link::Up && self.running.is_empty() && self.queue.is_empty();
        self.idle_since = is_idle.then(|| self.idle_since.unwrap_or(now));
        if let (Some(since), Some(timeout)) = (self.idle_since, self.idle_timeout)
            && since.after(timeout) <= now
        {
            self.leave(now, WorkerEnd::IdleTimeout, true, effects);
        }
    }

    // Takes nothing new and gives back what has not started. A second call that does not drain ends
    // what runs.
    fn leave(&mut self, now: Timestamp, end: WorkerEnd, drain: bool, effects: &mut Vec<Effect>) {
        match self.leaving.get_or_insert(end) {
            WorkerEnd::Interrupted if !drain => self.outside.interrupted(&mut self.reporting),
            _ => self.outside.release(None, &mut self.reporting),
        }
        let followers = std::mem::take(&mut self.followers).into_values();
        for batch in std::mem::take(&mut self.queue).into_values().chain(followers) {
            self.reporting.returned(batch.template.job, &batch.left);
        }
        if !drain {
            let mut tasks: Vec<TaskRef> = self.running.keys().copied().collect();
            tasks.sort_unstable();
            for task in tasks {
                self.end(now, task, Ending::Stopped, effects);
            }
        } else if end == WorkerEnd::ConnectionLost {
            // Nobody will say that they are over.
            let mut parts: Vec<TaskRef> =
                self.running.iter().filter(|(_, run)| run.is_part).map(|(task, _)| *task).collect();
            parts.sort_unstable();
            for task in parts {
                self.end(now, task, Ending::Stopped, effects);
            }
        }
    }

    // --- speaking ---

    // An end is reported at once after a quiet time, and always when nothing is queued: then the server may have
    // something that waits for it. A start can wait a little: most tasks that end soon are then reported once, and
    // never by themselves as running.
    fn report_due(&self) -> Timestamp {
        match self.reporting.has_ends() {
            true if self.queue.is_empty() && self.followers.is_empty() => Timestamp(0),
            true => self.next_report,
            false => self.next_report.max(self.starts_due),
        }
    }

    fn make_report(&mut self) -> FromWorker {
        let running = &self.running;
        let runs = |task: TaskRef| running.get(&task).map(|run| (run.instance, run.since));
        let has_usage = self.config.executor != Executor::Null;
        FromWorker::Report(self.reporting.make(has_usage, self.leaving.is_some(), runs).clone())
    }

    fn speak(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.has_left {
            return;
        }
        let is_done = self.leaving.is_some() && self.running.is_empty();
        if self.link == Link::Up {
            let is_due = now >= self.report_due() || is_done || self.reporting.is_full();
            if self.reporting.has_news() && is_due {
                effects.push(Effect::Send(self.make_report()));
                self.next_report = now.after(REPORT_INTERVAL);
                self.next_heartbeat = now.after(self.config.heartbeat);
            }
            if now >= self.next_heartbeat {
                effects.push(Effect::Send(FromWorker::Heartbeat));
                self.next_heartbeat = now.after(self.config.heartbeat);
            }
        }
        if let (true, Some(end)) = (is_done, self.leaving) {
            if self.link == Link::Greeting {
                // The server knows it from the hello on: it need not wait for the answer to leave in order.
                if self.reporting.has_news() {
                    self.make_report();
                }
                for report in self.reporting.unsaved() {
                    effects.push(Effect::Send(FromWorker::Report(report.clone())));
                }
            }
            if !matches!(self.link, Link::Down(_)) {
                effects.push(Effect::Send(FromWorker::Leaving { end }));
            }
            self.has_left = true;
            effects.push(Effect::Exit(end));
        }
    }

    /// Checks the machine's own bookkeeping, recounted from scratch: for the simulator and tests.
    ///
    /// # Errors
    /// Says which rule is broken.
    pub fn check(&self) -> Result<(), String> {
        let mut indices = BTreeMap::new();
        for (task, run) in &self.running {
            for given in run.ranks.iter().chain([&run.allocation]).flat_map(|given| &given.resources) {
                for (index, units) in &given.indices {
                    let taken = indices.entry((given.pool, *index)).or_insert(0u64);
                    *taken += u64::from(*units);
                    if *taken > hq_model::amount::UNITS {
                        return Err(format!(
                            "task {task}: index {index} of pool {} is taken twice",
                            given.pool
                        ));
                    }
                }
            }
            if !self.templates.contains_key(&run.template) {
                return Err(format!("task {task} runs without a template"));
            }
        }
        if self.running.is_empty() && !self.pools.is_free() {
            return Err("nothing runs and something is taken".into());
        }
        if self.queue.values().chain(self.followers.values()).any(|batch| batch.left.is_empty()) {
            return Err("an empty batch is queued".into());
        }
        if let Some(leader) = self.followers.keys().find(|leader| self.instance_here(**leader).is_none()) {
            return Err(format!("a task waits for {leader}, which is not here"));
        }
        Ok(())
    }
}
