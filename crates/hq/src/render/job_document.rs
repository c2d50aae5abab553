//! The JSON document of `hq job info`, whose submits and tasks are read while they are written.

use std::cell::RefCell;

use hq_core::client_messages::{JobBudget, JobDetail, SubmitInfo, TaskInfo};
use hq_model::allocation::in_hours;
use hq_model::job::Counters;
use hq_model::paths::{PathTemplates, TaskPaths};
use hq_model::{JobId, TaskState, Timestamp};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::json;
use super::task::left_by;
use crate::error::HqError;
use crate::jobs::JobStream;
use crate::results::LeftReader;
use crate::tasks::TaskStream;

/// One job with all its submits and tasks.
pub(super) struct Document<'a> {
    pub job: JobDetail,
    pub server_uid: &'a str,
    pub jobs: &'a RefCell<&'a mut JobStream>,
    pub tasks: &'a RefCell<Option<&'a mut TaskStream>>,
    /// Of the streams, left there.
    pub error: &'a RefCell<Option<HqError>>,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let job = &self.job;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("max_fails", &job.max_fails)?;
        if let Some(state) = &job.feed {
            map.serialize_entry("feed", &super::feed::value(state))?;
        }
        super::notices::put(&mut map, &job.notices)?;
        if let Some(JobBudget { limit, used }) = job.budget {
            let budget =
                serde_json::json!({ "node_hours": limit.map(in_hours), "used_node_hours": in_hours(used) });
            map.serialize_entry("budget", &budget)?;
        }
        map.serialize_entry("started_at", &json::time(job.submitted))?;
        map.serialize_entry("submits", &self.submits())?;
        let mut summary = job.summary.clone();
        let mut ended = job.ended;
        let mut stream = self.tasks.borrow_mut();
        if let Some(stream) = stream.as_deref_mut() {
            let (id, stream, told) = (summary.job, RefCell::new(stream), RefCell::default());
            let tasks = TaskArray {
                is_detailed: false,
                job: id,
                stream: &stream,
                left: &RefCell::default(),
                error: self.error,
                told: &told,
            };
            map.serialize_entry("tasks", &tasks)?;
            // The job goes on while its tasks are read: what is said of them together is what was said of each.
            let told = told.into_inner();
            summary.counters = told.counters;
            let has_ended = !summary.is_open && summary.state().is_terminal();
            ended = has_ended.then_some(ended.unwrap_or(told.last_end));
        }
        map.serialize_entry("info", &json::job(&summary))?;
        map.serialize_entry("finished_at", &json::optional_time(ended))?;
        map.serialize_entry("usage", &json::usage(&job.usage))?;
        map.serialize_entry("workers", &job.workers.iter().map(|w| w.0).collect::<Vec<_>>())?;
        map.end()
    }
}

impl<'a> Document<'a> {
    fn submits(&self) -> SubmitArray<'a> {
        let (job, server_uid) = (self.job.summary.job, self.server_uid);
        SubmitArray { job, server_uid, jobs: self.jobs, error: self.error }
    }
}

// The submits of the job that was told last. An error of the stream is left in `error`.
struct SubmitArray<'a> {
    job: JobId,
    server_uid: &'a str,
    jobs: &'a RefCell<&'a mut JobStream>,
    error: &'a RefCell<Option<HqError>>,
}

impl Serialize for SubmitArray<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut first = self.next::<S::Error>()?;
        while let Some(submit) = first {
            let second = self.next::<S::Error>()?;
            if second.as_ref().is_some_and(|second| second.submitted == submit.submitted) {
                let following = RefCell::new(second);
                list.serialize_element(&Graph { first: &submit, following: &following, rest: self })?;
                first = following.into_inner();
            } else {
                list.serialize_element(&json::submit(&submit, &self.paths(&submit)))?;
                first = second;
            }
        }
        list.end()
    }
}

