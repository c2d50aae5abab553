//! Second attempts of tasks that take long: `--speculate`.
//!
//! A task that runs for longer than a factor times the median of its finished siblings is handed to a second
//! worker under a higher instance, when that has room which nothing else wants. Both attempts are valid until one
//! finishes; the other one is then ended. An attempt that ends in any other way is dropped, and the task goes on
//! as the one that is left: only an attempt without another one can fail, be retried or count as crashed.

use std::collections::BTreeMap;

use hq_model::task::SpeculateFactor;
use hq_model::{IdSet, Instance, JobId, TaskId, TaskRef, Timestamp, WorkerId};

use super::job::Job;
use super::lease::Lease;
use super::live::Choice;
use super::machine::Server;
use super::queue::ClassKey;
use super::{Effect, Gate};
use crate::attempt::AttemptEnd;
use crate::limits::{SPECULATE_LOOK_INTERVAL, SPECULATE_SIBLINGS_MIN, SPECULATE_TIME_MIN};
use crate::mark;
use crate::record::{FinishedSpan, Record, RestartCause};
use crate::worker_messages::{TemplateId, ToWorker};

/// What is known of tasks that may take long, beyond the records.
#[derive(Clone, Debug, Default)]
pub(super) struct Speculation {
    // Of submits with a factor of which something has finished.
    siblings: BTreeMap<TemplateId, Siblings>,
}

#[derive(Clone, Debug)]
struct Siblings {
    factor: SpeculateFactor,
    walls: Walls,
    // When to look for tasks that take long; `None` while none runs.
    next_look: Option<Timestamp>,
}

impl Speculation {
    /// When tasks may begin to take long.
    pub(super) fn next_look(&self) -> Option<Timestamp> {
        self.siblings.values().filter_map(|siblings| siblings.next_look).min()
    }

    /// A job is over.
    pub(super) fn forget(&mut self, job: JobId) {
        if !self.siblings.is_empty() {
            self.siblings.retain(|template, _| template.job != job);
        }
    }
}

impl Siblings {
    // A task that runs for longer, µs, takes long.
    fn limit_us(&self) -> Option<u64> {
        let limit = self.factor.times_us(self.walls.median_us()?);
        Some(limit.max(SPECULATE_TIME_MIN.as_micros() as u64))
    }
}

impl Server {
    /// Learns how long tasks take from what is kept of those that finished before the server was restarted.
    pub(super) fn learn_speculation_again(&mut self) {
        let speculates = |job: &Job| job.submits.iter().any(|submit| submit.task.speculate.is_some());
        let alive = self.state.jobs.iter().filter(|(_, job)| !job.has_ended() && speculates(job));
        let alive: Vec<JobId> = alive.map(|(id, _)| *id).collect();
        if alive.is_empty() {
            return;
        }
        let spans = self.state.details.spans().filter(|kept| alive.contains(&kept.span.job));
        let spans: Vec<FinishedSpan> = spans.map(|kept| kept.span.clone()).collect();
        for span in spans {
            self.learn_siblings(&span);
        }
    }

    /// Learns from finished tasks how long their siblings should take.
    pub(super) fn learn_siblings(&mut self, span: &FinishedSpan) {
        let Some(job) = self.state.jobs.get(&span.job) else { return };
        // A job of calls has very many submits.
        let speculates = |submit: u32| job.submits[submit as usize].task.speculate.is_some();
        if !job.by_submit(&span.ids).into_iter().any(|(submit, _)| speculates(submit)) {
            return;
        }
        for (task, (_, usage)) in span.ids.iter().zip(span.measures.iter()) {
            let Some(submit) = job.submit_of(task) else { continue };
            let Some(factor) = job.submits[submit as usize].task.speculate else { continue };
            let siblings = self
                .speculation
                .siblings
                .entry(TemplateId { job: span.job, submit })
                .or_insert_with(|| Siblings { factor, walls: Walls::default(), next_look: None });
            siblings.walls.add(usage.wall_us);
            if siblings.walls.count == SPECULATE_SIBLINGS_MIN {
                siblings.next_look = Some(Timestamp(0));
            }
        }
    }

    /// A task runs: one day it may have run for long.
    pub(super) fn may_speculate(&mut self, id: JobId, task: TaskId, since: Timestamp) {
        if self.speculation.siblings.is_empty() {
            return;
        }
        let submit = self.state.jobs.get(&id).and_then(|job| job.submit_of(task));
        let template = submit.map(|submit| TemplateId { job: id, submit });
        let siblings = template.and_then(|template| self.speculation.siblings.get_mut(&template));
        if let Some(siblings) = siblings.filter(|siblings| siblings.next_look.is_none()) {
            siblings.next_look = siblings.limit_us().map(|limit| Timestamp(since.0.saturating_add(limit)));
        }
    }

