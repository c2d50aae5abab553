//! Services: long-running tasks that say when those that wait for them may start, and what they are told.

use std::collections::BTreeMap;

use hq_model::dependency::{Dependencies, Mapping};
use hq_model::{ByteString, IdSet, JobId, TaskId};

use crate::server::state::State;
use crate::worker_messages::TemplateId;

/// Services that tasks wait for: their keys, and what they said.
pub(in crate::server) type Services = Vec<(ByteString, ByteString)>;

/// Divides tasks of a submit by the services that they wait for.
pub(in crate::server) fn by_services(state: &State, id: TemplateId, ids: &IdSet) -> Vec<(Services, IdSet)> {
    let alike = |services| vec![(services, ids.clone())];
    let Some(job) = state.jobs.get(&id.job) else { return alike(Services::new()) };
    let dependencies = &job.submits[id.submit as usize].dependencies;
    let has_services = |job: JobId| state.jobs.get(&job).is_some_and(|job| !job.ready.is_empty());
    let are_alike = dependencies.edges.is_empty()
        && job.deferred.is_empty()
        && dependencies.after.iter().all(|after| after.mapping == Mapping::All);
    if are_alike {
        return alike(services_of(state, dependencies));
    }
    let deferred = job.deferred.values().flatten();
    let mut others = dependencies.after.iter().chain(deferred).map(|after| after.job);
    if !has_services(id.job) && !others.any(has_services) {
        return alike(Services::new());
    }
    let mut parts: BTreeMap<Services, IdSet> = BTreeMap::new();
    for task in ids.iter() {
        let after = job.dependencies_of(id.job, task);
        let services = services_of(state, &Dependencies { after, ..Dependencies::default() });
        parts.entry(services).or_default().insert(task);
    }
    parts.into_iter().collect()
}

fn services_of(state: &State, dependencies: &Dependencies) -> Services {
    let mut found = Services::new();
    for after in &dependencies.after {
        let Some(job) = state.jobs.get(&after.job).filter(|job| !job.ready.is_empty()) else {
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
