//! What the server knows of a connected worker beyond the records: what it holds, what runs there and how fast.

mod held;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use hq_model::worker::{Executor, Life, WorkerConfig};
use hq_model::{IdSet, JobId, Request, TaskId, TaskRef, Timestamp, WorkerResources};

use rustc_hash::FxHashMap;

use held::Queued;
pub(super) use held::{Held, KeptRoom, Lacking, QueuePlace};

use super::ConnectionId;
use super::capacity::{Capacity, Needs, Standing};
use super::queue::ClassId;
use crate::keeping::{by_preference, stops_keeping_in, turn_of};
use crate::limits::{
    BACKLOG_MAX, BACKLOG_START, BACKLOG_TIME, CHOICES_KNOWN_MAX, FOLLOWERS_MAX, HEARTBEATS_MISSING_MAX,
    MIXED_BACKLOG_WAVES, SCAN_BLOCKED_MAX,
};
use crate::mark;
use crate::worker_messages::{TemplateId, WorkerEnd};

/// A worker that is connected, or that may come back.
#[derive(Clone, Debug)]
pub(super) struct LiveWorker {
    /// Its connection; `None` while it may come back.
    pub(super) connection: Option<ConnectionId>,
    /// When it counts as lost unless it is heard before.
    pub(super) lost_at: Timestamp,
    /// Its id is saved: it came back with it, or has said what only those say that were welcomed.
    pub(super) is_welcomed: bool,
    /// How long it lives, if it has a limit.
    pub(super) life: Option<Life>,
    /// Tasks that ask for time wait on it until then at the latest.
    pub(super) late: BTreeMap<TemplateId, Timestamp>,
    /// A relay: it has pulled tasks, and nothing else.
    pub(super) is_relay: bool,
    /// Takes no more tasks.
    pub(super) is_draining: bool,
    /// It said that what runs may end, while it takes nothing new.
    pub(super) lets_end: bool,
    /// A user has stopped it: with what it was told.
    pub(super) stop: Option<Stop>,
    /// How it ends: a user has stopped it, or it is gone.
    pub(super) end: Option<WorkerEnd>,
    /// Why it cannot start tasks now, as it says.
    pub(super) trouble: Option<String>,
    /// Why what tasks print into streams and logs waits there.
    pub(super) output_waits: Option<String>,
    /// How often its process did what can never happen.
    pub(super) internal_errors: u64,
    /// It can be handed tasks that wait there for another one.
    pub(super) follows: bool,
    /// Also calls, which it gives what the one before them returns.
    pub(super) follows_calls: bool,
    /// It can be asked what its tasks print.
    pub(super) shows: bool,
    /// It stores objects.
    pub(super) stores: bool,
    /// It gives them by way of the server, too.
    pub(super) relays: bool,
    /// The part of its CPUs that must be used when it starts something while idle, in 1/10000.
    pub(super) min_utilization: u32,
    /// Tasks on several nodes run within one group.
    pub(super) group: String,
    /// Kept free for a task on several nodes of this priority: gets nothing of that priority or below.
    pub(super) reserved: Option<i32>,
    /// As a whole, for a task of this template.
    pub(super) whole: Option<TemplateId>,
    /// When a task last finished there.
    pub(super) last_finished: Option<Timestamp>,
    /// What it offers.
    pub(super) resources: WorkerResources,
    // How much of that is promised.
    capacity: Capacity,
    // Tasks handed to it that it has not reported as gone, whatever their state is by now.
    held: BTreeMap<TemplateId, Held>,
    /// Those of them of which only the worker says that they were.
    pub(super) claimed: BTreeMap<JobId, IdSet>,
    // Templates whose content it has got.
    templates: BTreeSet<TemplateId>,
    /// Number of the last report that was taken in.
    pub(super) last_report: u64,
    /// Unsaved reports up to this number follow a hello; then what it does not hold is known to be lost.
    pub(super) reconcile_at: Option<u64>,
    /// Since when it is left alone because more is about to end there.
    pub(super) gathers_since: Option<Timestamp>,
    // What waits here for room, in order, and how often something was put there.
    backlog: BTreeMap<QueuePlace, TemplateId>,
    // Pools that all of that needs, whatever its variant; fewer may be told.
    backlog_pools: u64,
    arrivals: u64,
    // Those of it that may keep others that wait there from what they lack: as the worker does it.
    lacking: Vec<Lacking>,
    // What is kept for some of it from what would be placed into room.
    kept: Vec<KeptRoom>,
    /// When the first of those stops to.
    pub(super) keeps_until: Timestamp,
    // Wall time of a template's tasks here, µs, averaged with the weight on the latest report. Kept when
    // it has run dry of them: that is when the next ones are wanted most.
    walls_us: BTreeMap<TemplateId, f64>,
    // Requests of classes resolved against this worker, the preferred one first; without those it can never run.
    // Looked up, never iterated.
    choices: FxHashMap<ClassId, Vec<Choice>>,
}

