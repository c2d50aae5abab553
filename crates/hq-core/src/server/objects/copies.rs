//! Which workers store which objects, and who reads what: derived from the state, but for what workers say.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use hq_model::object::ObjectTask;
use hq_model::task::Rebuild;
use hq_model::{IdSet, JobId, ObjectId, TaskId, TaskRef, WorkerId};

use super::guards::Guards;
use super::holders::Workers;
use crate::object_messages::{ObjectChange, ObjectCopy, ObjectsHeld};
use crate::record::Record;
use crate::server::job::Job;
use crate::server::object_map::ObjectMap;
use crate::server::state::State;
use crate::server::state::objects::Object;
use crate::worker_messages::TemplateId;

/// Whose objects a submit takes: those of this task, or each task those of the task with its own id.
type Left = (JobId, Option<TaskId>);

/// What a server knows of objects beyond their records.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Copies {
    // Submits that take objects, by who leaves these.
    readers: BTreeMap<Left, BTreeSet<TemplateId>>,
    // The same by the jobs that take some.
    takers: BTreeMap<JobId, BTreeSet<Left>>,
    // Jobs with submits that leave objects.
    producers: BTreeSet<JobId>,
    // Workers that store an object; none without a worker.
    holders: ObjectMap<Holders>,
    // The same by workers.
    held: BTreeMap<WorkerId, Held>,
    // What of that lies in spills, where something does.
    spilled: BTreeMap<WorkerId, ObjectsHeld>,
    /// Which of them see to it that an object stays.
    pub(super) guards: Guards,
    // Workers of the time before a restart that have not said what they store.
    unheard: BTreeSet<WorkerId>,
    // Objects that no worker stores any more, and which one did last.
    orphans: BTreeMap<ObjectId, Option<Last>>,
    // Objects of finished tasks that no worker stores any more, with where they were last.
    lost: BTreeMap<ObjectId, String>,
    // Those of them of which something has changed.
    doubted: BTreeSet<ObjectId>,
    // Jobs that leave the objects of a task once more, in order.
    rebuilds: BTreeMap<TaskRef, BTreeSet<JobId>>,
    // Which worker is to free what.
    to_free: BTreeMap<WorkerId, Vec<ObjectId>>,
    // The same, where an attempt is about to leave the object there once more.
    to_free_later: BTreeMap<WorkerId, Vec<ObjectId>>,
    // Tasks that came back since something could not be had.
    tries: BTreeMap<TaskRef, Tries>,
    // Calls that came back since a value is lost that is among their arguments.
    callers: BTreeMap<ObjectId, BTreeSet<TaskRef>>,
}

/// Where an object was last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Last {
    /// The worker that stored it.
    pub(super) worker: WorkerId,
    /// Somebody had changed the file.
    pub(super) is_damaged: bool,
}

/// Who stores an object.
#[derive(Clone, Debug, Default)]
struct Holders {
    size: u64,
    workers: Workers,
}

/// A task that came back since something could not be had, or not be stored.
#[derive(Clone, Debug, Default)]
struct Tries {
    count: u32,
    // Those of them, the last in a row, in which every store was full of what nobody let go.
    in_vain: u32,
    // What had been let go by then.
    let_go: u64,
    // Workers whose own store had no room.
    without_room: BTreeSet<WorkerId>,
    // From whom it could not be had.
    from: BTreeSet<WorkerId>,
    // What, and why the last time, for people.
    why: String,
}

/// What a worker stores.
#[derive(Clone, Debug, Default)]
struct Held {
    objects: ObjectMap<()>,
    bytes: u64,
}

impl Copies {
    /// What the state says; workers may come back that did not end.
    pub(in crate::server) fn recount(state: &State) -> Copies {
        let mut copies = Copies::default();
        for (id, job) in &state.jobs {
            for submit in 0..job.submits.len() as u32 {
                copies.add(state, TemplateId { job: *id, submit });
            }
        }
        copies.producers.extend(state.objects.iter().map(|(task, _, _)| task.job));
        let unended = state.workers.iter().filter(|(_, worker)| worker.ended.is_none());
        copies.unheard = unended.map(|(worker, _)| *worker).collect();
        copies.look_at_all(state);
        copies
    }

