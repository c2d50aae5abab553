//! Which tasks wait for others, and what the end of tasks makes ready or hopeless.
//!
//! Everything here can be told from the durable state and is made anew by a restart. A dependency of few on few is a
//! list of edges, looked at when the one they lead from ends; one of many on many is a barrier, which takes in the
//! ends of tasks as intervals.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hq_model::dependency::{After, Condition, Mapping};
use hq_model::{ByteString, IdSet, JobId, TaskId, TaskRef, TaskState};

use super::artifact::{Artifact, Status};
use super::barrier::Barrier;
use crate::limits::EDGES_OF_DEPENDENCY_MAX;
use crate::never;
use crate::server::state::State;
use crate::worker_messages::TemplateId;

/// Tasks that wait for others.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    // By the job that is waited for.
    on: BTreeMap<JobId, Watched>,
    // Those of each submit that are not open for all of it.
    barriers: BTreeMap<TemplateId, Vec<Barrier>>,
    // Files that the tasks of a submit wait for.
    files: BTreeMap<TemplateId, BTreeSet<ByteString>>,
    // Other files may have to be looked for now.
    files_changed: bool,
    // How many edges lead to a waiting task.
    missing: BTreeMap<TaskRef, u32>,
    // Queued tasks that are not ready because of others.
    blocked: BTreeMap<JobId, IdSet>,
    endings: VecDeque<Ending>,
}

/// Tasks of a job that ended and may be waited for; none when the job was closed.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::server) struct Ending {
    pub(in crate::server) job: JobId,
    pub(in crate::server) ids: IdSet,
    /// A terminal one.
    pub(in crate::server) state: TaskState,
}

/// What an ending leads to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::server) struct Outcome {
    /// Tasks that wait for nothing any more.
    pub(in crate::server) ready: BTreeMap<JobId, IdSet>,
    /// Tasks that can never run, those that wait for others of them included.
    pub(in crate::server) doomed: BTreeMap<JobId, IdSet>,
}

#[derive(Clone, Debug, Default)]
struct Watched {
    // The first edge from each task; the others follow in `edges`.
    heads: BTreeMap<TaskId, u32>,
    edges: Vec<Edge>,
    barriers: BTreeSet<TemplateId>,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    waiting: TaskRef,
    condition: Condition,
    next: u32,
}

const NO_EDGE: u32 = u32::MAX;

// Those tasks of a submit that wait, and all among which places are counted.
#[derive(Clone, Copy)]
struct Waiters<'a> {
    id: TemplateId,
    all: &'a IdSet,
    waiting: &'a IdSet,
}

impl Waits {
    /// Takes in what a submit waits for; its tasks are in the state already.
    pub(super) fn add(&mut self, state: &State, id: TemplateId) {
        let job = state.jobs.get(&id.job);
        let Some((job, submit)) = job.and_then(|job| Some((job, job.submits.get(id.submit as usize)?)))
        else {
            return never!("submit {} of job {} is heard of and not there", id.submit, id.job);
        };
        if submit.dependencies.is_empty() {
            return;
        }
        let mut waiting = submit.ids.intersection(&job.queued);
        if waiting.len() < submit.ids.len() {
            // After a restart some may wait on a worker already.
            job.leased.values().for_each(|leased| waiting.union_with(&submit.ids.intersection(leased)));
        }
        let mut hopeless: BTreeMap<(JobId, TaskState), IdSet> = BTreeMap::new();
        let mut blocked = IdSet::new();
        if !submit.dependencies.edges.is_empty() {
            for (place, task) in submit.ids.iter().enumerate().filter(|(_, task)| waiting.contains(*task)) {
                for target in submit.dependencies.edges.of(place) {
                    let target = TaskRef::new(id.job, *target);
                    let waiting = TaskRef::new(id.job, task);
                    if self.add_edge(state, target, waiting, Condition::Success, &mut hopeless) {
                        blocked.insert(task);
                    }
                }
            }
        }
        let is_open = |file: &&ByteString| Artifact::File(id.job, file).status(state) == Status::Open;
        let files: BTreeSet<ByteString> = submit.dependencies.files.iter().filter(is_open).cloned().collect();
        if !files.is_empty() {
            blocked.union_with(&waiting);
            self.files.insert(id, files);
            self.files_changed = true;
        }
        for after in &submit.dependencies.after {
            let waiters = Waiters { id, all: &submit.ids, waiting: &waiting };
            self.add_after(state, after, waiters, &mut blocked, &mut hopeless);
        }
        self.block(id.job, &blocked, hopeless);
    }