/// How a user has stopped a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stop {
    /// It finishes what runs first.
    pub(super) drain: bool,
}

/// One way to run a task on a worker.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// Its place in the order of preference of all variants, those that can never run here included.
    pub(super) rank: usize,
    /// Its place among the variants as they were submitted.
    pub(super) variant: u32,
    /// What it takes.
    pub(super) needs: Needs,
    /// How long the worker must live at least.
    pub(super) time_request: Duration,
}

impl LiveWorker {
    /// The worker is told of a template; says whether it has to be given its content.
    pub(super) fn learns(&mut self, template: TemplateId) -> bool {
        self.templates.insert(template)
    }

    /// True when an attempt of a task was handed to it and has not ended.
    pub(super) fn has(&self, task: TaskRef) -> bool {
        let of_job = super::requests::templates_of(task.job);
        self.held.range(of_job).any(|(_, held)| held.ids.contains(task.task))
    }

    /// The submit of a task that was handed to it and that it has not reported as gone, if that is not only its word.
    pub(super) fn template_of(&self, task: TaskRef) -> Option<TemplateId> {
        if self.claimed.get(&task.job).is_some_and(|claimed| claimed.contains(task.task)) {
            return None;
        }
        let mut of_job = self.held.range(super::requests::templates_of(task.job));
        of_job.find(|(_, held)| held.ids.contains(task.task)).map(|(template, _)| *template)
    }

    /// A worker that has just said hello.
    pub(super) fn new(
        connection: Option<ConnectionId>,
        config: &WorkerConfig,
        started: Timestamp,
        now: Timestamp,
    ) -> Self {
        let resources = config.placed_resources();
        let is_relay = config.executor == Executor::Pull;
        let mut capacity = Capacity::new(&resources);
        if is_relay {
            // It says how much it wants.
            capacity.set_total(0);
        }
        let mut worker = LiveWorker {
            connection,
            lost_at: now,
            is_welcomed: false,
            life: config.life(started),
            late: BTreeMap::new(),
            is_relay,
            is_draining: false,
            lets_end: false,
            stop: None,
            end: None,
            trouble: None,
            output_waits: None,
            internal_errors: 0,
            follows: false,
            follows_calls: false,
            stores: false,
            relays: false,
            shows: false,
            min_utilization: config.min_utilization,
            group: config.group.clone(),
            reserved: None,
            whole: None,
            resources,
            capacity,
            held: BTreeMap::new(),
            claimed: BTreeMap::new(),
            templates: BTreeSet::new(),
            last_report: 0,
            reconcile_at: None,
            last_finished: None,
            gathers_since: None,
            backlog: BTreeMap::new(),
            backlog_pools: u64::MAX,
            arrivals: 0,
            lacking: Vec::new(),
            kept: Vec::new(),
            keeps_until: Timestamp(u64::MAX),
            walls_us: BTreeMap::new(),
            choices: FxHashMap::default(),
        };
        worker.heard(config.heartbeat, now);
        worker
    }

