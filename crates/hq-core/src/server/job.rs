//! A job's durable state: which of its tasks are in which state, as intervals.
//!
//! A task is in exactly one of `queued`, `leased` (to one worker), `finished`, `failed`, `canceled`
//! and `aborted`. What else is kept of it (instance, crashes, failure) is kept only where it
//! differs from its neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hq_model::dependency::{After, Mapping};
use hq_model::job::Counters;
use hq_model::{
    ByteString, Dependencies, Entries, IdSet, Instance, JobId, JobSpec, TaskId, TaskSpec, TaskState,
    Timestamp, Usage, WorkerId,
};

use crate::record::{Failure, SecondAttempt};

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name and limits.
    pub spec: JobSpec,
    /// Takes submits.
    pub is_open: bool,
    /// When it was made.
    pub submitted: Timestamp,
    /// When its last task ended.
    pub last_end: Timestamp,
    /// Words of the user who canceled it.
    pub cancel_reason: Option<String>,
    /// Its submits, in order.
    pub submits: Vec<SubmitState>,
    /// All tasks.
    pub ids: IdSet,
    /// Neither leased nor ended.
    pub queued: IdSet,
    /// Handed to workers; no empty sets.
    pub leased: BTreeMap<WorkerId, IdSet>,
    /// Ended with success.
    pub finished: IdSet,
    /// Ended without.
    pub failed: IdSet,
    /// Ended by the user.
    pub canceled: IdSet,
    /// Given up by the server, by reason.
    pub aborted: IdSet,
    /// Why tasks were aborted, in order of time.
    pub abort_reasons: Vec<(IdSet, String)>,
    /// Instances above 0; no empty sets.
    pub instances: BTreeMap<Instance, IdSet>,
    /// Losses with a worker, of tasks that were lost.
    pub crashes: BTreeMap<TaskId, u32>,
    /// Retries, of tasks that were retried.
    pub retries: BTreeMap<TaskId, u32>,
    /// Tasks that wait for their retry delay: a subset of `queued`.
    pub delayed: BTreeMap<TaskId, Timestamp>,
    /// Second attempts of leased tasks.
    pub seconds: BTreeMap<TaskId, SecondAttempt>,
    /// What tasks wait for that put themselves back while they ran: a subset of `queued`.
    pub deferred: BTreeMap<TaskId, Vec<After>>,
    /// Files that its tasks waited for and that were found, whatever became of them.
    pub files: BTreeSet<ByteString>,
    /// What services said when they were ready; those that wait for them may start, whatever becomes of them.
    pub ready: BTreeMap<TaskId, ByteString>,
    /// Workers of leased tasks on several nodes; the first one leads, and the task is leased to it.
    pub nodes: BTreeMap<TaskId, Vec<WorkerId>>,
    /// What is known of failed tasks, with the time of the end.
    pub failures: BTreeMap<TaskId, (Timestamp, Failure)>,
    /// Sum over ended attempts.
    pub usage: Usage,
    /// Workers that ended tasks of it, at most [`WORKERS_MAX`].
    pub workers: BTreeSet<WorkerId>,
    // Of all tasks with keys: hash of the key, and the task.
    pub(super) keys: BTreeSet<(u64, TaskId)>,
    // First id of each range of a submit -> last id and index of the submit.
    owners: BTreeMap<u32, (u32, u32)>,
}

/// Workers remembered for a job.
pub const WORKERS_MAX: usize = 1000;

/// One submit.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmitState {
    /// Its tasks.
    pub ids: IdSet,
    /// Their entries in order of ids, or empty.
    pub entries: Entries,
    /// Their keys in order of ids, or empty.
    pub keys: Entries,
    /// What they wait for.
    pub dependencies: Arc<Dependencies>,
    /// What they execute.
    pub task: Arc<TaskSpec>,
    /// Directory of the submitting process.
    pub submit_dir: ByteString,
    /// When.
    pub submitted: Timestamp,
}

