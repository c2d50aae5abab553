//! What the server knows of a connected worker beyond the records: what it holds, what runs there and how fast.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hq_model::worker::WorkerConfig;
use hq_model::{IdSet, JobId, Request, TaskRef, Timestamp, WorkerResources};

use rustc_hash::FxHashMap;

use super::ConnectionId;
use super::capacity::{Capacity, Needs};
use super::queue::ClassId;
use crate::limits::{
    BACKLOG_MAX, BACKLOG_START, BACKLOG_TIME, CHOICES_KNOWN_MAX, FOLLOWERS_MAX, HEARTBEATS_MISSING_MAX,
    MIXED_BACKLOG_WAVES,
};
use crate::worker_messages::TemplateId;

/// A worker that is connected, or that may come back.
#[derive(Clone, Debug)]
pub(super) struct LiveWorker {
    /// Its connection; `None` while it may come back.
    pub(super) connection: Option<ConnectionId>,
    /// When it counts as lost unless it is heard before.
    pub(super) lost_at: Timestamp,
    /// When its time is over.
    pub(super) ends_at: Option<Timestamp>,
    /// Takes no more tasks.
    pub(super) is_draining: bool,
    /// It can be handed tasks that wait there for another one.
    pub(super) follows: bool,
    /// The part of its CPUs that must be used when it starts something while idle, in 1/10000.
    pub(super) min_utilization: u32,
    /// Tasks on several nodes run within one group.
    pub(super) group: String,
    /// Kept free for a task on several nodes of this priority: gets nothing of that priority or below.
    pub(super) reserved: Option<i32>,
    /// As a whole, for a task of this template.
    pub(super) whole: Option<TemplateId>,
    /// What it offers.
    pub(super) resources: WorkerResources,
    /// How much of that is promised.
    pub(super) capacity: Capacity,
    /// Tasks handed to it that it has not reported as gone, whatever their state is by now.
    pub(super) held: BTreeMap<TemplateId, Held>,
    /// Templates whose content it has got.
    pub(super) templates: BTreeSet<TemplateId>,
    /// Number of the last report that was taken in.
    pub(super) last_report: u64,
    /// Unsaved reports up to this number follow a hello; then what it does not hold is known to be lost.
    pub(super) reconcile_at: Option<u64>,
    /// The task that started last, and when.
    pub(super) last_task: Option<(TaskRef, Timestamp)>,
    /// Since when it is left alone because more is about to end there.
    pub(super) gathers_since: Option<Timestamp>,
    /// Number of held tasks that are reported as running.
    pub(super) running: u64,
    // Wall time of a template's tasks here, µs, averaged with the weight on the latest report. Kept when
    // it has run dry of them: that is when the next ones are wanted most.
    walls_us: BTreeMap<TemplateId, f64>,
    // Requests of classes resolved against this worker, the preferred one first; without those it can never run.
    // Looked up, never iterated.
    choices: FxHashMap<ClassId, Vec<Choice>>,
}

/// One way to run a task on a worker.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// Its place in the order of preference of all variants, those that can never run here included.
    pub(super) rank: usize,
    /// What it takes.
    pub(super) needs: Needs,
    /// How long the worker must live at least.
    pub(super) time_request: Duration,
}

/// Tasks of one template on a worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// The tasks.
    pub(super) ids: IdSet,
    /// Those asked back, until they are reported as returned, started or ended.
    pub(super) retracting: IdSet,
    /// What each was promised; `None` when it can never run here.
    pub(super) needs: Option<Needs>,
    /// Some of `ids` that were promised something else: another variant.
    pub(super) others: Vec<(Needs, IdSet)>,
    /// Some of `ids` that were promised nothing: they wait there for another task.
    pub(super) followers: IdSet,
}

impl Held {
    /// What is promised, and to how many tasks each.
    pub(super) fn promises(&self) -> impl Iterator<Item = (&Needs, u64)> {
        let others = self.others.iter().map(|(needs, ids)| (needs, ids.len()));
        let apart = self.others.iter().map(|(_, ids)| ids.len()).sum::<u64>() + self.followers.len();
        let rest = self.ids.len() - apart;
        others.chain(self.needs.as_ref().map(|needs| (needs, rest)))
    }
}

impl LiveWorker {
    /// True when an attempt of a task was handed to it and has not ended.
    pub(super) fn has(&self, task: TaskRef) -> bool {
        let of_job = super::requests::templates_of(task.job);
        self.held.range(of_job).any(|(_, held)| held.ids.contains(task.task))
    }

