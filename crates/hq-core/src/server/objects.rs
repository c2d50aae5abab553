//! Objects that tasks leave for others: which workers store them, who takes them, when they are gone.
//!
//! A task that takes an object waits for the success of the one that leaves it, as for any other. What is stored where is
//! told to the worker that gets it. When the last copy is gone, those that have not got it are given up.

mod calls;
mod copies;
mod ending;
mod give;
mod guards;
mod handing;
mod holders;
mod pages;
mod rebuild;
mod relaying;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hq_model::dependency::{After, Mapping};
use hq_model::object::{ObjectTask, check_objects};
use hq_model::worker::StoreConfig;
use hq_model::{
    Body, Dependencies, IdSet, InputObject, Instance, JobId, ObjectId, ObjectName, TaskRef, TaskSpec,
    TaskState, Timestamp, WorkerId,
};

pub(super) use copies::Copies;
use copies::Last;
pub(super) use give::Gives;

use super::machine::Server;
use super::possible::Refused;
use super::state::objects::Object;
use super::{ConnectionId, Effect, Gate};
use crate::attempt::AttemptEnd;
use crate::client_messages::{ClientResponse, RequestError};
use crate::limits::{FULL_TRIES_MAX, HOLDERS_TOLD_MAX, OBJECT_DELAY_MAX, OBJECT_TRIES_MAX};
use crate::mark;
use crate::object_messages::{
    ObjectChange, ObjectCopy, ObjectEnd, ObjectNews, ObjectRequest, ObjectSource, TaskObjects, Unfetched,
};
use crate::record::{FinishedSpan, Record, RestartCause};
use crate::worker_messages::{TaskNode, TemplateId, ToWorker};

/// Why waiting for room helps only where a person or a program does something.
const ALL_FULL: &str = "all stores that may take it are full of objects that users keep (`hq object keep`, `hq object put`) or programs hold";

/// Refuses objects that no task could leave or take.
pub(super) fn check(spec: &TaskSpec) -> Result<(), RequestError> {
    if !spec.has_objects() {
        return Ok(());
    }
    let invalid = |text: &str| Err(RequestError::Invalid(text.into()));
    if let Err(error) = check_objects(&spec.output_objects, &spec.input_objects) {
        return invalid(&format!("Invalid objects: {error}."));
    }
    if !matches!(spec.body, Body::Program { .. }) {
        return invalid("Only programs leave and take objects by name.");
    }
    if spec.has_broadcasts() && spec.requests.iter().any(|request| request.nodes > 0) {
        return invalid(
            "A broadcast comes to one node of a task, and these tasks have several (--nodes): have a task on each node take it.",
        );
    }
    if spec.service || (spec.speculate.is_some() && !spec.output_objects.is_empty()) {
        return invalid("A task that leaves objects is no service, and is not started a second time.");
    }
    Ok(())
}

/// What is submitted, with the job that was made last in the place of `last` where objects are of that.
pub(super) fn with_last(spec: &Arc<TaskSpec>, last: Option<JobId>) -> Result<Arc<TaskSpec>, RequestError> {
    let mut spec = spec.clone();
    let is_of_last = |input: &InputObject| input.from.job == Some(After::LAST);
    if spec.input_objects.iter().any(is_of_last) {
        let last = last.ok_or(RequestError::NoJobs)?;
        let inputs = Arc::make_mut(&mut spec).input_objects.iter_mut();
        inputs.filter(|input| is_of_last(input)).for_each(|input| input.from.job = Some(last));
    }
    Ok(spec)
}

