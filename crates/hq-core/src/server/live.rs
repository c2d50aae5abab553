//! What the server knows of a connected worker beyond the records: what it holds, what runs there and how fast.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hq_model::worker::WorkerConfig;
use hq_model::{IdSet, TaskRef, Timestamp};

use super::ConnectionId;
use super::capacity::{Capacity, Needs};
use super::queue::ClassId;
use crate::limits::{BACKLOG_MAX, BACKLOG_START, BACKLOG_TIME, HEARTBEATS_MISSING_MAX};
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
    /// What it offers and what of it is promised.
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
    /// Number of held tasks that are reported as running.
    pub(super) running: u64,
    // Wall time of a template's tasks here, µs, averaged with the weight on the latest report. Kept when
    // it has run dry of them: that is when the next ones are wanted most.
    walls_us: BTreeMap<TemplateId, f64>,
    // Requests of classes resolved against this worker; `None` for those it can never run.
    needs: BTreeMap<ClassId, Option<Needs>>,
}

/// Tasks of one template on a worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// The tasks.
    pub(super) ids: IdSet,
    /// Those asked back, until they are reported as returned, started or ended.
    pub(super) retracting: IdSet,
}

impl LiveWorker {
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
            capacity: Capacity::new(&config.resources),
            held: BTreeMap::new(),
            templates: BTreeSet::new(),
            last_report: 0,
            reconcile_at: None,
            last_task: None,
            running: 0,
            walls_us: BTreeMap::new(),
            needs: BTreeMap::new(),
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
        self.connection.is_some() && !self.is_draining && self.reconcile_at.is_none()
    }

    /// What a task of a class takes here; `None` when it can never run here.
    pub(super) fn needs(&mut self, class: ClassId, request: &hq_model::Request) -> Option<&Needs> {
        let capacity = &self.capacity;
        self.needs.entry(class).or_insert_with(|| capacity.needs(request)).as_ref()
    }

    /// Time left before it ends.
    pub(super) fn life_left(&self, now: Timestamp) -> Option<Duration> {
        self.ends_at.map(|end| end.since(now))
    }

    /// Hands tasks of a class to it.
    pub(super) fn hold(&mut self, template: TemplateId, class: ClassId, ids: &IdSet) {
        let held = self.held.entry(template).or_default();
        let before = held.ids.len();
        held.ids.union_with(ids);
        if let Some(Some(needs)) = self.needs.get(&class) {
            self.capacity.promise(needs, held.ids.len() - before);
        }
    }

    /// It does not have these any more; returns those that it had.
    pub(super) fn drop_held(&mut self, template: TemplateId, class: ClassId, ids: &IdSet) -> IdSet {
        let Some(held) = self.held.get_mut(&template) else { return IdSet::new() };
        let had = held.ids.intersection(ids);
        held.ids.subtract(&had);
        held.retracting.subtract(&had);
        if held.ids.is_empty() {
            self.held.remove(&template);
        }
        if let Some(Some(needs)) = self.needs.get(&class) {
            self.capacity.release(needs, had.len());
        }
        had
    }

    /// How many tasks of a template it should have beyond those that fit.
    pub(super) fn backlog_target(&self, template: TemplateId, slots: u64) -> u64 {
        let Some(wall_us) = self.walls_us.get(&template) else { return slots.min(BACKLOG_START) };
        let waves = BACKLOG_TIME.as_micros() as f64 / wall_us.max(1.0);
        ((slots as f64 * waves) as u64).min(BACKLOG_MAX)
    }

    /// Learns from ended tasks how long those of this template take here.
    pub(super) fn learn_wall(&mut self, template: TemplateId, count: u32, wall_us: u64) {
        let mean = wall_us as f64 / f64::from(count.max(1));
        self.walls_us.entry(template).and_modify(|known| *known = (*known + mean) / 2.0).or_insert(mean);
    }
}