    fn add(&mut self, state: &State, template: TemplateId) {
        let Some(job) = state.jobs.get(&template.job) else { return };
        let spec = &job.submits[template.submit as usize].task;
        if !spec.output_objects.is_empty() || spec.rebuilds.is_some() {
            self.producers.insert(template.job);
        }
        for rebuilt in rebuilt_by(job, template.submit) {
            self.rebuilds.entry(rebuilt).or_default().insert(template.job);
        }
        for input in &spec.input_objects {
            let task = match input.from.task {
                ObjectTask::One(task) => Some(task),
                ObjectTask::Same => None,
            };
            let left = (input.from.job.unwrap_or(template.job), task);
            self.readers.entry(left).or_default().insert(template);
            self.takers.entry(template.job).or_default().insert(left);
        }
    }

    /// Hears a record that is in the state already.
    pub(in crate::server) fn hear(&mut self, state: &State, record: &Record) {
        for part in record.parts() {
            match part {
                Record::Submitted { job, ids, task, .. } if task.has_objects() || task.rebuilds.is_some() => {
                    if let Some(submit) = ids.first().and_then(|task| state.jobs.get(job)?.submit_of(task)) {
                        self.add(state, TemplateId { job: *job, submit });
                        self.doubt_taken(state, *job, ids);
                        self.doubt_lost_of(*job);
                    }
                }
                Record::Restarted { job, .. } => self.doubt_lost_of(*job),
                Record::JobForgotten { job } => self.forget(*job),
                Record::Finished { span, .. } => {
                    self.end_tries(span.job, &span.ids);
                    self.doubt_taken(state, span.job, &span.ids);
                }
                Record::Failed { job, failure } => {
                    self.end_tries(*job, &IdSet::single(failure.task));
                    self.doubt_taken(state, *job, &IdSet::single(failure.task));
                    self.doubt_rebuilt(state, *job, &IdSet::single(failure.task));
                }
                Record::Canceled { job, ids, .. } | Record::Aborted { job, ids, .. } => {
                    self.end_tries(*job, ids);
                    self.doubt_taken(state, *job, ids);
                    self.doubt_rebuilt(state, *job, ids);
                }
                Record::Objects(change) => match change.as_ref() {
                    ObjectChange::Kept(objects) => objects.iter().for_each(|object| self.doubt(object)),
                    ObjectChange::Stored(copies) => {
                        self.producers.extend(copies.iter().map(|copy| copy.object.task.job));
                    }
                    ObjectChange::Released(_) | ObjectChange::Gone { .. } => {}
                },
                _ => {}
            }
        }
        // Values stay as long as somebody may ask for them.
        let ended = record.job().filter(|job| self.producers.contains(job));
        if let Some(job) = ended.filter(|job| state.jobs.get(job).is_some_and(Job::has_ended)) {
            self.stored_of(job).into_iter().for_each(|object| self.guards.doubt(object));
        }
    }

    fn end_tries(&mut self, job: JobId, ids: &IdSet) {
        for range in ids.ranges().filter(|_| !self.tries.is_empty()).collect::<Vec<_>>() {
            let task = |id| TaskRef::new(job, TaskId(id));
            let ended = task(*range.start())..=task(*range.end());
            self.tries.extract_if(ended, |_, _| true).for_each(drop);
        }
    }

    fn forget(&mut self, job: JobId) {
        self.producers.remove(&job);
        for left in self.takers.remove(&job).into_iter().flatten() {
            if let Some(templates) = self.readers.get_mut(&left) {
                templates.retain(|template| template.job != job);
                if templates.is_empty() {
                    self.readers.remove(&left);
                }
            }
        }
        self.orphans.extract_if(all_of(job), |_, _| true).for_each(drop);
        self.lost.extract_if(all_of(job), |_, _| true).for_each(drop);
        self.doubted.extract_if(all_of(job), |_| true).for_each(drop);
        self.rebuilds.retain(|_, jobs| {
            jobs.remove(&job);
            !jobs.is_empty()
        });
        self.tries.retain(|task, _| task.job != job);
        self.callers.extract_if(all_of(job), |_, _| true).for_each(drop);
        self.stored_of(job).iter().for_each(|object| self.free(object));
    }

    // What workers store of a job.
    fn stored_of(&self, job: JobId) -> Vec<ObjectId> {
        let of_job = self.holders.of_tasks(job, (TaskId(0), TaskId(u32::MAX)));
        of_job.map(|(task, name, _)| ObjectId { task, name: name.clone() }).collect()
    }