impl Job {
    /// A job without tasks.
    pub fn new(spec: JobSpec, is_open: bool, at: Timestamp) -> Job {
        Job {
            spec,
            is_open,
            submitted: at,
            last_end: at,
            cancel_reason: None,
            submits: Vec::new(),
            ids: IdSet::new(),
            queued: IdSet::new(),
            leased: BTreeMap::new(),
            finished: IdSet::new(),
            failed: IdSet::new(),
            canceled: IdSet::new(),
            aborted: IdSet::new(),
            abort_reasons: Vec::new(),
            instances: BTreeMap::new(),
            crashes: BTreeMap::new(),
            retries: BTreeMap::new(),
            delayed: BTreeMap::new(),
            seconds: BTreeMap::new(),
            deferred: BTreeMap::new(),
            ready: BTreeMap::new(),
            files: BTreeSet::new(),
            nodes: BTreeMap::new(),
            failures: BTreeMap::new(),
            usage: Usage::default(),
            workers: BTreeSet::new(),
            keys: BTreeSet::new(),
            owners: BTreeMap::new(),
        }
    }

    /// Adds a submit; its ids are new.
    pub fn add_submit(&mut self, submit: SubmitState) {
        let index = self.submits.len() as u32;
        for range in submit.ids.ranges() {
            self.owners.insert(*range.start(), (*range.end(), index));
        }
        self.ids.union_with(&submit.ids);
        self.queued.union_with(&submit.ids);
        self.index_keys(&submit);
        self.submits.push(submit);
    }

    /// Index of the submit that a task came with.
    pub fn submit_of(&self, task: TaskId) -> Option<u32> {
        let (_, &(last, index)) = self.owners.range(..=task.0).next_back()?;
        (task.0 <= last).then_some(index)
    }

    /// Divides tasks of this job by submit.
    pub fn by_submit(&self, ids: &IdSet) -> Vec<(u32, IdSet)> {
        if self.submits.len() == 1 {
            return vec![(0, ids.clone())];
        }
        let mut parts: BTreeMap<u32, IdSet> = BTreeMap::new();
        for range in ids.ranges() {
            let mut at = *range.start();
            while let Some((_, &(last, index))) = self.owners.range(..=at).next_back() {
                let end = last.min(*range.end());
                if end < at {
                    break;
                }
                parts.entry(index).or_default().insert_range(at, end);
                if end == *range.end() {
                    break;
                }
                at = end + 1;
            }
        }
        parts.into_iter().collect()
    }

    /// What a task of this job, whose id is `own`, was to wait for.
    pub fn dependencies_of(&self, own: JobId, task: TaskId) -> Vec<After> {
        let submit = self.submit_of(task).map(|index| &self.submits[index as usize]);
        let submit = submit.filter(|submit| !submit.dependencies.is_empty());
        let mut found = submit.map_or_else(Vec::new, |submit| {
            of_place(&submit.dependencies, own, submit.ids.rank(task).unwrap_or(0))
        });
        found.extend(self.deferred.get(&task).into_iter().flatten().cloned());
        found
    }

    /// Services that are ready, or have been.
    pub fn ready_services(&self) -> IdSet {
        self.ready.keys().copied().collect()
    }

    /// Tasks that have not ended.
    pub fn alive(&self) -> IdSet {
        let mut alive = self.queued.clone();
        for ids in self.leased.values() {
            alive.union_with(ids);
        }
        alive
    }

    /// Number of tasks handed to workers.
    pub fn leased_count(&self) -> u64 {
        self.leased.values().map(IdSet::len).sum()
    }

    /// Tasks by state, `running` of the leased ones being reported as started.
    pub fn counters(&self, running: u64) -> Counters {
        Counters {
            waiting: self.queued.len() + self.leased_count() - running,
            running,
            finished: self.finished.len(),
            failed: self.failed.len(),
            canceled: self.canceled.len(),
            aborted: self.aborted.len(),
        }
    }

    /// True when every task has ended.
    pub fn tasks_ended(&self) -> bool {
        self.queued.is_empty() && self.leased.is_empty()
    }

    /// True when every task has ended and no more will come.
    pub fn has_ended(&self) -> bool {
        !self.is_open && self.tasks_ended()
    }

    /// The state of a task; leased ones count as waiting.
    pub fn state_of(&self, task: TaskId) -> Option<TaskState> {
        let state = if self.finished.contains(task) {
            TaskState::Finished
        } else if self.failed.contains(task) {
            TaskState::Failed
        } else if self.canceled.contains(task) {
            TaskState::Canceled
        } else if self.aborted.contains(task) {
            TaskState::Aborted
        } else if self.ids.contains(task) {
            TaskState::Waiting
        } else {
            return None;
        };
        Some(state)
    }

