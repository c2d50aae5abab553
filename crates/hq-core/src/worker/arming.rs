//! What follows a task that runs is said beforehand to what executes it, so that nobody has to be woken up between the end of
//! the one and the start of the other: to the launcher, which starts programs, or to the runner in which a function is called.
//!
//! What holds:
//! - Armed is what would start on the resources of the leader if that ended now: the first task of the queue, or, where it
//!   goes before that, the one that waits for the leader, of the same template. So admission stays as it is.
//! - One that is armed is a leader, too, where tasks of its kind are so short that one after the other would wake this worker
//!   up all the time, and as long as more wait here than run. All of them together are to take [`ARMED_AHEAD`]; calls, which
//!   take much less to begin, [`CALLS_AHEAD`], and where one of them is expected to take longer, none is armed.
//! - Over is a leader for this when nothing of it runs any more, though what it has printed may not be safe yet.
//! - It has what the leader had, a call its runner, too. A program begins with the leader's success only, a call whenever the
//!   runner goes on. In all other cases it comes back here.
//! - It counts as waiting, for the server too, until the launcher says that it has begun, and then as started. Whoever wants
//!   it back, canceled or replaced gets an answer when the launcher has given its own: it has never been, or it runs and
//!   is ended as usual.
//! - It is called back when something of higher priority comes, when it fits elsewhere, when its leader is being ended or
//!   takes long or waits for others, when it waits for its leader and the server cannot hear of that, and when this worker leaves.
//! - When one is called back or does not begin, those behind it come back, too.
//! - A leader has one at most in all its life, so nothing goes back and forth.

use std::time::Duration;

use hq_model::{IdSet, Instance, JobId, TaskId, TaskRef, Timestamp};

use super::machine::{Batch, Ending, Known, Link, QueuePlace, Running, Worker};
use super::starting::{Entered, has_time, start_of};
use super::{Effect, Grant, RunnerId, RunsIn, Start};
use crate::limits::{
    ARMED_AHEAD, ARMED_AHEAD_MAX, ARMED_TIME, ARMED_TOLD_MAX, CALLS_AHEAD, CALLS_AHEAD_MAX, CALLS_ARMED_TIME,
};

/// A task that begins at the end of another one.
#[derive(Debug)]
pub(super) struct Armed {
    // Of this task alone.
    pub(super) batch: Batch,
    // Where it was in the queue; `None` when it waits for its leader.
    place: Option<QueuePlace>,
    leader: TaskRef,
    // What is armed after it.
    follower: Option<TaskRef>,
    // It is called back when it has not begun by then.
    until: Timestamp,
    // Once the leader has ended.
    pub(super) after: Option<After>,
    called_back: Option<Why>,
}

/// How a leader has ended.
#[derive(Debug)]
pub(super) struct After {
    is_success: bool,
    // When, from its start and how long it ran.
    at: Timestamp,
    /// What it had.
    pub(super) grant: Grant,
    /// Where it was called.
    pub(super) runner: Option<RunnerId>,
    /// It was being ended.
    was_forced: bool,
}

// A task that runs, and what begins after it.
#[derive(Debug)]
struct Row {
    first: TaskRef,
    last: TaskRef,
    // Those behind the first.
    count: usize,
    most: usize,
}

/// Why an armed task is called back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Why {
    /// It waits here again.
    Better,
    /// It goes to the server.
    Returned,
    /// It is to be over.
    Ended(Ending),
}

impl Armed {
    /// It is not known yet what becomes of it.
    pub(super) fn is_called_back(&self) -> bool {
        self.called_back.is_some()
    }

    /// Another attempt takes its place.
    pub(super) fn is_superseded(&self) -> bool {
        self.called_back == Some(Why::Ended(Ending::Superseded))
    }
}

impl Worker {
    /// Says what follows those that have just started, as far as it is known and soon. False when nothing does.
    pub(super) fn arm(&mut self, now: Timestamp, effects: &mut Vec<Effect>) -> bool {
        let begun = std::mem::take(&mut self.begun);
        let may = self.leaving.is_none() && !self.reporting.is_stuck() && self.node_fault.reason().is_none();
        let mut rows: Vec<Row> = Vec::new();
        if may {
            rows.extend(begun.iter().filter_map(|first| self.row_of(*first)));
        }
        let before = effects.len();
        let mut waiting = match rows.is_empty() {
            true => 0,
            false => self.queue.values().map(|batch| batch.left.len()).sum::<u64>(),
        };
        // Each gets its first one before any gets its second.
        while !rows.is_empty() {
            rows.retain_mut(|row| row.count < row.most && self.lengthen(now, row, &mut waiting, effects));
        }
        effects.len() > before
    }

