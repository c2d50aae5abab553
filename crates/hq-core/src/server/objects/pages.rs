//! What clients are told of objects, a page at a time.

use std::ops::RangeInclusive;

use hq_model::object::ObjectTask;
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, ObjectId, ObjectName, TaskRef, TaskSpec, TaskState};

use crate::client_messages::RequestError;
use crate::limits::{
    HOLDERS_LISTED_MAX, HOLDERS_SHOWN_MAX, OBJECTS_LOOKED_MAX, OBJECTS_PAGE, READERS_SHOWN_MAX,
};
use crate::object_messages::{ObjectEnd, ObjectPage, ObjectPhase, ObjectState, ObjectView};
use crate::server::job::Job;
use crate::server::machine::Server;

impl Server {
    /// Objects of jobs behind one, of which only those in some phases are told. A page ends when it is full, or when so many
    /// were looked at.
    pub(super) fn object_page(
        &self,
        jobs: &Selector,
        phases: &[ObjectPhase],
        after: Option<&ObjectId>,
    ) -> Result<ObjectPage, RequestError> {
        let (mut page, mut looked) = (ObjectPage { objects: Vec::new(), next: None }, 0);
        let mut last: Option<ObjectId> = None;
        for id in self.jobs_with_objects(jobs, after)? {
            let Some(job) = self.state.jobs.get(&id) else { continue };
            let after = after.filter(|after| after.task.job == id);
            let first = after.map_or(0, |after| after.task.task.0);
            for (range, submit) in job.owners_in(first..=u32::MAX) {
                for object in self.objects_of(id, range, &job.submits[submit as usize].task) {
                    if after.is_some_and(|after| object <= *after) {
                        continue;
                    }
                    if page.objects.len() == OBJECTS_PAGE || looked == OBJECTS_LOOKED_MAX {
                        page.next = last;
                        return Ok(page);
                    }
                    looked += 1;
                    if self.is_let_go(&object) {
                        last = Some(object);
                        continue;
                    }
                    if phases.is_empty() || phases.contains(&self.object_state(&object).phase()) {
                        page.objects.push(self.object_view(object.clone(), HOLDERS_LISTED_MAX));
                    }
                    last = Some(object);
                }
            }
        }
        Ok(page)
    }

    // Nobody needs it any more, and it was freed: it is not there, and is not missed.
    fn is_let_go(&self, object: &ObjectId) -> bool {
        let is_released = self.state.objects.get(object).is_some_and(|known| known.is_released);
        is_released && self.copies.holder_count(object) == 0 && self.copies.lost_words(object).is_none()
    }

