//! How a task has ended, from what its processes did and why they were ended: what the server is told of it.

use std::time::Duration;

use hq_model::left_behind::LeftBehind;
use hq_model::{ByteString, IdSet, TaskRef, Timestamp, Usage};

use super::{Ending, Running, Worker};
use crate::object_messages::Unfetched;
use crate::record::{Failure, FailureKind};
use crate::worker::outside::Outside;
use crate::worker::{Effect, Outcome};
use crate::worker_messages::Started;

impl Worker {
    pub(in crate::worker) fn task_ended(
        &mut self,
        now: Timestamp,
        task: TaskRef,
        outcome: Outcome,
        (usage, result): (Usage, ByteString),
        effects: &mut Vec<Effect>,
    ) {
        let Some(mut run) = self.running.remove(&task) else { return };
        self.last_end = now;
        self.lending.ended(task);
        self.reading.ended(task, &run, effects);
        let known = self.templates.get(&run.template);
        let packed = known.filter(|known| known.template.spec.body.is_packed_call());
        if let Some(known) = packed
            && has_called_others(&result)
        {
            self.runners.calls_others(&known.template, effects);
        }
        let is_awaited = packed.is_some();
        // Where ranks are idle until the server hears of it, nothing is gained by waiting for more to say.
        if is_awaited || run.runner.is_some() && !run.ranks.is_empty() {
            self.reporting.await_report();
        }
        let is_success = run.ending.is_none() && !run.is_part && matches!(outcome, Outcome::Finished);
        if !run.has_exited {
            // What began at another end is known a little later than it began.
            let took =
                if usage.wall_us > 0 { Duration::from_micros(usage.wall_us) } else { now.since(run.since) };
            self.hand_on(now, &mut run, is_success, took);
        }
        run.ranks.iter().for_each(|rank| self.pools.free(rank));
        self.deadlines.remove_all(task);
        self.leader_ended(task, is_success.then_some(&result));
        let single = IdSet::single(task.task);
        match &outcome {
            Outcome::NotStarted(reason) => {
                self.node_fault.begin(now, reason.clone());
                self.give_back(effects);
            }
            Outcome::Unfetched { .. } => {}
            Outcome::Finished | Outcome::Failed(..) => self.node_fault.ran(run.since),
        }
        let (kind, error) = match (run.ending, outcome) {
            (Some(Ending::Superseded), _) => return,
            (Some(Ending::Canceled), Outcome::Finished | Outcome::Failed(..)) if !run.is_part => {
                let Running { instance, variant, since: at, .. } = run;
                let start = Started { job: task.job, task: task.task, instance, at, variant };
                return self.reporting.canceled_running(start);
            }
            (Some(Ending::Canceled | Ending::Elsewhere), _) => {
                return self.reporting.canceled(task.job, &single);
            }
            // Nothing of it is an end of the task.
            _ if run.is_part => return self.reporting.interrupted(task.job, &single),
            (
                Some(Ending::Stopped),
                Outcome::Failed(..) | Outcome::NotStarted(_) | Outcome::Unfetched { .. },
            ) => {
                return self.reporting.interrupted(task.job, &single);
            }
            (Some(Ending::Timeout), _) => (FailureKind::Timeout, "Time limit reached".to_owned()),
            (None | Some(Ending::Stopped), Outcome::Finished) => {
                return self.reporting.finished(task, (run.instance, run.variant), run.since, usage, result);
            }
            (None, Outcome::Unfetched { object, holders, reason, wanted }) => {
                let unfetched = Unfetched { task, instance: run.instance, object, holders, reason, wanted };
                match &mut self.storing {
                    Some(storing) => storing.unfetched(unfetched),
                    None => self.reporting.returned(task.job, &single),
                }
                return;
            }
            (None, Outcome::NotStarted(_)) => return self.reporting.returned(task.job, &single),
            (None, Outcome::Failed(kind, error)) => (kind, error),
        };
        let result = if run.ending.is_none() { result } else { ByteString::new() };
        let failure = Failure {
            task: task.task,
            instance: run.instance,
            worker: None,
            kind,
            error,
            started: Some(run.since),
            usage,
            nodes: Vec::new(),
            result,
            variant: run.variant,
        };
        if self.config.allocation.is_some() && self.leaving.is_none() && Outside::may_cause(kind) {
            self.outside.hold(now, task.job, failure);
        } else {
            self.reporting.failed(task.job, failure);
        }
    }
}

// What it returned are calls that it has made, or values that it has put.
fn has_called_others(result: &[u8]) -> bool {
    matches!(LeftBehind::of(result), LeftBehind::Packed(left) if left.value_of.is_some() || left.has_references)
}
