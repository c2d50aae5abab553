//! The longest path from each task to the end of its graph, in expected time: those on long paths go first.
//!
//! What a submit waits for leads from its tasks back to those before them, so a new submit makes their paths longer, at
//! the cost of its edges. When more is learned of how long tasks take, the paths of a job are found again, but not
//! more often than its tasks end.

use std::collections::BTreeMap;
use std::time::Duration;

use hq_model::{IdSet, JobId, TaskId};

use crate::limits::{HEAD_START_MAX, HEAD_START_OF_STEP, PATH_STEPS_MAX, PATHS_AGAIN_EDGES_MAX};
use crate::never;
use crate::server::state::State;
use crate::server::step::{Step, coarse, fine};
use crate::worker_messages::TemplateId;

/// The paths of all jobs with tasks that have not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths {
    templates: BTreeMap<TemplateId, Path>,
}

#[derive(Clone, Debug)]
struct Path {
    // What one task is expected to take, µs.
    own_us: u64,
    // What comes after any of the tasks, µs.
    tail_us: u64,
    // What comes after each of them, in order of ids; empty when nothing waits for single ones.
    tails_us: Vec<u64>,
    // Tasks that have ended since `own_us` was set.
    ended: u64,
}

impl Path {
    fn us(&self, rank: Option<u64>) -> u64 {
        let tail = rank.and_then(|rank| self.tails_us.get(rank as usize)).copied().unwrap_or(0);
        self.own_us.saturating_add(tail.max(self.tail_us))
    }

    fn step(&self, rank: Option<u64>) -> Step {
        let us = self.us(rank);
        if us == self.own_us { coarse(us) } else { fine(us) }
    }

    // Nothing where nothing waits for it.
    fn head_start(&self, rank: Option<u64>) -> Duration {
        let us = self.us(rank);
        if us == self.own_us { Duration::ZERO } else { (HEAD_START_OF_STEP * fine(us)).min(HEAD_START_MAX) }
    }
}

impl Paths {
    /// How long the paths of a submit's tasks are: groups of tasks with equal steps.
    pub(super) fn groups(&self, state: &State, id: TemplateId, ids: &IdSet) -> Vec<(Step, IdSet)> {
        self.split(state, id, ids, Path::step)
    }

    /// How much earlier than they do a submit's tasks count as coming to a worker: groups of tasks for which it is the same.
    pub(super) fn head_starts(&self, state: &State, id: TemplateId, ids: &IdSet) -> Vec<(Duration, IdSet)> {
        self.split(state, id, ids, Path::head_start)
    }

    fn split<T: Ord + Default>(
        &self,
        state: &State,
        id: TemplateId,
        ids: &IdSet,
        of: impl Fn(&Path, Option<u64>) -> T,
    ) -> Vec<(T, IdSet)> {
        let Some(path) = self.templates.get(&id) else { return vec![(T::default(), ids.clone())] };
        let submit = state.jobs.get(&id.job).and_then(|job| job.submits.get(id.submit as usize));
        let Some(submit) = submit.filter(|_| !path.tails_us.is_empty()) else {
            return vec![(of(path, None), ids.clone())];
        };
        let mut groups: BTreeMap<T, IdSet> = BTreeMap::new();
        for task in ids.iter() {
            groups.entry(of(path, submit.ids.rank(task))).or_default().insert(task);
        }
        groups.into_iter().collect()
    }

    // The longest path of the tasks of a submit, µs.
    fn longest_us(&self, id: TemplateId) -> u64 {
        self.templates.get(&id).map_or(0, |path| {
            let tail = path.tails_us.iter().copied().max().unwrap_or(0).max(path.tail_us);
            path.own_us.saturating_add(tail)
        })
    }

    /// True when something waits for tasks of a submit.
    pub(super) fn are_waited_for(&self, id: TemplateId) -> bool {
        self.templates.get(&id).is_some_and(|path| path.tail_us > 0 || !path.tails_us.is_empty())
    }

    /// The submits whose paths are known.
    pub(super) fn templates(&self) -> impl Iterator<Item = TemplateId> {
        self.templates.keys().copied()
    }

    /// A submit is new, of whose tasks one is expected to take so long. Gives the submits whose paths are longer now.
    pub(super) fn add(&mut self, state: &State, id: TemplateId, own_us: u64) -> Vec<TemplateId> {
        self.set_own(id, own_us);
        let mut longer = Vec::new();
        self.pass_back(state, id, &mut longer);
        longer.sort_unstable();
        longer.dedup();
        longer
    }

    /// Some tasks of a submit have ended, and one is expected to take so long: perhaps its paths are longer or shorter
    /// than was thought. Gives the submits whose paths were found again.
    pub(super) fn learn(
        &mut self,
        state: &State,
        id: TemplateId,
        count: u64,
        own_us: u64,
    ) -> Vec<TemplateId> {
        let (Some(path), Some(job)) = (self.templates.get_mut(&id), state.jobs.get(&id.job)) else {
            return Vec::new();
        };
        path.ended += count;
        let is_near = own_us.abs_diff(path.own_us) <= path.own_us / 4;
        let has_edges = !path.tails_us.is_empty() || job.submits.len() > 1;
        // A job's paths cost its edges: they are found again after a sixteenth of its tasks.
        if is_near || (has_edges && path.ended * 16 < job.ids.len()) {
            return Vec::new();
        }
        // The paths of large graphs stay as they were found first: nobody is to wait for others.
        let edges = job.submits.iter().map(|submit| submit.dependencies.edges.len()).sum::<usize>();
        if edges > PATHS_AGAIN_EDGES_MAX {
            return Vec::new();
        }
        self.set_own(id, own_us);
        if has_edges { self.find_again(state, id.job) } else { vec![id] }
    }

