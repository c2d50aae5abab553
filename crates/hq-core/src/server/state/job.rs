//! A job's durable state: which of its tasks are in which state, as intervals.
//!
//! A task is in exactly one of `queued`, `leased` (to one worker), `finished`, `failed`, `canceled`
//! and `aborted`. What else is kept of it (instance, crashes, failure) is kept only where it
//! differs from its neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, RangeInclusive};
use std::sync::Arc;

use hq_model::dependency::{After, Mapping};
use hq_model::job::{Counters, FedEnd, JobState};
use hq_model::{
    Body, ByteString, Dependencies, Entries, IdSet, Instance, JobId, JobSpec, TaskId, TaskRef, TaskSpec,
    TaskState, Timestamp, pattern,
};

use crate::cause::Aborted;
use crate::limits::{JOB_BYTES, LOCALITY_BYTES, OBJECT_BYTES, SUBMIT_BYTES};
use crate::record::{Failure, JobProgress};

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name and limits.
    pub spec: JobSpec,
    /// When it was made.
    pub submitted: Timestamp,
    /// Its submits, in order.
    pub submits: Vec<SubmitState>,
    /// All tasks.
    pub ids: IdSet,
    /// Neither leased nor ended: what is left of all tasks.
    pub queued: IdSet,
    /// Given up by the server, for whatever reason.
    pub aborted: IdSet,
    /// What is known of failed tasks, and of those that ran when they were canceled or given up, with the time of the end.
    pub failures: BTreeMap<TaskId, (Timestamp, Failure)>,
    // How far it is; read as if it were the job's own, and changed by records alone.
    pub(super) progress: JobProgress,
    // Of all tasks with keys: hash of the key, and the task.
    pub(in crate::server) keys: BTreeSet<(u64, TaskId)>,
    // First id of each range of a submit -> last id and index of the submit.
    owners: BTreeMap<u32, (u32, u32)>,
}

// About what a rule for a notice takes, in bytes.
const NOTICE_RULE_BYTES: usize = 256;

/// Workers remembered for a job.
pub const WORKERS_MAX: usize = 1000;

impl Deref for Job {
    type Target = JobProgress;

    fn deref(&self) -> &JobProgress {
        &self.progress
    }
}

/// One submit.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmitState {
    /// Its tasks.
    pub ids: IdSet,
    /// Their entries in order of ids, or empty; without those that are gone.
    pub entries: Entries,
    /// Those of them whose entries are not kept any more: they have finished.
    pub entries_gone: IdSet,
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

impl SubmitState {
    /// True when only workers that store objects can run its tasks: they leave or take some, or results of others are among
    /// their arguments, which may be objects.
    pub fn needs_store(&self) -> bool {
        let takes_or_leaves = !self.dependencies.is_empty() || self.task.rebuilds.is_some();
        self.task.has_objects() || (self.task.body.is_packed_call() && takes_or_leaves)
    }

    /// The entry of one of its tasks, if they have entries.
    pub fn entry_of(&self, task: TaskId) -> Option<&[u8]> {
        self.entries.get(entry_place(&self.ids, &self.entries_gone, task)?)
    }

    /// The entries of some of its tasks, in order of ids. None of them is gone.
    pub fn entries_of(&self, ids: &IdSet) -> Entries {
        picked_entries((&self.ids, &self.entries_gone, &self.entries), ids)
    }

    /// What the entries of some of its tasks take in memory, in bytes. None of them is gone.
    pub fn entries_bytes(&self, ids: &IdSet) -> usize {
        let of = |range: RangeInclusive<u32>| {
            let count = (range.end() - range.start()) as usize + 1;
            let first = entry_place(&self.ids, &self.entries_gone, TaskId(*range.start()));
            first.map_or(0, |first| self.entries.bytes_of(first, count)) + 4 * count
        };
        ids.ranges().map(of).sum()
    }

    /// About what it takes in memory, with the objects that its tasks leave, in bytes.
    pub fn bytes(&self) -> usize {
        // Each key is in an index, too.
        let keys = self.keys.bytes_len() + self.keys.len() * 28;
        let entries = self.entries.bytes_len() + self.entries.len() * 4;
        let dependencies = &self.dependencies;
        let after = dependencies.after.iter();
        let after: usize = after.map(|a| 96 + a.tasks.as_ref().map_or(0, |ids| ids.range_count() * 8)).sum();
        let edges = (dependencies.edges.lists() + dependencies.edges.len()) * 4;
        let files: usize = dependencies.files.iter().map(|file| 24 + file.len()).sum();
        let objects = self.ids.len() as usize * self.task.own_objects().len() * OBJECT_BYTES;
        // Each task may have a key of its own.
        let has_keys = |key: &[u8]| pattern::names(key).iter().any(|name| name != "JOB_ID");
        let localities = match &self.task.locality {
            Some(key) if has_keys(key) => self.ids.len() as usize * LOCALITY_BYTES,
            _ => 0,
        };
        SUBMIT_BYTES
            + (self.ids.range_count() + self.entries_gone.range_count()) * 48
            + keys
            + entries
            + after
            + edges
            + files
            + objects
            + localities
            + self.task.bytes()
    }
}

