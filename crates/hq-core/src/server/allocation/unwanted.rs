//! Allocations that are ended because nobody wants them any more: their queue is removed, the server stops, their workers have
//! left, or all tasks are over and no worker of them has come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hq_model::allocation::{BatchState, QueueParams};
use hq_model::{AllocationRef, JobId, TaskId, TaskRef, Timestamp, duration};

use crate::alloc::{Allocation, BatchOrder, QueueState};
use crate::client_messages::RequestError;
use crate::limits::{CANCEL_RETRY, LEFT_NAMED_MAX, UNNEEDED_TIME, WIND_UP_TIME};
use crate::record::NEVER;
use crate::server::job::Job;
use crate::server::machine::Server;
use crate::server::{Effect, Gate};

/// Allocations that are being canceled, and those of which the batch system refused that.
#[derive(Debug, Default)]
pub(super) struct Cancels {
    ordered: BTreeSet<AllocationRef>,
    refused: BTreeMap<AllocationRef, Refused>,
}

/// A batch system did not cancel an allocation.
#[derive(Clone, Debug)]
struct Refused {
    again_at: Timestamp,
    /// From the refusal until then.
    wait: Duration,
    error: String,
}

impl Cancels {
    /// True while a batch system has not answered.
    pub(super) fn awaits_answer(&self) -> bool {
        !self.ordered.is_empty()
    }

    /// It was not canceled, and is tried again later.
    pub(super) fn refused(&mut self, now: Timestamp, which: AllocationRef, error: String) {
        self.ordered.remove(&which);
        let before = self.refused.get(&which).map(|refused| refused.wait);
        let wait = before.map_or(CANCEL_RETRY.0, |wait| (wait * 2).min(CANCEL_RETRY.1));
        self.refused.insert(which, Refused { again_at: now.after(wait), wait, error });
    }

    /// Somebody asks: nothing is waited for.
    pub(super) fn try_at_once(&mut self) {
        self.refused.clear();
    }

    /// When what was refused is tried again.
    pub(super) fn tried_again_at(&self) -> impl Iterator<Item = Timestamp> + '_ {
        self.refused.values().map(|refused| refused.again_at)
    }

    /// It has ended.
    pub(super) fn forget(&mut self, which: AllocationRef) {
        self.ordered.remove(&which);
        self.refused.remove(&which);
    }

    /// Why an allocation that was to be canceled may go on.
    fn why_left(&self, which: AllocationRef) -> Option<String> {
        match self.refused.get(&which) {
            Some(refused) => Some(refused.error.clone()),
            None => self.ordered.contains(&which).then(|| "it has not answered".to_owned()),
        }
    }

    fn is_due(&self, now: Timestamp, which: AllocationRef) -> bool {
        !self.ordered.contains(&which)
            && self.refused.get(&which).is_none_or(|refused| refused.again_at <= now)
    }
}

impl Server {
    pub(super) fn cancel_removed(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.cancel_where(now, |_, queue| queue.is_removed, effects);
    }

    /// The server stops, and its allocations with it.
    pub(in crate::server) fn cancel_allocations(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if !self.options.keep_allocations {
            self.alloc.cancels.try_at_once();
            self.cancel_where(now, |_, _| true, effects);
        }
    }

    /// What was to be canceled and may go on when the server ends now: for each batch system and what it said, the allocations
    /// and what cancels them.
    pub(in crate::server) fn left_outside(&self) -> Vec<RequestError> {
        let mut left: BTreeMap<(&str, String), Vec<(AllocationRef, &str)>> = BTreeMap::new();
        for (which, queue, one) in self.state.alloc.active() {
            if let (Some(id), Some(why)) = (&one.batch_id, self.alloc.cancels.why_left(which)) {
                left.entry((&queue.params.manager, why)).or_default().push((which, id));
            }
        }
        let told = left.into_iter().map(|((manager, why), ids)| left_told(manager, &why, &ids));
        let unanswered = self.state.alloc.active().filter(|(which, _, one)| {
            one.batch_id.is_none() && self.alloc.in_flight.contains(which) && !self.options.keep_allocations
        });
        let may_come = unanswered.map(|(which, queue, _)| may_come(which, &queue.params));
        told.chain(may_come).map(RequestError::Invalid).collect()
    }

    /// A batch job that goes on and on when its workers have left keeps its nodes for nothing.
    pub(super) fn cancel_deserted(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let is_due = |(which, _, one): &(AllocationRef, &QueueState, &Allocation)| {
            self.canceled_at(*which, one).is_some_and(|at| at <= now)
        };
        let due: BTreeSet<_> = self.state.alloc.active().filter(is_due).map(|(which, ..)| which).collect();
        for which in self.cancel_where(now, |which, _| due.contains(&which), effects) {
            let time = duration::format(WIND_UP_TIME);
            let text =
                format!("allocation {which} is canceled: it goes on {time} after its last worker left");
            self.alloc.note(now, which.queue, text);
        }
    }

    /// When an allocation is canceled whose workers have all left and of which the batch system said since that it runs.
    pub(super) fn canceled_at(&self, which: AllocationRef, one: &Allocation) -> Option<Timestamp> {
        let (left, _) = one.last_left.filter(|_| one.is_deserted() && one.lost == 0)?;
        let (seen, said) = self.alloc.seen.get(&which)?;
        let runs = matches!(said.state, BatchState::Running | BatchState::Suspended);
        (*seen > left && runs).then(|| left.after(WIND_UP_TIME))
    }