    // What is armed after a task, one after the other; `None` where nothing may be.
    fn row_of(&self, first: TaskRef) -> Option<Row> {
        let run = self.running.get(&first)?;
        let known = &self.templates[&run.template];
        // What is free when the leader ends may be closer to each other than what that had.
        let is_placed = known.ways.first().is_none_or(|way| self.pools.place_matters(&way.needs));
        let is_over = run.ending.is_some() || run.has_exited;
        let is_last = run.runner.is_some_and(|runner| self.runners.is_spent(runner));
        let most = most_ahead(known);
        if is_over || is_last || most == 0 || is_placed || !may_be_armed(known) {
            return None;
        }
        let (mut last, mut count) = (first, 0);
        let mut next = run.follower;
        while let Some((task, armed)) = next.and_then(|task| Some((task, self.armed.get(&task)?))) {
            if armed.is_called_back() {
                return None;
            }
            (last, count, next) = (task, count + 1, armed.follower);
        }
        Some(Row { first, last, count, most })
    }

    // `waiting` is how many are queued here.
    fn lengthen(
        &mut self,
        now: Timestamp,
        row: &mut Row,
        waiting: &mut u64,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let life = self.config.life(self.started);
        let Some(run) = self.running.get(&row.first) else { return false };
        let known = &self.templates[&run.template];
        // What others would take up soon is not said to be behind this one.
        if row.count > 0 && *waiting <= self.running.len() as u64 {
            return false;
        }
        // Unless what waits for the last one goes before all that waits for room.
        let follower = self.followers.get(&row.last).map(Batch::last_place);
        let place = self.queue.first_key_value().map(|(place, _)| *place);
        let place = place.filter(|place| follower.is_none_or(|follower| *place < follower));
        let batch = match place {
            Some(place) => self.queue.get_mut(&place),
            // What waits for a task waits until that has ended, which is later than the end of its program.
            None if row.count == 0
                && self.link == Link::Up
                && !known.template.spec.is_streamed()
                && run.runner.is_none() =>
            {
                self.followers.get_mut(&row.first).filter(|batch| batch.left.len() == 1)
            }
            None => None,
        };
        let Some(batch) = batch else { return false };
        let request = &known.template.spec.requests[0];
        let is_same = batch.template == run.template && batch.nodes.is_empty() && !batch.is_part;
        // The end of the leader may be too late for one that asks for time.
        let has_time = life.is_none() || request.time_request.is_zero() && has_time(life, now, request);
        let Some(id) = batch.left.first().filter(|_| is_same && has_time) else { return false };
        let task = TaskRef::new(row.first.job, id);
        if run.runner.is_some() && batch.takes_objects(id) {
            return false;
        }
        if self.running.contains_key(&task) || self.armed.contains_key(&task) {
            return false;
        }
        batch.left.remove(id);
        let batch = Batch { left: IdSet::single(id), ..batch.clone() };
        let runs_in = run.runner.map(|runner| RunsIn { runner, is_new: false, zygote: None });
        let start = Start { runs_in, ..start_of(known, &batch, id, 0, &run.grant, &[]) };
        let until = now.after(armed_time(known));
        match place {
            Some(place) => {
                *waiting = waiting.saturating_sub(1);
                self.drop_if_empty(place);
            }
            None => drop(self.followers.remove(&row.first)),
        }
        let leader = std::mem::replace(&mut row.last, task);
        self.set_follower(leader, Some(task));
        row.count += 1;
        effects.push(Effect::Arm { start, after: leader });
        let armed = Armed { batch, place, leader, follower: None, until, after: None, called_back: None };
        self.armed.insert(task, armed);
        true
    }

    fn follower(&mut self, leader: TaskRef) -> Option<&mut Option<TaskRef>> {
        let armed = self.armed.get_mut(&leader).map(|armed| &mut armed.follower);
        armed.or_else(|| self.running.get_mut(&leader).map(|run| &mut run.follower))
    }

    fn set_follower(&mut self, leader: TaskRef, follower: Option<TaskRef>) {
        if let Some(known) = self.follower(leader) {
            *known = follower;
        }
    }

    fn drop_follower(&mut self, leader: TaskRef, follower: TaskRef) {
        if let Some(known) = self.follower(leader).filter(|known| **known == Some(follower)) {
            *known = None;
        }
    }

    /// Calls back what should no longer begin by itself.
    pub(super) fn call_back(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.armed.is_empty() {
            return;
        }
        let first = self.queue.first_key_value().map(|(place, _)| *place);
        let is_overtaken = |armed: &Armed| {
            let place = armed.place.unwrap_or_else(|| armed.batch.last_place());
            first.is_some_and(|first| first < place)
        };
        let is_better = |armed: &Armed| match armed.place {
            None => self.link != Link::Up,
            Some(_) => {
                let needs = &self.templates[&armed.batch.template].ways[0].needs;
                now >= armed.until || self.pools.scarce(needs) == 0
            }
        };
        let wanted = self.armed.iter().filter(|(_, armed)| armed.called_back.is_none());
        let wanted =
            wanted.filter(|(_, armed)| armed.after.is_none() && (is_overtaken(armed) || is_better(armed)));
        let wanted: Vec<TaskRef> = wanted.map(|(task, _)| *task).collect();
        wanted.into_iter().for_each(|task| self.call_one_back(task, Why::Better, effects));
    }