    // Some tasks of a job have come or have ended: what they take may be needed now, or not any more.
    fn doubt_taken(&mut self, state: &State, job: JobId, ids: &IdSet) {
        let (Some(_), Some(known)) = (self.takers.get(&job), state.jobs.get(&job)) else { return };
        for (submit, ids) in known.by_submit(ids) {
            for input in &known.submits[submit as usize].task.input_objects {
                let id = input.from.job.unwrap_or(job);
                let tasks = match input.from.task {
                    ObjectTask::One(task) => IdSet::single(task),
                    ObjectTask::Same => ids.clone(),
                };
                for range in tasks.ranges() {
                    let stored = self.holders.of_tasks(id, (TaskId(*range.start()), TaskId(*range.end())));
                    let meant = stored.filter(|(_, name, _)| **name == input.from.name);
                    meant
                        .for_each(|(task, name, _)| self.guards.doubt(ObjectId { task, name: name.clone() }));
                }
            }
        }
    }

    fn doubt(&mut self, object: &ObjectId) {
        // With the text of the name that is here already, and not that of whoever says so.
        if let Some(name) = self.holders.name_like(object).filter(|_| self.holders.contains(object)) {
            self.guards.doubt(ObjectId { task: object.task, name: name.clone() });
        }
    }

    // Tasks of a job may need objects that are lost.
    fn doubt_lost_of(&mut self, job: JobId) {
        if self.lost.is_empty() {
            return;
        }
        for (left, task) in self.takers.get(&job).into_iter().flatten() {
            let range = match task {
                Some(task) => {
                    let begin = ObjectId::before_all(TaskRef::new(*left, *task));
                    let end = ObjectId::before_all(TaskRef::new(*left, TaskId(task.0.saturating_add(1))));
                    begin..end
                }
                None => all_of(*left),
            };
            self.doubted.extend(self.lost.range(range).map(|(object, _)| object.clone()));
        }
    }

    // Tasks of a job have ended that were to leave something once more.
    fn doubt_rebuilt(&mut self, state: &State, job: JobId, ids: &IdSet) {
        let Some(known) = state.jobs.get(&job).filter(|_| !self.lost.is_empty()) else { return };
        for (submit, ids) in known.by_submit(ids) {
            let Some(rebuilt) = known.submits[submit as usize].task.rebuilds else { continue };
            for task in ids.iter() {
                let begin = ObjectId::before_all(TaskRef::new(rebuilt.job, task));
                let of_task = self
                    .lost
                    .range(begin..)
                    .take_while(|(object, _)| object.task == TaskRef::new(rebuilt.job, task));
                self.doubted.extend(of_task.map(|(object, _)| object.clone()));
            }
        }
    }

    /// No worker stores an object any more; in words, where it was last.
    pub(super) fn is_lost(&mut self, object: ObjectId, words: String) {
        self.doubted.insert(object.clone());
        self.lost.insert(object, words);
    }

    /// A call came back since a lost value is among its arguments.
    pub(super) fn is_wanted(&mut self, object: ObjectId, call: TaskRef) {
        self.doubted.insert(object.clone());
        self.callers.entry(object).or_default().insert(call);
    }

    /// Calls that came back since this value is lost.
    pub(super) fn callers(&self, object: &ObjectId) -> impl Iterator<Item = TaskRef> {
        self.callers.get(object).into_iter().flatten().copied()
    }

    /// Where a lost object was last.
    pub(super) fn lost_words(&self, object: &ObjectId) -> Option<&str> {
        self.lost.get(object).map(String::as_str)
    }

    /// Lost objects of which something has changed, with where they were last.
    pub(super) fn take_doubted(&mut self) -> Vec<(ObjectId, String)> {
        let doubted = std::mem::take(&mut self.doubted);
        let lost = |object: ObjectId| self.lost.get(&object).cloned().map(|words| (object, words));
        doubted.into_iter().filter_map(lost).collect()
    }

    /// Jobs that were to leave the objects of a task once more, in order.
    pub(super) fn rebuilds_of(&self, task: TaskRef) -> impl Iterator<Item = JobId> {
        self.rebuilds.get(&task).into_iter().flatten().copied()
    }

    /// True when submits of a job leave objects.
    pub(in crate::server) fn is_producer(&self, job: JobId) -> bool {
        self.producers.contains(&job)
    }

    /// The same of all jobs from this one on.
    pub(in crate::server) fn producers_from(&self, job: JobId) -> impl Iterator<Item = JobId> {
        self.producers.range(job..).copied()
    }

    /// Submits with tasks that may take objects of a task.
    pub(in crate::server) fn readers_of(&self, task: TaskRef) -> impl Iterator<Item = TemplateId> {
        let of = |left| self.readers.get(&left).into_iter().flatten().copied();
        of((task.job, Some(task.task))).chain(of((task.job, None)))
    }

