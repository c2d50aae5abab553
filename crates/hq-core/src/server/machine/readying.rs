//! What becomes ready and what can never be, once a batch of inputs is heard.

use hq_model::dependency::Dependencies;
use hq_model::{ByteString, IdSet, JobId, Submit, TaskId, Timestamp};

use super::Server;
use crate::client_messages::RequestError;
use crate::record::Record;
use crate::server::Effect;
use crate::server::readiness::{self, Outcome, Services};
use crate::worker_messages::TemplateId;

impl Server {
    /// Takes in the ends of tasks and files that were found: those that waited become ready, or will never run.
    pub(in crate::server) fn resolve_dependencies(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        for (job, ids) in self.readiness.take_found() {
            self.make_ready(job, &ids);
        }
        while let Some((ending, Outcome { ready, doomed })) = self.readiness.next_ending(&self.state) {
            for (job, ids) in doomed {
                let reason = readiness::because_of(&ending, job, ids.len());
                self.end_by(now, Record::Aborted { job, ids: ids.clone(), reason }, &ids, effects);
                self.forget_if_over(job);
            }
            for (job, ids) in ready {
                let ids = self.not_followers(now, job, ids);
                self.make_ready(job, &ids);
            }
        }
    }

    /// Tasks whose delays have ended are ready.
    pub(super) fn end_delays(&mut self, now: Timestamp) {
        while let Some(task) = self.readiness.next_delayed(now) {
            self.make_ready(task.job, &IdSet::single(task.task));
        }
    }

    /// Says which files to look for, when they are others than before.
    pub(super) fn watch_files(&mut self, effects: &mut Vec<Effect>) {
        if let Some(paths) = self.readiness.files_to_watch(&self.state) {
            effects.push(Effect::WatchFiles { paths });
        }
    }

    /// Files exist.
    pub(super) fn files_found(&mut self, now: Timestamp, paths: &[ByteString], effects: &mut Vec<Effect>) {
        for (job, files) in self.readiness.jobs_with_files(paths) {
            let files = files.into_iter().collect();
            self.record(now, Record::FilesFound { job, files }, effects);
        }
    }

    /// Checks what new tasks are to wait for, and says it in the form that is kept.
    pub(in crate::server) fn dependencies_of(
        &self,
        job: JobId,
        ids: &IdSet,
        wanted: &Dependencies,
    ) -> Result<Dependencies, RequestError> {
        self.readiness.dependencies_of(&self.state, job, ids, wanted)
    }

    /// Those tasks of a submit with keys that the job has already, by their places in the submit, ascending.
    ///
    /// # Errors
    /// When a key is none, is given twice, or names a task that is defined in another way.
    pub(in crate::server) fn existing(
        &self,
        job: JobId,
        submit: &Submit,
    ) -> Result<Vec<(u32, TaskId)>, RequestError> {
        readiness::existing(&self.state, job, submit)
    }

    /// Divides tasks of a submit by the services that they wait for.
    pub(in crate::server) fn by_services(&self, id: TemplateId, ids: &IdSet) -> Vec<(Services, IdSet)> {
        readiness::by_services(&self.state, id, ids)
    }

    /// How many tasks a task was to wait for, whether they have ended or not.
    pub(in crate::server) fn dependency_count(&self, job: JobId, task: TaskId) -> u64 {
        readiness::dependency_count(&self.state, job, task)
    }

    /// What a task that has not started waits for: tasks that have not ended as they must, and jobs that are open.
    pub(in crate::server) fn unresolved(&self, job: JobId, task: TaskId) -> Vec<(JobId, IdSet)> {
        readiness::unresolved(&self.state, job, task)
    }

    /// Files that a task waits for.
    pub(in crate::server) fn files_missing(&self, job: JobId, task: TaskId) -> Vec<ByteString> {
        readiness::files_missing(&self.state, job, task)
    }
}