    /// When an armed task is to be called back.
    pub(super) fn next_call_back(&self) -> Option<Timestamp> {
        let waits =
            |armed: &&Armed| armed.place.is_some() && armed.after.is_none() && armed.called_back.is_none();
        self.armed.values().filter(waits).map(|armed| armed.until).min()
    }

    /// Calls an armed task back. The last word counts, but an end is an end.
    pub(super) fn call_one_back(&mut self, task: TaskRef, why: Why, effects: &mut Vec<Effect>) {
        let Some(armed) = self.armed.get_mut(&task) else { return };
        match armed.called_back {
            None => effects.push(Effect::Recall { task }),
            Some(Why::Ended(_)) => return,
            Some(_) if why == Why::Better => return,
            Some(_) => {}
        }
        armed.called_back = Some(why);
    }

    /// Calls back what is armed of a job among `ids`.
    pub(super) fn call_tasks_back(&mut self, job: JobId, ids: &IdSet, why: Why, effects: &mut Vec<Effect>) {
        let tasks: Vec<TaskRef> = self.armed_of(job).filter(|task| ids.contains(task.task)).collect();
        tasks.into_iter().for_each(|task| self.call_one_back(task, why, effects));
    }

    /// Calls back everything.
    pub(super) fn call_all_back(&mut self, why: Why, effects: &mut Vec<Effect>) {
        let tasks: Vec<TaskRef> = self.armed.keys().copied().collect();
        tasks.into_iter().for_each(|task| self.call_one_back(task, why, effects));
    }

    /// Armed tasks of a job.
    pub(super) fn armed_of(&self, job: JobId) -> impl Iterator<Item = TaskRef> {
        let of_job = TaskRef::new(job, TaskId(0))..=TaskRef::new(job, TaskId(u32::MAX));
        self.armed.range(of_job).map(|entry| *entry.0)
    }

    /// Nothing runs any more of a task. What it has printed may take a while to be safe, and what it had is of use meanwhile;
    /// its end, and all that depends on that, comes later.
    pub(super) fn task_exited(&mut self, now: Timestamp, task: TaskRef, is_success: bool) {
        // A part is there until it is ended.
        let is_plain = |run: &Running| !run.is_part && run.ranks.is_empty();
        let may_go = self.running.get(&task).is_some_and(|run| is_plain(run) && !run.has_exited);
        let run = if may_go { self.running.remove(&task) } else { None };
        let Some(mut run) = run else { return };
        let is_success = is_success && run.ending.is_none();
        let took = now.since(run.since);
        self.lending.ended(task);
        self.hand_on(now, &mut run, is_success, took);
        run.has_exited = true;
        // Its time does not run any more, and there is nothing to be killed.
        self.deadlines.remove_all(task);
        self.running.insert(task, run);
    }

    /// What a task had is free, or of the one that is armed after it until it is known how that goes on.
    pub(super) fn hand_on(&mut self, now: Timestamp, run: &mut Running, is_success: bool, took: Duration) {
        let (grant, runner) = (std::mem::take(&mut run.grant), run.runner.take());
        let (at, was_forced) = (run.since.after(took), run.ending.is_some());
        let after = After { is_success, at, grant, runner, was_forced };
        match run.follower.and_then(|task| self.armed.get_mut(&task)) {
            Some(armed) => armed.after = Some(after),
            None => self.let_go(now, &after),
        }
        if let Some(known) = self.templates.get_mut(&run.template).filter(|_| self.arms) {
            known.took = took;
        }
    }

    // Nothing goes on with what it had.
    fn let_go(&mut self, now: Timestamp, after: &After) {
        self.pools.free(&after.grant);
        if let Some(runner) = after.runner {
            self.runners.release(now, runner, after.was_forced);
        }
    }

