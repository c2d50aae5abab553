//! Which workers store which objects, and who reads what: derived from the state, but for what workers say.

use std::collections::{BTreeMap, BTreeSet};

use hq_model::{JobId, ObjectId, TaskRef, WorkerId};

use crate::record::Record;
use crate::server::state::State;
use crate::worker_messages::TemplateId;

/// What a server knows of objects beyond their records.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Copies {
    // Submits that take objects, by the jobs that leave these.
    readers: BTreeMap<JobId, BTreeSet<TemplateId>>,
    // Jobs with submits that leave objects.
    producers: BTreeSet<JobId>,
    // Workers that store an object; none without a worker.
    holders: BTreeMap<ObjectId, BTreeSet<WorkerId>>,
    // Workers of the time before a restart that have not said what they store.
    unheard: BTreeSet<WorkerId>,
    // Objects that no worker stores any more, and which one did last.
    orphans: BTreeMap<ObjectId, Option<WorkerId>>,
    // Which worker is to free what.
    to_free: BTreeMap<WorkerId, Vec<ObjectId>>,
    // How often a task came back since something could not be had, and from whom.
    tries: BTreeMap<TaskRef, (u32, BTreeSet<WorkerId>)>,
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
        let unended = state.workers.iter().filter(|(_, worker)| worker.ended.is_none());
        copies.unheard = unended.map(|(worker, _)| *worker).collect();
        copies.look_at_all(state);
        copies
    }

    fn add(&mut self, state: &State, template: TemplateId) {
        let Some(job) = state.jobs.get(&template.job) else { return };
        let spec = &job.submits[template.submit as usize].task;
        if !spec.output_objects.is_empty() {
            self.producers.insert(template.job);
        }
        for input in &spec.input_objects {
            self.readers.entry(input.from.job.unwrap_or(template.job)).or_default().insert(template);
        }
    }

    /// Hears a record that is in the state already.
    pub(in crate::server) fn hear(&mut self, state: &State, record: &Record) {
        for part in record.parts() {
            match part {
                Record::Submitted { job, ids, task, .. } if task.has_objects() => {
                    if let Some(submit) = ids.first().and_then(|task| state.jobs.get(job)?.submit_of(task)) {
                        self.add(state, TemplateId { job: *job, submit });
                    }
                }
                Record::JobForgotten { job } => {
                    self.producers.remove(job);
                    self.readers.remove(job);
                    self.readers.retain(|_, templates| {
                        templates.retain(|template| template.job != *job);
                        !templates.is_empty()
                    });
                    self.orphans.retain(|object, _| object.task.job != *job);
                    self.tries.retain(|task, _| task.job != *job);
                    let gone: Vec<ObjectId> = self.of_job(*job).cloned().collect();
                    gone.iter().for_each(|object| self.free(object));
                }
                Record::Finished { span, .. } if !self.tries.is_empty() => {
                    self.tries.retain(|task, _| task.job != span.job || !span.ids.contains(task.task));
                }
                _ => {}
            }
        }
    }

    fn of_job(&self, job: JobId) -> impl Iterator<Item = &ObjectId> {
        self.holders.keys().filter(move |object| object.task.job == job)
    }

    /// True when submits of a job leave objects.
    pub(in crate::server) fn is_producer(&self, job: JobId) -> bool {
        self.producers.contains(&job)
    }

    /// Submits with tasks that take objects of a job.
    pub(in crate::server) fn readers_of(&self, job: JobId) -> impl Iterator<Item = TemplateId> {
        self.readers.get(&job).into_iter().flatten().copied()
    }

    /// Workers that store an object.
    pub(in crate::server) fn holders_of(&self, object: &ObjectId) -> impl Iterator<Item = WorkerId> {
        self.holders.get(object).into_iter().flatten().copied()
    }

    /// A worker stores an object.
    pub(in crate::server) fn stored(&mut self, object: &ObjectId, worker: WorkerId) {
        self.orphans.remove(object);
        self.holders.entry(object.clone()).or_default().insert(worker);
    }

    /// Copies of an earlier instance are not meant any more.
    pub(in crate::server) fn free(&mut self, object: &ObjectId) {
        for worker in self.holders.remove(object).into_iter().flatten() {
            self.free_on(worker, object.clone());
        }
    }

    /// A worker stores what is not meant, or not known.
    pub(in crate::server) fn free_on(&mut self, worker: WorkerId, object: ObjectId) {
        self.to_free.entry(worker).or_default().push(object);
    }

    /// A worker does not store an object any more.
    pub(in crate::server) fn lost(&mut self, object: &ObjectId, worker: WorkerId) {
        let Some(holders) = self.holders.get_mut(object) else { return };
        holders.remove(&worker);
        if holders.is_empty() {
            self.holders.remove(object);
            self.orphans.insert(object.clone(), Some(worker));
        }
    }

    /// A worker has said all that it stores: nothing else that it was thought to store is there.
    pub(in crate::server) fn worker_said(&mut self, state: &State, worker: WorkerId, all: &[ObjectId]) {
        let here = self.holders.iter().filter(|(_, holders)| holders.contains(&worker));
        let here: Vec<ObjectId> = here.map(|(object, _)| object.clone()).collect();
        here.iter().filter(|object| !all.contains(object)).for_each(|object| self.lost(object, worker));
        self.is_heard(state, worker);
    }

    /// What a task was to leave is stored nowhere.
    pub(in crate::server) fn orphaned(&mut self, object: ObjectId) {
        self.orphans.entry(object).or_insert(None);
    }

    /// A worker is gone, and what it stored with it.
    pub(in crate::server) fn worker_is_gone(&mut self, state: &State, worker: WorkerId) {
        self.to_free.remove(&worker);
        let here = self.holders.iter().filter(|(_, holders)| holders.contains(&worker));
        let here: Vec<ObjectId> = here.map(|(object, _)| object.clone()).collect();
        here.iter().for_each(|object| self.lost(object, worker));
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
        for (task, object) in state.objects.iter().filter(|(_, object)| object.gone.is_none()) {
            let object = ObjectId { task, name: object.name.clone() };
            if !self.holders.contains_key(&object) {
                self.orphans.entry(object).or_insert(None);
            }
        }
    }

    /// What nobody stores any more, and who did last. Empty while somebody may come back who does.
    pub(in crate::server) fn take_orphans(&mut self) -> BTreeMap<ObjectId, Option<WorkerId>> {
        match self.unheard.is_empty() {
            true => std::mem::take(&mut self.orphans),
            false => BTreeMap::new(),
        }
    }

    /// Who is to free what.
    pub(in crate::server) fn take_to_free(&mut self) -> BTreeMap<WorkerId, Vec<ObjectId>> {
        std::mem::take(&mut self.to_free)
    }

    /// A task came back, since something could not be had from these; how often that was so.
    pub(in crate::server) fn tried(&mut self, task: TaskRef, holders: &[WorkerId]) -> u32 {
        let (count, from) = self.tries.entry(task).or_default();
        *count += 1;
        from.extend(holders);
        *count
    }

    /// Workers from which a task could not have something.
    pub(in crate::server) fn failed_for(&self, task: TaskRef, worker: WorkerId) -> bool {
        self.tries.get(&task).is_some_and(|(_, from)| from.contains(&worker))
    }

    /// Checks what was heard against a recount, as far as a restart can know it.
    ///
    /// # Errors
    /// Says what differs.
    pub(in crate::server) fn check(&self, state: &State) -> Result<(), String> {
        let recount = Copies::recount(state);
        match (&self.readers, &self.producers) == (&recount.readers, &recount.producers) {
            true => Ok(()),
            false => Err(format!(
                "objects are read as in {:?}, the state says {:?}",
                self.readers, recount.readers
            )),
        }
    }
}