impl Server {
    /// What tasks wait for that take objects, beside what they were to wait for.
    pub(super) fn with_objects(
        &self,
        own: JobId,
        ids: &IdSet,
        spec: &TaskSpec,
        wanted: &Dependencies,
    ) -> Result<Dependencies, RequestError> {
        let mut all = wanted.clone();
        for input in &spec.input_objects {
            let id = input.from.job.unwrap_or(own);
            let (tasks, mapping) = match input.from.task {
                ObjectTask::One(task) => (IdSet::single(task), Mapping::All),
                ObjectTask::Same => (ids.clone(), Mapping::Window(0)),
            };
            let job = self.state.jobs.get(&id);
            let missing = job.map_or_else(|| tasks.first(), |job| tasks.difference(&job.ids).first());
            match (job, missing) {
                (_, Some(task)) if id == own && input.from.job.is_none() => {
                    return Err(RequestError::Invalid(format!(
                        "`{input}`: no earlier submit of the same job has task {task}."
                    )));
                }
                (None, _) => return Err(RequestError::NoJob(id)),
                (_, Some(task)) => return Err(RequestError::NoTask(id, task)),
                _ => {}
            }
            let Some(job) = job else { continue };
            for (submit, ids) in job.by_submit(&tasks) {
                let left = job.submits[submit as usize].task.own_objects();
                if !left.iter().any(|object| object.name == input.from.name)
                    && let Some(task) = ids.first()
                {
                    let names: Vec<&str> = left.iter().map(|object| object.name.as_str()).collect();
                    let object = ObjectId { task: TaskRef::new(id, task), name: input.from.name.clone() };
                    return Err(RequestError::NoObject(object, names.join(", ")));
                }
            }
            let gone = |(task, name, _): (TaskRef, &ObjectName, &Object)| {
                let object = ObjectId { task, name: name.clone() };
                let why = self.state.objects.why_gone(&object)?;
                Some(RequestError::NotStored(object.clone(), format!("is gone: {}.", why.words())))
            };
            let known = self.state.objects.of_tasks(id, &tasks);
            let error = known.filter(|(_, name, _)| **name == input.from.name).find_map(gone);
            if let Some(error) = error {
                return Err(error);
            }
            let after = After { tasks: Some(tasks), mapping, ..After::of(id) };
            if !all.after.contains(&after) {
                all.after.push(after);
            }
        }
        Ok(all)
    }

    /// What tasks of a submit take, and where that is, for a worker.
    pub(super) fn objects_for(
        &self,
        worker: WorkerId,
        template: TemplateId,
        ids: &IdSet,
    ) -> Vec<TaskObjects> {
        let Some(job) = self.state.jobs.get(&template.job) else { return Vec::new() };
        let inputs = &job.submits[template.submit as usize].task.input_objects;
        if inputs.is_empty() {
            return self.values_for(worker, template, ids);
        }
        // Of those that take the same nothing differs but for whom a holder has failed.
        let take_the_same = inputs.iter().all(|input| matches!(input.from.task, ObjectTask::One(_)));
        let alone = if take_the_same { self.copies.tried_among(template.job, ids) } else { ids.clone() };
        let together = ids.difference(&alone);
        let sets = alone.iter().map(IdSet::single).chain((!together.is_empty()).then_some(together));
        let mut all: Vec<TaskObjects> = sets
            .filter_map(|tasks| {
                let reader = TaskRef::new(template.job, tasks.first()?);
                let inputs = inputs.iter().map(|input| self.source_of(worker, reader, input)).collect();
                Some(TaskObjects { tasks, inputs })
            })
            .collect();
        all.sort_by_key(|objects| objects.tasks.first());
        all
    }

    // Of what is not known nobody is a holder: its reader comes back, and does not start without it.
    fn source_of(&self, worker: WorkerId, reader: TaskRef, input: &InputObject) -> ObjectSource {
        let (copy, holders) = self.copy_for(worker, reader, &input.from.of(reader));
        ObjectSource { copy, path: input.path().to_vec(), holders }
    }

    // What is meant, and where it is, the best place first.
    fn copy_for(&self, worker: WorkerId, reader: TaskRef, object: &ObjectId) -> (ObjectCopy, Vec<TaskNode>) {
        let known = self.state.objects.get(object).map(|known| known.copy(object.clone()));
        let copy = known.unwrap_or_else(|| unknown(object.clone()));
        let mut holders: Vec<WorkerId> = self.copies.holders_of(object).collect();
        holders.sort_by_key(|holder| {
            let is_away = self.live.get(holder).is_none_or(|live| live.connection.is_none());
            (*holder != worker, self.copies.failed_for(reader, *holder), is_away, *holder)
        });
        let holders = holders.into_iter().take(HOLDERS_TOLD_MAX).map(|holder| self.task_node(holder));
        (copy, holders.collect())
    }

    /// A worker reports of objects, before anything else of the same report.
    pub(super) fn objects_reported(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        news: &mut ObjectNews,
        effects: &mut Vec<Effect>,
    ) {
        for copy in std::mem::take(&mut news.stored) {
            self.object_stored(now, worker, copy, effects);
        }
        for object in std::mem::take(&mut news.lost) {
            self.copies.lost(&object, worker);
        }
        if let Some(held) = news.spilled.take() {
            self.copies.has_spilled(worker, held);
        }
        for object in std::mem::take(&mut news.damaged) {
            self.copies.damaged(&object, worker);
        }
        for (object, why) in std::mem::take(&mut news.refused) {
            if self.copies.guards.handing.is_not_taken(&object, worker) {
                self.copies.guards.doubt(object);
                continue;
            }
            self.give_refused(worker, &object, &why, effects);
        }
    }