    /// An armed task has begun.
    pub(super) fn task_begun(&mut self, now: Timestamp, task: TaskRef, effects: &mut Vec<Effect>) {
        let Some(armed) = self.armed.remove(&task) else { return };
        let Armed { batch, place, follower, after, called_back, .. } = armed;
        let Some(After { is_success, at, grant, runner, was_forced }) = after else {
            return crate::never!("{task} has begun, and the one before it has not ended");
        };
        let ends_at = self.ends_at();
        // It is told a moment later, and several that ran one after the other in the same moment.
        let earliest = Timestamp(now.0.saturating_sub(ARMED_TOLD_MAX.as_micros() as u64));
        let entered = Entered::of(&batch, 0, grant, Vec::new()).called_in(runner);
        self.enter(at.clamp(earliest, now), ends_at, task, entered);
        // It was over before it could be ended, and so this one runs there.
        runner.filter(|_| was_forced).iter().for_each(|runner| self.runners.spend(*runner));
        self.set_follower(task, follower);
        if let Some(Why::Ended(ending)) = called_back {
            self.end(now, task, ending, effects);
        } else if place.is_none() && !is_success {
            // It ended well while it was being ended: that is no success, and nothing may follow it.
            self.end(now, task, Ending::Stopped, effects);
        }
    }

    /// An armed task has never been: it waits here again, or it is said what has become of it.
    pub(super) fn task_recalled(&mut self, now: Timestamp, task: TaskRef) {
        let Some(armed) = self.armed.remove(&task) else { return };
        let Armed { batch, place, leader, after, called_back, .. } = armed;
        let is_over = after.map(|after| {
            self.let_go(now, &after);
            after.is_success
        });
        // It may have another one by now.
        self.drop_follower(leader, task);
        let single = IdSet::single(task.task);
        let waits = self.leaving.is_none() && self.node_fault.reason().is_none();
        match called_back {
            None | Some(Why::Better) if waits => return self.put_back(batch, place, leader, is_over),
            None | Some(Why::Better | Why::Returned | Why::Ended(Ending::Stopped)) => {
                self.reporting.returned(task.job, &single);
            }
            Some(Why::Ended(Ending::Canceled | Ending::Elsewhere)) => {
                self.reporting.canceled(task.job, &single);
            }
            Some(Why::Ended(Ending::Superseded | Ending::Timeout)) => {}
        }
        self.leader_ended(task, None);
    }

    fn put_back(&mut self, batch: Batch, place: Option<QueuePlace>, leader: TaskRef, is_over: Option<bool>) {
        match (place, is_over) {
            (Some(place), _) => self.enqueue_at(place, batch),
            (None, is_over) => {
                if let Some(other) = self.followers.insert(leader, batch) {
                    self.reporting.returned(leader.job, &other.left);
                }
                if let Some(is_success) = is_over {
                    // One that takes what its leader leaves is never armed before that has ended.
                    self.leader_ended(leader, is_success.then_some(&[]));
                }
            }
        }
    }

    /// Nothing is heard of what was armed: whether it has begun or not, it does not run.
    pub(super) fn lose_armed(&mut self) {
        for (task, armed) in std::mem::take(&mut self.armed) {
            armed.after.iter().for_each(|after| self.pools.free(&after.grant));
            if matches!(armed.called_back, Some(Why::Ended(Ending::Canceled | Ending::Elsewhere))) {
                self.reporting.canceled(task.job, &IdSet::single(task.task));
            }
        }
    }

    /// As which instance a task is armed.
    pub(super) fn armed_as(&self, task: TaskRef) -> Option<Instance> {
        self.armed.get(&task).map(|armed| armed.batch.instance)
    }
}

// What prints into a stream has pipes from the moment it is armed.
fn most_ahead(known: &Known) -> usize {
    let spec = &known.template.spec;
    let of = |ahead: Duration| usize::try_from(ahead.as_micros() / known.took.as_micros().max(1));
    if spec.body.function().is_some() {
        return of(CALLS_AHEAD).map_or(CALLS_AHEAD_MAX, |count| count.min(CALLS_AHEAD_MAX));
    }
    match known.took < ARMED_TIME {
        false => 0,
        true if spec.is_streamed() => 1,
        true => of(ARMED_AHEAD).map_or(ARMED_AHEAD_MAX, |count| count.clamp(1, ARMED_AHEAD_MAX)),
    }
}

// How long it waits for its leader.
fn armed_time(known: &Known) -> Duration {
    if known.template.spec.body.function().is_some() { CALLS_ARMED_TIME } else { ARMED_TIME }
}

// Nothing is to be done before or after but to keep what it prints, and it needs one thing only.
fn may_be_armed(known: &Known) -> bool {
    let spec = &known.template.spec;
    let [request] = &spec.requests[..] else { return false };
    let is_call = spec.body.function().is_some();
    // Who is told beforehand begins at any time, and a warning of one call is none of another.
    let is_timeless = spec.end_by.is_none() && !(is_call && spec.warning.is_some());
    let is_plain = request.nodes == 0 && request.ranks == 0 && !request.takes_whole_nodes();
    let has_aftermath = spec.has_aftermath_in_files() || is_call && spec.is_streamed();
    is_timeless && is_plain && !has_aftermath && !spec.service && spec.speculate.is_none()
}