    /// Workers that store an object.
    pub(in crate::server) fn holders_of(&self, object: &ObjectId) -> impl Iterator<Item = WorkerId> {
        self.holders.get(object).into_iter().flat_map(|holders| holders.workers.iter())
    }

    /// True when no worker stores anything.
    pub(super) fn has_none(&self) -> bool {
        self.holders.is_empty()
    }

    /// How many these are.
    pub(in crate::server) fn holder_count(&self, object: &ObjectId) -> usize {
        self.holders.get(object).map_or(0, |holders| holders.workers.len())
    }

    /// Bytes of an object that a worker stores.
    pub(super) fn size_of(&self, object: &ObjectId) -> u64 {
        self.holders.get(object).map_or(0, |holders| holders.size)
    }

    /// How much a worker stores.
    pub(in crate::server) fn held_by(&self, worker: WorkerId) -> ObjectsHeld {
        self.held.get(&worker).map_or_else(ObjectsHeld::default, |held| ObjectsHeld {
            count: held.objects.len() as u64,
            bytes: held.bytes,
        })
    }

    /// What of that lies in the spill of its store, as it says.
    pub(in crate::server) fn spilled_by(&self, worker: WorkerId) -> ObjectsHeld {
        self.spilled.get(&worker).copied().unwrap_or_default()
    }

    /// A worker says how much lies there.
    pub(super) fn has_spilled(&mut self, worker: WorkerId, held: ObjectsHeld) {
        match held.count {
            0 => drop(self.spilled.remove(&worker)),
            _ => drop(self.spilled.insert(worker, held)),
        }
    }

    /// A worker stores an object.
    pub(in crate::server) fn stored(&mut self, copy: &ObjectCopy, worker: WorkerId) {
        let object = &copy.object;
        self.orphans.remove(object);
        self.lost.remove(object);
        self.callers.remove(object);
        for to_free in [&mut self.to_free, &mut self.to_free_later] {
            if let Some(objects) = to_free.get_mut(&worker) {
                objects.retain(|other| other != object);
            }
        }
        let holders = self.holders.get_or_default(object);
        holders.size = copy.size;
        if holders.workers.insert(worker) {
            let held = self.held.entry(worker).or_default();
            held.objects.insert(object.clone(), ());
            held.bytes += copy.size;
        }
        self.guards.doubt(object.clone());
    }

    /// A worker stores what its task has just left: copies of an earlier instance elsewhere are not meant any more.
    pub(in crate::server) fn left(&mut self, copy: &ObjectCopy, worker: WorkerId) {
        self.free(&copy.object);
        self.stored(copy, worker);
    }

    /// Nobody is to store an object any more.
    pub(in crate::server) fn free(&mut self, object: &ObjectId) {
        self.lost.remove(object);
        self.callers.remove(object);
        let Some(Holders { size, workers }) = self.holders.remove(object) else { return };
        for worker in workers.iter() {
            self.is_not_held(worker, object, size);
            self.free_on(worker, object.clone());
        }
        self.guards.forget(object, size);
    }

    fn is_not_held(&mut self, worker: WorkerId, object: &ObjectId, size: u64) {
        if let Some(held) = self.held.get_mut(&worker)
            && held.objects.remove(object).is_some()
        {
            held.bytes -= size;
            if held.objects.is_empty() {
                self.held.remove(&worker);
            }
        }
    }

    /// A worker stores what is not meant, or not known.
    pub(in crate::server) fn free_on(&mut self, worker: WorkerId, object: ObjectId) {
        self.to_free.entry(worker).or_default().push(object);
    }

    /// The same, but an attempt there is about to leave it once more, or it is about to be fetched: a word that it is to be freed
    /// could come after that. What comes takes the place of this.
    pub(in crate::server) fn free_later_on(&mut self, worker: WorkerId, object: ObjectId) {
        self.to_free_later.entry(worker).or_default().push(object);
    }

    /// What was to be freed later.
    pub(in crate::server) fn take_to_free_later(&mut self) -> BTreeMap<WorkerId, Vec<ObjectId>> {
        std::mem::take(&mut self.to_free_later)
    }

    /// A worker does not store an object any more.
    pub(in crate::server) fn lost(&mut self, object: &ObjectId, worker: WorkerId) {
        self.gone_from(object, Last { worker, is_damaged: false });
    }

    /// The copy of an object on a worker was damaged, and is not stored any more.
    pub(in crate::server) fn damaged(&mut self, object: &ObjectId, worker: WorkerId) {
        self.gone_from(object, Last { worker, is_damaged: true });
    }