    /// Looks for tasks that take long, and starts them a second time where there is room. Workers that now have room for
    /// others have changed then.
    pub(super) fn speculate(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.speculation.next_look().is_none_or(|at| now < at) {
            return;
        }
        let due = self.speculation.siblings.iter();
        let due = due.filter(|(_, siblings)| siblings.next_look.is_some_and(|at| at <= now));
        let due: Vec<(TemplateId, Option<u64>)> =
            due.map(|(template, siblings)| (*template, siblings.limit_us())).collect();
        for (template, limit) in due {
            self.choose_for_who_waits(now);
            let next = limit.and_then(|limit| self.look_at(now, template, limit, effects));
            if let Some(siblings) = self.speculation.siblings.get_mut(&template) {
                siblings.next_look = next.map(|at| at.max(now.after(SPECULATE_LOOK_INTERVAL)));
            }
        }
    }

    // Returns when the next look may be worth it.
    fn look_at(
        &mut self,
        now: Timestamp,
        template: TemplateId,
        limit_us: u64,
        effects: &mut Vec<Effect>,
    ) -> Option<Timestamp> {
        let job = self.state.jobs.get(&template.job)?;
        let running = self.running.of_job(template.job);
        let mut next: Option<Timestamp> = None;
        let mut slow = Vec::new();
        for (task, run) in running {
            let is_doubled = job.seconds.contains_key(task) || job.nodes.contains_key(task);
            if job.submit_of(*task) != Some(template.submit) || is_doubled {
                continue;
            }
            let due = Timestamp(run.since.0.saturating_add(limit_us));
            if due <= now {
                slow.push((run.since, *task, run.worker));
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        slow.sort_unstable();
        for (_, task, worker) in slow {
            if !self.start_second(now, template, task, worker, effects) {
                let later = now.after(SPECULATE_TIME_MIN);
                return Some(next.map_or(later, |next| next.min(later)));
            }
        }
        next
    }

    // Hands a task that runs on `first` to the worker with the most room for it; false when none has any.
    fn start_second(
        &mut self,
        now: Timestamp,
        template: TemplateId,
        task: TaskId,
        first: WorkerId,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(class) = self.classes.get(&template).copied() else { return false };
        if !self.may_start(template, now) {
            return false;
        }
        // While others wait for a plan, what is free is theirs. A share counts attempts.
        if self.planning.floor().is_some() || self.share_room(class) == 0 {
            return false;
        }
        let ClassKey { requests, priority, .. } = self.queue.key(class);
        let priority = *priority;
        let mut best: Option<(i64, WorkerId, Choice)> = None;
        for (worker, live) in &mut self.live {
            let has_it = live.held().get(&template).is_some_and(|held| held.ids.contains(task));
            if *worker == first
                || has_it
                || !live.takes_tasks()
                || live.reserved.is_some()
                || live.is_idle_and_picky()
                || self.gathering.has(*worker)
            {
                continue;
            }
            let choices = live.choices(class, requests).to_vec();
            for choice in choices {
                let room = live.capacity().room(&choice.needs);
                let lives = live.has_time(now, choice.time_request);
                let at = (*worker, live.capacity());
                let is_kept = live.kept_from(now, priority, &choice.needs).is_some()
                    || self.reserve.awaits(at, class, &choice.needs);
                if room > 0 && lives && !is_kept && best.as_ref().is_none_or(|(most, ..)| *most < room) {
                    best = Some((room, *worker, choice));
                }
            }
        }
        let Some((_, worker, choice)) = best else { return false };
        let variant = Some(choice.variant);
        let job = &self.state.jobs[&template.job];
        let instance = Instance(job.instance_of(task).0 + 1);
        let ids = IdSet::single(task);
        let services = self.by_services(template, &ids).pop().unwrap_or_default().0;
        let record = Record::Speculated { worker, job: template.job, task, instance };
        self.record(now, record, effects);
        let objects = self.objects_for(worker, template, &ids);
        self.shares.hand_out(self.shared_by(class), 1);
        let Some(live) = self.live.get_mut(&worker) else { return false };
        // Others may have what was kept beside what it takes, or begin with it where it begins.
        mark!("a second attempt takes some of a worker that is kept", self.reserve.has(worker));
        self.changes.of_worker(worker);
        live.place(template, Some(&choice.needs), &ids);
        let lease = Lease { variant, services, objects, ..Lease::of(template, ids, instance) };
        let run = self.told(worker, lease).into_iter().collect();
        self.send_run(worker, run, Gate::Written, effects);
        true
    }

    /// Those of `ids` whose second attempt is on a worker.
    pub(super) fn seconds_on(&self, worker: WorkerId, id: JobId, ids: &IdSet) -> IdSet {
        let job = self.state.jobs.get(&id).filter(|job| !job.seconds.is_empty());
        job.map_or_else(IdSet::new, |job| job.seconds_on(worker).intersection(ids))
    }

    /// True when two attempts of a task go on.
    pub(super) fn has_second(&self, id: JobId, task: TaskId) -> bool {
        let second = self.state.jobs.get(&id).and_then(|job| job.seconds.get(&task));
        second.is_some_and(|second| second.worker.is_some())
    }

    /// One of two attempts of a task has ended without a result; without an `end` that is told already, or it never ran.
    pub(super) fn drop_attempt(
        &mut self,
        now: Timestamp,
        id: JobId,
        task: TaskId,
        instance: Instance,
        end: Option<AttemptEnd>,
        effects: &mut Vec<Effect>,
    ) {
        let name = TaskRef::new(id, task);
        self.note_dropped(now, name, instance, end, effects);
        let is_second =
            self.state.jobs[&id].seconds.get(&task).is_some_and(|second| second.instance == instance);
        if is_second {
            self.running.end_second(name);
        } else {
            // The second attempt takes the place of the first one.
            let second = self.running.end_second(name);
            self.end_running(id, &IdSet::single(task));
            if let Some(run) = second {
                self.running.start(name, run);
            } else {
                // It waits on its worker, and it may be too late for it to start.
                mark!("the only attempt left is too late to start", {
                    let submit = self.state.jobs[&id].submit_of(task).unwrap_or_default();
                    !self.may_start(TemplateId { job: id, submit }, now)
                });
                self.last_moments.look_again(id);
            }
        }
        self.record(now, Record::AttemptDropped { job: id, task, instance }, effects);
    }

    /// A worker has given up these; returns those of them whose second attempt that was.
    pub(super) fn drop_seconds_on(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        id: JobId,
        ids: &IdSet,
        end: Option<AttemptEnd>,
        effects: &mut Vec<Effect>,
    ) -> IdSet {
        let seconds = self.seconds_on(worker, id, ids);
        for task in seconds.iter() {
            let instance = self.state.jobs[&id].seconds[&task].instance;
            self.drop_attempt(now, id, task, instance, end, effects);
        }
        seconds
    }

    /// The first attempts of these have ended without a result: those with a second one go on as that. Returns
    /// the others.
    pub(super) fn speculated_go_on(
        &mut self,
        now: Timestamp,
        id: JobId,
        ids: &IdSet,
        end: Option<AttemptEnd>,
        effects: &mut Vec<Effect>,
    ) -> IdSet {
        let mut others = ids.clone();
        let job = &self.state.jobs[&id];
        let seconds =
            job.seconds.iter().filter(|(task, second)| second.worker.is_some() && ids.contains(**task));
        let first: Vec<(TaskId, Instance)> =
            seconds.map(|(task, _)| (*task, job.instance_of(*task))).collect();
        for (task, instance) in first {
            others.remove(task);
            self.drop_attempt(now, id, task, instance, end, effects);
        }
        others
    }

    /// As [`Server::speculated_go_on`] for tasks that were never started: those whose second attempt has ended get a
    /// new instance, for theirs must not be given to it again. Returns the others.
    pub(super) fn speculated_go_on_or_restart(
        &mut self,
        now: Timestamp,
        id: JobId,
        ids: IdSet,
        effects: &mut Vec<Effect>,
    ) -> IdSet {
        if ids.is_empty() || self.state.jobs[&id].seconds.is_empty() {
            return ids;
        }
        let others = self.speculated_go_on(now, id, &ids, None, effects);
        let seconds: IdSet = self.state.jobs[&id].seconds.keys().copied().collect();
        let had_second = others.intersection(&seconds);
        self.restart(now, id, &had_second, RestartCause::Left, effects);
        others.difference(&had_second)
    }

    /// These end as they ended on `winner`, or on the word of a user: workers with another attempt of them are
    /// told to end it. Without a winner, only those with second attempts.
    pub(super) fn end_other_attempts(
        &self,
        winner: Option<WorkerId>,
        id: JobId,
        ids: &IdSet,
        effects: &mut Vec<Effect>,
    ) {
        let job = &self.state.jobs[&id];
        let mut others: BTreeMap<WorkerId, IdSet> = BTreeMap::new();
        for (task, second) in job.seconds.iter().filter(|(task, _)| ids.contains(**task)) {
            let Some(worker) = second.worker else { continue };
            let other = match winner {
                Some(winner) if winner == worker => {
                    job.leased.iter().find(|(_, leased)| leased.contains(*task)).map(|(worker, _)| *worker)
                }
                _ => Some(worker),
            };
            if let Some(other) = other {
                others.entry(other).or_default().insert(*task);
            }
        }
        for (worker, ids) in others {
            if let Some(connection) = self.live.get(&worker).and_then(|live| live.connection) {
                let message = ToWorker::Cancel { job: id, ids, are_elsewhere: true };
                effects.push(Effect::ToWorker { connection, message, gate: Gate::Written });
            }
        }
    }

    /// Checks what is kept of second attempts; adds those that run to the `counts` of their workers.
    ///
    /// # Errors
    /// Says which rule is broken, where.
    pub(super) fn second_attempts_are_in_order(&self) -> Result<(), String> {
        for (id, job) in &self.state.jobs {
            for (task, second) in &job.seconds {
                let first = job.leased.iter().find(|(_, leased)| leased.contains(*task));
                let is_elsewhere = first.is_some_and(|(worker, _)| Some(*worker) != second.worker);
                if !is_elsewhere || second.instance <= job.instance_of(*task) {
                    return Err(format!("task {id}@{task} on {first:?} has the second attempt {second:?}"));
                }
            }
        }
        for (task, run) in self.running.seconds() {
            let job = self.state.jobs.get(&task.job);
            let second = job.and_then(|job| job.seconds.get(&task.task));
            let known = second.map(|second| (second.worker, second.instance));
            if known != Some((Some(run.worker), run.instance)) {
                return Err(format!("task {task} runs a second time as {run:?}, known is {second:?}"));
            }
        }
        Ok(())
    }
}

impl Job {
    /// Tasks whose second attempt is on a worker.
    pub fn seconds_on(&self, worker: WorkerId) -> IdSet {
        let here = self.seconds.iter().filter(|(_, second)| second.worker == Some(worker));
        here.map(|(task, _)| *task).collect()
    }

    /// Those of `ids` of which a worker has the first or second attempt, and that is this instance.
    pub fn attempts_on(&self, worker: WorkerId, ids: &IdSet, instance: Instance) -> IdSet {
        let leased = self.leased.get(&worker).map_or_else(IdSet::new, |leased| leased.intersection(ids));
        let mut attempts = self.with_instance(&leased, instance);
        for (task, second) in &self.seconds {
            if second.worker == Some(worker) && second.instance == instance && ids.contains(*task) {
                attempts.insert(*task);
            }
        }
        attempts
    }

    /// Divides tasks by the largest instance ever given to them, ascending.
    pub fn by_last_instance(&self, ids: &IdSet) -> Vec<(Instance, IdSet)> {
        let mut parts: BTreeMap<Instance, IdSet> = self.by_instance(ids).into_iter().collect();
        for (task, second) in self.seconds.iter().filter(|(task, _)| ids.contains(**task)) {
            for part in parts.values_mut() {
                part.remove(*task);
            }
            parts.entry(second.instance).or_default().insert(*task);
        }
        parts.into_iter().filter(|(_, part)| !part.is_empty()).collect()
    }
}

/// Wall times of finished tasks, counted in steps of a sixteenth of an octave: their median is found to 6 %.
#[derive(Clone, Debug, Default)]
struct Walls {
    counts: BTreeMap<u64, u64>,
    count: u64,
}

impl Walls {
    fn add(&mut self, wall_us: u64) {
        *self.counts.entry(step_of(wall_us)).or_default() += 1;
        self.count += 1;
    }

    // `None` as long as there are too few to tell.
    fn median_us(&self) -> Option<u64> {
        if self.count < SPECULATE_SIBLINGS_MIN {
            return None;
        }
        let mut below = 0;
        let median = self.counts.iter().find(|(_, count)| {
            below += **count;
            below * 2 >= self.count
        });
        median.map(|(step, _)| end_of_step(*step))
    }
}

fn step_of(wall_us: u64) -> u64 {
    let octave = u64::from(wall_us.max(16).ilog2());
    (octave - 4) * 16 + (wall_us >> (octave - 4))
}

fn end_of_step(step: u64) -> u64 {
    if step < 32 {
        return step;
    }
    let octave = step / 16 - 1;
    ((step % 16 + 17) << octave) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_six_per_cent_too_large_at_most() {
        for wall_us in [0, 1, 15, 16, 17, 31, 32, 33, 1000, 999_999, 1_000_000, 86_400_000_000] {
            let mut walls = Walls::default();
            (0..SPECULATE_SIBLINGS_MIN - 1).for_each(|_| walls.add(wall_us));
            assert_eq!(walls.median_us(), None, "too few to tell");
            walls.add(wall_us);
            let median = walls.median_us().expect("enough");
            assert!((wall_us..=wall_us + wall_us / 16).contains(&median), "{wall_us}: {median}");
        }
    }

    #[test]
    fn a_median_does_not_look_at_how_far_off_the_others_are() {
        let mut walls = Walls::default();
        [10, 11, 12, 900_000_000, 1_000_000_000].into_iter().for_each(|wall| walls.add(wall));
        assert_eq!(walls.median_us(), Some(12));
    }
}