    fn find_again(&mut self, state: &State, job: JobId) -> Vec<TemplateId> {
        let submits = state.jobs.get(&job).map_or(0, |job| job.submits.len() as u32);
        let all: Vec<TemplateId> = (0..submits).map(|submit| TemplateId { job, submit }).collect();
        for id in &all {
            if let Some(path) = self.templates.get_mut(id) {
                path.tails_us.fill(0);
                path.ended = 0;
            }
        }
        for id in all.iter().rev() {
            self.pass_back(state, *id, &mut Vec::new());
        }
        all
    }

    /// A job is over.
    pub(super) fn forget(&mut self, job: JobId) {
        let of_job = self.templates.range(TemplateId::of_job(job));
        let over: Vec<TemplateId> = of_job.map(|entry| *entry.0).collect();
        for template in over {
            self.templates.remove(&template);
        }
    }

    fn set_own(&mut self, id: TemplateId, own_us: u64) {
        let path =
            self.templates.entry(id).or_insert(Path { own_us, tail_us: 0, tails_us: Vec::new(), ended: 0 });
        path.own_us = own_us;
        path.ended = 0;
    }

    // What comes after a task takes at least so long. True when that is longer than was known.
    fn raise(&mut self, state: &State, job: JobId, task: TaskId, tail_us: u64) -> Option<(TemplateId, u64)> {
        let job_state = state.jobs.get(&job)?;
        if job_state.state_of(task).is_none_or(hq_model::TaskState::is_terminal) {
            return None;
        }
        let submit = job_state.submit_of(task)?;
        let id = TemplateId { job, submit };
        let path = self.templates.get_mut(&id)?;
        let ids = &job_state.submits[submit as usize].ids;
        let rank = ids.rank(task)? as usize;
        if path.tails_us.is_empty() {
            path.tails_us = vec![0; ids.len() as usize];
        }
        let tail = path.tails_us.get_mut(rank)?;
        if *tail >= tail_us {
            return None;
        }
        *tail = tail_us;
        Some((id, rank as u64))
    }

    // Makes the paths of what a submit waits for as long as its own say; gives the submits they belong to.
    fn pass_back(&mut self, state: &State, id: TemplateId, touched: &mut Vec<TemplateId>) {
        let Some(submit) = state.jobs.get(&id.job).and_then(|job| job.submits.get(id.submit as usize)) else {
            return never!("submit {} of job {} has a path and is not there", id.submit, id.job);
        };
        let dependencies = &submit.dependencies;
        if dependencies.is_empty() {
            return;
        }
        let mut steps_left = PATH_STEPS_MAX + 4 * dependencies.edges.len() as u64;
        // The last ones first: they tend to wait for those before them, whose paths are then known in full.
        let mut work: Vec<(TemplateId, u64)> =
            (0..dependencies.edges.lists() as u64).map(|rank| (id, rank)).collect();
        while let Some((id, rank)) = work.pop() {
            let Some(us) = self.templates.get(&id).map(|path| path.us(Some(rank))) else {
                never!("submit {} of job {} was raised and has no path", id.submit, id.job);
                continue;
            };
            let submit = &state.jobs[&id.job].submits[id.submit as usize];
            for target in submit.dependencies.edges.of(rank as usize) {
                if steps_left == 0 {
                    return;
                }
                steps_left -= 1;
                if let Some(raised) = self.raise(state, id.job, *target, us) {
                    if touched.last() != Some(&raised.0) {
                        touched.push(raised.0);
                    }
                    // A later one of the same list is still to come by itself.
                    let comes = raised.0 == id
                        && raised.1 < rank
                        && work.last().is_some_and(|l| l.0 == id && l.1 >= raised.1);
                    if !comes {
                        work.push(raised);
                    }
                }
            }
        }
        // Whole arrays and jobs before whole arrays.
        let mut whole = vec![id];
        while let Some(id) = whole.pop() {
            let us = self.longest_us(id);
            let Some(submit) = state.jobs.get(&id.job).and_then(|j| j.submits.get(id.submit as usize)) else {
                never!("submit {} of job {} has a path and is not there", id.submit, id.job);
                continue;
            };
            for after in &submit.dependencies.after {
                let Some(job) = state.jobs.get(&after.job).filter(|job| !job.has_ended()) else { continue };
                for (at, before) in job.submits.iter().enumerate() {
                    if steps_left == 0 {
                        return;
                    }
                    steps_left -= 1;
                    let is_meant = after.tasks.as_ref().is_none_or(|tasks| tasks.intersects(&before.ids));
                    let earlier = TemplateId { job: after.job, submit: at as u32 };
                    let Some(path) = self.templates.get_mut(&earlier).filter(|_| is_meant && earlier != id)
                    else {
                        continue;
                    };
                    if path.tail_us < us {
                        path.tail_us = us;
                        touched.push(earlier);
                        whole.push(earlier);
                    }
                }
            }
        }
    }
}