    // Says which are canceled now; those remain that are being canceled, or are tried again later.
    fn cancel_where(
        &mut self,
        now: Timestamp,
        is_unwanted: impl Fn(AllocationRef, &QueueState) -> bool,
        effects: &mut Vec<Effect>,
    ) -> Vec<AllocationRef> {
        let mut orders: BTreeMap<String, Vec<(AllocationRef, String)>> = BTreeMap::new();
        let mut canceled = Vec::new();
        for (which, queue, one) in self.state.alloc.active() {
            if let Some(id) = one.batch_id.clone()
                && is_unwanted(which, queue)
                && self.alloc.cancels.is_due(now, which)
            {
                self.alloc.cancels.ordered.insert(which);
                orders.entry(queue.params.manager.clone()).or_default().push((which, id));
                canceled.push(which);
            }
        }
        for (manager, allocations) in orders {
            effects.push(Effect::Batch {
                order: BatchOrder::Cancel { manager, allocations },
                gate: Gate::Synced,
            });
        }
        canceled
    }

    // An allocation that would get nothing of what waits would start later and idle until its idle timeout. When that has
    // been so for as long, it is canceled: it may have waited for hours, and the next tasks may come in a moment. So is one
    // that runs and whose workers do not come. While tasks wait for others, nobody knows what they will need.
    pub(super) fn cancel_unneeded(
        &mut self,
        now: Timestamp,
        is_unneeded: impl Fn(AllocationRef) -> bool,
        effects: &mut Vec<Effect>,
    ) {
        let waits = |(_, queue, one): &(AllocationRef, &QueueState, &Allocation)| {
            one.batch_id.is_some() && one.joined == 0 && !(one.is_waiting() && queue.params.keep_waiting)
        };
        // Jobs may be many, and mostly no allocation waits.
        let is_over = self.state.alloc.active().any(|one| waits(&one))
            && self.state.jobs.iter().all(|(id, job)| job.tasks_ended() || self.is_in_sight(*id, job));
        let known = std::mem::take(&mut self.alloc.unneeded);
        let (mut unneeded, mut due) = (BTreeMap::new(), BTreeSet::new());
        for (which, queue, one) in self.state.alloc.active().filter(|one| is_over && waits(one)) {
            if !is_unneeded(which) {
                continue;
            }
            let since = known.get(&which).copied().unwrap_or(now).max(one.started.unwrap_or_default());
            unneeded.insert(which, since);
            if since.after(queue.params.idle_timeout.unwrap_or(UNNEEDED_TIME)) <= now {
                due.insert(which);
            }
        }
        self.alloc.unneeded = unneeded;
        for which in self.cancel_where(now, |which, _| due.contains(&which), effects) {
            let is_waiting = self.state.alloc.allocation(which).is_some_and(Allocation::is_waiting);
            let how = if is_waiting { "while it waits" } else { "no worker of it has come" };
            let text = format!("allocation {which} is canceled: {how}, and nothing is left for it to do");
            self.alloc.note(now, which.queue, text);
        }
    }

    // All tasks of a job that have not ended run, or could.
    fn is_in_sight(&self, id: JobId, job: &Job) -> bool {
        let is_blocked = self.readiness.blocked(id).is_some_and(|blocked| !blocked.is_empty());
        let waits_for_time = |(task, at): (&TaskId, &Timestamp)| {
            *at == NEVER && self.readiness.waits_for_time(TaskRef::new(id, *task))
        };
        !job.is_open && !job.is_draft() && !is_blocked && job.delayed.iter().all(waits_for_time)
    }
}

// Of a submission that has not been answered.
fn may_come(which: AllocationRef, params: &QueueParams) -> String {
    let name = params.job_name(which);
    let remedy = match params.manager.as_str() {
        "slurm" => format!("`squeue --name={name}` shows it if so, and `scancel --name={name}` cancels it"),
        "pbs" => format!("`qselect -N {name}` shows its id if so, and `qdel` with that cancels it"),
        other => format!("look for the batch job `{name}` with the commands of `{other}`, and cancel it"),
    };
    format!(
        "Allocation {which} was being submitted: the batch system has not said whether it took it, and may start it. {remedy}."
    )
}

fn left_told(manager: &str, why: &str, left: &[(AllocationRef, &str)]) -> String {
    let named: Vec<String> =
        left.iter().take(LEFT_NAMED_MAX).map(|(which, id)| format!("{which} ({id})")).collect();
    let more = match left.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (allocations, it) = if left.len() == 1 { ("Allocation", "it") } else { ("Allocations", "them") };
    let ids: Vec<&str> = left.iter().take(LEFT_NAMED_MAX).map(|(_, id)| *id).collect();
    let remedy = match manager {
        "slurm" => format!("`scancel {}` cancels {it}", ids.join(" ")),
        "pbs" => format!("`qdel {}` cancels {it}", ids.join(" ")),
        other => format!("cancel {it} with the commands of `{other}`"),
    };
    format!(
        "{allocations} {}{more} may still be in the batch system, which did not cancel {it}: {}. {remedy}.",
        named.join(", "),
        why.trim_end_matches('.')
    )
}
