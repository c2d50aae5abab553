//! Jobs, submits and selections on the wire.

use std::sync::Arc;
use std::time::Duration;

use hq_core::record::RequestKey;
use hq_model::job::{Counters, Share, Target, TaskIds};
use hq_model::selector::Selector;
use hq_model::{IdSet, JobId, JobSpec, JobState, Submit, TaskId, TaskRef, TaskSpec, TaskState, Usage};

use crate::ProtoError;
use crate::dependency::{dependencies_from_wire, dependencies_to_wire};
use crate::error::{in_range, present, rule};
use crate::generated::{self as form, selector::Which, submit};
use crate::idset;
use crate::notice::rules_from_wire;
use crate::task::{entries_from_wire, entries_to_wire};
use crate::wire::{Wire, list_to_wire, name, nanos, required, wire_enum};

wire_enum!(TaskState = TaskState, "state of a task": Waiting, Running, Finished, Failed, Canceled, Aborted);
wire_enum!(
    JobState = JobState, "state of a job": Opened, Waiting, Running, Finished, Failed, Aborted, Canceled
);

/// The 16 bytes of a request's key.
pub(crate) fn key_to_wire(key: RequestKey) -> Vec<u8> {
    key.to_be_bytes().to_vec()
}

/// The key in 16 bytes.
pub(crate) fn key_from_wire(key: &[u8]) -> Result<RequestKey, ProtoError> {
    let key = key.try_into().map_err(|_| ProtoError::Rule { field: "key", rule: "must be 16 bytes" })?;
    Ok(RequestKey::from_be_bytes(key))
}

impl Wire for JobSpec {
    type Form = form::JobSpec;

    fn to_wire(&self) -> form::JobSpec {
        let share = self.share.as_ref().map(Wire::to_wire);
        form::JobSpec {
            name: self.name.clone(),
            max_fails: self.max_fails,
            share,
            is_draft: self.is_draft,
            notices: list_to_wire(&self.notices),
            stall_after_ns: self.stall_after.map(nanos),
            linger_ns: self.linger.map(nanos),
            budget_ns: self.budget.map(nanos),
            directory: self.directory.clone(),
        }
    }

    fn from_wire(spec: form::JobSpec) -> Result<JobSpec, ProtoError> {
        rule("name of a job", !spec.name.contains(['\n', '\t']), "must hold no newline or tab")?;
        Ok(JobSpec {
            name: name("name of a job", spec.name)?,
            max_fails: spec.max_fails,
            share: spec.share.map(Share::from_wire).transpose()?,
            is_draft: spec.is_draft,
            notices: rules_from_wire(spec.notices)?,
            stall_after: spec.stall_after_ns.map(Duration::from_nanos),
            linger: spec.linger_ns.map(Duration::from_nanos),
            budget: spec.budget_ns.map(Duration::from_nanos),
            directory: spec.directory,
        })
    }
}

impl Wire for Share {
    type Form = form::Share;

    fn to_wire(&self) -> form::Share {
        form::Share { min: self.min, max: self.max, weight: self.weight }
    }

    fn from_wire(share: form::Share) -> Result<Share, ProtoError> {
        let max = share.max.unwrap_or(u64::MAX);
        rule(
            "share of a job",
            max >= share.min.max(1),
            "must have a maximum above 0 and not below its minimum",
        )?;
        in_range("weight of a share", u64::from(share.weight), 1, u64::from(u32::MAX))?;
        Ok(Share { min: share.min, max: share.max, weight: share.weight })
    }
}

impl Wire for Submit {
    type Form = form::Submit;

    fn to_wire(&self) -> form::Submit {
        let target = match &self.target {
            Target::New(spec) => submit::Target::NewJob(spec.to_wire()),
            Target::Open(job) => submit::Target::OpenJob(job.0),
        };
        let ids = match &self.ids {
            TaskIds::Given(ids) => submit::Ids::Given(ids.to_wire()),
            TaskIds::Next(count) => submit::Ids::Next(*count),
        };
        form::Submit {
            target: Some(target),
            ids: Some(ids),
            entries: entries_to_wire(&self.entries),
            spec: Some(self.spec.to_wire()),
            submit_dir: self.submit_dir.clone(),
            dependencies: dependencies_to_wire(&self.dependencies),
            keys: entries_to_wire(&self.keys),
        }
    }