    fn gone_from(&mut self, object: &ObjectId, last: Last) {
        let worker = last.worker;
        let Some(holders) = self.holders.get_mut(object) else { return };
        let size = holders.size;
        if !holders.workers.remove(worker) {
            return;
        }
        let is_last = holders.workers.len() == 0;
        self.is_not_held(worker, object, size);
        match is_last {
            true => {
                self.holders.remove(object);
                self.guards.forget(object, size);
                self.orphans.insert(object.clone(), Some(last));
            }
            false => self.guards.doubt(object.clone()),
        }
    }

    /// A worker has said all that it stores: nothing else that it was thought to store is there.
    pub(in crate::server) fn worker_said(
        &mut self,
        state: &State,
        worker: WorkerId,
        all: &BTreeSet<ObjectId>,
    ) {
        for object in self.all_on(worker) {
            match all.contains(&object) {
                true => self.guards.is_unheard(object, worker),
                false => self.lost(&object, worker),
            }
        }
        self.is_heard(state, worker);
    }

    fn all_on(&self, worker: WorkerId) -> Vec<ObjectId> {
        self.held_on(worker).collect()
    }

    /// What a worker stores.
    pub(super) fn held_on(&self, worker: WorkerId) -> impl Iterator<Item = ObjectId> {
        let held = self.held.get(&worker).into_iter().flat_map(|held| held.objects.iter());
        held.map(|(task, name, ())| ObjectId { task, name: name.clone() })
    }

    /// A worker leaves: who sees to what it stores is to be said anew.
    pub(in crate::server) fn doubt_all_on(&mut self, worker: WorkerId) {
        for object in self.all_on(worker) {
            self.guards.doubt(object);
        }
        self.guards.takes_nothing(worker);
    }

    /// A worker may not hear what it was told: somebody else is to take what it was to take.
    pub(in crate::server) fn worker_is_away(&mut self, worker: WorkerId) {
        self.guards.takes_nothing(worker);
    }

    /// What a task was to leave is stored nowhere.
    pub(in crate::server) fn orphaned(&mut self, object: ObjectId) {
        self.orphans.entry(object).or_insert(None);
    }

    /// A worker is gone, and what it stored with it.
    pub(in crate::server) fn worker_is_gone(&mut self, state: &State, worker: WorkerId) {
        self.to_free.remove(&worker);
        self.to_free_later.remove(&worker);
        self.guards.worker_is_gone(worker);
        self.spilled.remove(&worker);
        self.all_on(worker).iter().for_each(|object| self.lost(object, worker));
        self.is_heard(state, worker);
    }

    fn is_heard(&mut self, state: &State, worker: WorkerId) {
        if self.unheard.remove(&worker) && self.unheard.is_empty() {
            self.look_at_all(state);
        }
    }

    // Nobody is left who might store what nobody does.
    fn look_at_all(&mut self, state: &State) {
        if !self.unheard.is_empty() {
            return;
        }
        let awaited = |object: &Object| !object.is_gone && !object.is_released;
        for (task, name, _) in state.objects.iter().filter(|(_, _, object)| awaited(object)) {
            let object = ObjectId { task, name: name.clone() };
            if !self.holders.contains(&object) {
                self.orphans.entry(object).or_insert(None);
            }
        }
    }

    /// What nobody stores any more, and who did last. Empty while somebody may come back who does.
    pub(super) fn take_orphans(&mut self) -> BTreeMap<ObjectId, Option<Last>> {
        match self.unheard.is_empty() {
            true => std::mem::take(&mut self.orphans),
            false => BTreeMap::new(),
        }
    }

    /// True when something has changed that was not looked at.
    pub(in crate::server) fn is_unsettled(&self) -> bool {
        let has_orphans = self.unheard.is_empty() && !self.orphans.is_empty();
        has_orphans || !self.to_free.is_empty() || self.guards.is_unsettled()
    }

    /// Who is to free what.
    pub(in crate::server) fn take_to_free(&mut self) -> BTreeMap<WorkerId, Vec<ObjectId>> {
        std::mem::take(&mut self.to_free)
    }

