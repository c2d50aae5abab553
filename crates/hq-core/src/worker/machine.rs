//! The worker machine: takes what it is handed, starts what fits, ends what must end, reports.

mod batch;
mod checking;
mod ended;
mod ending;
mod followers;
mod greeting;
mod leaving;
mod speaking;
mod templates;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hq_model::worker::{Executor, OnServerLost, WorkerConfig};
use hq_model::{IdSet, Instance, JobId, TaskRef, Timestamp, WorkerId};
use rustc_hash::FxHashMap;

pub(super) use batch::{Batch, QueuePlace};
pub(super) use ending::Ending;

use super::arming::{Armed, Why};
use super::deadlines::Deadlines;
use super::faults::{NodeFault, OutputWaits};
use super::lending::Lending;
use super::outside::Outside;
use super::pools::{Pools, ResolvedRequest};
use super::pulling::Pulling;
use super::reading::Reading;
use super::reporting::Reporting;
use super::runners::Runners;
use super::storing::Storing;
use super::zygotes::Zygotes;
use super::{Effect, Grant, Input, RunnerId};
use crate::WorkerSecret;
use crate::keeping::{by_preference, turn_of};
use crate::limits::{ARMED_TIME, TEMPLATES_KEPT_BYTES, TEMPLATES_KEPT_MAX};
use crate::worker_messages::{FromWorker, RunBatch, Template, TemplateId, ToWorker, WorkerEnd};

/// The worker's state machine.
#[derive(Debug)]
pub struct Worker {
    pub(super) config: WorkerConfig,
    pub(super) started: Timestamp,
    pub(super) id: Option<WorkerId>,
    // Shows that it is that one.
    pub(super) secret: Option<WorkerSecret>,
    pub(super) link: Link,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) pools: Pools,
    pub(super) templates: BTreeMap<TemplateId, Known>,
    // What their specifications take.
    templates_bytes: usize,
    // So many, or so many bytes, and those without tasks are dropped.
    templates_max: (usize, usize),
    // Larger priority first, then whose turn is first.
    pub(super) queue: BTreeMap<QueuePlace, Batch>,
    pub(super) arrivals: u64,
    // Pools that all of that needs; fewer may be told.
    pub(super) queue_pools: u64,
    // By the task that each waits for.
    pub(super) followers: BTreeMap<TaskRef, Batch>,
    // Said to the launcher beforehand.
    pub(super) armed: BTreeMap<TaskRef, Armed>,
    // Whether it takes such.
    pub(super) arms: bool,
    // What has begun to run since something was armed last.
    pub(super) begun: Vec<TaskRef>,
    // Looked up by task, never iterated.
    pub(super) running: FxHashMap<TaskRef, Running>,
    pub(super) deadlines: Deadlines,
    pub(super) reporting: Reporting,
    pub(super) runners: Runners,
    pub(super) lending: Lending,
    // Of one that stores objects.
    pub(super) storing: Option<Box<Storing>>,
    // Of a relay: how much it wants.
    pub(super) pulling: Option<Pulling>,
    // Whose output is read, and could be.
    pub(super) reading: Reading,
    // Failures that the end of the worker may explain.
    pub(super) outside: Outside,
    pub(super) node_fault: NodeFault,
    pub(super) output_waits: OutputWaits,
    pub(super) last_report: Timestamp,
    pub(super) next_report: Timestamp,
    // The latest end of what tasks that were started here have asked for.
    pub(super) promised_until: Timestamp,
    // When starts are to be reported, unless an end takes them along before.
    pub(super) starts_due: Timestamp,
    pub(super) next_heartbeat: Timestamp,
    pub(super) idle_since: Option<Timestamp>,
    pub(super) leaving: Option<WorkerEnd>,
    pub(super) leaving_since: Timestamp,
    pub(super) has_left: bool,
    // It is to be gone soon: it does not wait until its results are known.
    pub(super) is_hurried: bool,
    // Why it may wait for nobody.
    pressed: leaving::Pressed,
    // When a task ended last.
    pub(super) last_end: Timestamp,
    // It has time to hand on what it stores.
    pub(super) drains: bool,
    // The server is to hear that it leaves, for it counts on what is stored here.
    pub(super) leaving_is_news: bool,
    // What still runs will not end.
    pub(super) launcher_is_lost: bool,
    // Reused by the null executor.
    pub(super) scratch: Grant,
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
    // As which variants they can run here, the preferred one first.
    pub(super) ways: Vec<Way>,
    // Pools that each of these needs.
    pub(super) pools: u64,
    // How long the last one of it ran; what is armed where the worker does that depends on it.
    pub(super) took: Duration,
    // None of them starts after this.
    pub(super) last_start: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) struct Way {
    pub(super) variant: u32,
    pub(super) needs: ResolvedRequest,
    // Pools that it needs.
    pub(super) pools: u64,
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) instance: Instance,
    pub(super) template: TemplateId,
    // Where there are several.
    pub(super) variant: Option<u32>,
    pub(super) grant: Grant,
    // What each of its ranks has.
    pub(super) ranks: Vec<Grant>,
    // Held for a program that runs on another worker.
    pub(super) is_part: bool,
    // Nothing starts beside it that takes something.
    pub(super) has_node: bool,
    // It may run beside anything.
    pub(super) takes_nothing: bool,
    // What is or was armed after it.
    pub(super) follower: Option<TaskRef>,
    pub(super) since: Timestamp,
    // Where it is called, if it is a function.
    pub(super) runner: Option<RunnerId>,
    // It asked for so much of the worker's time.
    pub(super) promised_until: Timestamp,
    // Of a pulled task: until when whoever has it must say something.
    pub(super) lease_until: Option<Timestamp>,
    pub(super) ending: Option<Ending>,
    // Nothing of it runs any more, and what it had is free: what it has printed is being made safe.
    pub(super) has_exited: bool,
}