/// Drops the entries of some tasks of a submit.
pub fn drop_entries(all: &IdSet, entries: &mut Entries, gone: &mut IdSet, dropped: &IdSet) {
    if entries.is_empty() {
        return;
    }
    let after = {
        let mut after = gone.clone();
        after.union_with(&dropped.intersection(all));
        after
    };
    *entries = picked_entries((all, gone, entries), &all.difference(&after));
    *gone = after;
}

// The place of a task's entry among those that are left.
fn entry_place(all: &IdSet, gone: &IdSet, task: TaskId) -> Option<usize> {
    if gone.contains(task) {
        return None;
    }
    Some((all.rank(task)? - gone.count_below(task)) as usize)
}

fn picked_entries((all, gone, entries): (&IdSet, &IdSet, &Entries), ids: &IdSet) -> Entries {
    if entries.is_empty() {
        return Entries::default();
    }
    let picked = ids.ranges().flat_map(|range| {
        let first = entry_place(all, gone, TaskId(*range.start())).unwrap_or(0);
        // Neighbours in `ids` are neighbours among those that are left, too: these contain them all.
        let count = (range.end() - range.start()) as usize + 1;
        (first..first + count).filter_map(|index| entries.get(index))
    });
    Entries::new(picked).unwrap_or_default()
}

impl Job {
    /// A job without tasks.
    pub fn new(spec: JobSpec, is_open: bool, at: Timestamp) -> Job {
        let budget = spec.budget;
        Job {
            spec,
            submitted: at,
            submits: Vec::new(),
            ids: IdSet::new(),
            queued: IdSet::new(),
            aborted: IdSet::new(),
            failures: BTreeMap::new(),
            progress: JobProgress { is_open, last_end: at, budget, ..JobProgress::default() },
            keys: BTreeSet::new(),
            owners: BTreeMap::new(),
        }
    }

    /// Adds a submit; its ids are new.
    pub(super) fn add_submit(&mut self, mut submit: SubmitState) {
        // A job that a generator feeds has very many, mostly alike.
        if let Some(last) = self.submits.last().filter(|last| last.task == submit.task) {
            submit.task = Arc::clone(&last.task);
        }
        let index = self.submits.len() as u32;
        for range in submit.ids.ranges() {
            self.owners.insert(*range.start(), (*range.end(), index));
        }
        self.ids.union_with(&submit.ids);
        match submit.task.body {
            Body::Given => {
                self.progress.finished.union_with(&submit.ids);
                self.progress.last_end = submit.submitted;
            }
            _ => self.queued.union_with(&submit.ids),
        }
        self.index_keys(&submit);
        self.submits.push(submit);
    }

    /// Drops the entries of tasks. Answers how many bytes fewer its submits take, and more, for what is said of them instead.
    pub(super) fn drop_entries(&mut self, ids: &IdSet) -> (usize, usize) {
        let (mut before, mut after) = (0, 0);
        for (index, ids) in self.by_submit(ids) {
            let submit = &mut self.submits[index as usize];
            before += submit.bytes();
            drop_entries(&submit.ids, &mut submit.entries, &mut submit.entries_gone, &ids);
            after += submit.bytes();
        }
        (before, after)
    }

    /// Takes the latest submits back, of which nothing was begun, until so many are left.
    pub(super) fn take_back_submits(&mut self, left: usize) {
        for submit in self.submits.drain(left..) {
            for range in submit.ids.ranges() {
                self.owners.remove(range.start());
            }
            self.ids.subtract(&submit.ids);
            self.queued.subtract(&submit.ids);
            for key in super::keys::index_of(&submit) {
                self.keys.remove(&key);
            }
        }
    }

    /// About what it takes in memory beside its submits, in bytes.
    pub fn own_bytes(&self) -> usize {
        JOB_BYTES
            + self.spec.name.len()
            + self.spec.directory.len()
            + self.spec.notices.len() * NOTICE_RULE_BYTES
    }

    /// Bytes that it and its submits take.
    pub fn submits_bytes(&self) -> usize {
        self.own_bytes() + self.submits.iter().map(SubmitState::bytes).sum::<usize>()
    }

    /// Index of the submit that a task came with.
    pub fn submit_of(&self, task: TaskId) -> Option<u32> {
        let (_, &(last, index)) = self.owners.range(..=task.0).next_back()?;
        (task.0 <= last).then_some(index)
    }

