//! What is said of objects.

use hq_core::object_messages::{
    GiveObject, ObjectChange, ObjectCopy, ObjectEnd, ObjectNews, ObjectPage, ObjectPhase, ObjectRequest,
    ObjectSource, ObjectState, ObjectView, ObjectsHeld, TaskObjects, Unfetched,
};
use hq_model::object::{ObjectRef, ObjectTask};
use hq_model::{InputObject, Instance, JobId, ObjectId, ObjectName, OutputObject, TaskId, WorkerId};

use crate::ProtoError;
use crate::error::{in_range, present, rule};
use crate::generated::{self as form, give_object, object_change, object_end, object_request, object_view};
use crate::wire::{Wire, list_from_wire, list_to_wire, required, wire_enum};

wire_enum!(ObjectPhase = ObjectPhase, "phase of an object": Awaited, Stored, Gone, Lost);

pub(crate) fn object_name(name: &str) -> Result<ObjectName, ProtoError> {
    name.parse().map_err(|error: hq_model::object::ObjectError| ProtoError::Model {
        field: "name of an object",
        reason: error.to_string(),
    })
}

fn no_zero(path: Vec<u8>) -> Result<Vec<u8>, ProtoError> {
    rule("path of an object", !path.contains(&0), "must not hold a zero byte")?;
    Ok(path)
}

fn path(path: Vec<u8>) -> Result<Vec<u8>, ProtoError> {
    rule(
        "path of an object",
        !path.is_empty() && !path.contains(&0),
        "must not be empty or hold a zero byte",
    )?;
    Ok(path)
}

impl Wire for OutputObject {
    type Form = form::OutputObject;

    fn to_wire(&self) -> form::OutputObject {
        form::OutputObject { name: self.name.to_string(), path: self.path.clone() }
    }

    fn from_wire(object: form::OutputObject) -> Result<OutputObject, ProtoError> {
        Ok(OutputObject { name: object_name(&object.name)?, path: path(object.path)? })
    }
}

impl Wire for InputObject {
    type Form = form::InputObject;

    fn to_wire(&self) -> form::InputObject {
        form::InputObject {
            name: self.name.to_string(),
            job: self.from.job.map(|job| job.0),
            task: match self.from.task {
                ObjectTask::One(task) => Some(task.0),
                ObjectTask::Same => None,
            },
            object: self.from.name.to_string(),
            path: self.path.clone(),
        }
    }

    fn from_wire(input: form::InputObject) -> Result<InputObject, ProtoError> {
        let from = ObjectRef {
            job: input.job.map(JobId),
            task: input.task.map_or(ObjectTask::Same, |task| ObjectTask::One(TaskId(task))),
            name: object_name(&input.object)?,
        };
        let name = object_name(&input.name)?;
        Ok(InputObject { name, from, path: input.path.map(path).transpose()? })
    }
}

impl Wire for ObjectId {
    type Form = form::ObjectId;

    fn to_wire(&self) -> form::ObjectId {
        form::ObjectId { task: Some(self.task.to_wire()), name: self.name.to_string() }
    }

    fn from_wire(object: form::ObjectId) -> Result<ObjectId, ProtoError> {
        Ok(ObjectId { task: required("task of an object", object.task)?, name: object_name(&object.name)? })
    }
}

impl Wire for ObjectCopy {
    type Form = form::ObjectCopy;

    fn to_wire(&self) -> form::ObjectCopy {
        form::ObjectCopy {
            object: Some(self.object.to_wire()),
            instance: self.instance.0,
            size: self.size,
            checksum: self.checksum,
            is_dir: self.is_dir,
        }
    }

    fn from_wire(copy: form::ObjectCopy) -> Result<ObjectCopy, ProtoError> {
        Ok(ObjectCopy {
            object: required("object", copy.object)?,
            instance: Instance(copy.instance),
            size: copy.size,
            checksum: copy.checksum,
            is_dir: copy.is_dir,
        })
    }
}

impl Wire for TaskObjects {
    type Form = form::TaskObjects;

    fn to_wire(&self) -> form::TaskObjects {
        form::TaskObjects { tasks: Some(self.tasks.to_wire()), inputs: list_to_wire(&self.inputs) }
    }

    fn from_wire(objects: form::TaskObjects) -> Result<TaskObjects, ProtoError> {
        Ok(TaskObjects {
            tasks: required("tasks that take objects", objects.tasks)?,
            inputs: list_from_wire(objects.inputs)?,
        })
    }
}

impl Wire for ObjectSource {
    type Form = form::ObjectSource;

    fn to_wire(&self) -> form::ObjectSource {
        form::ObjectSource {
            copy: Some(self.copy.to_wire()),
            path: self.path.clone(),
            holders: list_to_wire(&self.holders),
        }
    }

    fn from_wire(source: form::ObjectSource) -> Result<ObjectSource, ProtoError> {
        Ok(ObjectSource {
            copy: required("object that is taken", source.copy)?,
            path: no_zero(source.path)?,
            holders: list_from_wire(source.holders)?,
        })
    }
}

