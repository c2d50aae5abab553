//! Objects that clients give: files that they have put into the store of a worker. The worker takes the file as an object; then
//! there is a task for it, which has finished.

use std::collections::BTreeMap;
use std::sync::Arc;

use hq_model::dependency::Dependencies;
use hq_model::{
    Body, Entries, IdSet, Instance, JobId, JobSpec, ObjectId, OutputObject, Request, TaskId, TaskRef,
    TaskSpec, Timestamp, WorkerId,
};

use crate::client_messages::{ClientResponse, RequestError};
use crate::limits::{GIVEN_FROM, GIVES_MAX};
use crate::object_messages::{GiveObject, ObjectChange, ObjectCopy};
use crate::record::Record;
use crate::server::machine::Server;
use crate::server::{ConnectionId, Effect, Gate};
use crate::worker_messages::ToWorker;

/// Files that workers were told to take.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Gives {
    pending: BTreeMap<ObjectId, Giving>,
    // The job that was to be made of what a worker has refused last. Nobody else has its id.
    spare: Option<JobId>,
}

#[derive(Clone, Debug)]
struct Giving {
    connection: ConnectionId,
    request: u64,
    worker: WorkerId,
    // The name of the job that is to be made.
    new_job: Option<String>,
}

impl Gives {
    /// A client is gone: what it gives is not wanted any more.
    pub(in crate::server) fn forget(&mut self, connection: ConnectionId) {
        self.pending.retain(|_, giving| giving.connection != connection);
    }

    // The first id from here on that none of these has.
    fn next_id(&self, job: JobId, last: Option<TaskId>) -> Option<TaskId> {
        let of = |id| ObjectId::before_all(TaskRef::new(job, TaskId(id)));
        let pending = self.pending.range(of(GIVEN_FROM)..=of(u32::MAX)).next_back();
        let pending = pending.map(|(object, _)| object.task.task);
        let last = last.into_iter().chain(pending).filter(|last| last.0 >= GIVEN_FROM).max();
        match last {
            Some(last) => last.0.checked_add(1).filter(|id| *id < u32::MAX).map(TaskId),
            None => Some(TaskId(GIVEN_FROM)),
        }
    }
}

impl Server {
    /// Has a worker take a file that a client has put into its store. Answered when that is done.
    pub(super) fn give(
        &mut self,
        now: Timestamp,
        (connection, request): (ConnectionId, u64),
        give: GiveObject,
        effects: &mut Vec<Effect>,
    ) -> Result<(), RequestError> {
        self.refuse_when_read_only()?;
        let GiveObject { job, name, worker, file, is_dir } = give;
        let refused = |text: String| Err(RequestError::Invalid(text));
        if !self.state.workers.contains_key(&worker) {
            return Err(RequestError::NoWorker(worker));
        }
        let Some(live) = self.live.get(&worker) else { return Err(RequestError::WorkerEnded(worker)) };
        let Some(link) = live.connection else {
            return Err(RequestError::WorkerAway { worker, until: live.lost_at });
        };
        if !live.stores {
            return refused(format!(
                "Worker {worker} stores no objects (`hq worker start --no-object-store`)."
            ));
        }
        if self.gives.pending.len() >= GIVES_MAX {
            return refused(format!("{GIVES_MAX} objects are being given already: try again in a moment."));
        }
        let (task, new_job) = match job {
            Ok(id) => {
                let known = self.state.jobs.get(&id).ok_or(RequestError::NoJob(id))?;
                if !known.is_open {
                    return Err(RequestError::JobNotOpen(id));
                }
                let Some(task) = self.gives.next_id(id, known.ids.last()) else {
                    return refused(format!("Job {id} has no task ids left."));
                };
                (TaskRef::new(id, task), None)
            }
            Err(name) => {
                let job = self.id_for_given(now, effects);
                (TaskRef::new(job, TaskId(0)), Some(name))
            }
        };
        let object = ObjectId { task, name };
        self.gives.pending.insert(object.clone(), Giving { connection, request, worker, new_job });
        // Of a new job: nobody hears of an id that may be given again.
        let gate = if task.task.0 < GIVEN_FROM { Gate::Synced } else { Gate::Open };
        let message = ToWorker::TakeFile { object, file, is_dir };
        effects.push(Effect::ToWorker { connection: link, message, gate });
        Ok(())
    }