    /// How much of what it offers is promised.
    pub(super) fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// Tasks handed to it that it has not reported as gone, whatever their state is by now.
    pub(super) fn held(&self) -> &BTreeMap<TemplateId, Held> {
        &self.held
    }

    /// A relay says for how many tasks it has room.
    pub(super) fn wants(&mut self, room: u64) {
        self.capacity.set_total(room);
    }

    /// It gave a sign of life.
    pub(super) fn heard(&mut self, heartbeat: Duration, now: Timestamp) {
        self.lost_at = now.after(heartbeat * HEARTBEATS_MISSING_MAX);
    }

    /// How much of each pool is promised.
    pub(super) fn taken(&self) -> impl Iterator<Item = hq_model::Amount> + '_ {
        let pools = self.resources.pools.iter().zip(self.capacity.free());
        pools.map(|(pool, free)| hq_model::Amount(pool.kind.total().0.saturating_sub(free.0)))
    }

    /// True when it ends what runs there: it was stopped, or its process was asked to end or came to its time limit.
    pub(super) fn ends_tasks(&self) -> bool {
        self.is_draining && self.stop.map_or(!self.lets_end, |stop| !stop.drain)
    }

    /// True for one that is meant where all workers are to stop: no relay, which runs nothing and has what others do, and, where
    /// what runs is to end first, none that is away, for it cannot be told.
    pub(super) fn is_one_of_all(&self, drain: bool) -> bool {
        !self.is_relay && (!drain || self.connection.is_some())
    }

    /// True when tasks may be handed to it, or may be when what it has for itself has ended.
    pub(super) fn is_open(&self) -> bool {
        let is_there = self.connection.is_some() && !self.is_draining && self.reconcile_at.is_none();
        is_there && self.trouble.is_none()
    }

    /// True when tasks may be handed to it.
    pub(super) fn takes_tasks(&self) -> bool {
        self.is_open() && self.whole.is_none()
    }

    /// True when tasks of this priority within one worker may be handed to it.
    pub(super) fn takes(&self, priority: i32) -> bool {
        self.takes_tasks() && self.reserved.is_none_or(|reserved| priority > reserved)
    }

    /// It gives back tasks of a job. When nobody asked for them, it may lack their templates, which are sent again.
    pub(super) fn gives_back(&mut self, job: JobId, ids: &IdSet) {
        let of_job = super::requests::templates_of(job);
        let refused = self.held.range(of_job).filter(|(_, held)| {
            let mut refused = held.ids.intersection(ids);
            refused.subtract(&held.retracting);
            !refused.is_empty()
        });
        let refused: Vec<TemplateId> = refused.map(|(template, _)| *template).collect();
        for template in refused {
            self.templates.remove(&template);
        }
    }

    /// The ways to run a task of a class here, the preferred one first. None when it can never run here.
    pub(super) fn choices(&mut self, class: ClassId, requests: &[Request]) -> &[Choice] {
        if self.choices.len() >= CHOICES_KNOWN_MAX && !self.choices.contains_key(&class) {
            self.choices.clear();
        }
        if !self.choices.contains_key(&class) {
            let ways = self.ways(Some(class), requests);
            self.choices.insert(class, ways);
        }
        &self.choices[&class]
    }

    /// The same, of a class that was asked for just now.
    pub(super) fn known_choices(&self, class: ClassId) -> &[Choice] {
        self.choices.get(&class).map_or(&[], Vec::as_slice)
    }

    /// The same for who only looks: it is not remembered. Larger weights are preferred, then what is named first.
    pub(super) fn ways(&self, class: Option<ClassId>, requests: &[Request]) -> Vec<Choice> {
        if class.is_some_and(ClassId::needs_store) && !self.stores {
            return Vec::new();
        }
        let choice = |(rank, variant): (usize, u32)| {
            let request = &requests[variant as usize];
            if request.is_pulled() != self.is_relay {
                return None;
            }
            let needs = Needs::new(&self.resources, request)?;
            Some(Choice { rank, variant, needs, time_request: request.time_request })
        };
        by_preference(requests).into_iter().enumerate().filter_map(choice).collect()
    }

    /// True when nothing is promised and it does not start for little.
    pub(super) fn is_idle_and_picky(&self) -> bool {
        // What a call waits for is no new beginning.
        self.min_utilization > 0
            && self.capacity.is_free()
            && self.held.values().all(|held| held.lent.is_empty())
    }

    /// True when less of its CPUs is promised than it starts for.
    pub(super) fn is_used_too_little(&self) -> bool {
        self.capacity.used_cpus() < u64::from(self.min_utilization)
    }

    /// True when a task that asks for so much time may start there now, if anything may.
    pub(super) fn has_time(&self, now: Timestamp, time_request: Duration) -> bool {
        self.life.is_none_or(|life| life.has(now, time_request))
    }

    /// True when its time is over: it gets nothing more, and leaves by itself.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        !self.has_time(now, Duration::ZERO)
    }

    /// What is left of its time for tasks that start now.
    pub(super) fn life_left(&self, now: Timestamp) -> Option<Duration> {
        self.life.map(|life| life.left(now))
    }

    /// Hands tasks to it, for each of which there is room; nothing is promised to what can never run here.
    pub(super) fn place(&mut self, template: TemplateId, needs: Option<&Needs>, ids: &IdSet) {
        let held = self.held.entry(template).or_default();
        let new = ids.difference(&held.ids);
        held.ids.union_with(&new);
        if let Some(needs) = needs.filter(|_| !new.is_empty()) {
            held.place(needs, &new, &mut self.capacity);
        }
    }

    /// Hands tasks to it that wait there for room, each of which takes `needs` if it runs as preferred.
    pub(super) fn queue(
        &mut self,
        now: Timestamp,
        (template, class): (TemplateId, ClassId),
        standing: Standing,
        needs: &Needs,
        ids: &IdSet,
    ) {
        let all = self.choices.get(&class).into_iter().flatten();
        self.backlog_pools &= all.fold(u64::MAX, |pools, choice| pools & choice.needs.pools());
        let held = self.held.entry(template).or_default();
        let new = ids.difference(&held.ids);
        held.ids.union_with(&new);
        self.wait(now, template, standing, needs, &new);
    }

    // Tasks that are here wait for room.
    fn wait(&mut self, now: Timestamp, template: TemplateId, standing: Standing, needs: &Needs, ids: &IdSet) {
        let Some(held) = self.held.get_mut(&template).filter(|_| !ids.is_empty()) else { return };
        held.waiting.union_with(ids);
        if let Some(queued) = held.queued {
            if let Some(counts) = queued.counts {
                self.capacity.queue_as(counts, queued.standing, ids.len());
            }
            return;
        }
        self.arrivals += 1;
        let (priority, head_start) = standing;
        let place = (Reverse(priority), turn_of(now, head_start), self.arrivals);
        let counts = self.capacity.queue(needs, standing, ids.len());
        held.queued = Some(Queued { standing, place, since: now, counts });
        self.backlog.insert(place, template);
    }

    // Tasks do not wait for room any more, as far as they did. Returns those that did.
    fn unqueue(&mut self, template: TemplateId, ids: &IdSet) -> IdSet {
        let Some(held) = self.held.get_mut(&template) else { return IdSet::new() };
        let Some(queued) = held.queued else { return IdSet::new() };
        let gone = held.waiting.intersection(ids);
        held.waiting.subtract(&gone);
        if let Some(counts) = queued.counts {
            self.capacity.unqueue(counts, queued.standing, gone.len());
        }
        if held.waiting.is_empty() {
            held.queued = None;
            self.backlog.remove(&queued.place);
            if self.backlog.is_empty() {
                self.backlog_pools = u64::MAX;
            }
        }
        gone
    }

    /// True when something waits there for room that comes before tasks of this priority, or with them.
    pub(super) fn waits_before(&self, priority: i32) -> bool {
        self.backlog.first_key_value().is_some_and(|(place, _)| place.0.0 >= priority)
    }

    /// True when tasks wait there for room.
    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// True when nothing of what waits there can fit, because all of it needs something that is used up.
    pub(super) fn is_full_for_backlog(&self) -> bool {
        self.backlog_pools & self.capacity.exhausted() != 0
    }

    /// Templates of which tasks wait there for room, in the order in which they start.
    pub(super) fn backlog(&self) -> impl Iterator<Item = TemplateId> + '_ {
        self.backlog.values().copied()
    }

    /// The next one of those.
    pub(super) fn next_in_backlog(&self, after: Option<QueuePlace>) -> Option<(QueuePlace, TemplateId)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.backlog.range((from, Bound::Unbounded)).next().map(|(place, template)| (*place, *template))
    }

    /// Who keeps room from others; forgotten, before it is told anew.
    pub(super) fn take_lacking(&mut self) -> (Vec<Lacking>, Vec<KeptRoom>) {
        (std::mem::take(&mut self.lacking), std::mem::take(&mut self.kept))
    }

    /// When the first of those stops to keep room from some.
    pub(super) fn stops_keeping(&self, now: Timestamp) -> Option<Timestamp> {
        let since = self.lacking.iter().map(|lacking| lacking.since);
        let since = since.chain(self.kept.iter().map(|kept| kept.lacks.since));
        since.map(|since| now.after(stops_keeping_in(now.since(since)))).min()
    }

    /// True when others keep room from others than these did.
    pub(super) fn lacks_other_than(&self, before: &(Vec<Lacking>, Vec<KeptRoom>)) -> bool {
        (&self.lacking, &self.kept) != (&before.0, &before.1)
    }

    /// Of what is kept for those that wait, only what is of use to them.
    pub(super) fn keep_what_is_of_use(&mut self) {
        let of_use = |kept: &KeptRoom| {
            let preferred = self.choices.get(&kept.class).and_then(|choices| choices.first());
            let scarce = preferred.map_or(0, |preferred| self.gathers(&preferred.needs));
            KeptRoom { lacks: Lacking { scarce, ..kept.lacks }, ..*kept }
        };
        let kept: Vec<KeptRoom> = self.kept.iter().map(of_use).collect();
        mark!(
            "what is free is of no use to a task that waits on a worker",
            kept.iter().any(|kept| kept.lacks.scarce == 0)
        );
        self.kept = kept;
        self.kept.retain(|kept| kept.lacks.scarce != 0);
    }

    /// The pools of which too little is free for a task, and what is free is of use to it: with what smaller tasks leave it
    /// would be enough.
    pub(super) fn gathers(&self, needs: &Needs) -> u64 {
        let placed = self.held.values().flat_map(|held| &held.placed);
        self.capacity.gathered(needs, placed.map(|(needs, ids)| (needs, ids.len())))
    }

    /// Tasks of a template that wait here are thought to start as far as they fit: the worker does so by itself. What is
    /// left keeps others from what it lacks.
    pub(super) fn presume_starts(
        &mut self,
        now: Timestamp,
        template: TemplateId,
        class: ClassId,
        requests: &[Request],
    ) {
        self.choices(class, requests);
        let Some(choices) = self.choices.get(&class) else { return };
        let Some((held, queued)) = self.held.get_mut(&template).and_then(|held| {
            let queued = held.queued?;
            Some((held, queued))
        }) else {
            return;
        };
        let priority = queued.place.0.0;
        let mut started = IdSet::new();
        let mut left = held.waiting.clone();
        for choice in choices {
            let is_kept = self.lacking.iter().any(|other| other.keeps_from(now, priority, &choice.needs));
            let room = u64::try_from(self.capacity.room(&choice.needs)).unwrap_or(0);
            if !is_kept && room > 0 && !left.is_empty() {
                let ids = left.take_first(room);
                held.place(&choice.needs, &ids, &mut self.capacity);
                started.union_with(&ids);
            }
        }
        if let Some(preferred) = choices.first().filter(|_| !left.is_empty()) {
            let scarce = self.capacity.scarce(&preferred.needs);
            let lacks = Lacking { template, priority, since: queued.since, scarce };
            let is_said =
                self.lacking.iter().any(|known| (known.priority, known.scarce) == (priority, scarce));
            if !is_said && self.lacking.len() < SCAN_BLOCKED_MAX {
                self.lacking.push(lacks);
            }
            let is_said =
                self.kept.iter().any(|known| (known.lacks.priority, known.class) == (priority, class));
            if !is_said && self.kept.len() < SCAN_BLOCKED_MAX {
                self.kept.push(KeptRoom { class, lacks });
            }
        }
        if !started.is_empty() {
            self.unqueue(template, &started);
        }
    }

    /// A task has started here, taking `needs`.
    pub(super) fn started(&mut self, template: TemplateId, task: TaskId, needs: &Needs) {
        let single = IdSet::single(task);
        self.unqueue(template, &single);
        let Some(held) = self.held.get_mut(&template).filter(|held| held.ids.contains(task)) else { return };
        if held.needs_of(task) != Some(needs) {
            held.displace(&single, &mut self.capacity);
            held.place(needs, &single, &mut self.capacity);
        }
    }

    /// A call lends its CPUs, or has them again.
    pub(super) fn lends(&mut self, template: TemplateId, task: TaskId, is_lent: bool) {
        let Some(held) = self.held.get_mut(&template) else { return };
        let single = IdSet::single(task);
        if !is_lent {
            if let Some(needs) = held.lent.remove(&task) {
                held.displace(&single, &mut self.capacity);
                held.place(&needs, &single, &mut self.capacity);
            }
        } else if !held.lent.contains_key(&task)
            && let Some(needs) = held.needs_of(task).cloned()
        {
            held.displace(&single, &mut self.capacity);
            held.place(&self.capacity.without_cpus(&needs), &single, &mut self.capacity);
            held.lent.insert(task, needs);
        }
    }

    /// A task that was thought to have started waits for room.
    pub(super) fn displace(
        &mut self,
        now: Timestamp,
        template: TemplateId,
        standing: Standing,
        task: TaskId,
    ) {
        let Some(held) = self.held.get_mut(&template) else { return };
        let Some(needs) = held.needs_of(task).cloned() else { return };
        let single = IdSet::single(task);
        held.displace(&single, &mut self.capacity);
        // It may run as another variant.
        self.backlog_pools = 0;
        self.wait(now, template, standing, &needs, &single);
    }

    /// Who waits here for what tasks of this priority with such needs would take, and keeps it from them.
    pub(super) fn kept_from(
        &self,
        now: Timestamp,
        priority: i32,
        needs: &Needs,
    ) -> Option<(TemplateId, Timestamp)> {
        let keeps =
            |kept: &KeptRoom| Some((kept.lacks.template, kept.lacks.keeps_until(now, priority, needs)?));
        self.kept.iter().find_map(keeps)
    }

    /// These are asked back. False when it holds nothing of their submit.
    pub(super) fn ask_back(&mut self, template: TemplateId, ids: &IdSet) -> bool {
        let Some(held) = self.held.get_mut(&template) else { return false };
        held.retracting.union_with(ids);
        true
    }

    /// A task that waits there for another one is asked back. False when it does not wait for one, or was asked back before.
    pub(super) fn ask_follower_back(&mut self, template: TemplateId, task: TaskId) -> bool {
        let held = self.held.get_mut(&template).filter(|held| held.followers.contains(task));
        held.is_some_and(|held| held.retracting.insert(task))
    }

    /// A task that was asked back has started.
    pub(super) fn keeps(&mut self, template: TemplateId, task: TaskId) {
        if let Some(held) = self.held.get_mut(&template) {
            held.retracting.remove(task);
        }
    }

    /// Hands tasks to it that wait there for another one.
    pub(super) fn hold_follower(&mut self, template: TemplateId, ids: &IdSet) {
        let held = self.held.entry(template).or_default();
        held.followers.union_with(&ids.difference(&held.ids));
        held.ids.union_with(ids);
    }

    /// Tasks do not wait there any more; they are about to be held as all others.
    pub(super) fn forget_follower(&mut self, template: TemplateId, ids: &IdSet) {
        let Some(held) = self.held.get_mut(&template) else { return };
        held.ids.subtract(&held.followers.intersection(ids));
        held.followers.subtract(ids);
    }

    /// It does not have these any more.
    pub(super) fn drop_held(&mut self, template: TemplateId, ids: &IdSet) {
        self.unqueue(template, ids);
        if let Some(claimed) = self.claimed.get_mut(&template.job) {
            claimed.subtract(ids);
        }
        let Some(held) = self.held.get_mut(&template) else { return };
        held.ids.subtract(ids);
        held.retracting.subtract(ids);
        held.followers.subtract(ids);
        held.displace(ids, &mut self.capacity);
        if held.ids.is_empty() {
            self.held.remove(&template);
            self.late.remove(&template);
            self.whole.take_if(|whole| *whole == template);
        }
    }

    /// How many tasks of a template it should have beyond those that fit; they are expected to take so long where
    /// none has ended here yet. With several classes waiting, tasks that are not short are better left to whoever has
    /// room for them first.
    pub(super) fn backlog_target(
        &self,
        template: TemplateId,
        slots: u64,
        expected_us: Option<u64>,
        is_mixed: bool,
    ) -> u64 {
        if is_mixed && self.may_take_long(template, expected_us) {
            return 0;
        }
        let Some(wall_us) = self.wall_us(template, expected_us) else { return slots.min(BACKLOG_START) };
        let waves = BACKLOG_TIME.as_micros() as f64 / wall_us.max(1.0);
        ((slots as f64 * waves) as u64).min(BACKLOG_MAX)
    }

    /// True when tasks of a template are not known to be short: where others wait, too, none of them are in a backlog.
    pub(super) fn may_take_long(&self, template: TemplateId, expected_us: Option<u64>) -> bool {
        !self.wall_us(template, expected_us).is_some_and(is_short_among_others)
    }

    fn wall_us(&self, template: TemplateId, expected_us: Option<u64>) -> Option<f64> {
        self.walls_us.get(&template).copied().or(expected_us.map(|us| us as f64))
    }

    /// A job is over: nothing of it is handed out any more.
    pub(super) fn forget(&mut self, job: JobId) {
        let of_job = super::requests::templates_of(job);
        while let Some(template) = self.templates.range(of_job.clone()).next().copied() {
            self.templates.remove(&template);
        }
        while let Some((template, _)) = self.walls_us.range(of_job.clone()).next() {
            let template = *template;
            self.walls_us.remove(&template);
        }
    }

    /// How many tasks may wait here one for the other behind one of a template, of which so many run at once.
    pub(super) fn followers_target(&self, template: TemplateId, slots: u64) -> u64 {
        let Some(wall_us) = self.walls_us.get(&template) else { return 1 };
        let waves = BACKLOG_TIME.as_micros() as f64 / wall_us.max(1.0);
        (waves as u64).min(FOLLOWERS_MAX / slots.max(1)).max(1)
    }

    /// True when tasks of this template have ended here, so that its backlog is as long as it should be.
    pub(super) fn knows_wall(&self, template: TemplateId) -> bool {
        self.walls_us.contains_key(&template)
    }

    /// Learns from ended tasks how long those of this template take here.
    pub(super) fn learn_wall(&mut self, template: TemplateId, count: u32, wall_us: u64) {
        let mean = wall_us as f64 / f64::from(count.max(1));
        self.walls_us.entry(template).and_modify(|known| *known = (*known + mean) / 2.0).or_insert(mean);
    }
}

/// Where several classes wait, tasks that take so long on average are in a backlog only when they are short.
pub(super) fn is_short_among_others(wall_us: f64) -> bool {
    BACKLOG_TIME.as_micros() as f64 / wall_us.max(1.0) >= MIXED_BACKLOG_WAVES
}
