//! When there were tasks that waited: ready ones, and ones that waited for others.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use hq_model::dependency::{After, Mapping};
use hq_model::{Dependencies, IdSet, JobId, TaskId, Timestamp};

use super::budgets::Turn;

/// From a moment on, until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Phase {
    pub(super) from: Timestamp,
    pub(super) has_ready: bool,
    /// Ready ones of jobs whose budgets are spent.
    pub(super) has_unpaid: bool,
    pub(super) has_blocked: bool,
}

/// How many tasks wait, from a moment on, until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// That moment.
    pub(crate) from: Timestamp,
    /// Tasks that wait for a worker.
    pub(crate) ready: i64,
    /// Tasks that wait for others.
    pub(crate) blocked: i64,
}

/// What is known of the tasks of one job.
#[derive(Default)]
struct JobTasks {
    submitted: IdSet,
    // Of those, the ones that are followed here.
    all: IdSet,
    // Handed to workers, or ended.
    out: IdSet,
    // Submitted with dependencies, and never handed out so far.
    dependent: IdSet,
    // Put back by themselves behind others.
    deferred: HashSet<TaskId>,
    ended: IdSet,
}

/// Tasks that wait, as records tell of them.
#[derive(Default)]
pub(super) struct Waiting {
    jobs: BTreeMap<JobId, JobTasks>,
    changes: Vec<Change>,
    submits: Vec<(JobId, IdSet, Arc<Dependencies>, Timestamp)>,
    // When tasks with dependencies were first handed out, or ended without.
    left: HashMap<(JobId, TaskId), Timestamp>,
    // When tasks ended, of jobs for which others wait, from the moment when they do.
    ended: HashMap<(JobId, TaskId), Timestamp>,
    watched: HashSet<JobId>,
    files: HashMap<JobId, Timestamp>,
    // Tasks that were handed to the worker of one that they wait for, and have not ended: when they were ready, if they are.
    ahead: HashMap<(JobId, TaskId), Option<Timestamp>>,
}

#[derive(Clone, Copy)]
struct Change {
    at: Timestamp,
    job: JobId,
    ready: i64,
    blocked: i64,
}

impl Waiting {
    /// Tasks were submitted; only those that are `followed` are said to wait.
    pub(super) fn submitted(
        &mut self,
        at: Timestamp,
        job: JobId,
        ids: &IdSet,
        dependencies: &Arc<Dependencies>,
        followed: bool,
    ) {
        let tasks = self.jobs.entry(job).or_default();
        tasks.submitted.union_with(ids);
        if !followed {
            return;
        }
        tasks.all.union_with(ids);
        if dependencies.is_empty() {
            self.change(at, job, count(ids), 0);
            return;
        }
        tasks.dependent.union_with(ids);
        self.change(at, job, 0, count(ids));
        self.watched.insert(job);
        self.watched.extend(dependencies.after.iter().map(|after| after.job));
        self.submits.push((job, ids.clone(), dependencies.clone(), at));
    }

    /// Tasks were handed to a worker, or ended.
    pub(super) fn leave(&mut self, at: Timestamp, job: JobId, ids: &IdSet) {
        let Some(tasks) = self.jobs.get_mut(&job) else { return };
        let mut left = ids.intersection(&tasks.all);
        left.subtract(&tasks.out);
        if left.is_empty() {
            return;
        }
        tasks.out.union_with(&left);
        if !tasks.dependent.is_empty() {
            let dependent = left.intersection(&tasks.dependent);
            tasks.dependent.subtract(&dependent);
            left.subtract(&dependent);
            self.left.extend(dependent.iter().map(|task| ((job, task), at)));
        }
        let mut deferred = 0;
        if !tasks.deferred.is_empty() {
            deferred = left.iter().filter(|task| tasks.deferred.remove(task)).count() as i64;
        }
        self.change(at, job, deferred - count(&left), -deferred);
    }

