//! Cycles through open jobs.
//!
//! What a task waits for exists before the task, so that dependencies lead back in time. There is one way around:
//! whoever waits for the whole of an open job also waits for tasks that are yet to be submitted into it.

use std::collections::BTreeMap;

use hq_model::dependency::{Dependencies, Mapping};
use hq_model::{IdSet, JobId, TaskId};

use crate::server::job::{Job, SubmitState};
use crate::server::state::State;

/// The way from new tasks of an open job with these dependencies, over the jobs with the tasks they wait for, to
/// tasks that wait for the whole of the open job. Costs an interval operation per submit on the way, and one step per
/// edge.
pub(super) fn cycle_through(state: &State, open: JobId, wanted: &Dependencies) -> Option<Vec<JobId>> {
    let own: IdSet = wanted.edges.targets().iter().copied().collect();
    let mut search = Search { state, seen: BTreeMap::new(), from: BTreeMap::new(), next: Vec::new() };
    search.visit(open, open, Some(&own));
    for after in &wanted.after {
        search.visit(open, after.job, after.tasks.as_ref());
    }
    while let Some((id, tasks)) = search.next.pop() {
        let Some(job) = state.jobs.get(&id) else { continue };
        for submit in job.submits.iter().filter(|submit| !submit.dependencies.is_empty()) {
            let waiting = submit.ids.intersection(&tasks);
            if !waiting.is_empty() && search.follow(open, id, submit, &waiting) {
                return Some(search.way(open, id));
            }
        }
        // Those that put themselves back wait for more.
        let deferred = job.deferred.iter().filter(|(task, _)| tasks.contains(**task));
        for after in deferred.flat_map(|(_, after)| after) {
            if after.job == open && after.tasks.is_none() {
                return Some(search.way(open, id));
            }
            search.visit(id, after.job, after.tasks.as_ref());
        }
    }
    None
}

struct Search<'a> {
    state: &'a State,
    seen: BTreeMap<JobId, IdSet>,
    // From which job each was reached first.
    from: BTreeMap<JobId, JobId>,
    next: Vec<(JobId, IdSet)>,
}

impl Search<'_> {
    // Takes up those of a job's tasks that have not ended and were not looked at; all of them with `None`.
    fn visit(&mut self, from: JobId, id: JobId, tasks: Option<&IdSet>) {
        let Some(alive) = self.state.jobs.get(&id).map(Job::alive) else { return };
        let seen = self.seen.entry(id).or_default();
        let mut new = tasks.map_or_else(|| alive.clone(), |tasks| tasks.intersection(&alive));
        new.subtract(seen);
        if !new.is_empty() {
            seen.union_with(&new);
            self.from.entry(id).or_insert(from);
            self.next.push((id, new));
        }
    }

    fn way(&self, open: JobId, last: JobId) -> Vec<JobId> {
        let mut way = vec![open, last];
        let mut job = last;
        while let Some(from) = self.from.get(&job).filter(|from| **from != open && job != open) {
            way.insert(1, *from);
            job = *from;
        }
        way.push(open);
        way.dedup();
        way
    }

    // Goes on to what some tasks of a submit wait for; true when that is the whole of the open job.
    fn follow(&mut self, open: JobId, job: JobId, submit: &SubmitState, waiting: &IdSet) -> bool {
        for after in &submit.dependencies.after {
            if after.job == open && after.tasks.is_none() {
                return true;
            }
            match (after.mapping, &after.tasks) {
                (Mapping::Window(size), Some(tasks)) => {
                    for range in waiting.ranges() {
                        let place = |id: u32| submit.ids.rank(TaskId(id)).unwrap_or(0);
                        let (first, last) = (place(*range.start()), place(*range.end()));
                        let size = u64::from(size);
                        let tasks = tasks.slice(first.saturating_sub(size), last.saturating_add(size));
                        self.visit(job, after.job, Some(&tasks));
                    }
                }
                (_, tasks) => self.visit(job, after.job, tasks.as_ref()),
            }
        }
        let edges = &submit.dependencies.edges;
        if !edges.is_empty() {
            let places = waiting.iter().filter_map(|task| submit.ids.rank(task));
            let targets: IdSet = places.flat_map(|place| edges.of(place as usize)).copied().collect();
            self.visit(job, job, Some(&targets));
        }
        false
    }
}
