//! What a worker is given: some tasks of a template, as the same attempt, and the words in which it is told.

use std::borrow::Cow;
use std::time::Duration;

use hq_model::task::CrashLimit;
use hq_model::{Entries, IdSet, Instance, TaskId, TaskRef, WorkerId};

use super::job::{Job, SubmitState};
use super::machine::Server;
use super::readiness::Services;
use super::state::State;
use super::{Effect, Gate};
use crate::limits::CALL_INPUTS_BYTES_MAX;
use crate::object_messages::TaskObjects;
use crate::worker_messages::{CallInput, RunBatch, TaskNode, Template, TemplateId, ToWorker};

/// Tasks of one template and instance that a worker gets. What is the same for all tasks of the template is looked up
/// when the worker is told.
pub(super) struct Lease {
    /// The template.
    pub(super) template: TemplateId,
    /// The tasks.
    pub(super) ids: IdSet,
    /// Their instance.
    pub(super) instance: Instance,
    /// As which variant of their requests they were placed into free room; `None` while they wait there for some.
    pub(super) variant: Option<u32>,
    /// As [`RunBatch::head_start`].
    pub(super) head_start: Duration,
    /// The services that they have waited for.
    pub(super) services: Services,
    /// Of a follower: the task that must end well there before, and its instance.
    pub(super) after: Option<(TaskId, Instance)>,
    /// Of a task on several nodes: as [`RunBatch::nodes`].
    pub(super) nodes: Vec<TaskNode>,
    /// What they take, where whoever is told this runs them.
    pub(super) objects: Vec<TaskObjects>,
}

impl Lease {
    /// Of tasks that have waited for no service, take no object, wait for room on one worker and have no head start there.
    pub(super) fn of(template: TemplateId, ids: IdSet, instance: Instance) -> Lease {
        Lease {
            template,
            ids,
            instance,
            variant: None,
            head_start: Duration::ZERO,
            services: Services::new(),
            after: None,
            nodes: Vec::new(),
            objects: Vec::new(),
        }
    }
}

impl Server {
    /// A lease as its worker is told of it: with the template where it has not got it yet, with the entries of the tasks,
    /// and with what their calls take. Nothing where there is no such worker.
    pub(super) fn told(&mut self, worker: WorkerId, lease: Lease) -> Option<RunBatch> {
        let Lease { template, ids, instance, variant, head_start, services, after, nodes, objects } = lease;
        let submit = &self.state.jobs.get(&template.job)?.submits[template.submit as usize];
        let is_new = self.live.get_mut(&worker)?.learns(template);
        let content = is_new.then(|| Template {
            id: template,
            spec: submit.task.clone(),
            submit_dir: submit.submit_dir.clone(),
            submitted: submit.submitted,
            has_siblings: submit.ids.len() > 1,
        });
        let entries = entries_of(&self.state.jobs[&template.job], submit, &ids);
        // Of the workers of a task on several nodes the first one runs the program.
        let runs_here = nodes.first().is_none_or(|first| first.worker == worker);
        let inputs = if runs_here { inputs_of(&self.state, template, &ids) } else { Vec::new() };
        Some(RunBatch {
            template,
            content,
            ids,
            instance,
            entries,
            nodes,
            services,
            after,
            variant,
            head_start,
            inputs,
            objects,
        })
    }

    /// Tells a worker what it has to run. One that is away learns it from nobody: it is asked what it holds when it is back.
    pub(super) fn send_run(
        &self,
        worker: WorkerId,
        run: Vec<RunBatch>,
        gate: Gate,
        effects: &mut Vec<Effect>,
    ) {
        let connection = self.live.get(&worker).and_then(|live| live.connection);
        if let Some(connection) = connection.filter(|_| !run.is_empty()) {
            effects.push(Effect::ToWorker { connection, message: ToWorker::Run(run), gate });
        }
    }

    /// What must have happened before tasks of these templates leave: where a lease could be forgotten, a task could
    /// start twice.
    pub(super) fn gate_of_run<'a>(&self, templates: impl IntoIterator<Item = &'a TemplateId>) -> Gate {
        match templates.into_iter().any(|template| self.never_runs_twice(*template)) {
            true => Gate::Synced,
            false => Gate::Written,
        }
    }

    pub(super) fn never_runs_twice(&self, template: TemplateId) -> bool {
        let submit = self.state.jobs.get(&template.job).map(|job| &job.submits[template.submit as usize]);
        submit.is_some_and(|submit| submit.task.crash_limit == CrashLimit::NeverRestart)
    }
}

/// The entries of some tasks of a submit. One that has returned another call, and is to give the value of that, has an entry that
/// names it: `F`, its job and its task.
fn entries_of(job: &Job, submit: &SubmitState, ids: &IdSet) -> Entries {
    let entries = submit.entries_of(ids);
    if !job.values_of.keys().any(|task| ids.contains(*task)) {
        return entries;
    }
    let named = |task: TaskId| {
        let of = job.values_of.get(&task)?;
        Some([&b"F"[..], &of.job.0.to_le_bytes(), &of.task.0.to_le_bytes()].concat())
    };
    let all: Vec<Cow<'_, [u8]>> = (ids.iter().zip(entries.iter()))
        .map(|(task, entry)| named(task).map_or(Cow::Borrowed(entry), Cow::Owned))
        .collect();
    Entries::new(all.iter().map(|entry| &**entry)).unwrap_or_default()
}

/// What others have left behind that some tasks of a submit wait for, as far as it may be among their arguments.
fn inputs_of(state: &State, template: TemplateId, ids: &IdSet) -> Vec<CallInput> {
    let mut inputs = Vec::new();
    let Some(job) = state.jobs.get(&template.job) else { return inputs };
    let submit = &job.submits[template.submit as usize];
    if !submit.task.body.is_packed_call()
        || (submit.dependencies.is_empty() && job.deferred.is_empty() && job.values_of.is_empty())
    {
        return inputs;
    }
    for task in ids.iter() {
        let mut room = CALL_INPUTS_BYTES_MAX;
        for after in job.dependencies_of(template.job, task) {
            let Some(tasks) = after.tasks else { continue };
            let (found, results, _) = state.results.page(after.job, &tasks, &mut room);
            let results = found.iter().zip(results);
            inputs.extend(results.map(|(of, result)| CallInput {
                task,
                of: TaskRef::new(after.job, of),
                result: result.to_vec(),
            }));
        }
    }
    inputs
}