    /// Tasks ended, well or not.
    pub(super) fn end(&mut self, at: Timestamp, job: JobId, ids: &IdSet) {
        self.leave(at, job, ids);
        if let Some(tasks) = self.jobs.get_mut(&job) {
            tasks.ended.union_with(ids);
        }
        if self.watched.contains(&job) {
            self.ended.extend(ids.iter().map(|task| ((job, task), at)));
        }
    }

    /// Tasks that were handed to a worker wait again, from a moment on.
    pub(super) fn come_back(&mut self, from: Timestamp, job: JobId, ids: &IdSet) {
        let Some(tasks) = self.jobs.get_mut(&job) else { return };
        let back = ids.intersection(&tasks.out);
        tasks.out.subtract(&back);
        self.change(from, job, count(&back), 0);
    }

    /// A task that ran waits for others.
    pub(super) fn defer(&mut self, at: Timestamp, job: JobId, task: TaskId) {
        let Some(tasks) = self.jobs.get_mut(&job) else { return };
        if tasks.out.remove(task) {
            tasks.deferred.insert(task);
            self.change(at, job, 0, 1);
        }
    }

    pub(super) fn files_found(&mut self, at: Timestamp, job: JobId) {
        self.files.insert(job, at);
    }

    fn change(&mut self, at: Timestamp, job: JobId, ready: i64, blocked: i64) {
        if ready != 0 || blocked != 0 {
            self.changes.push(Change { at, job, ready, blocked });
        }
    }

    /// The phases, of which neighbors differ, by when budgets were spent.
    pub(super) fn phases(mut self, turns: &[Turn]) -> Vec<Phase> {
        self.resolve();
        let mut counted = Counted::default();
        counted.budgets.extend(turns.iter().map(|turn| (turn.job, (false, 0))));
        let mut phases = vec![counted.phase(Timestamp(0))];
        let mut changes = self.changes.iter().peekable();
        let mut turns = turns.iter().peekable();
        while let Some(at) = changes.peek().map(|c| c.at).into_iter().chain(turns.peek().map(|t| t.at)).min()
        {
            while let Some(change) = changes.next_if(|change| change.at <= at) {
                counted.change(change);
            }
            while let Some(turn) = turns.next_if(|turn| turn.at <= at) {
                counted.turn(turn);
            }
            let phase = counted.phase(at);
            if phase != (Phase { from: at, ..phases[phases.len() - 1] }) {
                phases.push(phase);
            }
        }
        phases
    }

    /// How many waited, each from a moment on until the next one.
    pub(super) fn steps(&mut self) -> Vec<Step> {
        self.resolve();
        let (mut ready, mut blocked) = (0, 0);
        let mut steps = Vec::new();
        for same in self.changes.chunk_by(|one, next| one.at == next.at) {
            ready += same.iter().map(|change| change.ready).sum::<i64>();
            blocked += same.iter().map(|change| change.blocked).sum::<i64>();
            steps.push(Step { from: same[0].at, ready, blocked });
        }
        steps
    }

    /// When a task that was handed to a worker could begin there, which was then; `None` of one that still waits for others.
    pub(super) fn could_begin(&self, at: Timestamp, job: JobId, task: TaskId) -> Option<Timestamp> {
        match self.ahead.get(&(job, task)) {
            Some(ready) => ready.map(|ready| ready.max(at)),
            None => Some(at),
        }
    }

    /// Nothing more comes: says of tasks with dependencies when they were ready.
    pub(super) fn resolve(&mut self) {
        let submits = std::mem::take(&mut self.submits);
        for (job, ids, dependencies, at) in &submits {
            let common = dependencies.after.iter().filter(|after| after.mapping == Mapping::All);
            let mut from_all = Some(*at);
            for after in common {
                from_all = later(from_all, self.end_of(after));
            }
            if !dependencies.files.is_empty() {
                from_all = later(from_all, self.files.get(job).copied());
            }
            for (place, task) in ids.iter().enumerate() {
                self.place(*job, task, from_all, place, dependencies);
            }
        }
        self.changes.sort_unstable_by_key(|change| change.at);
    }