    /// A worker that has just said hello.
    pub(super) fn new(
        connection: Option<ConnectionId>,
        config: &WorkerConfig,
        started: Timestamp,
        now: Timestamp,
    ) -> Self {
        let ends_at = config.time_limit.map(|limit| started.after(limit.saturating_sub(config.time_reserve)));
        let mut worker = LiveWorker {
            connection,
            lost_at: now,
            ends_at,
            is_draining: false,
            follows: false,
            min_utilization: config.min_utilization,
            group: config.group.clone(),
            reserved: None,
            whole: None,
            resources: config.resources.clone(),
            capacity: Capacity::new(&config.resources),
            held: BTreeMap::new(),
            templates: BTreeSet::new(),
            last_report: 0,
            reconcile_at: None,
            last_task: None,
            gathers_since: None,
            running: 0,
            walls_us: BTreeMap::new(),
            choices: FxHashMap::default(),
        };
        worker.heard(config.heartbeat, now);
        worker
    }

    /// It gave a sign of life.
    pub(super) fn heard(&mut self, heartbeat: Duration, now: Timestamp) {
        self.lost_at = now.after(heartbeat * HEARTBEATS_MISSING_MAX);
    }

    /// True when tasks may be handed to it.
    pub(super) fn takes_tasks(&self) -> bool {
        let is_open = self.connection.is_some() && !self.is_draining && self.reconcile_at.is_none();
        is_open && self.whole.is_none()
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
        let resources = &self.resources;
        self.choices.entry(class).or_insert_with(|| choices(resources, requests))
    }

    /// How many more tasks of a class fit in one of the ways to run them here, and how long this worker must live for
    /// that; `None` when they never run that way.
    pub(super) fn room_for(
        &mut self,
        class: ClassId,
        requests: &[Request],
        pick: impl Fn(&[Choice]) -> Option<&Choice>,
    ) -> Option<(i64, Duration)> {
        self.choices(class, requests);
        let choice = pick(self.choices.get(&class)?)?;
        Some((self.capacity.room(&choice.needs), choice.time_request))
    }

    /// True when nothing is promised and it does not start for little.
    pub(super) fn is_idle_and_picky(&self) -> bool {
        self.min_utilization > 0 && self.capacity.is_free()
    }

    /// True when less of its CPUs is promised than it starts for.
    pub(super) fn is_used_too_little(&self) -> bool {
        self.capacity.used_cpus() < u64::from(self.min_utilization)
    }

    /// Time left before it ends.
    pub(super) fn life_left(&self, now: Timestamp) -> Option<Duration> {
        self.ends_at.map(|end| end.since(now))
    }

    /// Hands tasks to it, each of which takes `needs`.
    pub(super) fn hold(&mut self, template: TemplateId, needs: Option<&Needs>, ids: &IdSet) {
        let held = self.held.entry(template).or_default();
        let new = ids.difference(&held.ids);
        if held.ids.len() == held.followers.len() {
            held.needs = needs.cloned();
        }
        held.ids.union_with(&new);
        let Some(needs) = needs else { return };
        self.capacity.promise(needs, new.len());
        if held.needs.as_ref() != Some(needs) {
            match held.others.iter_mut().find(|other| other.0 == *needs) {
                Some((_, others)) => others.union_with(&new),
                None => held.others.push((needs.clone(), new)),
            }
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
        let Some(held) = self.held.get_mut(&template) else { return };
        let had = held.ids.intersection(ids);
        held.ids.subtract(&had);
        held.retracting.subtract(&had);
        let mut rest = had.difference(&held.followers).len();
        held.followers.subtract(&had);
        for (needs, others) in &mut held.others {
            let gone = others.intersection(&had);
            others.subtract(&gone);
            rest -= gone.len();
            self.capacity.release(needs, gone.len());
        }
        held.others.retain(|(_, others)| !others.is_empty());
        if let Some(needs) = &held.needs {
            self.capacity.release(needs, rest);
        }
        if held.ids.is_empty() {
            self.held.remove(&template);
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
        let wall_us = self.walls_us.get(&template).copied().or(expected_us.map(|us| us as f64));
        let Some(wall_us) = wall_us else { return slots.min(BACKLOG_START) };
        if is_mixed && !is_short_among_others(wall_us) {
            return 0;
        }
        let waves = BACKLOG_TIME.as_micros() as f64 / wall_us.max(1.0);
        ((slots as f64 * waves) as u64).min(BACKLOG_MAX)
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

    /// How long tasks of this template took here lately.
    pub(super) fn wall(&self, template: TemplateId) -> Option<Duration> {
        self.walls_us.get(&template).map(|wall_us| Duration::from_micros(*wall_us as u64))
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

// Larger weights are preferred, then what is named first.
pub(super) fn choices(resources: &WorkerResources, requests: &[Request]) -> Vec<Choice> {
    let mut order: Vec<&Request> = requests.iter().collect();
    order.sort_by_key(|request| Reverse(request.weight));
    let choice = |(rank, request): (usize, &Request)| {
        Some(Choice { rank, needs: Needs::new(resources, request)?, time_request: request.time_request })
    };
    order.into_iter().enumerate().filter_map(choice).collect()
}