    /// Takes in what tasks of a job wait for that put themselves back before.
    pub(super) fn add_deferred(&mut self, state: &State, job: JobId) {
        let tasks = state.jobs.get(&job).into_iter().flat_map(|job| job.deferred.keys());
        for task in tasks {
            self.defer(state, TaskRef::new(job, *task));
        }
    }

    /// Takes in what a task waits for that has put itself back.
    pub(super) fn defer(&mut self, state: &State, task: TaskRef) {
        let job = state.jobs.get(&task.job);
        let deferred = job.and_then(|job| Some((job.submit_of(task.task)?, job.deferred.get(&task.task)?)));
        let Some((submit, after)) = deferred else {
            return never!("it is not put back behind anything: {}", state.story(task));
        };
        let id = TemplateId { job: task.job, submit };
        let waiting = IdSet::single(task.task);
        let (mut blocked, mut hopeless) = (IdSet::new(), BTreeMap::new());
        for after in after {
            let waiters = Waiters { id, all: &waiting, waiting: &waiting };
            self.add_after(state, after, waiters, &mut blocked, &mut hopeless);
        }
        self.block(task.job, &blocked, hopeless);
    }

    fn add_after(
        &mut self,
        state: &State,
        after: &After,
        waiters: Waiters,
        blocked: &mut IdSet,
        hopeless: &mut BTreeMap<(JobId, TaskState), IdSet>,
    ) {
        let Waiters { id, all, waiting } = waiters;
        match &after.tasks {
            Some(tasks) if after.mapping == Mapping::All && are_few(tasks, waiting) => {
                for (target, task) in tasks.iter().flat_map(|target| waiting.iter().map(move |t| (target, t)))
                {
                    let (target, waiting) = (TaskRef::new(after.job, target), TaskRef::new(id.job, task));
                    if self.add_edge(state, target, waiting, after.condition, hopeless) {
                        blocked.insert(task);
                    }
                }
            }
            _ => {
                if let Some(barrier) = Barrier::new(state, after, all, hopeless) {
                    blocked.union_with(&waiting.difference(&barrier.released));
                    self.on.entry(after.job).or_default().barriers.insert(id);
                    self.barriers.entry(id).or_default().push(barrier);
                }
            }
        }
    }

    fn block(&mut self, job: JobId, ids: &IdSet, hopeless: BTreeMap<(JobId, TaskState), IdSet>) {
        if !ids.is_empty() {
            self.blocked.entry(job).or_default().union_with(ids);
        }
        // What can never run is found as if it had just been decided.
        let endings = hopeless.into_iter().map(|((job, state), ids)| Ending { job, ids, state });
        self.endings.extend(endings);
    }

    // False when the target is available.
    fn add_edge(
        &mut self,
        state: &State,
        target: TaskRef,
        waiting: TaskRef,
        condition: Condition,
        hopeless: &mut BTreeMap<(JobId, TaskState), IdSet>,
    ) -> bool {
        match Artifact::Task(target, condition).status(state) {
            Status::Available => return false,
            Status::Open => {}
            Status::Never(ended) => {
                hopeless.entry((target.job, ended)).or_default().insert(target.task);
            }
        }
        let watched = self.on.entry(target.job).or_default();
        let Ok(index) = u32::try_from(watched.edges.len()) else {
            never!("more edges than memory has room for; {}", state.story(waiting));
            return false;
        };
        let next = watched.heads.insert(target.task, index).unwrap_or(NO_EDGE);
        watched.edges.push(Edge { waiting, condition, next });
        *self.missing.entry(waiting).or_default() += 1;
        true
    }

    /// True when tasks wait for the end of all tasks of a job, those to come included.
    pub(super) fn is_waited_for_as_a_whole(&self, job: JobId) -> bool {
        let barriers = self.on.get(&job).into_iter().flat_map(|watched| &watched.barriers);
        let mut barriers = barriers.filter_map(|submit| self.barriers.get(submit)).flatten();
        barriers.any(|barrier| barrier.after.job == job && barrier.after.tasks.is_none())
    }