    /// The instance of the present, last or next attempt.
    pub fn instance_of(&self, task: TaskId) -> Instance {
        self.instances.iter().find(|(_, ids)| ids.contains(task)).map_or(Instance(0), |(i, _)| *i)
    }

    /// Those of `ids` whose instance is `instance`.
    pub fn with_instance(&self, ids: &IdSet, instance: Instance) -> IdSet {
        if instance.0 > 0 {
            return self.instances.get(&instance).map_or_else(IdSet::new, |set| set.intersection(ids));
        }
        let mut first = ids.clone();
        for set in self.instances.values() {
            first = first.difference(set);
        }
        first
    }

    /// Divides tasks by instance, ascending.
    pub fn by_instance(&self, ids: &IdSet) -> Vec<(Instance, IdSet)> {
        let first = self.with_instance(ids, Instance(0));
        let later = self.instances.iter().map(|(instance, set)| (*instance, set.intersection(ids)));
        [(Instance(0), first)].into_iter().chain(later).filter(|(_, set)| !set.is_empty()).collect()
    }

    /// Gives tasks an instance.
    pub(super) fn set_instance(&mut self, ids: &IdSet, instance: Instance) {
        for set in self.instances.values_mut() {
            set.subtract(ids);
        }
        self.instances.retain(|_, set| !set.is_empty());
        if instance.0 > 0 {
            self.instances.entry(instance).or_default().union_with(ids);
        }
    }

    /// As [`Job::take_alive`] for tasks that most likely are all leased to one worker: the others need not be
    /// looked at then.
    pub(super) fn take_alive_from(&mut self, worker: WorkerId, ids: &IdSet) {
        let has_all = self.leased.get(&worker).is_some_and(|held| held.contains_all(ids));
        if has_all && self.seconds.is_empty() {
            self.take_leased(worker, ids);
        } else {
            self.take_alive(ids);
        }
    }

    /// Takes tasks out of `queued` and `leased`, whichever they are in.
    pub(super) fn take_alive(&mut self, ids: &IdSet) {
        self.queued.subtract(ids);
        for set in self.leased.values_mut() {
            set.subtract(ids);
        }
        self.leased.retain(|_, set| !set.is_empty());
        if !self.delayed.is_empty() {
            self.delayed.retain(|task, _| !ids.contains(*task));
        }
        if !self.seconds.is_empty() {
            self.seconds.retain(|task, _| !ids.contains(*task));
        }
        if !self.deferred.is_empty() {
            self.deferred.retain(|task, _| !ids.contains(*task));
        }
        self.forget_nodes(ids);
    }

    /// Takes tasks from what one worker holds.
    pub(super) fn take_leased(&mut self, worker: WorkerId, ids: &IdSet) {
        self.forget_nodes(ids);
        let Some(held) = self.leased.get_mut(&worker) else { return };
        held.subtract(ids);
        if held.is_empty() {
            self.leased.remove(&worker);
        }
    }

    /// Remembers that a worker ended tasks of this job.
    pub(super) fn note_worker(&mut self, worker: WorkerId) {
        if self.workers.len() < WORKERS_MAX {
            self.workers.insert(worker);
        }
    }
}

/// What the task at a place of a submit to the job `own` waits for.
pub(super) fn of_place(dependencies: &Dependencies, own: JobId, place: u64) -> Vec<After> {
    let targets: IdSet = dependencies.edges.of(place as usize).iter().copied().collect();
    let edges = (!targets.is_empty()).then(|| After { tasks: Some(targets), ..After::of(own) });
    let whole = dependencies.after.iter().map(|after| {
        let tasks = after.tasks.as_ref().map(|tasks| match after.mapping {
            Mapping::All => tasks.clone(),
            Mapping::Window(size) => {
                tasks.slice(place.saturating_sub(size.into()), place.saturating_add(size.into()))
            }
        });
        After { tasks, condition: after.condition, ..After::of(after.job) }
    });
    edges.into_iter().chain(whole).collect()
}