    fn object_stored(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        copy: ObjectCopy,
        effects: &mut Vec<Effect>,
    ) {
        let copy = self.with_known_name(copy);
        if self.is_given(now, worker, &copy, effects) {
            return;
        }
        // A report that was not saved is told again, perhaps to another server.
        let is_new = !self.is_meant(&copy);
        if is_new && self.is_of_attempt(worker, &copy) {
            self.copies.left(&copy, worker);
            self.copies.guards.is_unheard(copy.object.clone(), worker);
            self.record(now, Record::Objects(Box::new(ObjectChange::Stored(vec![copy]))), effects);
            return;
        }
        self.has_copy(worker, copy);
    }

    // What a worker stores counts where it is what is meant.
    fn has_copy(&mut self, worker: WorkerId, copy: ObjectCopy) {
        match self.is_meant(&copy) {
            true => {
                self.copies.stored(&copy, worker);
                self.copies.guards.is_unheard(copy.object, worker);
            }
            // What it stores of an earlier instance goes with what is meant; a later one, of an attempt that does not count, has
            // taken the place of that.
            false if self.copies.holders_of(&copy.object).any(|holder| holder == worker) => {
                let meant = self.state.objects.get(&copy.object).map(|known| known.instance);
                if meant.is_some_and(|meant| meant < copy.instance) {
                    mark!("an attempt that does not count has taken the place of what is meant");
                    self.copies.lost(&copy.object, worker);
                    self.free_on(worker, copy.object);
                }
            }
            false => self.free_on(worker, copy.object),
        }
    }

    fn free_on(&mut self, worker: WorkerId, object: ObjectId) {
        match self.is_to_come(worker, &object) {
            true => self.copies.free_later_on(worker, object),
            false => self.copies.free_on(worker, object),
        }
    }

    // A worker was told to fetch this, or an attempt there is to leave it.
    fn is_to_come(&self, worker: WorkerId, object: &ObjectId) -> bool {
        if self.copies.guards.handing.is_taking(object, worker) {
            mark!("what a worker is to fetch is not freed there");
            return true;
        }
        let task = object.task;
        let has_attempt = |id: JobId| {
            let job = self.state.jobs.get(&id)?;
            let is_leased = job.leased.get(&worker).is_some_and(|leased| leased.contains(task.task));
            let spec = &job.submits[job.submit_of(task.task)? as usize].task;
            let has = is_leased || job.seconds_on(worker).contains(task.task);
            Some(has && spec.may_leave(&object.name))
        };
        let of = [task.job].into_iter().chain(self.copies.rebuilds_of(task));
        of.into_iter().any(|id| has_attempt(id) == Some(true))
    }

    // Objects of many tasks have one name, of which there is one text then.
    fn with_known_name(&self, mut copy: ObjectCopy) -> ObjectCopy {
        if let Some(name) = self.state.objects.name_like(&copy.object) {
            copy.object.name = name.clone();
        }
        copy
    }

    fn is_meant(&self, copy: &ObjectCopy) -> bool {
        let known = self.state.objects.get(&copy.object);
        known.is_some_and(|known| !known.is_gone && known.copy(copy.object.clone()) == *copy)
    }

    // True when an attempt on a worker leaves this: of its task, or of one that leaves its objects once more.
    fn is_of_attempt(&self, worker: WorkerId, copy: &ObjectCopy) -> bool {
        let ObjectId { task, name } = &copy.object;
        let leaves = |id: JobId| {
            let job = self.state.jobs.get(&id)?;
            let spec = &job.submits[job.submit_of(task.task)? as usize].task;
            let before = match spec.rebuilds {
                Some(rebuilt) if rebuilt.job == task.job => rebuilt.instance.0,
                Some(_) => return None,
                None if id == task.job => 0,
                None => return None,
            };
            let instance = Instance(copy.instance.0.checked_sub(before)?);
            let attempts = job.attempts_on(worker, &IdSet::single(task.task), instance);
            Some(spec.may_leave(name) && !attempts.is_empty())
        };
        let is_over = self.state.objects.get(&copy.object).is_some_and(|known| known.is_gone);
        self.state.jobs.contains_key(&task.job)
            && !is_over
            && [task.job].into_iter().chain(self.copies.rebuilds_of(*task)).any(|id| leaves(id) == Some(true))
    }

