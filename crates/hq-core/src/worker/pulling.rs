//! What makes a worker a relay: it starts nothing, and gives pulled tasks to whoever asks.
//!
//! What holds:
//! - A task that was handed over and not taken waits, as on any worker: the server may ask it back.
//! - Somebody who takes a task has it until its lease is over, ends it, or gives it back. A lease that is over counts as a
//!   crash, for whoever had the task may have died of it.
//! - The relay says how many tasks it wants altogether: those that are taken, those that are asked for in vain, and about as
//!   many ahead as are taken in a fifth of a second. What it has beyond that goes back, so that other relays get it.

use std::time::Duration;

use hq_model::{IdSet, TaskRef, Timestamp};

use super::deadlines::Deadline;
use super::machine::{Link, Worker};
use super::starting::{Entered, start_of};
use super::{Effect, Grant};
use crate::limits::{PULL_AHEAD_MAX, PULL_AHEAD_TIME, PULL_IDLE_TIME};

/// How many tasks a relay wants.
#[derive(Debug)]
pub(super) struct Pulling {
    // Asked for in vain.
    wanted: u64,
    // Tasks that are there altogether should be so many.
    room: u64,
    // What the server was told, and in which report.
    told: Option<(u64, u64)>,
    // Of reports up to this one it has handed out what there was room for.
    weighed: u64,
    // Most that were taken at once, lately.
    largest: u64,
    // Taken in the present span of time, and in the one before.
    taken: u64,
    taken_before: u64,
    span_began: Timestamp,
    // When somebody asked last.
    asked: Timestamp,
}

impl Pulling {
    pub(super) fn new(now: Timestamp) -> Pulling {
        Pulling {
            wanted: 0,
            room: 0,
            told: None,
            weighed: 0,
            largest: 0,
            taken: 0,
            taken_before: 0,
            span_began: now,
            asked: now,
        }
    }

    /// The server does not know any more what it was told.
    pub(super) fn forget_told(&mut self) {
        self.told = None;
    }

    /// What is told now.
    pub(super) fn tell_room(&mut self, report: u64) -> u64 {
        self.told = Some((self.room, report));
        self.room
    }

    /// The server has handed out what there was room for when this report was made.
    pub(super) fn weighed(&mut self, report: u64) {
        self.weighed = self.weighed.max(report);
    }

    // A little less is no news as long as somebody asks: that would be told all the time.
    pub(super) fn has_news(&self) -> bool {
        let told = self.told.map_or(0, |(room, _)| room);
        self.room > told || (self.room < told && self.ahead() == 0)
    }

    /// True when nobody asks.
    pub(super) fn is_idle(&self) -> bool {
        self.wanted == 0
    }

    /// When nobody has asked for long enough, or less was taken in a span.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let is_busy = self.largest > 0 || self.taken > 0 || self.taken_before > 0;
        is_busy.then(|| self.asked.after(PULL_IDLE_TIME))
    }

    fn ahead(&self) -> u64 {
        (2 * self.largest).max(self.taken_before).max(self.taken).min(PULL_AHEAD_MAX)
    }

    fn note(&mut self, now: Timestamp, asked: u64, taken: u64) {
        self.pass(now);
        self.asked = now;
        self.largest = self.largest.max(asked);
        self.taken += taken;
    }

    fn pass(&mut self, now: Timestamp) {
        if self.asked.after(PULL_IDLE_TIME) <= now {
            (self.largest, self.taken, self.taken_before) = (0, 0, 0);
        }
        if self.span_began.after(PULL_AHEAD_TIME) <= now {
            let is_next = now < self.span_began.after(2 * PULL_AHEAD_TIME);
            self.taken_before = if is_next { self.taken } else { 0 };
            (self.taken, self.span_began) = (0, now);
        }
    }
}

impl Worker {
    /// How many pulled tasks can be taken here.
    pub fn takeable(&self) -> u64 {
        self.queue.values().map(|batch| batch.left.len()).sum()
    }

    /// Since when a task is taken.
    pub fn taken_since(&self, task: TaskRef) -> Option<Timestamp> {
        self.running.get(&task).map(|run| run.since)
    }

    /// Since when a task is taken, and until when unless something is said of it.
    pub fn held(&self, task: TaskRef) -> Option<(Timestamp, Timestamp)> {
        let run = self.running.get(&task)?;
        Some((run.since, run.lease_until?))
    }

    /// Somebody waits until what has ended here is on the server's disk: it is reported soon, whatever else waits to be taken.
    pub fn hurry(&mut self) {
        self.reporting.await_report();
    }

    /// True when the server has handed out all that there is for those who ask here.
    pub fn has_all_there_is(&self) -> bool {
        let Some(pulling) = &self.pulling else { return true };
        let needed = self.running.len() as u64 + pulling.wanted;
        self.link == Link::Up
            && pulling.told.is_some_and(|(room, report)| room >= needed && report <= pulling.weighed)
    }

    /// True when somebody asks for more than the server knows of.
    pub(super) fn is_asked_in_vain(&self) -> bool {
        self.pulling.as_ref().is_some_and(|pulling| pulling.wanted > 0 && pulling.has_news())
    }