impl SubmitArray<'_> {
    fn paths(&self, submit: &SubmitInfo) -> TaskPaths {
        PathTemplates::new(&submit.spec, &submit.submit_dir, self.server_uid).expand_for_all(self.job)
    }

    fn next<E: serde::ser::Error>(&self) -> Result<Option<SubmitInfo>, E> {
        self.jobs.borrow_mut().next_submit().map_err(|error| {
            *self.error.borrow_mut() = Some(error);
            E::custom("the list of submissions ended early")
        })
    }
}

// Submits that came together, as those of a job file do: all that have the time of the first one. The one behind them is left in
// `following`.
struct Graph<'a, 'b> {
    first: &'a SubmitInfo,
    following: &'a RefCell<Option<SubmitInfo>>,
    rest: &'a SubmitArray<'b>,
}

impl Serialize for Graph<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("graph", &GraphParts(self))?;
        map.serialize_entry("submit_dir", &json::bytes(&self.first.submit_dir))?;
        map.serialize_entry("submitted_at", &json::time(self.first.submitted))?;
        map.end()
    }
}

struct GraphParts<'a, 'b>(&'a Graph<'a, 'b>);

impl Serialize for GraphParts<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let graph = self.0;
        let mut list = serializer.serialize_seq(None)?;
        list.serialize_element(&json::graph_part(graph.first, &graph.rest.paths(graph.first)))?;
        loop {
            let next = graph.following.take();
            let Some(submit) = next.as_ref().filter(|submit| submit.submitted == graph.first.submitted)
            else {
                graph.following.replace(next);
                return list.end();
            };
            list.serialize_element(&json::graph_part(submit, &graph.rest.paths(submit)))?;
            graph.following.replace(graph.rest.next::<S::Error>()?);
        }
    }
}

/// The tasks of a job, read while they are written. An error of the stream is left in `error`.
pub(super) struct TaskArray<'a, 'b> {
    pub job: JobId,
    /// With what their submits and entries say of each.
    pub is_detailed: bool,
    pub stream: &'a RefCell<&'a mut TaskStream>,
    /// Where those that failed are told of with what they left behind.
    pub left: &'b RefCell<Option<&'b mut LeftReader>>,
    pub error: &'a RefCell<Option<HqError>>,
    pub told: &'b RefCell<Told>,
}

/// What was told of tasks, together.
#[derive(Default)]
pub(super) struct Told {
    counters: Counters,
    last_end: Timestamp,
}

impl Told {
    fn add(&mut self, task: &TaskInfo) {
        let c = &mut self.counters;
        *match task.state {
            TaskState::Waiting => &mut c.waiting,
            TaskState::Running => &mut c.running,
            TaskState::Finished => &mut c.finished,
            TaskState::Failed => &mut c.failed,
            TaskState::Canceled => &mut c.canceled,
            TaskState::Aborted => &mut c.aborted,
        } += 1;
        self.last_end = self.last_end.max(task.ended.unwrap_or_default());
    }
}

impl Serialize for TaskArray<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut stream = self.stream.borrow_mut();
        loop {
            let next = stream.next_of(self.job).and_then(|next| {
                let Some(info) = next else { return Ok(None) };
                let left = left_by(self.left.borrow_mut().as_deref_mut(), &stream, self.job, &info)?;
                Ok(Some((info, left)))
            });
            match next {
                Ok(Some((info, left))) => {
                    self.told.borrow_mut().add(&info);
                    let paths = stream.paths_of(self.job, &info);
                    let submit = stream.submit_of(self.job, &info).filter(|_| self.is_detailed);
                    list.serialize_element(&json::Task {
                        task: &info,
                        submitted: submit.map(|submit| (self.job, &*submit.spec)),
                        paths: paths.as_ref(),
                        left: left.as_ref(),
                        alike: stream.alike(),
                    })?;
                }
                Ok(None) => return list.end(),
                Err(error) => {
                    *self.error.borrow_mut() = Some(error);
                    return Err(serde::ser::Error::custom("the list of tasks ended early"));
                }
            }
        }
    }
}