    /// A worker says all that it stores.
    pub(super) fn objects_of_worker(&mut self, worker: WorkerId, objects: Vec<ObjectCopy>) {
        let before: BTreeSet<ObjectId> = objects.iter().map(|copy| copy.object.clone()).collect();
        for copy in objects {
            let copy = self.with_known_name(copy);
            // A report that follows calls its task finished: then it is meant.
            if self.is_meant(&copy) || !self.is_of_attempt(worker, &copy) {
                self.has_copy(worker, copy);
            }
        }
        self.copies.worker_said(&self.state, worker, &before);
        self.copies.worker_is_away(worker);
        self.end_stuck_endings();
    }

    /// Tasks have finished: what they were to leave must be there.
    pub(super) fn check_left(&mut self, now: Timestamp, span: &FinishedSpan, effects: &mut Vec<Effect>) {
        if !self.copies.is_producer(span.job) {
            return;
        }
        self.check_values(now, span, effects);
        let Some(job) = self.state.jobs.get(&span.job) else { return };
        let mut missing = Vec::new();
        for (submit, ids) in job.by_submit(&span.ids) {
            let spec = &job.submits[submit as usize].task;
            for output in &spec.output_objects {
                for task in ids.iter() {
                    let task = TaskRef::new(span.job, task);
                    let (object, instance) = spec.object_left(task, span.instance, &output.name);
                    // It may have been forgotten.
                    if !self.state.jobs.contains_key(&object.task.job) {
                        mark!("an object is left once more for a forgotten job");
                        continue;
                    }
                    let known = self.state.objects.get(&object).filter(|known| !known.is_gone);
                    let is_told = known.is_some_and(|known| known.instance == instance);
                    if is_told && self.copies.holders_of(&object).next().is_none() {
                        self.copies.orphaned(object);
                    } else if !is_told {
                        missing.push((object, instance));
                    }
                }
            }
        }
        self.never_left(now, missing, effects);
    }

    // Lost before it was told of: no worker that comes back has it.
    fn never_left(&mut self, now: Timestamp, missing: Vec<(ObjectId, Instance)>, effects: &mut Vec<Effect>) {
        if missing.is_empty() {
            return;
        }
        let objects: Vec<ObjectId> = missing.iter().map(|(object, _)| object.clone()).collect();
        let copy = |(object, instance)| ObjectCopy { object, instance, size: 0, checksum: 0, is_dir: false };
        let copies = missing.into_iter().map(copy).collect();
        self.record(now, Record::Objects(Box::new(ObjectChange::Stored(copies))), effects);
        for object in objects {
            // What an earlier attempt has left is not meant any more.
            mark!("an earlier attempt left what the last one did not", self.copies.holder_count(&object) > 0);
            self.copies.free(&object);
            self.copies.is_lost(
                object,
                "its worker did not store it any more when its task had finished".to_owned(),
            );
        }
    }