impl Wire for ObjectNews {
    type Form = form::ObjectNews;

    fn to_wire(&self) -> form::ObjectNews {
        form::ObjectNews {
            stored: list_to_wire(&self.stored),
            lost: list_to_wire(&self.lost),
            damaged: list_to_wire(&self.damaged),
            spilled: self.spilled.map(|held| form::ObjectsSpilled { count: held.count, bytes: held.bytes }),
            unfetched: list_to_wire(&self.unfetched),
            refused: self
                .refused
                .iter()
                .map(|(object, words)| form::ObjectWords {
                    object: Some(object.to_wire()),
                    words: words.clone(),
                })
                .collect(),
        }
    }

    fn from_wire(news: form::ObjectNews) -> Result<ObjectNews, ProtoError> {
        Ok(ObjectNews {
            stored: list_from_wire(news.stored)?,
            lost: list_from_wire(news.lost)?,
            damaged: list_from_wire(news.damaged)?,
            spilled: news.spilled.map(|held| ObjectsHeld { count: held.count, bytes: held.bytes }),
            unfetched: list_from_wire(news.unfetched)?,
            refused: news
                .refused
                .into_iter()
                .map(|refused| Ok((required("object that is not taken", refused.object)?, refused.words)))
                .collect::<Result<_, ProtoError>>()?,
        })
    }
}

impl Wire for Unfetched {
    type Form = form::Unfetched;

    fn to_wire(&self) -> form::Unfetched {
        form::Unfetched {
            task: Some(self.task.to_wire()),
            instance: self.instance.0,
            object: Some(self.object.to_wire()),
            holders: self.holders.iter().map(|worker| worker.0).collect(),
            reason: self.reason.clone(),
            wanted: self.wanted,
        }
    }

    fn from_wire(unfetched: form::Unfetched) -> Result<Unfetched, ProtoError> {
        Ok(Unfetched {
            task: required("task without an object", unfetched.task)?,
            instance: Instance(unfetched.instance),
            object: required("object", unfetched.object)?,
            holders: unfetched.holders.into_iter().map(WorkerId).collect(),
            reason: unfetched.reason,
            wanted: unfetched.wanted,
        })
    }
}

impl Wire for ObjectChange {
    type Form = form::ObjectChange;

    fn to_wire(&self) -> form::ObjectChange {
        use object_change::Change;
        form::ObjectChange {
            change: Some(match self {
                ObjectChange::Stored(copies) => {
                    Change::Stored(form::ObjectCopies { copies: list_to_wire(copies) })
                }
                ObjectChange::Kept(objects) => Change::Kept(ids_to_wire(objects)),
                ObjectChange::Released(objects) => Change::Released(ids_to_wire(objects)),
                ObjectChange::Gone { objects, why } => Change::Gone(form::ObjectsGone {
                    objects: list_to_wire(objects),
                    why: Some(why.to_wire()),
                }),
            }),
        }
    }

    fn from_wire(change: form::ObjectChange) -> Result<ObjectChange, ProtoError> {
        use object_change::Change;
        Ok(match present("change of objects", change.change)? {
            Change::Stored(stored) => ObjectChange::Stored(list_from_wire(stored.copies)?),
            Change::Kept(kept) => ObjectChange::Kept(list_from_wire(kept.objects)?),
            Change::Released(released) => ObjectChange::Released(list_from_wire(released.objects)?),
            Change::Gone(gone) => ObjectChange::Gone {
                objects: list_from_wire(gone.objects)?,
                why: required("why objects are gone", gone.why)?,
            },
        })
    }
}

impl Wire for ObjectEnd {
    type Form = form::ObjectEnd;

    fn to_wire(&self) -> form::ObjectEnd {
        let end = match self {
            ObjectEnd::Dropped => object_end::End::Dropped(form::Nothing {}),
            ObjectEnd::Lost(text) => object_end::End::Lost(text.clone()),
        };
        form::ObjectEnd { end: Some(end) }
    }

    fn from_wire(end: form::ObjectEnd) -> Result<ObjectEnd, ProtoError> {
        Ok(match present("end of an object", end.end)? {
            object_end::End::Dropped(_) => ObjectEnd::Dropped,
            object_end::End::Lost(text) => ObjectEnd::Lost(text),
        })
    }
}

impl Wire for ObjectRequest {
    type Form = form::ObjectRequest;

    fn to_wire(&self) -> form::ObjectRequest {
        use object_request::Request;
        form::ObjectRequest {
            request: Some(match self {
                ObjectRequest::List { jobs, phases, after } => Request::List(form::ListObjects {
                    jobs: Some(jobs.to_wire()),
                    after: after.as_ref().map(Wire::to_wire),
                    phases: phases.iter().map(|phase| phase.to_wire()).collect(),
                }),
                ObjectRequest::Info(object) => Request::Info(object.to_wire()),
                ObjectRequest::Keep(objects) => Request::Keep(ids_to_wire(objects)),
                ObjectRequest::Drop(objects) => Request::Drop(ids_to_wire(objects)),
                ObjectRequest::Release(objects) => Request::Release(ids_to_wire(objects)),
                ObjectRequest::Give(give) => Request::Give(give.to_wire()),
            }),
        }
    }

