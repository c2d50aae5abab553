//! When tasks could have started, and the chain of tasks that led to the last end: for each, what it waited for last.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use hq_model::dependency::{After, Mapping};
use hq_model::{IdSet, JobId, TaskId, Timestamp};

use super::submits::Submits;
use crate::accounts::{Attempt, Part};

/// Steps of a chain that are followed.
const STEPS_MAX: usize = 1_000_000;

/// Who ran when, by task.
pub(super) struct Chains<'a> {
    submits: &'a Submits,
    attempts: &'a [Attempt],
    // Places of attempts that lead, by job, task and start.
    order: Vec<u32>,
    jobs: BTreeMap<JobId, Range<usize>>,
    // What all tasks of a submit wait for, by the place of the submit.
    common: HashMap<usize, Ready>,
}

/// From when on a task could start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    /// That moment.
    pub(super) at: Timestamp,
    // Where in the order the attempt is whose end that was; its submit, if there is none.
    after: Option<usize>,
}

/// A task of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// When it could have started.
    pub(super) ready: Timestamp,
    /// When its first attempt started.
    pub(super) start: Timestamp,
    /// How often it was begun.
    pub(super) attempts: u32,
    /// The place of its last attempt.
    pub(super) last: usize,
}

impl<'a> Chains<'a> {
    /// Of attempts.
    pub(super) fn new(submits: &'a Submits, attempts: &'a [Attempt]) -> Chains<'a> {
        let leads = (0u32..).zip(attempts).filter(|(_, attempt)| attempt.leads);
        let mut order: Vec<u32> = leads.map(|(place, _)| place).collect();
        order.sort_unstable_by_key(|place| {
            let attempt = &attempts[*place as usize];
            (attempt.job, attempt.task, attempt.start)
        });
        let mut jobs = BTreeMap::new();
        let mut begin = 0;
        for same in order.chunk_by(|one, next| attempts[*one as usize].job == attempts[*next as usize].job) {
            jobs.insert(attempts[same[0] as usize].job, begin..begin + same.len());
            begin += same.len();
        }
        Chains { submits, attempts, order, jobs, common: HashMap::new() }
    }

    /// For each job how long its tasks waited from the moment when they could start, in µs and ascending. What was lost is left out:
    /// when it started is not known.
    pub(super) fn waits(&mut self) -> BTreeMap<JobId, Vec<u64>> {
        let mut all = BTreeMap::new();
        for (job, range) in self.jobs.clone() {
            let mut waits = Vec::with_capacity(range.len());
            for place in range {
                let attempt = *self.attempt(place);
                if attempt.part != Part::Lost {
                    let ready = self.before(place).unwrap_or_else(|| self.ready(job, attempt.task));
                    waits.push(attempt.start.0.saturating_sub(ready.at.0));
                }
            }
            waits.sort_unstable();
            all.insert(job, waits);
        }
        all
    }

    /// The chain that led to the last end, from its begin.
    pub(super) fn longest(&mut self) -> Vec<Link> {
        let mut links = Vec::new();
        let mut next = self.latest(0..self.order.len());
        while let Some(last) = next.filter(|_| links.len() < STEPS_MAX) {
            let attempt = *self.attempt(last);
            let mut first = last;
            while let Some(before) = self.before(first).and_then(|ready| ready.after) {
                first = before;
            }
            let ready = self.ready(attempt.job, attempt.task);
            let start = self.attempt(first).start;
            let attempts = (last - first + 1) as u32;
            links.push(Link { ready: ready.at, start, attempts, last: self.order[last] as usize });
            next = ready.after;
        }
        links.reverse();
        links
    }

    fn attempt(&self, place: usize) -> &'a Attempt {
        &self.attempts[self.order[place] as usize]
    }

    // The attempt before, if it is of the same task.
    fn before(&self, place: usize) -> Option<Ready> {
        let before = place.checked_sub(1)?;
        let (one, next) = (self.attempt(before), self.attempt(place));
        ((one.job, one.task) == (next.job, next.task)).then_some(Ready { at: one.end, after: Some(before) })
    }

    // When a task could first start.
    fn ready(&mut self, job: JobId, task: TaskId) -> Ready {
        let submits = self.submits;
        let Some(place) = submits.place_of(job, task) else { return Ready { at: Timestamp(0), after: None } };
        let Some(submit) = submits.at(place) else { return Ready { at: Timestamp(0), after: None } };
        let dependencies = &submit.dependencies;
        let mut ready = Ready { at: submit.at, after: None };
        if dependencies.is_empty() {
            return ready;
        }
        if dependencies.after.iter().any(|after| after.mapping == Mapping::All) {
            let common = self.common.get(&place).copied();
            let common = common.unwrap_or_else(|| {
                let all = dependencies.after.iter().filter(|after| after.mapping == Mapping::All);
                let found = all.fold(ready, |ready, after| self.later(ready, self.latest_of(after)));
                self.common.insert(place, found);
                found
            });
            ready = common;
        }
        let Some(rank) = submit.ids.rank(task) else { return ready };
        if !dependencies.edges.is_empty() {
            for before in dependencies.edges.of(rank as usize) {
                ready = self.later(ready, self.last_of(job, *before));
            }
        }
        for after in &dependencies.after {
            if let (Mapping::Window(width), Some(tasks)) = (after.mapping, &after.tasks) {
                let width = u64::from(width);
                let last = (rank + width).min(tasks.len().saturating_sub(1));
                for before in tasks.slice(rank.saturating_sub(width), last).iter() {
                    ready = self.later(ready, self.last_of(after.job, before));
                }
            }
        }
        ready
    }

    fn later(&self, ready: Ready, place: Option<usize>) -> Ready {
        match place.map(|place| (place, self.attempt(place).end)) {
            Some((place, end)) if end > ready.at => Ready { at: end, after: Some(place) },
            _ => ready,
        }
    }

    fn latest_of(&self, after: &After) -> Option<usize> {
        match &after.tasks {
            Some(tasks) => self.latest_among(after.job, tasks),
            None => self.latest(self.jobs.get(&after.job)?.clone()),
        }
    }

    fn latest_among(&self, job: JobId, tasks: &IdSet) -> Option<usize> {
        let places = tasks.iter().filter_map(|task| self.last_of(job, task));
        places.max_by_key(|place| self.attempt(*place).end)
    }

    fn latest(&self, places: Range<usize>) -> Option<usize> {
        places.max_by_key(|place| self.attempt(*place).end)
    }

    // The last attempt of a task.
    fn last_of(&self, job: JobId, task: TaskId) -> Option<usize> {
        let range = self.jobs.get(&job)?;
        let same = &self.order[range.clone()];
        let behind = same.partition_point(|place| self.attempts[*place as usize].task <= task);
        let place = range.start + behind.checked_sub(1)?;
        (self.attempt(place).task == task).then_some(place)
    }
}