    /// Tasks did not start on a worker, since something that they take could not be had.
    pub(super) fn tasks_unfetched(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        unfetched: Vec<Unfetched>,
        effects: &mut Vec<Effect>,
    ) {
        for Unfetched { task, instance, object, holders, reason, wanted } in unfetched {
            let single = IdSet::single(task.task);
            let valid = self.attempt_ended(worker, task.job, &single, instance);
            if valid.is_empty() {
                continue;
            }
            if self.has_second(task.job, task.task) {
                self.drop_attempt(now, task.job, task.task, instance, Some(AttemptEnd::Objects), effects);
                continue;
            }
            let takes_value = self.takes_value(task, &object);
            let takes = takes_value || self.takes(task, &object);
            let is_lost = match takes_value {
                true => self.wants_value(task, &object),
                false => takes && self.copies.lost_words(&object).is_some(),
            };
            if is_lost {
                // It waits until that is left once more.
                self.restart(now, task.job, &valid, RestartCause::Left, effects);
                continue;
            }
            let mut reason = crate::cause::shortened(&reason);
            let mut is_in_vain = false;
            if !takes && self.is_in_vain(task, wanted) {
                reason = format!("{reason}; {ALL_FULL}");
                is_in_vain = true;
            }
            let what = match takes {
                true => format!("object {object}, which it takes, could not be had"),
                false => format!("object {object}, which it leaves, could not be stored"),
            };
            let why = format!("{what} ({reason}), and it is tried again");
            let count = self.copies.tried(task, &object, (worker, &holders), why);
            let in_vain = if is_in_vain { self.copies.tried_in_vain(task) } else { 0 };
            let gone = self.state.objects.why_gone(&object).cloned();
            let why = match gone {
                Some(why) if takes => {
                    format!("Object {object} is gone, which this task takes: {}.", why.words())
                }
                _ if count >= OBJECT_TRIES_MAX => {
                    format!("Tried {count} times: {what}; the last time: {reason}")
                }
                _ if in_vain >= FULL_TRIES_MAX => format!(
                    "Tried {count} times: {what}; the last time: {reason}, and nothing was let go meanwhile. Drop some \
                     (`hq object drop`), let values go in the program, or start a worker with a larger store \
                     (`hq worker start --object-store DIR:SIZE`)"
                ),
                _ if takes && self.is_too_large(&object) => format!(
                    "Object {object}, which this task takes, fits into the store of no worker: {reason}"
                ),
                _ => {
                    let delay = Duration::from_secs(1) * 2_u32.pow(count.min(10) - 1);
                    let not_before = now.after(delay.min(OBJECT_DELAY_MAX));
                    self.restart(now, task.job, &valid, RestartCause::Unfetched { not_before }, effects);
                    continue;
                }
            };
            let record = Record::Aborted { job: task.job, ids: valid.clone(), reason: why };
            self.end_by(now, record, &valid, effects);
            self.forget_if_over(task.job);
        }
    }

    fn is_in_vain(&self, task: TaskRef, wanted: u64) -> bool {
        let submit = self.state.jobs.get(&task.job).and_then(|job| job.submit_of(task.task));
        submit.is_some_and(|submit| self.are_stores_full(TemplateId { job: task.job, submit }, wanted))
    }

    fn takes(&self, task: TaskRef, object: &ObjectId) -> bool {
        let job = self.state.jobs.get(&task.job);
        let submit = job.and_then(|job| Some(&job.submits[job.submit_of(task.task)? as usize]));
        submit.is_some_and(|submit| {
            submit.task.input_objects.iter().any(|input| input.from.of(task) == *object)
        })
    }

    // It is larger than any store.
    fn is_too_large(&self, object: &ObjectId) -> bool {
        let size = self.state.objects.get(object).map_or(0, |known| known.size);
        let stores = self
            .live
            .keys()
            .filter_map(|worker| self.state.workers.get(worker)?.config.object_store.as_ref());
        stores.map(StoreConfig::largest).max().is_some_and(|most| most < size)
    }

    /// What nobody stores any more is left once more where it is needed, or is gone, and those that wait for it are given up;
    /// what nobody needs is freed.
    pub(super) fn settle_objects(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        for (object, last) in self.copies.take_orphans() {
            let is_left = self.state.task_state(object.task) == Some(TaskState::Finished);
            if !is_left || self.state.objects.get(&object).is_some_and(|known| known.is_gone) {
                continue;
            }
            let text = match last {
                Some(Last { worker, is_damaged }) => {
                    let host = self.state.workers.get(&worker).map(|state| state.config.hostname.as_str());
                    let became = match self.live.contains_key(&worker) {
                        _ if is_damaged => "where its copy was damaged",
                        true => "which does not store it any more",
                        false => "which is gone",
                    };
                    format!("it was last on worker {worker} ({}), {became}", host.unwrap_or("unknown"))
                }
                None => "no worker stores it".to_owned(),
            };
            self.copies.is_lost(object, text);
        }
        self.rebuild_lost(now, effects);
        for (worker, objects) in self.copies.take_to_free_later() {
            objects.into_iter().for_each(|object| self.free_on(worker, object));
        }
        for (worker, objects) in self.copies.take_to_free() {
            if let Some(connection) = self.live.get(&worker).and_then(|live| live.connection) {
                let message = ToWorker::FreeObjects(objects);
                effects.push(Effect::ToWorker { connection, message, gate: Gate::Synced });
            }
        }
        self.begin_endings(now);
        self.settle_guards(effects);
        self.plan_endings();
    }

    /// When objects are to be looked at again: at once, where too many have changed for one look; else when the time limit of a
    /// worker comes near.
    pub(super) fn next_look_at_objects(&self) -> Option<Timestamp> {
        if self.copies.is_unsettled() { Some(Timestamp(0)) } else { self.copies.guards.ending.next() }
    }