    // What some tasks of a submit leave, in order; of calls what they have left.
    fn objects_of<'a>(
        &'a self,
        id: JobId,
        range: RangeInclusive<u32>,
        spec: &'a TaskSpec,
    ) -> Box<dyn Iterator<Item = ObjectId> + 'a> {
        let task = move |task| TaskRef::new(id, hq_model::TaskId(task));
        if spec.body.is_packed_call() {
            let (first, last) = (hq_model::TaskId(*range.start()), hq_model::TaskId(*range.end()));
            let left = self.state.objects.of_range(id, first, last);
            return Box::new(left.map(|(task, name, _)| ObjectId { task, name: name.clone() }));
        }
        let mut names: Vec<&ObjectName> = spec.own_objects().iter().map(|left| &left.name).collect();
        if names.is_empty() {
            return Box::new(std::iter::empty());
        }
        names.sort_unstable();
        let of_task = move |id| names.clone().into_iter().map(move |name| (id, name));
        let all = range.flat_map(of_task);
        Box::new(all.map(move |(id, name)| ObjectId { task: task(id), name: name.clone() }))
    }

    // Those of a selector from the one on where the page before ended, which leave objects. Whether there are such jobs is
    // asked for the first page: later some may have been forgotten.
    fn jobs_with_objects<'a>(
        &'a self,
        jobs: &'a Selector,
        after: Option<&ObjectId>,
    ) -> Result<Box<dyn Iterator<Item = JobId> + 'a>, RequestError> {
        let from = self.copies.producers_from(after.map_or(JobId(0), |after| after.task.job));
        Ok(match (jobs, after) {
            (Selector::All, _) => {
                Box::new(from.filter(|id| self.state.jobs.get(id).is_none_or(|job| !job.is_draft())))
            }
            // Soon another one may be the last.
            (Selector::Last, Some(after)) => {
                let last = after.task.job;
                Box::new(from.take_while(move |job| *job == last))
            }
            (Selector::Last, None) => Box::new(self.select_jobs(jobs)?.into_iter()),
            (Selector::Ids(ids), after) => {
                if after.is_none() {
                    self.select_jobs(jobs)?;
                }
                Box::new(from.filter(|job| ids.contains(hq_model::TaskId(job.0))))
            }
        })
    }

    /// All about one.
    pub(super) fn object_info(&self, object: ObjectId) -> Result<ObjectPage, RequestError> {
        self.check_declared(&object)?;
        let objects = vec![self.object_view(object, HOLDERS_SHOWN_MAX)];
        Ok(ObjectPage { objects, next: None })
    }

    /// Refuses what no task leaves.
    pub(super) fn check_declared(&self, object: &ObjectId) -> Result<(), RequestError> {
        let TaskRef { job: id, task } = object.task;
        let job = self.state.jobs.get(&id).ok_or(RequestError::NoJob(id))?;
        let submit = job.submit_of(task).ok_or(RequestError::NoTask(id, task))?;
        let left = job.submits[submit as usize].task.own_objects();
        if left.iter().any(|left| left.name == object.name) || self.state.objects.get(object).is_some() {
            return Ok(());
        }
        let names: Vec<&str> = left.iter().map(|left| left.name.as_str()).collect();
        Err(RequestError::NoObject(object.clone(), names.join(", ")))
    }

    /// Refuses what is not there.
    pub(in crate::server) fn check_stored(&self, object: &ObjectId) -> Result<(), RequestError> {
        self.check_declared(object)?;
        match self.object_state(object).why_not_stored(object) {
            None => Ok(()),
            Some(why) => Err(RequestError::NotStored(object.clone(), why)),
        }
    }

    /// Refuses what is gone, was never there, or is needed. What is lost may be dropped: then it is not left once more.
    pub(in crate::server) fn check_droppable(&self, object: &ObjectId) -> Result<(), RequestError> {
        match self.object_state(object) {
            ObjectState::Lost { .. } => {}
            _ => self.check_stored(object)?,
        }
        match self.readers_alive(object).min_by_key(|(job, _)| *job) {
            Some((job, ids)) => {
                let task = TaskRef::new(job, ids.first().unwrap_or(object.task.task));
                Err(RequestError::ObjectNeeded(object.clone(), task))
            }
            None => Ok(()),
        }
    }

    fn object_state(&self, object: &ObjectId) -> ObjectState {
        let known = self.state.objects.get(object);
        if let Some(why) = self.state.objects.why_gone(object) {
            return ObjectState::Gone(why.clone());
        }
        if let Some(words) = self.copies.lost_words(object) {
            return ObjectState::Lost { words: words.to_owned(), rebuilt_by: self.rebuilding(object.task) };
        }
        if self.is_let_go(object) {
            let words = "it was not needed any more".to_owned();
            return ObjectState::Lost { words, rebuilt_by: self.rebuilding(object.task) };
        }
        match self.state.task_state(object.task) {
            Some(TaskState::Finished) if known.is_some() => ObjectState::Stored,
            Some(TaskState::Failed) => never_left(object, "failed"),
            Some(TaskState::Canceled) => never_left(object, "was canceled"),
            Some(TaskState::Aborted) => never_left(object, "was given up"),
            _ => ObjectState::Awaited,
        }
    }

    fn object_view(&self, object: ObjectId, holders_max: usize) -> ObjectView {
        let known = self.state.objects.get(&object);
        let mut readers: Vec<JobId> = self.readers_alive(&object).map(|(job, _)| job).collect();
        readers.sort_unstable();
        readers.dedup();
        let reader_count = readers.len() as u64;
        readers.truncate(READERS_SHOWN_MAX);
        let holders = self.copies.holders_of(&object).take(holders_max);
        ObjectView {
            state: self.object_state(&object),
            copies: self.copies.holder_count(&object) as u64,
            holders: holders.map(|worker| self.task_node(worker)).collect(),
            is_kept: known.is_some_and(|known| known.is_kept),
            reader_count,
            readers,
            copy: known.map_or_else(|| super::unknown(object.clone()), |known| known.copy(object.clone())),
        }
    }

    /// Jobs with tasks that take an object and have not ended, and some of these tasks. A job comes once for each of its
    /// submits.
    pub(super) fn readers_alive<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> impl Iterator<Item = (JobId, IdSet)> + 'a {
        self.copies.readers_of(object.task).filter_map(move |template| {
            let job = self.state.jobs.get(&template.job)?;
            let submit = &job.submits[template.submit as usize];
            let mut inputs = submit.task.input_objects.iter().filter(|input| {
                input.from.name == object.name && input.from.job.unwrap_or(template.job) == object.task.job
            });
            let ids = inputs.find_map(|input| match input.from.task {
                ObjectTask::One(task) if task == object.task.task => alive_of(job, &submit.ids),
                ObjectTask::Same if submit.ids.contains(object.task.task) => {
                    alive_of(job, &IdSet::single(object.task.task))
                }
                ObjectTask::One(_) | ObjectTask::Same => None,
            });
            ids.map(|ids| (template.job, ids))
        })
    }
}

fn never_left(object: &ObjectId, how: &str) -> ObjectState {
    ObjectState::Gone(ObjectEnd::Lost(format!("task {} {how}, and left nothing", object.task)))
}

// Some of these tasks that have not ended.
fn alive_of(job: &Job, ids: &IdSet) -> Option<IdSet> {
    let queued = job.queued.intersection(ids);
    if !queued.is_empty() {
        return Some(queued);
    }
    job.leased.values().map(|leased| leased.intersection(ids)).find(|leased| !leased.is_empty())
}
