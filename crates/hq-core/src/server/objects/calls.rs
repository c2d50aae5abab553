//! Values of calls: what a function returns that is too large to travel with the end of its task, and who takes it.
//!
//! No call declares what it leaves or takes. A value is there when a worker has said so, and a call takes the values of those
//! that it waits for. Whoever called says when a value is needed no more; a call that finds none of its arguments comes back, and
//! is put behind a job that leaves it once more.

use hq_model::{Body, IdSet, ObjectId, ObjectName, TaskId, TaskRef, Timestamp, WorkerId};

use crate::client_messages::RequestError;
use crate::mark;
use crate::object_messages::{ObjectChange, ObjectEnd, ObjectSource, TaskObjects};
use crate::record::{FinishedSpan, Record};
use crate::server::Effect;
use crate::server::locality::{ValueKey, key_of_value};
use crate::server::machine::Server;
use crate::worker_messages::TemplateId;

impl Server {
    /// What calls of a submit take, and where that is, for a worker.
    pub(super) fn values_for(&self, worker: WorkerId, template: TemplateId, ids: &IdSet) -> Vec<TaskObjects> {
        let Some(job) = self.state.jobs.get(&template.job) else { return Vec::new() };
        let submit = &job.submits[template.submit as usize];
        if !submit.task.body.is_packed_call()
            || (submit.dependencies.is_empty() && job.deferred.is_empty() && job.values_of.is_empty())
        {
            return Vec::new();
        }
        let tried = self.copies.tried_among(template.job, ids);
        // What the last one takes, and whether those that take the same may be told of together with it.
        let (mut last, mut is_shared): (Vec<ObjectId>, bool) = (Vec::new(), false);
        let mut all: Vec<TaskObjects> = Vec::new();
        for task in ids.iter() {
            let reader = TaskRef::new(template.job, task);
            let taken = self.values_taken(reader);
            if taken.is_empty() {
                continue;
            }
            let is_alone = tried.contains(task);
            match all.last_mut().filter(|_| is_shared && !is_alone && taken == last) {
                Some(before) => drop(before.tasks.insert(task)),
                None => {
                    let inputs = taken.iter().map(|object| {
                        let (copy, holders) = self.copy_for(worker, reader, object);
                        ObjectSource { copy, path: Vec::new(), holders }
                    });
                    all.push(TaskObjects { tasks: IdSet::single(task), inputs: inputs.collect() });
                }
            }
            (last, is_shared) = (taken, !is_alone);
        }
        all
    }

    /// Where calls of a submit like to run: where the largest of the values is that each takes, if any. None where all of them
    /// are as good anywhere, or have keys of their own.
    pub(in crate::server) fn keys_of_calls(
        &self,
        template: TemplateId,
        ids: &IdSet,
    ) -> Option<Vec<(TaskId, ValueKey)>> {
        let submit = self.state.jobs.get(&template.job)?.submits.get(template.submit as usize)?;
        if !submit.task.body.is_packed_call() || submit.task.locality.is_some() || self.copies.has_none() {
            return None;
        }
        let key = |task: TaskId| {
            let taken = self.values_taken(TaskRef::new(template.job, task)).into_iter();
            let largest =
                taken.max_by_key(|object| self.state.objects.get(object).map(|known| known.size))?;
            let key = (key_of_value(&largest), self.copies.holders_of(&largest).collect());
            Some((task, key))
        };
        Some(ids.iter().filter_map(key).collect())
    }

    // Objects of calls and clients among what a call waits for.
    fn values_taken(&self, reader: TaskRef) -> Vec<ObjectId> {
        let mut taken = Vec::new();
        let Some(job) = self.state.jobs.get(&reader.job) else { return taken };
        for after in job.dependencies_of(reader.job, reader.task) {
            let Some(tasks) = &after.tasks else { continue };
            let there = self.state.objects.of_tasks(after.job, tasks);
            let values = there.filter(|(task, name, _)| self.is_value(*task, name));
            taken.extend(values.map(|(task, name, _)| ObjectId { task, name: name.clone() }));
        }
        taken
    }

    fn is_value(&self, task: TaskRef, name: &ObjectName) -> bool {
        self.state.is_value(task, name)
    }

