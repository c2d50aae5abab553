//! What workers get in one settling: it is put together, sent, or taken back before it was sent.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hq_model::task::CrashLimit;
use hq_model::{IdSet, TaskRef, Timestamp, WorkerId};

use crate::limits::CALL_INPUTS_BYTES_MAX;
use crate::object_messages::TaskObjects;
use crate::record::Record;
use crate::server::machine::Server;
use crate::server::readiness::Services;
use crate::server::state::State;
use crate::server::{Effect, Gate};
use crate::worker_messages::{CallInput, RunBatch, Template, TemplateId, ToWorker};

/// Tasks of a template, as the variant as which they were placed; nothing is said of what waits, which comes last.
pub(in crate::server) type Lot = (TemplateId, Reverse<Option<u32>>);

/// What each worker gets in one settling.
pub(in crate::server) type Batches = BTreeMap<WorkerId, BTreeMap<Lot, IdSet>>;

impl Server {
    /// What was to be handed out is ready again.
    pub(super) fn take_back(&mut self, batches: Batches) {
        let mut returned = Vec::new();
        for (worker, lots) in batches {
            for ((template, _), ids) in lots {
                let Some(live) = self.live.get_mut(&worker) else { break };
                live.drop_held(template, &ids);
                if let Some(&class) = self.classes.get(&template) {
                    self.queue_up(class, template, &ids);
                    returned.push((class, ids.len()));
                }
            }
        }
        returned.into_iter().for_each(|(class, count)| self.give_share_back(class, count));
    }

    /// Hands it out. Says whether what waits on a worker keeps other room from others now.
    pub(super) fn send(&mut self, now: Timestamp, batches: Batches, effects: &mut Vec<Effect>) -> bool {
        let mut lets_room = false;
        for (worker, lots) in batches {
            // What waits there may fit as another variant, and leave to others what it has waited for.
            if self.presume_starts(now, worker) {
                self.changes.of_worker(worker);
                lets_room = true;
            }
            let mut run = Vec::new();
            let gate = self.gate_of_run(lots.keys().map(|lot| &lot.0));
            // A worker starts what comes first: what has room goes before what waits, whatever their templates.
            let (placed, waits): (Vec<_>, Vec<_>) = lots.into_iter().partition(|(lot, _)| lot.1.0.is_some());
            for ((template, variant), ids) in placed.into_iter().chain(waits) {
                self.lease(now, worker, (template, variant), &ids, &mut run, effects);
                self.may_lead(worker, template.job, &ids);
                self.may_be_late(worker, template);
            }
            if let Some(connection) = self.live.get(&worker).and_then(|live| live.connection) {
                let message = ToWorker::Run(run);
                effects.push(Effect::ToWorker { connection, message, gate });
            }
        }
        lets_room
    }

    /// What must have happened before tasks of these templates leave: where a lease could be forgotten, a task could
    /// start twice.
    pub(in crate::server) fn gate_of_run<'a>(
        &self,
        templates: impl IntoIterator<Item = &'a TemplateId>,
    ) -> Gate {
        match templates.into_iter().any(|template| self.never_runs_twice(*template)) {
            true => Gate::Synced,
            false => Gate::Written,
        }
    }

    pub(super) fn never_runs_twice(&self, template: TemplateId) -> bool {
        let submit = self.state.jobs.get(&template.job).map(|job| &job.submits[template.submit as usize]);
        submit.is_some_and(|submit| submit.task.crash_limit == CrashLimit::NeverRestart)
    }

    pub(in crate::server) fn lease(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        (template, Reverse(variant)): Lot,
        ids: &IdSet,
        run: &mut Vec<RunBatch>,
        effects: &mut Vec<Effect>,
    ) {
        let job = template.job;
        let parts = self.by_services(template, ids);
        let objects = self.objects_for(worker, template, ids);
        self.record(now, Record::Leased { worker, job, ids: ids.clone() }, effects);
        let state = &self.state.jobs[&job];
        let submit = &state.submits[template.submit as usize];
        let Some(live) = self.live.get_mut(&worker) else { return };
        let by_instance = |(services, ids): (Services, IdSet)| {
            let parts = state.by_instance(&ids);
            parts.into_iter().map(move |(instance, ids)| (services.clone(), instance, ids))
        };
        for (services, instance, ids) in parts.into_iter().flat_map(by_instance) {
            let content = live.templates.insert(template).then(|| Template {
                id: template,
                spec: submit.task.clone(),
                submit_dir: submit.submit_dir.clone(),
                submitted: submit.submitted,
            });
            let entries = submit.entries_of(&ids);
            let inputs = inputs_of(&self.state, template, &ids);
            let objects = TaskObjects::of(&objects, &ids);
            run.push(RunBatch {
                template,
                content,
                ids,
                instance,
                entries,
                nodes: Vec::new(),
                services,
                after: None,
                variant,
                inputs,
                objects,
            });
        }
    }
}

/// Puts what workers get together.
pub(super) fn join(batches: &mut Batches, more: Batches) {
    for (worker, lots) in more {
        let batch = batches.entry(worker).or_default();
        for (lot, ids) in lots {
            batch.entry(lot).or_default().union_with(&ids);
        }
    }
}

/// What others have left behind that some tasks of a submit wait for, as far as it may be among their arguments.
pub(in crate::server) fn inputs_of(state: &State, template: TemplateId, ids: &IdSet) -> Vec<CallInput> {
    let mut inputs = Vec::new();
    let Some(job) = state.jobs.get(&template.job) else { return inputs };
    let submit = &job.submits[template.submit as usize];
    if !submit.task.body.is_packed_call() || submit.dependencies.is_empty() {
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