    // Of a task with dependencies: when it was ready, and when it left.
    fn place(
        &mut self,
        job: JobId,
        task: TaskId,
        from_all: Option<Timestamp>,
        place: usize,
        dependencies: &Dependencies,
    ) {
        let mut ready = from_all;
        if !dependencies.edges.is_empty() {
            for before in dependencies.edges.of(place) {
                ready = later(ready, self.end_time(job, *before));
            }
        }
        for after in &dependencies.after {
            if let (Mapping::Window(width), Some(tasks)) = (after.mapping, &after.tasks) {
                let (place, width) = (place as u64, u64::from(width));
                let last = (place + width).min(tasks.len().saturating_sub(1));
                for before in tasks.slice(place.saturating_sub(width), last).iter() {
                    ready = later(ready, self.end_time(after.job, before));
                }
            }
        }
        let left = self.left.get(&(job, task)).copied();
        let has_ended = self.jobs.get(&job).is_some_and(|tasks| tasks.ended.contains(task));
        let is_known = dependencies.after.iter().all(|after| after.key.is_none());
        match (ready, left) {
            (Some(ready), Some(left)) if ready < left => {
                self.change(ready, job, 1, -1);
                self.change(left, job, -1, 0);
            }
            // It was handed out before that, to the worker of what it waited for.
            (Some(ready), Some(_)) => {
                self.change(ready, job, 0, -1);
                if !has_ended {
                    self.ahead.insert((job, task), Some(ready));
                }
            }
            (None, Some(_)) if is_known && !has_ended => {
                self.ahead.insert((job, task), None);
            }
            (None, Some(left)) => self.change(left, job, 0, -1),
            (Some(ready), None) => self.change(ready, job, 1, -1),
            (None, None) => {}
        }
    }

    fn end_time(&self, job: JobId, task: TaskId) -> Option<Timestamp> {
        let noted = self.ended.get(&(job, task)).copied();
        noted.or_else(|| self.jobs.get(&job)?.ended.contains(task).then_some(Timestamp(0)))
    }

    // When all of these had ended; `None` when one of them has not.
    fn end_of(&self, after: &After) -> Option<Timestamp> {
        let tasks = match (&after.tasks, &after.key) {
            (Some(tasks), _) => tasks,
            // Whose key it is, is not looked up: the waiting counts up to where the task was handed out.
            (None, Some(_)) => return None,
            (None, None) => &self.jobs.get(&after.job)?.submitted,
        };
        let mut last = Some(Timestamp(0));
        for task in tasks.iter() {
            last = later(last, self.end_time(after.job, task));
        }
        last
    }
}

// How many tasks wait at a moment.
#[derive(Default)]
struct Counted {
    ready: i64,
    unpaid: i64,
    blocked: i64,
    // Of jobs whose budgets are spent at some time: whether they are now, and how many of their tasks are ready.
    budgets: HashMap<JobId, (bool, i64)>,
}

impl Counted {
    fn change(&mut self, change: &Change) {
        self.blocked += change.blocked;
        match self.budgets.get_mut(&change.job) {
            Some((is_spent, ready)) => {
                *ready += change.ready;
                let sum = if *is_spent { &mut self.unpaid } else { &mut self.ready };
                *sum += change.ready;
            }
            None => self.ready += change.ready,
        }
    }

    fn turn(&mut self, turn: &Turn) {
        if let Some((is_spent, ready)) = self.budgets.get_mut(&turn.job)
            && *is_spent != turn.is_spent
        {
            *is_spent = turn.is_spent;
            let moved = if turn.is_spent { *ready } else { -*ready };
            self.ready -= moved;
            self.unpaid += moved;
        }
    }

    fn phase(&self, from: Timestamp) -> Phase {
        let (has_ready, has_unpaid, has_blocked) = (self.ready > 0, self.unpaid > 0, self.blocked > 0);
        Phase { from, has_ready, has_unpaid, has_blocked }
    }
}

fn count(ids: &IdSet) -> i64 {
    i64::try_from(ids.len()).unwrap_or(i64::MAX)
}

fn later(first: Option<Timestamp>, second: Option<Timestamp>) -> Option<Timestamp> {
    Some(first?.max(second?))
}
