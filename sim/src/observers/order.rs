//! A task starts only after every task that it waits for has succeeded: told from what workers say of them,
//! not from what the server believes. A worker that saw a task succeed may start the one that waits for it before it says
//! so; then its next report has to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hq_core::record::Record;
use hq_core::server::Effect;
use hq_core::server::state::State;
use hq_core::worker_messages::FromWorker;
use hq_model::dependency::{After, Condition, Dependencies, Mapping};
use hq_model::{IdSet, Instance, JobId, TaskRef};

/// What was submitted, and which tasks workers have finished.
#[derive(Debug, Default)]
pub struct Order {
    submits: BTreeMap<JobId, Vec<(IdSet, Arc<Dependencies>)>>,
    succeeded: BTreeMap<JobId, IdSet>,
    // What tasks wait for from an instance on.
    deferred: BTreeMap<TaskRef, (Instance, Vec<After>)>,
    // By worker process: successes that it has to report, and what it started because of them.
    owed: BTreeMap<(usize, u64), Vec<(TaskRef, TaskRef)>>,
    // The last report of each.
    numbers: BTreeMap<(usize, u64), u64>,
}

impl Order {
    /// A server accepts submits.
    pub fn persisted(&mut self, effects: &[Effect]) {
        let records = effects.iter().filter_map(|effect| match effect {
            Effect::Persist { record, .. } => Some(record),
            _ => None,
        });
        for record in records.flat_map(Record::parts) {
            // A machine that crashed forgot what was not synced: its ids are given again.
            if let Record::JobOpened { job, .. } | Record::Submitted { job, spec: Some(_), .. } = record {
                self.submits.remove(job);
                self.succeeded.remove(job);
                self.deferred.retain(|task, _| task.job != *job);
            }
            if let Record::ServiceReady { job, task, .. } = record {
                self.succeeded.entry(*job).or_default().insert(*task);
            }
            if let Record::Deferred { job, task, instance, after, .. } = record {
                self.deferred.insert(TaskRef::new(*job, *task), (*instance, after.clone()));
            }
            if let Record::Submitted { job, ids, dependencies, .. } = record {
                self.submits.entry(*job).or_default().push((ids.clone(), dependencies.clone()));
            }
        }
    }

    /// A server starts again. What was put back and not kept is not put back, and the ids of submits that were not kept
    /// are given again.
    pub fn restarted(&mut self, state: &State) {
        for (job, submits) in &mut self.submits {
            let known = state.jobs.get(job);
            submits.retain(|(ids, _)| known.is_some_and(|known| known.ids.contains_all(ids)));
        }
        let kept = |task: &TaskRef| state.jobs.get(&task.job)?.deferred.get(&task.task);
        // It may have been put back before, behind something else.
        self.deferred.retain(|task, (_, after)| kept(task).map(|kept| after.clone_from(kept)).is_some());
    }

    /// A worker says how tasks ended.
    ///
    /// # Errors
    /// When it started a task after another one, and does not say that this one succeeded.
    pub fn reported(&mut self, process: (usize, u64), message: &FromWorker) -> Result<(), String> {
        let FromWorker::Report(report) = message else { return Ok(()) };
        for span in &report.finished {
            self.succeeded.entry(span.job).or_default().union_with(&span.ids);
        }
        let number = self.numbers.entry(process).or_default();
        if report.number <= *number {
            return Ok(());
        }
        *number = report.number;
        let owed = self.owed.remove(&process).unwrap_or_default();
        owed.into_iter().try_for_each(|(task, target)| self.demand(task, target))
    }

    /// A process for a task was started.
    ///
    /// # Errors
    /// When a task that it waits for has not succeeded.
    pub fn started(
        &mut self,
        process: (usize, u64),
        task: TaskRef,
        instance: Instance,
    ) -> Result<(), String> {
        let missing = self.missing(task, instance);
        // Not told yet, as it seems, by who starts this one.
        if let (1, Some(&target)) = (missing.len(), missing.first())
            && target.job == task.job
        {
            self.owed.entry(process).or_default().push((task, target));
            return Ok(());
        }
        missing.into_iter().try_for_each(|target| self.demand(task, target))
    }

    // What it waits for that is not known to have succeeded.
    fn missing(&self, task: TaskRef, instance: Instance) -> BTreeSet<TaskRef> {
        let mut targets = BTreeSet::new();
        if let Some((from, after)) = self.deferred.get(&task)
            && instance >= *from
        {
            for after in after.iter().filter(|after| after.condition == Condition::Success) {
                let tasks = after.tasks.iter().flat_map(IdSet::iter);
                targets.extend(tasks.map(|target| TaskRef::new(after.job, target)));
            }
        }
        let submits = self.submits.get(&task.job).into_iter().flatten();
        for (ids, dependencies) in submits.filter(|submit| submit.0.contains(task.task)) {
            let place = ids.rank(task.task).unwrap_or(0);
            let edges = dependencies.edges.of(place as usize).iter();
            targets.extend(edges.map(|target| TaskRef::new(task.job, *target)));
            for after in dependencies.after.iter().filter(|after| after.condition == Condition::Success) {
                let Some(tasks) = &after.tasks else { continue };
                let tasks = match after.mapping {
                    Mapping::All => tasks.clone(),
                    Mapping::Window(size) => {
                        tasks.slice(place.saturating_sub(size.into()), place.saturating_add(size.into()))
                    }
                };
                targets.extend(tasks.iter().map(|target| TaskRef::new(after.job, target)));
            }
        }
        targets.retain(|target| self.demand(task, *target).is_err());
        targets
    }

    fn demand(&self, task: TaskRef, target: TaskRef) -> Result<(), String> {
        match self.succeeded.get(&target.job) {
            Some(succeeded) if succeeded.contains(target.task) => Ok(()),
            _ => Err(format!("task {task} was started, and {target}, for which it waits, has not succeeded")),
        }
    }
}