impl Worker {
    /// A worker that has not yet spoken; `started` is when its process began.
    pub fn new(config: WorkerConfig, started: Timestamp) -> Self {
        Worker {
            pools: Pools::new(&config.resources),
            runners: Runners::new(&config.resources),
            lending: Lending::new(&config.resources),
            pulling: (config.executor == Executor::Pull).then(|| Pulling::new(started)),
            storing: None,
            config,
            started,
            id: None,
            secret: None,
            link: Link::Down(started),
            idle_timeout: None,
            templates: BTreeMap::new(),
            templates_bytes: 0,
            templates_max: (TEMPLATES_KEPT_MAX, TEMPLATES_KEPT_BYTES),
            queue: BTreeMap::new(),
            arrivals: 0,
            queue_pools: u64::MAX,
            followers: BTreeMap::new(),
            armed: BTreeMap::new(),
            arms: false,
            begun: Vec::new(),
            running: FxHashMap::default(),
            deadlines: Deadlines::default(),
            reporting: Reporting::default(),
            reading: Reading::default(),
            outside: Outside::default(),
            node_fault: NodeFault::default(),
            output_waits: OutputWaits::default(),
            last_report: started,
            next_report: started,
            promised_until: started,
            starts_due: started,
            next_heartbeat: started,
            idle_since: None,
            leaving: None,
            leaving_since: started,
            has_left: false,
            is_hurried: false,
            pressed: leaving::Pressed::default(),
            last_end: started,
            drains: false,
            leaving_is_news: false,
            launcher_is_lost: false,
            scratch: Grant::default(),
            has_more: false,
        }
    }

