//! Calls that return another call instead of a value: each ends when that does, with its value, and holds nothing meanwhile.
//!
//! For its worker such a call has ended. Here it is put back behind the one that it has returned, as tasks put themselves back, and
//! runs once more to give the value of that: whoever waits for it knows nothing of all this.

use hq_model::dependency::After;
use hq_model::left_behind::LeftBehind;
use hq_model::{IdSet, Instance, TaskRef, Timestamp, Usage, WorkerId};

use super::Effect;
use super::machine::Server;
use super::reports::part_of;
use crate::attempt::AttemptEnd;
use crate::record::{Failure, FailureKind, FinishedSpan, Record};

impl Server {
    /// The rest of what finished on a worker, if there is one, when those are put back that have returned calls.
    pub(super) fn without_returned_calls(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        span: FinishedSpan,
        effects: &mut Vec<Effect>,
    ) -> Option<FinishedSpan> {
        let returned = self.returned_calls(&span);
        if returned.is_empty() {
            return Some(span);
        }
        let mut rest = span.ids.clone();
        for (task, of) in returned {
            rest.remove(task.task);
            self.put_behind_returned(now, (worker, span.instance), task, of, effects);
        }
        (!rest.is_empty()).then(|| part_of(&span, rest))
    }

    // Which of them have returned calls, and which ones.
    fn returned_calls(&self, span: &FinishedSpan) -> Vec<(TaskRef, TaskRef)> {
        let Some(job) = self.state.jobs.get(&span.job) else { return Vec::new() };
        let of = |(task, result): (_, &[u8])| match LeftBehind::of(result) {
            LeftBehind::Packed(packed) => Some((TaskRef::new(span.job, task), packed.value_of?)),
            _ => None,
        };
        let found = span.ids.iter().zip(span.results.iter()).filter_map(of);
        let is_call =
            |task| job.submit_of(task).is_some_and(|at| job.submits[at as usize].task.body.is_packed_call());
        found.filter(|(task, _)| is_call(task.task)).collect()
    }

    fn put_behind_returned(
        &mut self,
        now: Timestamp,
        (worker, instance): (WorkerId, Instance),
        task: TaskRef,
        of: TaskRef,
        effects: &mut Vec<Effect>,
    ) {
        let single = IdSet::single(task.task);
        if self.has_second(task.job, task.task) {
            // The other attempt may still end with a value.
            return self.drop_attempt(now, task.job, task.task, instance, Some(AttemptEnd::PutBack), effects);
        }
        let after = After { tasks: Some(IdSet::single(of.task)), ..After::of(of.job) };
        let after = match self.readiness.deferral_of(&self.state, task, &[after]) {
            Ok(after) => after,
            Err(error) => {
                let failure = Failure {
                    task: task.task,
                    instance,
                    worker: Some(worker),
                    kind: FailureKind::Exit(1),
                    error: format!("It has returned call {of}, with whose value it cannot end: {error}"),
                    started: None,
                    usage: Usage::default(),
                    nodes: Vec::new(),
                    result: Vec::new(),
                    variant: None,
                };
                return self.fail(now, task.job, failure, effects);
            }
        };
        self.spend_on_lost(now, task.job, &single, effects);
        self.end_running(task.job, &single);
        let last = self.state.jobs[&task.job].by_last_instance(&single);
        let last = last.last().map_or(instance, |(last, _)| *last);
        let record = Record::Deferred {
            job: task.job,
            task: task.task,
            instance: Instance(last.0 + 1),
            after,
            not_before: None,
            value_of: Some(of),
        };
        self.record(now, record, effects);
        self.make_ready(task.job, &single);
    }
}
