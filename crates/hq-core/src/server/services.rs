//! Services: long-running tasks that say when those that wait for them may start, and what they are told.

use std::collections::BTreeMap;

use hq_model::dependency::{Dependencies, Mapping};
use hq_model::{ByteString, IdSet, JobId, TaskId, TaskRef, Timestamp};

use super::Effect;
use super::machine::{Answer, Server};
use crate::client_messages::{ClientResponse, RequestError};
use crate::limits::NOTIFY_TEXT_MAX;
use crate::record::Record;
use crate::worker_messages::TemplateId;

/// Services that tasks wait for: their keys, and what they said.
pub(super) type Services = Vec<(ByteString, ByteString)>;

impl Server {
    /// A service says that it is ready; saying it again replaces the text.
    pub(super) fn ready(
        &mut self,
        now: Timestamp,
        task: TaskRef,
        instance: hq_model::Instance,
        text: &[u8],
        effects: &mut Vec<Effect>,
    ) -> Answer {
        self.check_speaker(task, instance)?;
        let job = &self.state.jobs[&task.job];
        let submit = job.submit_of(task.task).map(|submit| &job.submits[submit as usize]);
        if !submit.is_some_and(|submit| submit.task.service) {
            return Err(RequestError::NoService(task));
        }
        if text.len() > NOTIFY_TEXT_MAX || text.contains(&0) {
            let text = format!("What a service says is a text of {NOTIFY_TEXT_MAX} bytes at most.");
            return Err(RequestError::Invalid(text));
        }
        if job.ready.get(&task.task).is_none_or(|said| said != text) {
            let record = Record::ServiceReady { job: task.job, task: task.task, text: text.to_vec() };
            self.record(now, record, effects);
        }
        Ok(ClientResponse::Done)
    }

    /// Divides tasks of a submit by the services that they wait for.
    pub(super) fn by_services(&self, id: TemplateId, ids: &IdSet) -> Vec<(Services, IdSet)> {
        let alike = |services| vec![(services, ids.clone())];
        let Some(job) = self.state.jobs.get(&id.job) else { return alike(Services::new()) };
        let dependencies = &job.submits[id.submit as usize].dependencies;
        let has_services = |job: JobId| self.state.jobs.get(&job).is_some_and(|job| !job.ready.is_empty());
        let are_alike = dependencies.edges.is_empty()
            && job.deferred.is_empty()
            && dependencies.after.iter().all(|after| after.mapping == Mapping::All);
        if are_alike {
            return alike(self.services_of(dependencies));
        }
        let deferred = job.deferred.values().flatten();
        let mut others = dependencies.after.iter().chain(deferred).map(|after| after.job);
        if !has_services(id.job) && !others.any(has_services) {
            return alike(Services::new());
        }
        let mut parts: BTreeMap<Services, IdSet> = BTreeMap::new();
        for task in ids.iter() {
            let after = job.dependencies_of(id.job, task);
            let services = self.services_of(&Dependencies { after, ..Dependencies::default() });
            parts.entry(services).or_default().insert(task);
        }
        parts.into_iter().collect()
    }

    fn services_of(&self, dependencies: &Dependencies) -> Services {
        let mut found = Services::new();
        for after in &dependencies.after {
            let Some(job) = self.state.jobs.get(&after.job).filter(|job| !job.ready.is_empty()) else {
                continue;
            };
            let is_meant = |task: TaskId| after.tasks.as_ref().is_none_or(|tasks| tasks.contains(task));
            for (task, text) in job.ready.iter().filter(|(task, _)| is_meant(**task)) {
                let key = job.key_of(*task).map_or_else(|| task.to_string().into_bytes(), <[u8]>::to_vec);
                found.push((key, text.clone()));
            }
        }
        found
    }
}
