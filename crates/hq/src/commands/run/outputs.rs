//! Where the outputs of a run went, said in a line for each channel.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use hq_client::Session;
use hq_core::client_messages::{ClientRequest, ClientResponse, JobPage, SubmitInfo};
use hq_model::job::TaskIds;
use hq_model::paths::PathTemplates;
use hq_model::{Channel, Entry, JobId, OnClose, Stream, Submit, TaskId, TaskRef, TaskSpec};

use crate::commands::unexpected;
use crate::error::HqError;
use crate::jobs::only;
use crate::report::Waited;

/// Where outputs go, with placeholders only for what differs between tasks.
pub(super) struct OutputPaths {
    spec: Arc<TaskSpec>,
    paths: PathTemplates,
    // Set when there is only one, with its entry if it has one.
    task: Option<(TaskId, Option<Entry<'static>>)>,
}

impl OutputPaths {
    /// Of a submit to the server of that name.
    pub(super) fn new(submit: &Submit, server_uid: &str) -> OutputPaths {
        let task = match &submit.ids {
            TaskIds::Given(ids) if ids.len() == 1 => ids.first(),
            TaskIds::Next(1) => Some(TaskId(0)),
            TaskIds::Given(_) | TaskIds::Next(_) => None,
        };
        let task = task.map(|task| (task, submit.entries.get(0).map(|entry| Entry::new(entry.to_vec()))));
        let paths = PathTemplates::new(&submit.spec, &submit.submit_dir, server_uid);
        OutputPaths { spec: Arc::clone(&submit.spec), paths, task }
    }

    /// Of a job that has one submit, as the server knows it.
    ///
    /// # Errors
    /// When the server is lost.
    pub(super) fn of_job(session: &mut Session, job: JobId) -> Result<Option<OutputPaths>, HqError> {
        let page = Some(JobPage { tasks: None, from: None });
        let ClientResponse::JobDetails { jobs, .. } =
            session.request(ClientRequest::JobInfo { jobs: only([job]), page })?
        else {
            return unexpected();
        };
        let submits = jobs.into_iter().next().map_or_else(Vec::new, |job| job.submits);
        let [SubmitInfo { ids, spec, submit_dir, .. }] = &submits[..] else { return Ok(None) };
        let paths = PathTemplates::new(spec, submit_dir, session.server_uid());
        let spec = Arc::clone(spec);
        if ids.len() != 1 {
            return Ok(Some(OutputPaths { spec, paths, task: None }));
        }
        let request = ClientRequest::ListTasks {
            jobs: only([job]),
            tasks: None,
            states: Vec::new(),
            after: None,
            limit: 1,
            grouped: false,
            with_entries: true,
        };
        let ClientResponse::Tasks { tasks, .. } = session.request(request)? else { return unexpected() };
        let task = tasks.into_iter().next().map(|(_, task)| (task.task, task.entry.map(Entry::new)));
        Ok(Some(OutputPaths { spec, paths, task }))
    }

    /// The paths of the job, but for files that have been removed again.
    pub(super) fn show(&self, waited: &Waited, job: JobId) -> Vec<(&'static str, String)> {
        let total: u64 = waited.jobs.iter().map(|job| job.counters.total()).sum();
        let all_finished = waited.all_finished() && total > 0;
        let paths = match &self.task {
            Some((task, entry)) => self.paths.expand(TaskRef::new(job, *task), None, entry.as_ref()),
            None => self.paths.expand_for_all(job),
        };
        let stream = self.paths.stream(job).map(|stream| {
            let name = if matches!(stream, Stream::Log(_)) { "Log" } else { "Stream" };
            (name, String::from_utf8_lossy(stream.path()).into_owned())
        });
        let files = [("Stdout", Channel::Stdout, paths.stdout), ("Stderr", Channel::Stderr, paths.stderr)]
            .into_iter()
            .filter_map(|(name, channel, path)| {
                let path = path?;
                let is_there = match self.spec.sink(channel).on_close() {
                    OnClose::Keep => true,
                    OnClose::RemoveIfFinished => !all_finished,
                    OnClose::RemoveIfEmpty => {
                        self.task.is_none() || Path::new(OsStr::from_bytes(&path)).exists()
                    }
                };
                is_there.then(|| (name, String::from_utf8_lossy(&path).into_owned()))
            });
        stream.into_iter().chain(files).collect()
    }
}