    /// A task came back from a worker, since an object could not be had from these, or not be stored there, for this reason; how
    /// often that was so. It does not count where nobody is known who has it, for then somebody may come back who does.
    pub(in crate::server) fn tried(
        &mut self,
        task: TaskRef,
        object: &ObjectId,
        (worker, holders): (WorkerId, &[WorkerId]),
        why: String,
    ) -> u32 {
        let is_known = self.holders.contains(object) || self.unheard.is_empty();
        let tries = self.tries.entry(task).or_default();
        tries.count += u32::from(is_known || tries.count == 0);
        tries.from.extend(holders);
        if holders.is_empty() {
            tries.without_room.insert(worker);
        }
        tries.why = why;
        tries.count
    }

    /// The same, where every store is full of what stays; how often that was so since something was let go.
    pub(in crate::server) fn tried_in_vain(&mut self, task: TaskRef) -> u32 {
        let let_go = self.guards.let_go();
        let tries = self.tries.entry(task).or_default();
        if tries.let_go != let_go {
            (tries.in_vain, tries.let_go) = (0, let_go);
        }
        tries.in_vain += 1;
        tries.in_vain
    }

    /// Those of some tasks for which a worker had no room when they were there.
    pub(in crate::server) fn without_room(&self, worker: WorkerId, job: JobId, ids: &IdSet) -> IdSet {
        let tried = self.tried_among(job, ids);
        let had_none = |task: &TaskId| {
            let tries = self.tries.get(&TaskRef::new(job, *task));
            tries.is_some_and(|tries| tries.without_room.contains(&worker))
        };
        tried.iter().filter(had_none).collect()
    }

    /// Those of some tasks that came back since something could not be had.
    pub(in crate::server) fn tried_among(&self, job: JobId, ids: &IdSet) -> IdSet {
        let of = |id| TaskRef::new(job, TaskId(id));
        let ranges = ids.ranges().filter(|_| !self.tries.is_empty());
        let tried = ranges.flat_map(|range| self.tries.range(of(*range.start())..=of(*range.end())));
        tried.map(|(task, _)| task.task).collect()
    }

    /// True when tasks are tried again since something could not be had or stored.
    pub(in crate::server) fn has_tries(&self) -> bool {
        !self.tries.is_empty()
    }

    /// Why a task came back and is tried again, where something could not be had.
    pub(in crate::server) fn why_back(&self, task: TaskRef) -> Option<&str> {
        self.tries.get(&task).map(|tries| tries.why.as_str())
    }

    /// Workers from which a task could not have something.
    pub(in crate::server) fn failed_for(&self, task: TaskRef, worker: WorkerId) -> bool {
        self.tries.get(&task).is_some_and(|tries| tries.from.contains(&worker))
    }

    /// Checks what was heard against a recount, as far as a restart can know it.
    ///
    /// # Errors
    /// Says what differs.
    pub(in crate::server) fn check(&self, state: &State) -> Result<(), String> {
        let recount = Copies::recount(state);
        if (&self.readers, &self.takers, &self.producers, &self.rebuilds)
            != (&recount.readers, &recount.takers, &recount.producers, &recount.rebuilds)
        {
            let told = |copies: &Copies| {
                format!(
                    "{:?}, {:?}, {:?}, {:?}",
                    copies.readers, copies.takers, copies.producers, copies.rebuilds
                )
            };
            return Err(format!("objects are as in {}, the state says {}", told(self), told(&recount)));
        }
        let mut held: BTreeMap<WorkerId, (usize, u64)> = BTreeMap::new();
        for (_, _, Holders { size, workers }) in self.holders.iter() {
            for worker in workers.iter() {
                let (count, bytes) = held.entry(worker).or_default();
                *count += 1;
                *bytes += size;
            }
        }
        let said = self.held.iter().map(|(worker, held)| (*worker, (held.objects.len(), held.bytes)));
        match said.clone().eq(held.iter().map(|(worker, held)| (*worker, *held))) {
            true => Ok(()),
            false => {
                let said: Vec<_> = said.collect();
                Err(format!("workers are said to store {said:?}, and store {held:?}"))
            }
        }
    }
}

// Tasks of other jobs whose objects the tasks of a submit leave once more.
fn rebuilt_by(job: &Job, submit: u32) -> impl Iterator<Item = TaskRef> {
    let submit = &job.submits[submit as usize];
    let of = |rebuilt: Rebuild| submit.ids.iter().map(move |task| TaskRef::new(rebuilt.job, task));
    submit.task.rebuilds.into_iter().flat_map(of)
}

// All objects of a job.
fn all_of(job: JobId) -> Range<ObjectId> {
    let begin = |job| ObjectId::before_all(TaskRef::new(job, TaskId(0)));
    begin(job)..begin(JobId(job.0.saturating_add(1)))
}