    // Nobody gets this id meanwhile. That of what was refused is given again where no other came after it.
    fn id_for_given(&mut self, now: Timestamp, effects: &mut Vec<Effect>) -> JobId {
        if let Some(spare) = self.gives.spare.take().filter(|spare| *spare == self.state.last_job) {
            return spare;
        }
        let job = JobId(self.state.last_job.0 + 1);
        let worker = self.state.last_worker;
        self.record(now, Record::IdsGiven { job, worker }, effects);
        job
    }

    /// A worker stores something. True when that was given just now.
    pub(super) fn is_given(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        copy: &ObjectCopy,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let giving = self.gives.pending.get(&copy.object);
        if giving.is_none_or(|giving| giving.worker != worker) || copy.instance != Instance(0) {
            return false;
        }
        let Some(Giving { connection, request, new_job, .. }) = self.gives.pending.remove(&copy.object)
        else {
            return false;
        };
        let ObjectId { task, name } = copy.object.clone();
        let is_open = self.state.jobs.get(&task.job).is_some_and(|job| job.is_open);
        if new_job.is_none() && !is_open {
            let body = ClientResponse::Error(RequestError::JobNotOpen(task.job));
            effects.push(Effect::Answer { connection, request, body, gate: Gate::Open });
            return false;
        }
        let is_alone = new_job.is_some();
        let output = OutputObject { path: name.as_str().as_bytes().to_vec(), name };
        // As any task it has a request, of nothing.
        let requests = vec![Request::default()];
        let spec =
            TaskSpec { body: Body::Given, output_objects: vec![output], requests, ..TaskSpec::default() };
        let submitted = Record::Submitted {
            job: task.job,
            key: 0,
            spec: new_job.map(|name| JobSpec { name, ..JobSpec::default() }),
            ids: IdSet::single(task.task),
            entries: Entries::default(),
            entries_gone: Box::default(),
            keys: Entries::default(),
            dependencies: Arc::new(Dependencies::default()),
            task: Arc::new(spec),
            submit_dir: Vec::new(),
        };
        let mut records =
            vec![submitted, Record::Objects(Box::new(ObjectChange::Stored(vec![copy.clone()])))];
        if is_alone {
            // Nobody says when it is needed no more but whoever drops it.
            records.push(Record::Objects(Box::new(ObjectChange::Kept(vec![copy.object.clone()]))));
        }
        self.copies.left(copy, worker);
        self.copies.guards.is_unheard(copy.object.clone(), worker);
        self.record(now, Record::Together { records }, effects);
        let body = ClientResponse::ObjectGiven(copy.clone());
        effects.push(Effect::Answer { connection, request, body, gate: Gate::Synced });
        true
    }

    /// A worker does not take what it was to take.
    pub(super) fn give_refused(
        &mut self,
        worker: WorkerId,
        object: &ObjectId,
        why: &str,
        effects: &mut Vec<Effect>,
    ) {
        let pending = self.gives.pending.get(object).filter(|giving| giving.worker == worker);
        if pending.is_some_and(|giving| giving.new_job.is_some()) {
            self.gives.spare = Some(object.task.job);
        }
        self.give_fails(worker, object, why, effects);
    }

    fn give_fails(&mut self, worker: WorkerId, object: &ObjectId, why: &str, effects: &mut Vec<Effect>) {
        if self.gives.pending.get(object).is_none_or(|giving| giving.worker != worker) {
            return;
        }
        if let Some(Giving { connection, request, .. }) = self.gives.pending.remove(object) {
            let body = ClientResponse::Error(RequestError::NotStored(
                object.clone(),
                format!("is not stored: {why}."),
            ));
            effects.push(Effect::Answer { connection, request, body, gate: Gate::Open });
        }
    }

    /// A worker is away: what it was to take is not taken, whatever it says later.
    pub(in crate::server) fn gives_fail_on(&mut self, worker: WorkerId, effects: &mut Vec<Effect>) {
        let of_worker = self.gives.pending.iter().filter(|(_, giving)| giving.worker == worker);
        let objects: Vec<ObjectId> = of_worker.map(|(object, _)| object.clone()).collect();
        for object in objects {
            let why = format!("worker {worker} was lost before it had taken the file");
            self.give_fails(worker, &object, &why, effects);
        }
    }
}