    fn from_wire(request: form::ObjectRequest) -> Result<ObjectRequest, ProtoError> {
        use object_request::Request;
        Ok(match present("request about objects", request.request)? {
            Request::List(list) => ObjectRequest::List {
                jobs: required("jobs whose objects are listed", list.jobs)?,
                after: list.after.map(ObjectId::from_wire).transpose()?,
                phases: list.phases.into_iter().map(ObjectPhase::from_wire).collect::<Result<_, _>>()?,
            },
            Request::Info(object) => ObjectRequest::Info(Wire::from_wire(object)?),
            Request::Keep(objects) => ObjectRequest::Keep(some_ids(objects)?),
            Request::Drop(objects) => ObjectRequest::Drop(some_ids(objects)?),
            Request::Release(objects) => ObjectRequest::Release(some_ids(objects)?),
            Request::Give(give) => ObjectRequest::Give(Box::new(Wire::from_wire(give)?)),
        })
    }
}

impl Wire for GiveObject {
    type Form = form::GiveObject;

    fn to_wire(&self) -> form::GiveObject {
        use give_object::Target;
        form::GiveObject {
            target: Some(match &self.job {
                Ok(job) => Target::Job(job.0),
                Err(name) => Target::NewJob(name.clone()),
            }),
            name: self.name.to_string(),
            worker: self.worker.0,
            file: self.file.clone(),
            is_dir: self.is_dir,
        }
    }

    fn from_wire(give: form::GiveObject) -> Result<GiveObject, ProtoError> {
        use give_object::Target;
        Ok(GiveObject {
            job: match present("job of an object that is given", give.target)? {
                Target::Job(job) => Ok(JobId(job)),
                Target::NewJob(name) => Err(name),
            },
            name: object_name(&give.name)?,
            worker: WorkerId(give.worker),
            file: file_name(give.file)?,
            is_dir: give.is_dir,
        })
    }
}

/// The name of a file that is no path.
pub(crate) fn file_name(name: String) -> Result<String, ProtoError> {
    let is_plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
    rule("name of a file", is_plain && name.len() <= 255, "must be the name of a file")?;
    Ok(name)
}

pub(crate) fn ids_to_wire(objects: &[ObjectId]) -> form::ObjectIds {
    form::ObjectIds { objects: list_to_wire(objects) }
}

fn some_ids(objects: form::ObjectIds) -> Result<Vec<ObjectId>, ProtoError> {
    in_range("objects of a request", objects.objects.len() as u64, 1, u64::from(u32::MAX))?;
    list_from_wire(objects.objects)
}

impl Wire for ObjectPage {
    type Form = form::ObjectPage;

    fn to_wire(&self) -> form::ObjectPage {
        form::ObjectPage { objects: list_to_wire(&self.objects), next: self.next.as_ref().map(Wire::to_wire) }
    }

    fn from_wire(page: form::ObjectPage) -> Result<ObjectPage, ProtoError> {
        Ok(ObjectPage {
            objects: list_from_wire(page.objects)?,
            next: page.next.map(ObjectId::from_wire).transpose()?,
        })
    }
}

impl Wire for ObjectView {
    type Form = form::ObjectView;

    fn to_wire(&self) -> form::ObjectView {
        use object_view::State;
        form::ObjectView {
            copy: Some(self.copy.to_wire()),
            state: Some(match &self.state {
                ObjectState::Awaited => State::Awaited(form::Nothing {}),
                ObjectState::Stored => State::Stored(form::Nothing {}),
                ObjectState::Lost { words, rebuilt_by } => State::Lost(form::ObjectLost {
                    words: words.clone(),
                    rebuilt_by: rebuilt_by.map(|job| job.0),
                }),
                ObjectState::Gone(why) => State::Gone(why.to_wire()),
            }),
            holders: list_to_wire(&self.holders),
            is_kept: self.is_kept,
            readers: self.readers.iter().map(|job| job.0).collect(),
            copies: self.copies,
            reader_count: self.reader_count,
        }
    }

    fn from_wire(view: form::ObjectView) -> Result<ObjectView, ProtoError> {
        use object_view::State;
        Ok(ObjectView {
            copy: required("object", view.copy)?,
            state: match present("state of an object", view.state)? {
                State::Awaited(_) => ObjectState::Awaited,
                State::Stored(_) => ObjectState::Stored,
                State::Lost(lost) => {
                    ObjectState::Lost { words: lost.words, rebuilt_by: lost.rebuilt_by.map(JobId) }
                }
                State::Gone(why) => ObjectState::Gone(Wire::from_wire(why)?),
            },
            holders: list_from_wire(view.holders)?,
            is_kept: view.is_kept,
            readers: view.readers.into_iter().map(JobId).collect(),
            copies: view.copies,
            reader_count: view.reader_count,
        })
    }
}