    /// Gives as many as there are, larger priority first.
    pub(super) fn give(&mut self, now: Timestamp, count: u32, lease: Duration, effects: &mut Vec<Effect>) {
        let mut left = if self.gives() { u64::from(count) } else { 0 };
        let ends_at = self.ends_at();
        let mut place = None;
        while left > 0 {
            let from = place.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
            let mut later = self.queue.range((from, std::ops::Bound::Unbounded));
            let Some(next) = later.next().map(|(next, _)| *next) else { break };
            place = Some(next);
            let Some(batch) = self.queue.get_mut(&next) else { break };
            // What could not end in time any more, the server asks for.
            if self.templates[&batch.template].last_start.is_some_and(|last| last < now) {
                continue;
            }
            // An attempt that is being ended still has the task.
            let running = &self.running;
            let job = batch.template.job;
            let ids = batch.left.iter().filter(|id| !running.contains_key(&TaskRef::new(job, *id)));
            let ids: IdSet = ids.take(usize::try_from(left).unwrap_or(usize::MAX)).collect();
            batch.left.subtract(&ids);
            left -= ids.len();
            let batch = batch.clone();
            let known = &self.templates[&batch.template];
            let starts = ids.iter().map(|id| start_of(known, &batch, id, 0, &Grant::default(), &[]));
            effects.extend(starts.map(Effect::Start));
            for id in ids.iter() {
                let task = TaskRef::new(job, id);
                self.enter(now, ends_at, task, Entered::of(&batch, 0, Grant::default(), Vec::new()));
                self.extend(now, task, lease);
            }
            self.drop_if_empty(next);
        }
        if let Some(pulling) = &mut self.pulling {
            pulling.note(now, u64::from(count), u64::from(count) - left);
        }
    }

    // Not while it leaves, nor while so much is unsaved that nothing more may begin.
    fn gives(&self) -> bool {
        self.pulling.is_some() && self.leaving.is_none() && !self.reporting.is_stuck()
    }

    pub(super) fn wanted(&mut self, now: Timestamp, count: u64) {
        if let Some(pulling) = &mut self.pulling {
            pulling.wanted = count;
            if count > 0 {
                pulling.note(now, 0, 0);
            }
        }
    }

    pub(super) fn extend(&mut self, now: Timestamp, task: TaskRef, lease: Duration) {
        let Some(run) = self.running.get_mut(&task).filter(|run| run.ending.is_none()) else { return };
        if let Some(before) = run.lease_until.replace(now.after(lease)) {
            self.deadlines.remove(before, task, Deadline::Lease);
        }
        self.deadlines.insert(now.after(lease), task, Deadline::Lease);
    }

    /// Whoever had it gives it back.
    pub(super) fn release(&mut self, now: Timestamp, task: TaskRef) {
        if self.running.get(&task).is_some_and(|run| run.ending.is_none()) {
            self.drop_taken(now, task);
            self.reporting.interrupted(task.job, &IdSet::single(task.task));
        }
    }

    /// Whoever had it was silent for too long.
    pub(super) fn expire(&mut self, now: Timestamp, task: TaskRef, effects: &mut Vec<Effect>) {
        if self.running.get(&task).is_some_and(|run| run.ending.is_none()) {
            self.drop_taken(now, task);
            self.reporting.expired(task);
            effects.push(Effect::Expired { task });
        }
    }

    fn drop_taken(&mut self, now: Timestamp, task: TaskRef) {
        if self.running.remove(&task).is_none() {
            return;
        }
        self.last_end = now;
        self.deadlines.remove_all(task);
    }

    /// Says how much is wanted, and gives back what is here beyond that.
    pub(super) fn weigh(&mut self, now: Timestamp) {
        let taken = self.running.len() as u64;
        let Some(pulling) = &mut self.pulling else { return };
        pulling.pass(now);
        pulling.room = if self.leaving.is_some() { taken } else { taken + pulling.wanted + pulling.ahead() };
        // Where somebody asks, a task more or less does not matter.
        let may_stay = if pulling.ahead() > 0 { 2 * pulling.room } else { pulling.room };
        let queued: u64 = self.queue.values().map(|batch| batch.left.len()).sum();
        let mut surplus = (taken + queued).saturating_sub(may_stay);
        while surplus > 0
            && self.link == Link::Up
            && let Some(mut last) = self.queue.last_entry()
        {
            let batch = last.get_mut();
            let keep = batch.left.len().saturating_sub(surplus);
            let kept = batch.left.take_first(keep);
            let gone = std::mem::replace(&mut batch.left, kept);
            surplus -= gone.len();
            self.reporting.returned(batch.template.job, &gone);
            if batch.left.is_empty() {
                last.remove();
            }
        }
    }

    /// True when nothing is taken here, and the server has all that happened on disk.
    pub fn is_idle_relay(&self) -> bool {
        self.pulling.is_some() && self.running.is_empty() && !self.has_news() && self.has_said_all()
    }
}