    /// The same one, which can show that it is the one that has its id.
    pub fn with_secret(mut self, secret: WorkerSecret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// The same one, with a launcher that starts tasks at the end of others by itself.
    pub fn with_arming(self) -> Self {
        Worker { arms: true, ..self }
    }

    /// The same one, with a store for objects.
    pub fn with_store(self) -> Self {
        Worker { storing: Some(Box::default()), ..self }
    }

    /// The same one, on a node where runners are forked from zygotes.
    pub fn with_zygotes(mut self) -> Self {
        self.runners.zygotes = Some(Zygotes::default());
        self
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

    /// True when the server has all that happened here on disk.
    pub fn has_said_all(&self) -> bool {
        !self.has_news() && self.reporting.last_unsaved() == 0
    }

    /// How it describes itself.
    pub fn config(&self) -> &WorkerConfig {
        &self.config
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
            Input::ServerFound => self.greet(now, effects),
            Input::Ended { task, outcome, usage, result } => {
                self.task_ended(now, task, outcome, (usage, result), effects);
            }
            Input::OutputWaits(why) => self.output_waits.hear(why),
            Input::Exited { task, is_success } => self.task_exited(now, task, is_success),
            Input::RunnerSpent { runner } => self.runners.spend(runner),
            Input::RunnerEnded { runner } => self.runners.ended(runner),
            Input::ZygoteReady { zygote, is_of_job } => {
                if let Some(zygotes) = &mut self.runners.zygotes {
                    zygotes.is_ready(now, zygote, is_of_job, effects);
                }
            }
            Input::ZygoteUnfit { zygote } => {
                if let Some(zygotes) = &mut self.runners.zygotes {
                    zygotes.is_unfit(now, zygote);
                }
            }
            Input::ZygoteEnded { zygote, why } => {
                if let Some(zygotes) = &mut self.runners.zygotes {
                    zygotes.ended(now, zygote, why);
                }
            }
            Input::CallWaits { task } => self.call_waits(task, effects),
            Input::CallWants { task } => self.call_wants(task, effects),
            Input::Begun { task } => self.task_begun(now, task, effects),
            Input::Recalled { task } => self.task_recalled(now, task),
            Input::Take { count, lease } => self.give(now, count, lease, effects),
            Input::Wanted { count } => self.wanted(now, count),
            Input::Extend { task, lease } => self.extend(now, task, lease),
            Input::Released { task } => self.release(now, task),
            input @ (Input::Stored(_)
            | Input::ObjectLost(_)
            | Input::ObjectDamaged(_)
            | Input::Spilled(_)
            | Input::NotAhead(_)
            | Input::FileRefused { .. }) => {
                if let Some(storing) = &mut self.storing {
                    storing.hear(input);
                }
            }
            Input::Tick => {}
            Input::Interrupt => self.leave(now, WorkerEnd::Interrupted, false, effects),
            Input::LauncherLost => {
                self.runners.zygotes.iter_mut().for_each(Zygotes::all_ended);
                self.leave(now, WorkerEnd::LauncherLost, true, effects);
                self.lose_launcher(now, effects);
            }
        }
    }

    /// Acts after a batch of inputs: starts what fits, sends reports. To be called before the shell waits for more.
    pub fn settle(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.check_deadlines(now, effects);
        self.outside.release(Some(now), &mut self.reporting);
        self.check_life(now, effects);
        self.node_fault.pass(now);
        self.runners.expire(now, effects);
        self.give_to_wanting(effects);
        if self.pulling.is_some() {
            self.weigh(now);
        } else if self.leaving.is_none() && !self.reporting.is_stuck() {
            self.start_what_fits(now, effects);
        }
        if self.arms {
            self.call_back(now, effects);
            // What is armed waits for its leader alone: what was kept for it is free.
            while self.arm(now, effects) {
                self.start_what_fits(now, effects);
            }
        }
        self.fetch_ahead(effects);
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
        let report = (up && self.has_news()).then(|| self.report_due());
        let heartbeat = up.then_some(self.next_heartbeat);
        let idle = self.idle_since.zip(self.idle_timeout).map(|(since, timeout)| since.after(timeout));
        let life = if self.leaving.is_none() { self.ends_at() } else { None };
        let lost = match self.link {
            Link::Down(since) if self.id.is_some() && self.leaving.is_none() => {
                Some(since.after(self.config.reconnect_timeout))
            }
            _ => None,
        };
        let null = self.has_more && !self.queue.is_empty() && self.leaving.is_none();
        let more = (null && !self.reporting.is_stuck()).then_some(Timestamp(0));
        let told = if self.is_done() { self.stays_until() } else { None };
        let again = self.node_fault.next().filter(|_| self.leaving.is_none());
        let recall = self.next_call_back();
        let runner = self.runners.next();
        let pulling = self.pulling.as_ref().and_then(Pulling::next);
        [
            pulling,
            deadline,
            report,
            heartbeat,
            idle,
            life,
            lost,
            more,
            told,
            again,
            recall,
            runner,
            self.outside.next(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// When its time is over. It leaves some of its limit, but for tasks that asked for that.
    pub(super) fn ends_at(&self) -> Option<Timestamp> {
        let life = self.config.life(self.started)?;
        let end = life.ends_at();
        if self.promised_until <= end {
            return Some(end);
        }
        let promised = self.running.values().map(|run| run.promised_until).max();
        Some(promised.map_or(end, |promised| promised.min(life.ends_at_last()).max(end)))
    }

    // --- the server ---

    fn server_says(&mut self, now: Timestamp, message: ToWorker, effects: &mut Vec<Effect>) {
        match message {
            ToWorker::Welcome(welcome) => {
                self.id = Some(welcome.worker);
                self.idle_timeout = welcome.idle_timeout;
                self.link = Link::Up;
                self.next_heartbeat = now.after(self.config.heartbeat);
                // This server may be another one, which does not know it.
                self.leaving_is_news |= self.leaving.is_some();
                self.reporting.server_hears(welcome.hears);
                for report in self.reporting.unsaved() {
                    effects.push(Effect::Send(FromWorker::Report(report.clone())));
                }
            }
            ToWorker::Run(batches) => {
                for batch in batches {
                    self.take_batch(now, batch, effects);
                }
            }
            ToWorker::Cancel { job, ids, are_elsewhere } => {
                let ending = if are_elsewhere { Ending::Elsewhere } else { Ending::Canceled };
                self.cancel(now, job, &ids, ending, effects);
            }
            ToWorker::Retract { job, ids } => {
                let taken = self.unqueue(job, &ids);
                self.reporting.returned(job, &taken);
                self.call_tasks_back(job, &ids, Why::Returned, effects);
            }
            ToWorker::Saved { report } => self.reporting.saved(report),
            ToWorker::Stop { drain } => self.leave(now, WorkerEnd::Stopped, drain, effects),
            ToWorker::Weighed { report } => {
                if let Some(pulling) = &mut self.pulling {
                    pulling.weighed(report);
                }
            }
            // For the shell.
            ToWorker::Logged { .. } => {}
            ToWorker::ReadOutput(order) => self.read_output(order, effects),
            message @ (ToWorker::TakeFile { .. }
            | ToWorker::FreeObjects(_)
            | ToWorker::BringObjects(_)
            | ToWorker::Relay { .. }
            | ToWorker::GuardObjects { .. }) => {
                if let Some(storing) = &mut self.storing {
                    storing.ordered(message, effects);
                }
            }
            ToWorker::DropRead { number } => effects.push(Effect::DropRead { number }),
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
            let requests = &content.spec.requests;
            let way = |variant: u32| {
                let needs = self.pools.needs(&requests[variant as usize])?;
                Some(Way { variant, pools: self.pools.mask(&needs), needs })
            };
            let ways: Vec<Way> = by_preference(requests).into_iter().filter_map(way).collect();
            let pools = ways.iter().fold(u64::MAX, |pools, way| pools & way.pools);
            let took = self.templates.get(&batch.template).map_or(ARMED_TIME, |known| known.took);
            let template = Arc::new(content);
            self.drop_templates();
            self.templates_bytes += template.spec.bytes();
            // Servers that do not say when it was submitted know nothing of such moments.
            let last_start = template.spec.last_start(template.submitted);
            let last_start = last_start.filter(|_| template.submitted > Timestamp(0));
            let known = Known { template, ways, pools, took, last_start };
            let before = self.templates.insert(batch.template, known);
            self.templates_bytes -= before.map_or(0, |known| known.template.spec.bytes());
        }
        let job = batch.template.job;
        self.reporting.handed_again(job, &batch.ids);
        let Some(known) = self.templates.get(&batch.template) else {
            // The server thought it was here: it sends it again with the tasks.
            self.reporting.returned(job, &batch.ids);
            return;
        };
        if self.leaving.is_some() || self.node_fault.reason().is_some() || known.ways.is_empty() {
            self.reporting.returned(job, &batch.ids);
            return;
        }
        let priority = known.template.spec.priority;
        let variant = batch.variant.filter(|variant| known.ways.iter().any(|way| way.variant == *variant));
        let mut ids = batch.ids.clone();
        self.drop_other_attempts(now, job, batch.instance, &mut ids, effects);
        if !ids.is_empty() {
            let queued = Batch {
                since: now,
                priority,
                turn: turn_of(now, batch.head_start),
                template: batch.template,
                instance: batch.instance,
                all: batch.ids,
                left: ids,
                entries: batch.entries,
                services: Arc::new(batch.services),
                inputs: Arc::new(batch.inputs),
                objects: Arc::new(batch.objects),
                variant,
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
        self.enqueue_at((Reverse(batch.priority), batch.turn, self.arrivals), batch);
    }

    /// What is of one batch and at the same place comes together again.
    pub(super) fn enqueue_at(&mut self, place: QueuePlace, batch: Batch) {
        if let Some(storing) = self.storing.as_mut().filter(|_| !batch.objects.is_empty()) {
            storing.ahead.look_again();
        }
        if self.queue.is_empty() {
            self.queue_pools = u64::MAX;
        }
        self.queue_pools &= self.templates.get(&batch.template).map_or(0, |known| known.pools);
        let left = batch.left.clone();
        self.queue.entry(place).or_insert(batch).left.union_with(&left);
    }

    pub(super) fn drop_if_empty(&mut self, place: QueuePlace) {
        if self.queue.get(&place).is_some_and(|batch| batch.left.is_empty()) {
            self.queue.remove(&place);
        }
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
        let armed: Vec<TaskRef> = self.armed_of(job).filter(|task| ids.contains(task.task)).collect();
        for task in armed {
            if self.armed_as(task) == Some(instance) {
                ids.remove(task.task);
            } else {
                self.call_one_back(task, Why::Ended(Ending::Superseded), effects);
            }
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

    fn cancel(&mut self, now: Timestamp, job: JobId, ids: &IdSet, ending: Ending, effects: &mut Vec<Effect>) {
        let taken = self.unqueue(job, ids);
        self.reporting.canceled(job, &taken);
        self.call_tasks_back(job, ids, Why::Ended(ending), effects);
        for task in self.running_of(job, ids) {
            self.end(now, task, ending, effects);
        }
    }

    // --- tasks ---
}