    /// True when single tasks wait for single tasks of a job.
    pub(super) fn has_edges_from(&self, job: JobId) -> bool {
        self.on.get(&job).is_some_and(|watched| !watched.heads.is_empty())
    }

    /// Tasks that wait for a task alone or among others.
    pub(super) fn successors(&self, task: TaskRef) -> impl Iterator<Item = TaskRef> {
        let watched = self.on.get(&task.job);
        let head = watched.and_then(|watched| watched.heads.get(&task.task)).copied();
        let edge = move |index: u32| watched?.edges.get(index as usize);
        let edges = std::iter::successors(head.and_then(edge), move |before| edge(before.next));
        edges.map(|edge| edge.waiting)
    }

    /// Those of the tasks of a job that others wait for.
    pub(super) fn leaders(&self, job: JobId, ids: &IdSet) -> Vec<TaskId> {
        let Some(watched) = self.on.get(&job) else { return Vec::new() };
        let bounds = |range: std::ops::RangeInclusive<u32>| TaskId(*range.start())..=TaskId(*range.end());
        let heads = ids.ranges().flat_map(|range| watched.heads.range(bounds(range)));
        heads.map(|head| *head.0).collect()
    }

    /// The task of the same job that alone waits for the success of a task, and for nothing else.
    pub(super) fn follower(&self, leader: TaskRef) -> Option<TaskRef> {
        let watched = self.on.get(&leader.job)?;
        let Edge { waiting, condition, next } =
            *watched.edges.get(*watched.heads.get(&leader.task)? as usize)?;
        let is_only = next == NO_EDGE && self.missing.get(&waiting) == Some(&1);
        // Of a job with barriers or files a task may wait for those, too.
        let of_job = TemplateId::of_job(leader.job);
        let waits_for_more =
            self.barriers.range(of_job.clone()).next().is_some() || self.files.range(of_job).next().is_some();
        let follows = is_only && condition == Condition::Success && waiting.job == leader.job;
        (follows && !waits_for_more).then_some(waiting)
    }

    /// Those of a job's tasks that wait for others.
    pub(super) fn blocked(&self, job: JobId) -> Option<&IdSet> {
        self.blocked.get(&job)
    }

    /// Tasks do not wait any more, because they have ended.
    pub(super) fn unblock(&mut self, job: JobId, ids: &IdSet) {
        let Some(blocked) = self.blocked.get_mut(&job).filter(|blocked| blocked.intersects(ids)) else {
            return;
        };
        self.files_changed |= !self.files.is_empty();
        blocked.subtract(ids);
        if blocked.is_empty() {
            self.blocked.remove(&job);
        }
        for task in self.missing_among(job, ids).iter() {
            self.missing.remove(&TaskRef::new(job, task));
        }
    }

    /// Tasks ended; looked at by [`Waits::next_ending`].
    pub(super) fn note(&mut self, job: JobId, ids: &IdSet, state: TaskState) {
        if self.on.contains_key(&job) {
            self.endings.push_back(Ending { job, ids: ids.clone(), state });
        }
    }

    /// True when an ending of a job was noted and has not been looked at.
    pub(super) fn has_ending_of(&self, job: JobId) -> bool {
        self.endings.iter().any(|ending| ending.job == job)
    }

    /// The next ending that was noted, with what it leads to. The tasks concerned do not wait any more.
    pub(super) fn next_ending(&mut self, state: &State) -> Option<(Ending, Outcome)> {
        let ending = self.endings.pop_front()?;
        let mut outcome = Outcome::default();
        let mut found = VecDeque::from([(ending.job, ending.ids.clone(), ending.state)]);
        while let Some((job, ids, ended)) = found.pop_front() {
            let (loosened, hopeless) = self.pass_on(state, job, &ids, ended);
            for (job, ids) in loosened {
                let ready = self.free(state, job, &ids);
                if !ready.is_empty() {
                    outcome.ready.entry(job).or_default().union_with(&ready);
                }
            }
            for (job, ids) in hopeless {
                let Some(blocked) = self.blocked.get(&job) else { continue };
                let ids = ids.intersection(blocked);
                if !ids.is_empty() {
                    self.unblock(job, &ids);
                    outcome.doomed.entry(job).or_default().union_with(&ids);
                    found.push_back((job, ids, TaskState::Aborted));
                }
            }
        }
        Some((ending, outcome))
    }