    fn from_wire(submit: form::Submit) -> Result<Submit, ProtoError> {
        let target = match present("target of a submit", submit.target)? {
            submit::Target::NewJob(spec) => Target::New(JobSpec::from_wire(spec)?),
            submit::Target::OpenJob(job) => Target::Open(JobId(job)),
        };
        let ids = match present("ids of a submit", submit.ids)? {
            submit::Ids::Given(ids) => TaskIds::Given(idset::some_from_wire("ids of a submit", &ids.ranges)?),
            submit::Ids::Next(count) => {
                in_range("tasks of a submit", u64::from(count), 1, u64::from(u32::MAX))?;
                TaskIds::Next(count)
            }
        };
        let tasks = match &ids {
            TaskIds::Given(ids) => ids.len(),
            TaskIds::Next(count) => u64::from(*count),
        };
        let spec: TaskSpec = required("spec of a submit", submit.spec)?;
        Ok(Submit {
            target,
            ids,
            entries: entries_from_wire(submit.entries, tasks)?,
            keys: entries_from_wire(submit.keys, tasks)?,
            dependencies: Arc::new(dependencies_from_wire(submit.dependencies)?),
            spec: Arc::new(spec),
            submit_dir: submit.submit_dir,
        })
    }
}

impl Wire for Selector {
    type Form = form::Selector;

    fn to_wire(&self) -> form::Selector {
        let which = match self {
            Selector::All => Which::All(form::Nothing {}),
            Selector::Last => Which::Last(form::Nothing {}),
            Selector::Ids(ids) => Which::Ids(ids.to_wire()),
        };
        form::Selector { which: Some(which) }
    }

    fn from_wire(selector: form::Selector) -> Result<Selector, ProtoError> {
        match present("selection", selector.which)? {
            Which::All(_) => Ok(Selector::All),
            Which::Last(_) => Ok(Selector::Last),
            Which::Ids(ids) => Ok(Selector::Ids(idset::some_from_wire("selection", &ids.ranges)?)),
        }
    }
}

impl Wire for TaskRef {
    type Form = form::TaskRef;

    fn to_wire(&self) -> form::TaskRef {
        form::TaskRef { job: self.job.0, task: self.task.0 }
    }

    fn from_wire(task: form::TaskRef) -> Result<TaskRef, ProtoError> {
        Ok(TaskRef::new(JobId(task.job), TaskId(task.task)))
    }
}

impl Wire for Usage {
    type Form = form::Usage;

    fn to_wire(&self) -> form::Usage {
        form::Usage {
            wall_us: self.wall_us,
            user_us: self.user_us,
            system_us: self.system_us,
            rss_max_kib: self.rss_max_kib,
            blocks_read: self.blocks_read,
            blocks_written: self.blocks_written,
        }
    }

    fn from_wire(usage: form::Usage) -> Result<Usage, ProtoError> {
        Ok(Usage {
            wall_us: usage.wall_us,
            user_us: usage.user_us,
            system_us: usage.system_us,
            rss_max_kib: usage.rss_max_kib,
            blocks_read: usage.blocks_read,
            blocks_written: usage.blocks_written,
        })
    }
}

impl Wire for Counters {
    type Form = form::Counters;

    fn to_wire(&self) -> form::Counters {
        form::Counters {
            waiting: self.waiting,
            running: self.running,
            finished: self.finished,
            failed: self.failed,
            canceled: self.canceled,
            aborted: self.aborted,
        }
    }

    fn from_wire(c: form::Counters) -> Result<Counters, ProtoError> {
        // A job has at most 2^32 tasks, and they may be those of all jobs: sums of counters stay far from overflow.
        for count in [c.waiting, c.running, c.finished, c.failed, c.canceled, c.aborted] {
            in_range("counter", count, 0, 1 << 48)?;
        }
        Ok(Counters {
            waiting: c.waiting,
            running: c.running,
            finished: c.finished,
            failed: c.failed,
            canceled: c.canceled,
            aborted: c.aborted,
        })
    }
}

/// A job and some of its tasks, in the form of `TasksOfJob` messages.
pub(crate) fn tasks_from_wire(tasks: form::TasksOfJob) -> Result<(JobId, IdSet), ProtoError> {
    Ok((JobId(tasks.job), idset::from_wire("ids", &tasks.ids)?))
}

/// The form of a job and some of its tasks.
pub(crate) fn tasks_to_wire(job: JobId, ids: &IdSet) -> form::TasksOfJob {
    form::TasksOfJob { job: job.0, ids: idset::to_wire(ids) }
}