    fn object_gone(&mut self, now: Timestamp, object: ObjectId, why: ObjectEnd, effects: &mut Vec<Effect>) {
        let reason = format!("Object {object} is gone, which this task takes: {}.", why.words());
        let readers = self.waiting_readers(&object);
        self.copies.free(&object);
        let change = ObjectChange::Gone { objects: vec![object.clone()], why };
        self.record(now, Record::Objects(Box::new(change)), effects);
        for (job, ids) in readers {
            let record = Record::Aborted { job, ids: ids.clone(), reason: reason.clone() };
            self.end_by(now, record, &ids, effects);
            self.forget_if_over(job);
        }
    }

    // Tasks that take an object and were not handed to a worker.
    fn waiting_readers(&self, object: &ObjectId) -> BTreeMap<JobId, IdSet> {
        let mut readers: BTreeMap<JobId, IdSet> = BTreeMap::new();
        for TemplateId { job: id, submit } in self.copies.readers_of(object.task) {
            let Some(job) = self.state.jobs.get(&id) else { continue };
            let submit = &job.submits[submit as usize];
            for input in &submit.task.input_objects {
                let from = &input.from;
                if from.name != object.name || from.job.unwrap_or(id) != object.task.job {
                    continue;
                }
                let ids = match from.task {
                    ObjectTask::One(task) if task == object.task.task => submit.ids.clone(),
                    ObjectTask::One(_) => continue,
                    ObjectTask::Same => submit.ids.intersection(&IdSet::single(object.task.task)),
                };
                let ids = ids.intersection(&job.queued);
                if !ids.is_empty() {
                    readers.entry(id).or_default().union_with(&ids);
                }
            }
        }
        for TaskRef { job: id, task } in self.copies.callers(object) {
            if self.state.jobs.get(&id).is_some_and(|job| job.queued.contains(task)) {
                readers.entry(id).or_default().insert(task);
            }
        }
        readers
    }

    /// Answers what a client asks about objects.
    pub(super) fn client_asks_objects(
        &mut self,
        now: Timestamp,
        (connection, request): (ConnectionId, u64),
        (asks, refused): (ObjectRequest, Refused),
        effects: &mut Vec<Effect>,
    ) {
        let body = match asks {
            // Answered later, unless it is refused.
            ObjectRequest::Give(give) => match self.give(now, (connection, request), *give, effects) {
                Ok(()) => return,
                Err(error) => ClientResponse::Error(error),
            },
            asks => self.objects_asked(now, asks, effects).unwrap_or_else(ClientResponse::Error),
        };
        let body = refused.beside(body);
        effects.push(Effect::Answer { connection, request, body, gate: Gate::Synced });
    }

    fn objects_asked(
        &mut self,
        now: Timestamp,
        asks: ObjectRequest,
        effects: &mut Vec<Effect>,
    ) -> Result<ClientResponse, RequestError> {
        match asks {
            ObjectRequest::List { jobs, phases, after } => {
                let page = self.object_page(&jobs, &phases, after.as_ref())?;
                Ok(ClientResponse::Objects(Box::new(page)))
            }
            ObjectRequest::Info(object) => Ok(ClientResponse::Objects(Box::new(self.object_info(object)?))),
            ObjectRequest::Keep(objects) => {
                self.refuse_when_read_only()?;
                objects.iter().try_for_each(|object| self.check_stored(object))?;
                self.record(now, Record::Objects(Box::new(ObjectChange::Kept(objects))), effects);
                Ok(ClientResponse::Done)
            }
            ObjectRequest::Release(objects) => {
                self.release_values(now, objects, effects)?;
                Ok(ClientResponse::Done)
            }
            ObjectRequest::Give(_) => Err(RequestError::Invalid("A file is given by itself.".into())),
            ObjectRequest::Drop(objects) => {
                self.refuse_when_read_only()?;
                let objects: BTreeSet<ObjectId> = objects.into_iter().collect();
                objects.iter().try_for_each(|object| self.check_droppable(object))?;
                for object in objects {
                    self.object_gone(now, object, ObjectEnd::Dropped, effects);
                }
                Ok(ClientResponse::Done)
            }
        }
    }
}

// What is not there yet, or is not known.
fn unknown(object: ObjectId) -> ObjectCopy {
    ObjectCopy { object, instance: Instance(0), size: 0, checksum: 0, is_dir: false }
}