    fn body_of(&self, task: TaskRef) -> Option<&Body> {
        let job = self.state.jobs.get(&task.job)?;
        Some(&job.submits[job.submit_of(task.task)? as usize].task.body)
    }

    /// True when an object is among the arguments of a call.
    pub(super) fn takes_value(&self, call: TaskRef, object: &ObjectId) -> bool {
        self.body_of(call).is_some_and(Body::is_packed_call) && self.values_taken(call).contains(object)
    }

    /// A call came back without one of its arguments. True when it waits until that is left once more.
    pub(super) fn wants_value(&mut self, call: TaskRef, object: &ObjectId) -> bool {
        let known = self.state.objects.get(object);
        let is_released = known.is_some_and(|known| known.is_released && !known.is_gone);
        if is_released && self.copies.holder_count(object) == 0 && self.copies.lost_words(object).is_none() {
            self.copies.is_lost(object.clone(), "it was not needed any more".to_owned());
        }
        let is_lost = self.copies.lost_words(object).is_some();
        if is_lost {
            self.copies.is_wanted(object.clone(), call);
        }
        is_lost
    }

    /// True while whoever has called, or has given it, may ask for it: as long as its job has not ended.
    pub(super) fn is_value_of_session(&self, object: &ObjectId) -> bool {
        let Some(job) = self.state.jobs.get(&object.task.job) else { return false };
        let is_known = self.state.objects.get(object).is_some();
        !job.has_ended() && is_known && self.is_value(object.task, &object.name)
    }

    /// Calls have finished: values that they are known to have left must be there, as these attempts left them, and those that
    /// were called once more for theirs must have left them.
    pub(super) fn check_values(&mut self, now: Timestamp, span: &FinishedSpan, effects: &mut Vec<Effect>) {
        let Some(job) = self.state.jobs.get(&span.job) else { return };
        let (mut away, mut missing, mut never) = (Vec::new(), Vec::new(), Vec::new());
        for (submit, ids) in job.by_submit(&span.ids) {
            let spec = &job.submits[submit as usize].task;
            if !spec.body.is_packed_call() {
                continue;
            }
            let left =
                |task| spec.object_left(TaskRef::new(span.job, task), span.instance, &ObjectName::value());
            let tasks: IdSet = match spec.rebuilds {
                Some(_) => ids,
                None => self.state.objects.of_tasks(span.job, &ids).map(|(task, _, _)| task.task).collect(),
            };
            let of_known = |(object, _): &(ObjectId, _)| {
                let is_known = self.state.jobs.contains_key(&object.task.job);
                mark!("a value is left once more for a forgotten job", !is_known);
                is_known
            };
            for (object, instance) in tasks.iter().map(left).filter(of_known) {
                let known = self.state.objects.get(&object).filter(|known| !known.is_gone);
                let is_told = known.is_some_and(|known| known.instance == instance);
                match (is_told, spec.rebuilds) {
                    (true, _) if self.copies.holder_count(&object) > 0 => {}
                    (true, _) => away.push(object),
                    // It would not the next time.
                    (false, Some(_)) => never.push(object),
                    (false, None) => missing.push((object, instance)),
                }
            }
        }
        away.into_iter().for_each(|object| self.copies.orphaned(object));
        self.never_left(now, missing, effects);
        for object in never {
            let why = "its call was made once more, and has not left it";
            self.object_gone(now, object, ObjectEnd::Lost(why.to_owned()), effects);
        }
    }

    /// Whoever called needs these no more.
    pub(super) fn release_values(
        &mut self,
        now: Timestamp,
        objects: Vec<ObjectId>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), RequestError> {
        self.refuse_when_read_only()?;
        let can_go = |object: &ObjectId| {
            let known = self.state.objects.get(object);
            known.is_some_and(|known| {
                !known.is_kept
                    && !known.is_released
                    && !known.is_gone
                    && self.is_value(object.task, &object.name)
            })
        };
        let objects: Vec<ObjectId> = objects.into_iter().filter(can_go).collect();
        if objects.is_empty() {
            return Ok(());
        }
        objects.iter().for_each(|object| self.copies.free(object));
        self.record(now, Record::Objects(Box::new(ObjectChange::Released(objects))), effects);
        Ok(())
    }
}