    /// A job is not known any more.
    pub(super) fn forget(&mut self, job: JobId) {
        self.on.remove(&job);
        self.blocked.remove(&job);
        let of_job = TemplateId::of_job(job);
        self.files_changed |= !self.files.is_empty();
        self.files.retain(|id, _| id.job != job);
        let barriers: Vec<TemplateId> = self.barriers.range(of_job).map(|barrier| *barrier.0).collect();
        for id in barriers {
            for barrier in self.barriers.remove(&id).unwrap_or_default() {
                if let Some(watched) = self.on.get_mut(&barrier.after.job) {
                    watched.barriers.remove(&id);
                }
            }
        }
    }

    // What ends of tasks of a job mean for those that wait directly: those for which something was resolved, and those
    // that can never run.
    fn pass_on(&mut self, state: &State, job: JobId, ids: &IdSet, ended: TaskState) -> (Tasks, Tasks) {
        let (mut loosened, mut hopeless) = (Tasks::new(), Tasks::new());
        let Some(watched) = self.on.get_mut(&job) else { return (loosened, hopeless) };
        for range in ids.ranges() {
            let bounds = TaskId(*range.start())..=TaskId(*range.end());
            let heads: Vec<(TaskId, u32)> =
                watched.heads.range(bounds).map(|(t, head)| (*t, *head)).collect();
            for (task, mut next) in heads {
                watched.heads.remove(&task);
                while let Some(edge) = watched.edges.get(next as usize) {
                    next = edge.next;
                    let TaskRef { job, task } = edge.waiting;
                    if ended != TaskState::Finished && edge.condition == Condition::Success {
                        hopeless.entry(job).or_default().insert(task);
                        continue;
                    }
                    let Some(missing) = self.missing.get_mut(&edge.waiting) else { continue };
                    *missing -= 1;
                    if *missing == 0 {
                        self.missing.remove(&edge.waiting);
                        loosened.entry(job).or_default().insert(task);
                    }
                }
            }
        }
        if watched.heads.is_empty() {
            watched.edges = Vec::new();
        }
        let mut passed = Vec::new();
        for id in &watched.barriers {
            let barriers = self.barriers.get_mut(id).into_iter().flatten();
            let mut is_watching = false;
            for barrier in barriers.filter(|barrier| barrier.after.job == job) {
                let (released, doomed) = barrier.take(state, ids, ended);
                is_watching |= barrier.released.len() < barrier.waiting.len();
                if !released.is_empty() {
                    loosened.entry(id.job).or_default().union_with(&released);
                }
                if !doomed.is_empty() {
                    hopeless.entry(id.job).or_default().union_with(&doomed);
                }
            }
            if !is_watching {
                passed.push(*id);
            }
        }
        for id in passed {
            watched.barriers.remove(&id);
            if self.barriers.get(&id).is_some_and(|barriers| barriers.iter().all(Barrier::is_open)) {
                self.barriers.remove(&id);
            }
        }
        if watched.heads.is_empty() && watched.barriers.is_empty() {
            self.on.remove(&job);
        }
        (loosened, hopeless)
    }

    // Those of the blocked tasks `ids` of a job that nothing holds back now. They are not blocked any more.
    fn free(&mut self, state: &State, id: JobId, ids: &IdSet) -> IdSet {
        let (Some(blocked), Some(job)) = (self.blocked.get(&id), state.jobs.get(&id)) else {
            return IdSet::new();
        };
        let mut free = ids.intersection(blocked);
        if self.barriers.range(TemplateId::of_job(id)).next().is_some() {
            for (submit, part) in job.by_submit(&free) {
                for barrier in self.barriers.get(&TemplateId { job: id, submit }).into_iter().flatten() {
                    free.subtract(&part.intersection(&barrier.waiting).difference(&barrier.released));
                }
            }
        }
        if !self.files.is_empty() {
            for (submit, part) in job.by_submit(&free) {
                if self.files.contains_key(&TemplateId { job: id, submit }) {
                    free.subtract(&part);
                }
            }
        }
        free.subtract(&self.missing_among(id, &free));
        if let Some(blocked) = self.blocked.get_mut(&id) {
            blocked.subtract(&free);
            if blocked.is_empty() {
                self.blocked.remove(&id);
            }
        }
        free
    }