    /// The tasks in a range, with the index of their submit, ascending.
    pub fn owners_in(
        &self,
        ids: RangeInclusive<u32>,
    ) -> impl Iterator<Item = (RangeInclusive<u32>, u32)> + '_ {
        let (first, last) = ids.into_inner();
        let begin = self.owners.range(..=first).next_back().map_or(first, |(begin, _)| *begin);
        let owners = self.owners.range(begin..=last.max(begin));
        owners
            .filter(move |(begin, (end, _))| *end >= first && **begin <= last)
            .map(move |(begin, (end, index))| ((*begin).max(first)..=(*end).min(last), *index))
    }

    /// Those of some tasks whose programs have a result whenever they finish.
    pub fn promising_texts(&self, ids: &IdSet) -> IdSet {
        if let [only] = &self.submits[..] {
            return if only.task.result.is_some() { ids.clone() } else { IdSet::new() };
        }
        let parts = ids.ranges().flat_map(|range| self.owners_in(range));
        let promise = |index: u32| self.submits[index as usize].task.result.is_some();
        parts.filter(|(_, index)| promise(*index)).map(|(ids, _)| ids).collect()
    }

    /// The end of the so-many-th range of a submit that does not end before `first`, when there are more and the job has
    /// several submits.
    pub fn end_of_submits(&self, first: TaskId, count: usize) -> Option<TaskId> {
        if self.submits.len() < 2 {
            return None;
        }
        let begin = self.owners.range(..=first.0).next_back().map_or(first.0, |(begin, _)| *begin);
        let mut ends = self.owners.range(begin..).map(|(_, (last, _))| TaskId(*last));
        let end = ends.nth(count)?;
        ends.next().map(|_| end)
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
        if let Some(of) = self.values_of.get(&task) {
            // It was called before, and takes nothing but this.
            return vec![After { tasks: Some(IdSet::single(of.task)), ..After::of(of.job) }];
        }
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

    /// True until it is closed, when it was to count then.
    pub fn is_draft(&self) -> bool {
        self.is_open && self.spec.is_draft
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

    /// Its state, `running` of the leased tasks being reported as started.
    pub fn state(&self, running: u64) -> JobState {
        self.fed_end().state_of(&self.counters(running), self.is_open)
    }

    /// What its state is made of, beside its tasks.
    pub fn fed_end(&self) -> FedEnd {
        self.feed.as_ref().map_or(FedEnd::ByTasks, |feed| feed.end)
    }

    /// True when every task has ended.
    pub fn tasks_ended(&self) -> bool {
        self.queued.is_empty() && self.leased.is_empty()
    }

    /// True when every task has ended and no more will come.
    pub fn has_ended(&self) -> bool {
        !self.is_open && self.tasks_ended()
    }

    /// Why tasks of it were given up.
    pub fn why_aborted(&self) -> Option<Aborted> {
        let first = self.aborted.first()?;
        let (_, reason) = self.abort_reasons.iter().find(|(ids, _)| ids.contains(first))?;
        Some(Aborted { count: self.aborted.len(), first, reason: reason.clone() })
    }

    /// How many of its tasks may fail, when more have.
    pub fn exceeded_max_fails(&self) -> Option<u64> {
        self.spec.max_fails.filter(|limit| self.failed.len() > *limit)
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

    /// What is known of a task of this job, in a line for the log.
    pub(super) fn story(&self, whole: TaskRef) -> String {
        let task = whole.task;
        let Some(state) = self.state_of(task) else { return format!("task {whole} that is not there") };
        let instance = self.instance_of(task);
        let mut story =
            format!("task {whole}: {state}, instance {instance}, submit {:?}", self.submit_of(task));
        for (worker, _) in self.leased.iter().filter(|(_, ids)| ids.contains(task)) {
            story.push_str(&format!(", leased to worker {worker}"));
        }
        if self.queued.contains(task) {
            story.push_str(", queued");
        }
        let parts = [
            ("crashes", self.crashes.get(&task).map(|crashes| crashes.to_string())),
            ("retries", self.retries.get(&task).map(|retries| retries.to_string())),
            ("delayed until", self.delayed.get(&task).map(|at| at.0.to_string())),
            ("put back behind", self.deferred.get(&task).map(|after| format!("{after:?}"))),
            ("second attempt", self.seconds.get(&task).map(|second| format!("{second:?}"))),
            ("workers", self.nodes.get(&task).map(|workers| format!("{workers:?}"))),
        ];
        for (name, value) in parts {
            if let Some(value) = value {
                story.push_str(&format!(", {name} {value}"));
            }
        }
        story
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
}

/// What the task at a place of a submit to the job `own` waits for.
pub(in crate::server) fn of_place(dependencies: &Dependencies, own: JobId, place: u64) -> Vec<After> {
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
