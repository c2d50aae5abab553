//! Barriers: dependencies of many tasks on many, which take in the ends of tasks as intervals.

use std::collections::BTreeMap;

use hq_model::dependency::{After, Condition, Mapping};
use hq_model::{IdSet, JobId, TaskId, TaskState};

use super::artifact::{Artifact, Standing, Status, bad_end_of, has_enough, is_given_up};
use crate::mark;
use crate::never;
use crate::server::state::State;

/// A dependency of tasks of a submit on many.
#[derive(Clone, Debug)]
pub(super) struct Barrier {
    pub(super) after: After,
    pub(super) waiting: IdSet,
    pub(super) released: IdSet,
    // Of a window: the places of those that have ended as wished. Else: the tasks that have not.
    marks: IdSet,
}

impl Barrier {
    /// `None` when it is open for all already.
    pub(super) fn new(
        state: &State,
        after: &After,
        waiting: &IdSet,
        hopeless: &mut BTreeMap<(JobId, TaskState), IdSet>,
    ) -> Option<Barrier> {
        let job = state.jobs.get(&after.job)?;
        let tasks = after.tasks.as_ref().unwrap_or(&job.ids);
        let marks = if after.mapping == Mapping::All { tasks.clone() } else { IdSet::new() };
        let mut barrier =
            Barrier { after: after.clone(), waiting: waiting.clone(), released: IdSet::new(), marks };
        let standing = Standing::of_after(state, after);
        barrier.take(state, &standing.available, TaskState::Finished);
        for (ended, ids) in standing.never {
            hopeless.entry((after.job, ended)).or_default().union_with(&ids);
        }
        (!barrier.is_open()).then_some(barrier)
    }

    /// True when it lets all pass.
    pub(super) fn is_open(&self) -> bool {
        self.released.len() == self.waiting.len()
    }

    /// Takes in ends of tasks of its job. Returns the tasks that it lets pass from now on, and those that it never will.
    pub(super) fn take(&mut self, state: &State, ids: &IdSet, ended: TaskState) -> (IdSet, IdSet) {
        let job = state.jobs.get(&self.after.job);
        let some;
        let ids = match &self.after.tasks {
            Some(tasks) => {
                let mut found = ids.intersection(tasks);
                // What becomes of a service that has been ready is nothing to those that wait for that.
                if let Some(job) = job
                    && ended != TaskState::Finished
                    && !job.ready.is_empty()
                {
                    found.subtract(&job.ready_services());
                }
                some = found;
                &some
            }
            None => ids,
        };
        let is_unwanted =
            self.after.tasks.is_none() && ended == TaskState::Canceled && job.is_some_and(has_enough);
        let is_success = ended == TaskState::Finished || is_unwanted;
        let failed = !is_success && self.after.condition == Condition::Success;
        let mut passing = match (self.after.mapping, failed) {
            (Mapping::All, true) if ids.is_empty() && self.after.tasks.is_some() => {
                return Default::default();
            }
            (Mapping::All, true) => return (IdSet::new(), self.waiting.clone()),
            (Mapping::All, false) => {
                self.marks.subtract(ids);
                let is_open = match self.after.tasks {
                    Some(_) => self.marks.is_empty(),
                    // Of all that ended at once, this may be the first to be heard of.
                    None => {
                        let whole = Artifact::Job(self.after.job, self.after.condition);
                        match whole.status(state) {
                            Status::Available => true,
                            // Of a task that ended without success it is heard by itself, unless nobody wanted it then.
                            Status::Never(_)
                                if job.is_none_or(|job| {
                                    bad_end_of(job).is_none() || ids.is_empty() && is_given_up(job)
                                }) =>
                            {
                                mark!(
                                    "a job is given up whose tasks were not wanted",
                                    job.is_some_and(|job| bad_end_of(job).is_some())
                                );
                                return (IdSet::new(), self.waiting.clone());
                            }
                            Status::Never(_) => {
                                mark!("of a failed job the successes are heard of first");
                                false
                            }
                            Status::Open => false,
                        }
                    }
                };
                if is_open { self.waiting.clone() } else { IdSet::new() }
            }
            (Mapping::Window(size), true) => return (IdSet::new(), self.around(ids, size)),
            (Mapping::Window(size), false) => self.windows(ids, size),
        };
        passing.subtract(&self.released);
        self.released.union_with(&passing);
        (passing, IdSet::new())
    }

    // The places of a range of the tasks waited for: neighbours there, too, as all of them are waited for.
    fn places(&self, range: &std::ops::RangeInclusive<u32>) -> Option<(u64, u64)> {
        let Some(first) = self.after.tasks.as_ref().and_then(|tasks| tasks.rank(TaskId(*range.start())))
        else {
            never!("a window of job {} has no place for {range:?}", self.after.job);
            return None;
        };
        Some((first, first + u64::from(range.end() - range.start())))
    }

    // Those whose windows hold one of `ids`.
    fn around(&self, ids: &IdSet, size: u32) -> IdSet {
        let mut found = IdSet::new();
        for (first, last) in ids.ranges().filter_map(|range| self.places(&range)) {
            let size = u64::from(size);
            found.union_with(&self.waiting.slice(first.saturating_sub(size), last.saturating_add(size)));
        }
        found
    }

    // Those whose windows are complete, some of them because of `ids`.
    fn windows(&mut self, ids: &IdSet, size: u32) -> IdSet {
        let mut found = IdSet::new();
        let end = self.waiting.len().saturating_sub(1);
        for range in ids.ranges() {
            let Some((first, last)) = self.places(&range) else { continue };
            // A place is less than the number of task ids there are.
            self.marks.insert_range(first as u32, last as u32);
            let Some(around) = self.marks.range_around(TaskId(first as u32)) else {
                never!("a window of job {} was marked at {first}, and is not", self.after.job);
                continue;
            };
            let (start, stop) = (u64::from(*around.start()), u64::from(*around.end()));
            let from = if start == 0 { 0 } else { start + u64::from(size) };
            let to = if stop >= end { Some(end) } else { stop.checked_sub(u64::from(size)) };
            if let Some(to) = to.filter(|to| from <= *to) {
                // Only what is near the new ones can be new.
                let from = from.max(first.saturating_sub(u64::from(size)));
                let to = to.min(last.saturating_add(u64::from(size)));
                if from <= to {
                    found.union_with(&self.waiting.slice(from, to));
                }
            }
        }
        found
    }
}