    /// Files exist that tasks of a job wait for. Returns the tasks that wait for nothing any more.
    pub(super) fn found(&mut self, state: &State, job: JobId, files: &[ByteString]) -> IdSet {
        let mut loosened = IdSet::new();
        for (id, missing) in self.files.range_mut(TemplateId::of_job(job)) {
            missing.retain(|file| !files.contains(file));
            if missing.is_empty()
                && let Some(job) = state.jobs.get(&job)
            {
                loosened.union_with(&job.submits[id.submit as usize].ids);
            }
        }
        self.files.retain(|_, missing| !missing.is_empty());
        self.files_changed = true;
        self.free(state, job, &loosened)
    }

    /// The files to look for, when they may be others than before.
    pub(super) fn files_wanted(&mut self, state: &State) -> Option<BTreeSet<ByteString>> {
        if !std::mem::take(&mut self.files_changed) {
            return None;
        }
        let is_blocked = |id: &TemplateId| {
            let submit = state.jobs.get(&id.job).and_then(|job| job.submits.get(id.submit as usize));
            submit.zip(self.blocked(id.job)).is_some_and(|(submit, blocked)| submit.ids.intersects(blocked))
        };
        let wanted = self.files.iter().filter(|(id, _)| is_blocked(id));
        Some(wanted.flat_map(|(_, files)| files.iter().cloned()).collect())
    }

    /// By job, ascending, those of some files that its tasks wait for.
    pub(super) fn jobs_with_files(&self, paths: &[ByteString]) -> BTreeMap<JobId, BTreeSet<ByteString>> {
        let mut jobs: BTreeMap<JobId, BTreeSet<ByteString>> = BTreeMap::new();
        for (id, files) in &self.files {
            let found: Vec<&ByteString> = paths.iter().filter(|path| files.contains(*path)).collect();
            if !found.is_empty() {
                jobs.entry(id.job).or_default().extend(found.into_iter().cloned());
            }
        }
        jobs
    }

    /// True when the same tasks wait for the same files and for as many others. What few tasks wait for is counted after a
    /// restart for each of them, and was kept as a barrier for all while they were many.
    pub(super) fn is_alike(&self, other: &Waits) -> bool {
        let unlike = |one: &Waits, two: &Waits| -> Vec<TaskRef> {
            let differs = |(task, count): &(&TaskRef, &u32)| two.missing.get(task) != Some(*count);
            one.missing.iter().filter(differs).map(|(task, _)| *task).collect()
        };
        let is_gate_of_one = |task: &TaskRef| self.is_gated(*task) != other.is_gated(*task);
        let counted_alike = unlike(self, other).iter().chain(&unlike(other, self)).all(is_gate_of_one);
        self.blocked == other.blocked && self.files == other.files && counted_alike
    }

    fn is_gated(&self, task: TaskRef) -> bool {
        let holds =
            |barrier: &Barrier| barrier.waiting.contains(task.task) && !barrier.released.contains(task.task);
        self.barriers.range(TemplateId::of_job(task.job)).any(|(_, barriers)| barriers.iter().any(holds))
    }

    fn missing_among(&self, job: JobId, ids: &IdSet) -> IdSet {
        let mut found = IdSet::new();
        if !self.missing.is_empty() {
            for range in ids.ranges() {
                let bounds =
                    TaskRef::new(job, TaskId(*range.start()))..=TaskRef::new(job, TaskId(*range.end()));
                for (task, _) in self.missing.range(bounds) {
                    found.insert(task.task);
                }
            }
        }
        found
    }
}

type Tasks = BTreeMap<JobId, IdSet>;

fn are_few(tasks: &IdSet, waiting: &IdSet) -> bool {
    tasks.len().saturating_mul(waiting.len()) <= EDGES_OF_DEPENDENCY_MAX
}
